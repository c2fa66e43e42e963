// The output as a curve of one variable, or as contours of two, with the trail of a descent.

const CHART = { least: 260, most: 520, shape: 0.625, left: 62, right: 14, top: 12, bottom: 40, character: 7.3 }; // pixels
const SAMPLES = 121; // of a curve
const STEEP = 10; // a curve that changes by more than this part of its height between two samples may jump there
const GRID = 81; // points of a side, for contours
const LEVELS = 12;
const HALVINGS = 4; // of a side of the grid, to find where a contour crosses it
const MOST_TICKS = 5; // numbers along an axis
const TICK_DIGITS = 5; // of these
const MOST_WORK = 2e6; // operations that contours may take

/** A scale from numbers to pixels. It works with multiples of the numbers, since the width of a range may overflow. */
function scale([low, high], [from, to]) {
  const unit = 2 ** Math.min(1000, -2 - Math.floor(Math.log2(Math.max(-low, high) || 1)));
  return (x) => from + ((x * unit - low * unit) / (high * unit - low * unit || 1)) * (to - from);
}

/** The number at a share of the way through a range. */
const between = ([low, high], share) => low * (1 - share) + high * share;

/** The range of numbers with a margin around it. */
function around(numbers, share) {
  const finite = numbers.filter(Number.isFinite);
  if (finite.length === 0) return [-1, 1];
  const [low, high] = [Math.min(...finite), Math.max(...finite)];
  const margin = high * share - low * share || Math.max(Math.abs(low), 1) * share;
  return [Math.max(low - margin, -Number.MAX_VALUE), Math.min(high + margin, Number.MAX_VALUE)];
}

/** The current point, but for some elements that have other values. */
function pointAt(elements, xs) {
  const point = { ...playback.point };
  elements.forEach(({ variable: { key }, at }, k) => { point[key] = withElement(point[key], at, xs[k]); });
  return point;
}

/** The output where some elements have other values. */
function outputAt(elements, xs) {
  return nested(evaluator.forward(pointAt(elements, xs))[record.output]);
}

/** Round numbers in a range, at most so many. */
function ticks([low, high], most) {
  const least = Math.max(Number.EPSILON * Math.max(-low, high), Number.MIN_VALUE); // so that numbers differ
  const rough = Math.max(high / most - low / most, least);
  const power = 10 ** Math.floor(Math.log10(rough)) || Number.MIN_VALUE;
  const step = [1, 2, 5, 10].find((factor) => factor * power >= rough * (1 - 1e-9)) * power;
  const first = Math.ceil(low / step - 1e-9);
  return Array.from({ length: Math.floor(high / step + 1e-9) - first + 1 }, (_, k) => (first + k) * step + 0); // + 0, since -0 is 0
}

/** Round numbers along an axis, and their texts with as many digits as the numbers need. */
function textsOfTicks(range, most = MOST_TICKS) {
  const at = ticks(range, most);
  const apart = at[1] - at[0] || range[1] - range[0];
  const digits = 1 + Math.floor(Math.log10(Math.max(...at.map(Math.abs)))) - Math.floor(Math.log10(apart));
  return at.map((x) => toDigits(x, Math.max(TICK_DIGITS, Math.min(digits, 17)))).map((text) => [Number(text), text]);
}

/** A dot of a chart; nothing at a place that is not finite. */
function dot(kind, cx, cy, r) {
  return Number.isFinite(cx) && Number.isFinite(cy) ? [svgElement("circle", { class: kind, cx, cy, r })] : [];
}

/** An empty chart with its axes named and round numbers along them, as wide as there is room. Lines on its `plot`
 * end at the axes. */
