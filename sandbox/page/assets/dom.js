/** Builds and updates the page. Everything enters it here, as text nodes and attributes, never as markup. */

/** An element: `h("button", {class: "quiet", onclick: act}, "Send")`. Null and false are left out. */
export function h(tag, props = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(props)) set(element, name, value);
  element.append(
    ...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false),
  );
  return element;
}

const PROPERTIES = new Set(["value", "checked", "disabled", "selected", "indeterminate", "multiple", "hidden", "open"]);

function set(element, name, value) {
  if (value === null || value === undefined || value === false) return;
  if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
  else if (PROPERTIES.has(name)) element[name] = value;
  else element.setAttribute(name, value === true ? "" : value);
}

const STANDING = Symbol("what stands in a list");

/**
 * Gives `parent` one element per entry `{key, signature, make}`, in their order. An element with the same signature is
 * kept, with its focus, its selection and what was typed into it.
 */
export function keyed(parent, entries) {
  const before = parent[STANDING] ?? new Map();
  const after = new Map();
  const lost = focusInside(parent);
  let place = parent.firstChild;
  for (const { key, signature, make } of entries) {
    const old = before.get(key);
    const node = old && old.signature === signature ? old.node : make();
    if (old && old.node !== node) {
      if (place === old.node) place = place.nextSibling;
      old.node.remove();
    }
    after.set(key, { node, signature });
    if (node === place) place = place.nextSibling;
    else parent.insertBefore(node, place);
  }
  for (const [key, { node }] of before) if (!after.has(key)) node.remove();
  parent[STANDING] = after;
  restoreFocus(parent, lost, after);
}

/** Where the focus is, by list entry and `data-focus`, which outlive the element. */
function focusInside(parent) {
  const active = document.activeElement;
  if (!active || active === parent || !parent.contains(active)) return null;
  let entry = active;
  while (entry.parentNode !== parent) entry = entry.parentNode;
  for (const [key, { node }] of parent[STANDING] ?? []) {
    if (node === entry) return { key, name: active.dataset.focus ?? "", active };
  }
  return null;
}

function restoreFocus(parent, lost, after) {
  if (!lost || document.contains(lost.active)) return;
  const entry = after.get(lost.key)?.node ?? parent;
  const same =
    lost.name && [...entry.querySelectorAll("[data-focus]")].find((each) => each.dataset.focus === lost.name);
  (same || entry).focus({ preventScroll: true });
}

let isPressed = false;
let waiting = null;

/**
 * Runs `change` now, or after the click that somebody is in the middle of. The browser drops a click if its element is
 * replaced or moves while the button is down. Only the latest change waits.
 */
export function betweenClicks(change) {
  if (isPressed) waiting = change;
  else change();
}

function pressed(event) {
  isPressed = event.isPrimary && event.button === 0;
}

function released() {
  isPressed = false;
  const change = waiting;
  waiting = null;
  if (change) setTimeout(change); // the click comes right after the pointer went up
}

addEventListener("pointerdown", pressed, true);
for (const name of ["pointerup", "pointercancel"]) addEventListener(name, released, true);
addEventListener("blur", released); // the window's own

let numbers = 0;

/** A fresh id, for labels and descriptions to point at. */
export function freshId(prefix) {
  numbers += 1;
  return `${prefix}-${numbers}`;
}

/** Replaces the children. */
export function fill(element, ...children) {
  delete element[STANDING];
  element.replaceChildren(
    ...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false),
  );
}
