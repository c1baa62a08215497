/** The middle of the page: a channel, a direct conversation, or the app's Home tab, with the box to write in. */

import { Composer } from "./composer.js";
import { fill, h } from "./dom.js";
import { avatar, channelSign } from "./faces.js";
import { icon } from "./icons.js";
import { conversation } from "./messages.js";
import { blocksInto } from "./render/blocks.js";
import { viewSurface } from "./render/elements.js";
import * as route from "./route.js";
import { Scroller } from "./scroller.js";

export class Chat {
  #app;

  constructor(app) {
    this.#app = app;
    this.head = h("header", { class: "pane-head" });
    this.tabs = h("div", { class: "tabs", role: "tablist", "aria-label": app.store.app?.name ?? "App" });
    this.list = h("ol", { class: "messages" });
    this.empty = h("div", { class: "empty" });
    this.scroller = new Scroller(h("div", { class: "scroller", id: "messages", tabindex: -1 }, this.empty, this.list));
    this.homeBody = h("div", { class: "home-body" });
    this.home = h(
      "div",
      { class: "scroller home", id: "home", role: "tabpanel", "aria-label": "Home", tabindex: 0 },
      this.homeBody,
    );
    this.composer = new Composer(app, () => this.scroller.end());
    this.composer.node.id = "composer";
    this.join = h("div", { class: "join" });
    this.node = h(
      "main",
      { class: "chat", id: "chat" },
      this.head,
      this.tabs,
      this.scroller.node,
      this.home,
      this.composer.node,
      this.join,
    );
  }

  draw() {
    const { store, place } = this.#app;
    const isHome = place === "home";
    const channel = store.channels[isHome ? store.app.direct : place];
    if (!channel) return;
    const isApp = channel.id === store.app.direct;
    this.#drawHead(channel, isApp);
    this.#drawTabs(channel, isApp, isHome);
    this.home.hidden = !isHome;
    this.scroller.node.hidden = isHome;
    this.composer.node.hidden = isHome || !channel.member;
    this.join.hidden = isHome || channel.member;
    if (isHome) this.#drawHome();
    else this.#drawConversation(channel, isApp);
  }

  #drawHead(channel, isApp) {
    const { store } = this.#app;
    const title = isApp ? store.app.name : store.titleOf(channel);
    const key = JSON.stringify([channel.id, title, channel.members, store.me]);
    if (key === this.headKey) return;
    this.headKey = key;
    const people = channel.members.filter((id) => store.people[id]);
    fill(
      this.head,
      h("a", { class: "quiet back", href: "#/", "aria-label": "Back to the list of channels" }, icon("back")),
      h("h1", { class: "pane-title" }, channelSign(store, channel), h("span", {}, title)),
      channel.kind === "im"
        ? null
        : h(
            "p",
            { class: "members", title: people.map((id) => store.people[id].name).join(", ") },
            people.slice(0, 4).map((id) => avatar(store, id, "small")),
            h("span", {}, `${people.length} members`),
          ),
    );
  }

  #drawTabs(channel, isApp, isHome) {
    this.tabs.hidden = !isApp;
    const key = JSON.stringify([channel.id, isHome]);
    if (!isApp || key === this.tabsKey) return;
    this.tabsKey = key;
    const held = this.tabs.contains(document.activeElement);
    const tab = (name, place, target, selected) =>
      h(
        "a",
        {
          class: "tab",
          role: "tab",
          href: route.to(place),
          "aria-controls": target,
          "aria-selected": String(selected),
          tabindex: selected ? 0 : -1,
        },
        name,
      );
    fill(this.tabs, tab("Home", "home", "home", isHome), tab("Messages", channel.id, "messages", !isHome));
    this.tabs.onkeydown = (event) => {
      if (event.key === "ArrowRight" || event.key === "ArrowLeft") this.#app.go(isHome ? channel.id : "home");
    };
    if (held) this.tabs.querySelector("[aria-selected=true]").focus();
  }

  #drawHome() {
    const { store } = this.#app;
    if (!store.home) {
      fill(this.homeBody, h("p", { class: "hint" }, `${store.app.name} has not shown anything here yet.`));
      this.homeBody.dataset.view = "";
      return;
    }
    if (this.homeBody.dataset.view !== store.home.id) fill(this.homeBody);
    this.homeBody.dataset.view = store.home.id;
    blocksInto(this.homeBody, viewSurface(this.#app, store.home), store.home.blocks);
  }

  #drawConversation(channel, isApp) {
    const { store } = this.#app;
    const title = store.titleOf(channel);
    this.list.setAttribute("aria-label", `Messages in ${title}`);
    this.scroller.around(`${store.me} ${channel.id}`, () => {
      conversation(this.#app, this.list, { channel, since: this.#app.newSince });
      this.#drawEmpty(channel, isApp);
    });
    if (channel.member) this.composer.show(channel);
    else this.#drawJoin(channel);
  }

  /** The beginning of a conversation: what it is, and what a newcomer could say. */
  #drawEmpty(channel, isApp) {
    const { store } = this.#app;
    const isEmpty = !store.listed(channel.id).length;
    const hasApp = channel.members.includes(store.app.bot);
    const prompts = isApp ? (channel.prompts ?? []) : [];
    const key = JSON.stringify([channel.id, isEmpty, hasApp, store.stage.tries, prompts]);
    if (key === this.emptyKey) return;
    this.emptyKey = key;
    const title = isApp ? store.app.name : store.titleOf(channel);
    const sign = channel.kind === "im" ? "" : "#";
    const mention = `@${store.app.name} `;
    const bare = (text) => (text.startsWith(mention) ? text.slice(mention.length) : text);
    const said = (text) => (isApp ? "" : mention) + bare(text);
    const tries = isEmpty && hasApp ? store.stage.tries : [];
    const offered = prompts.length
      ? prompts
      : tries.map(({ title, message }) => ({ title: title === message ? said(message) : title, message: said(message) }));
    const [headline, about] = isEmpty && channel.id === store.stage.start ? store.stage.welcome : [];
    this.empty.classList.toggle("welcome", Boolean(headline));
    const intro = isApp
      ? `Everything you say here goes to ${store.app.name}.`
      : `This is the beginning of ${sign}${title}. ` +
        (hasApp ? `Mention @${store.app.name} to speak to the agent.` : `${store.app.name} is not in here.`);
    const propose = (text) => () => {
      this.composer.propose(text);
      this.#app.hints.proposed();
    };
    fill(
      this.empty,
      h("p", { class: "empty-title" }, headline || [sign, title]),
      h("p", { class: "hint" }, about || intro),
      offered.length && channel.member
        ? h(
            "div",
            { class: "tries" },
            headline ? null : h("p", { class: "hint" }, prompts.length ? "Suggested prompts:" : "Try one of these:"),
            offered.map(({ title: name, message }) =>
              h(
                "button",
                { type: "button", class: "try", onclick: propose(message) },
                h("span", {}, name),
                headline ? h("span", { class: "hint" }, bare(message)) : null,
              ),
            ),
          )
        : null,
    );
  }

  #drawJoin(channel) {
    const join = () => this.#app.send("join", { channel: channel.id });
    if (this.join.dataset.channel === channel.id) return;
    this.join.dataset.channel = channel.id;
    fill(
      this.join,
      h("p", {}, `You are looking at #${channel.name} from outside.`),
      h("button", { type: "button", class: "button primary", onclick: join }, "Join channel"),
    );
  }
}
