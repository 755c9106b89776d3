// The parts of a search's page: what is looked for, the earlier turns, the lists with their controls.
import { radioOption } from "./controls.js";
import { find, make, markScrolling } from "./dom.js";
import { imageAddress } from "./images.js";
import { frame } from "./question.js";
import { VOTES } from "./search_answer.js";
import { currentStudy } from "./state.js";
import { t, texts } from "./text.js";

/** @typedef {import("../protocol").ImageView} ImageView */
/** @typedef {import("../protocol").SearchView} SearchView */
/** @typedef {import("../protocol").SearchTurnView} SearchTurnView */
/** @typedef {import("../protocol").VoteView} VoteView */

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
  const { target, start, turns } = view;
  const words = wordsOfStart(view);
  const given = isOwnTextNext(view) ? ` ${t("search_given")}` : "";
  find(".search-context .search-task").textContent = words.task + given;
  find(".search-upload").hidden = !view.may_upload;
  const isTarget = view.task === "target-shown" && target !== null;
  const shown = isTarget ? target : turns.length ? null : start;
  const figure = find(".search-target");
  figure.hidden = shown === null;
  if (shown === null) return;
  const label = isTarget ? t("search_target_note") : words.start;
  find(".search-target figcaption").textContent = label;
  const box = find(".search-target .search-picture");
  const drawn = picture(shown, isTarget ? t("search_target") : label);
  // The same image stays on the page while the next list loads.
  if (box.firstElementChild?.getAttribute("src") !== drawn.getAttribute("src")) box.replaceChildren(drawn);
}

/**
 * Whether the first text was not the participant's own, and they write the next one.
 * @param {SearchView} view
 */
const isOwnTextNext = ({ turns }) => turns.length === 1 && turns[0]?.is_given;

/** @param {SearchView} view */
const wordsOfStart = ({ task, is_own_picture }) =>
  is_own_picture
    ? { task: t("search_upload_wish"), start: t("search_upload_start") }
    : { task: t(TASKS[task]), start: t("search_start") };

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
  markScrolling(list);
}

/** @param {SearchTurnView} turn */
function turnItem({ number, text, reference, satisfaction, vote }) {
  const item = make("li");
  const words = make("div");
  const typed = make("p", "", t("search_turn", { number, text }));
  typed.dir = "auto";
  words.append(typed);
  if (satisfaction) words.append(make("p", "soft", t("search_stars", { satisfaction })));
  if (vote) words.append(make("p", "soft", t("arena_voted", { vote: wordsOf(vote) })));
  item.append(picture(reference, t("search_about")), words);
  return item;
}

/** @param {VoteView} vote */
const wordsOf = ({ preference, both_bad }) =>
  texts.arena_votes.find((_, index) => {
    const vote = VOTES[index];
    return vote?.preference === preference && vote.both_bad === both_bad;
  }) ?? "";

/**
 * The images of the lists, each with the control that marks it as the nearest. The controls count
 * through all lists.
 * @param {ImageView[][]} lists
 */
export function fillLists(lists) {
  let before = 0;
  const sides = lists.map((images, index) => {
    const side = make("section", "search-side");
    const list = make("div", "search-list");
    const total = images.length;
    list.append(
      ...images.map((image, place) => {
        const item = listItem(image, { list: index + 1, number: place + 1, total });
        item.append(nearestOption(before + place + 1, { list: index + 1, number: place + 1 }));
        return item;
      }),
    );
    if (lists.length > 1) {
      const name = t("arena_list", { list: index + 1 });
      side.setAttribute("aria-label", name);
      side.append(make("h4", "", name));
    }
    side.append(list);
    before += images.length;
    return side;
  });
  find(".search-lists").replaceChildren(...sides);
}

/**
 * @param {ImageView} image
 * @param {{ list: number, number: number, total: number }} values
 */
function listItem(image, values) {
  const item = make("div", "search-item");
  const name = t(isArena() ? "arena_image" : "search_image", values);
  item.append(frame(image, name, values.list, values.number - 1));
  return item;
}

/**
 * The control that marks an image as the nearest.
 * @param {number} value
 * @param {{ list: number, number: number }} values
 */
function nearestOption(value, values) {
  const option = radioOption("search_nearest", value);
  option.append(make("b", "", String(values.number)), make("span", "", t("search_nearest_image")));
  const name = t(isArena() ? "arena_nearest_name" : "search_nearest_name", values);
  option.querySelector("input")?.setAttribute("aria-label", name);
  return option;
}

/** Whether two systems are compared: there are two lists, and a vote instead of a satisfaction. */
export const isArena = () => currentStudy().kind === "arena";

/** The field with the judgement of whole lists. */
export const judgement = () => (isArena() ? "vote" : "satisfaction");

export function buildSearchControls() {
  const fieldset = find(".search-judgement");
  if (isArena()) fillLikert(fieldset, "vote", t("arena_vote"), texts.arena_votes);
  else fillLikert(fieldset, "satisfaction", t("search_satisfaction"), texts.search_satisfaction_levels);
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
