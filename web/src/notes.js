// Memory faults, checks, and what was left out of the page.

import { bytes, count, duration } from "./format.js";
import { $, foreign, make, Table } from "./dom.js";

const KINDS = { "free-of-unknown": "free of an unknown address", "allocated-twice": "allocated at a live address" };

export function showNotes(model) {
  const { data } = model;
  const faults = new Table($("faults-table"), data.selection ? "Memory faults that are selected" : "Memory faults of the whole trace", [
    { name: "Fault", text: true, value: (r) => KINDS[r.kind] ?? r.kind },
    { name: "At", text: true, value: (r) => model.site(r.site).name, show: (r) => make("span", { title: model.site(r.site).name }, foreign(model.site(r.site).shown), foreign(model.site(r.site).place, "place")) },
    { name: "Pool", text: true, value: (r) => r.pool, show: (r) => foreign(r.pool) },
    { name: "Times", value: (r) => r.count, show: (r) => (r.least < r.count ? `${count(r.least)} to ${count(r.count)}` : count(r.count)) },
    { name: "First", value: (r) => r.time, show: (r) => (r.time < 0 ? "–" : duration(r.time)) },
    { name: "Address", text: true, value: (r) => r.address, show: (r) => `0x${r.address}` },
  ]);
  faults.show(data.faults);
  $("faults-none").textContent = data.faults.length ? (data.faultsLeftOut ? `${count(data.faultsLeftOut)} more kinds of faults are not listed.` : "") : "There are none.";
  $("faults-table").hidden = !data.faults.length;
  $("checks-sum").textContent = checksSum(data.checks);
  $("checks").replaceChildren(...data.checks.map((c) => make("li", {}, `${c.holds ? "passed" : "failed"}: ${c.name}: `, foreign(c.detail), c.remedy ? `; ${c.remedy}` : "")));
  $("bounds").replaceChildren(...bounds(model).map((text) => make("li", { text })));
}

export function showLicences(licences) {
  $("licences").replaceChildren(make("pre", { text: licences.map((l) => `${l.name} ${l.version} (${l.license})\n\n${l.text.trim()}\n`).join("\n\n"), tabindex: "0", "aria-label": "Licences" }));
}

// The budgets and checks of a comparison; returns their sum.
export function showGiven(checks) {
  const failed = checks.filter((c) => !c.holds);
  $("given").replaceChildren(...checks.map((c) => make("li", {}, `${c.holds ? "passed" : "failed"}: `, foreign(`${c.name}: ${c.detail}`))));
  $("given-none").hidden = checks.length > 0;
  return checks.length ? [`${checksSum(checks)}${failed.map((c, i) => `${i ? ";" : ":"} ${c.name}: ${c.detail}`).join("")}`] : [];
}

export function checksSum(checks) {
  const failed = checks.filter((c) => !c.holds).length;
  return `Checks: ${count(checks.length - failed)} passed, ${count(failed)} failed`;
}

function bounds(model) {
  const { data } = model;
  const { other } = data;
  const texts = data.figureStep
    ? ["The trace has figures only, no events (--figures): there is one range of time. Ranges, figures by thread, the memory map, single blocks, and sizes and lifetimes need events."]
    : [
        `The page divides the time into ${count(model.steps)} steps of ${duration(model.stepNs())}. A range begins and ends with a step, and its figures are exact. The plot has ${count(data.time.slots)} points.`,
        `The memory map has squares of ${bytes(2 ** data.pieceShift)}.`,
      ];
  const first = texts.length;
  if (other.stacks) texts.push(`${count(other.stacks)} call stacks with the smallest shares, ${model.foldedShare()} of all bytes allocated, are combined with others of their site that have the outer frames in common. A larger report --page-size keeps more apart.`);
  if (other.sites) texts.push(`${count(other.sites)} sites with the smallest shares count together, as "(other sites)".`);
  if (other.threads) texts.push(`${count(other.threads)} threads with the smallest shares count together, as "(other threads)".`);
  const pools = data.pools.find((p) => p.count > 1);
  if (pools) texts.push(`${count(pools.count)} pools with the lowest peaks count together.`);
  if (other.allocations) texts.push(`${count(other.allocations)} allocations came in pairs of thread and call stack for which there was no room: they count as "(other threads)" and "(other sites)".`);
  if (data.allThreads) texts.push("Sizes and lifetimes of blocks are of all threads together.");
  if (data.textsLeftOut) texts.push(`Source and machine code of ${count(data.textsLeftOut)} sites had no room.`);
  if (texts.length === first) texts.push(`Every pool, ${data.figureStep ? "" : "thread, "}site and call stack of the trace has figures of its own.`);
  return texts;
}
