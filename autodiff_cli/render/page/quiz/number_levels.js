// Levels of the quiz that ask for numbers: values, local derivatives, adjoints. A level has
//
// - `start`, the step at which it begins, an `introduction`, and a message if there is nothing to ask (`impossible`);
// - `hidesValue` and `hidesAdjoint` for a node, and `hidesSlopes`: the numbers that are hidden, wherever they would be shown;
// - `questions`, in order: a `title`, the `node` that it is about, the number `wanted`, `isRight` to check an answer,
//   `mistakes`, numbers of likely wrong answers with words, `hint` without numbers and `hintWithNumbers`, `confirmation` of the
//   answer, and `reveal`, which gives the nodes that it uncovers.
//
// Questions are about nodes that the drawing shows as boxes of their own; where there are hardly any, folded parts are opened.

const MOST_QUESTIONS = 8; // of local derivatives
const FEWEST = 3; // operations in sight that are enough for questions
const MOST_ASKED = 12; // questions about folded parts

/** The nodes among some that questions are about. */
function asked(nodes) {
  const inSight = nodes.filter((i) => graph.isInSight(i));
  const operations = inSight.filter((i) => record.nodes[i].inputs.length);
  return operations.length >= FEWEST ? inSight : nodes.filter((i) => graph.isDrawn(i)).slice(0, MOST_ASKED);
}

/** A question for a number, which is typed, and which may be off by an error of rounding. */
function numberQuestion(wanted, error, question) {
  return { wanted, isReadable: (text) => readingsOf(text, wanted).length > 0, isRight: (text) => isRight(text, wanted, error), ...question };
}

/** A number with the other sign. */
const negative = (x) => elementwise((element) => -element, x);

/** The likely mistakes in any number: its sign, and the value of a node in place of a derivative. */
function wrongSign(number) {
  return { number: negative(number), words: "the size is right, the sign is not" };
}

function valueInstead(i) {
  const label = mathOf(i);
  return { number: playback.computation.values[i], words: `that is the value of ${label}, and the question is for its derivative` };
}

/** Adjoints, from the output down. */
function adjointLevel() {
  const { computation } = playback;
  const start = record.forward.length;
  const errors = new RoundingErrors();
  const nodes = asked(record.nodes.map((_, i) => i).filter(takesGradient).reverse());
  const unanswered = new Set(nodes);
  const question = (i) => {
    const label = mathOf(i);
    return numberQuestion(computation.adjoints[i], errors.adjoints[i], {
      node: i,
      title: `Adjoint of ${label}`,
      mistakes: () => adjointMistakes(i),
      hint: () => sumHint(i, HINT),
      hintWithNumbers: () => sumHint(i, HINT_WITH_NUMBERS),
      confirmation: () => `the adjoint of ${label} is ${brief(computation.adjoints[i])}`,
      reveal: () => {
        unanswered.delete(i);
        const changed = backwardStep.has(i) ? playback.moveTo(start + backwardStep.get(i) + 1) : new Set([i]);
        for (const { node } of users[i]) changed.add(node); // the edges from the node to its users show their numbers now
        return changed;
      },
    });
  };
  return {
    start,
    introduction: "Each adjoint is the sum of the contributions of the node's users: local derivative × adjoint. Begin at the output.",
    impossible: "No node has an adjoint here.",
    hidesValue: () => false,
    hidesAdjoint: (i) => unanswered.has(i) || !(backwardStep.has(i) ? playback.hasContributed(i)
      : users[i].every(({ node }) => !backwardStep.has(node) || playback.hasContributed(node))),
    questions: nodes.map(question),
  };
}

/** Likely wrong answers for an adjoint. */
function adjointMistakes(i) {
  const { computation } = playback;
  const label = mathOf(i);
  const adjoint = computation.adjoints[i];
  const terms = playback.computation.termsOf(i);
  const one = terms.length > 1 ? terms.map(({ node, contribution }) => ({
    number: contribution.amount,
    words: `that is the contribution of ${mathOf(node)} alone, and ${label} has ${terms.length} uses; add up all of them`,
  })) : [];
  const locals = terms.map(({ node, contribution }) => ({
    number: contribution.local,
    words: `that is the local derivative of ${mathOf(node)}; it is still to be multiplied by the adjoint of that node`,
  }));
  return [
    wrongSign(adjoint),
    ...one,
    ...locals,
    valueInstead(i),
  ];
}

/** A hint that lists the terms of an adjoint; `termOf` describes each, and `ofNone` is the reason if there are none. */
function sumHint(i, { ofOutput, termOf, ofNone }) {
  const label = mathOf(i);
  if (i === record.output) return ofOutput;
  const found = playback.computation.termsOf(i);
  const terms = found.map(({ node, position }) => `from ${mathOf(node)}: ${termOf(node, position)}`);
  if (terms.length === 0) return `${label} receives no contribution: ${ofNone}.`;
  const idle = [...new Set(users[i].map(({ node }) => node))].filter((node) => !found.some((term) => term.node === node));
  const [one, several] = idle.length ? ["one user", "these users"] : ["its user", "each user"];
  const whom = terms.length === 1 ? one : `${several}; add them up`;
  const others = idle.length ? ` ${listed(idle.map(mathOf))} contribute${idle.length === 1 ? "s" : ""} nothing.` : "";
  return `${label} receives local derivative × adjoint from ${whom}: ${terms.join("; ")}.${others}`;
}

