// A search: the lists with their controls, what is looked for, and sending each turn.
import { openGuidelinesOnce } from "./dialogs.js";
import { find, findAll, focusPage, optionOf, root } from "./dom.js";
import { startImages } from "./images.js";
import { digitOf, isShifted, KEYS, letterOf } from "./keys.js";
import { announce, notify, notifyMissing, updateMissing } from "./notice.js";
import { showPosition } from "./question.js";
import { isInSight } from "./sight.js";
import { currentSearch, enter, enterText, placeOf, startSearchAnswer, VOTES } from "./search_answer.js";
import { fillEnd, listenToEnd } from "./search_end.js";
import { fillContext, fillLists, fillTurns, isArena, judgement, picture } from "./search_parts.js";
import { getList, sendStop, sendTurn } from "./search_requests.js";
import { listenToUpload } from "./search_upload.js";
import { isWaiting } from "./server.js";
import { currentStudy, currentView, picturedView } from "./state.js";
import { t } from "./text.js";
import { openZoom } from "./zoom.js";

/** @typedef {import("../protocol").SearchView} SearchView */

const LONGEST_TEXT = 400;
const HIGHEST_SATISFACTION = 5;

/** While the retriever does not answer, the page asks again after so long. */
const AGAIN_AFTER_MS = 5_000;

/** The number of the search whose lists are on the page. */
let listed = 0;

/** The number of the search whose target this page has finished showing. */
let memorised = 0;

let timer = 0;

const textField = () => find("#hsfiq-search-text", HTMLTextAreaElement);

/** @param {SearchView} view */
export function showSearch(view) {
  clearTimeout(timer);
  showPosition(t("search_position", view));
  find(".count").textContent = t("count", view);
  if (view.ending) showEnd(view);
  else if (isToBeMemorised(view)) showTarget(view);
  else if (view.awaits_list) showWaiting(view);
  else showList(view);
  openGuidelinesOnce();
}

/** @param {"memorise" | "waiting" | "list" | "end"} part */
const showPart = (part) => (root.dataset.search = part);

/** @param {SearchView} view */
const isToBeMemorised = ({ task, target, target_seconds, number }) =>
  task === "target-remembered" && target !== null && memorised !== number && !!target_seconds;

/**
 * Show the target until it has been memorised, or its time is up.
 * @param {SearchView} view
 */
function showTarget(view) {
  if (!view.target) return;
  showPart("memorise");
  find(".search-memorise .search-picture").replaceChildren(picture(view.target, t("search_target")));
  const until = Date.now() + (view.target_seconds ?? 0) * 1000;
  const count = () => {
    const seconds = Math.ceil((until - Date.now()) / 1000);
    if (seconds <= 0) return finishTarget();
    find(".search-countdown").textContent = t("search_seconds_left", { seconds });
    timer = window.setTimeout(count, 250);
  };
  announce(t("search_memorise"));
  count();
}

function finishTarget() {
  clearTimeout(timer);
  const view = currentView();
  if (view?.step !== "search") return;
  memorised = view.number;
  find(".search-memorise .search-picture").replaceChildren();
  showSearch(view);
}

/**
 * Look for the list of the last turn; the images of the list before stay on the page.
 * @param {SearchView} view
 */
function showWaiting(view) {
  showPart("waiting");
  fillContext(view);
  fillTurns(view.turns);
  if (listed !== view.number) fillLists([]);
  for (const control of controls()) control.disabled = true;
  find(".search-form").setAttribute("aria-busy", "true");
  setStop(view);
  const text = view.turns.at(-1)?.text ?? "";
  find(".search-heading").textContent = t("search_loading");
  startSearchAnswer(view);
  if (currentStudy().is_preview) return notify(t("search_unavailable_preview"), { isInfo: true });
  if (!view.is_unavailable) {
    announce(t("search_loading"));
    timer = window.setTimeout(getList, 0); // after the reply that has brought this view
    return;
  }
  find(".search-heading").textContent = "";
  notify(t("search_unavailable", { text }), { label: t("retry"), action: getList });
  timer = window.setTimeout(getList, AGAIN_AFTER_MS);
}

/** @param {SearchView} view */
function showList(view) {
  showPart("list");
  fillContext(view);
  const turn = view.turns.at(-1);
  const lists = turn?.lists ?? [];
  fillTurns(view.turns);
  const pictured = picturedView();
  if (pictured) startImages({ ...pictured, reference: null });
  fillLists(lists);
  listed = view.number;
  find(".search-form").removeAttribute("aria-busy");
  for (const control of controls()) control.disabled = false;
  for (const selector of [".search-nearest", ".search-judgement"]) find(selector).hidden = !lists.length;
  find(".search-heading").textContent = turn ? t("search_list_of", turn) : t("search_label");
  startSearchAnswer(view);
  fillEntered();
  setStop(view);
  announce(turn ? t("search_listed", { total: lists[0]?.length ?? 0, text: turn.text }) : t("search_label"));
}

/** @param {SearchView} view */
function showEnd(view) {
  showPart("end");
  startSearchAnswer(view);
  fillEnd(view);
}

