// What the daemon records and has recorded, as tables and bars. All text of clients goes through textContent.

import { $, foreign, make, Table } from "./dom.js";
import { bytes, count, duration } from "./format.js";

export const api = "/api/v1";
const NEAR = 0.9; // of a limit
const FEW = 3; // alerts that leave the clients on the first screen

export const pathOfTrace = (name) => `${api}/traces/${encodeURIComponent(name)}`;
export const placeOf = (c) => `${c.address.includes(":") ? `[${c.address}]` : c.address}:${c.port}`;
export const nameOf = (c) => c.program || placeOf(c);
const isLive = (c) => c.state === "recording" || c.state === "connecting";
const dash = (show) => (n) => (n === null || n === undefined ? "–" : show(n));

// Seconds since 1970: the time, of another day with its date.
export function moment(seconds) {
  const date = new Date(seconds * 1000);
  const time = date.toLocaleTimeString([], { hour: "2-digit", minute: "2-digit", second: "2-digit" });
  return date.toDateString() === new Date().toDateString() ? time : `${date.toLocaleDateString()} ${time}`;
}

// ---- cells

// Use over the time of the capture, as an area.
function spark(c) {
  const shape = c.counters?.shape ?? [];
  if (!shape.length) return "–";
  const points = shape.flatMap((v, i) => [`${(100 * i) / shape.length}% ${100 - v}%`, `${(100 * (i + 1)) / shape.length}% ${100 - v}%`]);
  const area = make("span", { class: "spark", role: "img", "aria-label": `use over time, at last ${shape.at(-1)} % of the highest` });
  area.style.clipPath = `polygon(0% 100%, ${points.join(", ")}, 100% 100%)`;
  return area;
}

const icon = (href, label, download, sign) => make("a", { class: "icon", href, download, "aria-label": label, title: label, text: sign });
const downloadTrace = (name) => icon(pathOfTrace(name), `Download ${name}`, name, "⤓");

// A report opens in another tab, in an opaque origin.
const reportLink = (name, text) => make("a", { href: `${pathOfTrace(name)}/report`, target: "_blank", rel: "noopener" }, foreign(text));

function nameCell(c) {
  const link = isLive(c) ? make("a", { href: `#client=${c.number}` }, foreign(nameOf(c))) : c.state === "saved" && c.trace ? reportLink(c.trace, nameOf(c)) : foreign(nameOf(c));
  const notes = [c.state === "recording" || c.state === "saved" ? "" : c.state, c.firing.length ? `${count(c.firing.length)} alert${c.firing.length > 1 ? "s" : ""}` : ""].filter(Boolean).join(", ");
  return make("span", {}, link, notes ? make("span", { class: c.firing.length ? "alert" : "note", text: ` ${notes}` }) : "");
}

const ending = (c) => (c.left_alone ? `left alone (${c.left_alone})` : c.limit ? `by a limit (${c.limit})` : c.state === "saved" ? (c.end ?? "") : c.says || c.state);
const column = (name, value, more) => ({ name, value, ...more });
const figure = (key) => (c) => c.counters?.[key] ?? null;
const NUMBER = { text: false };
const POOLS = "of all pools together; the report has that of each pool";
const WHO = [
  column("Program", (c) => nameOf(c).toLowerCase(), { text: true, show: nameCell, mark: (c) => `${nameOf(c)} ${c.state} ${c.trace} ${c.firing.length}` }),
  column("PID", (c) => c.pid, { ...NUMBER, minor: true, show: (c) => c.pid || "–" }),
  column("Host", (c) => c.host || c.address, { text: true, minor: true, show: (c) => foreign(c.host || c.address), title: "the name of the client's host as the client says, else its address" }),
  column("Started", (c) => c.began, { ...NUMBER, minor: true, show: (c) => moment(c.began) }),
];
const USE = column("Use", undefined, { text: true, show: spark, mark: (c) => c.counters?.shape?.join(" "), title: "over the time of the capture" });
const amount = (name, key, more) => column(name, figure(key), { show: (c) => dash(bytes)(figure(key)(c)), ...more });

// The first few alerts in the order of the table, or all.
class Alerts extends Table {
  constructor(...args) {
    super(...args);
    $("alerts-all").addEventListener("click", () => {
      this.limit = this.limit === FEW ? Infinity : FEW;
      this.draw();
    });
  }

