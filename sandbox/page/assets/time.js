/** Times and dates in the person's time zone, whatever the visitor's computer uses. */

const cache = new Map();

function format(tz, options) {
  const key = JSON.stringify([tz, options]);
  if (!cache.has(key)) cache.set(key, new Intl.DateTimeFormat("en-GB", { ...options, timeZone: tz }));
  return cache.get(key);
}

export const seconds = (ts) => Number.parseFloat(ts);

export function clock(at, tz, withSeconds = false) {
  const second = withSeconds ? { second: "2-digit" } : {};
  return format(tz, { hour: "2-digit", minute: "2-digit", ...second }).format(at * 1000);
}

/** The calendar day, as `2026-11-21`. */
export function day(at, tz) {
  const parts = Object.fromEntries(
    format(tz, { year: "numeric", month: "2-digit", day: "2-digit" })
      .formatToParts(at * 1000)
      .map((p) => [p.type, p.value]),
  );
  return `${parts.year}-${parts.month}-${parts.day}`;
}

/** Above the messages of one day: Today, Yesterday, or the date. */
export function dayTitle(at, tz, now) {
  return near(at, tz, now, true) ?? format(tz, { weekday: "long", day: "numeric", month: "long" }).format(at * 1000);
}

export function moment(at, tz) {
  return `${format(tz, { day: "numeric", month: "short", year: "numeric" }).format(at * 1000)}, ${clock(at, tz, true)}`;
}

function near(at, tz, now, capital) {
  const days = Math.round((Date.parse(day(at, tz)) - Date.parse(day(now / 1000, tz))) / 86_400_000);
  const word = { "-1": "yesterday", 0: "today", 1: "tomorrow" }[days];
  return word && capital ? word[0].toUpperCase() + word.slice(1) : word;
}

const DATES = {
  date: { year: "numeric", month: "long", day: "numeric" },
  date_short: { year: "numeric", month: "short", day: "numeric" },
  date_long: { weekday: "long", year: "numeric", month: "long", day: "numeric" },
};

/** A date's template, such as `{date_short_pretty} at {time}`. Slack begins a sentence with a capital “Today”. */
export function dated(template, at, tz, now) {
  return template.replace(/\{(\w+)\}/g, (whole, name, offset) => {
    if (name === "time") return clock(at, tz);
    if (name === "time_secs") return clock(at, tz, true);
    if (name === "date_num") return day(at, tz);
    if (name === "ago") return ago(at, now);
    const pretty = name.endsWith("_pretty") && near(at, tz, now, offset === 0);
    const options = DATES[name.replace(/_pretty$/, "")];
    return pretty || (options ? format(tz, options).format(at * 1000) : whole);
  });
}

function ago(at, now) {
  const units = [
    ["day", 86_400],
    ["hour", 3600],
    ["minute", 60],
  ];
  const passed = at - now / 1000;
  const [unit, size] = units.find(([, each]) => Math.abs(passed) >= each) ?? ["second", 1];
  return new Intl.RelativeTimeFormat("en").format(Math.round(passed / size), unit);
}
