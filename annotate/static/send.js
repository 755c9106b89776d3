// Talking to the server. The page moves on only with a stored revision in hand; whatever fails,
// nothing that was chosen is lost.
class Refusal extends Error {
  constructor(status, { error, handed_on: isHandedOn }) {
    super(error ?? String(status));
    Object.assign(this, { status, isHandedOn });
  }
}

async function ask(path, body) {
  const options = { headers: { Accept: "application/json" }, cache: "no-store", credentials: "same-origin" };
  if (body) {
    options.method = "POST";
    options.headers["Content-Type"] = "application/json";
    options.body = JSON.stringify(body);
  }
  const response = await fetch(`../${path}`, { ...options, signal: AbortSignal.timeout(20000) });
  const values = await response.json().catch(() => ({}));
  if (!response.ok) throw new Refusal(response.status, values);
  return values;
}

// One thing at a time: a second press while one is under way does nothing.
async function once(work, again) {
  if (state.busy) return;
  state.busy = true;
  root.classList.add("busy");
  try {
    await work();
  } catch (error) {
    await explain(error, again);
  } finally {
    state.busy = false;
    root.classList.remove("busy");
  }
}

async function explain(error, again) {
  if (!(error instanceof Refusal)) return notify(t("offline"), t("retry"), again);
  if (error.status === 401) return void (root.dataset.step = "lost");
  if (error.status >= 500) return notify(t("server_error"), t("retry"), again);
  if (![403, 409, 410].includes(error.status)) {
    return notify(t("refused", { reason: error.message }), t("retry"), again);
  }
  // The page shows what is no longer so: it is loaded anew, never written to another question.
  try {
    show(await ask("question"));
    if (error.isHandedOn) notify(t("question_reassigned"));
    else if (error.status !== 410) notify(t(error.status === 409 ? "answered_elsewhere" : "out_of_date"));
  } catch (second) {
    if (second instanceof Refusal) notify(t("refused", { reason: second.message }));
    else notify(t("offline"), t("retry"), again);
  }
}

function next() {
  if (root.dataset.step !== "question" || state.busy) return;
  if (lacking().length) return showLacking();
  const { view } = state;
  if (view.step === "practice") return showFeedback();
  if (view.earlier && !isChanged()) {
    const isLast = view.number === view.total || view.number + 1 === view.standing_at;
    return turnTo(isLast ? null : view.number + 1);
  }
  send({ answer: answerToSend() });
}

const skip = () => send({ skip: true });

function send(what) {
  const { view, submitKey } = state;
  const work = async () => {
    // A skip after a lost Next is another thing said: it must not pass for the same submit.
    const submit_key = what.skip ? `${submitKey}-skip` : submitKey;
    const body = { assignment: view.assignment, submit_key, ...what };
    const answer = await ask("submit", body);
    if (!Number.isInteger(answer.revision)) throw new Error("no acknowledgement");
    keep(view.assignment, null);
    show(answer.view);
  };
  once(work, () => (what.skip ? skip() : next()));
}

function turnTo(number) {
  keepDraft();
  const work = async () => show(await ask(number === null ? "question" : `question/${number}`));
  once(work, () => turnTo(number));
}

const back = () => state.view?.back && turnTo(state.view.back);
