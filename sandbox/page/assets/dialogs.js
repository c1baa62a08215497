/** Dialogs are the browser's own: while one is open nothing else can be used, and the focus returns afterwards. */

import { freshId, h } from "./dom.js";
import { icon } from "./icons.js";
import { labelText, textObject } from "./render/mrkdwn.js";

/** Opens a dialog; `onLeave` runs when a person presses Escape. */
export function openDialog(dialog, onLeave) {
  dialog.addEventListener("cancel", (event) => {
    event.preventDefault();
    onLeave();
  });
  dialog.addEventListener("keydown", (event) => keepInside(event, dialog));
  document.body.append(dialog);
  dialog.showModal();
}

/** Closes before it removes: only then does the browser give the focus back. */
export function leave(dialog) {
  dialog.close();
  dialog.remove();
}

const FOCUSABLE =
  "a[href], button:not([disabled]), input:not([disabled]), select, textarea, summary, [tabindex]:not([tabindex='-1'])";

/** Keeps Tab inside the dialog. Otherwise it would also go through the browser's own bars. */
function keepInside(event, dialog) {
  if (event.key !== "Tab") return;
  const stops = [...dialog.querySelectorAll(FOCUSABLE)].filter((each) => each.checkVisibility());
  const [first, last] = [stops[0], stops.at(-1)];
  const leaving = event.shiftKey ? [first, dialog] : [last];
  if (!first || !leaving.includes(document.activeElement)) return;
  event.preventDefault();
  (event.shiftKey ? last : first).focus();
}

/** "Are you sure?", in the app's words. */
export function confirmed(app, dialog) {
  const texts = { title: labelText(dialog.title), yes: labelText(dialog.confirm), no: labelText(dialog.deny) };
  return asked({ ...texts, text: h("p", {}, textObject(app, dialog.text)), style: dialog.style ?? "primary" });
}

export function asked({ title, text, yes, no, style }) {
  return new Promise((resolve) => {
    const titleId = freshId("title");
    const textId = freshId("text");
    const answer = (word) => () => {
      leave(dialog);
      resolve(word);
    };
    const dialog = h(
      "dialog",
      { class: "dialog confirm", role: "alertdialog", "aria-labelledby": titleId, "aria-describedby": textId },
      h("h2", { class: "dialog-title", id: titleId }, title),
      h("div", { class: "dialog-body", id: textId }, text),
      h(
        "div",
        { class: "dialog-foot" },
        h("button", { type: "button", class: "button", onclick: answer(false) }, no),
        h("button", { type: "button", class: `button ${style}`, onclick: answer(true) }, yes),
      ),
    );
    openDialog(dialog, answer(false));
  });
}

/** Something to read, such as a file. */
export function shown(title, body) {
  const titleId = freshId("title");
  const away = () => leave(dialog);
  const dialog = h(
    "dialog",
    { class: "dialog reader", "aria-labelledby": titleId },
    h(
      "div",
      { class: "dialog-head" },
      h("h2", { class: "dialog-title", id: titleId }, title),
      h("button", { type: "button", class: "quiet", "aria-label": "Close", onclick: away }, icon("close")),
    ),
    h("div", { class: "dialog-body", tabindex: 0 }, body),
  );
  openDialog(dialog, away);
}
