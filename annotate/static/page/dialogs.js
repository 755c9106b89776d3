// The guidelines and the box for the reason.
import { find, focusPage, make } from "./dom.js";
import { readDraft, writeDraft } from "./draft.js";
import { KEYS, scoreKeys } from "./keys.js";
import { currentStudy, judgedView } from "./state.js";
import { texts } from "./text.js";

/** @typedef {import("../protocol").TextBlock} TextBlock */

const TAGS = /** @type {const} */ ({ heading: "h3", paragraph: "p", list: "ul", steps: "ol" });
const GUIDELINES_READ = "guidelines";

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
  const keys = {
    score_1: scoreKeys(1),
    score_2: scoreKeys(2),
    prefer: `${KEYS.prefer_1}   ${KEYS.prefer_2}`,
    ...(ties_allowed && { tie: KEYS.tie }),
    irrelevant: KEYS.irrelevant,
    reason: KEYS.reason,
    zoom: KEYS.zoom,
    next: KEYS.next,
    back: KEYS.back,
    guidelines: KEYS.guidelines,
  };
  find(".shortcut-list").replaceChildren(
    ...Object.entries(keys).flatMap(([name, label]) => {
      const term = make("dt");
      term.append(make("kbd", "", label));
      const meaning = texts.shortcuts[/** @type {keyof typeof keys & keyof typeof texts.shortcuts} */ (name)];
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
