// The images of a question: loading them, what was seen of them, and enlarging them.
import {
  clearNotice,
  find,
  findAll,
  make,
  makeButton,
  markScrolling,
  notify,
  openDialog,
  picturedView,
  root,
  setName,
  t,
  texts,
} from "./dom.js";

/** @typedef {Loading & Seen} QuestionImage */
/** @typedef {import("../protocol").ImageState} ImageState */
/** @typedef {import("../protocol").ImageView} ImageView */
/** @typedef {import("../protocol").ImagesPayload} ImagesPayload */
/** @typedef {import("./dom.js").Pictured} Pictured */
/** @typedef {{ isShown: boolean, isEnlarged: boolean }} Seen */

// The images of the question: loading them, and which were shown and enlarged before the answer.

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

/** While no further image loads for this long, the page offers to load the rest again. */
const SLOW_AFTER_MS = 20_000;

/** A failed image is asked for again after this long: the store that has it may be away. */
const RETRY_AFTER_MS = 10_000;

/** By side, 0 for the reference, and the index in it. @type {QuestionImage[][]} */
let sides = [];
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
  sides = [referencesOf(view), ...view.sets].map((side) => side.map(newImage));
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
  const image = sides[side]?.[index];
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
  if (attempt !== image.attempts || !sides.flat().includes(image)) return;
  image.isLoaded = isLoaded;
  image.hasFailed = !isLoaded;
  box.classList.remove("loading");
  box.classList.toggle("failed", image.hasFailed);
  box.dataset.note = t("image_failed");
  if (image.hasFailed) retryLater(image);
  startTimer();
  markShown();
  onChange();
}

/**
 * Load an image again as soon as the server has it; until then, its box says that it has failed.
 * @param {QuestionImage} image
 */
function retryLater(image) {
  const { attempts } = image;
  window.setTimeout(async () => {
    if (attempts !== image.attempts || !sides.flat().includes(image)) return;
    const address = `${imageAddress(image.view.token)}?attempt=${attempts + 1}`;
    const reply = await fetch(address).catch(() => null);
    if (attempts === image.attempts) (reply?.ok ? load : retryLater)(image);
  }, RETRY_AFTER_MS);
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
  for (const image of sides.flat()) if (!image.isLoaded) load(image);
  onChange();
}

export function imageProgress() {
  const expected = sides.flat().filter(({ view }) => !view.missing);
  const loaded = expected.filter(({ isLoaded }) => isLoaded).length;
  const failed = expected.filter((image) => image.hasFailed).length;
  const areReady = loaded === expected.length;
  return { total: expected.length, loaded, failed, areReady, isSlow: isSlow && !areReady };
}

/** Note which images can be seen now: their middle is in the viewport and covered by nothing. */
export function markShown() {
  if (document.hidden) return;
  for (const image of sides.flat()) {
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
  const unseen = sides.flat().find(({ box, isLoaded, isShown, wasInView }) =>
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
  const image = sides[side]?.[index];
  if (image) image.isShown = image.isEnlarged = true;
}

/** The states for the server. @returns {ImagesPayload} */
export function imagesPayload() {
  markShown();
  const [reference = [], ...sets] = sides.map((side) => side.map(stateOf));
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
  sides.map((side) => side.map(({ isShown, isEnlarged }) => ({ isShown, isEnlarged })));

/** @param {Seen[][]} seen from a draft of this question */
export function restoreSeen(seen) {
  sides.forEach((side, number) =>
    side.forEach((image, index) => Object.assign(image, seen[number]?.[index])),
  );
}

// The rule for keys: a key judges only what can be seen. Its option must be in the window, covered by
// nothing, and every image that it judges must have been in view. Otherwise the key shows what is
// missing, and judges nothing; pressed again, it judges.

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
  bringIntoSight(item instanceof HTMLElement && isLowEnough(item) ? item : hidden);
  return false;
}

/**
 * Scroll as little as possible to bringIntoSight an element, between what stays at the edges of the window.
 * @param {HTMLElement} element
 */
export function bringIntoSight(element) {
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

// Enlarged images: fitted to the window, or at their full resolution, where they scroll.

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

// The scores in the viewer of enlarged images: buttons that press those of the question.

/** Build a row of buttons for each set, once the question has its controls. */
export function buildZoomScores() {
  const scored = [...findAll(".set")].filter((set) => set.querySelector(".likert"));
  find(".zoom-scores").replaceChildren(...scored.map((set) => scoresOf(Number(set.dataset.side))));
}

/** @param {number} side */
function scoresOf(side) {
  const group = make("div", "zoom-score");
  group.dataset.side = String(side);
  group.setAttribute("role", "group");
  group.setAttribute("aria-label", t("score_for", { set: setName(side) }));
  group.append(make("span", "label", setName(side)), ...texts.anchors.map((anchor, index) => {
    const button = makeButton("button score", String(index + 1));
    button.title = anchor;
    button.setAttribute("aria-label", anchor ? `${index + 1}: ${anchor}` : String(index + 1));
    button.addEventListener("click", () => {
      inputOf(side, index + 1)?.click();
      refreshZoomScores();
    });
    return button;
  }));
  return group;
}

/**
 * @param {number} side
 * @param {number} score
 */
const inputOf = (side, score) =>
  /** @type {HTMLInputElement | null} */ (
    root.querySelector(`.set [name="score_${side}"][value="${score}"]`)
  );

/** Show the scores that are chosen. */
export function refreshZoomScores() {
  for (const group of findAll(".zoom-score")) {
    group.querySelectorAll(".score").forEach((button, index) => {
      const isChosen = inputOf(Number(group.dataset.side), index + 1)?.checked ?? false;
      button.setAttribute("aria-pressed", String(isChosen));
    });
  }
}

// The viewer of enlarged images: one set beside the reference, or the reference alone.

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
  if (!find(".zoom", HTMLDialogElement).open) openDialog(".zoom", ".close");
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
