// Keyboard shortcuts.
import { change, choose, currentAnswer } from "./answer.js";
import { closeReason, openGuidelines, toggleReason } from "./dialogs.js";
import { find, root } from "./dom.js";
import { digitOf, KEYS, letterOf } from "./keys.js";
import { currentKind } from "./kinds.js";
import { onSearchKey } from "./search.js";
import { currentStudy, currentView, judgedView } from "./state.js";
import { back } from "./submit.js";
import { next } from "./views.js";
import { openZoom, pageZoom, switchSet } from "./zoom.js";
import { refreshZoomScores } from "./zoom_scores.js";
import { toggleSize } from "./zoom_size.js";

/** @typedef {Record<string, () => void>} Actions */

/** @param {EventTarget | null} target */
export const isTextField = (target) =>
  target instanceof HTMLTextAreaElement || (target instanceof HTMLInputElement && target.type === "text");

/** @param {KeyboardEvent} event */
export function onKeyDown(event) {
  if (event.repeat) return onRepeat(event);
  if (isNotForPage(event)) return;
  if (root.querySelector("dialog[open]")) return onDialogKey(event);
  if (event.key === "Escape") return closeReason();
  if (isTextField(event.target)) return;
  if (event.key === KEYS.guidelines && currentView()) return run(event, openGuidelines);
  onStepKey(event);
}

/** @param {KeyboardEvent} event */
function onStepKey(event) {
  if (judgedView()) onQuestionKey(event);
  else if (currentView()?.step === "search") onSearchKey(event);
}

/**
 * Whether the key is for the browser or an input method (in some browsers only the key code shows it).
 * @param {KeyboardEvent} event
 */
const isNotForPage = (event) =>
  event.ctrlKey || event.altKey || event.metaKey || event.isComposing || event.keyCode === 229;

/** @param {KeyboardEvent} event */
function onDialogKey(event) {
  if (isDialogOpen(".zoom")) onZoomKey(event);
  else if (isDialogOpen(".guidelines")) onGuidelinesKey(event);
}

/** @param {string} selector */
const isDialogOpen = (selector) => find(selector, HTMLDialogElement).open;

/**
 * A held key is one press: it neither answers again nor presses a button that has since appeared.
 * @param {KeyboardEvent} event
 */
function onRepeat(event) {
  const isPress = event.key === "Enter" || (event.key === " " && event.target instanceof HTMLButtonElement);
  if (isPress && !(event.target instanceof HTMLTextAreaElement)) event.preventDefault();
}

/**
 * @param {KeyboardEvent} event
 * @param {() => void} action
 */
function run(event, action) {
  event.preventDefault();
  action();
}

/**
 * Enter closes the guidelines, although their text has the focus.
 * @param {KeyboardEvent} event
 */
function onGuidelinesKey(event) {
  if (event.key !== "Enter" || event.target instanceof HTMLButtonElement) return;
  run(event, () => find(".guidelines", HTMLDialogElement).close());
}

/** @param {KeyboardEvent} event */
function onQuestionKey(event) {
  const choice = currentKind().choiceOfKey(event, currentAnswer().chosen);
  if (choice) return run(event, () => choose(...choice));
  if (event.key === KEYS.next) {
    const isOnControl = event.target instanceof Element && event.target.closest("button, a");
    if (!isOnControl) run(event, next);
    return;
  }
  if (event.shiftKey) return;
  const action = QUESTION_ACTIONS[letterOf(event)];
  if (action) run(event, action);
}

/** @type {Actions} */
const QUESTION_ACTIONS = {
  [KEYS.irrelevant]: () => find(".flag").hidden || change("irrelevant", !currentAnswer().values.irrelevant),
  [KEYS.reason]: toggleReason,
  [KEYS.zoom]: () => openZoom(1, 0),
  [KEYS.back]: back,
};

const isRightToLeft = () => currentStudy().direction === "rtl";

/** @type {Actions} */
const ZOOM_ACTIONS = {
  ArrowRight: () => pageZoom(isRightToLeft() ? -1 : 1),
  ArrowLeft: () => pageZoom(isRightToLeft() ? 1 : -1),
  ArrowUp: switchSet,
  ArrowDown: switchSet,
  [KEYS.zoom]: () => find(".zoom", HTMLDialogElement).close(),
  [KEYS.full_size]: toggleSize,
};

/** @param {KeyboardEvent} event */
function onZoomKey(event) {
  const score = digitOf(event) && currentKind().choiceOfKey(event, currentAnswer().chosen);
  if (score && find(".zoom-scores").childElementCount) return run(event, () => scoreEnlarged(...score));
  const isScrolling = event.target instanceof Element && event.target.matches(".full-size .zoom-view");
  if (isScrolling && event.key.startsWith("Arrow")) return;
  const action = ZOOM_ACTIONS[event.key] ?? ZOOM_ACTIONS[letterOf(event)];
  if (action) run(event, action);
}

/**
 * @param {string} field
 * @param {number} score
 */
function scoreEnlarged(field, score) {
  choose(field, score);
  refreshZoomScores();
}
