// The view Readings: what is selected, verdicts on it, undo and redo, why, and what is worth a look.
import * as api from "./api.js";
import * as why from "./explain.js";
import { chart, draw, load, overlay, reset, reveal, setMode, show, start as startChart, wipe, zoom } from "./chart.js";
import { $, count, el, fill, list, place, placed, say, thousands } from "./dom.js";
import { heights, spoken } from "./figure.js";
import { attempt, fitted, heard, ready, state, take } from "./state.js";

const MAX_ROWS = 100000;  // as many as a request may hold
const selection = { rows: new Set(), interval: null, cursor: null, anchor: null, question: null };
let queue = [], drawnFor = "", visible = false;
const reasons = [];

const indices = () => Array.from(selection.rows, (row) => chart.index.get(row)).filter((i) => i !== undefined);
const cursorIndex = () => (selection.cursor !== null && chart.index.has(selection.cursor) ? chart.index.get(selection.cursor) : null);
/** The question about several readings that is looked at: while all of them, and nothing else, are selected. */
const asked = () => {
  const { question } = selection;
  return question && question.set === selection.rows && selection.rows.size === question.item.count ? question.item : null;
};
const here = () => (asked() ? why.key(asked()) : selection.rows.size === 1 ? String(selection.cursor) : null);
const signature = (project) => JSON.stringify([project.table, project.understood, project.options, project.current, project.verdicts.version, state.sensor]);

export function start() {
  startChart({
    clicked: (i, add) => { pick([chart.plot.row[i]], add); $("plot").focus({ preventScroll: true }) },
    selected: (found) => { pick(found.map((i) => chart.plot.row[i]), false, true); $("plot").focus({ preventScroll: true }) },
    interval: (from, to) => { pickInterval(from, to); $("plot").focus({ preventScroll: true }) },
  }, () => ({ indices: indices(), cursor: cursorIndex(), interval: selection.interval }));
  for (const button of document.querySelectorAll("button[data-mode]")) {
    button.addEventListener("click", () => setMode(chart.mode === button.dataset.mode ? "none" : button.dataset.mode));
  }
  for (const button of document.querySelectorAll("[data-verdict]")) button.addEventListener("click", () => mark(button.dataset.verdict));
  $("all").addEventListener("click", () => show(null, null));
  $("curve").addEventListener("click", () => show(chart.x, heights(chart.plot, true)));
  $("undo").addEventListener("click", () => step(api.undo, "Undone"));
  $("redo").addEventListener("click", () => step(api.redo, "Done again"));
  $("next").addEventListener("click", next);
  $("sensor").addEventListener("change", () => choose($("sensor").value));
  $("verdicts").addEventListener("submit", (event) => event.preventDefault());
  $("by-row").addEventListener("submit", (event) => { event.preventDefault(); byRow($("rows").value) });
  $("by-interval").addEventListener("submit", (event) => { event.preventDefault(); byInterval() });
  $("letters").checked = localStorage.getItem("biasgp-letters") !== "no";
  $("letters").addEventListener("change", () => localStorage.setItem("biasgp-letters", $("letters").checked ? "yes" : "no"));
  heard(changed);
}

/** The view comes into sight, or goes. */
export function sight(on) {
  visible = on;
  if (!on || !state.project) return;
  if (chart.plot && drawnFor === signature(state.project)) draw();
  else changed(state.project);
}

async function changed(project, before) {
  $("undo").disabled = !project.verdicts.can_undo;
  $("redo").disabled = !project.verdicts.can_redo;
  if (before && (JSON.stringify(before.table) !== JSON.stringify(project.table) || before.options.by !== project.options.by)) choose("", false);
  $("no-readings").hidden = ready(project);
  $("work").hidden = !ready(project);
  if (!visible || !ready(project)) return;
  const now = signature(project);
  if (now === drawnFor) return;
  drawnFor = now;
  await load();
  if (chart.plot && chart.plot.sensor && !state.sensor) { state.sensor = chart.plot.sensor; drawnFor = signature(state.project); $("sensor").value = state.sensor }
  findings();
  selected();
  await loadQueue();
}

