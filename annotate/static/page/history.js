// The browser's Back leads to the previous question, like the button, and Forward to the next one.
import { closeReason } from "./dialogs.js";
import { findAll } from "./dom.js";
import { saveDraft } from "./answer.js";
import { isWaiting } from "./server.js";
import { currentView } from "./state.js";
import { back, following, goTo } from "./submit.js";

/** @typedef {import("../protocol").View} View */

/** How many of our entries lie below the current one in the browser's history. */
let depth = 0;

/** The furthest question shown since the page was opened; one more than the last is the end. */
let furthest = 0;

const stored = () => Number(history.state?.hsfiqDepth ?? 0);

export function startHistory() {
  depth = stored();
  furthest = 0;
}

const push = () => history.pushState({ hsfiqDepth: ++depth }, "");

/**
 * Add an entry for a question that has not been shown before, so that there is one to go back from.
 * @param {View} view
 */
export function addEntry(view) {
  const place = "number" in view ? view.number : view.total + 1;
  const isNew = furthest > 0 && place > furthest;
  furthest = Math.max(furthest, place);
  if (view.back && (isNew || depth === 0)) push();
}

/** The browser has moved to another entry. */
export function onMove() {
  const step = stored() - depth;
  depth += step;
  const view = currentView();
  if (!view || !step) return;
  if (closeOpenDialog() || isWaiting()) return step < 0 ? push() : undefined;
  if (step > 0) return forward(view);
  if (view.back) back();
  else leave();
}

/** @param {View} view */
function forward(view) {
  if (view.step === "question" && view.earlier) goTo(following(view));
}

function leave() {
  saveDraft();
  history.go(-depth - 1);
}

/** Close the dialog or the reason that is open, as Back does in apps. */
function closeOpenDialog() {
  closeReason();
  const open = [...findAll("dialog[open]")];
  for (const dialog of open) if (dialog instanceof HTMLDialogElement) dialog.close();
  return open.length > 0;
}
