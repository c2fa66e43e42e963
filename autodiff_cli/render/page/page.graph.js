// The drawing: what each node and edge shows at a step, what travels along the edges, and how to look around.

const SVG = "http://www.w3.org/2000/svg";
const COLUMN = 7.3; // the width of a character of a node, see STYLE
const SMALL = 6.7; // and of one on an edge
const MOST_TRAVELLERS = 24; // that can be followed with the eye
const ZOOM = { step: 1.25, least: 0.05, most: 4, readable: 0.75, large: 1.4 };
const stillness = matchMedia("(prefers-reduced-motion: reduce)");

/** The graph in its box. `walk` says what is known at the current step. */
class Graph {
  #nodes = new Map();
  #edgesInto = new Map();
  #standsFor = new Map();
  #lit = [];
  #scale = 1;
  #frame = 0;

  constructor(stage, walk) {
    this.stage = stage;
    this.walk = walk;
    this.use(stage.querySelector("svg"), []);
    this.zoom(Math.min(ZOOM.large, Math.max(this.#fitting(), ZOOM.readable)));
  }

  /** Show a drawing; of each fold, lists of nodes, its last node stands for all. */
  use(svg, folds) {
    this.svg = svg;
    this.size = svg.viewBox.baseVal;
    this.stage.replaceChildren(svg);
    this.#standsFor = new Map(folds.flatMap((members) => members.map((i) => [i, members])));
    this.#nodes = new Map([...svg.querySelectorAll("[data-node]")].map((element) => [Number(element.dataset.node), drawnNode(element)]));
    this.#edgesInto = new Map();
    for (const element of svg.querySelectorAll(".edge")) {
      const to = Number(element.dataset.to);
      if (!this.#edgesInto.has(to)) this.#edgesInto.set(to, []);
      this.#edgesInto.get(to).push(drawnEdge(element));
    }
    for (const [to, edges] of this.#edgesInto) if (!this.#standsFor.has(to)) place(edges, record.nodes[to].inputs);
    svg.querySelector(".travellers")?.remove();
    this.travellers = document.createElementNS(SVG, "g");
    this.travellers.setAttribute("class", "travellers");
    svg.append(this.travellers);
    this.zoom(this.#scale);
    reachable(svg.querySelector("[data-node]"));
  }

  /** The ids of the nodes that are drawn. */
  get ids() {
    return [...this.#nodes.keys()];
  }

  /** The element of a node, or of the fold that it is in; undefined for one that is not drawn. */
  element(i) {
    return this.#nodes.get(this.#drawn(i))?.element;
  }

  /** Show what is known of a node, and of the edges into it. */
  draw(i) {
    const members = this.#standsFor.get(i);
    const node = this.#nodes.get(i);
    if (node) this.#drawNode(i, node);
    for (const edge of this.#edgesInto.get(this.#drawn(i)) ?? []) this.#drawEdge(this.#handed(i, members, edge), edge);
  }

  /** Make a node stand out with its edges, as the one whose step was just made; null for none. */
  light(i, isBackward) {
    for (const element of this.#lit) element.classList.remove("current", "flowing", "returning");
    this.#lit = [];
    if (i === null) return;
    const node = this.element(i);
    if (node) this.#mark(node, "current");
    for (const { element } of this.#edgesInto.get(this.#drawn(i)) ?? []) this.#mark(element, isBackward ? "returning" : "flowing");
    if (node) this.show(i);
  }

  /** Let texts travel along the edges into a node, or back: `textOf(position, input)` gives each, null for none. */
  travel(i, isBackward, duration, textOf) {
    cancelAnimationFrame(this.#frame);
    this.travellers.replaceChildren();
    if (stillness.matches || duration <= 0) return;
    const edges = (this.#edgesInto.get(i) ?? []).slice(0, MOST_TRAVELLERS);
    const moving = edges.map((edge) => [edge.path, textOf(edge.position, edge.from)]).filter(([, text]) => text !== null)
      .map(([path, text]) => ({ path, length: path.getTotalLength(), element: this.#traveller(text, isBackward) }));
    const start = performance.now();
    const move = (now) => {
      const share = Math.min((now - start) / duration, 1);
      for (const { path, length, element } of moving) {
        const { x, y } = path.getPointAtLength(length * (isBackward ? 1 - share : share));
        element.setAttribute("transform", `translate(${x.toFixed(1)} ${y.toFixed(1)})`);
      }
      if (share < 1) this.#frame = requestAnimationFrame(move);
      else this.travellers.replaceChildren();
    };
    move(start);
  }

  /** Scroll a node into the box if it is not in it, with its inputs where there is room for them. */
  show(i) {
    const near = [i, ...record.nodes[i].inputs].map((j) => this.#nodes.get(this.#drawn(j))).filter(Boolean);
    if (!this.#scrollTo(near)) this.#scrollTo(near.slice(0, 1));
  }

  /** Scroll until some nodes are seen; false if there is no room for them. */
  #scrollTo(nodes) {
    const extent = (from, size) => [Math.min(...nodes.map((node) => node[from])), Math.max(...nodes.map((node) => node[from] + node[size]))];
    const ways = [["x", "width", "scrollLeft", "clientWidth"], ["y", "height", "scrollTop", "clientHeight"]];
    const places = ways.map(([from, size, scroll, room]) => {
      const [start, end] = extent(from, size).map((at) => (at - this.size[from]) * this.#scale);
      const [begin, length] = [this.stage[scroll], this.stage[room]];
      return { fits: end - start <= length, to: start >= begin && end <= begin + length ? begin : (start + end - length) / 2 };
    });
    if (!places.every(({ fits }) => fits)) return false;
    const [left, top] = places.map(({ to }) => to);
    if (left !== this.stage.scrollLeft || top !== this.stage.scrollTop) this.stage.scrollTo(left, top);
    return true;
  }

  /** Draw at a scale, and keep what is in the middle there. */
  zoom(scale) {
    const before = this.#scale;
    this.#scale = Math.min(Math.max(scale, ZOOM.least), ZOOM.most);
    const { stage } = this;
    const middle = [stage.scrollLeft + stage.clientWidth / 2, stage.scrollTop + stage.clientHeight / 2];
    this.svg.style.width = `${this.size.width * this.#scale}px`;
    this.svg.style.height = `${this.size.height * this.#scale}px`;
    const [x, y] = middle.map((at) => (at * this.#scale) / before);
    stage.scrollTo(x - stage.clientWidth / 2, y - stage.clientHeight / 2);
  }

  zoomIn() {
    this.zoom(this.#scale * ZOOM.step);
  }

  zoomOut() {
    this.zoom(this.#scale / ZOOM.step);
  }

  /** Draw so small that all is seen. */
  fit() {
    this.zoom(Math.min(ZOOM.large, this.#fitting()));
  }

  #fitting() {
    return Math.min(this.stage.clientWidth / this.size.width, this.stage.clientHeight / this.size.height);
  }

  #drawNode(i, node) {
    const { computation } = this.walk;
    const [isComputed, isKnown] = [this.walk.isComputed(i), this.walk.isKnown(i)];
    const value = isComputed ? `value ${brief(computation.values[i])}` : "";
    const soFar = isKnown ? undefined : this.walk.soFar(i);
    const adjoint = isKnown ? `adjoint ${brief(computation.adjoints[i])}` : soFar === undefined ? "" : `so far ${brief(soFar)}`;
    if (node.value) write(node.value, value, node.width - 14, COLUMN);
    if (node.adjoint) write(node.adjoint, adjoint, node.width - 14, COLUMN);
    tell(node.element, "data-value", isComputed ? inFull(computation.values[i]) : null);
    tell(node.element, "data-adjoint", isKnown ? inFull(computation.adjoints[i]) : null);
    node.element.classList.toggle("computed", isComputed);
    node.element.classList.toggle("known", isKnown);
    const { label, op } = record.nodes[i];
    node.element.setAttribute("aria-label", [label, op, value, adjoint].filter(Boolean).join(", "));
  }

  #drawn(i) {
    return this.#standsFor.get(i)?.at(-1) ?? i;
  }

  /** What is handed on along an edge once that has happened; undefined before. */
  #handed(i, members, edge) {
    const { computation } = this.walk;
    if (!members) return this.walk.hasHandedOn(i) ? computation.given[i].find((one) => one.position === edge.position) : undefined;
    if (members.some((j) => backwardStep.has(j) && !this.walk.hasHandedOn(j)) || !takesGradient(edge.from)) return undefined;
    const local = computation.rate(members, edge.from);
    return { local, nothing: local === 0 };
  }

  #drawEdge(given, edge) {
    edge.element.classList.toggle("carried", this.walk.isComputed(Number(edge.element.dataset.to)));
    edge.element.classList.toggle("passed", given !== undefined && !given.nothing);
    edge.element.classList.toggle("blocked", given?.nothing ?? false);
    if (!edge.label) return;
    const hasLocal = given !== undefined && given.local !== null;
    write(edge.label, hasLocal ? brief(given.local) : "", edge.width, SMALL);
    edge.room.classList.toggle("empty", !hasLocal);
  }

  #traveller(text, isBackward) {
    const group = document.createElementNS(SVG, "g");
    const [room, words] = [document.createElementNS(SVG, "rect"), document.createElementNS(SVG, "text")];
    const width = text.length * SMALL + 12;
    for (const [name, value] of Object.entries({ x: -width / 2, y: -10, width, height: 20, rx: 10 })) room.setAttribute(name, value);
    words.setAttribute("dy", ".35em");
    words.textContent = text;
    group.setAttribute("class", `traveller ${isBackward ? "returning" : "flowing"}`);
    group.append(room, words);
    this.travellers.append(group);
    return group;
  }

  #mark(element, kind) {
    element.classList.add(kind);
    this.#lit.push(element);
  }
}

/** A node's element, its place, and its lines for value and adjoint, null for one that it lacks; they come last. */
function drawnNode(element) {
  const i = Number(element.dataset.node);
  const texts = [...element.querySelectorAll("text")];
  const adjoint = takesGradient(i) ? texts.pop() : null;
  const value = texts[element.matches(".folded") ? 2 : 1] ?? null;
  value?.classList.add("value");
  adjoint?.classList.add("adjoint");
  element.setAttribute("role", "button");
  element.setAttribute("tabindex", "-1");
  const [x, y, width, height] = ["x", "y", "width", "height"].map((name) => Number(element.querySelector("rect").getAttribute(name)));
  return { element, value, adjoint, x, y, width, height };
}

function drawnEdge(element) {
  const room = element.querySelector(".room");
  const width = room ? Number(room.getAttribute("width")) : 0;
  return { element, from: Number(element.dataset.from), path: element.querySelector("path"), label: element.querySelector("text"), room, width };
}

/** Give each edge into a node the position of the input that it comes from. Edges stand in the order of the inputs. */
function place(edges, inputs) {
  let position = 0;
  for (const edge of edges) {
    while (inputs[position] !== edge.from) position++;
    edge.position = position++;
  }
}

/** Let the tab key reach this node of the drawing, and no other. */
function reachable(element) {
  element.ownerSVGElement.querySelector("[data-node][tabindex='0']")?.setAttribute("tabindex", "-1");
  element.setAttribute("tabindex", "0");
}

/** Set a text, squeezed where it needs more room than there is. */
function write(element, text, room, column) {
  element.textContent = text;
  tell(element, "textLength", text.length * column > room ? room : null);
  tell(element, "lengthAdjust", text.length * column > room ? "spacingAndGlyphs" : null);
}

/** Set an attribute, or take it away for null. */
function tell(element, name, value) {
  if (value === null) element.removeAttribute(name);
  else element.setAttribute(name, value);
}
