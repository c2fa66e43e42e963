// "Why this number?": an adjoint as the sum over the node's users, and as the sum over paths to the output.

const MOST_PATHS = 6; // paths that are listed
const MOST_TRIED = 4000; // partial paths that the search extends, so that it ends soon

class Why {
  #node = record.output;
  #isLit = false;

  constructor() {
    document.addEventListener("chosen", ({ detail }) => {
      this.#isLit &&= detail === this.#node;
      this.#node = detail;
      this.show();
    });
    document.addEventListener("drawn", () => this.show());
    byId("stage").addEventListener("click", ({ target }) => this.#light(target));
    byId("stage").addEventListener("focusin", ({ target }) => this.#light(target));
    byId("copy-latex").addEventListener("click", () => copy(this.latex(), byId("latex-copied")));
    this.show();
  }

  /** The terms of the sum: what hands the node something, and how. */
  get #terms() {
    const found = users[this.#node].map(({ node, position }) => {
      return { node, position, given: walk.computation.handed(node, position) };
    });
    return found.filter(({ node, given }) => given && takesGradient(node));
  }

  /** Say it of the node that is chosen, unless a question is about that. */
  show() {
    const i = this.#node;
    document.querySelector(".panels").hidden = walk.quiz !== null;
    unlight();
    if (walk.quiz) return;
    if (this.#isLit) this.#lightAll();
    byId("latex-copied").replaceChildren();
    byId("copy-latex").hidden = !takesGradient(i) || record.latex === undefined;
    const name = slopeName(record.nodes[i].label);
    if (!takesGradient(i)) {
      byId("reasons").replaceChildren(made("p", `${record.nodes[i].label} has no adjoint: it depends on no variable.`));
      return;
    }
    const adjoint = brief(walk.computation.adjoints[i]);
    if (i === record.output) {
      byId("reasons").replaceChildren(
        equation([`${name} = `, made("b", adjoint)]),
        made("p", "The derivative of the output with respect to itself is 1. The backward pass begins here."),
      );
      return;
    }
    const terms = this.#terms.filter(({ given }) => !given.nothing);
    const left = this.#terms.filter(({ given }) => given.nothing);
    const notes = left.map(({ node }) => made("p", `${record.nodes[node].label} contributes nothing: its derivative is a structural zero.`));
    if (terms.length === 0) {
      byId("reasons").replaceChildren(equation([`${name} = `, made("b", adjoint)]), ...notes);
      return;
    }
    byId("reasons").replaceChildren(
      equation([`${name} = ${terms.map((term) => this.#inSymbols(term)).join(" + ")}`]),
      equation([`= ${terms.map((term) => this.#inNumbers(term)).join(" + ")}`]),
      equation(["= ", made("b", adjoint)]),
      ...notes,
      ...this.#paths(),
    );
  }

  #inSymbols({ node, position, given }) {
    const user = slopeName(record.nodes[node].label);
    if (given.local === null) return `part of ${user}`;
    const formula = walk.computation.formula(node, position);
    return `${formula === undefined ? `∂${tight(record.nodes[node].label)}/∂${tight(record.nodes[this.#node].label)}`
      : tight(formula)} × ${user}`;
  }

  #inNumbers({ node, given }) {
    return given.local === null ? brief(given.amount) : `${factor(given.local)} × ${factor(walk.computation.adjoints[node])}`;
  }

  /** The paths to the output with their products, the largest first. */
  #paths() {
    const network = pathsFrom(this.#node);
    if (network === null) return [];
    const { count, found } = network;
    if (count < 2) return [];
    const list = found.map((path) => {
      const button = made("button", `${path.nodes.map((j) => record.nodes[j].label).join(" → ")}`, "path");
      button.type = "button";
      for (const event of ["pointerenter", "focus"]) button.addEventListener(event, () => lightPath(path.nodes));
      button.addEventListener("click", () => lightPath(path.nodes));
      button.addEventListener("pointerleave", () => this.#lightAll());
      return made("li", [button, made("br"), `${path.locals.map(factor).join(" × ")} = ${brief(path.product)}`]);
    });
    const title = `${count} paths to the output${count > found.length ? `, the ${found.length} largest` : ""}`;
    return [made("h3", title), made("ul", list)];
  }

  #light(target) {
    if (walk.quiz) return;
    this.#isLit = target.closest("[data-node]") !== null;
    if (this.#isLit) this.#lightAll();
    else unlight();
  }

  /** Light up all that lies on a path from the node to the output. */
  #lightAll() {
    const edges = new Set();
    const reached = new Set([this.#node]);
    for (let node = this.#node + 1; node < record.nodes.length; node++) {
      for (const { to, nothing } of walk.computation.given[node]) {
        if (nothing || !reached.has(to)) continue;
        reached.add(node);
        edges.add(`${to} ${node}`);
      }
    }
    light(edges, reached);
  }

  /** The derivation in LaTeX: a sum in symbols, in numbers, and what it gives. */
  latex() {
    const i = this.#node;
    const { nodes, slopes } = record.latex;
    const towards = (j) => `\\frac{\\partial ${OUTPUT}}{\\partial ${/^\\?\w+(_\{\w+\})?$/.test(nodes[j]) ? nodes[j] : `\\left(${nodes[j]}\\right)`}}`;
    const terms = i === record.output ? [] : this.#terms.filter(({ given }) => !given.nothing);
    const inSymbols = terms.map(({ node, position }) => {
      const slope = slopes[node][position];
      return slope === null ? `\\text{part of }${towards(node)}` : `${bracketed(slope)} \\cdot ${towards(node)}`;
    });
    const inNumbers = terms.map(({ node, given }) => (given.local === null ? latexNumber(given.amount)
      : `${bracketed(latexNumber(given.local))} \\cdot ${bracketed(latexNumber(walk.computation.adjoints[node]))}`));
    const sides = [inSymbols.join(" + "), inNumbers.join(" + "), latexNumber(walk.computation.adjoints[i])].filter(Boolean);
    return `\\begin{align*}\n${towards(i)} &= ${sides.join(" \\\\\n&= ")}\n\\end{align*}`;
  }
}

function equation(parts) {
  return made("p", parts, "equation");
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

/** How many paths lead from a node to the output, and the largest of them; null where arrays travel. */
function pathsFrom(start) {
  const counts = new Map([[record.output, 1n]]);
  const best = new Map([[record.output, 1]]);
  const onward = (i) => users[i].map(({ node, position }) => ({ node, given: walk.computation.handed(node, position) }))
    .filter(({ node, given }) => counts.has(node) && given && !given.nothing);
  for (let i = record.output - 1; i >= start; i--) {
    const ways = onward(i);
    if (ways.length === 0) continue;
    if (i === start && ways.some(({ given }) => typeof given.local !== "number")) return null;
    counts.set(i, ways.reduce((total, { node }) => total + counts.get(node), 0n));
    best.set(i, Math.max(...ways.map(({ node, given }) => Math.abs(given.local) * best.get(node))));
  }
  const waiting = [{ nodes: [start], locals: [], product: 1, hope: best.get(start) ?? 0 }];
  const found = [];
  for (let tries = 0; waiting.length && found.length < MOST_PATHS && tries < MOST_TRIED; tries++) {
    const at = waiting.reduce((top, path, k) => (path.hope >= waiting[top].hope ? k : top), 0);
    const [path] = waiting.splice(at, 1);
    const last = path.nodes.at(-1);
    if (last === record.output) {
      found.push(path);
      continue;
    }
    for (const { node, given: { local } } of onward(last)) {
      if (typeof local !== "number") return null;
      const product = path.product * local;
      const hope = Math.abs(product) * best.get(node);
      waiting.push({ nodes: [...path.nodes, node], locals: [...path.locals, local], product, hope: hope || 0 });
    }
  }
  return { count: counts.get(start) ?? 0n, found };
}

function lightPath(nodes) {
  light(new Set(nodes.slice(1).map((node, k) => `${nodes[k]} ${node}`)), new Set(nodes));
}

/** Make edges, `from to`, and nodes stand out. */
function light(edges, nodes) {
  for (const edge of graph.svg.querySelectorAll(".edge")) {
    edge.classList.toggle("on-path", edges.has(`${edge.dataset.from} ${edge.dataset.to}`));
  }
  for (const i of graph.ids) graph.element(i).classList.toggle("on-path", nodes.has(i));
}

function unlight() {
  for (const element of graph.svg.querySelectorAll(".on-path")) element.classList.remove("on-path");
}

const why = new Why();
