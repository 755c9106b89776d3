// `single`: one set and its score.
import { buildScoredSet, digitOf, find, isShifted, scoreKeys, setName, t } from "./dom.js";

/** @type {import("./question.js").Kind} */
export const SINGLE = {
  build() {
    find(".sets").replaceChildren(buildScoredSet(1));
  },

  fields: () => ["score_1"],

  fieldName: () => t("score_for", { set: setName(1) }),

  choices: ({ judgement }) => ({ score_1: judgement?.["score"] ?? null }),

  answer: ({ score_1 }) => ({ judgement: { score: score_1 } }),

  choiceOfKey(event) {
    const score = digitOf(event);
    return score && !isShifted(event) ? ["score_1", score] : null;
  },

  shortcuts: () => ({ score_1: scoreKeys(1) }),

  isExpected: ({ score_1 }, expected) =>
    Number(score_1) >= expected["lowest"] && Number(score_1) <= expected["highest"],
};
