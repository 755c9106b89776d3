// The bar above the page that says that it is a preview, and its buttons.
import { find, root } from "./dom.js";
import { ask, showReply } from "./server.js";
import { currentStudy } from "./state.js";

export function showPreview() {
  const isPreview = currentStudy().is_preview;
  find(".preview").hidden = !isPreview;
  root.classList.toggle("is-preview", isPreview);
}

/** Go on without an answer. */
export function nextStep() {
  showReply(() => ask("next-step", {}), nextStep);
}

export function restart() {
  showReply(() => ask("restart", {}), restart);
}
