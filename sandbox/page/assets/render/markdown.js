/** A model's markdown as nodes: its blocks. `inlines.js` renders what is inside a line. */

import { h } from "../dom.js";
import { inlines } from "./inlines.js";

export function markdown(app, text) {
  return h("div", { class: "markdown" }, blocks(app, text.replace(/\r\n?/g, "\n").split("\n")));
}

const FENCE = /^ {0,3}(`{3,}|~{3,})\s*([\w+-]*)[^`]*$/;
const HEADING = /^ {0,3}(#{1,6})\s+(.*?)\s*#*$/;
const RULE = /^ {0,3}([-*_])(?:\s*\1){2,}\s*$/;
const ITEM = /^( *)([-*+]|\d{1,9}[.)])(?:\s+(.*)|$)/;
const DIVIDER = /^\s*\|?\s*:?-{1,}:?\s*(\|\s*:?-{1,}:?\s*)*\|?\s*$/;

/** Each of these takes lines from the front, or leaves them to the next function. */
const KINDS = [blank, fence, heading, rule, quote, list, table, paragraph];

function blocks(app, lines) {
  const nodes = [];
  let rest = lines;
  while (rest.length) {
    for (const kind of KINDS) {
      const taken = kind(app, rest);
      if (!taken) continue;
      if (taken.node) nodes.push(taken.node);
      rest = rest.slice(taken.count);
      break;
    }
  }
  return nodes;
}

function blank(_, lines) {
  return lines[0].trim() ? null : { count: 1 };
}

/** An open fence runs to the end, because the text may still grow. */
function fence(_, lines) {
  const found = FENCE.exec(lines[0]);
  if (!found) return null;
  const closing = new RegExp(`^ {0,3}${found[1][0]}{${found[1].length},}\\s*$`);
  const end = lines.findIndex((line, index) => index > 0 && closing.test(line));
  const inner = lines.slice(1, end < 0 ? lines.length : end);
  return { node: h("pre", { class: "pre" }, h("code", {}, inner.join("\n"))), count: end < 0 ? lines.length : end + 1 };
}

function heading(app, lines) {
  const found = HEADING.exec(lines[0]);
  if (!found) return null;
  const level = Math.min(found[1].length + 2, 6);
  return { node: h(`h${level}`, { class: `heading heading-${found[1].length}` }, inlines(app, found[2])), count: 1 };
}

function rule(_, lines) {
  return RULE.test(lines[0]) ? { node: h("hr", { class: "rule" }), count: 1 } : null;
}

function quote(app, lines) {
  const count = runLength(lines, (line) => /^ {0,3}>/.test(line));
  if (!count) return null;
  const inner = lines.slice(0, count).map((line) => line.replace(/^ {0,3}> ?/, ""));
  return { node: h("blockquote", { class: "quote" }, blocks(app, inner)), count };
}

function list(app, lines) {
  const first = ITEM.exec(lines[0]);
  if (!first || first[1].length > 3) return null;
  const ordered = /\d/.test(first[2]);
  const items = [];
  let index = 0;
  while (index < lines.length) {
    const found = ITEM.exec(lines[index]);
    if (!found || found[1].length > first[1].length + 1 || /\d/.test(found[2]) !== ordered) break;
    const width = found[1].length + found[2].length + 1;
    const count = 1 + runLength(lines.slice(index + 1), (line, at, all) => belongs(line, at, all, width));
    const inner = [found[3] ?? "", ...lines.slice(index + 1, index + count).map((line) => dedented(line, width))];
    items.push(item(app, inner));
    index += count;
  }
  const start = ordered && Number.parseInt(first[2], 10) !== 1 ? Number.parseInt(first[2], 10) : null;
  return { node: h(ordered ? "ol" : "ul", { class: "list", start }, items), count: index };
}

/** Whether a line continues the item above it: indented, or an empty line before an indented one. */
function belongs(line, at, lines, width) {
  if (!line.trim())
    return (
      lines
        .slice(at + 1)
        .find((each) => each.trim())
        ?.search(/\S/) >= Math.min(width, 2)
    );
  if (line.search(/\S/) >= Math.min(width, 2)) return true;
  return at === 0 ? lazy(line) : false;
}

function lazy(line) {
  return ![FENCE, HEADING, RULE, ITEM].some((kind) => kind.test(line)) && !/^ {0,3}>/.test(line);
}

function dedented(line, width) {
  return line.slice(Math.min(width, Math.max(line.search(/\S/), 0)));
}

const TASK = /^\[([ xX])\]\s+/;

function item(app, lines) {
  const task = TASK.exec(lines[0]);
  const inner = blocks(app, task ? [lines[0].replace(TASK, ""), ...lines.slice(1)] : lines);
  const tight = inner.map((node) => (node.matches("p") ? [...node.childNodes] : node));
  const box = task && h("span", { class: "task" }, task[1] === " " ? "☐ " : "☑ ");
  return h("li", {}, box, lines.some((line) => !line.trim()) && inner.length > 1 ? inner : tight);
}

function table(app, lines) {
  if (lines.length < 2 || !lines[0].includes("|") || !DIVIDER.test(lines[1]) || !lines[1].includes("-")) return null;
  const head = cells(lines[0]);
  if (cells(lines[1]).length !== head.length) return null;
  const count = 2 + runLength(lines.slice(2), (line) => line.trim() && line.includes("|"));
  const rows = lines
    .slice(2, count)
    .map((line) => head.map((_, at) => h("td", {}, inlines(app, cells(line)[at] ?? ""))));
  const top = h(
    "tr",
    {},
    head.map((cell) => h("th", { scope: "col" }, inlines(app, cell))),
  );
  const body = h(
    "tbody",
    {},
    rows.map((row) => h("tr", {}, row)),
  );
  return {
    node: h(
      "div",
      { class: "scroll", tabindex: 0, role: "region", "aria-label": "Table" },
      h("table", { class: "table" }, h("thead", {}, top), body),
    ),
    count,
  };
}

function cells(line) {
  return line
    .trim()
    .replace(/^\||(?<!\\)\|$/g, "")
    .split(/(?<!\\)\|/)
    .map((cell) => cell.trim().replaceAll("\\|", "|"));
}

function paragraph(app, lines) {
  const count = 1 + runLength(lines.slice(1), (line) => line.trim() && lazy(line));
  return {
    node: h(
      "p",
      {},
      inlines(
        app,
        lines
          .slice(0, count)
          .map((line) => line.trim())
          .join("\n"),
      ),
    ),
    count,
  };
}

function runLength(lines, test) {
  const end = lines.findIndex((line, index) => !test(line, index, lines));
  return end < 0 ? lines.length : end;
}
