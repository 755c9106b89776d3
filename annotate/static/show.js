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
    speak(opening.language, opening.texts);
    root.dataset.step = "lost";
    return;
  }
  state.study = opening.study;
  speak(opening.study.language, opening.texts);
  document.title = opening.study.title;
  $(".title").textContent = opening.study.title;
  $("#hsfiq-reason").maxLength = opening.study.longest_reason;
  fillGuidelines();
  buildSets();
  buildPreference();
  show(opening.view);
}

const STEPS = {
  consent: showConsent,
  practice: showPractice,
  question: showQuestion,
  check: showCheck,
  done: showDone,
  farewell: showFarewell,
};

function show(view) {
  state.view = view;
  closeReason();
  say("");
  root.dataset.step = view.step === "practice" ? "question" : view.step;
  root.dataset.view = view.step;
  $(".progress").max = view.total || 1;
  $(".progress").value = view.answered;
  $(".time-left").textContent = view.minutes_left ? t("time_left", { minutes: view.minutes_left }) : "";
  if (view.step !== "check") $(".main").focus({ preventScroll: true });
  STEPS[view.step](view);
  $(".back").disabled = !view.back;
  window.scrollTo(0, 0);
}

function showQuestion(view) {
  const where = t("position", view);
  fillWhere(where);
  $(".count").textContent = t("count", view);
  $(".wish").textContent = view.text;
  $(".wish").classList.toggle("long", view.text.length > 140);
  $(".wish").scrollTop = 0;
  $(".reference").replaceChildren(frame(view.reference, t("original"), 0, 0));
  for (const side of [1, 2]) {
    const images = view.sets[side - 1];
    const row = $(`.set[data-side="${side}"] .row`);
    row.style.setProperty("--k", images.length);
    row.scrollLeft = 0;
    row.replaceChildren(
      ...images.map((image, place) =>
        frame(image, imageName(place, images.length, side), side, place)),
    );
  }
  const isMissing = [view.reference, ...view.sets.flat()].some((image) => image.missing);
  $(".skip").hidden = !isMissing;
  startAnswer(view);
  if (view.earlier) {
    const there = view.standing_at;
    const label = there ? t("return_to", { number: there }) : t("return_to_end");
    notify(t("revising", view), label, () => turnTo(null), "info");
  } else if (isMissing) {
    notify(t("skippable"), null, null, "info");
  } else if (view.reason_asked) {
    notify(t("reason_asked"), null, null, "info");
  }
  say(where);
  reachable($(".wish"));
  prefetch(view.next_images);
}

// A text too long for its place scrolls, by keyboard too.
function reachable(node) {
  node.tabIndex = -1;
  if (node.scrollHeight > node.clientHeight + 1) node.tabIndex = 0;
}

// The heading that says where one is, for those who hear the page.
function fillWhere(text) {
  $(".where").textContent = text;
  $(".where").hidden = !text;
}

const imageName = (place, total, side) =>
  t("image_of", { number: place + 1, total, set: setName(side) });

// A fixed box with one image: nothing moves when it arrives, nothing is cropped.
function frame(image, name, side, place) {
  if (image.missing) {
    const box = make("div", "frame missing", t("image_missing"));
    box.setAttribute("role", "img");
    box.setAttribute("aria-label", `${name}: ${t("image_missing")}`);
    return box;
  }
  const box = make("button", "frame");
  box.type = "button";
  box.setAttribute("aria-label", t("enlarge", { name }));
  const picture = make("img");
  picture.alt = name;
  picture.decoding = "async";
  picture.draggable = false;
  picture.addEventListener("load", () => box.classList.remove("failed"));
  picture.addEventListener("error", () => {
    box.classList.add("failed");
    box.dataset.note = t("image_failed");
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
    head.append(make("span", "", setName(side)), make("span", "label", t("any_order")),
      make("kbd", "", side === 1 ? "1 – 5" : "Shift 1 – 5"));
    card.append(head, make("div", "row"), likert(side));
    return card;
  }));
}

function likert(side) {
  const field = make("fieldset", "likert");
  field.dataset.field = `score_${side}`;
  const legend = make("legend", "", t("how_well"));
  legend.append(make("span", "sr", ` ${setName(side)}`));
  field.append(legend, ...texts.anchors.map((anchor, index) => {
    const option = choice(`score_${side}`, index + 1);
    option.append(make("b", "", String(index + 1)), make("span", "", anchor));
    return option;
  }));
  return field;
}

function buildPreference() {
  const picks = [[1, setName(1), "Q"], [2, setName(2), "W"]];
  if (state.study.ties_allowed) picks.push([0, t("tie"), "E"]);
  $(".picks").replaceChildren(...picks.map(([value, name, key]) => {
    const option = choice("preferred", value);
    option.title = name;
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
