/** Names after an @, commands after a /: a list above the message box, walked with the arrow keys. */

import { fill, freshId, h } from "./dom.js";
import { avatar, roleOf } from "./faces.js";
import { icon } from "./icons.js";

const MOST = 8;

export class Suggestions {
  #app;
  #box;
  #commands;
  #offered = [];
  #at = 0;
  channel = null;

  constructor(app, box, { commands }) {
    this.#app = app;
    this.#box = box;
    this.#commands = commands;
    this.node = h("ul", {
      class: "suggestions",
      role: "listbox",
      id: freshId("suggestions"),
      "aria-label": "Suggestions",
      hidden: true,
    });
    box.setAttribute("aria-controls", this.node.id);
    box.addEventListener("blur", () => this.close());
  }

  /** Types the sign that opens the list. */
  begin(sign) {
    const { value, selectionStart: at } = this.#box;
    const gap = at && !/\s$/.test(value.slice(0, at)) ? " " : "";
    this.#box.setRangeText(`${gap}${sign}`, at, this.#box.selectionEnd, "end");
    this.#box.focus();
    this.#box.dispatchEvent(new Event("input"));
  }

  typed() {
    const before = this.#box.value.slice(0, this.#box.selectionStart);
    const name = /(?:^|\s)@([\w-]*)$/.exec(before);
    const command = this.#commands && /^\/(\S*)$/.exec(before);
    const offered = name ? this.#people(name[1]) : command ? this.#ofCommands(command[0]) : [];
    this.#length = name ? name[1].length + 1 : before.length;
    const exact = offered.length === 1 && offered[0].text === before;
    this.#show(exact ? [] : offered);
  }

  #length = 0;

  /** True if the key was for the list. */
  key(event) {
    if (this.node.hidden) return false;
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step) this.#mark((this.#at + step + this.#offered.length) % this.#offered.length);
    else if (event.key === "Enter" || event.key === "Tab") this.#take(this.#offered[this.#at]);
    else if (event.key === "Escape") this.close();
    else return false;
    event.preventDefault();
    event.stopPropagation();
    return true;
  }

  close() {
    this.#show([]);
  }

  #people(typed) {
    const { store } = this.#app;
    const matches = (person) =>
      [person.name, person.real_name].some((name) => name.toLowerCase().startsWith(typed.toLowerCase()));
    const here = Object.values(store.people).filter((person) => !person.deleted && matches(person));
    const rank = (person) => (person.bot ? 0 : 2) + (this.channel?.members.includes(person.id) ? 0 : 1);
    return here
      .filter((person) => person.id !== store.me)
      .sort((a, b) => rank(a) - rank(b) || a.name.localeCompare(b.name))
      .slice(0, MOST)
      .map((person) => ({
        text: `@${person.name}`,
        note: person.bot ? "App" : roleOf(store, person),
        face: avatar(store, person.id, "small"),
      }));
  }

  #ofCommands(typed) {
    const { commands } = this.#app.store.stage;
    const matching = commands.filter((each) => each.name.startsWith(typed));
    return matching.map((each) => ({ text: each.name, note: each.hint, face: icon("bolt") }));
  }

  #show(offered) {
    this.#offered = offered;
    this.node.hidden = !offered.length;
    this.#box.setAttribute("aria-expanded", String(offered.length > 0));
    fill(
      this.node,
      offered.map((each, at) => this.#option(each, at)),
    );
    this.#mark(0);
  }

  #option(each, at) {
    const take = (event) => {
      event.preventDefault();
      this.#take(each);
    };
    return h(
      "li",
      { class: "suggestion", role: "option", id: `${this.node.id}-${at}`, onpointerdown: take },
      each.face,
      h("span", {}, each.text),
      h("span", { class: "hint" }, each.note),
    );
  }

  #mark(at) {
    this.#at = at;
    [...this.node.children].forEach((node, index) => node.setAttribute("aria-selected", String(index === at)));
    if (this.#offered.length) this.#box.setAttribute("aria-activedescendant", `${this.node.id}-${at}`);
    else this.#box.removeAttribute("aria-activedescendant");
  }

  #take(chosen) {
    const end = this.#box.selectionStart;
    this.#box.setRangeText(`${chosen.text} `, end - this.#length, end, "end");
    this.#box.focus();
    this.#box.dispatchEvent(new Event("input"));
  }
}
