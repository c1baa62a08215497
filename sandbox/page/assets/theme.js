/** Light or dark: like the computer, until the visitor chooses. */

import { fill, h } from "./dom.js";
import { icon } from "./icons.js";

const dark = matchMedia("(prefers-color-scheme: dark)");

export function themeButton() {
  const button = h("button", { type: "button", class: "quiet" });
  const isDark = () => {
    const { theme } = document.documentElement.dataset;
    return theme === "dark" || (theme !== "light" && dark.matches);
  };
  const draw = () => {
    const name = isDark() ? "Switch to the light theme" : "Switch to the dark theme";
    button.setAttribute("aria-label", name);
    button.title = name;
    fill(button, icon(isDark() ? "sun" : "moon"));
  };
  button.addEventListener("click", () => {
    const next = isDark() ? "light" : "dark";
    document.documentElement.dataset.theme = next;
    localStorage.setItem("theme", next);
    draw();
  });
  dark.addEventListener("change", draw);
  draw();
  return button;
}
