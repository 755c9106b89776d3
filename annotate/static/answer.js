// The answer being given: what is chosen, what is lacking, and the time it takes. A draft of it
// outlives a reload of this tab.
const DRAFT = "hsfiq draft ";

function recall(name) {
  try { return JSON.parse(sessionStorage.getItem(DRAFT + name)); } catch { return null; }
}

function keep(name, value) {
  try {
    if (value === null) sessionStorage.removeItem(DRAFT + name);
    else sessionStorage.setItem(DRAFT + name, JSON.stringify(value));
  } catch { /* a browser without storage loses drafts on reload, nothing else */ }
}

function startAnswer(view) {
  const draft = recall(view.assignment) ?? {};
  const blank = { score_1: null, score_2: null, preferred: null, irrelevant: false, reason: "" };
  const saved = { ...blank, ...view.earlier };
  state.answer = { ...saved, ...draft.values };
  state.saved = saved;
  state.submitKey = draft.submitKey ?? newKey();
  state.clock = {
    active: draft.active ?? 0,
    first: draft.first ?? null,
    since: document.hidden ? null : Date.now(),
  };
  for (const field of root.querySelectorAll(".wanted")) field.classList.remove("wanted");
  fillInputs();
}

// Not randomUUID: that is missing where a study is served over plain http.
function newKey() {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return [...bytes].map((byte) => byte.toString(16).padStart(2, "0")).join("");
}

function fillInputs() {
  const { answer } = state;
  for (const field of ["score_1", "score_2", "preferred"]) {
    for (const input of root.querySelectorAll(`input[name="${field}"]`)) {
      input.checked = input.value === String(answer[field]);
    }
  }
  $(".irrelevant").checked = answer.irrelevant;
  if ($("#hsfiq-reason").value !== answer.reason) $("#hsfiq-reason").value = answer.reason;
  refresh();
}

function set(field, value) {
  if (root.dataset.step !== "question") return;
  if (state.busy) return fillInputs(); // what is being sent stays as it is
  state.answer[field] = value;
  state.clock.first ??= Date.now();
  $(`[data-field="${field}"]`)?.classList.remove("wanted");
  // What the server refused or missed was another answer: this one is sent under its own name.
  state.submitKey = newKey();
  keepDraft();
  fillInputs();
}

function refresh() {
  $(".next").setAttribute("aria-disabled", String(lacking().length > 0));
  const asked = state.view.reason_asked;
  const reason = state.answer.reason.trim() ? "reason_given" : asked ? "reason_required" : "reason";
  $(".reason-label").textContent = t(reason);
  $(".reason-why").textContent = t(asked ? "reason_prompt_required" : "reason_prompt");
  $(".reason").classList.toggle("asked", reason === "reason_required");
  if (lacking().length === 0 && state.lackShown) {
    state.lackShown = false;
    notify("");
  }
}

function lacking() {
  const fields = ["score_1", "score_2", "preferred"].filter((field) => state.answer[field] === null);
  const lacksReason = state.view.reason_asked && state.answer.reason.trim().length < state.study.shortest_reason;
  return lacksReason ? [...fields, "reason"] : fields;
}

function showLacking() {
  const fields = lacking();
  const names = {
    score_1: t("score_for", { set: setName(1) }),
    score_2: t("score_for", { set: setName(2) }),
    preferred: t("preference"),
    reason: t("a_reason", { shortest: state.study.shortest_reason }),
  };
  for (const field of fields) $(`[data-field="${field}"]`).classList.add("wanted");
  if (fields[0] === "reason" && $(".reason-panel").hidden) toggleReason();
  notify(t("still_missing", { items: fields.map((field) => names[field]).join(", ") }));
  state.lackShown = true;
  if (fields[0] !== "reason") $(".wanted").scrollIntoView({ block: "nearest" });
}

const isChanged = () =>
  Object.keys(state.saved).some((field) => state.saved[field] !== state.answer[field]);

function keepDraft() {
  if (root.dataset.step !== "question") return;
  const { answer: values, submitKey, clock } = state;
  keep(state.view.assignment, { values, submitKey, active: activeSeconds(), first: clock.first });
}

// Seconds on this question while the page was to be seen.
function activeSeconds() {
  const { active, since } = state.clock;
  return active + (since === null ? 0 : Math.max(0, (Date.now() - since) / 1000));
}

function pauseClock() {
  if (!state.clock) return;
  state.clock.active = activeSeconds();
  state.clock.since = document.hidden ? null : Date.now();
  if (document.hidden) keepDraft();
}

function answerToSend() {
  const { first } = state.clock;
  return {
    ...state.answer,
    reason: state.answer.reason.trim() || null,
    active_seconds: activeSeconds(),
    seconds_since_first_interaction: first === null ? null : Math.max(0, (Date.now() - first) / 1000),
  };
}
