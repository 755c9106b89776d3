// The owner's extra questions: their controls, what is entered, and the answers that are sent.
import { digitOf, find, findAll, focusPage, isShifted, make, makeButton, radioOption, t } from "./dom.js";
import { bringIntoSight, isInSight } from "./images.js";

/** @typedef {import("../protocol").ExtraAnswer} ExtraAnswer */
/** @typedef {import("../protocol").ExtraQuestionView} ExtraQuestion */

/**
 * What is chosen where "Other" is an option, and the text of that.
 * @typedef {{ chosen: number[], other: string }} WithOther
 */

/**
 * What is entered, by the question's name: the number of an option, those of several, or a text.
 * @typedef {Record<string, number | number[] | string | WithOther | null>} Entries
 */

const PREFIX = "extra_";

/** @param {string} name */
export const extraField = (name) => PREFIX + name;

/**
 * The question of a field; undefined if it is of the main answer.
 * @param {ExtraQuestion[]} questions
 * @param {string} field
 */
export const questionOf = (questions, field) => questions.find(({ name }) => extraField(name) === field);

/**
 * How a message names a question.
 * @param {ExtraQuestion} question
 */
export const nameOfExtra = (question) =>
  question.type === "number"
    ? `${t("a_number", question)}${boundsOf(question, " ")}`
    : t("extra_answer", question);

/**
 * The bounds of a number, in parentheses; empty without any.
 * @param {ExtraQuestion} question
 * @param {string} before
 */
function boundsOf({ min, max }, before) {
  if (min === null && max === null) return "";
  const text = min === null ? "number_to" : max === null ? "number_from" : "number_from_to";
  return `${before}(${t(text, { min, max })})`;
}

/**
 * The number of "Other" among the options; 0 if it is not one.
 * @param {ExtraQuestion} question
 */
const numberOfOther = ({ other, options }) => (other ? options.length + 1 : 0);

/**
 * Build the controls; `enter` is called with what a question's controls then hold.
 * @param {HTMLElement} container
 * @param {ExtraQuestion[]} questions
 * @param {(name: string, entry: Entries[string]) => void} enter
 */
export function buildExtraQuestions(container, questions, enter) {
  container.hidden = !questions.length;
  container.replaceChildren(...questions.map((question) => build(question, enter)));
}

/**
 * @param {ExtraQuestion} question
 * @param {(name: string, entry: Entries[string]) => void} enter
 */
function build(question, enter) {
  const { name, text, type, options, required } = question;
  const group = make("fieldset", "extra");
  group.dataset.field = extraField(name);
  const legend = make("legend", "", text);
  legend.dir = "auto";
  if (type === "choices") legend.append(make("span", "soft", ` ${t("several")}`));
  if (type === "number") legend.append(make("span", "soft", boundsOf(question, " ")));
  if (!required) legend.append(make("span", "soft", ` ${t("optional")}`));
  group.append(legend);
  if (!options.length) {
    group.append(textField(question));
  } else {
    const list = make("div", "extra-options");
    const labels = question.other ? [...options, t("other")] : options;
    list.append(...labels.map((label, index) => optionOf(question, label, index + 1)));
    group.append(list);
    if (question.other) group.append(otherField(question));
  }
  group.addEventListener("input", () => enter(name, enteredIn(group, question)));
  if (options.length && type !== "choices" && !required) {
    const clear = makeButton("button small clear", t("clear_answer"));
    clear.addEventListener("click", () => enter(name, null));
    group.append(clear);
  }
  return group;
}

/**
 * @param {ExtraQuestion} question
 * @param {string} label
 * @param {number} value
 */
function optionOf({ name, type }, label, value) {
  const option = radioOption(extraField(name), value);
  const input = option.querySelector("input");
  if (input && type === "choices") input.type = "checkbox";
  if (type === "scale") option.append(make("b", "", String(value)));
  const text = make("span", "", label);
  text.dir = "auto";
  option.append(text);
  return option;
}

