// The plot of the readings: traces and layout in the colours of the page. Knows nothing of the server.
import { visible, place } from "./dom.js";

const MAX_LABEL = 60;
const MAX_SHADES = 300;
const SHADES = {  // fill and edge of each kind of episode, as in the report
  stuck: ["rgba(204,121,167,0.35)", "#CC79A7", "solid"],
  shift: ["rgba(230,159,0,0.28)", "#E69F00", "dash"],
  step: ["rgba(86,180,233,0.28)", "#56B4E9", "dashdot"],
  ramp: ["rgba(0,158,115,0.28)", "#009E73", "dot"],
  erratic: ["rgba(213,94,0,0.22)", "#D55E00", "longdash"],
};
const OTHER = ["rgba(138,144,153,0.3)", "#8a9099", "solid"];

/** A text of the table for plotly, which reads some HTML and %{…} in its labels; as numbers, which it always knows. */
export function label(text) {
  return visible(text, MAX_LABEL).replace(/[&<>"'{}$]/g, (sign) => "&#" + sign.charCodeAt(0) + ";");
}

function colours() {
  const style = getComputedStyle(document.documentElement);
  const of = (name) => style.getPropertyValue("--" + name).trim();
  return { ink: of("ink"), soft: of("soft"), grid: of("grid"), edge: of("edge"), dot: of("dot"), mean: of("mean"), band: of("band"),
    cross: of("cross"), ok: of("ok"), paper: of("paper") };
}

function pick(plot, which) {
  return { x: which.map((i) => plot.x[i]), y: which.map((i) => plot.y[i]) };
}

/** Readings as markers that can be pointed at; customdata holds their place in the answer first. */
function dots(plot, which, name, marker) {
  const cell = (array, i, digits) => (array && Number.isFinite(array[i]) ? String(Number(array[i].toPrecision(digits))) : "–");
  const fitted = Boolean(plot.mean);
  const hover = "%{x}<br>reading %{y}" + (fitted ? "<br>estimated truth %{customdata[2]}<br>bad with probability %{customdata[3]}%{customdata[4]}" : "")
    + "<br>row %{customdata[1]}<extra></extra>";
  return {
    ...pick(plot, which), type: "scatter", mode: "markers", name, marker, hovertemplate: hover,
    customdata: which.map((i) => [i, plot.row[i], cell(plot.mean, i, 4), cell(plot.probability, i, 3),
      plot.kind && plot.kind[i] ? "<br>taken for " + label(plot.kind[i]) : ""]),
    selected: { marker: { opacity: marker.opacity || 1 } }, unselected: { marker: { opacity: marker.opacity || 1 } },
  };
}

function line(x, y, name, more) {
  return { x: y ? x : [], y: y || [], type: "scatter", mode: "lines", name, hoverinfo: "skip", ...more };
}

/** All traces: the band first, so that it is behind. */
export function traces(plot) {
  const c = colours();
  const flagged = (i) => Boolean(plot.flagged && plot.flagged[i]);
  const all = plot.row.map((_, i) => i), bad = all.filter(flagged), few = plot.row.length < 400;
  return [
    line(plot.x, plot.low, "lower end of the 95 % band", { line: { width: 0 }, showlegend: false }),
    line(plot.x, plot.high, "95 % band", { line: { width: 0 }, fill: "tonexty", fillcolor: c.band, showlegend: Boolean(plot.high) }),
    dots(plot, all.filter((i) => !flagged(i)), "readings", { color: c.dot, size: few ? 6 : 4.5, opacity: 0.8 }),
    line(plot.x, plot.mean, "estimated truth", { line: { color: c.mean, width: 1.8 }, showlegend: Boolean(plot.mean) }),
    { ...dots(plot, bad, "flagged", { color: c.cross, size: 8, symbol: "x" }), showlegend: bad.length > 0 },
  ];
}

function shades(episodes) {
  const named = new Set();
  return (episodes || []).slice(0, MAX_SHADES).map((episode) => {
    const [fillcolor, color, dash] = SHADES[episode.kind] || OTHER;
    const name = label(episode.kind), first = !named.has(name);
    named.add(name);
    return { type: "rect", xref: "x", yref: "paper", x0: episode.start, x1: episode.stop, y0: 0, y1: 1, layer: "below", fillcolor,
      line: { color, width: 1, dash }, name, legendgroup: name, showlegend: first };
  });
}

/** The layout for a range of x and of y (null: as the data are) and a way to drag. */
export function layout(plot, { x, y, mode, narrow }) {
  const c = colours();
  const axis = (title) => ({ title: { text: label(title), standoff: 8 }, gridcolor: c.grid, linecolor: c.edge, zeroline: false, automargin: true });
  const type = plot.axis.kind === "time" ? "date" : "linear";
  return {
    autosize: true, margin: { l: narrow ? 44 : 58, r: 12, t: 30, b: 42 }, hovermode: "closest", clickmode: "event",
    font: { family: "system-ui, -apple-system, 'Segoe UI', sans-serif", size: narrow ? 12 : 13, color: c.ink },
    paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)",
    hoverlabel: { bgcolor: c.paper, bordercolor: c.edge, font: { color: c.ink } },
    legend: { orientation: "h", y: 1.01, yanchor: "bottom", x: 0, traceorder: "normal", itemclick: false, itemdoubleclick: false },
    xaxis: { ...axis(plot.axis.label), type, range: x ? x.slice() : undefined, autorange: !x },
    yaxis: { ...axis(plot.y_label), range: y ? y.slice() : undefined, autorange: !y },
    shapes: shades(plot.episodes),
    dragmode: { zoom: "zoom", interval: "select", box: "select", lasso: "lasso", none: false }[mode],
    selectdirection: mode === "interval" ? "h" : "any",
    newselection: { line: { color: c.ink, width: 1.5, dash: "dot" } },
    selections: [],
    activeselection: { fillcolor: c.band, opacity: 0.4 },
  };
}

/** A range that holds readings and the curve, or the readings near the curve alone. */
export function heights(plot, nearCurve) {
  let low = Infinity, high = -Infinity;
  const take = (value) => { if (Number.isFinite(value)) { low = Math.min(low, value); high = Math.max(high, value) } };
  plot.y.forEach((value, i) => { if (!nearCurve || !(plot.flagged && plot.flagged[i])) take(value) });
  (plot.mean || []).forEach((value) => { if (value !== null) take(value) });
  if (low > high) return null;
  const margin = 0.05 * (high - low) || 1;
  return [low - margin, high + margin];
}

/** One reading in words, for those who do not see the plot. */
export function spoken(plot, i) {
  const parts = ["row " + plot.row[i] + ", " + place(plot.x[i], plot.axis), "reading " + Number(plot.y[i].toPrecision(5))];
  if (plot.mean && Number.isFinite(plot.mean[i])) parts.push("estimated truth " + Number(plot.mean[i].toPrecision(4)));
  if (plot.flagged && plot.flagged[i]) parts.push("flagged" + (Number.isFinite(plot.probability[i]) ? ", probability " + Number(plot.probability[i].toPrecision(2)) : ""));
  if (plot.verdict && plot.verdict[i]) parts.push("judged " + plot.verdict[i]);
  return parts.join("; ");
}
