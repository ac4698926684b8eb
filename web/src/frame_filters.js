// Call stacks through a function alone, or without those: chosen in the flame graph and the tree.

import { stacksThrough } from "./calls.js";
import { foreign, make } from "./dom.js";

export const removableChip = (text, name, remove) => make("button", { type: "button", class: "chip", "aria-label": `${text} ${name}: remove this filter`, onclick: remove }, `${text} `, foreign(name), " ✕");

export class FrameFilters {
  // changed(): another list of filters.
  constructor(model, changed) {
    Object.assign(this, { model, changed, list: [] });
  }

  add(keep, { id, name }) {
    this.list = [...this.list, { keep, id, name }];
    this.changed();
  }

  // 1 for each call stack that passes, else 0.
  stacks() {
    const passes = new Uint8Array(this.model.stackSite.length).fill(1);
    for (const { id, keep } of this.list) {
      const through = stacksThrough(this.model, (f) => f.id === id, true);
      const wanted = keep ? 1 : 0;
      for (let stack = 0; stack < passes.length; stack++) if (through[stack] !== wanted) passes[stack] = 0;
    }
    return passes;
  }

  chips() {
    const remove = (f) => {
      this.list = this.list.filter((other) => other !== f);
      this.changed();
    };
    return this.list.map((f) => removableChip(f.keep ? "only" : "without", f.name, () => remove(f)));
  }

  // For the page's address.
  get text() {
    return this.list.map((f) => `${f.keep ? "only" : "hide"} ${f.id}`).join(",");
  }

  set text(text) {
    const { frames } = this.model;
    const known = text.split(",").map((one) => one.split(" ")).map(([what, id]) => [what, frames.find((f) => f.id === id)]);
    this.list = known.filter(([, frame]) => frame).map(([what, { id, name }]) => ({ keep: what === "only", id, name }));
  }
}
