// One client while it is recorded: the report's page in a frame, which gets one snapshot after another. All of
// the page is of one snapshot. It has an opaque origin and asks for nothing.

import { api, moment, nameOf, pathOfTrace } from "./clients.js";
import { $, foreign, make } from "./dom.js";
import { bytes, duration } from "./format.js";

const LEAST_MS = 2000; // from a snapshot to the question for the next one
const PART = 4; // of the time that a snapshot took, if that is longer
const AGAIN_MS = 5000; // after one that could not be had

export class Live {
  client = null; // that is shown
  shown = null; // its newest snapshot that is shown: {at, ns}

  // ask(path, options) gives a response or throws; attempt(work) reports errors.
  constructor(ask, attempt) {
    Object.assign(this, { ask, attempt });
    window.addEventListener("message", ({ source, data }) => this.frame && source === this.frame.contentWindow && this.hear(data));
    for (const what of ["save", "stop"]) $(what).addEventListener("click", () => attempt(() => ask(`${api}/clients/${this.client.number}/${what}`, { method: "POST" })));
    $("pause").addEventListener("click", () => {
      this.paused = !this.paused;
      $("pause").setAttribute("aria-pressed", String(this.paused));
      this.draw();
      if (!this.paused) this.refresh();
    });
    document.addEventListener("visibilitychange", () => document.hidden || this.refresh());
  }

  // Shows a client of the newest status, or none; state: what is shown of it, as its page has it in its address.
  show(client, state = "") {
    const other = client?.number !== this.client?.number;
    this.client = client;
    if (state !== this.state) {
      this.state = state;
      if (!other && this.frame) this.frame.src = this.page;
    }
    $("detail").hidden = !client;
    $("lists").hidden = Boolean(client);
    if (other) this.begin();
    if (client) this.draw();
  }

  get page() {
    return `/report#${this.state}`;
  }

  begin() {
    clearTimeout(this.timer);
    Object.assign(this, { shown: null, sent: null, asking: false, ready: false, paused: false, why: "", frame: null });
    $("pause").setAttribute("aria-pressed", "false");
    $("frame").replaceChildren();
    if (this.client?.state !== "recording" && this.client?.state !== "connecting") return;
    this.frame = make("iframe", { src: this.page, title: "Report" });
    $("frame").append(this.frame);
    $("detail-head").focus();
  }

  draw() {
    const { client, shown } = this;
    const records = client.state === "recording";
    const report = client.state === "saved" && client.trace;
    $("detail-head").replaceChildren(foreign(nameOf(client)), `, ${client.state}`);
    $("save").disabled = $("pause").disabled = !records;
    $("stop").disabled = !records && client.state !== "connecting";
    const told = shown ? `Snapshot at ${duration(shown.ns)} of the program's time, taken at ${moment(shown.at)}${client.parts_saved ? ", of the current part" : ""}` : records ? `Waiting for the first ${client.counters?.memory_events ? "snapshot" : "memory event"}` : "";
    const live = records && client.counters ? `now ${bytes(client.counters.live_bytes)} live` : "";
    const text = [told, live, this.paused ? "paused" : "", this.why].filter(Boolean).join(" · ");
    if (report) $("moment").replaceChildren(text ? `${text} · ` : "", make("a", { href: `${pathOfTrace(client.trace)}/report#${this.state}`, target: "_blank", rel: "noopener", text: "the report of the saved trace" }));
    else if ($("moment").textContent !== text) $("moment").textContent = text;
    if (records && this.ready && !shown && !this.asking && !this.timer) this.refresh();
  }

  // ---- the frame

  hear(said) {
    if (said.state !== undefined) {
      this.state = said.state;
      history.replaceState(null, "", `#client=${this.client.number}${said.state && `&${said.state}`}`);
      return;
    }
    if (said.ready) {
      this.ready = true;
      this.colour(this.dark);
    } else this.asking = false;
    if (said.shown) this.shown = this.sent;
    this.why = said.error ?? "";
    if (said.ready) this.refresh();
    else this.later(Math.max(LEAST_MS, PART * this.sent.took));
    if (this.client) this.draw();
  }

  // The page in the frame has the colours of what is around it.
  colour(dark) {
    this.dark = dark;
    this.frame?.contentWindow.postMessage({ dark }, "*");
  }

  later(ms) {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.refresh(), ms);
  }

  async refresh() {
    clearTimeout(this.timer);
    this.timer = null;
    const { client, frame } = this;
    if (!this.ready || this.asking || this.paused || document.hidden || client?.state !== "recording" || !client.counters?.memory_events) return;
    this.asking = true;
    const begin = performance.now();
    try {
      const snapshot = await (await this.ask(`${api}/clients/${client.number}/report`)).json();
      if (this.frame !== frame) return;
      this.sent = { at: Date.now() / 1000, ns: snapshot.trace.duration, took: performance.now() - begin };
      frame.contentWindow.postMessage({ snapshot }, "*"); // its origin is opaque
    } catch (error) {
      if (this.frame !== frame) return;
      this.asking = false;
      if (error.status === 401) this.attempt(() => Promise.reject(error));
      this.why = `no newer snapshot: ${error.message}`;
      if (this.client) this.draw();
      this.later(AGAIN_MS);
    }
  }
}
