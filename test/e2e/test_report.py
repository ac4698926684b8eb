"""`tidemark report`: figures against what the programs counted, the formats, the options, and files
that are no traces or damaged ones."""

import contextlib
import csv
import io
import json
import os
import random
import re
import subprocess

import check_truth
from clients import alloc_plain, capture_items, frame_name, pack, string, thread_name
from test_capture import TERMINATE, FakeClient, alloc, callstack, frame, free
from tools import RELEASES, TIDEMARK, TRACES, WIRE, Case, report, run
from tracyfile import decompress

MEMSCEN = TRACES / "v0.14.0" / "memscen.tracy"
EVERYTHING = TRACES / "v0.14.0" / "allscen_sys.tracy"
VERDICT = ("17,808 memory events in 3 pools: 9,001 allocations (75.5 MiB), 8,807 frees; "
           "194 still live (320 KiB); peak 8.00 MiB in pool default")

# What others build on: the keys of the design, letter for letter.
KEYS = {
    "": ["answer", "callstacks", "checks", "faults", "pools", "schema", "sites", "trace"],
    "trace": ["captured_at", "complete", "duration_ns", "file_version", "program"],
    "pools": ["allocations", "counted", "frees", "high_address", "live_allocations", "live_bytes",
              "low_address", "name", "peak_bytes", "peak_time_ns", "permanent_allocations",
              "permanent_bytes", "pool_ids",
              "temporary_allocations", "total_bytes"],
    "sites": ["at_peak_bytes", "bytes", "callstack", "count", "file", "function", "image", "line",
              "live_bytes", "live_count", "peak_bytes", "pool", "temporary", "type"],
    "checks": ["detail", "holds", "name", "remedy"],
    "frame": ["address", "file", "function", "image", "inline", "line"],
}
COLUMNS = ["pool", "name", "function", "file", "line", "image", "type", "count", "bytes",
           "live_count", "live_bytes", "peak_bytes", "at_peak_bytes", "temporary"]
SORTS = {"size": "bytes", "count": "count", "live": "live_bytes", "peak": "peak_bytes",
         "at-peak": "at_peak_bytes", "temporary": "temporary"}


def text(trace, *args):
    result = run("report", trace, *args)
    if result.returncode != 0:
        raise AssertionError(result.stderr)
    return result.stdout


def rows_of_csv(trace, *args):
    return list(csv.DictReader(io.StringIO(text(trace, "--format", "csv", *args))))


