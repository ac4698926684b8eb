"""One verdict on what is never freed: `report --leaks` and the page have the same rows."""

import csv
import json
import subprocess
import unittest

from clients import capture_items, thread_name
from pagedata import Page
from test_capture import alloc, callstack, free
from tools import RELEASES, TRACES, UNBUILT, Case, page_built, run

# 40,000 blocks, one in a thousand of which is freed; a cache that fills and holds more bytes; two sites
# that grow by more bytes, but free a quarter and a twelfth of their blocks; one block that grows by
# realloc; one from the start.
PROGRAM = """
#include <stdlib.h>
#include <unistd.h>
#define SITE __attribute__((noinline)) void *
static void *cache[3000], *kept, *grown;
SITE leak_small(void) { return malloc(24); }
SITE fill_cache(void) { return malloc(4000); }
SITE keep_most(void) { return malloc(6000); }
SITE keep_nearly_all(void) { return malloc(7000); }
SITE grow_block(size_t n) { return grown = realloc(grown, n); }
SITE at_start(void) { return kept = malloc(8u << 20); }
int main(void)
{
    unsigned random = 1, room = 200;
    at_start();
    for (int i = 0; i < 40000; i++) {
        void *volatile p = leak_small();
        if (i % 1000 == 0)
            free(p);
        room += i % 100 == 0 && room < 3000 ? 5 : 0;
        random = random * 1664525 + 1013904223;
        unsigned at = (random >> 8) % room;
        free(cache[at]);
        cache[at] = fill_cache();
        void *volatile most = i % 20 == 0 ? keep_most() : NULL;
        if (i % 80 == 0)
            free(most);
        void *volatile nearly = i % 20 == 0 ? keep_nearly_all() : NULL;
        if (i % 240 == 0)
            free(nearly);
        if (i % 40 == 0)
            grow_block(4096 + 100 * (size_t)i);
        if (i % 200 == 0)
            usleep(1000); /* so that a busy machine does not decide when blocks come */
    }
    return kept == NULL;
}
"""


def leaks_of(trace):
    doc = json.loads(run("report", trace, "--leaks", "--format", "json").stdout)
    return [(row["pool"], row["function"] or "", row["line"] or 0, row["kind"],
             row["confidence"] or "", row["live_count"], row["live_bytes"], row["count"],
             row["first_ns"], row["last_ns"]) for row in doc["leaks"]]


class Verdict(Case):
    def page(self, trace):
        out = self.dir / "page.html"
        result = run("report", trace, "--format", "html", "-f", "-o", out)
        self.assertEqual(result.returncode, 0, result.stderr)
        data = Page(out).data
        texts = data["strings"]
        self.assertEqual(data["leaks"]["count"], sum(r["count"] for r in data["leaks"]["rows"]))
        return [(r["pool"], texts[r["site"][0]] if r["site"] != 2 else "",
                 r["site"][2] if r["site"] != 2 else 0, r["kind"], r["confidence"], r["count"],
                 r["bytes"], r["allocations"], r["first"], r["last"])
                for r in data["leaks"]["rows"]]

    @unittest.skipUnless(page_built(), UNBUILT)
    def test_the_page_has_the_rows_of_the_report(self):
        for release in RELEASES:
            for name in ("memscen", "memscen_mt"):
                trace = TRACES / release / f"{name}.tracy"
                if trace.exists():
                    rows = leaks_of(trace)
                    self.assertEqual(self.page(trace), rows)
                    self.assertEqual([r[1] for r in rows if r[3] == "growing"][0],
                                     "text_grow_log(Rng&)")

    def test_a_planted_leak_leads(self):
        source, program, trace = (self.dir / n for n in ("leak.c", "leak", "leak.tracy"))
        source.write_text(PROGRAM)
        subprocess.run(["gcc", "-O1", "-g", "-fno-optimize-sibling-calls", "-o", program, source],
                       check=True)
        result = run("run", "-o", trace, "--", program)
        self.assertEqual(result.returncode, 0, result.stderr)
        rows = {row[1]: row for row in leaks_of(trace)}
        self.assertEqual(list(rows)[0], "leak_small")
        self.assertEqual(rows["leak_small"][3:8], ("growing", "high", 39960, 959040, 40000))
        self.assertNotEqual(rows["fill_cache"][4], "high")
        self.assertGreater(rows["fill_cache"][6], 959040)
        self.assertEqual(rows["keep_most"][3:8], ("growing", "medium", 1500, 9000000, 2000))
        self.assertEqual(rows["keep_nearly_all"][3:8], ("growing", "medium", 1833, 12831000, 2000))
        self.assertNotEqual(rows["grow_block"][3], "growing")
        self.assertEqual(rows["at_start"][3], "at-start")
        if page_built():
            self.assertEqual(self.page(trace), list(rows.values()))
        lines = run("report", trace, "--leaks").stdout.splitlines()
        self.assertRegex(lines[4], r"39,960 +99.9 % .* high +leak_small \(leak\.c:6\)$")
        table = list(csv.DictReader(run("report", trace, "--leaks", "--format", "csv")
                                    .stdout.splitlines()))
        self.assertEqual((table[0]["function"], table[0]["confidence"]), ("leak_small", "high"))
        lines = run("report", trace, "--leaks", "--format", "markdown").stdout.splitlines()
        self.assertIn("| Kind | Confidence | Where | Pool | Blocks | Never freed | Size | ", lines[5])
        self.assertRegex(lines[7], r"^\| growing \| high \| .*leak_small .* \| 39,960 \| 99\.9 % \|")


class Nothing(Case):
    def test_what_grew_and_was_freed_has_another_question(self):
        out = self.dir / "freed.tracy"
        items = thread_name(7, b"t") + callstack(0x401000) + alloc(10, 7, 0x1000, 64)
        for _ in range(2):
            result = capture_items(out, items, "-f")
            self.assertEqual(result.returncode, 0)
            text = run("report", out, "--leaks").stdout
            self.assertIn("\nsites that grew and were freed: --grown\n", text)
            self.assertRegex(text, "^(nothing is live at the end|1 allocation live at the end \\(64 B\\); none growing)\n")
            items += free(10, 7, 0x1000)

    def test_what_grew_is_seen_without_times(self):
        """From the middle of the time until the highest use to that, or so by the times."""
        out = self.dir / "grows.tracy"
        items = thread_name(7, b"t")
        for i in range(30):
            items += callstack(0x401000) + alloc(1000, 7, 0x1000 + 64 * i, 64)
        for i in range(10):
            items += free(1000, 7, 0x1000 + 64 * i)
        self.assertEqual(capture_items(out, items).returncode, 0)
        for args in ((), ("--leaks",)):
            doc = json.loads(run("report", out, "--grown", *args, "--format", "json").stdout)
            grown = doc["answers"][1] if args else doc
            total = grown["total"]
            self.assertEqual(total["count_after"], 30)
            self.assertIn(total["count_before"], (14, 15, 16))
            times = f"{grown['from_ns']}ns:{grown['to_ns']}ns"
            for given in (["--grown", times], [f"--grown={times}"]):
                again = json.loads(run("report", *given, out, *args, "--format", "json").stdout)
                self.assertEqual(again, doc)
        result = run("report", "--grown", "5:3", out)
        self.assertEqual(result.returncode, 2)
        self.assertIn("not '5:3'", result.stderr)


if __name__ == "__main__":
    unittest.main()
