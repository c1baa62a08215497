/** Tasks: one line each, with its state; in a plan they fold behind one line. */

import { h } from "../dom.js";
import { icon } from "../icons.js";
import { richText } from "./rich.js";
import { linkSpan } from "./spans.js";

const STATES = { pending: "waiting", in_progress: "running", complete: "done", error: "not done" };

export function plan(surface, block) {
  const tasks = block.tasks ?? [];
  return h(
    "details",
    { class: "plan", open: true },
    h("summary", {}, h("span", { class: "plan-title" }, block.title)),
    h(
      "ul",
      { class: "tasks" },
      tasks.map((each) => h("li", {}, task(surface, each))),
    ),
  );
}

export function task(surface, block) {
  const state = block.status ?? "pending";
  const sources = (block.sources ?? []).map((each) => linkSpan(surface.app, each.url, each.text));
  return h(
    "div",
    { class: `task task-${state}` },
    sign(state),
    h(
      "div",
      { class: "task-body" },
      h("span", { class: "task-title" }, block.title),
      h("span", { class: "unheard" }, ` (${STATES[state]})`),
      block.details && richText(surface.app, block.details),
      block.output && richText(surface.app, block.output),
      sources.length ? h("div", { class: "task-sources" }, sources) : null,
    ),
  );
}

function sign(state) {
  const inner = state === "complete" ? icon("check") : state === "error" ? icon("alert") : null;
  return h("span", { class: "task-sign", "aria-hidden": "true" }, inner);
}
