// What lies over the readings: rings around those that are selected or judged, and the interval that is selected. Drawn
// apart from plotly, which takes as long for one more ring as for all the readings.
const SVG = "http" + "://www.w3.org/2000/svg";  // the name of a language; nothing is fetched from there
const SIZES = { good: 6, bad: 5.5, selected: 8, cursor: 11 };  // pixels from the middle

function circle(x, y, r) {
  return "M" + (x - r).toFixed(1) + " " + y.toFixed(1) + "a" + r + " " + r + " 0 1 0 " + 2 * r + " 0a" + r + " " + r + " 0 1 0 " + -2 * r + " 0";
}

function square(x, y, r) {
  return "M" + (x - r).toFixed(1) + " " + (y - r).toFixed(1) + "h" + 2 * r + "v" + 2 * r + "h" + -2 * r + "z";
}

function made(tag, attributes) {
  const element = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  return element;
}

/** Rings over the plot `at`, for what `chosen` has of the readings of `plot`. */
export function rings(at, over, plot, chosen) {
  const frame = at._fullLayout;
  if (!frame || !frame.xaxis || !frame.xaxis.d2p) return;
  const { xaxis, yaxis } = frame;
  const left = xaxis._offset, top = yaxis._offset, right = left + xaxis._length, bottom = top + yaxis._length;
  const marked = (which, kind, shape) => {
    let path = "";
    for (const i of which) {
      const x = left + xaxis.d2p(plot.x[i]), y = top + yaxis.d2p(plot.y[i]);
      if (x >= left && x <= right && y >= top && y <= bottom) path += shape(x, y, SIZES[kind]);
    }
    return made("path", { class: kind, d: path || "M0 0" });
  };
  const judged = (verdict) => plot.row.map((_, i) => i).filter((i) => plot.verdict && plot.verdict[i] === verdict);
  const parts = [marked(judged("good"), "good", circle), marked(judged("bad"), "bad", square), marked(chosen.indices, "selected", circle),
    marked(chosen.cursor === null ? [] : [chosen.cursor], "cursor", circle)];
  if (chosen.interval) {
    const ends = chosen.interval.map((x) => Math.min(Math.max(left + xaxis.d2p(x), left), right));
    parts.unshift(made("rect", { class: "interval", x: ends[0], y: top, width: Math.max(ends[1] - ends[0], 1), height: bottom - top }));
  }
  over.replaceChildren(...parts);
}
