// The owner's questions at the end, which are answered once.
import { find } from "./dom.js";
import { readDraft, removeDraft, writeDraft } from "./draft.js";
import {
  answersOf,
  buildExtraQuestions,
  extraField,
  fillExtraQuestions,
  missingExtra,
  nameOfExtra,
} from "./extra_questions.js";
import { announce, notifyMissing, updateMissing } from "./notice.js";
import { ask, showReply } from "./server.js";
import { showHeader } from "./stages.js";
import { currentView } from "./state.js";
import { t } from "./text.js";

/** @typedef {import("../protocol").ExtraQuestionView} ExtraQuestion */
/** @typedef {import("../protocol").QuestionnaireView} QuestionnaireView */
/** @typedef {import("./extra_questions.js").Entries} Entries */

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
