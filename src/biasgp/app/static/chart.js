// The plot as something to work with: it keeps its range, asks for more readings as one zooms in, and says what was
// pointed at or selected. What is selected, and why, is the affair of readings.js.
import * as api from "./api.js";
import { $, count, placed, thousands, visible } from "./dom.js";
import { heights, layout, traces } from "./figure.js";
import { rings } from "./rings.js";
import { attempt, state } from "./state.js";

const PAUSE = 120;  // ms without a change of the range before readings are asked for again
const DOUBLE = 300;  // ms, at most, between the clicks of a double click
const SAME_PLACE = 6;  // pixels between the clicks of a double click
const AROUND = 150;  // readings to either side when one is looked up that is not drawn
const TOOLS = { displayModeBar: false, displaylogo: false, responsive: true, doubleClick: false, doubleClickDelay: 0, showTips: false, showSendToCloud: false, plotlyServerURL: "" };

export const chart = { plot: null, index: new Map(), x: null, y: null, whole: null, mode: "zoom" };
let chosen = () => ({ indices: [], cursor: null, interval: null });
let asked = null, pause = 0, own = 0, outlined = false, wiping = false, pressed = { x: 0, y: 0, time: -Infinity };
const at = () => $("plot");
export const narrow = () => window.innerWidth < 640;

/** `events`: clicked(index, add), selected(indices), interval(from, to); `selection()`: what to ring. */
export function start(events, selection) {
  chosen = selection;
  setMode(narrow() ? "none" : "zoom");  // where one drags to scroll, a drag is no zoom until it is asked for
  window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => draw());
  const wired = () => {
    at().on("plotly_click", (event) => {
      const point = event.points.find((each) => each.customdata);
      if (point) events.clicked(point.customdata[0], Boolean(event.event && (event.event.shiftKey || event.event.ctrlKey || event.event.metaKey)));
    });
    at().on("plotly_selected", (event) => {
      if (wiping || !event) return;
      outlined = true;
      const found = event.points.filter((each) => each.customdata).map((each) => each.customdata[0]);
      if (chart.mode === "interval" && event.range) {
        const [a, b] = event.range.x.map((end) => placed(end, chart.plot.axis));
        events.interval(Math.min(a, b), Math.max(a, b));
      } else events.selected(found);
    });
    at().on("plotly_relayout", (change) => {
      if (own || !Object.keys(change).some((key) => key.startsWith("xaxis.") || key.startsWith("yaxis."))) return;
      chart.x = at().layout.xaxis.range.map((end) => placed(end, chart.plot.axis));
      chart.y = at().layout.yaxis.range.slice();
      again();
    });
    at().on("plotly_afterplot", overlay);
    at().addEventListener("mousedown", (event) => {
      if (twice(event)) setTimeout(() => show(null, null));
    }, { capture: true });
  };
  chart.wire = () => { chart.wire = null; wired() };
}

/** Whether this is the second press of a double click, in the plot itself. Plotly would take two readings that are
 * clicked in quick succession for one, and draw everything again. */
function twice(event) {
  const before = pressed;
  pressed = { x: event.clientX, y: event.clientY, time: event.timeStamp };
  const same = event.timeStamp - before.time < DOUBLE && Math.hypot(pressed.x - before.x, pressed.y - before.y) <= SAME_PLACE;
  if (same) pressed = { ...pressed, time: -DOUBLE };
  return same && Boolean(event.target.closest(".nsewdrag"));
}

/** Readings of the range that is shown, or of all; resolves when they are drawn. */
export async function load() {
  if (asked) asked.abort();
  asked = new AbortController();
  at().setAttribute("aria-busy", "true");
  return attempt(async () => {
    const plot = await api.plot(chart.x, state.sensor, asked.signal);
    chart.plot = plot;
    chart.index = new Map(plot.row.map((row, i) => [row, i]));
    if (!chart.x && plot.x.length) chart.whole = { from: plot.x[0], to: plot.x[plot.x.length - 1], total: plot.total, everything: heights(plot), curve: heights(plot, true) };
    await draw();
    at().removeAttribute("aria-busy");
  });
}

