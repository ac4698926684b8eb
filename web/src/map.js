// The memory map: one small square for each piece of a pool's address space that was ever used.

import { blockTable } from "./blocks.js";
import { bytes, count, counted, duration, percent } from "./format.js";
import { $, foreign, make, swatch, Table } from "./dom.js";

const GAP = 1;

// The colour of an owner; the remaining ones share the colour of "other".
const ownerColor = (i, others) => (i < others ? `--series-${i % 8}` : "--flame-rest");

export class MemoryMap {
  // openSite(site): shows what is known of a site.
  constructor(model, openSite) {
    this.model = model;
    this.views = [];
    this.table = new Table($("map-table"), "Use of each pool's address space at the end of the range", [
      { name: "Pool", text: true, value: (r) => r.name, show: (r) => foreign(r.name) },
      { name: "From", text: true, minor: true, value: (r) => r.low },
      { name: "To", text: true, minor: true, value: (r) => r.high },
      { name: "In use", value: (r) => r.bytes, show: (r) => bytes(r.bytes) },
      { name: "Squares touched", value: (r) => r.touched, show: (r) => count(r.touched), title: "at any time" },
      { name: "Squares with blocks", value: (r) => r.used, show: (r) => count(r.used) },
      { name: "Utilisation", value: (r) => r.bytes, show: (r) => percent(r.bytes, r.used * r.size), title: "the bytes in use, of the squares that hold any: less means more fragmented" },
      { name: "Empty between", value: (r) => r.holes, show: (r) => count(r.holes), title: "squares without blocks between the first and the last that has some" },
    ]);
    this.blocks = blockTable("map-blocks", "Blocks of the chosen square at the end of the range", model, openSite);
    $("map-what").addEventListener("change", () => this.paintAll());
    new ResizeObserver(() => this.paintAll()).observe($("map"));
  }

  update(range, filter) {
    const { model } = this;
    Object.assign(this, { range, state: model.mapAt(range.from, range.to) });
    const size = bytes(this.state.size);
    $("map-text").textContent = `State at ${duration(model.stepTime(range.to))}. Each square is ${size} of addresses that were used at some time; unused ranges are left out.`;
    this.filter = filter;
    $("map-chosen").hidden = true;
    this.views = [];
    const rows = [];
    $("map").replaceChildren();
    model.data.pools.forEach((_, pool) => {
      const pieces = [];
      model.pieces.forEach((p, i) => p.pool === pool && pieces.push(i));
      if (!filter.pools[pool] || !pieces.length) return;
      this.addPool(pool, pieces);
      rows.push(this.row(pool, pieces));
    });
    this.table.show(rows);
    this.paintAll();
  }

  addPool(pool, pieces) {
    const name = this.model.poolName(pool);
    const canvas = make("canvas", { role: "img", tabindex: "0", "aria-label": `Memory map of pool ${name}; the table below has its figures, the arrow keys read single pieces, Enter lists the blocks of one` });
    const view = { pool, pieces, canvas, chosen: -1 };
    canvas.addEventListener("mousemove", (e) => this.hover(view, e));
    canvas.addEventListener("click", (e) => this.pick(view, e));
    canvas.addEventListener("keydown", (e) => this.key(view, e));
    $("map").append(make("h2", {}, foreign(name)), canvas);
    this.views.push(view);
  }

  row(pool, pieces) {
    const used = pieces.filter((i) => this.state.bytes[i] > 0);
    const hex = (n) => `0x${n.toString(16)}`;
    const last = this.model.pieces[pieces[pieces.length - 1]].address;
    let holes = 0;
    if (used.length) holes = pieces.indexOf(used[used.length - 1]) - pieces.indexOf(used[0]) + 1 - used.length;
    return { name: this.model.poolName(pool), low: hex(this.model.pieces[pieces[0]].address), high: hex(last + BigInt(this.state.size)), bytes: used.reduce((s, i) => s + this.state.bytes[i], 0), touched: pieces.length, used: used.length, size: this.state.size, holes };
  }

  // What the squares are coloured by: "thread", "site", or neither.
  get kind() {
    const what = $("map-what").value;
    return what === "thread" || what === "site" ? what : "";
  }

  // 0 … 1
  shade(i) {
    const { bytes: used, size, last, allocs } = this.state;
    if (this.kind) return this.owned(i) ? (used[i] > 0 ? 1 : 0.3) : 0;
    if ($("map-what").value === "activity") return allocs[i] ? 0.15 + 0.85 * Math.min(1, Math.log2(1 + allocs[i]) / 14) : 0;
    if (used[i] <= 0) return 0;
    if ($("map-what").value === "age") return last[i] < 0 ? 0.1 : 0.1 + 0.9 * ((last[i] + 1) / this.range.to);
    return 0.12 + 0.88 * Math.min(1, used[i] / size);
  }

  // Whether an owner that the filters select allocated in a piece.
  owned(i) {
    const owner = this.model.pieces[i].owner[this.kind];
    const { threads, site } = this.filter;
    const others = this.model.data.ownerCount;
    if (owner > others) return false;
    if (this.kind === "thread") return owner < others ? threads[owner] : threads.slice(Math.min(others, threads.length - 1)).some(Boolean);
    return site < 0 || (site > 0 && site <= others ? owner === site - 1 : owner === others);
  }

