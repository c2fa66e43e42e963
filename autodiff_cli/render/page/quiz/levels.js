// Levels of the quiz that ask for numbers: values, local derivatives, adjoints. A level has
//
// - `start`, the step at which it begins, an `introduction`, and a message if there is nothing to ask (`impossible`);
// - `hidesValue` and `isKnown` (of adjoints) for a node, and `hidesSlopes`: the numbers that are hidden;
// - `questions`, in order: a `title`, the `node` that it is about, `isRight` to check an answer, `hint` without numbers and
//   `hintWithNumbers` with numbers, `confirmation` to confirm a correct answer, and `reveal`, which gives the nodes that it uncovers.

const MOST_ASKED = 8; // of local derivatives

/** Adjoints, from the output down. */
function adjointLevel() {
  const answered = new Set();
  const { computation } = playback;
  const start = record.forward.length;
  const question = (i) => {
    const { label } = record.nodes[i];
    return {
      node: i,
      title: `Adjoint of ${label}`,
      isRight: (typed) => isRight(typed, computation.adjoints[i]),
      hint: () => sumHint(i, symbolicHint),
      hintWithNumbers: () => sumHint(i, numericHint),
      confirmation: () => `the adjoint of ${label} is ${brief(computation.adjoints[i])}`,
      reveal: () => {
        answered.add(i);
        return backwardStep.has(i) ? playback.moveTo(start + backwardStep.get(i) + 1) : [i];
      },
    };
  };
  return {
    start,
    introduction: "Each adjoint is the sum of the contributions of the node's users: local derivative × adjoint. Begin at the output.",
    impossible: "No node has an adjoint here.",
    hidesValue: () => false,
    isKnown: (i) => answered.has(i),
    questions: record.nodes.map((_, i) => i).filter(takesGradient).reverse().map(question),
  };
}

/** A hint that lists the terms of an adjoint; `termOf` describes each. */
function sumHint(i, termOf) {
  const { label } = record.nodes[i];
  if (i === record.output) return "the output's adjoint is how fast the output changes with itself.";
  const terms = users[i].flatMap(({ node, position }) => {
    const contribution = playback.computation.contribution(node, position);
    return !contribution || contribution.nothing ? [] : [`from ${record.nodes[node].label}: ${termOf(node, position)}`];
  });
  if (terms.length === 0) return `${label} receives no contribution: its users do not pass their adjoints on.`;
  const whom = terms.length === 1 ? "its user" : "each user; add them up";
  return `${label} receives local derivative × adjoint from ${whom}: ${terms.join("; ")}.`;
}

function symbolicHint(node, position) {
  if (playback.computation.contribution(node, position).local === null) return "its part of that node's adjoint";
  return `${playback.computation.formula(node, position) ?? "local derivative"} × that node's adjoint`;
}

function numericHint(node, position) {
  const { computation } = playback;
  const contribution = computation.contribution(node, position);
  if (contribution.local === null) return `its part of the adjoint ${brief(computation.adjoints[node])}`;
  const formula = computation.formula(node, position);
  const local = brief(contribution.local);
  const reason = formula === undefined || formula === local ? "" : `, where ${formula} = ${local}`;
  return `${computation.product(node, contribution)}${reason}`;
}

/** Values, from the inputs up. */
function valueLevel() {
  const answered = new Set();
  const { computation } = playback;
  const question = (i) => {
    const { label, name, inputs, summary } = record.nodes[i];
    const used = [...new Set(inputs.map((j) => record.nodes[j].label))].join(" and ");
    return {
      node: i,
      title: `Value of ${label}`,
      isRight: (typed) => isRight(typed, computation.values[i]),
      hint: () => `${name}${summary ? `, ${summary}` : ""}: insert the value of ${used}.`,
      hintWithNumbers: () => `${computation.forwardSentence(i).split(" = ").slice(0, -1).join(" = ")}.`,
      confirmation: () => computation.forwardSentence(i),
      reveal: () => {
        answered.add(i);
        return [i];
      },
    };
  };
  return {
    start: 0,
    introduction: "Each value is computed from the values of the node's inputs. Begin with the variables.",
    impossible: "There is nothing to compute here.",
    hidesValue: (i) => forwardStep.has(i) && !answered.has(i),
    isKnown: () => false,
    hidesSlopes: true,
    questions: record.forward.map(question),
  };
}

/** Local derivatives: every operation is asked once before any is repeated. */
function slopeLevel() {
  const { computation } = playback;
  const candidates = record.backward.flatMap((i) => computation.contributions[i].map((contribution) => ({ i, contribution })))
    .filter(({ contribution }) => typeof contribution.local === "number");
  const seen = new Set();
  const [first, again] = [[], []];
  for (const one of candidates) {
    const key = `${record.nodes[one.i].op} ${one.contribution.position}`;
    (seen.has(key) ? again : first).push(one);
    seen.add(key);
  }
  const question = ({ i, contribution: { position, to, local } }) => {
    const [label, towards] = [record.nodes[i].label, record.nodes[to].label];
    const formula = computation.formula(i, position);
    return {
      node: i,
      title: `Local derivative of ${label} towards ${towards}`,
      isRight: (typed) => isRight(typed, local),
      hint: () => `how fast does ${label} change with ${towards} alone?${formula ? ` The rule is ${formula}.` : ""}`,
      hintWithNumbers: () => `${formula === undefined ? "it is 1 if the operation selected this input, else 0"
        : `${formula} is ${computation.formulaInNumbers(i, position)}`}.`,
      confirmation: () => `the local derivative of ${label} with respect to ${towards} is ${brief(local)}`,
      reveal: () => [i],
    };
  };
  return {
    start: record.forward.length,
    introduction: "A local derivative is how fast the result of an operation changes with one input while the others are constant.",
    impossible: "The operations here work on whole arrays: their local derivatives are arrays, not single numbers.",
    hidesValue: () => false,
    isKnown: () => false,
    hidesSlopes: true,
    questions: [...first, ...again].slice(0, MOST_ASKED).map(question),
  };
}
