// Opening the page and showing each view that the server sends.
import {
  isChanged,
  markMissing,
  missingFields,
  stillMissing,
  waitsForImages,
  waitsForText,
} from "./answer.js";
import { askConfirmation, needsConfirmation } from "./confirmation.js";
import { closeReason, fillGuidelines, openGuidelines, openReason } from "./dialogs.js";
import { find, focusPage, root } from "./dom.js";
import { addEntry } from "./history.js";
import { fillKeys } from "./keys.js";
import { fillLanguages } from "./languages.js";
import { showMessages } from "./messages.js";
import { clearNotice, notify, notifyMissing } from "./notice.js";
import { showPreview } from "./preview.js";
import { buildQuestion, explainImages, showQuestion } from "./question.js";
import { showQuestionnaire } from "./questionnaire.js";
import { showSearch } from "./search.js";
import { buildSearchControls } from "./search_parts.js";
import { ask, isWaiting, showNoAccess } from "./server.js";
import { currentStudy, isOpen, judgedView, setStudy, setView } from "./state.js";
import {
  finishPractice,
  showCheck,
  showConsent,
  showDone,
  showFarewell,
  showFeedback,
  showPractice,
} from "./stages.js";
import { following, goTo, skip, submitAnswer } from "./submit.js";
import { setTexts, t } from "./text.js";
import { explainText } from "./user_text.js";
import { showWithdrawalButtons } from "./withdrawal.js";
import { buildZoomScores } from "./zoom_scores.js";

/** @typedef {import("../protocol").Opening} Opening */
/** @typedef {import("../protocol").FailedOpening} FailedOpening */
/** @typedef {import("../protocol").View} View */
/** @typedef {import("./text.js").Texts} Texts */

/** @param {Opening | FailedOpening | null} opening */
export function open(opening) {
  if (!opening || isOpen()) return;
  fillKeys();
  if ("error" in opening) {
    setTexts(opening.language, "ltr", /** @type {Texts} */ (opening.texts));
    showNoAccess(opening.participant_unknown);
    return;
  }
  setUp(opening);
  show(opening.view);
}

/** @param {Opening} opening */
function setUp({ study, texts }) {
  setStudy(study);
  setTexts(study.language, study.direction, /** @type {Texts} */ (texts));
  document.title = study.title;
  find(".title").textContent = study.title;
  showPreview();
  showWithdrawalButtons();
  fillGuidelines();
  fillLanguages();
  buildQuestion();
  buildSearchControls();
  buildZoomScores();
}

/**
 * The view, once the page has the texts that belong to it: the owner may have corrected them, and
 * the participant may have chosen another language.
 * @param {View} view
 * @returns {Promise<View>}
 */
export async function withCurrentTexts(view) {
  const earlier = currentStudy();
  if (hasTextsOf(earlier, view)) return view;
  /** @type {Opening} */
  const opening = await ask("opening");
  setUp(opening);
  const { language, guidelines } = opening.study;
  areGuidelinesNew ||= language === earlier.language && guidelines !== earlier.guidelines;
  return hasTextsOf(opening.study, view) ? view : opening.view;
}

/**
 * @param {import("../protocol").StudyInfo} study
 * @param {View} view
 */
const hasTextsOf = (study, view) =>
  study.text_version === view.text_version && study.language === view.language;

let areGuidelinesNew = false;

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
  addEntry(view);
  window.scrollTo(0, 0);
  if (areGuidelinesNew) announceGuidelines();
  showMessages(view.messages);
}

function announceGuidelines() {
  areGuidelinesNew = false;
  notify(t("guidelines_changed"), { label: t("guidelines"), action: openGuidelines, isInfo: true });
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
    case "search":
      return showSearch(view);
    case "check":
      return showCheck(view);
    case "questionnaire":
      return showQuestionnaire(view);
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
  else if (waitsForText()) explainText();
  else if (missing.length) showMissing(missing);
  else if (view.step === "practice") showFeedback(view);
  else if (view.earlier && !isChanged()) goTo(following(view));
  else if (needsConfirmation()) askConfirmation();
  else submitAnswer(next);
}

/** Go on without an answer; after the practice question, start the others. */
export function skipQuestion() {
  if (judgedView()?.step === "practice") finishPractice();
  else skip();
}

/** @param {string[]} fields */
function showMissing(fields) {
  markMissing(fields);
  if (fields[0] === "reason") openReason();
  notifyMissing(stillMissing());
  if (fields[0] !== "reason") find(".unanswered").scrollIntoView({ block: "nearest" });
}
