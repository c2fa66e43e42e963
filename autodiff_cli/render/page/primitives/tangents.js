// Forward mode over the steps of an evaluator; see `passes.js`.

// Returns the evaluator with a function `tangents`, which computes how fast every node changes when the variables
// change at the rates `seeds`, by name (null for a node that does not depend on them), and the contribution of each
// input.
function with_tangents(evaluator) {
  function tangents(values, seeds) {
    const rates = values.map(() => null);
    const carried = values.map(() => []);
    for (const [i, name] of evaluator.leaves) if (Object.hasOwn(seeds, name)) rates[i] = read(seeds[name]);
    for (const step of evaluator.steps) {
      carried[step.node] = carry(step, values, rates);
      const amounts = carried[step.node].map(({ amount }) => amount);
      const total = amounts.reduce((before, x) => (before === null ? x : plus(before, x)), null);
      rates[step.node] = total === null ? null : spread(total, values[step.node]);
    }
    return { rates, carried };
  }

  return { ...evaluator, tangents };
}

// The contributions of the inputs of a node to its rate. An operation on whole arrays has a rule for reverse mode;
// applied to each element of its output, it gives forward mode too.
function carry({ node, inputs, rule, wanted, live, isStructural }, values, rates) {
  const inputValues = valuesOf(inputs, values);
  const moving = wanted.map((position, k) => ({ position, k, to: inputs[position] }))
    .filter(({ position, to }) => live.has(position) && rates[to] !== null);
  if (moving.length === 0) return [];
  if (isStructural) {
    const rows = ones(values[node]).map((one) => rule(one, values[node], ...inputValues));
    return moving.map(({ position, k, to }) => {
      const amounts = rows.map((row) => (row[k] === null ? 0 : inner_product(fitted(row[k], values[to]), rates[to])));
      return { position, to, local: null, amount: alike(values[node], amounts) };
    });
  }
  const locals = rule(values[node], ...inputValues);
  return moving.filter(({ k }) => locals[k] !== null)
    .map(({ position, k, to }) => ({ position, to, local: locals[k], amount: times(locals[k], rates[to]) }))
    .filter(({ amount }) => amount !== null);
}

// Numbers in the shape of a value.
function alike(value, numbers) {
  return typeof value === "number" ? numbers[0] : { shape: value.shape, data: Float64Array.from(numbers) };
}

// Sum of the products of elements; elements at which the rate is 0 are skipped.
function inner_product(amount, rate) {
  if (typeof rate === "number") return rate === 0 ? 0 : amount * rate;
  return rate.data.reduce((total, x, k) => (x === 0 ? total : total + amount.data[k] * x), 0);
}
