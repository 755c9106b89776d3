// Showing a view. All text from data goes in as text, never as HTML.
const root = element.querySelector(".page");
const $ = (selector) => root.querySelector(selector);
const state = { study: null, view: null, answer: null, busy: false };

function make(tag, className, text) {
  const node = document.createElement(tag);
  if (className) node.className = className;
  if (text !== undefined) node.textContent = text;
  return node;
}

const imageAddress = (token) => `../image/${token}`;
const setName = (side) => state.study.set_names[side - 1];

function openWith(opening) {
  if (!opening || state.study) return;
  if (opening.error) {
    $(".lost-text").textContent = opening.error;
    root.dataset.step = "lost";
    return;
  }
  state.study = opening.study;
  document.title = opening.study.title;
  $(".title").textContent = opening.study.title;
  $("#hsfiq-reason").maxLength = opening.study.longest_reason;
  fillGuidelines();
  buildSets();
  buildPreference();
  show(opening.view);
  if (opening.view.step === "question" && opening.view.answered === 0 && !recall("guidelines")) {
    openGuidelines();
  }
}

function show(view) {
  state.view = view;
  closeReason();
  say("");
  root.dataset.step = view.step;
  $(".progress").max = view.total;
  $(".progress").value = view.answered;
  ({ question: showQuestion, check: showCheck, done: showDone, paused: showPaused })[view.step](view);
  $(".back").disabled = !view.back;
  if (view.step !== "check") $(".main").focus({ preventScroll: true });
  window.scrollTo(0, 0);
}

function showQuestion(view) {
  const where = TEXT.where(view.number, view.total);
  $(".where").textContent = where;
  $(".count").textContent = `${view.number} / ${view.total}`;
  $(".count").title = where;
  $(".wish").textContent = view.text;
  $(".wish").classList.toggle("long", view.text.length > 140);
  $(".reference").replaceChildren(frame(view.reference, TEXT.original, 0, 0));
  for (const side of [1, 2]) {
    const images = view.sets[side - 1];
    const row = $(`.set[data-side="${side}"] .row`);
    row.style.setProperty("--k", images.length);
    row.scrollLeft = 0;
    row.replaceChildren(
      ...images.map((image, place) =>
        frame(image, TEXT.imageOf(place + 1, images.length, setName(side)), side, place)),
    );
  }
  const isMissing = [view.reference, ...view.sets.flat()].some((image) => image.missing);
  $(".skip").hidden = !isMissing;
  startAnswer(view);
  if (view.earlier) {
    const there = view.standing_at;
    notify(TEXT.revising(view.number), there ? TEXT.returnTo(there) : TEXT.returnToEnd, () => turnTo(null), "info");
  } else if (isMissing) {
    notify(TEXT.skippable, null, null, "info");
  }
  say(where);
  prefetch(view.next_images);
}

// A fixed box with one image: nothing moves when it arrives, nothing is cropped.
function frame(image, name, side, place) {
  if (image.missing) {
    const box = make("div", "frame missing", TEXT.missing);
    box.setAttribute("role", "img");
    box.setAttribute("aria-label", `${name}: ${TEXT.missing}`);
    return box;
  }
  const box = make("button", "frame");
  box.type = "button";
  box.setAttribute("aria-label", TEXT.enlarge(name));
  const picture = make("img");
  picture.alt = name;
  picture.decoding = "async";
  picture.draggable = false;
  picture.addEventListener("load", () => box.classList.remove("failed"));
  picture.addEventListener("error", () => {
    box.classList.add("failed");
    box.dataset.note = TEXT.failed;
  });
  picture.src = imageAddress(image.token);
  box.append(picture);
  box.addEventListener("click", () => {
    if (box.classList.contains("failed")) picture.src = imageAddress(image.token);
    else openZoom(side, place, box);
  });
  return box;
}

// Images of the following question wait in the browser's cache when Next is pressed.
function prefetch(tokens) {
  state.prefetched = tokens.map((token) => {
    const picture = new Image();
    picture.fetchPriority = "low";
    picture.src = imageAddress(token);
    return picture;
  });
}

function buildSets() {
  $(".sets").replaceChildren(...[1, 2].map((side) => {
    const card = make("article", "set");
    card.dataset.side = side;
    card.setAttribute("aria-label", setName(side));
    const head = make("h3");
    head.append(make("span", "", setName(side)), make("span", "label", TEXT.anyOrder),
      make("kbd", "", side === 1 ? "1 – 5" : "Shift 1 – 5"));
    card.append(head, make("div", "row"), likert(side));
    return card;
  }));
}

function likert(side) {
  const field = make("fieldset", "likert");
  field.dataset.field = `score_${side}`;
  const legend = make("legend", "", TEXT.howWell);
  legend.append(make("span", "sr", ` ${setName(side)}`));
  field.append(legend, ...TEXT.anchors.map((anchor, index) => {
    const option = choice(`score_${side}`, index + 1);
    option.append(make("b", "", String(index + 1)), make("span", "", anchor));
    return option;
  }));
  return field;
}

function buildPreference() {
  const picks = [[1, setName(1), "Q"], [2, setName(2), "W"]];
  if (state.study.ties_allowed) picks.push([0, TEXT.tie, "E"]);
  $(".picks").replaceChildren(...picks.map(([value, name, key]) => {
    const option = choice("preferred", value);
    option.append(make("span", "", name), make("kbd", "", key));
    return option;
  }));
}

function choice(name, value) {
  const option = make("label", "option");
  const input = make("input", "sr");
  Object.assign(input, { type: "radio", name, value: String(value) });
  option.append(input);
  return option;
}

function showCheck(view) {
  $(".where").textContent = TEXT.check;
  $(".count").textContent = `${view.answered} / ${view.total}`;
  $(".sum label").textContent = TEXT.prompt(view.prompt);
  $("#hsfiq-sum").value = "";
  $(".sum-note").textContent = "";
  $("#hsfiq-sum").focus();
}

function showDone(view) {
  $(".where").textContent = "";
  $(".count").textContent = TEXT.finished(view.total);
  $(".totals").textContent = TEXT.totals(view.answered, view.minutes);
  say(`${$(".done h2").textContent} ${$(".totals").textContent}`);
}

function showPaused(view) {
  const [title, text] = view.closed ? TEXT.closed : TEXT.paused;
  $(".where").textContent = "";
  $(".count").textContent = `${view.answered} / ${view.total}`;
  $(".paused-title").textContent = title;
  $(".paused-text").textContent = text;
  say(`${title}. ${text}`);
}

// One line above the buttons, spoken too, with at most one thing to do about it.
function notify(text, actionText, action, tone) {
  $(".notice").hidden = !text;
  $(".notice").classList.toggle("info", tone === "info");
  $(".notice-text").textContent = text;
  const button = $(".notice-action");
  button.hidden = !action;
  button.textContent = actionText ?? "";
  button.onclick = action ?? null;
  $(".live").textContent = text;
}

// Spoken only; clears what was shown.
function say(text) {
  if (!text) notify("");
  else $(".live").textContent = [text, $(".notice-text").textContent].join(" ").trim();
}
