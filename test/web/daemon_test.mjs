// Uses the daemon's page in a headless browser, on a telephone's screen, while a client is recorded.
// Prints a line {"name", "error"} for each check.
//     node daemon_test.mjs CHROMIUM FOLDER URL TOKEN PORT
// FOLDER has the packages, and takes the pictures; at PORT is a second client.

import assert from "node:assert/strict";
import { createRequire } from "node:module";
import { join, resolve } from "node:path";

const [, , chromium, folder, url, token, port] = process.argv;
const { chromium: driver } = createRequire(join(resolve(folder), "x.js"))("playwright-core");
const LIMIT = 120000;
const browser = await driver.launch({ executablePath: chromium, args: ["--no-sandbox"] });
const context = await browser.newContext({ viewport: { width: 390, height: 844 }, hasTouch: true, isMobile: true });
context.setDefaultTimeout(LIMIT);
const page = await context.newPage();
await page.addInitScript(() => {
  window.sources = [];
  window.EventSource = class extends EventSource {
    constructor(...args) {
      super(...args);
      window.sources.push(this);
    }
  };
});
const errors = [];
page.on("pageerror", (e) => errors.push(e.message));
page.on("dialog", (d) => (errors.push(`dialog: ${d.message()}`), d.dismiss()));
page.on("request", (r) => r.url().startsWith(url) || r.url().startsWith("data:") || errors.push(`request: ${r.url()}`));

const shot = (name) => page.screenshot({ path: join(folder, `${name}.png`), fullPage: true });
const says = (selector, text) => page.locator(selector).filter({ hasText: text }).first().waitFor({ timeout: LIMIT });

