// What all parts of the page use: elements, texts, keys, notices, controls and drafts; what is shown now.

/** @typedef {import("../protocol").ImageView} ImageView */
/** @typedef {import("../protocol").QuestionView | import("../protocol").PracticeView} JudgedView */
/** @typedef {import("../protocol").StudyInfo} StudyInfo */
/** @typedef {import("../protocol").View} View */
/** @typedef {typeof import("../../languages/en.json")["page"]} Texts */
/** @typedef {{ [Name in keyof Texts]: Texts[Name] extends string ? Name : never }[keyof Texts]} TextName */

// Finding and making elements. Text from data is set as text, never as HTML.

/** The page's outermost element. @type {HTMLElement} */
export let root;

/** @param {HTMLElement} element what holds the page */
export function setRoot(element) {
  root = /** @type {HTMLElement} */ (element.querySelector(".page"));
}

/**
 * The first element on the page that matches the selector.
 * @template {HTMLElement} [T=HTMLElement]
 * @param {string} selector
 * @param {new () => T} [type]
 * @returns {T}
 */
export function find(selector, type) {
  const element = root.querySelector(selector);
  if (!(element instanceof (type ?? HTMLElement))) throw new Error(`no ${selector} on the page`);
  return /** @type {T} */ (element);
}

/**
 * @param {string} selector
 * @returns {NodeListOf<HTMLElement>}
 */
export const findAll = (selector) => root.querySelectorAll(selector);

/**
 * @template {keyof HTMLElementTagNameMap} Tag
 * @param {Tag} tag
 * @param {string} [className]
 * @param {string} [text]
 * @returns {HTMLElementTagNameMap[Tag]}
 */
export function make(tag, className, text) {
  const element = document.createElement(tag);
  if (className) element.className = className;
  if (text !== undefined) element.textContent = text;
  return element;
}

/**
 * Change a text. The same text again would make the browser lay out the page again.
 * @param {HTMLElement} element
 * @param {string} text
 */
export function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

/**
 * @param {string} className
 * @param {string} [text]
 */
export function makeButton(className, text) {
  const button = make("button", className, text);
  button.type = "button";
  return button;
}

/**
 * The label of a radio button.
 * @param {string} name
 * @param {number} value
 */
export const optionOf = (name, value) => find(`label:has(> input[name="${name}"][value="${value}"])`);

/** Move the focus to the page itself, so that Enter presses no button. */
export const focusPage = () => find(".main").focus({ preventScroll: true });

/** @param {EventTarget | null} target */
export const isTextField = (target) =>
  target instanceof HTMLTextAreaElement || (target instanceof HTMLInputElement && target.type === "text");

/**
 * Open a dialog. When it closes, the browser returns the focus to what has it now: a text field, or
 * the page itself. A button would be pressed by an Enter that follows at once.
 * @param {string} selector of the dialog
 * @param {string} first selector within it of the element that gets the focus
 */
export function openDialog(selector, first) {
  if (!isTextField(document.activeElement)) focusPage();
  find(selector, HTMLDialogElement).showModal();
  find(`${selector} ${first}`).focus({ preventScroll: true });
}

/**
 * Show whether an element has more text below, and let the keyboard reach it if it scrolls; also
 * after it has scrolled, or changed its size.
 * @param {HTMLElement} element
 */
export function markScrolling(element) {
  showScrolling(element);
  element.onscroll = () => showScrolling(element);
  resized.observe(element);
}

/** @param {HTMLElement} element */
function showScrolling(element) {
  const { scrollHeight, clientHeight, scrollTop } = element;
  element.tabIndex = scrollHeight > clientHeight + 1 ? 0 : -1;
  element.classList.toggle("cut", scrollHeight - clientHeight - scrollTop > 1);
}

const resized = new ResizeObserver((entries) => {
  for (const { target } of entries) if (target instanceof HTMLElement) showScrolling(target);
});

// What the page shows now.

/** @type {{ study: StudyInfo | null, view: View | null }} */
const state = { study: null, view: null };

export function resetState() {
  state.study = null;
  state.view = null;
}

/** @param {StudyInfo} study */
export const setStudy = (study) => (state.study = study);

/** @param {View | null} view */
export const setView = (view) => (state.view = view);

/** Whether the page is only looked at, in a frame of the owner's pages. */
export const isPicture = () => window.frameElement?.hasAttribute("inert") ?? false;

