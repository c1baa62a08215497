/** One line that says what to do next, with a button that does it. A bulb in the bar brings it back after it was hidden. */

import { fill, h } from "./dom.js";
import { icon } from "./icons.js";

export class Hints {
  #app;

  constructor(app) {
    this.#app = app;
    this.text = h("p", { class: "hint-text", role: "status" });
    this.act = h("button", { type: "button", class: "hint-act", onclick: () => this.#act() });
    const close = { type: "button", class: "quiet", "aria-label": "Hide hints", title: "Hide hints" };
    this.node = h(
      "aside",
      { class: "hint-bar", "aria-label": "Next step" },
      icon("bulb"),
      this.text,
      this.act,
      h("button", { ...close, onclick: () => this.#show(false) }, icon("close")),
    );
    const bulb = { type: "button", class: "quiet", "aria-label": "Show hints", title: "Show hints" };
    this.bulb = h("button", { ...bulb, onclick: () => this.#show(true) }, icon("bulb"));
    this.wanted = localStorage.getItem("hints") !== "hidden";
  }

  draw() {
    const { hint } = this.#app.store.stage;
    this.node.hidden = !hint || !this.wanted;
    this.bulb.hidden = !hint || this.wanted;
    const key = JSON.stringify(hint);
    if (!hint || key === this.shown) return;
    this.shown = key;
    fill(this.text, hint.step ? h("strong", { class: "hint-step" }, hint.step) : null, hint.text);
    this.act.hidden = !hint.button;
    fill(this.act, hint.button);
  }

  #show(wanted) {
    this.wanted = wanted;
    localStorage.setItem("hints", wanted ? "shown" : "hidden");
    this.draw();
    (wanted ? this.act : this.bulb).focus();
  }

  proposed() {
    fill(this.text, "Now send it.");
    this.act.hidden = true;
  }

  async #act() {
    const app = this.#app;
    const { be, say, thread, channel, panel, do: gesture, ...body } = app.store.stage.hint.action;
    if (thread || say) app.uncover(thread);
    if (be) app.be(be);
    else if (thread) app.go(channel, thread);
    else if (say) {
      app.propose(channel, say);
      this.proposed();
    } else if (panel) app.togglePanel();
    else {
      this.act.disabled = true;
      await app.send(gesture, body);
      this.act.disabled = false;
    }
  }
}
