// The views Changes, Sensors and Download.
import * as api from "./api.js";
import { chooseSensor, sensorChoices } from "./readings.js";
import { $, clipped, duration, el, fill, list, number, say, thousands } from "./dom.js";
import { attempt, fitted, heard, ready, state } from "./state.js";

const FILES = [
  ["report.html", "The report", "one page with figures, flagged readings and how it was made"],
  ["cleaned.csv", "The cleaned table", "every row with its truth, bias, probability, kind and verdict"],
  ["verdicts.csv", "The verdicts", "what was judged good or bad, by whom, when and why"],
  ["events.csv", "The dates of service", "which the command needs beside it"],
  ["model.skops", "The model", "to predict with, or to go on from"],
  ["command.txt", "The command", "that does the same without this page"],
];
const done = { changes: "", sensors: "", download: "" };
let visible = "";

export function start() {
  $("copy").addEventListener("click", copy);
  heard(changed);
}

export function sight(view) {
  visible = view;
  if (state.project) changed(state.project);
}

async function changed(project) {
  const key = JSON.stringify([project.table, project.options, project.fits, project.current, project.verdicts.version]);
  const fleet = Boolean(project.options.by) && ready(project);
  $("to-sensors").hidden = !fleet;
  if (done.sensors !== key) { done.sensors = key; if (fleet) await sensors(); else sensorChoices([]) }
  if (visible === "changes" && done.changes !== key + state.sensor) { done.changes = key + state.sensor; await changes(project) }
  if (visible === "download" && done.download !== key + state.sensor) { done.download = key + state.sensor; await downloads(project) }
}

const trust = (value) => (value === null || value === undefined ? "–" : value ? "yes" : "no, look");

async function changes(project) {
  const fits = project.fits || [];
  const row = (fit, i) => el("tr", {}, el("th", { scope: "row", text: "Fit " + (Number.isFinite(Number(fit.id)) ? Number(fit.id) : i + 1) + (fit.id === project.current ? ", shown" : "") }),
    el("td", { text: String(fit.made).replace("T", " ").replace(/\.\d+/, "").slice(0, 19) }), el("td", { text: duration(fit.seconds) }), el("td", { text: thousands(fit.flagged) }),
    el("td", { text: Number.isFinite(fit.episodes) ? thousands(fit.episodes) : "–" }), el("td", { text: trust(fit.trustworthy) }));
  fill($("fits").tBodies[0], ...fits.map(row).reverse());
  if (fits.length < 2) { fill($("changes"), el("p", { class: "hint", text: "Mark readings, then refit: what the verdicts changed is told here." })); return }
  await attempt(async () => fill($("changes"), ...told(await api.changes(state.sensor))));
}

function told(change) {
  const labels = change.labels || [], moved = change.truth_moved || {}, episodes = change.episodes || { added: [], gone: [] };
  const name = (episode) => (typeof episode === "string" ? episode : episode.words || episode.kind);
  const figure = (value, what) => el("div", {}, el("b", { text: value }), el("span", { text: what }));
  return [
    ...(change.words || []).map((text) => el("p", { text })),
    el("div", { class: "figures" }, figure(thousands(labels.length), "labels changed"), figure(number(moved.largest, 3), "largest move of the truth" + (moved.where ? ", at " + moved.where : "")),
      figure(thousands(episodes.added.length), "episodes added"), figure(thousands(episodes.gone.length), "episodes gone")),
    labels.length ? el("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Readings whose label changed" }, el("table", { class: "plain" },
      el("thead", {}, el("tr", {}, ...["Reading", "When", "Before", "Now"].map((text) => el("th", { scope: "col", text })))),
      el("tbody", {}, ...labels.map((each) => el("tr", {}, el("th", { scope: "row" }, el("button", { type: "button", class: "link", text: "Row " + each.row, onclick: () => chooseSensor(state.sensor, each.row, each.when) })),
        el("td", {}, clipped(each.when, 40)), el("td", { text: each.before }), el("td", { text: each.now })))))) : null,
    episodes.added.length ? el("h3", { text: "Episodes added" }) : null, episodes.added.length ? list(episodes.added.map(name)) : null,
    episodes.gone.length ? el("h3", { text: "Episodes gone" }) : null, episodes.gone.length ? list(episodes.gone.map(name)) : null,
  ];
}

async function sensors() {
  await attempt(async () => {
    const found = await api.sensors();
    sensorChoices(found.map((each) => each.name));
    $("no-sensors").hidden = found.length > 0;
    fill($("sensors").tBodies[0], ...found.map((each) => el("tr", {},
      el("th", { scope: "row" }, el("button", { type: "button", class: "link", onclick: () => chooseSensor(each.name) }, clipped(each.name, 40))),
      el("td", { class: "wide" }, clipped(each.words || "", 300)), el("td", { class: "number", text: thousands(each.readings) }),
      el("td", { class: "number", text: Number.isFinite(each.flagged_share) ? number(100 * each.flagged_share, 3) + " %" : "–" }),
      el("td", { class: "number", text: Number.isFinite(each.episodes) ? thousands(each.episodes) : "–" }), el("td", { text: trust(each.trustworthy) }))));
  });
}

async function downloads(project) {
  const there = fitted(project);
  $("no-fit").hidden = there;
  $("command-part").hidden = !there;
  const files = FILES.filter(([name]) => name !== "events.csv" || (project.options.events || []).length);
  fill($("files"), ...(there ? files : []).map(([name, title, words]) => el("li", {}, el("a", { href: api.download(name, state.sensor), download: name },
    el("b", { text: title }), " " + name, el("span", { text: words + (state.sensor && name !== "command.txt" ? ", of " + state.sensor.slice(0, 40) : "") })))));
  if (there) await attempt(async () => { $("command").textContent = await api.text(api.download("command.txt", state.sensor)) });
}

async function copy() {
  try {
    await navigator.clipboard.writeText($("command").textContent);
    say("Copied.");
  } catch (error) {
    getSelection().selectAllChildren($("command"));
    say("It is selected: copy it with Ctrl+C.");
  }
}

