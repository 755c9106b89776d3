// The rule for keys: a key judges only what can be seen. Its option must be in the window, covered by
// nothing, and every image that it judges must have been in view. Otherwise the key shows what is
// missing, and judges nothing; pressed again, it judges.
import { find, findAll, root } from "./dom.js";
import { markShown, unseenBox } from "./images.js";
import { clearNotice, notify } from "./notice.js";
import { t } from "./text.js";

const GAP_PX = 8;

/** What stays at an edge of the window while the page scrolls, if it is as wide as the window. */
const COVERS = ".bar, .query, .search-context, .bottom, .notice";

/** What holds an option together with the images that it judges; other options judge all images. */
const ITEMS = ".judged-image, .search-item, .set";

/**
 * Whether a key may press this option now.
 * @param {HTMLElement} option
 * @param {Element | null} [judged] what holds the images that it judges; null if it judges none
 */
export function isInSight(option, judged = option.closest(ITEMS) ?? root) {
  markShown();
  const unseen = judged && unseenBox(judged);
  if (!unseen && isWhole(option)) {
    if (find(".notice-text").textContent === t("key_scrolled")) clearNotice();
    return true;
  }
  const hidden = unseen ?? option;
  notify(t("key_scrolled"), { isInfo: true }); // first, because the notice takes height
  const item = hidden.closest(ITEMS);
  show(item instanceof HTMLElement && isLowEnough(item) ? item : hidden);
  return false;
}

/**
 * Scroll as little as possible to show an element, between what stays at the edges of the window.
 * @param {HTMLElement} element
 */
export function show(element) {
  const { top, bottom } = element.getBoundingClientRect();
  const free = freeBand();
  if (top < free.top) scroll(top - free.top - GAP_PX);
  else if (bottom > free.bottom) scroll(Math.min(bottom - free.bottom + GAP_PX, top - free.top - GAP_PX));
}

/** @param {number} by */
const scroll = (by) => window.scrollBy({ top: by, behavior: "instant" });

/**
 * Whether an option is in the window, and nothing covers its middle and its upper and lower edge.
 * @param {HTMLElement} option
 */
function isWhole(option) {
  const { left, right, top, bottom } = option.getBoundingClientRect();
  const edge = Math.min(4, (bottom - top) / 2);
  return [top + edge, (top + bottom) / 2, bottom - edge].every((y) =>
    option.contains(document.elementFromPoint((left + right) / 2, y)));
}

/** @param {HTMLElement} item */
function isLowEnough(item) {
  const { top, bottom } = freeBand();
  return item.getBoundingClientRect().height + 2 * GAP_PX <= bottom - top;
}

/** The part of the window's height that nothing covers once the page has scrolled. */
function freeBand() {
  const { clientWidth, clientHeight } = document.documentElement;
  const band = { top: 0, bottom: clientHeight };
  for (const cover of findAll(COVERS)) {
    const { position, top } = getComputedStyle(cover);
    const { width, height } = cover.getBoundingClientRect();
    if (position !== "sticky" || width < clientWidth - 1) continue;
    if (top === "auto") band.bottom = Math.min(band.bottom, clientHeight - height);
    else band.top = Math.max(band.top, Number.parseFloat(top) + height);
  }
  return band;
}
