/** Block Kit's blocks, as this project's messages, modals and Home tab use them. An unknown block says so. */

import { freshId, h, keyed } from "../dom.js";
import { icon } from "../icons.js";
import { element } from "./elements.js";
import { field } from "./fields.js";
import { markdown } from "./markdown.js";
import { labelText, mrkdwn, textObject } from "./mrkdwn.js";
import { richText } from "./rich.js";

const KINDS = {
  header,
  section,
  context,
  actions,
  divider,
  rich_text,
  markdown: prose,
  input,
};

export function blocks(surface, list) {
  return list.map((block) => h("div", { class: `block block-${block.type}` }, one(surface, block)));
}

/** The same for a surface that is redrawn: blocks that did not change keep their focus and their input. */
export function blocksInto(parent, surface, list) {
  keyed(
    parent,
    list.map((block) => ({
      key: block.block_id,
      signature: JSON.stringify(block),
      make: () => h("div", { class: `block block-${block.type}`, "data-block": block.block_id }, one(surface, block)),
    })),
  );
}

function one(surface, block) {
  const kind = KINDS[block.type];
  return kind ? kind(surface, block) : h("p", { class: "unknown" }, `This page can't draw a ${block.type} block.`);
}

function header(_, block) {
  return h("h3", { class: "title" }, labelText(block.text));
}

function section(surface, block) {
  const text = block.text && h("div", { class: "text" }, textObject(surface.app, block.text));
  const fields = (block.fields ?? []).map((each) => h("div", { class: "text" }, textObject(surface.app, each)));
  const accessory = block.accessory && h("div", { class: "accessory" }, element(surface, block, block.accessory));
  return [h("div", { class: "main" }, text, fields.length ? h("div", { class: "pairs" }, fields) : null), accessory];
}

function context(surface, block) {
  return block.elements.map((each) => h("span", { class: "text" }, textObject(surface.app, each)));
}

function actions(surface, block) {
  return block.elements.map((each) => element(surface, block, each));
}

function divider() {
  return h("hr", { class: "rule" });
}

function rich_text(surface, block) {
  return richText(surface.app, block);
}

function prose(surface, block) {
  return markdown(surface.app, block.text);
}

/** A field with its label above and its hint and error below. A screen reader reads them together. */
function input(surface, block) {
  const state = surface.entered(block.block_id, block.element.action_id) ?? {};
  const made = field(surface.app, block.element, state);
  const [labelId, hintId, errorId] = ["label", "hint", "error"].map(freshId);
  const optional = block.optional && h("span", { class: "optional" }, " (optional)");
  const label = h(made.group ? "div" : "label", { class: "label", id: labelId }, labelText(block.label), optional);
  if (!made.group) {
    made.control.id = freshId("field");
    label.setAttribute("for", made.control.id);
  }
  const described = [block.hint && hintId, errorId].filter(Boolean).join(" ");
  const names = {
    "aria-describedby": described,
    "data-focus": block.block_id,
    ...(made.group ? { "aria-labelledby": labelId } : {}),
  };
  for (const [name, value] of Object.entries(names)) made.control.setAttribute(name, value);
  if (!block.optional && !made.group) made.control.setAttribute("aria-required", "true");
  const wrapper = h(
    "div",
    { class: "field" },
    label,
    made.node,
    h("p", { class: "error", id: errorId, hidden: true }, icon("alert"), h("span")),
    block.hint && h("p", { class: "hint", id: hintId }, textObject(surface.app, block.hint)),
  );
  wrapper.addEventListener("change", () => surface.enter?.(block.block_id, made.read()));
  surface.fields?.set(block.block_id, {
    wrapper,
    control: made.control,
    read: made.read,
    wantsFocus: block.element.focus_on_load,
  });
  return wrapper;
}

/** Shows an error under a field, or removes it. */
export function showError(wrapper, control, sentence) {
  const error = wrapper.querySelector(":scope > .error");
  error.hidden = !sentence;
  error.querySelector("span").textContent = sentence ?? "";
  wrapper.classList.toggle("wrong", Boolean(sentence));
  if (sentence) control.setAttribute("aria-invalid", "true");
  else control.removeAttribute("aria-invalid");
}

/** A message's or a notification's text as one plain string. */
export function spoken(app, text) {
  return h("div", {}, mrkdwn(app, text)).textContent;
}
