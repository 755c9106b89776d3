// The page's texts: they come with the study, in its language.
import { findAll, root } from "./dom.js";

/** @typedef {typeof import("../../languages/en.json")["page"]} Texts */
/** @typedef {{ [Name in keyof Texts]: Texts[Name] extends string ? Name : never }[keyof Texts]} TextName */

/** @type {Texts} */
export let texts;

/**
 * The text of this name with its {placeholders} replaced.
 * @param {TextName} name
 * @param {object} [values]
 */
export const t = (name, values = {}) => fill(texts[name], values);

/**
 * @param {string} text
 * @param {object} values
 */
export function fill(text, values) {
  const byName = new Map(Object.entries(values));
  return text.replace(/\{(\w+)\}/g, (placeholder, name) => String(byName.get(name) ?? placeholder));
}

/**
 * @param {string} language
 * @param {"ltr" | "rtl"} direction
 * @param {Texts} given
 */
export function setTexts(language, direction, given) {
  texts = given;
  document.documentElement.lang = language;
  root.lang = language;
  root.dir = direction;
  fillAll("text", (element, text) => (element.textContent = text));
  fillAll("label", (element, text) => element.setAttribute("aria-label", text));
  fillAll("title", (element, text) => (element.title = text));
  fillAll("alt", (element, text) => element.setAttribute("alt", text));
}

/**
 * @param {"text" | "label" | "title" | "alt"} kind
 * @param {(element: HTMLElement, text: string) => void} apply
 */
function fillAll(kind, apply) {
  for (const element of findAll(`[data-${kind}]`)) {
    apply(element, t(/** @type {TextName} */ (element.dataset[kind])));
  }
}
