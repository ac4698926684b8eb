// Opens the pages that test/e2e/test_page.py made in a headless browser, from disk, and uses them.
// Prints a line {"name", "error"} for each check; checks.json has their names.
//     node page_test.mjs CHROMIUM FOLDER
// FOLDER holds mt.html, source.html, hostile.html and empty.html; pictures go to FOLDER/shots.

import assert from "node:assert/strict";
import { mkdirSync, readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join, resolve } from "node:path";
import { pathToFileURL } from "node:url";

import { callTree, describeFrame, stacksThrough } from "../../web/src/calls.js";
import { bytes, duration } from "../../web/src/format.js";

const chromium = process.argv[2];
const folder = resolve(process.argv[3]);
const { chromium: driver } = createRequire(join(folder, "x.js"))("playwright-core");
const names = JSON.parse(readFileSync(new URL("checks.json", import.meta.url)));
const shots = join(folder, "shots");
mkdirSync(shots, { recursive: true });
const LIMIT = 300000; // ms: a busy machine takes longer, and does not fail
const browser = await driver.launch({ executablePath: chromium, args: ["--no-sandbox"], timeout: LIMIT });

// The data block of a page, with its tables.
const dataOf = (page) =>
  page.evaluate(async () => {
    const data = JSON.parse(document.getElementById("data").textContent);
    const digits = data.tables.replace(/[}~!]/g, (c) => ({ "}": "<", "~": ">", "!": "\\" })[c]);
    const packed = new Uint8Array(digits.match(/.{1,5}/g).flatMap((group) => {
      const bits = [...group.padEnd(5, "|")].reduce((n, c) => n * 85 + c.charCodeAt(0) - 40, 0);
      return [24, 16, 8, 0].map((shift) => (bits >>> shift) & 255).slice(0, group.length - 1);
    }));
    const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"));
    return { ...data, ...(await new Response(stream).json()) };
  });

// A page in a browser of its own. `errors` is what should not happen: it is empty in the end.
// The page shows the views of what was chosen a frame after its figures: so long each action takes here.
const settled = (page) => page.evaluate(() => new Promise((drawn) => requestAnimationFrame(() => setTimeout(() => requestAnimationFrame(() => setTimeout(() => setTimeout(drawn)))))));
function settling(page) {
  const wrap = (object, names) => {
    for (const name of names) {
      const act = object[name];
      if (act.settles) continue;
      object[name] = async function (...args) {
        const result = await act.apply(this, args);
        await settled(this.page?.() ?? page);
        return result;
      };
      object[name].settles = true;
    }
  };
  const acts = ["click", "dblclick", "check", "uncheck", "selectOption", "fill", "press", "tap"];
  wrap(page, [...acts, "goBack", "goForward"]);
  wrap(Object.getPrototypeOf(page.locator("html")), acts);
  wrap(page.keyboard, ["press", "type"]);
  wrap(page.mouse, ["up", "click", "dblclick", "wheel"]);
}

async function open(name, options = {}) {
  const context = await browser.newContext({ viewport: { width: 1280, height: 900 }, ...options });
  context.setDefaultTimeout(LIMIT);
  const page = await context.newPage();
  const errors = [];
  page.on("console", (m) => errors.push(`console ${m.type()}: ${m.text()}`));
  page.on("pageerror", (e) => errors.push(`error: ${e.message}`));
  page.on("dialog", (d) => (errors.push(`dialog: ${d.message()}`), d.dismiss()));
  page.on("request", (r) => /^(blob|data):/.test(r.url()) || r.isNavigationRequest() || errors.push(`request: ${r.url()}`));
  await page.goto(pathToFileURL(join(folder, `${name}.html`)).href);
  await page.waitForSelector("html[data-ready]");
  settling(page);
  return { page, errors, done: async () => (assert.deepEqual(errors, []), await context.close()) };
}

const shot = (page, name, fullPage = true) => page.screenshot({ path: join(shots, `${name}.png`), fullPage });
const figure = (page, name) => page.locator(`#range-figures div:has(dt:text-is("${name}")) dd`).evaluate((e) => e.firstChild.textContent);
const number = async (page, name) => Number((await figure(page, name)).replaceAll(",", ""));
const rows = (page, table, column) => page.locator(`#${table} tbody tr > :nth-child(${column})`).allInnerTexts();
// With what was chosen last: the page writes it there once that is painted.
const address = async (page) => {
  await page.evaluate(() => new Promise((painted) => requestAnimationFrame(() => setTimeout(() => setTimeout(painted)))));
  return page.url();
};
const back = async (page) => {
  await address(page);
  await page.goBack();
};
const text = (page, id) => page.locator(`#${id}`).innerText();
const frames = (page) => page.locator("#flame .frame").evaluateAll((all) => all.flatMap((f) => f.dataset.names.split("\n")));
const frame = (page, name) => page.locator(`#flame .frame[data-names*="${name}"]`).first();
const tip = (page) => page.locator("#flame-tip").innerText();

async function drag(page, from, to) {
  const box = await page.locator("#timeline .u-over").boundingBox();
  await page.mouse.move(box.x + box.width * from, box.y + box.height / 2);
  await page.mouse.down();
  await page.mouse.move(box.x + box.width * to, box.y + box.height / 2, { steps: 5 });
  await page.mouse.up();
}

