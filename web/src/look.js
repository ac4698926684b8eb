// What sites had resident: the rows and findings of `report --resident` for all that the page shows.

import { bytes, count, duration, sentence } from "./format.js";
import { $, foreign, make, Table } from "./dom.js";
import { placeColumns, placed } from "./leaks.js";

export function showLook(model, openSite) {
  const { look } = model.data;
  const rows = placed(model, look.rows);
  const text = sentence(look.words || `what is shown, at ${duration(look.time)}`);
  $("look-text").textContent = `${text}. The pages were read ${look.reason}, at one time: a chosen range changes nothing here.${look.more ? ` ${count(look.more)} smaller sites are left out.` : ""}`;
  $("look-findings").append(...look.findings.map((f) => make("li", {}, ...(f.site ? [foreign(model.site(f.site).shown), `: ${f.words}`] : [sentence(f.words)]), `. ${sentence(f.remedy)}`)));
  new Table(
    $("look-table"),
    "Resident bytes by site",
    [
      ...placeColumns(openSite),
      { name: "Resident", value: (r) => r.resident, show: (r) => bytes(r.resident), title: "bytes of its blocks that are in memory" },
      { name: "Pins", value: (r) => r.pins, show: (r) => bytes(r.pins), title: "free bytes of pages that its blocks keep in memory" },
      { name: "Swapped", value: (r) => r.swapped, show: (r) => bytes(r.swapped) },
      { name: "Not resident", value: (r) => r.absent, show: (r) => bytes(r.absent), title: "never touched, or given back" },
      { name: "Live", value: (r) => r.bytes, show: (r) => bytes(r.bytes) },
      { name: "Blocks", value: (r) => r.count, show: (r) => count(r.count) },
    ],
    { sortable: true, limit: 50 },
  ).show(rows);
}
