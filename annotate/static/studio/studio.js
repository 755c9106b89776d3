// The pages of the studio: fields that save themselves, buttons that act, pages that refresh.
//
// data-save="KEY"     a field; it is sent when it is left, and one second after the last key
// data-act="NAME"     a button, a link or a form; its other data attributes, or its fields, are sent
// data-ask="TEXT"     asks before the act
// data-refresh="S"    on an element of the page: the page is fetched again every S seconds
// data-open="ID"      opens a dialog; data-close closes it; data-copy="ID" copies a text

import { morph } from "./morph.js";

const SAVE_AFTER = 1000, RETRY_AFTER = 3000, LONGEST_SAID = 10_000;

/** @typedef {HTMLInputElement | HTMLSelectElement | HTMLTextAreaElement} Field */
/** @typedef {{page?: string, say?: string, undo?: Record<string, unknown> | null, go?: string}} Reply */
/** @typedef {{error: string, value?: unknown, by?: string, at?: string}} Refusal */

const words = () => /** @type {HTMLElement} */ (document.querySelector("main")).dataset;

/** A text of the page with values in place of names in braces. */
export function filled(/** @type {string | undefined} */ text, /** @type {Record<string, string>} */ values) {
  return (text ?? "").replace(/\{(\w+)\}/g, (_, name) => values[name] ?? "");
}

const clock = (/** @type {Date} */ at) => at.toLocaleTimeString([], { hour: "2-digit", minute: "2-digit" });

/** Shows a line for some seconds, with a button that undoes what it tells. */
export function say(
  /** @type {string} */ text, { bad = false, undo = /** @type {Reply["undo"]} */ (null) } = {},
) {
  const place = /** @type {HTMLElement} */ (document.querySelector("#said"));
  const line = document.createElement("p");
  line.className = bad ? "bad" : "";
  line.append(text);
  if (undo) {
    const button = document.createElement("button");
    button.className = "text";
    button.textContent = words().undo ?? "";
    button.addEventListener("click", () => { line.remove(); act(undo); });
    line.append(button);
  }
  place.replaceChildren(line);
  setTimeout(() => line.remove(), undo || bad ? LONGEST_SAID : LONGEST_SAID / 2);
}

/** Changes what differs between the page and the one that the server has sent. */
export function show(/** @type {string} */ page) {
  const fresh = new DOMParser().parseFromString(page, "text/html");
  document.title = fresh.title;
  morph(document.body, fresh.body);
  document.dispatchEvent(new Event("studio:shown"));
}

/** Sends an act. Resolves to what was refused, or to null once it is done. */
export async function act(/** @type {Record<string, unknown>} */ sent) {
  let response;
  try {
    response = await fetch(location.href, {
      method: "POST",
      headers: { "Content-Type": "application/json", Accept: "application/json" },
      body: JSON.stringify(sent),
    });
  } catch {
    return /** @type {Refusal} */ ({ error: words().unsaved ?? "" });
  }
  if (response.status === 401) { location.reload(); return null; }
  const reply = await response.json().catch(() => ({ error: `HTTP ${response.status}` }));
  if (!response.ok) {
    const refusal = /** @type {Refusal} */ (reply);
    if (sent.act !== "save") say(refusal.error, { bad: true });
    return refusal;
  }
  done(/** @type {Reply} */ (reply));
  return null;
}

function done(/** @type {Reply} */ reply) {
  if (reply.go) {
    if (reply.say) sessionStorage.setItem("said", JSON.stringify(reply));
    location.href = reply.go;
    return;
  }
  if (reply.page) show(reply.page);
  if (reply.say) say(reply.say, { undo: reply.undo });
}

// Fields that save themselves. What is typed is also kept in the browser until the server has it.

const kept = (/** @type {string} */ key) => `hsfiq ${location.pathname} ${key}`;
/** @type {Map<string, number>} */
const timers = new Map();
/** @type {Map<string, Promise<void>>} */
const sending = new Map();

/** @returns {field is HTMLInputElement} */
const isRadio = (/** @type {Field} */ field) => field instanceof HTMLInputElement && field.type === "radio";

