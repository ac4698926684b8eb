"""Traces of figures only: every answer is that of a capture of the same bytes that keeps the events,
or a refusal with its cause."""

import json
import re
import shutil
import subprocess
import unittest

from pagedata import Page
from test_recover import Killed
from tools import TIDEMARK, UNBUILT, WIRE, Case, page_built, run

BUILT = page_built()

REFUSAL = "figures only, no events"
PROGRAM = """
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
static void *keep[64];
__attribute__((noinline)) static void *grow(size_t n) { return malloc(n); }
__attribute__((noinline)) static void churn(int i) { char *p = malloc(100 + i); p[0] = 1; free(p); }
int main(int argc, char **argv)
{
    for (int i = 0; i < (argc > 1 ? atoi(argv[1]) : 20000); i++) {
        if (i % 3 == 0)
            churn(i % 50);
        free(keep[i % 64]);
        keep[i % 64] = grow(16 + i % 1000);
    }
    if (argc > 1) {
        write(1, "done", 4);
        read(0, keep, 1);
    }
    return 0;
}
"""

ANSWERED = [
    ["report", "--format", "json", "--by", by] for by in ("site", "function", "callstack", "type", "pool", "thread")
] + [
    ["report"], ["report", "--recount"], ["report", "--stack-traces"], ["report", "--why-site"],
    ["report", "--format", "csv"], ["report", "--format", "junit", "--fail-if", "peak>100G"],
    ["report", "--fail-if", "count(site=~\"o\")>1000000"],
    ["report", "--format", "json", "--pool", "default"], ["tree", "--pool", "default"],
    ["tree", "--pool", "default", "--format", "json", "--by", "line"],
    ["report", "--histograms", "--pool", "default"],
    ["report", "--histograms", "--pool", "default", "--format", "json"],
    ["csvexport", "--memory-sites"], ["csvexport", "--callstacks"], ["csvexport"],
    ["csvexport", "--messages"],
]
REFUSED = [
    ["report", "--leaks", "--match", "main"], ["report", "--grown", "50ms:50000001ns"],
    ["report", "--patterns", "--size", "1:2"],
    ["report", "--histograms"], ["report", "--faults"], ["report", "--peak"],
    ["report", "--by", "zone"], ["report", "--by", "frame"],
    ["report", "--range", "0:1s"], ["report", "--at", "1ms"], ["report", "--size", "1:2"],
    ["report", "--match", "main"], ["report", "--format", "markdown", "--match", "main"],
    ["tree", "--by", "thread", "--pool", "default"], ["timeline", "--together"],
    ["timeline", "--range", "1ms:1000001ns"], ["timeline", "--match", "main"], ["map"],
    ["csvexport", "--memory"],
]


def by_stack(page):
    """The sums of the page by pool and call stack, of all threads and steps."""
    out, strings = {}, page.data["strings"]
    for _, key, values in page.cells:
        pool, _, stack = page.keys[key]
        node, path = page.stack_nodes[stack], []
        while node:
            node, frame = page.nodes[node]
            path.append(tuple(strings[n] for n in page.data["frames"][frame][:2]))
        sums = out.setdefault((pool, page.stack_sites[stack] and tuple(path)), [0] * 6)
        for i in range(6):
            sums[i] += values[i]
    return out


class PageCase(Case):
    def pages(self):
        """Of self.plain and of self.only, compared."""
        out = []
        for trace in (self.plain, self.only):
            result = run("report", trace, "--format", "html", "-f", "-o", self.dir / "x.html")
            self.assertEqual((result.returncode, result.stderr), (0, ""))
            out.append(Page(self.dir / "x.html"))
        a, b = out
        self.assertEqual((b.steps, a.data["figureStep"]), (1, 0))
        self.assertGreater(b.data["figureStep"], 0)
        self.assertGreater(len(by_stack(a)), 1)
        self.assertEqual(by_stack(a), by_stack(b))
        self.assertEqual(a.figures(0, a.steps), b.figures(0, 1))
        for one, other in zip(a.points(), b.points(), strict=True):
            self.assertEqual(max(p[0] for p in one), max(p[0] for p in other))
            self.assertEqual(one[-1][1:3], other[-1][1:3])
        for key in ("pools", "lines", "answer"):
            self.assertEqual(a.data[key], b.data[key])
        leaks = run("report", self.only, "--leaks").stdout.split("\n")[0]
        self.assertEqual(b.data["leakHead"], leaks)
        self.assertEqual((b.data["pieceCount"], b.data["listedBlocks"], b.data["lifeCount"]), (0, 0, 0))
        return out


