// The page of `tidemark diff BASE... -- NEW... --format html`: its JSON ("tidemark.runs/1") as tables,
// with the intervals of the changes drawn.

import { shortPath } from "./calls.js";
import { bytes, count, counted, percent } from "./format.js";
import { $, foreign, make, showFigures, signed as plus, Table } from "./dom.js";
import { showGiven } from "./notes.js";
import { State } from "./state.js";
import { Tabs } from "./tabs.js";
import { inflateJson } from "./unpack.js";

const TOTALS = { peak_bytes: ["Peak", bytes], live_bytes: ["Live at the end", bytes], live_allocations: ["Blocks live at the end", count], total_bytes: ["Size of all allocations", bytes], allocations: ["Allocations", count], temporary_allocations: ["Temporary", count] };
const KINDS = { all: "all", changed: "beyond the noise", new: "new", grown: "grown", shrunk: "shrunk", gone: "gone", same: "within the noise" };

const whole = (show) => (n) => show(Math.round(n));
const signed = (show) => plus(whole(show));
const baseName = (path) => path.slice(path.lastIndexOf("/") + 1);

// "7.60 MiB ±0.1 %": the median, and the spread of a run.
const side = ({ median, mean, spread }, show) => (median === null ? "–" : `${whole(show)(median)}${spread === null || !mean ? "" : ` ±${percent(spread, mean)}`}`);

function changeText({ change, base, low, high }, show) {
  if (change === null) return "–";
  if (change === 0) return "=";
  const share = base.mean > 0 ? ` (${change > 0 ? "+" : "-"}${percent(Math.abs(change), base.mean)})` : "";
  return `${signed(show)(change)}${share}${low === null ? "" : `, ${signed(show)(low)} to ${signed(show)(high)}`}`;
}

const noise = (known) => (known ? KINDS.same : "not established");

// "grown", "within the noise, unstable", …; nothing without runs before. Without an interval the noise is unknown.
const outcome = (r) => [r.change === null ? "" : r.changed ? (r.kind ?? (r.change > 0 ? "grown" : "shrunk")) : r.change ? (r.muted ? "" : noise(r.low !== null)) : "=", r.unstable ? "unstable" : "", r.muted ? "not tested" : ""].filter(Boolean).join(", ");

// The interval as a bar and the mean's change as a mark, on an axis of -most to most of the base's mean.
function interval({ change, low, high, base, changed }, most) {
  const box = make("span", { class: changed ? "interval changed" : "interval", "aria-hidden": "true" });
  if (!change || low === null || !(base.mean > 0)) return box;
  const at = (n) => Math.max(0, Math.min(100, 50 + (50 * n) / base.mean / most));
  const bar = make("span");
  bar.style.left = `${at(low)}%`;
  bar.style.width = `${Math.max(0.7, at(high) - at(low))}%`;
  const mark = make("i");
  mark.style.left = `${at(change)}%`;
  box.append(bar, mark);
  return box;
}

export class RunsApp {
  static async load(data) {
    return new RunsApp(await inflateJson(data.runs));
  }

  constructor(doc) {
    this.doc = doc;
    this.show = doc.metric === "count" ? count : bytes;
    document.body.classList.add("diff", "runs");
    for (const id of ["range", "filters", "timeline", "timeline-help"]) $(id).hidden = true;
    document.querySelector(".skip").setAttribute("href", "#panel-rows");
    $("main").hidden = false;
    $("panel-rows").dataset.title = "Functions";
    this.rows = doc.rows.map((r) => ({ ...r, name: r.function ?? (r.image ? `[unknown] ${baseName(r.image)}` : "[no call stack]"), place: r.file ? shortPath(r.function, r.file) : "" }));
    // Few changes are larger than those that matter; they end at the edge.
    this.most = Math.min(1, Math.max(0.01, ...this.rows.filter((r) => r.changed && r.base.mean > 0).map((r) => 1.2 * Math.max(Math.abs(r.low), Math.abs(r.high)) / r.base.mean)));
    this.showHead();
    this.showTotals();
    this.addRows();
    this.tabs = new Tabs({ rows: () => this.showRows(), totals: () => {} }, () => this.state?.save());
    this.tabs.draw();
    for (const [id, type] of [["rows-kind", "change"], ["rows-search", "input"]]) $(id).addEventListener(type, () => this.showRows());
    this.state = new State(() => ({ tab: this.tabs.chosen }), (state) => this.applyState(state));
  }

  // ---- the first screen

