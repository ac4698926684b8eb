// How long a page takes, in ms: from the start of its loading until something is painted ("paint")
// and until all of it is there ("ready"); and of the slowest of many interactions, each the median of
// ROUNDS, the time of the page's thread on a processor until it is painted anew ("worst", "what").
//     node page_times.mjs CHROMIUM FOLDER_OF_MODULES PAGE

import { createRequire } from "node:module";
import { join, resolve } from "node:path";
import { pathToFileURL } from "node:url";

const ROUNDS = 5;
const choose = (id, ...values) => values.map((value) => [`${id} ${value}`, "choose", id, value]);
const keys = (id, ...list) => list.map((key) => [`${id} ${key}`, "press", id, key]);
const click = (name, what) => [name, "click", what];
const tab = (name) => click(`tab ${name}`, `#tab-${name}`);
const head = (name, column) => click(`${name} by ${column}`, `#${name}-table th:nth-child(${column}) button`);
const ACTIONS = [
  tab("tree"), ...choose("tree-way", "up", "down"), ...choose("tree-sort", "bytes", "peak"), click("close a row", "#tree-row-3"), click("open a row", "#tree-row-3"), ...keys("tree", "End", "Home"),
  tab("sites"), ...choose("sites-show", "older-kept", "all"), ...choose("sites-search", "a", ""), head("sites", 1), head("sites", 8), click("a site", "#sites-table tbody button"), click("close the site", "#site-close"),
  tab("blocks"), ...choose("blocks-show", "newer-freed", "older-kept", "live"), ...choose("blocks-search", "a", ""), tab("leaks"), tab("look"), tab("map"), ...choose("map-what", "age", "site", "fill"), tab("histograms"), tab("notes"), tab("flame"),
  ...choose("flame-what", "total", "live", "peak"), ...choose("flame-unit", "count", "bytes"), ...choose("flame-way", "up", "down"), ...choose("flame-color", "function", "file", "growth", "thread", "age", "module"),
  ...["fold", "allocators"].flatMap((id) => [1, 2].map((n) => click(`${id} ${n}`, `#flame-${id}`))), ...choose("flame-search", "a", "alloc", ""),
  click("pin", "#flame .frame:nth-child(4)"), click("zoom", "#flame-tip button:nth-of-type(1)"), click("zoom out", "#flame-reset"), click("pin", "#flame .frame:nth-child(4)"), click("only this", "#flame-tip button:nth-of-type(2)"), click("without filter", "#only button"),
  ...keys("timeline", "+", "ArrowLeft", "ArrowRight", "Escape"), ...choose("plot-what", "blocks", "bytes"), click("theme", "#theme"), click("pool off", "#pools input"), click("pool on", "#pools input"),
];

const [executablePath, modules, file] = process.argv.slice(2);
const { chromium } = createRequire(join(resolve(modules), "x.js"))("playwright-core");
const browser = await chromium.launch({ executablePath, args: ["--no-sandbox"] });
const page = await browser.newPage({ viewport: { width: 1440, height: 900 } });
await page.goto(pathToFileURL(resolve(file)).href, { waitUntil: "commit" });
await page.waitForFunction(() => document.documentElement.dataset.ready, null, { polling: 10 });
const times = await page.evaluate(() => ({ paint: performance.getEntriesByName("first-contentful-paint")[0].startTime, ready: performance.now() }));

const session = await page.context().newCDPSession(page);
await session.send("Performance.enable", { timeDomain: "threadTicks" });
const spentSoFar = async () => (await session.send("Performance.getMetrics")).metrics.find((m) => m.name === "TaskDuration").value;
const spent = new Map();
for (let round = 0; round < ROUNDS; round++) {
  for (const [name, kind, what, value] of ACTIONS) {
    await page.evaluate(() => new Promise((settled) => setTimeout(settled, 50))); // the address of the last one is written
    const before = await spentSoFar();
    await page.evaluate(async ([kind, what, value]) => {
      const element = document.querySelector(kind === "click" ? what : `#${what}`);
      if (!element) return;
      if (kind === "click") element.click();
      else if (kind === "press") element.dispatchEvent(new KeyboardEvent("keydown", { key: value, bubbles: true }));
      else {
        element.value = value;
        for (const type of element.type === "search" ? ["input"] : ["input", "change"]) element.dispatchEvent(new Event(type, { bubbles: true }));
      }
      for (let frame = 0; frame < 2; frame++) await new Promise(requestAnimationFrame);
    }, [kind, what, value]);
    spent.set(name, [...(spent.get(name) ?? []), 1000 * ((await spentSoFar()) - before)]);
  }
}
const median = (list) => list.sort((a, b) => a - b)[ROUNDS >> 1];
const sorted = [...spent].map(([name, list]) => [name, median(list)]).sort((a, b) => b[1] - a[1]);
if (process.env.ALL) for (const [name, ms] of sorted) console.error(name, ms.toFixed(1));
const [[what, worst]] = sorted;
console.log(JSON.stringify({ ...times, worst, what }));
await browser.close();
