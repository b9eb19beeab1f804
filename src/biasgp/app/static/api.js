// Questions to the server. All addresses are relative, so they stay below the token of this page's own address.

/** The server said no, with a sentence that says what to do; status 0 if it did not answer at all. */
export class Refused extends Error {
  constructor(message, status) {
    super(message);
    this.status = status;
  }
}

const SILENT = "The server does not answer. Nothing that was marked is lost: start it again with the same command, and open"
  + " the address that it prints.";

async function answer(path, options) {
  let response;
  try {
    response = await fetch(path, { cache: "no-store", ...options });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Refused(SILENT, 0);
  }
  if (response.ok) return response;
  let message = "The server answered with an error (" + response.status + "). Try again; if it stays, start the server again.";
  try {
    const said = await response.json();
    if (said && typeof said.error === "string") message = said.error;
  } catch (error) { /* no sentence in it */ }
  throw new Refused(message, response.status);
}

async function parsed(path, options) {
  return (await answer(path, options)).json();
}

function sent(method, body) {
  return { method, headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) };
}

/** A query of those values that are given. */
function query(path, values) {
  const known = Object.entries(values).filter(([, value]) => value !== null && value !== undefined && value !== "");
  return known.length ? path + "?" + new URLSearchParams(known) : path;
}

export const project = () => parsed("api/project");
export const preview = () => parsed("api/preview");
export const options = (changes) => parsed("api/options", sent("PUT", changes));
export const fit = () => parsed("api/fit", sent("POST", {}));
export const job = () => parsed("api/job");
export const cancel = () => answer("api/job", { method: "DELETE" });
export const plot = (range, sensor, signal) => parsed(query("api/plot", { from: range && range[0], to: range && range[1], sensor }), { signal });
export const mark = (what) => parsed("api/verdicts", sent("POST", what));
export const undo = () => parsed("api/undo", sent("POST", {}));
export const redo = () => parsed("api/redo", sent("POST", {}));
export const explain = (row, signal, wait = false) => parsed(query("api/explain", wait ? { row, wait: 1 } : { row }), { signal });
export const queue = (sensor) => parsed(query("api/queue", { n: 20, sensor }));
export const changes = (sensor) => parsed(query("api/changes", { sensor }));
export const sensors = () => parsed("api/sensors");
export const download = (name, sensor) => query("download/" + name, { sensor });
export const text = async (path) => (await answer(path)).text();

export function upload(file) {
  const form = new FormData();
  form.append("file", file, file.name);
  return parsed("api/table", { method: "POST", body: form });
}
