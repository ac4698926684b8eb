// The plot of use over time, on which a range is brushed.

import uPlot from "uplot";
import { amount, duration } from "./format.js";
import { make } from "./dom.js";

const TICKS = Array.from({ length: 60 }, (_, i) => 2 ** i); // of bytes

const css = (name) => getComputedStyle(document.documentElement).getPropertyValue(name).trim();

export class Timeline {
  // choose(from, to) receives a new range in steps.
  constructor(element, model, choose) {
    Object.assign(this, { element, model, choose, from: 0, to: model.steps, unit: "bytes", view: null });
    element.addEventListener("keydown", (event) => this.key(event));
    new ResizeObserver(() => this.resize()).observe(element);
  }

  // Lines [{name, values, pool}] with a value for each slot or each step. A pool keeps its colour
  // whichever others are shown; a line without a pool is the total.
  draw(lines, unit) {
    this.unit = unit;
    const n = lines.length ? lines[0].values.length : this.model.slots;
    const perPoint = this.model.slots / n;
    this.times = Float64Array.from({ length: n }, (_, i) => this.model.slotTime(i * perPoint) / 1e9);
    this.lines = lines;
    this.build();
  }

  build() {
    this.plot?.destroy();
    const axis = { stroke: () => css("--text"), grid: { stroke: () => css("--line") }, ticks: { stroke: () => css("--line") }, font: "12px system-ui" };
    const options = {
      width: this.width(),
      height: window.innerWidth < 600 ? 200 : 260,
      cursor: { drag: { x: true, y: false, setScale: false }, points: { show: false } },
      legend: { live: true },
      scales: { x: { time: false, range: (_, min, max) => this.view ?? [min, max] }, y: { range: (_, min, max) => [Math.min(0, min), max || 1] } },
      axes: [
        { ...axis, values: (_, ticks) => ticks.map((t) => duration(t * 1e9)), space: 90 },
        { ...axis, values: (_, ticks) => ticks.map((t) => amount(t, this.unit)), size: 78, ...(this.unit === "bytes" ? { incrs: TICKS } : {}) },
      ],
      series: [{ label: "time", value: (_, v) => (v === null ? "–" : duration(v * 1e9)) }, ...this.lines.map((line) => this.series(line))],
      hooks: { setSelect: [(plot) => this.selected(plot)], draw: [() => this.mark()] },
    };
    this.plot = new uPlot(options, [this.times, ...this.lines.map((l) => l.values)], this.element);
    const caption = this.plot.root.querySelector(".u-legend").createCaption();
    caption.textContent = "Values at the pointer";
    caption.className = "hidden";
    this.plot.over.addEventListener("dblclick", () => this.choose(0, this.model.steps));
  }

  series(line) {
    const total = line.pool === undefined;
    return {
      label: line.name,
      stroke: () => css(total ? "--text" : seriesColor(line.pool)),
      width: total ? 2 : 1.25,
      dash: total ? [6, 3] : undefined,
      paths: uPlot.paths.stepped({ align: 1 }),
      points: { show: false },
      value: (_, v) => (v === null ? "–" : amount(v, this.unit)),
    };
  }

  width() {
    return Math.max(240, this.element.clientWidth - 2);
  }

  resize() {
    if (this.plot && this.plot.width !== this.width()) this.plot.setSize({ width: this.width(), height: this.plot.height });
  }

  stepAt(seconds) {
    const { model } = this;
    return (seconds * 1e9 - model.data.time.from) / model.stepNs();
  }

  selected(plot) {
    if (this.marking || plot.select.width < 2) return;
    const from = Math.floor(this.stepAt(plot.posToVal(plot.select.left, "x")));
    const to = Math.ceil(this.stepAt(plot.posToVal(plot.select.left + plot.select.width, "x")));
    this.choose(from, to);
  }

  // Shows the chosen range.
  mark() {
    const { plot, model } = this;
    if (!plot) return;
    this.marking = true;
    if (this.from === 0 && this.to === model.steps) {
      plot.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
    } else {
      const left = plot.valToPos(model.stepTime(this.from) / 1e9, "x");
      const right = plot.valToPos(model.stepTime(this.to) / 1e9, "x");
      const end = plot.over.clientWidth;
      const [a, b] = [Math.max(0, left), Math.min(end, right)];
      plot.setSelect({ left: a, top: 0, width: Math.max(2, b - a), height: plot.over.clientHeight }, false);
    }
    this.marking = false;
  }

  setRange(from, to) {
    this.from = from;
    this.to = to;
    this.mark();
  }

  // Zooms to [from, to) steps, or to all.
  zoom(from, to) {
    this.view = from === 0 && to === this.model.steps ? null : [this.model.stepTime(from) / 1e9, this.model.stepTime(to) / 1e9];
    const all = [this.times[0], this.times[this.times.length - 1]];
    const [min, max] = this.view ?? all;
    this.plot.setScale("x", { min, max });
  }

  key(event) {
    const { from, to, model } = this;
    const by = Math.max(1, Math.round((to - from) / 10));
    const end = event.shiftKey;
    const moves = {
      ArrowLeft: () => (end ? this.choose(from, to - by) : this.choose(Math.max(0, from - by), to - Math.min(by, from))),
      ArrowRight: () => (end ? this.choose(from, to + by) : this.choose(from + Math.min(by, model.steps - to), Math.min(model.steps, to + by))),
      Home: () => this.choose(0, to - from),
      End: () => this.choose(model.steps - (to - from), model.steps),
      "+": () => this.choose(from + Math.floor((to - from) / 4), to - Math.floor((to - from) / 4)),
      "-": () => this.choose(from - Math.ceil((to - from) / 2), to + Math.ceil((to - from) / 2)),
      Escape: () => this.choose(0, model.steps),
    };
    if (!moves[event.key] || event.target !== this.element || event.ctrlKey || event.altKey || event.metaKey) return;
    event.preventDefault();
    moves[event.key]();
  }
}

const seriesColor = (pool) => `--series-${pool % 8}`;

export function seriesMark(pool) {
  const mark = make("span", { class: "mark", "aria-hidden": "true" });
  mark.style.backgroundColor = `var(${seriesColor(pool)})`;
  return mark;
}