const valueOf = (/** @type {Field} */ field) =>
  field instanceof HTMLInputElement && field.type === "checkbox" ? field.checked : field.value;

function changed(/** @type {Field} */ field, delay = 0) {
  const key = field.dataset.save ?? "";
  if (isRadio(field) && !field.checked) return;
  localStorage.setItem(kept(key), JSON.stringify(valueOf(field)));
  clearTimeout(timers.get(key));
  timers.set(key, setTimeout(() => save(field), delay));
}

function save(/** @type {Field} */ field) {
  const key = field.dataset.save ?? "";
  clearTimeout(timers.get(key));
  timers.delete(key);
  const before = sending.get(key) ?? Promise.resolve();
  const sent = before.then(() => send(field, key));
  sending.set(key, sent);
  return sent;
}

async function send(/** @type {Field} */ field, /** @type {string} */ key) {
  const stored = localStorage.getItem(kept(key));
  if (stored === null) return;
  const value = JSON.parse(stored), seen = JSON.parse(field.dataset.seen ?? '""');
  const refusal = await act({
    act: field.dataset.by ?? "save", field: key, type: field.dataset.type ?? "text", value, seen,
  });
  if (refusal === null) {
    if (localStorage.getItem(kept(key)) === stored) localStorage.removeItem(kept(key));
    note(filled(words().saved, { time: clock(new Date()) }));
  } else if ("at" in refusal) {
    conflict(field, key, refusal);
  } else if (refusal.error === words().unsaved) {
    note(refusal.error);
    timers.set(key, setTimeout(() => save(field), RETRY_AFTER));
  } else {
    localStorage.removeItem(kept(key));
    say(refusal.error, { bad: true });
  }
}

function note(/** @type {string} */ text) {
  const place = document.querySelector("#saved");
  if (place) place.textContent = text;
}

/** Somebody else, or another tab, has changed the field: show theirs, or keep what is here. */
function conflict(/** @type {Field} */ field, /** @type {string} */ key, /** @type {Refusal} */ refusal) {
  field.parentElement?.querySelector(".conflict")?.remove();
  const line = document.createElement("span");
  line.className = "conflict";
  const at = clock(new Date(refusal.at ?? Date.now()));
  line.append(filled(words().elsewhere, { time: at, name: refusal.by ?? "" }), " ");
  const button = (/** @type {string | undefined} */ text, /** @type {() => void} */ then) => {
    const made = document.createElement("button");
    made.className = "text";
    made.type = "button";
    made.textContent = text ?? "";
    made.addEventListener("click", (event) => { event.preventDefault(); line.remove(); then(); });
    line.append(made, " ");
  };
  button(words().show, () => { localStorage.removeItem(kept(key)); refresh(true); });
  button(words().keep, () => { field.dataset.seen = JSON.stringify(refusal.value ?? null); save(field); });
  field.after(line);
}

// What was typed and not stored before the page was left.

function sendKept() {
  for (const field of fields()) {
    const stored = localStorage.getItem(kept(field.dataset.save ?? ""));
    if (stored === null || JSON.stringify(valueOf(field)) === stored) continue;
    const value = JSON.parse(stored);
    if (field instanceof HTMLInputElement && field.type === "checkbox") field.checked = value;
    else if (isRadio(field)) field.checked = field.value === value;
    else field.value = value;
    save(field);
  }
}

const fields = () => /** @type {NodeListOf<Field>} */ (document.querySelectorAll("[data-save]"));
const fieldOf = (/** @type {Event} */ event) =>
  /** @type {Field | null} */ (event.target instanceof Element ? event.target.closest("[data-save]") : null);

document.addEventListener("input", (event) => {
  const field = fieldOf(event);
  if (field) changed(field, SAVE_AFTER);
});
document.addEventListener("change", (event) => {
  const field = fieldOf(event);
  if (field) changed(field);
});
addEventListener("pagehide", () => {
  for (const field of fields()) if (timers.has(field.dataset.save ?? "")) save(field);
});

// Buttons and forms.

