// Training in the page: with another method, rate, start, noise or network, on the rows of the page.

const SLICE = 150; // milliseconds of computing between two pictures
const MOST_HIDDEN = 16; // units of a hidden layer
const MOST_LAYERS = 3; // hidden layers
const { evaluator: _, ...asRecorded } = recording;
const original = { ...asRecorded, evaluator, targets: [...targets] };
let round = 0; // the seed of starts and noise
let learning = 0; // the timer of a run

/** Pseudo-random numbers from a normal distribution, the same for the same seed (mulberry32, and the method of Box and Muller). */
function normalNumbers(start) {
  let state = start;
  const uniform = () => {
    state = (state + 0x6d2b79f5) | 0;
    let bits = Math.imul(state ^ (state >>> 15), 1 | state);
    bits = (bits + Math.imul(bits ^ (bits >>> 7), 61 | bits)) ^ bits;
    return ((bits ^ (bits >>> 14)) >>> 0) / 2 ** 32;
  };
  return () => Math.sqrt(-2 * Math.log(1 - uniform())) * Math.cos(2 * Math.PI * uniform());
}

/** The settings of the network: the numbers of hidden units, and their activation; null if the units cannot be read. */
function selectedNetwork() {
  const units = byId("again-hidden").value.trim().split(/[\s,]+/).map(Number);
  const isRight = units.every((count) => Number.isInteger(count) && count >= 1 && count <= MOST_HIDDEN) && units.length <= MOST_LAYERS;
  return isRight ? { units, activation: byId("again-activation").value } : null;
}

/** Train another network, or the network of the fit. */
function useNetwork({ units, activation }) {
  const isOwn = isNetworkOf(original, units, activation);
  if (isOwn) Object.assign(recording, original);
  else {
    const others = original.names.map((name, k) => [name, original.shapes[k]]).filter(([name]) => !name.startsWith("mlp."));
    const shapeOfOwn = (name) => original.shapes[original.names.indexOf(name)];
    const sizes = [shapeOfOwn("mlp.0.weight")[1], ...units, shapeOfOwn(`mlp.${original.hidden.length}.weight`)[0]];
    const own = sizes.slice(1).flatMap((size, k) => [[`mlp.${k}.weight`, [size, sizes[k]]], [`mlp.${k}.bias`, [size]]]);
    const shapes = [...others, ...own];
    Object.assign(recording, original.networks[`${units.length} ${activation}`], {
      evaluator: networks[`${units.length} ${activation}`],
      names: shapes.map(([name]) => name),
      shapes: shapes.map(([, shape]) => shape),
      layers: own.map(([name]) => name).filter((name) => name.endsWith("weight")),
    });
  }
  byId("app").hidden = !isOwn; // it has the steps of the fit
  byId("again-steps").hidden = isOwn;
  tabs.refresh(); // hidden panels have none
}

const isNetworkOf = ({ hidden, activation }, units, selected) => !hidden || (units.join() === hidden.join() && selected === activation);

/** The starting values: the parameters of the fit, or random ones; weights of layers are scaled by the number of
 * their inputs. */
function startingParameters(isRandom, normal) {
  const { theta } = original.epochs[0];
  if (!isRandom) return [...theta];
  const scales = recording.shapes.flatMap((shape, k) => {
    return Array(countIn(shape)).fill(recording.layers.includes(recording.names[k]) ? Math.sqrt(1 / shape.at(-1)) : 1);
  });
  return scales.map((scale) => scale * normal());
}

/** Whether noise can be added to the target: if it is a column of numbers, of which the loss takes any. */
const hasNoisyTarget = recording.takesAnyTarget && !isClasses && Object.hasOwn(recording.columns, recording.targetName);

/** Add noise to the target of every row, in standard deviations of the target. */
function addNoise(amount, normal) {
  if (!hasNoisyTarget) return;
  const mean = original.targets.reduce((a, b) => a + b, 0) / original.targets.length;
  const spread = Math.sqrt(original.targets.reduce((all, x) => all + (x - mean) ** 2, 0) / original.targets.length);
  original.targets.forEach((x, k) => {
    targets[k] = x + (amount ? amount * spread * normal() : 0);
    rowPoints[k][recording.targetName] = targets[k];
  });
}

/** The mean loss over the rows of the page and its gradient, in the order of the parameter vector. */
function lossAndGradient(theta) {
  const parameters = parametersOf(theta);
  const nodes = new Map(recording.evaluator.leaves.map(([node, name]) => [name, node]));
  const gradient = theta.map(() => 0);
  let loss = 0;
  for (const row of rowPoints) {
    const { values, adjoints } = recording.evaluator.run({ ...parameters, ...row });
    loss += values.at(-1) / rowPoints.length;
    const slopes = recording.names.flatMap((name, k) => {
      const adjoint = adjoints[nodes.get(name)] ?? null;
      return adjoint === null ? Array(countIn(recording.shapes[k])).fill(0) : [nested(adjoint)].flat(Infinity);
    });
    slopes.forEach((x, n) => { gradient[n] += x / rowPoints.length; });
  }
  return { loss, gradient };
}

