// What is never freed, and whether it grows: the rows and verdicts of `report --leaks` for all that
// the page shows. A chosen range changes the column "In range" alone, and the page says so.

import { bytes, count, counted, duration, percent } from "./format.js";
import { $, foreign, make, Table } from "./dom.js";

const WORDS = { growing: "still growing", held: "held", "at-start": "from the start" };
const KINDS = Object.keys(WORDS);
const CONFIDENCE = ["", "low", "medium", "high"];

// Rows with their places, and the number of the site if the page has it.
export function placed(model, rows) {
  const places = new Map(model.data.sites.map((f, i) => [JSON.stringify(f), i]));
  return rows.map((r, order) => ({ ...r, order, number: places.get(JSON.stringify(r.site)), place: model.site(r.site) }));
}

// The first columns of tables of such rows.
export function placeColumns(openSite) {
  const link = (r) => (r.number === undefined ? foreign(r.place.shown) : make("button", { type: "button", class: "link", title: r.place.name, onclick: () => openSite(r.number) }, foreign(r.place.shown)));
  return [
    { name: "Site", text: true, value: (r) => r.place.name, show: (r) => make("span", {}, link(r), r.place.place ? foreign(r.place.place, "place") : "") },
    { name: "Pool", text: true, minor: true, value: (r) => r.pool, show: (r) => foreign(r.pool) },
  ];
}

export class Leaks {
  constructor(model, openSite) {
    this.model = model;
    this.pools = new Map(model.data.pools.flatMap((p, i) => (p.low === undefined ? [] : [[p.name, i]])));
    this.rows = placed(model, model.data.leaks.rows);
    const known = (v, show) => (v === undefined ? "–" : show(v));
    this.table = new Table(
      $("leaks-table"),
      "Never freed",
      [
        ...placeColumns(openSite),
        { name: "Live", value: (r) => r.bytes, show: (r) => bytes(r.bytes) },
        { name: "Blocks", value: (r) => r.count, show: (r) => count(r.count) },
        { name: "Never freed", value: (r) => r.count / r.allocations, show: (r) => percent(r.count, r.allocations), title: "share of the blocks that the site allocated" },
        { name: "First", value: (r) => r.first, show: (r) => duration(r.first), title: "when the oldest of them was allocated" },
        { name: "Last", value: (r) => r.last, show: (r) => duration(r.last), title: "when the newest of them was allocated" },
        { name: "Rate", value: (r) => r.rate ?? 0, show: (r) => known(r.rate, (v) => `${bytes(v)}/s`), title: "the median of the slopes between each two parts of the time" },
        { name: "In range", value: (r) => r.use ?? -1, show: (r) => known(r.use, bytes), title: "what the site holds at the end of the range" },
        { name: "Confidence", value: (r) => CONFIDENCE.indexOf(r.confidence), show: (r) => r.confidence || "–", title: "by the test of Mann and Kendall, the number of blocks, the share never freed and the time over which they came" },
        { name: "Verdict", value: (r) => KINDS.length - KINDS.indexOf(r.kind), show: (r) => WORDS[r.kind] },
      ],
      { sortable: true, limit: 50 },
    );
  }

  // What sites hold at the end of the range, of the keys in the mask.
  update(query, mask, range) {
    const { model } = this;
    const use = model.byRow(query.live.bytes, mask);
    const { leaks } = model.data;
    const growing = this.rows.filter((r) => r.kind === "growing").length;
    $("leaks-text").textContent = leaks.count
      ? `Never freed: ${counted(leaks.count, "block")} (${bytes(leaks.bytes)}) at ${counted(leaks.rows.length + leaks.more, "site")}, ${growing ? `${count(growing)} of them still growing (${bytes(leaks.growing)})` : "none still growing"}. Verdicts, rates and counts are those of report --leaks, of the whole time${leaks.more ? `; smaller sites are left out: ${count(leaks.more)}` : ""}.`
      : "Nothing is in use at the end.";
    const whole = range.from === 0 && range.to === model.steps;
    const time = (step) => Math.round(model.stepTime(step));
    $("leaks-scope").hidden = whole || !leaks.count;
    $("leaks-scope").textContent = `A range is chosen. Only the column “In range” is of the range; all other columns are of the whole time. For verdicts of the range: tidemark report FILE --leaks --range ${time(range.from)}:${time(range.to)}`;
    this.table.show(this.rows.map((r) => ({ ...r, use: r.number === undefined || !this.pools.has(r.pool) ? undefined : use[r.number * model.data.pools.length + this.pools.get(r.pool)] })));
  }
}
