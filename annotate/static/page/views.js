// Opening the page and showing each view that the server sends.
import { isChanged, isReasonTooLong, markMissing, missingFields, waitsForImages } from "./answer.js";
import { closeReason, fillGuidelines, openReason } from "./dialogs.js";
import { find, focusPage, root } from "./dom.js";
import { fillKeys } from "./keys.js";
import { clearNotice, notify } from "./notice.js";
import { buildQuestion, explainImages, showQuestion } from "./question.js";
import { isWaiting, showNoAccess } from "./server.js";
import { currentStudy, isOpen, judgedView, setName, setStudy, setView } from "./state.js";
import {
  finishPractice,
  showCheck,
  showConsent,
  showDone,
  showFarewell,
  showFeedback,
  showPractice,
} from "./stages.js";
import { goTo, skip, submitAnswer } from "./submit.js";
import { setTexts, t } from "./text.js";

/** @typedef {import("../protocol").Opening} Opening */
/** @typedef {import("../protocol").FailedOpening} FailedOpening */
/** @typedef {import("../protocol").View} View */
/** @typedef {import("./text.js").Texts} Texts */

/** @param {Opening | FailedOpening | null} opening */
export function open(opening) {
  if (!opening || isOpen()) return;
  const texts = /** @type {Texts} */ (opening.texts);
  fillKeys();
  if ("error" in opening) {
    setTexts(opening.language, texts);
    showNoAccess();
    return;
  }
  const { study, view } = opening;
  setStudy(study);
  setTexts(study.language, texts);
  document.title = study.title;
  find(".title").textContent = study.title;
  fillGuidelines();
  buildQuestion();
  show(view);
}

/** @param {View} view */
export function show(view) {
  setView(view);
  closeReason();
  clearNotice();
  root.dataset.step = view.step === "practice" ? "question" : view.step;
  root.dataset.view = view.step;
  const progress = find(".progress", HTMLProgressElement);
  progress.max = view.total || 1;
  progress.value = view.answered;
  const minutes = "minutes_left" in view ? view.minutes_left : null;
  find(".time-left").textContent = minutes ? t("time_left", { minutes }) : "";
  if (view.step !== "check") focusPage();
  showStep(view);
  find(".back", HTMLButtonElement).disabled = !view.back;
  window.scrollTo(0, 0);
}

/** @param {View} view */
function showStep(view) {
  switch (view.step) {
    case "consent":
      return showConsent(view);
    case "practice":
      return showPractice(view);
    case "question":
      return showQuestion(view);
    case "check":
      return showCheck(view);
    case "done":
      return showDone(view);
    case "farewell":
      return showFarewell(view);
  }
}

/** Send the answer, or say what is missing. */
export function next() {
  const view = judgedView();
  if (!view || isWaiting()) return;
  const missing = missingFields();
  if (waitsForImages()) explainImages();
  else if (missing.length) showMissing(missing);
  else if (view.step === "practice") showFeedback(view);
  else if (view.earlier && !isChanged()) goTo(following(view));
  else submitAnswer(next);
}

/** Go on without an answer; after the practice question, start the others. */
export function skipQuestion() {
  if (judgedView()?.step === "practice") finishPractice();
  else skip();
}

/**
 * The number of the question after an earlier one; null for the current step.
 * @param {import("../protocol").QuestionView} view
 */
function following({ number, total, standing_at }) {
  return number === total || number + 1 === standing_at ? null : number + 1;
}

/** @param {ReturnType<typeof missingFields>} fields */
function showMissing(fields) {
  const { shortest_reason, longest_reason } = currentStudy();
  const names = {
    score_1: t("score_for", { set: setName(1) }),
    score_2: t("score_for", { set: setName(2) }),
    preferred: t("preference"),
    irrelevant: t("irrelevant"),
    reason: t(isReasonTooLong() ? "a_shorter_reason" : "a_reason", {
      shortest: shortest_reason,
      longest: longest_reason,
    }),
  };
  markMissing(fields);
  if (fields[0] === "reason") openReason();
  notify(t("still_missing", { items: fields.map((field) => names[field]).join(", ") }));
  if (fields[0] !== "reason") find(".unanswered").scrollIntoView({ block: "nearest" });
}
