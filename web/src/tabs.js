// The tabs of a page. What a tab shows is drawn when it is chosen. Panels without a view are of other pages.

import { $, afterPaint, make } from "./dom.js";

export class Tabs {
  // `views` are functions by the names of panels; changed(): another one was chosen.
  constructor(views, changed) {
    Object.assign(this, { views, changed, chosen: Object.keys(views)[0] });
    const names = Object.keys(views);
    for (const panel of document.querySelectorAll("main > [data-title]")) if (!views[panel.id.slice("panel-".length)]) panel.remove();
    for (const form of document.querySelectorAll("main form")) form.addEventListener("submit", (event) => event.preventDefault());
    names.forEach((name, i) => {
      const panel = $(`panel-${name}`);
      const tab = make("button", { type: "button", role: "tab", id: `tab-${name}`, "aria-controls": panel.id, text: panel.dataset.title, onclick: () => this.show(name) });
      panel.setAttribute("role", "tabpanel");
      panel.setAttribute("aria-labelledby", tab.id);
      tab.addEventListener("keydown", (event) => {
        const to = { ArrowRight: i + 1, ArrowLeft: i - 1, Home: 0, End: names.length - 1 }[event.key];
        if (to === undefined) return;
        event.preventDefault();
        const next = names[(to + names.length) % names.length];
        this.show(next);
        $(`tab-${next}`).focus();
      });
      $("tabs").append(tab);
    });
    this.mark();
  }

  // The first one, if there is no such tab.
  choose(name) {
    this.chosen = this.views[name] ? name : Object.keys(this.views)[0];
    this.mark();
  }

  show(name) {
    this.choose(name);
    this.drawSoon();
    this.changed();
  }

  // After a frame that shows what takes less time: the reader sees at once that the choice was taken.
  drawSoon() {
    if (!this.due) afterPaint(() => this.due && this.draw());
    this.due = true;
  }

  draw() {
    this.due = false;
    this.views[this.chosen]();
  }

  mark() {
    for (const name of Object.keys(this.views)) {
      const on = name === this.chosen;
      $(`panel-${name}`).hidden = !on;
      $(`tab-${name}`).setAttribute("aria-selected", String(on));
      $(`tab-${name}`).tabIndex = on ? 0 : -1;
    }
    requestAnimationFrame(() => this.uncover()); // when the panel has its contents: the browser lays them out once
  }

  // On a phone the row of tabs scrolls.
  uncover() {
    const [tab, all] = [`tab-${this.chosen}`, "tabs"].map((id) => $(id).getBoundingClientRect());
    $("tabs").scrollLeft += Math.max(0, tab.right - all.right) + Math.min(0, tab.left - all.left);
  }
}
