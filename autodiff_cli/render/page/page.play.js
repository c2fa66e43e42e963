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
  const length = byId("explanation").innerText.length;
  return Math.min(Math.max(READING.least, length * READING.each), READING.most) / speed();
}

/** Go to a step and explain it. `travels` gives the milliseconds for which numbers move along edges, from the reading time. */
function go(position, travels = () => 0) {
  isUntouched = false;
  leaveQuiz();
  graph.finishTravel();
  const [i, isBackward] = playback.at(position);
  const duration = stillness.matches ? 0 : 1;
  const isFolded = graph.follow(i, position === playback.length || position === record.forward.length ? "end" : ""); // a pass ends with the whole drawing
  if (i !== null && duration && position > playback.position) graph.defer(i, isBackward ? record.nodes[i].inputs : [i]);
  const changed = playback.moveTo(position);
  draw(isFolded ? record.nodes.keys() : changed);
  explain();
  explanation.show();
  if (playback.current !== null) {
    panel.show(playback.current);
    byId("app").scrollIntoView({ block: "nearest" });
  }
  const time = duration * travels(readingTime());
  if (time > 0) graph.travel(playback.current, playback.isBackward, time, movementText);
  else graph.finishTravel();
}

/** The text that the current step moves between its node and the input at a position; null if nothing moves there. */
function movementText(position) {
  const { computation } = playback;
  if (!playback.isBackward) return compact(computation.values[record.nodes[playback.current].inputs[position]]);
  const contribution = computation.contribution(playback.current, position);
  if (!contribution || contribution.nothing) return null;
  const amount = compact(contribution.amount);
  return contribution.local === null || Array.isArray(contribution.amount) ? amount : `${computation.product(playback.current, contribution)} = ${amount}`;
}

/** Show a remark: on the page before the first step, on the 1 with which the backward pass begins, and at the end on
 * the meaning of the gradient. */
function remark() {
  const { computation } = playback;
  const isFirst = playback.backwardSteps === 1 || (playback.isSeeded && playback.backwardSteps === 0);
  const last = playback.position === playback.length && record.backward.length ? record.closing : [];
  const first = isFirst && !last.length ? [record.beginning] : [];
  const sentences = isUntouched ? [opening()] : [...first, ...last].map((phrase) => computation.sentence(phrase));
  byId("remark").classList.toggle("closing", last.length > 0); // on a phone it gets more room
  byId("remark").replaceChildren(...(playback.quiz || playback.tangents ? [] : sentences).map((text) => htmlElement("p", text)));
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
  if (start !== playback.position) go(start);
  if (stillness.matches) {
    go(end);
    return;
  }
  button.setAttribute("aria-pressed", "true");
  byId("status").setAttribute("aria-busy", "true"); // only the last step is read aloud
  const next = () => {
    if (playback.position >= end) {
      pause();
      return;
    }
    if (playback.position === record.forward.length && !playback.isSeeded && end > playback.position) seed();
    else go(playback.position + 1, (time) => Math.min(TRAVEL.share * time, TRAVEL.most));
    timer = setTimeout(next, readingTime());
  };
  next();
}

/** Show the state before the first backward step: only the output has an adjoint. */
function seed() {
  isUntouched = false;
  playback.isSeeded = true;
  draw([record.output]);
  graph.markCurrent(record.output, true);
  panel.show(record.output);
  showStatus("The backward pass begins at the output.");
  explanation.follow();
  explanation.show();
}

function forwardPass() {
  const end = record.forward.length;
  play(byId("forward-pass"), playback.position < end ? playback.position : 0, end);
}

function backwardPass() {
  const begin = record.forward.length;
  const isUnderWay = playback.position >= begin && playback.position < playback.length;
  play(byId("backward-pass"), isUnderWay ? playback.position : begin, playback.length);
}

/** Make a step, forward (1) or back (-1), unless there is none. */
function step(count) {
  pause();
  const position = playback.position + count;
  if (position >= 0 && position <= playback.length) go(position, () => (count > 0 ? TRAVEL.step / speed() : 0));
}

function reset() {
  pause();
  go(0);
}
