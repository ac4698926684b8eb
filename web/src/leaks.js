// What is in use at the end of the range, and whether it goes on growing.

import { bytes, count } from "./format.js";
import { judge, mannKendall, medianSlope, SIGNIFICANT } from "./trend.js";
import { $, foreign, make, Table } from "./dom.js";

const BUCKETS = 64;
const WORDS = { growing: "still growing", held: "held", start: "from the start" };

export class Leaks {
  constructor(model, openSite) {
    this.model = model;
    this.table = new Table(
      $("leaks-table"),
      "In use at the end of the range",
      [
        { name: "Site", text: true, value: (r) => r.site.name, show: (r) => make("span", {}, make("button", { type: "button", class: "link", onclick: () => openSite(r.number) }, foreign(r.site.name)), r.site.place ? foreign(r.site.place, "place") : "") },
        { name: "Pool", text: true, value: (r) => r.pool, show: (r) => foreign(r.pool) },
        { name: "Live", value: (r) => r.live, show: (r) => bytes(r.live) },
        { name: "Blocks", value: (r) => r.blocks, show: (r) => count(r.blocks) },
        { name: "Growth", value: (r) => r.growth, show: (r) => bytes(r.growth), title: "at the end of the range less at its begin" },
        { name: "Rate", value: (r) => r.rate, show: (r) => `${bytes(r.rate)}/s`, title: "the median of the slopes between each two parts of the range" },
        { name: "Significance", value: (r) => r.z, show: (r) => (Math.abs(r.z) < 0.05 ? "0.0" : r.z.toFixed(1)), title: `Mann and Kendall's z: above ${SIGNIFICANT} hardly chance` },
        { name: "Verdict", text: true, value: (r) => r.verdict, show: (r) => WORDS[r.verdict] },
      ],
      { sortable: true, sort: 2, limit: 100, more: $("leaks-more") },
    );
  }

  update(query, mask, range) {
    const { model } = this;
    const rows = new Map();
    for (let key = 0; key < model.keyCount; key++) {
      if (!mask[key]) continue;
      const number = model.row(key);
      const row = rows.get(number) ?? { live: 0, blocks: 0, growth: 0 };
      row.live += query.live.bytes[key];
      row.blocks += query.live.count[key];
      row.growth += query.live.bytes[key] - query.before.bytes[key];
      rows.set(number, row);
    }
    const { times, rows: series } = model.floors(range.from, range.to, mask, BUCKETS);
    const seconds = times.map((t) => t / 1e9);
    const list = [];
    for (const [number, row] of rows) {
      if (row.blocks <= 0) continue;
      const floor = series.get(number) ?? new Float64Array(times.length);
      list.push({ ...row, number: model.rowSite(number), site: model.sites[model.rowSite(number)], pool: model.poolName(model.rowPool(number)), rate: medianSlope(seconds, floor), z: mannKendall(floor), verdict: judge(floor, row.live) });
    }
    const growing = list.filter((r) => r.verdict === "growing");
    const sum = (rows) => bytes(rows.reduce((s, r) => s + r.live, 0));
    $("leaks-text").textContent = list.length
      ? `${sum(list)} in use at the end of the range at ${count(list.length)} sites; ${growing.length ? `${count(growing.length)} of them still growing (${sum(growing)})` : "none of them still growing"}. Growth is judged by the least that a site held in each of ${times.length} parts of the range.`
      : "Nothing is in use at the end of the range.";
    this.table.show(list);
  }
}