export function currentStudy() {
  if (!state.study) throw new Error("no study is open");
  return state.study;
}

/** Null before the page is open, and if it cannot be shown. */
export const currentView = () => state.view;

/** The question or practice question that is shown; null at other steps. */
export function judgedView() {
  const view = state.view;
  return view?.step === "question" || view?.step === "practice" ? view : null;
}

/**
 * What the images of the page belong to, for the viewer of enlarged images.
 * @typedef {{ text: string, reference: ImageView | null, sets: ImageView[][] }} Pictured
 */

/** The question that is shown, or the lists of a search; null at other steps. @returns {Pictured | null} */
export function picturedView() {
  const view = state.view;
  if (view?.step !== "search") return judgedView();
  const turn = view.turns.findLast((each) => each.lists);
  return { text: turn?.text ?? "", reference: turn?.reference ?? view.start, sets: turn?.lists ?? [[]] };
}

/** @param {number} side */
export const setName = (side) => currentStudy().set_names[side - 1] ?? "";

// The page's texts: they come with the study, in its language.

/** @type {Texts} */
export let texts;

/**
 * The text of this name with its {placeholders} replaced.
 * @param {TextName} name
 * @param {object} [values]
 */
export const t = (name, values = {}) => fill(texts[name], values);

/**
 * @param {string} text
 * @param {object} values
 */
export function fill(text, values) {
  const byName = new Map(Object.entries(values));
  return text.replace(/\{(\w+)\}/g, (placeholder, name) => String(byName.get(name) ?? placeholder));
}

/**
 * @param {string} language
 * @param {"ltr" | "rtl"} direction
 * @param {Texts} given
 */
export function setTexts(language, direction, given) {
  texts = given;
  document.documentElement.lang = language;
  root.lang = language;
  root.dir = direction;
  fillAll("text", (element, text) => (element.textContent = text));
  fillAll("label", (element, text) => element.setAttribute("aria-label", text));
  fillAll("title", (element, text) => (element.title = text));
  fillAll("alt", (element, text) => element.setAttribute("alt", text));
}

/**
 * @param {"text" | "label" | "title" | "alt"} kind
 * @param {(element: HTMLElement, text: string) => void} apply
 */
function fillAll(kind, apply) {
  for (const element of findAll(`[data-${kind}]`)) {
    apply(element, t(/** @type {TextName} */ (element.dataset[kind])));
  }
}

// The keys of the page: the keyboard and all labels take them from here.

export const KEYS = {
  prefer_1: "Q",
  prefer_2: "W",
  tie: "E",
  irrelevant: "X",
  reason: "R",
  extra: "A",
  zoom: "Z",
  full_size: "F",
  next: "Enter",
  back: "B",
  guidelines: "?",
  search_text: "T",
  search_found: "I",
  search_none: "N",
};

/** Scores are the numbers from 1 to this one; each has its anchor, which may be empty. */
export const highestScore = () => currentStudy().points;

/**
 * The score of a digit key, also of the keypad; null for any other key.
 * @param {KeyboardEvent} event
 * @param {number} [highest] by default, that of the scale for sets
 */
export function digitOf(event, highest = highestScore()) {
  const digit = Number(/^(?:Digit|Numpad)([1-9])$/.exec(event.code)?.[1]);
  return digit <= highest && (isDigit(event) || isShiftedKeypad(event)) ? digit : null;
}

/**
 * Whether Shift is held with a digit key.
 * @param {KeyboardEvent} event
 */
export const isShifted = (event) => event.shiftKey || isShiftedKeypad(event);

/** @param {KeyboardEvent} event */
const isDigit = ({ code, key }) => code.startsWith("Digit") || /^[1-9]$/.test(key);

/**
 * With Num Lock, Shift makes the keypad's digits arrows; Windows then reports no Shift.
 * @param {KeyboardEvent} event
 */
const isShiftedKeypad = (event) =>
  event.code.startsWith("Numpad") && !isDigit(event) && event.getModifierState("NumLock");

/**
 * The letter printed on the key, also under a keyboard layout without Latin letters.
 * @param {KeyboardEvent} event
 */
export const letterOf = (event) =>
  (/^[a-z]$/i.test(event.key) ? event.key : event.code.replace(/^Key/, "")).toUpperCase();

