/** JSON with indentation and colours. */

import { h } from "../dom.js";

export function json(value) {
  return h("pre", { class: "json", tabindex: 0, role: "region", "aria-label": "JSON" }, parts(value, ""));
}

function parts(value, indent) {
  if (Array.isArray(value))
    return nested(
      value.map((each) => [null, each]),
      "[",
      "]",
      indent,
    );
  if (value !== null && typeof value === "object") return nested(Object.entries(value), "{", "}", indent);
  return [h("span", { class: `json-${value === null ? "null" : typeof value}` }, JSON.stringify(value))];
}

function nested(entries, open, close, indent) {
  if (!entries.length) return [open + close];
  const deeper = `${indent}  `;
  const lines = entries.map(([key, value], at) => [
    `\n${deeper}`,
    key === null ? null : [h("span", { class: "json-key" }, JSON.stringify(key)), ": "],
    parts(value, deeper),
    at < entries.length - 1 ? "," : "",
  ]);
  return [open, lines, `\n${indent}${close}`];
}
