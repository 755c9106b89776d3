// A question: its kind, the answer being given, the controls, and sending it.
import {
  KEYS,
  announce,
  currentStudy,
  currentView,
  find,
  findAll,
  focusPage,
  isPicture,
  isTextRead,
  judgedView,
  make,
  makeButton,
  newKey,
  notify,
  openDialog,
  readDraft,
  removeDraft,
  root,
  setName,
  setText,
  showUserText,
  t,
  texts,
  updateMissing,
  writeDraft,
} from "./dom.js";
import {
  answersOf,
  buildExtraQuestions,
  entriesOf,
  extraField,
  fillExtraQuestions,
  hasExtraQuestions,
  leaveExtra,
  missingExtra,
  nameOfExtra,
  questionOf,
} from "./extra_questions.js";
import {
  imageAddress,
  imageName,
  imageProgress,
  imagesPayload,
  loadImage,
  openZoom,
  referencesOf,
  restoreSeen,
  retryImages,
  seenImages,
  startImages,
} from "./images.js";
import { IMAGES } from "./kind_images.js";
import { PAIR } from "./kind_pair.js";
import { QUERY } from "./kind_query.js";
import { RANKING } from "./kind_ranking.js";
import { ARENA, SEARCH } from "./kind_search.js";
import { SINGLE } from "./kind_single.js";
import { ask, isWaiting, showReply } from "./server.js";

/** @typedef {import("../protocol").ImageView} ImageView */
/** @typedef {import("../protocol").QuestionView} QuestionView */
/** @typedef {import("../protocol").SkipPayload} SkipPayload */
/** @typedef {import("../protocol").SubmitPayload["answer"]} AnswerPayload */
/** @typedef {import("../protocol").SubmitPayload} SubmitPayload */
/** @typedef {import("./dom.js").JudgedView} JudgedView */
/** @typedef {import("./extra_questions.js").Entries} Entries */

// The question kinds: for each, the controls, their keys, and the answer that is sent.

/**
 * What is chosen: a number for each field, null if nothing is.
 * @typedef {Record<string, number | null>} Choices
 */

/**
 * @typedef {object} Kind
 * @property {() => void} build builds what stays the same for every question
 * @property {(view: import("./dom.js").JudgedView) => string[]} fields what must be chosen
 * @property {(field: string) => string} fieldName in "Still missing"
 * @property {(earlier: import("../protocol").EarlierAnswer) => Choices} choices the stored ones
 * @property {(chosen: Choices, wasAsked: boolean) => Record<string, unknown>} answer its part of an
 *   answer; `wasAsked`: the page has asked whether a contradicting preference is meant
 * @property {(chosen: Choices) => boolean} [contradicts] whether the page asks about this answer
 * @property {(event: KeyboardEvent, chosen: Choices) => [string, number] | null} choiceOfKey
 * @property {(chosen: Choices) => string | undefined} [currentField] the one that a digit is for, if
 *   it depends on the focus and on what is chosen
 * @property {(index: number, name: string) => HTMLElement} [imageControls] those below an image
 * @property {(chosen: Choices, field: string) => void} [settle] what a choice means for the others
 * @property {() => Record<string, string>} shortcuts keys by the name of what they do
 * @property {boolean} [hasPreference] whether the page asks which set is better
 * @property {boolean} [hasNoFlag] whether a question cannot be flagged
 * @property {boolean} [hasOwnPage] whether only these keys, and those of all pages, work
 * @property {(chosen: Choices, expected: Record<string, any>) => boolean} isExpected compares with the
 *   practice question's right answer, as hsfiq/kinds reads it
 */

/** @type {Record<string, Kind>} */
const KINDS = {
  pair: PAIR,
  single: SINGLE,
  images: IMAGES,
  ranking: RANKING,
  query: QUERY,
  search: SEARCH,
  arena: ARENA,
};

/** The kind of the study's questions. */
export function currentKind() {
  const kind = KINDS[currentStudy().kind];
  if (!kind) throw new Error(`this page has no questions of kind ${currentStudy().kind}`);
  return kind;
}

