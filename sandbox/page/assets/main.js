/** The page: one store, one feed into it, and parts that redraw when something changes. */

import { Cast } from "./cast.js";
import { Chat } from "./chat.js";
import { Controls } from "./controls.js";
import { betweenClicks, fill, h } from "./dom.js";
import { Hints } from "./hints.js";
import { Feed } from "./feed.js";
import { icon } from "./icons.js";
import * as keys from "./keys.js";
import { Live } from "./live.js";
import { Modals } from "./modal.js";
import { Panel } from "./panel.js";
import * as route from "./route.js";
import { Refused, send } from "./sending.js";
import { Sidebar } from "./sidebar.js";
import { Store } from "./store.js";
import { themeButton } from "./theme.js";
import { Thread } from "./thread.js";

/** What the page does without being asked. It does not clear older notices. */
const BY_ITSELF = new Set(["enter", "open_home", "open_messages"]);

const PHONE = "(max-width: 760px)";
const SMALL = "(max-width: 1000px)";
const LAPTOP = "(max-width: 1239px)";

class App {
  store = new Store();
  place = "";
  thread = "";
  newSince = "";
  editing = "";
  #goal = null;
  #reading = new Set();

  constructor() {
    this.live = new Live(this);
    this.cast = new Cast(this);
    this.sidebar = new Sidebar(this);
    this.chat = new Chat(this);
    this.threadPane = new Thread(this);
    this.panel = new Panel(this);
    this.modals = new Modals(this);
    this.controls = new Controls(this);
    this.hints = new Hints(this);
    this.parts = [
      ...[this.cast, this.controls, this.hints, this.sidebar],
      ...[this.chat, this.threadPane, this.panel, this.modals],
    ];
    this.feed = new Feed(this.store, (state) => this.#connected(state));
    this.store.addEventListener("replaced", () => this.#replaced());
    this.store.addEventListener("changed", ({ detail }) => this.#changed(detail));
    addEventListener("hashchange", () => {
      this.uncover(route.read().thread);
      this.#moved();
    });
    document.addEventListener("visibilitychange", () => this.#markRead());
  }

  start() {
    const panelButton = h(
      "button",
      {
        type: "button",
        class: "quiet panel-button",
        "aria-controls": "panel",
        "aria-label": "Behind the scenes",
        onclick: () => this.togglePanel(),
      },
      icon("flow"),
      h("span", {}, "Behind the scenes"),
    );
    panelButton.setAttribute("aria-expanded", String(this.panel.isOpen));
    this.panelButton = panelButton;
    this.away = h("p", { class: "away", role: "status", hidden: true }, "The sandbox does not answer. Trying again…");
    const bar = h(
      "header",
      { class: "bar" },
      this.cast.node,
      h("div", { class: "bar-tools" }, this.controls.node, panelButton, this.hints.bulb, themeButton()),
    );
    const panes = h(
      "div",
      { class: "panes" },
      this.sidebar.node,
      this.chat.node,
      this.threadPane.node,
      this.panel.node,
    );
    fill(document.getElementById("app"), bar, this.away, this.hints.node, panes, this.live.toasts, this.live.log);
    const goal = route.fromPermalink(location.href, "");
    if (goal) {
      this.#goal = goal;
      history.replaceState(null, "", `/${route.to(goal.place, goal.thread)}`);
    }
    keys.listen(this);
    this.feed.follow(sessionStorage.getItem("me") ?? "");
  }

  // What the parts call

  /** Does something as this person. Null if it was refused; then a notice says why. */
  async send(gesture, body) {
    if (!BY_ITSELF.has(gesture)) this.live.clear();
    try {
      return await send(this.store.me, gesture, body);
    } catch (error) {
      if (!(error instanceof Refused)) throw error;
      this.toast(error.message);
      return null;
    }
  }

  toast(text) {
    this.live.toast(text);
  }

  announce(text) {
    this.live.announce(text);
  }

  be(person) {
    if (person === this.store.me) return;
    sessionStorage.setItem("me", person);
    this.editing = "";
    this.feed.follow(person);
  }

  go(place, thread = "") {
    location.hash = route.to(place, thread);
  }

  /** Puts words into a channel's message box. */
  propose(place, text) {
    const here = place === this.place && document.body.dataset.view === "chat";
    if (here) return this.chat.composer.propose(text);
    addEventListener("hashchange", () => this.chat.composer.propose(text), { once: true });
    this.go(place);
  }

  goToMessage(goal) {
    this.#goal = goal;
    if (location.hash === route.to(goal.place, goal.thread)) this.#moved();
    else this.go(goal.place, goal.thread);
  }

  edit(ts) {
    const before = this.editing;
    this.editing = ts;
    this.draw();
    if (before && !ts) this.focusMessage(before);
  }

  focusMessage(ts, name = "") {
    const node =
      ts &&
      [...document.querySelectorAll("[data-ts]")].find((each) => each.dataset.ts === ts && each.checkVisibility());
    const inside =
      node && name && [...node.querySelectorAll("[data-focus]")].find((each) => each.dataset.focus === name);
    (inside || node || this.chat.composer.box).focus();
  }

  focusThread() {
    addEventListener("hashchange", () => this.threadPane.composer.box.focus(), { once: true });
  }

  togglePanel() {
    this.#turnPanel();
    if (!this.panel.isOpen) this.panelButton.focus();
  }

  /** Closes the panel if it covers what the person goes to: the chat on a small screen, a thread on a laptop too. */
  uncover(thread) {
    if (this.panel.isOpen && matchMedia(thread ? LAPTOP : SMALL).matches) this.#turnPanel();
  }

  #turnPanel() {
    this.panel.toggle();
    this.panelButton.setAttribute("aria-expanded", String(this.panel.isOpen));
    this.#drawFrame();
  }

  draw() {
    if (!this.store.ready) return;
    for (const part of this.parts) part.draw();
    this.#drawFrame();
    this.#markRead();
  }

  // Events

  #connected(state) {
    this.away.hidden = state === "here";
  }

  #replaced() {
    sessionStorage.setItem("me", this.store.me);
    this.panel.reset();
    this.live.begin();
    this.#moved();
  }

  #changed(patch) {
    this.live.hear(patch);
    betweenClicks(() => {
      this.draw();
      this.#reach();
    });
  }