/** What the fit has to say against itself, before anything else. */
function findings() {
  const part = (kind, title, items) => (items && items.length ? el("div", { class: kind, role: "note" }, el("h3", { text: title }), list(items)) : null);
  const { doubts, notes } = chart.plot || {};
  fill($("findings"), part("doubts", "Look at this before you trust the fit", doubts));
  fill($("notes"), notes && notes.length ? el("details", { class: "more" }, el("summary", { text: "Worth knowing: " + count(notes.length, "note") }), part("notes", "", notes)) : null);
}

/** Another sensor of the fleet. */
export function choose(sensor, redraw = true) {
  state.sensor = sensor;
  Object.assign(selection, { rows: new Set(), interval: null, cursor: null, anchor: null });
  reset();
  drawnFor = "";
  if ($("sensor").value !== sensor) $("sensor").value = sensor;
  if (redraw && state.project) { changed(state.project); say("Sensor " + sensor + ".") }
}

export function sensorChoices(names) {
  $("sensor-bar").hidden = !names.length;
  fill($("sensor"), ...names.map((name) => el("option", { value: name, text: name.slice(0, 60) })));
  if (state.sensor) $("sensor").value = state.sensor;
}

async function loadQueue() {
  if (!fitted(state.project)) { queue = []; $("next").disabled = true; return }
  await attempt(async () => { queue = await api.queue(state.sensor) });
  why.queue(queue, here(), ask);
}

function pick(rows, add, drawn) {
  if (!add) selection.rows = new Set();
  for (const row of rows) {
    if (add && selection.rows.has(row)) selection.rows.delete(row);
    else selection.rows.add(row);
  }
  selection.interval = null;
  selection.cursor = rows.length === 1 ? rows[0] : null;
  selection.anchor = selection.cursor;
  selected();
  overlay();
  if (!drawn) wipe();
}

function pickInterval(from, to) {
  selection.rows = new Set(chart.plot.row.filter((_, i) => chart.plot.x[i] >= from && chart.plot.x[i] <= to));
  Object.assign(selection, { interval: [from, to], cursor: null, anchor: null });
  selected();
  overlay();
}

/** Say what is selected. */
function describe() {
  const rows = Array.from(selection.rows), n = rows.length, within = indices();
  const flagged = within.filter((i) => chart.plot.flagged && chart.plot.flagged[i]).length;
  let words = "Nothing is selected.";
  if (asked()) words = count(n, "reading") + ", judged as one: " + asked().if_bad + "; or " + asked().if_good + ".";
  else if (selection.interval) {
    words = "All readings from " + place(selection.interval[0], chart.plot.axis) + " to " + place(selection.interval[1], chart.plot.axis)
      + (chart.plot.drawn < chart.plot.total ? ", also those that are not drawn." : ": " + thousands(n) + (flagged ? ", " + thousands(flagged) + " flagged" : "") + ".");
  } else if (n === 1) words = within.length ? spoken(chart.plot, within[0]) : "row " + rows[0];
  else if (n > 1) {
    words = count(n, "reading") + (flagged ? ", " + thousands(flagged) + " flagged" : "")
      + (chart.plot.drawn < chart.plot.total ? ": those that are drawn. An interval, or a closer look, has all." : ".");
  }
  $("selected").textContent = words.charAt(0).toUpperCase() + words.slice(1);
  for (const button of document.querySelectorAll("[data-verdict]")) button.disabled = !n && !selection.interval;
}

/** Say what is selected, and why the one that is. */
function selected() {
  const rows = Array.from(selection.rows), n = rows.length;
  describe();
  why.current(here());
  if (asked()) why.question(asked());
  else if (!fitted(state.project)) why.hint("After a fit, this says why a reading is flagged.");
  else if (n === 1 && !selection.interval) why.show(rows[0], goTo);
  else why.hint(n ? "Select one reading to see why." : "Select one reading.");
}

/** Select one reading, and bring it into view; `when` is its place on the axis in words. */
async function goTo(row, when) {
  selection.rows = new Set([row]);
  Object.assign(selection, { interval: null, cursor: row, anchor: row });
  selected();
  await reveal(row, placed(when, chart.plot && chart.plot.axis));
  describe();
  overlay();
  say($("selected").textContent);
}

