// Requests to the server. Whatever fails, no choice is lost: the page shows a new view only if the
// server has sent it.
import { find, notify, root, setView, t } from "./dom.js";

/** @typedef {import("../protocol").ErrorReply} ErrorReply */
/** @typedef {import("../protocol").View} View */

const TIMEOUT_MS = 20_000;

export class Refusal extends Error {
  /**
   * @param {number} status
   * @param {Partial<ErrorReply>} reply
   */
  constructor(status, reply) {
    super(reply.error ?? String(status));
    this.status = status;
    this.isReassigned = reply.reassigned ?? false;
    this.isPageOutdated = reply.outdated ?? false;
    this.isSetBack = reply.set_back ?? false;
    this.isParticipantUnknown = reply.participant_unknown ?? false;
  }
}

let isBusy = false;

/** What "Try again" does after a request without a reply. @type {(() => void) | null} */
let unanswered = null;
/** Whether the browser was connected when the last request began. */
let wasOnline = true;
/** @type {(view: View) => void} */
let showView;
/** @type {(view: View) => Promise<View>} */
let withTexts;

/**
 * @param {(view: View) => void} show
 * @param {(view: View) => Promise<View>} update gets the texts that a view needs; the view to show
 */
export function onView(show, update) {
  showView = show;
  withTexts = update;
  isBusy = false;
}

export const isWaiting = () => isBusy;

/**
 * GET the path, or POST the payload to it.
 * @param {string} path relative to the root of the app
 * @param {object} [payload]
 * @param {number} [timeout] ms
 * @returns {Promise<any>} the reply, as protocol.d.ts describes it
 */
export async function ask(path, payload, timeout = TIMEOUT_MS) {
  const response = await fetch(`../${path}`, {
    method: payload ? "POST" : "GET",
    headers: { Accept: "application/json", ...(payload && { "Content-Type": "application/json" }) },
    body: payload ? JSON.stringify(payload) : null,
    cache: "no-store",
    credentials: "same-origin",
    signal: AbortSignal.timeout(timeout),
  });
  const reply = await response.json().catch(() => ({}));
  if (!response.ok) throw new Refusal(response.status, reply);
  return reply;
}

/**
 * Ask the server for a view and show it. A call while another is in progress does nothing.
 * @param {() => Promise<View | null>} request null leaves the page as it is
 * @param {() => void} retry what "Try again" does
 */
export function showReply(request, retry) {
  return showRequest(async () => {
    const view = await request();
    if (view) showView(await withTexts(view));
  }, retry);
}

/**
 * Send a request that shows its reply itself. A call while another is in progress does nothing.
 * @param {() => Promise<void>} request
 * @param {() => void} retry what "Try again" does
 */
export async function showRequest(request, retry) {
  if (isBusy) return;
  setBusy(true);
  unanswered = null;
  wasOnline = navigator.onLine;
  try {
    await request();
  } catch (error) {
    await explain(error, retry);
  } finally {
    setBusy(false);
  }
}

/** @param {boolean} busy */
function setBusy(busy) {
  isBusy = busy;
  root.classList.toggle("busy", busy);
}

/**
 * @param {unknown} error
 * @param {() => void} retry
 */
async function explain(error, retry) {
  const again = { label: t("retry"), action: retry };
  if (!(error instanceof Refusal)) return explainSilence(retry);
  if (![403, 409, 410].includes(error.status)) return explainRefusal(error, again);
  // The page is out of date: load the current view; never write the answer to another question.
  try {
    showView(await withTexts(await ask("question")));
    if (error.isReassigned) notify(t("question_reassigned"));
    else if (error.isSetBack) notify(t("set_back"));
    else if (error.status !== 410) notify(t(error.status === 409 ? "answered_elsewhere" : "out_of_date"));
  } catch (second) {
    if (second instanceof Refusal) notify(t("refused", { reason: second.message }));
    else explainSilence(retry);
  }
}

/** @param {() => void} retry */
function explainSilence(retry) {
  unanswered = retry;
  if (!wasOnline && navigator.onLine) return explainConnection(retry);
  notify(t(navigator.onLine ? "offline" : "disconnected"), { label: t("retry"), action: retry });
}

/** The browser is connected again: the notice no longer says that it is not. */
export function onConnected() {
  if (unanswered && !isBusy) explainConnection(unanswered);
}

/** @param {() => void} retry */
function explainConnection(retry) {
  notify(t("connected"), { label: t("retry"), action: retry, isInfo: true });
}

/**
 * @param {Refusal} refusal
 * @param {import("./dom.js").NoticeOptions} again
 */
function explainRefusal({ status, isPageOutdated, isParticipantUnknown, message }, again) {
  if (isParticipantUnknown) explainUnknown();
  else if (status === 401) showNoAccess();
  else if (status >= 500 || status === 429) notify(t("server_error"), again);
  else if (isPageOutdated) notify(t("outdated"), { label: t("reload"), action: () => location.reload() });
  else notify(t("refused", { reason: message }), again);
}

/** The page stays as it is, so that a participant can copy what they have typed. */
function explainUnknown() {
  const text = `${t("participant_unknown")} ${t("entered_is_kept")}`;
  notify(text, { label: t("to_welcome"), action: () => location.assign("../") });
}

/** @param {boolean} isParticipantUnknown whether a cookie came, but its participant is not stored */
export function showNoAccess(isParticipantUnknown = false) {
  setView(null);
  root.dataset.step = "no-access";
  if (isParticipantUnknown) find(".no-access-text").textContent = t("participant_unknown");
}
