// The memory map: one small square for each piece of a pool's address space that was ever used.

import { bytes, count, duration, percent } from "./format.js";
import { $, foreign, make, Table } from "./dom.js";

const GAP = 1;

// The colour of an owner; the remaining ones share the colour of "other".
const ownerColor = (i, others) => (i < others ? `--series-${i % 8}` : "--flame-rest");

function mark(i) {
  const span = make("span", { class: "mark", "aria-hidden": "true" });
  span.style.background = `var(${ownerColor(i, 8)})`;
  return span;
}

export class MemoryMap {
  constructor(model) {
    this.model = model;
    this.views = [];
    this.table = new Table($("map-table"), "Use of each pool's address space at the end of the range", [
      { name: "Pool", text: true, value: (r) => r.name, show: (r) => foreign(r.name) },
      { name: "From", text: true, value: (r) => r.low },
      { name: "To", text: true, value: (r) => r.high },
      { name: "In use", value: (r) => r.bytes, show: (r) => bytes(r.bytes) },
      { name: "Pieces touched", value: (r) => r.touched, show: (r) => count(r.touched), title: "at any time" },
      { name: "Pieces with blocks", value: (r) => r.used, show: (r) => count(r.used) },
      { name: "Utilisation", value: (r) => r.bytes, show: (r) => percent(r.bytes, r.used * r.size), title: "the bytes in use, of the pieces that hold any: less means more fragmented" },
      { name: "Empty between", value: (r) => r.holes, show: (r) => count(r.holes), title: "pieces without blocks between the first and the last that has some" },
    ]);
    $("map-what").addEventListener("change", () => this.paintAll());
    new ResizeObserver(() => this.paintAll()).observe($("map"));
  }

  update(range, filter) {
    const { model } = this;
    Object.assign(this, { range, at: model.mapAt(range.from, range.to) });
    const size = bytes(this.at.size);
    $("map-text").textContent = `State at ${duration(model.stepTime(range.to))}. Each square is ${size} of addresses that were used at some time; outlined ones hold nothing that the colour shows, and longer unused ranges are left out. Colours by thread or site show which one allocated most bytes there over the whole trace; pale squares hold nothing at the end of the range.`;
    this.filter = filter;
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
    const canvas = make("canvas", { role: "img", tabindex: "0", "aria-label": `Memory map of pool ${name}; the table below has its figures, the arrow keys read single pieces` });
    const view = { pool, pieces, canvas, chosen: -1 };
    canvas.addEventListener("mousemove", (e) => this.hover(view, e));
    canvas.addEventListener("keydown", (e) => this.key(view, e));
    $("map").append(make("h2", {}, foreign(name)), canvas);
    this.views.push(view);
  }

  row(pool, pieces) {
    const used = pieces.filter((i) => this.at.bytes[i] > 0);
    const hex = (n) => `0x${n.toString(16)}`;
    const last = this.model.pieces[pieces[pieces.length - 1]].address;
    let holes = 0;
    if (used.length) holes = pieces.indexOf(used[used.length - 1]) - pieces.indexOf(used[0]) + 1 - used.length;
    return { name: this.model.poolName(pool), low: hex(this.model.pieces[pieces[0]].address), high: hex(last + BigInt(this.at.size)), bytes: used.reduce((s, i) => s + this.at.bytes[i], 0), touched: pieces.length, used: used.length, size: this.at.size, holes };
  }

  // What the squares are coloured by: "thread", "site", or neither.
  get kind() {
    const what = $("map-what").value;
    return what === "thread" || what === "site" ? what : "";
  }

  // 0 … 1
  shade(i) {
    const { bytes: used, size, last, allocs } = this.at;
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
    const items = kind ? this.model.owners(kind).map((name, i) => (used.has(i) ? make("li", {}, mark(i), foreign(name)) : null)) : [];
    $("map-legend").replaceChildren(...items.filter(Boolean));
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

  hover(view, event) {
    const place = Math.floor(event.offsetY / view.cell) * view.columns + Math.floor(event.offsetX / view.cell);
    const n = view.places.indexOf(place);
    if (n >= 0 && n !== view.chosen) this.choose(view, n);
  }

  key(view, event) {
    const by = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -view.columns, ArrowDown: view.columns }[event.key];
    if (!by) return;
    event.preventDefault();
    this.choose(view, Math.max(0, Math.min(view.pieces.length - 1, view.chosen + by)));
  }

  choose(view, n) {
    view.chosen = n;
    const i = view.pieces[n];
    const { last, allocs, bytes: used, size } = this.at;
    const age = last[i] < 0 ? "no allocation began in it" : `last allocation ${duration(this.model.stepTime(this.range.to) - this.model.stepTime(last[i]))} before the end of the range or less`;
    const { owner } = this.model.pieces[i];
    const by = (k) => this.model.owners(k)[owner[k]];
    const whose = by("thread") === undefined ? "" : `; most bytes by thread ${by("thread")}, site ${by("site")}`;
    $("map-detail").textContent = `0x${this.model.pieces[i].address.toString(16)}: ${bytes(used[i])} of ${bytes(size)} in use, ${count(allocs[i])} allocations within the range, ${age}${whose}`;
    this.paint(view);
  }
}
