/** Tools for a message: the small bar above it, and the menu behind its three dots. */

import { h } from "./dom.js";
import { asked } from "./dialogs.js";
import { icon } from "./icons.js";
import { openMenu } from "./menu.js";
import * as route from "./route.js";

export function messageTools(app, channel, message, thread) {
  if (message.is_ephemeral) return null;
  const root = message.thread_ts || message.ts;
  const open = (event) => openMenu(event.currentTarget, "More actions", entries(app, channel, message, thread));
  const attributes = {
    type: "button",
    class: "tool",
    "aria-label": "More actions",
    title: "More actions",
    "aria-haspopup": "menu",
  };
  return h(
    "div",
    { class: "tools" },
    thread
      ? null
      : h(
          "a",
          {
            class: "tool",
            href: route.to(channel.id, root),
            "aria-label": "Reply in thread",
            title: "Reply in thread",
          },
          icon("reply"),
        ),
    h("button", { ...attributes, "data-focus": "more", onclick: open }, icon("more")),
  );
}

function entries(app, channel, message, thread) {
  const shortcuts = app.store.stage.shortcuts.filter((each) => each.where === "message");
  const place = { channel: channel.id, ts: message.ts };
  const ofTheApp = shortcuts.map((each) => ({
    text: each.name,
    note: app.store.app.name,
    run: () => app.send("message_shortcut", { ...place, callback_id: each.callback_id }),
  }));
  const root = message.thread_ts || message.ts;
  const common = [
    ...(thread ? [] : [{ text: "Reply in thread", run: () => app.go(channel.id, root) }]),
    { text: "Copy link", run: () => navigator.clipboard.writeText(route.permalink(channel.id, message)) },
  ];
  const own = message.user === app.store.me ? [null, ...ofMine(app, place)] : [];
  return [...common, ...(ofTheApp.length ? [null, ...ofTheApp] : []), ...own];
}

function ofMine(app, place) {
  const remove = async () => {
    const text = h("p", {}, "It goes for everybody, and cannot be brought back.");
    if (await asked({ title: "Delete this message?", text, yes: "Delete", no: "Keep it", style: "danger" }))
      app.send("delete", place);
  };
  return [
    { text: "Edit message", run: () => app.edit(place.ts) },
    { text: "Delete message…", danger: true, run: remove },
  ];
}