const checks = {
  "amounts are those of text, and times differ": async () => {
    // base/format.c
    assert.deepEqual([1000, 1023, 1024, 10235, 999.6 * 1024, 99.96 * 1024].map((n) => bytes(n)), ["1000 B", "1023 B", "1.00 KiB", "10.0 KiB", "0.98 MiB", "100 KiB"]);
    assert.deepEqual([59.9994e9, 65e9, 3599.99e9, 4000e9].map((n) => duration(n)), ["59.999 s", "1 min 05.0 s", "59 min 59.9 s", "1 h 06 min"]);
    // Marks of an axis.
    assert.deepEqual([1.0281e9, 1.02815e9].map((n) => duration(n, 5e4)), ["1.02810 s", "1.02815 s"]);
    assert.deepEqual([1.028025e9, 217.5e6, 65.05e9].map((n, i) => duration(n, [2.5e4, 2.5e6, 5e7][i])), ["1.028025 s", "217.50 ms", "65.050 s"]);
  },

  "places have a folder where text has one": async () => {
    // As in test_analysis_sites.c.
    const place = (name, path) => describeFrame({ strings: [name, path, ""], shortNames: {} }, [0, 1, 3, 2, "0"]).place;
    assert.equal(place("f", "/usr/lib/python3/json/__init__.py"), "json/__init__.py:3");
    assert.equal(place("f", "C:\\lib\\json\\__init__.py"), "json\\__init__.py:3");
    assert.deepEqual([place("f", "__init__.py"), place("f", "/__init__.py"), place("f", "/a/my__init__.py"), place("f", "/a/b.c"), place("f", "C:\\a\\b.c")], ["__init__.py:3", "__init__.py:3", "my__init__.py:3", "b.c:3", "b.c:3"]);
    assert.deepEqual([place("<module>", "/a/b/c.py"), place("<module>", "c.py"), place("f", "")], ["b/c.py:3", "c.py:3", ""]);
  },

  "opens from disk without network or errors": async () => {
    const { page, done } = await open("mt");
    assert.match(await page.title(), /^memscen: memory report$/);
    assert.match(await page.locator("#verdict").textContent(), /18,923 memory events in 3 pools/);
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
    for (const tab of ["tree", "sites", "blocks", "leaks", "map", "histograms"]) {
      await page.click(`#tab-${tab}`);
      await shot(page, `brushed-${tab}`);
    }
    await page.setViewportSize({ width: 660, height: 700 });
    await page.waitForFunction((width) => document.querySelector("#timeline .u-over").clientWidth < width, box.width - 100);
    const [wide, narrow] = [await page.locator("#timeline .u-over").boundingBox(), await page.locator("#timeline .u-select").boundingBox()];
    assert.ok(Math.abs(narrow.width - 0.2 * wide.width) < 5, JSON.stringify([wide, narrow]));
    const blocks = (await rows(page, "sizes-table", 2)).reduce((s, n) => s + Number(n.replaceAll(",", "")), 0);
    assert.equal(blocks, some);
    await page.click("#tab-sites");
    const counts = (await rows(page, "sites-table", 8)).reduce((s, n) => s + Number(n.replaceAll(",", "")), 0);
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

  "a finger brushes and the wheel zooms": async () => {
    const { page, done } = await open("mt", { hasTouch: true });
    const box = await page.locator("#timeline .u-over").boundingBox();
    const session = await page.context().newCDPSession(page);
    const touch = (type, at) => session.send("Input.dispatchTouchEvent", { type, touchPoints: at === null ? [] : [{ x: box.x + box.width * at, y: box.y + 40 }] });
    await touch("touchStart", 0.4);
    for (const at of [0.45, 0.5, 0.55, 0.6]) await touch("touchMove", at);
    await touch("touchEnd", null);
    await page.waitForFunction(() => location.hash.includes("range="));
    const some = await number(page, "Allocations");
    assert.ok(some > 500 && some < 5000, `${some}`);
    const brush = await page.locator("#timeline .u-select").boundingBox();
    assert.ok(Math.abs(brush.width - 0.2 * box.width) < 5, JSON.stringify(brush));
    assert.ok(await page.locator("#zoom-out").isDisabled());
    await page.mouse.move(box.x + box.width / 2, box.y + 40);
    await page.keyboard.down("Control");
    for (let i = 0; i < 3; i++) await page.mouse.wheel(0, -100);
    await page.keyboard.up("Control");
    await page.waitForFunction((width) => document.querySelector("#timeline .u-select").clientWidth > 1.5 * width, brush.width);
    assert.equal(await number(page, "Allocations"), some, "the range stays");
    assert.ok(await page.locator("#zoom-out").isEnabled());
    const zoom = async () => new URL(await address(page)).hash.match(/zoom=([^&]*)/)[1];
    const before = await zoom();
    await page.keyboard.down("Shift");
    await page.mouse.wheel(0, 100);
    await page.keyboard.up("Shift");
    await page.waitForFunction((old) => !location.hash.includes(old), before);
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
    await page.keyboard.press("Enter");
    assert.match(await page.inputValue("#range-from"), /^0\.2\d+$/);
    await done();
  },

  "sites are searched and sorted": async () => {
    const { page, done } = await open("mt");
    await page.click("#tab-sites");
    assert.equal((await rows(page, "sites-table", 1)).length, 16);
    assert.match((await rows(page, "sites-table", 1))[0], /^main/, "as the sentence has it");
    await page.click("#sites-table th button:text-is('Size')");
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
    await page.click("#only button");
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
    await page.click("#tab-flame");
    const known = (await dataOf(page)).texts.find((t) => !t.code).lines.find((l) => l[2]);
    for (const element of await page.locator("#flame .frame").all()) {
      await element.hover({ position: { x: 1, y: 5 } });
      if (/Source\s+.*synthetic line/.test(await tip(page))) {
        await element.click({ position: { x: 1, y: 5 } });
        break;
      }
    }
    assert.match(await tip(page), /Source\s+.*synthetic line \d+/, JSON.stringify(known));
    await page.click("#flame-tip button:text-is('Source')");
    assert.match(await text(page, "site-source"), /synthetic line/);
    await done();
  },

  "a telephone shows the chosen tab and whole bars": async () => {
    const { page, done } = await open("mt", { viewport: { width: 390, height: 844 }, isMobile: true, hasTouch: true });
    for (const tab of ["notes", "map", "histograms", "flame"]) {
      await page.goto("about:blank");
      await page.goto(`${pathToFileURL(join(folder, "mt.html")).href}#tab=${tab}`);
      await page.waitForSelector("html[data-ready]");
      const box = await page.locator(`#tab-${tab}`).boundingBox();
      assert.ok(box.x >= 0 && box.x + box.width <= 390, `${tab}: ${JSON.stringify(box)}`);
      const ends = await page.locator(`#panel-${tab} .bar`).evaluateAll((all) => all.map((e) => e.getBoundingClientRect().right));
      assert.ok(ends.every((x) => x <= 390), `${tab}: bars end at ${Math.max(...ends)}`);
      assert.doesNotMatch(await text(page, `panel-${tab}`), /keyboard/);
    }
    await done();
  },

  "one is singular": async () => {
    const { page, done } = await open("one");
    for (const name of ["At end", "Growth"]) assert.equal(await page.locator(`#range-figures div:has(dt:text-is("${name}")) small`).innerText(), "1 block");
    await page.click("#tab-leaks");
    assert.match(await text(page, "leaks-text"), /^Never freed: 1 block \(1\.27 KiB\) at 1 site, none still growing\. /);
    await page.click("#tab-histograms");
    assert.equal(await page.locator("#lifetimes-table tbody").evaluate((e) => getComputedStyle(e, "::before").content), '"none"', "an empty table says so");
    await done();
  },

  "the flame graph zooms by mouse and keys": async () => {
    const { page, done } = await open("mt");
    await page.selectOption("#flame-what", "total");
    await frame(page, "render_upload(Rng&)").dblclick();
    assert.match(await text(page, "flame-detail"), /^vram_reserve: .* of all/); // the innermost of the chain
    assert.ok(!(await frames(page)).includes("decode_pixels"));
    await shot(page, "flame-zoomed", false);
    await page.click("#flame-reset");
    assert.ok((await frames(page)).includes("decode_pixels"));
    await page.focus("#flame");
    for (const key of ["ArrowDown", "ArrowDown", "ArrowDown"]) await page.keyboard.press(key);
    const chosen = (await text(page, "flame-detail")).split(":")[0];
    await page.keyboard.press("Enter");
    assert.ok((await page.locator("#flame .selected").getAttribute("data-names")).includes(chosen));
    await page.keyboard.press("Backspace");
    await page.fill("#flame-search", "vram");
    assert.match(await text(page, "flame-found"), /^\d+ functions? in \d+ frames?: [\d.]+ %, [\d.]+ MiB$/);
    await shot(page, "flame-found", false);
    await page.fill("#flame-search", "zzzz");
    assert.match(await text(page, "flame-found"), /^No match/);
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
          assert.match(whole, unit === "bytes" ? /^all: [\d.]+ [KM]iB, 100.0 % of all/ : /^all: [\d,]+ blocks, 100.0 % of all/);
          if (way === "down") all.add(whole);
          else assert.ok(all.has(whole), whole);
        }
      }
    }
    assert.equal(all.size, 8);
    await page.selectOption("#flame-what", "total");
    const tops = await page.locator("#flame .frame[data-names^=vram_reserve]").evaluateAll((all) => all.map((f) => f.offsetTop));
    assert.equal(Math.min(...tops), 20, "sites stand directly below all of them");
    await shot(page, "flame-inverted");
    await done();
  },

  "the first screen answers": async () => {
    const { page, done } = await open("mt", { viewport: { width: 1440, height: 900 } });
    const data = await dataOf(page);
    assert.equal((await text(page, "answer")).toLowerCase(), data.answer.toLowerCase());
    assert.match(data.answer, /^peak 8.00 MiB in pool default at [\d.]+ ms: 100 % at main \(memscen.cpp:\d+\)$/);
    assert.equal((await text(page, "findings")).toLowerCase(), `${data.leakHead} checks: 6 passed, 0 failed`.toLowerCase());
    const top = async (id) => (await page.locator(`#${id}`).boundingBox()).y;
    assert.ok((await top("flame")) <= 420, `${await top("flame")}`);
    assert.equal((await page.locator("#timeline .uplot canvas").boundingBox()).height, 160);
    assert.equal(await page.inputValue("#flame-what"), "peak");
    await page.setViewportSize({ width: 1440, height: 500 });
    await page.evaluate(() => window.scrollTo(0, document.body.scrollHeight));
    assert.ok((await page.evaluate(() => window.scrollY)) > 0);
    assert.ok((await top("timeline")) >= 0, "the plot stays in view");
    await page.click("#findings button:has-text('Checks')");
    assert.ok(await page.locator("#panel-notes").isVisible());
    await done();
    const failed = await open("hostile");
    assert.match(await text(failed.page, "findings"), /Checks: \d+ passed, [1-9] failed: .*\(`tidemark report FILE --faults` lists them with their call stacks\)/i);
    await failed.done();
    const full = await open("lanes", { viewport: { width: 1440, height: 900 } });
    assert.ok((await full.page.locator("#filters").isVisible()) && (await full.page.locator("canvas.lanes").boundingBox()).height > 30);
    const lowest = await full.page.evaluate(() => {
      for (const id of ["answer", "findings"]) document.getElementById(id).textContent = "a long name of a function ".repeat(40);
      return document.getElementById("flame").getBoundingClientRect().y;
    });
    assert.ok(lowest <= 420, `${lowest} with long texts, chips and lanes`);
    await full.done();
    const resident = await open("resident", { viewport: { width: 1366, height: 768 } });
    const [tabs, range] = await Promise.all(["tabs", "range"].map((id) => resident.page.locator(`#${id}`).boundingBox()));
    assert.ok(range.y < tabs.y + tabs.height && tabs.x + tabs.width < range.x, `all tabs and the range are one line: ${JSON.stringify([tabs, range])}`);
    assert.doesNotMatch(await text(resident.page, "findings"), /·\s*$/m);
    await resident.done();
  },

  "filters that leave no choice are hidden": async () => {
    const { page, done } = await open("source");
    const data = await dataOf(page);
    assert.equal(await page.locator("#pools").isVisible(), data.pools.length > 1);
    assert.equal(await page.locator("#only").isVisible(), false);
    await done();
  },

  "a frame tells its figures at the pointer": async () => {
    const { page, done } = await open("mt");
    await page.selectOption("#flame-what", "total");
    await frame(page, "decode_pixels").hover();
    const shown = await tip(page);
    assert.match(shown, /^decode_pixels/);
    for (const fact of [/At\s+.*ms_render.cpp:\d+/, /Module\s+.*memscen/, /Bytes\s+[\d.]+ [KM]iB/, /Blocks\s+\d+/, /Share\s+[\d.]+ % of all, [\d.]+ % of its caller/]) assert.match(shown, fact);
    await page.mouse.move(5, 5);
    assert.equal(await page.locator("#flame-tip").isVisible(), false);
    await done();
  },

  "a pinned frame is copied, kept or hidden": async () => {
    const { page, done } = await open("mt");
    await page.selectOption("#flame-what", "total");
    const whole = await number(page, "Allocations");
    await frame(page, "decode_pixels").click();
    await page.mouse.move(5, 5);
    assert.ok(await page.locator("#flame-tip").isVisible(), "it stays");
    await shot(page, "flame-pinned", false);
    await page.click("#flame-tip button:text-is('Copy')");
    await page.waitForSelector("#flame-tip button:text-is('Copied')");
    await page.click("#flame-tip button:text-is('Only this')");
    const kept = await number(page, "Allocations");
    assert.equal(kept, 1215);
    assert.match(await text(page, "only"), /only\s+decode_pixels/);
    await page.click("#only button");
    assert.equal(await number(page, "Allocations"), whole);
    await frame(page, "decode_pixels").click();
    await page.click("#flame-tip button:text-is('Hide')");
    assert.equal(await number(page, "Allocations"), whole - kept);
    assert.ok(!(await frames(page)).includes("decode_pixels"));
    await page.click("#only button");
    await page.focus("#flame");
    await page.keyboard.press("ArrowDown");
    await page.keyboard.press(" ");
    assert.equal(await page.evaluate(() => document.activeElement.textContent), "Zoom in");
    await page.keyboard.press("Escape");
    assert.equal(await page.evaluate(() => document.activeElement.id), "flame");
    await done();
  },

  "matches are found by text and by regular expression": async () => {
    const { page, done } = await open("mt");
    await page.selectOption("#flame-what", "total");
    await page.fill("#flame-search", "decode_pixels");
    assert.match(await text(page, "flame-found"), /^1 function in \d+ frames?: /);
    assert.ok((await page.locator("#flame .frame.hit").count()) > 0);
    const back = (locator) => locator.evaluate((e) => getComputedStyle(e).backgroundColor);
    assert.notEqual(await back(page.locator("#flame .frame.hit").first()), await back(page.locator("#flame .frame:not(.hit)").first()));
    await page.fill("#flame-search", "memscen"); // the file and the module
    assert.ok(Number(/^(\d+) func/.exec(await text(page, "flame-found"))[1]) > 5);
    await page.fill("#flame-search", "^(decode|vram)_");
    assert.equal(await text(page, "flame-found"), "No match.");
    await page.check("#flame-regex");
    const hits = page.locator("#flame .frame.hit");
    for (const names of await hits.evaluateAll((all) => all.map((f) => f.dataset.names))) assert.match(names, /(^|\n)(decode|vram)_/);
    const n = await hits.count();
    assert.ok(n > 1);
    const seen = new Set();
    for (let i = 0; i < n; i++) {
      await page.click("#flame-next");
      seen.add(await page.locator("#flame .selected").evaluate((e) => [...document.querySelectorAll("#flame .frame")].indexOf(e)));
    }
    assert.equal(seen.size, n);
    await page.click("#flame-previous");
    await page.fill("#flame-search", "(");
    assert.match(await text(page, "flame-found"), /no regular expression/);
    // main calls malloc: a match within the allocator counts where that is shown.
    const model = { frames: [{ name: "main" }, { name: "malloc" }], nodeParent: [0, 0, 1], nodeFrame: [0, 0, 1], stackNode: [2], stackBegin: [1], stackSite: [0], sites: [{ name: "main" }] };
    for (const [name, allocators, found] of [["malloc", true, 1], ["malloc", false, 0], ["main", true, 1], ["main", false, 1]]) assert.deepEqual([...stacksThrough(model, (f) => f.name === name, allocators)], [found], `${name} ${allocators}`);
    await page.uncheck("#flame-regex");
    await page.fill("#flame-search", "malloc");
    assert.doesNotMatch(await text(page, "flame-found"), /^0 functions/);
    await done();
  },

  "chains are folded and the graph turns over": async () => {
    const { page, done } = await open("mt");
    await page.selectOption("#flame-what", "total");
    const heights = async () => (await page.locator("#flame").boundingBox()).height;
    const folded = [await heights(), new Set(await frames(page))];
    await page.click("#panel-flame .menu summary");
    await page.uncheck("#flame-fold");
    assert.ok((await heights()) > folded[0], "the height follows the content");
    assert.deepEqual(new Set(await frames(page)), folded[1]);
    const y = async (name) => (await frame(page, name).boundingBox()).y;
    assert.ok((await y("main")) > (await y("all")));
    await page.check("#flame-upside");
    assert.ok((await y("main")) < (await y("all")));
    await shot(page, "flame-upside");
    await done();
  },

  "colours have a legend": async () => {
    const { page, done } = await open("mt");
    await page.selectOption("#flame-what", "total");
    for (const [by, least] of [["module", 1], ["file", 1], ["thread", 3], ["growth", 1], ["age", 2]]) {
      await page.selectOption("#flame-color", by);
      const colors = await page.locator("#flame-legend .mark").evaluateAll((all) => all.map((m) => m.style.background));
      assert.ok(colors.length >= least && new Set(colors).size === colors.length, `${by}: ${colors}`);
      await shot(page, `flame-by-${by}`, false);
    }
    await page.selectOption("#flame-color", "age");
    assert.match(await text(page, "flame-legend"), /allocated on average in the (first|second|middle|fourth|last) fifth of the range/);
    await drag(page, 0.95, 0.99);
    await page.selectOption("#flame-what", "live");
    assert.match(await text(page, "flame-legend"), /nothing allocated in the range/);
    await page.selectOption("#flame-color", "function");
    assert.match(await text(page, "flame-legend"), /realloc_buffer/);
    await done();
  },

  "the address holds the state": async () => {
    const { page, errors, done } = await open("mt");
    assert.equal(new URL(page.url()).hash, "");
    await drag(page, 0.4, 0.6);
    const some = await number(page, "Allocations");
    await page.click("#zoom-in");
    await page.uncheck("#pools label:has-text('arena') input");
    const fewer = await number(page, "Allocations");
    await page.selectOption("#flame-what", "total");
    await page.fill("#flame-search", "vram");
    await frame(page, "vram_reserve").dblclick();
    const zoomed = await frames(page);
    await page.click("#tab-sites");
    const shared = await address(page);
    await back(page); // the tab
    assert.ok(await page.locator("#panel-flame").isVisible());
    assert.deepEqual(await frames(page), zoomed);
    await back(page); // the zoomed frame
    assert.notDeepEqual(await frames(page), zoomed);
    while (new URL(page.url()).hash) await back(page);
    assert.equal(await number(page, "Allocations"), 9598);
    assert.ok(await page.locator("#pools label:has-text('arena') input").isChecked());
    await page.goForward();
    assert.equal(await number(page, "Allocations"), some);
    const pasted = await page.context().newPage();
    settling(pasted);
    await pasted.goto(shared);
    await pasted.waitForSelector("html[data-ready]");
    assert.ok(await pasted.locator("#panel-sites").isVisible());
    assert.equal(await number(pasted, "Allocations"), fewer);
    assert.equal(await pasted.inputValue("#flame-search"), "vram");
    assert.equal(await pasted.locator("#pools label:has-text('arena') input").isChecked(), false);
    assert.ok(await pasted.locator("#zoom-out").isEnabled());
    await pasted.click("#tab-flame");
    assert.deepEqual(await frames(pasted), zoomed);
    await pasted.goto(shared.replace(/#.*/, "#tab=nonsense&range=9-3&frames=only%20x&at=9.9.9&pools=77&site=-4"));
    await pasted.waitForSelector("html[data-ready]");
    await pasted.goto("about:blank");
    await pasted.goto(shared.replace(/#.*/, "#tab=tree&flame-what=moved&plot-what=x&tree-sort=moved&flame-color=change"));
    await pasted.waitForSelector("html[data-ready]");
    assert.equal(await pasted.inputValue("#flame-what"), "peak");
    assert.equal(errors.length, 0);
    await done();
  },

  "the address holds how tables are sorted": async () => {
    for (const [name, tab, id, column] of [["mt", "sites", "sites-table", "Live"], ["mt", "leaks", "leaks-table", null], ["runs", "rows", "rows-table", "Change"]]) {
      const { page, done } = await open(name, { viewport: { width: 1440, height: 900 } });
      await page.click(`#tab-${tab}`);
      const first = () => page.locator(`#${id} tbody tr th, #${id} tbody tr td:first-child`).allInnerTexts();
      const before = await first();
      const head = column ? page.locator(`#${id} thead button:text-is('${column}')`) : page.locator(`#${id} thead button`).first();
      await head.click();
      if (JSON.stringify(await first()) === JSON.stringify(before)) await head.click();
      const sorted = await first();
      assert.notDeepEqual(sorted, before);
      const pasted = await page.context().newPage();
    settling(pasted);
      await pasted.goto(await address(page));
      await pasted.waitForSelector("html[data-ready]");
      assert.deepEqual(await pasted.locator(`#${id} tbody tr th, #${id} tbody tr td:first-child`).allInnerTexts(), sorted);
      while (new URL(page.url()).hash && JSON.stringify(await first()) !== JSON.stringify(before)) await back(page);
      assert.deepEqual(await first(), before);
      await done();
    }
  },

  "recursion is folded, also through others": () => {
    // a calls b, which calls a, which calls c; c calls c. One stack ends in the inner a, one in c.
    const names = ["", "a", "b", "a", "c", "c"];
    const frames = names.map((name) => ({ label: name, id: name, name, labelNumber: ["", "a", "b", "c"].indexOf(name) }));
    const nodeParent = [0, 0, 1, 2, 3, 4];
    const model = { frames, nodeParent, nodeFrame: [0, 1, 2, 3, 4, 5], labelCount: 4, sites: [{}], stackSite: [0, 0, 0], stackNode: [3, 5, 2], stackBegin: [3, 5, 2] };
    const shape = (tree, node) => [node.name, node.sums[0], ...tree.children(node).map((child) => shape(tree, child))];
    const tree = (recursion, way = "down") => callTree(model, [[10, 100, 1]], 0, { way, allocators: true, recursion });
    const plain = tree(false), folded = tree(true);
    assert.deepEqual(shape(plain, plain.root), ["all", 111, ["a", 111, ["b", 111, ["a", 110, ["c", 100, ["c", 100]]]]]]);
    assert.deepEqual(shape(folded, folded.root), ["all", 111, ["a", 111, ["c", 100], ["b", 1]]]);
    assert.equal(folded.own(folded.children(folded.root)[0]), 10);
    const [up, foldedUp] = [tree(false, "up"), tree(true, "up")];
    assert.deepEqual(shape(up, up.root), ["all", 111, ["c", 100, ["c", 100, ["a", 100, ["b", 100, ["a", 100]]]]], ["a", 10, ["b", 10, ["a", 10]]], ["b", 1, ["a", 1]]]);
    assert.deepEqual(shape(foldedUp, foldedUp.root), ["all", 111, ["c", 100, ["a", 100]], ["a", 10], ["b", 1, ["a", 1]]]);
  },

  "call trees have the sums of their call stacks": () => {
    let seed = 1;
    const random = (n) => (seed = (seed * 48271) % 2147483647) % n;
    const list = (n, of) => Array.from({ length: n }, (_, i) => of(i));
    for (let round = 0; round < 30; round++) {
      const labels = list(40, () => random(6));
      const nodeParent = labels.map((_, i) => (i ? random(i) : 0));
      const ends = list(25, () => random(40));
      const columns = [list(25, () => random(9)), list(25, () => random(9) - 4)];
      const model = { frames: list(6, (i) => ({ label: `${i}`, labelNumber: i })), labelCount: 6, nodeParent, nodeFrame: labels, stackSite: list(25, () => 0), sites: [{}], stackBegin: ends, stackNode: ends };
      for (const recursion of [false, true]) {
        const wanted = {};
        ends.forEach((end, stack) => {
          let way = [];
          for (let n = end; n; n = nodeParent[n]) way.unshift(labels[n]);
          if (recursion) way = way.reduce((list, l) => (list.includes(l) ? list.slice(0, list.indexOf(l) + 1) : [...list, l]), []);
          for (let i = 1; i <= way.length; i++) (wanted[way.slice(0, i).join()] ??= [0, 0]).forEach((_, k, sums) => (sums[k] += columns[k][stack]));
        });
        const found = {};
        const tree = callTree(model, columns, 0, { way: "down", recursion, all: true });
        const walk = (node, way) => tree.children(node).filter((c) => c.id !== "rest").forEach((c) => (found[[...way, c.label].join()] = [...c.sums]) && walk(c, [...way, c.label]));
        walk(tree.root, []);
        assert.deepEqual(found, Object.fromEntries(Object.entries(wanted).filter(([, sums]) => sums.some(Boolean))));
        assert.deepEqual([...tree.root.sums], columns.map((c) => c.reduce((a, b) => a + b)));
      }
    }
  },

  "nothing moves while the page loads": async () => {
    const context = await browser.newContext({ viewport: { width: 1440, height: 900 } });
    context.setDefaultTimeout(LIMIT);
    const page = await context.newPage();
    await page.addInitScript(() => {
      window.shifts = 0;
      new PerformanceObserver((list) => list.getEntries().forEach((e) => (window.shifts += e.value))).observe({ type: "layout-shift", buffered: true });
    });
    await page.goto(pathToFileURL(join(folder, "mt.html")).href);
    await page.waitForSelector("html[data-ready]");
    await page.evaluate(() => new Promise((done) => requestAnimationFrame(() => setTimeout(done, 50))));
    assert.ok((await page.evaluate(() => window.shifts)) < 0.01, `${await page.evaluate(() => window.shifts)}`);
    await context.close();
  },

  "axe finds nothing": async () => {
    const axe = readFileSync(createRequire(join(folder, "x.js")).resolve("axe-core/axe.min.js"), "utf8");
    for (const options of [{}, { colorScheme: "dark" }, { viewport: { width: 390, height: 844 } }]) {
      const { page, done } = await open("mt", options);
      const look = async (what) => {
        await page.evaluate(axe); // not through a script element, which the policy forbids
        const { violations } = await page.evaluate(() => window.axe.run(document, { resultTypes: ["violations"] }));
        assert.deepEqual(violations.map((v) => `${what}: ${v.id}: ${v.nodes.slice(0, 3).map((n) => n.html.slice(0, 120)).join(" ")}`), []);
      };
      for (const tab of ["flame", "tree", "sites", "blocks", "leaks", "map", "histograms", "notes"]) {
        await page.click(`#tab-${tab}`);
        await look(tab);
      }
      await page.click("#tab-flame");
      await page.fill("#flame-search", "vram");
      await look("search");
      await page.locator("#flame .frame").nth(1).click();
      await look("pinned");
      await page.keyboard.press("Escape");
      await done();
    }
  },

  "the tree is opened, sorted and turned": async () => {
    const { page, done } = await open("mt");
    await page.click("#tab-tree");
    const shown = () => page.locator("#tree .tree-body .tree-row").evaluateAll((all) => all.map((r) => [r.querySelector("bdi").textContent, ...[...r.children].slice(1).map((c) => c.textContent)]));
    const chosen = () => page.locator("#tree .chosen bdi").first().textContent();
    assert.deepEqual((await shown())[0].slice(3, 6), [await figure(page, "Growth"), "71.7 MiB", "9,598"]);
    assert.ok((await shown()).some(([name]) => name === "main"), "what is heavy is open");
    await page.focus("#tree");
    await page.keyboard.press("Home");
    await page.keyboard.press("ArrowLeft");
    assert.equal((await shown()).length, 1);
    await page.keyboard.press("ArrowRight");
    const children = await shown();
    assert.ok(children.length > 1);
    await page.keyboard.press("ArrowDown");
    assert.equal(await chosen(), children[1][0]);
    const active = await page.locator("#tree").getAttribute("aria-activedescendant");
    assert.equal(await page.locator(`#${active} bdi`).first().textContent(), children[1][0]);
    const sizes = await page.locator("#tree .tree-row[aria-level='2']").evaluateAll((all) => all.map((r) => Number(r.children[5].textContent.replaceAll(",", ""))));
    assert.equal(sizes.reduce((a, b) => a + b), 9598, "the first level adds up");
    const own = await page.locator("#tree .tree-row[aria-level]").evaluateAll((all) => all.map((r) => r.children[7].textContent));
    assert.equal(own[0], "0 B", "nothing is allocated outside all functions");
    await page.selectOption("#tree-way", "up");
    await page.click("#tree .tree-head button:text-is('Count')");
    assert.equal(await page.inputValue("#tree-sort"), "count");
    const sites = (await shown()).map((r) => Number(r[5].replaceAll(",", "")));
    assert.ok(sites[1] >= sites.at(-1) && sites[0] === 9598, `${sites}`);
    await shot(page, "tree", false);
    await page.locator("#tree .tree-row:has(bdi:text-is('decode_pixels'))").first().click();
    await page.click("#tree-only");
    assert.equal(await number(page, "Allocations"), 1215);
    await page.click("#only button");
    for (let i = 0; i < 200; i++) {
      await page.keyboard.press("ArrowRight");
      await page.keyboard.press("ArrowDown");
    }
    assert.ok((await page.locator("#tree .tree-row").count()) < 80, "only rows in view are elements");
    await done();
  },

  "sites answer questions": async () => {
    const { page, done } = await open("mt");
    await page.click("#tab-sites");
    const all = (await rows(page, "sites-table", 1)).length;
    await page.selectOption("#sites-show", "grew");
    assert.deepEqual((await rows(page, "sites-table", 6)).filter((v) => /^(-|0 B)/.test(v)), []);
    await page.selectOption("#sites-show", "emptied");
    const emptied = await rows(page, "sites-table", 5);
    assert.ok(emptied.length > 0 && emptied.length < all);
    assert.deepEqual([...new Set(emptied)], ["0 B"]);
    await page.selectOption("#sites-show", "short");
    assert.match((await rows(page, "sites-table", 1)).join(), /text_scratch/);
    await drag(page, 0.5, 0.9);
    await page.selectOption("#sites-show", "shrank");
    const shrank = await rows(page, "sites-table", 6);
    assert.ok(shrank.length > 0 && shrank.every((v) => v.startsWith("-")), `${shrank}`);
    await page.selectOption("#sites-show", "kept");
    assert.match(await text(page, "sites-count"), /^\d+ of \d+ rows/);
    assert.match(await address(page), /sites-show=kept/);
    await done();
  },

  "the sites of a range separate its blocks by when they were allocated and freed": async () => {
    const { page, done } = await open("mt");
    await page.click("#tab-sites");
    const heads = page.locator("#sites-table thead th:visible");
    assert.equal(await heads.count(), 8);
    const show = (id) => page.selectOption("#sites-show", id);
    await show("newer-freed");
    assert.equal(await heads.count(), 10);
    assert.match(await text(page, "sites-asked"), /^The last two columns have the matching blocks, .* Choose a range in the plot/);
    const sum = async (column) => (await rows(page, "sites-table", column)).map((t) => t.replaceAll(",", "").split(" to ").map(Number)).reduce(([a, b], [low, high]) => [a + low, b + (high ?? low)], [0, 0]);
    assert.deepEqual(await sum(10), [9325, 9325], "all frees are of the range");
    await show("older-kept");
    assert.deepEqual(await rows(page, "sites-table", 1), []);
    // 1/64 of the time is 16 slots: the first range begins at a part, so its figures are exact.
    const choose = async (from, to) => {
      const range = await page.evaluate(([a, b]) => {
        const { time } = JSON.parse(document.getElementById("data").textContent);
        return `${time.from + a * time.slot}-${time.from + b * time.slot}`;
      }, [from, to]);
      await page.evaluate((text) => (location.hash = `#tab=sites&range=${text}`), range);
      await page.waitForFunction(() => !document.getElementById("range-all").disabled);
    };
    const events = async () => {
      const counts = {};
      for (const id of ["older-kept", "older-freed", "newer-kept", "newer-freed"]) {
        await show(id);
        counts[id] = await sum(10);
      }
      const blocks = async (name) => Number((await page.locator(`#range-figures div:has(dt:text-is("${name}")) small`).innerText()).split(" ")[0].replaceAll(",", ""));
      return { ...counts, allocs: await number(page, "Allocations"), frees: await number(page, "Frees"), before: await blocks("At start"), live: await blocks("At end") };
    };
    await choose(256, 768);
    const exact = await events();
    for (const id of ["older-kept", "older-freed", "newer-kept", "newer-freed"]) assert.equal(exact[id][0], exact[id][1], `${id} ${JSON.stringify(exact)}`);
    assert.equal(exact["older-kept"][0] + exact["older-freed"][0], exact.before);
    assert.equal(exact["older-kept"][0] + exact["newer-kept"][0], exact.live);
    assert.equal(exact["older-freed"][0] + exact["newer-freed"][0], exact.frees);
    assert.equal(exact["newer-kept"][0] + exact["newer-freed"][0], exact.allocs);
    assert.ok(exact["older-freed"][0] > 0 && exact["newer-kept"][0] > 0);
    await shot(page, "blocks-asked");
    await choose(263, 761);
    const about = await events();
    assert.match(await text(page, "sites-asked"), /They are bounds: .* of 64 parts/);
    assert.ok(about["older-freed"][0] <= about["older-freed"][1] && about["older-freed"][1] <= about.before);
    assert.ok(about["newer-freed"][0] + about["newer-kept"][1] >= about.allocs && about["newer-freed"][1] + about["newer-kept"][0] <= about.allocs);
    await page.reload();
    await page.waitForSelector("html[data-ready]");
    assert.equal(await page.locator("#sites-table th[aria-sort=descending]").innerText(), "Matching bytes");
    await done();
  },

  "leaks tell what grows": async () => {
    const { page, done } = await open("mt");
    await page.click("#tab-leaks");
    const { leaks, strings, shortNames } = await dataOf(page);
    const name = (number) => shortNames[number] ?? strings[number];
    assert.match(await text(page, "leaks-text"), /^Never freed: [0-9]+ blocks \(544 KiB\) at 10 sites, 3 of them still growing .* Verdicts, rates and counts are those of report --leaks, of the whole time/);
    assert.ok(await page.locator("#leaks-scope").isHidden());
    const sites = (await rows(page, "leaks-table", 1)).map((s) => s.split(/[\n]/)[0]);
    assert.equal(sites.length, leaks.rows.length);
    leaks.rows.forEach((r, i) => assert.ok(sites[i].startsWith(name(r.site[0])), sites[i]));
    assert.ok(leaks.rows.some((r) => shortNames[r.site[0]]));
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
    const outlined = await page.locator("#map canvas").first().evaluate((canvas) => {
      const line = getComputedStyle(document.documentElement).getPropertyValue("--line").trim();
      const wanted = [1, 3, 5].map((i) => parseInt(line.slice(i, i + 2), 16));
      const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
      let n = 0;
      for (let i = 0; i < data.length; i += 4) n += data[i + 3] === 255 && wanted.every((v, k) => data[i + k] === v) ? 1 : 0;
      return n;
    });
    assert.ok(outlined > 1000, "freed pieces are outlined, addresses never used are not drawn");
    await page.locator("#map canvas").first().focus();
    await page.keyboard.press("ArrowRight");
    assert.match(await text(page, "map-detail"), /^0x[0-9a-f]+: .* of 16.0 KiB in use/);
    for (const what of ["age", "activity"]) {
      await page.selectOption("#map-what", what);
      await shot(page, `map-${what}`);
    }
    assert.match(await text(page, "map-detail"), /most bytes by thread .+, site .+/);
    assert.equal(await page.locator("#map-legend li").count(), 4);
    for (const what of ["thread", "site"]) {
      await page.selectOption("#map-what", what);
      assert.ok((await page.locator("#map-legend li").count()) > 1);
      await shot(page, `map-${what}`);
    }
    const inUse = (await rows(page, "map-table", 4)).join(" ");
    assert.match(inUse, /KiB.*KiB.*KiB/);
    await done();
  },

  "a square of the map lists its blocks": async () => {
    const { page, done } = await open("mt");
    await page.click("#tab-map");
    assert.match(await text(page, "map-legend"), /full\s+nearly empty\s+empty now, used before\s+gap: never used/);
    const canvas = page.locator("#map canvas").first();
    const listed = [];
    const { height } = await canvas.boundingBox();
    const places = [...Array(80 * Math.floor(height / 11)).keys()].map((i) => ({ x: 5 + 11 * (i % 80), y: 5 + 11 * Math.floor(i / 80) })).reverse();
    const named = async () => /^0x/.test(await text(page, "map-detail"));
    for (const position of places) {
      await canvas.click({ position });
      if (!(await named())) continue; // beyond the last square
      const said = await text(page, "map-blocks-text");
      const sizes = await rows(page, "map-blocks", 2);
      assert.match(said, new RegExp(`^${sizes.length} blocks? in use at 0x[0-9a-f]+ at .* of this square\\.$`), "all that is live at the end is listed");
      const used = /: ([\d.]+ \w+) of /.exec(await text(page, "map-detail"))[1];
      assert.ok(said.includes(` ${used} of this square`), `${said} ${used}`);
      listed.push(...(await rows(page, "map-blocks", 6)));
      if (listed.length > 5) break;
    }
    assert.ok(listed.length > 5 && listed.every((freed) => freed === "never"), `${listed}`);
    await shot(page, "map-blocks");
    await drag(page, 0.2, 0.5);
    assert.ok(await page.locator("#map-chosen").isHidden());
    await canvas.focus();
    await page.keyboard.press("ArrowRight");
    await page.keyboard.press("Enter");
    assert.ok(await page.locator("#map-chosen").isVisible());
    for (const position of places) {
      await canvas.click({ position });
      if (await page.locator("#map-blocks tbody tr").count()) break;
    }
    await page.locator("#map-blocks tbody button").first().click();
    assert.ok(await page.locator("#site").isVisible());
    await done();
  },

  "single blocks are listed by when they were allocated and freed": async () => {
    const { page, done } = await open("mt");
    await page.click("#tab-blocks");
    assert.equal(await text(page, "blocks-count"), "273 listed, 544 KiB: all that match");
    const sizes = await rows(page, "blocks-table", 2);
    assert.equal(sizes.length, 50);
    await page.click("#blocks-table-more");
    assert.equal((await rows(page, "blocks-table", 2)).length, 150);
    await page.selectOption("#blocks-show", "older-kept");
    assert.match(await text(page, "blocks-text"), /Choose a range in the plot/);
    await drag(page, 0.3, 0.6);
    const [from, to] = [await page.inputValue("#range-from"), await page.inputValue("#range-to")].map(Number);
    const seconds = (shown) => (shown === "never" ? Infinity : Number(/^≈ ([\d.]+) ms$/.exec(shown)[1]) / 1000);
    const near = 0.0001;
    const wanted = { "older-kept": (a, f) => a < from + near && f > to - near, "older-freed": (a, f) => a < from + near && f > from - near && f < to + near, "newer-kept": (a, f) => a > from - near && a < to + near && f > to - near, "newer-freed": (a, f) => a > from - near && f < to + near };
    let listed = 0;
    for (const [id, test] of Object.entries(wanted)) {
      await page.selectOption("#blocks-show", id);
      const [allocated, freed] = [await rows(page, "blocks-table", 5), await rows(page, "blocks-table", 6)];
      assert.ok(allocated.length > 0, id);
      allocated.forEach((a, i) => assert.ok(test(seconds(a), seconds(freed[i])), `${id} ${a} ${freed[i]} ${from} ${to}`));
      const [count, , low, high] = /^([\d,]+) listed, [^,:]+(, of ([\d,]+)(?: to ([\d,]+))? that match|: all that match)/.exec(await text(page, "blocks-count")).slice(1).map((n) => Number(n?.replaceAll(",", "")));
      assert.ok(Number.isNaN(low) || (count <= (high || low) && count <= Math.max(low, high || low)), id);
      listed += count;
    }
    assert.ok(listed > 1000, `${listed}`);
    await page.fill("#blocks-search", "vram");
    assert.match((await rows(page, "blocks-table", 3)).join(), /^(vram_reserve\s+ms_render.cpp:\d+,?)+$/);
    await shot(page, "blocks");
    const shared = await address(page);
    const before = (await rows(page, "blocks-table", 1)).slice(0, 50);
    await page.locator("#blocks-table tbody button").first().click();
    assert.match(await text(page, "site-title"), /vram_reserve/);
    await page.goto("about:blank");
    await page.goto(shared);
    await page.waitForSelector("html[data-ready]");
    assert.deepEqual(await rows(page, "blocks-table", 1), before);
    await page.fill("#blocks-search", "");
    await page.uncheck("#pools label:has-text('gpu.vram') input");
    assert.ok(!(await rows(page, "blocks-table", 4)).includes("gpu.vram"));
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
    const threads = page.locator("#threads label:not([hidden])");
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
      const box = await page.locator("#timeline .u-over").boundingBox();
      await page.mouse.move(box.x + box.width / 3, box.y + box.height / 2);
      await page.mouse.move(box.x + box.width / 2, box.y + box.height / 2);
      const rows = await page.locator("#timeline .tip div:has(.mark)").evaluateAll((all) => all.map((r) => [r.querySelector("bdi").textContent, getComputedStyle(r.querySelector(".mark")).backgroundColor]));
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
      assert.match(await note(), /^[\d.]+ ms$/, "the time is that of the report");
    }
    const root = () => page.locator("#flame .frame").first().innerText();
    assert.match(await root(), new RegExp(`^all: ${one.arena} at [\\d.]+ ms$`));
    await page.click("#pools button:text-is('all')");
    assert.match(await root(), new RegExp(`^all: [\\d.]+ MiB, the sum of each pool's peak: ${one.default} in default at [\\d.]+ ms \\+ ${one["gpu.vram"]} in gpu.vram at [\\d.]+ ms \\+ ${one.arena} in arena at [\\d.]+ ms$`));
    const named = /^(.*), [\d.]+ ms$/.exec(await note())[1];
    assert.equal(await figure(page, "Peak"), one[named]);
    assert.match(await page.locator("#verdict").textContent(), new RegExp(`peak ${one[named]} in pool ${named}`));
    await done();
  },

  "faults are listed": async () => {
    const { page, done } = await open("hostile");
    await page.click("#tab-notes");
    assert.deepEqual(await rows(page, "faults-table", 1), ["allocated at a live address"]);
    assert.match((await rows(page, "faults-table", 2))[0], /^<\/script><script>alert\(1\)<\/script>/);
    assert.match(await text(page, "bounds"), /divides the time into [\d,]+ steps/);
    assert.match(await text(page, "checks-sum"), /^Checks: \d+ passed, [1-9] failed$/);
    assert.equal(await page.locator("#licences").isVisible(), false);
    await page.click("summary:has-text('Licences')");
    assert.match(await text(page, "licences"), /uplot .*MIT/);
    await shot(page, "notes");
    await done();
  },

  "hostile names stay text": async () => {
    const { page, done } = await open("hostile");
    const drawn = await page.locator("#timeline-text").textContent();
    assert.match(drawn, /for 6 of 15 pools and their sum\. Pool default: .* Pool naïve 漢字 🌊: highest 4\.00 KiB/, "the highest pools have lines");
    assert.equal(await page.locator("script").count(), 2);
    assert.equal(await page.locator("img, iframe, object, embed, link, base").count(), 0);
    for (const tab of ["tree", "sites", "blocks", "leaks", "map", "histograms", "notes", "flame"]) await page.click(`#tab-${tab}`);
    await page.click("#tab-sites");
    const sites = (await rows(page, "sites-table", 1)).join("\n");
    for (const name of ["</script><script>alert(1)</script>", '"><img src=x onerror=alert(2)>', "<!--", "&lt;b&gt;", "a\\x0ab\\x09c", "\\u{202e}dcba"]) assert.ok(sites.includes(name), name);
    await page.click("#sites-table button:has-text('onerror')");
    await page.click("#tab-flame");
    for (const key of ["ArrowDown", "Enter"]) await page.locator("#flame").press(key);
    await page.hover("#flame .frame >> nth=1");
    await page.click("#flame .frame >> nth=1");
    await page.keyboard.press("Escape");
    await shot(page, "hostile");
    await done();
  },

  "a trace without memory data": async () => {
    const { page, done } = await open("empty");
    assert.match(await text(page, "answer"), /no memory data/i);
    for (const tab of ["tree", "sites", "blocks", "leaks", "map", "histograms", "notes", "flame"]) await page.click(`#tab-${tab}`);
    await shot(page, "empty");
    await done();
  },

  "a trace of figures only has the views of sums": async () => {
    const { page, done } = await open("figures");
    assert.match(await text(page, "findings"), /figures only, no events/i);
    assert.deepEqual(await page.locator("#tabs button").allInnerTexts(), ["Flame graph", "Tree", "Sites", "Leaks", "Checks"]);
    for (const tab of ["tree", "sites", "leaks", "notes", "flame"]) await page.click(`#tab-${tab}`);
    assert.ok((await number(page, "Allocations")) > 0);
    assert.ok((await frames(page)).length > 1);
    await page.selectOption("#plot-what", "allocs");
    await page.selectOption("#flame-what", "live");
    await page.click("#tab-sites");
    await page.locator("#sites-table tbody a, #sites-table tbody button").first().click();
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

  "what is resident is drawn": async () => {
    const { page, done } = await open("resident");
    const tip = async () => {
      const box = await page.locator("#timeline .u-over").boundingBox();
      await page.mouse.move(box.x + box.width * 0.7, box.y + box.height / 2);
      return page.locator("#timeline .tip").innerText();
    };
    assert.match(await tip(), /resident \(RSS of the process\)\s+\d[\d.]* MiB/);
    assert.match(await page.locator("#timeline-text").textContent(), /The dotted line is what was resident of the whole process/);
    await page.selectOption("#plot-what", "blocks");
    assert.doesNotMatch(await tip(), /resident/);
    assert.ok(await page.locator("#plot-resident").isDisabled());
    await page.selectOption("#plot-what", "bytes");
    await shot(page, "resident");
    await page.uncheck("#plot-resident");
    assert.doesNotMatch(await tip(), /resident/);
    const { hash } = new URL(await address(page));
    assert.match(hash, /plot-resident=0/);
    await page.check("#plot-resident");
    const sizes = await page.locator("#timeline .u-axis").count();
    await page.click("#tab-sites");
    for (let i = 0; i < 2; i++) await page.click("#sites-table th button:text-is('Size')"); // the smallest first
    await page.locator("#sites-table th[scope='row'] button").first().click();
    await page.click("#site-only");
    assert.deepEqual([sizes, await page.locator("#timeline .u-axis").count()], [2, 3], "the use of a small site is not flat");
    assert.match(await page.locator("#timeline-text").textContent(), /Its axis is on the right/);
    await done();
    const other = await open("mt");
    assert.equal(await other.page.locator("#plot-resident").isVisible(), false);
    await other.done();
  },

  "sites have resident bytes": async () => {
    const { page, done } = await open("resident");
    const { look } = await dataOf(page);
    assert.match(await text(page, "findings"), /^Resident \d.* MiB at .*: blocks \d+ %/);
    await page.click("#tab-look");
    assert.match(await text(page, "look-text"), /^Resident \d.* MiB at .*blocks \d+ %.*The pages were read at the highest RSS so far/);
    // The program may have been filling its 24 MiB.
    assert.match((await rows(page, "look-table", 3))[0], /^(24\.0|2[23]\.\d) MiB$/);
    assert.match(await text(page, "look-findings"), /keep .* free in their pages/);
    await shot(page, "look");
    await page.click("#look-table th button:text-is('Pins')");
    assert.equal((await rows(page, "look-table", 4))[0], (await page.locator("#look-findings li").first().innerText()).match(/keep (.*) free/)[1]);
    await page.locator("#look-table th[scope='row'] button").first().click();
    assert.ok(await page.locator("#site").isVisible());
    await done();
    const other = await open("mt");
    assert.equal(await other.page.locator("#tab-look").count(), 0);
    await other.done();
  },

  "lanes follow the plot": async () => {
    const { page, done } = await open("lanes", { viewport: { width: 1440, height: 900 } });
    const canvas = page.locator("#timeline .lanes");
    const height = async () => (await page.locator("#timeline").boundingBox()).height;
    const before = await height();
    assert.ok((await page.locator("#flame").boundingBox()).y <= 420);
    await shot(page, "lanes", false);
    const box = await canvas.boundingBox();
    const tip = async () => page.locator("#timeline .tip").innerText();
    const axis = await page.locator("#timeline .u-over").boundingBox();
    await page.mouse.move(axis.x + 300, box.y + 3);
    await page.mouse.move(axis.x + 2, box.y + 3);
    assert.match(await tip(), /Main thread: frame/);
    assert.match(await tip(), /messages: (\d+, first: )?\S/);
    const seen = await page.locator("#timeline .tip").evaluate((e) => new Promise((done) => new IntersectionObserver(([part]) => done(part.intersectionRatio)).observe(e)));
    assert.equal(seen, 1, "the values at the pointer are not cut off");
    await page.mouse.move(5, 5);
    assert.equal(await page.locator("#timeline .tip").isVisible(), false);
    const [bar, colors] = await canvas.evaluate((c) => { // where the first zone begins and ends
      const { data, width } = c.getContext("2d").getImageData(0, 0, c.width, c.height);
      const filled = [...Array(width).keys()].filter((x) => x > 68 && data[4 * (2 * width + x) + 3]);
      return [[filled[0], filled.at(-1)], new Set(new Uint32Array(data.buffer)).size];
    });
    assert.ok(colors > 3);
    assert.ok(Math.abs(bar[0] - (axis.x - box.x)) < 4 && Math.abs(bar[1] - (axis.x + axis.width - box.x)) < 4, `${bar} ${axis.x} ${axis.width}`);
    await page.click("#lanes-menu summary");
    await page.check("#lanes-choice label:has-text('io') input");
    assert.ok((await height()) > before);
    assert.match(await address(page), /lanes=/);
    const shared = await address(page);
    const checked = page.locator("#lanes-choice input:checked");
    while (await checked.count()) await checked.first().uncheck();
    assert.equal(await height(), 162);
    await page.goto("about:blank");
    await page.goto(shared);
    await page.waitForSelector("html[data-ready]");
    assert.ok((await height()) > before);
    await done();
  },

  "a comparison answers": async () => {
    const { page, done } = await open("diff", { viewport: { width: 1440, height: 900 } });
    const data = await dataOf(page);
    assert.match(await page.title(), /^memscen: what changed$/);
    assert.equal((await text(page, "answer")).toLowerCase(), data.answer.toLowerCase());
    assert.match(await text(page, "findings"), /^Checks: 1 passed, 1 failed: count>\+5%: count is 9,598, was 9,001 \(\+6\.6 %\) · One run on each side/);
    assert.equal(await figure(page, "Peak"), "8.00 MiB");
    assert.ok((await page.locator("#flame").boundingBox()).y <= 420);
    for (const id of ["range", "filters", "pools"]) assert.ok(await page.locator(`#${id}`).isHidden());
    await shot(page, "diff", false);
    const box = await page.locator("#timeline .u-over").boundingBox();
    await page.mouse.move(box.x + box.width / 3, box.y + 20);
    await page.mouse.move(box.x + box.width / 2, box.y + 20);
    assert.match(await page.locator("#timeline .tip").innerText(), /now [\d.]+ \w+\s+before ([\d.]+ \w+|ended)/);
    await page.click("#tab-totals");
    assert.deepEqual(await page.locator("#given li").allInnerTexts(), ["passed: peak>+5%: peak is 8.00 MiB (8,388,608), was 8.00 MiB (8,388,608) (+0.0 %)", "failed: count>+5%: count is 9,598, was 9,001 (+6.6 %)"]);
    const cells = await page.locator("#totals-table tbody tr").first().locator("th, td").allInnerTexts();
    assert.deepEqual(cells, ["default", "Peak", "8.00 MiB", "8.00 MiB", "="]);
    assert.equal(await page.locator("#totals-table tbody tr").count(), 18);
    await done();
  },

  "a comparison's flame graph has both sides": async () => {
    const { page, done } = await open("diff");
    const root = (where = page) => where.locator("#flame .frame").first().innerText();
    assert.match(await root(), /^all: moved by [\d.]+ MiB, of 71.7 MiB now$/);
    const changed = new Set(await frames(page));
    assert.ok(changed.has("realloc_buffer"));
    assert.ok((await page.locator("#flame-legend li").allInnerTexts()).includes("only now"));
    const widths = {};
    await page.selectOption("#flame-way", "up");
    for (const [what, whole] of [["now", "71.7 MiB"], ["base", "75.5 MiB"]]) {
      await page.selectOption("#flame-what", what);
      assert.equal(await root(), `all: ${whole}`);
      widths[what] = (await frame(page, "realloc_buffer").boundingBox()).width;
      await frame(page, "realloc_buffer").hover({ position: { x: 1, y: 5 } });
      assert.match(await tip(page), /^realloc_buffer\s+At\s+.*memscen.cpp:135\s+Module\s+.*memscen\s+Before\s+[\d.]+ \w+\s+Now\s+[\d.]+ \w+\s+Change\s+[-+][\d.]+ \w+, [-+][\d.]+ %/);
    }
    assert.notEqual(widths.now, widths.base);
    await page.selectOption("#flame-unit", "count");
    assert.equal(await root(), "all: 9,001 blocks");
    await page.selectOption("#flame-unit", "live");
    await shot(page, "diff-inverted");
    await page.fill("#flame-search", "vram");
    assert.match(await text(page, "flame-found"), /^1 function in \d+ frames?: [\d.]+ %, [\d.]+ KiB$/);
    await page.locator("#flame .frame.hit").first().click();
    await page.click("#flame-tip button:text-is('Only this')");
    assert.match(await text(page, "only"), /only\s+vram_reserve/);
    assert.equal(await root(), "all: 96.0 KiB");
    const shared = await address(page);
    await page.click("#only button");
    assert.ok(await page.locator("#only").isHidden());
    await back(page);
    assert.equal(await root(), "all: 96.0 KiB");
    const pasted = await page.context().newPage();
    settling(pasted);
    await pasted.goto(shared);
    await pasted.waitForSelector("html[data-ready]");
    assert.equal(await root(pasted), "all: 96.0 KiB");
    assert.equal(await pasted.inputValue("#flame-unit"), "live");
    await done();
  },

  "a comparison's rows and tree are sorted": async () => {
    const { page, done } = await open("diff");
    await page.click("#tab-rows");
    assert.match((await rows(page, "rows-table", 1))[0], /^realloc_buffer/, "the largest change comes first");
    assert.equal((await rows(page, "rows-table", 7))[0], "-5.69 MiB");
    assert.match(await text(page, "rows-count"), /^15 of 15 rows; 1 did not change in bytes$/);
    await page.click("#rows-table th button:text-is('Peak')");
    assert.match((await rows(page, "rows-table", 1))[0], /^vram_reserve/);
    await page.selectOption("#rows-kind", "shrunk");
    assert.deepEqual((await rows(page, "rows-table", 4)), ["shrunk"]);
    await page.selectOption("#rows-kind", "all");
    await page.fill("#rows-search", "ms_text");
    assert.equal((await rows(page, "rows-table", 1)).length, 4);
    assert.match(await address(page), /rows-search=ms_text/);
    await page.click("#tab-tree");
    const cells = async (name) => page.locator(`#tree .tree-row:has(bdi:text-is("${name}"))`).first().locator("> div").allInnerTexts();
    const [, , now, base, moved, live] = await cells("all");
    assert.deepEqual([now, base, moved, live], ["71.7 MiB", "75.5 MiB", "-3.83 MiB", "+224 KiB"]);
    await page.click("#tree .tree-head button:text-is('Live')");
    assert.equal(await page.inputValue("#tree-sort"), "live");
    await page.selectOption("#tree-way", "up");
    await shot(page, "diff-tree");
    await done();
  },

  "the column of types is there if one is known": async () => {
    for (const [name, tab, there] of [["mt", "sites", false], ["typed", "sites", true], ["diff", "rows", false], ["typeddiff", "rows", true]]) {
      const { page, done } = await open(name);
      await page.click(`#tab-${tab}`);
      const heads = await page.locator(`#${tab}-table thead th:visible`).allInnerTexts();
      assert.equal(heads.some((t) => t.startsWith("Type")), there, `${name}: ${heads}`);
      const cells = await page.locator(`#${tab}-table tbody tr:first-child > :visible`).count();
      assert.equal(cells, heads.length, name);
      await done();
    }
  },

  "axe finds nothing in a comparison": async () => {
    const axe = readFileSync(createRequire(join(folder, "x.js")).resolve("axe-core/axe.min.js"), "utf8");
    for (const options of [{}, { colorScheme: "dark" }, { viewport: { width: 360, height: 740 }, isMobile: true, hasTouch: true }]) {
      const { page, done } = await open("diff", options);
      await page.evaluate(axe);
      for (const tab of ["flame", "tree", "rows", "totals"]) {
        await page.click(`#tab-${tab}`);
        const { violations } = await page.evaluate(() => window.axe.run(document, { resultTypes: ["violations"] }));
        assert.deepEqual(violations.map((v) => `${tab}: ${v.id}: ${v.nodes.slice(0, 3).map((n) => n.html.slice(0, 120)).join(" ")}`), []);
        const wide = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
        assert.ok(wide <= 0, `${tab} is ${wide} pixels too wide`);
        if (options.isMobile) await shot(page, `diff-phone-${tab}`);
      }
      await done();
    }
    const { page, done } = await open("hostilediff");
    for (const tab of ["tree", "rows", "totals", "flame"]) await page.click(`#tab-${tab}`);
    assert.equal(await page.locator("img, iframe, object, embed, link, base").count(), 0);
    await done();
  },

  "a comparison of few runs establishes nothing": async () => {
    const { page, done } = await open("fewruns");
    assert.equal(await text(page, "answer"), "Peak 8.00 MiB ±0.0 % in pool default: as before; functions by bytes: 16 not established");
    assert.match(await text(page, "findings"), /too few runs/);
    assert.deepEqual(await page.locator("#rows-table thead th").allInnerTexts(), ["Function", "Pool", "Before", "Now", "Change", "Outcome"], "no interval is known");
    assert.deepEqual([...new Set(await rows(page, "rows-table", 6))].sort(), ["=", "not established"]);
    assert.ok((await page.locator("#rows-kind option").allInnerTexts()).includes("not established"));
    await page.click("#tab-totals");
    assert.doesNotMatch(await text(page, "panel-totals"), /within the noise/);
    assert.doesNotMatch(await text(page, "range-figures"), /within the noise/);
    await done();
  },

  "a comparison of runs has intervals": async () => {
    const { page, done } = await open("runs", { viewport: { width: 1440, height: 900 } });
    const axe = readFileSync(createRequire(join(folder, "x.js")).resolve("axe-core/axe.min.js"), "utf8");
    assert.match(await page.title(), /^memscen: what changed$/);
    assert.equal(await text(page, "answer"), "Peak 8.00 MiB ±0.0 % in pool default: as before; functions by bytes: 7 grown, 1 shrunk, 8 within the noise");
    assert.match(await text(page, "findings"), /^Checks: 0 passed, 1 failed: count>\+5%: count is 9,598, was 9,001 \(\+6\.6 %\)/);
    assert.match(await page.locator(`#range-figures div:has(dt:text-is("Live at the end")) dd`).innerText(), /^292 KiB ±0\.0 %\s*\+74\.6 KiB \(\+34\.3 %\), \+57\.3 KiB to \+91\.9 KiB\s*grown$/);
    const [first] = await page.locator("#rows-table tbody tr").first().locator("th, td").allInnerTexts();
    assert.match(first, /^decode_pixels/);
    assert.deepEqual((await rows(page, "rows-table", 5))[0], "+907 KiB (+16.0 %), +836 KiB to +979 KiB");
    const boxes = async (of) => page.locator(`#rows-table tbody tr:has-text('${of}') .interval > *`).evaluateAll((all) => all.map((e) => e.getBoundingClientRect()).map(({ left, right }) => [left, right]));
    const [bar, mark] = await boxes("decode_pixels");
    assert.ok(bar[0] < mark[0] && mark[1] < bar[1], "the mean's change is within its interval");
    assert.ok((await boxes("realloc_buffer"))[0][1] < bar[0], "shrunk is left of grown");
    const same = page.locator("#rows-table tbody tr").filter({ has: page.locator("td:nth-child(5):text-is('=')") });
    assert.ok(await same.count());
    assert.equal(await same.locator(".interval > *").count(), 0, "what is as before has no interval, as in the text");
    await page.selectOption("#rows-kind", "same");
    assert.equal((await rows(page, "rows-table", 1)).length, 8);
    assert.match(await address(page), /rows-kind=same/);
    await back(page);
    assert.equal(await page.inputValue("#rows-kind"), "all");
    await page.click("#rows-table th button:text-is('Change')");
    assert.match((await rows(page, "rows-table", 1))[0], /^realloc_buffer/, "the largest change comes first");
    await shot(page, "runs", false);
    await page.evaluate(axe);
    for (const colorScheme of ["light", "dark"]) {
      await page.emulateMedia({ colorScheme });
      await page.waitForSelector(`html[data-theme=${colorScheme}]`);
      for (const tab of ["rows", "totals"]) {
        await page.click(`#tab-${tab}`);
        const { violations } = await page.evaluate(() => window.axe.run(document, { resultTypes: ["violations"] }));
        assert.deepEqual(violations.map((v) => `${colorScheme} ${tab}: ${v.id}: ${v.nodes.slice(0, 3).map((n) => n.html.slice(0, 120)).join(" ")}`), []);
      }
      await shot(page, `runs-${colorScheme}`, false);
    }
    assert.deepEqual(await page.locator("#given li").allInnerTexts(), ["failed: count>+5%: count is 9,598, was 9,001 (+6.6 %)"]);
    await done();
    const phone = await open("runs", { viewport: { width: 390, height: 844 }, isMobile: true, hasTouch: true });
    const change = await phone.page.locator("#rows-table tbody td:visible").first().boundingBox();
    assert.ok(change.x + change.width <= 390, `the change is beside the name, not at ${JSON.stringify(change)}`);
    await phone.done();
    const one = await open("oneside", { viewport: { width: 360, height: 740 }, isMobile: true, hasTouch: true });
    assert.match(await text(one.page, "program"), /: 2 runs$/);
    assert.deepEqual(await one.page.locator("#rows-table thead th:visible").allInnerTexts(), ["Function", "Now", "Outcome"]);
    await shot(one.page, "runs-phone");
    await one.page.evaluate(axe);
    assert.deepEqual(await one.page.evaluate(async () => (await window.axe.run(document)).violations.map((v) => v.id)), []);
    await one.done();
    const hostile = await open("hostileruns");
    for (const tab of ["totals", "rows"]) await hostile.page.click(`#tab-${tab}`);
    assert.match(await text(hostile.page, "findings"), /too few runs/);
    assert.equal(await hostile.page.locator("img, iframe, object, embed, link, base").count(), 0);
    await hostile.done();
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
    const { page, done } = await open("mt", { viewport: { width: 390, height: 844 }, isMobile: true, hasTouch: true });
    assert.ok((await page.locator("#flame").boundingBox()).y < 500, "the flame graph begins on the first screen");
    await page.click("#panel-flame .menu summary");
    await page.check("#flame-upside");
    await page.setViewportSize({ width: 360, height: 740 });
    for (const tab of ["flame", "tree", "sites", "leaks", "map", "histograms", "notes"]) {
      await page.click(`#tab-${tab}`);
      await page.evaluate(() => window.scrollTo(0, 0));
      const wide = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
      assert.ok(wide <= 0, `${tab} is ${wide} pixels too wide`);
      await shot(page, `phone-${tab}`);
      if (tab !== "sites") continue;
      const sorted = await page.locator("#sites-table th[aria-sort=descending]").boundingBox();
      assert.ok(sorted.x + sorted.width <= 360, "what sorts is beside the names");
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
      if (id === "flame") break;
    }
    const order = ["theme", "findings", "pools", "threads", "timeline", "tab-flame", "range-from", "plot-what", "flame-what", "flame-search", "flame"];
    assert.deepEqual(reached.filter((id, i) => order.includes(id) && reached.indexOf(id) === i), order);
    assert.equal(await page.evaluate(() => document.querySelectorAll("table:not(:has(caption))").length), 0);
    await done();
  },

  "tabs are walked by keys": async () => {
    const { page, done } = await open("mt");
    await page.focus("#tab-flame");
    for (const tab of ["tree", "sites", "blocks", "leaks", "map", "histograms", "notes", "flame"]) {
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
    if (process.env.STACK) console.error(e.stack);
    for (const context of browser.contexts()) await context.close();
  }
  console.log(JSON.stringify({ name, error }));
}
await browser.close();