// The answer being given: what is chosen, what is missing, and the time taken.

/** What every kind's answer has. @typedef {{ irrelevant: boolean, reason: string }} Values */

/**
 * @typedef {object} Answer
 * @property {JudgedView} view the question
 * @property {Choices} chosen what is chosen
 * @property {Values} values
 * @property {Entries} extra what is entered for the extra questions
 * @property {Record<string, unknown>} saved what the server has stored
 * @property {boolean} wasAsked whether the page has asked if a contradicting preference is meant
 * @property {string} submitKey the same for every attempt to send the same values
 * @property {number} active seconds on this question before `visibleSince`
 * @property {number | null} firstChoiceAt ms since the epoch
 * @property {number | null} visibleSince ms since the epoch; null while the page is hidden
 */

/** @type {Answer | null} */
let answer = null;

export function resetAnswer() {
  answer = null;
}

export function currentAnswer() {
  if (!answer) throw new Error("no question is shown");
  return answer;
}

/** @param {JudgedView} view */
export function startAnswer(view) {
  const draft = readDraft(view.draft) ?? {};
  const { chosen, values, extra, wasAsked } = storedAnswer(view);
  answer = {
    view,
    chosen: { ...chosen, ...draft.chosen },
    values: { ...values, ...draft.values },
    extra: { ...extra, ...draft.extra },
    saved: { ...chosen, ...values, extra: inJson(extra) },
    wasAsked: draft.wasAsked ?? wasAsked,
    submitKey: draft.submitKey ?? newKey(),
    active: draft.active ?? 0,
    firstChoiceAt: draft.first ?? null,
    visibleSince: document.hidden ? null : Date.now(),
  };
  restoreSeen(draft.images ?? []);
  showUserText(view.text, draft.isTextRead ?? false);
  for (const element of findAll(".unanswered")) element.classList.remove("unanswered");
  leaveExtra();
  fillInputs();
}

/**
 * @param {JudgedView} view
 * @returns {{ chosen: Choices, values: Values, extra: Entries, wasAsked: boolean }}
 */
function storedAnswer({ earlier }) {
  const extra = entriesOf(currentStudy().extra_questions, earlier?.extra ?? {});
  if (!earlier) return { chosen: {}, values: { irrelevant: false, reason: "" }, extra, wasAsked: false };
  const { irrelevant, reason, judgement } = earlier;
  const values = { irrelevant, reason };
  const wasAsked = judgement?.["confirmed"] ?? false;
  return { chosen: currentKind().choices(earlier), values, extra, wasAsked };
}

function fillInputs() {
  const { view, chosen, values, extra } = currentAnswer();
  for (const field of currentKind().fields(view)) {
    for (const input of root.querySelectorAll(`input[name="${field}"]`)) {
      if (input instanceof HTMLInputElement) input.checked = input.value === String(chosen[field]);
    }
  }
  find(".irrelevant", HTMLInputElement).checked = values.irrelevant;
  fillExtraQuestions(find(".extra-questions"), currentStudy().extra_questions, extra);
  const reason = find("#hsfiq-reason", HTMLTextAreaElement);
  if (reason.value !== values.reason) reason.value = values.reason;
  refreshButtons();
  markCurrent();
}

/** Mark the image or set that a digit is for. */
export function markCurrent() {
  const field = judgedView() ? currentKind().currentField?.(currentAnswer().chosen) : undefined;
  const item = field && root.querySelector(`[data-field="${field}"]`)?.closest(".judged-image, .set");
  for (const marked of findAll(".current-item")) marked.classList.remove("current-item");
  if (item) item.classList.add("current-item");
}

/**
 * @param {string} field
 * @param {number} value
 */
export function choose(field, value) {
  edit(field, ({ chosen }) => {
    chosen[field] = value;
    currentKind().settle?.(chosen, field);
  });
}

