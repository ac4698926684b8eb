// Light or dark, as the system has it or as the button says.

import { $ } from "./dom.js";

// changed(dark): what a style sheet does not colour is to be drawn again. Returns what chooses dark or light.
export function addTheme(changed) {
  const system = window.matchMedia("(prefers-color-scheme: dark)");
  const choose = (dark) => {
    document.documentElement.dataset.theme = dark ? "dark" : "light";
    $("theme").textContent = dark ? "Light" : "Dark";
    $("theme").setAttribute("aria-label", dark ? "Use light colours" : "Use dark colours");
    $("theme").onclick = () => choose(!dark);
    changed(dark);
  };
  system.addEventListener("change", () => choose(system.matches));
  choose(system.matches);
  return choose;
}