class Figures(Case):
    def test_truth_of_every_release(self):
        for release in RELEASES:
            truth = json.loads((WIRE / release / "memscen.truth.json").read_text())
            for name in ("memscen", "wire_memscen"):
                with self.subTest(release=release, name=name):
                    doc = report(TRACES / release / f"{name}.tracy", "--by", "function")
                    check = check_truth.compare(doc, truth)
                    self.assertGreater(check.compared, 200)
                    self.assertEqual(check.differences, [])
                    self.assertEqual(doc["trace"]["program"], "memscen")
                    self.assertTrue(doc["trace"]["complete"])

    def test_the_formats_agree(self):
        for trace in (MEMSCEN, TRACES / "v0.9.1" / "allscen.tracy", EVERYTHING):
            doc, rows = report(trace), rows_of_csv(trace)
            self.assertEqual(len(doc["sites"]), len(rows))
            for site, row in zip(doc["sites"], rows):
                for key in ("count", "bytes", "live_count", "live_bytes", "peak_bytes",
                            "at_peak_bytes", "temporary"):
                    self.assertEqual(site[key], int(row[key]))
                for key in ("pool", "function", "file", "image"):
                    self.assertEqual(site[key] or "", row[key])
            for grouping in ("function", "callstack", "pool", "thread"):
                groups = report(trace, "--by", grouping)["groups"]
                self.assertEqual(sum(g["bytes"] for g in groups),
                                 sum(s["bytes"] for s in doc["sites"]))

    def test_keys(self):
        for trace in [TRACES / r / n for r in RELEASES for n in ("memscen.tracy", "allscen.tracy")]:
            doc = report(trace)
            self.assertEqual(sorted(doc), KEYS[""])
            self.assertEqual(doc["schema"], "tidemark.report/1")
            self.assertEqual(sorted(doc["trace"]), KEYS["trace"])
            for part in ("pools", "sites", "checks"):
                self.assertTrue(doc[part])
                for item in doc[part]:
                    self.assertEqual(set(item) - {"name"}, set(KEYS[part]) - {"name"})
            for site in doc["sites"]:
                for each in site["callstack"]:
                    self.assertEqual(sorted(each), KEYS["frame"])
            self.assertEqual(sorted(report(trace, "--by", "thread")), sorted(KEYS[""] + ["groups"]))

    def test_faults(self):
        out = self.dir / "x.tracy"
        items = thread_name(7, b"main") + frame_name(0x401000, b"leak", b"a.c", 3)
        items += callstack(0x401000) + alloc(10, 7, 0x1000, 64)
        items += callstack(0x401000) + alloc(10, 7, 0x1000, 32)
        self.assertEqual(capture_items(out, items).returncode, 0)
        fault, = report(out)["faults"]
        self.assertEqual(sorted(fault), ["callstack", "count", "count_least", "kind", "pool", "samples"])
        self.assertEqual((fault["kind"], fault["count"], fault["count_least"]),
                         ("allocated-twice", 1, 1))
        self.assertEqual(fault["samples"][0]["address"], "0x1000")
        self.assertIn("Memory faults\n  allocated-twice: 0x1000 in pool default, at leak (a.c:3)",
                      text(out))

    def test_a_trace_on_standard_input(self):
        with open(MEMSCEN, "rb") as file:
            result = subprocess.run([TIDEMARK, "report", "-"], stdin=file, stdout=subprocess.PIPE,
                                    text=True, check=True)
        self.assertEqual(result.stdout, text(MEMSCEN))


class Text(Case):
    def test_the_verdict_comes_first(self):
        for release in RELEASES:
            lines = text(TRACES / release / "memscen.tracy").splitlines()
            self.assertEqual(lines[0], VERDICT)
            self.assertRegex(lines[1], r"^peak 8\.00 MiB in pool default at \d")
            self.assertEqual(lines[2], "")
            self.assertRegex(lines[3], r"^Pool +Allocations +Frees ")

    def test_the_answer_names_who_owned_the_peak(self):
        """Three sites of the highest pool with their shares, the same in text, JSON and Markdown."""
        for trace in (MEMSCEN, TRACES / "v0.14.0" / "memscen_mt.tracy", EVERYTHING):
            for args in ([], ["--pool", "default"], ["--thread", "Main thread"]):
                doc = report(trace, *args)
                answer = doc["answer"]
                self.assertEqual(text(trace, *args, "--limit", "1").splitlines()[1], answer)
                pool = max(doc["pools"], key=lambda p: p["peak_bytes"])
                sites = sorted((s for s in doc["sites"]
                                if s["pool"] == pool["name"] and s["at_peak_bytes"]),
                               key=lambda s: -s["at_peak_bytes"])
                shares = re.findall(r"[:,] ([\d.]+) % at ", answer)
                wanted = [s["at_peak_bytes"] for s in sites[:3]]
                if len(sites) > 3:
                    wanted.append(pool["peak_bytes"] - sum(wanted))
                    self.assertIn(f" at {len(sites) - 3} other site", answer)
                self.assertEqual(len(shares), len(wanted), answer)
                for share, bytes_then in zip(shares, wanted):
                    self.assertAlmostEqual(float(share), 100 * bytes_then / pool["peak_bytes"],
                                           delta=0.11)
                for site in sites[:3]:
                    if site["file"]:
                        self.assertIn(f"({site['file'].split('/')[-1]}:{site['line']})", answer)

    def test_a_failed_check_has_its_remedy(self):
        trace = self.dir / "x.tracy"
        run("update", "-s", "M", MEMSCEN, trace)
        for check in report(MEMSCEN)["checks"]:
            self.assertEqual((check["holds"], check["remedy"]), (True, None))
        self.assertIsNone(report(trace)["answer"])
        items = alloc(1, 10, 0x1000, 64) + alloc(2, 10, 0x1000, 64)
        self.assertEqual(capture_items(trace, items, "-f").returncode, 0)
        failed = [c for c in report(trace)["checks"] if not c["holds"]]
        self.assertEqual([c["name"] for c in failed], ["call-stacks", "no-faults"])
        for check in failed:
            self.assertIn(f"note: {check['detail']}; {check['remedy']}\n", text(trace))

    def test_no_memory_data(self):
        for release in RELEASES:
            stripped = self.dir / release
            run("update", "-s", "M", TRACES / release / "memscen.tracy", stripped)
            self.assertRegex(text(stripped), r"^no memory data: the trace has no memory event, but "
                             r"\d+ call stacks beginning in the client's memory functions; possible")
            doc = report(stripped)
            self.assertEqual((doc["pools"], doc["sites"]), ([], []))
            self.assertFalse(next(c for c in doc["checks"] if c["name"] == "memory-data")["holds"])

    def test_stack_traces(self):
        plain = text(MEMSCEN)
        stacks = text(MEMSCEN, "--stack-traces")
        self.assertNotIn("__libc_start_call_main", plain)
        self.assertIn("__libc_start_call_main", stacks)
        self.assertIn("    926 allocations, 39.4 MiB\n", stacks)
        kept = [line for line in stacks.splitlines() if not line.startswith("    ")]
        self.assertEqual(kept, [line for line in plain.splitlines() if not line.startswith("    ")])
        self.assertIn("__libc_start_call_main", text(MEMSCEN, "--by", "callstack"))

    def test_limit(self):
        shown = text(MEMSCEN, "--limit", 3)
        self.assertIn("13 more sites are not shown", shown)
        self.assertIn("vram_reserve", shown)
        self.assertNotIn("decode_pixels", shown)
        self.assertNotIn("more sites", text(MEMSCEN, "--limit", 0))