class Figures(PageCase):
    def both(self, release="v0.14.0", scenario="memscen", *args):
        recording = WIRE / release / f"{scenario}.c2s.bin"
        self.plain, self.only = self.dir / "plain.tracy", self.dir / "only.tracy"
        a = self.capture(recording, self.plain, *args)
        b = self.capture(recording, self.only, "--figures", *args)
        self.assertEqual((a.returncode, b.returncode), (0, 0), a.stderr + b.stderr)
        return a, b

    def same(self, args, base=None, other=None):
        a, b = run(*args, base or self.plain), run(*args, other or self.only)
        self.assertEqual((a.returncode, a.stdout, a.stderr), (b.returncode, b.stdout, b.stderr), args)
        self.assertIn(a.returncode, (0, 1), (args, a.stderr))

    def refused(self, *args):
        result = run(*args)
        self.assertEqual(result.returncode, 1, (args, result.stdout[:200], result.stderr))
        self.assertIn(REFUSAL, result.stderr, args)

    def test_answers(self):
        for release, scenario in (("v0.14.0", "memscen"), ("v0.14.0", "allscen"),
                                  ("v0.11.1", "memscen")):
            self.both(release, scenario)
            for args in ANSWERED:
                self.same(args)
            self.plain.unlink()
            self.only.unlink()

    def test_timelines(self):
        """Buckets are whole steps: with the same ones, the events give the same document."""
        self.both()
        for args in ([], ["--buckets", "7"], ["--range", "20ms:90ms"], ["--pool", "arena"]):
            got = run("timeline", "--format", "json", *args, self.only)
            self.assertEqual(got.returncode, 0, got.stderr)
            # The last bucket may end behind the trace, where a window of events does not.
            buckets = json.loads(got.stdout)["pools"][0]["buckets"][:-1]
            window = f"{buckets[0]['begin_ns']}ns:{buckets[-1]['end_ns']}ns"
            args = [a for a in args if "pool" in a or a == "arena"]
            self.same(["timeline", "--format", "json", *args, "--range", window, "--buckets",
                       str(len(buckets))])

    def lists(self, *args):
        """The same question of events and of figures: the lists of both documents, and the second."""
        documents = []
        for trace in (self.plain, self.only):
            result = run("report", "--format", "json", "--limit", "0", *args, trace)
            self.assertEqual(result.returncode, 0, result.stderr)
            documents.append(json.loads(result.stdout))
        rows = "leaks" if "--leaks" in args else "sites"
        return documents[0][rows], documents[1][rows], documents[1]

    def test_leaks_growth_and_patterns(self):
        self.both()
        events, figures, _ = self.lists("--leaks")
        self.assertGreater(len(events), 2)
        key = lambda r: (r["pool"], r["function"] or "", r["line"] or 0)
        for a, b in zip(sorted(events, key=key), sorted(figures, key=key), strict=True):
            for row in (a, b):  # of the test for growth, whose buckets are steps
                for name in ("kind", "confidence", "z", "p", "bytes_per_second", "callstack"):
                    del row[name]
            self.assertEqual(a, b)
        _, _, grown = self.lists("--grown", "40ms:1s")
        window = f"{max(grown['from_ns'], 0)}ns:{grown['to_ns']}ns"
        events, figures, grown = self.lists("--grown", window)
        self.assertEqual(int(window.split("ns:")[1][:-2]), grown["to_ns"])
        self.assertGreater(len(events), 0)
        for row in events + figures:
            del row["callstack"]
        self.assertEqual(events, figures)
        events, figures, patterns = self.lists("--patterns")
        self.assertTrue(patterns["by_callstack"])
        for a, b in zip(sorted(events, key=key), sorted(figures, key=key), strict=True):
            for name in ("count", "bytes", "largest", "live_bytes", "peak_bytes", "only_size"):
                self.assertEqual(a[name], b[name], name)
            self.assertEqual(a["glibc_waste"]["bytes"], b["glibc_waste"]["bytes"])

    @unittest.skipUnless(BUILT, UNBUILT)
    def test_the_page(self):
        """Its figures of the whole trace, and those of each call stack, are those of the page of events."""
        for scenario in ("memscen", "allscen"):
            self.both("v0.14.0", scenario, "-f")
            _, b = self.pages()
            self.assertEqual(b.data["threads"], [{"name": "", "id": "0", "rest": 1}])
            result = run("report", self.only, "--format", "html", "--range", "0:1s")
            self.assertEqual((result.returncode, result.stdout), (1, ""))
            self.assertIn(REFUSAL, result.stderr)

    def test_the_summary_of_the_capture(self):
        a, b = self.both()
        tables = [re.split(r"\n\n", result.stdout, maxsplit=1)[1] for result in (a, b)]
        self.assertEqual(*tables)
        self.assertIn("vram_reserve", tables[0])
        self.assertLess(self.only.stat().st_size, self.plain.stat().st_size / 2)

    def test_exports(self):
        self.both()
        for form in ("folded", "speedscope"):
            files = []
            for trace in (self.plain, self.only):
                out, name = self.dir / f"{trace.name}.{form}", self.dir / "x.tracy"
                shutil.copy(trace, name)
                result = run("export", name, "--format", form, "-o", out)
                self.assertEqual(result.returncode, 0, result.stderr)
                files.append(out.read_bytes())
            self.assertEqual(files[0], files[1], form)
        result = run("export", self.only, "--format", "pprof", "-o", self.dir / "out.pprof")
        self.assertEqual(result.returncode, 0, result.stderr)

    def test_differences(self):
        self.both()
        for args in ([self.plain, self.only], [self.only, self.plain], [self.only, self.only]):
            self.assertEqual(run("diff", *args).stdout, run("diff", self.plain, self.plain).stdout)
        self.assertEqual(run("diff", self.plain, self.only, "--fail-if", "peak>+1").returncode, 0)

    def test_refusals(self):
        self.both()
        for args in REFUSED:
            self.refused(*args, self.only)
        self.refused("find", self.only, "0x7f1000000010")
        for form in ("sqlite", "parquet", "tsv", "ndjson", "chrome"):
            self.refused("export", self.only, "--format", form, "-o", self.dir / "out")
        self.refused("merge", self.only, self.plain, "-o", self.dir / "merged")
        self.assert_clean("plain.tracy", "only.tracy")

    def test_a_refusal_replaces_no_file(self):
        self.both()
        out = self.dir / "out"
        for args in (["report", "--at", "1ms"], ["map"], ["tree", "--size", "1:2"]):
            self.refused(*args, self.only, "-o", out)
            self.assertFalse(out.exists())
            out.write_text("older")
            self.refused(*args, self.only, "-f", "-o", out)
            self.assertEqual(out.read_text(), "older")
            out.unlink()

    def test_commands_that_print_records(self):
        self.both()
        for args in (["dump"], ["csvexport", "-u", "-p"]):
            result = run(*args, self.only)
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertIn(REFUSAL, result.stderr)
        points = [line.split(",") for line in result.stdout.splitlines()
                  if line.startswith("memory of pool default")]
        self.assertGreater(len(points), 32)
        (pool,) = [p for p in json.loads(run("report", "--format", "json", self.only).stdout)["pools"]
                   if p["name"] == "default"]
        self.assertEqual(max(float(point[-1]) for point in points), pool["peak_bytes"])

    def test_verify_and_info(self):
        self.both()
        result = run("verify", self.only)
        self.assertEqual(result.returncode, 1)
        self.assertIn("FAILED memory-data: figures only, no events: 9,001 allocations", result.stdout)
        result = run("verify", "--figures-ok", "--expect", "peak>8M", self.only)
        self.assertIn("ok memory-data: figures only, no events: 9,001 allocations", result.stdout)
        self.assertIn("figures only, no events", run("info", self.only).stdout)
        self.assertTrue(json.loads(run("info", "--format", "json", self.only).stdout)["file"]
                        ["figures_only"])
        self.assertNotIn("figures only", run("info", self.plain).stdout)

    def test_rewriting(self):
        self.both()
        out = self.dir / "out.tracy"
        for args in (["-z", "9"], ["--trace-version", "0.11.1"], ["-s", "m"]):
            if args == ["-s", "m"]:
                self.refused("update", *args, self.only, out)
                continue
            self.assertEqual(run("update", *args, self.only, out).returncode, 0)
            self.assertEqual(json.loads(run("report", "--format", "json", out).stdout)["sites"],
                             json.loads(run("report", "--format", "json", self.plain).stdout)["sites"])
        for args in (["-4"], ["--range", "0:1s"], ["--drop-pools", "arena"],
                     ["--trace-version", "0.10.0"]):
            self.refused("update", *args, self.only, out)
        self.assertEqual(run("update", "-s", "M", self.only, out).returncode, 0)
        for args in (["report"], ["verify", "--figures-ok"], ["tree"], ["info"]):
            self.refused(*args, out)
        self.assertEqual(run("csvexport", out).stdout, run("csvexport", self.plain).stdout)

    def test_a_pipe(self):
        self.both()
        result = subprocess.run([TIDEMARK, "report", "-"], input=self.only.read_bytes(),
                                capture_output=True)
        self.assertEqual(result.returncode, 1)
        self.assertIn(b"not from a pipe", result.stderr)

    def test_damage_is_found(self):
        self.both()
        data = bytearray(self.only.read_bytes())
        data[-300] ^= 1
        self.only.write_bytes(data)
        self.refused("report", self.only)

    def test_versions_without_room_behind_the_trace(self):
        recording = WIRE / "v0.14.0" / "memscen.c2s.bin"
        for args in (["--trace-version", "0.10.0"], ["--compression", "lz4"]):
            result = self.capture(recording, self.dir / "out.tracy", "--figures", *args)
            self.assertEqual(result.returncode, 2, result.stdout + result.stderr)
            self.assertIn("--figures", result.stderr)
        self.assert_clean()

    def test_parts(self):
        """Each part has its figures, and the blocks that were live before it."""
        recording, out = WIRE / "v0.14.0" / "memscen.c2s.bin", self.dir / "out.tracy"
        result = self.capture(recording, out, "--figures", "--rotate", "60K")
        self.assertEqual(result.returncode, 0, result.stderr)
        parts = [out] + sorted(self.dir.glob("out.*.tracy"), key=lambda p: int(p.suffixes[0][1:]))
        self.assertGreater(len(parts), 2)
        live = {}
        for part in parts:
            pools = json.loads(run("report", "--format", "json", part).stdout)["pools"]
            for pool in pools:
                key, = pool["pool_ids"]
                self.assertGreaterEqual(pool["allocations"], live.get(key, 0))
                live[key] = pool["live_allocations"]
        self.assertEqual(sorted(live.values()), [2, 10, 182])


