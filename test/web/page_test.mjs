// Opens the pages that test/e2e/test_page.py made in a headless browser, from disk, and uses them.
// Prints a line {"name", "error"} for each check; checks.json has their names.
//     node page_test.mjs CHROMIUM FOLDER
// FOLDER holds mt.html, source.html, hostile.html and empty.html; pictures go to FOLDER/shots.

import assert from "node:assert/strict";
import { mkdirSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join, resolve } from "node:path";
import { pathToFileURL } from "node:url";

const chromium = process.argv[2];
const folder = resolve(process.argv[3]);
const { chromium: driver } = createRequire(join(folder, "x.js"))("playwright-core");
const names = JSON.parse(readFileSync(new URL("checks.json", import.meta.url)));
const shots = join(folder, "shots");
mkdirSync(shots, { recursive: true });
const browser = await driver.launch({ executablePath: chromium, args: ["--no-sandbox"] });

// A page in a browser of its own. `errors` is what should not happen: it is empty in the end.
async function open(name, options = {}) {
  const context = await browser.newContext({ viewport: { width: 1280, height: 900 }, ...options });
  const page = await context.newPage();
  const errors = [];
  page.on("console", (m) => errors.push(`console ${m.type()}: ${m.text()}`));
  page.on("pageerror", (e) => errors.push(`error: ${e.message}`));
  page.on("dialog", (d) => (errors.push(`dialog: ${d.message()}`), d.dismiss()));
  page.on("request", (r) => /^(blob|data):/.test(r.url()) || r.isNavigationRequest() || errors.push(`request: ${r.url()}`));
  await page.goto(pathToFileURL(join(folder, `${name}.html`)).href);
  await page.waitForSelector("html[data-ready]", { timeout: 120000 });
  return { page, errors, done: async () => (assert.deepEqual(errors, []), await context.close()) };
}

const shot = (page, name, fullPage = true) => page.screenshot({ path: join(shots, `${name}.png`), fullPage });
const figure = (page, name) => page.locator(`#range-figures div:has(dt:text-is("${name}")) dd`).evaluate((e) => e.firstChild.textContent);
const number = async (page, name) => Number((await figure(page, name)).replaceAll(",", ""));
const rows = (page, table, column) => page.locator(`#${table} tbody tr > :nth-child(${column})`).allInnerTexts();
const text = (page, id) => page.locator(`#${id}`).innerText();
const frames = (page) => page.locator("#flame g.frame").evaluateAll((all) => all.map((g) => g.getAttribute("name")));

async function drag(page, from, to) {
  const box = await page.locator("#timeline .u-over").boundingBox();
  await page.mouse.move(box.x + box.width * from, box.y + box.height / 2);
  await page.mouse.down();
  await page.mouse.move(box.x + box.width * to, box.y + box.height / 2, { steps: 5 });
  await page.mouse.up();
}

