/** The app's modals. The server opens, redraws and closes them. The page fills them in and sends them. */

import { fill, h } from "./dom.js";
import { leave, openDialog } from "./dialogs.js";
import { avatar } from "./faces.js";
import { icon } from "./icons.js";
import { blocksInto, showError } from "./render/blocks.js";
import { viewSurface } from "./render/elements.js";
import { labelText } from "./render/mrkdwn.js";

export class Modals {
  #app;
  #dialog = null;
  #view = null;
  #opener = null;
  #entering = Promise.resolve();
  #awaitsErrors = false;

  constructor(app) {
    this.#app = app;
  }

  draw() {
    const { modal } = this.#app.store;
    if (!modal) {
      this.#gone();
      return;
    }
    const before = this.#view;
    const isOther = modal.id !== before?.id;
    if (!this.#dialog) this.#open();
    this.#view = modal;
    if (isOther) this.#begin();
    const wasEmpty = !this.fields.size;
    this.#drawHead();
    this.surface.entered = viewSurface(this.#app, modal).entered;
    blocksInto(this.body, this.surface, modal.blocks);
    for (const id of this.fields.keys())
      if (!modal.blocks.some((block) => block.block_id === id)) this.fields.delete(id);
    this.#drawFoot();
    this.#drawErrors();
    const isFormNow = wasEmpty && this.fields.size;
    if (isOther || isFormNow || !this.#dialog.contains(document.activeElement)) this.#focusFirst();
    if (!isOther && !this.fields.size && before.hash !== modal.hash) this.#app.announce(this.body.textContent);
  }

  #open() {
    const { activeElement } = document;
    this.#opener = { ts: activeElement?.closest?.("[data-ts]")?.dataset.ts, name: activeElement?.dataset?.focus };
    this.head = h("div", { class: "dialog-head" });
    this.body = h("div", { class: "dialog-body" });
    this.foot = h("div", { class: "dialog-foot" });
    this.#dialog = h(
      "dialog",
      { class: "dialog modal", "aria-labelledby": "modal-title" },
      this.head,
      this.body,
      this.foot,
    );
    this.#dialog.addEventListener("keydown", (event) => this.#key(event));
    openDialog(this.#dialog, () => this.#close());
  }

  /** Another view: what was typed into the one before does not matter. */
  #begin() {
    fill(this.body);
    this.fields = new Map();
    this.#awaitsErrors = false;
    this.surface = {
      ...viewSurface(this.#app, this.#view),
      fields: this.fields,
      enter: (block_id, value) => this.#enter(block_id, value),
    };
    this.body.scrollTop = 0;
  }

  #drawHead() {
    const { store } = this.#app;
    const view = this.#view;
    const title = labelText(view.title);
    const key = JSON.stringify([view.id, title]);
    if (this.head.dataset.key === key) return;
    this.head.dataset.key = key;
    fill(
      this.head,
      avatar(store, store.app.bot),
      h("h2", { class: "dialog-title", id: "modal-title" }, title),
      h(
        "button",
        {
          type: "button",
          class: "quiet",
          "aria-label": "Close",
          onclick: () => this.#close(),
        },
        icon("close"),
      ),
    );
  }

  #drawFoot() {
    const { id, close, submit } = this.#view;
    const key = JSON.stringify([id, close, submit]);
    if (this.foot.dataset.key === key) return;
    this.foot.dataset.key = key;
    const leaving = h(
      "button",
      { type: "button", class: "button", "data-focus": "close", onclick: () => this.#close() },
      labelText(close) || "Close",
    );
    this.submitButton =
      submit &&
      h(
        "button",
        { type: "button", class: "button primary", "data-focus": "submit", onclick: () => this.#submit() },
        labelText(submit),
      );
    fill(this.foot, leaving, this.submitButton);
  }

  #drawErrors() {
    const { errors } = this.#view;
    for (const [id, { wrapper, control }] of this.fields) showError(wrapper, control, errors[id]);
    const wrong = [...this.fields].filter(([id]) => errors[id]);
    if (!wrong.length || !this.#awaitsErrors) return;
    this.#awaitsErrors = false;
    const [, first] = wrong[0];
    focusable(first.control).focus();
    this.#app.announce(
      wrong.length === 1 ? "One field needs another look." : `${wrong.length} fields need another look.`,
    );
  }

  #focusFirst() {
    const all = [...this.fields.values()];
    const first = all.find((each) => each.wantsFocus) ?? all[0];
    const target = first ? focusable(first.control) : (this.submitButton ?? this.foot.querySelector("button"));
    target.focus();
  }

  #gone() {
    if (!this.#dialog) return;
    leave(this.#dialog);
    this.#dialog = this.#view = null;
    if (!document.activeElement || document.activeElement === document.body)
      this.#app.focusMessage(this.#opener.ts, this.#opener.name);
  }

  #enter(block_id, value) {
    const view = this.#view.id;
    this.#entering = this.#entering.then(
      () => this.#view?.id === view && this.#app.send("enter", { view, block_id, value }),
    );
  }

  async #submit() {
    const button = this.submitButton;
    if (!button || button.getAttribute("aria-busy") === "true") return;
    button.setAttribute("aria-busy", "true");
    button.classList.add("busy");
    const view = this.#view.id;
    await this.#entering;
    this.#awaitsErrors = true;
    const values = Object.fromEntries([...this.fields].map(([id, { read }]) => [id, read()]));
    await this.#app.send("submit", { view, values });
    button.removeAttribute("aria-busy");
    button.classList.remove("busy");
  }

  async #close() {
    await this.#entering;
    if (this.#view) await this.#app.send("close", { view: this.#view.id });
  }

  /** Enter in a line of text sends the form, as in any form. */
  #key(event) {
    const inLine = event.target.matches("input:not([type=checkbox]):not([type=radio])");
    const wantsOut = event.key === "Enter" && !event.isComposing && (inLine || event.ctrlKey || event.metaKey);
    if (!wantsOut || !this.submitButton) return;
    event.preventDefault();
    this.#submit();
  }
}

/** The focus goes to a box, not to the group: to the ticked one, or the first. */
function focusable(control) {
  if (!control.matches("[role=group], [role=radiogroup]")) return control;
  return control.querySelector("input:checked") ?? control.querySelector("input");
}
