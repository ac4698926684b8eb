// How long a page takes, in ms from the start of its loading: until something is painted, and until
// all of it is there. Prints {"paint", "ready"}.
//     node first_paint.mjs CHROMIUM FOLDER_OF_MODULES PAGE

import { createRequire } from "node:module";
import { join, resolve } from "node:path";
import { pathToFileURL } from "node:url";

const [executablePath, modules, file] = process.argv.slice(2);
const { chromium } = createRequire(join(resolve(modules), "x.js"))("playwright-core");
const browser = await chromium.launch({ executablePath, args: ["--no-sandbox"] });
const page = await browser.newPage({ viewport: { width: 1280, height: 900 } });
await page.goto(pathToFileURL(resolve(file)).href, { waitUntil: "commit" });
await page.waitForFunction(() => document.documentElement.dataset.ready, null, { polling: 10 });
const times = await page.evaluate(() => ({ paint: performance.getEntriesByName("first-contentful-paint")[0].startTime, ready: performance.now() }));
console.log(JSON.stringify(times));
await browser.close();
