// Asks, once for a question, whether a preference for the set scored much lower is meant.
import { currentAnswer, saveDraft } from "./answer.js";
import { find } from "./dom.js";
import { currentKind } from "./kinds.js";
import { setName } from "./state.js";
import { submitAnswer } from "./submit.js";
import { t } from "./text.js";

export function needsConfirmation() {
  const { chosen, wasAsked } = currentAnswer();
  return !wasAsked && (currentKind().contradicts?.(chosen) ?? false);
}

export function askConfirmation() {
  const answer = currentAnswer();
  const side = answer.chosen["preferred"] === 2 ? 2 : 1;
  const other = side === 1 ? 2 : 1;
  find(".confirmation-text").textContent = t("confirm_text", {
    preferred: setName(side),
    preferred_score: answer.chosen[`score_${side}`],
    other: setName(other),
    other_score: answer.chosen[`score_${other}`],
  });
  answer.wasAsked = true;
  saveDraft();
  find(".confirmation", HTMLDialogElement).showModal();
  find(".confirmation .close").focus(); // pressing Enter again without reading confirms nothing
}

/** @param {() => void} retry */
export function keepAnswer(retry) {
  find(".confirmation", HTMLDialogElement).close();
  submitAnswer(retry);
}
