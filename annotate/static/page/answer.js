// The answer being given: what is chosen, what is missing, and the time taken.
import { find, findAll, root, setText } from "./dom.js";
import { newKey, readDraft, writeDraft } from "./draft.js";
import {
  answersOf,
  entriesOf,
  extraField,
  fillExtraQuestions,
  leaveExtra,
  missingExtra,
  nameOfExtra,
  questionOf,
} from "./extra_questions.js";
import { imageProgress, restoreSeen, seenImages } from "./images.js";
import { currentKind } from "./kinds.js";
import { updateMissing } from "./notice.js";
import { isWaiting } from "./server.js";
import { currentStudy, judgedView } from "./state.js";
import { t } from "./text.js";
import { isTextRead, showUserText } from "./user_text.js";

/** @typedef {import("../protocol").SubmitPayload["answer"]} AnswerPayload */
/** @typedef {import("./extra_questions.js").Entries} Entries */
/** @typedef {import("./kinds.js").Choices} Choices */
/** @typedef {import("./state.js").JudgedView} JudgedView */

/** What every kind's answer has. @typedef {{ irrelevant: boolean, reason: string }} Values */

/**
 * @typedef {object} Answer
 * @property {JudgedView} view the question
 * @property {Choices} chosen what is chosen
 * @property {Values} values
 * @property {Entries} extra what is entered for the extra questions
 * @property {Record<string, unknown>} saved what the server has stored
 * @property {boolean} wasAsked whether the page has asked if a contradicting preference is meant
 * @property {string} submitKey the same for every attempt to send the same values
 * @property {number} active seconds on this question before `visibleSince`
 * @property {number | null} firstChoiceAt ms since the epoch
 * @property {number | null} visibleSince ms since the epoch; null while the page is hidden
 */

/** @type {Answer | null} */
let answer = null;

export function resetAnswer() {
  answer = null;
}

export function currentAnswer() {
  if (!answer) throw new Error("no question is shown");
  return answer;
}

/** @param {JudgedView} view */
export function startAnswer(view) {
  const draft = readDraft(view.draft) ?? {};
  const { chosen, values, extra, wasAsked } = storedAnswer(view);
  answer = {
    view,
    chosen: { ...chosen, ...draft.chosen },
    values: { ...values, ...draft.values },
    extra: { ...extra, ...draft.extra },
    saved: { ...chosen, ...values, extra: inJson(extra) },
    wasAsked: draft.wasAsked ?? wasAsked,
    submitKey: draft.submitKey ?? newKey(),
    active: draft.active ?? 0,
    firstChoiceAt: draft.first ?? null,
    visibleSince: document.hidden ? null : Date.now(),
  };
  restoreSeen(draft.images ?? []);
  showUserText(view.text, draft.isTextRead ?? false);
  for (const element of findAll(".unanswered")) element.classList.remove("unanswered");
  leaveExtra();
  fillInputs();
}

/**
 * @param {JudgedView} view
 * @returns {{ chosen: Choices, values: Values, extra: Entries, wasAsked: boolean }}
 */
function storedAnswer({ earlier }) {
  const extra = entriesOf(currentStudy().extra_questions, earlier?.extra ?? {});
  if (!earlier) return { chosen: {}, values: { irrelevant: false, reason: "" }, extra, wasAsked: false };
  const { irrelevant, reason, judgement } = earlier;
  const values = { irrelevant, reason };
  const wasAsked = judgement?.["confirmed"] ?? false;
  return { chosen: currentKind().choices(earlier), values, extra, wasAsked };
}

function fillInputs() {
  const { view, chosen, values, extra } = currentAnswer();
  for (const field of currentKind().fields(view)) {
    for (const input of root.querySelectorAll(`input[name="${field}"]`)) {
      if (input instanceof HTMLInputElement) input.checked = input.value === String(chosen[field]);
    }
  }
  find(".irrelevant", HTMLInputElement).checked = values.irrelevant;
  fillExtraQuestions(find(".extra-questions"), currentStudy().extra_questions, extra);
  const reason = find("#hsfiq-reason", HTMLTextAreaElement);
  if (reason.value !== values.reason) reason.value = values.reason;
  refreshButtons();
  markCurrent();
}

/** Mark the image or set that a digit is for. */
export function markCurrent() {
  const field = judgedView() ? currentKind().currentField?.(currentAnswer().chosen) : undefined;
  const item = field && root.querySelector(`[data-field="${field}"]`)?.closest(".judged-image, .set");
  for (const marked of findAll(".current-item")) marked.classList.remove("current-item");
  if (item) item.classList.add("current-item");
}

/**
 * @param {string} field
 * @param {number} value
 */
export function choose(field, value) {
  edit(field, ({ chosen }) => {
    chosen[field] = value;
    currentKind().settle?.(chosen, field);
  });
}

