// The plot of use over time, on which a range is brushed.

import uPlot from "uplot";
import { amount, duration } from "./format.js";
import { css, foreign, make, swatch } from "./dom.js";
import { Lanes } from "./lanes.js";

const TICKS = Array.from({ length: 60 }, (_, i) => 2 ** i); // of bytes
const WHEEL = 1.25; // a turn of the wheel makes the time in view longer by
const LEAST = 4; // steps in view
const FAR = 3; // times the highest use: RSS above it has a separate axis
const HEIGHT = 160; // pixels, with the axis

// Of a plot of amounts over seconds.
function axes(unit) {
  const axis = { stroke: () => css("--text"), grid: { stroke: () => css("--line") }, ticks: { stroke: () => css("--line") }, font: "12px system-ui" };
  return [
    { ...axis, values: (_, ticks, _axis, _space, step) => ticks.map((t) => duration(t * 1e9, step * 1e9)), space: 90, size: 30 },
    { ...axis, values: (_, ticks) => ticks.map((t) => amount(t, unit)), size: 70, space: 26, ...(unit === "bytes" ? { incrs: TICKS } : {}) },
  ];
}

export class Timeline {
  // choose(from, to) receives a new range in steps, zoomTo(from, to) what is to be in view.
  constructor(element, model, choose, zoomTo) {
    Object.assign(this, { element, model, choose, zoomTo, from: 0, to: model.steps, unit: "bytes", view: null, zoomed: [0, model.steps] });
    this.lanes = new Lanes(model, () => this.lanesChanged());
    this.lanes.canvas.addEventListener("pointermove", (event) => this.plot.setCursor({ left: event.offsetX - this.plot.over.offsetLeft, top: this.plot.over.clientHeight - 1 }));
    this.lanes.canvas.addEventListener("pointerleave", () => this.plot.setCursor({ left: -10, top: -10 }));
    element.addEventListener("keydown", (event) => this.key(event));
    new ResizeObserver(() => this.resize()).observe(element);
  }

  // Lines [{name, values, pool}] with a value for each slot or each step. A pool keeps its colour
  // whichever others are shown; a line without a pool is the total, or has a `color`. A
  // value may be null.
  draw(lines, unit) {
    this.unit = unit;
    const n = lines.length ? lines[0].values.length : this.model.slots;
    const perPoint = this.model.slots / n;
    this.times = Float64Array.from({ length: n }, (_, i) => this.model.slotTime(i * perPoint) / 1e9);
    const plotted = this.kind;
    this.lines = lines;
    const highest = (of) => lines.filter((line) => Boolean(line.color) === of).reduce((most, line) => line.values.reduce((a, b) => (b > a ? b : a), most), 0);
    this.apart = highest(true) > FAR * highest(false);
    this.kind = [unit, this.apart, ...lines.map((line) => line.color ?? line.pool)].join();
    if (this.kind === plotted) this.plot.setData([this.times, ...lines.map((line) => line.values)]);
    else this.build();
    this.lanesChanged();
  }

  // Others are shown.
  lanesChanged() {
    this.element.style.height = `${HEIGHT + 2 + this.lanes.height}px`;
    this.lanes.draw(this.plot);
  }

  build() {
    this.plot?.destroy();
    const range = (_, min, max) => [Math.min(0, min), 1.12 * max || 1];
    const [time, amounts] = axes(this.unit);
    const options = {
      width: this.width(),
      height: HEIGHT,
      cursor: { drag: { x: true, y: false, setScale: false }, points: { show: false } },
      legend: { show: false },
      scales: { x: { time: false, range: (_, min, max) => this.view ?? [min, max] }, y: { range }, apart: { range } },
      axes: [time, amounts, ...(this.apart ? [{ ...amounts, scale: "apart", side: 1, size: 72, grid: { show: false } }] : [])],
      series: [{}, ...this.lines.map((line) => this.series(line))],
      hooks: { setSelect: [(plot) => this.selected(plot)], setCursor: [(plot) => this.read(plot)], draw: [(plot) => this.markPeaks(plot), () => this.mark(), (plot) => this.lanes.draw(plot)] },
    };
    this.plot = new uPlot(options, [this.times, ...this.lines.map((l) => l.values)], this.element);
    this.values = make("div", { class: "tip", hidden: true, "aria-hidden": "true" });
    this.plot.over.append(this.values);
    this.element.append(this.lanes.canvas);
    this.addTouch(this.plot.over);
    this.plot.over.addEventListener("wheel", (event) => this.wheel(event), { passive: false });
    this.plot.over.addEventListener("dblclick", () => this.choose(0, this.model.steps));
  }

  // A finger brushes as the mouse does; moving it up or down scrolls the page.
  addTouch(over) {
    const x = (event) => Math.max(0, Math.min(over.clientWidth, event.clientX - over.getBoundingClientRect().left));
    let from = null;
    over.addEventListener("pointerdown", (event) => (from = event.pointerType === "touch" ? x(event) : null));
    over.addEventListener("pointermove", (event) => from !== null && this.plot.setSelect({ left: Math.min(from, x(event)), top: 0, width: Math.abs(x(event) - from), height: over.clientHeight }, false));
    over.addEventListener("pointerup", (event) => {
      if (from !== null && Math.abs(x(event) - from) > 8) this.chooseBetween(Math.min(from, x(event)), Math.max(from, x(event)));
      from = null;
    });
    over.addEventListener("pointercancel", () => {
      from = null;
      this.mark();
    });
  }

