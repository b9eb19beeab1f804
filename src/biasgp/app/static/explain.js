// Why a reading is flagged, in words and figures; and the list of those worth a look.
import * as api from "./api.js";
import { $, clipped, count, el, fill, number, thousands } from "./dom.js";

const REASONS = { doubt: "in doubt", effect: "moves the curve", named: "named by the fit", episode: "a fault that lasted", possible: "perhaps a fault",
  alike: "flagged alike", check: "perhaps a regular check" };
const FOLLOWING = 250;  // milliseconds that a reading is looked at before its neighbours are asked for
const PATIENCE = 150;  // ms before what was shown of another reading goes
let asked = null;

function percent(share) {
  const whole = Math.round(100 * share);
  return share > 0 && whole === 0 ? "< 1 %" : share < 1 && whole === 100 ? "> 99 %" : whole + " %";
}

function pairs(items) {
  const known = items.filter(([, value]) => value !== null && value !== undefined && value !== "");
  return el("dl", { class: "pairs" }, ...known.map(([what, value]) => [el("dt", { text: what }), el("dd", { text: value })]).reduce((a, b) => a.concat(b), []));
}

export function hint(words) {
  if (asked) asked.abort();
  fill($("explanation"), el("p", { class: "hint", text: words }));
}

/** Ask why, and show it; `go(row, x)` leads to another reading. */
export async function show(row, go) {
  if (asked) asked.abort();
  asked = new AbortController();
  const waiting = setTimeout(() => fill($("explanation"), el("p", { class: "hint", text: "Row " + row + " …" })), PATIENCE);
  asked.signal.addEventListener("abort", () => clearTimeout(waiting));
  try {
    const { signal } = asked, why = await api.explain(row, signal);
    clearTimeout(waiting);
    fill($("explanation"), ...parts(why, go));
    $("explanation").scrollTop = 0;
    if (!why.pending) return;
    // The model knows the neighbours, and takes its time: they follow, unless somebody has gone on to another reading.
    await new Promise((done) => setTimeout(done, FOLLOWING));
    if (!signal.aborted) fill($("explanation"), ...parts(await api.explain(row, signal, true), go));
  } catch (error) {
    if (error.name === "AbortError") return;
    clearTimeout(waiting);
    if (!(error instanceof api.Refused)) throw error;
    fill($("explanation"), el("p", { class: "hint", text: error.message }));
  }
}

function parts(why, go) {
  const odds = why.log_odds === null || why.log_odds === undefined ? null
    : number(why.log_odds, 3) + (Number.isFinite(why.prior) && why.evidence ? " = " + number(why.prior, 3) + " prior + " + number(why.evidence, 3) + " evidence" : "");
  const neighbours = why.neighbours || [];
  return [
    el("p", {}, el("b", { text: "Row " + why.row }), " · " + (why.when === null || why.when === undefined ? "" : why.when) + " ",
      why.verdict && why.verdict !== "open" ? el("span", { class: "tag " + why.verdict, text: "judged " + why.verdict }) : null),
    why.why ? el("p", { text: "Reason: " + why.why }) : null,
    pairs([["read", number(why.reading, 5)], ["expected without it", Number.isFinite(why.expected) ? number(why.expected, 5) + " ± " + number(why.std, 2) : null],
      ["taken for", why.kind || "good"], ["log odds of bad", odds]]),
    ...(why.words || []).map((text) => el("p", { text })),
    why.needed ? el("h4", { text: "To be good" }) : null,
    why.needed ? el("p", { text: why.needed }) : null,
    neighbours.length ? el("h4", { text: "Who vouches" }) : null,
    neighbours.length ? el("ul", {}, ...neighbours.map((each) => el("li", {}, el("button", { type: "button", class: "link", text: "Row " + each.row, onclick: () => go(each.row, each.when) }),
      " " + (each.words || each.when || "")))) : null,
  ];
}

/** Both explanations of readings that are judged as one. */
export function question(item) {
  if (asked) asked.abort();
  fill($("explanation"),
    el("p", {}, el("b", { text: count(item.count, "reading") }), " · " + span(item)),
    el("p", { text: "Asked about as one: " + (REASONS[item.reason] || item.reason) + ". " + item.words + ", bad with a probability of " + percent(item.probability) + "." }),
    el("h4", { text: "If they are bad" }), el("p", { text: item.if_bad }),
    el("h4", { text: "If they are good" }), el("p", { text: item.if_good }),
    el("p", { class: "hint", text: "A verdict marks all of them, and is expected to change " + number(item.worth, 2) + " labels. Undecided: parts of them are asked about instead." }));
  $("explanation").scrollTop = 0;
}

const span = (item) => item.when + (item.until !== item.when ? " to " + item.until : "");
export const key = (item) => item.row + (item.count > 1 ? "-" + item.count : "");

/** What is worth a look, readings and sets of them; `go(item)` leads there. */
export function queue(items, current, go) {
  $("next").disabled = !items.length;
  if (!items.length) { fill($("queue"), el("p", { class: "hint", text: "Nothing is left to look at." })); return }
  fill($("queue"), el("ol", { class: "queue", "aria-label": count(items.length, "question") + " worth a look" }, ...items.map((item) => el("li", {},
    el("button", { type: "button", id: "queue-" + key(item), "aria-current": key(item) === current ? "true" : null, onclick: () => go(item) },
      el("span", {}, el("b", { text: item.count > 1 ? count(item.count, "reading") : "Row " + thousands(item.row) }), " ", clipped(span(item), 44)),
      el("span", { class: "tag open", text: Number.isFinite(item.probability) ? percent(item.probability) + " bad" : REASONS[item.reason] || item.reason }),
      el("span", { class: "words", text: (REASONS[item.reason] || "") + (item.words ? (REASONS[item.reason] ? ": " : "") + item.words : "") }),
      item.count > 1 ? el("span", { class: "words", text: "Bad: " + item.if_bad + ". Good: " + item.if_good + "." }) : null)))));
}

export function current(which) {
  for (const button of $("queue").querySelectorAll("button")) {
    if (button.id === "queue-" + which) button.setAttribute("aria-current", "true");
    else button.removeAttribute("aria-current");
  }
}
