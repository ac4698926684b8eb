// Bundles the page into one HTML file and writes it as a C source: BUILD/gen/page_template.c.

import { createHash } from "node:crypto";
import { mkdirSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";
import { join, resolve } from "node:path";

const build = resolve(process.argv[2]);
const modules = join(build, "web", "node_modules");
const esbuild = createRequire(join(modules, "x.js"))("esbuild");
const page = readFileSync("web/src/page.html", "utf8");
const [BEFORE_DATA, STYLE, SCRIPT, POLICY] = ["DATA", "STYLE", "SCRIPT", "POLICY"].map((name) => `<!--${name}-->`);

async function bundle(entry) {
  const result = await esbuild.build({
    entryPoints: [entry],
    bundle: true,
    minify: true,
    write: false,
    charset: "utf8",
    format: "iife",
    target: ["chrome103", "firefox115", "safari16.4"],
    nodePaths: [modules],
    legalComments: "none",
    plugins: [licencesModule],
  });
  return result.outputFiles[0].text.trim();
}

// What ends an element must not stand in it.
function inline(text, element) {
  if (new RegExp(`</${element}|<!--`, "i").test(text)) throw new Error(`</${element}> or <!-- in the bundle`);
  return text;
}

const hash = (text) => `'sha256-${createHash("sha256").update(text).digest("base64")}'`;

// The licences of what is bundled ask to be kept with it: all packages of the lock file but those
// that only building needs. `import licences from "licences"` gives them.
function licences() {
  const lock = JSON.parse(readFileSync("web/package-lock.json", "utf8"));
  const names = Object.entries(lock.packages).filter(([path, p]) => path.startsWith("node_modules/") && !p.dev).map(([path]) => path.slice("node_modules/".length));
  return names.map((name) => {
    const { version, license } = JSON.parse(readFileSync(join(modules, name, "package.json"), "utf8"));
    return { name, version, license, text: readFileSync(join(modules, name, "LICENSE"), "utf8") };
  });
}

const licencesModule = {
  name: "licences",
  setup(builder) {
    builder.onResolve({ filter: /^licences$/ }, () => ({ path: "licences", namespace: "licences" }));
    builder.onLoad({ filter: /.*/, namespace: "licences" }, () => ({ contents: JSON.stringify(licences()), loader: "json" }));
  },
};

function cString(text) {
  const bytes = Buffer.from(text, "utf8");
  const lines = [];
  for (let i = 0; i < bytes.length; i += 72) {
    let line = "";
    for (const b of bytes.subarray(i, i + 72)) {
      const plain = b >= 0x20 && b < 0x7f && b !== 0x22 && b !== 0x5c && b !== 0x3f;
      line += plain ? String.fromCharCode(b) : `\\${b.toString(8).padStart(3, "0")}`;
    }
    lines.push(`    "${line}"`);
  }
  return [lines.join("\n"), bytes.length];
}

const script = inline(await bundle("web/src/main.js"), "script");
const style = inline(await bundle("web/src/style.css"), "style");
const policy = ["default-src 'none'", `script-src ${hash(script)}`, `style-src ${hash(style)}`, "base-uri 'none'", "form-action 'none'"].join("; ");
const whole = page.replace(POLICY, () => policy).replace(STYLE, () => style).replace(SCRIPT, () => script);
const [head, tail] = whole.split(BEFORE_DATA);
if (tail === undefined) throw new Error(`${BEFORE_DATA} is not in web/src/page.html`);

const [headText, headSize] = cString(head);
const [tailText, tailSize] = cString(tail);
mkdirSync(join(build, "gen"), { recursive: true });
writeFileSync(
  join(build, "gen", "page_licences.txt"),
  `The page of tidemark report --format html contains:\n${licences().map((l) => `\n---- ${l.name} ${l.version} (${l.license})\n\n${l.text.trim()}\n`).join("")}`,
);
const target = join(build, "gen", "page_template.c");
writeFileSync(`${target}.tmp`, `/* Made by web/build.mjs. */

#include "report/html/html_template.h"

static const char head[] =
${headText};

static const char tail[] =
${tailText};

const struct page_template page_template = {head, ${headSize}, tail, ${tailSize}};
`);
renameSync(`${target}.tmp`, target);
