// `pair`: two sets, a score for each, and the preferred one.
import {
  KEYS,
  buildScoredSet,
  currentStudy,
  digitOf,
  find,
  isShifted,
  letterOf,
  make,
  radioOption,
  scoreKeys,
  setName,
  t,
} from "./dom.js";

/**
 * Whether the preferred set has a score so much lower that the study asks if it is meant; the server
 * has the rule, too (`contradicts` in hsfiq/answer_rules.py).
 * @param {import("./question.js").Choices} chosen
 */
function contradicts({ score_1, score_2, preferred }) {
  const { confirm_difference } = currentStudy();
  if (!preferred || confirm_difference === null) return false;
  const lead = Number(score_1) - Number(score_2);
  return (preferred === 1 ? -lead : lead) >= confirm_difference;
}

/** @type {import("./question.js").Kind} */
export const PAIR = {
  hasPreference: true,

  build() {
    find(".sets").replaceChildren(buildScoredSet(1), buildScoredSet(2));
    const choices = [
      { value: 1, name: setName(1), key: KEYS.prefer_1 },
      { value: 2, name: setName(2), key: KEYS.prefer_2 },
    ];
    if (currentStudy().ties_allowed) choices.push({ value: 0, name: t("tie"), key: KEYS.tie });
    find(".picks").replaceChildren(
      ...choices.map(({ value, name, key }) => {
        const option = radioOption("preferred", value);
        option.title = name;
        option.append(make("span", "", name), make("kbd", "", key));
        return option;
      }),
    );
  },

  fields: () => ["score_1", "score_2", "preferred"],

  fieldName: (field) =>
    field === "preferred" ? t("preference") : t("score_for", { set: setName(field === "score_1" ? 1 : 2) }),

  choices: ({ judgement }) => ({
    score_1: judgement?.["score_1"] ?? null,
    score_2: judgement?.["score_2"] ?? null,
    preferred: judgement?.["preferred"] ?? null,
  }),

  answer: (chosen, wasAsked) => ({
    judgement: {
      score_1: chosen["score_1"],
      score_2: chosen["score_2"],
      preferred: chosen["preferred"],
      confirmed: wasAsked && contradicts(chosen),
    },
  }),

  contradicts,

  choiceOfKey(event) {
    const score = digitOf(event);
    if (score) return [isShifted(event) ? "score_2" : "score_1", score];
    if (event.shiftKey) return null;
    const letter = letterOf(event);
    if (letter === KEYS.prefer_1) return ["preferred", 1];
    if (letter === KEYS.prefer_2) return ["preferred", 2];
    return letter === KEYS.tie && currentStudy().ties_allowed ? ["preferred", 0] : null;
  },

  shortcuts: () => ({
    score_1: scoreKeys(1),
    score_2: scoreKeys(2),
    prefer: `${KEYS.prefer_1}   ${KEYS.prefer_2}`,
    ...(currentStudy().ties_allowed && { tie: KEYS.tie }),
  }),

  isExpected({ score_1, score_2, preferred }, expected) {
    const better = expected["better"];
    const difference = Number(score_1) - Number(score_2);
    return preferred === better && (better === 1 ? difference > 0 : difference < 0);
  },
};
