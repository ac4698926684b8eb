"""`diff` of programs that were edited and built again: lines shift, stripped programs have no names."""

import csv
import io
import json
import shutil
import subprocess
import unittest

from tools import TRACES, Case, run

MEMSCEN = TRACES / "v0.13.1" / "memscen.tracy"
MT = TRACES / "v0.14.0" / "memscen_mt.tracy"

SOURCE = """#include <stdlib.h>
{above}
void *volatile keep[100000];
int kept;
void *volatile gone;
void other(int n) {{ for (int i = 0; i < n; i++) keep[kept++] = malloc(64); }}
void work(int n)
{{
    for (int i = 0; i < n; i++) {{
        void *first = gone = malloc(100);
        {leak}
        void *second = gone = malloc(200);
        if (n > 60) {{ {rare} }}
        free(second);
        free(first);
    }}
    other(n);
}}
void one(int n) {{ work(n); kept++; }}
void two(int n) {{ work(n); kept++; }}
int main(int argc, char **argv) {{ one(50); two(argc > 1 ? atoi(argv[1]) : 50); return 0; }}
"""


@unittest.skipUnless(shutil.which("gcc") and shutil.which("strip"), "no gcc or strip")
class Rebuilt(Case):
    def built(self, name, above="", leak="", rare=";"):
        folder = self.dir / name
        folder.mkdir()
        source = SOURCE.format(above=above, leak=leak, rare=rare)
        (folder / "svc.c").write_text(source)
        subprocess.run(["gcc", "-g", "-O0", "-Wl,--build-id", "-o", folder / "svc", "svc.c"],
                       cwd=folder, check=True)
        return folder / "svc", source.splitlines()

    def recorded(self, program, *args):
        out = program.with_name(f"{len(list(program.parent.iterdir()))}.tracy")
        result = run("run", "-o", out, "--", program, *args)
        self.assertEqual(result.returncode, 0, result.stderr)
        return out

    def rows(self, base, now, *args):
        result = run("diff", base, now, "--format", "json", *args)
        self.assertEqual(result.returncode, 0, result.stderr)
        return json.loads(result.stdout)["rows"]

    def line_of(self, source, text):
        return next(i for i, line in enumerate(source, 1) if text in line)

    def test_a_leak_of_blocks_that_were_freed_before(self):
        """It changes no allocation: the text points to the metric that has a row for it."""
        base, _ = self.built("base", leak="gone = malloc(300); free(gone);")
        now, _ = self.built("now", leak="keep[kept++] = malloc(300);")
        traces = self.recorded(base), self.recorded(now)
        self.assertRegex(run("diff", *traces).stdout, r"\n\d rows did not change in bytes; "
                                                      "--metric live compares what is live\n")
        text = run("diff", *traces, "--metric", "live").stdout
        self.assertIn("Grown: 1 site, by live", text)
        self.assertRegex(text, r"\n\d rows did not change in live\n")

    def test_growth_within_a_function(self):
        """The line that leaks is new, and no other; the call stack is one that reaches it."""
        base, before = self.built("base")
        now, after = self.built("now", "/* two */\n/* lines */", "keep[kept++] = malloc(300);")
        traces = self.recorded(base), self.recorded(now, "80")
        rows = self.rows(*traces, "--metric", "live")
        leak, other = rows
        self.assertEqual((leak["kind"], leak["function"], leak["line"], leak["base_line"]),
                         ("new", "work", self.line_of(after, "malloc(300)"), None))
        self.assertEqual(leak["now"]["live_bytes"], 130 * 300)
        self.assertEqual(leak["callstack"][0]["line"], leak["line"])
        self.assertEqual((other["kind"], other["function"], other["line"], other["base_line"]),
                         ("grown", "other", self.line_of(after, "malloc(64)"),
                          self.line_of(before, "malloc(64)")))
        self.assertFalse(leak["unsure"] or other["unsure"])
        # The caller that does more now.
        self.assertEqual(other["callstack"][2]["function"], "two")
        rows = {row["line"]: row for row in self.rows(*traces) if row["function"] == "work"}
        for size in (100, 200):
            row = rows[self.line_of(after, f"malloc({size})")]
            self.assertEqual((row["kind"], row["base"]["bytes"], row["now"]["bytes"],
                              row["base_line"]),
                             ("grown", 100 * size, 130 * size,
                              self.line_of(before, f"malloc({size})")))

    def test_call_stacks(self):
        base, _ = self.built("base")
        now, after = self.built("now", "/* a line */", "keep[kept++] = malloc(300);")
        rows = self.rows(self.recorded(base), self.recorded(now), "--by", "callstack")
        self.assertEqual([(row["kind"], row["line"]) for row in rows],
                         [("new", self.line_of(after, "malloc(300)"))] * 2)
        self.assertEqual({row["callstack"][1]["function"] for row in rows}, {"one", "two"})

    def test_one_build(self):
        """A line that only one run reaches is new: its neighbours keep their numbers."""
        program, source = self.built("base", rare="keep[kept++] = malloc(200);")
        traces = self.recorded(program), self.recorded(program, "70")
        rows = {row["line"]: row for row in self.rows(*traces) if row["function"] == "work"}
        rare = self.line_of(source, "if (n > 60)")
        self.assertEqual({line: row["kind"] for line, row in rows.items()},
                         {rare: "new", rare - 1: "grown", rare - 3: "grown"})
        subprocess.run(["strip", program], check=True)
        traces = self.recorded(program), self.recorded(program, "70")
        rows = self.rows(*traces)
        self.assertEqual(sorted((row["kind"], row["unsure"], row["now"]["count"]) for row in rows),
                         [("grown", False, 120)] * 3 + [("new", False, 70)])
        self.assertTrue(all(row["function"].startswith("svc+0x") for row in rows))

    def test_stripped_and_built_again(self):
        """Offsets have changed: places are matched by what they do, and that is said."""
        base, _ = self.built("base")
        now, _ = self.built("now", leak="keep[kept++] = malloc(300);")
        for program in (base, now):
            subprocess.run(["strip", program], check=True)
        traces = self.recorded(base), self.recorded(now, "80")
        rows = self.rows(*traces)
        self.assertEqual([(row["kind"], row["base"] and row["base"]["bytes"], row["now"]["bytes"],
                           row["unsure"]) for row in rows],
                         [("new", None, 130 * 300, True), ("grown", 20000, 26000, True),
                          ("grown", 10000, 13000, True), ("grown", 6400, 8320, True)])
        text = run("diff", *traces).stdout
        self.assertIn("4 rows with places that have no name", text)
        self.assertRegex(text, r"svc\+0x[0-9a-f]+, before: svc\+0x[0-9a-f]+")
        table = list(csv.DictReader(io.StringIO(run("diff", *traces, "--format", "csv").stdout)))
        self.assertEqual([row["unsure"] for row in table], ["1"] * 4)


