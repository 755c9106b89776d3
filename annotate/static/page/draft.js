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
