// The forward and the reverse pass, as `autodiff/forward.py` and `autodiff/reverse.py` have them.
//
// rows: one per operation, in topological order: [node, function, inputs, rule, live, isStructural, arranges]. A rule
// gives what the inputs at the positions `live` get: an elementwise operation's from the output and the inputs, one local
// derivative each; a structural one's from the adjoint, the output and the inputs, one amount each. A null is
// structurally nothing. One that `arranges` does with what is present of an adjoint as with the adjoint.

function passes(reached, constants, leaves, rows) {
  const steps = rows.map(([node, apply, inputs, rule, live, isStructural, arranges]) => {
    return { node, apply, inputs, rule, live, isStructural, arranges };
  });

  function forward(point) {
    const values = new Array(reached.length);
    for (const [i, number] of constants) values[i] = number;
    for (const [i, name] of leaves) values[i] = read(point[name]);
    for (const step of steps) values[step.node] = step.apply(...valuesOf(step.inputs, values));
    return values;
  }

  function reverse(values) {
    const arrived = values.map(() => null);
    const contributions = values.map(() => []);
    arrived[arrived.length - 1] = 1; // the output is the last node
    for (let s = steps.length - 1; s >= 0; s--) {
      const step = steps[s];
      if (!reached[step.node]) continue;
      const handed = hand(step, values, arrived[step.node]);
      for (let position = 0; position < step.inputs.length; position++) {
        const to = step.inputs[position];
        if (!reached[to]) continue;
        const none = zero(values[to]);
        const given = handed[position] ?? { position, to, local: none, amount: none, nothing: true };
        contributions[step.node].push(given);
        if (!given.nothing) arrived[to] = arrived[to] === null ? given.amount : plus(arrived[to], given.amount);
      }
    }
    const adjoints = arrived.map((adjoint, i) => (reached[i] ? adjoint ?? zero(values[i]) : null));
    return { adjoints, contributions };
  }

  // The contributions of a node to its inputs, by position; without those to inputs that structurally get nothing.
  function hand({ node, inputs, rule, live, isStructural, arranges }, values, adjoint) {
    const handed = [];
    if (adjoint === null || !live.length) return handed;
    const given = valuesOf(inputs, values);
    const passed = (arriving) => rule(arriving, values[node], ...given);
    let found = isStructural ? passed(adjoint) : rule(values[node], ...given);
    if (arranges) found = arranged(found, adjoint, values[node], passed);
    for (let k = 0; k < live.length; k++) {
      const position = live[k];
      const local = isStructural ? null : found[k];
      const whole = isStructural || local === null ? found[k] : times(local, adjoint);
      if (whole === null) continue;
      const amount = fitted(whole, given[position]);
      handed[position] = { position, to: inputs[position], local, amount, nothing: false };
    }
    return handed;
  }

  function run(point) {
    const values = forward(point);
    return { values, ...reverse(values) };
  }

  return { run };
}

function valuesOf(nodes, values) {
  const found = [];
  for (let k = 0; k < nodes.length; k++) found.push(values[nodes[k]]);
  return found;
}
