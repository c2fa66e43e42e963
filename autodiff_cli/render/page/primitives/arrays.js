// Arrays: {shape, data}, data a Float64Array in the order of the rows; numbers stay numbers. Operations on numbers are
// lifted to arrays by NumPy's rules of broadcasting; `$name` stands for `name`, lifted.
//
// What a choice selects away may be a part of an array: amounts then are {shape, data, present}, where `present`, an
// array of 1 and 0 that broadcasts to it, is 0 for those elements, and `data` too. A null stands for structurally
// nothing in any element.

const shapeOf = (x) => (typeof x === "number" ? [] : x.shape);
const dataOf = (x) => (typeof x === "number" ? [x] : x.data);
const sizeOf = (shape) => shape.reduce((product, length) => product * length, 1);
const make = (shape, data) => (shape.length ? { shape, data: Float64Array.from(data) } : data[0]);
const sameShape = (a, b) => a.length === b.length && a.every((length, axis) => length === b[axis]);

// --- what the passes need, see `scalars.js`

function read(value) {
  const shape = [];
  for (let inner = value; Array.isArray(inner); inner = inner[0]) shape.push(inner.length);
  return make(shape, [value].flat(Infinity));
}

const zero = (like) => make(shapeOf(like), dataOf(like).map(() => 0));

function chosen(local, mask) {
  if (typeof mask === "number") return mask !== 0 ? local : null;
  return mask.data.some((holds) => holds !== 0) ? { ...$where(mask, local, 0), present: mask } : null;
}

const presence = (amount) => amount.present ?? 1;
const times = (local, adjoint) => chosen($mul(local, adjoint), $and(presence(local), presence(adjoint)));
const plus = (a, b) => chosen($add(a, b), $or(presence(a), presence(b)));

function fitted(amount, like) {
  if (sameShape(shapeOf(amount), shapeOf(like))) return amount;
  const total = sum_like(amount, like);
  return amount.present ? chosen(total, sum_like(broadcast_like(amount.present, amount), like)) : total;
}

// A rate, broadcast to the shape of the value that changes at it.
function spread(rate, value) {
  if (sameShape(shapeOf(rate), shapeOf(value))) return rate;
  const stretched = broadcast_like(rate, value);
  return rate.present ? { ...stretched, present: broadcast_like(rate.present, value) } : stretched;
}

// The contribution of an operation that rearranges elements, with the mask of elements that are present.
function arranged(amounts, adjoint, output, passed) {
  if (!adjoint.present) return amounts;
  const present = passed(broadcast_like(adjoint.present, output));
  return amounts.map((amount, k) => (amount === null || present[k] === null ? null : chosen(amount, present[k])));
}

// --- element by element

function broadcast(shapes) {
  const rank = Math.max(...shapes.map((shape) => shape.length));
  return Array.from({ length: rank }, (_, axis) => {
    const lengths = shapes.map((shape) => shape[axis - rank + shape.length] ?? 1);
    return lengths.find((length) => length !== 1) ?? 1;
  });
}

// Where in an array of shape `from` each element of shape `to`, which it broadcasts to, comes from.
function sources(from, to) {
  let positions = [0];
  let stride = sizeOf(from);
  to.forEach((length, axis) => {
    const own = from[axis - to.length + from.length] ?? 1;
    stride /= own;
    const steps = Array.from({ length }, (_, k) => (own === 1 ? 0 : k * stride));
    positions = positions.flatMap((position) => steps.map((step) => position + step));
  });
  return positions;
}

function stretched(x, shape) {
  const data = dataOf(x);
  return sameShape(shapeOf(x), shape) ? data : sources(shapeOf(x), shape).map((position) => data[position]);
}

function lift(f) {
  return (...xs) => {
    if (xs.every((x) => typeof x === "number")) return f(...xs);
    const shape = broadcast(xs.map(shapeOf));
    const columns = xs.map((x) => stretched(x, shape));
    const data = new Float64Array(sizeOf(shape));
    for (let i = 0; i < data.length; i++) data[i] = f(...columns.map((column) => column[i]));
    return { shape, data };
  };
}

