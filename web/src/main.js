// The page of a trace: reads its data, and keeps all views at one range of time and one filter.

import licences from "licences";
import { bytes, count, duration } from "./format.js";
import { $, foreign, make } from "./dom.js";
import { Flame } from "./flame.js";
import { Histograms } from "./histograms.js";
import { Leaks } from "./leaks.js";
import { MemoryMap } from "./map.js";
import { loadCells, loadPoints } from "./model.js";
import { showNotes } from "./notes.js";
import { Sites } from "./sites.js";
import { seriesMark, Timeline } from "./timeline.js";

const LINES_MAX = 6; // pools with a separate line at first

class App {
  constructor(model) {
    const { data } = model;
    this.model = model;
    this.range = { from: 0, to: model.steps };
    this.filter = { pools: data.pools.map(() => true), threads: data.threads.map(() => true), site: -1 };
    $("main").hidden = false;
    this.timeline = new Timeline($("timeline"), model, (from, to) => this.choose(from, to));
    this.addRange();
    this.drawTimeline();
  }

  // When the rest of the data is there, which takes longer than the plot.
  start() {
    const { model } = this;
    this.sites = new Sites(model, (site) => this.filterSite(site));
    const flame = new Flame($("flame"), model);
    const leaks = new Leaks(model, (site) => this.openSite(site));
    const map = new MemoryMap(model);
    const histograms = new Histograms(model);
    this.views = {
      flame: () => this.showFlame(flame),
      sites: () => this.sites.update(this.query, this.mask),
      leaks: () => leaks.update(this.query, this.mask, this.range),
      map: () => map.update(this.range, this.filter),
      histograms: () => histograms.update(this.range, this.filter),
      notes: () => {},
    };
    this.addFilters();
    this.addTabs();
    this.addFlame(flame);
    showNotes(model, licences);
    this.refresh();
  }

  redraw() {
    this.drawTimeline();
    if (this.query) this.refresh();
  }

  // ---- filters

  addFilters() {
    const box = (list, i, name, mark) => {
      const input = make("input", { type: "checkbox", checked: true });
      input.addEventListener("change", () => {
        list[i] = input.checked;
        this.redraw();
      });
      return make("label", {}, input, mark, foreign(name));
    };
    this.model.data.pools.forEach((_, i) => $("pools").append(box(this.filter.pools, i, this.model.poolName(i), seriesMark(i))));
    const threads = this.model.data.threads.length;
    for (let i = 0; i < threads; i++) {
      if (this.model.data.threads[i].rest && !this.usesThread(i)) continue;
      $("threads").append(box(this.filter.threads, i, this.model.threadName(i), ""));
    }
    for (const id of ["pools", "threads"]) {
      this.addAllButton($(id));
      $(id).hidden = !$(id).querySelector("input");
    }
    $("site-filter-off").addEventListener("click", () => this.filterSite(-1));
    $("filters").addEventListener("submit", (e) => e.preventDefault());
  }

  usesThread(i) {
    return this.model.cells.keys.some((k) => this.model.keyThread[k] === i);
  }

  // Many boxes are tedious one by one.
  addAllButton(fieldset) {
    const boxes = [...fieldset.querySelectorAll("input")];
    if (boxes.length < 3) return;
    const set = (on) => boxes.forEach((b) => b.checked !== on && b.click());
    fieldset.append(make("button", { type: "button", text: "all", onclick: () => set(true) }), make("button", { type: "button", text: "none", onclick: () => set(false) }));
  }

  filterSite(site) {
    this.filter.site = site;
    $("site-filter").hidden = site < 0;
    if (site >= 0) $("site-filter-name").replaceChildren("Only allocations at ", foreign(this.model.sites[site].name));
    this.redraw();
  }

  openSite(site) {
    $("tab-sites").click();
    this.sites.show(site);
  }

  // ---- timeline

  drawTimeline() {
    const { model, filter } = this;
    const what = $("plot-what").value;
    const unit = what === "bytes" ? "bytes" : "count";
    const whole = filter.site < 0 && filter.threads.every((on, i) => on || !this.usesThread(i));
    const pools = model.data.pools.map((_, i) => i).filter((i) => filter.pools[i]);
    const shown = pools.slice(0, LINES_MAX);
    const column = { bytes: "max", blocks: "blocks", allocs: "allocs" }[what];
    const values = (pool) => {
      if (whole) return model.points[pool][column];
      return model.useByStep(model.mask({ ...filter, pools: filter.pools.map((_, i) => i === pool) }), what);
    };
    const lines = shown.map((pool) => ({ name: model.poolName(pool), values: values(pool), pool }));
    if (pools.length > 1) {
      const total = new Float64Array(lines[0].values.length);
      for (const pool of pools) values(pool).forEach((v, i) => (total[i] += v));
      lines.push({ name: what === "bytes" && whole ? "sum of these highs" : "all", values: total });
    }
    if (!lines.length) lines.push({ name: "no pool", values: new Float64Array(model.slots) });
    this.timeline.draw(lines, unit);
    const each = whole ? { bytes: "highest use", blocks: "blocks in use at the end", allocs: "allocations" }[what] : { bytes: "use at the end", blocks: "blocks in use at the end", allocs: "allocations" }[what];
    $("timeline-text").textContent = `The plot shows the ${each} of each ${duration(whole ? model.data.time.slot : model.stepNs())}${shown.length < pools.length ? `, for ${shown.length} of ${pools.length} pools and their sum` : ""}. Ranges begin and end with steps of ${duration(model.stepNs())}. ${this.poolPeaks(pools)}`;
  }

