// Uses the daemon's page in a headless browser, on a telephone's screen, while a client is recorded.
// Prints a line {"name", "error"} for each check.
//     node daemon_test.mjs CHROMIUM FOLDER URL TOKEN PORT
// FOLDER has the packages, and takes the pictures; at PORT is a second client.

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join, resolve } from "node:path";

const [, , chromium, folder, url, token, port] = process.argv;
const { chromium: driver } = createRequire(join(resolve(folder), "x.js"))("playwright-core");
const LIMIT = 300000;
const browser = await driver.launch({ executablePath: chromium, args: ["--no-sandbox"], timeout: LIMIT });
const context = await browser.newContext({ viewport: { width: 390, height: 844 }, hasTouch: true, isMobile: true });
context.setDefaultTimeout(LIMIT);
const page = await context.newPage();
await page.addInitScript(() => {
  window.sources = [];
  window.EventSource = class extends EventSource {
    constructor(...args) {
      super(...args);
      window.sources.push(this);
      for (const type of ["status", "changes"]) this.addEventListener(type, () => (window.told = (window.told ?? 0) + 1));
    }
  };
});
const errors = [];
page.on("pageerror", (e) => errors.push(e.message));
page.on("dialog", (d) => (errors.push(`dialog: ${d.message()}`), d.dismiss()));
const codings = new Set();
page.on("response", (r) => r.url().endsWith("/events?changes") && codings.add(r.headers()["content-encoding"]));
page.on("request", (r) => r.url().startsWith(url) || r.url().startsWith("data:") || errors.push(`request: ${r.url()}`));

const shot = (name) => page.screenshot({ path: join(folder, `${name}.png`), fullPage: true });
const says = (selector, text) => page.locator(selector).filter({ hasText: text }).first().waitFor({ timeout: LIMIT });

const inside = () => ({ frame: page.frameLocator("#frame iframe") });
const row = (table, n) => page.locator(`#${table} tbody tr:nth-child(${n})`);

