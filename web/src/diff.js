// The page of `tidemark diff --format html`: both traces' call stacks as one tree, the rows of the
// comparison, budgets and both curves of use. All figures are those of the command's other formats.

import { describeFrame } from "./calls.js";
import { bytes, count, counted, duration, percent, sentence } from "./format.js";
import { $, foreign, make, showFigures, signed, Table } from "./dom.js";
import { BYTES, COLUMNS, Flame } from "./flame.js";
import { FrameFilters } from "./frame_filters.js";
import { showGiven } from "./notes.js";
import { State } from "./state.js";
import { Tabs } from "./tabs.js";
import { seriesMark, Timeline } from "./timeline.js";
import { Tree } from "./tree.js";
import { inflate, inflateJson } from "./unpack.js";

const [NOW, BASE] = [COLUMNS - 1, COLUMNS]; // columns of the flame graph
const METRICS = ["bytes", "count", "live", "liveCount", "peak", "peakCount", "temporary"]; // enum tree_metric
const UNITS = { bytes: "allocated", count: "blocks allocated", live: "live at the end", liveCount: "blocks live at the end", peak: "at the peak", peakCount: "blocks at the peak", temporary: "temporary blocks" };
const isBytes = (metric) => metric === "bytes" || metric === "live" || metric === "peak";
const KINDS = ["new", "grown", "shrunk", "gone"];
const CHANGES = ["only now", "half more or above", "more", "less", "half or below", "only before"];

const change = (base, now) => (base === now ? "=" : base ? `${now > base ? "+" : ""}${((100 * (now - base)) / base).toFixed(1)} %` : "new");

class DiffModel {
  constructor(data, tree) {
    const { nodeCount } = data;
    const column = (next) => Float64Array.from({ length: nodeCount }, next);
    this.data = data;
    this.nodeParent = column((_, i) => (i ? i - tree.unsigned() : 0));
    this.nodeFrame = column((_, i) => (i ? tree.unsigned() : 0));
    this.own = METRICS.map(() => [0, 1].map(() => column(() => tree.unsigned())));
    this.frames = data.frames.map((f, labelNumber) => Object.assign(describeFrame(data, f), { labelNumber }));
    this.labelCount = this.frames.length;
    // Each node stands for the call stack that ends there.
    this.stackNode = this.stackBegin = Uint32Array.from(this.nodeParent, (_, i) => i);
    this.stackSite = new Uint32Array(nodeCount);
    this.sites = [Object.assign(describeFrame(data, [0, 0, 0, 0, "0"]), { labelNumber: 0 })];
  }

  sourceLine() {
    return undefined;
  }
}

class DiffFlame extends Flame {
  get metric() {
    return $("flame-unit").value;
  }

  amount(n) {
    return isBytes(this.metric) ? bytes(n) : counted(n, "block");
  }

  name(node) {
    if (!node.source?.root) return super.name(node);
    return $("flame-what").value === "changed" ? `all: moved by ${this.amount(this.total)}, of ${this.amount(node.source.sums[NOW])} now` : `all: ${this.amount(this.total)}`;
  }

  facts(node) {
    const frame = this.subject(node);
    const [base, now] = [frame.sums[BASE], frame.sums[NOW]];
    return this.factList([
      ["At", frame.path ? `${frame.path}${frame.line ? `:${frame.line}` : ""}` : ""],
      ["Module", frame.image],
      ["Before", this.amount(base)],
      ["Now", this.amount(now)],
      ["Change", base === now ? "none" : `${signed((n) => this.amount(n))(now - base)}${base ? `, ${change(base, now)}` : ""}`],
      ["Share", `${percent(node.value, this.total)} of the whole width`],
      ["Chain", node.chain.length > 1 ? node.chain.map((f) => f.shown ?? f.name).join(" › ") : ""],
    ]);
  }

  label(node, by) {
    if (by !== "growth" || node.rest || node.above || node.source.root) return super.label(node, by);
    const { sums } = this.subject(node);
    const [base, now] = [sums[BASE], sums[NOW]];
    if (base === now) return "";
    if (!base || !now) return base ? "only before" : "only now";
    if (now > base) return now >= 1.5 * base ? "half more or above" : "more";
    return now <= 0.5 * base ? "half or below" : "less";
  }

