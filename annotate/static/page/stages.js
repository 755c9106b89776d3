// The steps around the questions: consent, practice, checks, questions at the end, thanks, withdrawal.
import {
  announce,
  clearNotice,
  currentStudy,
  currentView,
  find,
  findAll,
  make,
  makeButton,
  notifyMissing,
  openDialog,
  readDraft,
  removeDraft,
  removeDrafts,
  root,
  setView,
  t,
  texts,
  updateMissing,
  writeDraft,
} from "./dom.js";
import {
  answersOf,
  buildExtraQuestions,
  extraField,
  fillExtraQuestions,
  missingExtra,
  nameOfExtra,
} from "./extra_questions.js";
import {
  currentAnswer,
  currentKind,
  fillReading,
  openGuidelinesOnce,
  resetAnswer,
  showJudged,
  showPosition,
} from "./question.js";
import { resetSearch } from "./search.js";
import { ask, showReply, showRequest } from "./server.js";

/** @typedef {import("../protocol").Completion} Completion */
/** @typedef {import("../protocol").ExtraQuestionView} ExtraQuestion */
/** @typedef {import("../protocol").QuestionnaireView} QuestionnaireView */
/** @typedef {import("../protocol").WithdrawalView} WithdrawalView */
/** @typedef {import("./extra_questions.js").Entries} Entries */

// The steps around the questions: consent, practice, arithmetic checks, thanks.

/** After so many answers to the practice question, the others can be started in any case. */
const MOST_ATTEMPTS = 3;
let attempts = 0;

/** The farewells of people who did what they were asked. */
const PAID = ["closed", "reassigned"];

/** @param {import("../protocol").ConsentView} view */
export function showConsent(view) {
  showHeader("", "");
  announce(t("consent_title"));
  fillReading(find(".consent-text"), view.text);
}

/** @param {boolean} agrees */
export function sendConsent(agrees) {
  showReply(() => ask("consent", { agrees }), () => sendConsent(agrees));
}

/** One tap beside "I agree" does not decline. */
export function askToDecline() {
  openDialog(".declining", ".close");
}

export function decline() {
  find(".declining", HTMLDialogElement).close();
  sendConsent(false);
}

/** Back to the consent page, for somebody who has declined. */
export function reconsider() {
  showReply(() => ask("reconsider", {}), reconsider);
}

/** @param {import("../protocol").PracticeView} view */
export function showPractice(view) {
  attempts = 0;
  find(".count").textContent = t("practice");
  showJudged(view, t("practice_position"));
  announce(t("practice_position"));
  openGuidelinesOnce();
}

/**
 * Explain the practice question; its answer is not sent.
 * @param {import("../protocol").PracticeView} view
 */
export function showFeedback(view) {
  const isExpected = currentKind().isExpected(currentAnswer().chosen, view.expected);
  find(".feedback-title").textContent = t(isExpected ? "practice_correct" : "practice_incorrect");
  attempts += 1;
  const mayBegin = isExpected || attempts >= MOST_ATTEMPTS;
  const explanation = [...view.explanation, ...(mayBegin ? [] : [t("practice_try_again")])];
  find(".feedback-text").replaceChildren(...explanation.map((text) => make("p", "", text)));
  find(".feedback .begin").hidden = !mayBegin;
  find(".feedback .close").classList.toggle("primary", !mayBegin);
  openDialog(".feedback", mayBegin ? ".begin" : ".close");
}

export function finishPractice() {
  find(".feedback", HTMLDialogElement).close();
  showReply(async () => {
    const view = await ask("practice", {});
    removeDraft("practice");
    return view;
  }, finishPractice);
}

/** @param {import("../protocol").CheckView} view */
export function showCheck(view) {
  showHeader(t("check_title"), t("count", { number: view.answered, total: view.total }));
  find(".sum label").textContent = t("check_prompt", { sum: view.prompt });
  find(".sum-note").textContent = "";
  const input = sumInput();
  input.value = "";
  input.focus();
}

const sumInput = () => find("#hsfiq-sum", HTMLInputElement);

export function sendSum() {
  const view = currentView();
  if (view?.step !== "check") return;
  const given = sumInput().value.trim();
  if (!given) {
    find(".sum-note").textContent = t("check_empty");
    return;
  }
  showReply(async () => {
    /** @type {import("../protocol").CheckReply} */
    const reply = await ask("check", { assignment: view.assignment, given });
    if (reply.passed) return reply.view;
    find(".sum-note").textContent = t("check_wrong");
    sumInput().select();
    sumInput().focus();
    return null;
  }, sendSum);
}

