// The line above the buttons, and what screen readers announce.
import { find } from "./dom.js";

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
