// The pages of the studio: fields that save themselves, buttons that act, pages that refresh.
//
// data-save="KEY"     a field; it is sent when it is left, and one second after the last key
// data-act="NAME"     a button, a link or a form; its other data attributes, or its fields, are sent
// data-ask="TEXT"     asks before the act
// data-refresh="S"    on an element of the page: the page is fetched again every S seconds
// data-open="ID"      opens a dialog; data-close closes it; data-copy="ID" copies a text

import { isChanged, morph } from "./morph.js";

const SAVE_AFTER = 1000, RETRY_AFTER = 3000, LONGEST_SAID = 10_000;

/** @typedef {HTMLInputElement | HTMLSelectElement | HTMLTextAreaElement} Field */
/** @typedef {{page?: string, say?: string, undo?: Record<string, unknown> | null, go?: string}} Reply */
/** @typedef {{error: string, value?: unknown, by?: string, at?: string}} Refusal */
/** What was typed in a field, and what it had shown before.
 * @typedef {{value: unknown, seen: unknown}} Typed */

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
    button.addEventListener("click", async () => {
      line.remove();
      if (await act(undo) === LOST) say(`${text} ${words().lost ?? ""}`, { bad: true, undo });
    });
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

/** What an act resolves to that had no reply: nobody knows whether the server has performed it. */
const LOST = /** @type {Refusal} */ ({ error: "" });

/** Bytes of a request that a browser still sends while it leaves a page. */
const LONGEST_KEPT_ALIVE = 50_000;
/** The status of what was refused because the page is no longer as it is shown. */
const CONFLICT = 409;

async function post(
  /** @type {string} */ address, /** @type {string} */ body, /** @type {Record<string, string>} */ headers,
) {
  const keepalive = body.length < LONGEST_KEPT_ALIVE;
  const response = await fetch(address, { method: "POST", body, headers, keepalive }).catch(() => null);
  if (response?.status === 401) location.reload();
  return response;
}

/** Whether a response tells that the server has performed an act, or has refused it. */
const isReply = (/** @type {Response | null} */ response) =>
  response !== null && response.status !== 401 && response.status < 500;

/** Sends an act. Resolves to what was refused, or to null once it is done. */
export const act = (/** @type {Record<string, unknown>} */ sent, address = location.href) =>
  sendAct(sent, address, () => {});

/** Sends an act; once it is done, calls `before` before its reply is shown. */
async function sendAct(
  /** @type {Record<string, unknown>} */ sent, /** @type {string} */ address,
  /** @type {() => void} */ before,
) {
  const isSaved = "seen" in sent;
  const headers = { "Content-Type": "application/json", Accept: "application/json" };
  const response = await post(address, JSON.stringify(isSaved ? sent : withKey(sent)), headers);
  const reply = await response?.json().catch(() => null);
  if (!response || !reply || !isReply(response)) return lost(isSaved, reply?.error);
  if (!isSaved) forgetKey(sent.act);
  if (!response.ok) return refused(/** @type {Refusal} */ (reply), isSaved, response.status);
  before();
  return done(/** @type {Reply} */ (reply), address);
}

function lost(/** @type {boolean} */ isSaved, /** @type {string | undefined} */ why) {
  if (isSaved) return LOST;
  say(why ?? words().lost ?? "", { bad: true });
  isUnsure = true;
  return LOST;
}

function refused(
  /** @type {Refusal} */ refusal, /** @type {boolean} */ isSaved, /** @type {number | undefined} */ status,
) {
  if (!isSaved) say(refusal.error, { bad: true });
  if (!isSaved && status === CONFLICT) refresh();
  return refusal;
}

// An act is sent with the same key and the same revision of the draft until the server has replied,
// so that it does nothing twice.

const keyAt = (/** @type {unknown} */ name) => `hsfiq once ${location.pathname} ${name}`;

function withKey(/** @type {Record<string, unknown>} */ sent) {
  const random = [...crypto.getRandomValues(new Uint32Array(4))];
  const fresh = random.map((number) => number.toString(16).padStart(8, "0")).join("");
  const known = sessionStorage.getItem(keyAt(sent.act));
  const key = known ? JSON.parse(known) : { once: fresh, revision: sent.revision };
  sessionStorage.setItem(keyAt(sent.act), JSON.stringify(key));
  return { ...sent, ...key };
}

function forgetKey(/** @type {unknown} */ name) {
  sessionStorage.removeItem(keyAt(name));
}

