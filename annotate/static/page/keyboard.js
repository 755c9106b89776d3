// Keyboard shortcuts. A key judges only what can be seen (sight.js), and none acts while somebody
// types: a letter that is no shortcut begins a text, until Escape, Enter, Tab or a press of the mouse.
import { change, choose, currentAnswer } from "./answer.js";
import { closeReason, openGuidelines, toggleReason } from "./dialogs.js";
import { find, findAll, focusPage, optionOf, root } from "./dom.js";
import { hasExtraQuestions, leaveExtra, onExtraKey, toNextExtra } from "./extra_questions.js";
import { unseenBox } from "./images.js";
import { digitOf, KEYS, letterOf } from "./keys.js";
import { currentKind } from "./kinds.js";
import { clearNotice, notify } from "./notice.js";
import { onSearchKey } from "./search.js";
import { isInSight, show } from "./sight.js";
import { currentStudy, currentView, judgedView } from "./state.js";
import { back } from "./submit.js";
import { t } from "./text.js";
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
  if (event.key === "Escape") return onEscape(event);
  if (!isTextField(event.target)) onPageKey(event);
  else if (event.key === "Enter" && isExtraField(event.target, "input")) focusPage();
}

/**
 * Whether this is a text field of an extra question.
 * @param {EventTarget | null} target
 * @param {string} [tags]
 */
const isExtraField = (target, tags = "input, textarea") =>
  isTextField(target) && target instanceof Element && target.matches(`.extra-questions :is(${tags})`);

/** @param {KeyboardEvent} event */
function onPageKey(event) {
  if (isTyping) onTypedKey(event);
  else if (event.key === KEYS.guidelines && currentView()) run(event, openGuidelines);
  else if (hasJudgements() && !onStepKey(event) && isLetter(event)) pauseKeys();
}

/** @param {KeyboardEvent} event */
function onEscape({ target }) {
  endTyping();
  closeReason();
  if (isExtraField(target)) focusPage();
  else leaveExtra();
}

/** Whether somebody types although no text field has the focus. */
let isTyping = false;

const hasJudgements = () => judgedView() !== null || currentView()?.step === "search";

/** @param {KeyboardEvent} event */
const isLetter = ({ key }) => /^\p{L}$/u.test(key);

function pauseKeys() {
  isTyping = true;
  notify(t("keys_paused"));
}

export function endTyping() {
  if (isTyping) clearNotice();
  isTyping = false;
}

/**
 * A key of a text that reaches no field: it does nothing. Enter ends such a text.
 * @param {KeyboardEvent} event
 */
function onTypedKey(event) {
  if (event.key.length === 1 || event.key === "Enter") event.preventDefault();
  if (event.key === "Enter" || event.key === "Tab") endTyping();
}

/**
 * Whether the key is a shortcut.
 * @param {KeyboardEvent} event
 */
const onStepKey = (event) => (judgedView() ? onQuestionKey(event) : onSearchKey(event));

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
  return true;
}

/**
 * Enter closes the guidelines, although their text has the focus.
 * @param {KeyboardEvent} event
 */
function onGuidelinesKey(event) {
  if (event.key !== "Enter" || event.target instanceof HTMLButtonElement) return;
  run(event, () => find(".guidelines", HTMLDialogElement).close());
}

/**
 * @param {KeyboardEvent} event
 * @returns {boolean} whether the key is a shortcut
 */
function onQuestionKey(event) {
  if (onExtraKey(event)) return true;
  const choice = currentKind().choiceOfKey(event, currentAnswer().chosen);
  if (choice) return run(event, () => chooseByKey(...choice));
  if (event.key === KEYS.next) {
    const isOnControl = event.target instanceof Element && event.target.closest("button, a");
    return !isOnControl && run(event, next);
  }
  if (event.shiftKey) return false;
  const letter = letterOf(event);
  if (letter === KEYS.extra && !hasExtraQuestions()) return false;
  const action = QUESTION_ACTIONS[letter];
  return action ? run(event, action) : false;
}

/**
 * @param {string} field
 * @param {number} value
 */
function chooseByKey(field, value) {
  if (!isInSight(optionOf(field, value))) return;
  choose(field, value);
  for (const item of findAll(".current-item")) show(item);
}

function flagByKey() {
  const flag = find(".flag");
  if (!flag.hidden && isInSight(flag, null)) change("irrelevant", !currentAnswer().values.irrelevant);
}

/** @type {Actions} */
const QUESTION_ACTIONS = {
  [KEYS.irrelevant]: flagByKey,
  [KEYS.reason]: toggleReason,
  [KEYS.zoom]: () => openZoom(1, 0),
  [KEYS.extra]: toNextExtra,
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
  if (score && find(".zoom-scores").childElementCount) {
    run(event, () => scoreEnlarged(...score));
    return;
  }
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
  const set = optionOf(field, score).closest(".set");
  const unseen = set && unseenBox(set);
  if (unseen) unseen.click(); // the image is enlarged first
  else choose(field, score);
  refreshZoomScores();
}
