// A small map in the corner of a drawing that is larger than its panel; dragging on the map moves the drawing.

const MAP = { width: 150, height: 110 };
const CORNERS = [["right", "top"], ["left", "top"], ["right", "bottom"], ["left", "bottom"]];

class Overview {
  constructor(element, stage) {
    this.element = element;
    this.stage = stage;
    stage.addEventListener("scroll", () => this.refresh());
    element.addEventListener("pointerdown", (event) => this.#go(event));
    element.addEventListener("pointermove", (event) => { if (event.buttons === 1) this.#go(event); });
  }

  /** Whether the whole drawing is in view. */
  get isWhole() {
    const { scrollWidth, clientWidth, scrollHeight, clientHeight } = this.stage;
    return scrollWidth <= clientWidth + 2 && scrollHeight <= clientHeight + 2;
  }

  /** Show another drawing. */
  use({ boxes, places, width, height }) {
    this.size = { width, height };
    const scale = Math.min(MAP.width / width, MAP.height / height);
    this.element.setAttribute("viewBox", `0 0 ${width} ${height}`);
    this.element.style.width = `${width * scale}px`;
    this.element.style.height = `${height * scale}px`;
    this.seen = svgElement("rect", { class: "seen" });
    this.seen.style.strokeWidth = `${2 / scale}px`;
    const small = boxes.map(({ id, role }) => rectangle(`place ${role}`, places.get(id)));
    this.element.replaceChildren(...small, this.seen);
  }

  /** Mark the visible part of the drawing, in a corner that no node, no number and no line of the step reaches; hide the map if everything is visible or no corner
   * is free. */
  refresh() {
    const { stage, element } = this;
    element.toggleAttribute("hidden", this.isWhole);
    if (this.isWhole) return;
    const scale = this.size.width / stage.scrollWidth;
    const down = this.size.height / stage.scrollHeight;
    const place = {
      x: stage.scrollLeft * scale, y: stage.scrollTop * down,
      width: stage.clientWidth * scale, height: stage.clientHeight * down,
    };
    for (const [name, value] of Object.entries(place)) this.seen.setAttribute(name, value);
    const avoided = Array.from(stage.querySelectorAll("[data-node] > .reach, .edge text, .edge:is(.flowing, .returning)"), (node) => node.getBoundingClientRect());
    const corner = CORNERS.find((sides) => {
      Object.assign(element.style, { left: "", right: "", top: "", bottom: "" }, ...sides.map((side) => ({ [side]: "10px" })));
      const own = element.getBoundingClientRect();
      return !avoided.some((box) => meets(box, own));
    });
    element.toggleAttribute("hidden", corner === undefined);
  }

  #go(event) {
    const { left, top, width, height } = this.element.getBoundingClientRect();
    const { stage } = this;
    stage.scrollTo(
      ((event.clientX - left) / width) * stage.scrollWidth - stage.clientWidth / 2,
      ((event.clientY - top) / height) * stage.scrollHeight - stage.clientHeight / 2,
    );
  }
}