  draw() {
    super.draw();
    const { length } = this.rows;
    this.more.parentElement.hidden = true;
    $("alerts-all").hidden = length <= FEW;
    $("alerts-all").textContent = this.limit === FEW ? `Show all ${count(length)}` : `Show ${FEW}`;
    $("alerts-all").setAttribute("aria-expanded", String(this.limit !== FEW));
  }
}

export class Clients {
  // The clients of the status shown last, newest first.
  list = [];
  rates = new Map(); // by number: events and seconds of the counters before, and events per second

  constructor() {
    const rate = (c) => this.rates.get(c.number)?.rate ?? null;
    const options = { sortable: true, key: (c) => c.number };
    this.recording = new Table($("recording"), "Clients that are recorded", [
      ...WHO, USE, amount("Live", "live_bytes"), amount("Peak", "peak_bytes", { title: POOLS }),
      column("Rate", rate, { minor: true, show: (c) => dash((n) => `${count(n)}/s`)(rate(c)), title: "allocations and frees per second" }),
      amount("RSS", "client_resident_bytes", { minor: true, title: "resident memory of the client's process, if it runs on the daemon's host or tidemark run records it" }),
    ], options);
    this.finished = new Table($("finished"), "Clients whose capture has ended", [
      ...WHO, column("Length", figure("client_time_ns"), { minor: true, show: (c) => dash(duration)(figure("client_time_ns")(c)), title: "of the program's time" }), USE, amount("Peak", "peak_bytes", { title: POOLS }), amount("Live at the end", "live_bytes", { minor: true }),
      column("Saved", (c) => c.parts_bytes, { minor: true, show: (c) => (c.parts_saved ? `${bytes(c.parts_bytes)}${c.parts_saved > 1 ? ` in ${count(c.parts_saved)} traces` : ""}` : "–"), mark: (c) => `${c.parts_saved} ${c.parts_bytes}` }),
      column("Ended", ending, { text: true, minor: true, show: (c) => foreign(ending(c)), mark: ending, title: "how the capture ended; why the client is not captured again, or why nothing was saved" }),
      column("Download", undefined, { text: true, show: (c) => (c.state === "saved" && c.trace ? downloadTrace(c.trace) : ""), mark: (c) => `${c.state} ${c.trace}` }),
    ], options);
    this.alerts = new Alerts($("alerts"), "Alerts that are true now", [
      column("Client", (a) => nameOf(a.client), { text: true, show: (a) => make("a", { href: `#client=${a.client.number}` }, foreign(nameOf(a.client))) }),
      column("Alert", (a) => a.alert, { text: true, minor: true, show: (a) => foreign(a.alert) }),
      column("Since", (a) => a.since, { show: (a) => moment(a.since) }),
      column("Now", (a) => a.now, { text: true, show: (a) => foreign(a.now) }),
    ], { sortable: true, key: (a) => `${a.client.number} ${a.alert}`, sort: 2, limit: FEW });
    this.traces = new Table($("traces"), "Traces in the output folder", [
      column("Trace", (t) => t.name, { text: true, show: (t) => make("span", {}, reportLink(t.name, t.name)) }),
      column("Size", (t) => t.bytes, { show: (t) => bytes(t.bytes) }),
      column("Saved", (t) => t.modified, { minor: true, show: (t) => moment(t.modified) }),
      column("Download", undefined, { text: true, mark: (t) => t.name, show: (t) => make("span", {}, downloadTrace(t.name), icon(`${pathOfTrace(t.name)}/report?download`, `Download the report of ${t.name}`, `${t.name}.html`, "⤓ html")) }),
    ], { sortable: true, key: (t) => t.name, limit: 20 });
    $("filter").addEventListener("input", () => this.draw());
  }

  showTraces(traces) {
    this.files = traces.sort((a, b) => b.modified - a.modified);
    this.draw();
  }

  show(status) {
    for (const c of status.clients) if (c.counters) this.takeRate(c);
    this.list = [...status.clients].reverse();
    this.draw();
    showBars(status);
  }

