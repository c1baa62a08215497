/** Behind the scenes: requests and answers, clicks, the ledger, newest last. One line each; unfolded, its JSON. */

import { fill, h } from "./dom.js";
import { icon } from "./icons.js";
import { json } from "./render/json.js";
import { Scroller } from "./scroller.js";
import * as time from "./time.js";

const KINDS = { request: "Request", click: "Click", answer: "Answer", ledger: "Ledger", event: "Event", call: "Call" };
const FIRST = ["request", "click", "answer", "ledger"];

export class Panel {
  #app;
  #nodes = new Map();

  constructor(app) {
    this.#app = app;
    this.kinds = new Set(JSON.parse(localStorage.getItem("kinds") ?? JSON.stringify(FIRST)));
    this.filters = h(
      "div",
      { class: "filters", role: "group", "aria-label": "What to show" },
      Object.entries(KINDS).map(([kind, name]) => this.#filter(kind, name)),
    );
    this.list = h("ol", { class: "panel-items", "aria-label": "What happened" });
    this.none = h("p", { class: "hint none" }, "Nothing yet. What the agent asks, what people press and what the ledger keeps will stand here.");
    this.scroller = new Scroller(h("div", { class: "scroller", tabindex: -1 }, this.none, this.list));
    this.node = h(
      "aside",
      { class: "panel", id: "panel", "aria-label": "Behind the scenes" },
      this.#head(),
      this.filters,
      this.scroller.node,
    );
    this.isOpen = (localStorage.getItem("panel") ?? (innerWidth >= 1440 ? "open" : "shut")) === "open";
    this.node.hidden = !this.isOpen;
  }

  #head() {
    const close = h(
      "button",
      {
        type: "button",
        class: "quiet",
        "aria-label": "Close the panel",
        title: "Close the panel",
        onclick: () => this.#app.togglePanel(),
      },
      icon("close"),
    );
    return h(
      "header",
      { class: "pane-head" },
      h("h2", { class: "pane-title" }, icon("flow"), h("span", {}, "Behind the scenes")),
      close,
    );
  }

  toggle() {
    this.isOpen = !this.isOpen;
    this.node.hidden = !this.isOpen;
    localStorage.setItem("panel", this.isOpen ? "open" : "shut");
    if (this.isOpen) this.draw();
  }

  #filter(kind, name) {
    const toggle = (event) => {
      if (!this.kinds.delete(kind)) this.kinds.add(kind);
      event.currentTarget.setAttribute("aria-pressed", String(this.kinds.has(kind)));
      localStorage.setItem("kinds", JSON.stringify([...this.kinds]));
      this.draw();
    };
    const attributes = { type: "button", class: `filter kind-${kind}`, "aria-pressed": String(this.kinds.has(kind)) };
    return h("button", { ...attributes, onclick: toggle }, h("span", { class: "dot", "aria-hidden": "true" }), name);
  }

  /** Another screen: numbers start again. */
  reset() {
    this.#nodes.clear();
    fill(this.list);
  }

  draw() {
    if (!this.isOpen) return;
    this.scroller.around("panel", () => {
      for (const item of this.#app.store.items.values()) this.#drawItem(item);
    });
    this.none.hidden = [...this.list.children].some((node) => !node.hidden);
  }

  #drawItem(item) {
    let made = this.#nodes.get(item.number);
    if (!made) {
      made = this.#make(item);
      this.#nodes.set(item.number, made);
      this.#insert(made.node, item.at);
    }
    made.node.hidden = !this.kinds.has(item.kind);
    made.status.textContent = item.status;
    made.status.classList.toggle("trouble", item.trouble);
    made.title.textContent = item.title;
    made.note.textContent = item.note;
  }

  /** In the order of time. Some items arrive later than newer ones. */
  #insert(node, at) {
    node.dataset.at = at;
    let last = this.list.lastElementChild;
    while (last && Number(last.dataset.at) > at) last = last.previousElementSibling;
    if (last) last.after(node);
    else this.list.prepend(node);
  }

  #make(item) {
    const title = h("span", { class: "panel-item-title" });
    const status = h("span", { class: "panel-item-status" });
    const note = h("span");
    const stamp = h("time", { class: "stamp" }, time.clock(item.at, this.#app.store.person.tz, true));
    const inside = h("div", { class: "panel-item-body" });
    const summary = h(
      "summary",
      {},
      h(
        "span",
        { class: "panel-item-line" },
        h("span", { class: `kind kind-${item.kind}` }, KINDS[item.kind]),
        title,
        stamp,
      ),
      h("span", { class: "panel-item-note" }, note, " ", status),
    );
    const details = h("details", {}, summary, inside);
    details.addEventListener("toggle", () => details.open && this.#unfold(item, inside));
    return { node: h("li", { class: "panel-item" }, details), title, status, note };
  }

  async #unfold(item, inside) {
    const response = await fetch(`/sandbox/items/${item.number}`);
    const answer = await response.json();
    if (!response.ok) {
      fill(inside, h("p", { class: "hint" }, answer.error));
      return;
    }
    const copy = () => navigator.clipboard.writeText(JSON.stringify(answer.body, null, 2));
    fill(
      inside,
      h(
        "div",
        { class: "json-head" },
        h("span", { class: "hint" }, "Sent"),
        h("button", { type: "button", class: "plain-link", onclick: copy }, "Copy"),
      ),
      json(answer.body),
      answer.reply === null
        ? null
        : [h("div", { class: "json-head" }, h("span", { class: "hint" }, "Answered")), json(answer.reply)],
    );
    inside.scrollIntoView({ block: "nearest" });
  }
}