class Repeated(Case):
    def test_each_time_the_same_document(self):
        """Call stacks of equal change are chosen by their order, not by a hash of random seed."""
        folder = TRACES / "v0.10"
        documents = {run("diff", folder / "allscen_sys.tracy", folder / "memscen.tracy",
                         "--format", "json").stdout for _ in range(8)}
        self.assertEqual(len(documents), 1)


class Sentence(Case):
    def test_the_sentence(self):
        """Its parts from the rows and the pools of the JSON; the text begins with it."""
        def ask(*args):
            doc = json.loads(run("diff", *args, "--format", "json").stdout)
            self.assertEqual(run("diff", *args).stdout.split("\n")[0], doc["answer"])
            return doc
        for metric, key in (("bytes", "bytes"), ("count", "count"), ("live", "live_bytes")):
            doc = ask(MEMSCEN, MT, "--metric", metric)
            figure = lambda row, side: row[side][key] if row[side] else 0
            changes = sorted((abs(figure(r, "now") - figure(r, "base")) for r in doc["rows"]),
                             reverse=True)
            most = max(doc["rows"], key=lambda r: abs(figure(r, "now") - figure(r, "base")))
            self.assertEqual(doc["answer"].count(" at "), 4 + (metric == "live"), doc["answer"])
            self.assertRegex(doc["answer"], "; peak 8.00 MiB in pool default, as before$")
            first = doc["answer"].split(": ")[1].split(", ")[0]
            self.assertIn(f"at {most['function'].split('(')[0]}", first)
            self.assertEqual(first[0], "+" if figure(most, "now") > figure(most, "base") else "-")
            self.assertIn(f"at {len(changes) - 3} other sites", doc["answer"])
        same = ask(MT, MT)["answer"]
        self.assertEqual(same, "allocated 71.7 MiB, as before; "
                               "peak 8.00 MiB in pool default, as before")
        self.assertRegex(ask(MEMSCEN, MT, "--metric", "peak")["answer"],
                         "^peak 8.00 MiB in pool default, as before: [^;]* other sites$")


if __name__ == "__main__":
    unittest.main()
