// Levels of the quiz that ask for a node: which can go next, and where the bug is. They have choices, nodes by number.

const MOST_CHOICES = 4;
const MOST_BUGS = 3;

/** The order of the backward pass: which node has all its contributions? */
function nextLevel() {
  const start = record.forward.length;
  const waitsFor = (i, step) => users[i].map(({ node }) => node).filter((node) => backwardStep.get(node) >= step);
  const question = (right, step) => {
    const label = mathOf(right);
    const others = record.backward.slice(step + 1);
    const waiting = others.filter((i) => graph.isInSight(i) && waitsFor(i, step).length > 0).slice(0, MOST_CHOICES - 1);
    return {
      step,
      title: "Which node can go next?",
      choices: [right, ...waiting].sort((a, b) => a - b),
      isRight: (chosen) => waitsFor(chosen, step).length === 0,
      hint: () => "a node waits until all its users have contributed; follow its lines forward.",
      hintWithNumbers: (chosen) => {
        const names = [...new Set(waitsFor(chosen, step))].map(mathOf);
        return `${mathOf(chosen)} still waits for ${names.join(" and ")}.`;
      },
      confirmation: () => `${label} has the contributions of all its users`,
    };
  };
  const questions = record.backward.map(question).filter(({ choices, step }) => choices.length > 1 && graph.isInSight(record.backward[step]));
  return {
    start: start + (questions[0]?.step ?? 0),
    introduction: "In the backward pass a node passes its adjoint on when it is complete. Begin at the output.",
    impossible: "Here the order of the backward pass leaves no choice.",
    hidesValue: () => false,
    questions: questions.map((question, k) => ({
      ...question,
      reveal: () => playback.moveTo(start + (questions[k + 1]?.step ?? record.backward.length)),
    })),
  };
}

/** A program with a bug: one node has `=` where `+=` belongs. Which one? */
function bugLevel() {
  const correct = playback.computation;
  const takers = record.nodes.map((_, i) => i).filter((i) => takesGradient(i) && graph.isInSight(i));
  const fanOut = takers.filter((i) => users[i].filter(({ node }) => takesGradient(node)).length > 1);
  const bugs = fanOut.map((i) => ({ i, computation: computedWithBug(playback.point, i) }))
    .filter(({ i, computation }) => inFull(computation.adjoints[i]) !== inFull(correct.adjoints[i])).slice(0, MOST_BUGS);
  const question = ({ i, computation }, k) => {
    const decoys = takers.filter((j) => j !== i && j !== record.output);
    const offered = [...decoys.slice(k), ...decoys.slice(0, k)].slice(0, MOST_CHOICES - 1);
    return {
      computation,
      title: "Which node has = where += belongs?",
      choices: [i, ...offered].sort((a, b) => a - b),
      isRight: (chosen) => chosen === i,
      hint: () => "only a node with several users adds anything up. Go from the output down to the first adjoint that is not "
        + "the sum of the node's contributions.",
      hintWithNumbers: (chosen) => {
        const terms = computation.productsOf(chosen);
        return `${mathOf(chosen)} receives ${terms.length ? terms.join(" and ") : "nothing"}, and its adjoint is `
          + `${brief(computation.adjoints[chosen])}: nothing is lost there.`;
      },
      confirmation: () => `${mathOf(i)} receives ${computation.productsOf(i).join(" and ")}, in total `
        + `${brief(correct.adjoints[i])}, but has only the last, ${brief(computation.adjoints[i])}`,
      reveal: () => show(k + 1),
    };
  };
  const show = (k) => {
    playback.computation = bugs[k]?.computation ?? correct;
    return record.nodes.keys();
  };
  return {
    start: playback.length,
    introduction: "The adjoints in the drawing come from a program with a bug: one node does not add up its contributions.",
    impossible: fanOut.length === 0 ? "This bug needs a node with several users, and the visible part of the graph has none."
      : `At these values the bug changes nothing: the contributions to ${listed(fanOut.map(mathOf))}, except for the last, sum to 0. Try other values.`,
    hidesValue: () => false,
    begin: () => show(0),
    end: () => {
      if (bugs.some(({ computation }) => computation === playback.computation)) playback.computation = correct;
    },
    questions: bugs.map(question),
  };
}

/** The computation in which a node has only its last contribution. */
function computedWithBug(point, overwritten) {
  const values = evaluator.forward(point);
  return computationOf({ values, ...evaluator.reverse(values, overwritten) });
}

const levels = { adjoint: adjointLevel, value: valueLevel, "local derivative": slopeLevel, next: nextLevel, bug: bugLevel };
const titles = { next: "which node can go next?", bug: "find the bug" };
for (const name of ["value", "local derivative", "adjoint", "next", "bug"]) {
  const option = htmlElement("option", titles[name] ?? name);
  Object.assign(option, { value: name, selected: name === "adjoint" });
  byId("level").append(option);
}
byId("level").addEventListener("change", beginQuiz);
