// Uses the daemon's page in a headless browser, on a telephone's screen, while a client is recorded.
// Prints a line {"name", "error"} for each check.
//     node daemon_test.mjs CHROMIUM FOLDER URL TOKEN
// FOLDER has the packages, and takes the pictures.

import assert from "node:assert/strict";
import { createRequire } from "node:module";
import { join, resolve } from "node:path";

const [, , chromium, folder, url, token] = process.argv;
const { chromium: driver } = createRequire(join(resolve(folder), "x.js"))("playwright-core");
const LIMIT = 120000;
const browser = await driver.launch({ executablePath: chromium, args: ["--no-sandbox"] });
const context = await browser.newContext({ viewport: { width: 390, height: 844 }, hasTouch: true, isMobile: true });
context.setDefaultTimeout(LIMIT);
const page = await context.newPage();
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
  },
  "stops and saves": async () => {
    await page.locator("#stop").tap();
    await says("#clients", "saved");
    await says("#summary", "1 saved");
    await says("#traces", ".2.tracy");
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
    await opened.getByText("main").first().waitFor({ timeout: LIMIT });
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
