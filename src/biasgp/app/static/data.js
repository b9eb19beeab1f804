// The view Data: a table comes in, what was understood of it, and corrections, each of them one choice.
import * as api from "./api.js";
import { $, clipped, count, el, fill, list, say, visible } from "./dom.js";
import { layout, traces } from "./figure.js";
import { attempt, heard, ready, state, take } from "./state.js";

const ROLES = { target: "the measured value", input: "an input", group: "the sensor's name", unused: "not used" };
const SEPARATORS = { ",": "comma", ";": "semicolon", "\t": "tab", "|": "bar", " ": "space" };
const FOUND = "";  // the choice that leaves it to the program

export function start() {
  $("file").addEventListener("change", () => { if ($("file").files.length) send($("file").files[0]); $("file").value = "" });
  // A file that is dropped beside the frame is meant as well, and must not replace the page.
  document.addEventListener("dragover", (event) => { event.preventDefault(); document.body.classList.add("over") });
  document.addEventListener("dragleave", (event) => { if (!event.relatedTarget) document.body.classList.remove("over") });
  document.addEventListener("drop", (event) => {
    event.preventDefault();
    document.body.classList.remove("over");
    if (event.dataTransfer.files.length) send(event.dataTransfer.files[0]);
  });
  for (const form of ["reading-form", "model-form"]) $(form).addEventListener("submit", (event) => event.preventDefault());
  window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => { $("glance").dataset.of = ""; if (state.project) glance(state.project) });
  heard(show);
}

async function send(file) {
  say("Reading " + file.name + " …");
  location.hash = "#data";
  const done = await attempt(async () => take(await api.upload(file)));
  const project = state.project;
  say(!done ? "" : project.problem ? "The table was read, and has a problem."
    : count(project.table.rows, "row") + " read. " + (project.carried ? project.carried + " " : "") + "Check what was understood, then fit.");
}

async function change(options) {
  const done = await attempt(async () => take(await api.options(options)));
  if (done) say("Changed.");
  else show(state.project, null);  // back to what is stored
}

/** The view comes into sight, or goes. */
export function sight(on) {
  if (on && state.project) glance(state.project);
}

/** The readings as they were understood: a wrong guess shows. */
async function glance(project) {
  const at = $("glance");
  at.hidden = !ready(project);
  const key = JSON.stringify([project.table, project.understood]);
  if (at.hidden || at.closest("section[hidden]") || at.dataset.of === key) return;
  at.dataset.of = key;
  await attempt(async () => {
    const plot = { ...await api.plot(null, ""), mean: null, low: null, high: null, flagged: null, verdict: null, episodes: [] };
    const frame = { ...layout(plot, { x: null, y: null, mode: "none", narrow: true }), showlegend: false };
    await window.Plotly.react(at, traces(plot), { ...frame, margin: { ...frame.margin, t: 10 } }, { staticPlot: true, responsive: true });
    at.dataset.drawn = plot.row.length;
    at.setAttribute("aria-label", "The readings at a glance: " + visible(plot.y_label, 60) + " over " + visible(plot.axis.label, 60));
  });
}

function show(project, before) {
  const same = (part) => before && JSON.stringify(before[part]) === JSON.stringify(project[part]);
  if (same("table") && same("understood") && same("options") && same("problem") && same("carried")) return;
  $("drop").classList.toggle("small", Boolean(project.table));
  $("table-parts").hidden = !project.table;
  $("problem").hidden = !project.problem;
  fill($("problem"), el("p", { text: project.problem || "" }), ...remedies(project));
  if (!project.table) return;
  const understood = project.understood || {};
  columns(project, understood);
  facts(project, understood);
  readingFields(project, understood);
  modelFields(project);
  if (project.table.columns.length) preview();
  glance(project);
}

/** What can be done about a problem by one click: the word that is no number may stand for a missing value. */
function remedies(project) {
  const word = /^Column .* row [\d,]+: '(.{1,40})' is not a number\./.exec(project.problem || "");
  if (!word) return [];
  return [el("button", { type: "button", id: "remedy", text: "Treat " + word[1] + " as missing", onclick: () => change({ na: [...(project.options.na || []), word[1]] }) })];
}

