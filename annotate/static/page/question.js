// Showing a question: the reference, the user text, two sets and the controls to judge them.
import { enterExtra, refreshButtons, startAnswer } from "./answer.js";
import { find, focusPage, make, makeButton, root } from "./dom.js";
import { buildExtraQuestions } from "./extra_questions.js";
import { imageAddress, imageProgress, loadImage, referencesOf, retryImages, startImages } from "./images.js";
import { KEYS } from "./keys.js";
import { currentKind } from "./kinds.js";
import { announce, notify } from "./notice.js";
import { currentStudy, judgedView } from "./state.js";
import { goTo } from "./submit.js";
import { t } from "./text.js";
import { imageName, openZoom } from "./zoom.js";

/** @typedef {import("../protocol").ImageView} ImageView */
/** @typedef {import("../protocol").QuestionView} QuestionView */
/** @typedef {import("./state.js").JudgedView} JudgedView */

/** The next question's images, held so that the browser keeps them. @type {HTMLImageElement[]} */
const prefetched = [];

/** Whether the notice is about the loading of the images. */
let isNoticeOfImages = false;

/** @param {QuestionView} view */
export function showQuestion(view) {
  const position = t("position", view);
  find(".count").textContent = t("count", view);
  showJudged(view, position);
  announce(position);
}

/** @param {JudgedView} view */
function showNotice(view) {
  isNoticeOfImages = false;
  if (view.step === "practice") {
    notify(t("practice_hint"), { isInfo: true });
  } else if (view.earlier) {
    const label = view.standing_at ? t("return_to", { number: view.standing_at }) : t("return_to_end");
    notify(t("revising", view), { label, action: () => goTo(null), isInfo: true });
  } else if (isImageMissing(view)) {
    notify(t("skippable"), { isInfo: true });
  } else {
    notify(view.reason_asked ? t("reason_asked") : "", { isInfo: true });
  }
}

/**
 * The whole text has been in view.
 * @param {boolean} wasAsked whether the notice asked for it
 */
export function noteWholeText(wasAsked) {
  const view = judgedView();
  if (!view) return;
  refreshButtons();
  if (wasAsked) showNotice(view);
}

/** Follow the loading of the images: the buttons, and a notice if some do not load. */
export function showImageProgress() {
  const view = judgedView();
  if (!view) return;
  const { failed, isSlow } = imageProgress();
  const isTrouble = failed > 0 || isSlow;
  find(".skip").hidden = !isImageMissing(view) && !(isTrouble && !view.earlier);
  refreshButtons();
  if (isTrouble) explainImages();
  else if (isNoticeOfImages) showNotice(view);
}

function retry() {
  focusPage();
  retryImages();
}

/** Say why Next waits, and what can be done about it. */
export function explainImages() {
  const progress = imageProgress();
  isNoticeOfImages = true;
  if (!progress.failed && !progress.isSlow) return notify(t("images_waiting", progress), { isInfo: true });
  const text = t(progress.failed ? "images_failed" : "images_slow", progress);
  notify(text, { label: t("retry_images"), action: retry });
}

/**
 * What a question and the practice question have in common.
 * @param {JudgedView} view
 * @param {string} position
 */
export function showJudged(view, position) {
  showPosition(position);
  startImages(view);
  showReference(view);
  view.sets.forEach((images, index) => fillSet(images, index + 1));
  startAnswer(view);
  showNotice(view);
  showImageProgress();
  prefetch(view.next_images);
}

/**
 * A query may have a reference, a text or both.
 * @param {JudgedView} view
 */
function showReference(view) {
  const references = referencesOf(view);
  find(".reference").replaceChildren(...references.map((image) => frame(image, t("original"), 0, 0)));
  for (const selector of [".reference", ".reference-label"]) find(selector).hidden = !references.length;
}

/** @param {JudgedView} view */
const isImageMissing = (view) =>
  [...referencesOf(view), ...view.sets.flat()].some((image) => image.missing);

/**
 * The heading that screen readers announce.
 * @param {string} text
 */
export function showPosition(text) {
  const heading = find(".position");
  heading.textContent = text;
  heading.hidden = !text;
}

/**
 * @param {ImageView[]} images
 * @param {number} side
 */
function fillSet(images, side) {
  const row = find(`.set[data-side="${side}"] .row`);
  for (const [name, value] of Object.entries(columns(images.length))) {
    row.style.setProperty(name, String(value));
  }
  row.classList.toggle("many", images.length > 5);
  row.classList.toggle("crowd", images.length > 10);
  row.replaceChildren(
    ...images.map((image, index) => {
      const name = imageName(index, images.length, side);
      const box = frame(image, name, side, index);
      const controls = currentKind().imageControls?.(index, name);
      if (!controls) return box;
      const judged = make("div", "judged-image");
      judged.append(box, controls);
      return judged;
    }),
  );
}

/**
 * The number of columns of a row's images: as the style sheet needs it.
 * @param {number} k
 */
function columns(k) {
  const half = k > 3 ? Math.ceil(k / 2) : k;
  return { "--k": k, "--half": half, "--low": k > 5 ? half : k, "--few": k === 4 ? 2 : Math.min(k, 3) };
}

/**
 * A box of fixed size with one image: nothing moves when the image loads, nothing is cropped.
 * @param {ImageView} image
 * @param {string} name
 * @param {number} side
 * @param {number} index
 */
export function frame(image, name, side, index) {
  if (image.missing) return missingFrame(name);
  const box = makeButton("frame");
  box.setAttribute("aria-label", t("enlarge", { name }));
  const picture = make("img");
  picture.alt = name;
  picture.decoding = "async";
  picture.draggable = false;
  box.append(picture);
  box.addEventListener("click", () => {
    if (box.classList.contains("failed")) retryImages();
    else openZoom(side, index);
  });
  loadImage(side, index, box, picture);
  return box;
}

/** @param {string} name */
function missingFrame(name) {
  const box = make("div", "frame missing", t("image_missing"));
  box.setAttribute("role", "img");
  box.setAttribute("aria-label", `${name}: ${t("image_missing")}`);
  return box;
}

/**
 * Load the next question's images into the browser's cache before Next is pressed.
 * @param {string[]} tokens
 */
function prefetch(tokens) {
  prefetched.length = 0;
  for (const token of tokens) {
    const picture = new Image();
    picture.fetchPriority = "low";
    picture.src = imageAddress(token);
    prefetched.push(picture);
  }
}

/** Build what stays the same for every question. */
export function buildQuestion() {
  root.dataset.kind = currentStudy().kind;
  find(".preference").hidden = !currentKind().hasPreference;
  find(".flag").hidden = Boolean(currentKind().hasNoFlag);
  currentKind().build();
  const extra = currentStudy().extra_questions;
  root.dataset.extra = String(extra.length > 0);
  buildExtraQuestions(find(".extra-questions"), extra, enterExtra);
  root.querySelector(".extra-questions legend")?.append(" ", make("kbd", "", KEYS.extra));
  placeExtraQuestions();
}

/** An upright phone, as in the style sheet: there, the preference is below the sets. */
const uprightPhone = matchMedia("(max-width: 479px), (max-width: 599px) and (min-height: 560px)");

/** The extra questions come after the main answer: on an upright phone, after the preference. */
function placeExtraQuestions() {
  const questions = find(".extra-questions");
  if (uprightPhone.matches) find(".next").before(questions);
  else find(".question").append(questions);
}

uprightPhone.addEventListener("change", placeExtraQuestions);
