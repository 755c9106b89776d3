// What questions are made of: sets of images, and groups of options of which one is chosen.
import { make } from "./dom.js";
import { scoreKeys } from "./keys.js";
import { setName } from "./state.js";
import { t, texts } from "./text.js";

/**
 * A set's card: its name, its images, and the controls to judge it.
 * @param {number} side
 * @param {string} keys
 * @param {HTMLElement[]} controls
 */
export function buildSet(side, keys, ...controls) {
  const card = make("article", "set");
  card.dataset.side = String(side);
  card.setAttribute("aria-label", setName(side));
  const heading = make("h3");
  heading.append(
    make("span", "", setName(side)),
    make("span", "label", t("any_order")),
    make("kbd", "", keys),
  );
  const images = make("div", "images");
  images.append(make("div", "row"));
  card.append(heading, images, ...controls);
  return card;
}

/** @param {number} side */
export const buildScoredSet = (side) => buildSet(side, scoreKeys(side), buildLikert(side));

/** @param {number} side */
function buildLikert(side) {
  const fieldset = make("fieldset", "likert");
  fieldset.dataset.field = `score_${side}`;
  fieldset.style.setProperty("--anchors", String(texts.anchors.length));
  fieldset.classList.toggle("many", texts.anchors.length > 5);
  const legend = make("legend", "", t("how_well"));
  legend.append(make("span", "sr", ` ${setName(side)}`));
  const options = texts.anchors.map((anchor, index) => {
    const option = radioOption(`score_${side}`, index + 1);
    option.append(make("b", "", String(index + 1)), make("span", "", anchor));
    return option;
  });
  fieldset.append(legend, ...options);
  return fieldset;
}

/**
 * @param {string} name
 * @param {number} value
 */
export function radioOption(name, value) {
  const option = make("label", "option");
  const input = make("input", "sr");
  Object.assign(input, { type: "radio", name, value: String(value) });
  option.append(input);
  return option;
}
