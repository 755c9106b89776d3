// Watch: the keys, and how long ago the page was updated. J and K go to the next and the previous
// person while one is open, or else through the flagged and commented answers, where Enter opens
// one, N notes and D marks it as done. They do nothing while somebody types.

let shown = Date.now();
/** The answer that the keys are about, which a refreshed page keeps. */
let current = "";

const list = () => /** @type {HTMLElement[]} */ ([...document.querySelectorAll("#flags .comment")]);
const nameOf = (/** @type {HTMLElement} */ row) => row.dataset.key ?? "";

function mark(/** @type {string} */ name) {
  current = name;
  for (const row of list()) row.classList.toggle("on", nameOf(row) === name);
}

function go(/** @type {number} */ by) {
  const rows = list(), at = rows.findIndex((row) => nameOf(row) === current);
  const row = rows[Math.min(Math.max(at + by, 0), rows.length - 1)];
  if (!row) return;
  mark(nameOf(row));
  row.focus({ preventScroll: true });
  row.scrollIntoView({ block: "nearest" });
}

/** What the keys do for the marked answer. @type {Record<string, (row: HTMLElement) => void>} */
const KEYS = {
  Enter: (row) => row.querySelector("a")?.click(),
  n: (row) => {
    const details = row.querySelector("details");
    if (!details) return;
    details.open = true;
    details.querySelector("textarea")?.focus();
  },
  d: (row) => {
    const rows = list(), at = rows.indexOf(row), next = rows[at + 1] ?? rows[at - 1];
    /** @type {HTMLElement | null} */ (row.querySelector("button.done"))?.click();
    if (next) mark(nameOf(next));
  },
};

const isTyping = (/** @type {EventTarget | null} */ target) =>
  target instanceof Element && target.closest("input, textarea, select, [contenteditable]") !== null;
const isInList = () =>
  location.hash === "#flags" || Boolean(document.activeElement?.closest("#flags"));

/** J and K. */
function step(/** @type {number} */ by) {
  const beside = document.getElementById(by > 0 ? "after" : "before");
  if (beside && !isInList()) beside.click();
  else if (isInList() || !document.getElementById("h-person")) go(by);
}

/** The other keys; whether there is an answer that they are about. */
function perform(/** @type {string} */ key) {
  const row = list().find((each) => nameOf(each) === current);
  const isOnControl = document.activeElement?.matches("a, button, summary") ?? false;
  if (!row || !KEYS[key] || (key === "Enter" && isOnControl)) return false;
  KEYS[key]?.(row);
  return true;
}

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target)) return;
  const key = event.key.length === 1 ? event.key.toLowerCase() : event.key;
  const by = { j: 1, k: -1 }[key];
  if (by) step(by);
  if (by || perform(key)) event.preventDefault();
});
document.addEventListener("focusin", (event) => {
  const row = event.target instanceof Element ? event.target.closest("#flags .comment") : null;
  if (row instanceof HTMLElement) mark(nameOf(row));
});

document.addEventListener("studio:shown", () => {
  shown = Date.now();
  if (current) mark(current);
});
setInterval(() => {
  const age = document.getElementById("age"), seconds = Math.round((Date.now() - shown) / 1000);
  if (age?.dataset.shown) age.textContent = age.dataset.shown.replace("{n}", String(seconds));
}, 1000);
