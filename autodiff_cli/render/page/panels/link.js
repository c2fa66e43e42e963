// A link that opens the page at this formula, these values and this step.

/** The fields of the page of a fit that say which epoch, draw and row it shows. */
const shownOfFit = () => document.querySelectorAll("#epoch, #draw, #row");

/** The state of the page as the fragment of an address. */
function fragment() {
  const state = new URLSearchParams({ formula: record.text, values: jsonOf(playback.point), step: String(playback.position) });
  if (isInScalars) state.set("view", "scalars");
  if (playback.tangents) state.set("forward", forwardMode.seed.name);
  for (const { id, value } of shownOfFit()) state.set(id, value);
  return `#${state}`;
}

/** The page at the state that an address has in its fragment, if it has one. */
function restoreState() {
  const state = new URLSearchParams(location.hash.slice(1));
  if (!state.has("formula") && !state.has("values") && !state.has("step")) return;
  if (state.has("formula") && state.get("formula") !== record.text) {
    showStatus(`The link is for another formula, ${state.get("formula")}; nothing was restored.`);
    return;
  }
  for (const field of shownOfFit()) {
    if (!state.has(field.id)) continue;
    field.value = state.get(field.id);
    field.dispatchEvent(new Event("input"));
  }
  let values = {};
  try {
    values = JSON.parse(state.get("values") ?? "{}") ?? {};
  } catch {
    showStatus("The values in the link cannot be read; nothing was restored.");
    return;
  }
  const fitting = fields.flatMap(({ variable: { key, value } }) => {
    const restored = Object.hasOwn(values, key) ? read(values[key]) : undefined;
    return isLike(restored, value) ? [[key, restored]] : [];
  });
  if (fitting.length) setValues(Object.fromEntries(fitting));
  if (state.has("forward") && forwardMode.seed) {
    forwardMode.seed = state.get("forward");
    forwardMode.use(true);
  }
  const step = Number(state.get("step") ?? record.forward.length);
  if (Number.isInteger(step)) go(Math.min(Math.max(step, 0), playback.length));
}

byId("copy-link").addEventListener("click", () => {
  const link = location.href.split("#")[0] + fragment();
  try {
    history.replaceState(null, "", fragment());
  } catch {
    // in a frame without an address of its own
  }
  copy(link, byId("link-copied"));
});
addEventListener("hashchange", restoreState);
restoreState();
