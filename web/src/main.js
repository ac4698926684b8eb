// The page of a trace: reads its data, and keeps all views at one range of time and one filter.

import licences from "licences";
import { Blocks } from "./blocks.js";
import { callTree, prepareTrees } from "./calls.js";
import { amount, bytes, count, counted, duration, sentence } from "./format.js";
import { $, afterPaint, foreign, make, showFigures } from "./dom.js";
import { DiffApp } from "./diff.js";
import { BYTES, COLUMNS, COUNT, Flame, GROWTH } from "./flame.js";
import { FrameFilters, removableChip } from "./frame_filters.js";
import { Histograms } from "./histograms.js";
import { Leaks } from "./leaks.js";
import { showLook } from "./look.js";
import { MemoryMap } from "./map.js";
import { loadCells, loadPoints } from "./model.js";
import { checksSum, showLicences, showNotes } from "./notes.js";
import { RunsApp } from "./runs.js";
import { Sites } from "./sites.js";
import { State } from "./state.js";
import { Tabs } from "./tabs.js";
import { addTheme } from "./theme.js";
import { residentMark, seriesMark, Timeline } from "./timeline.js";
import { Tree, TREE_COLUMNS } from "./tree.js";

const LINES_MAX = 6; // pools with a separate line: those with the highest peaks
const REHEARSALS = 6;

const idle = window.requestIdleCallback ?? ((run) => setTimeout(run, 50));
const sum = (list) => list.reduce((a, b) => a + b, 0);

class App {
  constructor(model) {
    const { data } = model;
    this.model = model;
    this.range = { from: 0, to: model.steps };
    this.filter = { pools: data.pools.map((p) => !p.beside), threads: data.threads.map(() => true), site: -1, frames: new FrameFilters(model, () => this.chosen()) };
    $("main").hidden = false;
    $("lanes-choice").addEventListener("change", () => this.save());
    this.timeline = new Timeline($("timeline"), model, (from, to) => this.choose(from, to), (from, to) => this.zoom(from, to).save(true));
    showFindings(data);
    this.addFilters();
    this.addRange();
    this.drawTimeline();
  }

  // When the rest of the data is there, which takes longer than the plot. `kept`: what keep() gave.
  start(kept) {
    const { model } = this;
    this.sites = new Sites(model, (site) => this.filterSite(site));
    this.flame = new Flame(model, () => this.showFlame(), (what, frame) => this.filterFrame(what, frame), () => this.save());
    this.tree = new Tree(model, () => this.showTree(), (what, frame) => this.filterFrame(what, frame));
    if (kept) Object.assign(this.tree, { open: kept.open, way: kept.way });
    const leaks = new Leaks(model, (site) => this.openSite(site));
    const events = !model.data.figureStep;
    const map = events && new MemoryMap(model, (site) => this.openSite(site));
    const blocks = events && new Blocks(model, (site) => this.openSite(site));
    const histograms = events && new Histograms(model);
    this.tabs = new Tabs({
      flame: () => this.showFlame(),
      tree: () => this.showTree(),
      sites: () => this.sites.update(this.query, this.mask),
      ...(events && { blocks: () => blocks.update(this.query, this.mask, this.filter) }),
      leaks: () => leaks.update(this.query, this.mask, this.range),
      ...(model.data.look && { look: () => {} }),
      ...(events && { map: () => map.update(this.range, this.filter), histograms: () => histograms.update(this.range, this.filter) }),
      notes: () => {},
    }, () => this.save());
    this.dropIdleThread();
    if (!events) for (const way of ["thread", "age"]) $("flame-color").querySelector(`[value=${way}]`).remove();
    if (model.data.pools.length > 1) $("flame-what").options[0].text = "at each pool's peak";
    showNotes(model);
    if (model.data.look) showLook(model, (site) => this.openSite(site));
    this.refresh();
    this.state = new State(() => this.readState(), (state) => this.applyState(state));
  }

  // What is drawn on a canvas has no style sheet.
  recolour() {
    this.drawTimeline();
    this.timeline.setRange(this.range.from, this.range.to);
    if (this.tabs?.chosen === "map") this.tabs.draw();
  }

  // ---- the address of the page