class Cut(Killed):
    def test_a_killed_capture(self):
        """kill -9 loses nothing that arrived: the journal says that figures are wanted."""
        self.leave("--figures")
        result = run("recover", self.journal, "-o", self.out)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        figures = json.loads(run("report", "--format", "json", self.out).stdout)
        self.assertEqual(run("verify", self.out).returncode, 1)
        self.out.unlink()
        self.leave()
        self.assertEqual(run("recover", self.journal, "-o", self.out).returncode, 0)
        events = json.loads(run("report", "--format", "json", self.out).stdout)
        self.assertEqual(figures, events)


class Recorded(PageCase):
    def setUp(self):
        super().setUp()
        source, self.program = self.dir / "p.c", self.dir / "p"
        source.write_text(PROGRAM)
        subprocess.run(["cc", "-g", "-O0", "-o", str(self.program), str(source)], check=True)

    def test_run(self):
        out = self.dir / "out.tracy"
        result = run("run", "--figures", "--report", "json", "-o", out, self.program)
        self.assertEqual(result.returncode, 0, result.stderr)
        live = json.loads(result.stdout)
        later = json.loads(run("report", "--format", "json", out).stdout)
        self.assertEqual(live["sites"], later["sites"])
        grow = next(s for s in later["sites"] if s["function"] == "grow")
        self.assertEqual((grow["count"], grow["live_count"]), (20000, 64))
        churn = next(s for s in later["sites"] if s["function"] == "churn")
        self.assertEqual((churn["count"], churn["temporary"]), (6667, 6667))
        self.assertIn("figures only, no events: 26,", run("verify", "--figures-ok", out).stdout)
        self.assertEqual(run("run", "--figures", "--fail-if", "count(site=\"grow\")>19999", "-o",
                             self.dir / "b.tracy", self.program).returncode, 1)

    def test_a_recording_that_was_kept(self):
        out, only = self.dir / "out.tracy", self.dir / "only.tracy"
        result = run("run", "--keep-recording", "--no-resident", "--report", "none", "-o", out,
                     self.program)
        self.assertEqual(result.returncode, 0, result.stderr)
        recording, = self.dir.glob("tidemark-run.*/*.recording")
        for trace, args in ((out, []), (only, ["--figures"])):
            result = run("run", "--recover", recording, "-f", "--report", "none", "-o", trace, *args)
            self.assertEqual(result.returncode, 0, result.stderr)
        for by in ("site", "callstack", "type"):
            a, b = (json.loads(run("report", "--format", "json", "--by", by, t).stdout)
                    for t in (out, only))
            for pool in a["pools"] + b["pools"]:
                del pool["peak_time_ns"]  # two recoveries differ by a nanosecond
            self.assertEqual(a["pools"], b["pools"])
            self.assertEqual(a["sites"], b["sites"])
            self.assertEqual(a.get("groups"), b.get("groups"))

    def killed(self, blocks, *args):
        """The recording of a `run --figures` that was killed when the program had its blocks."""
        command = [TIDEMARK, "run", "--figures", "-f", "-o", str(self.dir / "out.tracy"), *args, "--"]
        with subprocess.Popen([*command, str(self.program), str(blocks)], stdin=subprocess.PIPE,
                              stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as p:
            self.assertEqual(p.stdout.read(4), b"done")
            p.kill()
            p.wait()
            p.stdin.close()
            p.stdout.read()  # to the end of the program
        recording, = self.dir.glob("tidemark-run.*/*.recording")
        return recording

    def recovered(self, recording):
        """The result of the recovery, and the trace's document."""
        out = self.dir / "r.tracy"
        result = run("run", "--recover", recording, "--figures", "-f", "--report", "none", "-o", out)
        shutil.rmtree(recording.parent)
        return result, json.loads(run("report", "--format", "json", out).stdout)

    def test_a_killed_run(self):
        for args in ([], ["--buffer", "64M"]):
            result, doc = self.recovered(self.killed(20000, *args))
            self.assertEqual((result.returncode, doc["trace"]["complete"]), (0, True), result.stderr)
            counts = {s["function"]: (s["count"], s["live_count"], s["temporary"]) for s in doc["sites"]}
            self.assertEqual(counts["grow"][:2], (20000, 64))
            self.assertEqual(counts["churn"], (6667, 0, 6667))

    def test_a_killed_run_that_gave_back(self):
        """What is left of the recording is no trace of the whole program, and the recovery says so."""
        result, doc = self.recovered(self.killed(6000000, "--buffer", "16M"))
        self.assertEqual((result.returncode, doc["trace"]["complete"]), (3, False))
        self.assertIn("had been given back for --buffer", result.stderr)

    @unittest.skipUnless(BUILT, UNBUILT)
    def test_the_page_of_a_run(self):
        page = self.dir / "only.html"
        result = run("run", "--figures", "--report", "html", "-o", self.dir / "only.tracy", self.program)
        self.assertEqual(result.returncode, 0, result.stderr)
        rows = Page(page).figures(0, 1)
        grow = next(row for (_, site), row in rows.items() if site[0] == "grow")
        self.assertEqual((grow["count"], grow["live"]), (20000, 64))

    def test_what_does_not_go_together(self):
        for args in (["--listen"], ["--resident-at", "1"],
                     ["--trace-version", "0.10.0"], ["--compression", "lz4"]):
            result = run("run", "--figures", *args, "--", self.program)
            self.assertEqual(result.returncode, 2, (args, result.stderr))
            self.assertIn("--figures", result.stderr)
