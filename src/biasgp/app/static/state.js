// What the whole page knows: the project as the server last told it, and who wants to hear when it changes.
import * as api from "./api.js";
import { alarm } from "./dom.js";

export const state = { project: null, sensor: "" };
const listeners = [];

/** Call `listener(project, before)` whenever something in the project has changed. */
export function heard(listener) {
  listeners.push(listener);
}

export function take(project) {
  const before = state.project;
  if (before && JSON.stringify(before) === JSON.stringify(project)) return;
  state.project = project;
  listeners.forEach((listener) => listener(project, before));
}

export async function refresh() {
  take(await api.project());
}

/** Do something that may be refused; what the server says against it is shown. Whether it was done. */
export async function attempt(action) {
  try {
    await action();
    alarm("");
    return true;
  } catch (error) {
    if (error.name === "AbortError") return false;
    alarm(error.message);
    if (!(error instanceof api.Refused)) throw error;
    return false;
  }
}

export const ready = (project) => Boolean(project && project.table && project.understood && !project.problem);
export const fitted = (project) => Boolean(project && project.current !== null && project.current !== undefined);
