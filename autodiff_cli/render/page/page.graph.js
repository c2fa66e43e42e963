// The drawing: the texts of nodes and edges at a step, numbers that move along edges, zooming and scrolling.

const MOST_TRAVELLERS = 24; // more moving numbers cannot be followed
const TRAVELLER = { height: 20, lane: 22 }; // pixels: of a moving number, and between the middles of two above one another
const ZOOM = { step: 1.25, least: 0.05, most: 4 };
const LARGEST = 2; // scale at which a drawing opens
const LEAST_NEAR = 0.8; // the smallest scale at which the nodes of a step are shown together; text of 12 pixels has 9.6 there
const AIR = 6; // pixels around the nodes of a step
const SHEET = { width: 690, height: 930, half: 420 }; // pixels of a printed page; a drawing that fits in half of it leaves room for a table
const NOTES = ["data-tangent", "data-change", "data-predicted", "data-error"]; // attributes of texts that replace an adjoint
const stillness = matchMedia("(prefers-reduced-motion: reduce)");

/** The graph in its panel. `playback` knows the numbers at the current step. */
class Graph {
  #nodes = new Map();
  #edgesInto = new Map();
  #standsFor = new Map();
  #marked = [];
  #annotations = []; // numbers of the current step only
  #pending = new Set(); // nodes that wait for a moving number
  #pendingEdges = null; // the node whose incoming edges wait
  #note = null;
  #scale = 1;
  #frame = 0;
  #panel = { width: 0, height: 0 };
  #isOnPaper = false;
  isCramped = false; // whether numbers no longer fit

  constructor(stage, playback, map) {
    this.stage = stage;
    this.playback = playback;
    this.overview = new Overview(map, stage);
    this.parts = new Parts(record.drawn);
    this.refold(openFor(this.parts, stage));
  }

