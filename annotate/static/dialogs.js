// Guidelines, the reason box, and the enlarged images.
function prose(blocks) {
  const tags = { heading: "h3", paragraph: "p", list: "ul", steps: "ol" };
  return blocks.map(({ kind, lines }) => {
    const node = make(tags[kind]);
    node.dir = "auto";
    if (kind === "list" || kind === "steps") node.append(...lines.map((line) => make("li", "", line)));
    else node.textContent = lines[0];
    return node;
  });
}

function fillGuidelines() {
  $(".guidelines-text").replaceChildren(...prose(state.study.guidelines));
  const keys = [...texts.shortcuts];
  if (state.study.ties_allowed) keys.splice(3, 0, texts.shortcut_tie);
  $(".key-list").replaceChildren(...keys.flatMap(([names, meaning]) => {
    const term = make("dt");
    term.append(make("kbd", "", names));
    return [term, make("dd", "", meaning)];
  }));
}

function openGuidelines() {
  closeReason();
  $(".guidelines").showModal();
  $(".guidelines-text").focus({ preventScroll: true });
  $(".guidelines").scrollTop = 0;
  keep("guidelines", true);
}

function toggleReason() {
  if (root.dataset.step !== "question") return;
  if (!$(".reason-panel").hidden) return closeReason();
  $(".reason-panel").hidden = false;
  $(".reason").setAttribute("aria-expanded", "true");
  $("#hsfiq-reason").focus();
}

function closeReason() {
  if ($(".reason-panel").hidden) return;
  $(".reason-panel").hidden = true;
  $(".reason").setAttribute("aria-expanded", "false");
  $(".main").focus({ preventScroll: true });
}

// ------------------------------------------------------------------------------------- zoom
const zoom = { side: 1, place: 0 };

// The images that the viewer pages through: one set, or the reference alone (side 0).
const zoomImages = () => (zoom.side === 0 ? [state.view.reference] : state.view.sets[zoom.side - 1]);

function openZoom(side, place) {
  Object.assign(zoom, { side, place });
  $(".zoom-reference").hidden = side === 0;
  if (!state.view.reference.missing) showFull($(".zoom-reference img"), state.view.reference.token);
  fillStrip();
  pageZoom(0);
  if (!$(".zoom").open) {
    $(".zoom").showModal();
    $(".zoom .close").focus();
  }
  reachable($(".zoom-title"));
}

// The thumbnail is there at once; the full picture takes its place when it has come.
function showFull(picture, token) {
  picture.dataset.token = token;
  picture.src = imageAddress(token);
  const full = new Image();
  full.addEventListener("load", () => {
    if (picture.dataset.token === token) picture.src = full.src;
  });
  full.src = `${imageAddress(token)}/full`;
}

function fillStrip() {
  const images = zoomImages();
  $(".zoom-strip").replaceChildren(...(images.length < 2 ? [] : images.map((image, place) => {
    const button = make("button", "thumb");
    button.type = "button";
    button.setAttribute("aria-label", imageName(place, images.length, zoom.side));
    if (!image.missing) {
      const picture = make("img");
      picture.alt = "";
      picture.src = imageAddress(image.token);
      button.append(picture);
    }
    button.addEventListener("click", () => pageZoom(place - zoom.place));
    return button;
  })));
  for (const arrow of [".zoom .earlier", ".zoom .later"]) $(arrow).hidden = images.length < 2;
}

function pageZoom(step) {
  const images = zoomImages();
  zoom.place = (zoom.place + step + images.length) % images.length;
  const image = images[zoom.place];
  const name = zoom.side === 0
    ? t("original")
    : imageName(zoom.place, images.length, zoom.side);
  const picture = $(".zoom-image img");
  picture.hidden = image.missing;
  if (!image.missing) showFull(picture, image.token);
  picture.alt = name;
  $(".zoom-image figcaption").textContent = image.missing ? `${name}: ${t("image_missing")}` : name;
  $(".zoom-title").textContent = state.view.text;
  [...$(".zoom-strip").children].forEach((thumb, place) =>
    thumb.setAttribute("aria-current", String(place === zoom.place)));
}

// Up and down go from one set to the other at the same place.
function turnZoom() {
  if (zoom.side !== 0) openZoom(3 - zoom.side, zoom.place);
}
