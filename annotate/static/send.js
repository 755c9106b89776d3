// Talking to the server. The page moves on only with a stored revision in hand; whatever fails,
// nothing that was chosen is lost.
class Refusal extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
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
  if (!response.ok) throw new Refusal(response.status, values.error ?? response.statusText);
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
  if (!(error instanceof Refusal)) return notify(TEXT.offline, TEXT.retry, again);
  if (error.status >= 500) return notify(TEXT.broken, TEXT.retry, again);
  if ([403, 409, 410].includes(error.status)) {
    try {
      show(await ask("question"));
      if (error.status !== 410) notify(error.status === 409 ? TEXT.elsewhere : TEXT.movedOn);
    } catch (second) {
      if (second instanceof Refusal) notify(TEXT.refused(second.message));
      else notify(TEXT.offline, TEXT.retry, again);
    }
    return;
  }
  notify(TEXT.refused(error.message), TEXT.retry, again);
}

function next() {
  if (root.dataset.step !== "question" || state.busy) return;
  if (lacking().length) return showLacking();
  const { view } = state;
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
    const body = { assignment: view.assignment, submit_key: submitKey, ...what };
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

function sendSum(event) {
  event?.preventDefault();
  const given = $("#hsfiq-sum").value.trim();
  if (!given) return void ($(".sum-note").textContent = TEXT.noSum);
  const work = async () => {
    const answer = await ask("check", { assignment: state.view.assignment, given });
    if (answer.passed) return show(answer.view);
    $(".sum-note").textContent = TEXT.wrong;
    $("#hsfiq-sum").select();
    $("#hsfiq-sum").focus();
  };
  once(work, sendSum);
}
