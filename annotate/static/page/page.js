// The page: `start` sets it up, and every view of the server is shown here.
import {
  isTextField,
  KEYS,
  clearNotice,
  currentStudy,
  currentView,
  digitOf,
  explainText,
  fillKeys,
  find,
  findAll,
  focusPage,
  isPicture,
  judgedView,
  letterOf,
  listenToText,
  make,
  makeButton,
  noteText,
  notify,
  notifyMissing,
  onTextRead,
  openDialog,
  optionOf,
  resetState,
  root,
  setRoot,
  setStudy,
  setTexts,
  setView,
  t,
} from "./dom.js";
import { followExtra, hasExtraQuestions, leaveExtra, onExtraKey, toNextExtra } from "./extra_questions.js";
import {
  bringIntoSight,
  buildZoomScores,
  isInSight,
  markShown,
  onImageClick,
  onImagesChange,
  openZoom,
  pageZoom,
  refreshZoomScores,
  switchSet,
  toggleSize,
  unseenBox,
} from "./images.js";
import {
  askConfirmation,
  back,
  buildQuestion,
  change,
  choose,
  closeReason,
  countTime,
  currentAnswer,
  currentKind,
  explainImages,
  fillGuidelines,
  fillReading,
  following,
  goTo,
  isChanged,
  keepAnswer,
  markCurrent,
  markMissing,
  missingFields,
  needsConfirmation,
  noteWholeText,
  openGuidelines,
  openReason,
  resetAnswer,
  saveDraft,
  showImageProgress,
  showQuestion,
  skip,
  stillMissing,
  submitAnswer,
  toggleReason,
  waitsForImages,
  waitsForText,
} from "./question.js";
import {
  buildSearchControls,
  countSearchTime,
  listenToSearch,
  noteSearchImages,
  onSearchKey,
  saveSearch,
  showSearch,
} from "./search.js";
import { ask, isWaiting, onConnected, onView, showNoAccess, showReply } from "./server.js";
import {
  askToDecline,
  confirmWithdrawal,
  decline,
  finishPractice,
  openWithdrawal,
  reconsider,
  sendConsent,
  sendQuestionnaire,
  sendSum,
  showCheck,
  showConsent,
  showDone,
  showFarewell,
  showFeedback,
  showPractice,
  showQuestionnaire,
  showWithdrawalButtons,
} from "./stages.js";

/** @typedef {Record<string, () => void>} Actions */
/** @typedef {import("../protocol").FailedOpening} FailedOpening */
/** @typedef {import("../protocol").MessageView} MessageView */
/** @typedef {import("../protocol").Opening} Opening */
/** @typedef {import("../protocol").View} View */
/** @typedef {import("./dom.js").Texts} Texts */

// The browser's Back leads to the previous question, like the button, and Forward to the next one.

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

/** Close the dialog or the reason that is openDialogs, as Back does in apps. */
function closeOpenDialog() {
  closeReason();
  const openDialogs = [...findAll("dialog[open]")];
  for (const dialog of openDialogs) if (dialog instanceof HTMLDialogElement) dialog.close();
  return openDialogs.length > 0;
}

// The study's other languages: buttons on the consent page and in the guidelines.

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

// Messages from the study's owner: shown once, until they are closed.

/** The messages that are shown. @type {MessageView[]} */
let openMessage = [];

/** Messages that were closed here: a view may have been asked for before the server knew. */
const closed = new Set();

/** @param {MessageView[]} messages */
export function showMessages(messages) {
  const unread = messages.filter(({ id }) => !closed.has(id));
  if (!unread.length || isDialogOpen(".message")) return;
  openMessage = unread;
  find(".message-text").replaceChildren(
    make("h3", "", t("message")),
    ...unread.map(({ text }) => {
      const part = make("article");
      fillReading(part, text);
      return part;
    }),
  );
  // Not the button: somebody who answers quickly presses Enter before they have read it.
  openDialog(".message", ".message-text");
}

/** Tell the server; if it does not learn of it, the message comes again with the next view. */
export async function messagesClosed() {
  const messages = openMessage.map(({ id }) => id);
  for (const id of messages) closed.add(id);
  try {
    await ask("messages-seen", { messages });
  } catch {
    for (const id of messages) closed.delete(id);
  }
}

// The bar above the page that says that it is a preview, and its buttons.

export function showPreview() {
  const isPreview = currentStudy().is_preview && !isPicture();
  find(".preview").hidden = !isPreview;
  root.classList.toggle("is-preview", isPreview);
}

/** Go on without an answer. */
export function nextStep() {
  showReply(() => ask("next-step", {}), nextStep);
}