  save(replace) {
    this.state?.save(replace);
  }

  readState() {
    const { model, filter, range, timeline } = this;
    const ns = ([from, to]) => (from === 0 && to === model.steps ? "" : `${Math.round(model.stepTime(from))}-${Math.round(model.stepTime(to))}`);
    const chosen = (list, ids) => (list.every(Boolean) ? "" : ids.filter((_, i) => list[i]).join(".") || "none");
    const { poolIds, threadIds, sites } = model;
    return { tab: this.tabs.chosen, range: ns([range.from, range.to]), zoom: ns(timeline.zoomed), pools: chosen(filter.pools, poolIds), threads: chosen(filter.threads, threadIds), site: sites[filter.site]?.id ?? "", frames: filter.frames.text, lanes: timeline.lanes.chosen, at: this.flame.place };
  }

  // Whether other data would take something from under the reader's hand.
  get busy() {
    return this.flame.pinned || Boolean(document.querySelector("main:active, .menu[open]"));
  }

  // Leaves the page to a later snapshot's model. What is chosen goes on in the address.
  keep(next) {
    const { model, state } = this;
    state.save(true);
    state.write();
    state.over.abort();
    this.tabs.due = false; // the next model's views take these elements
    const { activeElement: focus } = document;
    return { open: this.tree.open, way: this.tree.way, chosen: this.tree.chosen, top: $("tree").scrollTop, y: window.scrollY, site: next.siteNumber(model.sites[this.sites.open]?.id), focus: focus?.id, caret: focus?.selectionStart };
  }

  resume({ focus, caret, top, y, site, chosen }) {
    this.tree.chosen = chosen;
    if (site >= 0) this.sites.show(site);
    $("tree").scrollTop = top;
    window.scrollTo(0, y);
    const element = $(focus ?? "");
    element?.focus({ preventScroll: true });
    if (caret !== null && element?.type === "search") element.setSelectionRange(caret, caret);
  }

  applyState(state) {
    const { model, filter, flame } = this;
    const steps = (text) => {
      const [from, to] = text.split("-").map((ns) => Math.round(this.timeline.stepAt(Number(ns) / 1e9)));
      return to > from && from >= 0 && to <= model.steps ? [from, to] : [0, model.steps];
    };
    const choose = (list, ids, text) => list.forEach((_, i) => (list[i] = text === "" || text.split(".").includes(ids[i])));
    choose(filter.pools, model.poolIds, state.pools);
    choose(filter.threads, model.threadIds, state.threads);
    filter.site = model.siteNumber(state.site);
    filter.frames.text = state.frames;
    [this.range.from, this.range.to] = steps(state.range);
    this.tabs.choose(state.tab);
    this.showChips();
    this.timeline.lanes.chosen = state.lanes;
    this.mask = null;
    this.drawTimeline();
    this.zoom(...steps(state.zoom));
    flame.place = state.at;
    this.refresh();
  }

  // ---- filters

  addFilters() {
    const chip = (list, i, name, mark) => {
      const input = make("input", { type: "checkbox", checked: true });
      input.addEventListener("change", () => {
        list[i] = input.checked;
        this.filtered();
      });
      return make("label", { class: "chip" }, input, mark, foreign(name));
    };
    const { model, filter } = this;
    model.data.pools.forEach((_, i) => $("pools").append(chip(filter.pools, i, model.poolName(i), seriesMark(i))));
    model.data.threads.forEach((_, i) => $("threads").append(chip(filter.threads, i, model.threadName(i), "")));
    for (const id of ["pools", "threads"]) {
      this.addAllButton($(id));
      $(id).hidden = $(id).querySelectorAll("input").length < 2;
    }
    this.showChips();
  }

  filtered() {
    this.mask = null;
    afterPaint(() => this.state?.over.signal.aborted || this.drawTimeline());
    if (this.query) this.refresh(true);
    this.save();
  }

  // "(other threads)", if there are none.
  dropIdleThread() {
    const { data, cells, keyThread } = this.model;
    const i = data.threads.findIndex((t) => t.rest);
    if (i < 0 || cells.keys.some((k) => keyThread[k] === i)) return;
    this.idleThread = i;
    $("threads").querySelectorAll("label")[i].hidden = true;
    $("threads").hidden = $("threads").querySelectorAll("label:not([hidden])").length < 2;
    this.showChips();
  }

