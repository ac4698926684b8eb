// The flame graph. Frames too narrow to be seen are combined into one, "(n smaller)"; zooming in brings
// them back. With folded chains, a chain of calls without a branch and without own amounts is one frame.

import { callTree, matcher, stacksThrough } from "./calls.js";
import { bytes, count, counted, percent } from "./format.js";
import { $, foreign, make, swatch } from "./dom.js";

const NARROWEST = 1 / 300; // of the width
const DEEPEST = 200; // levels drawn below the zoomed frame
const CELL = 20; // pixels
const LEGEND_MOST = 10;
const HUES = [28, 205, 130, 325, 262, 55, 178, 0, 95, 295]; // degrees
const [GREW, SHRANK] = ["more at the end of the range than at its start", "less at the end of the range than at its start"];

const FIFTHS = ["first", "second", "middle", "fourth", "last"].map((name) => `allocated on average in the ${name} fifth of the range`);
const OLDER = "nothing allocated in the range";

// Columns of amounts by call stack; those of threads follow, or for ages the bytes allocated in the
// range, and these times the share of the range that had gone.
export const [BYTES, COUNT, GROWTH, COLUMNS] = [0, 1, 2, 3];

export class Flame {
  // ask(): show() is to be called, since the form asks for something else. act(what, frame): "only" or "hide"
  // was chosen for a frame. changed(): what the address holds.
  constructor(model, ask, act, changed) {
    Object.assign(this, { model, act, changed, element: $("flame"), tip: $("flame-tip"), path: [], selected: null, pinned: false, hits: [], hues: new Map() });
    this.nodes = new WeakMap();
    const { element, tip } = this;
    element.addEventListener("keydown", (event) => this.key(event));
    element.addEventListener("pointermove", (event) => this.hover(event));
    element.addEventListener("pointerleave", () => (tip.hidden = !this.pinned));
    element.addEventListener("click", (event) => this.click(event));
    element.addEventListener("dblclick", (event) => this.frameAt(event) && this.zoom(this.frameAt(event)));
    $("main").addEventListener("pointerdown", (event) => this.pinned && !tip.contains(event.target) && !element.contains(event.target) && this.unpin());
    tip.addEventListener("keydown", (event) => event.key === "Escape" && this.unpin(true));
    $("flame-next").addEventListener("click", () => this.step(1));
    $("flame-previous").addEventListener("click", () => this.step(-1));
    $("flame-reset").addEventListener("click", () => this.reset());
    for (const id of ["flame-what", "flame-unit", "flame-way", "flame-color", "flame-upside", "flame-fold", "flame-allocators"]) {
      $(id).addEventListener("change", () => {
        if (id === "flame-way" || id === "flame-fold") this.path = [];
        ask();
      });
    }
    for (const id of ["flame-search", "flame-regex"]) $(id).addEventListener("input", () => this.search());
    $("flame-search").addEventListener("keydown", (event) => event.key === "Enter" && this.hits.length && this.step(event.shiftKey ? -1 : 1));
  }

  amount(n) {
    return this.main === BYTES ? bytes(n) : counted(n, "block");
  }

  // Columns by call stack, and {unit, moment, allocators}. The form has further options.
  show(columns, asked) {
    const checked = (id) => $(id).checked;
    const options = { way: $("flame-way").value, color: $("flame-color").value, fold: checked("flame-fold"), upside: checked("flame-upside"), allocators: checked("flame-allocators"), ...asked };
    this.main = options.unit === "bytes" ? BYTES : COUNT;
    Object.assign(this, { columns, options });
    $("flame-allocators").disabled = options.way === "up";
    this.calls = callTree(this.model, columns, this.main, { way: options.way, allocators: options.allocators, recursion: options.fold });
    this.render();
  }

  reset() {
    this.path = [];
    this.render();
    this.changed();
  }

  // ---- the drawn tree

  build() {
    const { root } = this.calls;
    this.total = root.sums[this.main];
    const top = { source: root, chain: [root], value: this.total, children: [], parent: null, depth: 0, x: 0, width: 1 };
    let at = top;
    for (let i = 0; i < this.path.length; ) {
      const child = this.calls.children(at.source).find((c) => c.id === this.path[i]);
      if (!child) {
        this.path.length = i;
        break;
      }
      const node = this.node(child, at);
      at.children = [node];
      at.above = true;
      i += node.chain.length;
      at = node;
    }
    this.zoomed = at;
    this.grow(at);
    return top;
  }

  // A node to draw, with the chain that it stands for.
  node(source, parent) {
    const chain = [source];
    while (this.options.fold) {
      const children = this.calls.children(chain[chain.length - 1]);
      if (children.length !== 1 || children[0].sums[this.main] !== source.sums[this.main]) break;
      chain.push(children[0]);
    }
    return { source: chain[chain.length - 1], chain, value: source.sums[this.main], children: [], parent, depth: parent.depth + 1, x: 0, width: 1 };
  }

