// The results of both passes at one point, and sentences about each step.

const WHOLE = 1e-9; // distance from 1 up to which a sum counts as a sum of probabilities
const CHOICES = /^(max|min|clip|relu6?|hardtanh)$/; // operations that return one of their inputs
const COMPARISONS = /^(eq|ne|[lg][et]|and|or|not)$/; // nan is like a number to them
const NEAR = 1e-6; // relative distance up to which two ways to compute a number count as equal

/** Everything both passes computed: values, adjoints, contributions with running totals. */
class Computation {
  constructor({ values, adjoints, contributions, present = [] }) {
    this.present = present; // of adjoints of arrays: 0 for elements that a choice removed
    this.values = values;
    this.adjoints = adjoints;
    this.contributions = contributions;
    this.arrived = new Set([record.output]);
    this.uses = record.nodes.map(() => 0);
    for (const { to, nothing } of this.contributions.flat()) if (!nothing) this.uses[to]++;
    const totals = new Map();
    const used = new Map();
    const errors = record.nodes.map(() => 0); // of adjoints, by rounding; only for numbers
    const unit = values.some(Array.isArray) ? NaN : record.roundingError;
    for (const i of record.backward) {
      for (const contribution of this.contributions[i]) {
        if (!contribution.nothing) {
          errors[contribution.to] += Math.abs(contribution.local) * errors[i] + unit * Math.abs(contribution.amount);
          totals.set(contribution.to, totals.has(contribution.to) ? elementwise((x, y) => x + y, totals.get(contribution.to), contribution.amount) : contribution.amount);
          this.arrived.add(contribution.to);
          used.set(contribution.to, (used.get(contribution.to) ?? 0) + 1);
        }
        contribution.use = used.get(contribution.to) ?? 0;
        contribution.total = totals.get(contribution.to) ?? contribution.amount;
      }
    }
    this.negligible = adjoints.map((x, i) => Boolean(x) && Math.abs(x) <= errors[i] && errors[i] < Infinity);
  }

  /** The numbers stored in the page. */
  static ofRecord() {
    return new Computation({
      values: record.nodes.map((node) => node.value),
      adjoints: record.nodes.map((node) => node.adjoint),
      contributions: record.nodes.map((node) => node.contributions),
    });
  }

  /** The contribution of a node to an input, by position; undefined for an input without an adjoint. */
  contribution(i, position) {
    return this.contributions[i].find((contribution) => contribution.position === position);
  }

  /** A sentence about a forward step: `x*y = 2 × 3 = 6`. */
  forwardSentence(i) {
    return this.#filled(record.nodes[i].forward, i);
  }

  /** A sentence about how a node passes its adjoint on. */
  backwardSentence(i) {
    return this.#filled(record.nodes[i].backward, i) + (this.negligible[i] ? record.negligible : "");
  }

