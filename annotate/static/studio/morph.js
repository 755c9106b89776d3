// Makes one tree of elements equal to another and keeps what has not changed: the focus, what is
// being typed, the position of scrolled elements, open dialogs.

/** @typedef {HTMLInputElement | HTMLSelectElement | HTMLTextAreaElement} Field */

/** Makes `old` like `fresh`. Elements are paired by their id or data-key, or else by their order. */
export function morph(/** @type {Element} */ old, /** @type {Element} */ fresh) {
  if (old.isEqualNode(fresh) && !isField(old)) return;
  attributes(old, fresh);
  if (isField(old)) value(old, /** @type {Field} */ (fresh));
  if (fresh.hasAttribute("data-keep-children") || old.tagName === "TEXTAREA") return;
  children(old, fresh);
}

const isField = (/** @type {Element} */ element) =>
  element.tagName === "INPUT" || element.tagName === "SELECT" || element.tagName === "TEXTAREA";

/** What the browser has changed on its own. */
const OWN = new Set(["open", "data-busy"]);

function attributes(/** @type {Element} */ old, /** @type {Element} */ fresh) {
  for (const { name, value: now } of fresh.attributes) {
    if (!OWN.has(name) && old.getAttribute(name) !== now) old.setAttribute(name, now);
  }
  for (const { name } of [...old.attributes]) {
    if (!OWN.has(name) && !fresh.hasAttribute(name)) old.removeAttribute(name);
  }
}

/** Whether somebody has typed in a field since the page was made. */
export const isChanged = (/** @type {HTMLInputElement | HTMLTextAreaElement} */ field) =>
  field.value !== field.defaultValue;

/** Whether a text of a form was typed and not sent yet. */
const isUnsent = (/** @type {Element} */ field) =>
  (field instanceof HTMLTextAreaElement || field instanceof HTMLInputElement)
  && field.matches("form[data-act] :is(textarea, input[type=text])") && isChanged(field);

const isKept = (/** @type {Element} */ field) =>
  document.activeElement === field || field.hasAttribute("data-own") || isUnsent(field);

/** Fields show what is stored, except the one that somebody is in, those that are data-own, and
 * unsent texts. */
function value(/** @type {Element} */ old, /** @type {Field} */ fresh) {
  if (isKept(old)) return;
  if (old instanceof HTMLInputElement && fresh.tagName === "INPUT") {
    old.checked = /** @type {HTMLInputElement} */ (fresh).checked;
    if (old.type !== "file" && old.value !== fresh.value) old.value = fresh.value;
  } else if (old instanceof HTMLTextAreaElement && old.value !== fresh.value) {
    old.defaultValue = old.value = fresh.value;
  } else if (old instanceof HTMLSelectElement) {
    requestAnimationFrame(() => { old.value = fresh.value; });
  }
}

const keyOf = (/** @type {Node} */ node) =>
  node instanceof Element ? node.id || node.getAttribute("data-key") || "" : "";

function children(/** @type {Element} */ old, /** @type {Element} */ fresh) {
  const named = [...old.children].filter((child) => keyOf(child));
  const keyed = new Map(named.map((child) => [keyOf(child), child]));
  let at = old.firstChild;
  for (const wanted of [...fresh.childNodes]) {
    const match = partner(at, wanted, keyed);
    if (match === null) {
      old.insertBefore(document.importNode(wanted, true), at);
      continue;
    }
    if (match !== at) old.insertBefore(match, at);
    else at = at?.nextSibling ?? null;
    if (match instanceof Element) morph(match, /** @type {Element} */ (wanted));
    else if (match.nodeValue !== wanted.nodeValue) match.nodeValue = wanted.nodeValue;
  }
  while (at) {
    const next = at.nextSibling;
    at.remove();
    at = next;
  }
}

/** The old node that becomes the wanted one; null if there is none. */
function partner(
  /** @type {ChildNode | null} */ at, /** @type {Node} */ wanted, /** @type {Map<string, Element>} */ keyed,
) {
  const key = keyOf(wanted);
  if (key) {
    const same = keyed.get(key);
    return same && same.nodeName === wanted.nodeName ? same : null;
  }
  return at && at.nodeName === wanted.nodeName && !keyOf(at) ? at : null;
}
