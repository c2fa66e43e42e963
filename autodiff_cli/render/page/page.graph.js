// The drawing: the texts of nodes and edges at a step, numbers that move along edges, zooming and scrolling.

const MOST_TRAVELLERS = 24; // more moving numbers cannot be followed
const ZOOM = { step: 1.25, least: 0.05, most: 4 };
const LARGEST = 1.35; // scale at which a drawing opens
const LEAST = 160; // pixels
const AIR = 8; // pixels between a node and what covers the window
const SHEET = { width: 690, height: 930 }; // pixels of a printed page
const NOTES = ["data-tangent", "data-change", "data-predicted", "data-error"]; // attributes of texts that replace an adjoint
const stillness = matchMedia("(prefers-reduced-motion: reduce)");

/** The graph in its panel. `playback` knows the numbers at the current step. */
class Graph {
  #nodes = new Map();
  #edgesInto = new Map();
  #standsFor = new Map();
  #marked = [];
  #pending = new Set(); // nodes that wait for a moving number
  #pendingEdges = null; // the node whose incoming edges wait
  #note = null;
  #scale = 1;
  #frame = 0;
  #width = 0;
  #isOnPaper = false;
  isCramped = false; // whether numbers on edges no longer fit

  constructor(stage, playback, map) {
    this.stage = stage;
    this.playback = playback;
    this.overview = new Overview(map, stage);
    this.parts = new Parts(record.drawn);
    openFor(this.parts, stage);
    this.arrange();
  }