function chart(name, [xName, xRange], [yName, yRange, yTicks = textsOfTicks(yRange)], available = byId("curve").clientWidth) {
  const { least, most, shape, right, top, bottom, character } = CHART;
  const left = Math.max(CHART.left, 28 + character * Math.max(...yTicks.map(([, text]) => text.length)));
  const width = Math.min(Math.max(available, least), most);
  const height = Math.round(shape * width);
  const svg = svgElement("svg", { viewBox: `0 0 ${width} ${height}`, width, height, role: "img", "aria-label": name });
  const [room, foot] = [width - left - right, height - bottom];
  const [toX, toY] = [scale(xRange, [left, width - right]), scale(yRange, [foot, top])];
  const placed = ([x, text]) => {
    const half = (character * (text.length + 1)) / 2;
    return { x, text, half, middle: Math.max(half, Math.min(toX(x), width - half)) };
  };
  const counts = Array.from({ length: MOST_TICKS }, (_, k) => textsOfTicks(xRange, MOST_TICKS - k).map(placed));
  const areApart = (texts) => texts.slice(1).every(({ middle, half }, k) => middle - half >= texts[k].middle + texts[k].half);
  const xTicks = counts.find((texts) => texts.length && areApart(texts)) ?? counts[0].slice(0, 1);
  svg.append(
    svgElement("path", { class: "axis", d: `M${left} ${top}V${foot}H${width - right}` }),
    ...xTicks.flatMap(({ x, text, middle }) => [
      svgElement("path", { class: "axis", d: `M${toX(x)} ${foot}v4` }),
      svgElement("text", { x: middle, y: foot + 16, "text-anchor": "middle" }, text),
    ]),
    ...yTicks.flatMap(([y, text]) => [
      svgElement("path", { class: "axis", d: `M${left} ${toY(y)}h-4` }),
      svgElement("text", { x: left - 6, y: toY(y) + 4, "text-anchor": "end" }, text),
    ]),
    svgElement("text", { x: left + room / 2, y: height - 8, "text-anchor": "middle" }, cut(xName, room, "value")),
    svgElement("text", { transform: `translate(14 ${(top + foot) / 2}) rotate(-90)`, "text-anchor": "middle" }, cut(yName, foot - top, "value")),
  );
  const extent = { x: left, y: top, width: room, height: foot - top };
  const plot = svgElement("svg", { ...extent, viewBox: Object.values(extent).join(" ") });
  svg.append(plot);
  return { svg, plot, toX, toY };
}

/** A line through points; it is broken where one of them is not finite. */
function line(points) {
  let isBegun = false;
  return points.map(([x, y]) => {
    if (!Number.isFinite(x) || !Number.isFinite(y)) {
      isBegun = false;
      return "";
    }
    const command = isBegun ? "L" : "M";
    isBegun = true;
    return `${command}${x.toFixed(1)} ${Math.max(-1e4, Math.min(1e4, y)).toFixed(1)}`;
  }).join("");
}

/** The curve of a function, with a gap where it jumps or has a pole. */
function curveThrough(xs, ys, height, at, toX, toY) {
  const jumps = (k) => {
    const between = (ys[k - 1] + ys[k]) / 2;
    const isSteep = Math.abs(ys[k] - ys[k - 1]) > (height[1] - height[0]) / STEEP;
    return isSteep && crossingOf([xs[k - 1]], [xs[k]], ([x]) => at(x) - between) === undefined;
  };
  return line(xs.flatMap((x, k) => [...(jumps(k) ? [[NaN, NaN]] : []), [toX(x), toY(ys[k])]]));
}

/** The trail of a descent as points; the last one is the current point. */
function trailOf(svg, points) {
  svg.append(svgElement("path", { class: "trail", d: line(points) }));
  points.forEach(([x, y], k) => svg.append(...(k === points.length - 1 ? dot("now", x, y, 6) : dot("", x, y, 3))));
  return svg;
}

/** A range around a number: `least` on both sides, and at least as far as 0. */
function rangeAround(x, least = 1) {
  const reach = Math.max(least, Math.abs(x));
  return [Math.max(x - reach, -Number.MAX_VALUE), Math.min(x + reach, Number.MAX_VALUE)];
}

