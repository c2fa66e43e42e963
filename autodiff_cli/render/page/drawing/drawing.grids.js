// Arrays as grids of numbers, or of shades if the numbers do not fit, and the origin of single elements.

const CELL = { height: 15, small: 9, gap: 1 }; // pixels
const NUMBERS = { columns: 4, rows: 6, digits: 3 }; // largest grid of numbers, and digits of a number
const SHADES = 24; // most rows and columns of a grid of shades; larger arrays are sampled

/** An array as rows of numbers: a vector is one row; otherwise the last axis forms the rows. */
function rowsOf(x) {
  return shape(x).length === 1 ? [x] : x.flat(shape(x).length - 2);
}

/** How a grid of an array in the shape of `x` is drawn: how many rows and columns, and in numbers of so many letters or in
 * shades. */
function gridOf(x, letters) {
  const rows = rowsOf(x);
  const [height, width] = [rows.length, rows[0]?.length ?? 0];
  if (height * width === 0) return null;
  const isWritten = width <= NUMBERS.columns && height <= NUMBERS.rows;
  const [down, across] = isWritten ? [height, width] : [Math.min(height, SHADES), Math.min(width, SHADES)];
  const cell = isWritten ? { width: letters * widthOf(DIGIT) + 4, height: CELL.height } : { width: CELL.small, height: CELL.small };
  // The rows and columns of the array that the grid shows.
  const picked = (count, of) => Array.from({ length: count }, (_, k) => Math.floor((k * of) / count));
  return {
    isWritten, letters, cell, rows: picked(down, height), columns: picked(across, width), isVector: shape(x).length === 1,
    width: across * (cell.width + CELL.gap), height: down * (cell.height + CELL.gap),
  };
}

/** The shapes of a grid with its upper left corner at (x, y); `kind` is `value` or `adjoint`. */
function gridShape(grid, x, y, kind) {
  const cells = grid.rows.flatMap((row, down) => grid.columns.map((column, across) => {
    const at = { x: x + across * (grid.cell.width + CELL.gap), y: y + down * (grid.cell.height + CELL.gap) };
    const room = svgElement("rect", { ...at, ...grid.cell });
    const middle = { x: at.x + grid.cell.width / 2, y: at.y + grid.cell.height / 2 };
    const number = grid.isWritten ? [textShape("", middle.x, middle.y, "middle number")] : [];
    return svgElement("g", { class: "cell", "data-row": row, "data-column": column }, [room, ...number, " "]);
  }));
  const element = svgElement("g", { class: `grid ${kind}${grid.isWritten ? "" : " shades"}` }, cells);
  element.grid = grid;
  return element;
}

/** Fill a grid with an array, or with nothing. */
function fillGrid(element, x) {
  const rows = x === null ? null : rowsOf(x);
  const largest = rows === null ? 1 : Math.max(...rows.flat().filter(Number.isFinite).map(Math.abs), Number.MIN_VALUE);
  for (const cell of element.children) {
    const number = rows?.[cell.dataset.row][cell.dataset.column];
    const [room, text] = cell.children;
    room.style.fillOpacity = number === undefined ? 0 : Number.isFinite(number) ? 0.06 + 0.84 * Math.abs(number / largest) * (text ? 0.3 : 1) : 1;
    room.classList.toggle("negative", number < 0);
    if (text) write(text, number === undefined ? "" : inCell(number, element.grid.letters), element.grid.cell.width - 2);
  }
}

/** A number with as many digits as so many letters have room for. */
function inCell(number, letters) {
  const ways = [NUMBERS.digits, 2, 1].map((digits) => toDigits(number, digits));
  return ways.find((text) => text.length <= letters) ?? ways.at(-1);
}

/** The origin of an element of a value or an adjoint: cells of other nodes and a sentence; null if it is not shown. */
function originOf(i, kind, row, column, isVector) {
  const at = isVector ? [column] : [row, column];
  return kind === "value" ? originOfValue(i, at) : originOfAdjoint(i, at);
}

/** An element of a product of arrays comes from a row of one factor and a column of the other. */
function originOfValue(i, at) {
  const { op, inputs } = record.nodes[i];
  if (op !== "matmul") return null;
  const [left, right] = inputs.map((j) => playback.computation.values[j]);
  const [a, b] = [shape(left).length, shape(right).length];
  if (a > 2 || b > 2) return null;
  const row = a === 1 ? 0 : at[0];
  const column = b === 1 ? 0 : at.at(-1);
  const factors = (a === 1 ? left : left[row]).map((x, k) => [x, b === 1 ? right[k] : right[k][column]]);
  const marks = [
    { node: inputs[0], kind: "value", has: (r) => a === 1 || r === row },
    { node: inputs[1], kind: "value", has: (_, c) => b === 1 || c === column },
  ];
  const terms = factors.map(([x, y]) => `${brief(x)} × ${factor(y)}`).join(" + ");
  const parts = [a === 1 ? "all" : `row ${row}`, b === 1 ? "all" : `column ${column}`];
  const from = `${parts[0]} of ${mathOf(inputs[0])} with ${parts[1]} of ${mathOf(inputs[1])}`;
  return { marks, text: `${indexable(i)}[${at.join(", ")}], ${from}: ${terms} = ${brief(elementAt(playback.computation.values[i], at))}` };
}