  order(a, b) {
    return CHANGES.indexOf(a) - CHANGES.indexOf(b);
  }

  paintOf(label, tone) {
    const n = CHANGES.indexOf(label);
    return n < 0 ? super.paintOf(label, tone) : `var(--change-${n})`;
  }
}

// Both curves on one axis of time since each trace's beginning: a model for the timeline, with lines.
function overlay(curves) {
  const end = Math.max(...curves.map((c) => c.end));
  const slots = Math.max(...curves.map((c) => c.high.length), 1);
  const slotTime = (slot) => (slot * end) / slots;
  // The highest use in each part of the longer time.
  const resampled = ({ high, end: own }) => Array.from({ length: slots }, (_, i) => {
    const [from, to] = [slotTime(i), slotTime(i + 1)].map((t) => (t * high.length) / own);
    return from < high.length ? high.slice(Math.floor(from), Math.ceil(to)).reduce((a, b) => Math.max(a, b), 0) : null;
  });
  const [before, now] = curves.map(resampled);
  return { slots, steps: slots, slotTime, stepTime: slotTime, stepNs: () => end / slots, data: { strings: [], time: { from: 0 }, lanes: { zones: [], messages: [], plots: [] } }, lines: [{ name: "now", values: now, pool: 0 }, { name: "before", values: before, pool: 1, dash: [5, 3] }].map((line) => ({ ...line, ended: "ended" })) };
}

const sum = (key) => (r, side) => (r.sides[side] ? r.sides[side][key] : 0);
const [allocated, blocks, live, , peak] = [0, 1, 2, 3, 4].map(sum);
const delta = (of) => (r) => of(r, 1) - of(r, 0);

class Rows {
  constructor(model) {
    const { data } = model;
    const text = (n) => data.strings[n];
    const site = (r) => (r.site === 2 ? { name: "[no call stack]", shown: "[no call stack]", path: "", image: "", place: "" } : describeFrame(data, r.site));
    this.data = data;
    this.rows = data.rows.map((r) => ({ ...r, place: site(r), pool: text(r.pool), type: `${text(r.type)}${r.moreTypes ? `, +${r.moreTypes}` : ""}` }));
    const named = (r) => make("span", { title: r.place.name }, foreign(r.place.shown), r.place.place || r.before ? foreign(`${r.place.place}${r.before ? `, before: line ${r.before}` : ""}`, "place") : "");
    const side = (of, which, show) => (r) => (r.sides[which] ? show(of(r, which)) : "–");
    const by = (name, of, show, title) => ({ name, value: (r) => Math.abs(delta(of)(r)), show: (r) => signed(show)(delta(of)(r)), title });
    this.table = new Table(
      $("rows-table"),
      "Sites that changed",
      [
        { name: "Site", text: true, value: (r) => r.place.name, show: named },
        { name: "Pool", text: true, minor: true, value: (r) => r.pool, show: (r) => foreign(r.pool) },
        { name: "Type", text: true, minor: true, value: (r) => r.type, show: (r) => foreign(r.type) },
        { name: "What", text: true, value: (r) => KINDS.indexOf(r.kind), show: (r) => `${r.kind}${r.unsure ? " ?" : ""}`, title: `by ${data.metric}; ?: code without a name, whose match may be wrong` },
        { name: "Before", minor: true, value: (r) => allocated(r, 0), show: side(allocated, 0, bytes), title: "bytes allocated" },
        { name: "Now", minor: true, value: (r) => allocated(r, 1), show: side(allocated, 1, bytes), title: "bytes allocated" },
        by("Change", allocated, bytes, "of bytes allocated; sorted by size, up or down"),
        by("Count", blocks, count, "change of the number of blocks allocated"),
        by("Live", live, bytes, "change of the bytes live at the end"),
        by("Peak", peak, bytes, "change of the site's own highest use"),
      ],
      { sortable: true, sort: 6 },
    );
    $("rows-table").classList.toggle("untyped", !this.rows.some((r) => r.type));
    $("rows-search").addEventListener("input", () => this.show());
    $("rows-kind").addEventListener("change", () => this.show());
  }

