// `query`: whether the query is well formed, by the rubric of CIRCUS.
import { buildSet, currentStudy, digitOf, find, isShifted, make, radioOption, t, texts } from "./dom.js";

const VERDICTS = /** @type {const} */ ([
  "VALIDATED",
  "INVALID_TEXT_QUERY",
  "INVALID_IMAGE_QUERY",
  "INVALID_TARGET_IMAGE",
  "QUERY_TOO_BROAD",
]);

/** Without the target image, nobody is asked about it. */
const verdicts = () =>
  VERDICTS.filter((verdict) => verdict !== "INVALID_TARGET_IMAGE" || currentStudy().set_names.length > 0);

const verdictKeys = () => `1 \u2013 ${verdicts().length}`;

function buildVerdicts() {
  const fieldset = make("fieldset", "verdicts");
  fieldset.dataset.field = "verdict";
  const options = verdicts().map((verdict, index) => {
    const option = radioOption("verdict", index);
    option.append(make("b", "", String(index + 1)), make("span", "", texts.verdicts[verdict]));
    return option;
  });
  fieldset.append(make("legend", "", t("is_well_formed")), ...options);
  return fieldset;
}

/** @type {import("./question.js").Kind} */
export const QUERY = {
  hasNoFlag: true,

  build() {
    if (currentStudy().set_names.length) {
      find(".sets").replaceChildren(buildSet(1, verdictKeys(), buildVerdicts()));
      return;
    }
    const card = make("article", "set");
    card.append(buildVerdicts());
    find(".sets").replaceChildren(card);
  },

  fields: () => ["verdict"],

  fieldName: () => t("a_verdict"),

  choices({ judgement }) {
    const place = verdicts().findIndex((verdict) => verdict === judgement?.["verdict"]);
    return { verdict: place < 0 ? null : place };
  },

  answer: ({ verdict }) => ({ judgement: { verdict: verdicts()[Number(verdict)] } }),

  choiceOfKey(event) {
    const digit = isShifted(event) ? null : digitOf(event);
    return digit && digit <= verdicts().length ? ["verdict", digit - 1] : null;
  },

  shortcuts: () => ({ score_1: verdictKeys() }),

  isExpected: ({ verdict }, expected) => verdicts()[Number(verdict)] === expected["verdict"],
};
