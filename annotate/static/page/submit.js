// Sending answers and moving between questions.
import { answerPayload, currentAnswer, saveDraft } from "./answer.js";
import { removeDraft } from "./draft.js";
import { imagesPayload } from "./images.js";
import { ask, showReply } from "./server.js";
import { currentView } from "./state.js";

/** @typedef {import("../protocol").SubmitPayload} SubmitPayload */
/** @typedef {import("../protocol").SkipPayload} SkipPayload */

/** @param {() => void} retry */
export function submitAnswer(retry) {
  const { view, submitKey } = currentAnswer();
  const { assignment } = view;
  const answer = answerPayload();
  const payload = { assignment, submit_key: submitKey, answer, images: imagesPayload() };
  send(/** @type {SubmitPayload} */ (payload), retry);
}

export function skip() {
  const { view, submitKey } = currentAnswer();
  // A skip after a failed attempt to send an answer must not be taken for that attempt.
  const { assignment } = view;
  send({ assignment, submit_key: `${submitKey}-skip`, skip: true, images: imagesPayload() }, skip);
}

/**
 * The page moves on only once the server has stored the answer.
 * @param {SubmitPayload | SkipPayload} payload
 * @param {() => void} retry
 */
function send(payload, retry) {
  const { draft } = currentAnswer().view;
  showReply(async () => {
    /** @type {import("../protocol").SubmitReply} */
    const reply = await ask("submit", payload);
    if (!Number.isInteger(reply.revision)) throw new Error("no acknowledgement");
    removeDraft(draft);
    return reply.view;
  }, retry);
}

/**
 * Show the question with this number, or the current step.
 * @param {number | null} number
 */
export function goTo(number) {
  saveDraft();
  showReply(() => ask(number === null ? "question" : `question/${number}`), () => goTo(number));
}

/**
 * The number of the question after an earlier one; null for the current step.
 * @param {import("../protocol").QuestionView} view
 */
export function following({ number, total, standing_at }) {
  return number === total || number + 1 === standing_at ? null : number + 1;
}

export function back() {
  const number = currentView()?.back;
  if (number) goTo(number);
}
