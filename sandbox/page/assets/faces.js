/** Names, initials and signs of people and channels. */

import { h } from "./dom.js";
import { icon } from "./icons.js";

export function nameOf(store, id) {
  return store.people[id]?.name ?? id;
}

/** Initials on the person's colour. The app has an icon instead. */
export function avatar(store, id, size = "") {
  const person = store.people[id];
  const classes = `avatar ${size} ${person?.bot ? "avatar-app" : `tint-${tint(store, id)}`}`;
  return h(
    "span",
    { class: classes, "aria-hidden": "true" },
    person?.bot ? icon("shield") : initials(person?.real_name ?? id),
  );
}

function initials(name) {
  const words = name
    .trim()
    .split(/[\s_-]+/)
    .filter(Boolean);
  const letters = words.length > 1 ? [words[0], words.at(-1)] : [words[0] ?? "?"];
  return letters.map((word) => [...word][0].toUpperCase()).join("");
}

/** By the order of people, so that a few people have different colours. */
function tint(store, id) {
  return Math.max(0, Object.keys(store.people).indexOf(id)) % 8;
}

/** The sign before a channel's name. */
export function channelSign(store, channel) {
  if (channel.kind === "im") return avatar(store, channel.with, "small");
  return icon(channel.kind === "private" ? "lock" : channel.kind === "mpim" ? "people" : "hash");
}

/** This person's role, in a few words. */
export function roleOf(store, person) {
  if (person.role) return person.role;
  const group = Object.values(store.groups).find((each) => each.members.includes(person.id));
  if (group) return `@${group.handle}`;
  return person.guest ? "guest" : person.elsewhere ? "from elsewhere" : "";
}
