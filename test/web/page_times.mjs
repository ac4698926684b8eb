// How long a page takes, in ms: from the start of its loading until something is painted ("paint")
// and until all of it is there ("ready"); and of the slowest of many interactions, each the median of
// ROUNDS, until the page is laid out anew ("worst", "what").
//     node page_times.mjs CHROMIUM FOLDER_OF_MODULES PAGE

import { createRequire } from "node:module";
import { join, resolve } from "node:path";
import { pathToFileURL } from "node:url";

const ROUNDS = 5;
const choose = (id, ...values) => values.map((value) => [`${id} ${value}`, "choose", id, value]);
const keys = (id, ...list) => list.map((key) => [`${id} ${key}`, "press", id, key]);
const tab = (name) => [`tab ${name}`, "click", `#tab-${name}`];
const ACTIONS = [
  tab("tree"), ...choose("tree-way", "up", "down"), ...choose("tree-sort", "bytes", "peak"),
  tab("sites"), ...choose("sites-show", "older-kept", "all"), ...choose("sites-search", "a", ""),
  tab("blocks"), ...choose("blocks-show", "newer-freed", "older-kept", "live"), ...choose("blocks-search", "a", ""), tab("leaks"), tab("map"), ...choose("map-what", "age", "site", "fill"), tab("histograms"), tab("notes"), tab("flame"),
  ...choose("flame-what", "total", "live", "peak"), ...choose("flame-way", "up", "down"), ...choose("flame-color", "function", "thread", "age", "module"),
  ...choose("flame-search", "a", "alloc", ""), ["pin", "click", "#flame .frame:nth-child(4)"], ["only this", "click", "#flame-tip button:nth-of-type(2)"], ["without filter", "click", "#only button"],
  ...keys("timeline", "+", "ArrowLeft", "ArrowRight", "Escape"), ...choose("plot-what", "blocks", "bytes"), ["theme", "click", "#theme"],
  ["pool off", "click", "#pools input"], ["pool on", "click", "#pools input"],
];

const [executablePath, modules, file] = process.argv.slice(2);
const { chromium } = createRequire(join(resolve(modules), "x.js"))("playwright-core");
const browser = await chromium.launch({ executablePath, args: ["--no-sandbox"] });
const page = await browser.newPage({ viewport: { width: 1440, height: 900 } });
await page.goto(pathToFileURL(resolve(file)).href, { waitUntil: "commit" });
await page.waitForFunction(() => document.documentElement.dataset.ready, null, { polling: 10 });
const times = await page.evaluate(() => ({ paint: performance.getEntriesByName("first-contentful-paint")[0].startTime, ready: performance.now() }));

const spent = new Map();
for (let round = 0; round < ROUNDS; round++) {
  for (const [name, kind, what, value] of ACTIONS) {
    const ms = await page.evaluate(([kind, what, value]) => {
      const element = document.querySelector(kind === "click" ? what : `#${what}`);
      if (!element) return 0;
      const begin = performance.now();
      if (kind === "click") element.click();
      else if (kind === "press") element.dispatchEvent(new KeyboardEvent("keydown", { key: value, bubbles: true }));
      else {
        element.value = value;
        for (const type of element.type === "search" ? ["input"] : ["input", "change"]) element.dispatchEvent(new Event(type, { bubbles: true }));
      }
      document.body.getBoundingClientRect();
      return performance.now() - begin;
    }, [kind, what, value]);
    spent.set(name, [...(spent.get(name) ?? []), ms]);
    await page.waitForTimeout(20);
  }
}
const median = (list) => list.sort((a, b) => a - b)[ROUNDS >> 1];
const [what, worst] = [...spent].map(([name, list]) => [name, median(list)]).sort((a, b) => b[1] - a[1])[0];
console.log(JSON.stringify({ ...times, worst, what }));
await browser.close();
