"""`tidemark merge`: what comes out is the union of what went in, told apart by names, in order of
time, whatever the inputs' versions and their order; and nothing comes out when something is
wrong."""

import bisect
import collections
import csv
import io
import json
import os
import re
import struct
import subprocess

from clients import capture_items, string
from test_capture import TERMINATE, FakeClient, alloc, callstack, frame, free
from tracyparts import Parts
from tools import LIMIT, RELEASES, TIDEMARK, TRACES, WIRE, Case, report, run

ALLSCEN = TRACES / "v0.14.0" / "allscen.tracy"
SYS = TRACES / "v0.14.0" / "allscen_sys.tracy"
OLD = TRACES / "v0.9.1" / "memscen.tracy"
MT = TRACES / "v0.14.0" / "memscen_mt.tracy"

# What two traces may have in common, or of which there is one in a trace.
SHARED = {"allocated-source-locations", "source-locations", "strings", "topology", "trace",
          "frame-images", "thread-names"}
TIMES = ("time", "start", "end", "free_time", "cpu_start", "cpu_end", "gpu_start", "gpu_end",
         "wakeup", "announced", "terminated")


def lines(trace, *args):
    result = run("dump", trace, *args)
    if result.returncode != 0:
        raise AssertionError(result.stderr)
    return result.stdout.splitlines()


def kinds(trace):
    return collections.Counter(line.split(" ", 1)[0] for line in lines(trace))


def events(trace, section, keys, shift=0):
    """The lines of a section, but only these keys, times earlier by `shift`."""
    found = collections.Counter()
    for line in lines(trace, "--section", section, "--format", "jsonl"):
        record = json.loads(line)
        row = [record["section"]]
        for key in keys:
            value = record.get(key)
            row.append(value + shift if key in TIMES and value is not None else value)
        found[tuple(map(str, row))] += 1
    return found


def zone_counts(trace):
    result = run("csvexport", trace)
    counts = collections.Counter()
    for row in csv.DictReader(io.StringIO(result.stdout)):
        counts[row["name"], row["src_file"], row["src_line"]] += int(row["counts"])
    return counts


def pool_figures(trace):
    return collections.Counter(
        tuple(pool[key] for key in ("allocations", "frees", "live_allocations", "live_bytes",
                                    "peak_bytes", "total_bytes", "low_address", "high_address"))
        for pool in report(trace)["pools"] if pool["allocations"])


class Merge(Case):
    def merge(self, *args, **kwargs):
        result = run("merge", *args, **kwargs)
        self.assertEqual(result.returncode, 0, result.stderr)
        return result


class One(Merge):
    def test_one_input_stays_as_it_is(self):
        for release in RELEASES:
            for path in sorted((TRACES / release).glob("*.tracy")):
                with self.subTest(path):
                    out = self.dir / "out"
                    self.merge("-f", out, path)
                    self.assertEqual(lines(out), lines(path))


