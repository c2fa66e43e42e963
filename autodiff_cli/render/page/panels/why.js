// "Why this number?": an adjoint as the sum over the node's users, and as the sum over paths to the output.

const MOST_PATHS = 6; // paths that are listed
const ADJOINT = /(?:the )?\badjoint\b/; // in the rule of an operation on whole arrays
const MOST_TRIED = 4000; // partial paths that the search extends, so that it ends soon

class Why {
  #node = record.output;
  #isHighlighted = false;

  constructor() {
    document.addEventListener("selected", ({ detail }) => {
      this.#isHighlighted &&= detail === this.#node;
      this.#node = detail;
      this.show();
    });
    document.addEventListener("drawn", () => this.show());
    byId("stage").addEventListener("click", ({ target }) => this.#highlightPath(target));
    byId("stage").addEventListener("focusin", ({ target }) => this.#highlightPath(target));
    byId("copy-latex").addEventListener("click", () => copy(this.latex(), byId("latex-copied")));
    this.show();
  }

  /** Explain the selected node, unless a question is about its numbers. */
  show() {
    const i = this.#node;
    const panels = document.querySelector(".panels");
    if (panels.hidden !== (playback.quiz !== null)) {
      panels.hidden = playback.quiz !== null;
      tabs.refresh();
    }
    clearPath();
    if (playback.quiz) return;
    if (this.#isHighlighted) this.#highlightAll();
    byId("latex-copied").replaceChildren();
    byId("copy-latex").hidden = !takesGradient(i) || record.latex === undefined;
    const name = slopeName(record.nodes[i].label);
    if (!takesGradient(i)) {
      byId("reasons").replaceChildren(htmlElement("p", `${mathOf(i)} has no adjoint: it depends on no variable.`));
      return;
    }
    const adjoint = brief(playback.computation.adjoints[i]);
    if (i === record.output) {
      byId("reasons").replaceChildren(
        equation([`${name} = `, htmlElement("b", adjoint)]),
        htmlElement("p", "The derivative of the output with respect to itself is 1. The backward pass begins here."),
      );
      return;
    }
    const terms = playback.computation.termsOf(i);
    const left = playback.computation.contributionsTo(i).filter(({ contribution }) => contribution.nothing);
    const why = (node) => (playback.computation.arrived.has(node) ? "derivative is a structural zero" : "adjoint is 0");
    const notes = left.map(({ node }) => htmlElement("p", `${mathOf(node)} contributes nothing: its ${why(node)}.`));
    if (terms.length === 0) {
      byId("reasons").replaceChildren(equation([`${name} = `, htmlElement("b", adjoint)]), ...notes);
      return;
    }
    const inNumbers = terms.map((term) => this.#inNumbers(term)).join(" + ");
    byId("reasons").replaceChildren(
      ...(record.latex ? [this.#typeset()] : []),
      equation([math(`${name} = ${terms.map((term) => this.#inSymbols(term)).join(" + ")}`)]),
      ...(inNumbers === adjoint ? [] : [equation([math(`= ${inNumbers}`)])]),
      equation(["= ", htmlElement("b", adjoint)]),
      ...notes,
      ...this.#paths(),
    );
  }

  #inSymbols({ node, position, contribution }) {
    const user = slopeName(record.nodes[node].label);
    if (contribution.local === null) return playback.computation.rule(node, position).split(ADJOINT).join(user);
    const formula = playback.computation.formula(node, position);
    return `${formula === undefined ? `∂${tight(record.nodes[node].label)}/∂${tight(record.nodes[this.#node].label)}`
      : tight(formula)} × ${user}`;
  }

  #inNumbers({ node, contribution }) {
    return contribution.local === null ? brief(contribution.amount) : `${factor(contribution.local)} × ${factor(playback.computation.adjoints[node])}`;
  }

  /** The paths to the output with their products, the largest first. */
  #paths() {
    const network = pathsFrom(this.#node);
    if (network === null) return [];
    const { count, paths } = network;
    if (count < 2) return [];
    const list = paths.map((path) => {
      const button = htmlElement("button", `${path.nodes.map(mathOf).join(" → ")}`, "path");
      button.type = "button";
      for (const event of ["pointerenter", "focus"]) button.addEventListener(event, () => highlightNodesPath(path.nodes));
      button.addEventListener("click", () => highlightNodesPath(path.nodes));
      button.addEventListener("pointerleave", () => this.#highlightAll());
      return htmlElement("li", [button, htmlElement("br"), `${path.locals.map(factor).join(" × ")} = ${brief(path.product)}`]);
    });
    const title = `${count} paths to the output${count > paths.length ? `, the ${paths.length} largest` : ""}`;
    return [htmlElement("h3", title), htmlElement("ul", list)];
  }

  #highlightPath(target) {
    if (playback.quiz) return;
    this.#isHighlighted = target.closest("[data-node]") !== null;
    if (this.#isHighlighted) this.#highlightAll();
    else clearPath();
  }

  /** Highlight everything on the paths from the node to the output. */
  #highlightAll() {
    const edges = new Set();
    const reached = new Set([this.#node]);
    for (let node = this.#node + 1; node < record.nodes.length; node++) {
      for (const { to, nothing } of playback.computation.contributions[node]) {
        if (nothing || !reached.has(to)) continue;
        reached.add(node);
        edges.add(`${to} ${node}`);
      }
    }
    highlightPath(edges, reached);
  }

  #typeset() {
    const lines = htmlElement("div", [typesetLines(this.latex())], "typeset");
    Object.assign(lines, { role: "region", ariaLabel: "Derivation" });
    scrolling.observe(lines);
    return lines;
  }

  /** The derivation in LaTeX: a sum in symbols, in numbers, and its result. */
  latex() {
    const i = this.#node;
    const { nodes, slopes } = record.latex;
    const nameOf = (j) => {
      if (nodes[j] !== `n_{${j}}` || !record.nodes[j].inputs.length) return nodes[j];
      return j === record.output ? OUTPUT : textInLatex(record.nodes[j].label); // too long in LaTeX
    };
    const part = (j) => (/^\\?\w+(_\{\w+\})?$/.test(nameOf(j)) ? nameOf(j) : `\\left(${nameOf(j)}\\right)`);
    const towards = (j) => `\\frac{\\partial ${OUTPUT}}{\\partial ${part(j)}}`;
    const terms = i === record.output ? [] : playback.computation.termsOf(i);
    const inSymbols = terms.map(({ node, position, contribution }) => {
      if (contribution.local === null) return ruleInLatex(playback.computation.rule(node, position), towards(node));
      const slope = slopes[node][position] ?? `\\frac{\\partial ${part(node)}}{\\partial ${part(i)}}`;
      return `${bracketed(slope)} \\cdot ${towards(node)}`;
    });
    const inNumbers = terms.map(({ node, contribution }) => (contribution.local === null ? latexNumber(contribution.amount)
      : `${bracketed(latexNumber(contribution.local))} \\cdot ${bracketed(latexNumber(playback.computation.adjoints[node]))}`));
    const sides = [inSymbols.join(" + "), inNumbers.join(" + "), latexNumber(playback.computation.adjoints[i])].filter(Boolean);
    return `\\begin{align*}\n${towards(i)} &= ${[...new Set(sides)].join(" \\\\\n&= ")}\n\\end{align*}`;
  }
}

/** The equations of a derivation below each other, at their signs of equality. */
function typesetLines(latex) {
  const rows = latex.split("\n").slice(1, -1).map((line) => line.replace(/ \\\\$/, "").split("&="));
  const table = mathElement("mtable", rows.map(([left, right]) => mathElement("mtr", [
    mathElement("mtd", new Typesetter(left).row()), mathElement("mtd", [mathElement("mo", "="), ...new Typesetter(right).row()]),
  ])));
  table.classList.add("aligned");
  table.setAttribute("displaystyle", "true");
  const math = mathElement("math", table);
  math.setAttribute("display", "block");
  math.setAttribute("aria-hidden", "true");
  return math;
}

function equation(parts) {
  return htmlElement("p", parts, "equation");
}

/** The rule of an operation on whole arrays in LaTeX, as text around the name of the adjoint. */
function ruleInLatex(rule, adjoint) {
  return rule.split(ADJOINT).map(textInLatex).join(adjoint).replaceAll("\\text{}", "");
}

function textInLatex(text) {
  return `\\text{${text.replace(/[_#%&$]/g, "\\$&").replaceAll("^", "\\^{}").replaceAll("ᵀ", "}^{\\top}\\text{")}}`;
}

/** A part of a product in LaTeX: in brackets if it is a sum or has a sign. */
function bracketed(text) {
  return /^-|[^{(]\s[+-]\s/.test(text) ? `\\left(${text}\\right)` : text;
}

function latexNumber(x) {
  if (Array.isArray(x)) return `\\left[${x.map(latexNumber).join(", ")}\\right]`;
  return brief(x).replace(/e([+-])0*(\d+)$/, (_, sign, power) => ` \\cdot 10^{${sign === "-" ? "-" : ""}${power}}`)
    .replace("inf", "\\infty").replace("nan", "\\text{undefined}");
}

/** The number of paths from a node to the output, and the largest of them; null if an edge carries arrays. */
function pathsFrom(start) {
  const counts = new Map([[record.output, 1n]]);
  const best = new Map([[record.output, 1]]);
  const onward = (i) => playback.computation.termsOf(i).filter(({ node }) => counts.has(node));
  for (let i = record.output - 1; i >= start; i--) {
    const ways = onward(i);
    if (ways.length === 0) continue;
    if (i === start && ways.some(({ contribution }) => typeof contribution.local !== "number")) return null;
    counts.set(i, ways.reduce((total, { node }) => total + counts.get(node), 0n));
    best.set(i, Math.max(...ways.map(({ node, contribution }) => Math.abs(contribution.local) * best.get(node))));
  }
  const waiting = [{ nodes: [start], locals: [], product: 1, hope: best.get(start) ?? 0 }];
  const paths = [];
  for (let tries = 0; waiting.length && paths.length < MOST_PATHS && tries < MOST_TRIED; tries++) {
    const at = waiting.reduce((top, path, k) => (path.hope >= waiting[top].hope ? k : top), 0);
    const [path] = waiting.splice(at, 1);
    const last = path.nodes.at(-1);
    if (last === record.output) {
      paths.push(path);
      continue;
    }
    for (const { node, contribution: { local } } of onward(last)) {
      if (typeof local !== "number") return null;
      const product = path.product * local;
      const hope = Math.abs(product) * best.get(node);
      waiting.push({ nodes: [...path.nodes, node], locals: [...path.locals, local], product, hope: hope || 0 });
    }
  }
  return { count: counts.get(start) ?? 0n, paths };
}

function highlightNodesPath(nodes) {
  highlightPath(new Set(nodes.slice(1).map((node, k) => `${nodes[k]} ${node}`)), new Set(nodes));
}

/** Highlight edges, `from to`, and nodes. */
function highlightPath(edges, nodes) {
  for (const edge of graph.svg.querySelectorAll(".edge")) {
    edge.classList.toggle("on-path", edges.has(`${edge.dataset.from} ${edge.dataset.to}`));
  }
  for (const i of graph.ids) graph.element(i).classList.toggle("on-path", nodes.has(i));
}

function clearPath() {
  for (const element of graph.svg.querySelectorAll(".on-path")) element.classList.remove("on-path");
}

const why = new Why();