  /** The address changed, or the person did. */
  #moved() {
    if (!this.store.ready) return;
    const { store } = this;
    const asked = route.read();
    const known = store.channels[asked.place] || (asked.place === "home" && store.app.direct);
    const isPhoneList = !asked.place && matchMedia(PHONE).matches && this.place;
    const start =
      store.channels[store.stage.start]?.id ?? Object.values(store.channels).find((each) => each.member)?.id ?? "home";
    const place = known ? asked.place : isPhoneList ? this.place : start;
    const thread = known && store.message(place, asked.thread) ? asked.thread : "";
    if (!known && !isPhoneList) history.replaceState(null, "", route.to(place));
    const moved = place !== this.place || this.newFor !== store.me;
    if (moved) this.newSince = store.channels[place]?.unread ? store.channels[place].read || "0" : "";
    if (moved) this.live.clear();
    if (moved && place === "home") this.send("open_home");
    if (moved && place === store.app.direct) this.send("open_messages");
    document.body.dataset.view = isPhoneList ? "nav" : thread ? "thread" : "chat";
    Object.assign(this, { place, thread, newFor: store.me, editing: "" });
    this.draw();
    this.#reach();
  }

  /** Scrolls to the message of a link, once it is there. A channel may show a copy before its thread opens. */
  #reach() {
    if (!this.#goal) return;
    const { place, thread, ts } = this.#goal;
    if (thread && this.thread !== thread && this.store.message(place, thread)) return;
    const node = [...document.querySelectorAll("[data-ts]")]
      .filter((each) => each.dataset.ts === ts && each.checkVisibility())
      .at(-1);
    if (!node) return;
    this.#goal = null;
    node.classList.add("reached");
    node.scrollIntoView({ block: "center" });
    node.focus({ preventScroll: true });
  }

  #drawFrame() {
    const { store } = this;
    document.body.classList.toggle("with-thread", !this.threadPane.node.hidden);
    document.body.classList.toggle("with-panel", this.panel.isOpen);
    const unread = Object.values(store.channels).reduce((sum, each) => sum + (each.member ? each.unread : 0), 0);
    const channel = store.channels[this.place];
    const title = channel ? store.titleOf(channel) : store.app.name;
    document.title = `${unread ? `(${unread}) ` : ""}${title} · ${store.team.name} sandbox`;
  }

  /** Marks the open conversation as read. */
  async #markRead() {
    const channel = this.store.channels?.[this.place];
    if (!channel?.unread || !channel.member || document.hidden || this.#reading.has(channel.id)) return;
    if (document.body.dataset.view === "nav") return;
    this.#reading.add(channel.id);
    await send(this.store.me, "read", { channel: channel.id }).finally(() => this.#reading.delete(channel.id));
  }
}

new App().start();