  show() {
    const term = $("rows-search").value.trim().toLowerCase();
    const kind = $("rows-kind").value;
    const rows = this.rows.filter((r) => (kind === "all" || r.kind === kind) && [r.place.name, r.place.path, r.place.image, r.type, r.pool].some((t) => t.toLowerCase().includes(term)));
    const { rowsLeftOut, same, metric, unsure } = this.data;
    $("rows-count").textContent = `${count(rows.length)} of ${count(this.rows.length)} rows${rowsLeftOut ? `, ${count(rowsLeftOut)} more are not in this page` : ""}; ${count(same)} did not change in ${metric}${unsure ? `; ${count(unsure)} with ? may be matched wrongly` : ""}`;
    this.table.show(rows);
  }
}

const TREE_COLUMNS = [
  { id: "changed", name: "Moved", show: bytes, title: "how far the bytes allocated of single call stacks moved, up or down, together" },
  { id: "now", name: "Now", show: bytes, title: "bytes allocated" },
  { id: "base", name: "Before", show: bytes, title: "bytes allocated" },
  { id: "change", name: "Change", show: signed(bytes), title: "of the bytes allocated" },
  { id: "live", name: "Live", show: signed(bytes), title: "change of the bytes live at the end" },
  { id: "peak", name: "At peak", show: signed(bytes), title: "change of the bytes at the peak of all pools together" },
];

export class DiffApp {
  static async load(data) {
    const [tables, tree, ...curves] = await Promise.all([inflateJson(data.tables), inflate(data.tree), ...data.curves.map((c) => inflate(c.high))]);
    data.curves.forEach((c, i) => {
      let at = 0;
      c.high = Array.from({ length: c.count }, () => (at += curves[i].signed()));
    });
    return new DiffApp(new DiffModel(Object.assign(data, tables), tree));
  }

  constructor(model) {
    const { data } = model;
    this.model = model;
    document.body.classList.add("diff");
    $("main").hidden = false;
    for (const id of ["range", "filters", "timeline-help"]) $(id).hidden = true;
    this.showHead(data);
    this.showCurves(overlay(data.curves));
    this.refill();
    this.filters = new FrameFilters(model, () => this.filtered());
    const act = (what, frame) => this.filters.add(what === "only", frame);
    this.flame = new DiffFlame(model, () => this.showFlame(), act, () => this.save());
    this.tree = new Tree(model, () => this.showTree(), act, TREE_COLUMNS);
    this.rows = new Rows(model);
    this.tabs = new Tabs({ flame: () => this.showFlame(), tree: () => this.showTree(), rows: () => this.rows.show(), totals: () => {} }, () => this.save());
    this.tabs.draw();
    this.state = new State(() => ({ tab: this.tabs.chosen, frames: this.filters.text, at: this.flame.place }), (state) => this.applyState(state));
  }

  recolour() {
    this.timeline.build();
  }

  // ---- the first screen

  // Nothing is shown of the time before both programs' first allocation. A part that is chosen fills the plot.
  showCurves(model) {
    const zoom = (from, to) => this.timeline.zoom(Math.max(0, from), Math.min(model.steps, Math.max(to, from + 1)));
    const choose = (from, to) => (this.timeline.setRange(0, model.steps), zoom(from, to));
    this.timeline = new Timeline($("timeline"), model, choose, zoom);
    this.timeline.draw(model.lines, "bytes");
    const first = model.lines[0].values.findIndex((_, i) => model.lines.some((line) => line.values[i]));
    zoom(Math.max(0, first - 1), model.steps);
  }