/** Train with the settings of the form, and update the pictures. */
function learnAgain() {
  stopLearning();
  stopPlaying();
  const [rate, count] = ["again-rate", "again-epochs"].map((id) => Number(byId(id).value));
  const isRight = rate > 0 && Number.isFinite(rate) && Number.isInteger(count) && count >= 1 && count <= 1000;
  if (!isRight) {
    byId("again-text").textContent = "The rate is a number above 0, and the epochs a whole number from 1 to 1000.";
    return;
  }
  const network = recording.networks ? selectedNetwork() : { units: [], activation: "" };
  if (network === null) {
    byId("again-text").textContent = `Hidden units are 1 to ${MOST_LAYERS} whole numbers from 1 to ${MOST_HIDDEN}, such as 8, 4.`;
    return;
  }
  round++;
  const normal = normalNumbers(round);
  useNetwork(network);
  const method = byId("again-method").value;
  if (recording.evaluator !== evaluator) byId("again-start").value = "random"; // the fit has no parameters for another network
  let theta = startingParameters(byId("again-start").value === "random", normal);
  addNoise(Number(byId("again-noise").value), normal);
  let memory = theta.map(() => undefined);
  Object.assign(recording, { epochs: [], step: "epoch" });
  isNewNetwork = true;
  const work = () => {
    const end = performance.now() + SLICE;
    do {
      const { loss, gradient } = lossAndGradient(theta);
      if (![loss, ...theta].every(Number.isFinite)) {
        finish(`It diverged at epoch ${recording.epochs.length}: try a smaller rate.`);
        return;
      }
      recording.epochs.push({ number: recording.epochs.length, loss, validation: null, theta });
      const steps = theta.map((x, k) => methods[method](x, gradient[k], rate, recording.epochs.length, memory[k]));
      memory = steps.map(({ theta: _, ...remembered }) => remembered);
      theta = steps.map((step) => step.theta);
    } while (performance.now() < end && recording.epochs.length <= count);
    if (recording.epochs.length > count) {
      const [first, last] = [0, -1].map((k) => recording.epochs.at(k).loss);
      const advice = last > first ? " The loss rose: try a smaller rate." : "";
      finish(`${method} ran for ${count} epochs on the ${rowPoints.length} rows of this page, without weights and penalties: loss ${brief(first)} → ${brief(last)}.${advice}`);
    } else {
      showLast();
      learning = setTimeout(work, 0);
    }
  };
  const finish = (words) => {
    learning = 0;
    setText(byId("again-text"), words);
    if (recording.epochs.length) showLast();
    else showOriginal();
  };
  byId("again-text").textContent = "Learning …";
  work();
}

let isNewNetwork = false;

function showLast() {
  if (isNewNetwork) {
    byId("parameters").tBodies[0].replaceChildren();
    valueCells = valueRows();
    chainCurves.clear(); // the axes depend on the first epoch and on the noise
    showDraw();
    isNewNetwork = false;
  }
  setEpoch(recording.epochs.length - 1);
  showEpoch();
}

function stopLearning() {
  clearTimeout(learning);
  learning = 0;
}

/** Show the fit that the page was made with. */
function showOriginal() {
  stopLearning();
  stopPlaying();
  addNoise(0);
  if (original.networks) showNetwork();
  useNetwork({ units: original.hidden ?? [], activation: original.activation });
  Object.assign(recording, { epochs: original.epochs, step: original.step });
  isNewNetwork = true;
  showLast();
  byId("again-text").textContent = "The fit with which this page was made.";
}

function showNetwork() {
  byId("again-hidden").value = original.hidden.join(", ");
  byId("again-activation").value = original.activation;
}

for (const id of ["again-hidden", "again-activation"]) byId(id).closest("label").hidden = !recording.networks;
if (recording.networks) {
  const activations = new Set(Object.keys(recording.networks).map((key) => key.split(" ")[1]));
  byId("again-activation").append(...[...activations].map((name) => htmlElement("option", name)));
  showNetwork();
}
byId("again-method").append(...Object.keys(methods).map((name) => htmlElement("option", name)));
byId("again-method").value = "adam";
byId("again-noise").closest("label").hidden = !hasNoisyTarget;
byId("again").addEventListener("submit", (event) => {
  event.preventDefault();
  learnAgain();
});
byId("again-original").addEventListener("click", showOriginal);