/** How often the draft of the page had been changed when the page was made. */
const revision = () =>
  /** @type {HTMLElement | null} */ (document.querySelector("[data-revision]"))?.dataset.revision;

function done(/** @type {Reply} */ reply, /** @type {string} */ address) {
  if (address !== location.href) return null;
  if (reply.go) {
    if (reply.say) sessionStorage.setItem("said", JSON.stringify(reply));
    isLeaving = true;
    setTimeout(() => { isLeaving = false; }, LONGEST_SAID);
    location.href = reply.go;
    return null;
  }
  if (reply.page) show(reply.page);
  if (reply.say) say(reply.say, { undo: reply.undo && { ...reply.undo, revision: revision() } });
  return null;
}

/** After an act that leads to another page; until then, nothing else is done. */
let isLeaving = false;

// Fields that save themselves. What is typed is also kept in the browser until the server has it;
// another page sends it if this one is left before that.

const KEPT = "hsfiq kept ";
const kept = (/** @type {string} */ key) => `${KEPT}${location.pathname} ${key}`;
/** What this tab has still to save. @type {Map<string, Typed & {field: Field}>} */
const typed = new Map();
/** @type {Map<string, number>} */
const timers = new Map();
/** @type {Map<string, Promise<void>>} */
const sending = new Map();
/** What was typed here, by field: if the server has one of it, nobody else has changed the field.
 * @type {Map<string, Set<string>>} */
const mine = new Map();
const MOST_MINE = 50;
/** What the server has in fields that were changed elsewhere. @type {Map<string, Refusal>} */
const conflicts = new Map();

/** @returns {field is HTMLInputElement} */
const isRadio = (/** @type {Field} */ field) => field instanceof HTMLInputElement && field.type === "radio";

const valueOf = (/** @type {Field} */ field) =>
  field instanceof HTMLInputElement && field.type === "checkbox" ? field.checked : field.value;

const textOf = (/** @type {unknown} */ value) =>
  Array.isArray(value) ? value.join("\n") : String(value ?? "");

const sentWith = (/** @type {Field} */ field) =>
  ({ act: field.dataset.by ?? "save", field: field.dataset.save ?? "", type: field.dataset.type ?? "text" });

function changed(/** @type {Field} */ field, delay = 0) {
  const key = field.dataset.save ?? "", before = typed.get(key);
  if (isRadio(field) && !field.checked) return;
  const now = { value: valueOf(field), seen: before ? before.seen : JSON.parse(field.dataset.seen ?? '""') };
  typed.set(key, { ...now, field });
  localStorage.setItem(kept(key), JSON.stringify({ ...sentWith(field), ...now }));
  remember(key, textOf(now.value));
  later(key, delay);
}

function remember(/** @type {string} */ key, /** @type {string} */ text) {
  const texts = mine.get(key) ?? new Set();
  mine.set(key, texts.add(text));
  if (texts.size > MOST_MINE) texts.delete([...texts][0] ?? "");
}

function later(/** @type {string} */ key, /** @type {number} */ delay) {
  clearTimeout(timers.get(key));
  timers.set(key, setTimeout(() => save(key), delay));
}

function save(/** @type {string} */ key) {
  clearTimeout(timers.get(key));
  timers.delete(key);
  const sent = (sending.get(key) ?? Promise.resolve()).then(() => send(key));
  sending.set(key, sent);
  return sent;
}

async function send(/** @type {string} */ key) {
  const now = typed.get(key);
  if (!now) return;
  const { field, value, seen } = now;
  const refusal = await act({ ...sentWith(field), value, seen });
  if (refusal === LOST) {
    note(words().unsaved ?? "");
    later(key, RETRY_AFTER);
  } else if (refusal && "at" in refusal) {
    const last = typed.get(key) ?? now, isMine = mine.get(key)?.delete(textOf(refusal.value));
    if (isMine) { last.seen = refusal.value; await send(key); }
    else { conflicts.set(key, refusal); showUnsaved(); }
  } else {
    stored(key, now);
    if (refusal) say(refusal.error, { bad: true });
    else note(filled(words().saved, { time: clock(new Date()) }));
  }
}