const checks = {
  "asks for the token": async () => {
    await page.goto(url);
    await page.locator("#token").fill("not-the-token-at-all");
    await page.locator("#login button").tap();
    await says("#login-error", "not the token");
    await page.locator("#token").fill(token);
    await page.locator("#login button").tap();
    await page.locator("#main").waitFor({ timeout: LIMIT });
  },
  "shows the client that is recorded": async () => {
    await says("#clients", "recording");
    await says("#clients", "320 B in 2 blocks");
    await page.locator("#clients button").first().tap();
    await says("#pools", "320 B");
    await says("#sites", "320 B");
    await says("#tree summary", "320 B");
    await shot("daemon-phone");
  },
  "shows pools, sites and call stacks of one moment": async () => {
    // Answers of a program that grows between any two questions.
    let live = 1000;
    const figures = () => ({ live_bytes: (live += 1000), live_allocations: live, live_count: live, allocations: live, frees: 0, peak_bytes: live });
    const pool = () => ({ name: "default", ...figures() });
    const node = (id, parent, f) => ({ id, parent, name: `f${id}`, inclusive: f });
    const document = () => {
      const f = figures();
      return {
        client_time_ns: live * 1e9,
        sites: { pools: [{ name: "default", ...f }], sites: [{ function: "f", file: "", pool: "default", ...f }] },
        tree: { total: f, nodes: [node(0, null, f), node(1, 0, f)] },
      };
    };
    const asked = /\/api\/v1\/clients\/1\/(memory|sites|tree)$/;
    await page.route(asked, (route) => {
      const { sites, tree } = document();
      const json = { memory: document(), sites, tree }[asked.exec(route.request().url())[1]];
      return route.fulfill({ json });
    });
    const shown = async () => {
      const all = await Promise.all(["#pools tr:nth-child(2) td:nth-child(2)", "#sites tr:nth-child(2) td:nth-child(3)", "#tree > details > summary"].map((s) => page.locator(s).innerText()));
      return all.map((text) => /[\d.]+ \w+/.exec(text.replace(/^f0: /, ""))[0]);
    };
    await page.locator("#tree summary", { hasText: "f0" }).waitFor({ timeout: LIMIT });
    const before = await shown();
    assert.equal(new Set(before).size, 1, before.join());
    await page.locator("#tree > details > summary").tap();
    await page.locator("#tree details details").waitFor({ timeout: LIMIT });
    await page.waitForFunction((text) => !document.querySelector("#tree summary").textContent.includes(text), before[0]);
    const after = await shown();
    assert.equal(new Set(after).size, 1, after.join());
    assert.ok(await page.locator("#tree details details").isVisible(), "the open branch was closed");
    await page.unroute(asked);
  },
  "fits a telephone": async () => {
    const wide = await page.evaluate(() => document.documentElement.scrollWidth - window.innerWidth);
    assert.ok(wide <= 0, `${wide} pixels too wide`);
    const small = await page.locator("button:visible").evaluateAll((all) => all.filter((b) => b.getBoundingClientRect().height < 40).length);
    assert.equal(small, 0);
  },
  "shows names as text": async () => {
    assert.equal(await page.locator("#clients b, #clients img, #clients script").count(), 0);
  },
  "saves now": async () => {
    await page.locator("#save").tap();
    await says("#clients", "recording");
    await page.locator("#traces a").first().waitFor({ timeout: LIMIT });
    await says("#summary", "1 trace saved");
  },
  "stops and saves": async () => {
    await page.locator("#stop").tap();
    await says("#clients", "saved");
    await says("#summary", "2 traces saved");
    await says("#clients", "saved in 2 traces");
    await says("#traces", ".2.tracy");
  },
  "draws only what changed": async () => {
    const card = (number) => page.locator(`#clients button[data-client="${number}"]`);
    const mark = (e) => { e.marked = true; };
    const unmarked = (selector) => page.waitForFunction((s) => document.querySelector(s)?.marked === undefined, selector);
    await card(1).evaluate(mark);
    await page.locator("#traces td a").first().evaluate(mark);
    await page.locator("#address").fill("127.0.0.1");
    await page.locator("#port").fill(port);
    await page.locator("#start button").tap();
    await card(2).filter({ hasText: "recording" }).waitFor({ timeout: LIMIT });
    assert.deepEqual(await page.locator("#clients button").evaluateAll((all) => all.map((b) => b.dataset.client)), ["2", "1"]);
    for (let i = 0; i < 2; i++) {
      await card(2).evaluate(mark);
      await card(2).focus();
      await unmarked('[data-client="2"]');
      assert.equal(await card(2).evaluate((e) => e === document.activeElement), true);
      await page.waitForResponse((r) => r.url().endsWith("/api/v1/traces"));
    }
    assert.equal(await card(1).evaluate((e) => e.marked), true);
    assert.equal(await page.locator("#traces td a").first().evaluate((e) => e.marked), true);
    await card(1).tap();
    assert.deepEqual(await page.locator("#clients button").evaluateAll((all) => all.map((b) => b.getAttribute("aria-pressed"))), ["false", "true"]);
  },
  "forgets who is gone, and asks again for who it does not know": async () => {
    const [left, streams] = await page.evaluate(async () => {
      const status = await (await fetch("/api/v1/status")).json();
      const data = JSON.stringify({ ...status, clients: [2] });
      window.sources.at(-1).dispatchEvent(new MessageEvent("changes", { data }));
      return [[...document.querySelectorAll("#clients button")].map((b) => b.dataset.client), window.sources.length];
    });
    assert.deepEqual(left, ["2"]);
    await page.waitForFunction((n) => window.sources.length > n && document.querySelectorAll("#clients button").length === 2, streams);
    assert.equal(await page.evaluate(() => window.sources.filter((s) => s.readyState !== EventSource.CLOSED).length), 1);
    await says("#clients", "saved");
  },
  "gives a trace": async () => {
    const [download] = await Promise.all([page.waitForEvent("download"), page.locator("#traces a").first().tap()]);
    assert.match(download.suggestedFilename(), /\.tracy$/);
    await download.saveAs(join(folder, "downloaded.tracy"));
  },
  "shows a finished trace's page, in an origin of its own": async () => {
    await page.locator("#report").waitFor({ timeout: LIMIT });
    const [opened] = await Promise.all([context.waitForEvent("page"), page.locator("#report").tap()]);
    opened.on("pageerror", (e) => errors.push(`report: ${e.message}`));
    await opened.waitForLoadState();
    await opened.getByText("memory report").first().waitFor({ timeout: LIMIT });
    assert.equal(await opened.evaluate(() => self.origin), "null");
    const stolen = await opened.evaluate(() => fetch("/api/v1/status").then((a) => a.status, () => "refused"));
    assert.equal(stolen, "refused");
    await opened.screenshot({ path: join(folder, "report-phone.png"), fullPage: true });
    await opened.close();
  },
  "gives a report": async () => {
    const [download] = await Promise.all([page.waitForEvent("download"), page.locator("#traces a", { hasText: "download" }).first().tap()]);
    assert.match(download.suggestedFilename(), /\.tracy\.html$/);
    await download.saveAs(join(folder, "downloaded.html"));
  },
  "had no errors": async () => {
    assert.deepEqual(errors, []);
    await shot("daemon-end");
  },
};

for (const [name, check] of Object.entries(checks)) {
  const error = await check().then(() => null, (e) => String(e.stack || e));
  console.log(JSON.stringify({ name, error }));
  if (error) break;
}
await browser.close();
