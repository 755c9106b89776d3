// A search: its lists with their controls, its turns, its end, and pictures to begin from.
import {
  KEYS,
  announce,
  currentStudy,
  currentView,
  digitOf,
  find,
  findAll,
  focusPage,
  isShifted,
  letterOf,
  make,
  markScrolling,
  newKey,
  notify,
  notifyMissing,
  openDialog,
  optionOf,
  picturedView,
  radioOption,
  readDraft,
  removeDraft,
  root,
  t,
  texts,
  updateMissing,
  writeDraft,
} from "./dom.js";
import {
  imageAddress,
  imageProgress,
  imagesPayload,
  isInSight,
  openZoom,
  restoreSeen,
  seenImages,
  startImages,
} from "./images.js";
import { frame, openGuidelinesOnce, showPosition } from "./question.js";
import { ask, isWaiting, showReply } from "./server.js";

/** @typedef {import("./server.js").Refusal} Refusal */
/** @typedef {"success" | "ease" | "go_on" | "why"} Field */
/** @typedef {import("../protocol").ImageView} ImageView */
/** @typedef {import("../protocol").SearchTurnView} SearchTurnView */
/** @typedef {import("../protocol").SearchView} SearchView */
/** @typedef {import("../protocol").VoteView} VoteView */
/** @typedef {typeof EMPTY} Entered */

// Sending the turns of a search. A text is stored by the server before the list is looked for.

/** Get the lists of the last turn; a view without them says that a retriever does not answer. */
export function getList() {
  const view = currentView();
  if (view?.step !== "search") return;
  showReply(() => ask("search/list", { assignment: view.assignment }), getList);
}

export function sendTurn() {
  const { view, submitKey } = currentSearch();
  const payload = {
    assignment: view.assignment,
    submit_key: submitKey,
    opinion: opinionPayload(),
    typed: typedPayload(),
  };
  send("search/turn", payload, sendTurn);
}

/** @param {number | null} declared the image that is it, as `nearest` counts */
export function sendStop(declared) {
  const { view, submitKey } = currentSearch();
  // A failed attempt to send a text must not be taken for this one.
  const payload = {
    assignment: view.assignment,
    submit_key: `${submitKey}-${declared ?? "stop"}`,
    opinion: opinionPayload(),
    declared: placeOf(declared),
  };
  send("search/stop", payload, () => sendStop(declared));
}

export function sendJudgement() {
  showReply(async () => {
    /** @type {import("../protocol").SubmitReply} */
    const reply = await ask("submit", judgedPayload());
    if (!Number.isInteger(reply.revision)) throw new Error("no acknowledgement");
    removeSearchDraft();
    return reply.view;
  }, sendJudgement);
}

/**
 * What is entered is forgotten only once the server has stored it.
 * @param {string} path
 * @param {object} payload
 * @param {() => void} retry
 */
function send(path, payload, retry) {
  showReply(async () => {
    const view = await ask(path, payload);
    removeSearchDraft();
    return view;
  }, retry);
}

// What a participant says and types at the lists, or at the end of a search, and the time taken.

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

// The parts of a search's page: what is looked for, the earlier turns, the lists with their controls.

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

// The questions after a search: how it went, and why it was stopped.

/** @param {import("../protocol").SearchView} view */
export function fillEnd(view) {
  const whys = WHYS.map((why) => texts.search_whys[why]);
  const questions = [
    likert("success", t("search_success"), texts.search_success_levels),
    likert("ease", t("search_ease"), texts.search_ease_levels),
    choice("go_on", t("search_go_on"), [t("search_yes"), t("search_no")]),
    ...(view.ending === "stopped" ? [choice("why", t("search_why"), whys)] : []),
  ];
  find(".search-questions").replaceChildren(...questions);
  const { entered } = currentSearch();
  for (const field of fieldsOf(view)) {
    const value = entered[field];
    const input = value && questionField(field).querySelector(`input[value="${value}"]`);
    if (input instanceof HTMLInputElement) input.checked = true;
  }
  find("#hsfiq-search-remark", HTMLTextAreaElement).value = entered.remark;
  announce(t("search_ended"));
}

/** @param {string} field */
const questionField = (field) => find(`.search-questions [data-field="${field}"]`);

/**
 * @param {import("../protocol").SearchView} view
 * @returns {Field[]}
 */
const fieldsOf = (view) =>
  view.ending === "stopped" ? ["success", "ease", "go_on", "why"] : ["success", "ease", "go_on"];

/**
 * @param {Field} field
 * @param {string} question
 * @param {string[]} levels
 */
function likert(field, question, levels) {
  const fieldset = make("fieldset", "likert");
  fillLikert(fieldset, field, question, levels);
  return fieldset;
}

/**
 * @param {Field} field
 * @param {string} question
 * @param {string[]} options
 */
function choice(field, question, options) {
  const fieldset = make("fieldset", "search-choice");
  fieldset.dataset.field = field;
  fieldset.append(make("legend", "", question));
  options.forEach((words, index) => {
    const option = radioOption(`search_${field}`, index + 1);
    option.append(make("span", "", words));
    fieldset.append(option);
  });
  return fieldset;
}