/** Select what a question is about, and bring it into view. */
async function ask(item) {
  if (item.count === 1) { await goTo(item.row, item.when); return }
  const rows = new Set();
  for (const [first, last] of item.rows) for (let row = first; row <= last; row += 1) rows.add(row);
  Object.assign(selection, { rows, interval: null, cursor: null, anchor: null, question: { item, set: rows } });
  selected();
  const ends = [item.when, item.until].map((when) => placed(when, chart.plot && chart.plot.axis));
  if (chart.x && (ends[0] < chart.x[0] || ends[1] > chart.x[1])) {
    const margin = 0.1 * (ends[1] - ends[0]);
    show([ends[0] - margin, ends[1] + margin], chart.y);
  }
  overlay();
  say($("selected").textContent);
}

/** The one after the last that was looked at, from the top when there is none. */
function next() {
  if (!queue.length) { say("Nothing is left to look at."); return }
  const at = queue.findIndex((item) => why.key(item) === here());
  ask(queue[(at + 1) % queue.length]);
  $("plot").focus({ preventScroll: true });
}

function move(steps, extend, keep) {
  const { plot } = chart;
  if (!plot || !plot.row.length) return;
  const [from] = chart.x || [-Infinity];
  const here = cursorIndex(), first = Math.max(0, plot.x.findIndex((x) => x >= from));
  const target = here === null && Math.abs(steps) < plot.row.length ? first : Math.min(Math.max((here || 0) + steps, 0), plot.row.length - 1);
  arrive(target, extend, keep);
}

function moveFlagged(direction) {
  const { plot } = chart;
  if (!plot || !plot.flagged) return;
  const here = cursorIndex();
  let i = here === null ? (direction > 0 ? -1 : plot.row.length) : here;
  do i += direction; while (i >= 0 && i < plot.row.length && !plot.flagged[i]);
  if (i >= 0 && i < plot.row.length) arrive(i, false, false);
  else say("No flagged reading in this direction.");
}

/** Be at a reading of the answer. What lies between it and where the extending began is selected too, or else it alone,
 * or, to `keep`, what was selected before. */
async function arrive(i, extend, keep) {
  const row = chart.plot.row[i], anchor = extend && chart.index.has(selection.anchor) ? chart.index.get(selection.anchor) : i;
  if (!keep) selection.rows = new Set(chart.plot.row.slice(Math.min(anchor, i), Math.max(anchor, i) + 1));
  Object.assign(selection, { interval: null, cursor: row, anchor: chart.plot.row[anchor] });
  await reveal(row, chart.plot.x[i]);
  selected();
  overlay();
  const at = chart.index.get(row);
  say((selection.rows.size > 1 ? count(selection.rows.size, "reading") + " selected. " : "") + spoken(chart.plot, at));
}

function toggle() {
  if (selection.cursor === null) return;
  if (selection.rows.has(selection.cursor)) selection.rows.delete(selection.cursor);
  else selection.rows.add(selection.cursor);
  selection.interval = null;
  selected();
  overlay();
}

function clear() {
  Object.assign(selection, { rows: new Set(), interval: null, anchor: null, cursor: null });
  selected();
  overlay();
  wipe();
  say("Nothing is selected.");
}

function byRow(text) {
  const rows = [];
  for (const part of text.split(/[,;\s]+/).filter((each) => each)) {
    const ends = /^(\d+)(?:-(\d+))?$/.exec(part);
    if (!ends) { say(part + " is no row: write numbers and ranges, such as 12, 40-60."); return }
    const last = Number(ends[2] || ends[1]);
    if (last - Number(ends[1]) > MAX_ROWS) { say("At most " + thousands(MAX_ROWS) + " rows at once; an interval has no such limit."); return }
    for (let row = Number(ends[1]); row <= last; row += 1) rows.push(row);
  }
  pick(rows, false);
  say($("selected").textContent);
}

