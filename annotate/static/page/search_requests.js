// Sending the turns of a search. A text is stored by the server before the list is looked for.
import {
  currentSearch,
  judgedPayload,
  opinionPayload,
  placeOf,
  removeSearchDraft,
  typedPayload,
} from "./search_answer.js";
import { ask, showReply } from "./server.js";
import { currentView } from "./state.js";

/** Get the lists of the last turn; a view without them says that a retriever does not answer. */
export function getList() {
  const view = currentView();
  if (view?.step !== "search") return;
  showReply(() => ask("search/list", { assignment: view.assignment }), getList);
}

export function sendTurn() {
  const { view, submitKey } = currentSearch();
  const payload = {
    assignment: view.assignment,
    submit_key: submitKey,
    opinion: opinionPayload(),
    typed: typedPayload(),
  };
  send("search/turn", payload, sendTurn);
}

/** @param {number | null} declared the image that is it, as `nearest` counts */
export function sendStop(declared) {
  const { view, submitKey } = currentSearch();
  // A failed attempt to send a text must not be taken for this one.
  const payload = {
    assignment: view.assignment,
    submit_key: `${submitKey}-${declared ?? "stop"}`,
    opinion: opinionPayload(),
    declared: placeOf(declared),
  };
  send("search/stop", payload, () => sendStop(declared));
}

export function sendJudgement() {
  showReply(async () => {
    /** @type {import("../protocol").SubmitReply} */
    const reply = await ask("submit", judgedPayload());
    if (!Number.isInteger(reply.revision)) throw new Error("no acknowledgement");
    removeSearchDraft();
    return reply.view;
  }, sendJudgement);
}

/**
 * What is entered is forgotten only once the server has stored it.
 * @param {string} path
 * @param {object} payload
 * @param {() => void} retry
 */
function send(path, payload, retry) {
  showReply(async () => {
    const view = await ask(path, payload);
    removeSearchDraft();
    return view;
  }, retry);
}