/** @param {import("../protocol").DoneView} view */
export function showDone(view) {
  showHeader("", t("finished", view));
  const lines = [t(view.minutes ? "totals_time" : "totals", view)];
  if (view.passed_on) lines.push(t("some_reassigned"));
  const totals = lines.join(" ");
  find(".totals").textContent = totals;
  find(".stored").hidden = Boolean(view.hit);
  find(".stored").textContent = [t("stored"), ...(isLastStepLeft(view) ? [] : [t("may_close")])].join(" ");
  find(".go-back").hidden = !view.back;
  fillCompletion(find(".done .completion"), view);
  announce([t("thanks"), totals, addLastStep(find(".done .completion"), view)].join(" ").trim());
}

/**
 * Whether somebody who has answered everything has to do one more thing to be paid.
 * @param {Completion} completion
 */
const isLastStepLeft = ({ code, url }) => Boolean(code || url);

/**
 * Say above the code and the link what they are for.
 * @param {HTMLElement} container
 * @param {Completion} completion
 */
function addLastStep(container, { code, url }) {
  if (!code && !url) return "";
  const name = code && url ? "last_step_both" : url ? "last_step_link" : "last_step_code";
  const text = t(name, { button: t("finish") });
  container.prepend(make("p", "last-step", text));
  return text;
}

/** @param {import("../protocol").FarewellView} view */
export function showFarewell(view) {
  const [title = "", text = ""] = texts.farewell[view.kind];
  showHeader("", view.answered ? t("finished", view) : "");
  find(".farewell-title").textContent = title;
  find(".farewell-text").textContent = text;
  find(".try-again").hidden = !["paused", "checks-paused"].includes(view.kind);
  find(".reconsider").hidden = !view.may_reconsider || currentStudy().is_preview;
  const completion = find(".farewell .completion");
  fillCompletion(completion, view);
  const lastStep = PAID.includes(view.kind) ? addLastStep(completion, view) : "";
  announce(`${title} ${text} ${lastStep}`.trim());
}

/**
 * The code that a recruitment platform asks for, and the link back to it; or a HIT's form.
 * @param {HTMLElement} container
 * @param {Completion} completion
 */
function fillCompletion(container, { code, url, hit }) {
  if (hit) return container.replaceChildren(make("p", "soft", t("send_hit_note")), hitForm(hit));
  if (hit === null) return container.replaceChildren(make("p", "soft", t("return_hit")));
  container.replaceChildren(...(code ? [codeLine(code)] : []), ...(url ? [finishLine(url)] : []));
}

/** @param {string} code */
function codeLine(code) {
  const line = make("p", "code");
  const copy = makeButton("button small", t("copy"));
  copy.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(code);
      copy.textContent = t("copied");
      announce(t("copied"));
    } catch {
      /* without permission, the code can still be selected */
    }
  });
  line.append(make("span", "label", t("completion_code")), make("strong", "", code), copy);
  return line;
}

/** @param {import("../protocol").HitForm} hit */
function hitForm({ action, fields }) {
  const form = make("form");
  form.method = "post";
  form.action = action;
  for (const [name, value] of Object.entries(fields)) {
    const field = make("input");
    field.type = "hidden";
    field.name = name;
    field.value = value;
    form.append(field);
  }
  const send = makeButton("button primary", t("send_hit"));
  send.type = "submit";
  form.append(send);
  return form;
}

/** @param {string} url */
function finishLine(url) {
  const line = make("p");
  const link = make("a", "button primary", t("finish"));
  link.href = url;
  link.rel = "noreferrer";
  line.append(link);
  return line;
}

/**
 * @param {string} position
 * @param {string} count
 */
export function showHeader(position, count) {
  showPosition(position);
  find(".count").textContent = count;
}

// The owner's questions at the end, which are answered once.

/** @type {Entries} */
let entries = {};

