// The daemon's dashboard: asks, listens to events, and shows all clients or one of them.

import { api, Clients, nameOf } from "./clients.js";
import { $ } from "./dom.js";
import { bytes, count, duration as nanoseconds } from "./format.js";
import { addTheme } from "./theme.js";

const state = { status: null, chosen: null, detail: null }; // detail: the client that it was drawn of
const duration = (seconds) => nanoseconds(seconds * 1e9);
const clients = new Clients();
const SLOW_MS = 5000; // between questions for sites and tree

// ---- asking

class Refused extends Error {
  constructor(status, text) {
    super(text);
    this.status = status;
  }
}

async function ask(path, options = {}) {
  const answer = await fetch(path, { credentials: "same-origin", ...options });
  if (!answer.ok) {
    const said = await answer.json().catch(() => ({}));
    throw new Refused(answer.status, said.error || answer.statusText);
  }
  return answer.status === 204 ? null : answer.json();
}

function tell(error) {
  $("error").textContent = error ? error.message : "";
  $("error").hidden = !error;
  if (error instanceof Refused && error.status === 401) showLogin();
}

function attempt(work) {
  return work().then(() => tell(null), tell);
}

// ---- elements

function element(name, text, className) {
  const e = document.createElement(name);
  if (text !== undefined) e.textContent = text;
  if (className) e.className = className;
  return e;
}

function row(cells, kind = "td") {
  const r = element("tr");
  for (const cell of cells) {
    const number = cell instanceof Object && "number" in cell;
    const c = element(kind, number ? cell.number : undefined, number ? "number" : "name");
    if (cell instanceof Node) c.append(cell);
    else if (!number) c.textContent = cell;
    r.append(c);
  }
  return r;
}

function table(id, head, rows) {
  $(id).replaceChildren(row(head, "th"), ...rows.map((r) => row(r)));
}

// ---- one client

const chosenClient = () => state.status?.clients.find((c) => c.number === state.chosen);

// The address has the client that is shown.
function choose(number) {
  state.chosen = number;
  $("memory").hidden = true;
  $("tree").replaceChildren();
  drawDetail();
  attempt(refreshUsage);
  attempt(refreshSlow);
}

