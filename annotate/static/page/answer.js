// The answer being given: what is chosen, what is missing, and the time taken.
import { find, findAll, root } from "./dom.js";
import { readDraft, writeDraft } from "./draft.js";
import { imageProgress, restoreSeen, seenImages } from "./images.js";
import { clearNotice } from "./notice.js";
import { isWaiting } from "./server.js";
import { currentStudy, judgedView } from "./state.js";
import { t } from "./text.js";

/** @typedef {import("../protocol").EarlierAnswer} Values */
/** @typedef {import("../protocol").AnswerPayload} AnswerPayload */
/** @typedef {import("./state.js").JudgedView} JudgedView */
/** @typedef {keyof Values} Field */

/**
 * @typedef {object} Answer
 * @property {JudgedView} view the question
 * @property {Values} values what is chosen
 * @property {Values} saved what the server has stored
 * @property {string} submitKey the same for every attempt to send the same values
 * @property {number} active seconds on this question before `visibleSince`
 * @property {number | null} firstChoiceAt ms since the epoch
 * @property {number | null} visibleSince ms since the epoch; null while the page is hidden
 */

/** @type {Values} */
const EMPTY = { score_1: null, score_2: null, preferred: null, irrelevant: false, reason: "" };
const RADIO_FIELDS = /** @type {const} */ (["score_1", "score_2", "preferred"]);

/** @type {Answer | null} */
let answer = null;
let isMissingShown = false;

export function resetAnswer() {
  answer = null;
}

export function currentAnswer() {
  if (!answer) throw new Error("no question is shown");
  return answer;
}

/** @param {JudgedView} view */
export function startAnswer(view) {
  const draft = readDraft(view.assignment) ?? {};
  const saved = { ...EMPTY, ...view.earlier };
  answer = {
    view,
    values: { ...saved, ...draft.values },
    saved,
    submitKey: draft.submitKey ?? newKey(),
    active: draft.active ?? 0,
    firstChoiceAt: draft.first ?? null,
    visibleSince: document.hidden ? null : Date.now(),
  };
  restoreSeen(draft.images ?? []);
  isMissingShown = false;
  for (const element of findAll(".unanswered")) element.classList.remove("unanswered");
  fillInputs();
}

/** A random key; `crypto.randomUUID` does not exist on plain http. */
function newKey() {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return [...bytes].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}

function fillInputs() {
  const { values } = currentAnswer();
  for (const field of RADIO_FIELDS) {
    for (const input of root.querySelectorAll(`input[name="${field}"]`)) {
      if (input instanceof HTMLInputElement) input.checked = input.value === String(values[field]);
    }
  }
  find(".irrelevant", HTMLInputElement).checked = values.irrelevant;
  const reason = find("#hsfiq-reason", HTMLTextAreaElement);
  if (reason.value !== values.reason) reason.value = values.reason;
  refreshButtons();
}

/**
 * @template {Field} F
 * @param {F} field
 * @param {Values[F]} value
 */
export function choose(field, value) {
  if (!judgedView()) return;
  if (isWaiting()) return fillInputs(); // the values being sent stay as they are
  const current = currentAnswer();
  current.values[field] = value;
  current.firstChoiceAt ??= Date.now();
  root.querySelector(`[data-field="${field}"]`)?.classList.remove("unanswered");
  // The values differ from those of a failed attempt, so they get a new key.
  current.submitKey = newKey();
  saveDraft();
  fillInputs();
}

export function refreshButtons() {
  const { view } = currentAnswer();
  const isComplete = missingFields().length === 0;
  const isWaitingForImages = waitsForImages();
  const isReasonWrong = isReasonTooShort() || isReasonTooLong();
  const isReasonGiven = reasonLength() > 0 && !isReasonWrong;
  find(".next").setAttribute("aria-disabled", String(!isComplete || isWaitingForImages));
  find(".next").classList.toggle("waiting", isWaitingForImages);
  find(".next-label").textContent = isWaitingForImages ? waitingLabel() : t("next");
  find(".reason-label").textContent = t(
    isReasonGiven ? "reason_given" : view.reason_asked ? "reason_required" : "reason",
  );
  find(".reason-prompt").textContent = t(view.reason_asked ? "reason_prompt_required" : "reason_prompt");
  find(".reason").classList.toggle("asked", isReasonWrong);
  if (isComplete && isMissingShown) {
    isMissingShown = false;
    clearNotice();
  }
}

/** Whether the answer cannot be sent yet because of the images; one that is stored needs none. */
export function waitsForImages() {
  const { view } = currentAnswer();
  return !imageProgress().areReady && !(view.earlier && !isChanged());
}

function waitingLabel() {
  const progress = imageProgress();
  return t(progress.failed ? "next_failed" : "next_waiting", progress);
}

/** @returns {Field[]} the fields without which the answer cannot be sent */
export function missingFields() {
  const { values } = currentAnswer();
  /** @type {Field[]} */
  const fields = RADIO_FIELDS.filter((field) => values[field] === null);
  return isReasonTooShort() || isReasonTooLong() ? [...fields, "reason"] : fields;
}

const isReasonTooShort = () =>
  currentAnswer().view.reason_asked && reasonLength() < currentStudy().shortest_reason;

export const isReasonTooLong = () => reasonLength() > currentStudy().longest_reason;

/** The reason's characters, as the server counts them: `length` would count most emoji as two. */
const reasonLength = () => [...currentAnswer().values.reason.trim()].length;

/** @param {Field[]} fields */
export function markMissing(fields) {
  for (const field of fields) find(`[data-field="${field}"]`).classList.add("unanswered");
  isMissingShown = true;
}

export function isChanged() {
  const { values, saved } = currentAnswer();
  return [...RADIO_FIELDS, /** @type {const} */ ("irrelevant"), /** @type {const} */ ("reason")].some(
    (field) => saved[field] !== values[field],
  );
}

export function saveDraft() {
  if (!answer || !judgedView()) return;
  const { view, values, submitKey, firstChoiceAt } = answer;
  const draft = { values, submitKey, active: activeSeconds(), first: firstChoiceAt, images: seenImages() };
  writeDraft(view.assignment, draft);
}

/** Seconds on this question while the page was visible. */
function activeSeconds() {
  const { active, visibleSince } = currentAnswer();
  return active + (visibleSince === null ? 0 : secondsSince(visibleSince));
}

/** @param {number} start ms since the epoch; a clock set back gives 0 */
const secondsSince = (start) => Math.max(0, (Date.now() - start) / 1000);

/** Count time only while the page is visible. */
export function countTime() {
  if (!answer) return;
  answer.active = activeSeconds();
  answer.visibleSince = document.hidden ? null : Date.now();
  if (document.hidden) saveDraft();
}

/** @returns {AnswerPayload} */
export function answerPayload() {
  const { values, firstChoiceAt } = currentAnswer();
  return {
    score_1: Number(values.score_1),
    score_2: Number(values.score_2),
    preferred: Number(values.preferred),
    irrelevant: values.irrelevant,
    reason: values.reason.trim() || null,
    active_seconds: activeSeconds(),
    seconds_since_first_interaction: firstChoiceAt === null ? null : secondsSince(firstChoiceAt),
  };
}