/** @param {number} side */
export const scoreKeys = (side) => `${side === 1 ? "" : "Shift "}1 \u2013 ${highestScore()}`;

/** Label the buttons that have a key. */
export function fillKeys() {
  for (const element of findAll("[data-key]")) {
    element.textContent = KEYS[/** @type {keyof typeof KEYS} */ (element.dataset.key)];
  }
}

// The line above the buttons, and what screen readers announce.

/**
 * @typedef {object} NoticeOptions
 * @property {string} [label] text of the button
 * @property {() => void} [action] what the button does; without it there is no button
 * @property {boolean} [isInfo] information rather than a warning
 */

/**
 * @param {string} text
 * @param {NoticeOptions} [options]
 */
export function notify(text, { label = "", action, isInfo = false } = {}) {
  const notice = find(".notice");
  notice.hidden = !text;
  notice.classList.toggle("info", isInfo);
  find(".notice-text").textContent = text;
  const button = find(".notice-action");
  button.hidden = !action;
  button.textContent = label;
  button.onclick = action ?? null;
  find(".live").textContent = text;
}

export const clearNotice = () => notify("");

/** What the notice about missing items says; "" if there is none. */
let missing = "";

/** @param {string} text what is missing */
export function notifyMissing(text) {
  missing = text;
  notify(text);
}

/**
 * Keep the notice about missing items true, if it is still shown.
 * @param {string} text what is missing now; "" if nothing is
 */
export function updateMissing(text) {
  if (missing && missing !== text && find(".notice-text").textContent === missing) notifyMissing(text);
}

/**
 * Announce a text, followed by the notice that is shown.
 * @param {string} text
 */
export function announce(text) {
  find(".live").textContent = `${text} ${find(".notice-text").textContent}`.trim();
}

// Parts of questions: sets of images, and groups of options with one choice.

/**
 * A set's card: its name, its images, and the controls to judge it.
 * @param {number} side
 * @param {string} keys
 * @param {HTMLElement[]} controls
 */
export function buildSet(side, keys, ...controls) {
  const card = make("article", "set");
  card.dataset.side = String(side);
  card.setAttribute("aria-label", setName(side));
  const heading = make("h3");
  heading.append(
    make("span", "", setName(side)),
    make("span", "label", t("any_order")),
    make("kbd", "", keys),
  );
  const images = make("div", "images");
  images.append(make("div", "row"));
  card.append(heading, images, ...controls);
  return card;
}

/** @param {number} side */
export const buildScoredSet = (side) => buildSet(side, scoreKeys(side), buildLikert(side));

/** @param {number} side */
function buildLikert(side) {
  const fieldset = make("fieldset", "likert");
  fieldset.dataset.field = `score_${side}`;
  fieldset.style.setProperty("--anchors", String(texts.anchors.length));
  fieldset.classList.toggle("many", texts.anchors.length > 5);
  const legend = make("legend", "", t("how_well"));
  legend.append(make("span", "sr", ` ${setName(side)}`));
  const options = texts.anchors.map((anchor, index) => {
    const option = radioOption(`score_${side}`, index + 1);
    option.append(make("b", "", String(index + 1)), make("span", "", anchor));
    return option;
  });
  fieldset.append(legend, ...options);
  return fieldset;
}

/**
 * @param {string} name
 * @param {number} value
 */
export function radioOption(name, value) {
  const option = make("label", "option");
  const input = make("input", "sr");
  Object.assign(input, { type: "radio", name, value: String(value) });
  option.append(input);
  return option;
}

// Drafts outlive a reload of this tab.

const PREFIX = "hsfiq draft ";

/**
 * @param {string} name
 * @returns {any} what was stored, null without a draft
 */
export function readDraft(name) {
  try {
    return JSON.parse(sessionStorage.getItem(PREFIX + name) ?? "null");
  } catch {
    return null;
  }
}

/**
 * @param {string} name
 * @param {unknown} value
 */
export function writeDraft(name, value) {
  ignoreErrors(() => sessionStorage.setItem(PREFIX + name, JSON.stringify(value)));
}

/** @param {string} name */
export function removeDraft(name) {
  ignoreErrors(() => sessionStorage.removeItem(PREFIX + name));
}

/** Remove all drafts of this tab. */
export function removeDrafts() {
  ignoreErrors(() => {
    const names = Object.keys(sessionStorage).filter((name) => name.startsWith(PREFIX));
    for (const name of names) sessionStorage.removeItem(name);
  });
}