  /** Arrange the drawing anew when the size of the panel has changed visibly. */
  watch(redraw) {
    new ResizeObserver(() => {
      const { clientWidth, clientHeight } = this.stage;
      const isOther = Math.abs(clientWidth - this.#panel.width) >= 2 || Math.abs(clientHeight - this.#panel.height) >= 2;
      if (this.#isOnPaper || !isOther || clientWidth === 0) return;
      this.parts.state = this.#base;
      this.refold(this.parts.areChosen ? undefined : openFor(this.parts, this.stage));
      this.follow(isUntouched ? null : this.playback.focus);
      redraw();
    }).observe(this.stage);
  }

  /** Arrange the visible parts to suit the panel: as a whole if that is readable, else at a readable size. */
  arrange(ways = waysOf(this.parts)) {
    this.#isOnPaper = this.isCramped = false;
    const [width, height] = [this.stage.clientWidth, this.stage.clientHeight];
    const whole = ways.best(width, height);
    this.#panel = { width, height };
    this.use(whole.scale >= READABLE ? whole : { ...ways.readable(width, height), scale: READABLE, isTooLarge: true });
    const scale = Math.min(this.#arrangement.scale, LARGEST);
    this.#fitting = Math.floor(this.size.width * scale * 16) / 16 / this.size.width; // so that browsers need not round it
    this.zoom(this.#fitting);
  }

  #arrangement = null;
  #fitting = 1;
  #base = null; // the state of folding while no step is inside a folded part
  #part = null; // the part that is open for a step

  /** Arrange the drawing after parts were folded or opened. */
  refold(ways) {
    this.parts.closeUp = null;
    this.#base = this.parts.state;
    this.#part = null;
    this.arrange(ways);
  }

  /** Open the folded part in which the step of a node works, and close the one before. If the drawing can then not
   * be read as a whole, or lacks the grids of arrays, draw a close-up of the nodes of the step: at the `end` of a
   * pass only in the first case. Returns whether anything has changed. */
  follow(i, way = "") {
    const mayCloseUp = way !== "whole" && !(way === "end" && this.#isReadable());
    const { parts } = this;
    const isDrawn = this.isDrawn(i);
    const { state, closeUp } = parts;
    const isInSight = !isDrawn || this.isInSight(i);
    if (closeUp && mayCloseUp && isDrawn && isInSight && this.#neighbours(i).every((j) => this.element(j))) return false;
    parts.state = this.#base;
    const part = isDrawn ? parts.foldOf(i) ?? null : null;
    if (!closeUp && part === this.#part && isInSight && (!isDrawn || !mayCloseUp || isEnough(this.#arrangement))) {
      parts.state = state;
      return false;
    }
    this.#part = part;
    const ways = part === null ? waysOf(parts) : openAround(i, parts, this.stage);
    // Numbers take the least room in bare boxes: if those do not fit, nothing does.
    const fits = (details) => isEnough(ways.best(this.stage.clientWidth, this.stage.clientHeight, details));
    const isWhole = !isDrawn || !mayCloseUp || ((drawsArrays() || fits(["bare"])) && fits());
    this.arrange(isWhole ? ways : closeUpOf(i, parts, this.stage));
    byId("fit").textContent = parts.closeUp ? "Show all" : "Fit";
    return true;
  }

  /** Whether the drawing can be read as a whole while no step works inside a folded part. */
  #isReadable() {
    const { state, closeUp } = this.parts;
    this.parts.state = this.#base;
    const { scale } = waysOf(this.parts).best(this.stage.clientWidth, this.stage.clientHeight);
    Object.assign(this.parts, { state, closeUp });
    return scale >= READABLE;
  }

  /** The inputs and users of a node that have boxes. */
  #neighbours(i) {
    return [...record.nodes[i].inputs, ...users[i].map(({ node }) => node)].filter((j) => this.isDrawn(j));
  }

  /** Whether there is a box for a node, perhaps inside a folded part; with `--only`, some nodes have none. */
  isDrawn(i) {
    return this.parts.boxes.some(({ id }) => id === i);
  }

  /** Show an arrangement. */
  use(arrangement) {
    this.#arrangement = arrangement;
    this.svg = picture(arrangement);
    this.size = this.svg.viewBox.baseVal;
    const focused = document.activeElement?.closest("#stage [data-node]")?.dataset.node;
    this.stage.replaceChildren(this.svg);
    this.#standsFor = new Map(this.parts.shown.folds.flatMap((members) => members.map((i) => [i, members])));
    const nodes = [...this.svg.querySelectorAll("[data-node]")].map((element) => drawnNode(element, arrangement.places.get(Number(element.dataset.node))));
    this.#nodes = new Map(nodes.map((node) => [node.id, node]));
    this.#edgesInto = Map.groupBy([...this.svg.querySelectorAll(".edge")].map(drawnEdge), ({ to }) => to);
    this.travellers = svgElement("g", { class: "travellers" });
    this.svg.append(this.travellers);
    this.overview.use(arrangement);
    const stop = this.svg.querySelector(`[data-node="${focused}"]`) ?? this.svg.querySelector("[data-node]");
    reachable(stop);
    this.isRestoringFocus = true; // which selects no other node
    if (focused !== undefined) stop.focus({ preventScroll: true });
    this.isRestoringFocus = false;
  }

  /** Show the drawing on a sheet of paper, folded as little as possible; in half of the sheet where it can be read there. */
  print(redraw) {
    this.#isOnPaper = true;
    this.parts.state = this.#base;
    const ways = openFor(this.parts, { clientWidth: SHEET.width, clientHeight: SHEET.height });
    const beside = ways.best(SHEET.width, SHEET.half);
    this.use(beside.scale >= READABLE ? beside : ways.best(SHEET.width, SHEET.height));
    this.zoom(Math.min(this.#arrangement.scale, 1));
    redraw();
    this.parts.state = this.#base;
  }

  /** Where a place of the drawing is in the window. */
  onScreen({ x, y, width, height }) {
    const matrix = this.svg.getScreenCTM();
    const [a, b] = [-1, 1].map((way) => new DOMPoint(x + (way * width) / 2, y + (way * height) / 2).matrixTransform(matrix));
    return { left: a.x, top: a.y, right: b.x, bottom: b.y };
  }

  /** Points of a line in the window, so many pixels apart at scale 1. */
  pointsOf(edge, apart) {
    const matrix = this.svg.getScreenCTM();
    return drawnEdge(edge).path.track.every(apart).map(({ x, y }) => new DOMPoint(x, y).matrixTransform(matrix));
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

  /** Show something else in place of adjoints: `of(node)` returns a text, data for scripts, and for the grid of an
   * array its numbers; null shows adjoints again. */
  note(of) {
    this.#note = of;
    for (const i of this.ids) this.draw(i);
  }

  /** Highlight the node whose step was just made, null for none, and the edges along which the step moves numbers:
   * `textOf(position)` returns the text for an input, null for none. */
  markCurrent(i, isBackward, textOf = () => null) {
    for (const element of this.#marked) element.classList.remove("current", "flowing", "returning");
    for (const { texts } of this.#annotations) for (const text of texts) text.remove();
    [this.#marked, this.#annotations] = [[], []];
    if (i === null) return;
    const node = this.element(i);
    if (node) this.#mark(node, "current");
    for (const { edge } of this.#movements(i, textOf)) {
      this.#mark(edge.element, isBackward ? "returning" : "flowing");
      if (isBackward) this.#annotate(i, edge);
    }
    if (node) this.show(i);
  }

  /** Write the numbers of the current step also beside an edge for which the drawing keeps no room, where there is a free place. */
  #annotate(i, edge) {
    const numbers = numbersOf(this.#contribution(i, edge));
    if (edge.texts.length || !numbers.join("")) return;
    const place = this.svg.labelPlaces.beside(edge.path, widthOfNumbers(numbers), this.#annotations.map((annotation) => annotation.place));
    if (!place) return;
    const texts = edgeTexts(place);
    texts.forEach((text, k) => { text.textContent = inPrint(numbers[k]); });
    this.#annotations.push({ place, texts });
    edge.element.append(...texts);
  }

  /** Leave the texts of some nodes, and of the edges into node `i`, unchanged until the moving numbers arrive there. */
  defer(i, nodes) {
    this.finishTravel();
    this.#pending = new Set(nodes.map((j) => this.boxOf(j)));
    this.#pendingEdges = i;
  }

  /** Show the deferred texts, and remove the moving numbers. */
  finishTravel() {
    cancelAnimationFrame(this.#frame);
    this.travellers.replaceChildren();
    const [nodes, i] = [[...this.#pending], this.#pendingEdges];
    this.#pending.clear();
    this.#pendingEdges = null;
    for (const j of nodes) this.draw(j);
    if (i !== null) this.draw(i);
  }

  /** The moving numbers of a step with their tracks, the lowest first; see `markCurrent`. */
  #moving(i, textOf) {
    return this.#movements(i, textOf).slice(0, MOST_TRAVELLERS).map(({ edge: { path: { track } }, text }) => {
      return { text, track, width: widthOf(text) + 12, middle: track.at(track.length / 2).y };
    }).sort((a, b) => b.middle - a.middle);
  }

  /** Place moving numbers at a fraction of their tracks: within the drawing, and above one another. */
  #placeAt(share, moving) {
    moving.forEach((own, k) => {
      const { x, y } = own.track.at(own.track.length * share);
      const [first, last] = [this.size.x + own.width / 2, this.size.x + this.size.width - own.width / 2]; // whole at the margins
      Object.assign(own, { x: Math.max(Math.min(x, last), first), y });
      liftAbove(own, moving.slice(0, k));
    });
    const down = Math.max(0, this.size.y + TRAVELLER.lane / 2 - Math.min(...moving.map(({ y }) => y)));
    return moving.map((own) => ({ ...own, y: own.y + down }));
  }

  /** The tracks of the numbers of a step, in the window. */
  courses(i, textOf) {
    const moving = this.#moving(i, textOf);
    const places = Array.from({ length: 11 }, (_, k) => this.#placeAt(k / 10, moving)).flat();
    return places.map(({ x, y, width }) => this.onScreen({ x, y, width, height: TRAVELLER.height }));
  }

  /** Let the numbers of a step travel along the edges into a node, or back; see `markCurrent`. */
  travel(i, isBackward, duration, textOf) {
    const moving = this.#moving(i, textOf).map((own) => ({ ...own, element: this.#traveller(own, isBackward) }));
    if (moving.length === 0) {
      this.finishTravel();
      return;
    }
    const start = performance.now();
    const move = (now) => {
      const share = Math.min((now - start) / duration, 1);
      for (const { element, x, y } of this.#placeAt(isBackward ? 1 - share : share, moving)) {
        element.setAttribute("transform", `translate(${x.toFixed(1)} ${y.toFixed(1)})`);
      }
      if (share < 1) this.#frame = requestAnimationFrame(move);
      else this.finishTravel();
    };
    move(start);
  }

  /** Bring a node into view with its inputs, between which and the node a step moves numbers: at the scale at which
   * the drawing opens, or a smaller one if they need it and it can still be read; else the nearest of them. */
  show(i) {
    const near = [...new Set([i, ...record.nodes[i].inputs].map((j) => this.#nodes.get(this.boxOf(j))).filter(Boolean))];
    if (near.length === 0) return;
    const sides = [["x", "width"], ["y", "height"]].map(([at, size]) => ({
      start: Math.min(...near.map((node) => node[at])) - this.size[at],
      end: Math.max(...near.map((node) => node[at] + node[size])) - this.size[at],
    }));
    const rooms = [this.stage.clientWidth, this.stage.clientHeight];
    const most = Math.min(...sides.map(({ start, end }, k) => rooms[k] / (end - start + 2 * AIR))); // the largest scale that shows them all
    if (this.#isNear || most < this.#scale) {
      this.zoom(Math.max(Math.min(most, this.#isNear ? this.#fitting : this.#scale), Math.min(LEAST_NEAR, this.#scale)));
      this.#isNear = this.#scale < this.#fitting;
    }
    const [own] = near;
    const [left, top] = sides.map(({ start, end }, k) => {
      const [at, room] = [["scrollLeft", "clientWidth"], ["scrollTop", "clientHeight"]][k].map((name) => this.stage[name]);
      const scaled = (place, air) => (place + air) * this.#scale;
      const [from, to] = [scaled(start, -AIR), scaled(end, AIR)];
      if (from >= at && to <= at + room) return at;
      const [side, size] = [["x", "width"], ["y", "height"]][k];
      const [first, last] = [scaled(own[side] - this.size[side], -AIR), scaled(own[side] + own[size] - this.size[side], AIR)];
      return Math.min(Math.max((from + to - room) / 2, last - room), first);
    });
    this.stage.scrollTo(left, top);
    this.overview.refresh();
  }

  #isNear = false; // whether the scale is smaller than that at which the drawing opens, to show all nodes of a step

  /** Draw at a scale; the middle of the view stays in the middle. */
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
    announce("zoomed");
  }

  zoomIn() {
    this.zoom(this.#scale * ZOOM.step);
  }

  zoomOut() {
    this.zoom(this.#scale / ZOOM.step);
  }

  /** Draw so that everything is in view, unless it would be unreadable. */
  fit() {
    this.parts.closeUp = null;
    byId("fit").textContent = "Fit";
    this.arrange();
  }

  #drawNode(node) {
    const { computation } = this.playback;
    const i = node.id;
    const [isComputed, isKnown] = [this.playback.isComputed(i), this.playback.isKnown(i)];
    const short = (x) => brief(x, Array.isArray(x) ? NUMBERS.digits : NODE_DIGITS);
    const value = isComputed ? short(computation.values[i]) : "";
    const soFar = isKnown ? undefined : this.playback.soFar(i);
    const partial = soFar === undefined ? "" : `${short(soFar.total)}${soFar.isAll ? "" : " …"}`;
    const noted = this.#note?.(i) ?? null;
    const room = noted && node.adjoint ? this.#roomBeside(node) : node.adjoint?.room;
    const adjoint = noted ? noted.ways.find((text) => widthOf(text, "adjoint") <= room) ?? noted.ways.at(-1) : (isKnown ? short(computation.adjoints[i]) : partial);
    if (!this.#pending.has(i)) {
      const word = noted ? noted.text.split(" ")[0] : isKnown || soFar?.isAll ? "adjoint" : "so far";
      const isArray = Array.isArray(computation.values[i]);
      const line = (element, text, kind) => (isArray && (node.grids.length || widthOf(text) > element.room) ? caption(text, kind, i, node.grids.length > 0) : text);
      if (node.value) write(node.value, line(node.value, value, "value"), node.value.room);
      if (node.adjoint) write(node.adjoint, line(node.adjoint, adjoint, word), room);
      if (!isArray && node.value?.room < roomFor(i)) this.#widen(i);
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
    node.element.setAttribute("aria-label", this.#nameOf(i, isComputed, isKnown, soFar, noted));
  }

  /** The room for the adjoint of a node, up to the next box beside it, or within its own box. */
  #roomBeside({ id, adjoint: text, y, height, grids }) {
    const start = Number(text.getAttribute("x"));
    if (grids.length || text.classList.contains("middle")) return text.room;
    const beside = [...this.#nodes.values()].filter((other) => other.id !== id && other.x >= start && other.y < y + height && y < other.y + other.height);
    return Math.max(text.room, Math.min(this.size.width, ...beside.map((other) => other.x)) - start - AIR);
  }

  /** Record that the numbers of a node need more room than the drawing has for them. */
  #widen(i) {
    widest.set(String(i), roomFor(i));
    this.isCramped = true;
  }

  /** The name of a node for screen readers: its label, its numbers with more digits than are drawn, its operation. */
  #nameOf(i, isComputed, isKnown, soFar, noted) {
    const { computation } = this.playback;
    const { label, op } = record.nodes[i];
    const value = isComputed && op !== "constant" ? [`value ${brief(computation.values[i])}`] : [];
    const adjoint = noted ? [noted.text] : isKnown ? [`adjoint ${brief(computation.adjoints[i])}`] : soFar ? [`adjoint so far ${brief(soFar.total)}`] : [];
    return [label, ...value, ...adjoint.filter(Boolean), op].join(", ");
  }

  /** The box that a node is drawn in, by the number of the node that it shows. */
  boxOf(i) {
    return this.#standsFor.get(i)?.at(-1) ?? i;
  }

  #edges(i) {
    return this.#edgesInto.get(this.boxOf(i)) ?? [];
  }

  /** The edges along which the step of a node moves numbers, with their texts. */
  #movements(i, textOf) {
    if (!this.isInSight(i)) return [];
    return this.#edges(i).map((edge) => ({ edge, text: textOf(edge.position) })).filter(({ text }) => text !== null);
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
    return computation.rate(members, ...inputs);
  }

  #drawEdge(contribution, edge) {
    edge.element.classList.toggle("carried", this.playback.isComputed(edge.to));
    edge.element.classList.toggle("passed", contribution !== undefined && !contribution.nothing);
    edge.element.classList.toggle("blocked", contribution?.nothing ?? false);
    if (!writeNumbers(edge, contribution)) this.isCramped = true;
  }

  /** The element of a number that moves along an edge. */
  #traveller({ text, width }, isBackward) {
    const room = rectangle("", { x: 0, y: 0, width, height: TRAVELLER.height }, TRAVELLER.height / 2);
    const group = svgElement("g", { class: `traveller ${isBackward ? "returning" : "flowing"}` }, [room, textShape(text, 0, 0, "")]);
    this.travellers.append(group);
    return group;
  }

  #mark(element, kind) {
    element.classList.add(kind);
    this.#marked.push(element);
  }
}

/** Lift a moving number above others that it would cover. The lift grows as the room beside them shrinks, so that it
 * does not jump. */
function liftAbove(own, others) {
  for (const other of others.toSorted((a, b) => b.y - a.y)) {
    const gap = Math.abs(own.x - other.x) - (own.width + other.width) / 2;
    const lane = Math.min(TRAVELLER.lane, TRAVELLER.lane - gap);
    if (Math.abs(own.y - other.y) < lane) own.y = other.y - lane;
  }
}

/** Whether an arrangement shows a step well: as a whole, in a size to read, with the elements of arrays. */
function isEnough({ boxes, detail, scale, isTooLarge }) {
  const lacksGrids = !DETAILS[detail].hasGrids && boxes.some(({ id }) => Array.isArray(record.nodes[id].value));
  return !isTooLarge && scale >= READABLE && !lacksGrids;
}

/** A node's element, its place, and its texts for value and adjoint, null for one that it lacks. */
function drawnNode(element, { x, y, width, height }) {
  const [value, adjoint] = ["value", "adjoint"].map((kind) => element.querySelector(`text.${kind}`));
  const grids = [...element.querySelectorAll(".grid")];
  return { id: Number(element.dataset.node), element, value, adjoint, grids, x: x - width / 2, y: y - height / 2, width, height };
}

/** The caption in place of the numbers of an array: their kind above a grid, else their count. */
function caption(text, word, i, isAboveGrid) {
  const sizes = shape(record.nodes[i].value);
  if (!text) return "";
  if (!isAboveGrid) return sizes.length > 1 ? sizes.join("×") : `${sizes[0]} numbers`;
  return sizes.length > 1 ? `${word} ${sizes.join("×")}` : word;
}

/** Let the tab key reach this node of the drawing only. */
function reachable(element) {
  element.ownerSVGElement.querySelector("[data-node][tabindex='0']")?.setAttribute("tabindex", "-1");
  element.setAttribute("tabindex", "0");
}

/** Set a text, squeezed where it needs more room than there is. */
function write(element, text, room) {
  const fits = widthOf(text, element.getAttribute("class")) <= room;
  element.textContent = inPrint(text);
  setOrRemove(element, "textLength", fits ? null : room);
  setOrRemove(element, "lengthAdjust", fits ? null : "spacingAndGlyphs");
}

/** Set an attribute, or remove it for null. */
function setOrRemove(element, name, value) {
  if (value === null) element.removeAttribute(name);
  else element.setAttribute(name, value);
}