  /** Arrange the drawing anew if the panel is another, at most as often as that can be seen. */
  watch(redraw) {
    new ResizeObserver(() => {
      if (this.#isOnPaper || Math.abs(this.stage.clientWidth - this.#width) < 2 || this.stage.clientWidth === 0) return;
      this.arrange();
      redraw();
    }).observe(this.stage);
  }

  /** Place what is shown by the shape of the panel: as a whole if it can be read then, else as large as one reads. */
  arrange() {
    this.#isOnPaper = this.isCramped = false;
    const ways = new Arrangements(this.parts.shown, sizeOf, labelOf);
    const arrangement = readableIn(this.stage, ways);
    this.#width = this.stage.clientWidth;
    this.use(arrangement ?? { ...ways.best(this.#width, Infinity), scale: READABLE });
    const isTall = this.size.height * this.#arrangement.scale > HEIGHTS.at(-1) * innerHeight;
    const scale = Math.min(this.#arrangement.scale, isTall ? READABLE : LARGEST);
    this.#fitting = Math.floor(this.size.width * scale * 16) / 16 / this.size.width; // so that browsers need not round it
    const height = arrangement ? this.size.height * this.#fitting : SHARE.usual * innerHeight;
    this.stage.style.height = `${Math.ceil(Math.max(height, LEAST))}px`;
    this.zoom(this.#fitting);
  }

  #arrangement = null;
  #fitting = 1;

  /** Show an arrangement. */
  use(arrangement) {
    this.#arrangement = arrangement;
    this.svg = picture(arrangement);
    this.size = this.svg.viewBox.baseVal;
    this.stage.replaceChildren(this.svg);
    this.#standsFor = new Map(this.parts.shown.folds.flatMap((members) => members.map((i) => [i, members])));
    const nodes = [...this.svg.querySelectorAll("[data-node]")].map(drawnNode);
    this.#nodes = new Map(nodes.map((node) => [node.id, node]));
    this.#edgesInto = Map.groupBy([...this.svg.querySelectorAll(".edge")].map(drawnEdge), ({ to }) => to);
    this.travellers = svgElement("g", { class: "travellers" });
    this.svg.append(this.travellers);
    this.overview.use(arrangement);
    reachable(this.svg.querySelector("[data-node]"));
  }

  /** Show the drawing on a sheet of paper, with fewer boxes if that helps, else on as many sheets as it needs. */
  print(redraw) {
    this.#isOnPaper = true;
    const { parts } = this;
    const isReadable = ({ scale }) => scale >= READABLE; // on paper that is 8 points
    const { opened, closed, sums } = parts;
    let ways = new Arrangements(parts.shown, sizeOf, labelOf);
    for (const most of parts.boxes.length > BOXES ? FEWER : []) {
      if (isReadable(ways.best(SHEET.width, SHEET.height))) break;
      parts.fold(most);
      ways = new Arrangements(parts.shown, sizeOf, labelOf);
    }
    const arrangement = [1, 2, 3, 4, Infinity].map((sheets) => ways.best(SHEET.width, sheets * SHEET.height)).find(isReadable);
    this.use(arrangement ?? { ...ways.best(SHEET.width, Infinity), scale: READABLE });
    redraw();
    this.stage.replaceChildren(...sheets(this.svg, this.#arrangement, SHEET));
    Object.assign(parts, { opened, closed, sums });
  }

  /** The ids of the nodes that are drawn. */
  get ids() {
    return [...this.#nodes.keys()];
  }

  /** Whether a node is drawn as a box of its own. */
  isInSight(i) {
    return this.#nodes.has(i) && !this.#standsFor.has(i);
  }

  /** The element of a node, or of the fold that it is in; undefined for one that is not drawn. */
  element(i) {
    return this.#nodes.get(this.boxOf(i))?.element;
  }

  /** Show the current numbers of a node and of the edges into it. */
  draw(i) {
    const node = this.#nodes.get(i);
    if (node) this.#drawNode(node);
    if (i === this.#pendingEdges) return;
    for (const edge of this.#edges(i)) this.#drawEdge(this.#contribution(i, edge), edge);
  }

  /** Show something else in place of adjoints: `of(node)` gives a text, data for scripts, and for the grid of an array its
   * numbers; null for what was. */
  note(of) {
    this.#note = of;
    for (const i of this.ids) this.draw(i);
  }

  /** Make a node stand out as the one whose step was just made, null for none, with the edges along which the step moves
   * numbers: `textOf(position)` gives the text for an input, null for none. */
  markCurrent(i, isBackward, textOf = () => null) {
    for (const element of this.#marked) element.classList.remove("current", "flowing", "returning");
    this.#marked = [];
    if (i === null) return;
    const node = this.element(i);
    if (node) this.#mark(node, "current");
    for (const { edge } of this.#movements(i, textOf)) this.#mark(edge.element, isBackward ? "returning" : "flowing");
    if (node) this.show(i);
  }

  /** Let the texts of some nodes be as they are, and of the edges into node `i`, until what travels there arrives. */
  defer(i, nodes) {
    this.finishTravel();
    this.#pending = new Set(nodes.map((j) => this.boxOf(j)));
    this.#pendingEdges = i;
  }

  /** Show what was deferred, and stop what is travelling. */
  finishTravel() {
    cancelAnimationFrame(this.#frame);
    this.travellers.replaceChildren();
    const [nodes, i] = [[...this.#pending], this.#pendingEdges];
    this.#pending.clear();
    this.#pendingEdges = null;
    for (const j of nodes) this.draw(j);
    if (i !== null) this.draw(i);
  }

  /** Let the numbers of a step travel along the edges into a node, or back; see `markCurrent`. */
  travel(i, isBackward, duration, textOf) {
    const moving = this.#movements(i, textOf).slice(0, MOST_TRAVELLERS).map(({ edge: { path }, texts }) => {
      return { path, length: path.getTotalLength(), element: this.#traveller(texts.join(" + "), isBackward) };
    });
    if (moving.length === 0) {
      this.finishTravel();
      return;
    }
    const start = performance.now();
    const move = (now) => {
      const share = Math.min((now - start) / duration, 1);
      for (const { path, length, element } of moving) {
        const { x, y } = path.getPointAtLength(length * (isBackward ? 1 - share : share));
        element.setAttribute("transform", `translate(${x.toFixed(1)} ${y.toFixed(1)})`);
      }
      if (share < 1) this.#frame = requestAnimationFrame(move);
      else this.finishTravel();
    };
    move(start);
  }

  /** Scroll a node into the box if it is not in it, with its inputs, or with as much before it as has room. */
  show(i) {
    const near = [i, ...record.nodes[i].inputs].map((j) => this.#nodes.get(this.boxOf(j))).filter(Boolean);
    if (this.#scrollTo(near)) return;
    const [node] = near;
    const width = Math.max(node.width, this.stage.clientWidth / this.#scale - 2 * BESIDE);
    this.#scrollTo([{ ...node, x: node.x + node.width - width, width }]);
  }

  /** Scroll the window until the box of a node is in it, beside what is docked there; with its inputs if all have room. */
  uncover(i) {
    const covered = docked();
    const [begin, end] = [covered.top + AIR, innerHeight - covered.bottom - AIR];
    const boxes = [i, ...record.nodes[i].inputs].map((j) => this.element(j)?.getBoundingClientRect()).filter(Boolean);
    const [first, last] = [Math.min(...boxes.map(({ top }) => top)), Math.max(...boxes.map(({ bottom }) => bottom))];
    const { top, bottom } = last - first <= end - begin ? { top: first, bottom: last } : boxes[0];
    if (top < begin || bottom - top > end - begin) scrollBy(0, top - begin);
    else if (bottom > end) scrollBy(0, bottom - end);
  }

  /** Scroll until some nodes are seen; false if there is no room for them. */
  #scrollTo(nodes) {
    const ways = [["x", "width", "scrollLeft", "clientWidth"], ["y", "height", "scrollTop", "clientHeight"]];
    const places = ways.map(([from, size, scroll, room]) => {
      const start = (Math.min(...nodes.map((node) => node[from])) - this.size[from]) * this.#scale;
      const end = (Math.max(...nodes.map((node) => node[from] + node[size])) - this.size[from]) * this.#scale;
      const [begin, length] = [this.stage[scroll], this.stage[room]];
      const isSeen = start >= begin && end <= begin + length;
      return { fits: end - start <= length, to: isSeen ? begin : (start + end - length) / 2 };
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
    const rounded = (length) => Math.round(length * 64) / 64;
    this.svg.style.width = `${rounded(this.size.width * this.#scale)}px`;
    this.svg.style.height = `${rounded(this.size.height * this.#scale)}px`;
    const [x, y] = middle.map((at) => (at * this.#scale) / before);
    stage.scrollTo(x - stage.clientWidth / 2, y - stage.clientHeight / 2);
    this.overview.refresh();
  }

  zoomIn() {
    this.zoom(this.#scale * ZOOM.step);
  }

  zoomOut() {
    this.zoom(this.#scale / ZOOM.step);
  }

  /** Draw so that all is seen, unless it could not be read then. */
  fit() {
    this.arrange();
  }

  #drawNode(node) {
    const { computation } = this.playback;
    const i = node.id;
    const [isComputed, isKnown] = [this.playback.isComputed(i), this.playback.isKnown(i)];
    const short = (x) => brief(x, node.element.digits);
    const value = isComputed ? `value ${short(computation.values[i])}` : "";
    const soFar = isKnown ? undefined : this.playback.soFar(i);
    const partial = soFar === undefined ? "" : `${soFar.isAll ? "adjoint" : "so far"} ${short(soFar.total)}`;
    const noted = this.#note?.(i) ?? null;
    const adjoint = noted?.text ?? (isKnown ? `adjoint ${short(computation.adjoints[i])}` : partial);
    if (!this.#pending.has(i)) {
      const briefly = (text) => text.replace(/^value /, "= ").replace(/^adjoint /, "∂ ").replace(/^so far (.*)/, "∂ $1 …");
      const line = node.element.isBrief && !node.grids.length ? briefly : (text) => text;
      const [valued, adjoined] = node.grids.length ? [caption(value, "value", i), caption(adjoint, adjoint.match(/^(so far|\S*)/)[0], i)] : [value, adjoint];
      if (node.value) write(node.value, line(valued), node.value.room, COLUMN);
      if (node.adjoint) write(node.adjoint, line(adjoined), node.adjoint.room, COLUMN);
      const array = isKnown ? computation.adjoints[i] : soFar?.total ?? null;
      for (const grid of node.grids) {
        if (grid.classList.contains("value")) fillGrid(grid, isComputed ? computation.values[i] : null);
        else fillGrid(grid, noted ? (Array.isArray(noted.array) ? noted.array : null) : array);
      }
    }
    setOrRemove(node.element, "data-value", isComputed ? inFull(computation.values[i]) : null);
    setOrRemove(node.element, "data-adjoint", isKnown ? inFull(computation.adjoints[i]) : null);
    for (const name of NOTES) setOrRemove(node.element, name, noted?.data[name] ?? null);
    node.element.classList.toggle("computed", isComputed);
    node.element.classList.toggle("known", isKnown);
    node.element.setAttribute("aria-label", nameOf(node.element, i));
  }

  /** The box that a node is drawn in, by the number of the node that it shows. */
  boxOf(i) {
    return this.#standsFor.get(i)?.at(-1) ?? i;
  }

  #edges(i) {
    return this.#edgesInto.get(this.boxOf(i)) ?? [];
  }

  /** The edges along which the step of a node moves numbers, with their texts. Nothing moves outside a folded part while
   * a step stays inside it. */
  #movements(i, textOf) {
    return this.#edges(i).map((edge) => {
      const isOwn = (j, position) => (this.#standsFor.has(i) ? this.boxOf(j) === edge.from : position === edge.position);
      const positions = [...record.nodes[i].inputs.keys()].filter((position) => isOwn(record.nodes[i].inputs[position], position));
      return { edge, texts: positions.map(textOf).filter((text) => text !== null) };
    }).filter(({ texts }) => texts.length);
  }

  /** The contribution along an edge into a node; undefined before its step, and while a question asks for it. */
  #contribution(i, edge) {
    const { computation } = this.playback;
    const members = this.#standsFor.get(i);
    if (this.playback.tangents) return this.playback.tangents.contribution(i, edge);
    if (!members) return this.playback.showsContribution(i, edge.position) ? computation.contribution(i, edge.position) : undefined;
    const inputs = new Set(members.flatMap((j) => record.nodes[j].inputs).filter((j) => this.boxOf(j) === edge.from));
    const isWaiting = members.some((j) => backwardStep.has(j) && !this.playback.hasContributed(j));
    const hidden = [...inputs].some((j) => !takesGradient(j) || this.playback.hidesAdjoint(j));
    if (isWaiting || hidden || inputs.size !== 1) return undefined; // several inputs in one box have a derivative each
    const local = computation.rate(members, ...inputs);
    return { local, nothing: local === 0 };
  }

  #drawEdge(contribution, edge) {
    edge.element.classList.toggle("carried", this.playback.isComputed(edge.to));
    edge.element.classList.toggle("passed", contribution !== undefined && !contribution.nothing);
    edge.element.classList.toggle("blocked", contribution?.nothing ?? false);
    if (!writeNumbers(edge, contribution)) this.isCramped = true;
  }

  #traveller(text, isBackward) {
    const group = document.createElementNS(SVG, "g");
    const [room, words] = [document.createElementNS(SVG, "rect"), document.createElementNS(SVG, "text")];
    const width = text.length * COLUMN + 12;
    const place = { x: -width / 2, y: -10, width, height: 20, rx: 10 };
    for (const [name, value] of Object.entries(place)) room.setAttribute(name, value);
    words.setAttribute("dy", ".35em");
    words.textContent = text;
    group.setAttribute("class", `traveller ${isBackward ? "returning" : "flowing"}`);
    group.append(room, words);
    this.travellers.append(group);
    return group;
  }

  #mark(element, kind) {
    element.classList.add(kind);
    this.#marked.push(element);
  }
}

/** A node's element, its place, and its lines for value and adjoint, null for one that it lacks; they come last. */
function drawnNode(element) {
  const [value, adjoint] = ["value", "adjoint"].map((kind) => element.querySelector(`text.${kind}`));
  const grids = [...element.querySelectorAll(".grid")];
  return { id: Number(element.dataset.node), element, value, adjoint, grids, ...placeOf(element.querySelector("rect")) };
}

/** What a node is called by whoever reads aloud or listens: what is drawn, then what it is short for. */
function nameOf(element, i) {
  const { label, op } = record.nodes[i];
  const drawn = [...element.querySelectorAll("text")].map((text) => text.textContent).filter(Boolean);
  return [...drawn, ...(drawn[0] === label ? [] : [label]), op].join(", ");
}

/** What stands above a grid in place of its numbers: what they are, and their shape. */
function caption(text, word, i) {
  const sizes = shape(record.nodes[i].value);
  return text ? `${word} ${sizes.length > 1 ? sizes.join("x") : ""}`.trim() : "";
}

function placeOf(rectangle) {
  const names = ["x", "y", "width", "height"];
  return Object.fromEntries(names.map((name) => [name, Number(rectangle.getAttribute(name))]));
}

/** Let the tab key reach this node of the drawing, and no other. */
function reachable(element) {
  element.ownerSVGElement.querySelector("[data-node][tabindex='0']")?.setAttribute("tabindex", "-1");
  element.setAttribute("tabindex", "0");
}

/** Set a text, squeezed where it needs more room than there is. */
function write(element, text, room, column) {
  element.textContent = text;
  setOrRemove(element, "textLength", text.length * column > room ? room : null);
  setOrRemove(element, "lengthAdjust", text.length * column > room ? "spacingAndGlyphs" : null);
}

/** Set an attribute, or take it away for null. */
function setOrRemove(element, name, value) {
  if (value === null) element.removeAttribute(name);
  else element.setAttribute(name, value);
}