/** @param {QuestionnaireView} view */
export function showQuestionnaire(view) {
  const { note, questions, draft } = view;
  showHeader(t("questionnaire_title"), t("finished", view));
  announce(t("questionnaire_title"));
  find(".questionnaire-note").textContent = note;
  find(".to-last").hidden = !view.back;
  entries = readDraft(draft) ?? {};
  const container = find(".questionnaire-questions");
  buildExtraQuestions(container, questions, (name, entry) => {
    entries = { ...entries, [name]: entry };
    writeDraft(draft, entries);
    fieldOf(name).classList.remove("unanswered");
    fillExtraQuestions(container, questions, entries);
    updateMissing(stillMissing(missingOf(questions)));
  });
  fillExtraQuestions(container, questions, entries);
}

export function sendQuestionnaire() {
  const view = currentView();
  if (view?.step !== "questionnaire") return;
  const { questions, assignment, draft } = view;
  const missing = missingOf(questions);
  if (missing.length) return showMissing(missing);
  showReply(async () => {
    const reply = await ask("questionnaire", { assignment, answers: answersOf(questions, entries) });
    removeDraft(draft);
    return reply;
  }, sendQuestionnaire);
}

/** @param {ExtraQuestion[]} questions */
function missingOf(questions) {
  const fields = missingExtra(questions, entries);
  return questions.filter(({ name }) => fields.includes(extraField(name)));
}

/**
 * One question is named; of several, only the number would be read.
 * @param {ExtraQuestion[]} questions
 */
function stillMissing(questions) {
  const [first, ...others] = questions;
  if (!first) return "";
  if (others.length) return t("answer_highlighted", { count: questions.length });
  return t("still_missing", { items: nameOfExtra(first) });
}

/** @param {ExtraQuestion[]} questions */
function showMissing(questions) {
  for (const { name } of questions) fieldOf(name).classList.add("unanswered");
  find(".questionnaire .unanswered").scrollIntoView({ block: "nearest" });
  notifyMissing(stillMissing(questions));
}

/** @param {string} name */
const fieldOf = (name) => find(`.questionnaire [data-field="${extraField(name)}"]`);

// Withdrawing from the study: what it means, the confirmation, and the page afterwards.

/** What withdrawing means for the payment. */
const PAYMENT = /** @type {const} */ ({
  prolific: "withdraw_prolific",
  mturk: "withdraw_mturk",
  panel: "withdraw_panel",
  code: "withdraw_code",
});

/** What the dialog says. @type {WithdrawalView | null} */
let shown = null;

const dialog = () => find(".withdrawal", HTMLDialogElement);

/** A preview has no participant. */
export function showWithdrawalButtons() {
  for (const part of findAll(".withdrawing")) part.hidden = currentStudy().is_preview;
}

/** Ask the server what withdrawing means, and say it. */
export function openWithdrawal() {
  find(".guidelines", HTMLDialogElement).close();
  showRequest(async () => {
    shown = await ask("withdrawal");
    if (!shown) return;
    find(".withdrawal-text").replaceChildren(...linesOf(shown));
    // Not a button: Enter must not delete anything before the text has been read.
    openDialog(".withdrawal", ".withdrawal-reading");
  }, openWithdrawal);
}

/** @param {WithdrawalView} view */
function linesOf({ name, answers, releases, payment, platform }) {
  const lines = [t("withdraw_deletes", { answers }), t("withdraw_keeps", { name }), t("withdraw_files")];
  const made = make("p", "", t(releases.length ? "withdraw_releases" : "withdraw_no_release"));
  const list = make("ul");
  list.append(...releases.map((release) => make("li", "", t("withdraw_release", release))));
  return [
    ...lines.map((line) => make("p", "", line)),
    made,
    ...(releases.length ? [list] : []),
    ...(payment ? [make("p", "withdrawal-payment", t(PAYMENT[payment], { platform }))] : []),
  ];
}

export function confirmWithdrawal() {
  dialog().close();
  const assignment = shown?.assignment;
  if (!assignment) return;
  showRequest(async () => {
    await ask("withdrawal", { assignment });
    showWithdrawn();
  }, confirmWithdrawal);
}

/** Nothing that was entered stays in the browser. */
function showWithdrawn() {
  const isHit = shown?.payment === "mturk";
  shown = null;
  setView(null);
  resetAnswer();
  resetSearch();
  removeDrafts();
  clearNotice();
  root.dataset.step = root.dataset.view = "withdrawn";
  find(".withdrawn .return-hit").hidden = !isHit;
  announce(`${t("withdrawn_title")} ${t("withdrawn")}`);
  find(".withdrawn h2").focus({ preventScroll: true });
  window.scrollTo(0, 0);
}
