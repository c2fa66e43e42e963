// Which boxes are drawn: every node one, or parts of the graph folded into one each.

const BOXES = 30; // that are drawn before parts are folded
const KEPT = 15; // variables that are always drawn
const MOST_NAMED = 12; // folded parts with a name that are never drawn as a part of others

/** The parts of the drawing, and which of them are folded: those with a name, `frames`, and where these are not enough
 * whatever serves one node alone, `closed`; and sums but for their terms, `sums`. */
class Parts {
  #frameOf = new Map();
  #around = new Set();
  #results = new Map(); // of each frame, but those around the output, its last node

  constructor({ boxes, arrows, frames }) {
    Object.assign(this, { boxes, arrows, frames });
    frames.forEach(({ members }, k) => members.forEach((i) => this.#frameOf.set(i, k)));
    const outwards = (k) => (k === null || k === undefined ? [] : [k, ...outwards(frames[k].outer)]);
    this.#around = new Set(outwards(this.#frameOf.get(record.output)));
    for (const { id } of boxes) for (const k of outwards(this.#frameOf.get(id))) this.#results.set(k, Math.max(id, this.#results.get(k) ?? 0));
    for (const k of this.#around) this.#results.delete(k);
    const inputs = boxes.filter(({ role }) => role === "input");
    this.kept = new Set(inputs.length <= KEPT ? inputs.map(({ id }) => id) : []);
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
    this.opened = new Set(this.frames.keys());
    this.closed = new Set();
    this.sums = new Set();
  }

  /** Fold every part with a name, and others until there are at most so many boxes besides variables. */
  fold(most = BOXES - this.kept.size) {
    this.opened = new Set(this.#around);
    this.closed = new Set();
    this.sums = new Set();
    this.#coarsen(most);
  }

  /** Open the part that a box stands for; everything, if that is not too much. */
  openAt(i) {
    if (this.boxes.length <= BOXES) {
      this.open();
      return;
    }
    if (this.sums.delete(i)) return;
    if (this.closed.delete(i)) {
      const { children, sizes } = this.#dominance(this.#named());
      if (sizes.get(i) > BOXES) for (const j of children.get(i)) if (sizes.get(j) > 1) this.closed.add(j);
      return;
    }
    const outermost = this.#closedFrame(i);
    if (outermost !== undefined) this.opened.add(outermost);
  }

  /** Fold the part with a name in which the frame of this number stands. */
  foldFrame(k) {
    this.opened.delete(k);
  }

  /** What is drawn now: boxes, arrows, frames; and of each folded part the nodes inside, the one that is drawn last. */
  get shown() {
    return this.#hide(this.#named());
  }

  /** The outermost folded frame around a node. */
  #closedFrame(i) {
    let found;
    for (let k = this.#frameOf.get(i) ?? null; k !== null; k = this.frames[k].outer) if (!this.opened.has(k)) found = k;
    return found;
  }

  /** The drawing with each folded frame as one box. */
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

  /** A drawing with some of its boxes as one, that of the node that `unit` gives. */
  #joined({ boxes, arrows, folds }, unit, label = new Map()) {
    const of = (i) => unit.get(i) ?? i;
    const counts = new Map(folds.map((members) => [members.at(-1), members.length]));
    const kept = boxes.filter(({ id }) => of(id) === id).map((box) => {
      if (!counts.has(box.id)) return box;
      const names = label.has(box.id) ? { title: label.get(box.id), short: label.get(box.id) } : {};
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
    // The box of a folded part stands in the innermost open frame around it.
    for (const [k, frame] of this.frames.entries()) {
      if (this.opened.has(k)) continue;
      let outer = frame.outer;
      while (outer !== null && !this.opened.has(outer)) outer = this.frames[outer].outer;
      if (outer !== null) frames[outer].members.push(...frame.members.filter((i) => of(i) === i));
    }
    return { boxes: kept, arrows: left, frames, folds };
  }

  /** For every box the boxes that serve it alone, how many there are with all behind them, itself included, and the sum
   * or product that it ends as one would write it, in terms. Parts with a name serve nobody alone. */
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
      const found = users.get(i).length && !named.has(i) ? users.get(i).reduce(meet) : null;
      above.set(i, found);
      depth.set(i, depth.get(found) + 1);
    }
    const sizes = new Map(boxes.map(({ id, inside }) => [id, this.kept.has(id) ? 0 : inside ?? 1]));
    for (const i of [...ids].reverse()) {
      if (this.kept.has(i)) continue;
      children.get(above.get(i)).push(i);
      if (above.get(i) !== null) sizes.set(above.get(i), sizes.get(above.get(i)) + sizes.get(i));
    }
    const isSame = (i, j) => record.nodes[i].op === record.nodes[j].op && record.nodes[i].inputs.length > 1;
    const goesOn = (i, j) => isSame(i, j) && users.get(j).length === 1 && !parts.has(i) && !parts.has(j);
    const termsOf = (i) => children.get(i).flatMap((j) => (goesOn(i, j) ? termsOf(j) : [j]));
    const sumOf = (i) => [...children.get(i).filter((j) => goesOn(i, j)).flatMap(sumOf), i];
    return { children, sizes, termsOf, sumOf };
  }

  /** Close parts without a name, the largest last to be opened, until there are few enough boxes. */
  #coarsen(most) {
    const drawing = this.#named();
    if (drawing.boxes.length - this.kept.size <= most) return;
    const { children, sizes, termsOf } = this.#dominance(drawing);
    let count = children.get(null).length;
    const closed = new Set(children.get(null));
    while (closed.size) {
      const largest = Math.max(...[...closed].map((i) => sizes.get(i)));
      const alike = [...closed].filter((i) => sizes.get(i) === largest); // opened together, so that like looks alike
      const partsOf = (i) => (termsOf(i).length > most ? children.get(i) : termsOf(i)); // of a long sum only the last term
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

  /** A drawing with each closed part as one box, and without the frames that stand in one. */
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
