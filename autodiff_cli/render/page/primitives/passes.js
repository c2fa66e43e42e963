// The forward and the reverse pass, like those of the package `autodiff`.
//
// rows: one per operation, in topological order: [node, function, inputs, rule, wanted, live, isStructural, arranges,
// isShown]. A rule is for the inputs at the positions `wanted`; only those in `live` receive contributions. The rule
// of an elementwise operation computes one local derivative per input from the output and the inputs; that of a structural
// operation computes one amount per input from the adjoint, the output and the inputs. A null is a structural zero. An
// operation that `arranges` treats the mask of an adjoint like the adjoint. If `isShown`, contributions have a `jacobian`.
// After the local derivatives a rule may return the values of the formulas that people read, and all rules whether there is a kink.

function passes(reached, constants, leaves, rows) {
  const steps = rows.map(([node, apply, inputs, rule, wanted, live, isStructural, arranges, isShown]) => {
    return { node, apply, inputs, rule, wanted, live: new Set(live), isStructural, arranges, isShown };
  });

  function forward(point) {
    const values = new Array(reached.length);
    for (const [i, number] of constants) values[i] = number;
    for (const [i, name] of leaves) values[i] = read(point[name]);
    for (const step of steps) values[step.node] = step.apply(...valuesOf(step.inputs, values));
    return values;
  }

  // The adjoint of the node `overwritten` is overwritten instead of accumulated: the bug that the quiz asks for.
  function reverse(values, overwritten = -1) {
    const arrived = values.map(() => null);
    const contributions = values.map(() => []);
    arrived[arrived.length - 1] = 1; // the output is the last node
    for (let s = steps.length - 1; s >= 0; s--) {
      const step = steps[s];
      if (!reached[step.node]) continue;
      for (const contribution of contributionsOf(step, values, arrived[step.node])) {
        const { to } = contribution;
        contributions[step.node].push(contribution);
        const isFirst = arrived[to] === null || to === overwritten;
        if (!contribution.nothing) arrived[to] = isFirst ? contribution.amount : plus(arrived[to], contribution.amount);
      }
    }
    const adjoints = arrived.map((adjoint, i) => (reached[i] ? adjoint ?? zero(values[i]) : null));
    return { adjoints, contributions };
  }

  // The contributions of a node to its inputs that take a gradient.
  function contributionsOf({ node, inputs, rule, wanted, live, isStructural, arranges, isShown }, values, adjoint) {
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
      const arriving = isAbsent ? null : isStructural ? results[k] : times(local, adjoint);
      const amount = arriving === null ? null : fitted(arriving, inputValues[position]);
      const nothing = amount === null;
      const shown = isShown ? { jacobian: jacobian(passed, values[node]) } : {};
      const besides = isStructural ? { kink: results[wanted.length] } : { read: results[wanted.length + k], kink: results[2 * wanted.length] };
      return { position, to, local, amount: nothing ? zero(values[to]) : amount, nothing, ...shown, ...besides };
    });
  }

  function run(point) {
    const values = forward(point);
    return { values, ...reverse(values) };
  }

  return { run, forward, reverse, steps, leaves };
}

// How each element of a value changes with each of the input: the adjoint that is 1 at one element brings out its row.
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