class Options(Case):
    def test_sort(self):
        for key, field in SORTS.items():
            values = [row[field] for row in report(MEMSCEN, "--sort", key)["sites"]]
            self.assertEqual(values, sorted(values, reverse=True), key)
        # Text has the order of the sentence above it.
        self.assertEqual(text(MEMSCEN), text(MEMSCEN, "--sort", "at-peak"))
        self.assertNotEqual(text(MEMSCEN), text(MEMSCEN, "--sort", "size"))
        self.assertEqual(text(MEMSCEN, "--by", "zone"), text(MEMSCEN, "--by", "zone", "--sort", "size"))
        live = report(MEMSCEN, "--sort", "at-peak")["sites"]
        same = [row["bytes"] for row in live if row["at_peak_bytes"] == 0]
        self.assertEqual(same, sorted(same, reverse=True))
        names = [row["name"] for row in rows_of_csv(MEMSCEN, "--sort", "name")]
        self.assertEqual(names, sorted(names))

    def test_by(self):
        self.assertEqual({g["name"] for g in report(MEMSCEN, "--by", "pool")["groups"]},
                         {"default", "arena", "gpu.vram"})
        threads = report(TRACES / "v0.14.0" / "memscen_mt.tracy", "--by", "thread")["groups"]
        self.assertGreaterEqual(len({g["name"] for g in threads}), 4)
        self.assertNotIn("groups", report(MEMSCEN, "--by", "site"))

    def test_threads_of_one_name(self):
        out = self.dir / "x.tracy"
        items = thread_name(7, b"prog") + thread_name(8, b"prog") + thread_name(9, b"worker")
        for time, thread in enumerate((7, 8, 9)):
            items += alloc_plain(10 + time, thread, 0x1000 * thread, 64)
        self.assertEqual(capture_items(out, items).returncode, 0)
        self.assertEqual({g["name"] for g in report(out, "--by", "thread")["groups"]},
                         {"prog (7)", "prog (8)", "worker"})

    def test_least(self):
        everything = report(MEMSCEN)["sites"]
        for args, wanted in ((("--min-size", "1M"), lambda s: s["bytes"] >= 1 << 20),
                             (("--min-size", "565760"), lambda s: s["bytes"] >= 565760),
                             (("--min-count", "181"), lambda s: s["count"] >= 181),
                             (("--min-count", "182", "--min-size", "0.1M"),
                              lambda s: s["count"] >= 182 and s["bytes"] >= 104857)):
            got = report(MEMSCEN, *args)["sites"]
            self.assertEqual(got, [s for s in everything if wanted(s)], args)
            self.assertTrue(0 < len(got) < len(everything))
        self.assertEqual(report(MEMSCEN, "--limit", "4")["sites"], everything[:4])
        self.assertEqual(report(MEMSCEN, "--limit", "0")["sites"], everything)

    def test_pool(self):
        whole = report(MEMSCEN)
        for pool in ("default", "arena", "gpu.vram"):
            doc = report(MEMSCEN, "--pool", pool)
            self.assertEqual(doc["pools"], [p for p in whole["pools"] if p["name"] == pool])
            self.assertEqual(doc["sites"], [s for s in whole["sites"] if s["pool"] == pool])
        result = run("report", MEMSCEN, "--pool", "vram")
        self.assertEqual((result.returncode, result.stdout), (2, ""))
        self.assertIn("no pool is called 'vram'; the trace has: default, gpu.vram, arena",
                      result.stderr)

    def test_skip(self):
        before, after = report(MEMSCEN), report(MEMSCEN, "--skip", "^realloc_buffer")
        self.assertIn("realloc_buffer", [s["function"] for s in before["sites"]])
        self.assertNotIn("realloc_buffer", [s["function"] for s in after["sites"]])
        self.assertEqual(before["pools"], after["pools"])
        self.assertEqual(sum(s["bytes"] for s in before["sites"]),
                         sum(s["bytes"] for s in after["sites"]))
        twice = report(MEMSCEN, "--skip", "^realloc_buffer", "--skip", "/ms_render\\.cpp$")
        self.assertFalse([s for s in twice["sites"] if (s["file"] or "").endswith("ms_render.cpp")])

    def test_wrong_arguments(self):
        for args in ((), ("a", "b"), (MEMSCEN, "--by", "size"), (MEMSCEN, "--sort", "bytes"),
                     (MEMSCEN, "--min-size", "big"), (MEMSCEN, "--min-count", "-1"),
                     (MEMSCEN, "--limit", "x"), (MEMSCEN, "--skip", "("), (MEMSCEN, "--pool"),
                     (MEMSCEN, "--format", "xml"), (MEMSCEN, "--nothing"),
                     (MEMSCEN, "--memory", "1023K"), (MEMSCEN, "--memory", "some")):
            with self.subTest(args):
                result = run("report", *args)
                self.assertEqual((result.returncode, result.stdout), (2, ""))
                self.assertNotEqual(result.stderr, "")


