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

function go(/** @type {number} */ step) {
  const rows = list(), at = rows.findIndex((row) => nameOf(row) === current);
  const row = rows[Math.min(Math.max(at + step, 0), rows.length - 1)];
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

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target)) return;
  const key = event.key.length === 1 ? event.key.toLowerCase() : event.key;
  const isInList = document.activeElement?.closest("#flags") ?? location.hash === "#flags";
  if (key === "j" || key === "k") {
    const person = isInList ? null : document.getElementById(key === "j" ? "after" : "before");
    if (person) person.click(); else if (isInList || !document.getElementById("h-person")) go(key === "j" ? 1 : -1);
    event.preventDefault();
    return;
  }
  const row = list().find((each) => nameOf(each) === current);
  const isOnControl = document.activeElement instanceof Element && document.activeElement.matches("a, button, summary");
  if (!row || (key === "Enter" && isOnControl)) return;
  const perform = KEYS[key];
  if (perform) { event.preventDefault(); perform(row); }
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
  const age = document.getElementById("age");
  if (age?.dataset.shown) age.textContent = age.dataset.shown.replace("{n}", String(Math.round((Date.now() - shown) / 1000)));
}, 1000);