/**
 * @template {keyof Values} F
 * @param {F} field
 * @param {Values[F]} value
 */
export function change(field, value) {
  edit(field, ({ values }) => (values[field] = value));
}

/**
 * @param {string} name of an extra question
 * @param {Entries[string]} entry
 */
export function enterExtra(name, entry) {
  edit(extraField(name), ({ extra }) => (extra[name] = entry));
}

/**
 * @param {string} field
 * @param {(answer: Answer) => void} assign
 */
function edit(field, assign) {
  if (!judgedView()) return;
  if (isWaiting()) return fillInputs(); // the values being sent stay as they are
  const current = currentAnswer();
  assign(current);
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
  find(".next").setAttribute("aria-disabled", String(!isComplete || mustWait()));
  find(".next").classList.toggle("waiting", isWaitingForImages);
  setText(find(".next-label"), isWaitingForImages ? waitingLabel() : t("next"));
  const label = isReasonGiven ? "reason_given" : view.reason_asked ? "reason_required" : "reason";
  setText(find(".reason-label"), t(label));
  setText(find(".reason-prompt"), t(view.reason_asked ? "reason_prompt_required" : "reason_prompt"));
  find(".reason").classList.toggle("asked", isReasonWrong);
  updateMissing(stillMissing());
}

/** Whether the answer cannot be sent yet because of the images; one that is stored needs none. */
export function waitsForImages() {
  const { view } = currentAnswer();
  return !imageProgress().areReady && !(view.earlier && !isChanged());
}

/** Whether a part of the text has not been in view yet; an answer that is stored does not wait. */
export const waitsForText = () => !isTextRead() && !currentAnswer().view.earlier;

const mustWait = () => waitsForImages() || waitsForText();

function waitingLabel() {
  const progress = imageProgress();
  return t(progress.failed ? "next_failed" : "next_waiting", progress);
}

/** The fields without which the answer cannot be sent. */
export function missingFields() {
  const { view, chosen, extra } = currentAnswer();
  const fields = [
    ...currentKind().fields(view).filter((field) => (chosen[field] ?? null) === null),
    ...missingExtra(currentStudy().extra_questions, extra),
  ];
  return isReasonTooShort() || isReasonTooLong() ? [...fields, "reason"] : fields;
}

const isReasonTooShort = () =>
  currentAnswer().view.reason_asked && reasonLength() < currentStudy().shortest_reason;

const isReasonTooLong = () => reasonLength() > currentStudy().longest_reason;

/** The reason's characters, as the server counts them: `length` would count most emoji as two. */
const reasonLength = () => [...currentAnswer().values.reason.trim()].length;

/** @param {string[]} fields */
export function markMissing(fields) {
  for (const field of fields) find(`[data-field="${field}"]`).classList.add("unanswered");
}

/** What is missing, in words; "" if nothing is. */
export function stillMissing() {
  const items = missingFields().map(nameOf).join(", ");
  return items && t("still_missing", { items });
}

/** @param {string} field */
function nameOf(field) {
  const extra = questionOf(currentStudy().extra_questions, field);
  if (extra) return nameOfExtra(extra);
  if (field !== "reason") return currentKind().fieldName(field);
  const { shortest_reason, longest_reason } = currentStudy();
  const limits = { shortest: shortest_reason, longest: longest_reason };
  return t(isReasonTooLong() ? "a_shorter_reason" : "a_reason", limits);
}

/** @param {Entries} entries of the extra questions */
const inJson = (entries) => JSON.stringify(answersOf(currentStudy().extra_questions, entries));

export function isChanged() {
  const { chosen, values, extra, saved } = currentAnswer();
  const current = { ...chosen, ...values, extra: inJson(extra) };
  return Object.entries(current).some(([field, value]) => saved[field] !== value);
}

export function saveDraft() {
  if (!answer || !judgedView()) return;
  const { view, chosen, values, extra, wasAsked, submitKey, firstChoiceAt } = answer;
  const seen = { images: seenImages(), isTextRead: isTextRead() };
  const rest = { active: activeSeconds(), first: firstChoiceAt, ...seen };
  writeDraft(view.draft, { chosen, values, extra, wasAsked, submitKey, ...rest });
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
  const { view, chosen, values, extra, wasAsked, firstChoiceAt } = currentAnswer();
  const questions = currentStudy().extra_questions;
  return /** @type {AnswerPayload} */ ({
    ...currentKind().answer(chosen, wasAsked),
    irrelevant: values.irrelevant,
    reason: values.reason.trim() || null,
    active_seconds: activeSeconds(),
    seconds_since_first_interaction: firstChoiceAt === null ? null : secondsSince(firstChoiceAt),
    ...(questions.length && { extra: answersOf(questions, extra) }),
    ...(view.text && { text_in_view: isTextRead() }),
  });
}