  // Many boxes are tedious one by one.
  addAllButton(fieldset) {
    const boxes = [...fieldset.querySelectorAll("input")];
    if (boxes.length < 3) return;
    const list = this.filter[fieldset.id];
    const set = (on) => list.fill(on) && this.chosen();
    fieldset.append(make("button", { type: "button", class: "chip", text: "all", onclick: () => set(true) }), make("button", { type: "button", class: "chip", text: "none", onclick: () => set(false) }));
  }

  // The filters as chips.
  showChips() {
    const { filter, model } = this;
    for (const id of ["pools", "threads"]) $(id).querySelectorAll("input").forEach((input, i) => (input.checked = filter[id][i]));
    const chips = filter.frames.chips();
    if (filter.site >= 0) chips.push(removableChip("only site", model.sites[filter.site].name, () => this.filterSite(-1)));
    $("only").replaceChildren($("only").querySelector("legend"), ...chips);
    $("only").hidden = !chips.length;
    $("filters").hidden = !chips.length && $("pools").hidden && $("threads").hidden;
  }

  filterSite(site) {
    this.filter.site = site;
    this.chosen();
  }

  chosen() {
    this.showChips();
    this.filtered();
  }

  // "only" or "hide": only call stacks through a function, or none of these; "source": its source.
  filterFrame(what, frame) {
    if (what === "source") return this.openSite(this.model.sourceLine(frame).site);
    this.filter.frames.add(what === "only", frame);
    $(this.tabs.chosen)?.focus({ preventScroll: true });
  }

  openSite(site) {
    this.tabs.show("sites");
    this.tabs.draw();
    this.sites.show(site);
  }

  // ---- timeline

  drawTimeline() {
    const { model, filter } = this;
    const what = $("plot-what").value;
    const unit = what === "bytes" ? "bytes" : "count";
    const whole = filter.site < 0 && !filter.frames.list.length && filter.threads.every((on, i) => on || i === this.idleThread);
    const pools = model.data.pools.map((_, i) => i).filter((i) => filter.pools[i]);
    const shown = pools.map((pool) => [pool, model.peakStep(pool, 0, model.steps).bytes]).sort((a, b) => b[1] - a[1]).slice(0, LINES_MAX).map(([pool]) => pool).sort((a, b) => a - b);
    const column = { bytes: "max", blocks: "blocks", allocs: "allocs" }[what];
    if (!whole) this.mask ??= model.mask(filter);
    const values = whole ? model.points.map((points) => points[column]) : model.useByStep(this.mask, what);
    const lines = shown.map((pool) => ({ name: model.poolName(pool), values: values[pool], pool }));
    if (pools.length > 1) {
      const total = new Float64Array(lines[0].values.length);
      for (const pool of pools) values[pool].forEach((v, i) => (total[i] += v));
      lines.push({ name: what === "bytes" && whole ? "sum of these highs" : "all", values: total });
    }
    if (!lines.length) lines.push({ name: "no pool", values: new Float64Array(model.slots) });
    if (this.showsResident()) lines.push(...this.residentLines(lines[0].values.length));
    this.timeline.draw(lines, unit);
    const each = whole ? { bytes: "highest use", blocks: "blocks in use at the end", allocs: "allocations" }[what] : { bytes: "use at the end", blocks: "blocks in use at the end", allocs: "allocations" }[what];
    $("timeline-text").textContent = `The plot shows the ${each} of each ${duration(whole ? model.data.figureStep || model.data.time.slot : model.stepNs())}${shown.length < pools.length ? `, for ${shown.length} of ${pools.length} pools and their sum` : ""}.${model.data.figureStep ? " The trace has figures only, no events: the views that need them are left out, and there is one range." : ""} ${this.poolPeaks(shown)}${this.residentText()}`;
  }

  showsResident() {
    $("plot-resident").disabled = $("plot-what").value !== "bytes";
    return this.model.resident && $("plot-resident").checked && !$("plot-resident").disabled;
  }

