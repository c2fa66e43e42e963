// The forward and the reverse pass, like those of the package `autodiff`.
//
// rows: one per operation, in topological order: [node, function, inputs, rule, wanted, live, isStructural, arranges,
// isShown, rounding]. A rule is for the inputs at the positions `wanted`; only those in `live` receive contributions. The rule
// of an elementwise operation computes one local derivative per input from the output and the inputs; that of a structural
// operation computes one amount per input from the adjoint, the output and the inputs. A null is a structural zero. An
// operation that `arranges` treats the mask of an adjoint like the adjoint. If `isShown`, contributions have a `jacobian`.
// `rounding` is 0 for exact results, 1 for rounded ones, 2 and 3 if a
// result of 0 has underflowed, 2 unless an input is 0. `perform` computes each result.
// After the local derivatives a rule may return the values of the formulas that people read, and all rules whether there is a kink;
// that of an elementwise operation also whether it is singular.

function passes(reached, constants, leaves, rows) {
  const steps = rows.map(([node, apply, inputs, rule, wanted, live, isStructural, arranges, isShown, rounding]) => {
    return { node, apply, inputs, rule, wanted, live: new Set(live), isStructural, arranges, isShown, rounding };
  });

  function forward(point, perform = compute) {
    const values = new Array(reached.length);
    for (const [i, number] of constants) values[i] = perform(() => number, [], { rounding: 1 });
    for (const [i, name] of leaves) values[i] = perform(() => read(point[name]), [], { rounding: 1, isGiven: true });
    for (const step of steps) values[step.node] = perform(step.apply, valuesOf(step.inputs, values), step);
    return values;
  }

  // The adjoint of the node `overwritten` is overwritten instead of accumulated: the bug that the quiz asks for.
  function reverse(values, overwritten = -1, perform = compute) {
    const arrived = values.map(() => null);
    const contributions = values.map(() => []);
    arrived[arrived.length - 1] = 1; // the output is the last node
    for (let s = steps.length - 1; s >= 0; s--) {
      const step = steps[s];
      if (!reached[step.node]) continue;
      for (const contribution of contributionsOf(step, values, arrived[step.node], perform)) {
        const { to } = contribution;
        contributions[step.node].push(contribution);
        const isFirst = arrived[to] === null || to === overwritten;
        if (!contribution.nothing) arrived[to] = isFirst ? contribution.amount : perform(plus, [arrived[to], contribution.amount], { rounding: 1 });
      }
    }
    const adjoints = arrived.map((adjoint, i) => (reached[i] ? adjoint ?? zero(values[i]) : null));
    return { adjoints, contributions };
  }

  // The contributions of a node to its inputs that take a gradient.
  function contributionsOf(step, values, adjoint, perform) {
    const { node, inputs, rule, wanted, live, isStructural, arranges, isShown } = step;
    const inputValues = valuesOf(inputs, values);
    const passed = (arriving) => rule(arriving, values[node], ...inputValues);
    let results = wanted.map(() => null);
    if (!isStructural) results = rule(values[node], ...inputValues);
    else if (adjoint !== null) results = passed(adjoint);
    if (arranges && adjoint !== null) results = arranged(results, adjoint, values[node], passed);
    return wanted.map((position, k) => {
      const to = inputs[position];
      const local = isStructural ? null : results[k] ?? 0;
      const isAbsent = adjoint === null || results[k] === null || !live.has(position);
      // Two choices may select different elements: then nothing remains.
      const arriving = isAbsent ? null : isStructural ? perform(() => results[k], [adjoint, ...inputValues], step)
        : perform(times, [local, adjoint], { rounding: 2, of: node });
      const amount = arriving === null ? null : fitted(arriving, inputValues[position]);
      const nothing = amount === null;
      const shown = isShown ? { jacobian: jacobian(passed, values[node]) } : {};
      const besides = isStructural ? { kink: results[wanted.length] } : { read: results[wanted.length + k], kink: results[2 * wanted.length], singular: results[2 * wanted.length + 1] };
      return { position, to, local, amount: nothing ? zero(values[to]) : amount, nothing, ...shown, ...besides };
    });
  }

  function run(point, perform) {
    const values = forward(point, perform);
    return { values, ...reverse(values, -1, perform) };
  }

  return { run, forward, reverse, steps, leaves };
}

const compute = (operation, inputs) => operation(...inputs);

// The Jacobian of a value with respect to an input: an adjoint that is 1 at one element gives the row of that element.
function jacobian(passed, value) {
  if (typeof value === "number") return passed(1)[0];
  const rows = ones(value).map((one) => passed(one)[0]);
  const data = Float64Array.from(rows.flatMap((row) => [...row.data]));
  return { shape: [...value.shape, ...rows[0].shape], data };
}

function valuesOf(nodes, values) {
  return nodes.map((node) => values[node]);
}

// For each element of a value the array that is 1 there and 0 elsewhere.
function ones(value) {
  if (typeof value === "number") return [1];
  const one = (k) => ({ shape: value.shape, data: Float64Array.from(value.data, (_, j) => Number(j === k)) });
  return Array.from(value.data, (_, k) => one(k));
}