  // The wheel with Ctrl, or two fingers on a touch pad, zooms about the pointer; with Shift it pans.
  wheel(event) {
    if (!event.ctrlKey && !event.shiftKey) return;
    event.preventDefault();
    const { model, plot } = this;
    const [from, to] = this.zoomed;
    const turn = Math.sign(event.deltaY || event.deltaX);
    const at = from + ((to - from) * (event.clientX - plot.over.getBoundingClientRect().left)) / plot.over.clientWidth;
    let [low, high] = event.ctrlKey ? [at - (at - from) * WHEEL ** turn, at + (to - at) * WHEEL ** turn] : [from + (turn * (to - from)) / 8, to + (turn * (to - from)) / 8];
    if (!event.ctrlKey && (low < 0 || high > model.steps)) [low, high] = low < 0 ? [0, to - from] : [model.steps - (to - from), model.steps];
    [low, high] = [Math.max(0, Math.round(low)), Math.min(model.steps, Math.round(high))];
    if (high - low >= Math.min(LEAST, model.steps)) this.zoomTo(low, high);
  }

  // The values at the pointer.
  read(plot) {
    const { left, top, idx } = plot.cursor;
    this.values.hidden = idx === null || idx === undefined || left < 0;
    if (this.values.hidden) return;
    const value = (i) => (plot.data[i + 1][idx] === null ? (this.lines[i].ended ?? "unknown") : amount(plot.data[i + 1][idx], this.unit));
    const row = (line, i) => make("div", {}, mark(lineColor(line)), foreign(line.name), ` ${value(i)}`);
    this.values.replaceChildren(make("div", { text: duration(this.times[idx] * 1e9, 10 ** Math.floor(Math.log10(this.model.stepNs()))) }), ...this.lines.map(row), ...this.lanes.at(Math.floor(idx * (this.model.slots / this.times.length))).map(([name, text]) => make("div", { class: "tip-lane" }, foreign(name), ": ", foreign(text))));
    const right = left > plot.over.clientWidth / 2;
    this.values.style.left = `${right ? left - this.values.offsetWidth - 12 : left + 12}px`;
    this.values.style.top = `${Math.max(0, Math.min(top, this.element.clientHeight - 10 - this.values.offsetHeight))}px`;
  }

  // A triangle at the highest point of each line, and the highest one's value.
  markPeaks(plot) {
    const ratio = window.devicePixelRatio || 1;
    const g = plot.ctx;
    let highest = null;
    g.save();
    for (const [i, line] of this.lines.entries()) {
      const at = line.values.reduce((best, v, k) => (v > line.values[best] ? k : best), 0);
      const value = line.values[at];
      if (!(value > 0)) continue;
      const x = plot.valToPos(this.times[at], "x", true);
      const y = plot.valToPos(value, this.scale(line), true);
      if (x < plot.bbox.left || x > plot.bbox.left + plot.bbox.width) continue;
      g.fillStyle = css(lineColor(line));
      g.beginPath();
      g.moveTo(x, y);
      g.lineTo(x - 5 * ratio, y - 8 * ratio);
      g.lineTo(x + 5 * ratio, y - 8 * ratio);
      g.fill();
      if (line.pool !== undefined && (!highest || value > highest.value)) highest = { x, y, value, i };
    }
    if (highest) {
      const left = highest.x > plot.bbox.left + plot.bbox.width / 2;
      g.fillStyle = css("--text");
      g.font = `${12 * ratio}px system-ui`;
      g.textAlign = left ? "right" : "left";
      g.strokeStyle = css("--back"); // no line crosses the text
      g.lineWidth = 3 * ratio;
      for (const draw of ["strokeText", "fillText"]) g[draw](`peak ${amount(highest.value, this.unit)}`, highest.x + (left ? -9 : 9) * ratio, highest.y - 2 * ratio);
    }
    g.restore();
  }

  scale(line) {
    return line.color && this.apart ? "apart" : "y";
  }

  series(line) {
    const total = line.pool === undefined;
    return {
      scale: this.scale(line),
      label: line.name,
      stroke: () => css(lineColor(line)),
      width: total ? 2 : 1.25,
      dash: line.dash ?? (line.color ? [2, 3] : total ? [6, 3] : undefined),
      paths: uPlot.paths.stepped({ align: 1 }),
      points: { show: false },
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
    this.chooseBetween(plot.select.left, plot.select.left + plot.select.width);
  }

  // Pixels of the plot.
  chooseBetween(left, right) {
    const step = (x) => this.stepAt(this.plot.posToVal(x, "x"));
    this.choose(Math.floor(step(left)), Math.ceil(step(right)));
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
    this.zoomed = [from, to];
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

const lineColor = (line) => line.color ?? (line.pool === undefined ? "--text" : `--series-${line.pool % 8}`);
const mark = (color) => swatch({ background: `var(${color})` });
export const residentMark = () => mark("--resident");
export const seriesMark = (pool) => mark(lineColor({ pool }));
