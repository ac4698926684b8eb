// Light or dark, as the system has it or as the button says.

import { $ } from "./dom.js";

function showTheme(dark) {
  document.documentElement.dataset.theme = dark ? "dark" : "light";
  $("theme").textContent = dark ? "Light" : "Dark";
  $("theme").setAttribute("aria-label", dark ? "Use light colours" : "Use dark colours");
}

// changed(): what a style sheet does not colour is to be drawn again.
export function addTheme(changed) {
  const system = window.matchMedia("(prefers-color-scheme: dark)");
  let dark = system.matches;
  const set = (value) => {
    dark = value;
    showTheme(dark);
    changed();
  };
  showTheme(dark);
  $("theme").addEventListener("click", () => set(!dark));
  system.addEventListener("change", () => set(system.matches));
}