/** What is known of each column that is an input; one input may have several, a date and an hour. */
function byColumn(understood) {
  const found = new Map();
  for (const each of understood.features || []) for (const column of each.columns || [each.name]) found.set(column, each);
  return found;
}

function uses(project, understood) {
  const given = project.options;
  const target = understood.target || given.target, group = given.by;
  const inputs = new Set(understood.features ? Array.from(byColumn(understood).keys()) : given.features || []);
  return (name) => (name === target ? "target" : name === group ? "group" : inputs.has(name) ? "input" : "unused");
}

function columns(project, understood) {
  const names = project.choices.columns || project.table.columns;
  const use = uses(project, understood);
  const known = byColumn(understood);
  const reasons = new Map((understood.unused || []).map((each) => [each.name, each.why]));
  fill($("columns").tBodies[0], ...names.map((name, j) => {
    const role = use(name), about = known.get(name) || {};
    const choice = el("select", { id: "use-" + j, "aria-label": "Use of the column " + name, onchange: (event) => reassign(names, use, name, event.target.value) },
      ...Object.entries(ROLES).map(([value, text]) => el("option", { value, text })));
    choice.value = role;
    const means = role === "unused" ? reasons.get(name) || "" : role === "target" ? "number" : about.role || "";
    return el("tr", { class: role }, el("th", { scope: "row" }, clipped(name)), el("td", {}, choice), el("td", { class: "wide" }, clipped(means, 160)),
      el("td", {}, clipped(about.unit || (role === "target" && understood.unit) || "", 24)), el("td", {}, clipped(about.example === undefined || about.example === null ? "" : about.example, 40)));
  }));
}

/** One column gets another use; of targets and sensors there is one, so the one before becomes an input or unused. */
function reassign(names, use, name, role) {
  const now = new Map(names.map((each) => [each, use(each)]));
  if (role === "target" || role === "group") {
    for (const [each, its] of now) if (its === role) now.set(each, role === "target" ? "input" : "unused");
  }
  now.set(name, role);
  const of = (wanted) => names.filter((each) => now.get(each) === wanted);
  if (!of("target").length) { change({ target: null, features: null, by: of("group")[0] || null }); return }
  change({ target: of("target")[0], features: of("input"), by: of("group")[0] || null });
}

function facts(project, understood) {
  const lines = [];
  if (understood.rows_used !== undefined) lines.push(count(understood.rows_used, "reading") + " in " + count(project.table.rows, "row") + " of the table.");
  const times = understood.times;
  if (times) {
    lines.push("Times in " + times.column + ": from " + times.first + " to " + times.last + (times.step ? ", every " + times.step : "")
      + (times.zone ? ", " + times.zone : "") + ".");
  }
  if (project.carried) lines.push(project.carried);
  const notes = understood.notes && understood.notes.length ? el("div", { class: "notes" }, list(understood.notes)) : null;
  fill($("understood"), ...lines.map((text) => el("p", { text })), notes);
}

function choiceField(id, title, choices, value, send_) {
  const at = el("select", { id, onchange: (event) => send_(event.target.value) }, ...choices.map(([key, text]) => el("option", { value: key, text })));
  at.value = value;
  return [el("label", { for: id, text: title }), at];
}

function textField(id, title, value, hint, send_) {
  const at = el("input", { id, value, placeholder: hint, autocomplete: "off", spellcheck: "false", maxlength: 2000, onchange: (event) => send_(event.target.value) });
  return [el("label", { for: id, text: title }), at];
}

const truth = (value) => (value === null || value === undefined ? FOUND : value ? "yes" : "no");
const told = (value) => (value === FOUND ? null : value === "yes");
const asFound = (what) => [FOUND, what ? "as found: " + what : "as found"];