export function restart() {
  showReply(() => ask("restart", {}), restart);
}

// Opening the page and showing each view that the server sends.

/** @param {Opening | FailedOpening} opening */
function open(opening) {
  fillKeys();
  if ("error" in opening) {
    setTexts(opening.language, "ltr", /** @type {Texts} */ (opening.texts));
    showNoAccess(opening.participant_unknown);
    return;
  }
  setUp(opening);
  show(opening.view);
}

/** @param {Opening} opening */
function setUp({ study, texts }) {
  setStudy(study);
  setTexts(study.language, study.direction, /** @type {Texts} */ (texts));
  document.title = study.title;
  find(".title").textContent = study.title;
  showPreview();
  showWithdrawalButtons();
  fillGuidelines();
  fillLanguages();
  buildQuestion();
  buildSearchControls();
  buildZoomScores();
}

/**
 * The view, once the page has the texts that belong to it: the owner may have corrected them, and
 * the participant may have chosen another language.
 * @param {View} view
 * @returns {Promise<View>}
 */
export async function withCurrentTexts(view) {
  const earlier = currentStudy();
  if (hasTextsOf(earlier, view)) return view;
  /** @type {Opening} */
  const opening = await ask("opening");
  setUp(opening);
  const { language, guidelines } = opening.study;
  areGuidelinesNew ||= language === earlier.language && guidelines !== earlier.guidelines;
  return hasTextsOf(opening.study, view) ? view : opening.view;
}

/**
 * @param {import("../protocol").StudyInfo} study
 * @param {View} view
 */
const hasTextsOf = (study, view) =>
  study.text_version === view.text_version && study.language === view.language;

let areGuidelinesNew = false;

/** @param {View} view */
export function show(view) {
  setView(view);
  closeReason();
  clearNotice();
  root.dataset.step = view.step === "practice" ? "question" : view.step;
  root.dataset.view = view.step;
  const progress = find(".progress", HTMLProgressElement);
  progress.max = view.total || 1;
  progress.value = view.answered;
  const minutes = "minutes_left" in view ? view.minutes_left : null;
  find(".time-left").textContent = minutes ? t("time_left", { minutes }) : "";
  if (view.step !== "check") focusPage();
  showStep(view);
  find(".back", HTMLButtonElement).disabled = !view.back;
  addEntry(view);
  window.scrollTo(0, 0);
  if (areGuidelinesNew) announceGuidelines();
  showMessages(view.messages);
}

function announceGuidelines() {
  areGuidelinesNew = false;
  notify(t("guidelines_changed"), { label: t("guidelines"), action: openGuidelines, isInfo: true });
}

/** @param {View} view */
function showStep(view) {
  switch (view.step) {
    case "consent":
      return showConsent(view);
    case "practice":
      return showPractice(view);
    case "question":
      return showQuestion(view);
    case "search":
      return showSearch(view);
    case "check":
      return showCheck(view);
    case "questionnaire":
      return showQuestionnaire(view);
    case "done":
      return showDone(view);
    case "farewell":
      return showFarewell(view);
  }
}

/** Send the answer, or say what is missing. */
export function next() {
  const view = judgedView();
  if (!view || isWaiting()) return;
  const missing = missingFields();
  if (waitsForImages()) explainImages();
  else if (waitsForText()) explainText();
  else if (missing.length) showMissing(missing);
  else if (view.step === "practice") showFeedback(view);
  else if (view.earlier && !isChanged()) goTo(following(view));
  else if (needsConfirmation()) askConfirmation();
  else submitAnswer(next);
}

/** Go on without an answer; after the practice question, start the others. */
export function skipQuestion() {
  if (judgedView()?.step === "practice") finishPractice();
  else skip();
}

/** @param {string[]} fields */
function showMissing(fields) {
  markMissing(fields);
  if (fields[0] === "reason") openReason();
  notifyMissing(stillMissing());
  if (fields[0] !== "reason") find(".unanswered").scrollIntoView({ block: "nearest" });
}

// Keyboard shortcuts. A key judges only what can be seen (images.js), and none acts while somebody
// types: a letter that is no shortcut begins a text, until Escape, Enter, Tab or a press of the mouse.

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
  for (const item of findAll(".current-item")) bringIntoSight(item);
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

// Starting the page.

let listeners = new AbortController();

