// What a participant says and types at the lists, or at the end of a search, and the time taken.
import { find } from "./dom.js";
import { newKey, readDraft, removeDraft, writeDraft } from "./draft.js";
import { imageProgress, imagesPayload, restoreSeen, seenImages } from "./images.js";

/** @typedef {import("../protocol").SearchView} SearchView */
/** @typedef {import("../protocol").SearchTurnView} SearchTurnView */

/** What is entered; `nearest` counts the images of all lists, 0 is none of them. */
const EMPTY = {
  satisfaction: /** @type {number | null} */ (null),
  vote: /** @type {number | null} */ (null),
  nearest: /** @type {number | null} */ (null),
  text: "",
  pasted: false,
  firstKey: /** @type {number | null} */ (null),
  lastKey: /** @type {number | null} */ (null),
  success: /** @type {number | null} */ (null),
  ease: /** @type {number | null} */ (null),
  go_on: /** @type {number | null} */ (null),
  why: /** @type {number | null} */ (null),
  remark: "",
};

/** @typedef {typeof EMPTY} Entered */

/** The reasons for stopping, as the server names them, in the order of the page. */
export const WHYS = /** @type {const} */ (["enough", "gave-up", "technical"]);

/** The votes between two lists, in the order of the page. */
export const VOTES = [
  { preference: 1, both_bad: false },
  { preference: 2, both_bad: false },
  { preference: 0, both_bad: false },
  { preference: 0, both_bad: true },
];

/**
 * @typedef {object} Search
 * @property {SearchView} view
 * @property {Entered} entered
 * @property {string} submitKey the same for every attempt to send the same values
 * @property {number} active seconds before `visibleSince`
 * @property {number | null} visibleSince ms since the epoch; null while the page is hidden
 * @property {number} shownAt ms since the epoch: when the lists were put on the page
 * @property {number | null} painted seconds until all its images were painted
 */

/** @type {Search | null} */
let search = null;

/** @param {SearchView} view */
export function startSearchAnswer(view) {
  const draft = readDraft(view.draft) ?? {};
  search = {
    view,
    entered: { ...EMPTY, ...storedOf(view), ...draft.entered },
    submitKey: draft.submitKey ?? newKey(),
    active: draft.active ?? 0,
    visibleSince: document.hidden ? null : Date.now(),
    shownAt: Date.now(),
    painted: draft.painted ?? null,
  };
  if (draft.images) restoreSeen(draft.images);
  noteSearchImages();
}

/**
 * The stored answers at the end, if there are any.
 * @param {SearchView} view
 * @returns {Partial<Entered>}
 */
function storedOf({ earlier }) {
  const judgement = earlier?.judgement;
  if (!judgement) return {};
  const why = WHYS.indexOf(judgement.why) + 1 || null;
  const { success, ease } = judgement;
  return { success, ease, go_on: judgement.would_go_on ? 1 : 2, why, remark: earlier.reason };
}

export function currentSearch() {
  if (!search) throw new Error("no search is shown");
  return search;
}

/** @param {Partial<Entered>} values */
export function enter(values) {
  const current = currentSearch();
  Object.assign(current.entered, values);
  // The values differ from those of a failed attempt, so they get a new key.
  current.submitKey = newKey();
  saveSearch();
}

/**
 * A change of the text field.
 * @param {string} text
 * @param {boolean} isPasted
 */
export function enterText(text, isPasted) {
  const { entered, shownAt } = currentSearch();
  const seconds = (Date.now() - shownAt) / 1000;
  enter({
    text,
    pasted: entered.pasted || isPasted,
    firstKey: entered.firstKey ?? seconds,
    lastKey: seconds,
  });
}

export function saveSearch() {
  if (!search) return;
  const { view, entered, submitKey, painted } = search;
  writeDraft(view.draft, { entered, submitKey, painted, active: activeSeconds(), images: seenImages() });
}

export function resetSearch() {
  search = null;
}

/** The server has stored what was entered. */
export function removeSearchDraft() {
  removeDraft(currentSearch().view.draft);
  resetSearch();
}

/** Note when all images of the lists have been painted. */
export function noteSearchImages() {
  if (!search?.view.turns.at(-1)?.lists) return;
  const { total, areReady } = imageProgress();
  if (!total || !areReady) return;
  search.painted ??= (Date.now() - search.shownAt) / 1000;
  find(".search-lists").dataset.painted = String(search.view.turns.length);
}

/** Count time only while the page is visible. */
export function countSearchTime() {
  if (!search) return;
  search.active = activeSeconds();
  search.visibleSince = document.hidden ? null : Date.now();
  saveSearch();
}

function activeSeconds() {
  const { active, visibleSince } = currentSearch();
  return active + (visibleSince === null ? 0 : Math.max(0, (Date.now() - visibleSince) / 1000));
}

/** The opinion for the server; null before the first list, and without a list. */
export function opinionPayload() {
  const { view, entered, painted } = currentSearch();
  if (!view.turns.at(-1)?.lists) return null;
  return {
    satisfaction: entered.satisfaction,
    vote: entered.vote ? VOTES[entered.vote - 1] : null,
    nearest: placeOf(entered.nearest),
    images: imagesPayload().sets,
    painted_seconds: painted,
    active_seconds: activeSeconds(),
  };
}

/**
 * An image by its list and its place in it.
 * @param {number | null} nearest
 * @returns {import("../protocol").PlaceView | null}
 */
export function placeOf(nearest) {
  let place = nearest ?? 0;
  if (!place) return null;
  for (const [index, images] of (currentSearch().view.turns.at(-1)?.lists ?? []).entries()) {
    if (place <= images.length) return { list: index + 1, place };
    place -= images.length;
  }
  return null;
}

export function typedPayload() {
  const { text, pasted, firstKey, lastKey } = currentSearch().entered;
  return { text, pasted, first_key_seconds: firstKey, last_key_seconds: lastKey };
}

export function judgedPayload() {
  const { view, entered, submitKey } = currentSearch();
  const { success, ease, go_on, why, remark } = entered;
  const reason = why && view.ending === "stopped" ? WHYS[why - 1] : null;
  return {
    assignment: view.assignment,
    submit_key: submitKey,
    answer: {
      judgement: { success, ease, would_go_on: go_on === 1, why: reason },
      irrelevant: false,
      reason: remark.trim() || null,
      active_seconds: activeSeconds(),
      seconds_since_first_interaction: null,
    },
    images: { reference: "shown", sets: [] },
  };
}