/** @param {ExtraQuestion} question */
function otherField({ name }) {
  const field = make("input", "other-text");
  field.type = "text";
  field.autocomplete = "off";
  field.name = `${extraField(name)}_other`;
  field.dir = "auto";
  field.placeholder = t("other_text");
  field.setAttribute("aria-label", t("other_text"));
  return field;
}

/** @param {ExtraQuestion} question */
function textField({ name, text, type, required }) {
  const field = make(type === "text" ? "textarea" : "input");
  if (field instanceof HTMLInputElement) {
    field.type = "text";
    field.inputMode = "decimal";
    field.autocomplete = "off";
  } else {
    field.rows = 2;
  }
  field.name = extraField(name);
  field.dir = "auto";
  field.setAttribute("aria-label", text);
  field.setAttribute("aria-required", String(required));
  return field;
}

/**
 * @param {HTMLElement} group
 * @param {ExtraQuestion} question
 * @returns {Entries[string]}
 */
function enteredIn(group, question) {
  const field = textFieldIn(group);
  if (field && !question.options.length) return field.value;
  const chosen = [...group.querySelectorAll("input")].filter(({ checked }) => checked);
  const values = chosen.map(({ value }) => Number(value));
  if (field) return values.length ? { chosen: values, other: field.value } : null;
  return question.type === "choices" ? values : values[0] ?? null;
}

/**
 * The numbers of the options that are chosen.
 * @param {Entries[string]} entry
 */
const chosenIn = (entry) => (isWithOther(entry) ? entry.chosen : [entry].flat());

/**
 * @param {Entries[string]} entry
 * @returns {entry is WithOther}
 */
const isWithOther = (entry) => entry !== null && typeof entry === "object" && !Array.isArray(entry);

/**
 * Show what is entered.
 * @param {HTMLElement} container
 * @param {ExtraQuestion[]} questions
 * @param {Entries} entries
 */
export function fillExtraQuestions(container, questions, entries) {
  for (const question of questions) {
    const entry = entries[question.name] ?? null;
    const group = container.querySelector(`[data-field="${extraField(question.name)}"]`);
    if (group) fillGroup(group, question, entry);
  }
}

/**
 * @param {Element} group
 * @param {ExtraQuestion} question
 * @param {Entries[string]} entry
 */
function fillGroup(group, question, entry) {
  const chosen = chosenIn(entry);
  const field = textFieldIn(group);
  if (field) {
    const text = textIn(question, entry);
    if (field.value !== text) field.value = text;
    field.hidden = question.other && !chosen.includes(numberOfOther(question));
  }
  for (const option of group.querySelectorAll("input")) {
    if (option !== field) option.checked = chosen.includes(Number(option.value));
  }
  const clear = group.querySelector(".clear");
  if (clear instanceof HTMLElement) clear.hidden = entry === null;
}

/**
 * @param {ExtraQuestion} question
 * @param {Entries[string]} entry
 */
function textIn(question, entry) {
  if (isWithOther(entry)) return entry.other;
  return question.options.length ? "" : String(entry ?? "");
}

/** @param {Element} group */
function textFieldIn(group) {
  const field = group.querySelector("textarea, input[type=text]");
  return field instanceof HTMLTextAreaElement || field instanceof HTMLInputElement ? field : null;
}

/**
 * What was entered for stored answers.
 * @param {ExtraQuestion[]} questions
 * @param {Record<string, ExtraAnswer>} answers
 * @returns {Entries}
 */
export function entriesOf(questions, answers) {
  const entries = questions.map((question) => [
    question.name,
    entryOf(question, answers[question.name] ?? null),
  ]);
  return Object.fromEntries(entries);
}

/**
 * @param {ExtraQuestion} question
 * @param {ExtraAnswer} answer
 * @returns {Entries[string]}
 */
function entryOf(question, answer) {
  if (answer === null) return null;
  if (question.type === "number") return String(answer);
  const parts = [answer].flat();
  const numbers = parts.filter((part) => typeof part === "number");
  if (question.other) {
    const other = parts.find((part) => typeof part === "string");
    const chosen = other === undefined ? numbers : [...numbers, numberOfOther(question)];
    return { chosen, other: other ?? "" };
  }
  return Array.isArray(answer) ? numbers : answer;
}