/** The range of the values of a trail's k-th element, and of numbers around the last one. */
function rangeOf(trail, k) {
  const visited = trail.map(({ xs }) => xs[k]);
  return around([...visited, ...rangeAround(visited.at(-1))], 0.08);
}

/** Numbers at equal distances from one end of a range to the other. */
function samplesOf(range) {
  return Array.from({ length: SAMPLES }, (_, k) => between(range, k / (SAMPLES - 1)));
}

/** The output along one element, its slope here, and the trail. */
function curveOf(element, trail) {
  const range = rangeOf(trail, 0);
  const xs = samplesOf(range);
  const at = (x) => outputAt([element], [x]);
  const ys = xs.map(at);
  const height = around([...middle(ys), ...trail.map(({ value }) => value)], 0.05);
  const { svg, plot, toX, toY } = chart(`The output as ${element.name} changes, with the trail`, [element.name, range], [OUTPUT, height]);
  const { xs: [here], value } = trail.at(-1);
  const slope = elementAt(playback.computation.adjoints[element.variable.node], element.at);
  const reachOfTangent = (range[1] - range[0]) / 6;
  const tangent = [-1, 1].map((side) => [toX(here + side * reachOfTangent), toY(value + side * reachOfTangent * slope)]);
  plot.append(
    svgElement("path", { class: "loss", d: curveThrough(xs, ys, height, at, toX, toY) }),
    svgElement("path", { class: "tangent", d: line(tangent) }),
  );
  return trailOf(svg, trail.map(({ xs: [x], value: y }) => [toX(x), toY(y)]));
}

/** Numbers without the most extreme ones, so that a pole does not flatten a curve. */
function middle(numbers, isTwoSided) {
  const sorted = numbers.filter(Number.isFinite).sort((a, b) => a - b);
  const cut = Math.floor(sorted.length / 20);
  return sorted.slice(isTwoSided ? cut : 0, sorted.length - cut);
}

/** Contours of the output over two elements, and the trail. A level is left out if the grid is too coarse for its lines. */
function contoursOf(elements, trail) {
  const sides = elements.map((_, k) => rangeOf(trail, k));
  const count = Math.max(9, Math.min(GRID, Math.floor(Math.sqrt(MOST_WORK / record.nodes.length))));
  const at = (side, k) => between(side, k / (count - 1));
  const indices = [...Array(count).keys()];
  const heights = indices.map((j) => indices.map((i) => outputAt(elements, [at(sides[0], i), at(sides[1], j)])));
  const names = elements.map(({ name }) => name);
  const title = `Contours of the output over ${names.join(" and ")}, with the trail`;
  const { svg, toX, toY } = chart(title, [names[0], sides[0]], [names[1], sides[1]]);
  const sorted = heights.flat().filter(Number.isFinite).sort((a, b) => a - b);
  const levels = Array.from({ length: LEVELS }, (_, k) => sorted[Math.floor(((k + 0.5) / LEVELS) ** 1.5 * sorted.length)]);
  for (const level of new Set(levels)) {
    const height = ([x, y]) => outputAt(elements, [at(sides[0], x), at(sides[1], y)]) - level;
    const lines = level === undefined ? [] : levelLines(heights, level, height).map(({ points, isClosed }) => {
      return { points: points.map(([x, y]) => [at(sides[0], x), at(sides[1], y)]), isClosed };
    });
    if (lines.some(({ points, isClosed }) => isClosed && !surroundsStationaryPoint(elements, points))) continue;
    const d = lines.map(({ points }) => line(points.map(([x, y]) => [toX(x), toY(y)]))).join("");
    svg.append(svgElement("path", { class: "level", d }, [svgElement("title", {}, `${OUTPUT} = ${brief(level)}`)]));
  }
  return trailOf(svg, trail.map(({ xs: [x, y] }) => [toX(x), toY(y)]));
}

/** Where a line from one point to another, between which a height changes its sign, crosses height 0; undefined where the height
 * jumps there, as at a pole. */