function readingFields(project, understood) {
  const given = project.options, text = /\.(parquet|xlsx?)$/i.test(project.table.name) ? [] : [
    ...choiceField("sep", "Separator", [asFound(SEPARATORS[understood.separator] || understood.separator), ...Object.entries(SEPARATORS)], given.sep || FOUND,
      (value) => change({ sep: value || null })),
    ...textField("encoding", "Encoding", given.encoding || "", understood.encoding ? "as found: " + understood.encoding : "as found", (value) => change({ encoding: value.trim() || null })),
    ...choiceField("header", "Header line", [asFound(""), ["yes", "yes"], ["no", "no"]], truth(given.header), (value) => change({ header: told(value) })),
  ];
  const mark = { point: "point, 3.14", comma: "comma, 3,14" };
  fill($("reading-fields"),
    ...choiceField("decimal", "Decimal mark", [asFound(mark[understood.decimal] || understood.decimal), ...Object.entries(mark)], given.decimal || FOUND,
      (value) => change({ decimal: value || null })),
    ...choiceField("day-first", "Dates", [asFound(understood.day_first === true ? "day first" : understood.day_first === false ? "month first" : ""),
      ["yes", "day first, 31/12"], ["no", "month first, 12/31"]], truth(given.day_first), (value) => change({ day_first: told(value) })),
    ...textField("na", "Missing marks", (given.na || []).join(", "), understood.missing_marks && understood.missing_marks.length ? "as found: " + understood.missing_marks.join(", ") : "such as -999, n/a",
      (value) => change({ na: value.split(",").map((each) => each.trim()).filter((each) => each) })),
    ...textField("where", "Rows to use", given.where || "", "all; or such as depth < 10", (value) => change({ where: value.trim() || null })),
    ...text);
}

function modelFields(project) {
  const given = project.options, choices = project.choices;
  const same = (values) => (values || []).map((value) => [value, value]);
  fill($("model-fields"),
    ...choiceField("method", "Method", same(choices.method), given.method, (value) => change({ method: value })),
    ...choiceField("kernel", "Kernel", same(choices.kernel), given.kernel, (value) => change({ kernel: value })),
    ...choiceField("response", "Transform", same(choices.response), given.response, (value) => change({ response: value })),
    ...choiceField("noise-model", "Noise", [[FOUND, "as usual for the method"], ...same(choices.noise_model)], given.noise_model || FOUND,
      (value) => change({ noise_model: value === FOUND ? null : value })),
    ...choiceField("episodes", "Biases that last", [asFound(""), ["yes", "look for episodes"], ["no", "single readings only"]], truth(given.episodes),
      (value) => change({ episodes: told(value) })),
    ...textField("events", "Dates of service", (given.events || []).join(", "), "when somebody cleaned or calibrated it", (value) => change({ events: listed(value) })),
    el("label", { for: "events-file", text: "… from a file" }),
    el("input", { type: "file", id: "events-file", accept: ".csv,.tsv,.txt", onchange: async (event) => change({ events: column(await event.target.files[0].text(), project) }) }));
}

const listed = (text) => text.split(/[,;\n]/).map((each) => each.trim()).filter((each) => each);

/** The dates in a file: in the column of the table's times, else in the first; a first line without a digit is a header. */
function column(text, project) {
  const lines = text.replace(/^\ufeff/, "").split(/\r?\n/).filter((line) => line.trim()).map((line) => line.split(/[,;\t]/).map((cell) => cell.trim().replace(/^"(.*)"$/, "$1")));
  const times = project.understood && project.understood.times ? project.understood.times.column : "";
  const header = lines.length && !lines[0].some((cell) => /\d/.test(cell)) ? lines.shift() : [];
  const at = Math.max(0, header.indexOf(times));
  return lines.map((cells) => cells[at] || "").filter((cell) => cell);
}

async function preview() {
  let shown;
  try {
    shown = await api.preview();
  } catch (error) {
    shown = { columns: [], rows: [] };  // the problem of the table is told above
  }
  const table = $("preview");
  fill(table.tHead, el("tr", {}, ...shown.columns.map((name) => el("th", { scope: "col" }, clipped(name, 40)))));
  fill(table.tBodies[0], ...shown.rows.map((row) => el("tr", {}, ...row.map((cell) => el("td", {}, clipped(cell, 40))))));
}