/**
 * @template {keyof Values} F
 * @param {F} field
 * @param {Values[F]} value
 */
export function change(field, value) {
  edit(field, ({ values }) => (values[field] = value));
}

/**
 * @param {string} name of an extra question
 * @param {Entries[string]} entry
 */
export function enterExtra(name, entry) {
  edit(extraField(name), ({ extra }) => (extra[name] = entry));
}

/**
 * @param {string} field
 * @param {(answer: Answer) => void} assign
 */
function edit(field, assign) {
  if (!judgedView()) return;
  if (isWaiting()) return fillInputs(); // the values being sent stay as they are
  const current = currentAnswer();
  assign(current);
  current.firstChoiceAt ??= Date.now();
  root.querySelector(`[data-field="${field}"]`)?.classList.remove("unanswered");
  // The values differ from those of a failed attempt, so they get a new key.
  current.submitKey = newKey();
  saveDraft();
  fillInputs();
}

export function refreshButtons() {
  const { view } = currentAnswer();
  const isComplete = missingFields().length === 0;
  const isWaitingForImages = waitsForImages();
  const isReasonWrong = isReasonTooShort() || isReasonTooLong();
  const isReasonGiven = reasonLength() > 0 && !isReasonWrong;
  find(".next").setAttribute("aria-disabled", String(!isComplete || mustWait()));
  find(".next").classList.toggle("waiting", isWaitingForImages);
  setText(find(".next-label"), isWaitingForImages ? waitingLabel() : t("next"));
  const label = isReasonGiven ? "reason_given" : view.reason_asked ? "reason_required" : "reason";
  setText(find(".reason-label"), t(label));
  setText(find(".reason-prompt"), t(view.reason_asked ? "reason_prompt_required" : "reason_prompt"));
  find(".reason").classList.toggle("asked", isReasonWrong);
  updateMissing(stillMissing());
}

/** Whether the answer cannot be sent yet because of the images; one that is stored needs none. */
export function waitsForImages() {
  const { view } = currentAnswer();
  return !imageProgress().areReady && !(view.earlier && !isChanged());
}

/** Whether a part of the text has not been in view yet; an answer that is stored does not wait. */
export const waitsForText = () => !isTextRead() && !currentAnswer().view.earlier;

const mustWait = () => waitsForImages() || waitsForText();

function waitingLabel() {
  const progress = imageProgress();
  return t(progress.failed ? "next_failed" : "next_waiting", progress);
}

/** The fields without which the answer cannot be sent. */
export function missingFields() {
  const { view, chosen, extra } = currentAnswer();
  const fields = [
    ...currentKind().fields(view).filter((field) => (chosen[field] ?? null) === null),
    ...missingExtra(currentStudy().extra_questions, extra),
  ];
  return isReasonTooShort() || isReasonTooLong() ? [...fields, "reason"] : fields;
}

const isReasonTooShort = () =>
  currentAnswer().view.reason_asked && reasonLength() < currentStudy().shortest_reason;

const isReasonTooLong = () => reasonLength() > currentStudy().longest_reason;

/** The reason's characters, as the server counts them: `length` would count most emoji as two. */
const reasonLength = () => [...currentAnswer().values.reason.trim()].length;

/** @param {string[]} fields */
export function markMissing(fields) {
  for (const field of fields) find(`[data-field="${field}"]`).classList.add("unanswered");
}

/** What is missing, in words; "" if nothing is. */
export function stillMissing() {
  const items = missingFields().map(nameOf).join(", ");
  return items && t("still_missing", { items });
}

/** @param {string} field */
function nameOf(field) {
  const extra = questionOf(currentStudy().extra_questions, field);
  if (extra) return nameOfExtra(extra);
  if (field !== "reason") return currentKind().fieldName(field);
  const { shortest_reason, longest_reason } = currentStudy();
  const limits = { shortest: shortest_reason, longest: longest_reason };
  return t(isReasonTooLong() ? "a_shorter_reason" : "a_reason", limits);
}

