// Finding and making elements. Text from data is set as text, never as HTML.

/** The page's outermost element. @type {HTMLElement} */
export let root;

/** @param {HTMLElement} element the component that holds the page */
export function setRoot(element) {
  root = /** @type {HTMLElement} */ (element.querySelector(".page"));
}

/**
 * The first element on the page that matches the selector.
 * @template {HTMLElement} [T=HTMLElement]
 * @param {string} selector
 * @param {new () => T} [type]
 * @returns {T}
 */
export function find(selector, type) {
  const element = root.querySelector(selector);
  if (!(element instanceof (type ?? HTMLElement))) throw new Error(`no ${selector} on the page`);
  return /** @type {T} */ (element);
}

/**
 * @param {string} selector
 * @returns {NodeListOf<HTMLElement>}
 */
export const findAll = (selector) => root.querySelectorAll(selector);

/**
 * @template {keyof HTMLElementTagNameMap} Tag
 * @param {Tag} tag
 * @param {string} [className]
 * @param {string} [text]
 * @returns {HTMLElementTagNameMap[Tag]}
 */
export function make(tag, className, text) {
  const element = document.createElement(tag);
  if (className) element.className = className;
  if (text !== undefined) element.textContent = text;
  return element;
}

/**
 * Change a text. The same text again would make the browser lay out the page again.
 * @param {HTMLElement} element
 * @param {string} text
 */
export function setText(element, text) {
  if (element.textContent !== text) element.textContent = text;
}

/**
 * @param {string} className
 * @param {string} [text]
 */
export function makeButton(className, text) {
  const button = make("button", className, text);
  button.type = "button";
  return button;
}

/**
 * The label of a radio button.
 * @param {string} name
 * @param {number} value
 */
export const optionOf = (name, value) => find(`label:has(> input[name="${name}"][value="${value}"])`);

/** Move the focus to the page itself, so that Enter presses no button. */
export const focusPage = () => find(".main").focus({ preventScroll: true });

/**
 * Show whether an element has more text below, and let the keyboard reach it if it scrolls; also
 * after it has scrolled, or changed its size.
 * @param {HTMLElement} element
 */
export function markScrolling(element) {
  showScrolling(element);
  element.onscroll = () => showScrolling(element);
  resized.observe(element);
}

/** @param {HTMLElement} element */
function showScrolling(element) {
  const { scrollHeight, clientHeight, scrollTop } = element;
  element.tabIndex = scrollHeight > clientHeight + 1 ? 0 : -1;
  element.classList.toggle("cut", scrollHeight - clientHeight - scrollTop > 1);
}

const resized = new ResizeObserver((entries) => {
  for (const { target } of entries) if (target instanceof HTMLElement) showScrolling(target);
});
