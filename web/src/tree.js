// The call tree as a table. Only the rows in view are elements, so that any number can be open.

import { callTree } from "./calls.js";
import { bytes, count, percent } from "./format.js";
import { $, foreign, make } from "./dom.js";

const ROW = 26; // pixels
const HEAVY = 1 / 4; // of all: opened at first
const SPARE = 4; // rows drawn above and below those in view

export const TREE_COLUMNS = [
  { id: "peak", name: "At peak", show: bytes, title: "bytes in use when the pool's use was highest within the range" },
  { id: "live", name: "Live", show: bytes, title: "bytes in use at the end of the range" },
  { id: "growth", name: "Growth", show: bytes, title: "bytes in use at the end of the range less those at its start" },
  { id: "bytes", name: "Size", show: bytes, title: "bytes allocated within the range" },
  { id: "count", name: "Count", show: count, title: "blocks allocated within the range" },
  { id: "temporary", name: "Temporary", show: count, title: "blocks that the next memory event of the same thread in that pool freed" },
];

export class Tree {
  // ask(): show() is to be called, since the form asks for something else. act(what, frame): "only" or "hide"
  // was chosen for a row.
  constructor(model, ask, act, columns = TREE_COLUMNS) {
    Object.assign(this, { model, act, columns, element: $("tree"), open: new Map(), rows: [], chosen: 0 });
    const { element } = this;
    const sorts = columns.map((c) => make("div", { role: "columnheader", title: c.title, "data-column": c.id }, make("button", { type: "button", tabindex: "-1", text: c.name, onclick: () => this.sortBy(c.id) })));
    this.head = make("div", { class: "tree-row tree-head", role: "row" }, make("div", { role: "columnheader", text: "Function" }), ...sorts, make("div", { role: "columnheader", class: "number", text: "Own", title: "what no row below has, of the column that sorts" }), make("div", { role: "columnheader", text: "Share", title: "of all, of the column that sorts" }));
    this.body = make("div", { class: "tree-body", role: "rowgroup" });
    element.append(make("div", { role: "rowgroup", class: "tree-top" }, this.head), this.body);
    element.addEventListener("scroll", () => this.draw());
    new ResizeObserver(() => this.draw()).observe(element);
    element.addEventListener("keydown", (event) => this.key(event));
    this.body.addEventListener("click", (event) => this.click(event));
    for (const what of ["only", "hide"]) $(`tree-${what}`).addEventListener("click", () => this.act(what, this.rows[this.chosen].node));
    for (const c of columns) $("tree-sort").append(make("option", { value: c.id, text: c.name }));
    for (const id of ["tree-sort", "tree-way"]) $(id).addEventListener("change", ask);
  }

  sortBy(id) {
    $("tree-sort").value = id;
    $("tree-sort").dispatchEvent(new Event("change"));
  }

  // Figures by call stack in the order of the columns.
  show(figures) {
    const way = $("tree-way").value;
    this.main = this.columns.findIndex((c) => c.id === $("tree-sort").value);
    this.calls = callTree(this.model, figures, this.main, { way, allocators: false, recursion: true, all: true });
    if (way !== this.way) this.open.clear();
    this.way = way;
    [...this.head.children].forEach((cell, i) => {
      cell.classList.toggle("sorted", i === this.main + 1);
      if (cell.dataset.column) cell.setAttribute("aria-sort", i === this.main + 1 ? "descending" : "none");
    });
    const { root } = this.calls;
    if (!this.open.has("")) this.unfold(root, "");
    this.list();
  }

  // ---- rows

  // Open nodes are remembered by the labels on the way to them.
  expand(node, path) {
    for (;;) {
      this.open.set(path, true);
      const children = this.calls.children(node);
      if (children.length !== 1) return;
      [node] = children;
      path = `${path}\n\n${node.label}`;
    }
  }

  // Opens what holds a quarter of all or more.
  unfold(node, path) {
    this.open.set(path, true);
    for (const child of this.calls.children(node)) if (child.sums[this.main] >= HEAVY * this.calls.root.sums[this.main]) this.unfold(child, `${path}\n\n${child.label}`);
  }

  list() {
    const { calls, open } = this;
    this.rows = [];
    const todo = [{ node: calls.root, path: "", level: 0 }];
    while (todo.length) {
      const row = todo.pop();
      const children = open.has(row.path) ? calls.children(row.node) : [];
      row.open = children.length > 0;
      row.index = this.rows.push(row) - 1;
      for (let i = children.length - 1; i >= 0; i--) todo.push({ node: children[i], path: `${row.path}\n\n${children[i].label}`, level: row.level + 1, parent: row });
    }
    this.body.style.height = `${this.rows.length * ROW}px`;
    this.element.setAttribute("aria-rowcount", String(this.rows.length + 1));
    this.chosen = Math.min(this.chosen, this.rows.length - 1);
    this.draw();
  }

