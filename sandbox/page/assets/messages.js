/** Messages as a conversation shows them: grouped by author and day, each with its menu. */

import { h, keyed } from "./dom.js";
import { avatar, nameOf } from "./faces.js";
import { icon } from "./icons.js";
import { messageTools } from "./message_tools.js";
import { editor } from "./editor.js";
import { blocks } from "./render/blocks.js";
import { messageSurface } from "./render/elements.js";
import { mrkdwn } from "./render/mrkdwn.js";
import { showFile } from "./files.js";
import { isReply } from "./store.js";
import * as route from "./route.js";
import { statusLine, statusOf } from "./sessions.js";
import * as time from "./time.js";

const TOGETHER = 300;

/** Draws a channel, or one thread of it, into a list. `since`: the messages after it are new to this person. */
export function conversation(app, list, { channel, thread = "", since = "" }) {
  const { store } = app;
  const tz = store.person.tz;
  const entries = [];
  let before = null;
  let marked = !since;
  for (const message of store.listed(channel.id, thread)) {
    const day = time.day(time.seconds(message.ts), tz);
    if (day !== before?.day && !(thread && before)) entries.push(dayLine(app, message, day));
    if (!marked && message.ts > since && message.user !== store.me) {
      marked = true;
      if (before) entries.push(newLine());
    }
    const compact = Boolean(before) && before.day === day && follows(before.message, message) && message.ts !== thread;
    entries.push(entry(app, channel, message, { compact, thread }));
    if (thread && message.ts === thread) entries.push(repliesLine(store.replies(channel.id, thread).length));
    before = { message, day };
  }
  keyed(list, entries);
  list
    .querySelectorAll(":scope > .message")
    .forEach((node, at, all) => (node.tabIndex = at === all.length - 1 ? 0 : -1));
}

function follows(before, message) {
  const near = time.seconds(message.ts) - time.seconds(before.ts) < TOGETHER;
  const alike = before.user === message.user && Boolean(before.is_ephemeral) === Boolean(message.is_ephemeral);
  const isRoot = before.thread_ts === before.ts;
  return near && alike && !isRoot && !message.subtype && isReply(message) === isReply(before);
}

function dayLine(app, message, day) {
  const { store } = app;
  const title = time.dayTitle(time.seconds(message.ts), store.person.tz, store.now());
  return { key: `day ${day}`, signature: title, make: () => h("li", { class: "day" }, h("span", {}, title)) };
}

function newLine() {
  return { key: "new", signature: "", make: () => h("li", { class: "new" }, h("span", {}, "New")) };
}

function repliesLine(count) {
  const text = count === 1 ? "1 reply" : `${count} replies`;
  return {
    key: "replies",
    signature: text,
    make: () => h("li", { class: "replies-line", hidden: !count }, h("span", {}, text)),
  };
}

function entry(app, channel, message, { compact, thread }) {
  const { store } = app;
  const replies = thread ? [] : store.replies(channel.id, message.ts);
  const status = thread ? "" : statusOf(channel, message.ts);
  const editing = app.editing === message.ts;
  const signature = JSON.stringify([
    written(message),
    compact,
    editing,
    status,
    replies.map((each) => [each.ts, each.user]),
    store.me,
  ]);
  return {
    key: message.ts,
    signature,
    make: () => item(app, channel, message, { compact, thread, replies, status, editing }),
  };
}

const texts = new WeakMap();

/** A message as one string, to find out whether it changed. */
function written(message) {
  if (!texts.has(message)) texts.set(message, JSON.stringify(message));
  return texts.get(message);
}

function item(app, channel, message, { compact, thread, replies, status, editing }) {
  const author = nameOf(app.store, message.user);
  const at = time.seconds(message.ts);
  const { tz } = app.store.person;
  const stamp = h(
    "time",
    { class: "stamp", datetime: new Date(at * 1000).toISOString(), title: time.moment(at, tz) },
    time.clock(at, tz),
  );
  const classes = [
    "message",
    compact && "compact",
    message.is_ephemeral && "ephemeral",
    message.streaming && "streaming",
  ];
  return h(
    "li",
    {
      class: classes.filter(Boolean).join(" "),
      tabindex: -1,
      "data-ts": message.ts,
      "aria-label": `${author}, ${time.clock(at, tz)}`,
    },
    h("div", { class: "gutter" }, compact ? stamp : avatar(app.store, message.user)),
    h(
      "div",
      { class: "body" },
      message.is_ephemeral && onlyYou(app, channel, message),
      message.subtype === "thread_broadcast" && !thread && broadcastLine(channel, message),
      compact ? null : head(app, message, author, stamp),
      editing ? editor(app, channel, message) : content(app, channel, message),
      (message.files ?? []).map((file) => attached(app, file)),
      replies.length ? replyBar(app, channel, message, replies) : null,
      status && statusLine(app, channel, message.ts),
    ),
    editing ? null : messageTools(app, channel, message, thread),
  );
}

function head(app, message, author, stamp) {
  const person = app.store.people[message.user];
  return h(
    "div",
    { class: "head" },
    h("strong", { class: "author" }, author),
    person?.bot && h("span", { class: "badge" }, "App"),
    stamp,
  );
}

function content(app, channel, message) {
  const surface = messageSurface(app, channel.id, message);
  const shown = message.blocks?.length
    ? blocks(surface, message.blocks)
    : h("div", { class: "block text" }, mrkdwn(app, message.text));
  const edited = message.edited && !message.streaming && h("span", { class: "edited" }, "(edited)");
  return h("div", { class: "content" }, shown, edited);
}

function onlyYou(app, channel, message) {
  const dismiss = () => app.send("delete", { channel: channel.id, ts: message.ts });
  return h(
    "p",
    { class: "only-you" },
    icon("eye"),
    h("span", {}, "Only visible to you"),
    h("button", { type: "button", class: "plain-link", onclick: dismiss }, "Dismiss"),
  );
}

function broadcastLine(channel, message) {
  return h(
    "p",
    { class: "only-you" },
    "replied to a thread: ",
    h("a", { href: route.to(channel.id, message.thread_ts) }, "open it"),
  );
}

function attached(app, file) {
  const size = file.size < 1024 ? `${file.size} bytes` : `${(file.size / 1024).toFixed(1)} kB`;
  return h(
    "button",
    { type: "button", class: "file", onclick: () => showFile(app, file) },
    icon("file"),
    h("span", {}, h("strong", {}, file.title), h("span", { class: "hint" }, size)),
  );
}

function replyBar(app, channel, message, replies) {
  const people = [...new Set(replies.map((each) => each.user))].slice(0, 4);
  const last = replies.at(-1);
  const count = replies.length === 1 ? "1 reply" : `${replies.length} replies`;
  return h(
    "a",
    { class: "reply-bar", href: route.to(channel.id, message.ts), "data-focus": "replies" },
    people.map((id) => avatar(app.store, id, "small")),
    h("span", { class: "reply-count" }, count),
    h("span", { class: "hint" }, `Last at ${time.clock(time.seconds(last.ts), app.store.person.tz)}`),
  );
}
