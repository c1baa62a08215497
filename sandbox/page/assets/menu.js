/** A menu at a button. Arrow keys move in it, Escape and Tab close it, and the focus goes back to the button. */

import { h } from "./dom.js";

let close = () => {};

/** `entries`: `{text, run, note?, danger?, checked?}`; null draws a line. */
export function openMenu(anchor, name, entries) {
  close();
  const items = entries.map((entry) => (entry ? item(entry) : h("div", { class: "menu-line", role: "separator" })));
  const menu = h("div", { class: "menu", role: "menu", "aria-label": name, popover: "manual" }, items);
  const outside = (event) => {
    if (!menu.contains(event.target) && !anchor.contains(event.target)) close(false);
  };
  close = (refocus = true) => {
    close = () => {};
    document.removeEventListener("pointerdown", outside, true);
    anchor.setAttribute("aria-expanded", "false");
    menu.remove();
    if (refocus && document.contains(anchor)) anchor.focus();
  };
  menu.addEventListener("keydown", (event) => walk(event, menu));
  (anchor.closest("dialog") ?? document.body).append(menu);
  menu.showPopover();
  place(menu, anchor);
  anchor.setAttribute("aria-expanded", "true");
  document.addEventListener("pointerdown", outside, true);
  menu.querySelector("[role^=menuitem]")?.focus();
}

function item(entry) {
  const isChoice = entry.checked !== undefined;
  const attributes = {
    type: "button",
    class: `menu-item ${entry.danger ? "danger" : ""}`,
    tabindex: -1,
    role: isChoice ? "menuitemradio" : "menuitem",
    "aria-checked": isChoice ? String(entry.checked) : null,
  };
  const run = () => {
    close();
    entry.run();
  };
  return h(
    "button",
    { ...attributes, onclick: run },
    entry.face,
    h("span", {}, entry.text),
    entry.note && h("span", { class: "menu-note" }, entry.note),
  );
}

function walk(event, menu) {
  const items = [...menu.querySelectorAll("[role^=menuitem]")];
  const at = items.indexOf(document.activeElement);
  const steps = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: items.length - 1 };
  if (event.key in steps) {
    event.preventDefault();
    items[(steps[event.key] + items.length) % items.length].focus();
  } else if (event.key === "Escape" || event.key === "Tab") {
    event.preventDefault();
    event.stopPropagation();
    close();
  }
}

/** Below the button, or above if there is no room, and always inside the window. */
function place(menu, anchor) {
  const at = anchor.getBoundingClientRect();
  const { offsetWidth: width, offsetHeight: height } = menu;
  const below = at.bottom + 4 + height <= innerHeight - 8;
  menu.style.top = `${Math.max(8, below ? at.bottom + 4 : at.top - 4 - height)}px`;
  menu.style.left = `${Math.max(8, Math.min(at.left, innerWidth - width - 8))}px`;
}
