// What stands before, between and behind the questions: consent, practice, sums, thanks.
function showConsent(view) {
  quietBar("", "");
  say(t("consent_title"));
  $(".consent-text").replaceChildren(...prose(view.text));
}

function decide(agrees) {
  once(async () => show(await ask("consent", { agrees })), () => decide(agrees));
}

function showPractice(view) {
  showQuestion(view);
  fillWhere(t("practice_position"));
  $(".count").textContent = t("practice");
  notify(t("practice_hint"), null, null, "info");
  if (!recall("guidelines")) openGuidelines();
}

// The answer to the practice question stays in this tab; what is right about it is told here.
function showFeedback() {
  const { view, answer } = state;
  const [better, other] = view.better === 1 ? ["score_1", "score_2"] : ["score_2", "score_1"];
  const fits = answer[better] > answer[other] && answer.preferred === view.better;
  const names = { set_1: setName(1), set_2: setName(2) };
  $(".feedback-title").textContent = t(fits ? "practice_correct" : "practice_incorrect");
  $(".feedback-text").replaceChildren(
    ...texts.practice_explanation.map((text) => make("p", "", fill(text, names))));
  $(".feedback").showModal();
  $(".feedback .begin").focus();
}

function begin() {
  $(".feedback").close();
  const work = async () => {
    const view = await ask("practice", {});
    keep("practice", null);
    show(view);
  };
  once(work, begin);
}

function showCheck(view) {
  fillWhere(t("check_title"));
  $(".count").textContent = t("count", { number: view.answered, total: view.total });
  $(".sum label").textContent = t("check_prompt", { sum: view.prompt });
  $("#hsfiq-sum").value = "";
  $(".sum-note").textContent = "";
  $("#hsfiq-sum").focus();
}

function sendSum(event) {
  event?.preventDefault();
  const given = $("#hsfiq-sum").value.trim();
  if (!given) return void ($(".sum-note").textContent = t("check_empty"));
  const work = async () => {
    const answer = await ask("check", { assignment: state.view.assignment, given });
    if (answer.passed) return show(answer.view);
    $(".sum-note").textContent = t("check_wrong");
    $("#hsfiq-sum").select();
    $("#hsfiq-sum").focus();
  };
  once(work, sendSum);
}

function showDone(view) {
  quietBar("", t("finished", view));
  const lines = [t(view.minutes ? "totals_time" : "totals", view)];
  if (view.passed_on) lines.push(t("some_reassigned"));
  $(".totals").textContent = lines.join(" ");
  $(".go-back").hidden = !view.back;
  fillCompletion($(".done .completion"), view);
  say([t("thanks"), ...lines].join(" "));
}

function showFarewell(view) {
  const [title, text] = texts.farewell[view.kind];
  quietBar("", view.answered ? t("finished", view) : "");
  $(".farewell-title").textContent = title;
  $(".farewell-text").textContent = text;
  $(".try-again").hidden = view.kind !== "paused";
  fillCompletion($(".farewell .completion"), view);
  say([title, text].join(" "));
}

// The code that a platform asks for, and the way back to it.
function fillCompletion(place, { code, url }) {
  const parts = [];
  if (code) {
    const line = make("p", "code");
    const copy = make("button", "button small", t("copy"));
    copy.type = "button";
    copy.addEventListener("click", async () => {
      try {
        await navigator.clipboard.writeText(code);
        copy.textContent = t("copied");
        say(t("copied"));
      } catch { /* without leave, the code can still be selected */ }
    });
    line.append(make("span", "label", t("completion_code")), make("strong", "", code), copy);
    parts.push(line);
  }
  if (url) {
    const line = make("p");
    const way = make("a", "button primary", t("finish"));
    way.href = url;
    way.rel = "noreferrer";
    line.append(way);
    parts.push(line);
  }
  place.replaceChildren(...parts);
}

function quietBar(where, count) {
  fillWhere(where);
  $(".count").textContent = count;
}
