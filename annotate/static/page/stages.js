// The steps around the questions: consent, practice, arithmetic checks, thanks.
import { currentAnswer } from "./answer.js";
import { fillReading, openGuidelinesOnce } from "./dialogs.js";
import { find, make, makeButton } from "./dom.js";
import { removeDraft } from "./draft.js";
import { currentKind } from "./kinds.js";
import { announce } from "./notice.js";
import { showJudged, showPosition } from "./question.js";
import { ask, showReply } from "./server.js";
import { currentStudy, currentView } from "./state.js";
import { t, texts } from "./text.js";

/** @typedef {import("../protocol").Completion} Completion */

/** After so many answers to the practice question, the others can be started in any case. */
const MOST_ATTEMPTS = 3;
let attempts = 0;

/** The farewells of people who did what they were asked. */
const PAID = ["closed", "handed-on"];

/** @param {import("../protocol").ConsentView} view */
export function showConsent(view) {
  showHeader("", "");
  announce(t("consent_title"));
  fillReading(find(".consent-text"), view.text);
}

/** @param {boolean} agrees */
export function sendConsent(agrees) {
  showReply(() => ask("consent", { agrees }), () => sendConsent(agrees));
}

/** One tap beside "I agree" does not decline. */
export function askToDecline() {
  find(".declining", HTMLDialogElement).showModal();
  find(".declining .close").focus();
}

export function decline() {
  find(".declining", HTMLDialogElement).close();
  sendConsent(false);
}

/** Back to the consent page, for somebody who has declined. */
export function reconsider() {
  showReply(() => ask("reconsider", {}), reconsider);
}

/** @param {import("../protocol").PracticeView} view */
export function showPractice(view) {
  attempts = 0;
  find(".count").textContent = t("practice");
  showJudged(view, t("practice_position"));
  announce(t("practice_position"));
  openGuidelinesOnce();
}

/**
 * Explain the practice question; its answer is not sent.
 * @param {import("../protocol").PracticeView} view
 */
export function showFeedback(view) {
  const isExpected = currentKind().isExpected(currentAnswer().chosen, view.expected);
  find(".feedback-title").textContent = t(isExpected ? "practice_correct" : "practice_incorrect");
  attempts += 1;
  const mayBegin = isExpected || attempts >= MOST_ATTEMPTS;
  const explanation = [...view.explanation, ...(mayBegin ? [] : [t("practice_try_again")])];
  find(".feedback-text").replaceChildren(...explanation.map((text) => make("p", "", text)));
  find(".feedback .begin").hidden = !mayBegin;
  find(".feedback .close").classList.toggle("primary", !mayBegin);
  find(".feedback", HTMLDialogElement).showModal();
  find(mayBegin ? ".feedback .begin" : ".feedback .close").focus();
}

export function finishPractice() {
  find(".feedback", HTMLDialogElement).close();
  showReply(async () => {
    const view = await ask("practice", {});
    removeDraft("practice");
    return view;
  }, finishPractice);
}

/** @param {import("../protocol").CheckView} view */
export function showCheck(view) {
  showHeader(t("check_title"), t("count", { number: view.answered, total: view.total }));
  find(".sum label").textContent = t("check_prompt", { sum: view.prompt });
  find(".sum-note").textContent = "";
  const input = sumInput();
  input.value = "";
  input.focus();
}

const sumInput = () => find("#hsfiq-sum", HTMLInputElement);

export function sendSum() {
  const view = currentView();
  if (view?.step !== "check") return;
  const given = sumInput().value.trim();
  if (!given) {
    find(".sum-note").textContent = t("check_empty");
    return;
  }
  showReply(async () => {
    /** @type {import("../protocol").CheckReply} */
    const reply = await ask("check", { assignment: view.assignment, given });
    if (reply.passed) return reply.view;
    find(".sum-note").textContent = t("check_wrong");
    sumInput().select();
    sumInput().focus();
    return null;
  }, sendSum);
}