  showHead() {
    const { doc } = this;
    const [base, now] = [doc.base.length, doc.now.length];
    const programs = new Set([...doc.base, ...doc.now].map((r) => r.program ?? "unknown program"));
    const title = [...programs].join(", ");
    document.title = `${title}: what changed`;
    $("program").replaceChildren(foreign(title), base ? ": what changed" : `: ${counted(now, "run")}`);
    $("origin").textContent = base ? `${counted(base, "run")} before, ${count(now)} after · intervals of the changes of the means, ${doc.confidence} % for all ${count(doc.tested)} figures together` : `${counted(now, "run")}: medians, and the standard deviation of a run`;
    const pool = this.highest();
    const of = (kind) => doc.rows.filter((r) => r.kind === kind).length;
    const kinds = ["new", "grown", "shrunk", "gone"].filter(of).map((kind) => `${count(of(kind))} ${kind}`);
    const peak = pool && pool.totals.peak_bytes;
    const head = peak ? `Peak ${side(peak.now, bytes)}${doc.pools.length > 1 ? ` in pool ${pool.name}` : ""}${base ? `: ${peak.change ? `${changeText(peak, bytes)} (${outcome(peak)})` : "as before"}` : ""}` : "No memory data";
    $("answer").replaceChildren(foreign(base ? `${head}; functions by ${doc.metric}: ${[...kinds, `${count(doc.same)} ${noise(doc.noise_known)}`].join(", ")}` : head));
    $("answer").title = $("answer").textContent;
    const notes = showGiven(doc.checks);
    if (base && !doc.noise_known) notes.push("These are too few runs to tell a change from noise");
    if (doc.unstable) notes.push(`${doc.unstable === 1 ? "1 row is unstable: it differs" : `${count(doc.unstable)} rows are unstable: they differ`} much between runs of one side`);
    $("findings").replaceChildren(foreign(notes.join(" · ")));
    const figures = pool ? Object.entries(TOTALS).map(([key, [name, show]]) => [name, side(pool.totals[key].now, show), base ? changeText(pool.totals[key], show) : "", pool.totals[key].change ? outcome(pool.totals[key]) : ""]) : [];
    $("range-figures").setAttribute("aria-label", "Figures of the highest pool");
    showFigures(figures);
  }

  // The pool with the highest peak.
  highest() {
    const peak = (p) => p.totals.peak_bytes.now.median ?? 0;
    return this.doc.pools.reduce((a, b) => (peak(b) > peak(a) ? b : a), this.doc.pools[0]);
  }

  // ---- tables

  columns(first, show) {
    const size = (r) => Math.abs(r.change ?? 0);
    const columns = [
      ...first,
      { name: "Before", of: "base", minor: true, value: (r) => r.base.median ?? -1, show: (r) => side(r.base, show(r)), title: "the median, and the standard deviation of a run" },
      { name: "Now", minor: this.doc.base.length > 0, value: (r) => r.now.median ?? -1, show: (r) => side(r.now, show(r)), title: "the median, and the standard deviation of a run" },
      { name: "Change", of: "base", value: size, show: (r) => changeText(r, show(r)), title: "of the means, and its interval; sorted by size, up or down" },
      { name: "Interval", of: "noise", text: true, minor: true, value: (r) => (r.base.mean > 0 ? size(r) / r.base.mean : 0), show: (r) => interval(r, this.most), title: `from -${percent(this.most, 1)} to +${percent(this.most, 1)} of the mean before; what is beyond ends at the edge` },
      { name: "Outcome", text: true, value: outcome },
    ];
    return columns.filter((c) => !c.of || (this.doc.base.length && (c.of === "base" || this.doc.noise_known)));
  }

  showTotals() {
    const { doc } = this;
    const rows = doc.pools.flatMap((p) => Object.entries(TOTALS).map(([key, [name, show]]) => ({ ...p.totals[key], pool: p.name, name, show })));
    const first = [{ name: "Pool", text: true, value: (r) => r.pool, show: (r) => foreign(r.pool) }, { name: "Figure", text: true, value: (r) => r.name }];
    new Table($("totals-table"), "Totals of each pool", this.columns(first, (r) => r.show), { limit: 1000 }).show(rows);
    $("diff-bounds").replaceChildren(...[["Before", doc.base], ["Now", doc.now]].filter(([, list]) => list.length).flatMap(([name, list], i) => [i ? ". " : "", `${name}: `, foreign(list.map((r) => baseName(r.file)).join(", "))]));
  }

  addRows() {
    $("rows-kind").replaceChildren(...Object.entries({ ...KINDS, same: noise(this.doc.noise_known) }).map(([value, text]) => make("option", { value, text })));
    const named = (r) => make("span", { title: r.name }, foreign(r.name), r.place ? foreign(r.place, "place") : "");
    const first = [{ name: "Function", text: true, value: (r) => r.name, show: named }, { name: "Pool", text: true, minor: true, value: (r) => r.pool, show: (r) => foreign(r.pool) }];
    this.table = new Table($("rows-table"), "Functions", this.columns(first, () => this.show), { sortable: true });
  }

  // Those that changed come first, as in the other formats, until another order is chosen.
  showRows() {
    const term = $("rows-search").value.trim().toLowerCase();
    const kind = $("rows-kind").value;
    const rows = this.rows.filter((r) => (kind === "all" || r.kind === kind || (kind === "changed" && r.kind !== "same")) && [r.name, r.file ?? "", r.image ?? "", r.pool].some((t) => t.toLowerCase().includes(term)));
    $("rows-count").textContent = `${count(rows.length)} of ${count(this.rows.length)} functions, by ${this.doc.metric}`;
    this.table.show(rows);
  }

  // ---- the address of the page

  applyState(state) {
    this.tabs.choose(state.tab);
    this.tabs.draw();
  }
}