  grow(top) {
    const least = top.value * NARROWEST;
    const todo = [top];
    while (todo.length) {
      const node = todo.pop();
      const deep = node.depth - top.depth >= DEEPEST;
      let x = node.x;
      let rest = 0;
      let restValue = 0;
      const place = (child) => {
        child.x = x;
        child.width = child.value / top.value;
        x += child.width;
        node.children.push(child);
      };
      for (const child of this.calls.children(node.source)) {
        const value = child.sums[this.main];
        if (deep || value < least) {
          rest++;
          restValue += value;
        } else {
          const made = this.node(child, node);
          place(made);
          todo.push(made);
        }
      }
      if (rest) place({ rest: deep ? "(deeper: zoom in)" : `(${count(rest)} smaller)`, chain: [], value: restValue, children: [], parent: node, depth: node.depth + 1 });
    }
  }

  render() {
    this.unpin();
    this.tree = this.build();
    this.drawn = [];
    const walk = [this.tree];
    while (walk.length) {
      const node = walk.pop();
      this.drawn.push(node);
      for (let i = node.children.length - 1; i >= 0; i--) walk.push(node.children[i]);
    }
    const levels = this.drawn.reduce((most, n) => Math.max(most, n.depth), 0) + 1;
    const { element, drawn } = this;
    element.style.height = `${levels * CELL}px`;
    while (element.childElementCount > drawn.length) element.lastElementChild.remove();
    drawn.forEach((node, i) => this.frame(node, levels, element.children[i] ?? element.appendChild(make("div"))));
    $("flame-reset").disabled = !this.path.length;
    this.paint();
    this.search();
    this.mark(this.zoomed);
  }

  // Moving an element that is there takes the browser half the time of a new one.
  frame(node, levels, element) {
    const row = this.options.upside ? levels - 1 - node.depth : node.depth;
    const name = node.width > 0.012 ? this.name(node) : "";
    element.className = "frame";
    element.dataset.names = node.chain.map((c) => c.name).join("\n");
    node.style = `top: ${row * CELL}px; left: ${100 * node.x}%; right: ${100 * (1 - node.x - node.width)}%`;
    if (element.textContent !== name) element.textContent = name;
    node.element = element;
    this.nodes.set(element, node);
  }

  name(node) {
    if (node.rest) return node.rest;
    if (!this.total) return "Nothing of this kind in the range.";
    if (node.source.root) return `all: ${this.amount(this.total)}${this.options.moment ?? ""}`;
    const { chain } = node;
    const shown = (frame) => frame.shown ?? frame.name;
    if (chain.length < 2) return shown(chain[0]);
    return `${shown(this.subject(node))} ⋯ +${chain.length - 1}`;
  }

  // The frame whose facts are shown for a node.
  subject(node) {
    return this.options.way === "up" ? node.chain[0] : node.source;
  }

  // ---- colours

  paint() {
    const { color } = this.options;
    const legend = new Map();
    const named = this.drawn.map((node) => [node, this.label(node, color)]);
    for (const [node, label] of named) if (label) legend.set(label, (legend.get(label) ?? 0) + node.width);
    const items = [...legend].sort((a, b) => this.order(a[0], b[0]) || b[1] - a[1]);
    for (const [label] of items) if (!this.hues.has(label)) this.hues.set(label, this.hues.size);
    for (const [node, label] of named) node.element.style.cssText = `${node.style}; background-color: ${this.color(node, label, color)}`;
    const shown = items.slice(0, LEGEND_MOST).map(([label]) => make("li", {}, swatch({ background: this.paintOf(label, 0) }), foreign(label)));
    if (items.length > LEGEND_MOST) shown.push(make("li", { text: `and ${count(items.length - LEGEND_MOST)} more` }));
    $("flame-legend").replaceChildren(...shown);
    $("flame-legend").hidden = !shown.length;
  }

  // What a node's colour stands for.
  label(node, by) {
    if (node.rest || node.above || node.source.root) return "";
    const frame = this.subject(node);
    if (by === "function") return frame.shown ?? frame.name;
    if (by === "growth") return frame.sums[GROWTH] > 0 ? GREW : frame.sums[GROWTH] < 0 ? SHRANK : "";
    if (by === "file") return frame.place.replace(/:\d+$/, "") || "(file unknown)";
    if (by === "module") return baseName(frame.image) || "(module unknown)";
    if (by === "age") {
      const [allocated, gone] = [frame.sums[COLUMNS], frame.sums[COLUMNS + 1]];
      return allocated > 0 ? FIFTHS[Math.min(4, Math.floor((5 * gone) / allocated))] : OLDER;
    }
    let most = COLUMNS;
    for (let k = COLUMNS; k < frame.sums.length; k++) if (frame.sums[k] > frame.sums[most]) most = k;
    return `most by ${this.model.threadName(most - COLUMNS)}`;
  }