  residentText() {
    if (!this.showsResident()) return "";
    const highest = this.model.resident.rss.reduce((a, b) => (b > a ? b : a));
    return ` The dotted line is what was resident of the whole process, whatever is chosen: highest ${bytes(highest)}.${this.timeline.apart ? " Its axis is on the right, since it is far above the use." : ""} A reading of the kernel's counts stands until the next one.`;
  }

  // What the kernel counted of the whole process, on the axis of the bytes in use.
  residentLines(n) {
    const { rss, swapped } = this.model.resident;
    const lines = [{ name: "resident (RSS of the process)", values: this.model.highs(rss, n), color: "--resident" }];
    if (swapped.some((v) => v)) lines.push({ name: "swapped", values: this.model.highs(swapped, n), color: "--swapped" });
    return lines;
  }

  poolPeaks(pools) {
    const text = (pool) => {
      const peak = this.model.peakStep(pool, 0, this.model.steps);
      return `Pool ${this.model.poolName(pool)}: highest ${bytes(peak.bytes)} at about ${duration(this.model.slotTime(peak.slot))}.`;
    };
    return pools.map(text).join(" ");
  }

  addRange() {
    for (const id of ["plot-what", "plot-resident"]) $(id).addEventListener("change", () => this.drawTimeline());
    $("plot-resident").after(residentMark());
    $("plot-resident").parentElement.hidden = !this.model.resident;
    $("range").addEventListener("submit", (event) => {
      event.preventDefault();
      const step = (id) => this.timeline.stepAt(Number.parseFloat($(id).value.replace(",", ".")));
      const [from, to] = [step("range-from"), step("range-to")];
      if (Number.isFinite(from) && Number.isFinite(to)) this.choose(Math.floor(from + 1e-6), Math.ceil(to - 1e-6));
      else this.showRange();
    });
    for (const id of ["range-from", "range-to"]) $(id).addEventListener("change", () => $("range").requestSubmit());
    $("range-all").addEventListener("click", () => this.choose(0, this.model.steps));
    $("zoom-in").addEventListener("click", () => this.zoom(this.range.from, this.range.to).save());
    $("zoom-out").addEventListener("click", () => this.zoom(0, this.model.steps).save());
  }

  zoom(from, to) {
    this.timeline.zoom(from, to);
    $("zoom-out").disabled = from === 0 && to === this.model.steps;
    return this;
  }

  choose(from, to) {
    const { steps, cells } = this.model;
    if (!cells) return;
    from = Math.min(Math.max(0, from), steps - 1);
    to = Math.max(from + 1, Math.min(steps, to));
    this.range = { from, to };
    this.refresh(true);
    this.save();
  }

  // ---- views

  showFlame() {
    const unit = $("flame-unit").value;
    this.flame.show(this.flameColumns(this), { unit, moment: $("flame-what").value === "peak" ? this.moment(unit) : "" });
  }

  flameColumns({ query, mask }) {
    const { model } = this;
    const { bytes: size, count: blocks } = query[$("flame-what").value];
    const color = $("flame-color").value;
    const before = model.byStack(query.before.bytes, mask);
    const columns = [];
    columns[BYTES] = model.byStack(size, mask, 0);
    columns[COUNT] = model.byStack(blocks, mask, 0);
    columns[GROWTH] = model.byStack(query.live.bytes, mask).map((live, stack) => live - before[stack]);
    if (color === "age") columns.push(model.byStack(query.total.bytes, mask), model.byStack(model.ages(query), mask));
    if (color === "thread") columns.push(...model.data.threads.map((_, thread) => model.byStack(size, mask.map((on, key) => (model.keyThread[key] === thread ? on : 0)), 0)));
    return columns;
  }

  // Goes over what an interaction computes, in the browser's idle time: it compiles what runs often, and
  // until then the first interactions take twice as long.
  async rehearse() {
    const mask = this.model.mask(this.filter);
    for (let i = 0; i < REHEARSALS; i++) {
      const query = this.model.query(i, this.model.steps);
      await new Promise(idle);
      const columns = this.flameColumns({ query, mask });
      await new Promise(idle);
      const { root, children } = callTree(this.model, columns, BYTES, { way: "down", recursion: true });
      children(root).forEach(children);
      await new Promise(idle);
    }
  }

