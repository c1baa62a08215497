/** Elements that act at once, in a message, a modal or the Home tab: buttons, menus, boxes. */

import { h } from "../dom.js";
import { icon } from "../icons.js";
import { confirmed } from "../dialogs.js";
import { openMenu } from "../menu.js";
import * as route from "../route.js";
import { field, isField } from "./fields.js";
import { labelText } from "./mrkdwn.js";

export function element(surface, block, control) {
  if (control.type === "button") return button(surface, block, control);
  if (control.type === "overflow") return overflow(surface, block, control);
  return isField(control)
    ? acting(surface, block, control)
    : h("p", { class: "unknown" }, `This page can't draw a ${control.type}.`);
}

/** Slack asks "are you sure" if the app wants it. The app hears only of a yes. */
async function act(surface, block, control, value, node) {
  if (control.confirm && !(await confirmed(surface.app, control.confirm))) return false;
  node.setAttribute("aria-busy", "true");
  node.classList.add("busy");
  await surface.act(block.block_id, control.action_id, value);
  node.removeAttribute("aria-busy");
  node.classList.remove("busy");
  return true;
}

function button(surface, block, control) {
  const attributes = {
    class: `button ${control.style ?? ""}`,
    "data-focus": control.action_id,
    "aria-label": control.accessibility_label,
  };
  const pressed = (event) => {
    const node = event.currentTarget;
    if (node.getAttribute("aria-busy") !== "true") act(surface, block, control, null, node);
  };
  if (!control.url) return h("button", { ...attributes, type: "button", onclick: pressed }, labelText(control.text));
  const inside = route.fromPermalink(control.url, surface.app.store.team.domain);
  const follow = (event) => {
    pressed(event);
    if (!inside) return;
    event.preventDefault();
    surface.app.goToMessage(inside);
  };
  const href = inside ? route.permalink(inside.place, { ts: inside.ts, thread_ts: inside.thread }) : control.url;
  if (!/^https?:/i.test(href))
    return h("button", { ...attributes, type: "button", onclick: pressed }, labelText(control.text));
  const away = inside ? {} : { target: "_blank", rel: "noopener noreferrer" };
  return h("a", { ...attributes, ...away, href, onclick: follow }, labelText(control.text));
}

function overflow(surface, block, control) {
  const open = (event) => {
    const node = event.currentTarget;
    const entries = control.options.map((option) => ({
      text: labelText(option.text),
      run: () => act(surface, block, control, option.value, node),
    }));
    openMenu(node, "More options", entries);
  };
  const attributes = { type: "button", class: "button more", "aria-label": "More options", "aria-haspopup": "menu" };
  return h("button", { ...attributes, "data-focus": control.action_id, onclick: open }, icon("more"));
}

/** A field outside of a form: the app hears of each change. */
function acting(surface, block, control) {
  const state = surface.entered(block.block_id, control.action_id) ?? {};
  const made = field(surface.app, control, state.type ? state : initial(control));
  const name = labelText(control.placeholder) || (control.options ?? []).map((option) => labelText(option.text)).join(", ");
  made.control.setAttribute("aria-label", name || control.type);
  made.control.dataset.focus = control.action_id;
  const wrapper = h("span", { class: "acting" }, made.node);
  wrapper.addEventListener("change", () => act(surface, block, control, made.read(), wrapper));
  return wrapper;
}

function initial(control) {
  return {
    selected_option: control.initial_option,
    selected_options: control.initial_options,
    selected_date: control.initial_date,
    selected_date_time: control.initial_date_time,
  };
}

/** What messages' controls talk to. */
export function messageSurface(app, channel, message) {
  return {
    app,
    entered: () => undefined,
    act: (block_id, action_id, value) => app.send("act", { channel, ts: message.ts, block_id, action_id, value }),
  };
}

/** What the controls of a modal or a Home talk to. */
export function viewSurface(app, view) {
  return {
    app,
    entered: (block, action) => view.state.values[block]?.[action],
    act: (block_id, action_id, value) => app.send("act_in_view", { view: view.id, block_id, action_id, value }),
  };
}
