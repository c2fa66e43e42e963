// The explanation of a step: beside its node where the drawing leaves room for it, else below the drawing. In a narrow window it
// is the first panel.

const CALLOUT = { widths: [460, 340, 270, 210], narrow: 25, cell: 8, apart: 6, farthest: 230, above: 8 }; // pixels: widths, and how much nearer a
// narrower place has to be; the raster; around the explanation; between it and the node, and how much nearer a place above has to be

class Explanation {
  #element = byId("explanation");
  #raster = null;
  #courses = [];
  #leader = svgElement("path", { class: "leader" });

  constructor() {
    document.addEventListener("zoomed", () => this.follow());
  }

  /** Bring the explanation to the top of the panels, if it is one of them. */
  show() {
    if (narrow.matches) tabs.show(this.#element);
  }

  /** Move the explanation to the node of the step, if there is one. */
  follow() {
    const i = playback.quiz ? null : playback.isSeeded ? record.output : playback.current;
    this.#element.classList.remove("callout", "under");
    Object.assign(this.#element.style, { translate: "", maxWidth: "" });
    this.#leader.remove();
    if (!narrow.matches && i !== null && graph.isInSight(i)) this.#place(i);
  }

  #place(i) {
    const element = graph.element(i);
    const [app, node, outline] = [byId("app"), element.querySelector(".reach"), element.querySelector(".outline")].map((one) => one.getBoundingClientRect());
    const isAboutTheStep = graph.overview.isWhole && !playback.quiz && !byId("remark").hasChildNodes();
    const parts = [outline, ...[...element.querySelectorAll("text")].map((text) => text.getBoundingClientRect())];
    const place = isAboutTheStep ? this.#freePlace(i, node, parts) : null;
    this.#element.classList.toggle("callout", place !== null);
    this.#element.classList.toggle("under", place === null);
    if (place === null) {
      this.#element.style.setProperty("--node", `${outline.left + outline.width / 2 - this.#element.getBoundingClientRect().left - 12}px`);
      return;
    }
    this.#element.style.translate = `${place.left - app.left}px ${place.top - app.top}px`;
    const matrix = graph.svg.getScreenCTM().inverse();
    const [from, to] = place.link.map(({ x, y }) => new DOMPoint(x, y).matrixTransform(matrix));
    this.#leader.setAttribute("d", `M${from.x.toFixed(1)} ${from.y.toFixed(1)}L${to.x.toFixed(1)} ${to.y.toFixed(1)}`);
    graph.svg.append(this.#leader);
  }

  /** The nearest free place to a node, which no shape and no moving number covers, with the line to a part of the
   * node as its `link`; null if there is none. */
  #freePlace(i, node, parts) {
    this.#element.classList.add("callout");
    this.#courses = graph.courses(i, movementText);
    const places = CALLOUT.widths.map((width, k) => {
      this.#element.style.maxWidth = `${width}px`;
      return this.#freePlaceFor(this.#element.getBoundingClientRect(), node, parts, CALLOUT.farthest - k * CALLOUT.narrow);
    }).filter((place) => place !== null);
    const best = places.reduce((a, b) => (b.merit > a.merit ? b : a), { merit: 0 });
    this.#element.style.maxWidth = best.merit ? `${Math.ceil(best.right - best.left)}px` : "";
    return best.merit ? best : null;
  }

  /** The free place of a size that is nearest to a node, and how much nearer than the farthest; null if there is none. */
  #freePlaceFor({ width, height }, node, parts, farthest) {
    const { left, top, columns, rows, count } = this.#rasterOf(graph.svg, graph.stage.getBoundingClientRect());
    const { cell, apart, above } = CALLOUT;
    const [wide, high] = [width, height].map((length) => Math.ceil((length + 2 * apart) / cell));
    const isClear = (ends) => alongLine(ends, cell).every(({ x, y }) => {
      const [column, row] = [[x - left, columns], [y - top, rows]].map(([at, most]) => Math.min(Math.max(Math.floor(at / cell), 0), most - 1));
      return isOf(node, left + column * cell, top + row * cell, cell) || count(row, column, row + 1, column + 1) < 2;
    });
    let [best, least] = [null, farthest];
    for (let row = 0; row + high <= rows; row++) {
      for (let column = 0; column + wide <= columns; column++) {
        const place = { left: left + column * cell + apart, top: top + row * cell + apart };
        Object.assign(place, { right: place.left + width, bottom: place.top + height });
        const beside = Math.max(place.left - node.right, node.left - place.right, 0);
        const below = Math.max(place.top - node.bottom, node.top - place.bottom, 0);
        const away = Math.hypot(beside, below) + (place.bottom <= node.top ? above : 0);
        if (away >= least || count(row, column, row + high, column + wide) > 0 || this.#courses.some((course) => meets(course, place))) continue;
        const link = parts.map((part) => linkBetween(part, place)).find((ends) => isClear(ends) && !parts.some((part) => isCrossed(part, ends)));
        if (link) [best, least] = [{ ...place, link, merit: farthest - away }, away];
      }
    }
    return best;
  }

  /** The raster of a drawing, with the number of shapes that cover the cells of a rectangle: 2 for boxes, numbers
   * and lines, 1 for borders of frames, which the line to the node may cross; made once for a drawing at a place in
   * the window. */
  #rasterOf(svg, { left, top, width }) {
    const key = [left, top, width, svg.getScreenCTM().a].join();
    if (this.#raster?.svg === svg && this.#raster.key === key) return this.#raster;
    const height = document.querySelector(".controls").getBoundingClientRect().top - top; // below the drawing is free too
    const { cell } = CALLOUT;
    const [columns, rows] = [width, height].map((length) => Math.floor(length / cell));
    const cells = Array.from({ length: rows + 1 }, () => new Float64Array(columns + 1));
    const take = (box, weight = 2) => {
      const [x, right, y, bottom] = [box.left - left, box.right - left, box.top - top, box.bottom - top].map((at) => Math.floor(at / cell));
      for (let row = Math.max(y, 0); row <= Math.min(bottom, rows - 1); row++) cells[row + 1].fill(weight, Math.max(x, 0) + 1, Math.max(right, 0) + 2);
    };
    for (const frame of svg.querySelectorAll(".enclosure")) {
      const box = frame.getBoundingClientRect();
      for (const [one, other] of [["left", "right"], ["right", "left"], ["top", "bottom"], ["bottom", "top"]]) take({ left: box.left, right: box.right, top: box.top, bottom: box.bottom, [one]: box[other] }, 1);
    }
    for (const shape of svg.querySelectorAll(".node .reach, .bundle, .group text")) take(shape.getBoundingClientRect());
    for (const edge of svg.querySelectorAll(".edge")) {
      for (const { x, y } of graph.pointsOf(edge, cell / 2 / svg.getScreenCTM().a)) take({ left: x, right: x, top: y, bottom: y });
      if (edge.labelPlace) take(graph.onScreen(edge.labelPlace));
    }
    for (let row = 1; row <= rows; row++) for (let column = 1; column <= columns; column++) cells[row][column] += cells[row - 1][column] + cells[row][column - 1] - cells[row - 1][column - 1];
    const count = (row, column, bottom, right) => cells[bottom][right] - cells[row][right] - cells[bottom][column] + cells[row][column];
    this.#raster = { svg, key, left, top, columns, rows, count };
    return this.#raster;
  }
}

/** The ends of the shortest line from one rectangle to another. */
function linkBetween(a, b) {
  const ends = [["left", "right"], ["top", "bottom"]].map(([low, high]) => {
    if (a[high] < b[low]) return [a[high], b[low]];
    if (b[high] < a[low]) return [a[low], b[high]];
    const middle = (Math.max(a[low], b[low]) + Math.min(a[high], b[high])) / 2;
    return [middle, middle];
  });
  return [0, 1].map((k) => ({ x: ends[0][k], y: ends[1][k] }));
}

/** Points on a line, at most some pixels from one another, without its beginning and its end. */
function alongLine([from, to], apart) {
  const count = Math.ceil(Math.hypot(to.x - from.x, to.y - from.y) / apart);
  return Array.from({ length: Math.max(count - 1, 0) }, (_, k) => (k + 1) / count).map((share) => {
    return { x: from.x + share * (to.x - from.x), y: from.y + share * (to.y - from.y) };
  });
}

/** Whether a line between two points meets a rectangle, looked at every few pixels. */
function isCrossed(box, ends) {
  return alongLine(ends, 3).some(({ x, y }) => isOf(box, x, y, 0));
}

/** Whether a cell meets a rectangle. */
function isOf(box, x, y, cell) {
  return meets(box, { left: x, right: x + cell, top: y, bottom: y + cell });
}

/** Whether two rectangles meet. */
function meets(a, b) {
  return a.left <= b.right && b.left <= a.right && a.top <= b.bottom && b.top <= a.bottom;
}
