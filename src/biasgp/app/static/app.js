// The page: which view is shown, how the fit goes, and news from the server.
import * as api from "./api.js";
import * as data from "./data.js";
import * as readings from "./readings.js";
import * as results from "./results.js";
import { $, alarm, count, duration, say, thousands, visible } from "./dom.js";
import { attempt, fitted, heard, ready, refresh, state } from "./state.js";

const VIEWS = ["data", "readings", "changes", "sensors", "download"];
const BUSY = 400, IDLE = 2000;  // ms between questions, while a fit runs and otherwise
let view = "", silent = false, watched = null, told = null;

function route() {
  const wanted = location.hash.slice(1);
  const fallback = state.project && state.project.table && fitted(state.project) ? "readings" : "data";
  const next = VIEWS.includes(wanted) ? wanted : fallback;
  if (next === view) return;
  const first = view === "";
  view = next;
  for (const name of VIEWS) $("view-" + name).hidden = name !== view;
  for (const link of document.querySelectorAll("nav a")) {
    if (link.dataset.view === view) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  document.title = view.charAt(0).toUpperCase() + view.slice(1) + " · biasgp";
  if (!first) $("main").focus({ preventScroll: true });
  data.sight(view === "data");
  readings.sight(view === "readings");
  results.sight(view);
}

function strip(project) {
  $("source").textContent = project.table ? visible(project.table.name, 80) + " · " + count(project.table.rows, "row") : "No table yet";
  const fit = (project.fits || []).find((each) => each.id === project.current);
  const { good, bad } = project.verdicts;
  const judged = good + bad ? " " + thousands(good) + " judged good, " + thousands(bad) + " bad." : "";
  let words = "Drop a table to begin.";
  if (project.problem) words = "This table cannot be fitted yet: the view Data says why.";
  else if (fit) {
    words = count(fit.flagged, "reading") + " flagged" + (fit.episodes ? ", " + count(fit.episodes, "episode") : "") + (fit.trustworthy === false ? ". The fit doubts itself: see the report." : ".")
      + judged + (project.stale ? " Something changed since: refit to see what it does." : "");
  } else if (project.table) words = "Not fitted yet." + judged;
  $("state").textContent = words;
  $("fit").textContent = fit ? "Refit" : "Fit";
  showJob(project.job);
}

/** How far the fit is; a job's end is told once. */
function showJob(job) {
  const running = Boolean(job && job.state === "running");
  $("job").hidden = !running;
  $("state").hidden = running;
  $("fit").hidden = running;
  $("fit").disabled = running || !ready(state.project);
  if (running) {
    watched = job.id;
    told = null;
    state.project.job = job;  // what is told of the project meanwhile must not bring back the one before
    $("stage").textContent = visible(job.stage || "Fitting");
    if (Number.isFinite(job.done)) $("progress").value = job.done;
    else $("progress").removeAttribute("value");
    $("left").textContent = duration(job.seconds) + " so far" + (Number.isFinite(job.left_seconds) ? ", about " + duration(job.left_seconds) + " left" : "");
  } else if (job && job.id === watched && job.id !== told) {
    told = job.id;
    if (job.state === "failed") alarm(job.error || "The fit failed.");
    say({ done: "The fit is done, after " + duration(job.seconds) + ".", cancelled: "The fit was cancelled; all is as before.", failed: "The fit failed." }[job.state] || "");
  }
}

async function fit() {
  await attempt(async () => {
    const job = await api.fit();
    showJob(job);
    say("The fit has begun. You can go on working.");
    news();
  });
}

async function cancel() {
  $("cancel").disabled = true;
  await attempt(async () => { await api.cancel(); await refresh() });
  $("cancel").disabled = false;
}

let timer = 0;
/** Ask what is new, now and then; and say so when the server is gone. */
async function news() {
  clearTimeout(timer);
  try {
    if (!document.hidden) {
      const running = !$("job").hidden;
      const job = running ? await api.job() : null;
      if (job && job.state === "running") showJob(job);
      else await refresh();
      if (silent) { silent = false; alarm("") }
    }
  } catch (error) {
    if (!(error instanceof api.Refused)) throw error;
    silent = true;
    alarm(error.message);
  } finally {
    timer = setTimeout(news, $("job").hidden ? IDLE : BUSY);
  }
}

async function begin() {
  data.start();
  readings.start();
  results.start();
  heard(strip);
  $("fit").addEventListener("click", fit);
  $("cancel").addEventListener("click", cancel);
  document.querySelector(".skip").addEventListener("click", (event) => { event.preventDefault(); $("main").focus() });
  window.addEventListener("hashchange", route);
  document.addEventListener("visibilitychange", () => { if (!document.hidden) news() });
  document.addEventListener("keydown", (event) => { if (view === "readings" && readings.key(event)) event.preventDefault() });
  await attempt(refresh);
  route();
  document.body.dataset.ready = "all";
  news();
}

begin();