  // Of labels in the legend; 0: those of the wider frames come first.
  order(a, b) {
    return FIFTHS.indexOf(a) - FIFTHS.indexOf(b);
  }

  color(node, label, by) {
    return label ? this.paintOf(label, by === "function" ? 0 : parseInt(this.subject(node).id.slice(-2), 36) % 9) : "var(--flame-rest)";
  }

  // Labels keep their colours; the first ones get hues far apart.
  paintOf(label, tone) {
    if (label === GREW) return "var(--grown)";
    if (label === SHRANK) return "var(--shrunk)";
    if (label === OLDER) return "var(--flame-rest)";
    if (FIFTHS.includes(label)) return `var(--age-${FIFTHS.indexOf(label)})`;
    const n = this.hues.get(label);
    return `hsl(${n < HUES.length ? HUES[n] : (n * 47) % 360}deg 62% ${71 + tone}%)`;
  }

  // ---- search

  search() {
    const { value: text } = $("flame-search");
    const test = matcher(text, $("flame-regex").checked);
    this.hits = [];
    this.element.classList.toggle("searched", Boolean(test));
    $("flame-next").disabled = $("flame-previous").disabled = true;
    const found = $("flame-found");
    found.textContent = text.trim() && !test ? "This is no regular expression." : "";
    if (!test) return;
    this.hits = this.drawn.filter((node) => node.chain.some((frame) => !frame.root && test(frame)));
    const hits = new Set(this.hits);
    for (const node of this.drawn) node.element.classList.toggle("hit", hits.has(node));
    const through = stacksThrough(this.model, test, this.options.allocators && this.options.way === "down");
    const sum = this.columns[this.main].reduce((s, v, stack) => s + (through[stack] ? v : 0), 0);
    const functions = new Set(this.hits.flatMap((node) => node.chain.filter((f) => !f.root && test(f)).map((f) => f.label)));
    const where = functions.size ? `${counted(functions.size, "function")} in ${counted(this.hits.length, "frame")}` : "Only in frames too small to be drawn";
    found.textContent = sum ? `${where}: ${percent(sum, this.total)}, ${this.amount(sum)}` : "No match.";
    $("flame-next").disabled = $("flame-previous").disabled = !this.hits.length;
  }

  // The next match, or the one before.
  step(by) {
    const at = this.hits.indexOf(this.selected);
    const next = at < 0 ? (by > 0 ? 0 : this.hits.length - 1) : (at + by + this.hits.length) % this.hits.length;
    this.choose(this.hits[next]);
    this.selected.element.scrollIntoView({ block: "nearest" });
  }

  // ---- facts of a frame

  describe(node) {
    if (node.rest) return `${node.rest}: ${this.amount(node.value)}`;
    const frame = this.subject(node);
    return `${frame.name}: ${this.amount(node.value)}, ${percent(node.value, this.total)} of all${frame.place ? `, ${frame.place}` : ""}`;
  }

  facts(node) {
    const frame = this.subject(node);
    const own = this.calls.own(node.source);
    const parent = node.parent ? node.parent.source.sums[this.main] : 0;
    const rows = [
      ["At", frame.path ? `${frame.path}${frame.line ? `:${frame.line}` : ""}` : ""],
      ["Source", this.model.sourceLine(frame)?.text.trim() ?? ""],
      ["Module", frame.image],
      ["Bytes", bytes(frame.sums[BYTES])],
      ["Blocks", count(frame.sums[COUNT])],
      ["Own", own > 0 ? `${this.amount(own)}, ${percent(own, this.total)}` : ""],
      ["Peaks", (frame.root && this.options.moment) || ""],
      ["Share", `${percent(node.value, this.total)} of all${node.parent?.parent ? `, ${percent(node.value, parent)} of ${this.options.way === "up" ? "what it calls" : "its caller"}` : ""}`],
      ["Chain", node.chain.length > 1 ? node.chain.map((f) => f.shown ?? f.name).join(" › ") : ""],
    ];
    return this.factList(rows);
  }

  // Pairs of a name and a text; without a text they are left out.
  factList(rows) {
    return make("dl", {}, ...rows.filter(([, text]) => text).map(([name, text]) => make("div", {}, make("dt", { text: name }), make("dd", {}, foreign(text)))));
  }

