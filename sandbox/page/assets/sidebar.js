/** The list of channels, people and apps. Unread ones stand out, with their number. */

import { h, keyed } from "./dom.js";
import { channelSign } from "./faces.js";
import * as route from "./route.js";

export class Sidebar {
  #app;

  constructor(app) {
    this.#app = app;
    this.team = h("p", { class: "team" });
    this.lists = ["Channels", "Direct messages", "Apps"].map((title) => {
      const list = h("ul", { class: "places", "aria-label": title });
      return { list, node: h("section", { class: "group" }, h("h2", { class: "group-title" }, title), list) };
    });
    this.node = h(
      "nav",
      { class: "sidebar", id: "nav", "aria-label": "Channels" },
      this.team,
      this.lists.map(({ node }) => node),
      document.querySelector(".banner"),
    );
  }

  draw() {
    const { store } = this.#app;
    this.team.textContent = store.team.name;
    const all = Object.values(store.channels).filter((channel) => !channel.archived);
    const named = all.filter((channel) => channel.kind === "public" || channel.kind === "private");
    const direct = all.filter((channel) => channel.kind === "im" || channel.kind === "mpim");
    const kinds = [
      named.sort((a, b) => Number(b.member) - Number(a.member) || a.name.localeCompare(b.name)),
      direct.filter((channel) => channel.id !== store.app.direct),
      direct.filter((channel) => channel.id === store.app.direct),
    ];
    kinds.forEach((channels, at) => {
      this.lists[at].node.hidden = !channels.length;
      keyed(
        this.lists[at].list,
        channels.map((channel) => this.#entry(channel)),
      );
    });
  }

  #entry(channel) {
    const { store, place } = this.#app;
    const isApp = channel.id === store.app.direct;
    const isHere = place === channel.id || (isApp && place === "home");
    const title = store.titleOf(channel);
    const unread = channel.member && !isHere ? channel.unread : 0;
    const key = JSON.stringify([title, isHere, unread, channel.member, channel.kind, store.me]);
    return { key: channel.id, signature: key, make: () => this.#link(channel, { title, isHere, unread, isApp }) };
  }

  #link(channel, { title, isHere, unread, isApp }) {
    const classes = ["place", unread && "unread", !channel.member && "outside"].filter(Boolean).join(" ");
    const spoken = unread ? h("span", { class: "unheard" }, ` ${unread} unread`) : null;
    const attributes = { class: classes, href: route.to(isApp ? "home" : channel.id), "data-focus": "place" };
    return h(
      "li",
      {},
      h(
        "a",
        { ...attributes, "aria-current": isHere ? "page" : null },
        channelSign(this.#app.store, channel),
        h("span", { class: "place-name" }, title),
        spoken,
        unread ? h("span", { class: "count", "aria-hidden": "true" }, String(unread)) : null,
      ),
    );
  }
}