class Output(Case):
    def test_the_file_holds_what_would_be_printed(self):
        for form in ("text", "json", "csv"):
            out = self.dir / form
            result = run("report", MEMSCEN, "--format", form, "--output", out)
            self.assertEqual((result.returncode, result.stdout, result.stderr), (0, "", ""))
            self.assertEqual(out.read_text(), text(MEMSCEN, "--format", form))
        self.assert_clean("csv", "json", "text")

    def test_an_existing_file(self):
        out = self.dir / "x"
        out.write_text("precious")
        result = run("report", MEMSCEN, "--output", out)
        self.assertEqual(result.returncode, 4)
        self.assertIn("exists", result.stderr)
        self.assertEqual(out.read_text(), "precious")
        self.assertEqual(run("report", MEMSCEN, "--output", out, "-f").returncode, 0)
        self.assertEqual(out.read_text(), text(MEMSCEN))
        self.assertEqual(run("report", self.dir / "none", "--output", out, "-f").returncode, 3)
        self.assertEqual(out.read_text(), text(MEMSCEN))
        self.assert_clean("x")

    def test_where_nothing_can_be_written(self):
        result = run("report", MEMSCEN, "--output", self.dir / "no" / "x")
        self.assertEqual(result.returncode, 4)
        with open("/dev/full", "w", encoding="ascii") as full:
            result = subprocess.run([TIDEMARK, "report", str(MEMSCEN)], stdout=full,
                                    stderr=subprocess.PIPE, text=True, check=False)
        self.assertEqual(result.returncode, 4)
        self.assertIn("No space left", result.stderr)