function crossingOf(from, to, height) {
  let [low, high] = [from, to].map((point) => ({ point, height: height(point) }));
  const jump = Math.abs(high.height - low.height);
  for (let k = 0; k < HALVINGS; k++) {
    const point = low.point.map((x, side) => (x + high.point[side]) / 2);
    const middle = { point, height: height(point) };
    if (middle.height < 0 === low.height < 0) low = middle;
    else high = middle;
  }
  const share = low.height / (low.height - high.height);
  if (!(Math.abs(high.height - low.height) < jump / 2)) return undefined;
  return low.point.map((x, side) => x + share * (high.point[side] - x));
}

/** The lines on which a surface over a grid has a height, in coordinates of the grid (marching squares). `height(point)` is how far
 * the surface is above it. */
function levelLines(heights, level, height) {
  const crossings = new Map(); // by edge of the grid: the point on it, and the edges to which its line goes on
  const crossing = (key, from, to) => {
    if (!crossings.has(key)) crossings.set(key, { point: crossingOf(from, to, height), next: [] });
    return crossings.get(key).point ? [key] : [];
  };
  for (let j = 0; j + 1 < heights.length; j++) {
    for (let i = 0; i + 1 < heights[j].length; i++) {
      const corners = [[i, j], [i + 1, j], [i + 1, j + 1], [i, j + 1]];
      const above = corners.map(([x, y]) => heights[y][x] - level);
      if (!above.every(Number.isFinite)) continue;
      const ends = corners.flatMap(([x, y], k) => {
        const [[nextX, nextY], from, to] = [corners[(k + 1) % 4], above[k], above[(k + 1) % 4]];
        if (from < 0 === to < 0) return [];
        return crossing(`${Math.min(x, nextX)} ${Math.min(y, nextY)} ${x === nextX}`, [x, y], [nextX, nextY]);
      });
      const isMiddleBelow = above.reduce((a, b) => a + b) < 0;
      if (ends.length === 4 && isMiddleBelow !== above[0] < 0) ends.push(ends.shift()); // lines do not cross the middle
      for (let k = 0; k + 1 < ends.length; k += 2) {
        crossings.get(ends[k]).next.push(ends[k + 1]);
        crossings.get(ends[k + 1]).next.push(ends[k]);
      }
    }
  }
  const follow = (start) => {
    const points = [];
    for (let key = start; key !== undefined;) {
      const { point, next } = crossings.get(key);
      points.push(point);
      crossings.delete(key);
      key = next.find((edge) => crossings.has(edge));
      if (key === undefined && points.length > 2 && next.includes(start)) return { points: [...points, points[0]], isClosed: true };
    }
    return { points, isClosed: false };
  };
  const open = [...crossings].filter(([, { next }]) => next.length === 1).map(([key]) => key);
  return [...open, ...crossings.keys()].flatMap((key) => (crossings.get(key)?.point ? [follow(key)] : []));
}

/** Whether the gradient turns around once along a closed line. Otherwise no stationary point is inside, and no true contour
 * is closed. */
function surroundsStationaryPoint(elements, points) {
  const angles = points.map((xs) => {
    const { adjoints } = evaluator.run(pointAt(elements, xs));
    const [x, y] = elements.map(({ variable: { node }, at }) => elementAt(nested(adjoints[node]), at));
    return Math.atan2(y, x);
  });
  const turns = angles.slice(1).map((angle, k) => Math.atan2(Math.sin(angle - angles[k]), Math.cos(angle - angles[k])));
  return !(Math.abs(turns.reduce((a, b) => a + b, 0)) < Math.PI); // nan proves nothing
}

/** The output from step to step. */
function historyOf(trail) {
  const range = [0, Math.max(1, trail.length - 1)];
  const { svg, toX, toY } = chart("The output after each step", ["step", range], [OUTPUT, around(trail.map(({ value }) => value), 0.05)]);
  return trailOf(svg, trail.map(({ value }, k) => [toX(k), toY(value)]));
}
