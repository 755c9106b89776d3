// The scores in the viewer of enlarged images: buttons that press those of the question.
import { find, findAll, make, makeButton, root } from "./dom.js";
import { setName } from "./state.js";
import { t, texts } from "./text.js";

/** Build a row of buttons for each set, once the question has its controls. */
export function buildZoomScores() {
  const sides = [...findAll(".set")].filter((set) => set.querySelector(".likert"));
  find(".zoom-scores").replaceChildren(...sides.map((set) => scoresOf(Number(set.dataset.side))));
}

/** @param {number} side */
function scoresOf(side) {
  const group = make("div", "zoom-score");
  group.dataset.side = String(side);
  group.setAttribute("role", "group");
  group.setAttribute("aria-label", t("score_for", { set: setName(side) }));
  group.append(make("span", "label", setName(side)), ...texts.anchors.map((anchor, index) => {
    const button = makeButton("button score", String(index + 1));
    button.title = anchor;
    button.setAttribute("aria-label", anchor ? `${index + 1}: ${anchor}` : String(index + 1));
    button.addEventListener("click", () => {
      inputOf(side, index + 1)?.click();
      refreshZoomScores();
    });
    return button;
  }));
  return group;
}

/**
 * @param {number} side
 * @param {number} score
 */
const inputOf = (side, score) =>
  /** @type {HTMLInputElement | null} */ (
    root.querySelector(`.set [name="score_${side}"][value="${score}"]`)
  );

/** Show the scores that are chosen. */
export function refreshZoomScores() {
  for (const group of findAll(".zoom-score")) {
    group.querySelectorAll(".score").forEach((button, index) => {
      const isChosen = inputOf(Number(group.dataset.side), index + 1)?.checked ?? false;
      button.setAttribute("aria-pressed", String(isChosen));
    });
  }
}
