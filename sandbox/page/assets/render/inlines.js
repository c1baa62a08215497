/** Inside a line of markdown: emphasis, code, links. What is not well-formed stays text. */

import { h } from "../dom.js";
import { withEmoji } from "./emoji.js";
import { channelSpan, linkSpan, userSpan } from "./spans.js";

const INLINE = new RegExp(
  [
    String.raw`\\([!-/:-@[-${"`"}{-~])`, // 1: escaped
    String.raw`(${"`"}+)([\s\S]*?[^${"`"}])\2(?!${"`"})`, // 2, 3: code
    String.raw`!?\[((?:[^[\]]|\[[^[\]]*\])*)\]\(\s*<?((?:[^\s()<>]|\([^\s()]*\))*)>?(?:\s+"[^"]*")?\s*\)`, // 4, 5: link
    String.raw`<([@#])([A-Z0-9]+)(?:\|[^>]*)?>`, // 6, 7: somebody, a channel
    String.raw`<(https?:[^\s<>]+)>`, // 8: address
    String.raw`\*\*(?=\S)([\s\S]*?\S)\*\*(?!\*)`, // 9: bold
    String.raw`(?<![\p{L}\p{N}_])__(?=\S)([\s\S]*?\S)__(?![\p{L}\p{N}_])`, // 10: bold
    String.raw`\*(?=[^\s*])([\s\S]*?[^\s*])\*(?!\*)`, // 11: italic
    String.raw`(?<![\p{L}\p{N}_])_(?=[^\s_])([\s\S]*?[^\s_])_(?![\p{L}\p{N}_])`, // 12: italic
    String.raw`~~(?=\S)([\s\S]*?\S)~~`, // 13: struck
    String.raw`(?<![\p{L}\p{N}/])(https?:\/\/[^\s<>()]*[^\s<>().,;:!?'"])`, // 14: bare address
    String.raw`( {2,}|\\)\n`, // 15: line break
  ].join("|"),
  "u",
);

export function inlines(app, text) {
  const nodes = [];
  let rest = text;
  for (let found = INLINE.exec(rest); found; found = INLINE.exec(rest)) {
    if (found.index) nodes.push(withEmoji(rest.slice(0, found.index)));
    nodes.push(one(app, found));
    rest = rest.slice(found.index + found[0].length);
  }
  if (rest) nodes.push(withEmoji(rest));
  return nodes;
}

function one(app, [, escaped, , code, label, target, sign, id, address, bold, bolder, italic, slanted, struck, bare]) {
  if (escaped !== undefined) return escaped;
  if (code !== undefined) return h("code", { class: "code" }, code.replaceAll("\n", " ").replace(/^ (.+) $/, "$1"));
  if (label !== undefined) return linkSpan(app, target, label ? inlines(app, label) : target);
  if (id !== undefined) return sign === "@" ? userSpan(app, id) : channelSpan(app, id);
  if ((address ?? bare) !== undefined) return linkSpan(app, address ?? bare, address ?? bare);
  if ((bold ?? bolder) !== undefined) return h("strong", {}, inlines(app, bold ?? bolder));
  if ((italic ?? slanted) !== undefined) return h("em", {}, inlines(app, italic ?? slanted));
  if (struck !== undefined) return h("s", {}, inlines(app, struck));
  return h("br");
}
