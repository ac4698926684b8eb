// The pictures of the page in docs/img.
//     node screenshots.mjs CHROMIUM FOLDER_OF_MODULES PAGE OUTPUT_FOLDER

import { createRequire } from "node:module";
import { join, resolve } from "node:path";
import { pathToFileURL } from "node:url";

// The rest of the address has the view.
const PICTURES = {
  report: { view: "flame-what=total&flame-color=file", size: [1440, 720] },
  "report-tree": { view: "tab=tree&tree-sort=bytes", size: [1440, 720], colorScheme: "dark" },
};

const [executablePath, modules, file, output] = process.argv.slice(2);
const { chromium } = createRequire(join(resolve(modules), "x.js"))("playwright-core");
const browser = await chromium.launch({ executablePath, args: ["--no-sandbox"] });
for (const [name, { view, size: [width, height], ...options }] of Object.entries(PICTURES)) {
  const page = await browser.newPage({ viewport: { width, height }, ...options });
  await page.goto(`${pathToFileURL(resolve(file)).href}#${view}`);
  await page.waitForSelector("html[data-ready]");
  await page.screenshot({ path: join(output, `${name}.png`) });
}
await browser.close();
