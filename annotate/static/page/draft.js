// Drafts outlive a reload of this tab.
const PREFIX = "hsfiq draft ";

/**
 * @param {string} name
 * @returns {any} what was stored, null without a draft
 */
export function readDraft(name) {
  try {
    return JSON.parse(sessionStorage.getItem(PREFIX + name) ?? "null");
  } catch {
    return null;
  }
}

/**
 * @param {string} name
 * @param {unknown} value
 */
export function writeDraft(name, value) {
  ignoreErrors(() => sessionStorage.setItem(PREFIX + name, JSON.stringify(value)));
}

/** @param {string} name */
export function removeDraft(name) {
  ignoreErrors(() => sessionStorage.removeItem(PREFIX + name));
}

/** Remove all drafts of this tab. */
export function removeDrafts() {
  ignoreErrors(() => {
    const names = Object.keys(sessionStorage).filter((name) => name.startsWith(PREFIX));
    for (const name of names) sessionStorage.removeItem(name);
  });
}

/**
 * A random key for one press of a button that sends what is entered; `crypto.randomUUID` does not
 * exist on plain http.
 */
export function newKey() {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return [...bytes].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}

/**
 * Without storage, a browser loses drafts on reload and nothing else.
 * @param {() => void} action
 */
function ignoreErrors(action) {
  try {
    action();
  } catch {
    /* nothing to do */
  }
}