/**
 * The answer that is sent; null if there is none, undefined for what cannot be sent: a text that is no
 * number within the bounds, or "Other" without a text.
 * @param {ExtraQuestion} question
 * @param {Entries} entries
 * @returns {ExtraAnswer | undefined}
 */
function answerOf(question, entries) {
  const entry = entries[question.name] ?? null;
  if (Array.isArray(entry)) return entry.length ? entry : null;
  if (isWithOther(entry)) return answerWithOther(question, entry);
  if (typeof entry !== "string") return entry;
  const text = entry.trim();
  if (!text) return null;
  return question.type === "number" ? numberIn(question, text) : text;
}

/**
 * @param {ExtraQuestion} question
 * @param {WithOther} entry
 * @returns {ExtraAnswer | undefined}
 */
function answerWithOther(question, { chosen, other }) {
  const number = numberOfOther(question);
  const isOther = chosen.includes(number);
  if (isOther && !other.trim()) return undefined;
  const parts = chosen.map((value) => (value === number ? other.trim() : value));
  return question.type === "choices" ? parts : parts[0] ?? null;
}

/**
 * @param {ExtraQuestion} question
 * @param {string} text
 */
function numberIn({ min, max }, text) {
  const number = Number(text.replace(",", "."));
  const isWithin = number >= (min ?? -Infinity) && number <= (max ?? Infinity);
  return Number.isFinite(number) && isWithin ? number : undefined;
}

/**
 * The answers that are sent.
 * @param {ExtraQuestion[]} questions
 * @param {Entries} entries
 * @returns {Record<string, ExtraAnswer>}
 */
export const answersOf = (questions, entries) =>
  Object.fromEntries(questions.map((question) => [question.name, answerOf(question, entries) ?? null]));

/**
 * The fields that must still be answered, or whose answer cannot be sent.
 * @param {ExtraQuestion[]} questions
 * @param {Entries} entries
 */
export function missingExtra(questions, entries) {
  const missing = questions.filter((question) => {
    const answer = answerOf(question, entries);
    return answer === null ? question.required : answer === undefined;
  });
  return missing.map(({ name }) => extraField(name));
}

// The keys of the extra questions with each answer: one leads to the next question, and marks it as the
// one that digits are for, until the focus moves elsewhere.

const CURRENT = "current-extra";

export const hasExtraQuestions = () => find(".extra-questions").childElementCount > 0;

/** Mark the next question and show it; after the last one, digits are for the main answer again. */
export function toNextExtra() {
  const groups = [...findAll(".extra-questions .extra")];
  const next = groups[groups.findIndex(({ classList }) => classList.contains(CURRENT)) + 1];
  leaveExtra();
  if (!next) return focusPage();
  next.classList.add(CURRENT);
  bringIntoSight(next);
  const control = next.querySelector("input:checked") ?? next.querySelector("input, textarea");
  if (control instanceof HTMLElement) control.focus({ preventScroll: true });
}

export function leaveExtra() {
  for (const group of findAll(`.${CURRENT}`)) group.classList.remove(CURRENT);
}

/**
 * The focus has moved to an element: a question elsewhere is no longer marked.
 * @param {EventTarget | null} target
 */
export function followExtra(target) {
  const isElsewhere = target instanceof Element && !target.closest(`.${CURRENT}`);
  if (isElsewhere && target !== find(".main")) leaveExtra();
}

/**
 * Press the option of a digit key in the marked question.
 * @param {KeyboardEvent} event
 * @returns {boolean} whether the key is a digit for the marked question, which need not have that option
 */
export function onExtraKey(event) {
  const digit = isShifted(event) ? null : digitOf(event, 9);
  if (!digit || !findAll(`.${CURRENT}`).length) return false;
  event.preventDefault();
  const option = findAll(`.${CURRENT} .option`)[digit - 1];
  if (option && isInSight(option, null)) option.click();
  return true;
}
