// The parts of a search's page: what is looked for, the earlier turns, the list with its controls.
import { radioOption } from "./controls.js";
import { find, make } from "./dom.js";
import { imageAddress } from "./images.js";
import { frame } from "./question.js";
import { t, texts } from "./text.js";

/** @typedef {import("../protocol").ImageView} ImageView */
/** @typedef {import("../protocol").SearchView} SearchView */
/** @typedef {import("../protocol").SearchTurnView} SearchTurnView */

/**
 * A small image that is not enlarged.
 * @param {ImageView} image
 * @param {string} name
 */
export function picture(image, name) {
  if (image.missing) return make("span", "missing", t("image_missing"));
  const shown = make("img");
  shown.src = imageAddress(image.token);
  shown.alt = name;
  shown.decoding = "async";
  return shown;
}

const TASKS = /** @type {const} */ ({
  "target-shown": "search_target",
  "target-remembered": "search_remembered",
  "own-wish": "search_wish",
});

/**
 * What the participant looks for, or starts from.
 * @param {SearchView} view
 */
export function fillContext(view) {
  const { task, target, start, turns } = view;
  find(".search-context .search-task").textContent = t(TASKS[task]);
  const isTarget = task === "target-shown" && target !== null;
  const shown = isTarget ? target : turns.length ? null : start;
  const figure = find(".search-target");
  figure.hidden = shown === null;
  if (shown === null) return;
  const label = t(isTarget ? "search_target_note" : "search_start");
  find(".search-target figcaption").textContent = label;
  const box = find(".search-target .search-picture");
  const drawn = picture(shown, isTarget ? t("search_target") : label);
  // The same image stays on the page while the next list loads.
  if (box.firstElementChild?.getAttribute("src") !== drawn.getAttribute("src")) box.replaceChildren(drawn);
}

/**
 * The earlier turns: the image that each text is about, and the text.
 * @param {SearchTurnView[]} turns
 */
export function fillTurns(turns) {
  const list = find(".search-turns");
  list.hidden = !turns.length;
  const heading = list.previousElementSibling;
  if (heading instanceof HTMLElement) heading.hidden = !turns.length;
  list.replaceChildren(...turns.map(turnItem));
  list.scrollTop = list.scrollHeight;
  list.scrollLeft = list.scrollWidth;
}

/** @param {SearchTurnView} turn */
function turnItem({ number, text, reference, satisfaction }) {
  const item = make("li");
  const words = make("div");
  const said = make("p", "", t("search_turn", { number, text }));
  said.dir = "auto";
  words.append(said);
  if (satisfaction) words.append(make("p", "soft", t("search_stars", { satisfaction })));
  item.append(picture(reference, t("search_about")), words);
  return item;
}

/**
 * The images of the list, each with the control that marks it as the nearest.
 * @param {ImageView[]} images
 */
export function fillList(images) {
  find(".search-list").replaceChildren(
    ...images.map((image, index) => {
      const item = make("div", "search-item");
      const number = index + 1;
      const name = t("search_image", { number, total: images.length });
      const option = radioOption("search_nearest", number);
      option.append(make("b", "", String(number)), make("span", "", t("search_nearest_image")));
      option.querySelector("input")?.setAttribute("aria-label", t("search_nearest_name", { number }));
      item.append(frame(image, name, 1, index), option);
      return item;
    }),
  );
}

export function buildSearchControls() {
  const levels = texts.search_satisfaction_levels;
  fillLikert(find(".search-satisfaction"), "satisfaction", t("search_satisfaction"), levels);
  const none = radioOption("search_nearest", 0);
  none.append(make("span", "", t("search_none")));
  find(".search-none").replaceChildren(none);
}

/**
 * A scale from 1 on; each level has its words.
 * @param {HTMLElement} fieldset
 * @param {string} field
 * @param {string} question
 * @param {string[]} levels
 */
export function fillLikert(fieldset, field, question, levels) {
  fieldset.dataset.field = field;
  fieldset.style.setProperty("--anchors", String(levels.length));
  const options = levels.map((level, index) => {
    const option = radioOption(`search_${field}`, index + 1);
    option.append(make("b", "", String(index + 1)), make("span", "", level));
    return option;
  });
  fieldset.replaceChildren(make("legend", "", question), ...options);
}
