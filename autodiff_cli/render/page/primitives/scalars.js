// What the passes need of values and amounts, where every value is a number. A null stands for structurally nothing.
// `arrays.js` has the same names for formulas with arrays.

const read = (value) => value;
const zero = () => 0;
const chosen = (local, mask) => (mask !== 0 ? local : null);
const times = (local, adjoint) => local * adjoint;
const plus = (a, b) => a + b;
const fitted = (amount) => amount;
const spread = (rate) => rate;
const arranged = (amounts) => amounts;
