// The text of the query. Where it does not fit, it scrolls: its end fades, a button shows more of it,
// and Next waits until all of it was in view once.
import { find, markScrolling, root } from "./dom.js";
import { notify } from "./notice.js";
import { t } from "./text.js";

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
