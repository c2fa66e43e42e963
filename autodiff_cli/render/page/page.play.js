// Playing the passes: reading times, numbers that move along edges, and remarks before the first and after the last step.

const READING = { least: 1000, each: 32, most: 4000 }; // milliseconds: for a step, for each character of its words
const TRAVEL = { share: 0.55, most: 1400, step: 900 }; // of a step that plays, and of one that is made by hand

let timer = 0;

/** The speed relative to comfortable reading. */
function speed() {
  return 2 ** Number(byId("speed").value);
}

/** The time in milliseconds to read the current explanation. */
function readingTime() {
  const said = byId("explanation").innerText.length;
  return Math.min(Math.max(READING.least, said * READING.each), READING.most) / speed();
}

/** Go to a step and explain it. `travels` gives the milliseconds for which numbers move along edges, from the reading time. */
function go(position, travels = () => 0) {
  leaveQuiz();
  graph.arrive();
  const [i, isBackward] = walk.at(position);
  const duration = stillness.matches ? 0 : 1;
  if (i !== null && duration && position > walk.position) graph.hold(i, isBackward ? record.nodes[i].inputs : [i]);
  const changed = walk.moveTo(position);
  draw(changed);
  explain();
  if (walk.current !== null) panel.show(walk.current);
  const time = duration * travels(readingTime());
  if (time > 0) graph.travel(walk.current, walk.isBackward, time, travelling);
  else graph.arrive();
}

/** The text that moves along an edge of the current step between a node and its input; null for none. */
function travelling(position, input) {
  const { computation } = walk;
  if (!walk.isBackward) return compact(computation.values[input]);
  const given = computation.handed(walk.current, position);
  if (!given || given.nothing) return null;
  const amount = compact(given.amount);
  return given.local === null || Array.isArray(given.amount) ? amount : `${computation.product(walk.current, given)} = ${amount}`;
}

/** Remark why the backward pass begins with 1, and at the end what the gradient means. */
function remark() {
  const { computation } = walk;
  const isFirst = walk.backwardSteps === 1 || (walk.isSeeded && walk.backwardSteps === 0);
  const first = isFirst ? [record.beginning] : [];
  const last = walk.position === walk.length && record.backward.length ? record.closing : [];
  const paragraphs = (walk.quiz || walk.tangents ? [] : [...first, ...last]).map((phrase) => made("p", computation.say(phrase)));
  byId("remark").replaceChildren(...paragraphs);
}

function pause() {
  clearTimeout(timer);
  timer = 0;
  byId("status").removeAttribute("aria-busy");
  for (const id of ["forward-pass", "backward-pass"]) byId(id).setAttribute("aria-pressed", "false");
}

/** Play the steps up to `end`, or stop if they are being played. */
function play(button, start, end) {
  const isPlaying = button.getAttribute("aria-pressed") === "true";
  pause();
  if (isPlaying) return;
  if (start !== walk.position) go(start);
  if (stillness.matches) {
    go(end);
    return;
  }
  button.setAttribute("aria-pressed", "true");
  byId("status").setAttribute("aria-busy", "true"); // only the last step is read aloud
  const next = () => {
    if (walk.position >= end) {
      pause();
      return;
    }
    if (walk.position === record.forward.length && !walk.isSeeded && end > walk.position) seed();
    else go(walk.position + 1, (time) => Math.min(TRAVEL.share * time, TRAVEL.most));
    timer = setTimeout(next, readingTime());
  };
  next();
}

/** Show the state before the first backward step: only the output has an adjoint. */
function seed() {
  walk.isSeeded = true;
  draw([record.output]);
  graph.light(record.output, true, false);
  highlight(record.output);
  panel.show(record.output);
  say("The backward pass begins at the output.");
}

function forwardPass() {
  const end = record.forward.length;
  play(byId("forward-pass"), walk.position < end ? walk.position : 0, end);
}

function backwardPass() {
  const begin = record.forward.length;
  const isUnderWay = walk.position >= begin && walk.position < walk.length;
  play(byId("backward-pass"), isUnderWay ? walk.position : begin, walk.length);
}

/** Make a step, forward (1) or back (-1), unless there is none. */
function step(count) {
  pause();
  const position = walk.position + count;
  if (position >= 0 && position <= walk.length) go(position, () => (count > 0 ? TRAVEL.step / speed() : 0));
}

function reset() {
  pause();
  go(0);
}
