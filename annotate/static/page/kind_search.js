// The question kinds `search` and `arena`, which have a page of their own: search.js.
import { KEYS } from "./dom.js";

/** @type {import("./question.js").Kind} */
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

// The question kind `arena`: a search whose page has two lists and a vote between them.

/** @type {import("./question.js").Kind} */
export const ARENA = {
  ...SEARCH,
  shortcuts: () => {
    const { search_nearest = "", ...others } = SEARCH.shortcuts();
    delete others.search_satisfaction;
    return { arena_vote: "1 \u2013 4", arena_nearest: search_nearest, ...others };
  },
};