  takeRate({ number, counters: { memory_events: events, seconds } }) {
    const before = this.rates.get(number);
    if (before?.seconds === seconds) return;
    this.rates.set(number, { events, seconds, rate: before && seconds > before.seconds ? Math.max(0, events - before.events) / (seconds - before.seconds) : null });
  }

  draw() {
    const term = $("filter").value.trim().toLowerCase();
    const matches = (texts) => !term || texts.some((text) => String(text ?? "").toLowerCase().includes(term));
    const chosen = this.list.filter((c) => matches([c.program, placeOf(c), c.host, c.pid, c.trace, c.state, c.left_alone, ...c.firing.map((a) => a.alert)]));
    const head = (id, name, part, all) => ($(`${id}-head`).textContent = `${name} (${part === all ? count(all) : `${count(part)} of ${count(all)}`})`);
    for (const [id, name, test] of [["recording", "Recording", isLive], ["finished", "Finished", (c) => !isLive(c)]]) {
      const rows = chosen.filter(test);
      this[id].show(rows);
      head(id, name, rows.length, this.list.filter(test).length);
      $(id).hidden = !rows.length;
    }
    $("no-clients").hidden = this.list.some(isLive);
    const alerts = chosen.flatMap((client) => client.firing.map((a) => ({ ...a, client })));
    this.alerts.show(alerts);
    $("alerts-part").hidden = !alerts.length;
    $("alerts-head").textContent = `Alerts (${count(alerts.length)})`;
    const files = (this.files ?? []).filter((t) => matches([t.name]));
    this.traces.show(files);
    head("traces", "Traces in the folder", files.length, this.files?.length ?? 0);
    $("traces").hidden = !files.length;
  }
}

// ---- bars

// `calm`: being full is nothing to worry about.
function level(name, text, part, { title, calm } = {}) {
  const fill = make("span");
  fill.style.width = `${100 * Math.min(1, part)}%`;
  const bar = make("div", { role: "meter", "aria-label": name, "aria-valuemin": 0, "aria-valuemax": 100, "aria-valuenow": Math.round(100 * Math.min(1, part)), "aria-valuetext": text }, fill);
  return make("div", { class: part >= NEAR && !calm ? "level near" : "level", title }, make("p", {}, make("span", { text: name }), make("span", { text })), bar);
}

// Each limit that there is, with what is taken of it.
function showBars({ running, max_clients, memory_limit, memory_held, disk, reports, clients }) {
  const of = (part, whole) => `${bytes(part)} of ${bytes(whole)}`;
  const ended = clients.filter((c) => c.limit);
  const most = clients.reduce((a, c) => (c.disk_bytes > (a?.disk_bytes ?? 0) ? c : a), null);
  const bars = [level("Clients", `${count(running)} of ${count(max_clients)}`, running / max_clients)];
  if (memory_limit) bars.push(level("Memory of sessions", of(memory_held, memory_limit), memory_held / memory_limit, { title: "--memory-limit" }));
  if (disk.total_quota) bars.push(level("Folder", of(disk.held, disk.total_quota), disk.held / disk.total_quota, { title: "--total-quota" }));
  if (disk.quota) bars.push(level("Largest capture", of(most?.disk_bytes ?? 0, disk.quota), (most?.disk_bytes ?? 0) / disk.quota, { title: `--quota${most ? `: ${nameOf(most)}` : ""}` }));
  if (disk.size) {
    const room = disk.size - (disk.min_free ?? 0);
    bars.push(level("Disk", `${bytes(disk.free)} free of ${bytes(disk.size)}${disk.min_free ? `, ${bytes(disk.min_free)} to be kept` : ""}`, room > 0 ? (disk.size - disk.free) / room : 1, { title: disk.min_free ? "--min-free" : undefined }));
  }
  bars.push(level("Reports kept", `${count(reports.kept)} of ${count(reports.most)}, ${count(reports.evicted)} evicted`, reports.kept / reports.most, { calm: true, title: "the least recently used report is evicted when another one is asked for" }));
  const limits = [...new Set(ended.map((c) => c.limit))].map((limit) => `${limit}: ${count(ended.filter((c) => c.limit === limit).length)}`);
  if (ended.length) bars.push(level("Ended by a limit", `${count(ended.length)} of ${count(clients.length)} clients`, ended.length / clients.length, { title: limits.join(", ") }));
  $("bars").replaceChildren(...bars);
}