/** Ask again after a zoom, if there is more to see than is drawn. */
function again() {
  clearTimeout(pause);
  if (chart.whole && chart.plot.total >= chart.whole.total && chart.plot.drawn >= chart.plot.total) return;
  pause = setTimeout(load, PAUSE);
}

export async function draw() {
  if (!chart.plot || at().closest("[hidden]")) return;
  own += 1;
  await window.Plotly.react(at(), traces(chart.plot), layout(chart.plot, { x: chart.x, y: chart.y || (chart.whole && chart.whole.everything), mode: chart.mode, narrow: narrow() }), TOOLS);
  own -= 1;
  if (chart.wire) chart.wire();
  overlay();
  at().dataset.mode = chart.mode;
  at().dataset.drawn = chart.plot.row.length;
  at().setAttribute("aria-label", "Plot of " + count(chart.plot.total, "reading") + ": " + visible(chart.plot.y_label, 60) + " over " + visible(chart.plot.axis.label, 60));
  note();
}

function note() {
  const { drawn, total } = chart.plot;
  $("drawn").textContent = drawn < total ? thousands(drawn) + " of " + thousands(total) + " readings are drawn, the flagged and judged ones first. Zoom in to see all." : "";
}

/** Draw what lies over the readings again: the selection, the reading one is at, verdicts. */
export function overlay() {
  if (chart.plot) rings(at(), $("rings"), chart.plot, chosen());
}

/** Take away the line that was drawn to select, once something else is selected. */
export async function wipe() {
  if (!outlined) return;
  outlined = false;
  wiping = true;  // which plotly calls a selection of nothing
  await window.Plotly.relayout(at(), { selections: [] });
  wiping = false;
}

/** Show a range of x and y; null is all. */
export function show(x, y) {
  const before = chart.x;
  if (!x && !y && !before && !chart.y) return;
  chart.x = x;
  chart.y = y;
  draw();
  if (x || before) again();
}

export function setMode(mode) {
  chart.mode = mode;
  for (const button of document.querySelectorAll("[data-mode]")) if (button.tagName === "BUTTON") button.setAttribute("aria-pressed", String(button.dataset.mode === mode));
  return draw();
}

export function zoom(factor, centre) {
  if (!chart.whole) return;
  const [a, b] = chart.x || [chart.whole.from, chart.whole.to];
  const middle = centre === null || centre === undefined ? (a + b) / 2 : centre;
  const half = factor * (b - a) / 2;
  const range = [Math.max(middle - half, chart.whole.from), Math.min(middle + half, chart.whole.to)];
  show(factor > 1 && range[0] <= chart.whole.from && range[1] >= chart.whole.to ? null : range, chart.y);
}

/** Bring a place into view, with its reading drawn; keeps the range where it is in view already. */
export async function reveal(row, x) {
  const drawn = chart.index.has(row);
  const place = drawn ? chart.plot.x[chart.index.get(row)] : x;
  if (!Number.isFinite(place) || !chart.whole) return;
  const [a, b] = chart.x || [chart.whole.from, chart.whole.to];
  const inside = place >= a && place <= b;
  if (drawn && inside) return;
  const span = chart.whole.to - chart.whole.from;
  const half = drawn ? (b - a) / 2 : Math.min((b - a) / 2, span * Math.min(1, AROUND / Math.max(chart.whole.total, 1)));
  chart.x = [place - half, place + half];
  if (drawn && chart.plot.drawn >= chart.plot.total && !partial()) { await draw(); return }
  await load();
}

/** Whether the answer that is drawn holds a part of the range alone. */
const partial = () => chart.whole && chart.plot.total < chart.whole.total;

export function reset() {
  Object.assign(chart, { plot: null, index: new Map(), x: null, y: null, whole: null });
}
