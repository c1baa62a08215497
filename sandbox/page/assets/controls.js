/** The clock and the bot of a demo. Time can be moved, and the bot crashed and started. Other sandboxes have no such bar. */

import { fill, h } from "./dom.js";
import { icon } from "./icons.js";
import { openMenu } from "./menu.js";
import * as time from "./time.js";

const STEPS = [
  [10, "+10 min", "Let 10 minutes pass"],
  [60, "+1 h", "Let an hour pass"],
];
const STATES = { running: "Bot on", starting: "Bot starts…", down: "Bot off" };
const TICK = 5000;

export class Controls {
  #app;

  constructor(app) {
    this.#app = app;
    this.clock = h("span", { class: "control-clock" });
    this.steps = STEPS.map(([minutes, text, name]) =>
      h("button", { type: "button", class: "control", "aria-label": name, title: name, onclick: () => this.#pass(minutes) }, text),
    );
    this.bot = h("button", { type: "button", class: "control bot", "aria-haspopup": "menu", onclick: () => this.#menu() });
    const group = { class: "controls", role: "group", "aria-label": "Time and bot" };
    this.node = h("div", group, this.clock, this.steps, this.bot);
    setInterval(() => this.#tick(), TICK);
  }

  draw() {
    const { bot } = this.#app.store.stage;
    this.node.hidden = !bot;
    if (!bot) return;
    this.#tick();
    const text = bot.crashes_in_call ? "Bot will crash" : STATES[bot.state];
    if (text === this.shown) return;
    if (this.shown) this.#app.announce(`${text}.`);
    this.shown = text;
    this.bot.dataset.state = bot.crashes_in_call ? "armed" : bot.state;
    fill(this.bot, h("span", { class: "dot", "aria-hidden": "true" }), h("span", { class: "bot-text" }, text), icon("down"));
  }

  #tick() {
    const { store } = this.#app;
    if (!store.ready || this.node.hidden) return;
    const { minutes_ahead: ahead } = store.stage.bot;
    this.clock.textContent = time.clock(store.now() / 1000, store.person.tz);
    this.clock.title = ahead ? `${ahead} minutes ahead of the real time` : "The real time";
    this.clock.classList.toggle("ahead", ahead > 0);
  }

  async #pass(minutes) {
    for (const step of this.steps) step.disabled = true;
    await this.#app.send("pass_time", { minutes });
    for (const step of this.steps) step.disabled = false;
  }

  #menu() {
    const { state, crashes_in_call: armed } = this.#app.store.stage.bot;
    const down = [{ text: "Start the bot", run: () => this.#app.send("start") }];
    const running = [
      armed ? null : { text: "Crash during the next call", run: () => this.#app.send("crash_in_call") },
      { text: "Crash now", danger: true, run: () => this.#app.send("crash") },
    ];
    if (state === "starting") return;
    openMenu(this.bot, "The bot", (state === "down" ? down : running).filter(Boolean));
  }
}
