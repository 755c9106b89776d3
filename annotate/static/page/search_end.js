// The questions after a search: how it went, and why it was stopped.
import { radioOption } from "./controls.js";
import { find, findAll, make } from "./dom.js";
import { announce, notifyMissing, updateMissing } from "./notice.js";
import { currentSearch, enter, WHYS } from "./search_answer.js";
import { fillLikert } from "./search_parts.js";
import { sendJudgement } from "./search_requests.js";
import { t, texts } from "./text.js";

/** @typedef {"success" | "ease" | "go_on" | "why"} Field */

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
    const input = value && root(field).querySelector(`input[value="${value}"]`);
    if (input instanceof HTMLInputElement) input.checked = true;
  }
  find("#hsfiq-search-remark", HTMLTextAreaElement).value = entered.remark;
  announce(t("search_ended"));
}

/** @param {string} field */
const root = (field) => find(`.search-questions [data-field="${field}"]`);

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
  find(".search-end").addEventListener("change", onChange, { signal });
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
function onChange(event) {
  const input = event.target;
  if (!(input instanceof HTMLInputElement)) return;
  input.closest("fieldset")?.classList.remove("unanswered");
  enter({ [input.name.replace("search_", "")]: Number(input.value) });
  updateMissing(stillMissing(missingFields()));
}

function missingFields() {
  const { view, entered } = currentSearch();
  return fieldsOf(view).filter((field) => !entered[field]);
}

/**
 * One question is named; of several, only the number would be read.
 * @param {Field[]} fields
 */
function stillMissing(fields) {
  const [first, ...others] = fields;
  if (!first) return "";
  if (others.length) return t("answer_highlighted", { count: fields.length });
  return t("search_still_missing", { items: root(first).querySelector("legend")?.textContent ?? "" });
}

function sendEnd() {
  const missing = missingFields();
  for (const fieldset of findAll(".search-questions fieldset")) {
    fieldset.classList.toggle("unanswered", missing.some((field) => field === fieldset.dataset.field));
  }
  if (!missing.length) return sendJudgement();
  notifyMissing(stillMissing(missing));
  root(missing[0] ?? "success").querySelector("input")?.focus();
}
