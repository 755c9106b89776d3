// The images of the question: loading them, and which were shown and enlarged before the answer.
import { t } from "./text.js";

/** @typedef {import("../protocol").ImageState} ImageState */
/** @typedef {import("../protocol").ImageView} ImageView */
/** @typedef {import("../protocol").ImagesPayload} ImagesPayload */
/** @typedef {import("./state.js").Pictured} Pictured */

/** @typedef {{ isShown: boolean, isEnlarged: boolean }} Seen */

/**
 * @typedef {object} Loading
 * @property {ImageView} view
 * @property {HTMLElement | null} box
 * @property {HTMLImageElement | null} picture null if the image is missing
 * @property {number} attempts to load it
 * @property {boolean} isLoaded
 * @property {boolean} hasFailed
 * @property {boolean} wasInView whether the middle of its box was visible, loaded or not
 */

/** @typedef {Loading & Seen} QuestionImage */

/** While no further image loads for this long, the page offers to load the rest again. */
const SLOW_AFTER_MS = 20_000;

/** By side, 0 for the reference, and the index in it. @type {QuestionImage[][]} */
let images = [];
let isSlow = false;
let slowTimer = 0;
/** @type {() => void} */
let onChange;

/** @param {() => void} callback is called whenever an image has loaded or failed */
export const onImagesChange = (callback) => (onChange = callback);

/** @param {string} token */
export const imageAddress = (token) => `../image/${token}`;

/**
 * The reference as a list; empty if the query is a text alone.
 * @param {Pictured} view
 */
export const referencesOf = (view) => (view.reference ? [view.reference] : []);

/** @param {Pictured} view */
export function startImages(view) {
  images = [referencesOf(view), ...view.sets].map((side) => side.map(newImage));
  startTimer();
}

/**
 * @param {ImageView} view
 * @returns {QuestionImage}
 */
const newImage = (view) => ({
  view,
  box: null,
  picture: null,
  attempts: 0,
  isLoaded: false,
  hasFailed: false,
  wasInView: false,
  isShown: false,
  isEnlarged: false,
});

/**
 * Load an image into its box.
 * @param {number} side
 * @param {number} index
 * @param {HTMLElement} box
 * @param {HTMLImageElement} picture
 */
export function loadImage(side, index, box, picture) {
  const image = images[side]?.[index];
  if (!image) return;
  Object.assign(image, { box, picture });
  load(image);
}

/** @param {QuestionImage} image */
async function load(image) {
  const { box, picture, view } = image;
  if (!box || !picture) return;
  const attempt = ++image.attempts;
  image.hasFailed = false;
  box.classList.remove("failed");
  box.classList.add("loading");
  // Under the same address, the browser would wait for a request that hangs.
  picture.src = imageAddress(view.token) + (attempt > 1 ? `?attempt=${attempt}` : "");
  let isLoaded = true;
  await picture.decode().catch(() => (isLoaded = false));
  if (attempt !== image.attempts || !images.flat().includes(image)) return;
  image.isLoaded = isLoaded;
  image.hasFailed = !isLoaded;
  box.classList.remove("loading");
  box.classList.toggle("failed", image.hasFailed);
  box.dataset.note = t("image_failed");
  startTimer();
  markShown();
  onChange();
}

function startTimer() {
  isSlow = false;
  clearTimeout(slowTimer);
  slowTimer = window.setTimeout(() => {
    isSlow = true;
    onChange();
  }, SLOW_AFTER_MS);
}

/** Load again what has failed or takes long. */
export function retryImages() {
  startTimer();
  for (const image of images.flat()) if (!image.isLoaded) load(image);
  onChange();
}

export function imageProgress() {
  const expected = images.flat().filter(({ view }) => !view.missing);
  const loaded = expected.filter(({ isLoaded }) => isLoaded).length;
  const failed = expected.filter((image) => image.hasFailed).length;
  const areReady = loaded === expected.length;
  return { total: expected.length, loaded, failed, areReady, isSlow: isSlow && !areReady };
}

/** Note which images can be seen now: their middle is in the viewport and covered by nothing. */
export function markShown() {
  if (document.hidden) return;
  for (const image of images.flat()) {
    if (image.isShown || !image.box || !isVisible(image.box)) continue;
    image.wasInView = true;
    image.isShown = image.isLoaded;
  }
}

/**
 * The box of the first image in this part of the page that has not been in view; null if all have.
 * @param {Element} part
 */
export function unseenBox(part) {
  const unseen = images.flat().find(({ box, isLoaded, isShown, wasInView }) =>
    box && part.contains(box) && !(isLoaded ? isShown : wasInView));
  return unseen?.box ?? null;
}

/** @param {HTMLElement} box */
function isVisible(box) {
  const { left, top, width, height } = box.getBoundingClientRect();
  return box.contains(document.elementFromPoint(left + width / 2, top + height / 2));
}

/**
 * @param {number} side
 * @param {number} index
 */
export function markEnlarged(side, index) {
  const image = images[side]?.[index];
  if (image) image.isShown = image.isEnlarged = true;
}

/** The states for the server. @returns {ImagesPayload} */
export function imagesPayload() {
  markShown();
  const [reference = [], ...sets] = images.map((side) => side.map(stateOf));
  return { reference: reference[0] ?? null, sets };
}

/**
 * @param {QuestionImage} image
 * @returns {ImageState}
 */
function stateOf({ view, isLoaded, isShown, isEnlarged }) {
  if (view.missing) return "missing";
  if (!isLoaded) return "unloaded";
  return isEnlarged ? "enlarged" : isShown ? "shown" : "loaded";
}

/** What has been seen, for the draft. @returns {Seen[][]} by side and index */
export const seenImages = () =>
  images.map((side) => side.map(({ isShown, isEnlarged }) => ({ isShown, isEnlarged })));

/** @param {Seen[][]} seen from a draft of this question */
export function restoreSeen(seen) {
  images.forEach((side, number) =>
    side.forEach((image, index) => Object.assign(image, seen[number]?.[index])),
  );
}
