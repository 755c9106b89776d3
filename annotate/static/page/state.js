// What the page shows now.

/** @typedef {import("../protocol").View} View */
/** @typedef {import("../protocol").QuestionView | import("../protocol").PracticeView} JudgedView */
/** @typedef {import("../protocol").StudyInfo} StudyInfo */
/** @typedef {import("../protocol").ImageView} ImageView */

/** @type {{ study: StudyInfo | null, view: View | null }} */
const state = { study: null, view: null };

export function resetState() {
  state.study = null;
  state.view = null;
}

export const isOpen = () => state.study !== null;

/** @param {StudyInfo} study */
export const setStudy = (study) => (state.study = study);

/** @param {View | null} view */
export const setView = (view) => (state.view = view);

export function currentStudy() {
  if (!state.study) throw new Error("no study is open");
  return state.study;
}

/** Null before the page is open, and if it cannot be shown. */
export const currentView = () => state.view;

/** The question or practice question that is shown; null at other steps. */
export function judgedView() {
  const view = state.view;
  return view?.step === "question" || view?.step === "practice" ? view : null;
}

/**
 * What the images of the page belong to, for the viewer of enlarged images.
 * @typedef {{ text: string, reference: ImageView | null, sets: ImageView[][] }} Pictured
 */

/** The question that is shown, or the lists of a search; null at other steps. @returns {Pictured | null} */
export function picturedView() {
  const view = state.view;
  if (view?.step !== "search") return judgedView();
  const turn = view.turns.findLast((each) => each.lists);
  return { text: turn?.text ?? "", reference: turn?.reference ?? view.start, sets: turn?.lists ?? [[]] };
}

/** @param {number} side */
export const setName = (side) => currentStudy().set_names[side - 1] ?? "";