class Memory(Case):
    """--memory: what is beyond it waits in a file, and no figure changes."""

    blocks = 60_000  # a megabyte of frees to come

    def setUp(self):
        super().setUp()
        self.trace = self.dir / "x.tracy"
        order = list(range(self.blocks))
        random.Random(1).shuffle(order)
        items = [callstack(0x401000 + 16 * (i % 9)) + alloc(3, 7, 0x100000 + 64 * i, 8 + i % 5000)
                 for i in range(self.blocks)]
        items += [free(2 + i % 3, 7, 0x100000 + 64 * i) for i in order[:-10]] + [TERMINATE]
        frames = b"".join(frame(b"".join(items[i : i + 1000])) for i in range(0, len(items), 1000))
        client = FakeClient(frames)
        with contextlib.closing(client.socket):
            result = run("capture", "-o", self.trace, "-p", client.port, "--connect-timeout", 120,
                         "--no-summary")
        client.thread.join(timeout=10)
        self.assertEqual(result.returncode, 0, result.stderr)

    def test_the_figures_are_the_same(self):
        doc = report(self.trace)
        self.assertEqual([(p["allocations"], p["frees"]) for p in doc["pools"]],
                         [(self.blocks, self.blocks - 10)])
        self.assertEqual(sum(s["live_count"] for s in doc["sites"]), 10)
        for question in ((), ("--by", "callstack"), ("--by", "thread"), ("--leaks",),
                         ("--patterns",)):
            with self.subTest(question):
                self.assertEqual(text(self.trace, "--format", "json", *question),
                                 text(self.trace, "--format", "json", "--memory", "1M", *question))

    def test_there_is_a_file(self):
        """Frees to come are in it: without --memory none is needed, or it could not be made."""
        nowhere = {**os.environ, "TMPDIR": str(self.dir / "nowhere")}
        self.assertEqual(run("report", self.trace, env=nowhere).returncode, 0)
        self.assertEqual(run("report", self.trace, "--memory", "64M", env=nowhere).returncode, 0)
        result = run("report", self.trace, "--memory", "1M", env=nowhere)
        self.assertEqual((result.returncode, result.stdout), (4, ""))
        self.assertIn("cannot make a temporary file", result.stderr)


