/** Icons. They are decoration, beside words or in a control that has a name. */

const PATHS = {
  hash: "M9 3 7 21M17 3l-2 18M4 9h17M3 15h17",
  lock: "M6 11h12v9H6zM8.5 11V7.5a3.5 3.5 0 0 1 7 0V11",
  people:
    "M9 11a3.5 3.5 0 1 0 0-7 3.5 3.5 0 0 0 0 7ZM2.5 20c.6-4 3-6 6.5-6s5.9 2 6.5 6M16 4.5a3.5 3.5 0 0 1 0 6.5M18 14.5c2 .8 3.2 2.7 3.5 5.5",
  home: "M3 11.5 12 4l9 7.5M5.5 10v10h13V10M10 20v-6h4v6",
  reply: "M20 5H4v11h4v4l5-4h7z",
  more: "M5 12h.01M12 12h.01M19 12h.01",
  close: "M6 6l12 12M18 6 6 18",
  back: "M15 5l-7 7 7 7",
  down: "M6 9l6 6 6-6",
  send: "M4 12 3 4l18 8-18 8 1-8zm0 0h8",
  clip: "M20 11.5 12 19.5a5 5 0 0 1-7-7L13.5 4a3.3 3.3 0 0 1 4.7 4.7L9.8 17a1.7 1.7 0 0 1-2.4-2.4l7.6-7.6",
  at: "M15.5 12a3.5 3.5 0 1 1-7 0 3.5 3.5 0 0 1 7 0Zm0-3.5v5a2.5 2.5 0 0 0 5 0V12a8.5 8.5 0 1 0-3.5 6.9",
  bolt: "M13 3 5 13.5h6L10 21l8.5-10.5h-6z",
  sun: "M12 8a4 4 0 1 0 0 8 4 4 0 0 0 0-8ZM12 2.5v2M12 19.5v2M2.5 12h2M19.5 12h2M5.3 5.3l1.4 1.4M17.3 17.3l1.4 1.4M5.3 18.7l1.4-1.4M17.3 6.7l1.4-1.4",
  moon: "M20 14.5A8.5 8.5 0 0 1 9.5 4 8.5 8.5 0 1 0 20 14.5Z",
  eye: "M2.5 12c2.2-4.3 5.4-6.5 9.5-6.5s7.3 2.2 9.5 6.5c-2.2 4.3-5.4 6.5-9.5 6.5S4.7 16.3 2.5 12ZM12 9a3 3 0 1 0 0 6 3 3 0 0 0 0-6Z",
  flow: "M4 7h11l-3-3M20 17H9l3 3M4 17h.01M20 7h.01",
  file: "M6 3h8l4 4v14H6zM14 3v4h4",
  check: "M4.5 12.5 10 18 19.5 7",
  shield: "M12 3l7 2.5V11c0 4.5-2.8 8-7 10-4.2-2-7-5.5-7-10V5.5zM8.5 12l2.5 2.5 4.5-5",
  alert: "M12 4 2.5 20h19zM12 10v4.5M12 17.3h.01",
  link: "M10 14a4 4 0 0 0 5.7 0l3-3A4 4 0 0 0 13 5.3l-1 1M14 10a4 4 0 0 0-5.7 0l-3 3a4 4 0 0 0 5.7 5.7l1-1",
  pencil: "M4 20l1-4.5L16.5 4l3.5 3.5L8.5 19z",
  bulb: "M9 18h6M10 21h4M12 3a6 6 0 0 0-3.5 10.9c.6.5.9 1.2 1 2.1h5c.1-.9.4-1.6 1-2.1A6 6 0 0 0 12 3Z",
  bin: "M5 7h14M10 7V4h4v3M7 7l1 13h8l1-13",
};

export function icon(name) {
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  const attributes = { viewBox: "0 0 24 24", class: `icon icon-${name}`, "aria-hidden": "true", focusable: "false" };
  for (const [key, value] of Object.entries(attributes)) svg.setAttribute(key, value);
  const path = document.createElementNS("http://www.w3.org/2000/svg", "path");
  path.setAttribute("d", PATHS[name]);
  svg.append(path);
  return svg;
}
