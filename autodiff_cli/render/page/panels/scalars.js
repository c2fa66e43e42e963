// The switch between arrays and their elements: the same page, opened on the other record.

/** The values of the other view: of arrays their elements, `W[0, 1]`; of elements their arrays. */
function valuesElsewhere() {
  const values = Object.create(null); // so that `__proto__` is a name like any other
  for (const { variable: { key }, input } of fields) {
    const value = valueOf(input.value, record.variables.find((one) => one.key === key).value);
    if (isInScalars) {
      const [, name, place] = /^(.*)\[([\d, ]+)\]$/.exec(key) ?? [null, key, null];
      const whole = records.variables.find((one) => one.key === name);
      if (place === null) values[name] = value;
      else {
        values[name] ??= structuredClone(whole.value);
        const at = place.split(", ").map(Number);
        elementAt(values[name], at.slice(0, -1))[at.at(-1)] = value;
      }
    } else spreadOut(values, key, value);
  }
  return values;
}

function spreadOut(values, name, value, at = []) {
  if (Array.isArray(value)) value.forEach((part, k) => spreadOut(values, name, part, [...at, k]));
  else values[at.length ? `${name}[${at.join(", ")}]` : name] = value;
}

byId("scalars").hidden = !records.scalars;
showTypeset(); // beside all buttons
byId("scalars").setAttribute("aria-pressed", String(isInScalars));
byId("scalars").addEventListener("click", () => {
  const formula = (isInScalars ? records : records.scalars).text;
  const state = new URLSearchParams({ ...(isInScalars ? {} : { view: "scalars" }), formula, values: jsonOf(valuesElsewhere()) });
  location.hash = String(state);
  location.reload();
});
