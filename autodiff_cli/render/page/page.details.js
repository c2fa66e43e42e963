// Descriptions of nodes: the panel of the selected node, and the table of all nodes.

/** A new element with a text, in which formulas are typeset, or with children. */
function htmlElement(tag, content = "", kind = "") {
  const element = document.createElement(tag);
  if (kind) element.className = kind;
  if (tag === "input" || tag === "select") element.autocomplete = "off"; // browsers would restore it, but not what follows from it
  element.append(...[content].flat().flatMap((part) => (typeof part === "string" ? typesetText(part) : part)));
  return element;
}

/** The panel that explains one node. */
class Panel {
  #node = record.output;

  constructor(element, playback) {
    this.element = element;
    this.playback = playback;
  }

  /** Explain a node. */
  show(i) {
    this.#node = i;
    this.refresh();
    announce("selected", i);
  }

  /** Update the panel to the current step. */
  refresh() {
    const i = this.#node;
    const node = record.nodes[i];
    const facts = [["operation", node.summary ? `${node.op}: ${node.summary}` : node.op]];
    const { computation } = this.playback;
    if (this.playback.isComputed(i)) facts.push(["value", inFull(computation.values[i])]);
    if (this.playback.isKnown(i)) facts.push(["adjoint", inFull(computation.adjoints[i])]);
    if (!takesGradient(i)) facts.push(["adjoint", "none: it depends on no variable"]);
    const list = facts.flatMap(([term, text]) => [htmlElement("dt", term), htmlElement("dd", text)]);
    const slopes = this.playback.quiz?.level.hidesSlopes ? [] : node.contributions.filter(({ local }) => local !== null).map(({ position, to }) => this.#slope(i, position, to));
    this.element.replaceChildren(
      htmlElement("h3", math(node.name ?? node.label)),
      htmlElement("dl", list),
      ...(slopes.length ? [htmlElement("h4", "Local derivatives"), htmlElement("ul", slopes)] : []),
      ...(this.playback.showsContributions(i) ? [htmlElement("p", `Backward pass: ${computation.backwardSentence(i)}`)] : []),
    );
  }

  #slope(i, position, to) {
    const { computation } = this.playback;
    const { local } = computation.contribution(i, position);
    const formula = computation.formula(i, position);
    const isShown = this.playback.isComputed(i) && computation.arrived.has(i) && !this.playback.hidesAdjoint(to);
    const number = isShown ? brief(local) : undefined;
    const text = [...new Set([formula, number])].filter((side) => side !== undefined).join(" = ");
    return htmlElement("li", `towards ${mathOf(to)}${text ? `: ${math(text)}` : ""}`);
  }
}

/** The table of all nodes and their steps: an alternative to the drawing for screen readers and for print. */
class Table {
  #rows = [];

  constructor(details, playback) {
    this.playback = playback;
    this.details = details;
    details.addEventListener("toggle", () => this.refresh());
  }

  /** Fill in the current numbers, if the table is open. */
  refresh() {
    if (!this.details.open) return;
    if (this.#rows.length === 0) this.#build();
    for (let i = 0; i < this.#rows.length; i++) this.draw(i);
  }

  /** Fill in the current numbers of one node. */
  draw(i) {
    if (!this.details.open || this.#rows.length === 0) return;
    const { computation } = this.playback;
    const [isComputed, isKnown] = [this.playback.isComputed(i), this.playback.isKnown(i)];
    const texts = [
      isComputed ? brief(computation.values[i]) : "",
      isKnown ? brief(computation.adjoints[i]) : takesGradient(i) ? "" : "none",
      isComputed && forwardStep.has(i) ? computation.forwardSentence(i) : "",
      this.playback.showsContributions(i) ? [computation.backwardSentence(i), ...computation.contributionSentences(i)].join("; ") : "",
    ];
    texts.forEach((text, k) => { setText(this.#rows[i].cells[k + 2], text); });
  }

  #build() {
    const body = this.details.querySelector("tbody");
    this.#rows = record.nodes.map(({ label, op, inputs }) => {
      const cells = [op, "", "", "", ""].map((text) => htmlElement("td", text));
      return htmlElement("tr", [htmlElement("th", math(label)), ...cells], inputs.length ? "" : "leaf");
    });
    for (const row of this.#rows) row.cells[0].setAttribute("scope", "row");
    body.replaceChildren(...this.#rows);
  }
}
