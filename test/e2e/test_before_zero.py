"""Blocks of a program that allocates before its client reads the clock: their times are negative.
A missing free is a state, whatever the times are, in every command that looks at blocks."""

import csv
import json
import sqlite3
import unittest

from clients import capture_items, thread_name
from pagedata import Page
from test_capture import alloc, callstack, free
from tools import UNBUILT, Case, page_built, report, run
from tracyfile import Trace

LIVE = ((0x1000, 100), (0x5000, 7))          # allocated before zero, and after
FREED = ((0x2000, 40), (0x3000, 20), (0x4000, 10))  # before zero, at -1 ns, after zero
LIVE_BYTES = sum(size for _, size in LIVE)


def steps():
    """Times are differences to the step before."""
    def took(delta, ptr, size):
        return callstack(0x401000 + ptr) + alloc(delta, 7, ptr, size)
    return (thread_name(7, b"main") + took(-500, 0x1000, 100) + took(100, 0x2000, 40) +
            free(100, 7, 0x2000) + took(100, 0x3000, 20) + took(100, 0x4000, 10) +
            free(99, 7, 0x3000) + free(51, 7, 0x4000) + took(50, 0x5000, 7))


class BeforeZero(Case):
    def setUp(self):
        super().setUp()
        self.trace = self.dir / "t.tracy"
        result = capture_items(self.trace, steps())
        self.assertEqual(result.returncode, 0, result.stderr)

    def test_figures(self):
        for args in ((), ("--recount",), ("--by", "thread"), ("--by", "callstack")):
            pool = report(self.trace, *args)["pools"][0]
            self.assertEqual((pool["allocations"], pool["frees"], pool["live_allocations"],
                              pool["live_bytes"]), (5, 3, 2, LIVE_BYTES), args)

    def test_leaks_and_budgets(self):
        leaks = json.loads(run("report", self.trace, "--leaks", "--format", "json").stdout)
        self.assertEqual(sorted(leak["live_bytes"] for leak in leaks["leaks"]), [7, 100])
        result = run("report", self.trace, "--fail-if", "leaked>0")
        self.assertEqual(result.returncode, 1, result.stdout)

    def test_blocks(self):
        for ptr, _ in LIVE + FREED:
            found = json.loads(run("find", self.trace, hex(ptr), "--format", "json").stdout)
            self.assertEqual(found["live"], ptr in dict(LIVE), found)
            self.assertEqual(found["allocations"][0]["freed_ns"] is None, ptr in dict(LIVE), found)
        pool = json.loads(run("map", self.trace, "--format", "json").stdout)["pools"][0]
        self.assertEqual(pool["samples"][-1]["blocks"], len(LIVE))

    def test_tables(self):
        rows = list(csv.DictReader(run("csvexport", "--memory", self.trace).stdout.splitlines()))
        freed = {int(row["address"], 16): row["free_ns"] for row in rows}
        self.assertEqual(freed, {0x1000: "", 0x2000: "-300", 0x3000: "0", 0x4000: "50",
                                 0x5000: ""})
        out = self.dir / "t.sqlite"
        self.assertEqual(run("export", self.trace, "--format", "sqlite", "-o", out).returncode, 0)
        count = sqlite3.connect(out).execute(
            "select count(*) from allocations where free_ns is null").fetchone()
        self.assertEqual(count[0], len(LIVE))

    @unittest.skipUnless(page_built(), UNBUILT)
    def test_page(self):
        out = self.dir / "t.html"
        result = run("report", self.trace, "--format", "html", "-o", out)
        self.assertEqual(result.returncode, 0, result.stderr)
        allocs, alloc_bytes, frees, free_bytes = (
            sum(values[i] for _, _, values in Page(out).cells) for i in range(4))
        self.assertEqual((allocs, frees, alloc_bytes - free_bytes), (5, 3, LIVE_BYTES))

    def test_files(self):
        """What another reader, a filter and a merge find."""
        def events(path):
            pool = Trace(path).pools[0]
            self.assertEqual(pool["frees"], sum(row[3] is not None for row in pool["events"]))
            return sorted((row[0], row[2], row[3]) for row in pool["events"])
        expected = [(0x1000, -500, None), (0x2000, -400, -300), (0x3000, -200, 0),
                    (0x4000, -100, 50), (0x5000, 100, None)]
        self.assertEqual(events(self.trace), expected)
        out = self.dir / "updated.tracy"
        self.assertEqual(run("update", self.trace, out).returncode, 0)
        self.assertEqual(events(out), expected)
        self.assertEqual(run("dump", out).stdout, run("dump", self.trace).stdout)
        part = self.dir / "part.tracy"
        self.assertEqual(run("update", "--range", "0:1s", self.trace, part).returncode, 0)
        self.assertEqual(events(part), [block for block in expected if block[0] != 0x2000])


if __name__ == "__main__":
    unittest.main()