  showTree() {
    const { model, query, mask } = this;
    const growth = query.live.bytes.map((v, key) => v - query.before.bytes[key]);
    const keys = { peak: query.peak.bytes, live: query.live.bytes, growth, bytes: query.total.bytes, count: query.total.count, temporary: query.temporary.count };
    this.tree.show(TREE_COLUMNS.map(({ id }) => model.byStack(keys[id], mask)));
  }

  // Everything but the plot's lines. `soon`: the views follow in the next frame.
  refresh(soon) {
    const { from, to } = this.range;
    if (this.query?.from !== from || this.query.to !== to) this.query = this.model.query(from, to);
    this.mask ??= this.model.mask(this.filter);
    this.timeline.setRange(from, to);
    this.showRange();
    if (soon) this.tabs.drawSoon();
    else this.tabs.draw();
  }

  showRange() {
    const { model, range, query, mask } = this;
    const digits = Math.max(3, Math.ceil(-Math.log10(model.stepNs() / 1e9)) + 1);
    const text = (step) => (model.stepTime(step) / 1e9).toFixed(Math.min(9, digits));
    $("range-from").value = text(range.from);
    $("range-to").value = text(range.to);
    const whole = range.from === 0 && range.to === model.steps;
    const [total, frees, temporary, before, live] = [query.total, query.frees, query.temporary, query.before, query.live].map((pair) => ({ bytes: sum(model.byPool(pair.bytes, mask)), count: sum(model.byPool(pair.count, mask)) }));
    const figures = [
      ["Range", duration(model.stepTime(range.to) - model.stepTime(range.from)), whole ? "all events" : ""],
      ...[["Allocations", total], ["Frees", frees], ["Temporary", temporary]].map(([name, n]) => [name, count(n.count), bytes(n.bytes)]),
      ...[["At start", before], ["At end", live]].map(([name, n]) => [name, bytes(n.bytes), counted(n.count, "block")]),
      ["Growth", bytes(live.bytes - before.bytes), counted(live.count - before.count, "block")],
      this.peakFigure(),
    ];
    showFigures(figures);
    $("range-all").disabled = $("zoom-in").disabled = whole;
    $("announce").textContent = `${whole ? "The whole trace" : `Range ${duration(model.stepTime(range.from))} to ${duration(model.stepTime(range.to))}`}: ${figures[1][1]} allocations, ${figures[5][1]} in use at the end, peak ${figures[7][1]}`;
  }

  // What each chosen pool holds at its peak, the most first. Pools peak at different times.
  peaks() {
    const { model, query, mask } = this;
    const { pools, time } = model.data;
    const sums = pools.map(({ peakTime }, i) => {
      const { slot } = query.peaks[i];
      const exact = peakTime >= model.slotTime(slot) && peakTime < time.from + (slot + 1) * time.slot;
      return { name: model.poolName(i), when: exact ? duration(peakTime) : `≈ ${duration(model.slotTime(slot))}` };
    });
    for (const unit of ["bytes", "count"]) model.byPool(query.peak[unit], mask).forEach((sum, i) => (sums[i][unit] = sum));
    return sums.filter((_, i) => this.filter.pools[i]).sort((a, b) => b.bytes - a.bytes);
  }

  // The sum of peaks was never in use: the figure is that of the highest pool.
  peakFigure() {
    const [highest, ...others] = this.peaks();
    if (!highest) return ["Peak", bytes(0), "no pool is chosen"];
    return ["Peak", bytes(highest.bytes), others.length ? `${highest.name}, ${highest.when}` : highest.when];
  }

  // What the root of the flame graph is at the peak: that of one pool at its time, or a sum of several.
  moment(unit) {
    const list = this.peaks().filter((pool) => pool[unit] > 0);
    if (list.length < 2) return list.length ? ` at ${list[0].when}` : "";
    const rest = list.slice(3);
    const parts = list.slice(0, 3).map((p) => `${amount(p[unit], unit)} in ${p.name} at ${p.when}`);
    if (rest.length) parts.push(`${amount(rest.reduce((sum, p) => sum + p[unit], 0), unit)} in ${count(rest.length)} other pools`);
    return `, the sum of each pool's peak: ${parts.join(" + ")}`;
  }
}