/** Forgets what was typed once the server has it, unless more was typed meanwhile. */
function stored(/** @type {string} */ key, /** @type {Typed} */ sent) {
  const now = typed.get(key), copy = localStorage.getItem(kept(key));
  if (now && now.value === sent.value) { typed.delete(key); mine.delete(key); }
  else if (now) now.seen = sent.value;
  conflicts.delete(key);
  if (copy !== null && JSON.parse(copy).value === sent.value) localStorage.removeItem(kept(key));
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
  button(words().show, () => { forget(key); refresh(true); });
  button(words().keep, () => {
    const now = typed.get(key);
    if (now) now.seen = refusal.value ?? null;
    conflicts.delete(key);
    save(key);
  });
  field.after(line);
}

function forget(/** @type {string} */ key) {
  typed.delete(key);
  conflicts.delete(key);
  localStorage.removeItem(kept(key));
}

function put(/** @type {Field} */ field, /** @type {unknown} */ value) {
  if (field instanceof HTMLInputElement && field.type === "checkbox") field.checked = Boolean(value);
  else if (isRadio(field)) field.checked = field.value === value;
  else field.value = String(value);
}

/** Shows again what was typed and not stored, and asks again about what was changed elsewhere. */
function showUnsaved() {
  for (const field of fields()) {
    const key = field.dataset.save ?? "", now = typed.get(key), refusal = conflicts.get(key);
    if (!now) continue;
    if (document.activeElement !== field) put(field, now.value);
    if (refusal && (!isRadio(field) || field.checked)) conflict(field, key, refusal);
  }
}

// What was typed and not stored before the page was left.

function sendKept() {
  for (const field of fields()) {
    const key = field.dataset.save ?? "", copy = localStorage.getItem(kept(key));
    if (copy === null) continue;
    const { value, seen } = JSON.parse(copy);
    put(field, value);
    if (isRadio(field) && !field.checked) continue;
    typed.set(key, { value, seen, field });
    save(key);
  }
}

/** Sends what was typed on pages that were left; what was changed elsewhere is asked about there. */
async function sendOfOtherPages() {
  for (const name of Object.keys(localStorage)) {
    const [path = ""] = name.slice(KEPT.length).split(" ");
    if (!name.startsWith(KEPT) || path === location.pathname) continue;
    const copy = localStorage.getItem(name) ?? "{}", refusal = await act(JSON.parse(copy), path);
    if (refusal === LOST) return;
    forgetCopy(name, copy, refusal);
  }
}

function forgetCopy(
  /** @type {string} */ name, /** @type {string} */ copy, /** @type {Refusal | null} */ refusal,
) {
  if (refusal && "at" in refusal) return;
  if (refusal) say(refusal.error, { bad: true });
  if (localStorage.getItem(name) === copy) localStorage.removeItem(name);
}

const fields = () => /** @type {NodeListOf<Field>} */ (document.querySelectorAll("[data-save]"));
const fieldOf = (/** @type {Event} */ event) =>
  /** @type {Field | null} */ (event.target instanceof Element ? event.target.closest("[data-save]") : null);

document.addEventListener("input", (event) => {
  const field = fieldOf(event), form = event.target instanceof Element ? formOf(event.target) : null;
  if (field) changed(field, SAVE_AFTER);
  else if (form) keepTyped(form);
});
document.addEventListener("change", (event) => {
  const field = fieldOf(event);
  if (field) changed(field);
});
addEventListener("pagehide", () => {
  for (const key of [...timers.keys()]) save(key);
});

// Buttons and forms.

/** What a button or a form sends: its data attributes, and the fields of the form. */
async function given(/** @type {HTMLElement} */ element) {
  const form = element instanceof HTMLFormElement ? element : null;
  const entries = form ? [...new FormData(form)] : [];
  const contentOf = async (/** @type {FormDataEntryValue} */ value) =>
    value instanceof File ? await value.text() : value;
  const read = entries.map(async ([key, value]) => [key, await contentOf(value)]);
  return { act: element.dataset.act, ...dataOf(element), ...Object.fromEntries(await Promise.all(read)) };
}

function dataOf(/** @type {HTMLElement} */ element) {
  const data = { ...element.dataset };
  for (const name of ["act", "ask", "busy", "file"]) delete data[name];
  return data;
}

async function perform(/** @type {HTMLElement} */ element) {
  if (element.getAttribute("aria-disabled") === "true" || element.dataset.busy || isLeaving) return;
  if (element.dataset.ask && !confirm(element.dataset.ask)) return;
  element.dataset.busy = "1";
  try {
    if (!await saveAll()) { lost(false, words().unsaved); return; }
    const sent = { ...await given(element), revision: revision() };
    await (element instanceof HTMLFormElement ? sendForm(element, sent) : sendOf(element, sent, () => {}));
  } finally {
    delete element.dataset.busy;
  }
}