  showHead(data) {
    const [base, now] = data.traces;
    const name = (t) => t.program || t.name || "unknown program";
    const title = name(base) === name(now) ? name(now) : `${name(base)} → ${name(now)}`;
    document.title = `${title}: what changed`;
    $("program").replaceChildren(foreign(title), ": what changed");
    const facts = (t) => `captured ${t.captured}, ${duration(t.duration)} long`;
    $("origin").replaceChildren(seriesMark(1), `before: ${facts(base)} · `, seriesMark(0), `now: ${facts(now)}`);
    $("answer").replaceChildren(foreign(sentence(data.answer || "no memory data in either trace")));
    $("selection").replaceChildren(...(data.selection ? ["Only allocations ", foreign(data.selection), "."] : []));
    $("selection").hidden = !data.selection;
    $("findings").replaceChildren(foreign([...showGiven(data.checks), "One run on each side does not show what is noise: diff BASE... -- NEW... compares several"].join(" · ")));
    const [pool] = data.pools.toSorted((a, b) => b.figures[0][1] - a.figures[0][1] || b.figures[0][0] - a.figures[0][0]);
    const show = (k) => (data.poolFigures[k].bytes ? bytes : count);
    const figures = pool ? data.poolFigures.map((f, k) => [f.name, show(k)(pool.figures[k][1]), pool.figures[k][0] === pool.figures[k][1] ? "as before" : `was ${show(k)(pool.figures[k][0])}, ${change(...pool.figures[k])}`]) : [];
    if (pool && data.pools.length > 1) figures.push(["Of the highest pool", pool.name, ""]);
    $("range-figures").setAttribute("aria-label", "Figures of the highest pool");
    showFigures(figures);
    this.showTotals(data, show);
  }

  showTotals(data, show) {
    const rows = data.pools.flatMap((p) => data.poolFigures.map((f, k) => ({ pool: p.name, name: f.name, k, base: p.figures[k][0], now: p.figures[k][1] })));
    new Table($("totals-table"), "Totals of each pool", [
      { name: "Pool", text: true, value: (r) => r.pool, show: (r) => foreign(r.pool) },
      { name: "Figure", text: true, value: (r) => r.name },
      { name: "Before", value: (r) => r.base, show: (r) => show(r.k)(r.base) },
      { name: "Now", value: (r) => r.now, show: (r) => show(r.k)(r.now) },
      { name: "Change", value: (r) => r.now - r.base, show: (r) => (r.now === r.base ? "=" : `${signed(show(r.k))(r.now - r.base)} (${change(r.base, r.now)})`) },
    ], { limit: 1000 }).show(rows);
    $("diff-bounds").textContent = data.leftOut ? `${count(data.leftOut)} light calls of the call-stack tree are combined as "[lighter calls left out]".` : "The page has every call of the call-stack tree.";
  }

  // The forms of the flame graph and the tree ask other questions here.
  refill() {
    const options = (id, list) => $(id).replaceChildren(...Object.entries(list).map(([value, text]) => make("option", { value, text })));
    options("flame-what", { changed: "what changed", now: "now", base: "before" });
    options("flame-unit", UNITS);
    options("flame-color", { growth: "change", module: "module", function: "function", file: "file" });
    $("flame-allocators").parentElement.hidden = true;
    options("rows-kind", { all: "all", ...Object.fromEntries(KINDS.map((k) => [k, k])) });
  }

  // ---- views

  filtered() {
    $("only").replaceChildren($("only").querySelector("legend"), ...this.filters.chips());
    for (const id of ["pools", "threads"]) $(id).hidden = true;
    $("only").hidden = $("filters").hidden = !this.filters.list.length;
    this.tabs.draw();
    this.save();
  }

  // Both sides' own figures of each call stack that passes the filters, and how far they differ.
  sides(metric) {
    const passes = this.filters.stacks();
    const [base, now] = this.model.own[METRICS.indexOf(metric)].map((side) => side.map((v, i) => (passes[i] ? v : 0)));
    return { base, now, changed: now.map((v, i) => Math.abs(v - base[i])), change: now.map((v, i) => v - base[i]) };
  }

  showFlame() {
    const { value: metric } = $("flame-unit");
    const sides = this.sides(metric);
    const width = sides[$("flame-what").value];
    const columns = [width, width, sides.now, sides.base];
    this.flame.show(columns, { unit: "bytes", allocators: true });
  }

  showTree() {
    const { base, now, changed, change: moved } = this.sides("bytes");
    this.tree.show([changed, now, base, moved, this.sides("live").change, this.sides("peak").change]);
  }

  // ---- the address of the page

  save(replace) {
    this.state?.save(replace);
  }

  applyState(state) {
    this.tabs.choose(state.tab);
    this.filters.text = state.frames;
    this.flame.place = state.at;
    this.filtered();
  }
}
