// Keys and clicks, and the start of the page.
const life = new AbortController();
window.hsfiqPage?.abort(); // Gradio may build the component anew: only the newest listens
window.hsfiqPage = life;

const isWriting = (node) =>
  node instanceof HTMLTextAreaElement || (node instanceof HTMLInputElement && node.type === "text");

// The letter on the key as its cap says it, also under a layout without Latin letters.
const letterOf = (event) =>
  /^[a-z]$/i.test(event.key) ? event.key.toLowerCase() : event.code.replace(/^Key/, "").toLowerCase();

// A held key is one press: it neither answers again nor presses the button that has come up since.
function onRepeat(event) {
  const isPress = event.key === "Enter" || (event.key === " " && event.target instanceof HTMLButtonElement);
  if (isPress && !(event.target instanceof HTMLTextAreaElement)) event.preventDefault();
}

function onKey(event) {
  if (event.repeat) return onRepeat(event);
  if (event.isComposing || event.keyCode === 229) return;
  if (event.ctrlKey || event.altKey || event.metaKey) return;
  if ($(".zoom").open) return onZoomKey(event);
  if ($(".feedback").open) return;
  if ($(".guidelines").open) {
    // Its scrolling text holds the focus: Enter closes it as the button says.
    if (event.key === "Enter" && !(event.target instanceof HTMLButtonElement)) closeWith(event, ".guidelines");
    return;
  }
  if (event.key === "Escape") return closeReason();
  if (isWriting(event.target)) return;
  if (event.key === "?" && state.study) return take(event, openGuidelines);
  if (root.dataset.step === "question") onQuestionKey(event);
}

function take(event, action) {
  event.preventDefault();
  action();
}

function closeWith(event, dialog) {
  take(event, () => $(dialog).close());
}

function onQuestionKey(event) {
  const digit = /^Digit([1-5])$/.exec(event.code);
  if (digit) return take(event, () => set(event.shiftKey ? "score_2" : "score_1", Number(digit[1])));
  if (event.key === "Enter") {
    // On a button or a link Enter means what it means everywhere.
    if (!event.target.closest?.("button, a")) take(event, next);
    return;
  }
  if (event.shiftKey) return;
  const actions = {
    q: () => set("preferred", 1),
    w: () => set("preferred", 2),
    e: () => state.study.ties_allowed && set("preferred", 0),
    x: () => set("irrelevant", !state.answer.irrelevant),
    r: toggleReason,
    z: () => openZoom(1, 0),
    b: back,
  };
  const action = actions[letterOf(event)];
  if (action) take(event, action);
}

function onZoomKey(event) {
  const actions = {
    ArrowRight: () => pageZoom(1),
    ArrowLeft: () => pageZoom(-1),
    ArrowUp: turnZoom,
    ArrowDown: turnZoom,
    z: () => $(".zoom").close(),
  };
  const action = actions[event.key];
  if (action) take(event, action);
}

function onChange(event) {
  const input = event.target;
  if (input.type === "radio") set(input.name, Number(input.value));
  else if (input.matches(".irrelevant")) set("irrelevant", input.checked);
}

// After a click the focus goes back to the page, or Enter would press the same button again.
function onClick(event) {
  const button = event.target.closest("button");
  if (button && event.detail > 0 && !button.closest("dialog, form")) {
    if ($(".reason-panel").hidden) $(".main").focus({ preventScroll: true });
  }
}

function listen(selector, type, action) {
  $(selector).addEventListener(type, action, { signal: life.signal });
}

function start() {
  listen(".next", "click", next);
  listen(".back", "click", back);
  listen(".skip", "click", skip);
  listen(".go-back", "click", back);
  listen(".try-again", "click", () => turnTo(null));
  listen(".reason", "click", toggleReason);
  listen(".reason-close", "click", closeReason);
  listen(".agree", "click", () => decide(true));
  listen(".decline", "click", () => decide(false));
  listen(".begin", "click", begin);
  listen(".open-guidelines", "click", openGuidelines);
  listen(".check", "submit", sendSum);
  listen("#hsfiq-reason", "input", (event) => set("reason", event.target.value));
  listen(".zoom .earlier", "click", () => pageZoom(-1));
  listen(".zoom .later", "click", () => pageZoom(1));
  for (const dialog of root.querySelectorAll("dialog")) {
    dialog.querySelector(".close").addEventListener("click", () => dialog.close());
    dialog.addEventListener("click", (event) => event.target === dialog && dialog.close());
    // This comes a moment after the dialog is gone: by then somebody may already be writing.
    dialog.addEventListener("close", () => {
      if (!isWriting(document.activeElement)) $(".main").focus({ preventScroll: true });
    });
  }
  root.addEventListener("change", onChange, { signal: life.signal });
  root.addEventListener("click", onClick, { signal: life.signal });
  document.addEventListener("keydown", onKey, { signal: life.signal });
  document.addEventListener("visibilitychange", pauseClock, { signal: life.signal });
  window.addEventListener("pagehide", keepDraft, { signal: life.signal });
  watch("value", () => openWith(props.value));
  openWith(props.value);
}

start();