// --- operations on whole arrays

const broadcast_like = (x, like) => {
  const shape = broadcast([shapeOf(x), shapeOf(like)]);
  return make(shape, stretched(x, shape));
};

function sum_like(x, like) {
  const data = new Float64Array(sizeOf(shapeOf(like)));
  const places = sources(shapeOf(like), shapeOf(x));
  dataOf(x).forEach((element, i) => (data[places[i]] += element));
  return make(shapeOf(like), data);
}

const sum = (x) => dataOf(x).reduce((total, element) => total + element, 0);
const prod = (x) => dataOf(x).reduce((product, element) => product * element, 1);
const size = (x) => dataOf(x).length;
const largest = (x) => dataOf(x).reduce((best, element) => Math.max(best, element));
const smallest = (x) => dataOf(x).reduce((best, element) => Math.min(best, element));

// Scaled by the largest, so that no square overflows or vanishes.
function norm(x) {
  const scale = largest(lift(Math.abs)(x));
  if (!(scale > 0 && scale < Infinity)) return scale;
  return scale * Math.sqrt(dataOf(x).reduce((total, element) => total + (element / scale) ** 2, 0));
}

function logsumexp(x) {
  const top = largest(x);
  const level = Number.isFinite(top) ? top : 0;
  return level + Math.log(dataOf(x).reduce((total, element) => total + Math.exp(element - level), 0));
}

function softmax(x) {
  const top = largest(x);
  const level = Number.isFinite(top) ? top : 0;
  const powers = dataOf(x).map((element) => Math.exp(element - level));
  const total = powers.reduce((sum, power) => sum + power, 0);
  return make(shapeOf(x), powers.map((power) => power / total));
}

const dot = (a, b) => dataOf(a).reduce((total, element, i) => total + element * dataOf(b)[i], 0);

function matmul(a, b) {
  const inner = b.shape[0];
  const columns = sizeOf(b.shape.slice(1));
  const data = new Float64Array(sizeOf(a.shape.slice(0, -1)) * columns);
  a.data.forEach((element, i) => {
    const row = Math.floor(i / inner);
    for (let j = 0; j < columns; j++) data[row * columns + j] += element * b.data[(i % inner) * columns + j];
  });
  return make([...a.shape.slice(0, -1), ...b.shape.slice(1)], data);
}

const outer = (a, b) => make([...a.shape, ...b.shape], [...a.data].flatMap((x) => [...b.data].map((y) => x * y)));

function transpose(x) {
  if (shapeOf(x).length < 2) return x;
  const [rows, columns] = x.shape;
  return make([columns, rows], x.data.map((_, i) => x.data[(i % rows) * columns + Math.floor(i / rows)]));
}

const stack = (...xs) => make([xs.length, ...shapeOf(xs[0])], xs.flatMap((x) => [...dataOf(x)]));

function concat(...xs) {
  const rows = xs.reduce((total, x) => total + x.shape[0], 0);
  return make([rows, ...xs[0].shape.slice(1)], xs.flatMap((x) => [...x.data]));
}

// The shape and the first element of what stands at an index of an array.
function spot(shape, positions) {
  const rest = shape.slice(positions.length);
  const start = positions.reduce((offset, position, axis) => offset * shape[axis] + position, 0);
  return [rest, start * sizeOf(rest)];
}

function index(x, ...positions) {
  const [shape, start] = spot(x.shape, positions);
  return make(shape, x.data.slice(start, start + sizeOf(shape)));
}

function place(x, like, ...positions) {
  const placed = zero(like);
  placed.data.set(dataOf(x), spot(like.shape, positions)[1]);
  return placed;
}

function part(x, start, stop) {
  const row = sizeOf(x.shape.slice(1));
  return make([stop - start, ...x.shape.slice(1)], x.data.slice(start * row, stop * row));
}

const pad = (x, start, stop, like) => place(x, like, start);
