// The question kinds: for each, the controls, their keys, and the answer that is sent.
import { ARENA } from "./kind_arena.js";
import { IMAGES } from "./kind_images.js";
import { PAIR } from "./kind_pair.js";
import { QUERY } from "./kind_query.js";
import { RANKING } from "./kind_ranking.js";
import { SEARCH } from "./kind_search.js";
import { SINGLE } from "./kind_single.js";
import { currentStudy } from "./state.js";

/**
 * What is chosen: a number for each field, null if nothing is.
 * @typedef {Record<string, number | null>} Choices
 */

/**
 * @typedef {object} Kind
 * @property {() => void} build builds what stays the same for every question
 * @property {(view: import("./state.js").JudgedView) => string[]} fields what must be chosen
 * @property {(field: string) => string} fieldName in "Still missing"
 * @property {(earlier: import("../protocol").EarlierAnswer) => Choices} choices the stored ones
 * @property {(chosen: Choices, wasAsked: boolean) => Record<string, unknown>} answer its part of an
 *   answer; `wasAsked`: the page has asked whether a contradicting preference is meant
 * @property {(chosen: Choices) => boolean} [contradicts] whether the page asks about this answer
 * @property {(event: KeyboardEvent, chosen: Choices) => [string, number] | null} choiceOfKey
 * @property {(chosen: Choices) => string | undefined} [currentField] the one that a digit is for, if
 *   it depends on the focus and on what is chosen
 * @property {(index: number, name: string) => HTMLElement} [imageControls] those below an image
 * @property {(chosen: Choices, field: string) => void} [settle] what a choice means for the others
 * @property {() => Record<string, string>} shortcuts keys by the name of what they do
 * @property {boolean} [hasPreference] whether the page asks which set is better
 * @property {boolean} [hasNoFlag] whether a question cannot be flagged
 * @property {boolean} [hasOwnPage] whether only these keys, and those of all pages, work
 * @property {(chosen: Choices, expected: Record<string, any>) => boolean} isExpected compares with the
 *   practice question's right answer, as hsfiq/kinds reads it
 */

/** @type {Record<string, Kind>} */
const KINDS = {
  pair: PAIR,
  single: SINGLE,
  images: IMAGES,
  ranking: RANKING,
  query: QUERY,
  search: SEARCH,
  arena: ARENA,
};

/** The kind of the study's questions. */
export function currentKind() {
  const kind = KINDS[currentStudy().kind];
  if (!kind) throw new Error(`this page has no questions of kind ${currentStudy().kind}`);
  return kind;
}
