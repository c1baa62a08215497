/** The names that apps write between colons, as far as this project's messages use them. */

const NAMES = {
  "+1": "👍",
  "-1": "👎",
  alarm_clock: "⏰",
  arrow_right: "➡️",
  bell: "🔔",
  bulb: "💡",
  calendar: "📅",
  clock1: "🕐",
  construction: "🚧",
  eyes: "👀",
  fire: "🔥",
  hammer_and_wrench: "🛠️",
  heart: "❤️",
  heavy_check_mark: "✔️",
  hourglass: "⌛",
  hourglass_flowing_sand: "⏳",
  information_source: "ℹ️",
  joy: "😂",
  key: "🔑",
  lock: "🔒",
  mag: "🔍",
  memo: "📝",
  money_with_wings: "💸",
  moneybag: "💰",
  no_entry: "⛔",
  no_entry_sign: "🚫",
  ok_hand: "👌",
  pencil2: "✏️",
  point_right: "👉",
  pray: "🙏",
  question: "❓",
  raised_hand: "✋",
  repeat: "🔁",
  robot_face: "🤖",
  rocket: "🚀",
  rotating_light: "🚨",
  slightly_smiling_face: "🙂",
  smile: "😄",
  sparkles: "✨",
  stop_sign: "🛑",
  tada: "🎉",
  thinking_face: "🤔",
  thumbsdown: "👎",
  thumbsup: "👍",
  unlock: "🔓",
  wave: "👋",
  warning: "⚠️",
  white_check_mark: "✅",
  x: "❌",
};

export function emoji(name) {
  return Object.hasOwn(NAMES, name) ? NAMES[name] : `:${name}:`;
}

/** A text with emoji names between colons. */
export function withEmoji(text) {
  return text.replace(/:([a-z0-9_+-]+):/g, (_, name) => emoji(name));
}
