// Keyboard access to the elements of an array: Enter enters a node, the arrow keys move between elements, Escape leaves. The
// focus stays on the node; the element and what it was computed from are described below the drawing.

class Cursor {
  #node = null;
  #grid = 0; // index of the grid in its node: 0 for the value, 1 for the adjoint
  #row = 0;
  #column = 0;

  constructor(stage) {
    stage.addEventListener("keydown", (event) => this.#press(event));
    stage.addEventListener("focusout", () => this.#leave());
    document.addEventListener("drawn", () => { if (this.#node !== null) this.#selectNodeAt(); });
  }

  get #grids() {
    return [...(graph.element(this.#node)?.querySelectorAll(".grid") ?? [])];
  }

  #press(event) {
    const { key, target } = event;
    if (event.ctrlKey || event.altKey || event.metaKey || event.shiftKey) return;
    if (this.#node === null) {
      if (key !== "Enter" || !target.matches(".node:not(.folded)") || !target.querySelector(".grid")) return;
      [this.#node, this.#grid, this.#row, this.#column] = [Number(target.dataset.node), 0, 0, 0];
    } else if (key === "Escape") {
      this.#leave();
    } else if (!this.#move(key)) return;
    event.preventDefault();
    event.stopImmediatePropagation();
    if (this.#node !== null) this.#selectNodeAt();
  }

  /** Move by an arrow key, from the edge of a grid to the next grid; false for other keys. */
  #move(key) {
    const [down, across] = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] }[key] ?? [];
    if (down === undefined) return false;
    const grids = this.#grids;
    const { rows, columns } = grids[this.#grid].grid;
    const [row, column] = [this.#row + down, this.#column + across];
    if (column < 0 || column >= columns.length) return true;
    if (row >= 0 && row < rows.length) [this.#row, this.#column] = [row, column];
    else if (grids[this.#grid + down]) {
      this.#grid += down;
      this.#row = down > 0 ? 0 : rows.length - 1;
    }
    return true;
  }

  #selectNodeAt() {
    const grid = this.#grids[this.#grid];
    if (!grid) {
      this.#leave();
      return;
    }
    const cell = grid.children[this.#row * grid.grid.columns.length + this.#column];
    this.#unmark();
    cell.classList.add("at");
    showOrigin(cell);
  }

  #leave() {
    if (this.#node === null) return;
    this.#node = null;
    this.#unmark();
    showOrigin(graph.stage);
  }

  #unmark() {
    for (const cell of graph.svg.querySelectorAll(".cell.at")) cell.classList.remove("at");
  }
}