class Union(Merge):
    CASES = ((ALLSCEN, OLD), (SYS, ALLSCEN, OLD), (MT, SYS), (ALLSCEN, ALLSCEN))
    SECTIONS = {
        "memory": ("time", "address", "size", "free_time"),
        "zones": ("start", "end", "name", "function", "line", "text", "depth"),
        "messages": ("time", "text", "color", "severity"),
        "locks": ("type", "announced", "valid", "function", "line"),
        "lock-events": ("time", "event"),
        "gpu-zones": ("cpu_start", "cpu_end", "gpu_start", "gpu_end", "name", "line"),
        "plot-points": ("time", "value"),
        "samples": ("time",),
        "context-switches": ("wakeup", "start", "end", "cpu", "reason", "state"),
        "symbols": ("name", "file", "line", "size"),
    }

    def check(self, inputs, out, shifts):
        for section, keys in self.SECTIONS.items():
            union = collections.Counter()
            for path, shift in zip(inputs, shifts):
                union += events(path, section, keys, shift)
            self.assertEqual(events(out, section, keys), union, section)

    def test_events_are_those_of_the_inputs(self):
        for inputs in self.CASES:
            with self.subTest(inputs):
                out = self.dir / "out"
                shifts = [0] + [(i + 1) * 1500 for i in range(len(inputs) - 1)]
                offsets = [arg for i, shift in enumerate(shifts[1:], 2)
                           for arg in ("--offset", f"{i}={shift}")]
                self.merge("-f", *offsets, out, *inputs)
                self.check(inputs, out, shifts)
                union = sum((kinds(path) for path in inputs), collections.Counter())
                merged = kinds(out)
                for kind in set(union) - SHARED - {"frame-sets", "pools", "app-info"}:
                    self.assertEqual(merged[kind], union[kind], kind)

    def test_figures_are_those_of_the_inputs(self):
        for inputs in self.CASES:
            with self.subTest(inputs):
                out = self.dir / "out"
                self.merge("-f", "--align", "begin", out, *inputs)
                self.assertEqual(zone_counts(out),
                                 sum((zone_counts(path) for path in inputs),
                                     collections.Counter()))
                self.assertEqual(pool_figures(out),
                                 sum((pool_figures(path) for path in inputs),
                                     collections.Counter()))
                self.assertEqual(run("verify", out).returncode, 0)

    def test_order_of_the_arguments_does_not_matter(self):
        one, other = self.dir / "one", self.dir / "other"
        self.merge(one, ALLSCEN, OLD, SYS)
        self.merge(other, SYS, ALLSCEN, OLD)
        self.assertEqual(lines(one, "--all"), lines(other, "--all"))

    def test_what_was_merged_can_be_merged(self):
        first, second, at_once = self.dir / "first", self.dir / "second", self.dir / "at-once"
        self.merge("--align", "begin", first, ALLSCEN, MT)
        self.merge("--align", "begin", second, first, SYS)
        self.merge("--align", "begin", at_once, ALLSCEN, MT, SYS)
        self.assertEqual(zone_counts(second), zone_counts(at_once))
        self.assertEqual(pool_figures(second), pool_figures(at_once))
        self.check((first, SYS), second, (0, 0))

    def test_every_version(self):
        for version in ("0.9.1", "0.10.0", "0.11.1", "0.12.2", "0.13.1", "0.14.0"):
            with self.subTest(version):
                out = self.dir / "out"
                self.merge("-f", "--align", "begin", "--trace-version", version, out, SYS, OLD)
                info = json.loads(run("info", out, "--format", "json").stdout)
                self.assertEqual(info["file"]["version"], version)
                whole = self.dir / "whole"
                self.merge("-f", "--align", "begin", whole, SYS, OLD)
                self.assertEqual(lines(out, "--common", version),
                                 lines(whole, "--common", version))

    def test_newest_version_of_the_inputs(self):
        out = self.dir / "out"
        self.merge(out, OLD, TRACES / "v0.11.1" / "memscen.tracy")
        info = json.loads(run("info", out, "--format", "json").stdout)
        self.assertEqual(info["file"]["version"], "0.11.1")


class Telling(Merge):
    """Apart what has one name in several programs."""

    def test_names(self):
        out = self.dir / "out"
        self.merge("--align", "begin", out, ALLSCEN, TRACES / "v0.9.1" / "allscen.tracy")
        threads = [json.loads(line) for line in
                   run("dump", out, "--section", "thread-names", "--format",
                       "jsonl").stdout.splitlines()]
        names = [thread["name"] for thread in threads]
        self.assertTrue(all(re.search(r" \(allscen\[\d+\]\)$", name) for name in names), names)
        self.assertEqual(len({thread["thread"] for thread in threads}), len(threads))
        pools = {pool["name"] for pool in report(out)["pools"]}
        self.assertEqual(len([name for name in pools if name.startswith("pool A (allscen[")]), 2)
        self.assertEqual(len([name for name in pools if name.startswith("default")]), 2)

    def test_same_program_twice(self):
        """Not even process ids differ, nor threads, pointers, addresses."""
        out = self.dir / "out"
        self.merge(out, MT, MT)
        threads = [json.loads(line)["thread"] for line in
                   run("dump", out, "--section", "threads", "--format",
                       "jsonl").stdout.splitlines()]
        self.assertEqual(len(set(threads)), len(threads))
        names = [pool["name"] for pool in report(out)["pools"]]
        self.assertEqual(len(set(names)), len(names))
        self.assertTrue(any(name.endswith("#1)") for name in names), names)

    def test_facts_of_the_inputs_are_not_those_of_the_whole(self):
        trace, out = self.dir / "trace", self.dir / "out"
        self.assertEqual(self.capture(WIRE / "v0.14.0" / "memscen.c2s.bin", trace).returncode, 0)
        self.merge(out, trace, OLD)
        facts = "\n".join(line for line in lines(out, "--all") if "tidemark." in line)
        self.assertIn("tidemark.merged=1|", facts)
        self.assertIn("|protocol=", facts)
        self.assertNotIn("tidemark.protocol=", facts)
        self.assertNotIn("tidemark.end=", facts)

    def test_faults_stay_with_their_pools(self):
        trace, out = self.dir / "trace", self.dir / "out"
        body = frame(callstack(0x401000) + alloc(10, 7, 0x1000, 64) + free(10, 7, 0x2000) +
                     callstack(0x402000) + alloc(10, 7, 0x1000, 32) + free(10, 7, 0x1000) +
                     TERMINATE)
        client = FakeClient(body)
        try:
            result = run("capture", "-o", trace, "-p", client.port, "--connect-timeout", LIMIT)
        finally:
            client.end()
        self.assertEqual(result.returncode, 0, result.stderr)
        before = report(trace)["faults"]
        self.assertEqual(len(before), 2)
        for n, shift in ((1, -5000), (2, 5000)):
            # First or second: the pool is "default" or is named after its program.
            self.merge("-f", "--offset", f"2={shift}", out, OLD, trace)
            after = report(out)["faults"]
            self.assertEqual(len(after), 2)
            for old, new in zip(before, after):
                self.assertEqual(old["kind"], new["kind"])
                self.assertEqual(old["count"], new["count"])
                self.assertEqual(new["pool"].split(" ")[0], "default")
                self.assertEqual("(" in new["pool"], n == 2)
                times = [sample["time_ns"] for sample in old["samples"]]
                self.assertEqual([sample["time_ns"] - max(shift, 0) for sample in new["samples"]],
                                 times)