const checks = {
  "opens from disk without network or errors": async () => {
    const { page, done } = await open("mt");
    assert.match(await page.title(), /^memscen: memory report$/);
    assert.match(await text(page, "verdict"), /18,923 memory events in 3 pools/);
    assert.equal(await number(page, "Allocations"), 9598);
    assert.equal(await number(page, "Frees"), 9325);
    assert.ok((await frames(page)).includes("main"));
    await shot(page, "light");
    await done();
  },

  "brushing a range changes everything": async () => {
    const { page, done } = await open("mt");
    const whole = await frames(page);
    await drag(page, 0.4, 0.6);
    const some = await number(page, "Allocations");
    assert.ok(some > 500 && some < 5000, `${some}`);
    assert.notDeepEqual(await frames(page), whole);
    const box = await page.locator("#timeline .u-over").boundingBox();
    const brush = await page.locator("#timeline .u-select").boundingBox();
    assert.ok(Math.abs(brush.x - box.x - 0.4 * box.width) < 3 && Math.abs(brush.width - 0.2 * box.width) < 5, JSON.stringify(brush));
    assert.match(await text(page, "announce"), new RegExp(`^Range .*: ${(some).toLocaleString("en-US")} allocations`));
    for (const tab of ["sites", "leaks", "map", "histograms"]) {
      await page.click(`#tab-${tab}`);
      await shot(page, `brushed-${tab}`);
    }
    await page.setViewportSize({ width: 900, height: 700 });
    await page.waitForFunction((width) => document.querySelector("#timeline .u-over").clientWidth < width, box.width - 100);
    const [wide, narrow] = [await page.locator("#timeline .u-over").boundingBox(), await page.locator("#timeline .u-select").boundingBox()];
    assert.ok(Math.abs(narrow.width - 0.2 * wide.width) < 5, JSON.stringify([wide, narrow]));
    const blocks = (await rows(page, "sizes-table", 2)).reduce((s, n) => s + Number(n.replaceAll(",", "")), 0);
    assert.equal(blocks, some);
    await page.click("#tab-sites");
    const counts = (await rows(page, "sites-table", 4)).reduce((s, n) => s + Number(n.replaceAll(",", "")), 0);
    assert.equal(counts, some);
    await page.click("#range-all");
    assert.equal(await number(page, "Allocations"), 9598);
    await done();
  },

  "a range is zoomed into": async () => {
    const { page, done } = await open("mt");
    await drag(page, 0.2, 0.3);
    const before = await number(page, "Allocations");
    await page.click("#zoom-in");
    await shot(page, "zoomed", false);
    await drag(page, 0.1, 0.9);
    const inside = await number(page, "Allocations");
    assert.ok(inside < before && inside > before / 4, `${inside} of ${before}`);
    await page.click("#zoom-out");
    await page.dblclick("#timeline .u-over");
    assert.equal(await number(page, "Allocations"), 9598);
    await done();
  },

  "a range is chosen by keys and by typing": async () => {
    const { page, done } = await open("mt");
    await page.focus("#timeline");
    await page.keyboard.press("Shift+ArrowLeft");
    const less = await number(page, "Allocations");
    assert.ok(less < 9598);
    const end = await page.inputValue("#range-to");
    await page.keyboard.press("ArrowRight");
    assert.notEqual(await page.inputValue("#range-to"), end);
    await page.keyboard.press("+");
    assert.ok((await number(page, "Allocations")) < less);
    await page.keyboard.press("Escape");
    assert.equal(await number(page, "Allocations"), 9598);
    await page.fill("#range-from", "0.220");
    await page.fill("#range-to", "0.225");
    await page.keyboard.press("Enter");
    assert.match(await figure(page, "Range"), /^5\.0\d ms$/);
    await page.fill("#range-from", "nonsense");
    await page.click("#range button[type=submit]");
    assert.match(await page.inputValue("#range-from"), /^0\.2\d+$/);
    await done();
  },

  "sites are searched and sorted": async () => {
    const { page, done } = await open("mt");
    await page.click("#tab-sites");
    assert.equal((await rows(page, "sites-table", 1)).length, 16);
    assert.match((await rows(page, "sites-table", 1))[0], /^vram_reserve/);
    await page.click("#sites-table th button:text-is('Temporary')");
    assert.equal(await page.locator("#sites-table th[aria-sort=descending]").innerText(), "Temporary");
    assert.match((await rows(page, "sites-table", 1))[0], /^text_scratch/);
    await page.click("#sites-table th button:text-is('Site')");
    const sorted = await rows(page, "sites-table", 1);
    assert.deepEqual(sorted.map((s) => s.split("\n")[0]), sorted.map((s) => s.split("\n")[0]).sort());
    await page.fill("#sites-search", "ms_text");
    assert.equal((await rows(page, "sites-table", 1)).length, 4);
    assert.match(await text(page, "sites-count"), /^4 of 16 rows/);
    await page.fill("#sites-search", "no such thing");
    assert.equal((await rows(page, "sites-table", 1)).length, 0);
    await done();
  },

  "a site tells its call stacks": async () => {
    const { page, done } = await open("mt");
    await page.click("#tab-sites");
    await page.click("#sites-table button:has-text('decode_pixels')");
    assert.match(await text(page, "site-title"), /decode_pixels/);
    assert.equal(await page.evaluate(() => document.activeElement.id), "site-title");
    assert.ok((await page.locator("#site-stacks ol li").allInnerTexts()).some((t) => /^start_thread/.test(t)));
    await shot(page, "site");
    await page.click("#site-only");
    assert.equal(await number(page, "Allocations"), 1215);
    assert.match(await text(page, "timeline-text"), /use at the end/);
    await page.click("#site-filter-off");
    assert.equal(await number(page, "Allocations"), 9598);
    await done();
  },

  "source lines are shown": async () => {
    const { page, done } = await open("source");
    await page.click("#tab-sites");
    await page.click("#sites-table tbody tr:first-child button");
    const here = await page.locator("#site-source .here").first().innerText();
    assert.match(here, /▶ +\d+ .*synthetic line \d+/);
    const lines = (await text(page, "site-source")).match(/synthetic line \d+/g).map((l) => Number(l.match(/\d+/)[0]));
    assert.deepEqual(lines, lines.map((_, i) => lines[0] + i));
    await shot(page, "source");
    await done();
  },

  "the flame graph zooms by mouse and keys": async () => {
    const { page, done } = await open("mt");
    await page.locator("#flame g.frame[name=render_bui] rect, #flame g.frame[name='render_upload(Rng&)'] rect").first().click();
    assert.match(await text(page, "flame-detail"), /^render_upload\(Rng&\): .* of all/);
    assert.ok(!(await frames(page)).includes("decode_pixels"));
    await shot(page, "flame-zoomed", false);
    await page.click("#flame-reset");
    assert.ok((await frames(page)).includes("decode_pixels"));
    await page.focus("#flame");
    for (const key of ["ArrowDown", "ArrowDown", "ArrowDown"]) await page.keyboard.press(key);
    const chosen = (await text(page, "flame-detail")).split(":")[0];
    await page.keyboard.press("Enter");
    assert.ok((await page.locator("#flame g.selected").getAttribute("name")).startsWith(chosen.slice(0, 8)));
    await page.keyboard.press("Backspace");
    await page.fill("#flame-search", "vram");
    assert.match(await text(page, "flame-found"), /^Found: [\d.]+ MiB, \d/);
    await shot(page, "flame-found", false);
    await page.fill("#flame-search", "zzzz");
    assert.match(await text(page, "flame-found"), /^Not found/);
    await done();
  },

  "the flame graph shows each measure both ways": async () => {
    const { page, done } = await open("mt");
    const all = new Set();
    for (const way of ["down", "up"]) {
      for (const what of ["total", "live", "peak", "temporary"]) {
        for (const unit of ["bytes", "count"]) {
          await page.selectOption("#flame-way", way);
          await page.selectOption("#flame-what", what);
          await page.selectOption("#flame-unit", unit);
          const whole = await text(page, "flame-detail"); // follows the view without being asked
          assert.match(whole, unit === "bytes" ? /^all: [\d.]+ [KM]iB, 100.0 % of all/ : /^all: [\d,]+, 100.0 % of all/);
          if (way === "down") all.add(whole);
          else assert.ok(all.has(whole), whole);
        }
      }
    }
    assert.equal(all.size, 8);
    await page.selectOption("#flame-what", "total");
    const inverted = await frames(page);
    assert.ok(inverted.indexOf("vram_reserve") < inverted.indexOf("main"), "sites come before their callers");
    await shot(page, "flame-inverted");
    await done();
  },

  "the flame graph has a table beside it": async () => {
    const { page, done } = await open("mt");
    await page.click("#flame-text summary");
    const table = await rows(page, "flame-table", 1);
    assert.equal(table[0], "all");
    assert.ok(table.length > 20 && table.includes("worker"));
    assert.equal(await page.locator("#flame-table thead th[scope=col]").count(), 3);
    await done();
  },

  "leaks tell what grows": async () => {
    const { page, done } = await open("mt");
    await page.click("#tab-leaks");
    const { leaks, strings } = await page.evaluate(() => JSON.parse(document.getElementById("data").textContent));
    assert.match(await text(page, "leaks-text"), /^[0-9]+ blocks \(544 KiB\) are never freed at 10 sites; 3 of them still growing .* Verdicts, rates and counts are those of report --leaks, of the whole time/);
    assert.ok(await page.locator("#leaks-scope").isHidden());
    const sites = (await rows(page, "leaks-table", 1)).map((s) => s.split(/[\n]/)[0]);
    assert.equal(sites.length, leaks.rows.length);
    leaks.rows.forEach((r, i) => assert.ok(sites[i].startsWith(strings[r.site[0]]), sites[i]));
    assert.match(sites[0], /^text_grow_log/);
    const verdicts = await rows(page, "leaks-table", 11);
    assert.deepEqual(verdicts.map((v) => v === "still growing"), leaks.rows.map((r) => r.kind === "growing"));
    assert.equal((await rows(page, "leaks-table", 5))[0], "100.0 %");
    const held = await rows(page, "leaks-table", 9);
    assert.deepEqual(held, await rows(page, "leaks-table", 3)); // the range is all of the time
    await shot(page, "leaks");
    await drag(page, 0.2, 0.5);
    assert.match(await text(page, "leaks-scope"), /^A range is chosen\. Only the column “In range” is of the range.* --leaks --range [1-9][0-9]*:[1-9][0-9]*$/);
    assert.deepEqual(await rows(page, "leaks-table", 11), verdicts);
    assert.notDeepEqual(await rows(page, "leaks-table", 9), held);
    await page.click("#range-all");
    assert.ok(await page.locator("#leaks-scope").isHidden());
    await done();
  },

  "the memory map is read by keys": async () => {
    const { page, done } = await open("mt");
    await page.click("#tab-map");
    assert.equal(await page.locator("#map canvas").count(), 3);
    await page.locator("#map canvas").first().focus();
    await page.keyboard.press("ArrowRight");
    assert.match(await text(page, "map-detail"), /^0x[0-9a-f]+: .* of 16.0 KiB in use/);
    for (const what of ["age", "activity"]) {
      await page.selectOption("#map-what", what);
      await shot(page, `map-${what}`);
    }
    assert.match(await text(page, "map-detail"), /most bytes by thread .+, site .+/);
    assert.equal(await page.locator("#map-legend li").count(), 0);
    for (const what of ["thread", "site"]) {
      await page.selectOption("#map-what", what);
      assert.ok((await page.locator("#map-legend li").count()) > 1);
      await shot(page, `map-${what}`);
    }
    const inUse = (await rows(page, "map-table", 4)).join(" ");
    assert.match(inUse, /KiB.*KiB.*KiB/);
    await done();
  },

  "pools and threads filter": async () => {
    const { page, done } = await open("mt");
    await page.uncheck("#pools label:has-text('default') input");
    await page.uncheck("#pools label:has-text('gpu.vram') input");
    assert.equal(await number(page, "Allocations"), 1292);
    await page.click("#tab-sites");
    assert.deepEqual([...new Set(await rows(page, "sites-table", 2))], ["arena"]);
    await page.click("#pools button:text-is('all')");
    let sum = 0;
    await page.click("#threads button:text-is('none')");
    assert.equal(await number(page, "Allocations"), 0);
    const threads = page.locator("#threads label");
    for (let i = 0; i < (await threads.count()); i++) {
      await threads.nth(i).locator("input").check();
      sum += await number(page, "Allocations");
      await threads.nth(i).locator("input").uncheck();
    }
    assert.equal(sum, 9598);
    await threads.first().locator("input").check();
    await shot(page, "one-thread");
    await done();
  },

  "a pool keeps its colour": async () => {
    const { page, done } = await open("mt");
    const colors = async () => {
      const rows = await page.locator("#timeline .u-series").evaluateAll((all) => all.map((r) => [r.innerText.split(/[:\t\n–]/)[0].trim(), r.querySelector(".u-marker")?.style.borderColor || r.querySelector(".u-marker")?.style.border]));
      return Object.fromEntries(rows);
    };
    const all = await colors();
    assert.ok(all.arena && new Set([all.default, all["gpu.vram"], all.arena]).size === 3, JSON.stringify(all));
    await page.uncheck("#pools label:has-text('default') input");
    const some = await colors();
    assert.deepEqual([some["gpu.vram"], some.arena], [all["gpu.vram"], all.arena]);
    await done();
  },

  "the peak is one pool's": async () => {
    const { page, done } = await open("mt");
    const note = () => page.locator(`#range-figures div:has(dt:text-is("Peak")) small`).innerText();
    const one = {};
    for (const name of ["default", "gpu.vram", "arena"]) {
      await page.click("#pools button:text-is('none')");
      await page.check(`#pools label:has-text('${name}') input`);
      one[name] = await figure(page, "Peak");
      assert.match(await note(), /^at about /);
    }
    await page.click("#pools button:text-is('all')");
    const named = /^of pool (.*), at about/.exec(await note())[1];
    assert.equal(await figure(page, "Peak"), one[named]);
    assert.match(await text(page, "verdict"), new RegExp(`peak ${one[named]} in pool ${named}`));
    await done();
  },

  "faults are listed": async () => {
    const { page, done } = await open("hostile");
    await page.click("#tab-notes");
    assert.deepEqual(await rows(page, "faults-table", 1), ["allocated at a live address"]);
    assert.match((await rows(page, "faults-table", 2))[0], /^<\/script><script>alert\(1\)<\/script>/);
    assert.match(await text(page, "bounds"), /Time is told in [\d,]+ steps/);
    assert.match(await text(page, "licences"), /uplot .*MIT/);
    await shot(page, "notes");
    await done();
  },

  "hostile names stay text": async () => {
    const { page, done } = await open("hostile");
    assert.equal(await page.locator("script").count(), 2);
    assert.equal(await page.locator("img, iframe, object, embed, link, base").count(), 0);
    for (const tab of ["sites", "leaks", "map", "histograms", "notes", "flame"]) await page.click(`#tab-${tab}`);
    await page.click("#tab-sites");
    const sites = (await rows(page, "sites-table", 1)).join("\n");
    for (const name of ["</script><script>alert(1)</script>", '"><img src=x onerror=alert(2)>', "<!--", "&lt;b&gt;", "a\\x0ab\\x09c", "\\u{202e}dcba"]) assert.ok(sites.includes(name), name);
    await page.click("#sites-table button:has-text('onerror')");
    await page.click("#tab-flame");
    for (const key of ["ArrowDown", "Enter"]) await page.locator("#flame").press(key);
    await page.hover("#flame g.frame >> nth=1");
    await shot(page, "hostile");
    await done();
  },

  "a trace without memory data": async () => {
    const { page, done } = await open("empty");
    assert.match(await text(page, "verdict"), /no memory data/);
    for (const tab of ["sites", "leaks", "map", "histograms", "notes", "flame"]) await page.click(`#tab-${tab}`);
    await shot(page, "empty");
    await done();
  },

  "what was selected is told": async () => {
    const { page, done } = await open("selected");
    assert.equal(await text(page, "selection"), "Only allocations by thread Main thread, of 1.00 KiB (1,024) or more, with a call stack that matches <b>|..");
    assert.ok((await number(page, "Allocations")) > 0);
    const whole = await open("mt");
    assert.equal(await whole.page.locator("#selection").isVisible(), false);
    assert.ok((await number(whole.page, "Allocations")) > (await number(page, "Allocations")));
    await whole.done();
    await done();
  },

  "light and dark": async () => {
    const back = (page) => page.evaluate(() => getComputedStyle(document.documentElement).backgroundColor);
    const { page, done } = await open("mt", { colorScheme: "dark" });
    const dark = await back(page);
    await shot(page, "dark");
    await page.click("#tab-map");
    await shot(page, "dark-map");
    await page.click("#theme");
    assert.notEqual(await back(page), dark);
    await page.emulateMedia({ colorScheme: "light" });
    await page.waitForSelector("html[data-theme=light]");
    await page.emulateMedia({ colorScheme: "dark" });
    await page.waitForSelector("html[data-theme=dark]");
    assert.equal(await back(page), dark);
    await done();
  },

  "phone width": async () => {
    const { page, done } = await open("mt", { viewport: { width: 360, height: 740 }, isMobile: true, hasTouch: true });
    for (const tab of ["flame", "sites", "leaks", "map", "histograms", "notes"]) {
      await page.click(`#tab-${tab}`);
      const wide = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
      assert.ok(wide <= 0, `${tab} is ${wide} pixels too wide`);
      await shot(page, `phone-${tab}`);
    }
    await done();
  },

  "every control has a name and keys reach it": async () => {
    const { page, done } = await open("mt");
    const session = await page.context().newCDPSession(page);
    const { nodes } = await session.send("Accessibility.getFullAXTree");
    const focusable = nodes.filter((n) => !n.ignored && n.properties?.some((p) => p.name === "focusable" && p.value.value) && n.role.value !== "RootWebArea");
    assert.ok(focusable.length > 25, `${focusable.length} controls`);
    for (const n of focusable) assert.ok(n.name?.value || ["group", "description list", "DescriptionList"].includes(n.role.value), `${n.role.value} without a name`);
    const reached = [];
    for (let i = 0; i < 60; i++) {
      await page.keyboard.press("Tab");
      const id = await page.evaluate(() => document.activeElement.id || document.activeElement.closest("[id]")?.id);
      reached.push(id);
      if (id === "flame-text") break;
    }
    const order = ["theme", "pools", "threads", "timeline", "range-from", "range-all", "plot-what", "tab-flame", "flame-what", "flame-search", "flame", "flame-text"];
    assert.deepEqual(reached.filter((id, i) => order.includes(id) && reached.indexOf(id) === i), order);
    assert.equal(await page.evaluate(() => document.querySelectorAll("table:not(:has(caption))").length), 0);
    await done();
  },

  "tabs are walked by keys": async () => {
    const { page, done } = await open("mt");
    await page.focus("#tab-flame");
    for (const tab of ["sites", "leaks", "map", "histograms", "notes", "flame"]) {
      await page.keyboard.press("ArrowRight");
      assert.equal(await page.evaluate(() => document.activeElement.id), `tab-${tab}`);
      assert.equal(await page.locator("[role=tabpanel]:visible").getAttribute("id"), `panel-${tab}`);
      assert.equal(await page.locator("[role=tab][aria-selected=true]").getAttribute("id"), `tab-${tab}`);
    }
    await page.keyboard.press("End");
    assert.equal(await page.locator("[role=tabpanel]:visible").getAttribute("id"), "panel-notes");
    await done();
  },
};

assert.deepEqual(Object.keys(checks), names, "checks.json has the names of all checks");
const only = process.argv[4];
for (const [name, check] of Object.entries(checks)) {
  if (only && !name.includes(only)) continue;
  let error = null;
  try {
    await check();
  } catch (e) {
    error = e.message;
    for (const context of browser.contexts()) await context.close();
  }
  console.log(JSON.stringify({ name, error }));
}
await browser.close();
