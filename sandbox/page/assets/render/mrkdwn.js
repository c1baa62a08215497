/** Slack's own markup, as nodes: `*bold*`, `<@U123>`, code, quotes. What is not well-formed stays text. */

import { h } from "../dom.js";
import { withEmoji } from "./emoji.js";
import { broadcastSpan, channelSpan, dateSpan, groupSpan, linkSpan, userSpan } from "./spans.js";

export function mrkdwn(app, text) {
  const nodes = [];
  text.split("```").forEach((part, index, parts) => {
    const isCode = index % 2 === 1 && index < parts.length - 1;
    const afterCode = index > 0 && index % 2 === 0;
    if (isCode) nodes.push(h("pre", { class: "pre" }, unescaped(part.replace(/^\n/, ""))));
    else nodes.push(...quoted(app, afterCode ? part.replace(/^\n/, "") : index ? `\`\`\`${part}` : part));
  });
  return nodes;
}

/** Lines that begin with `>` are quotes. Lines after each other are one quote. */
function quoted(app, text) {
  const nodes = [];
  for (const run of runs(text.split("\n"), (line) => /^(&gt;|>) ?/.test(line))) {
    const lines = run.items.map((line) => (run.is ? line.replace(/^(&gt;|>) ?/, "") : line));
    const inner = inline(app, lines.join("\n"));
    if (run.is) nodes.push(h("blockquote", { class: "quote" }, inner));
    else nodes.push(...(nodes.length && lines[0] ? ["\n"] : []), ...inner);
  }
  return nodes;
}

function runs(items, test) {
  const found = [];
  for (const item of items) {
    const is = test(item);
    if (found.at(-1)?.is === is) found.at(-1).items.push(item);
    else found.push({ is, items: [item] });
  }
  return found;
}

const MARKS = { "*": "strong", _: "em", "~": "s" };
const INLINE = /`([^`\n]+)`|<([^<>\n]+)>|(?<![\p{L}\p{N}*_~])([*_~])(?=\S)([^\n]*?\S)\3(?![\p{L}\p{N}])/u;

function inline(app, text) {
  const nodes = [];
  let rest = text;
  for (let found = INLINE.exec(rest); found; found = INLINE.exec(rest)) {
    if (found.index) nodes.push(plain(rest.slice(0, found.index)));
    if (found[1] !== undefined) nodes.push(h("code", { class: "code" }, unescaped(found[1])));
    else if (found[2] !== undefined) nodes.push(special(app, found[2]));
    else nodes.push(h(MARKS[found[3]], {}, inline(app, found[4])));
    rest = rest.slice(found.index + found[0].length);
  }
  if (rest) nodes.push(plain(rest));
  return nodes;
}

function special(app, inner) {
  const cut = inner.indexOf("|");
  const target = cut < 0 ? inner : inner.slice(0, cut);
  const name = cut < 0 ? "" : unescaped(inner.slice(cut + 1));
  if (target.startsWith("@")) return userSpan(app, target.slice(1));
  if (target.startsWith("#")) return channelSpan(app, target.slice(1), name);
  if (target.startsWith("!subteam^")) return groupSpan(app, target.slice(9), name);
  if (target.startsWith("!date^")) {
    const [, at, template, url] = target.split("^");
    return dateSpan(app, Number.parseInt(at, 10), unescaped(template ?? ""), name, unescaped(url ?? ""));
  }
  if (target.startsWith("!")) return broadcastSpan(target.slice(1).split("^")[0]);
  return linkSpan(app, unescaped(target), name || unescaped(target).replace(/^mailto:/, ""));
}

const plain = (text) => withEmoji(unescaped(text));

const ENTITIES = { "&amp;": "&", "&lt;": "<", "&gt;": ">" };

function unescaped(text) {
  return text.replace(/&(?:amp|lt|gt);/g, (entity) => ENTITIES[entity]);
}

/** A text object of Block Kit. */
export function textObject(app, object) {
  if (!object) return [];
  if (object.type === "mrkdwn") return mrkdwn(app, object.text);
  return [object.emoji === false ? object.text : withEmoji(object.text)];
}

/** A label as a plain string. */
export function labelText(object) {
  if (!object) return "";
  return object.emoji === false ? object.text : withEmoji(object.text);
}
