// Showing a question: the reference, the user text, two sets and the controls to judge them.
import { refreshButtons, startAnswer } from "./answer.js";
import { find, focusIfScrolling, focusPage, make, makeButton } from "./dom.js";
import { imageAddress, imageProgress, loadImage, retryImages, startImages } from "./images.js";
import { KEYS, scoreKeys } from "./keys.js";
import { announce, notify } from "./notice.js";
import { currentStudy, judgedView, setName } from "./state.js";
import { goTo } from "./submit.js";
import { t, texts } from "./text.js";
import { imageName, openZoom } from "./zoom.js";

/** @typedef {import("../protocol").ImageView} ImageView */
/** @typedef {import("../protocol").QuestionView} QuestionView */
/** @typedef {import("./state.js").JudgedView} JudgedView */

const LONG_TEXT = 140;

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
  const userText = find(".user-text");
  userText.textContent = view.text;
  userText.classList.toggle("long", view.text.length > LONG_TEXT);
  userText.scrollTop = 0;
  find(".reference").replaceChildren(frame(view.reference, t("original"), 0, 0));
  view.sets.forEach((images, index) => fillSet(images, index + 1));
  startAnswer(view);
  showNotice(view);
  showImageProgress();
  focusIfScrolling(userText);
  prefetch(view.next_images);
}

/** @param {JudgedView} view */
const isImageMissing = (view) => [view.reference, ...view.sets.flat()].some((image) => image.missing);

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
  row.style.setProperty("--k", String(images.length));
  row.scrollLeft = 0;
  row.replaceChildren(
    ...images.map((image, index) => frame(image, imageName(index, images.length, side), side, index)),
  );
}

/**
 * A box of fixed size with one image: nothing moves when the image loads, nothing is cropped.
 * @param {ImageView} image
 * @param {string} name
 * @param {number} side
 * @param {number} index
 */
function frame(image, name, side, index) {
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

/** Build what stays the same for every question: the two sets and the preference. */
export function buildQuestion() {
  find(".sets").replaceChildren(buildSet(1), buildSet(2));
  const choices = [
    { value: 1, name: setName(1), key: KEYS.prefer_1 },
    { value: 2, name: setName(2), key: KEYS.prefer_2 },
  ];
  if (currentStudy().ties_allowed) choices.push({ value: 0, name: t("tie"), key: KEYS.tie });
  find(".picks").replaceChildren(
    ...choices.map(({ value, name, key }) => {
      const option = radioOption("preferred", value);
      option.title = name;
      option.append(make("span", "", name), make("kbd", "", key));
      return option;
    }),
  );
}

/** @param {number} side */
function buildSet(side) {
  const card = make("article", "set");
  card.dataset.side = String(side);
  card.setAttribute("aria-label", setName(side));
  const heading = make("h3");
  heading.append(
    make("span", "", setName(side)),
    make("span", "label", t("any_order")),
    make("kbd", "", scoreKeys(side)),
  );
  card.append(heading, make("div", "row"), buildLikert(side));
  return card;
}

/** @param {number} side */
function buildLikert(side) {
  const fieldset = make("fieldset", "likert");
  fieldset.dataset.field = `score_${side}`;
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
function radioOption(name, value) {
  const option = make("label", "option");
  const input = make("input", "sr");
  Object.assign(input, { type: "radio", name, value: String(value) });
  option.append(input);
  return option;
}
