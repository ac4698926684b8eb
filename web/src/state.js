// What is shown, in the fragment of the page's address: back, forward and pasted links restore it.
// A value that is the initial one is left out. What has a name of the trace has a hash of that name
// there, since numbers differ from one snapshot of a program to the next.

import { $, afterPaint } from "./dom.js";

const valueOf = (control) => (control.type === "checkbox" ? (control.checked ? "1" : "0") : control.value);
const setValue = (control, text, initial) => (control.type === "checkbox" ? (control.checked = text === "1") : (control.value = !control.options || [...control.options].some((o) => o.value === text) ? text : initial)); // links of other pages have other choices

export class State {
  over = new AbortController(); // the page is about to show other data

  // Of controls with an id the values, and of sortable tables the orders. read() gives an object of
  // further texts; apply(object) shows such a state, of which keys may be missing.
  constructor(read, apply) {
    const ids = (what) => [...$("main").querySelectorAll(what)].map((e) => e.id);
    const [controls, tables] = [ids("select[id], [type=checkbox][id], [type=search][id]"), ids("table:has(thead button)")];
    Object.assign(this, { controls, tables, more: read, apply });
    this.initial = this.read();
    for (const id of controls) $(id).addEventListener($(id).type === "search" ? "input" : "change", () => this.save($(id).type === "search"));
    for (const id of tables) $(id).addEventListener("sorted", () => this.save());
    window.addEventListener("hashchange", () => location.hash !== this.written && this.restore(), { signal: this.over.signal });
    if (location.hash.length > 1) this.restore();
    else this.written = location.hash;
  }

  read() {
    const values = [...this.controls.map((id) => [id, valueOf($(id))]), ...this.tables.map((id) => [id, $(id).table.order])];
    return { ...Object.fromEntries(values), ...this.more() };
  }

  restore() {
    this.wrote();
    this.busy = true;
    try {
      const state = { ...this.initial, ...Object.fromEntries(new URLSearchParams(location.hash.slice(1))) };
      for (const id of this.controls) setValue($(id), state[id], this.initial[id]);
      this.apply(state);
      for (const id of this.tables) $(id).table.order = state[id];
    } finally {
      this.busy = false;
    }
  }

  // A new entry of the history, or with `replace` another address of the present one. It is written when
  // what was chosen is painted, since browsers take milliseconds for it; several choices are one entry.
  save(replace) {
    if (this.busy) return;
    if (!this.due) afterPaint(() => this.write());
    if (this.due !== "pushState") this.due = replace ? "replaceState" : "pushState";
  }

  // Writes at once what is due, for a page whose controls are about to show other data.
  write() {
    const { due } = this;
    if (!due) return;
    this.due = null;
    const changed = new URLSearchParams(Object.entries(this.read()).filter(([key, value]) => value !== this.initial[key]));
    const hash = changed.size || String(changed) ? `#${changed}` : "#";
    if (hash === (location.hash || "#")) return;
    history[due](null, "", hash);
    this.wrote();
  }

  // A page in a frame reports its address to what holds the frame.
  wrote() {
    this.written = location.hash;
    if (window.parent !== window) window.parent.postMessage({ state: this.written.slice(1) }, "*"); // no secret
  }
}