  draw() {
    const room = this.calls ? this.element.clientHeight : 0;
    const first = Math.max(0, Math.floor(this.element.scrollTop / ROW) - SPARE);
    const last = room && Math.min(this.rows.length, first + Math.ceil(room / ROW) + 2 * SPARE);
    const now = [this.rows, first, last, this.chosen];
    if (now.every((v, i) => v === this.drawn?.[i])) return;
    this.drawn = now;
    this.body.replaceChildren(...this.rows.slice(first, last).map((row) => this.row(row)));
    if (!room) return;
    this.element.setAttribute("aria-activedescendant", `tree-row-${this.chosen}`);
    const { node } = this.rows[this.chosen];
    for (const what of ["only", "hide"]) $(`tree-${what}`).disabled = Boolean(node.root || node.list || node.leaf);
  }

  expandable(row) {
    return this.calls.children(row.node).length > 0;
  }

  row(row) {
    const { node, level } = row;
    const expandable = this.expandable(row);
    const whole = this.calls.root.sums[this.main];
    const share = percent(node.sums[this.main], whole);
    const bar = make("span", { class: "bar", "aria-hidden": "true" });
    bar.style.width = `${Math.max(0, Math.min(100, (100 * node.sums[this.main]) / (whole || 1)))}%`;
    const name = make("div", { role: "gridcell", class: "tree-name" }, make("span", { class: "twist", "aria-hidden": "true", text: expandable ? (row.open ? "▾" : "▸") : "" }), foreign(node.shown ?? node.name), foreign(node.place ?? "", "place"));
    name.style.paddingInlineStart = `${Math.min(level, 40) * 0.8}rem`;
    name.title = `${node.name}${node.path ? `\n${node.path}:${node.line}` : ""}${node.image ? `\n${node.image}` : ""}`;
    const cells = this.columns.map((c, i) => make("div", { role: "gridcell", class: i === this.main ? "number sorted" : "number", text: c.show(node.sums[i]) }));
    const element = make("div", { class: row.index === this.chosen ? "tree-row chosen" : "tree-row", role: "row", id: `tree-row-${row.index}`, "aria-level": level + 1, "aria-rowindex": row.index + 2, "aria-expanded": expandable ? String(row.open) : undefined, "aria-selected": String(row.index === this.chosen) }, name, ...cells, make("div", { role: "gridcell", class: "number", text: this.columns[this.main].show(this.calls.own(node)) }), make("div", { role: "gridcell", class: "share" }, bar, make("span", { text: share })));
    element.style.top = `${row.index * ROW}px`;
    return element;
  }

  // ---- pointer and keys

  toggle(row, on = !row.open) {
    if (!this.expandable(row) || on === row.open) return;
    if (on) this.expand(row.node, row.path);
    else this.open.delete(row.path);
    this.list();
  }

  click(event) {
    const element = event.target.closest(".tree-row");
    if (!element) return;
    this.chosen = Number(element.id.slice("tree-row-".length));
    this.toggle(this.rows[this.chosen]);
    this.draw();
  }

  choose(index) {
    this.chosen = Math.max(0, Math.min(this.rows.length - 1, index));
    const { element } = this;
    const top = this.chosen * ROW;
    const room = element.clientHeight - 2 * ROW;
    if (top < element.scrollTop) element.scrollTop = top;
    else if (top > element.scrollTop + room) element.scrollTop = top - room;
    this.draw();
  }

  key(event) {
    const row = this.rows[this.chosen];
    if (event.target !== this.element || !row || event.ctrlKey || event.altKey || event.metaKey) return;
    const page = Math.max(1, Math.floor(this.element.clientHeight / ROW) - 2);
    const acts = {
      ArrowDown: () => this.choose(this.chosen + 1),
      ArrowUp: () => this.choose(this.chosen - 1),
      PageDown: () => this.choose(this.chosen + page),
      PageUp: () => this.choose(this.chosen - page),
      Home: () => this.choose(0),
      End: () => this.choose(this.rows.length - 1),
      ArrowRight: () => (row.open ? this.choose(this.chosen + 1) : this.toggle(row, true)),
      ArrowLeft: () => (row.open ? this.toggle(row, false) : this.choose(row.parent?.index ?? 0)),
      Enter: () => this.toggle(row),
      " ": () => this.toggle(row),
    };
    if (!acts[event.key]) return;
    event.preventDefault();
    acts[event.key]();
  }
}
