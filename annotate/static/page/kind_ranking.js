// `ranking`: three to five sets in order. Digits rank the set with the focus, or the first without a rank.
import {
  buildSet,
  currentStudy,
  digitOf,
  find,
  isShifted,
  make,
  radioOption,
  root,
  setName,
  t,
} from "./dom.js";

const fieldOf = (/** @type {number} */ side) => `rank_${side}`;

const sides = () => currentStudy().set_names.map((_name, index) => index + 1);

const rankKeys = () => `1 \u2013 ${sides().length}`;

/** @param {number} side */
function buildRanks(side) {
  const fieldset = make("fieldset", "ranks");
  fieldset.dataset.field = fieldOf(side);
  const legend = make("legend", "", t("rank"));
  legend.append(make("span", "sr", ` ${setName(side)}`));
  const options = sides().map((rank) => {
    const option = radioOption(fieldOf(side), rank);
    option.append(make("b", "", String(rank)));
    return option;
  });
  fieldset.append(legend, ...options);
  return fieldset;
}

/**
 * The field that a key is for: the set with the focus, else the first without a rank.
 * @param {import("./question.js").Choices} chosen
 */
function fieldOfKey(chosen) {
  const focused = document.activeElement?.closest(".set")?.querySelector("fieldset");
  if (focused && root.contains(focused)) return focused.dataset.field ?? "";
  return sides().map(fieldOf).find((field) => (chosen[field] ?? null) === null);
}

/** @type {import("./question.js").Kind} */
export const RANKING = {
  build() {
    find(".sets").replaceChildren(...sides().map((side) => buildSet(side, rankKeys(), buildRanks(side))));
  },

  fields: () => sides().map(fieldOf),

  fieldName: (field) => t("rank_for", { set: setName(Number(field.replace("rank_", ""))) }),

  choices({ judgement }) {
    const ranks = /** @type {number[]} */ (judgement?.["ranks"] ?? []);
    return Object.fromEntries(ranks.map((rank, index) => [fieldOf(index + 1), rank]));
  },

  answer: (chosen) => ({ judgement: { ranks: sides().map((side) => chosen[fieldOf(side)]) } }),

  /** A rank belongs to one set, unless ties are allowed: the set that had it has none then. */
  settle(chosen, field) {
    if (currentStudy().ties_allowed) return;
    for (const other of sides().map(fieldOf)) {
      if (other !== field && chosen[other] === chosen[field]) chosen[other] = null;
    }
  },

  choiceOfKey(event, chosen) {
    const digit = isShifted(event) ? null : digitOf(event);
    if (!digit || digit > sides().length) return null;
    const field = fieldOfKey(chosen);
    return field ? [field, digit] : null;
  },

  currentField: fieldOfKey,

  shortcuts: () => ({ score_1: rankKeys() }),

  isExpected: (chosen, expected) =>
    expected["order"].every((/** @type {number} */ side, /** @type {number} */ place) =>
      chosen[fieldOf(side)] === place + 1),
};