class Images(Merge):
    """Frame images of all inputs are with frames of the base set, in its order."""

    @staticmethod
    def base_frames(trace, shift=0):
        frames = [json.loads(line) for line in
                  lines(trace, "--section", "frames", "--format", "jsonl")]
        return [(f["start"] + shift, f.get("image")) for f in frames if "set" not in f]

    @staticmethod
    def expected(base, others):
        """The frame that lasts when an image is taken has it, or the next, or none."""
        starts = [start for start, _ in base]
        images = [image for _, image in base]
        lost = 0
        for start, image in sorted((f for frames in others for f in frames if f[1]),
                                   key=lambda f: f[0]):
            at = bisect.bisect_right(starts, start) - 1
            places = [i for i in (at, at + 1) if at >= 0 and i < len(images) and not images[i]]
            if places:
                images[places[0]] = image
            else:
                lost += 1
        return list(zip(starts, images)), lost

    def check(self, inputs, shifts):
        out = self.dir / "out"
        offsets = [arg for i, shift in enumerate(shifts[1:], 2)
                   for arg in ("--offset", f"{i}={shift}")]
        result = self.merge("-f", *offsets, out, *inputs)
        base, *others = [self.base_frames(path, shift) for path, shift in zip(inputs, shifts)]
        expected, lost = self.expected(base, others)
        self.assertEqual(self.base_frames(out), expected)
        left_out = sum(int(n) for n in re.findall(r": (\d+) frame images are left out",
                                                  result.stderr))
        self.assertEqual(left_out, lost)
        trace = Parts(out)
        numbers = [frame[2] for frame in trace.frame_sets[0][2] if frame[2] >= 0]
        self.assertEqual(numbers, list(range(len(trace.images))))
        return lost

    def test_images_of_all_inputs(self):
        older = TRACES / "v0.10" / "allscen.tracy"
        self.assertEqual(self.check((ALLSCEN, SYS), (0, 1000)), 0)
        self.check((ALLSCEN, SYS, older), (0, 7, 1000000))
        self.assertEqual(self.check((ALLSCEN, ALLSCEN), (0, 5)), 0)
        lost = self.check((ALLSCEN, ALLSCEN, ALLSCEN), (0, 5, 6))
        self.assertGreater(lost, 0)

    def test_images_beside_the_base_set(self):
        """They have no frame there when it begins later, and the last when it ends earlier."""
        base = self.base_frames(ALLSCEN)
        late = base[-1][0]
        self.assertGreater(self.check((ALLSCEN, SYS), (0, late)), 0)
        self.assertGreater(self.check((ALLSCEN, SYS, SYS), (0, 0, late)), 0)

    def test_base_set_is_of_an_input_with_images(self):
        """The base set is of an input that has images, whatever begins first."""
        out = self.dir / "out"
        result = self.merge("--offset", "2=1ms", out, OLD, ALLSCEN)
        self.assertNotIn("images", result.stderr)
        self.assertEqual(self.base_frames(out), self.base_frames(ALLSCEN, 1000000))


