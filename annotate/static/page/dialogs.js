// The guidelines and the box for the reason.
import { find, focusPage, make } from "./dom.js";
import { readDraft, writeDraft } from "./draft.js";
import { currentStudy, judgedView } from "./state.js";
import { texts } from "./text.js";

/** @typedef {import("../protocol").TextBlock} TextBlock */

const TAGS = /** @type {const} */ ({ heading: "h3", paragraph: "p", list: "ul", steps: "ol" });
const GUIDELINES_READ = "guidelines";
/** Index in the list of shortcuts at which the one for ties belongs. */
const TIE_INDEX = 3;

/** @param {TextBlock[]} blocks */
export function textElements(blocks) {
  return blocks.map(({ kind, lines }) => {
    const element = make(TAGS[kind]);
    element.dir = "auto";
    const isList = kind === "list" || kind === "steps";
    element.append(...lines.map((line) => (isList ? make("li", "", line) : line)));
    return element;
  });
}

export function fillGuidelines() {
  const { guidelines, ties_allowed } = currentStudy();
  find(".guidelines-text").replaceChildren(...textElements(guidelines));
  const shortcuts = [...texts.shortcuts];
  if (ties_allowed) shortcuts.splice(TIE_INDEX, 0, texts.shortcut_tie);
  find(".shortcut-list").replaceChildren(
    ...shortcuts.flatMap(([keys, meaning]) => {
      const term = make("dt");
      term.append(make("kbd", "", keys));
      return [term, make("dd", "", meaning)];
    }),
  );
}

export function openGuidelines() {
  closeReason();
  const dialog = find(".guidelines", HTMLDialogElement);
  dialog.showModal();
  find(".guidelines-text").focus({ preventScroll: true });
  dialog.scrollTop = 0;
  writeDraft(GUIDELINES_READ, true);
}

/** Open the guidelines if this tab has not shown them yet. */
export function openGuidelinesOnce() {
  if (!readDraft(GUIDELINES_READ)) openGuidelines();
}

export function openReason() {
  if (!judgedView()) return;
  find(".reason-panel").hidden = false;
  find(".reason").setAttribute("aria-expanded", "true");
  find("#hsfiq-reason").focus();
}

export function closeReason() {
  const panel = find(".reason-panel");
  if (panel.hidden) return;
  panel.hidden = true;
  find(".reason").setAttribute("aria-expanded", "false");
  focusPage();
}

export function toggleReason() {
  if (find(".reason-panel").hidden) openReason();
  else closeReason();
}
