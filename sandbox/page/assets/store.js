/**
 * One person's screen, as the server sends it. A patch has the shape of the whole screen and is merged into it. In
 * these maps, null removes an entry.
 */

const MAPS = ["channels", "people", "groups"];

export class Store extends EventTarget {
  #order = new Map();

  constructor() {
    super();
    this.ready = false;
    this.items = new Map();
  }

  /** A whole screen. It replaces the one before. */
  replace(screen) {
    Object.assign(this, { modal: null, home: null, notices: [], people: {}, groups: {}, channels: {}, messages: {} });
    const { now, items, ...rest } = screen;
    Object.assign(this, rest, { items: new Map() });
    this.#order.clear();
    this.ahead = now * 1000 - Date.now();
    this.#keepItems(items);
    this.ready = true;
    this.dispatchEvent(new CustomEvent("replaced"));
    this.dispatchEvent(new CustomEvent("changed", { detail: screen }));
  }

  patch(patch) {
    for (const name of MAPS) merge(this[name], patch[name]);
    for (const [channel, messages] of Object.entries(patch.messages ?? {})) {
      this.messages[channel] ??= {};
      this.#order.delete(channel);
      merge(this.messages[channel], messages);
    }
    if ("now" in patch) this.ahead = patch.now * 1000 - Date.now();
    for (const name of ["modal", "home", "notices", "stage"]) if (name in patch) this[name] = patch[name];
    for (const id of Object.keys(this.messages)) if (!this.channels[id]) delete this.messages[id];
    this.#keepItems(patch.items);
    this.dispatchEvent(new CustomEvent("changed", { detail: patch }));
  }

  #keepItems(items = []) {
    for (const item of items) this.items.set(item.number, item);
  }

  get person() {
    return this.people[this.me];
  }

  /** Milliseconds since 1970 by the server's clock, which the demo may have moved forward. */
  now() {
    return Date.now() + this.ahead;
  }

  /** Everybody that a visitor can act as. */
  get cast() {
    return Object.values(this.people).filter((each) => !each.bot && !each.deleted);
  }

  message(channel, ts) {
    return this.messages[channel]?.[ts];
  }

  /** The messages of a channel, or of one of its threads, in order. */
  listed(channel, thread = "") {
    const { roots, threads } = this.#sorted(channel);
    return thread ? (threads.get(thread) ?? roots.filter((each) => each.ts === thread)) : roots;
  }

  replies(channel, ts) {
    return (this.#sorted(channel).threads.get(ts) ?? []).filter((each) => each.ts !== ts && !each.is_ephemeral);
  }

  #sorted(channel) {
    if (!this.#order.has(channel)) this.#order.set(channel, inOrder(Object.values(this.messages[channel] ?? {})));
    return this.#order.get(channel);
  }

  /** A channel's name. A direct conversation has the other person's name. */
  titleOf(channel) {
    if (channel.kind === "im") return this.people[channel.with]?.name ?? channel.with;
    if (channel.kind !== "mpim") return channel.name;
    return channel.members
      .filter((id) => id !== this.me)
      .map((id) => this.people[id]?.name ?? id)
      .join(", ");
  }
}

/** The channel's own messages, and each thread with its first message. */
function inOrder(messages) {
  const all = messages.sort((a, b) => (a.ts < b.ts ? -1 : 1));
  const threads = new Map();
  for (const message of all) {
    const root = message.thread_ts || message.ts;
    if (!threads.has(root)) threads.set(root, []);
    threads.get(root).push(message);
  }
  return { roots: all.filter((each) => !isReply(each) || each.subtype === "thread_broadcast"), threads };
}

export function isReply(message) {
  return Boolean(message.thread_ts) && message.thread_ts !== message.ts;
}

function merge(map, patch = {}) {
  for (const [key, value] of Object.entries(patch)) {
    if (value === null) delete map[key];
    else map[key] = value;
  }
}
