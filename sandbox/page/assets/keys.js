/** Keys besides Tab: arrows move through messages, F6 goes to the next part of the page. */

const PARTS = ["nav", "messages", "home", "composer", "thread", "panel"];

export function listen(app) {
  document.addEventListener("keydown", (event) => {
    if (event.key === "F6") {
      event.preventDefault();
      nextPart(event.shiftKey ? -1 : 1);
    } else if (event.target.matches?.("li.message")) walk(app, event);
  });
}

function walk(app, event) {
  const here = event.target;
  const all = [...here.parentNode.querySelectorAll(":scope > .message")];
  const at = all.indexOf(here);
  const steps = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: all.length - 1 };
  if (event.key in steps) {
    const next = all[Math.min(Math.max(steps[event.key], 0), all.length - 1)];
    event.preventDefault();
    here.tabIndex = -1;
    next.tabIndex = 0;
    next.focus();
    next.scrollIntoView({ block: "nearest" });
  } else if (event.key === "Enter") {
    const reply = here.querySelector(".reply-bar") ?? here.querySelector("a.tool");
    if (reply) {
      event.preventDefault();
      location.hash = reply.getAttribute("href");
      app.focusThread();
    }
  }
}

function nextPart(step) {
  const parts = PARTS.map((id) => document.getElementById(id)).filter(
    (part) => part && !part.hidden && part.checkVisibility(),
  );
  const at = parts.findIndex((part) => part.contains(document.activeElement));
  const next = parts[at < 0 ? 0 : (at + step + parts.length) % parts.length];
  const stop = next.querySelector("[aria-current], .message[tabindex='0'], textarea, a[href], button") ?? next;
  stop.focus();
}