  /** Sentences about the contributions of a node; none if it has no adjoint. */
  contributionSentences(i) {
    const addition = (position) => (this.negligible[record.nodes[i].inputs[position]] && this.#case(i, "use", position) === 2 ? record.negligible : "");
    return this.arrived.has(i) ? record.nodes[i].contributions.map(({ phrase, position }) => this.#filled(phrase, i) + addition(position)) : [];
  }

  /** Local derivative × adjoint of a contribution, in numbers. */
  product(i, contribution) {
    return `${brief(contribution.local ?? NaN)} × ${factor(this.adjoints[i])}`;
  }

  /** The contributions to a node, in the order of the backward pass, each with the user that makes it and the position of the node there. */
  contributionsTo(i) {
    return users[i].map(({ node, position }) => ({ node, position, contribution: this.contribution(node, position) })).filter(({ contribution }) => contribution);
  }

  /** The terms of an adjoint: the contributions to a node, without structural zeros. */
  termsOf(i) {
    return this.contributionsTo(i).filter(({ contribution }) => !contribution.nothing);
  }

  /** The terms of an adjoint as products. */
  productsOf(i) {
    return this.termsOf(i).map(({ node, contribution }) => (contribution.local === null ? "" : `${this.product(node, contribution)} = `) + brief(contribution.amount));
  }

  /** The stored formula or rule of the contribution of a node to an input. */
  #recorded(i, position) {
    return record.nodes[i].contributions.find((contribution) => contribution.position === position);
  }

  /** The local derivative towards an input as a formula of labels, `cos(x)`; undefined where it has none. */
  formula(i, position) {
    const { formula } = this.#recorded(i, position);
    if (formula === undefined) return undefined;
    const parts = record.phrases[formula];
    return parts.map((part, k) => labelled(i, part, parts[k - 1], parts[k + 1])).join("");
  }

  /** The rule by which an operation on whole arrays computes its contribution to an input, `outer(adjoint, x)`. */
  rule(i, position) {
    return this.#recorded(i, position).rule;
  }

  /** The local derivative towards an input as a formula with numbers, `cos(2)`. */
  formulaInNumbers(i, position) {
    const { formula } = this.#recorded(i, position);
    return formula === undefined ? undefined : this.#filled(formula, i);
  }

  /** The sum of contributions to a node before a backward step, and whether it is complete. */
  totalBefore(i, step) {
    const through = users[i].filter(({ node }) => backwardStep.get(node) < step);
    const last = through.at(-1);
    const isAll = through.length === users[i].filter(({ node }) => backwardStep.has(node)).length;
    return last && { total: this.contribution(last.node, last.position).total, isAll };
  }

  /** The derivative of the last of some nodes with respect to one of their inputs as `local`, summed over all paths, null if
   * it is not a number; and whether no adjoint passes on any path (`nothing`). */
  rate(members, from) {
    const slopes = new Map([[members.at(-1), 1]]);
    for (const i of [...members].reverse()) {
      for (const { to, local, nothing } of slopes.has(i) ? this.contributions[i] : []) {
        if (nothing) continue;
        const [before, behind] = [slopes.has(to) ? slopes.get(to) : 0, slopes.get(i)];
        const isNumber = typeof local === "number" && before !== null && behind !== null && !Array.isArray(this.values[to]);
        slopes.set(to, isNumber ? before + local * behind : null);
      }
    }
    return { local: slopes.has(from) ? slopes.get(from) : 0, nothing: !slopes.has(from) };
  }

  /** The operation that magnifies rounding errors most, where they can destroy digits of the value, and how many digits; null
   * elsewhere. The value changes by the rounding error of a number times its adjoint, as in the program's own warning. */
  get cancellation() {
    const { magnification, largest, digits } = record.cancellation;
    if (this.values.some(Array.isArray)) return null;
    const active = record.nodes.map((_, i) => i).filter((i) => this.adjoints[i]);
    const error = (i, weight) => Math.abs(this.values[i] * weight);
    const isExact = (i) => {
      const isComputed = record.nodes[i].inputs.length > 0;
      return Number.isInteger(this.values[i] * 1024) && !(isComputed && Math.abs(this.values[i]) >= largest);
    };
    const total = active.filter((i) => !isExact(i)).reduce((all, i) => all + error(i, this.adjoints[i]), 0);
    const size = Math.abs(this.values[record.output]);
    if (!(magnification * size < total && total < Infinity)) return null;
    let [worst, most] = [record.output, 0];
    for (const i of active) {
      const weight = this.contributions[i].filter(({ nothing }) => !nothing).reduce((all, { to, amount }) => all + error(to, amount), 0);
      const own = error(i, this.adjoints[i]);
      if (weight > total / magnification && weight > most * own) [worst, most] = [i, weight / own];
    }
    return { worst, lost: size ? Math.min(digits, Math.round(Math.log10(total) - Math.log10(size))) : digits };
  }

  /** Warnings about undefined, infinite, one-sided or inaccurate numbers, as sentences. */
  warnings(point) {
    const others = this.#warningsOfNodes();
    const found = inaccuracies(point);
    const worst = found.ofOutput || this.values[record.output] !== 0 ? this.cancellation?.worst : undefined;
    const lost = worst === undefined ? [] : [this.#filled(record.warningPhrases[`${record.nodes[worst].op} ${record.nodes[worst].inputs.length}`].cancellation, worst)];
    const isDoubtful = found.ofAny ? others.every(({ kind }) => kind !== "overflow") : !found.isFinite && others.length === 0 && areFinite(Object.values(point));
    if (lost.length === 0 && isDoubtful) lost.push(this.sentence(record.inaccurate));
    if (lost.length) lost.push("The correct digits are computed only for the values with which the page was made.");
    return [...others.map(({ text }) => text), ...lost];
  }

  /** The conditions that decide which branch an operation takes, and their parts, with the operation. */
  #conditions() {
    const conditions = new Map();
    const add = (i, choice) => {
      conditions.set(i, choice);
      if (["and", "or", "not"].includes(record.nodes[i].op)) this.#used(i).forEach((j) => add(j, choice));
    };
    record.nodes.forEach(({ op, inputs }, i) => op === "where" && this.arrived.has(i) && add(inputs[0], i));
    return conditions;
  }

  /** The nodes that affect the output: nodes with an adjoint, conditions of choices, what these read of constants, and nodes
   * that make one of them nan, or whose nan a comparison hides. */
  #contributing() {
    const found = new Set([...this.arrived, ...this.#conditions().keys()]);
    const isNan = (i) => hasNan(this.values[i]);
    for (const i of [...record.nodes.keys()].reverse()) {
      const used = found.has(i) ? this.#used(i) : [];
      used.filter((j) => !takesGradient(j)).forEach((j) => found.add(j));
      const sources = isNan(i) || COMPARISONS.test(record.nodes[i].op) ? used.filter(isNan) : [];
      if (!sources.some((j) => found.has(j))) sources.forEach((j) => found.add(j));
    }
    return [...record.nodes.keys()].filter((i) => found.has(i));
  }

  /** The inputs that an operation reads: of a choice, the condition and what it selects for all elements. */
  #used(i) {
    const { op, inputs } = record.nodes[i];
    const [result, first, ...others] = [i, ...inputs].map((j) => [this.values[j]].flat(Infinity));
    const holds = (is) => first.every((x) => (x !== 0) === is);
    if (op === "where") return inputs.filter((_, k) => k === 0 || holds(k === 1));
    if (op === "and" || op === "or") return inputs.slice(0, holds(op === "or") ? 1 : 2); // the first may decide
    const isSelected = (numbers) => result.every((x, at) => Number.isNaN(x) || placed(numbers, at, result) === x);
    return inputs.filter((_, k) => !CHOICES.test(op) || isSelected([first, ...others][k]));
  }

  /** The warnings about single operations, each with its name and its text; of an array, about its first such element. */
  #warningsOfNodes() {
    return this.#contributing().flatMap((i) => {
      const { op, inputs } = record.nodes[i];
      const phrases = { ...record.warningPhrases[`${op} ${inputs.length}`], opposite: record.opposite };
      const [value, ...given] = [i, ...inputs].map((j) => this.values[j]);
      const numbers = [value].flat(Infinity);
      const areInputs = (is, at) => given.every((x) => is([placed(x, at, numbers)]));
      const isSingular = (at) => placed(this.contributions[i][0]?.singular ?? 0, at, numbers);
      const isPresent = this.#presence(i);
      const undefinedAt = numbers.findIndex((x, at) => hasNan(x) && (isPresent(at) || hasNan(this.values[record.output])) && areInputs((known) => !hasNan(known), at));
      const infiniteAt = numbers.findIndex((x, at) => Math.abs(x) === Infinity && isPresent(at) && (isSingular(at) || areInputs(areFinite, at)));
      const isOpposite = hasNan(this.adjoints[i] ?? 0) && !this.contributionsTo(i).some(({ contribution }) => hasNan(contribution.amount));
      const found = isOpposite ? [["singular", "opposite"]] : [];
      if (undefinedAt >= 0) found.push(["domain", "undefined", undefinedAt]);
      const isConstant = this.contributions[i].length === 0; // without a rule that tells poles from large numbers
      if (infiniteAt >= 0) found.push(isConstant || isSingular(infiniteAt) ? ["singular", "infinite", infiniteAt] : ["overflow", "overflow", infiniteAt]);
      if (this.#hasKink(i)) found.push(["kink", "kink"]);
      for (const { local, amount, nothing, position } of this.contributions[i]) {
        if (local === null || nothing) continue;
        const locals = numbers.map((_, at) => placed(local, at, numbers));
        const productAt = [amount].flat(Infinity).findIndex((x, at) => hasNan(x) && !hasNan(locals[at] ?? 0, placed(this.adjoints[i], at, numbers)));
        const slopeAt = locals.findIndex((x, at) => !areFinite([x]) && !hasNan(numbers[at]) && isPresent(at) && (hasNan(x) || areInputs(areFinite, at)));
        if (productAt >= 0) found.push(["singular", `product ${position}`, productAt]);
        if (slopeAt >= 0) found.push([isSingular(slopeAt) || hasNan(locals[slopeAt]) ? "singular" : "overflow", `slope ${position}`, slopeAt]);
      }
      if (!hasNan(...given) && hasNan(value)) found.push(["domain", "undefined elements"]);
      const amounts = this.contributions[i].map(({ amount }) => amount);
      if (!hasNan(...given, value, this.adjoints[i]) && hasNan(...amounts)) found.push(["singular", "undefined slopes"]);
      const possible = found.filter(([, name]) => name in phrases);
      const isFirst = ([kind], k) => possible.findIndex(([other]) => other === kind) === k;
      return possible.filter(isFirst).map(([kind, name, at]) => ({ kind, text: this.#filled(phrases[name], i, at) }));
    });
  }

  /** A phrase that belongs to no step, with numbers of any nodes. */
  sentence(phrase) {
    return this.#filled(phrase, record.output);
  }

  #filled(phrase, i, at) {
    const facts = { text: (what, of) => this.#text(i, what, of, at), case: (by, of) => this.#case(i, by, of) };
    return fill(record.phrases[phrase], facts);
  }

  #text(i, what, of, at) {
    const node = record.nodes[i];
    switch (what) {
      case "node":
        return mathOf(i);
      case "name":
        return math(node.name);
      case "label":
        return mathOf(node.inputs[of]);
      case "label at":
        return mathOf(of);
      case "chosen":
        return listed(this.#chosen(i).map(({ to }) => mathOf(to)));
      case "lost":
        return String(this.cancellation.lost);
      case "use":
        return String(this.contribution(i, of).use);
      case "uses":
        return String(this.uses[node.inputs[of]]);
      default:
        return brief(placed(this.#number(i, what, of), at, [this.values[i]].flat(Infinity)));
    }
  }

  #number(i, what, of) {
    switch (what) {
      case "output":
        return this.values[i];
      case "value":
        return this.values[record.nodes[i].inputs[of]];
      case "adjoint":
        return this.adjoints[i];
      case "value at":
        return this.values[of];
      case "adjoint at":
        return this.adjoints[of];
      case "share":
        return this.#chosen(i)[0].local;
      default:
        return this.contribution(i, of)[what];
    }
  }

  #case(i, by, of) {
    switch (by) {
      case "singular": {
        const { singular, local } = this.contribution(i, of);
        return Number([singular ?? 0].flat(Infinity).some(Boolean) || Number.isNaN(local));
      }
      case "arrived":
        return Number(this.arrived.has(i));
      case "truth":
        return Number(this.values[i] !== 0);
      case "undefined":
        return Number(Number.isNaN(this.values[i]));
      case "absent": {
        const { nothing, local } = this.contribution(i, of);
        return Number(nothing && !areFinite([local, this.adjoints[i]]));
      }
      case "finite":
        return Number(areFinite([this.contribution(i, of).amount]));
      case "whole":
        return Number(Math.abs([this.values[of]].flat(Infinity).reduce((a, b) => a + b, 0) - 1) < WHOLE);
      case "smooth":
        return Number(!this.#contributing().some((node) => this.#hasKink(node)) && inaccuracies(playback.point).isSmooth);
      case "minus one":
        return Number(this.adjoints[of] === -1);
      case "kink":
        return Number(this.#hasKink(i));
      case "as read": {
        const { local, read = null } = this.contribution(i, of);
        const isRight = read === null || read === local || Math.abs(read - local) < NEAR * Math.abs(local);
        return Number(!Number.isNaN(local) && isRight);
      }
      case "saturated":
        return Number(record.nodes[i].ends.some((end) => Math.abs(this.values[i] - end) < record.near));
      case "use": {
        const { use, to, nothing } = this.contribution(i, of);
        return this.uses[to] === 1 || nothing ? 0 : use < this.uses[to] ? 1 : 2;
      }
      default: {
        const [first] = this.#chosen(i);
        return first === undefined ? 0 : Array.isArray(first.local) || first.local === 1 ? 1 : 2;
      }
    }
  }

  /** Whether an operation has a kink at its inputs; of an array, at one of its elements. */
  #hasKink(i) {
    const isPresent = this.#presence(i);
    return this.contributions[i].some(({ kink }) => [kink].flat(Infinity).some((x, at) => (x === 1 || x === true) && isPresent(at)));
  }

  /** Whether no choice removed an element of a node's adjoint, by its place. */
  #presence(i) {
    const present = this.present[this.#conditions().get(i) ?? i] ?? 1;
    const elements = [present].flat(Infinity);
    return (at) => elements[elements.length === 1 ? 0 : at] !== 0;
  }

  #chosen(i) {
    return this.contributions[i].filter(({ local }) => [local].flat(Infinity).some((x) => x !== 0));
  }
}

/** The numbers, from 0, of the forward step that computes a node and of the backward step in which it contributes. */
const forwardStep = new Map(record.forward.map((i, step) => [i, step]));
const backwardStep = new Map(record.backward.map((i, step) => [i, step]));

/** For every node its users, in the order in which they contribute. */
const users = record.nodes.map(() => []);
for (let node = record.nodes.length - 1; node >= 0; node--) {
  record.nodes[node].inputs.forEach((i, position) => users[i].push({ node, position }));
}

/** Whether a node has an adjoint. */
const takesGradient = (i) => record.nodes[i].adjoint !== null;

/** The label of a node in a sentence. */
const mathOf = (i) => math(record.nodes[i].label);

let formulas; // the labels of operations in a text, the longest first: a pattern that is made once, when a text needs it

/** A stored text, with the labels of operations as formulas. */
function withMath(text) {
  if (!formulas) {
    const labels = record.nodes.map(({ label }) => label).filter((label) => /[^\p{L}\p{M}\p{N}_.]/u.test(label));
    const places = labels.sort((a, b) => b.length - a.length).map((label) => label.replace(/[\\^$.*+?()[\]{}|/]/g, "\\$&"));
    formulas = new RegExp(places.join("|") || "(?!)", "gu"); // which matches nothing
  }
  return text.replace(formulas, math);
}

/** Texts as a list in a sentence, `x, y and z`. */
function listed(texts) {
  return texts.length > 1 ? `${texts.slice(0, -1).join(", ")} and ${texts.at(-1)}` : texts[0];
}

/** Whether numbers, and all elements of arrays, are finite; null is not. */
function areFinite(numbers) {
  return numbers.flat(Infinity).every((x) => Number.isFinite(x));
}

const hasNan = (...numbers) => numbers.flat(Infinity).some(Number.isNaN);

/** The element of an array at a place among all elements of an array of its size; other numbers and arrays as they are. */
function placed(x, at, { length }) {
  const elements = at === undefined ? [] : [x].flat(Infinity);
  return elements.length === length ? elements[at] : x;
}

/** A part of a formula, with a label for a number: in brackets unless it is a word, a call, or all of an argument. */
function labelled(i, part, before, after) {
  if (typeof part === "string") return part;
  const [what, of] = part;
  const { label } = record.nodes[what === "output" ? i : record.nodes[i].inputs[of]];
  if (LITERAL_NAMES.has(label)) return `\`${label}\``;
  const isAlone = /[(,] ?$/.test(before ?? "(") && /^[),]/.test(after ?? ")");
  return isAlone || /^[\p{L}\p{M}\p{N}_.]+(\([^()]*\)|\[[\d, ]+\])?$/u.test(label) ? label : `(${label})`;
}

/** The reader's position: the number of steps made, forward steps first, and the numbers known there. */
class Playback {
  position = 0;
  isSeeded = false; // whether the output has its adjoint, before the first step back
  computation = Computation.ofRecord();
  point = Object.fromEntries(record.variables.map(({ key, value }) => [key, value]));
  quiz = null;
  tangents = null; // forward mode: the tangents that are shown in place of adjoints

  /** How many steps there are. */
  get length() {
    return record.forward.length + (this.tangents ? 0 : record.backward.length);
  }

  isComputed(i) {
    if (this.quiz?.level.hidesValue(i)) return false;
    return this.quiz !== null || !forwardStep.has(i) || forwardStep.get(i) < this.position;
  }

  /** Whether the backward step of a node is made. */
  hasContributed(i) {
    return backwardStep.get(i) < this.backwardSteps;
  }

  /** Whether the contribution of a node to an input is made and may be seen. */
  showsContribution(i, position) {
    return this.hasContributed(i) && !this.hidesAdjoint(record.nodes[i].inputs[position]);
  }

  /** Whether all contributions of a node are made and may be seen. */
  showsContributions(i) {
    return this.hasContributed(i) && !record.nodes[i].inputs.some((j) => this.hidesAdjoint(j));
  }

  /** Whether the quiz hides the adjoint of a node, and everything that reveals it. */
  hidesAdjoint(i) {
    return takesGradient(i) && this.quiz?.level.hidesAdjoint?.(i) === true;
  }

  /** Whether a node's adjoint is complete and may be seen: for a variable, once its last user has contributed. */
  isKnown(i) {
    if (!takesGradient(i) || this.tangents) return false;
    if (this.quiz?.level.hidesAdjoint) return !this.hidesAdjoint(i);
    if (i === record.output && this.isSeeded) return this.backwardSteps >= 0;
    if (forwardStep.has(i)) return this.hasContributed(i);
    return this.backwardSteps >= 0 && users[i].every(({ node }) => this.hasContributed(node));
  }

  /** The sum of contributions to a node whose adjoint is not complete; undefined if there are none. */
  soFar(i) {
    if (this.quiz || this.tangents || this.backwardSteps <= 0 || !takesGradient(i)) return undefined;
    return this.computation.totalBefore(i, this.backwardSteps);
  }

  get backwardSteps() {
    return this.position - record.forward.length;
  }

  /** The node whose step was just made; null at the beginning. */
  get current() {
    return this.nodeOf(this.position - 1);
  }

  get isBackward() {
    return this.backwardSteps > 0;
  }

  /** The highlighted node: of the question in a quiz, else of the step; null for none. */
  get focus() {
    return this.quiz ? this.quiz.question?.node ?? null : this.current;
  }

  /** The node of a step. */
  nodeOf(step) {
    return record.forward[step] ?? record.backward[step - record.forward.length] ?? null;
  }

  /** The node of the step that leads to a position, null at the beginning, and whether the step is backward. */
  at(position) {
    return [this.nodeOf(position - 1), position > record.forward.length];
  }

  /** Go to a step; returns the nodes whose known numbers changed. */
  moveTo(position) {
    const [from, to] = [this.position, Math.max(0, Math.min(position, this.length))];
    this.position = to;
    const changed = new Set(this.isSeeded ? [record.output] : []);
    this.isSeeded = false;
    for (let step = Math.min(from, to); step < Math.max(from, to); step++) {
      const i = this.nodeOf(step);
      changed.add(i);
      if (step >= record.forward.length) record.nodes[i].inputs.forEach((j) => changed.add(j));
    }
    return changed;
  }
}

/** The name of the output in derivatives. */
const OUTPUT = ["f", "g", "h", "F", "z", "output"].find((name) => record.nodes.every(({ label }, i) => label !== name || i === record.output));
