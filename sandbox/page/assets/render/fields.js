/**
 * Fields as native controls, which bring keyboard, names and dark theme.
 *
 * `field(app, element, state)` gives `{node, control, read}`: what to show, what the label is for (the group, for a
 * group of boxes), and a function that returns the current value: text or option values.
 */

import { freshId, h } from "../dom.js";
import * as time from "../time.js";
import { labelText, textObject } from "./mrkdwn.js";

const KINDS = {
  plain_text_input: written,
  number_input: written,
  static_select: menu,
  multi_static_select: boxes,
  checkboxes: boxes,
  radio_buttons: boxes,
  datepicker: calendar,
  datetimepicker: calendar,
};

export function isField(element) {
  return Object.hasOwn(KINDS, element.type);
}

export function field(app, element, state = {}) {
  const kind = KINDS[element.type] ?? unknown;
  return kind(app, element, state);
}

function written(_, element, state) {
  const text = state.value ?? "";
  const attributes = {
    class: "input",
    value: text,
    placeholder: labelText(element.placeholder),
    autocomplete: "off",
    maxlength: element.max_length,
    spellcheck: element.type === "plain_text_input" ? "true" : "false",
  };
  const modes = { number_input: element.is_decimal_allowed ? "decimal" : "numeric" };
  const control = element.multiline
    ? h("textarea", { ...attributes, rows: Math.min(12, Math.max(3, text.split("\n").length + 1)) })
    : h("input", { ...attributes, type: "text", inputmode: modes[element.type] });
  if (element.multiline) control.setSelectionRange(0, 0); // a long text is read from its beginning
  return { node: control, control, read: () => control.value || null };
}

function menu(_, element, state) {
  const chosen = state.selected_option?.value;
  const option = ({ value, text }) => h("option", { value, selected: value === chosen }, labelText(text));
  const placeholder = labelText(element.placeholder) || "Choose";
  const control = h(
    "select",
    { class: "input select" },
    h("option", { value: "", selected: !chosen }, placeholder),
    element.options.map(option),
  );
  return { node: control, control, read: () => control.value || null };
}

/** A date, or a date and a time in the person's time zone. Without a change the value stays as it was, to the second. */
function calendar(app, element, state) {
  const before = state.selected_date ?? state.selected_date_time;
  const { tz } = app.store.person;
  const value = Number.isInteger(before) ? `${time.day(before, tz)}T${time.clock(before, tz)}` : (before ?? "");
  const type = element.type === "datepicker" ? "date" : "datetime-local";
  const control = h("input", { class: "input calendar", type });
  control.value = value;
  return { node: control, control, read: () => (control.value === value ? (before ?? null) : control.value || null) };
}

function boxes(app, element, state) {
  const several = element.type !== "radio_buttons";
  const chosen = new Set([state.selected_option, ...(state.selected_options ?? [])].map((option) => option?.value));
  const name = freshId("choice");
  const inputs = [];
  const rows = (element.options ?? []).map((option) => {
    const input = h("input", {
      type: several ? "checkbox" : "radio",
      name,
      value: option.value,
      checked: chosen.has(option.value),
    });
    const more = option.description && h("span", { class: "hint" }, textObject(app, option.description));
    inputs.push(input);
    return h("label", { class: "choice" }, input, h("span", {}, textObject(app, option.text), more));
  });
  const isMenu = element.type === "multi_static_select";
  const node = h("div", { class: isMenu ? "choices input" : "choices", role: several ? "group" : "radiogroup" }, rows);
  const values = () => inputs.filter((input) => input.checked).map((input) => input.value);
  const limit = () => {
    const isFull = values().length >= (element.max_selected_items ?? Infinity);
    for (const input of inputs) input.disabled = isFull && !input.checked;
  };
  node.addEventListener("change", limit);
  limit();
  return { node, control: node, group: true, read: () => (several ? values() : (values()[0] ?? null)) };
}

function unknown(_, element) {
  const node = h("p", { class: "unknown" }, `This page can't draw a ${element.type}.`);
  return { node, control: node, read: () => null };
}
