/** The people that the visitor can act as, side by side; a click or an arrow key switches. */

import { h, keyed } from "./dom.js";
import { avatar, roleOf } from "./faces.js";

export class Cast {
  #app;

  constructor(app) {
    this.#app = app;
    this.group = h("div", { class: "cast-group", role: "radiogroup", "aria-label": "You are" });
    this.node = h(
      "div",
      { class: "cast" },
      h("span", { class: "cast-title", "aria-hidden": "true" }, "You are"),
      this.group,
    );
    this.group.addEventListener("keydown", (event) => this.#key(event));
  }

  draw() {
    const { store } = this.#app;
    keyed(
      this.group,
      store.cast.map((person) => {
        const [isMe, role] = [person.id === store.me, roleOf(store, person)];
        return {
          key: person.id,
          signature: JSON.stringify([person.name, isMe, role]),
          make: () => this.#face(person, isMe, role),
        };
      }),
    );
    if (this.shown !== store.me) {
      this.shown = store.me;
      this.group.querySelector("[aria-checked=true]")?.scrollIntoView({ block: "nearest", inline: "nearest" });
    }
  }

  #face(person, isMe, role) {
    const attributes = {
      type: "button",
      class: "face",
      role: "radio",
      "aria-checked": String(isMe),
      tabindex: isMe ? 0 : -1,
      "data-focus": "face",
      title: `${person.real_name}${role ? `: ${role}` : ""}`,
      "data-person": person.id,
    };
    const words = h(
      "span",
      { class: "face-words" },
      h("span", { class: "face-name" }, person.name),
      role && h("span", { class: "face-role" }, role),
    );
    return h(
      "button",
      { ...attributes, onclick: () => this.#app.be(person.id) },
      avatar(this.#app.store, person.id, "small"),
      words,
    );
  }

  #key(event) {
    const step = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1 }[event.key];
    if (!step) return;
    event.preventDefault();
    const ids = this.#app.store.cast.map((person) => person.id);
    const next = ids[(ids.indexOf(this.#app.store.me) + step + ids.length) % ids.length];
    this.group.querySelector(`[data-person="${CSS.escape(next)}"]`).focus();
    this.#app.be(next);
  }
}