/** The controls that wait for the list. */
const controls = () =>
  /** @type {(HTMLInputElement | HTMLTextAreaElement | HTMLButtonElement)[]} */ ([
    ...findAll(".search-form input, .search-form textarea, .search-send, .search-found"),
  ]);

/** @param {SearchView} view */
const isLast = (view) => view.turns.length >= view.rounds && !view.awaits_list;

/** @param {SearchView} view */
function setStop(view) {
  find(".search-stop").textContent = t(isLast(view) ? "search_finish" : "search_stop");
}

/** Put what is entered into the controls. */
function fillEntered() {
  const { entered } = currentSearch();
  const { satisfaction, vote, nearest } = entered;
  for (const [name, value] of Object.entries({ satisfaction, vote, nearest })) {
    for (const input of findAll(`input[name="search_${name}"]`)) {
      if (input instanceof HTMLInputElement) input.checked = value !== null && Number(input.value) === value;
    }
  }
  textField().value = entered.text;
  refresh();
}

/** What can be done now: a text is written only after the list has been judged. */
function refresh() {
  const { view, entered } = currentSearch();
  const last = isLast(view);
  const isLocked = missing().length > 0;
  find(".search-writing").hidden = last;
  find(".search-send").hidden = last;
  textField().readOnly = isLocked; // it still takes the focus, so that what is typed presses no shortcut
  find(".search-found").hidden = !view.turns.length;
  const nearest = placeOf(entered.nearest);
  find(".search-found-label").textContent = nearest
    ? t(isArena() ? "arena_found_name" : "search_found_name", { list: nearest.list, number: nearest.place })
    : t("search_found");
  find(".search-found").setAttribute("aria-disabled", String(!entered.nearest));
  find(".search-send").setAttribute("aria-disabled", String(isLocked || !entered.text.trim()));
  const hint = view.chooser === "top1" ? "search_text_top" : "search_text_later";
  find("#hsfiq-search-note").textContent = t(
    isLocked ? "search_text_locked" : view.turns.length ? hint : "search_text_first",
  );
  refreshMissing();
  if (last) notify(t("search_last"), { isInfo: true });
}

/** What the parts of the form are called when they are missing. */
const MISSING = /** @type {const} */ ({
  satisfaction: "search_missing_satisfaction",
  vote: "arena_missing_vote",
  nearest: "search_missing_nearest",
  text: "search_missing_text",
});

/** What must still be said about the lists. */
function missing() {
  const { view, entered } = currentSearch();
  if (!view.turns.at(-1)?.lists) return [];
  const fields = /** @type {("satisfaction" | "vote" | "nearest")[]} */ ([judgement(), "nearest"]);
  return fields.filter((field) => entered[field] === null);
}

/**
 * @param {(keyof typeof MISSING)[]} fields
 * @param {"search_still_missing" | "search_text_waits"} [message]
 */
function stillMissing(fields, message = "search_still_missing") {
  const items = fields.map((field) => t(MISSING[field])).join(", ");
  return items && t(message, { items });
}

/** What the notice says while the form is filled in: also a text, if the participant wants to search. */
function refreshMissing() {
  const isTextMissing = find(".search-writing").classList.contains("unanswered");
  updateMissing(stillMissing([...missing(), ...(isTextMissing ? /** @type {const} */ (["text"]) : [])]));
}

/**
 * Whether the list has been judged; if not, the page says what is missing.
 * @param {"text"[]} further fields that are missing, too
 * @param {"search_still_missing" | "search_text_waits"} [message]
 */
function isJudged(further = [], message) {
  const fields = [...missing(), ...further];
  for (const part of findAll(".search-form [data-field]")) {
    part.classList.toggle("unanswered", fields.some((field) => field === part.dataset.field));
  }
  if (!fields.length) return true;
  notifyMissing(stillMissing(fields, message));
  find(".unanswered").scrollIntoView({ block: "nearest" });
  return false;
}

function search() {
  if (isWaiting() || root.dataset.search !== "list") return;
  const { view, entered } = currentSearch();
  if (isLast(view)) return;
  if (!isJudged(entered.text.trim() ? [] : ["text"])) return;
  if ([...entered.text].length > LONGEST_TEXT) {
    return notifyMissing(t("search_too_long", { longest: LONGEST_TEXT }));
  }
  focusPage();
  sendTurn();
}

function declare() {
  if (isWaiting() || root.dataset.search !== "list") return;
  const { nearest } = currentSearch().entered;
  if (!nearest) return notifyMissing(t("search_found_needs"));
  if (isJudged()) sendStop(nearest);
}

const canStop = () => !isWaiting() && (root.dataset.search === "waiting" || isJudged());

/** After the last list there is nothing to go on with: the search ends without a question. */
function stop() {
  if (!canStop()) return;
  if (isLast(currentSearch().view)) return sendStop(null);
  find(".stopping", HTMLDialogElement).showModal();
  find(".stopping .close").focus(); // pressing Enter without reading ends nothing
}

/** The list may have come, and wait for a judgement, while the page asked. */
function confirmStop() {
  find(".stopping", HTMLDialogElement).close();
  if (canStop()) sendStop(null);
}