  poolPeaks(pools) {
    return pools
      .slice(0, LINES_MAX)
      .map((pool) => {
        const peak = this.model.peakStep(pool, 0, this.model.steps);
        return `Pool ${this.model.poolName(pool)}: highest ${bytes(peak.bytes)} at about ${duration(this.model.slotTime(peak.slot))}.`;
      })
      .join(" ");
  }

  addRange() {
    $("plot-what").addEventListener("change", () => this.drawTimeline());
    $("range").addEventListener("submit", (event) => {
      event.preventDefault();
      const step = (id) => this.timeline.stepAt(Number.parseFloat($(id).value.replace(",", ".")));
      const [from, to] = [step("range-from"), step("range-to")];
      if (Number.isFinite(from) && Number.isFinite(to)) this.choose(Math.floor(from + 1e-6), Math.ceil(to - 1e-6));
      else this.showRange();
    });
    $("range-all").addEventListener("click", () => this.choose(0, this.model.steps));
    $("zoom-in").addEventListener("click", () => this.timeline.zoom(this.range.from, this.range.to));
    $("zoom-out").addEventListener("click", () => this.timeline.zoom(0, this.model.steps));
  }

  choose(from, to) {
    const { steps, cells } = this.model;
    if (!cells) return;
    from = Math.min(Math.max(0, from), steps - 1);
    to = Math.max(from + 1, Math.min(steps, to));
    this.range = { from, to };
    this.refresh();
  }

  // ---- views

  addTabs() {
    const names = Object.keys(this.views);
    names.forEach((name, i) => {
      const panel = $(`panel-${name}`);
      const tab = make("button", { type: "button", role: "tab", id: `tab-${name}`, "aria-controls": panel.id, text: panel.dataset.title, onclick: () => this.showTab(name) });
      panel.setAttribute("role", "tabpanel");
      panel.setAttribute("aria-labelledby", tab.id);
      tab.addEventListener("keydown", (event) => {
        const to = { ArrowRight: i + 1, ArrowLeft: i - 1, Home: 0, End: names.length - 1 }[event.key];
        if (to === undefined) return;
        event.preventDefault();
        const next = names[(to + names.length) % names.length];
        this.showTab(next);
        $(`tab-${next}`).focus();
      });
      $("tabs").append(tab);
    });
    this.tab = names[0];
    this.markTabs();
  }

  showTab(name) {
    this.tab = name;
    this.markTabs();
    this.views[name]();
  }

  markTabs() {
    for (const name of Object.keys(this.views)) {
      const on = name === this.tab;
      $(`panel-${name}`).hidden = !on;
      $(`tab-${name}`).setAttribute("aria-selected", String(on));
      $(`tab-${name}`).tabIndex = on ? 0 : -1;
    }
  }

  addFlame(flame) {
    for (const id of ["flame-what", "flame-unit", "flame-way", "flame-allocators"]) {
      $(id).addEventListener("change", () => {
        if (id === "flame-way") flame.path = [];
        $("flame").style.minHeight = "";
        $("flame-allocators").disabled = $("flame-way").value === "up";
        this.showFlame(flame);
      });
    }
    $("flame-search").addEventListener("input", () => flame.search($("flame-search").value));
    $("flame-reset").addEventListener("click", () => flame.reset());
    for (const form of document.querySelectorAll("form.row")) form.addEventListener("submit", (e) => e.preventDefault());
  }

  showFlame(flame) {
    const column = this.query[$("flame-what").value][$("flame-unit").value];
    const values = new Float64Array(this.model.stackSite.length);
    for (let key = 0; key < this.model.keyCount; key++) if (this.mask[key]) values[this.model.keyStack[key]] += Math.max(0, column[key]);
    flame.show(values, $("flame-way").value, $("flame-unit").value, $("flame-allocators").checked);
  }

  // Everything but the plot's lines.
  refresh() {
    const { from, to } = this.range;
    this.query = this.model.query(from, to);
    this.mask = this.model.mask(this.filter);
    this.timeline.setRange(from, to);
    this.showRange();
    this.views[this.tab]();
  }

