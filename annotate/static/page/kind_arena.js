// The question kind `arena`: a search whose page has two lists and a vote between them.
import { SEARCH } from "./kind_search.js";

/** @type {import("./kinds.js").Kind} */
export const ARENA = {
  ...SEARCH,
  shortcuts: () => {
    const { search_nearest = "", ...others } = SEARCH.shortcuts();
    delete others.search_satisfaction;
    return { arena_vote: "1 \u2013 4", arena_nearest: search_nearest, ...others };
  },
};
