// Levels of the quiz that ask for numbers: values, local derivatives, adjoints. A level has
//
// - its name, where the walk stands when it begins (`start`), what is said then, and what if there is nothing to ask;
// - `hidesValue`, `isKnown` of a node's adjoint, `hidesSlopes`: what must not be seen; the walk says the rest;
// - its questions, in order: a `title`, the `node` that it is about, `isRight` for an answer, `hint` without numbers and
//   `plainHint` with them, what was `found`, and `reveal`, which gives the nodes that are known then.

const MOST_ASKED = 8; // of local derivatives

/** Adjoints, from the output down. */
function adjointLevel() {
  const answered = new Set();
  const { computation } = walk;
  const start = record.forward.length;
  const question = (i) => {
    const { label } = record.nodes[i];
    return {
      node: i,
      title: `Adjoint of ${label}`,
      isRight: (typed) => isRight(typed, computation.adjoints[i]),
      hint: () => sumHint(i, symbolicHint),
      plainHint: () => sumHint(i, handedHint),
      found: () => `the adjoint of ${label} is ${brief(computation.adjoints[i])}`,
      reveal: () => {
        answered.add(i);
        return backwardStep.has(i) ? walk.moveTo(start + backwardStep.get(i) + 1) : [i];
      },
    };
  };
  return {
    start,
    introduction: "Each adjoint is the sum of what the node's users hand it: local derivative × adjoint. Begin at the output.",
    impossible: "No node takes a gradient here.",
    hidesValue: () => false,
    isKnown: (i) => answered.has(i),
    questions: record.nodes.map((_, i) => i).filter(takesGradient).reverse().map(question),
  };
}

/** What to sum up for an adjoint, each term in words of its own. */
function sumHint(i, termOf) {
  const { label } = record.nodes[i];
  if (i === record.output) return "the output's adjoint is how fast the output changes with itself.";
  const terms = users[i].flatMap(({ node, position }) => {
    const given = walk.computation.handed(node, position);
    return !given || given.nothing ? [] : [`from ${record.nodes[node].label}: ${termOf(node, position)}`];
  });
  if (terms.length === 0) return `nothing is handed to ${label}: what it is used for does not pass its adjoint on.`;
  const whom = terms.length === 1 ? "its user" : "each user; add them up";
  return `${label} is handed local derivative × adjoint by ${whom}: ${terms.join("; ")}.`;
}

function symbolicHint(node, position) {
  if (walk.computation.handed(node, position).local === null) return "its part of that node's adjoint";
  return `${walk.computation.formula(node, position) ?? "local derivative"} × that node's adjoint`;
}

function handedHint(node, position) {
  const { computation } = walk;
  const given = computation.handed(node, position);
  if (given.local === null) return `its part of the adjoint ${brief(computation.adjoints[node])}`;
  const formula = computation.formula(node, position);
  const local = brief(given.local);
  const reason = formula === undefined || formula === local ? "" : `, where ${formula} = ${local}`;
  return `${computation.product(node, given)}${reason}`;
}

/** Values, from the inputs up. */
function valueLevel() {
  const answered = new Set();
  const { computation } = walk;
  const question = (i) => {
    const { label, name, inputs, summary } = record.nodes[i];
    const used = [...new Set(inputs.map((j) => record.nodes[j].label))].join(" and ");
    return {
      node: i,
      title: `Value of ${label}`,
      isRight: (typed) => isRight(typed, computation.values[i]),
      hint: () => `${name}${summary ? `, ${summary}` : ""}: put in the value of ${used}.`,
      plainHint: () => `${computation.forwardSentence(i).split(" = ").slice(0, -1).join(" = ")}.`,
      found: () => computation.forwardSentence(i),
      reveal: () => {
        answered.add(i);
        return [i];
      },
    };
  };
  return {
    start: 0,
    introduction: "Each value is computed from those of the node's inputs. Begin with the variables.",
    impossible: "There is nothing to compute here.",
    hidesValue: (i) => forwardStep.has(i) && !answered.has(i),
    isKnown: () => false,
    hidesSlopes: true,
    questions: record.forward.map(question),
  };
}

/** Local derivatives: those of each operation once, before any is asked for again. */
function slopeLevel() {
  const { computation } = walk;
  const asked = record.backward.flatMap((i) => computation.given[i].map((given) => ({ i, given })))
    .filter(({ given }) => typeof given.local === "number");
  const seen = new Set();
  const [first, again] = [[], []];
  for (const one of asked) {
    const key = `${record.nodes[one.i].op} ${one.given.position}`;
    (seen.has(key) ? again : first).push(one);
    seen.add(key);
  }
  const question = ({ i, given: { position, to, local } }) => {
    const [label, towards] = [record.nodes[i].label, record.nodes[to].label];
    const formula = computation.formula(i, position);
    return {
      node: i,
      title: `Local derivative of ${label} towards ${towards}`,
      isRight: (typed) => isRight(typed, local),
      hint: () => `how fast does ${label} change with ${towards} alone?${formula ? ` The rule says ${formula}.` : ""}`,
      plainHint: () => `${formula === undefined ? "it is 1 where the choice took it, else 0"
        : `${formula} is ${computation.formulaInNumbers(i, position)}`}.`,
      found: () => `the local derivative of ${label} towards ${towards} is ${brief(local)}`,
      reveal: () => [i],
    };
  };
  return {
    start: record.forward.length,
    introduction: "A local derivative is how fast an operation's result changes with one of its inputs, the others held.",
    impossible: "Here whole arrays travel: their local derivatives are tables of numbers, not one.",
    hidesValue: () => false,
    isKnown: () => false,
    hidesSlopes: true,
    questions: [...first, ...again].slice(0, MOST_ASKED).map(question),
  };
}