/** @param {Entries} entries of the extra questions */
const inJson = (entries) => JSON.stringify(answersOf(currentStudy().extra_questions, entries));

export function isChanged() {
  const { chosen, values, extra, saved } = currentAnswer();
  const current = { ...chosen, ...values, extra: inJson(extra) };
  return Object.entries(current).some(([field, value]) => saved[field] !== value);
}

export function saveDraft() {
  if (!answer || !judgedView()) return;
  const { view, chosen, values, extra, wasAsked, submitKey, firstChoiceAt } = answer;
  const seen = { images: seenImages(), isTextRead: isTextRead() };
  const rest = { active: activeSeconds(), first: firstChoiceAt, ...seen };
  writeDraft(view.draft, { chosen, values, extra, wasAsked, submitKey, ...rest });
}

/** Seconds on this question while the page was visible. */
function activeSeconds() {
  const { active, visibleSince } = currentAnswer();
  return active + (visibleSince === null ? 0 : secondsSince(visibleSince));
}

/** @param {number} start ms since the epoch; a clock set back gives 0 */
const secondsSince = (start) => Math.max(0, (Date.now() - start) / 1000);

/** Count time only while the page is visible. */
export function countTime() {
  if (!answer) return;
  answer.active = activeSeconds();
  answer.visibleSince = document.hidden ? null : Date.now();
  if (document.hidden) saveDraft();
}

/** @returns {AnswerPayload} */
export function answerPayload() {
  const { view, chosen, values, extra, wasAsked, firstChoiceAt } = currentAnswer();
  const questions = currentStudy().extra_questions;
  return /** @type {AnswerPayload} */ ({
    ...currentKind().answer(chosen, wasAsked),
    irrelevant: values.irrelevant,
    reason: values.reason.trim() || null,
    active_seconds: activeSeconds(),
    seconds_since_first_interaction: firstChoiceAt === null ? null : secondsSince(firstChoiceAt),
    ...(questions.length && { extra: answersOf(questions, extra) }),
    ...(view.text && { text_in_view: isTextRead() }),
  });
}

// Showing a question: the reference, the user text, two sets and the controls to judge them.

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

function retryFailed() {
  focusPage();
  retryImages();
}

