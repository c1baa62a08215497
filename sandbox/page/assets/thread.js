/** The pane beside a conversation: one message and its replies. */

import { Composer } from "./composer.js";
import { fill, h } from "./dom.js";
import { icon } from "./icons.js";
import { conversation } from "./messages.js";
import * as route from "./route.js";
import { Scroller } from "./scroller.js";
import { statusLine, statusOf, titleOf } from "./sessions.js";

export class Thread {
  #app;

  constructor(app) {
    this.#app = app;
    this.head = h("header", { class: "pane-head" });
    this.list = h("ol", { class: "messages", "aria-label": "Messages in this thread" });
    this.status = h("div", { class: "thread-status" });
    this.scroller = new Scroller(h("div", { class: "scroller", tabindex: -1 }, this.list, this.status));
    this.composer = new Composer(app, () => this.scroller.end(), { inThread: true });
    this.node = h(
      "aside",
      { class: "thread", id: "thread", "aria-label": "Thread" },
      this.head,
      this.scroller.node,
      this.composer.node,
    );
    this.node.addEventListener("keydown", (event) => {
      if (event.key === "Escape" && !event.defaultPrevented) this.#close();
    });
  }

  #close() {
    const { place, thread } = this.#app;
    this.#app.go(place);
    this.#app.focusMessage(thread);
  }

  draw() {
    const { store, place, thread } = this.#app;
    const channel = store.channels[place];
    this.node.hidden = !thread || !channel;
    if (this.node.hidden) return;
    this.#drawHead(channel);
    const status = statusOf(channel, thread);
    this.scroller.around(`${store.me} ${channel.id} ${thread}`, () => {
      conversation(this.#app, this.list, { channel, thread });
      const key = JSON.stringify([channel.id, thread, status]);
      if (key !== this.shownStatus) fill(this.status, status && statusLine(this.#app, channel, thread));
      this.shownStatus = key;
    });
    this.composer.node.hidden = !channel.member;
    if (channel.member) this.composer.show(channel, thread);
  }

  #drawHead(channel) {
    const title = this.#app.store.titleOf(channel);
    const name = titleOf(channel, this.#app.thread);
    const key = JSON.stringify([channel.id, title, name]);
    if (key === this.headKey) return;
    this.headKey = key;
    const close = { class: "quiet", href: route.to(channel.id), "aria-label": "Close thread", title: "Close thread" };
    fill(
      this.head,
      h("a", { ...close, class: "quiet back", "aria-label": "Back to the conversation" }, icon("back")),
      h(
        "h2",
        { class: "pane-title" },
        h("span", {}, name || "Thread"),
        h("span", { class: "hint" }, channel.kind === "im" ? title : `#${title}`),
      ),
      h("a", { ...close, class: "quiet close" }, icon("close")),
    );
  }
}
