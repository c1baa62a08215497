/**
 * Fields as native controls, which bring keyboard, names and dark theme.
 *
 * `field(app, element, state)` gives `{node, control, read}`: what to show, what the label is for (the group, for a
 * group of boxes), and a function that returns the current value: text, option values or seconds.
 */

import { freshId, h } from "../dom.js";
import * as time from "../time.js";
import { labelText, textObject } from "./mrkdwn.js";

const KINDS = {
  plain_text_input: written,
  number_input: written,
  email_text_input: written,
  url_text_input: written,
  static_select: menu,
  users_select: menu,
  channels_select: menu,
  conversations_select: menu,
  external_select: menu,
  multi_static_select: boxes,
  checkboxes: boxes,
  radio_buttons: boxes,
  datepicker: picker,
  timepicker: picker,
  datetimepicker: moment,
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
  const modes = {
    number_input: element.is_decimal_allowed ? "decimal" : "numeric",
    email_text_input: "email",
    url_text_input: "url",
  };
  const control = element.multiline
    ? h("textarea", { ...attributes, rows: Math.min(12, Math.max(3, text.split("\n").length + 1)) })
    : h("input", { ...attributes, type: "text", inputmode: modes[element.type] });
  return { node: control, control, read: () => control.value || null };
}

function menu(app, element, state) {
  const { groups, chosen } = offered(app, element, state);
  const option = ({ value, text }) => h("option", { value, selected: value === chosen }, text);
  const placeholder = labelText(element.placeholder) || "Choose";
  const control = h(
    "select",
    { class: "input select" },
    h("option", { value: "", selected: !chosen }, placeholder),
    groups.map((group) =>
      group.label ? h("optgroup", { label: group.label }, group.options.map(option)) : group.options.map(option),
    ),
  );
  return { node: control, control, read: () => control.value || null };
}

/** The options of a menu: its own, or the people or channels of this workspace. */
function offered(app, element, state) {
  const plain = (options) => options.map((option) => ({ value: option.value, text: labelText(option.text) }));
  if (element.type === "users_select") {
    const options = app.store.cast.map((person) => ({ value: person.id, text: person.name }));
    return { groups: [{ options }], chosen: state.selected_user };
  }
  if (element.type === "channels_select" || element.type === "conversations_select") {
    const options = Object.values(app.store.channels).map((channel) => ({
      value: channel.id,
      text: app.store.titleOf(channel),
    }));
    return { groups: [{ options }], chosen: state.selected_channel ?? state.selected_conversation };
  }
  const groups = (element.option_groups ?? []).map((group) => ({
    label: labelText(group.label),
    options: plain(group.options),
  }));
  return {
    groups: groups.length ? groups : [{ options: plain(element.options ?? []) }],
    chosen: state.selected_option?.value,
  };
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
  const node = h("div", { class: "choices", role: several ? "group" : "radiogroup" }, rows);
  const values = () => inputs.filter((input) => input.checked).map((input) => input.value);
  return { node, control: node, group: true, read: () => (several ? values() : (values()[0] ?? null)) };
}

function picker(_, element, state) {
  const isDate = element.type === "datepicker";
  const value = (isDate ? state.selected_date : state.selected_time) ?? "";
  const control = h("input", { class: "input picker", type: isDate ? "date" : "time", value });
  return { node: control, control, read: () => control.value || null };
}

/** A moment in the person's time zone. The app gets seconds. */
function moment(app, _, state) {
  const { tz } = app.store.person;
  const value = state.selected_date_time ? time.toLocal(state.selected_date_time, tz) : "";
  const control = h("input", { class: "input picker", type: "datetime-local", value });
  const node = h("span", { class: "with-zone" }, control, h("span", { class: "hint" }, tz));
  return { node, control, read: () => (control.value ? time.fromLocal(control.value, tz) : null) };
}

function unknown(_, element) {
  const node = h("p", { class: "unknown" }, `This page can't draw a ${element.type}.`);
  return { node, control: node, read: () => null };
}
