/** The message box. Enter sends, names and commands are suggested, and drafts are kept. */

import { fill, freshId, h } from "./dom.js";
import * as files from "./files.js";
import { icon } from "./icons.js";
import { openMenu } from "./menu.js";
import { Suggestions } from "./suggestions.js";

export class Composer {
  #app;
  #place = { channel: null, thread: "" };
  #drafts = new Map();
  #attached = [];

  constructor(app, onSent, { inThread = false } = {}) {
    this.#app = app;
    this.onSent = onSent;
    this.inThread = inThread;
    const id = freshId("box");
    this.box = h("textarea", {
      class: "composer-box",
      id,
      rows: 1,
      role: "combobox",
      "aria-autocomplete": "list",
      "aria-expanded": "false",
    });
    this.chips = h("div", { class: "chips" });
    this.also = h("input", { type: "checkbox" });
    this.alsoText = h("span");
    this.sendButton = h(
      "button",
      { type: "button", class: "send", "aria-label": "Send", title: "Send", onclick: () => this.#send() },
      icon("send"),
    );
    this.suggestions = new Suggestions(app, this.box, { commands: !inThread });
    this.node = h(
      "div",
      { class: "composer", role: "group" },
      this.suggestions.node,
      h("div", { class: "composer-frame" }, this.box, this.chips, this.#row()),
    );
    this.box.addEventListener("input", () => this.#typed());
    this.box.addEventListener("keydown", (event) => this.#key(event));
  }

  /** Sets the conversation. The draft for the one before is kept. */
  show(channel, thread = "") {
    const key = `${this.#app.store.me} ${channel.id} ${thread}`;
    if (key !== this.key) {
      if (this.key) this.#drafts.set(this.key, { text: this.box.value, attached: this.#attached });
      const draft = this.#drafts.get(key) ?? { text: "", attached: [] };
      this.key = key;
      this.box.value = draft.text;
      this.#attached = draft.attached;
      this.also.checked = false;
      this.suggestions.close();
      this.#typed();
    }
    this.#place = { channel, thread };
    const title = this.#app.store.titleOf(channel);
    const sign = channel.kind === "im" || channel.kind === "mpim" ? "" : "#";
    const name = this.inThread ? "Reply…" : `Message ${sign}${title}`;
    this.box.placeholder = name;
    this.box.setAttribute("aria-label", name);
    this.node.setAttribute("aria-label", name);
    this.alsoText.textContent = `Also send to ${sign}${title}`;
    this.alsoLabel.hidden = !this.inThread || channel.kind === "im";
    this.suggestions.channel = channel;
  }

  /** Puts text into the box, as if it had been typed. */
  propose(text) {
    this.box.value = text;
    this.#typed();
    this.box.focus();
  }

  #row() {
    const pick = h("input", {
      type: "file",
      multiple: true,
      hidden: true,
      tabindex: -1,
      "aria-label": "Files to attach",
    });
    pick.addEventListener("change", async () => {
      this.#attached = [...this.#attached, ...(await files.read(this.#app, pick.files))];
      pick.value = "";
      this.#typed();
    });
    this.alsoLabel = h("label", { class: "also" }, this.also, this.alsoText);
    const tool = (name, picture, run) =>
      h("button", { type: "button", class: "quiet", "aria-label": name, title: name, onclick: run }, icon(picture));
    return h(
      "div",
      { class: "composer-row" },
      pick,
      tool("Attach a file", "clip", () => pick.click()),
      tool("Mention somebody", "at", () => this.suggestions.begin("@")),
      this.inThread ? null : tool("Shortcuts and commands", "bolt", (event) => this.#shortcuts(event.currentTarget)),
      this.alsoLabel,
      this.sendButton,
    );
  }

  #shortcuts(anchor) {
    const { commands, shortcuts } = this.#app.store.stage;
    const { name } = this.#app.store.app;
    const global = shortcuts.filter((each) => each.where === "global");
    openMenu(anchor, "Shortcuts and commands", [
      ...global.map((each) => ({
        text: each.name,
        note: name,
        run: () => this.#app.send("shortcut", { callback_id: each.callback_id }),
      })),
      ...commands.map((each) => ({
        text: each.name,
        note: each.hint || name,
        run: () => this.propose(`${each.name} `),
      })),
    ]);
  }

  #typed() {
    this.box.style.height = "auto";
    this.box.style.height = `${Math.min(this.box.scrollHeight, 240)}px`;
    const empty = !this.box.value.trim() && !this.#attached.length;
    this.sendButton.classList.toggle("ready", !empty);
    this.sendButton.setAttribute("aria-disabled", String(empty));
    fill(
      this.chips,
      this.#attached.map((file) => this.#chip(file)),
    );
    this.suggestions.typed();
  }

  #chip(file) {
    const drop = () => {
      this.#attached = this.#attached.filter((each) => each !== file);
      this.#typed();
      this.box.focus();
    };
    return h(
      "span",
      { class: "chip" },
      icon("file"),
      file.name,
      h(
        "button",
        { type: "button", class: "quiet", "aria-label": `Remove ${file.name}`, onclick: drop },
        icon("close"),
      ),
    );
  }

  #key(event) {
    if (event.isComposing || this.suggestions.key(event)) return;
    if (event.key === "Enter" && !event.shiftKey) {
      event.preventDefault();
      this.#send();
    } else if (event.key === "ArrowUp" && !this.box.value) {
      const mine = this.#app.store
        .listed(this.#place.channel.id, this.#place.thread)
        .filter((each) => each.user === this.#app.store.me);
      if (mine.length) {
        event.preventDefault();
        this.#app.edit(mine.at(-1).ts);
      }
    }
  }

  async #send() {
    const text = this.box.value.trim();
    const { channel, thread } = this.#place;
    if (!text && !this.#attached.length) return;
    const key = this.key;
    const taken = text.startsWith("/") ? await this.#command(channel, text) : await this.#say(channel, thread, text);
    if (!taken || this.key !== key) return;
    this.#attached = [];
    this.also.checked = false;
    this.box.value = "";
    this.#typed();
    this.onSent();
  }

  #say(channel, thread, text) {
    const said = { channel: channel.id, text, thread_ts: thread, broadcast: this.also.checked, files: this.#attached };
    return this.#app.send("say", said);
  }

  #command(channel, line) {
    const [command, ...rest] = line.split(/\s+/);
    if (this.inThread) {
      this.#app.toast(`${command} does not work in a thread. Type it in the conversation itself.`);
      return null;
    }
    return this.#app.send("command", { channel: channel.id, command, text: rest.join(" ") });
  }
}
