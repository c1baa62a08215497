/** Parts of sentences: people, groups, channels, dates, links. Rich text and markup share them. */

import { h } from "../dom.js";
import * as route from "../route.js";
import * as time from "../time.js";

export function userSpan(app, id) {
  const person = app.store.people[id];
  const classes = `mention${id === app.store.me ? " mention-me" : ""}`;
  return h("span", { class: classes, title: person?.real_name }, `@${person?.name ?? id}`);
}

export function groupSpan(app, id, fallback = "") {
  const group = app.store.groups[id];
  const classes = `mention${group?.members.includes(app.store.me) ? " mention-me" : ""}`;
  return h("span", { class: classes }, `@${group?.handle ?? (fallback || id).replace(/^@/, "")}`);
}

export function channelSpan(app, id, fallback = "") {
  const channel = app.store.channels[id];
  if (!channel) return h("span", { class: "mention" }, `#${fallback || id}`);
  return h(
    "a",
    { class: "mention", href: route.to(id) },
    channel.kind === "im" ? app.store.titleOf(channel) : `#${channel.name}`,
  );
}

export function broadcastSpan(range) {
  return h("span", { class: "mention mention-me" }, `@${range}`);
}

export function dateSpan(app, at, template, fallback, url = "") {
  const tz = app.store.person.tz;
  const text = Number.isFinite(at) ? time.dated(template, at, tz, app.store.now()) : fallback;
  const shown = h(
    "time",
    { datetime: new Date(at * 1000).toISOString(), title: `${time.moment(at, tz)} (${tz})` },
    text,
  );
  return url ? linkSpan(app, url, shown) : shown;
}

/** A link. A link to a message of this workspace opens it in this page. Other schemes stay text. */
export function linkSpan(app, url, label) {
  const inside = route.fromPermalink(url, app.store.team.domain);
  if (inside) {
    const go = (event) => {
      event.preventDefault();
      app.goToMessage(inside);
    };
    return h(
      "a",
      { href: route.permalink(inside.place, { ts: inside.ts, thread_ts: inside.thread }), onclick: go },
      label,
    );
  }
  if (!/^(https?:|mailto:)/i.test(url)) return h("span", {}, label);
  return h("a", { href: url, target: "_blank", rel: "noopener noreferrer" }, label);
}