const sendOf = (
  /** @type {HTMLElement} */ element, /** @type {Record<string, unknown>} */ sent,
  /** @type {() => void} */ before,
) => element.dataset.file ? download(element.dataset.file, sent) : sendAct(sent, location.href, before);

/** Sends a form, which is then empty. */
async function sendForm(
  /** @type {HTMLFormElement} */ form, /** @type {Record<string, unknown>} */ sent,
) {
  const texts = typedIn(form), forgetTexts = () => localStorage.removeItem(texts);
  if (await sendOf(form, sent, forgetTexts) !== null) return;
  forgetTexts();
  if (form.isConnected && !isLeaving) form.reset();
}

/** Saves what is typed in fields; false if that cannot be sent now. */
async function saveAll() {
  for (const key of [...timers.keys()]) save(key);
  await Promise.all(sending.values());
  return timers.size === 0;
}

/** Sends an act whose reply is a file, and saves the file. */
async function download(/** @type {string} */ address, /** @type {Record<string, unknown>} */ sent) {
  const entries = Object.entries(withKey(sent)).map(([name, value]) => [name, String(value)]);
  const headers = { "Content-Type": "application/x-www-form-urlencoded" };
  const response = await post(address, String(new URLSearchParams(entries)), headers);
  const content = await response?.blob().catch(() => null);
  if (!response || !content || !isReply(response)) return lost(false, undefined);
  forgetKey(sent.act);
  if (!response.ok) return refused(JSON.parse(await content.text()), false, response.status);
  const link = document.createElement("a");
  link.href = URL.createObjectURL(content);
  link.download = address;
  link.click();
  refresh();
  return null;
}

// What is typed in forms is kept in the browser until it was sent.

/** @returns {HTMLFormElement | null} */
const formOf = (/** @type {Element} */ element) => element.closest("form[data-act]");
const typedIn = (/** @type {HTMLFormElement} */ form) =>
  `hsfiq form ${location.pathname} ${form.dataset.act} ${JSON.stringify(dataOf(form))}`;

/** @returns {(HTMLInputElement | HTMLTextAreaElement)[]} */
const textsOf = (/** @type {HTMLFormElement} */ form) =>
  /** @type {(HTMLInputElement | HTMLTextAreaElement)[]} */ ([...form.elements].filter((each) =>
    each instanceof HTMLTextAreaElement || (each instanceof HTMLInputElement && each.type === "text")));

function keepTyped(/** @type {HTMLFormElement} */ form) {
  const texts = textsOf(form).filter(isChanged).map((each) => [each.name, each.value]);
  if (texts.length) localStorage.setItem(typedIn(form), JSON.stringify(Object.fromEntries(texts)));
  else localStorage.removeItem(typedIn(form));
}

function showTyped() {
  for (const form of document.forms) {
    if (!form.dataset.act) continue;
    const texts = JSON.parse(localStorage.getItem(typedIn(form)) ?? "{}");
    for (const each of textsOf(form)) {
      if (!(each.name in texts) || isChanged(each)) continue;
      each.value = texts[each.name];
      each.closest("details")?.setAttribute("open", "");
    }
  }
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
/** Whether the page may show less than was done: an act had no reply. */
let isUnsure = false;

/** Fetches the page again; with `all`, fields also show what is stored. */
export async function refresh(all = false) {
  refreshed = Date.now();
  try {
    const response = await fetch(location.href, { headers: { Accept: "text/html" } });
    if (response.status === 401) { location.reload(); return; }
    if (!response.ok) throw new Error(String(response.status));
    away = 0;
    isUnsure = false;
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
  const after = isUnsure ? RETRY_AFTER : 1000 * Number(asks?.dataset.refresh);
  if (document.hidden || document.querySelector("dialog[open]")) return;
  if (Date.now() - refreshed >= after) refresh();
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
  sendOfOtherPages();
  showTyped();
  if (isNextStep()) document.querySelector("h1")?.focus({ preventScroll: true });
  const said = sessionStorage.getItem("said");
  sessionStorage.removeItem("said");
  if (said !== null) {
    const reply = /** @type {Reply} */ (JSON.parse(said));
    say(reply.say ?? "", { undo: reply.undo });
  }
}
open();

document.addEventListener("studio:shown", () => { showTyped(); showUnsaved(); });
addEventListener("pageshow", (event) => {
  if (!event.persisted) return;
  isLeaving = false;
  refresh();
});
