// The table of allocation sites, and what is known of one.

import { bytes, count, counted, percent } from "./format.js";
import { $, foreign, make, Table } from "./dom.js";
import { placeColumns } from "./leaks.js";

const STACKS_SHOWN = 20;

// Questions about single blocks.
export const LIVES = [
  { id: "older-kept", name: "long-lived: blocks allocated before the range, freed after it or never" },
  { id: "older-freed", name: "blocks allocated before the range, freed in it" },
  { id: "newer-kept", name: "blocks allocated in the range, freed after it or never" },
  { id: "newer-freed", name: "blocks allocated and freed in the range" },
];

// Questions about rows; `before` and `freed` count blocks.
const SHOW = [
  { id: "all", name: "all sites", test: () => true },
  { id: "grew", name: "that grew", test: (r) => r.growth > 0 },
  { id: "shrank", name: "that shrank", test: (r) => r.growth < 0 },
  { id: "started", name: "that began in the range", test: (r) => !r.before && r.count },
  { id: "kept", name: "with blocks from before, none freed", test: (r) => r.before && !r.freed },
  { id: "emptied", name: "that freed all they allocated", test: (r) => r.count && !r.live },
  { id: "short", name: "short-lived: half or more temporary", test: (r) => r.count && 2 * r.temporary >= r.count },
  ...LIVES,
];
const [AT_PEAK, THESE] = [3, 9]; // columns: the first order, and what was asked for

export const bounds = (b, show) => (!b ? "" : b.low === b.high ? show(b.high) : `${show(Math.max(0, b.low))} to ${show(b.high)}`);

export class Sites {
  constructor(model, filterSite) {
    Object.assign(this, { model, filterSite, rows: [], open: null, question: "" });
    this.table = new Table(
      $("sites-table"),
      "Allocation sites in the range",
      [
        ...placeColumns((site) => this.show(site)),
        { name: "Type", text: true, minor: true, value: (r) => r.place.type, show: (r) => foreign(r.place.type), title: "of the blocks' elements, where the allocator's functions tell; … stands for others" },
        { name: "At peak", value: (r) => r.peak, show: (r) => bytes(r.peak), title: "what it held when its pool stood highest within the range" },
        { name: "Live", value: (r) => r.live, show: (r) => bytes(r.live), title: "in use at the end of the range" },
        { name: "Growth", value: (r) => r.growth, show: (r) => bytes(r.growth), title: "in use at the end of the range less that at its begin" },
        { name: "Size", value: (r) => r.bytes, show: (r) => bytes(r.bytes), title: "bytes of all of them" },
        { name: "Count", value: (r) => r.count, show: (r) => count(r.count), title: "allocations within the range" },
        { name: "Temporary", value: (r) => r.temporary, show: (r) => count(r.temporary), title: "blocks that the next memory event of the same thread in that pool freed" },
        { name: "Matching", value: (r) => r.these?.[0].high ?? 0, show: (r) => bounds(r.these?.[0], count), title: "the number of blocks that were asked for" },
        { name: "Matching bytes", value: (r) => r.these?.[1].high ?? 0, show: (r) => bounds(r.these?.[1], bytes), title: "bytes of the blocks that were asked for" },
      ],
      { sortable: true, sort: AT_PEAK, limit: 50 },
    );
    for (const { id, name } of SHOW) $("sites-show").append(make("option", { value: id, text: name }));
    $("sites-show").addEventListener("change", () => {
      this.answer();
      this.search();
    });
    $("sites-search").addEventListener("input", () => this.search());
    $("site-close").addEventListener("click", () => this.close());
    $("site-only").addEventListener("click", () => this.filterSite(this.open));
  }

  // Rows of the keys in the mask.
  update(query, mask) {
    const { model } = this;
    const { total, temporary, before, live, peak, frees } = query;
    const [made, size, inUse, atStart, atPeak, short, older, freed] = [total.count, total.bytes, live.bytes, before.bytes, peak.bytes, temporary.count, before.count, frees.count].map((column) => model.byRow(column, mask));
    const row = (_, id) => ({ id, number: model.rowSite(id), place: model.sites[model.rowSite(id)], pool: model.poolName(model.rowPool(id)), count: made[id], bytes: size[id], live: inUse[id], growth: inUse[id] - atStart[id], peak: atPeak[id], temporary: short[id], before: older[id], freed: freed[id] });
    Object.assign(this, { query, mask });
    this.rows = Array.from(made, row).filter((r) => r.count || r.live || r.peak || r.growth || r.before);
    $("sites-table").classList.toggle("untyped", !this.rows.some((r) => r.place.type));
    this.answer();
    this.search();
    if (this.open !== null) this.describe();
  }

