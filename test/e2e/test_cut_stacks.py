"""Call stacks with more frames than are recorded: they hang under one node that says so, and their
share is stated."""

import json
import subprocess
import unittest

from clients import capture_items, thread_name
from exported import Pprof
from pagedata import Page
from test_capture import alloc, callstack
from tools import Case, page_built, report, run

LEVELS = 40
PROGRAM = """
#include <stdlib.h>
static void *kept[64];
__attribute__((noinline)) void level(int n)
{
    kept[n] = malloc(1000);
    if (n > 1)
        level(n - 1);
    __asm__ volatile("" ::: "memory");
}
int main(void)
{
    level(%d);
    return kept[1] == NULL;
}
"""


def roots(trace, *args):
    doc = json.loads(run("tree", trace, "--format", "json", *args).stdout)
    return {node["name"]: node["inclusive"]["count"] for node in doc["nodes"]
            if node["parent"] is None}


class Recorded(Case):
    def record(self, *args):
        source, program = self.dir / "levels.c", self.dir / "levels"
        source.write_text(PROGRAM % LEVELS)
        subprocess.run(["gcc", "-O1", "-g", "-fno-optimize-sibling-calls", "-o", program, source],
                       check=True)
        trace = self.dir / "out.tracy"
        result = run("run", "-f", "-o", trace, *args, "--", program)
        self.assertEqual(result.returncode, 0, result.stderr)
        return trace, result

    def test_default_depth(self):
        trace, result = self.record()
        self.assertEqual(report(trace)["callstacks"],
                         {"allocations": LEVELS, "with_callstack": LEVELS, "cut": 0, "cut_bytes": 0,
                          "cut_is_at_least": False, "cut_depth": None})
        self.assertEqual(roots(trace), {"_start": LEVELS})
        self.assertIn("40 allocations", result.stderr)
        self.assertNotIn("cut at", result.stderr)

    def test_share_and_node(self):
        cut = {}
        for depth in (10, 20):
            trace, result = self.record("--depth", depth)
            stacks = report(trace)["callstacks"]
            cut[depth] = stacks["cut"]
            self.assertEqual(stacks["cut_bytes"], 1000 * stacks["cut"])
            self.assertEqual((stacks["cut_depth"], stacks["cut_is_at_least"]), (depth, False))
            node = f"[cut at {depth} frames]"
            for args in ((), ("--by", "image"), ("--by", "file")):
                found = roots(trace, *args)
                self.assertEqual(found[node], stacks["cut"], args)
                self.assertEqual(len(found), 2)
            percent = f"{100 * stacks['cut'] / LEVELS:.1f} %"
            told = (f"call stacks of {percent} of allocations ({percent} of bytes) are cut at "
                    f"{depth} frames")
            for text in (result.stderr, run("info", trace).stdout, run("report", trace).stdout):
                self.assertIn(told, text)
            if page_built():
                out = self.dir / "page.html"
                self.assertEqual(run("report", trace, "--format", "html", "-f", "-o", out)
                                 .returncode, 0)
                self.assertIn(told, Page(out).data["verdict"])
                self.assertIn(node, json.dumps(Page(out).data))
        # Each level has one block and one frame more.
        self.assertEqual(cut[10] - cut[20], 10)

    def test_other_tools(self):
        """A later run of `symbols`, a rewrite and a merge keep what the frame says."""
        trace, _ = self.record("--depth", 10)
        cut = report(trace)["callstacks"]["cut"]
        self.assertEqual(run("symbols", trace).returncode, 0)
        merged = self.dir / "merged.tracy"
        second = self.dir / "second.tracy"
        self.assertEqual(run("update", trace, second).returncode, 0)
        trace, _ = self.record("--depth", 20)
        self.assertEqual(run("merge", "-o", merged, second, trace).returncode, 0)
        found = roots(merged)
        self.assertEqual(found["[cut at 10 frames]"], cut)
        self.assertEqual(found["[cut at 20 frames]"], cut - 10)
        self.assertIn("are cut at 10 frames or more", run("report", merged).stdout)

    def test_limits(self):
        self.assertEqual(run("run", "--depth", 256, "--", "true").returncode, 2)
        trace, _ = self.record("--depth", 255)
        self.assertEqual(roots(trace), {"_start": LEVELS})


class Clients(Case):
    """Tracy's clients do not say that they cut a call stack."""

    def stacks(self, depth, levels=18):
        trace = self.dir / "t.tracy"
        items = thread_name(7, b"main")
        for n in range(1, levels + 1):
            frames = [0x401000 + 16 * i for i in range(n, -1, -1)][:depth]
            items += callstack(*frames) + alloc(10, 7, 0x1000 * n, 100)
        result = capture_items(trace, items, "-f")
        self.assertEqual(result.returncode, 0, result.stderr)
        return trace, result.stdout

    def test_proof(self):
        trace, told = self.stacks(10)
        stacks = report(trace)["callstacks"]
        self.assertEqual((stacks["cut"], stacks["cut_bytes"], stacks["cut_depth"]), (9, 900, 10))
        self.assertTrue(stacks["cut_is_at_least"])
        self.assertIn("call stacks of at least 50.0 % of allocations (50.0 % of bytes) are cut "
                      "at 10 frames", told)
        self.assertEqual(roots(trace)["[cut at 10 frames]"], 9)
        self.assertEqual(len(roots(trace)), 2)
        if not page_built():
            return
        out = self.dir / "page.html"
        self.assertEqual(run("report", trace, "--format", "html", "-o", out).returncode, 0)
        page = Page(out)
        names = [page.data["strings"][page.data["frames"][frame][0]]
                 for parent, frame in page.nodes[1:] if parent == 0]
        self.assertEqual(sorted(names), ["", "[cut at 10 frames]"])

    def test_exports(self):
        """The outermost frame of each call stack that is cut, as in the tree."""
        trace, _ = self.stacks(10)
        node = "[cut at 10 frames]"
        folded, packed, scope = (self.dir / n for n in ("t.folded", "t.pb.gz", "t.json"))
        for name, out in (("folded", folded), ("pprof", packed), ("speedscope", scope)):
            self.assertEqual(run("export", trace, "--format", name, "-o", out).returncode, 0)
        lines = [line.rsplit(" ", 1)[0].split(";") for line in folded.read_text().splitlines()]
        self.assertEqual([stack[0] == node for stack in lines].count(True), 9)
        self.assertEqual({len(stack) for stack in lines if stack[0] == node}, {11})
        self.assertEqual(sum(stack[-1] == node for _, stack, _ in Pprof(packed).samples), 9)
        doc = json.loads(scope.read_text())
        number = [frame["name"] for frame in doc["shared"]["frames"]].index(node)
        self.assertEqual(sum(stack[0] == number for stack in doc["profiles"][0]["samples"]), 9)
        trace, _ = self.stacks(30)
        self.assertEqual(run("export", trace, "--format", "folded", "-o", folded, "-f").returncode, 0)
        self.assertNotIn("[cut", folded.read_text())

    def test_no_proof(self):
        for depth, levels in ((30, 18), (7, 8)):
            trace, told = self.stacks(depth, levels)
            self.assertEqual(report(trace)["callstacks"]["cut"], 0)
            self.assertNotIn("cut at", told)
            self.assertEqual(len(roots(trace)), 1)


if __name__ == "__main__":
    unittest.main()
