// Messages from the study's owner: shown once, until they are closed.
import { fillReading } from "./dialogs.js";
import { find, make } from "./dom.js";
import { ask } from "./server.js";
import { t } from "./text.js";

/** @typedef {import("../protocol").MessageView} MessageView */

/** The messages that are shown. @type {MessageView[]} */
let open = [];

/** Those that were closed here: a view may have been asked for before the server knew. */
const closed = new Set();

/** @param {MessageView[]} messages */
export function showMessages(messages) {
  const dialog = find(".message", HTMLDialogElement);
  const unread = messages.filter(({ id }) => !closed.has(id));
  if (!unread.length || dialog.open) return;
  open = unread;
  find(".message-text").replaceChildren(
    make("h3", "", t("message")),
    ...unread.map(({ text }) => {
      const part = make("article");
      fillReading(part, text);
      return part;
    }),
  );
  dialog.showModal();
  // Not the button: somebody who answers quickly presses Enter before they have read it.
  find(".message-text").focus({ preventScroll: true });
}

/** Tell the server; if it does not learn of it, the message comes again with the next view. */
export async function messagesClosed() {
  const messages = open.map(({ id }) => id);
  for (const id of messages) closed.add(id);
  try {
    await ask("messages-seen", { messages });
  } catch {
    for (const id of messages) closed.delete(id);
  }
}
