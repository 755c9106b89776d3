// The study's other languages: buttons on the consent page and in the guidelines.
import { saveDraft } from "./answer.js";
import { findAll, makeButton } from "./dom.js";
import { ask, showReply } from "./server.js";
import { currentStudy, currentView } from "./state.js";

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
  const view = currentView();
  saveDraft();
  const number = view?.step === "question" ? view.number : null;
  showReply(() => ask("language", { language, number }), () => chooseLanguage(language));
}