/**
 * A random key for one press of a button that sends what is entered; `crypto.randomUUID` does not
 * exist on plain http.
 */
export function newKey() {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return [...bytes].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}

/**
 * Without storage, a browser loses drafts on reload and nothing else.
 * @param {() => void} action
 */
function ignoreErrors(action) {
  try {
    action();
  } catch {
    /* nothing to do */
  }
}

// The text of the query. Where it does not fit, it scrolls: its end fades, a button shows more of it,
// and Next waits until all of it was in view once.

const LONG_TEXT = 140;

/** The height that fades at the end of what is visible, as in the style sheet; it was not in view. */
const FADE_PX = 30;

/** Rounding, and the space below the last line. */
const TOLERANCE_PX = 9;

/** From the top, the share of the text that was in view without a gap. */
let seen = 0;
let isRead = true;
/** Whether the notice asks for the rest of the text. */
let isAsked = false;
/** @type {(wasAsked: boolean) => void} */
let onRead;

const element = () => find(".user-text");

/** @param {(wasAsked: boolean) => void} callback is called when all of the text has been in view */
export const onTextRead = (callback) => (onRead = callback);

/**
 * @param {string} text may be empty
 * @param {boolean} wasRead whether all of it has been in view before
 */
export function showUserText(text, wasRead) {
  const shown = element();
  shown.textContent = text;
  shown.classList.toggle("long", text.length > LONG_TEXT);
  shown.scrollTop = 0;
  for (const selector of [".user-text", ".user-text-label"]) find(selector).hidden = !text;
  seen = 0;
  isAsked = false;
  isRead = wasRead || !text;
  noteText();
}

export const isTextRead = () => isRead;

/** Follow the text: whether there is more of it, and what of it can be seen now. */
export function noteText() {
  const shown = element();
  markScrolling(shown);
  const isCut = shown.classList.contains("cut");
  find(".text-more").hidden = shown.hidden || !isCut;
  if (isRead || document.hidden) return;
  const height = shown.scrollHeight;
  const [top, bottom] = visiblePart(shown);
  const end = bottom - (isCut ? FADE_PX : 0);
  if (top <= seen * height + TOLERANCE_PX) seen = Math.max(seen, end / height);
  if (seen * height < height - TOLERANCE_PX) return;
  isRead = true;
  onRead(isAsked);
}

/**
 * From where to where the text can be seen, in pixels of all of it: its first part that is in the
 * viewport and covered by nothing.
 * @param {HTMLElement} shown
 * @returns {[number, number]}
 */
function visiblePart(shown) {
  const { left, top, bottom } = shown.getBoundingClientRect();
  const isSeen = (/** @type {number} */ y) => shown.contains(document.elementFromPoint(left + 2, y));
  let first = top + 1;
  while (first < bottom && !isSeen(first)) first += 4;
  let last = first;
  while (last < bottom && isSeen(last)) last += 4;
  return [first - top + shown.scrollTop, Math.min(last, bottom) - top + shown.scrollTop];
}

/** Show the text's next part: the one after what has been in view, or after what is visible. */
export function showMoreText() {
  const shown = element();
  shown.scrollIntoView({ block: "nearest" });
  const following = shown.scrollTop + Math.max(shown.clientHeight - FADE_PX - TOLERANCE_PX, FADE_PX);
  shown.scrollTop = isRead ? following : Math.min(following, seen * shown.scrollHeight - TOLERANCE_PX);
  noteText();
}

/** Say why Next waits, and go to the part of the text that has not been in view. */
export function explainText() {
  const shown = element();
  shown.scrollIntoView({ block: "nearest" });
  shown.scrollTop = seen * shown.scrollHeight - TOLERANCE_PX;
  isAsked = true;
  notify(t("text_unread"), { label: t("text_more"), action: showMoreText });
  noteText();
}

/** @param {AbortSignal} signal */
export function listenToText(signal) {
  find(".text-more").addEventListener("click", showMoreText, { signal });
  const observer = new ResizeObserver(() => {
    root.style.setProperty("--bottom", `${find(".bottom").offsetHeight}px`);
    noteText();
  });
  for (const each of [element(), find(".bottom")]) observer.observe(each);
  signal.addEventListener("abort", () => observer.disconnect());
}