  showTip(node, x, y, pin) {
    const { tip } = this;
    const button = (text, run) => make("button", { type: "button", text, onclick: run });
    const frame = node.rest ? null : this.subject(node);
    const parts = [make("p", { class: "tip-name" }, foreign(node.rest ?? frame.name))];
    if (frame) parts.push(this.facts(node));
    else parts.push(make("p", { text: `${this.amount(node.value)}: zoom into the frame above to see them` }));
    if (pin) {
      parts.push(
        make("p", { class: "row" }, button("Zoom in", () => this.zoom(node)), ...(frame && !frame.root && !frame.list ? [button("Only this", () => this.act("only", frame)), button("Hide", () => this.act("hide", frame)), button("Copy", () => this.copy())] : []), ...(frame && this.model.sourceLine(frame) ? [button("Source", () => this.act("source", frame))] : []), button("Close", () => this.unpin(true))),
      );
    } else parts.push(make("p", { class: "note", text: "Click pins this, a double click zooms in." }));
    tip.replaceChildren(...parts);
    tip.hidden = false;
    tip.classList.toggle("pinned", pin);
    const [width, height] = [tip.offsetWidth, tip.offsetHeight];
    const room = document.documentElement;
    tip.style.left = `${Math.max(4, Math.min(x + 14, room.clientWidth - width - 4))}px`;
    tip.style.top = `${y + 18 + height > room.clientHeight ? Math.max(4, y - height - 10) : y + 18}px`;
  }

  pin(node, x, y) {
    this.pinned = true;
    this.showTip(node, x, y, true);
    this.tip.querySelector("button").focus({ preventScroll: true });
  }

  unpin(focus) {
    this.pinned = false;
    this.tip.hidden = true;
    if (focus) this.element.focus({ preventScroll: true });
  }

  async copy() {
    const text = [...this.tip.querySelectorAll(".tip-name, dl div")].map((e) => [...(e.children.length > 1 ? e.children : [e])].map((c) => c.textContent).join(": ")).join("\n");
    const button = [...this.tip.querySelectorAll("button")].find((b) => b.textContent === "Copy");
    try {
      await navigator.clipboard.writeText(text);
      button.textContent = "Copied";
    } catch {
      window.getSelection().selectAllChildren(this.tip);
      button.textContent = document.execCommand("copy") ? "Copied" : "Select and copy";
    }
  }

  // ---- pointer and keys

  frameAt(event) {
    const element = event.target.closest?.(".frame");
    return element ? this.nodes.get(element) : null;
  }

  hover(event) {
    if (this.pinned || event.pointerType === "touch") return;
    const node = this.frameAt(event);
    if (node) this.showTip(node, event.clientX, event.clientY, false);
    else this.tip.hidden = true;
  }

  click(event) {
    const node = this.frameAt(event);
    if (!node || event.detail > 1) return;
    this.mark(node);
    this.pin(node, event.clientX, event.clientY);
  }

  zoom(node) {
    if (node.rest) node = node.parent;
    this.path = [];
    for (let n = node; n.parent; n = n.parent) this.path.unshift(...n.chain.map((c) => c.id));
    this.render();
    this.changed();
    this.element.focus({ preventScroll: true });
  }

  mark(node) {
    this.selected?.element?.classList.remove("selected");
    this.selected = node;
    node.element?.classList.add("selected");
    $("flame-detail").textContent = this.describe(node);
  }

  choose(node) {
    this.mark(node);
    const box = node.element.getBoundingClientRect();
    if (!this.pinned) this.showTip(node, box.left, box.top, false);
  }

  key(event) {
    if (event.target !== this.element || !this.tree || event.ctrlKey || event.altKey || event.metaKey) return;
    const now = this.selected ?? this.tree;
    const beside = now.parent ? now.parent.children : [now];
    const at = beside.indexOf(now);
    const [out, inwards] = this.options.upside ? ["ArrowDown", "ArrowUp"] : ["ArrowUp", "ArrowDown"];
    const next = { [inwards]: () => now.children[0], [out]: () => now.parent, ArrowLeft: () => beside[at - 1], ArrowRight: () => beside[at + 1], Home: () => this.tree };
    const box = now.element?.getBoundingClientRect();
    const acts = {
      Enter: () => this.zoom(now),
      " ": () => this.pin(now, box.left, box.top),
      n: () => this.hits.length && this.step(1),
      p: () => this.hits.length && this.step(-1),
      Backspace: () => this.out(),
      Escape: () => (this.tip.hidden ? this.out() : this.unpin()),
    };
    if (next[event.key]) {
      const to = next[event.key]();
      if (to?.element) this.choose(to);
    } else if (acts[event.key]) acts[event.key]();
    else return;
    event.preventDefault();
  }

  // One frame back.
  out() {
    if (!this.zoomed.parent) return;
    this.path.length = Math.max(0, this.path.length - this.zoomed.chain.length);
    this.render();
    this.changed();
  }

  // The functions down to the zoomed frame, for the page's address, and back.
  get place() {
    return this.path.join(".");
  }

  set place(text) {
    this.path = text ? text.split(".") : [];
  }
}

const baseName = (path) => path.slice(path.lastIndexOf("/") + 1);