/** What a button or a form sends: its data attributes, and the fields of the form. */
async function given(/** @type {HTMLElement} */ element) {
  const { act: name, ...data } = element.dataset;
  const form = element instanceof HTMLFormElement ? element : null;
  const entries = form ? [...new FormData(form)] : [];
  const textOf = async (/** @type {FormDataEntryValue} */ value) =>
    value instanceof File ? await value.text() : value;
  const read = entries.map(async ([key, value]) => [key, await textOf(value)]);
  return { act: name, ...data, ...Object.fromEntries(await Promise.all(read)) };
}

async function perform(/** @type {HTMLElement} */ element) {
  if (element.getAttribute("aria-disabled") === "true" || element.dataset.busy) return;
  if (element.dataset.ask && !confirm(element.dataset.ask)) return;
  await Promise.all([...timers.keys()].map((key) => {
    const field = [...fields()].find((each) => each.dataset.save === key);
    return field ? save(field) : null;
  }));
  const sent = await given(element);
  element.dataset.busy = "1";
  try { await act(sent); } finally { delete element.dataset.busy; }
}

document.addEventListener("click", (event) => {
  const clicked = event.target instanceof Element ? event.target : null;
  const within = (/** @type {string} */ selector) => clicked?.closest(selector);
  const button = within("[data-act]:not(form)");
  if (button instanceof HTMLElement) { event.preventDefault(); perform(button); return; }
  if (within("[data-close]")) within("dialog")?.dispatchEvent(new Event("close-asked"));
  const opener = within("[data-open]"), copier = within("[data-copy]");
  if (opener instanceof HTMLElement) openDialog(opener.dataset.open ?? "");
  if (copier instanceof HTMLElement) copyText(copier.dataset.copy ?? "");
});

function openDialog(/** @type {string} */ id) {
  const dialog = document.getElementById(id);
  if (!(dialog instanceof HTMLDialogElement)) return;
  dialog.addEventListener("close-asked", () => dialog.close(), { once: true });
  dialog.showModal();
}

function copyText(/** @type {string} */ id) {
  navigator.clipboard?.writeText(document.getElementById(id)?.textContent ?? "");
}

document.addEventListener("submit", (event) => {
  const form = event.target;
  if (form instanceof HTMLFormElement && form.dataset.act) { event.preventDefault(); perform(form); }
});

// Pages that refresh.

let refreshed = Date.now(), away = 0;

/** Fetches the page again; with `all`, fields also show what is stored. */
export async function refresh(all = false) {
  refreshed = Date.now();
  try {
    const response = await fetch(location.href, { headers: { Accept: "text/html" } });
    if (response.status === 401) { location.reload(); return; }
    if (!response.ok) throw new Error(String(response.status));
    away = 0;
    note("");
    if (all) /** @type {HTMLElement | null} */ (document.activeElement)?.blur();
    show(await response.text());
  } catch {
    away ||= Date.now();
    note(filled(words().connection, { time: clock(new Date(away)) }));
  }
}

setInterval(() => {
  const asks = /** @type {HTMLElement | null} */ (document.querySelector("[data-refresh]"));
  if (!asks || document.hidden || document.querySelector("dialog[open]")) return;
  if (Date.now() - refreshed >= 1000 * Number(asks.dataset.refresh)) refresh();
}, 500);

/** Whether another step of the same draft led here. */
function isNextStep() {
  const entries = performance.getEntriesByType("navigation");
  const [entry] = /** @type {PerformanceNavigationTiming[]} */ (entries);
  if (!document.referrer || entry?.type !== "navigate") return false;
  const before = new URL(document.referrer).pathname, now = location.pathname;
  const folder = (/** @type {string} */ path) => path.slice(0, path.lastIndexOf("/"));
  return now.includes("/draft/") && before !== now && folder(before) === folder(now);
}

function open() {
  for (const details of document.querySelectorAll("details[data-open-wide]")) {
    if (innerWidth < 821) details.removeAttribute("open");
  }
  sendKept();
  if (isNextStep()) document.querySelector("h1")?.focus({ preventScroll: true });
  const said = sessionStorage.getItem("said");
  sessionStorage.removeItem("said");
  if (said !== null) {
    const reply = /** @type {Reply} */ (JSON.parse(said));
    say(reply.say ?? "", { undo: reply.undo });
  }
}
open();
