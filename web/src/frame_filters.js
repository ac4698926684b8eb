// Call stacks through a function alone, or without those: chosen in the flame graph and the tree.

import { stacksThrough } from "./calls.js";
import { foreign, make } from "./dom.js";

export const removableChip = (text, name, remove) => make("button", { type: "button", class: "chip", "aria-label": `${text} ${name}: remove this filter`, onclick: remove }, `${text} `, foreign(name), " ✕");

export class FrameFilters {
  // changed(): another list of filters.
  constructor(model, changed) {
    Object.assign(this, { model, changed, list: [] });
  }

  make(keep, { label, name }) {
    return { keep, number: this.model.frameNumber(label), name, test: (f) => f.label === label };
  }

  add(keep, frame) {
    this.list = [...this.list, this.make(keep, frame)];
    this.changed();
  }

  // 1 for each call stack that passes, else 0.
  stacks() {
    const passes = new Uint8Array(this.model.stackSite.length).fill(1);
    for (const { test, keep } of this.list) {
      const through = stacksThrough(this.model, test);
      for (let stack = 0; stack < passes.length; stack++) if (Boolean(through[stack]) !== keep) passes[stack] = 0;
    }
    return passes;
  }

  chips() {
    return this.list.map((f) =>
      removableChip(f.keep ? "only" : "without", f.name, () => {
        this.list = this.list.filter((other) => other !== f);
        this.changed();
      }),
    );
  }

  // For the page's address.
  get text() {
    return this.list.map((f) => `${f.keep ? "only" : "hide"} ${f.number}`).join(",");
  }

  set text(text) {
    const { frames } = this.model;
    this.list = text.split(",").map((one) => one.split(" ")).filter(([, n]) => frames[n]).map(([what, n]) => this.make(what === "only", frames[n]));
  }
}
