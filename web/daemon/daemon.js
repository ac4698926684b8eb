// The daemon's page: the recorded clients, live. All text of clients goes through textContent.

const $ = (id) => document.getElementById(id);
const api = "/api/v1";
const state = { status: null, chosen: null, detail: null }; // detail: the client that it was drawn of
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
  if (error instanceof Refused && error.status === 401) showLogin();
}

function attempt(work) {
  return work().then(() => tell(null), tell);
}

// ---- figures

function bytes(n) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
  let i = 0;
  while (n >= 1024 && i + 1 < units.length) {
    n /= 1024;
    i++;
  }
  return `${i ? n.toPrecision(n < 1000 ? 3 : 4) : n} ${units[i]}`;
}

const count = (n) => n.toLocaleString("en");

function duration(seconds) {
  const s = Math.floor(seconds);
  const two = (n) => String(n).padStart(2, "0");
  return s < 60 ? `${s} s` : s < 3600 ? `${Math.floor(s / 60)} min ${two(s % 60)} s`
    : `${Math.floor(s / 3600)} h ${two(Math.floor(s / 60) % 60)} min`;
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

const same = (a, b) => a === b || JSON.stringify(a) === JSON.stringify(b);

function replaceWith(old, element) {
  const controls = (e) => [...e.querySelectorAll("a, button")];
  const focused = controls(old).indexOf(document.activeElement);
  old.replaceWith(element);
  if (focused >= 0) controls(element)[focused]?.focus();
}

/**
 * Gives a function that shows items as the children of `parent`, in their order: what is as it was,
 * by its key, keeps its element.
 */
function list(parent, keyOf, draw) {
  const shown = new Map(); // key: the item and its element
  const show = (item) => {
    const before = shown.get(keyOf(item));
    if (before && same(before.item, item)) return before.element;
    const element = draw(item);
    if (before) replaceWith(before.element, element);
    shown.set(keyOf(item), { item, element });
    return element;
  };
  return (items) => {
    const keys = new Set(items.map(keyOf));
    for (const [key, { element }] of shown) {
      if (keys.has(key)) continue;
      element.remove();
      shown.delete(key);
    }
    let last = null;
    for (const element of items.map(show)) {
      const next = last ? last.nextElementSibling : parent.firstElementChild;
      if (element !== next) parent.insertBefore(element, next);
      last = element;
    }
  };
}

// ---- clients

const placeOf = (c) => `${c.address.includes(":") ? `[${c.address}]` : c.address}:${c.port}`;

function clientButton(c) {
  const b = element("button", c.program || placeOf(c));
  b.setAttribute("aria-pressed", String(c.number === state.chosen));
  b.dataset.client = c.number;
  b.append(element("span", c.left_alone ? `${c.state}, left alone (${c.left_alone})` : c.state, "state"));
  const f = c.counters;
  const figures = c.state === "recording" && f
    ? `${bytes(f.live_bytes)} in ${count(f.live_allocations)} blocks, ${bytes(f.bytes_per_second)}/s`
    : c.parts_saved ? `${bytes(c.parts_bytes)} saved${c.parts_saved > 1 ? ` in ${c.parts_saved} traces` : ""}`
    : c.says || "";
  b.append(element("span", `${placeOf(c)} · ${figures}`, "small"));
  for (const alert of c.alerts) b.append(element("span", alert, "alert"));
  b.addEventListener("click", () => choose(c.number));
  return b;
}

const showClients = list($("clients"), (c) => c.number, (c) => {
  const item = element("li");
  item.append(clientButton(c));
  return item;
});

function drawClients() {
  const { clients, running, traces_saved, trace_bytes_saved } = state.status;
  showClients([...clients].reverse());
  $("no-clients").hidden = clients.length > 0;
  const traces = traces_saved === 1 ? "trace" : "traces";
  $("summary").textContent = `${running} recorded now, ${traces_saved} ${traces} saved (${bytes(trace_bytes_saved)})`;
}

const chosenClient = () => state.status?.clients.find((c) => c.number === state.chosen);

function choose(number) {
  state.chosen = number;
  $("memory").hidden = true;
  $("tree").replaceChildren();
  for (const b of $("clients").querySelectorAll("button"))
    b.setAttribute("aria-pressed", String(b.dataset.client === String(number)));
  drawDetail();
  attempt(refreshUsage);
  attempt(refreshSlow);
}

function drawDetail() {
  const c = chosenClient();
  state.detail = c;
  $("detail").hidden = !c;
  if (!c) return;
  const f = c.counters;
  const live = c.state === "recording" || c.state === "connecting";
  $("detail-head").textContent = c.program || placeOf(c);
  $("save").disabled = c.state !== "recording";
  $("stop").disabled = !live;
  const saved = c.state === "saved" && c.trace;
  $("report").hidden = !saved;
  if (saved) $("report").href = `${pathOfTrace(c.trace)}/report`;
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

// ---- traces

const pathOfTrace = (name) => `${api}/traces/${encodeURIComponent(name)}`;

/** With `download` what it leads to is kept under that name, else it opens beside this page. */
function link(text, href, download) {
  const a = element("a", text);
  a.href = href;
  if (download) {
    a.download = download;
  } else {
    a.target = "_blank";
    a.rel = "noopener";
  }
  return a;
}

function reportLinks(name) {
  const both = element("span", undefined, "links");
  both.append(link("open", `${pathOfTrace(name)}/report`),
    link("download", `${pathOfTrace(name)}/report?download`, `${name}.html`));
  return both;
}

const traceRows = element("tbody");
$("traces").append(element("thead"), traceRows);
$("traces").firstElementChild.append(row(["trace", { number: "size" }, "saved", "report"], "th"));

const showTraces = list(traceRows, (t) => t.name, (t) =>
  row([link(t.name, pathOfTrace(t.name), t.name), { number: bytes(t.bytes) },
    new Date(t.modified * 1000).toLocaleString(), reportLinks(t.name)]));

async function refreshTraces() {
  const { traces } = await ask(`${api}/traces`);
  showTraces(traces.sort((a, b) => b.modified - a.modified));
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
  attempt(async () => choose((await ask(`${api}/clients`, { method: "POST", body })).number));
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
  drawClients();
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
  const clients = changes.clients.map((c) => (typeof c === "number" ? known.get(c) : c));
  return clients.includes(undefined) ? null : { ...changes, clients };
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
begin();