/** An element of the adjoint of a factor in a product of arrays: of a matrix times a vector, of an outer product. */
function originOfAdjoint(i, at) {
  const user = users[i].find(({ node }) => record.nodes[node].op === "matmul");
  if (!user || users[i].length > 1) return null;
  const { inputs } = record.nodes[user.node];
  const label = indexable(user.node);
  const isLeft = user.position === 0;
  const other = inputs[isLeft ? 1 : 0];
  const [adjoint, multiplier] = [playback.computation.adjoints[user.node], playback.computation.values[other]];
  const [d, f] = [shape(adjoint).length, shape(multiplier).length];
  if (d !== 1 || f > 2) return null;
  const name = `∂${indexable(i)}[${at.join(", ")}]`;
  const result = brief(elementAt(playback.computation.adjoints[i], at));
  const one = (text, place) => `${text}[${place}]`;
  if (isLeft && f === 1 && at.length === 2) {
    const [row, column] = at;
    const marks = [
      { node: user.node, kind: "adjoint", has: (_, c) => c === row },
      { node: other, kind: "value", has: (_, c) => c === column },
    ];
    const product = `${brief(adjoint[row])} × ${factor(multiplier[column])}`;
    return { marks, text: `${name}, outer product: ${one(`∂${label}`, row)} × ${one(indexable(other), column)} = ${product} = ${result}` };
  }
  if (!isLeft && f === 2 && at.length === 1) {
    const marks = [
      { node: user.node, kind: "adjoint", has: () => true },
      { node: other, kind: "value", has: (_, c) => c === at[0] },
    ];
    const terms = adjoint.map((y, k) => `${brief(multiplier[k][at[0]])} × ${factor(y)}`).join(" + ");
    return { marks, text: `${name}, column ${at[0]} of ${mathOf(other)} with all of ∂${label}: ${terms} = ${result}` };
  }
  return null;
}

/** A number, or only the size of an array, for narrow places. */
function compact(x, digits) {
  if (!Array.isArray(x)) return brief(x, digits);
  const numbers = x.flat(Infinity);
  if (numbers.length <= 1) return numbers.map((one) => brief(one, digits)).join();
  return shape(x).length === 1 ? `${x.length} numbers` : shape(x).join("×");
}

/** The name of a node in front of an index. */
function indexable(i) {
  const { label } = record.nodes[i];
  return /^[\p{L}\p{M}\p{N}_.]+(\([^()]*\))?$/u.test(label) ? label : `(${label})`;
}

/** Select a cell: highlight the cells it comes from, and describe it below the drawing. */
function showOrigin(target) {
  for (const cell of graph.svg.querySelectorAll(".origin")) cell.classList.remove("origin");
  const cell = target.closest?.(".cell");
  const node = cell && Number(cell.closest("[data-node]").dataset.node);
  const grid = cell?.parentElement;
  const kind = grid?.classList.contains("value") ? "value" : "adjoint";
  const isThere = cell && (kind === "value" ? playback.isComputed(node) : playback.isKnown(node));
  const [row, column] = cell ? [Number(cell.dataset.row), Number(cell.dataset.column)] : [];
  const origin = isThere ? originOf(node, kind, row, column, grid.grid.isVector) : null;
  const number = isThere && elementAt(rowsOf((kind === "value" ? playback.computation.values : playback.computation.adjoints)[node]), [row, column]);
  const place = cell ? (grid.grid.isVector ? column : `${row}, ${column}`) : "";
  const missing = cell ? `${indexable(node)}[${place}]: its ${kind} is not known yet` : "";
  const plain = !isThere ? missing : `${kind === "value" ? "" : "∂"}${indexable(node)}[${place}] = ${inFull(number)}`;
  setText(byId("element"), origin?.text ?? plain);
  if (!origin) return;
  cell.classList.add("origin");
  for (const { node: j, kind: which, has } of origin.marks) {
    for (const other of graph.element(j)?.querySelectorAll(`.grid.${which} .cell`) ?? []) {
      other.classList.toggle("origin", has(Number(other.dataset.row), Number(other.dataset.column)));
    }
  }
}