/** @param {AbortSignal} signal */
export function listenToSearch(signal) {
  const form = find(".search-form");
  const text = textField();
  form.addEventListener("change", onChange, { signal });
  text.addEventListener("input", (event) => onInput(/** @type {InputEvent} */ (event)), { signal });
  text.addEventListener("keydown", onTextKey, { signal });
  text.addEventListener("focus", explainLock, { signal });
  form.addEventListener(
    "submit",
    (event) => {
      event.preventDefault();
      search();
    },
    { signal },
  );
  find(".search-found").addEventListener("click", declare, { signal });
  find(".search-stop").addEventListener("click", stop, { signal });
  find(".stopping .stop").addEventListener("click", confirmStop, { signal });
  find(".search-memorised").addEventListener("click", finishTarget, { signal });
  listenToUpload(signal);
  listenToEnd(signal);
}

/** A text is written only after the lists have been judged: say what is missing. */
function explainLock() {
  if (root.dataset.search === "list" && textField().readOnly) isJudged([], "search_text_waits");
}

/** @param {InputEvent} event */
function onInput({ inputType }) {
  enterText(textField().value, inputType === "insertFromPaste" || inputType === "insertFromDrop");
  find(".search-writing").classList.toggle("unanswered", false);
  refresh();
}

/**
 * Enter sends; with Shift it begins a line. Input methods need it for themselves.
 * @param {KeyboardEvent} event
 */
function onTextKey(event) {
  if (event.isComposing || event.keyCode === 229 || event.repeat) return;
  if (event.key === "Escape") focusPage();
  if (event.key !== "Enter" || event.shiftKey) return;
  event.preventDefault();
  search();
}

/** @param {Event} event */
function onChange({ target }) {
  if (target instanceof HTMLInputElement) choose(target.name.replace("search_", ""), Number(target.value));
}

/**
 * @param {string} field
 * @param {number} value
 */
function choose(field, value) {
  if (isWaiting() || root.dataset.search !== "list") return;
  enter({ [field]: value });
  find(`.search-form [data-field="${field}"]`).classList.remove("unanswered");
  fillEntered();
}

/** Whether the last key asked to end the search with the marked image. */
let isDeclaring = false;

/**
 * @param {KeyboardEvent} event
 * @returns {boolean} whether the key is a shortcut
 */
export function onSearchKey(event) {
  if (root.dataset.search !== "list") return false;
  const action = actionOf(event, currentSearch().view.turns.at(-1)?.lists ?? []);
  const wasDeclaring = isDeclaring;
  isDeclaring = false;
  if (!action) return false;
  event.preventDefault();
  action(wasDeclaring);
  return true;
}

/**
 * The end of a search cannot be taken back, and a text may begin with this letter: it is pressed twice.
 * @param {boolean} isSecond
 */
function declareByKey(isSecond) {
  const { nearest } = currentSearch().entered;
  if (nearest && missing().length === 0) {
    if (!isInSight(optionOf("search_nearest", nearest))) return;
    isDeclaring = !isSecond;
    if (!isSecond) return notify(foundAgain(nearest), { isInfo: true });
  }
  declare();
}

/** @param {number} nearest */
const foundAgain = (nearest) =>
  t(isArena() ? "arena_found_again" : "search_found_again", placeOf(nearest) ?? {});

/**
 * @param {string} field
 * @param {number} value
 */
function chooseByKey(field, value) {
  if (isInSight(optionOf(`search_${field}`, value))) choose(field, value);
}

/**
 * @param {KeyboardEvent} event
 * @param {import("../protocol").ImageView[][]} lists none before the first turn
 * @returns {((isSecond: boolean) => void) | undefined}
 */
function actionOf(event, lists) {
  const longest = Math.max(0, ...lists.map((images) => images.length));
  const n_options = isArena() ? VOTES.length : HIGHEST_SATISFACTION;
  const digit = digitOf(event, isShifted(event) ? longest : n_options);
  if (digit && lists.length) {
    return () => (isShifted(event) ? mark(digit, lists) : chooseByKey(judgement(), digit));
  }
  const letter = event.shiftKey ? "" : letterOf(event);
  return ACTIONS[letter] ?? (lists.length ? LIST_ACTIONS[letter] : undefined);
}

/**
 * Mark the image at a place as the nearest: that of the first list, and after it that of the next.
 * @param {number} place
 * @param {import("../protocol").ImageView[][]} lists
 */
function mark(place, lists) {
  const values = [];
  let before = 0;
  for (const images of lists) {
    if (place <= images.length) values.push(before + place);
    before += images.length;
  }
  const marked = values.indexOf(currentSearch().entered.nearest ?? 0);
  chooseByKey("nearest", values[(marked + 1) % values.length] ?? 0);
}

/** @type {Record<string, () => void>} */
const ACTIONS = { [KEYS.search_text]: () => textField().focus() };

/** With a list only. @type {Record<string, (isSecond: boolean) => void>} */
const LIST_ACTIONS = {
  [KEYS.search_none]: () => chooseByKey("nearest", 0),
  [KEYS.search_found]: declareByKey,
  [KEYS.zoom]: () => openZoom(1, 0),
};
