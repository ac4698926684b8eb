// The pictures in docs/img: each view of the page, of the pages of two traces and of several runs, and of the
// daemon's dashboard, in light colours, in dark ones, and on a telephone, as WebP.
//     node screenshots.mjs CHROMIUM FOLDER_OF_MODULES TIDEMARK OUTPUT_FOLDER

import { spawn, spawnSync } from "node:child_process";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { pathToFileURL } from "node:url";

const QUALITY = 25; // WebP
const LIMIT = 120000; // ms
const FORMS = {
  light: { viewport: { width: 1200, height: 640 } },
  dark: { viewport: { width: 1200, height: 640 }, colorScheme: "dark" },
  phone: { viewport: { width: 390, height: 740 }, hasTouch: true, isMobile: true },
};
// The rest of the page's address has the view; `shown` is to be there, `click` leads to the live page.
const VIEWS = {
  dashboard: { page: "daemon", view: "", shown: "#alerts tbody tr" },
  client: { page: "daemon", view: "", shown: "#recording .spark", click: "#recording tbody a" },
  flame: { page: "trace", view: "" },
  tree: { page: "trace", view: "tab=tree" },
  sites: { page: "trace", view: "tab=sites" },
  blocks: { page: "trace", view: "tab=blocks&blocks-show=older-kept&range=220000000-230000000" },
  leaks: { page: "trace", view: "tab=leaks" },
  map: { page: "trace", view: "tab=map" },
  sizes: { page: "trace", view: "tab=histograms" },
  checks: { page: "trace", view: "tab=notes" },
  diff: { page: "diff", view: "" },
  runs: { page: "runs", view: "" },
};

const [executablePath, modules, program, output] = process.argv.slice(2);
const { chromium } = createRequire(join(resolve(modules), "x.js"))("playwright-core");
const folder = mkdtempSync(join(tmpdir(), "tidemark-pictures-"));
const traces = ["v0.14.0/memscen_mt", "v0.13.1/memscen"].map((name) => `fixtures/traces/${name}.tracy`);
const html = (name, ...args) => {
  const path = join(folder, `${name}.html`);
  const { status, stderr } = spawnSync(program, [...args, "--format", "html", "-o", path], { encoding: "utf8" });
  if (status) throw new Error(stderr);
  return pathToFileURL(path).href;
};

// A program of ours until its output has what `pattern` finds.
const running = [];
function start(pattern, ...args) {
  const process = spawn(program, args, { stdio: ["ignore", "pipe", "inherit"] });
  running.push(process);
  let said = "";
  return new Promise((found, failed) => {
    process.stdout.on("data", (data) => {
      said += data;
      const match = pattern.exec(said);
      if (match) found(match[1]);
    });
    process.on("exit", () => failed(new Error(`${args[0]} ended: ${said}`)));
  });
}

// The daemon records a client that goes on, and has the trace of one that has ended.
async function daemon() {
  const recording = "fixtures/wire/v0.14.0/memscen.c2s.bin";
  const port = /:(\d+)/;
  const ports = [await start(port, "replay", recording, "-p", "0", "--rate", "4K"), await start(port, "replay", recording, "-p", "0", "--hold")];
  const at = await start(/Web server: port (\d+)/, "daemon", "-o", folder, "-p", String(20000 + (process.pid % 20000)), "--local", "--http", "127.0.0.1:0", "--alert", "live>100K", ...ports.flatMap((p) => ["--target", `127.0.0.1:${p}`]));
  return `http://127.0.0.1:${at}/`;
}

async function take(browser, name, form, address) {
  const { view, shown, click } = VIEWS[name];
  const context = await browser.newContext(FORMS[form]);
  const page = await context.newPage();
  await page.goto(`${address}#${view}`);
  await page.locator(shown ?? "html[data-ready]").first().waitFor({ state: "attached", timeout: LIMIT });
  if (click) {
    await page.locator(click).first().click();
    await page.frameLocator("#frame iframe").locator("html[data-ready]").waitFor({ state: "attached", timeout: LIMIT });
  }
  await page.waitForTimeout(300); // what is drawn on a canvas
  const session = await context.newCDPSession(page);
  const { data } = await session.send("Page.captureScreenshot", { format: "webp", quality: QUALITY });
  writeFileSync(join(output, `${name}-${form}.webp`), Buffer.from(data, "base64"));
  await context.close();
}

const browser = await chromium.launch({ executablePath, args: ["--no-sandbox"] });
try {
  const pages = { trace: html("trace", "report", traces[0]), diff: html("diff", "diff", traces[1], traces[0]), runs: html("runs", "diff", ...Array(5).fill(traces[1]), "--", ...Array(5).fill(traces[0])), daemon: await daemon() };
  for (const name of Object.keys(VIEWS)) for (const form of Object.keys(FORMS)) await take(browser, name, form, pages[VIEWS[name].page]);
} finally {
  await browser.close();
  for (const process of running.reverse()) {
    process.removeAllListeners("exit");
    const ended = process.exitCode === null && new Promise((done) => process.on("exit", done));
    process.kill("SIGINT");
    await ended;
  }
  rmSync(folder, { recursive: true });
}
