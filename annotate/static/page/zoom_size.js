// Enlarged images: fitted to the window, or at their full resolution, where they scroll.
import { find, findAll } from "./dom.js";

/** Small images are shown at least this many times as large as when they fit. */
const LEAST_ENLARGEMENT = 2;

const isFullSize = () => find(".zoom").classList.contains("full-size");

export const toggleSize = () => setFullSize(!isFullSize());

/**
 * @param {boolean} isFull
 * @param {{ x: number, y: number }} [centre] what is in the middle afterwards, as shares of the image
 */
export function setFullSize(isFull, centre = { x: 0.5, y: 0.5 }) {
  find(".zoom").classList.toggle("full-size", isFull);
  find(".full-size-button").setAttribute("aria-pressed", String(isFull));
  for (const view of findAll(".zoom-view")) resize(view, centre);
}

/** Follow an image that has loaded. */
export function refreshSize() {
  if (isFullSize()) setFullSize(true);
}

/**
 * @param {HTMLElement} view
 * @param {{ x: number, y: number }} centre
 */
function resize(view, { x, y }) {
  const picture = view.querySelector("img");
  if (!picture) return;
  const { naturalWidth, naturalHeight } = picture;
  const { clientWidth, clientHeight } = view;
  const fitted = Math.min(clientWidth, clientHeight * (naturalWidth / (naturalHeight || 1)));
  picture.style.width = isFullSize() ? `${Math.max(naturalWidth, LEAST_ENLARGEMENT * fitted)}px` : "";
  view.tabIndex = isFullSize() ? 0 : -1; // so that the arrow keys can scroll it
  view.scrollLeft = x * view.scrollWidth - clientWidth / 2;
  view.scrollTop = y * view.scrollHeight - clientHeight / 2;
}

/**
 * A click on an image shows that place in full size, or the whole image again.
 * @param {MouseEvent} event
 */
export function onImageClick(event) {
  if (!(event.target instanceof HTMLImageElement)) return;
  const { offsetX, offsetY, target } = event;
  const { width, height } = shownSize(target);
  const x = (offsetX - (target.clientWidth - width) / 2) / width;
  const y = (offsetY - (target.clientHeight - height) / 2) / height;
  setFullSize(!isFullSize(), { x, y });
}

/**
 * The size of the picture within its element, which may be wider or higher.
 * @param {HTMLImageElement} picture
 */
function shownSize({ naturalWidth, naturalHeight, clientWidth, clientHeight }) {
  const scale = Math.min(clientWidth / (naturalWidth || 1), clientHeight / (naturalHeight || 1));
  return { width: naturalWidth * scale, height: naturalHeight * scale };
}
