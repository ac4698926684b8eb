// The daemon's dashboard: asks, listens to events, and shows all clients or one of them.

import { api, Clients } from "./clients.js";
import { $ } from "./dom.js";
import { bytes, count } from "./format.js";
import { Live } from "./live.js";
import { addTheme } from "./theme.js";

const state = { status: null };
const clients = new Clients();
const SLOW_MS = 5000; // between questions for the traces

// ---- asking

class Refused extends Error {
  constructor(status, text) {
    super(text);
    this.status = status;
  }
}

async function respond(path, options = {}) {
  const answer = await fetch(path, { credentials: "same-origin", ...options });
  if (!answer.ok) {
    const said = await answer.json().catch(() => ({}));
    throw new Refused(answer.status, said.error || answer.statusText);
  }
  return answer;
}

async function ask(path, options) {
  const answer = await respond(path, options);
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

// ---- one client

const live = new Live(respond, attempt);

// The address has its number, and what is shown of it.
function showChosen() {
  const [, number, shown] = /^#client=(\d+)(?:&(.*))?$/.exec(location.hash) ?? [];
  live.show(state.status.clients.find((c) => c.number === Number(number)) ?? null, shown);
}

async function refreshTraces() {
  clients.showTraces((await ask(`${api}/traces`)).traces);
}

// ---- what happens

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
  showChosen();
  if (saved !== status.traces_saved) attempt(refreshTraces);
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
  if (document.hidden) return;
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
}, SLOW_MS);
document.addEventListener("visibilitychange", () => $("main").hidden || listen());
window.addEventListener("hashchange", () => state.status && showChosen());
addTheme((dark) => live.colour(dark));
begin();