async function axe() {
  await page.evaluate(`${readFileSync(join(folder, "node_modules", "axe-core", "axe.min.js"), "utf8")}; 0`);
  const found = await page.evaluate(() => window.axe.run(document, { iframes: false }));
  return found.violations.flatMap((v) => v.nodes.map((n) => `${v.id}: ${n.html.slice(0, 120)}`));
}

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
    await says("#recording-head", "Recording (1)");
    await says('#recording tr:has(.spark)', "320 B");
    assert.deepEqual(await row("recording", 1).locator("th, td").evaluateAll((all) => all.map((e) => e.textContent).filter((_, i) => [0, 1, 2, 5, 6].includes(i))), ['my "prog" 1 alert', "4242", "127.0.0.1", "320 B", "448 B"]);
    assert.equal(await page.locator("#alerts tbody th").innerText(), 'my "prog"');
    assert.equal(await page.locator("#alerts td").first().textContent(), "live_count>1");
    assert.equal(await page.locator("#alerts td").nth(2).innerText(), "live_count is 2");
    assert.ok(await page.locator("#alerts-all").isHidden());
    for (const name of ["Clients", "Largest capture", "Disk", "Reports kept"]) assert.equal(await page.getByRole("meter", { name }).count(), 1, name);
    await page.locator("#recording a").first().tap();
    await says("#moment", "Snapshot at");
    const { frame } = inside();
    await frame.locator("#answer").filter({ hasText: "448 B" }).waitFor({ timeout: LIMIT });
    for (const part of ["#timeline canvas", "#flame .frame", "#pools"]) assert.ok(await frame.locator(part).count(), part);
    await frame.locator("#flame").hover({ position: { x: 20, y: 10 } });
    await frame.locator("#flame-tip").filter({ hasText: "448 B" }).waitFor({ timeout: LIMIT });
    await shot("daemon-phone");
  },
  "all views go over to the next snapshot together, and what is chosen stays": async () => {
    const { frame } = inside();
    assert.equal(await frame.locator("html").evaluate(() => self.origin), "null");
    assert.equal(await frame.locator("html").evaluate(() => fetch("/api/v1/status").then((a) => a.status, () => "refused")), "refused");
    await frame.locator("#tab-tree").tap();
    await frame.locator("#tree .tree-body .tree-row").first().waitFor({ timeout: LIMIT });
    await frame.locator("#tab-sites").tap();
    await frame.locator("#sites-search").fill("call stack");
    await frame.locator("#sites-search").evaluate((e) => e.setSelectionRange(4, 4));
    const said = await page.locator("#moment").innerText();
    let number = 0;
    await page.route("**/api/v1/clients/1/report", async (route) => {
      const answer = await route.fetch();
      const json = await answer.json();
      json.trace.program = `snapshot ${++number}`;
      json.trace.duration = 1e9 * number;
      await route.fulfill({ response: answer, json });
    });
    const [name, parts] = await frame.locator("html").evaluate(() => new Promise((done) => {
      const before = ["#timeline", "#sites-table", "#panel-flame"].map((s) => document.querySelector(s));
      new MutationObserver(() => {
        const text = document.querySelector("#program").textContent;
        if (/snapshot/.test(text)) done([text, before.map((e) => e.isConnected)]);
      }).observe(document, { childList: true, subtree: true, characterData: true });
    }));
    assert.match(name, /^snapshot \d+: memory report$/);
    assert.deepEqual(parts, [false, false, false]);
    await says("#moment", "of the program's time");
    await page.waitForFunction((text) => document.querySelector("#moment").textContent !== text, said);
    assert.equal(await frame.locator("#tab-sites").getAttribute("aria-selected"), "true");
    assert.deepEqual(await frame.locator("#sites-search").evaluate((e) => [e.value, e.selectionStart, e === document.activeElement]), ["call stack", 4, true]);
    // Nothing is taken from under the reader's hand, and a pause holds it.
    await frame.locator("#tab-flame").tap();
    await frame.locator("#flame").press("Space");
    await frame.locator(".tip.pinned").waitFor({ timeout: LIMIT });
    const pinned = number;
    await page.waitForFunction(() => true);
    while (number < pinned + 2) await page.waitForResponse((r) => r.url().endsWith("/report"));
    assert.equal(await frame.locator(".tip.pinned").count(), 1);
    await frame.locator(".tip.pinned").press("Escape");
    await page.locator("#pause").tap();
    await says("#moment", "paused");
    await page.locator("#pause").tap();
    await page.waitForResponse((r) => r.url().endsWith("/report"));
    // The address has what is shown of the client, for other snapshots, too.
    await frame.locator("#tab-sites").tap();
    await page.waitForFunction(() => /^#client=1&.*sites-search=call\+stack&tab=sites/.test(location.hash));
    const pasted = await context.newPage();
    await pasted.goto(page.url());
    const there = pasted.frameLocator("#frame iframe");
    await there.locator("#tab-sites[aria-selected=true]").waitFor({ timeout: LIMIT });
    assert.equal(await there.locator("#sites-search").inputValue(), "call stack");
    await pasted.evaluate(() => (location.hash = "#client=1&tab=tree"));
    await there.locator("#tab-tree[aria-selected=true]").waitFor({ timeout: LIMIT });
    await pasted.close();
    await page.unroute("**/api/v1/clients/1/report");
  },
  "one button colours the dashboard and the page in it": async () => {
    const { frame } = inside();
    assert.ok(await frame.locator("#theme").isHidden());
    const theme = (of) => of.locator("html").getAttribute("data-theme");
    const other = (await theme(page)) === "dark" ? "light" : "dark";
    await page.locator("#theme").tap();
    await frame.locator(`html[data-theme=${other}]`).waitFor({ state: "attached", timeout: LIMIT });
    assert.equal(await theme(page), other);
    await page.reload();
    await frame.locator("html[data-ready]").waitFor({ state: "attached", timeout: LIMIT });
    assert.equal(await theme(frame), await theme(page));
  },
  "fits a telephone": async () => {
    const wide = await page.evaluate(() => document.documentElement.scrollWidth - window.innerWidth);
    assert.ok(wide <= 0, `${wide} pixels too wide`);
    const small = await page.locator("button:visible").evaluateAll((all) => all.filter((b) => b.getBoundingClientRect().height < 40).length);
    assert.equal(small, 0);
  },
  "shows names as text": async () => {
    assert.equal(await page.locator("main b, main img, main script").count(), 0);
  },
  "saves now": async () => {
    await page.locator("#save").tap();
    await says("#summary", "1 trace saved");
  },
  "stops and saves": async () => {
    await page.locator("#stop").tap();
    await says("#detail-head", "saved");
    await says("#summary", "2 traces saved");
    await page.locator("#detail a").first().tap();
    await says("#finished", "in 2 traces");
    await says("#finished", "left alone (stop)");
    await says("#traces", ".2.tracy");
    await says("#recording-head", "Recording (0)");
  },
  "draws only what changed": async () => {
    const mark = (e) => { e.marked = true; };
    await row("finished", 1).evaluate(mark);
    await row("finished", 1).locator("a").first().evaluate(mark);
    await page.locator("#traces td a").first().evaluate(mark);
    await page.locator("#address").fill("127.0.0.1");
    await page.locator("#port").fill(port);
    await page.locator("#start button").tap();
    await row("recording", 1).filter({ hasText: "320 B" }).waitFor({ timeout: LIMIT });
    const wide = await page.locator("#start, .scroll").evaluateAll((all) => all.map((e) => e.scrollWidth - e.clientWidth));
    assert.deepEqual(wide.filter((n) => n > 0), [], "figures are beside the names");
    const link = row("recording", 1).locator("a");
    await link.evaluate(mark);
    await link.focus();
    const rows = page.waitForResponse((r) => r.url().endsWith("/api/v1/traces"));
    await page.waitForFunction((n) => window.told > n + 2, await page.evaluate(() => window.told));
    await rows;
    assert.equal(await link.evaluate((e) => e === document.activeElement && e.marked), true);
    assert.equal(await row("finished", 1).evaluate((e) => e.marked), true);
    assert.equal(await row("finished", 1).locator("a").first().evaluate((e) => e.marked), true);
    assert.equal(await page.locator("#traces td a").first().evaluate((e) => e.marked), true);
  },
  "forgets who is gone, and asks again for who it does not know": async () => {
    const [left, streams] = await page.evaluate(async () => {
      const status = await (await fetch("/api/v1/status")).json();
      const data = JSON.stringify({ ...status, clients: [2] });
      window.sources.at(-1).dispatchEvent(new MessageEvent("changes", { data }));
      return [document.querySelectorAll("#recording tbody tr, #finished tbody tr").length, window.sources.length];
    });
    assert.equal(left, 1);
    await page.waitForFunction((n) => window.sources.length > n && document.querySelectorAll("#finished tbody tr").length === 1, streams);
    assert.equal(await page.evaluate(() => window.sources.filter((s) => s.readyState !== EventSource.CLOSED).length), 1);
  },
  "hears nothing while it is not seen": async () => {
    const see = (hidden) => page.evaluate((value) => {
      Object.defineProperty(document, "hidden", { value, configurable: true });
      document.dispatchEvent(new Event("visibilitychange"));
      return window.sources.filter((s) => s.readyState !== EventSource.CLOSED).length;
    }, hidden);
    assert.deepEqual([await see(true), await see(true), await see(false)], [0, 0, 1]);
    await page.waitForFunction((n) => window.told > n, await page.evaluate(() => window.told));
  },
  "500 clients are sorted and filtered": async () => {
    const ms = await page.evaluate(async () => {
      for (const s of window.sources) s.close();
      const status = await (await fetch("/api/v1/status")).json();
      const [one] = status.clients.filter((c) => c.counters);
      const counters = (i, turn) => ({ ...one.counters, seconds: turn, memory_events: (turn * i * 10), live_bytes: 1000 * ((i * 7919) % 500) + turn, shape: Array.from({ length: 40 }, (_, k) => (i * k + turn) % 101) });
      const clients = (turn) => Array.from({ length: 500 }, (_, i) => ({ ...one, number: i + 1, state: i % 5 ? "recording" : "saved", program: `program ${i + 1}`, pid: 10000 + i, host: `node${i % 10}`, firing: i % 100 === 1 ? [{ alert: "live>1", since: 1, now: `live_count is ${turn}` }] : [], counters: counters(i + 1, turn) }));
      const times = [];
      for (let turn = 1; turn <= 10; turn++) {
        const data = JSON.stringify({ ...status, clients: clients(turn) });
        const begin = performance.now();
        window.sources.at(-1).dispatchEvent(new MessageEvent("status", { data }));
        document.body.getBoundingClientRect();
        times.push(Math.round(10 * (performance.now() - begin)) / 10);
      }
      return times;
    });
    console.error(`500 clients, ms for each event with layout: ${ms.join(" ")}`);
    await says("#recording-head", "Recording (400)");
    await says("#finished-head", "Finished (100)");
    await says("#alerts-head", "Alerts (5)");
    assert.equal(await page.locator("#recording tbody tr").count(), 100);
    await page.locator("#recording-more").tap();
    assert.equal(await page.locator("#recording tbody tr").count(), 200);
    await page.locator("#recording").getByRole("button", { name: "Live" }).tap();
    const live = await page.locator("#recording tbody tr > :nth-child(6)").allInnerTexts();
    assert.deepEqual([live[0], live.length], ["486 KiB", 200]);
    const rate = await page.locator("#recording tbody tr").first().locator("td").nth(6).textContent();
    assert.match(rate, /^[\d,]+\/s$/);
    await page.locator("#filter").fill("program 77");
    await says("#recording-head", "Recording (1 of 400)");
    await page.locator("#filter").fill("live>1");
    await says("#recording-head", "Recording (5 of 400)");
    await says("#finished-head", "Finished (0 of 100)");
    await page.locator("#filter").fill("");
    await page.reload();
    await says("#recording-head", "Recording (1)");
  },
  "500 alerts leave the clients on the first screen": async () => {
    const give = (turn) => page.evaluate(async (turn) => {
      for (const s of window.sources) s.close();
      const status = await (await fetch("/api/v1/status")).json();
      const [one] = status.clients.filter((c) => c.counters);
      const clients = Array.from({ length: 500 }, (_, i) => ({ ...one, number: i + 1, state: "recording", program: `program ${i + 1}`, firing: [{ alert: "live_bytes(pool=\"gpu.vram\")>20G", since: 1000 + ((i * 7) % 500), now: `live_bytes(pool="gpu.vram") is ${turn}.00 GiB` }] }));
      window.sources.at(-1).dispatchEvent(new MessageEvent("status", { data: JSON.stringify({ ...status, clients }) }));
    }, turn);
    const all = page.locator("#alerts-all");
    const rows = page.locator("#alerts tbody tr");
    await give(21);
    await says("#alerts-head", "Alerts (500)");
    assert.match(await rows.last().locator("td").last().innerText(), /is 21\.00 GiB$/);
    const newest = await rows.locator("th").allInnerTexts();
    assert.deepEqual(newest, [357, 214, 71].map((i) => `program ${i + 1}`));
    for (const [width, height, seen] of [[1440, 900, 10], [390, 844, 3]]) {
      await page.setViewportSize({ width, height });
      const bottoms = await page.locator("#recording tbody tr").evaluateAll((all) => all.map((e) => e.getBoundingClientRect().bottom + window.scrollY));
      assert.ok(bottoms.filter((y) => y <= height).length >= seen, `${width}: ${bottoms.slice(0, 4)}`);
    }
    // The rest is one key away, stays while the list is refreshed, and goes by the same key.
    await all.focus();
    await page.keyboard.press("Enter");
    for (const turn of [22, 23]) {
      await give(turn);
      assert.equal(await rows.count(), 500);
      assert.match(await rows.last().locator("td").last().innerText(), new RegExp(`is ${turn}\\.00 GiB$`));
    }
    assert.deepEqual(await all.evaluate((e) => [e === document.activeElement, e.ariaExpanded, e.textContent]), [true, "true", "Show 3"]);
    assert.deepEqual(await axe(), []);
    await page.keyboard.press("Space");
    assert.deepEqual([await rows.count(), await all.textContent(), await all.getAttribute("aria-expanded")], [3, "Show all 500", "false"]);
    assert.deepEqual(await axe(), []);
    await shot("daemon-alerts");
    await page.reload();
    await says("#recording-head", "Recording (1)");
  },
  "axe finds nothing": async () => {
    await page.locator("#recording a").first().tap();
    await inside().frame.locator("html[data-ready]").waitFor({ timeout: LIMIT });
    for (const colorScheme of ["light", "dark"]) {
      await page.emulateMedia({ colorScheme });
      for (const hash of ["", "#client=2"]) {
        await page.evaluate((to) => (window.location.hash = to), hash);
        await page.locator(hash ? "#detail" : "#lists").waitFor({ timeout: LIMIT });
        assert.deepEqual(await axe(), [], `${colorScheme} ${hash}`);
        await shot(`daemon-${colorScheme}${hash ? "-client" : ""}`);
      }
    }
    await page.evaluate(() => (window.location.hash = ""));
  },
  "gives a trace": async () => {
    const [download] = await Promise.all([page.waitForEvent("download"), row("finished", 1).locator("a.icon").tap()]);
    assert.match(download.suggestedFilename(), /\.tracy$/);
    await download.saveAs(join(folder, "downloaded.tracy"));
  },
  "shows a finished trace's page, in an origin of its own": async () => {
    const [opened] = await Promise.all([context.waitForEvent("page"), row("finished", 1).locator("a").first().tap()]);
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
    const [download] = await Promise.all([page.waitForEvent("download"), page.locator("#traces a[download$=html]").first().tap()]);
    assert.match(download.suggestedFilename(), /\.tracy\.html$/);
    await download.saveAs(join(folder, "downloaded.html"));
  },
  "had no errors": async () => {
    assert.deepEqual(errors, []);
    assert.deepEqual([...codings], ["gzip"]);
    await shot("daemon-end");
  },
};

for (const [name, check] of Object.entries(checks)) {
  const error = await check().then(() => null, (e) => String(e.stack || e));
  console.log(JSON.stringify({ name, error }));
  if (error) break;
}
await browser.close();