function byInterval() {
  const from = placed($("from").value, chart.plot.axis), to = placed($("to").value, chart.plot.axis);
  if (!Number.isFinite(from) || !Number.isFinite(to)) {
    say("From and to must be " + (chart.plot.axis.kind === "time" ? "times, such as " : "numbers, such as ") + place(chart.plot.x[0], chart.plot.axis) + ".");
    return;
  }
  pickInterval(Math.min(from, to), Math.max(from, to));
  say($("selected").textContent);
}

async function mark(verdict) {
  if (!selection.rows.size && !selection.interval) { say("Select a reading first."); return }
  const reason = $("why").value.trim();
  const what = selection.interval ? { from: selection.interval[0], to: selection.interval[1] } : { rows: Array.from(selection.rows) };
  if (state.sensor) what.sensor = state.sensor;
  const marked = indices(), word = verdict === "open" ? "undecided" : verdict;
  await attempt(async () => {
    const answer = await api.mark({ ...what, verdict, why: reason });
    for (const i of marked) chart.plot.verdict[i] = verdict === "open" ? "" : verdict;
    said(answer);
    overlay();
    say(count(answer.changed, "reading") + " marked " + word + (reason ? ": " + reason : "") + ".");
    $("why").value = "";
    if (reason && !reasons.includes(reason)) {
      reasons.unshift(reason);
      fill($("reasons"), ...reasons.slice(0, 10).map((each) => el("option", { value: each })));
    }
    selected();
    loadQueue();
  });
}

/** The server counts verdicts; what is drawn has them already. */
function said({ verdicts, stale }) {
  const told = { ...state.project, verdicts, stale };
  drawnFor = signature(told);
  take(told);
}

async function step(action, word) {
  await attempt(async () => {
    const answer = await action();
    said(answer);
    await load();
    selected();
    say(word + ": " + count(answer.changed, "reading") + ".");
    loadQueue();
  });
}

const ARROWS = { ArrowLeft: -1, ArrowRight: 1, PageUp: -10, PageDown: 10, Home: -Infinity, End: Infinity };
const clamped = (steps) => Math.max(Math.min(steps, 1e9), -1e9);
const ORDERS = { g: () => mark("good"), b: () => mark("bad"), u: () => mark("open"), n: () => next() };

/** Whether a key was ours. */
export function key(event) {
  const typing = event.target.closest("input:not([type=checkbox]), textarea, select");
  if (typing || !ready(state.project)) return false;
  const letter = event.key.toLowerCase();
  if ((event.ctrlKey || event.metaKey) && !event.altKey && (letter === "z" || letter === "y")) {
    const again = letter === "y" || event.shiftKey;
    if (!$(again ? "redo" : "undo").disabled) step(again ? api.redo : api.undo, again ? "Done again" : "Undone");
    return true;
  }
  if (event.ctrlKey && event.key in ARROWS && event.target === $("plot")) { move(clamped(ARROWS[event.key]), false, true); return true }
  if (event.ctrlKey || event.metaKey || event.altKey) return false;
  if (event.key === "Escape") { clear(); return true }
  if (ORDERS[letter] && $("letters").checked && !event.shiftKey) { ORDERS[letter](); return true }
  return event.target === $("plot") && plotKey(event);
}

function plotKey(event) {
  const centre = cursorIndex() === null ? null : chart.plot.x[cursorIndex()];
  if (event.key in ARROWS) move(clamped(ARROWS[event.key]), event.shiftKey);
  else if (event.key === "ArrowUp") moveFlagged(-1);
  else if (event.key === "ArrowDown") moveFlagged(1);
  else if (event.key === " ") toggle();
  else if (event.key === "+" || event.key === "=") zoom(0.5, centre);
  else if (event.key === "-") zoom(2, centre);
  else if (event.key === "0") show(null, null);
  else return false;
  return true;
}

/** Look at a sensor ("" or undefined: the one that is shown), and at one of its readings. */
export async function chooseSensor(sensor, row, when) {
  location.hash = "#readings";
  if (sensor && sensor !== state.sensor) choose(sensor, false);
  visible = true;
  await changed(state.project);
  if (row !== undefined) await goTo(row, when);
  $("plot").focus({ preventScroll: true });
}
