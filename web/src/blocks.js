// Single blocks, as far as the page lists them: those of a range, or of a square of the map.

import { bytes, count, duration } from "./format.js";
import { $, foreign, make, Table } from "./dom.js";
import { bounds, LIVES } from "./sites.js";

const SHOW = [{ id: "live", name: "blocks in use at the end of the range" }, ...LIVES];

// openSite(site): shows what is known of a site.
export function blockTable(id, caption, model, openSite) {
  const at = (slot) => (slot === Infinity ? "never" : `≈ ${duration(model.slotTime(slot))}`);
  const site = (b) => model.sites[b.site];
  const link = (b) => make("button", { type: "button", class: "link", title: site(b).name, onclick: () => openSite(b.site) }, foreign(site(b).shown));
  return new Table(
    $(id),
    caption,
    [
      { name: "Address", text: true, value: (b) => b.address, show: (b) => `0x${b.address.toString(16)}` },
      { name: "Size", value: (b) => b.size, show: (b) => (b.size < 1024 ? `${b.size} B` : bytes(b.size)) },
      { name: "Site", text: true, value: (b) => site(b).name, show: (b) => make("span", {}, link(b), foreign(site(b).place, "place")) },
      { name: "Pool", text: true, minor: true, value: (b) => model.poolName(b.pool), show: (b) => foreign(model.poolName(b.pool)) },
      { name: "Allocated", value: (b) => b.born, show: (b) => at(b.born) },
      { name: "Freed", value: (b) => b.freed, show: (b) => at(b.freed) },
      { name: "Lived", minor: true, value: (b) => b.freed - b.born, show: (b) => (b.freed === Infinity ? "–" : `≈ ${duration((b.freed - b.born) * model.data.time.slot)}`) },
    ],
    { sortable: true, sort: 1, limit: 50 },
  );
}

export class Blocks {
  constructor(model, openSite) {
    this.model = model;
    this.table = blockTable("blocks-table", "Blocks", model, openSite);
    for (const { id, name } of SHOW) $("blocks-show").append(make("option", { value: id, text: name }));
    for (const [id, type] of [["blocks-show", "change"], ["blocks-search", "input"]]) $(id).addEventListener(type, () => this.show());
  }

  update(query, mask, filter) {
    Object.assign(this, { query, mask, filter });
    this.show();
  }

  show() {
    const { model, filter, query } = this;
    const id = $("blocks-show").value || "live";
    const term = $("blocks-search").value.trim().toLowerCase();
    const named = (site) => !term || [model.sites[site].name, model.sites[site].path, model.sites[site].image].some((t) => t.toLowerCase().includes(term));
    const wanted = (site, pool) => filter.pools[pool] && (filter.site < 0 || filter.site === site) && named(site);
    const [from, to] = [query.from * model.perStep, query.to * model.perStep];
    const life = (b) => (b.born >= to || b.freed < from ? "" : `${b.born < from ? "older" : "newer"}-${b.freed >= to ? "kept" : "freed"}`);
    const asked = (b) => (id === "live" ? life(b).endsWith("-kept") : life(b) === id);
    const blocks = model.singles.filter((b) => wanted(b.site, b.pool) && asked(b));
    const listed = [blocks.length, blocks.reduce((sum, b) => sum + b.size, 0)];
    const whole = [{ low: 0, high: 0 }, { low: 0, high: 0 }]; // blocks and bytes of all that match
    for (const [row, answer] of model.lifeQuestions(query).entries()) {
      if (!wanted(model.rowSite(row), model.rowPool(row))) continue;
      whole.forEach((sum, k) => {
        sum.low += Math.max(0, answer[id][k].low);
        sum.high += answer[id][k].high;
      });
    }
    const all = model.singles.length === model.data.allBlocks;
    const of = whole.map((sum, k) => (all ? { low: listed[k], high: listed[k] } : { low: Math.max(sum.low, listed[k]), high: Math.max(sum.high, listed[k]) }));
    const notes = [all ? "The page lists every block." : `The page lists ${count(model.singles.length)} of ${count(model.data.allBlocks)} blocks: those never freed first, then the largest. report --page-size lists more, csvexport --memory lists all.`];
    if (id !== "live" && query.from === 0 && query.to === model.steps) notes.push("Choose a range in the plot to ask about its begin and its end.");
    if (filter.frames.list.length || !filter.threads.every(Boolean)) notes.push("Filters by thread and function do not count here.");
    $("blocks-count").textContent = `${count(listed[0])} listed, ${bytes(listed[1])}${of[0].high > listed[0] ? `, of ${bounds(of[0], count)} that match, ${bounds(of[1], bytes)}` : ": all that match"}`;
    $("blocks-text").textContent = notes.join(" ");
    this.table.show(blocks);
  }
}
