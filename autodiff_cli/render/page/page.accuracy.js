// Stochastic arithmetic, as in the program: both passes again with perturbed rounding errors. What changes is inaccurate.

const ULP = 2 ** -52;
const SMALLEST_NORMAL = 2 ** -1022;
const UNDERFLOWED = 1024 * SMALLEST_NORMAL; // stands for a result that underflowed; normal also when it is perturbed
const SHORT_LIMIT = 2 ** 43; // below this, a multiple of 1/1024 counts as exact
const INACCURATE = 2e-12; // relative, of changes by an ulp; with rounding errors of half an ulp, 12 digits are correct
const NOISE = 1e-100; // changes of 0 by less are due to underflow
const RUNS = [3, 7, 11]; // a single run may leave an inaccurate number unchanged by chance
const bits = new DataView(new ArrayBuffer(8));

const elementsIn = (x) => x?.data ?? [x ?? NaN];
const isShort = (x) => Number.isInteger(1024 * x) && Math.abs(x) < SHORT_LIMIT;

/** Both passes, with every rounded number changed by up to `size` ulps. Equal numbers are changed alike, since they
 * are usually the same number, computed twice. */
function perturbedRun(point, size, seed, areGivenRounded = false) {
  const factor = (z) => {
    bits.setFloat64(0, Math.abs(z));
    const mixed = Math.imul(bits.getInt32(0) ^ Math.imul(bits.getInt32(4), 0x9e3779b1), 0x85ebca6b + 2 * seed);
    return 1 + size * ULP * (Math.imul(mixed ^ (mixed >>> 15), 0xc2b2ae35) / 2 ** 31);
  };
  const mapped = (x, of) => (typeof x === "number" ? of(x, 0) : { ...x, data: x.data.map(of) });
  return evaluator.run(point, (compute, inputs, { node, rounding, isStructural, isGiven, of }) => {
    if (rounding === 0 || (isGiven && !areGivenRounded)) return compute(...inputs);
    const isEnd = (z) => record.nodes[node]?.ends?.includes(z); // a saturated activation is rounded to its end
    const given = isStructural ? inputs.map((x) => mapped(x, (z) => (isShort(z) ? z : z * factor(z)))) : inputs;
    const result = compute(...given);
    if (result === null) return null;
    const { length } = elementsIn(result);
    const placeIn = (x, k) => Math.abs(typeof x === "number" ? x : x.data.length === length ? x.data[k] : NaN);
    const isEach = (is) => inputs.every((x) => elementsIn(x).every(is));
    const [areShort, areNonzero] = isStructural ? [isEach(isShort), isEach(Boolean)] : [];
    return mapped(result, (z, k) => {
      const at = isStructural ? [] : inputs.map((x) => placeIn(x, k));
      const isPositive = areNonzero ?? at.every((x, position) => x > 0 || (position === 0 && record.nodes[of]?.ends));
      const hasUnderflowed = Math.abs(z) < SMALLEST_NORMAL && (rounding === 3 || (rounding === 2 && isPositive)) && placeIn(result.present ?? 1, k) !== 0;
      if (hasUnderflowed) return (z < 0 ? -1 : 1) * UNDERFLOWED * factor(z);
      const isCopy = at.includes(Math.abs(z)) && (rounding > 1 || at.length === 1 || at.includes(0));
      return isCopy || (isShort(z) && (areShort ?? at.every(isShort)) && !isEnd(z)) ? z : z * factor(z);
    });
  });
}

/** Whether rounding, underflow or overflow leaves fewer than 12 correct digits: of the output, and of any derivative; and whether
 * all numbers are finite, with (`isSmooth`) correct digits in all derivatives. */
function inaccuracies(point) {
  const places = record.variables.map(({ node }) => node).filter((node) => node !== null && takesGradient(node));
  const shown = ({ values, adjoints }) => [values[record.output], ...places.map((i) => adjoints[i])].map((x) => [...elementsIn(x)]);
  const numbers = shown(evaluator.run(point));
  const runs = RUNS.map((seed) => shown(perturbedRun(point, 1, seed)));
  const isChanged = (number, x) => (Number.isFinite(number) ? !(Math.abs(x - number) <= INACCURATE * Math.abs(number)) : Number.isFinite(x));
  const isNoise = (number, x) => number === 0 && Math.abs(x) > NOISE; // a derivative whose terms cancel is usually 0
  const [ofOutput, ...ofDerivatives] = numbers.map((elements, k) => runs.some((run) => elements.some((x, at) => isChanged(x, run[k][at]) && !(k && isNoise(x, run[k][at])))));
  const [isFinite, ofGradient] = [numbers.flat().every(Number.isFinite), ofDerivatives.includes(true)];
  return { ofOutput, ofAny: ofOutput || ofGradient, isFinite, isSmooth: isFinite && !ofGradient };
}

/** How far values, adjoints and local derivatives (by node and position) may be from exact ones, in any element of an array. */
class RoundingErrors {
  constructor() {
    const { point } = playback;
    const numbersOf = ({ values, adjoints, contributions }) => [...values, ...adjoints, ...contributions.flat().map(({ local }) => local)].map(elementsIn);
    const plain = evaluator.run(point);
    const from = numbersOf(plain);
    const changesBy = (size, seed) => numbersOf(perturbedRun(point, size, seed, true))
      .map((numbers, k) => Math.max(...Array.from(numbers, (x, at) => Math.abs(x - from[k][at]))));
    const changes = from.map(() => 0);
    for (const seed of RUNS) {
      const [whole, small] = [changesBy(SIZE, seed), changesBy(SIZE / SMALLER, seed)];
      whole.forEach((change, k) => { if (LINEAR * small[k] <= change) changes[k] = Math.max(changes[k], change); });
    }
    const { length } = plain.values;
    const rest = changes.slice(2 * length);
    this.values = changes.slice(0, length);
    this.adjoints = changes.slice(length, 2 * length);
    this.locals = plain.contributions.map((ofNode) => new Map(ofNode.map(({ position }) => [position, rest.shift()])));
  }
}