function symbolicHint(node, position) {
  const { computation } = playback;
  if (computation.contribution(node, position).local === null) return math(computation.rule(node, position));
  const formula = computation.formula(node, position);
  return `${formula === undefined ? "local derivative" : math(formula)} × that node's adjoint`;
}

function numericHint(node, position) {
  const { computation } = playback;
  const contribution = computation.contribution(node, position);
  if (contribution.local === null) return `${math(computation.rule(node, position))}, with the adjoint ${brief(computation.adjoints[node])}`;
  const formula = computation.formula(node, position);
  const local = brief(contribution.local);
  const reason = formula === undefined || formula === local ? "" : `, where ${math(formula)} = ${local}`;
  return `${computation.product(node, contribution)}${reason}`;
}

const HINT = {
  ofOutput: "the output's adjoint is how fast the output changes with itself.",
  termOf: symbolicHint,
  ofNone: "its users do not pass their adjoints on",
};
const HINT_WITH_NUMBERS = {
  ofOutput: "if the output grows by 0.01, the output grows by 0.01: divide the one by the other.",
  termOf: numericHint,
  ofNone: "there is nothing to add up, and a sum without terms is 0",
};

/** Values, from the inputs up. */
function valueLevel() {
  const { computation } = playback;
  const errors = new RoundingErrors();
  const nodes = asked(record.forward);
  const unanswered = new Set(nodes);
  const question = (i) => {
    const { name, inputs, summary } = record.nodes[i];
    const label = mathOf(i);
    const used = [...new Set(inputs.map(mathOf))].join(" and ");
    const value = computation.values[i];
    return numberQuestion(value, errors.values[i], {
      node: i,
      title: `Value of ${label}`,
      mistakes: () => [
        wrongSign(value),
        ...(computation.adjoints[i] === null ? [] : [{ number: computation.adjoints[i], words: `that is the derivative of the output with respect to ${label}, and the question is for its value` }]),
      ],
      hint: () => `${math(name)}${summary ? `, ${summary}` : ""}: insert the value of ${used}.`,
      hintWithNumbers: () => {
        const inserted = plain(computation.forwardSentence(i)).replace(/^(.*)(?: = | is ).*$/su, "$1");
        return `${inserted === name ? listed(inputs.map((j) => `${mathOf(j)} is ${brief(computation.values[j])}`)) : math(inserted)}.`;
      },
      confirmation: () => computation.forwardSentence(i),
      reveal: () => {
        unanswered.delete(i);
        return playback.moveTo(forwardStep.get(i) + 1).add(i);
      },
    });
  };
  return {
    start: 0,
    introduction: "Each value is computed from the values of the node's inputs. Begin with the variables.",
    impossible: "There is nothing to compute here.",
    hidesValue: (i) => unanswered.has(i) || (forwardStep.has(i) && forwardStep.get(i) >= playback.position),
    hidesAdjoint: () => true,
    hidesSlopes: true,
    questions: nodes.map(question),
  };
}

/** Local derivatives: every operation is asked for once before any is repeated. */
function slopeLevel() {
  const { computation } = playback;
  const errors = new RoundingErrors();
  const candidates = asked(record.backward)
    .flatMap((i) => computation.contributions[i].map((contribution) => ({ i, contribution })))
    .filter(({ i, contribution }) => typeof contribution.local === "number" && computation.arrived.has(i));
  const seen = new Set();
  const [first, again] = [[], []];
  for (const one of candidates) {
    const key = `${record.nodes[one.i].op} ${one.contribution.position}`;
    (seen.has(key) ? again : first).push(one);
    seen.add(key);
  }
  const question = ({ i, contribution: { position, to, local, amount } }) => {
    const [label, towards] = [mathOf(i), mathOf(to)];
    const formula = computation.formula(i, position);
    const inNumbers = computation.formulaInNumbers(i, position);
    return numberQuestion(local, errors.locals[i].get(position), {
      node: i,
      title: `Local derivative of ${label} towards ${towards}`,
      mistakes: () => [
        wrongSign(local),
        valueInstead(i),
        { number: amount, words: `that is the contribution to ${towards}, already multiplied by the adjoint of ${label}` },
      ],
      hint: () => `how fast does ${label} change with ${towards} alone?${formula === inNumbers ? "" : ` The rule is ${math(formula)}.`}`,
      hintWithNumbers: () => `${formula === undefined ? computation.backwardSentence(i)
        : formula === inNumbers ? `the rule is ${math(formula)}, whatever the values are` : `${math(formula)} is ${math(inNumbers)}`}.`,
      confirmation: () => `the local derivative of ${label} with respect to ${towards} is ${brief(local)}`,
      reveal: () => [i],
    });
  };
  return {
    start: record.forward.length,
    introduction: "A local derivative is how fast the result of an operation changes with one input while the others are constant.",
    impossible: "The operations here work on whole arrays: their local derivatives are arrays, not single numbers.",
    hidesValue: () => false,
    hidesAdjoint: () => true,
    hidesSlopes: true,
    questions: [...first, ...again].slice(0, MOST_QUESTIONS).map(question),
  };
}
