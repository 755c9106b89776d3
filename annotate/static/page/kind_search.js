// The question kind `search`, which has a page of its own: search.js.
import { KEYS } from "./keys.js";

/** @type {import("./kinds.js").Kind} */
export const SEARCH = {
  build: () => {},
  fields: () => [],
  fieldName: (field) => field,
  choices: () => ({}),
  answer: () => ({}),
  choiceOfKey: () => null,
  shortcuts: () => ({
    search_satisfaction: "1 \u2013 5",
    search_nearest: "Shift 1 \u2013 9",
    search_none: KEYS.search_none,
    search_text: KEYS.search_text,
    search_send: "Enter",
    search_found: `${KEYS.search_found}   ${KEYS.search_found}`,
  }),
  hasOwnPage: true,
  isExpected: () => false,
};
