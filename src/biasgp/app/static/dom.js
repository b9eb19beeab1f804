// Elements and text. Whatever comes from a table gets into the page here, as text, and nowhere else.

// What cannot be shown, or would turn the words around it, as report/pages.py has it.
const UNFIT = /[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u009f\u202a-\u202e\u2066-\u2069\ud800-\udfff\ufffe\uffff]/gu;

export const $ = (id) => document.getElementById(id);

/** The text, at most `limit` characters of it, with a sign for each character that would disturb. */
export function visible(value, limit = Infinity) {
  const text = value === null || value === undefined ? "" : String(value);
  const clipped = text.length <= limit ? text : text.slice(0, limit - 1) + "…";
  return clipped.replace(UNFIT, "\ufffd");
}

/** An element: attributes by name, `text` for its text, `on…` for listeners; children are elements or texts. */
export function el(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name === "text") made.textContent = visible(value);
    else if (name === "value") made.value = value;
    else if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else made.setAttribute(name, value === true ? "" : value);
  }
  for (const child of children) {
    if (child !== null && child !== undefined) made.append(child instanceof Node ? child : visible(child));
  }
  return made;
}

/** Put these in the place of all that is there; the focus stays where an element of the same id comes back. */
export function fill(at, ...children) {
  const focus = at.contains(document.activeElement) ? document.activeElement.id : "";
  at.replaceChildren(...children.filter((child) => child));
  if (focus && $(focus)) $(focus).focus({ preventScroll: true });
}

export function list(items) {
  return el("ul", {}, ...items.map((item) => el("li", { text: item })));
}

/** A text that may be very long: its beginning, and all of it as one points at it. */
export function clipped(text, limit = 60) {
  const shown = visible(text, limit);
  return el("span", { text: shown, title: shown === text ? null : visible(text, 1000) });
}

/** A number with a few significant digits; a dash for none. */
export function number(value, digits = 4) {
  if (value === null || value === undefined || !Number.isFinite(value)) return "–";
  return String(Number(value.toPrecision(digits))).replace("-", "−");
}

export function thousands(value) {
  return Number.isFinite(value) ? value.toLocaleString("en") : "–";
}

export function count(n, one, many = one + "s") {
  return thousands(n) + " " + (n === 1 ? one : many);
}

/** A duration in words. */
export function duration(seconds) {
  if (!Number.isFinite(seconds)) return "–";
  if (seconds < 10) return number(seconds, 2) + " s";
  if (seconds < 100) return Math.round(seconds) + " s";
  return seconds < 5400 ? Math.round(seconds / 60) + " min" : number(seconds / 3600, 2) + " h";
}

/** A place on the axis in words: a time without the parts that are zero, or a number. */
export function place(x, axis) {
  if (x === null || x === undefined) return "–";
  if (!axis || axis.kind !== "time") return number(x, 8);
  const text = new Date(x).toISOString().replace("T", " ").replace("Z", "");
  return text.replace(/\.000$/, "").replace(/:00$/, "").replace(/ 00:00$/, "");
}

/** The place that a text names, NaN if none: the opposite of `place`, and what plotly says of its ranges. */
export function placed(text, axis) {
  const plain = String(text).trim().replace("−", "-");
  if (plain === "") return NaN;
  if (!axis || axis.kind !== "time" || /^-?\d+(\.\d+)?(e[+-]?\d+)?$/i.test(plain) && plain.length > 5) return Number(plain);
  const [day, hour] = plain.replace("T", " ").split(" ");
  const whole = /^\d{4}$/.test(day) ? day + "-01-01" : day;
  return Date.parse(whole + "T" + (hour ? (hour.length === 2 ? hour + ":00" : hour) : "00:00") + "Z");
}

export function say(words) {
  $("message").textContent = visible(words);
}

/** What went wrong, until it is put away or something works again. */
export function alarm(words) {
  if (!words) { fill($("alarm")); return }
  const away = el("button", { type: "button", text: "Close", onclick: () => alarm("") });
  fill($("alarm"), el("span", { text: words }), away);
}
