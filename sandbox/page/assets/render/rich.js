/** Rich text: sections, lists, code, quotes, and their elements. Text is not interpreted. */

import { h } from "../dom.js";
import { emoji } from "./emoji.js";
import { broadcastSpan, channelSpan, dateSpan, groupSpan, linkSpan, userSpan } from "./spans.js";

export function richText(app, block) {
  return h(
    "div",
    { class: "rich" },
    (block.elements ?? []).map((element) => part(app, element)),
  );
}

function part(app, element) {
  const inner = () => (element.elements ?? []).map((each) => leaf(app, each));
  if (element.type === "rich_text_preformatted") return h("pre", { class: "pre" }, inner());
  if (element.type === "rich_text_quote") return h("blockquote", { class: "quote" }, inner());
  if (element.type === "rich_text_list") return list(app, element);
  return h("div", { class: "section" }, inner());
}

function list(app, element) {
  const ordered = element.style === "ordered";
  const start = ordered && element.offset ? element.offset + 1 : null;
  const items = (element.elements ?? []).map((each) =>
    h(
      "li",
      {},
      (each.elements ?? []).map((one) => leaf(app, one)),
    ),
  );
  return h(ordered ? "ol" : "ul", { class: `list indent-${Math.min(element.indent ?? 0, 8)}`, start }, items);
}

function leaf(app, element) {
  return styled(bare(app, element), element.style);
}

function bare(app, element) {
  switch (element.type) {
    case "text":
      return element.text;
    case "link":
      return linkSpan(app, element.url, element.text || element.url);
    case "user":
      return userSpan(app, element.user_id);
    case "usergroup":
      return groupSpan(app, element.usergroup_id);
    case "channel":
      return channelSpan(app, element.channel_id);
    case "emoji":
      return emoji(element.name);
    case "broadcast":
      return broadcastSpan(element.range);
    case "date":
      return dateSpan(app, element.timestamp, element.format, element.fallback ?? "", element.url);
    case "team":
      return element.team_id;
    case "color":
      return element.value;
    default:
      return `[${element.type}]`;
  }
}

const STYLES = [
  ["bold", "strong"],
  ["italic", "em"],
  ["strike", "s"],
  ["underline", "u"],
];

function styled(node, style = {}) {
  let shown = style.code ? h("code", { class: "code" }, node) : node;
  for (const [name, tag] of STYLES) if (style[name]) shown = h(tag, {}, shown);
  return shown;
}