/** @param {AbortSignal} signal */
export function listenToEnd(signal) {
  find(".search-end").addEventListener("change", onVerdict, { signal });
  const remark = find("#hsfiq-search-remark", HTMLTextAreaElement);
  remark.addEventListener("input", () => enter({ remark: remark.value }), { signal });
  find(".search-end").addEventListener(
    "submit",
    (event) => {
      event.preventDefault();
      sendEnd();
    },
    { signal },
  );
}

/** @param {Event} event */
function onVerdict(event) {
  const input = event.target;
  if (!(input instanceof HTMLInputElement)) return;
  input.closest("fieldset")?.classList.remove("unanswered");
  enter({ [input.name.replace("search_", "")]: Number(input.value) });
  updateMissing(missingVerdicts(missingFields()));
}

function missingFields() {
  const { view, entered } = currentSearch();
  return fieldsOf(view).filter((field) => !entered[field]);
}

/**
 * One question is named; of several, only the number would be read.
 * @param {Field[]} fields
 */
function missingVerdicts(fields) {
  const [first, ...others] = fields;
  if (!first) return "";
  if (others.length) return t("answer_highlighted", { count: fields.length });
  const legend = questionField(first).querySelector("legend")?.textContent ?? "";
  return t("search_still_missing", { items: legend });
}

function sendEnd() {
  const missing = missingFields();
  for (const fieldset of findAll(".search-questions fieldset")) {
    fieldset.classList.toggle("unanswered", missing.some((field) => field === fieldset.dataset.field));
  }
  if (!missing.length) return sendJudgement();
  notifyMissing(missingVerdicts(missing));
  questionField(missing[0] ?? "success").querySelector("input")?.focus();
}

// Starting a search from a picture of the participant's own, where the study allows it.

const LARGEST_BYTES = 6 * 2 ** 20;

/** A phone may need this long to sendPicture a picture. */
const TIMEOUT_MS = 120_000;

const fileField = () => find("#hsfiq-search-upload", HTMLInputElement);

/** @param {AbortSignal} signal */
export function listenToUpload(signal) {
  fileField().addEventListener("change", choosePicture, { signal });
}

function choosePicture() {
  const file = fileField().files?.[0];
  if (!file || isWaiting()) return;
  if (currentStudy().is_preview) refuse("search_unavailable_preview");
  else if (file.size > LARGEST_BYTES) refuse("search_upload_large");
  else sendPicture(file, newKey());
}

/**
 * @param {File} file
 * @param {string} submitKey the same for every attempt to send this picture
 */
function sendPicture(file, submitKey) {
  notify(t("search_uploading"), { isInfo: true });
  showReply(
    async () => {
      const content = await inBase64(file).catch(() => null);
      if (content === null) return refuse("search_upload_unreadable");
      const { assignment } = currentSearch().view;
      const payload = { assignment, submit_key: submitKey, picture: content };
      try {
        const view = await ask("search/upload", payload, TIMEOUT_MS);
        fileField().value = "";
        announce(t("search_uploaded"));
        return view;
      } catch (error) {
        const { status, isPageOutdated } = /** @type {Partial<Refusal>} */ (error);
        if (status === 413) return refuse("search_upload_large");
        if (status === 422 && !isPageOutdated) return refuse("search_upload_unreadable");
        throw error;
      }
    },
    () => sendPicture(file, submitKey),
  );
}

/**
 * Nothing is uploaded; the same file may be chosen again.
 * @param {"search_unavailable_preview" | "search_upload_large" | "search_upload_unreadable"} why
 * @returns {null}
 */
function refuse(why) {
  fileField().value = "";
  notify(t(why), { isInfo: true });
  return null;
}

/**
 * @param {File} file
 * @returns {Promise<string>}
 */
function inBase64(file) {
  return new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.onload = () => resolve(String(reader.result).replace(/^[^,]*,/, ""));
    reader.onerror = () => reject(reader.error ?? new Error("not readable"));
    reader.readAsDataURL(file);
  });
}

// A search: the lists with their controls, what is looked for, and sending each turn.

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
  const isLocked = unfilled().length > 0;
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
function unfilled() {
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
  updateMissing(stillMissing([...unfilled(), ...(isTextMissing ? /** @type {const} */ (["text"]) : [])]));
}

/**
 * Whether the list has been judged; if not, the page says what is missing.
 * @param {"text"[]} further fields that are missing, too
 * @param {"search_still_missing" | "search_text_waits"} [message]
 */
function isJudged(further = [], message) {
  const fields = [...unfilled(), ...further];
  for (const part of findAll(".search-form [data-field]")) {
    part.classList.toggle("unanswered", fields.some((field) => field === part.dataset.field));
  }
  if (!fields.length) return true;
  notifyMissing(stillMissing(fields, message));
  find(".unanswered").scrollIntoView({ block: "nearest" });
  return false;
}

function sendText() {
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
  openDialog(".stopping", ".close"); // pressing Enter without reading ends nothing
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
      sendText();
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
  sendText();
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
  if (nearest && unfilled().length === 0) {
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