class Crashes(Merge):
    def test_only_one_is_the_trace_s(self):
        """The others are facts, and said."""
        out = self.dir / "out"
        paths = [self.dir / name for name in ("early", "late")]
        for path, time in zip(paths, (100, 200)):
            items = string(0x9000, b"SIGSEGV %d" % time) + struct.pack("<BqQ", 65, time, 0x9000)
            self.assertEqual(capture_items(path, items).returncode, 0)
        result = self.merge("--offset", "2=1ms", out, *paths)
        self.assertIn(f"{paths[1]}: its crash becomes a fact", result.stderr)
        self.assertNotIn(f"{paths[0]}: its crash", result.stderr)
        crashes = [json.loads(line) for line in
                   lines(out, "--section", "crash", "--format", "jsonl")]
        self.assertEqual([crash["message"] for crash in crashes], ["SIGSEGV 100"])
        time = Parts(paths[1]).crash[1] + 10**6
        self.assertTrue(any(f"tidemark.crash=2|{time}|0|0|SIGSEGV 200" in line
                            for line in lines(out, "--all")))


class Refusing(Merge):
    def test_damaged_input_leaves_no_output(self):
        whole = ALLSCEN.read_bytes()
        bad, out = self.dir / "bad", self.dir / "out"
        for size in (0, 3, 100, len(whole) // 2, len(whole) - 1):
            bad.write_bytes(whole[:size])
            result = run("merge", out, OLD, bad)
            self.assertEqual(result.returncode, 3, result.stderr)
            self.assertIn(str(bad), result.stderr)
            self.assert_clean("bad")

    def test_existing_output_stays(self):
        out = self.dir / "out"
        out.write_text("old")
        self.assertEqual(run("merge", out, OLD, ALLSCEN).returncode, 4)
        self.assertEqual(out.read_text(), "old")
        self.merge("-f", out, OLD, ALLSCEN)
        self.assertGreater(out.stat().st_size, 1000)

    def test_times_beyond_the_clock(self):
        out = self.dir / "out"
        for offset in ("39.5h", "-39.5h"):
            result = run("merge", "--offset", f"2={offset}", out, ALLSCEN, OLD)
            self.assertEqual(result.returncode, 3, result.stderr)
            self.assertIn("48", result.stderr)
        self.assert_clean()

    def test_usage(self):
        out = self.dir / "out"
        for args in ((), (out,), ("--offset", "3=1s", out, OLD, ALLSCEN),
                     ("--offset", "2", out, OLD, ALLSCEN), ("--align", "no", out, OLD),
                     ("--offset", "1=soon", out, OLD), (out, "-", OLD, "-")):
            self.assertEqual(run("merge", *args).returncode, 2, args)
        self.assert_clean()

    def test_missing_input(self):
        result = run("merge", self.dir / "out", OLD, self.dir / "none")
        self.assertEqual(result.returncode, 3)
        self.assert_clean()


class Offsets(Merge):
    def test_negative_offset_puts_the_input_first(self):
        out = self.dir / "out"
        self.merge("--offset", "2=-1ms", out, ALLSCEN, OLD)
        keys = ("time", "address", "size")
        self.assertEqual(events(out, "memory", keys),
                         events(ALLSCEN, "memory", keys, 1000000) + events(OLD, "memory", keys))

    def test_epoch(self):
        out = self.dir / "out"
        self.merge(out, OLD, ALLSCEN)
        facts = [line for line in lines(out, "--all") if "tidemark.merged=" in line]
        fields = [re.search(r'merged=(.*?)"', line)[1].split("|") for line in facts]
        seconds = int(fields[1][5]) - int(fields[0][5])
        self.assertEqual(int(fields[1][3]), seconds * 10**9)


class DropIn(Merge):
    def tool(self, *args):
        name = self.dir / "tracy-merge"
        if not name.exists():
            os.symlink(TIDEMARK, name)
        return subprocess.run([name, *map(str, args)], stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True, timeout=LIMIT,
                              stdin=subprocess.DEVNULL)

    def test_words_and_statuses(self):
        out = self.dir / "out"
        result = self.tool("-o", out, OLD, ALLSCEN)
        self.assertEqual(result.returncode, 0, result.stderr)
        for words in (f"Reading: {OLD}", "Merging 2 trace(s)...", "  Total zones: ",
                      "  Total messages: ", "  Total threads: ", f"Writing: {out}",
                      "Done. Output size: "):
            self.assertIn(words, result.stdout)
        result = self.tool("-o", out, OLD)
        self.assertEqual(result.returncode, 1)
        self.assertIn(f"Error: Output file already exists: {out}\nUse -f to overwrite",
                      result.stderr)
        self.assertEqual(self.tool("--output", out, "--force", OLD).returncode, 0)
        self.assertEqual(self.tool(OLD).returncode, 1)
        self.assertEqual(self.tool("-o", self.dir / "x").returncode, 1)
        self.assertEqual(self.tool("-o", self.dir / "x", self.dir / "none").returncode, 1)
        self.assertEqual(self.tool("--help").returncode, 1)
        self.assertTrue(self.tool("-V").stdout.startswith("tracy-merge"))
