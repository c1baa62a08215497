/** Elements that act at once, in a message, a modal or the Home tab: buttons, menus, boxes. */

import { h } from "../dom.js";
import { icon } from "../icons.js";
import { confirmed } from "../dialogs.js";
import { openMenu } from "../menu.js";
import * as route from "../route.js";
import { field, isField } from "./fields.js";
import { labelText } from "./mrkdwn.js";

export function element(surface, block, told) {
  if (told.type === "button" || told.type === "workflow_button") return button(surface, block, told);
  if (told.type === "overflow") return overflow(surface, block, told);
  if (told.type === "image") return picture(told);
  return isField(told)
    ? acting(surface, block, told)
    : h("p", { class: "unknown" }, `This page can't draw a ${told.type}.`);
}

/** Pictures from elsewhere are not loaded: the page talks to its own server only. */
export function picture(told) {
  return h("span", { class: "picture", role: "img", "aria-label": told.alt_text }, told.alt_text);
}

/** Slack asks "are you sure" if the app wants it. The app hears only of a yes. */
async function act(surface, block, told, value, node) {
  if (told.confirm && !(await confirmed(surface.app, told.confirm))) return false;
  node.setAttribute("aria-busy", "true");
  node.classList.add("busy");
  await surface.act(block.block_id, told.action_id, value);
  node.removeAttribute("aria-busy");
  node.classList.remove("busy");
  return true;
}

function button(surface, block, told) {
  const attributes = {
    class: `button ${told.style ?? ""}`,
    "data-focus": told.action_id,
    "aria-label": told.accessibility_label,
  };
  const pressed = (event) => {
    const node = event.currentTarget;
    if (node.getAttribute("aria-busy") !== "true") act(surface, block, told, null, node);
  };
  if (!told.url) return h("button", { ...attributes, type: "button", onclick: pressed }, labelText(told.text));
  const inside = route.fromPermalink(told.url, surface.app.store.team.domain);
  const follow = (event) => {
    pressed(event);
    if (!inside) return;
    event.preventDefault();
    surface.app.goToMessage(inside);
  };
  const href = inside ? route.permalink(inside.place, { ts: inside.ts, thread_ts: inside.thread }) : told.url;
  if (!/^https?:/i.test(href))
    return h("button", { ...attributes, type: "button", onclick: pressed }, labelText(told.text));
  const away = inside ? {} : { target: "_blank", rel: "noopener noreferrer" };
  return h("a", { ...attributes, ...away, href, onclick: follow }, labelText(told.text));
}

function overflow(surface, block, told) {
  const open = (event) => {
    const node = event.currentTarget;
    const entries = told.options.map((option) => ({
      text: labelText(option.text),
      run: () => act(surface, block, told, option.value, node),
    }));
    openMenu(node, "More options", entries);
  };
  const attributes = { type: "button", class: "button more", "aria-label": "More options", "aria-haspopup": "menu" };
  return h("button", { ...attributes, "data-focus": told.action_id, onclick: open }, icon("more"));
}

/** A field outside of a form: the app hears of each change. */
function acting(surface, block, told) {
  const state = surface.entered(block.block_id, told.action_id) ?? {};
  const made = field(surface.app, told, state.type ? state : initial(told));
  const name = labelText(told.placeholder) || (told.options ?? []).map((option) => labelText(option.text)).join(", ");
  made.control.setAttribute("aria-label", name || told.type);
  made.control.dataset.focus = told.action_id;
  const wrapper = h("span", { class: "acting" }, made.node);
  wrapper.addEventListener("change", () => act(surface, block, told, made.read(), wrapper));
  return wrapper;
}

function initial(told) {
  return {
    selected_option: told.initial_option,
    selected_options: told.initial_options,
    selected_date: told.initial_date,
    selected_time: told.initial_time,
    selected_date_time: told.initial_date_time,
    value: told.initial_value,
    selected_user: told.initial_user,
    selected_channel: told.initial_channel,
    selected_conversation: told.initial_conversation,
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
