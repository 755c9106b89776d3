// The owner's extra questions: their controls, what is entered, and the answers that are sent.
import { make, makeButton } from "./dom.js";
import { radioOption } from "./controls.js";
import { t } from "./text.js";

/** @typedef {import("../protocol").ExtraQuestionView} ExtraQuestion */
/** @typedef {import("../protocol").ExtraAnswer} ExtraAnswer */

/**
 * What is entered, by the question's name: the number of an option, those of several, or a text.
 * @typedef {Record<string, number | number[] | string | null>} Entries
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
  t(question.type === "number" ? "a_number" : "extra_answer", question);

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
  if (!required) legend.append(make("span", "soft", ` ${t("optional")}`));
  group.append(legend);
  if (!options.length) {
    group.append(textField(question));
  } else {
    const list = make("div", "extra-options");
    list.append(...options.map((label, index) => optionOf(question, label, index + 1)));
    group.append(list);
  }
  group.addEventListener("input", () => enter(name, enteredIn(group, type)));
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
 * @param {ExtraQuestion["type"]} type
 * @returns {Entries[string]}
 */
function enteredIn(group, type) {
  const field = textFieldIn(group);
  if (field) return field.value;
  const chosen = [...group.querySelectorAll("input")].filter(({ checked }) => checked);
  const values = chosen.map(({ value }) => Number(value));
  return type === "choices" ? values : values[0] ?? null;
}

/**
 * Show what is entered.
 * @param {HTMLElement} container
 * @param {ExtraQuestion[]} questions
 * @param {Entries} entries
 */
export function fillExtraQuestions(container, questions, entries) {
  for (const { name } of questions) {
    const entry = entries[name] ?? null;
    const group = container.querySelector(`[data-field="${extraField(name)}"]`);
    if (group) fillGroup(group, entry);
  }
}

/**
 * @param {Element} group
 * @param {Entries[string]} entry
 */
function fillGroup(group, entry) {
  const field = textFieldIn(group);
  const text = String(entry ?? "");
  if (field && field.value !== text) field.value = text;
  for (const option of group.querySelectorAll("input")) {
    option.checked = [entry].flat().includes(Number(option.value));
  }
  const clear = group.querySelector(".clear");
  if (clear instanceof HTMLElement) clear.hidden = entry === null;
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
  const entries = questions.map(({ name, type }) => {
    const answer = answers[name] ?? null;
    return [name, type === "number" && answer !== null ? String(answer) : answer];
  });
  return Object.fromEntries(entries);
}

/**
 * The answer that is sent; null if there is none, NaN for a text that is no number.
 * @param {ExtraQuestion} question
 * @param {Entries} entries
 * @returns {ExtraAnswer}
 */
function answerOf({ name, type }, entries) {
  const entry = entries[name] ?? null;
  if (Array.isArray(entry)) return entry.length ? entry : null;
  if (typeof entry !== "string") return entry;
  const text = entry.trim();
  if (!text) return null;
  return type === "number" ? Number(text.replace(",", ".")) : text;
}

/**
 * The answers that are sent.
 * @param {ExtraQuestion[]} questions
 * @param {Entries} entries
 * @returns {Record<string, ExtraAnswer>}
 */
export const answersOf = (questions, entries) =>
  Object.fromEntries(questions.map((question) => [question.name, answerOf(question, entries)]));

/**
 * The fields that must still be answered, or whose answer is no number.
 * @param {ExtraQuestion[]} questions
 * @param {Entries} entries
 */
export function missingExtra(questions, entries) {
  const missing = questions.filter((question) => {
    const answer = answerOf(question, entries);
    return answer === null ? question.required : typeof answer === "number" && !Number.isFinite(answer);
  });
  return missing.map(({ name }) => extraField(name));
}
