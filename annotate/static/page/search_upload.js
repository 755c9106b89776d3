// Starting a search from a picture of the participant's own, where the study allows it.
import { find } from "./dom.js";
import { newKey } from "./draft.js";
import { announce, notify } from "./notice.js";
import { currentSearch } from "./search_answer.js";
import { ask, isWaiting, showReply } from "./server.js";
import { currentStudy } from "./state.js";
import { t } from "./text.js";

const LARGEST_BYTES = 6 * 2 ** 20;

/** A phone may need this long to send a picture. */
const TIMEOUT_MS = 120_000;

const field = () => find("#hsfiq-search-upload", HTMLInputElement);

/** @param {AbortSignal} signal */
export function listenToUpload(signal) {
  field().addEventListener("change", choose, { signal });
}

function choose() {
  const file = field().files?.[0];
  if (!file || isWaiting()) return;
  if (currentStudy().is_preview) refuse("search_unavailable_preview");
  else if (file.size > LARGEST_BYTES) refuse("search_upload_large");
  else send(file, newKey());
}

/**
 * @param {File} file
 * @param {string} submitKey the same for every attempt to send this picture
 */
function send(file, submitKey) {
  notify(t("search_uploading"), { isInfo: true });
  showReply(
    async () => {
      const picture = await inBase64(file).catch(() => null);
      if (picture === null) return refuse("search_upload_unreadable");
      const payload = { assignment: currentSearch().view.assignment, submit_key: submitKey, picture };
      try {
        const view = await ask("search/upload", payload, TIMEOUT_MS);
        field().value = "";
        announce(t("search_uploaded"));
        return view;
      } catch (error) {
        const { status, isPageOutdated } = /** @type {Partial<import("./server.js").Refusal>} */ (error);
        if (status === 413) return refuse("search_upload_large");
        if (status === 422 && !isPageOutdated) return refuse("search_upload_unreadable");
        throw error;
      }
    },
    () => send(file, submitKey),
  );
}

/**
 * Nothing is uploaded; the same file may be chosen again.
 * @param {"search_unavailable_preview" | "search_upload_large" | "search_upload_unreadable"} why
 * @returns {null}
 */
function refuse(why) {
  field().value = "";
  notify(t(why), { isInfo: true });
  return null;
}

/**
 * @param {File} file
 * @returns {Promise<string>}
 */
function inBase64(file) {
  return new Promise((resolve, reject) => {
    const reader = new FileReader();
    reader.onload = () => resolve(String(reader.result).replace(/^[^,]*,/, ""));
    reader.onerror = () => reject(reader.error ?? new Error("not readable"));
    reader.readAsDataURL(file);
  });
}
