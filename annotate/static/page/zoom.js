// The viewer of enlarged images: one set beside the reference, or the reference alone.
import { find, findAll, make, makeButton, markScrolling } from "./dom.js";
import { imageAddress, markEnlarged, referencesOf } from "./images.js";
import { picturedView, setName } from "./state.js";
import { t } from "./text.js";
import { refreshZoomScores } from "./zoom_scores.js";
import { refreshSize, setFullSize } from "./zoom_size.js";

const REFERENCE = 0;

/** Which image is shown: set 1 or 2 (0: the reference) and the index in it. */
const shown = { side: 1, index: 0 };

/**
 * An image's name for screen readers.
 * @param {number} index
 * @param {number} total
 * @param {number} side
 */
export const imageName = (index, total, side) =>
  side === REFERENCE ? t("original") : t("image_of", { number: index + 1, total, set: setName(side) });

function zoomImages() {
  const view = picturedView();
  if (!view) return [];
  return shown.side === REFERENCE ? referencesOf(view) : (view.sets[shown.side - 1] ?? []);
}

/**
 * @param {number} side
 * @param {number} index
 */
export function openZoom(side, index) {
  const view = picturedView();
  if (!view) return;
  Object.assign(shown, { side, index });
  const reference = find(".zoom-reference");
  reference.hidden = side === REFERENCE || !view.reference;
  if (side !== REFERENCE && view.reference && !view.reference.missing) {
    showFull(find(".zoom-reference img", HTMLImageElement), view.reference.token, REFERENCE, 0);
  }
  fillStrip();
  refreshZoomScores();
  for (const scores of findAll(".zoom-score")) {
    scores.classList.toggle("current", scores.dataset.side === String(side));
  }
  pageZoom(0);
  const title = find(".zoom-title");
  title.textContent = view.text;
  const dialog = find(".zoom", HTMLDialogElement);
  if (!dialog.open) {
    dialog.showModal();
    find(".zoom .close").focus();
  }
  markScrolling(title);
}

/**
 * Show the thumbnail at once, and the full image when it has loaded.
 * @param {HTMLImageElement} picture
 * @param {string} token
 * @param {number} side
 * @param {number} index
 */
function showFull(picture, token, side, index) {
  picture.dataset.token = token;
  picture.onload = () => {
    if (!find(".zoom", HTMLDialogElement).open) return;
    markEnlarged(side, index);
    refreshSize();
  };
  picture.src = imageAddress(token);
  const full = new Image();
  full.addEventListener("load", () => {
    if (picture.dataset.token === token) picture.src = full.src;
  });
  full.src = `${imageAddress(token)}/full`;
}

function fillStrip() {
  const images = zoomImages();
  const isSet = images.length > 1;
  find(".zoom-strip").replaceChildren(...(isSet ? images.map(thumbnail) : []));
  for (const selector of [".zoom .earlier", ".zoom .later"]) find(selector).hidden = !isSet;
}

/**
 * @param {import("../protocol").ImageView} image
 * @param {number} index
 * @param {unknown[]} images
 */
function thumbnail(image, index, images) {
  const button = makeButton("thumb");
  button.setAttribute("aria-label", imageName(index, images.length, shown.side));
  if (!image.missing) {
    const picture = make("img");
    picture.alt = "";
    picture.src = imageAddress(image.token);
    button.append(picture);
  }
  button.addEventListener("click", () => pageZoom(index - shown.index));
  return button;
}

/**
 * Show the image this many places ahead; the first follows the last.
 * @param {number} step
 */
export function pageZoom(step) {
  const images = zoomImages();
  shown.index = (shown.index + step + images.length) % images.length;
  const image = images[shown.index];
  if (!image) return;
  setFullSize(false);
  const name = imageName(shown.index, images.length, shown.side);
  const picture = find(".zoom-image img", HTMLImageElement);
  picture.hidden = image.missing;
  if (!image.missing) showFull(picture, image.token, shown.side, shown.index);
  picture.alt = name;
  find(".zoom-image figcaption").textContent = image.missing ? `${name}: ${t("image_missing")}` : name;
  [...find(".zoom-strip").children].forEach((thumb, index) =>
    thumb.setAttribute("aria-current", String(index === shown.index)),
  );
}

/** Show the next set's image at the same index. */
export function switchSet() {
  const n_sets = picturedView()?.sets.length ?? 0;
  if (shown.side !== REFERENCE && n_sets > 1) openZoom((shown.side % n_sets) + 1, shown.index);
}