const chooseByAddress = () => choose(Number(/^#client=(\d+)$/.exec(location.hash)?.[1]) || null);

function drawDetail() {
  const c = chosenClient();
  const fresh = c?.number !== state.detail?.number;
  state.detail = c;
  $("detail").hidden = !c;
  $("lists").hidden = Boolean(c);
  if (!c) return;
  const f = c.counters;
  $("detail-head").textContent = `${nameOf(c)}, ${c.state}`;
  if (fresh) $("detail-head").focus();
  $("save").disabled = c.state !== "recording";
  $("stop").disabled = c.state !== "recording" && c.state !== "connecting";
  $("figures").textContent = f
    ? `${duration(f.seconds)}, ${bytes(f.received_bytes)} received, ${count(f.memory_events)} events, `
      + `peak ${bytes(f.peak_bytes_sampled)}`
    : c.says || "";
  if (c.state !== "recording") $("memory").hidden = true;
}

// ---- what is asked of a session

function drawUsage(history) {
  const canvas = $("usage");
  const scale = window.devicePixelRatio || 1;
  const width = canvas.clientWidth, height = canvas.clientHeight;
  canvas.width = width * scale;
  canvas.height = height * scale;
  const g = canvas.getContext("2d");
  const points = history.points;
  if (!points.length) return;
  g.scale(scale, scale);
  const end = Math.max(points.at(-1)[0], 0.001);
  const top = Math.max(1, ...points.map((p) => p[1]));
  const x = (p) => (p[0] / end) * width;
  const y = (p) => height - 2 - (p[1] / top) * (height - 20);
  g.beginPath();
  g.moveTo(x(points[0]), height);
  for (const [i, p] of points.entries()) {
    if (i) g.lineTo(x(p), y(points[i - 1]));
    g.lineTo(x(p), y(p));
  }
  g.lineTo(width, y(points.at(-1)));
  g.lineTo(width, height);
  g.fillStyle = "#2a78b8";
  g.fill();
  g.fillStyle = getComputedStyle(document.body).color;
  g.font = "12px system-ui, sans-serif";
  g.fillText(`${bytes(top)} · ${duration(end)}`, 6, 14);
}

async function refreshUsage() {
  const c = chosenClient();
  if (c?.state !== "recording") return;
  const history = await ask(`${api}/clients/${c.number}/history`);
  if (c.number === state.chosen) drawUsage(history);
}

/** `opened`: the paths of the nodes that are open; it is kept true as the reader opens and closes them. */
function treeNode(node, children, whole, opened, path) {
  const d = element("details");
  const f = node.inclusive;
  const share = whole ? ` (${((100 * f.live_bytes) / whole).toFixed(1)} %)` : "";
  const grow = () => {
    if (d.childElementCount === 1) d.append(...treeNodes(node.id, children, whole, opened, path));
  };
  d.dataset.path = path;
  d.append(element("summary", `${node.name}: ${bytes(f.live_bytes)}${share} in ${count(f.live_count)} blocks`));
  if (opened.has(path)) {
    d.open = true;
    grow();
  }
  d.addEventListener("toggle", () => {
    if (d.open) opened.add(path);
    else opened.delete(path);
    if (d.open) grow();
  });
  return d;
}

function treeNodes(parent, children, whole, opened, path) {
  return (children.get(parent) || []).map((n) => treeNode(n, children, whole, opened, `${path}\n${n.name}`));
}

function drawTree(tree) {
  const all = () => [...$("tree").querySelectorAll("details")];
  const opened = new Set(all().filter((d) => d.open).map((d) => d.dataset.path));
  const focused = document.activeElement?.closest("#tree details")?.dataset.path;
  const children = new Map();
  for (const n of tree.nodes) {
    if (!children.has(n.parent)) children.set(n.parent, []);
    children.get(n.parent).push(n);
  }
  $("tree").replaceChildren(...treeNodes(null, children, tree.total.live_bytes, opened, ""));
  if (focused !== undefined) all().find((d) => d.dataset.path === focused)?.firstElementChild.focus();
}

const placeOfSite = (s) => `${s.function || "?"}${s.file ? ` ${s.file}:${s.line}` : ""}`;

/** Pools, sites and call stacks come from one look at the store, so they agree with each other. */
function drawMemory({ client_time_ns, sites, tree }, parts) {
  $("memory").hidden = false;
  $("moment").textContent = `As of ${duration(client_time_ns / 1e9)} of the client's time`
    + `${parts ? "; allocated and frees are of the part at hand" : ""}.`;
  table("pools", ["pool", { number: "live" }, { number: "blocks" }, { number: "allocated" }, { number: "frees" }],
    sites.pools.map((p) => [p.name, { number: bytes(p.live_bytes) },
      { number: count(p.live_allocations) }, { number: count(p.allocations) }, { number: count(p.frees) }]));
  table("sites", ["site", "pool", { number: "live" }, { number: "blocks" }, { number: "peak" }],
    sites.sites.slice(0, 50).map((s) => [placeOfSite(s), s.pool, { number: bytes(s.live_bytes) },
      { number: count(s.live_count) }, { number: bytes(s.peak_bytes) }]));
  drawTree(tree);
}

async function refreshSlow() {
  const c = chosenClient();
  if (c?.state !== "recording") return;
  const memory = await ask(`${api}/clients/${c.number}/memory`);
  if (c.number === state.chosen && chosenClient()?.state === "recording") drawMemory(memory, c.parts_saved);
}

async function refreshTraces() {
  clients.showTraces((await ask(`${api}/traces`)).traces);
}

// ---- what happens

function act(what) {
  const c = chosenClient();
  if (c) attempt(() => ask(`${api}/clients/${c.number}/${what}`, { method: "POST" }));
}

$("save").addEventListener("click", () => act("save"));
$("stop").addEventListener("click", () => act("stop"));

$("start").addEventListener("submit", (event) => {
  event.preventDefault();
  const body = JSON.stringify({ address: $("address").value.trim(), port: Number($("port").value) });
  attempt(() => ask(`${api}/clients`, { method: "POST", body }));
});

$("login").addEventListener("submit", (event) => {
  event.preventDefault();
  ask(`${api}/login`, { method: "POST", body: $("token").value }).then(() => {
    $("token").value = "";
    $("login-error").textContent = "";
    $("login").hidden = true;
    tell(null);
    begin();
  }, (error) => { $("login-error").textContent = error.message; });
});

let events = null;

function showLogin() {
  events?.close();
  events = null;
  $("main").hidden = true;
  $("login").hidden = false;
  $("error").textContent = "";
  $("token").focus();
}

function take(status) {
  const saved = state.status?.traces_saved;
  state.status = status;
  $("main").hidden = false;
  const { running, traces_saved, trace_bytes_saved, version } = status;
  $("summary").textContent = `${count(running)} recorded now, ${count(traces_saved)} trace${traces_saved === 1 ? "" : "s"} saved (${bytes(trace_bytes_saved)}), version ${version}`;
  clients.show(status);
  if (chosenClient() !== state.detail) drawDetail();
  if (saved !== status.traces_saved) attempt(refreshTraces);
  attempt(refreshUsage);
}

async function begin() {
  try {
    take(await ask(`${api}/status`));
  } catch (error) {
    tell(error);
    if (!(error instanceof Refused)) setTimeout(begin, 2000);
    return;
  }
  listen();
}

/** Clients that are as they were come as their numbers. Null: one is not known here. */
function merged(changes) {
  const known = new Map(state.status.clients.map((c) => [c.number, c]));
  const list = changes.clients.map((c) => (typeof c === "number" ? known.get(c) : c));
  return list.includes(undefined) ? null : { ...changes, clients: list };
}

function listen() {
  events?.close();
  events = new EventSource(`${api}/events?changes`);
  events.addEventListener("status", (event) => {
    tell(null);
    take(JSON.parse(event.data));
  });
  events.addEventListener("changes", (event) => {
    const status = merged(JSON.parse(event.data));
    tell(null);
    if (status) take(status);
    else listen(); // a new stream begins with all of it
  });
  events.addEventListener("error", () => { $("summary").textContent = "the daemon does not answer; trying again"; });
}

setInterval(() => {
  if (document.hidden || $("main").hidden) return;
  attempt(refreshTraces); // parts of captures that go on are saved, too
  if (!$("detail").hidden) attempt(refreshSlow);
}, SLOW_MS);
window.addEventListener("hashchange", chooseByAddress);
addTheme(() => attempt(refreshUsage));
chooseByAddress();
begin();
