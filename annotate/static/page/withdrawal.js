// Withdrawing from the study: what it means, the confirmation, and the page afterwards.
import { resetAnswer } from "./answer.js";
import { find, findAll, make, root } from "./dom.js";
import { removeDrafts } from "./draft.js";
import { announce, clearNotice } from "./notice.js";
import { resetSearch } from "./search_answer.js";
import { ask, showRequest } from "./server.js";
import { currentStudy, setView } from "./state.js";
import { t } from "./text.js";

/** @typedef {import("../protocol").WithdrawalView} WithdrawalView */

/** What withdrawing means for the payment. */
const PAYMENT = /** @type {const} */ ({
  prolific: "withdraw_prolific",
  mturk: "withdraw_mturk",
  code: "withdraw_code",
});

/** What the dialog says. @type {WithdrawalView | null} */
let shown = null;

const dialog = () => find(".withdrawal", HTMLDialogElement);

/** A preview has no participant. */
export function showWithdrawalButtons() {
  for (const part of findAll(".withdrawing")) part.hidden = currentStudy().is_preview;
}

/** Ask the server what withdrawing means, and say it. */
export function openWithdrawal() {
  find(".guidelines", HTMLDialogElement).close();
  showRequest(async () => {
    shown = await ask("withdrawal");
    if (!shown) return;
    find(".withdrawal-text").replaceChildren(...linesOf(shown));
    dialog().showModal();
    // Not a button: Enter must not delete anything before the text has been read.
    find(".withdrawal-reading").focus({ preventScroll: true });
  }, openWithdrawal);
}

/** @param {WithdrawalView} view */
function linesOf({ name, answers, releases, payment }) {
  const lines = [t("withdraw_deletes", { answers }), t("withdraw_keeps", { name }), t("withdraw_files")];
  const made = make("p", "", t(releases.length ? "withdraw_releases" : "withdraw_no_release"));
  const list = make("ul");
  list.append(...releases.map((release) => make("li", "", t("withdraw_release", release))));
  return [
    ...lines.map((line) => make("p", "", line)),
    made,
    ...(releases.length ? [list] : []),
    ...(payment ? [make("p", "withdrawal-payment", t(PAYMENT[payment]))] : []),
  ];
}

export function confirmWithdrawal() {
  dialog().close();
  const assignment = shown?.assignment;
  if (!assignment) return;
  showRequest(async () => {
    await ask("withdrawal", { assignment });
    showWithdrawn();
  }, confirmWithdrawal);
}

/** Nothing that was entered stays in the browser. */
function showWithdrawn() {
  const isHit = shown?.payment === "mturk";
  shown = null;
  setView(null);
  resetAnswer();
  resetSearch();
  removeDrafts();
  clearNotice();
  root.dataset.step = root.dataset.view = "withdrawn";
  find(".withdrawn .return-hit").hidden = !isHit;
  announce(`${t("withdrawn_title")} ${t("withdrawn")}`);
  find(".withdrawn h2").focus({ preventScroll: true });
  window.scrollTo(0, 0);
}