  showRange() {
    const { model, range, query, mask } = this;
    const digits = Math.max(3, Math.ceil(-Math.log10(model.stepNs() / 1e9)) + 1);
    const text = (step) => (model.stepTime(step) / 1e9).toFixed(Math.min(9, digits));
    $("range-from").value = text(range.from);
    $("range-to").value = text(range.to);
    const sum = (column) => column.reduce((s, v, key) => s + (mask[key] ? v : 0), 0);
    const figures = [
      ["Range", duration(model.stepTime(range.to) - model.stepTime(range.from)), `${duration(model.stepTime(range.from))} to ${duration(model.stepTime(range.to))}`],
      ["Allocations", count(sum(query.total.count)), bytes(sum(query.total.bytes))],
      ["Frees", count(sum(query.frees.count)), bytes(sum(query.frees.bytes))],
      ["Temporary", count(sum(query.temporary.count)), bytes(sum(query.temporary.bytes))],
      ["In use at its begin", bytes(sum(query.before.bytes)), `${count(sum(query.before.count))} blocks`],
      ["In use at its end", bytes(sum(query.live.bytes)), `${count(sum(query.live.count))} blocks`],
      ["Growth", bytes(sum(query.live.bytes) - sum(query.before.bytes)), `${count(sum(query.live.count) - sum(query.before.count))} blocks`],
      this.peakFigure(),
    ];
    $("range-figures").replaceChildren(...figures.map(([name, value, more]) => make("div", {}, make("dt", { text: name }), make("dd", { text: value }, make("small", { text: more })))));
    const whole = range.from === 0 && range.to === model.steps;
    $("announce").textContent = `${whole ? "The whole trace" : `Range ${figures[0][2]}`}: ${figures[1][1]} allocations, ${figures[5][1]} in use at the end, peak ${figures[7][1]}`;
  }

  // Pools peak at different times, so their peaks have no sum: that of the highest pool is shown.
  peakFigure() {
    const { model, query, mask } = this;
    const peaks = new Float64Array(model.data.pools.length);
    query.peak.bytes.forEach((v, key) => (peaks[model.keyPool[key]] += mask[key] ? v : 0));
    const pools = [...peaks.keys()].filter((i) => this.filter.pools[i]);
    if (!pools.length) return ["Peak", bytes(0), "no pool is chosen"];
    const highest = pools.reduce((a, b) => (peaks[b] > peaks[a] ? b : a));
    const when = `at about ${duration(model.slotTime(query.peaks[highest].slot))}`;
    return ["Peak", bytes(peaks[highest]), pools.length > 1 ? `of pool ${model.poolName(highest)}, ${when}` : when];
  }
}

// ---- page

function showTheme(dark) {
  document.documentElement.dataset.theme = dark ? "dark" : "light";
  $("theme").textContent = dark ? "Light" : "Dark";
  $("theme").setAttribute("aria-label", dark ? "Use light colours" : "Use dark colours");
}

function addTheme(changed) {
  const system = window.matchMedia("(prefers-color-scheme: dark)");
  let dark = system.matches;
  const set = (value) => {
    dark = value;
    showTheme(dark);
    changed();
  };
  showTheme(dark);
  $("theme").addEventListener("click", () => set(!dark));
  system.addEventListener("change", () => set(system.matches));
}

function showTrace({ trace, verdict, selection }) {
  const program = trace.program || trace.name || "unknown program";
  document.title = `${program}: memory report`;
  $("program").replaceChildren(foreign(program), ": memory report");
  const facts = [trace.captured !== "unknown" && `captured ${trace.captured}`, ...trace.host, trace.version && `trace version ${trace.version}`, `${duration(trace.duration)} long`, !trace.complete && "incomplete"];
  $("origin").replaceChildren(foreign(facts.filter(Boolean).join(" · ")));
  $("verdict").replaceChildren(foreign(verdict));
  $("selection").replaceChildren(...(selection ? ["Only allocations ", foreign(selection), "."] : []));
  $("selection").hidden = !selection;
}

function fail(error) {
  $("error").textContent = `The page cannot be shown: ${error.message}`;
  $("error").hidden = false;
}

async function main() {
  let app = null;
  addTheme(() => app?.redraw());
  const data = JSON.parse($("data").textContent);
  showTrace(data);
  if (typeof DecompressionStream === "undefined") throw new Error("the browser is too old (it has no DecompressionStream)");
  app = new App(await loadPoints(data));
  await new Promise((painted) => requestAnimationFrame(() => setTimeout(painted)));
  await loadCells(app.model);
  app.start();
  document.documentElement.dataset.ready = "yes";
}

main().catch(fail);
