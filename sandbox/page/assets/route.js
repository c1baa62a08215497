/**
 * The page's place in the workspace: `#/C123`, `#/C123/1795.0001` for a thread, `#/home`. Links are real links, so that
 * back, forward and bookmarks work.
 */

export function read() {
  const [, place = "", thread = ""] = decodeURI(location.hash).split("/");
  return { place, thread };
}

export function to(place, thread = "") {
  return thread ? `#/${place}/${thread}` : `#/${place}`;
}

const PERMALINK = /^\/archives\/([A-Z0-9]+)\/p(\d{10})(\d{6})$/;

/** The place of a message from its permalink, which has Slack's address or ours. */
export function fromPermalink(url, domain) {
  let parsed;
  try {
    parsed = new URL(url, location.href);
  } catch {
    return null;
  }
  if (parsed.host !== location.host && parsed.host !== `${domain}.slack.com`) return null;
  const found = PERMALINK.exec(parsed.pathname);
  if (!found) return null;
  const ts = `${found[2]}.${found[3]}`;
  return { place: found[1], thread: parsed.searchParams.get("thread_ts") ?? "", ts };
}

export function permalink(channel, message) {
  const link = new URL(`/archives/${channel}/p${message.ts.replace(".", "")}`, location.href);
  if (message.thread_ts && message.thread_ts !== message.ts) {
    link.searchParams.set("thread_ts", message.thread_ts);
    link.searchParams.set("cid", channel);
  }
  return link.href;
}