/** @param {import("../protocol").DoneView} view */
export function showDone(view) {
  showHeader("", t("finished", view));
  const lines = [t(view.minutes ? "totals_time" : "totals", view)];
  if (view.passed_on) lines.push(t("some_reassigned"));
  const totals = lines.join(" ");
  find(".totals").textContent = totals;
  find(".stored").hidden = Boolean(view.hit);
  find(".stored").textContent = [t("stored"), ...(isLastStepLeft(view) ? [] : [t("may_close")])].join(" ");
  find(".go-back").hidden = !view.back;
  fillCompletion(find(".done .completion"), view);
  announce([t("thanks"), totals, addLastStep(find(".done .completion"), view)].join(" ").trim());
}

/**
 * Whether somebody who has answered everything has to do one more thing to be paid.
 * @param {Completion} completion
 */
const isLastStepLeft = ({ code, url }) => Boolean(code || url);

/**
 * Say above the code and the link what they are for.
 * @param {HTMLElement} container
 * @param {Completion} completion
 */
function addLastStep(container, { code, url }) {
  if (!code && !url) return "";
  const name = code && url ? "last_step_both" : url ? "last_step_link" : "last_step_code";
  const text = t(name, { button: t("finish") });
  container.prepend(make("p", "last-step", text));
  return text;
}

/** @param {import("../protocol").FarewellView} view */
export function showFarewell(view) {
  const [title = "", text = ""] = texts.farewell[view.kind];
  showHeader("", view.answered ? t("finished", view) : "");
  find(".farewell-title").textContent = title;
  find(".farewell-text").textContent = text;
  find(".try-again").hidden = !["paused", "checks-paused"].includes(view.kind);
  find(".reconsider").hidden = !view.may_reconsider || currentStudy().is_preview;
  const completion = find(".farewell .completion");
  fillCompletion(completion, view);
  const lastStep = PAID.includes(view.kind) ? addLastStep(completion, view) : "";
  announce(`${title} ${text} ${lastStep}`.trim());
}

/**
 * The code that a recruitment platform asks for, and the link back to it; or a HIT's form.
 * @param {HTMLElement} container
 * @param {Completion} completion
 */
function fillCompletion(container, { code, url, hit }) {
  if (hit) return container.replaceChildren(make("p", "soft", t("send_hit_note")), hitForm(hit));
  if (hit === null) return container.replaceChildren(make("p", "soft", t("return_hit")));
  container.replaceChildren(...(code ? [codeLine(code)] : []), ...(url ? [finishLine(url)] : []));
}

/** @param {string} code */
function codeLine(code) {
  const line = make("p", "code");
  const copy = makeButton("button small", t("copy"));
  copy.addEventListener("click", async () => {
    try {
      await navigator.clipboard.writeText(code);
      copy.textContent = t("copied");
      announce(t("copied"));
    } catch {
      /* without permission, the code can still be selected */
    }
  });
  line.append(make("span", "label", t("completion_code")), make("strong", "", code), copy);
  return line;
}

/** @param {import("../protocol").HitForm} hit */
function hitForm({ action, fields }) {
  const form = make("form");
  form.method = "post";
  form.action = action;
  for (const [name, value] of Object.entries(fields)) {
    const field = make("input");
    field.type = "hidden";
    field.name = name;
    field.value = value;
    form.append(field);
  }
  const send = makeButton("button primary", t("send_hit"));
  send.type = "submit";
  form.append(send);
  return form;
}

/** @param {string} url */
function finishLine(url) {
  const line = make("p");
  const link = make("a", "button primary", t("finish"));
  link.href = url;
  link.rel = "noreferrer";
  line.append(link);
  return line;
}

/**
 * @param {string} position
 * @param {string} count
 */
export function showHeader(position, count) {
  showPosition(position);
  find(".count").textContent = count;
}
