// The question page: `start` sets up the Gradio component.
import { change, choose, countTime, markCurrent, resetAnswer, saveDraft } from "./answer.js";
import { keepAnswer } from "./confirmation.js";
import { closeReason, openGuidelines, toggleReason } from "./dialogs.js";
import { find, findAll, focusPage, root, setRoot } from "./dom.js";
import { followExtra } from "./extra_questions.js";
import { onMove, startHistory } from "./history.js";
import { markShown, onImagesChange } from "./images.js";
import { endTyping, isTextField, onKeyDown } from "./keyboard.js";
import { noteWholeText, showImageProgress } from "./question.js";
import { sendQuestionnaire } from "./questionnaire.js";
import { onConnected, onView } from "./server.js";
import { askToDecline, decline, finishPractice, reconsider, sendConsent, sendSum } from "./stages.js";
import { messagesClosed } from "./messages.js";
import { nextStep, restart } from "./preview.js";
import { listenToSearch } from "./search.js";
import { countSearchTime, noteSearchImages, saveSearch } from "./search_answer.js";
import { judgedView, resetState } from "./state.js";
import { back, goTo } from "./submit.js";
import { listenToText, noteText, onTextRead } from "./user_text.js";
import { next, open, show, skipQuestion, withCurrentTexts } from "./views.js";
import { confirmWithdrawal, openWithdrawal } from "./withdrawal.js";
import { pageZoom } from "./zoom.js";
import { onImageClick, toggleSize } from "./zoom_size.js";

/** @typedef {import("../protocol").Opening | import("../protocol").FailedOpening | null} OpeningValue */

let listeners = new AbortController();

/**
 * @param {HTMLElement} element the component
 * @param {{ value: OpeningValue }} props its properties
 * @param {(name: "value", callback: () => void) => void} watch calls back when a property changes
 */
export function start(element, props, watch) {
  listeners.abort(); // Gradio may rebuild the component: only the newest listens
  listeners = new AbortController();
  setRoot(element);
  resetState();
  resetAnswer();
  startHistory();
  onView(show, withCurrentTexts);
  onImagesChange(() => {
    showImageProgress();
    noteSearchImages();
  });
  onTextRead(noteWholeText);
  listenToText(listeners.signal);
  listenToButtons();
  listenToDialogs();
  listenToSearch(listeners.signal);
  const { signal } = listeners;
  root.addEventListener("change", onChange, { signal });
  root.addEventListener("click", onClick, { signal });
  document.addEventListener("keydown", onKeyDown, { signal });
  document.addEventListener("pointerdown", endTyping, { signal });
  document.addEventListener("focusin", onFocus, { signal });
  document.addEventListener("visibilitychange", countTime, { signal });
  document.addEventListener("visibilitychange", countSearchTime, { signal });
  document.addEventListener("visibilitychange", noteView, { signal });
  document.addEventListener("scroll", noteView, { signal, capture: true, passive: true });
  window.addEventListener("resize", noteView, { signal });
  window.addEventListener("pagehide", saveDraft, { signal });
  window.addEventListener("pagehide", saveSearch, { signal });
  window.addEventListener("popstate", onMove, { signal });
  window.addEventListener("online", onConnected, { signal });
  keepTicket();
  watch("value", () => open(props.value));
  open(props.value);
}

/** Keep the ticket of a page in a frame: with it, the participant may continue with another HIT. */
function keepTicket() {
  const ticket = /\/framed\/([^/]+)\//.exec(location.pathname)?.[1];
  try {
    if (ticket) localStorage.setItem("hsfiq.ticket", ticket);
  } catch {
    // The browser keeps nothing for frames.
  }
}

/** Note what can be seen now. */
function noteView() {
  markShown();
  if (judgedView()) noteText();
}

function listenToButtons() {
  onPress(".next", next);
  onPress(".back", back);
  onPress(".skip", skipQuestion);
  onPress(".go-back", back);
  onPress(".to-last", back);
  onPress(".try-again", () => goTo(null));
  onPress(".reason", toggleReason);
  onPress(".reason-close", closeReason);
  onPress(".agree", () => sendConsent(true));
  onPress(".decline", askToDecline);
  onPress(".leave", decline);
  onPress(".reconsider", reconsider);
  onPress(".begin", finishPractice);
  onPress(".keep", () => keepAnswer(next));
  onPress(".open-guidelines", openGuidelines);
  for (const button of findAll(".open-withdrawal")) {
    button.addEventListener("click", openWithdrawal, { signal: listeners.signal });
  }
  onPress(".confirm-withdrawal", confirmWithdrawal);
  onPress(".zoom .earlier", () => pageZoom(-1));
  onPress(".zoom .later", () => pageZoom(1));
  onPress(".full-size-button", toggleSize);
  onPress(".next-step", nextStep);
  onPress(".restart", restart);
  find(".zoom-stage").addEventListener("click", onImageClick, { signal: listeners.signal });
  onSubmit(".check", sendSum);
  onSubmit(".questionnaire", sendQuestionnaire);
  const reason = find("#hsfiq-reason", HTMLTextAreaElement);
  reason.oninput = () => change("reason", reason.value);
}

/**
 * @param {string} selector
 * @param {() => void} action
 */
function onPress(selector, action) {
  find(selector).addEventListener("click", action, { signal: listeners.signal });
}

/**
 * @param {string} selector of a form
 * @param {() => void} action
 */
function onSubmit(selector, action) {
  find(selector, HTMLFormElement).onsubmit = (event) => {
    event.preventDefault();
    action();
  };
}

function listenToDialogs() {
  find(".message").addEventListener("close", messagesClosed, { signal: listeners.signal });
  for (const dialog of findAll("dialog")) {
    if (!(dialog instanceof HTMLDialogElement)) continue;
    dialog.querySelector(".close")?.addEventListener("click", () => dialog.close());
    dialog.addEventListener("click", (event) => event.target === dialog && dialog.close());
    // This event follows shortly after the dialog has closed: the participant may already be typing.
    dialog.addEventListener("close", () => {
      if (!isTextField(document.activeElement)) focusPage();
      noteView();
    });
  }
}

/** @param {FocusEvent} event */
function onFocus({ target }) {
  markCurrent();
  followExtra(target);
}

/** @param {Event} event */
function onChange(event) {
  const input = event.target;
  if (!(input instanceof HTMLInputElement) || input.closest(".extra, .search")) return;
  if (input.type === "radio") {
    choose(input.name, Number(input.value));
  } else if (input.matches(".irrelevant")) {
    change("irrelevant", input.checked);
  }
}

/**
 * After a click the focus returns to the page, or Enter would press the same button again.
 * @param {MouseEvent} event
 */
function onClick(event) {
  const button = event.target instanceof Element ? event.target.closest("button") : null;
  const isMouse = event.detail > 0;
  if (button && isMouse && !button.closest("dialog, form") && find(".reason-panel").hidden) focusPage();
}
