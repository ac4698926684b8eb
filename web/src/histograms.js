// Sizes of blocks allocated, and lifetimes of blocks freed, by powers of two.

import { bytes, count, duration } from "./format.js";
import { $, make, Table } from "./dom.js";

const columns = (name, range) => [
  { name, text: true, value: (r) => r.class, show: (r) => range(r.class) },
  { name: "Blocks", value: (r) => r.count, show: (r) => count(r.count) },
  { name: "Bytes", value: (r) => r.bytes, show: (r) => bytes(r.bytes) },
  { name: "Share of blocks", text: true, value: (r) => r.share, show: bar },
];

// As long as the share is of the largest one.
function bar({ share, most }) {
  const element = make("span", { class: "bar", role: "img", "aria-label": `${(100 * share).toFixed(1)} percent` });
  element.style.width = `${Math.max(0.5, (100 * share) / most)}%`;
  return element;
}

const between = (show) => (c) => (c === 0 ? show(0) : c === 1 ? show(1) : `${show(2 ** (c - 1))} to ${show(2 ** c - 1)}`);

export class Histograms {
  constructor(model) {
    this.model = model;
    this.sizes = new Table($("sizes-table"), "Sizes of blocks allocated in the range", columns("Size", between(exactBytes)));
    this.lifetimes = new Table($("lifetimes-table"), "Lifetimes of blocks freed in the range", columns("Lifetime", between(duration)));
  }

  update(range, filter) {
    $("histograms-text").textContent = filter.site >= 0 || filter.frames.list.length || (this.model.data.allThreads && !filter.threads.every(Boolean)) ? `Filters by ${this.model.data.allThreads ? "thread, " : ""}site and function do not count here.` : "";
    this.sizes.show(this.rows(range, 0, filter));
    this.lifetimes.show(this.rows(range, 1, filter));
  }

  rows(range, which, filter) {
    const classes = this.model.classes(range.from, range.to, which, filter);
    const first = classes.findIndex((c) => c.count);
    const last = classes.findLastIndex((c) => c.count);
    if (first < 0) return [];
    const whole = classes.reduce((sum, c) => sum + c.count, 0);
    const most = Math.max(...classes.map((c) => c.count)) / whole;
    return classes.slice(first, last + 1).map((c, i) => ({ class: first + i, ...c, share: c.count / whole, most }));
  }
}

const exactBytes = (n) => (n < 1024 ? `${n} B` : bytes(n));
