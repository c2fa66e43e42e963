// Folding: parts of the graph are drawn as one box each.

const BOXES = 30; // a graph with more boxes is folded at first
const MOST_PLAIN_INPUTS = 15; // up to this number, variables are never folded
const MOST_NAMED = 12; // up to this number, named parts stay boxes of their own

/** The parts of the drawing that can be folded: named parts (`frames`), and if these are not enough, nodes that only one
 * node uses (`closed`), and sums except for some of their terms (`sums`). */
class Parts {
  #frameOf = new Map();
  #around = new Set();
  #inputs; // variables that are folded only if nothing else helps
  areChosen = false; // whether the reader has folded or opened something
  closeUp = null; // the node around which boxes are drawn, up to so many edges away; null for all boxes
  #results = new Map(); // the last node of each frame that does not contain the output

  constructor({ boxes, arrows, frames }) {
    Object.assign(this, { boxes, arrows, frames });
    frames.forEach(({ members }, k) => members.forEach((i) => this.#frameOf.set(i, k)));
    const outwards = (k) => (k === null || k === undefined ? [] : [k, ...outwards(frames[k].outer)]);
    this.#around = new Set(outwards(this.#frameOf.get(record.output)));
    for (const { id } of boxes) for (const k of outwards(this.#frameOf.get(id))) this.#results.set(k, Math.max(id, this.#results.get(k) ?? 0));
    for (const k of this.#around) this.#results.delete(k);
    const inputs = boxes.filter(({ role }) => role === "input");
    this.#inputs = new Set(inputs.length <= MOST_PLAIN_INPUTS ? inputs.map(({ id }) => id) : []);
    this.open();
  }

  /** Whether anything is folded. */
  get areFolded() {
    return this.closed.size > 0 || this.sums.size > 0 || this.opened.size < this.frames.length;
  }

  /** Whether there is anything to fold. */
  get canFold() {
    return this.frames.length > this.#around.size || this.boxes.length > BOXES;
  }

  /** Draw every node. */
  open() {
    this.neverFolded = this.#inputs;
    this.opened = new Set(this.frames.keys());
    this.closed = new Set();
    this.sums = new Set();
  }

  /** Fold all named parts, and others until at most this many boxes remain, not counting variables unless they are folded too:
   * those that only one part uses. */
  fold(most = BOXES - this.#inputs.size, hasInputs = false) {
    this.neverFolded = hasInputs ? new Set() : this.#inputs;
    this.opened = new Set(this.#around);
    this.closed = new Set();
    this.sums = new Set();
    this.#coarsen(most);
  }

  /** The state of folding, which can be restored. */
  get state() {
    return { opened: new Set(this.opened), closed: new Set(this.closed), sums: new Set(this.sums), neverFolded: this.neverFolded };
  }

  set state({ opened, closed, sums, neverFolded }) {
    Object.assign(this, { opened: new Set(opened), closed: new Set(closed), sums: new Set(sums), neverFolded, closeUp: null });
  }

  /** The folded part that a node is in, by its last node; undefined for a box of its own. */
  foldOf(i) {
    return this.shown.folds.find((members) => members.includes(i))?.at(-1);
  }

  /** Open the parts around a node until it is a box of its own. */
  reveal(i) {
    for (let part = this.foldOf(i), tries = this.boxes.length; part !== undefined && tries > 0; part = this.foldOf(i), tries--) this.openAt(part);
  }

  /** Open the part behind a box. */
  openAt(i) {
    if (this.sums.delete(i)) return;
    if (this.closed.delete(i)) {
      const { children, sizes } = this.#dominance(this.#named());
      if (sizes.get(i) > BOXES) for (const j of children.get(i)) if (sizes.get(j) > 1) this.closed.add(j);
      return;
    }
    const outermost = this.#closedFrame(i);
    if (outermost !== undefined) this.opened.add(outermost);
  }

  /** Fold the named part of a frame. */
  foldFrame(k) {
    this.opened.delete(k);
  }

  /** The current boxes, arrows and frames, and the nodes of each folded part; the last of these represents it. */
  get shown() {
    const drawing = this.#hide(this.#named());
    const shown = this.closeUp ? this.#near(drawing, this.closeUp) : drawing;
    return { ...shown, boxes: distinct(shown.boxes) };
  }

  /** The part of a drawing that is at most so many edges from the box of a node, towards the variables and towards the output. */
  #near({ boxes, arrows, frames, folds }, { node, edges }) {
    const start = folds.find((members) => members.includes(node))?.at(-1) ?? node;
    const kept = new Set([start]);
    for (const [here, there] of [["to", "from"], ["from", "to"]]) {
      let ends = new Set([start]);
      for (let k = 0; k < edges; k++) {
        ends = new Set(arrows.filter((arrow) => ends.has(arrow[here])).map((arrow) => arrow[there]));
        for (const i of ends) kept.add(i);
      }
    }
    return {
      boxes: boxes.filter(({ id }) => kept.has(id)),
      arrows: arrows.filter(({ from, to }) => kept.has(from) && kept.has(to)),
      frames: frames.map((frame) => ({ ...frame, members: frame.members.filter((i) => kept.has(i)) })),
      folds: folds.filter((members) => kept.has(members.at(-1))),
    };
  }

  /** The outermost folded frame around a node. */
  #closedFrame(i) {
    let outermost;
    for (let k = this.#frameOf.get(i) ?? null; k !== null; k = this.frames[k].outer) if (!this.opened.has(k)) outermost = k;
    return outermost;
  }

  /** The drawing with every folded frame as one box. */
  #named() {
    const inside = new Map();
    const unit = new Map();
    for (const { id } of this.boxes) {
      const k = this.#closedFrame(id);
      if (k === undefined) continue;
      if (!inside.has(k)) inside.set(k, []);
      inside.get(k).push(id);
    }
    for (const members of inside.values()) for (const i of members) unit.set(i, members.at(-1));
    const label = new Map([...inside].map(([k, members]) => [members.at(-1), this.frames[k].label]));
    return this.#joined({ boxes: this.boxes, arrows: this.arrows, folds: [...inside.values()] }, unit, label);
  }

  /** A drawing in which all boxes with the same `unit` are one box, that of the node `unit`. */
  #joined({ boxes, arrows, folds }, unit, label = new Map()) {
    const of = (i) => unit.get(i) ?? i;
    const counts = new Map(folds.map((members) => [members.at(-1), members.length]));
    const remaining = boxes.filter(({ id }) => of(id) === id).map((box) => {
      if (!counts.has(box.id)) return box;
      const name = label.get(box.id);
      const names = name === undefined ? {} : { title: name, ...shortened(name) };
      return { ...box, ...names, role: "folded", inside: counts.get(box.id) };
    });
    const seen = new Set();
    const left = arrows.filter(({ from, to }) => of(from) !== of(to)).map((arrow) => {
      return { ...arrow, from: of(arrow.from), to: of(arrow.to) };
    }).filter(({ from, to }) => {
      const name = `${from} ${to}`;
      const isNew = !counts.has(to) || !seen.has(name);
      seen.add(name);
      return isNew;
    });
    const frames = this.frames.map(({ label: text, outer, members }, k) => {
      const [drawn, isOpen] = [members.filter((i) => of(i) === i), this.opened.has(k)];
      return { text, outer, members: isOpen ? drawn : [], key: k };
    });
    // The box of a folded part belongs to the innermost open frame around the part.
    for (const [k, frame] of this.frames.entries()) {
      if (this.opened.has(k)) continue;
      let outer = frame.outer;
      while (outer !== null && !this.opened.has(outer)) outer = this.frames[outer].outer;
      if (outer !== null) frames[outer].members.push(...frame.members.filter((i) => of(i) === i));
    }
    return { boxes: remaining, arrows: left, frames, folds };
  }

  /** For every box: the boxes that only it uses, the number of boxes of that subtree including itself, and the terms of
   * the sum or product that ends in it. Named parts do not belong to a subtree. */
  #dominance({ boxes, arrows, folds }) {
    const users = new Map(boxes.map(({ id }) => [id, []]));
    for (const { from, to } of arrows) users.get(from).push(to);
    const parts = new Set(folds.map((members) => members.at(-1)));
    const results = [...this.#results.values()].filter((i) => users.has(i));
    const named = new Set(results.length <= MOST_NAMED ? results : []);
    const [above, depth] = [new Map(), new Map([[null, 0]])];
    const children = new Map([[null, []], ...boxes.map(({ id }) => [id, []])]);
    const ids = boxes.map(({ id }) => id).sort((a, b) => b - a);
    for (const i of ids) {
      const meet = (a, b) => {
        while (a !== b) [a, b] = depth.get(a) > depth.get(b) ? [above.get(a), b] : [a, above.get(b)];
        return a;
      };
      const dominator = users.get(i).length && !named.has(i) ? users.get(i).reduce(meet) : null;
      above.set(i, dominator);
      depth.set(i, depth.get(dominator) + 1);
    }
    const sizes = new Map(boxes.map(({ id, inside }) => [id, this.neverFolded.has(id) ? 0 : inside ?? 1]));
    for (const i of [...ids].reverse()) {
      if (this.neverFolded.has(i)) continue;
      children.get(above.get(i)).push(i);
      if (above.get(i) !== null) sizes.set(above.get(i), sizes.get(above.get(i)) + sizes.get(i));
    }
    const isSame = (i, j) => record.nodes[i].op === record.nodes[j].op && record.nodes[i].inputs.length > 1;
    const goesOn = (i, j) => isSame(i, j) && users.get(j).length === 1 && !parts.has(i) && !parts.has(j);
    const termsOf = (i) => children.get(i).flatMap((j) => (goesOn(i, j) ? termsOf(j) : [j]));
    const sumOf = (i) => [...children.get(i).filter((j) => goesOn(i, j)).flatMap(sumOf), i];
    return { children, sizes, termsOf, sumOf };
  }

  /** Fold unnamed parts until few enough boxes remain. */
  #coarsen(most) {
    const drawing = this.#named();
    if (drawing.boxes.length - this.neverFolded.size <= most) return;
    const { children, sizes, termsOf } = this.#dominance(drawing);
    let count = children.get(null).length;
    const closed = new Set(children.get(null));
    while (closed.size) {
      const largest = Math.max(...[...closed].map((i) => sizes.get(i)));
      const alike = [...closed].filter((i) => sizes.get(i) === largest); // parts of equal size are opened together, so that similar parts look similar
      const partsOf = (i) => (termsOf(i).length > most ? children.get(i) : termsOf(i)); // a long sum is opened at its last term only
      const inside = alike.flatMap(partsOf);
      const isTooMuch = count + inside.length > most && count > 1;
      for (const i of alike) {
        closed.delete(i);
        if (isTooMuch && children.get(i).length) this.closed.add(i);
        if (!isTooMuch && termsOf(i).length > children.get(i).length && termsOf(i).length <= most) this.sums.add(i);
      }
      if (isTooMuch) continue;
      count += inside.length;
      for (const i of inside) closed.add(i);
    }
  }

  /** A drawing with every closed part as one box, without the frames inside such parts. */
  #hide(drawing) {
    if (this.closed.size + this.sums.size === 0) return drawing;
    const { children, sumOf } = this.#dominance(drawing);
    const behind = new Map(drawing.folds.map((members) => [members.at(-1), members]));
    const own = (i) => behind.get(i) ?? [i];
    const all = (i) => [...children.get(i).flatMap(all), ...own(i)];
    const unit = new Map();
    const folds = [];
    const wholes = [...this.closed].sort((a, b) => b - a).map((i) => [i, all]);
    for (const [i, membersOf] of [...wholes, ...[...this.sums].map((i) => [i, sumOf])]) {
      const members = unit.has(i) || !children.has(i) ? [] : membersOf(i).sort((a, b) => a - b);
      if (members.length <= own(i).length) continue;
      for (const j of members) unit.set(j, i);
      folds.push(members);
    }
    folds.push(...drawing.folds.filter((members) => !unit.has(members.at(-1))));
    const joined = this.#joined({ boxes: drawing.boxes, arrows: drawing.arrows, folds }, unit);
    const shown = new Set(joined.boxes.map(({ id }) => id));
    joined.frames = drawing.frames.map((frame) => ({ ...frame, members: frame.members.filter((i) => shown.has(i)) }));
    return joined;
  }
}

/** The name of a folded part, shortened to the available room. */
function shortened(name) {
  const kind = kindOf({ role: "folded", title: name }, name);
  return Object.fromEntries(Object.entries(LONGEST).map(([room, width]) => [room, callIn(name, width, kind)]));
}

/** Boxes in which no two folded parts have the same text: the longer one where the short ones are equal, and else a number too. */
function distinct(boxes) {
  const ways = [["short", ({ caption }) => caption], ["short", ({ short, id }) => `${short} #${id}`], ["caption", ({ caption, id }) => `${caption} #${id}`]];
  return ways.reduce((named, [key, other]) => {
    const alike = Map.groupBy(named.filter(({ inside }) => inside), (box) => box[key]);
    return named.map((box) => (box.inside && alike.get(box[key]).length > 1 ? { ...box, [key]: other(box) } : box));
  }, boxes);
}