/** Say why Next waits, and what can be done about it. */
export function explainImages() {
  const progress = imageProgress();
  isNoticeOfImages = true;
  if (!progress.failed && !progress.isSlow) return notify(t("images_waiting", progress), { isInfo: true });
  const text = t(progress.failed ? "images_failed" : "images_slow", progress);
  notify(text, { label: t("retry_images"), action: retryFailed });
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

// Asks, once for a question, whether a preference for the set scored much lower is meant.

export function needsConfirmation() {
  const { chosen, wasAsked } = currentAnswer();
  return !wasAsked && (currentKind().contradicts?.(chosen) ?? false);
}

export function askConfirmation() {
  const given = currentAnswer();
  const side = given.chosen["preferred"] === 2 ? 2 : 1;
  const other = side === 1 ? 2 : 1;
  find(".confirmation-text").textContent = t("confirm_text", {
    preferred: setName(side),
    preferred_score: given.chosen[`score_${side}`],
    other: setName(other),
    other_score: given.chosen[`score_${other}`],
  });
  given.wasAsked = true;
  saveDraft();
  openDialog(".confirmation", ".close"); // pressing Enter again without reading confirms nothing
}

/** @param {() => void} retry */
export function keepAnswer(retry) {
  find(".confirmation", HTMLDialogElement).close();
  submitAnswer(retry);
}

// Sending answers and moving between questions.

/** @param {() => void} retry */
export function submitAnswer(retry) {
  const { view, submitKey } = currentAnswer();
  const { assignment } = view;
  const payload = { assignment, submit_key: submitKey, answer: answerPayload(), images: imagesPayload() };
  send(/** @type {SubmitPayload} */ (payload), retry);
}

export function skip() {
  const { view, submitKey } = currentAnswer();
  // A skip after a failed attempt to send an answer must not be taken for that attempt.
  const { assignment } = view;
  send({ assignment, submit_key: `${submitKey}-skip`, skip: true, images: imagesPayload() }, skip);
}

/**
 * The page moves on only once the server has stored the answer.
 * @param {SubmitPayload | SkipPayload} payload
 * @param {() => void} retry
 */
function send(payload, retry) {
  const { draft } = currentAnswer().view;
  showReply(async () => {
    /** @type {import("../protocol").SubmitReply} */
    const reply = await ask("submit", payload);
    if (!Number.isInteger(reply.revision)) throw new Error("no acknowledgement");
    removeDraft(draft);
    return reply.view;
  }, retry);
}

/**
 * Show the question with this number, or the current step.
 * @param {number | null} number
 */
export function goTo(number) {
  saveDraft();
  showReply(() => ask(number === null ? "question" : `question/${number}`), () => goTo(number));
}

/**
 * The number of the question after an earlier one; null for the current step.
 * @param {import("../protocol").QuestionView} view
 */
export function following({ number, total, standing_at }) {
  return number === total || number + 1 === standing_at ? null : number + 1;
}

export function back() {
  const number = currentView()?.back;
  if (number) goTo(number);
}

// The guidelines and the box for the reason.

const GUIDELINES_READ = "guidelines";

/**
 * Fill an element with guidelines or consent. The only HTML on this page: the server has reduced it
 * to harmless tags.
 * @param {HTMLElement} element
 * @param {string} html
 */
export function fillReading(element, html) {
  element.innerHTML = html;
  for (const part of element.querySelectorAll("h3, h4, h5, h6, p, li, th, td")) {
    if (part instanceof HTMLElement) part.dir = "auto";
  }
  for (const table of element.querySelectorAll("table")) {
    const box = make("div", "table-box");
    box.tabIndex = 0; // so that the keyboard can scroll a wide table
    table.replaceWith(box);
    box.append(table);
  }
}

export function fillGuidelines() {
  fillReading(find(".guidelines-text"), currentStudy().guidelines);
  const { irrelevant, reason, extra, zoom, full_size, guidelines } = KEYS;
  const kind = currentKind();
  const keys = {
    ...kind.shortcuts(),
    ...(kind.hasOwnPage ? {} : { irrelevant, reason }),
    ...(hasExtraQuestions() ? { extra } : {}),
    ...{ zoom, full_size },
    ...(kind.hasOwnPage ? {} : { next: KEYS.next, back: KEYS.back }),
    guidelines,
  };
  find(".shortcut-list").replaceChildren(
    ...Object.entries(keys).flatMap(([name, label]) => {
      const term = make("dt");
      term.append(make("kbd", "", label));
      const meaning = texts.shortcuts[/** @type {keyof typeof texts.shortcuts} */ (name)];
      return [term, make("dd", "", meaning)];
    }),
  );
}

export function openGuidelines() {
  closeReason();
  openDialog(".guidelines", ".guidelines-text");
  find(".guidelines").scrollTop = 0;
  writeDraft(GUIDELINES_READ, true);
}

/** Open the guidelines if this tab has not shown them yet. */
export function openGuidelinesOnce() {
  if (!isPicture() && !readDraft(GUIDELINES_READ)) openGuidelines();
}

export function openReason() {
  if (!judgedView()) return;
  find(".reason-panel").hidden = false;
  find(".reason").setAttribute("aria-expanded", "true");
  find("#hsfiq-reason").focus({ preventScroll: true });
  for (const part of [".foot", ".reason-panel"]) find(part).scrollIntoView({ block: "nearest" });
}

export function closeReason() {
  const panel = find(".reason-panel");
  if (panel.hidden) return;
  panel.hidden = true;
  find(".reason").setAttribute("aria-expanded", "false");
  focusPage();
}

export function toggleReason() {
  if (find(".reason-panel").hidden) openReason();
  else closeReason();
}
