// `images`: which images of one set fit. A digit is for the image with the focus, or the first one left.
import {
  buildSet,
  currentStudy,
  digitOf,
  find,
  isShifted,
  judgedView,
  make,
  radioOption,
  root,
  t,
  texts,
} from "./dom.js";

/** @typedef {keyof typeof texts.relevance_levels} Levels */

const fieldOf = (/** @type {number} */ index) => `image_${index + 1}`;

const levelNames = () => texts.relevance_levels[/** @type {Levels} */ (String(currentStudy().levels))];

const levelKeys = () => `1 \u2013 ${currentStudy().levels}`;

const images = () => judgedView()?.sets[0] ?? [];

/**
 * The field that a key is for: the image with the focus, else the first without an answer.
 * @param {import("./question.js").Choices} chosen
 */
function fieldOfKey(chosen) {
  const focused = document.activeElement?.closest(".judged-image")?.querySelector("fieldset");
  if (focused && root.contains(focused)) return focused.dataset.field ?? "";
  return images().map((_image, index) => fieldOf(index)).find((field) => (chosen[field] ?? null) === null);
}

/** @type {import("./question.js").Kind} */
export const IMAGES = {
  build() {
    find(".sets").replaceChildren(buildSet(1, levelKeys()));
  },

  imageControls(index, name) {
    const fieldset = make("fieldset", "levels");
    fieldset.dataset.field = fieldOf(index);
    const options = levelNames().map((label, level) => {
      const option = radioOption(fieldOf(index), level);
      option.append(make("b", "", String(level + 1)), make("span", "", label));
      return option;
    });
    fieldset.append(make("legend", "sr", `${t("how_well_image")} ${name}`), ...options);
    return fieldset;
  },

  fields: (view) => view.sets[0]?.map((_image, index) => fieldOf(index)) ?? [],

  fieldName: (field) => t("image_number", { number: field.replace("image_", "") }),

  choices({ judgement }) {
    const levels = /** @type {number[]} */ (judgement?.["relevance"] ?? []);
    return Object.fromEntries(levels.map((level, index) => [fieldOf(index), level]));
  },

  answer: (chosen) => ({ judgement: { relevance: images().map((_image, index) => chosen[fieldOf(index)]) } }),

  choiceOfKey(event, chosen) {
    const digit = isShifted(event) ? null : digitOf(event);
    if (!digit || digit > currentStudy().levels) return null;
    const field = fieldOfKey(chosen);
    return field ? [field, digit - 1] : null;
  },

  currentField: fieldOfKey,

  shortcuts: () => ({ score_1: levelKeys() }),

  isExpected: (chosen, expected) =>
    images().every(
      (_image, index) => Number(chosen[fieldOf(index)]) > 0 === expected["fitting"].includes(index + 1),
    ),
};
