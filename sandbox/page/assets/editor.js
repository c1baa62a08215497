/** The editor for one's own message, in its place. */

import { h } from "./dom.js";

export function editor(app, channel, message) {
  const box = h("textarea", {
    class: "input",
    rows: 2,
    "aria-label": "Edit message",
    value: typed(app, message),
    "data-focus": "editor",
  });
  const cancel = () => app.edit("");
  const save = async () => {
    if (await app.send("edit", { channel: channel.id, ts: message.ts, text: box.value })) app.edit("");
  };
  box.addEventListener("keydown", (event) => {
    if (event.key === "Escape") cancel();
    if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
      event.preventDefault();
      save();
    }
  });
  queueMicrotask(() => box.focus());
  return h(
    "div",
    { class: "editor" },
    box,
    h(
      "div",
      { class: "editor-foot" },
      h("button", { type: "button", class: "button", onclick: cancel }, "Cancel"),
      h("button", { type: "button", class: "button primary", onclick: save }, "Save"),
    ),
  );
}

/** The text as it was typed: mentions are names again. */
function typed(app, message) {
  const leaves = (message.blocks ?? []).flatMap((block) => block.elements ?? []).flatMap((part) => part.elements ?? []);
  return leaves
    .map((leaf) => (leaf.type === "user" ? `@${app.store.people[leaf.user_id]?.name ?? leaf.user_id}` : leaf.text))
    .join("");
}