class Names(Case):
    """What a hostile client calls its pools, functions, files and threads."""

    evil = b"\x1b]0;owned\x07\x1b[2J\0\x7f\r\n\xc2\x9b31m\xff\xe2\x80\xaegnp,\"=cmd\""

    def setUp(self):
        super().setUp()
        self.trace = self.dir / "x.tracy"
        evil = self.evil
        items = thread_name(7, evil) + string(0xbeef, evil) + alloc_plain(5, 7, 0x9000, 8, 0xbeef)
        items += frame_name(0x401000, evil, evil, 3, evil) + callstack(0x401000)
        items += alloc(10, 7, 0x1000, 64) + callstack(0x401000) + alloc(10, 7, 0x1000, 64)
        result = capture_items(self.trace, items)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.harmless(result.stdout + result.stderr)

    def harmless(self, output, ends="\n"):
        for char in output:
            code = ord(char)
            self.assertTrue(char in ends or 0x20 <= code < 0x7f or code >= 0xa0, repr(output))

    def test_text(self):
        for args in ((), ("--stack-traces",), ("--by", "thread"), ("--by", "callstack"),
                     ("--by", "pool"), ("--by", "function")):
            output = text(self.trace, *args)
            self.harmless(output)
            self.assertNotIn("\u202e", output)
        self.harmless(run("info", self.trace).stdout)
        self.harmless(run("verify", self.trace, "--pool", "none").stdout)
        self.harmless(run("report", self.trace, "--pool", "none").stderr)

    def test_csv(self):
        output = text(self.trace, "--format", "csv")
        self.harmless(output, "\r\n")
        rows = list(csv.DictReader(io.StringIO(output, newline="")))
        self.assertEqual([sorted(row) for row in rows], [sorted(COLUMNS)] * 2)

    def test_json(self):
        for args in (("report", "--by", "thread"), ("info",), ("verify",)):
            result = run(args[0], self.trace, "--format", "json", *args[1:])
            self.harmless(result.stdout)
            json.loads(result.stdout)
        names = {p["name"] for p in report(self.trace)["pools"]}
        self.assertIn(self.evil.decode(errors="replace"), names)

    def test_machine_formats(self):
        well_formed = self.dir / "y.tracy"
        name = b"\xc2\x9b31m\x1b[31m"
        capture_items(well_formed, thread_name(7, name) + frame_name(0x401000, name, name, 3, name) +
                      callstack(0x401000) + alloc(10, 7, 0x1000, 64))
        for args in (("dump", "--format", "jsonl", "--all"),
                     *(("export", "--format", form) for form in ("speedscope", "chrome", "folded")),
                     *(("export", "--format", form, "--table", "frame_functions")
                       for form in ("tsv", "ndjson"))):
            for trace in (self.trace, well_formed):
                result = run(args[0], trace, *args[1:])
                self.assertEqual(result.returncode, 0, result.stderr)
                self.harmless(result.stdout, "\n\t")


class Damage(Case):
    """A clear message and exit status 3 where something is wrong, never a crash."""

    def refused(self, path, expected, commands=("report", "info", "verify")):
        for command in commands:
            result = run(command, path)
            self.assertEqual((result.returncode, result.stdout), (3, ""), result.stderr)
            self.assertRegex(result.stderr, expected)
            self.assertIn(str(path), result.stderr)

    def test_unreadable(self):
        self.refused(self.dir / "missing", "No such file")
        self.refused(self.dir, "Is a directory")
        for name, data in (("empty", b""), ("short", b"tr\xfd"), ("junk", os.urandom(4000)),
                           ("elf", b"\x7fELF" + bytes(100)), ("magic", b"tr\xfdP\x01\x04")):
            path = self.dir / name
            path.write_bytes(data)
            self.refused(path, "trace|end|block|file")

    def test_truncated(self):
        for release in RELEASES:
            data = (TRACES / release / "allscen.tracy").read_bytes()
            for cut in (7, 100, len(data) // 3, len(data) // 2, len(data) - 1):
                path = self.dir / "cut"
                path.write_bytes(data[:cut])
                self.refused(path, r"block \d+", commands=("report",))

    def test_truncated_inside(self):
        """Every block is whole, the stream in them ends early: the message names the record."""
        inner = decompress(EVERYTHING.read_bytes())
        for part in range(1, 20):
            path = self.dir / "cut"
            path.write_bytes(pack(inner[: len(inner) * part // 20]))
            self.refused(path, r"(\w+ )+[\d,]+ of [\d,]+, offset [\d,]+ of the uncompressed stream",
                         commands=("report",))

    def test_flipped_bits(self):
        chance = random.Random(20)
        files = [(TRACES / r / "allscen.tracy").read_bytes() for r in RELEASES]
        inner = decompress(EVERYTHING.read_bytes())
        refused = 0
        for i in range(120):
            data = bytearray(files[i % len(files)] if i % 2 else inner)
            for _ in range(chance.choice((1, 1, 4, 30))):
                data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
            path = self.dir / "flipped"
            path.write_bytes(data if i % 2 else pack(bytes(data)))
            result = run("report", path, "--format", "json")
            self.assertIn(result.returncode, (0, 3), f"round {i}: {result.stderr}")
            if result.returncode == 3:
                refused += 1
                self.assertEqual(result.stdout, "")
                self.assertTrue(re.search(r"offset|no Tracy trace|version", result.stderr) or
                                str(path) in result.stderr, result.stderr)
            else:
                json.loads(result.stdout)
        self.assertGreater(refused, 40)
