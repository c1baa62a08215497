/** What a thread shows of the agent at work: an agent's session, or the older status of a thread. */

import { h } from "./dom.js";

const SAYS = {
  processing: "is working…",
  suspended: "waits for people",
  closed: "has ended this session",
};

/** What is shown, as one string; empty where nothing is. An active session needs no words: it is the person's turn. */
export function statusOf(channel, ts) {
  const session = channel.sessions?.[ts];
  if (session) return session.status === "active" ? "" : session.status;
  return channel.statuses[ts] ? `status ${channel.statuses[ts]}` : "";
}

export function titleOf(channel, ts) {
  return channel.sessions?.[ts]?.title ?? "";
}

export function statusLine(app, channel, ts) {
  const session = channel.sessions?.[ts];
  const status = session ? SAYS[session.status] : channel.statuses[ts];
  const works = !session || session.status === "processing";
  const stop = () => app.send("stop", { channel: channel.id, thread_ts: ts });
  return h(
    "p",
    { class: `status ${session?.status ?? ""}` },
    works && h("span", { class: "dots", "aria-hidden": "true" }, h("i"), h("i"), h("i")),
    `${app.store.app.name} ${status}`,
    session?.status === "processing" && h("button", { type: "button", class: "button stop", onclick: stop }, "Stop"),
  );
}