  legend() {
    const kind = this.kind;
    const used = new Set(this.views.flatMap((v) => v.pieces).map((i) => kind && this.model.pieces[i].owner[kind]));
    const sample = (text, style) => make("li", {}, swatch(style), text);
    const shade = (n) => ({ background: `rgb(var(--map) / ${n})` });
    const what = { fill: ["full", "nearly empty"], age: ["allocated in lately", "long ago"], activity: ["many allocations in the range", "few"] }[$("map-what").value];
    const plain = what && [sample(what[0], shade(1)), sample(what[1], shade(0.25)), sample({ fill: "empty now, used before", age: "empty now, used before", activity: "none in the range" }[$("map-what").value], { border: "1px solid var(--line)" }), make("li", { text: "gap: never used" })];
    const owner = (name, i) => (used.has(i) ? sample(foreign(name), { background: `var(${ownerColor(i, this.model.data.ownerCount)})` }) : "");
    $("map-legend").replaceChildren(...(plain || (kind ? [...this.model.owners(kind).map(owner), make("li", { text: "of most bytes there over the whole trace; pale: nothing in use at the end of the range; gap: never used" })] : [])));
  }

  paintAll() {
    this.legend();
    for (const view of this.views) this.paint(view);
  }

  // A square follows a wider gap where addresses in between were never used.
  paint(view) {
    const width = view.canvas.clientWidth || 600;
    const cell = width < 500 ? 9 : 11;
    const columns = Math.max(8, Math.floor(width / cell));
    view.places = [];
    let at = 0;
    let before = null;
    for (const i of view.pieces) {
      const { number } = this.model.pieces[i];
      if (before !== null && number !== before + 1n) at++;
      view.places.push(at++);
      before = number;
    }
    const rows = Math.ceil(at / columns);
    const ratio = window.devicePixelRatio || 1;
    view.canvas.width = width * ratio;
    view.canvas.height = rows * cell * ratio;
    view.canvas.style.height = `${rows * cell}px`;
    Object.assign(view, { cell, columns });
    const g = view.canvas.getContext("2d");
    const style = getComputedStyle(document.documentElement);
    const [map, line, text] = ["--map", "--line", "--text"].map((n) => style.getPropertyValue(n).trim());
    const kind = this.kind;
    const color = (i) => style.getPropertyValue(ownerColor(this.model.pieces[i].owner[kind], this.model.data.ownerCount)).trim();
    const outline = (x, y, stroke, width) => {
      g.strokeStyle = stroke;
      g.lineWidth = width;
      g.strokeRect(x + width / 2, y + width / 2, cell - GAP - width, cell - GAP - width);
    };
    g.scale(ratio, ratio);
    view.pieces.forEach((piece, n) => {
      const x = (view.places[n] % columns) * cell;
      const y = Math.floor(view.places[n] / columns) * cell;
      const shade = this.shade(piece);
      g.fillStyle = kind ? color(piece) : `rgb(${map} / ${shade})`;
      g.globalAlpha = kind ? shade : 1;
      if (shade) g.fillRect(x, y, cell - GAP, cell - GAP);
      else outline(x, y, line, 1);
      g.globalAlpha = 1;
      if (n === view.chosen) outline(x, y, text, 2);
    });
  }

  at(view, event) {
    return view.places.indexOf(Math.floor(event.offsetY / view.cell) * view.columns + Math.floor(event.offsetX / view.cell));
  }

  hover(view, event) {
    const n = this.at(view, event);
    if (n >= 0 && n !== view.chosen) this.choose(view, n);
  }

  pick(view, event) {
    const n = this.at(view, event);
    if (n >= 0) this.choose(view, n);
    if (n >= 0) this.list(view.pieces[n]);
  }

  // The blocks of a square.
  list(piece) {
    const { model, range, state } = this;
    const { address } = model.pieces[piece];
    const [low, high, slot] = [piece * state.size, (piece + 1) * state.size, range.to * model.perStep];
    const blocks = model.singles.filter((b) => b.begin < high && b.end > low && b.born < slot && b.freed >= slot);
    const inside = blocks.reduce((sum, b) => sum + Math.min(high, b.end) - Math.max(low, b.begin), 0);
    const used = state.bytes[piece];
    const all = inside === used;
    $("map-blocks-text").textContent = `${counted(blocks.length, "block")} in use at 0x${address.toString(16)} at ${duration(model.stepTime(range.to))}, ${bytes(inside)} of this square${all ? "." : `; ${bytes(used - inside)} more are of blocks that this page does not list. All: tidemark find FILE 0x${address.toString(16)}+${state.size} --at ${range.to === model.steps ? model.data.time.to : Math.round(model.stepTime(range.to)) - 1}`}`;
    this.blocks.show(blocks);
    $("map-chosen").hidden = false;
  }

  key(view, event) {
    if (event.key === "Enter" && view.chosen >= 0) this.list(view.pieces[view.chosen]);
    const by = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -view.columns, ArrowDown: view.columns }[event.key];
    if (!by) return;
    event.preventDefault();
    this.choose(view, Math.max(0, Math.min(view.pieces.length - 1, view.chosen + by)));
  }

  choose(view, n) {
    view.chosen = n;
    const i = view.pieces[n];
    const { last, allocs, bytes: used, size } = this.state;
    const age = last[i] < 0 ? "no allocation began in it" : `last allocation ${duration(this.model.stepTime(this.range.to) - this.model.stepTime(last[i]))} before the end of the range or less`;
    const { owner } = this.model.pieces[i];
    const by = (k) => this.model.owners(k)[owner[k]];
    const whose = by("thread") === undefined ? "" : `; most bytes by thread ${by("thread")}, site ${by("site")}`;
    $("map-detail").textContent = `0x${this.model.pieces[i].address.toString(16)}: ${bytes(used[i])} of ${bytes(size)} in use, ${counted(allocs[i], "allocation")} within the range, ${age}${whose}`;
    this.paint(view);
  }
}
