// Lanes below the plot, on its time axis: zones, messages and plots of the program. What a lane shows
// of each slot of the timeline comes from analysis/html/html_lanes.h.

import { count, shortId } from "./format.js";
import { $, css, foreign, make } from "./dom.js";

const ROW = { zones: 10, messages: 9, plot: 16 }; // pixels
const GUTTER = 70; // as the plot's axis

const number = (v) => v.toLocaleString("en-US", { maximumSignificantDigits: 6 });

export class Lanes {
  // changed(): others were chosen.
  constructor(model, changed) {
    const { lanes } = model.data;
    Object.assign(this, { model, canvas: make("canvas", { class: "lanes", "aria-hidden": "true" }), list: [], colors: new Map() });
    const text = (n) => model.data.strings[n];
    const ids = new Set(lanes.zones.map((z) => z.name));
    const thread = (z) => (!text(z.name) ? `thread ${z.id}` : ids.size < lanes.zones.length ? `${text(z.name)} (${z.id})` : text(z.name));
    lanes.zones.forEach((z, i) => this.list.push({ kind: "zones", name: `zones of ${thread(z)}`, short: thread(z), rows: z.rows.map((row) => this.runs(row)).filter((row, depth) => !depth || row.some(Boolean)), on: i === 0 }));
    if (lanes.messages.length) this.list.push({ kind: "messages", name: "messages", short: "messages", slots: this.messages(lanes.messages), on: true });
    lanes.plots.forEach((p) => this.list.push({ kind: "plot", name: `plot ${text(p.name) || "(no name)"}`, short: text(p.name) || "(no name)", values: p.values, least: Math.min(...p.values.filter((v) => v !== null)), most: Math.max(...p.values), on: false }));
    const own = this.list.find((l) => l.kind === "plot" && !l.short.startsWith("kernel: ") && l.values.filter((v) => v !== null).length > 1);
    if (own) own.on = true;
    this.list.forEach((lane) => {
      lane.input = make("input", { type: "checkbox", checked: lane.on });
      lane.input.addEventListener("change", () => {
        lane.on = lane.input.checked;
        changed();
      });
      $("lanes-choice").append(make("label", {}, lane.input, " ", foreign(lane.name)));
    });
    const left = [[lanes.threadsLeftOut, "threads with zones"], [lanes.plotsLeftOut, "plots"]].filter(([n]) => n);
    if (left.length) $("lanes-choice").append(make("p", { class: "note", text: `Not in this page: ${left.map(([n, what]) => `${count(n)} more ${what}`).join(", ")}.` }));
    $("lanes-menu").hidden = !this.list.length;
  }

  // The name in each slot, "" for none.
  runs(row) {
    const out = [];
    for (let i = 0; i < row.length; i += 2) for (let k = 0; k < row[i]; k++) out.push(this.model.data.strings[row[i + 1]]);
    return out;
  }

  messages(flat) {
    const out = new Array(this.model.slots);
    for (let i = 0; i < flat.length; i += 3) out[flat[i]] = { n: flat[i + 1], text: this.model.data.strings[flat[i + 2]] };
    return out;
  }

  // Which lanes are shown, for the page's address.
  get chosen() {
    return this.list.flatMap((lane) => (lane.on ? [shortId(lane.name)] : [])).join(".") || "none";
  }

  set chosen(text) {
    this.list.forEach((lane) => (lane.on = lane.input.checked = text.split(".").includes(shortId(lane.name))));
  }

  // Those shown: each row is {lane, row}.
  rows() {
    return this.list.filter((lane) => lane.on).flatMap((lane) => (lane.rows ?? [null]).map((row, depth) => ({ lane, row, depth })));
  }

  get height() {
    return this.rows().reduce((sum, { lane }) => sum + ROW[lane.kind], 0);
  }

  // What there is in a slot: pairs of a name and a text.
  at(slot) {
    return this.list.filter((lane) => lane.on).flatMap((lane) => {
      const { kind } = lane;
      const said = kind === "messages" && lane.slots[slot];
      if (said) return [["messages", `${said.n > 1 ? `${count(said.n)}, first: ` : ""}${said.text || "(no text)"}`]];
      if (kind === "zones" && lane.rows[0][slot]) return [[lane.short, lane.rows.map((row) => row[slot]).filter(Boolean).join(" › ")]];
      if (kind === "plot" && lane.values[slot] !== null) return [[lane.name, number(lane.values[slot])]];
      return [];
    });
  }

  // Draws what is in view of the plot.
  draw(plot) {
    const { canvas, model } = this;
    const ratio = window.devicePixelRatio || 1;
    const [width, height] = [plot.width, this.height];
    canvas.hidden = !height;
    Object.assign(canvas, { width: width * ratio, height: height * ratio });
    Object.assign(canvas.style, { width: `${width}px`, height: `${height}px` });
    const g = canvas.getContext("2d");
    g.scale(ratio, ratio);
    g.font = "10px system-ui";
    g.textBaseline = "middle";
    const x = (slot) => GUTTER + plot.valToPos(model.slotTime(slot) / 1e9, "x");
    const right = GUTTER + plot.over.clientWidth;
    let y = 0;
    for (const { lane, row, depth } of this.rows()) {
      const high = ROW[lane.kind];
      if (!depth) this.label(g, lane.short, y + high / 2);
      g.save();
      g.beginPath();
      g.rect(GUTTER, y, right - GUTTER, high);
      g.clip();
      if (lane.kind === "zones") this.drawZones(g, row, x, y, high - 1);
      else if (lane.kind === "messages") this.drawMessages(g, lane.slots, x, y, high - 1);
      else this.drawPlot(g, lane, x, y + 2, high - 4);
      g.restore();
      y += high;
    }
  }

  label(g, text, y) {
    while (text.length > 1 && g.measureText(text).width > GUTTER - 8) text = `${text.slice(0, -2).trimEnd()}…`;
    g.fillStyle = css("--soft");
    g.textAlign = "right";
    g.fillText(text, GUTTER - 5, y);
    g.textAlign = "left";
  }

  drawZones(g, row, x, y, high) {
    for (let slot = 0, end; slot < row.length; slot = end) {
      for (end = slot + 1; end < row.length && row[end] === row[slot]; ) end++;
      if (!row[slot]) continue;
      if (!this.colors.has(row[slot])) this.colors.set(row[slot], this.colors.size % 8);
      const [left, right] = [Math.max(GUTTER, x(slot)), x(end)];
      g.fillStyle = css(`--zone-${this.colors.get(row[slot])}`);
      g.fillRect(left, y, Math.max(0.7, right - left - 0.5), high);
      if (right - left < 30) continue;
      g.fillStyle = "#111";
      g.save();
      g.beginPath();
      g.rect(left, y, right - left - 2, high);
      g.clip();
      g.fillText(row[slot], left + 3, y + high / 2 + 0.5);
      g.restore();
    }
  }

  drawMessages(g, slots, x, y, high) {
    g.fillStyle = css("--accent");
    slots.forEach((_, slot) => g.fillRect(x(slot), y + 1, 1.5, high - 1));
  }

  // From one value to the next, which is where the next point is.
  drawPlot(g, { values, least, most }, x, y, high) {
    const level = (v) => y + high - (most > least ? ((v - least) / (most - least)) * high : high / 2);
    g.strokeStyle = css("--accent");
    g.beginPath();
    let begun = false;
    values.forEach((v, slot) => {
      if (v === null) return;
      if (begun) g.lineTo(x(slot), level(v));
      else g.moveTo(x(slot), level(v));
      begun = true;
    });
    g.stroke();
  }
}
