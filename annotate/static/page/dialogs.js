// The guidelines and the box for the reason.
import { find, focusPage, make } from "./dom.js";
import { readDraft, writeDraft } from "./draft.js";
import { hasExtraQuestions } from "./extra_questions.js";
import { KEYS } from "./keys.js";
import { currentKind } from "./kinds.js";
import { currentStudy, judgedView } from "./state.js";
import { texts } from "./text.js";

const GUIDELINES_READ = "guidelines";

/**
 * Fill an element with guidelines or consent. The only HTML on this page: the server has reduced it
 * to harmless tags.
 * @param {HTMLElement} element
 * @param {string} html
 */
export function fillReading(element, html) {
  element.innerHTML = html;
  for (const part of element.querySelectorAll("h3, h4, h5, h6, p, li, th, td")) {
    if (part instanceof HTMLElement) part.dir = "auto";
  }
  for (const table of element.querySelectorAll("table")) {
    const box = make("div", "table-box");
    box.tabIndex = 0; // so that the keyboard can scroll a wide table
    table.replaceWith(box);
    box.append(table);
  }
}

export function fillGuidelines() {
  fillReading(find(".guidelines-text"), currentStudy().guidelines);
  const { irrelevant, reason, extra, zoom, full_size, next, back, guidelines } = KEYS;
  const kind = currentKind();
  const keys = {
    ...kind.shortcuts(),
    ...(kind.hasOwnPage ? {} : { irrelevant, reason }),
    ...(hasExtraQuestions() ? { extra } : {}),
    ...{ zoom, full_size },
    ...(kind.hasOwnPage ? {} : { next, back }),
    guidelines,
  };
  find(".shortcut-list").replaceChildren(
    ...Object.entries(keys).flatMap(([name, label]) => {
      const term = make("dt");
      term.append(make("kbd", "", label));
      const meaning = texts.shortcuts[/** @type {keyof typeof texts.shortcuts} */ (name)];
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
  find("#hsfiq-reason").focus({ preventScroll: true });
  for (const part of [".foot", ".reason-panel"]) find(part).scrollIntoView({ block: "nearest" });
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
