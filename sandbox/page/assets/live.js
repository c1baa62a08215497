/** Announcements: new messages for screen readers, errors for everybody. */

import { h } from "./dom.js";
import { icon } from "./icons.js";
import { nameOf } from "./faces.js";
import { spoken } from "./render/blocks.js";

const MOST_TOASTS = 3;
const MOST_LINES = 8;

export class Live {
  #heard = new Map();
  #notices = 0;

  constructor(app) {
    this.app = app;
    this.log = h("div", { class: "unheard", role: "log", "aria-live": "polite", "aria-label": "News" });
    this.toasts = h("div", { class: "toasts", role: "region", "aria-label": "Notices" });
  }

  announce(text) {
    this.log.append(h("p", {}, text));
    while (this.log.children.length > MOST_LINES) this.log.firstChild.remove();
  }

  toast(text, from = "") {
    const node = h(
      "div",
      { class: "toast", role: "alert" },
      icon("alert"),
      h("p", {}, from && h("strong", {}, `${from}: `), text),
    );
    node.append(
      h(
        "button",
        { type: "button", class: "quiet", "aria-label": "Dismiss", onclick: () => node.remove() },
        icon("close"),
      ),
    );
    this.toasts.append(node);
    while (this.toasts.children.length > MOST_TOASTS) this.toasts.firstChild.remove();
  }

  clear() {
    this.toasts.replaceChildren();
  }

  /** A new screen: nothing on it is news, and notices for another person are not for this one. */
  begin() {
    this.log.replaceChildren();
    this.#heard.clear();
    this.#notices = this.app.store.notices.length;
    for (const messages of Object.values(this.app.store.messages)) {
      for (const message of Object.values(messages)) this.#heard.set(message.ts, message.text);
    }
  }

  /** A patch: announces new messages of the open conversation by their text. */
  hear(patch) {
    const { store, place } = this.app;
    for (const [channel, messages] of Object.entries(patch.messages ?? {})) {
      for (const message of Object.values(messages)) {
        if (message && !message.streaming) this.#tell(message, channel === place);
      }
    }
    for (const text of store.notices.slice(this.#notices)) this.toast(text, "Slackbot");
    this.#notices = store.notices.length;
  }

  #tell(message, isHere) {
    const before = this.#heard.get(message.ts);
    this.#heard.set(message.ts, message.text);
    if (!isHere || before === message.text || message.user === this.app.store.me) return;
    const only = message.is_ephemeral ? " (only visible to you)" : "";
    const changed = before === undefined ? "" : ", changed";
    this.announce(`${nameOf(this.app.store, message.user)}${only}${changed}: ${spoken(this.app, message.text)}`);
  }
}
