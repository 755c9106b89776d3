// The study's other languages: buttons on the consent page and in the guidelines.
import { saveDraft } from "./answer.js";
import { findAll, makeButton } from "./dom.js";
import { moveDraft } from "./draft.js";
import { ask, showReply } from "./server.js";
import { currentStudy, currentView } from "./state.js";

/** @typedef {import("../protocol").View} View */

export function fillLanguages() {
  const others = currentStudy().languages.filter(({ tag }) => tag !== currentStudy().language);
  for (const container of findAll(".languages")) {
    container.hidden = !others.length;
    container.replaceChildren(...others.map(languageButton));
  }
}

/** @param {import("../protocol").LanguageView} language */
function languageButton({ tag, name, direction }) {
  const button = makeButton("button small", name);
  button.lang = tag;
  button.dir = direction;
  button.addEventListener("click", () => chooseLanguage(tag));
  return button;
}

/**
 * Show the same step in another language, with what has been entered.
 * @param {string} language
 */
function chooseLanguage(language) {
  const before = currentView();
  saveDraft();
  showReply(async () => {
    const number = before?.step === "question" ? before.number : null;
    /** @type {View} */
    const view = await ask("language", { language, number });
    if (before && "assignment" in before && "assignment" in view && placeOf(before) === placeOf(view)) {
      moveDraft(before.assignment, view.assignment);
    }
    return view;
  }, () => chooseLanguage(language));
}

/** @param {View} view */
const placeOf = (view) => `${view.step} ${"number" in view ? view.number : ""}`;