/** @param {Opening | FailedOpening} opening what the page shows first */
export function start(opening) {
  listeners.abort(); // only what was started last listens
  listeners = new AbortController();
  setRoot(document.body);
  resetState();
  resetAnswer();
  startHistory();
  onView(show, withCurrentTexts);
  onImagesChange(() => {
    showImageProgress();
    noteSearchImages();
  });
  onTextRead(noteWholeText);
  listenToText(listeners.signal);
  listenToButtons();
  listenToDialogs();
  listenToSearch(listeners.signal);
  const { signal } = listeners;
  root.addEventListener("change", onChange, { signal });
  root.addEventListener("click", onClick, { signal });
  document.addEventListener("keydown", onKeyDown, { signal });
  document.addEventListener("pointerdown", endTyping, { signal });
  document.addEventListener("focusin", onFocus, { signal });
  document.addEventListener("visibilitychange", countTime, { signal });
  document.addEventListener("visibilitychange", countSearchTime, { signal });
  document.addEventListener("visibilitychange", noteView, { signal });
  document.addEventListener("scroll", noteView, { signal, capture: true, passive: true });
  window.addEventListener("resize", noteView, { signal });
  window.addEventListener("pagehide", saveDraft, { signal });
  window.addEventListener("pagehide", saveSearch, { signal });
  window.addEventListener("popstate", onMove, { signal });
  window.addEventListener("online", onConnected, { signal });
  keepTicket();
  open(opening);
}

/** Keep the ticket of a page in a frame: with it, the participant may continue with another HIT. */
function keepTicket() {
  const ticket = /\/framed\/([^/]+)\//.exec(location.pathname)?.[1];
  try {
    if (ticket) localStorage.setItem("hsfiq.ticket", ticket);
  } catch {
    // The browser keeps nothing for frames.
  }
}

/** Note what can be seen now. */
function noteView() {
  markShown();
  if (judgedView()) noteText();
}

function listenToButtons() {
  onPress(".next", next);
  onPress(".back", back);
  onPress(".skip", skipQuestion);
  onPress(".go-back", back);
  onPress(".to-last", back);
  onPress(".try-again", () => goTo(null));
  onPress(".reason", toggleReason);
  onPress(".reason-close", closeReason);
  onPress(".agree", () => sendConsent(true));
  onPress(".decline", askToDecline);
  onPress(".leave", decline);
  onPress(".reconsider", reconsider);
  onPress(".begin", finishPractice);
  onPress(".keep", () => keepAnswer(next));
  onPress(".open-guidelines", openGuidelines);
  for (const button of findAll(".open-withdrawal")) {
    button.addEventListener("click", openWithdrawal, { signal: listeners.signal });
  }
  onPress(".confirm-withdrawal", confirmWithdrawal);
  onPress(".zoom .earlier", () => pageZoom(-1));
  onPress(".zoom .later", () => pageZoom(1));
  onPress(".full-size-button", toggleSize);
  onPress(".next-step", nextStep);
  onPress(".restart", restart);
  find(".zoom-stage").addEventListener("click", onImageClick, { signal: listeners.signal });
  onSubmit(".check", sendSum);
  onSubmit(".questionnaire", sendQuestionnaire);
  const reason = find("#hsfiq-reason", HTMLTextAreaElement);
  reason.oninput = () => change("reason", reason.value);
}

/**
 * @param {string} selector
 * @param {() => void} action
 */
function onPress(selector, action) {
  find(selector).addEventListener("click", action, { signal: listeners.signal });
}

/**
 * @param {string} selector of a form
 * @param {() => void} action
 */
function onSubmit(selector, action) {
  find(selector, HTMLFormElement).onsubmit = (event) => {
    event.preventDefault();
    action();
  };
}

function listenToDialogs() {
  find(".message").addEventListener("close", messagesClosed, { signal: listeners.signal });
  for (const dialog of findAll("dialog")) {
    if (!(dialog instanceof HTMLDialogElement)) continue;
    dialog.querySelector(".close")?.addEventListener("click", () => dialog.close());
    dialog.addEventListener("click", (event) => event.target === dialog && dialog.close());
    dialog.addEventListener("close", noteView);
  }
}

/** @param {FocusEvent} event */
function onFocus({ target }) {
  markCurrent();
  followExtra(target);
}

/** @param {Event} event */
function onChange(event) {
  const input = event.target;
  if (!(input instanceof HTMLInputElement) || input.closest(".extra, .search")) return;
  if (input.type === "radio") {
    choose(input.name, Number(input.value));
  } else if (input.matches(".irrelevant")) {
    change("irrelevant", input.checked);
  }
}

/**
 * After a click the focus returns to the page, or Enter would press the same button again.
 * @param {MouseEvent} event
 */
function onClick(event) {
  const button = event.target instanceof Element ? event.target.closest("button") : null;
  const isMouse = event.detail > 0;
  if (button && isMouse && !button.closest("dialog, form") && find(".reason-panel").hidden) focusPage();
}