  // Finds the blocks that were asked for, of rows that pass the filters.
  answer() {
    const { id, test } = SHOW.find((s) => s.id === $("sites-show").value) ?? SHOW[0];
    const question = test ? "" : id;
    if (question !== this.question) Object.assign(this.table, { sort: question ? THESE + 1 : AT_PEAK, down: true });
    this.question = question;
    $("sites-table").classList.toggle("asked", Boolean(this.question));
    const answers = this.question ? this.model.lifeQuestions(this.query) : null;
    for (const row of this.rows) {
      const these = answers?.[row.id][id];
      row.these = these?.[0].high ? these : undefined;
    }
    const exact = !this.rows.some((r) => r.these?.some(({ low, high }) => low !== high));
    const parts = this.model.data.lifeParts;
    $("sites-asked").textContent = this.question ? `The last two columns have the matching blocks, of all threads and call stacks of a site.${exact ? "" : ` They are bounds: the page knows in which ${parts > 1 ? `of ${parts} parts` : "part"} of the time a freed block was allocated.`}${this.query.from === 0 && this.query.to === this.model.steps ? " Choose a range in the plot to ask about its begin and its end." : ""}` : "";
  }

  search() {
    const term = $("sites-search").value.trim().toLowerCase();
    const { test } = SHOW.find((s) => s.id === $("sites-show").value) ?? SHOW[0];
    const asked = this.rows.filter(test ?? ((r) => r.these));
    const rows = term ? asked.filter((r) => [r.place.name, r.place.path, r.place.image, r.place.type, r.pool].some((t) => t.toLowerCase().includes(term))) : asked;
    const { sites } = this.model.data.other;
    $("sites-count").textContent = `${count(rows.length)} of ${count(this.rows.length)} rows${sites ? `; "(other sites)" stands for ${count(sites)} small ones` : ""}`;
    this.table.show(rows);
  }

  // ---- one site

  show(site) {
    this.open = site;
    this.describe();
    $("site").hidden = false;
    $("site-title").focus();
  }

  close() {
    this.open = null;
    $("site").hidden = true;
    $("sites-search").focus();
  }

  describe() {
    const { model } = this;
    const site = model.sites[this.open];
    $("site-title").replaceChildren(foreign(site.name), site.path ? foreign(` ${site.path}${site.line ? `:${site.line}` : ""}`, "place") : "");
    const mask = this.mask.map((on, key) => (model.stackSite[model.keyStack[key]] === this.open ? on : 0));
    const { total, live, peak } = this.query;
    const [made, size, inUse, atPeak] = [total.count, total.bytes, live.bytes, peak.bytes].map((column) => model.byStack(column, mask));
    const stacks = Array.from(made, (n, stack) => ({ stack, count: n, bytes: size[stack], live: inUse[stack], peak: atPeak[stack] }));
    const list = stacks.filter((s) => s.count || s.live || s.peak).sort((a, b) => b.bytes - a.bytes || b.live - a.live);
    const whole = list.reduce((sum, s) => sum + s.bytes, 0);
    $("site-stacks").replaceChildren(
      ...list.slice(0, STACKS_SHOWN).flatMap((s) => this.stackElements(s, whole)),
      list.length > STACKS_SHOWN ? make("p", { class: "note", text: `${count(list.length - STACKS_SHOWN)} call stacks with less are not listed; the flame graph has them.` }) : "",
    );
    this.source();
  }

  stackElements(s, whole) {
    const { model } = this;
    const title = make("h3", { text: `${bytes(s.bytes)} in ${counted(s.count, "allocation")} (${percent(s.bytes, whole)}), ${bytes(s.live)} live, ${bytes(s.peak)} at the peak` });
    const node = model.stackNode[s.stack];
    if (!node) return [title, make("p", { class: "note", text: model.sites[this.open].rest || s.stack === 0 ? "Sites too small for a row of their own." : "Without a call stack, or in call stacks that the page combines with others." })];
    const frames = make("ol", { class: "stack" });
    let inner = true; // within the allocator
    for (let n = node; n; n = model.nodeParent[n]) {
      const frame = model.frames[model.nodeFrame[n]];
      inner &&= n !== model.stackBegin[s.stack];
      frames.append(make("li", { class: inner ? "inner" : "" }, foreign(frame.name), frame.place ? foreign(` ${frame.place}`, "place") : ""));
    }
    return [title, frames];
  }

  // Source text and instructions, where the trace has them.
  source() {
    const parts = [];
    for (const text of this.model.data.texts.filter((t) => t.site === this.open)) {
      const title = text.code ? "Machine code, up to the call" : "Source";
      const width = Math.max(...text.lines.map(([number]) => number.length));
      const pre = make("pre", { tabindex: "0", "aria-label": title });
      for (const [number, line, here] of text.lines) pre.append(make("span", { class: here ? "here" : "", text: `${here ? "▶" : " "} ${number.padStart(width)}  ${line}` }));
      parts.push(make("h3", {}, `${title}: `, foreign(text.of)), pre);
    }
    $("site-source").replaceChildren(...parts);
  }
}
