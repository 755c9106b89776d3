// Keyboard shortcuts.
import { choose, currentAnswer } from "./answer.js";
import { closeReason, openGuidelines, toggleReason } from "./dialogs.js";
import { find, root } from "./dom.js";
import { highestScore, KEYS } from "./keys.js";
import { currentStudy, isOpen, judgedView } from "./state.js";
import { back } from "./submit.js";
import { next } from "./views.js";
import { openZoom, pageZoom, switchSet } from "./zoom.js";

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
  if (event.key === KEYS.guidelines && isOpen()) return run(event, openGuidelines);
  if (judgedView()) onQuestionKey(event);
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
  const score = Number(/^Digit([1-9])$/.exec(event.code)?.[1]);
  if (score <= highestScore()) return run(event, () => choose(event.shiftKey ? "score_2" : "score_1", score));
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
  [KEYS.prefer_1]: () => choose("preferred", 1),
  [KEYS.prefer_2]: () => choose("preferred", 2),
  [KEYS.tie]: () => currentStudy().ties_allowed && choose("preferred", 0),
  [KEYS.irrelevant]: () => choose("irrelevant", !currentAnswer().values.irrelevant),
  [KEYS.reason]: toggleReason,
  [KEYS.zoom]: () => openZoom(1, 0),
  [KEYS.back]: back,
};

/**
 * The letter printed on the key, also under a keyboard layout without Latin letters.
 * @param {KeyboardEvent} event
 */
const letterOf = (event) =>
  (/^[a-z]$/i.test(event.key) ? event.key : event.code.replace(/^Key/, "")).toUpperCase();

/** @type {Actions} */
const ZOOM_ACTIONS = {
  ArrowRight: () => pageZoom(1),
  ArrowLeft: () => pageZoom(-1),
  ArrowUp: switchSet,
  ArrowDown: switchSet,
  [KEYS.zoom]: () => find(".zoom", HTMLDialogElement).close(),
};

/** @param {KeyboardEvent} event */
function onZoomKey(event) {
  const action = ZOOM_ACTIONS[event.key] ?? ZOOM_ACTIONS[letterOf(event)];
  if (action) run(event, action);
}