// ---- page

// The first screen's answer: the peak's owners, as the text and the JSON of a report have them.
function showTrace({ trace, answer, verdict, selection }) {
  const program = trace.program || trace.name || "unknown program";
  document.title = `${program}: memory report`;
  $("program").replaceChildren(foreign(program), ": memory report");
  const facts = [trace.captured !== "unknown" && `captured ${trace.captured}`, ...trace.host, trace.version && `trace version ${trace.version}`, `${duration(trace.duration)} long`, !trace.complete && "incomplete"];
  for (const id of ["origin", "trace-facts"]) $(id).replaceChildren(foreign(facts.filter(Boolean).join(" · ")));
  $("answer").replaceChildren(foreign(sentence(answer || verdict)));
  $("answer").title = sentence(answer || verdict);
  $("verdict").replaceChildren(foreign(`${sentence(verdict)}.`));
  $("selection").replaceChildren(...(selection ? ["Only allocations ", foreign(selection), "."] : []));
  $("selection").hidden = !selection;
}

// What is never freed, and which checks failed, with their remedies.
function showFindings({ leakHead, lines, checks, pools, figureStep }) {
  const failed = checks.filter((c) => !c.holds && c.name !== "memory-data");
  const link = (text, tab) => make("button", { type: "button", class: "link", text, onclick: () => $(`tab-${tab}`)?.click() });
  const parts = [...lines.flatMap((line) => [foreign(sentence(line)), ". "]), ...(pools.length ? [link(sentence(leakHead), "leaks"), " "] : []), link(checksSum(checks), "notes"), failed.length ? ": " : ""];
  failed.forEach((c, i) => parts.push(i ? "; " : "", foreign(c.detail), c.remedy ? ` (${c.remedy})` : ""));
  if (figureStep) parts.push(" · Figures only, no events: ", link("views that need events", "notes"), " are left out");
  $("findings").replaceChildren(...parts);
}

function fail(error) {
  $("error").textContent = `The page cannot be shown: ${error.message}`;
  $("error").hidden = false;
}

// The dashboard of a daemon holds the page in a frame and sends it the reader's choice of colours, and
// one snapshot after another.
function listen(changed, chooseTheme) {
  $("theme").hidden = true;
  const pristine = $("main").cloneNode(true);
  let app = null;
  const show = async (data) => {
    const model = await loadPoints(data);
    await loadCells(model);
    if (app?.busy) return false;
    const kept = app?.keep(model);
    $("main").replaceWith(pristine.cloneNode(true));
    showTrace(data);
    changed((app = new App(model)));
    app.start(kept);
    if (kept) app.resume(kept);
    document.documentElement.dataset.ready = "yes";
    return true;
  };
  const tell = (said) => window.parent.postMessage(said, "*"); // no secret
  window.addEventListener("message", ({ source, data }) => {
    if (source === window.parent && "dark" in data) chooseTheme(data.dark);
    else if (source === window.parent) show(data.snapshot).then((shown) => tell({ shown }), (error) => tell({ error: error.message }));
  });
  tell({ ready: true });
}

async function main() {
  let app = null;
  const chooseTheme = addTheme(() => app?.recolour?.());
  showLicences(licences);
  const data = JSON.parse($("data").textContent);
  if (typeof DecompressionStream === "undefined") throw new Error("the browser is too old (it has no DecompressionStream)");
  if (!data && window.parent === window) throw new Error("it has no data; the daemon's dashboard shows it");
  if (!data) return listen((now) => (app = now), chooseTheme);
  const other = { "tidemark.diffpage/1": DiffApp, "tidemark.runspage/1": RunsApp }[data.schema];
  if (other) {
    app = await other.load(data);
  } else {
    showTrace(data);
    app = new App(await loadPoints(data));
    await new Promise(afterPaint);
    await loadCells(app.model);
    app.start();
    afterPaint(() => prepareTrees(app.model) || app.rehearse());
  }
  document.documentElement.dataset.ready = "yes";
}

main().catch(fail);
