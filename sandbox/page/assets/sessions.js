/** What a thread shows of the agent at work. */

import { h } from "./dom.js";

const SAYS = {
  processing: "is working…",
  suspended: "waits for people",
  closed: "has ended this session",
};

/** What is shown, as one string; empty where nothing is. An active session needs no words: it is the person's turn. */
export function statusOf(channel, ts) {
  const status = channel.sessions?.[ts]?.status ?? "active";
  return status === "active" ? "" : status;
}

export function titleOf(channel, ts) {
  return channel.sessions?.[ts]?.title ?? "";
}

export function statusLine(app, channel, ts) {
  const { status } = channel.sessions[ts];
  const works = status === "processing";
  const stop = () => app.send("stop", { channel: channel.id, thread_ts: ts });
  return h(
    "p",
    { class: `status ${status}` },
    works && h("span", { class: "dots", "aria-hidden": "true" }, h("i"), h("i"), h("i")),
    `${app.store.app.name} ${SAYS[status]}`,
    works && h("button", { type: "button", class: "button stop", onclick: stop }, "Stop"),
  );
}
