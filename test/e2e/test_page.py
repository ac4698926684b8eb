"""`tidemark report --format html`: the figures in the page against other reports of the same trace,
its bounds, and that nothing in a trace becomes part of the document. What a browser makes of it is
in test/web/page_test.mjs, which runs when Chromium and the test's packages are there
(`make deps-test-full`)."""

import collections
import csv
import html.parser
import io
import json
import random
import re
import shutil
import struct
import subprocess
import unittest

from clients import alloc_plain, capture_items, frame_name, string, thread_name
from pagedata import Page, Reader
from test_capture import alloc, callstack
from test_run_memory import plots
from tools import (BUILD, FIREHOSE, LIMIT, RELEASES, ROOT, TIDEMARK, TRACES, UNBUILT, WIRE, Case,
                   page_built, replaying, report, run, wait_until)

MT = TRACES / "v0.14.0" / "memscen_mt.tracy"
ALL = TRACES / "v0.14.0" / "allscen.tracy"
SOURCE = TRACES / "v0.12.2" / "allscen_sys.tracy"
BUILT = page_built()
RSS = 3 << 62  # the key of the plot "RSS anonymous": trace/store/kernel_plot.h
HOSTILE = ('</script><script>alert(1)</script>', '"><img src=x onerror=alert(2)>', "' onload='x",
           "<!--", "\u2028\u2029", "{{7*7}}", "${7*7}", "&lt;b&gt;", "a\nb\tc", "\u202edcba\u2066",
           "javascript:alert(3)", "]]>", "\\u003cscript\\u003e", "naïve 漢字 🌊")


def make_page(trace, output, *args):
    result = run("report", trace, "--format", "html", "-o", output, *args)
    if result.returncode != 0:
        raise AssertionError(result.stderr)
    return Page(output)


def readings_in(notes):
    """How many readings are in the file beside a recording: run/kernel_notes.h."""
    data, at, found = notes.read_bytes(), 0, 0
    while at + 8 <= len(data):
        kind, size = struct.unpack_from("<II", data, at)
        at += 8 + size
        found += kind == 0 and at <= len(data)
    return found


def record_resident(trace):
    """A program that keeps every second of many small blocks, and 24 MiB, for some readings of what the
    kernel counts: the first of them looks at its pages. The 24 MiB come last: a look while memory still
    grows finds the small blocks."""
    command = [TIDEMARK, "run", "-f", "-o", trace, "--report", "none", "--no-debuginfod", "--",
               "/usr/bin/python3", "-c",
               "y = [bytearray(1000) for _ in range(16000)][::2]\n"
               "x = bytearray(b'x') * (24 << 20); print('', flush=True); input()"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE) as process:
        process.stdout.readline()
        notes, = trace.parent.glob("tidemark-run.*/*.kernel")
        before = readings_in(notes)
        wait_until(lambda: readings_in(notes) >= before + 5)
        _, said = process.communicate(b"\n", timeout=LIMIT)
    if process.returncode != 0:
        raise AssertionError(said)


def events_of(trace):
    result = run("csvexport", trace, "--memory")
    return list(csv.DictReader(io.StringIO(result.stdout)))


@unittest.skipUnless(BUILT, UNBUILT)
class Names(Case):
    def test_long_names_have_short_ones(self):
        page = make_page(TRACES / "v0.10" / "memscen.tracy", self.dir / "x.html")
        data = page.data
        short = {data["strings"][int(n)]: name for n, name in data["shortNames"].items()}
        handler = next(name for name in short if name.startswith("std::_Function_handler<"))
        self.assertEqual(short[handler], "std::_Function_handler<…>::_M_invoke")
        functions = {data["strings"][f[0]] for f in data["frames"] + data["sites"]
                     if not isinstance(f, int)}
        self.assertLessEqual(set(short), functions)
        self.assertEqual([f for f in functions if len(f) <= 60 and f in short], [])
        self.assertTrue(all(len(name) < len(full) for full, name in short.items()))


class Options(Case):
    def test_without_the_page_it_says_so(self):
        if BUILT:
            self.skipTest("the page is built")
        result = run("report", MT, "--format", "html", "-o", self.dir / "x.html")
        self.assertEqual(result.returncode, 2)
        self.assertIn("`make web` builds it", result.stderr)
        self.assert_clean()

    def test_a_program_without_the_page(self):
        """The template that is compiled in where node is missing."""
        subprocess.run(["sh", "web/build", "--empty", str(self.dir)], cwd=ROOT, check=True)
        source = (self.dir / "gen" / "page_template.c").read_text()
        self.assertIn('page_template = {"", 0, "", 0}', source)

    @unittest.skipUnless(BUILT, UNBUILT)
    def test_options_that_choose_rows_are_refused(self):
        for option in (["--by", "thread"], ["--sort", "live"], ["--limit", "3"],
                       ["--min-size", "1K"], ["--min-count", "2"], ["--stack-traces"]):
            with self.subTest(option=option):
                result = run("report", MT, "--format", "html", *option)
                self.assertEqual((result.returncode, result.stdout), (2, ""))
                self.assertIn("--format html", result.stderr)

    @unittest.skipUnless(BUILT, UNBUILT)
    def test_one_pool(self):
        page = make_page(MT, self.dir / "x.html", "--pool", "arena")
        self.assertEqual([p["name"] for p in page.data["pools"]], ["arena"])
        rows = page.figures(0, page.steps)
        self.assertEqual({pool for pool, _ in rows}, {"arena"})
        pool = report(MT, "--pool", "arena")["pools"][0]
        self.assertEqual(sum(r["count"] for r in rows.values()), pool["allocations"])

    @unittest.skipUnless(BUILT, UNBUILT)
    def test_standard_output_and_files(self):
        result = run("report", MT, "--format", "html")
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        output = self.dir / "x.html"
        output.write_text("mine")
        self.assertEqual(run("report", MT, "--format", "html", "-o", output).returncode, 4)
        self.assertEqual(output.read_text(), "mine")
        self.assertEqual(run("report", MT, "--format", "html", "-fo", output).returncode, 0)
        self.assertEqual(output.read_text(), result.stdout)
        self.assertEqual(run("report", MT, "--format", "html", "-o", "/dev/full", "-f").returncode, 4)


@unittest.skipUnless(BUILT, UNBUILT)
class Figures(Case):
    def test_whole_trace_is_as_in_the_report(self):
        for release in RELEASES:
            for name in ("memscen", "wire_memscen", "allscen"):
                with self.subTest(release=release, name=name):
                    self.compare(TRACES / release / f"{name}.tracy")
        self.compare(MT)
        self.compare(TRACES / "v0.14.0" / "memscen_freeunknown.tracy")

    def compare(self, trace):
        page, doc = make_page(trace, self.dir / "x.html", "--force"), report(trace)
        rows = page.figures(0, page.steps)
        wanted = {}
        for site in doc["sites"]:
            place = (site["pool"], (site["function"], site["file"], site["line"]))
            row = wanted.setdefault(place, dict.fromkeys(
                ("count", "bytes", "live", "live_bytes", "at_peak", "temporary"), 0))
            for key, field in (("count", "count"), ("bytes", "bytes"), ("live", "live_count"),
                               ("live_bytes", "live_bytes"), ("at_peak", "at_peak_bytes"),
                               ("temporary", "temporary")):
                row[key] += site[field]
        self.assertGreater(len(wanted), 0)
        self.assertEqual(rows, wanted)
        for pool, points in zip(doc["pools"], page.points()):
            self.assertEqual(max(p[0] for p in points), pool["peak_bytes"])
            self.assertEqual(points[-1][1:3], (pool["live_bytes"], pool["live_allocations"]))
            self.assertEqual(sum(p[3] for p in points), pool["allocations"])
            slot = max(range(len(points)), key=lambda i: (points[i][0], -i))
            time = page.data["time"]
            self.assertEqual((pool["peak_time_ns"] - time["from"]) // time["slot"], slot)
        lines = run("report", trace).stdout.split("\n")
        shown = [page.data["verdict"], page.data["answer"], *page.data["lines"], ""]
        self.assertEqual(shown, lines[:len(shown)])
        self.assertEqual(page.data["answer"], doc["answer"])
        self.assertEqual([(c["name"], c["holds"], c["detail"], c["remedy"] or None)
                          for c in page.data["checks"]],
                         [(c["name"], c["holds"], c["detail"], c["remedy"]) for c in doc["checks"]])
        self.assertEqual(page.data["leakHead"],
                         run("report", trace, "--leaks").stdout.split("\n")[0])

    def test_ranges_are_as_counted_by_hand(self):
        """Ranges of steps, from the list of all events."""
        page, events = make_page(MT, self.dir / "x.html"), events_of(MT)
        rng = random.Random(5)
        for _ in range(12):
            first = rng.randrange(page.steps)
            last = rng.randrange(first + 1, page.steps + 1)
            begin, end = page.step_begin(first), page.step_begin(last)
            wanted = {}
            for event in events:
                size, at = int(event["size"]), int(event["alloc_ns"])
                freed = int(event["free_ns"]) if event["free_ns"] else None
                row = wanted.setdefault(event["pool"], [0, 0, 0, 0])
                if begin <= at < end:
                    row[0] += 1
                    row[1] += size
                if at < end and (freed is None or freed >= end):
                    row[2] += 1
                    row[3] += size
            found = {}
            for (pool, _), row in page.figures(first, last).items():
                sums = found.setdefault(pool, [0, 0, 0, 0])
                for i, key in enumerate(("count", "bytes", "live", "live_bytes")):
                    sums[i] += row[key]
            self.assertEqual({k: v for k, v in found.items() if any(v)},
                             {k: v for k, v in wanted.items() if any(v)}, (first, last))
            self.check_peaks(page, events, first, last)

    def check_peaks(self, page, events, first, last):
        """What was live at each pool's highest moment of the range, its begin included."""
        begin, end = page.step_begin(first), page.step_begin(last)
        found = {}
        for (pool, _), row in page.figures(first, last).items():
            found[pool] = found.get(pool, 0) + row["at_peak"]
        for pool in found:
            steps = {}
            use = 0
            for event in events:
                if event["pool"] != pool:
                    continue
                size, at = int(event["size"]), int(event["alloc_ns"])
                freed = int(event["free_ns"]) if event["free_ns"] else None
                if at < begin and (freed is None or freed >= begin):
                    use += size
                if begin <= at < end:
                    steps[at] = steps.get(at, 0) + size
                if freed is not None and begin <= freed < end:
                    steps[freed] = steps.get(freed, 0) - size
            highest = use
            for time in sorted(steps):
                use += steps[time]
                highest = max(highest, use)
            self.assertEqual(found[pool], highest, (pool, first, last))

    def test_threads(self):
        page, events = make_page(MT, self.dir / "x.html"), events_of(MT)
        found, wanted = {}, {}
        for _, key, v in page.cells:
            name = page.data["threads"][page.keys[key][1]]["name"]
            found[name] = found.get(name, 0) + v[1]
        for event in events:
            name = event["alloc_thread_name"]
            wanted[name] = wanted.get(name, 0) + int(event["size"])
        self.assertGreater(len(wanted), 3)
        self.assertEqual(found, wanted)

    def test_histograms(self):
        page, events = make_page(MT, self.dir / "x.html"), events_of(MT)
        found = [{}, {}]
        for _, key, v in page.read_cells("histogram", 2):
            kind, size_class = key // 64 % 2, key % 64
            found[kind][size_class] = found[kind].get(size_class, 0) + v[0]
        wanted = [{}, {}]
        for event in events:
            classes = [int(event["size"]).bit_length()]
            if event["free_ns"]:
                classes.append((int(event["free_ns"]) - int(event["alloc_ns"])).bit_length())
            for kind, size_class in enumerate(classes):
                wanted[kind][size_class] = wanted[kind].get(size_class, 0) + 1
        self.assertEqual(found, wanted)

    def test_lives(self):
        """In which parts of the time freed blocks were allocated and freed; and of which sites."""
        page, events = make_page(MT, self.dir / "x.html"), events_of(MT)
        parts, pools = page.data["lifeParts"], page.data["pools"]
        part = page.data["time"]["slots"] // parts
        self.assertEqual(parts, 64)
        found, sites, wanted = {}, {}, {}
        for row, born, freed, n, size in page.lives():
            pool = pools[row % len(pools)]["name"]
            for to, key in ((found, (pool, born, freed)),
                            (sites, (pool, page.site(row // len(pools))))):
                old = to.get(key, (0, 0))
                to[key] = (old[0] + n, old[1] + size)
        for event in events:
            if event["free_ns"]:
                times = (page.slot_of(int(event[name])) // part for name in ("alloc_ns", "free_ns"))
                key = (event["pool"], *times)
                old = wanted.get(key, (0, 0))
                wanted[key] = (old[0] + 1, old[1] + int(event["size"]))
        self.assertEqual(found, wanted)
        rows = {}
        for s in report(MT)["sites"]:
            key = (s["pool"], (s["function"], s["file"], s["line"]))
            old = rows.get(key, (0, 0))
            rows[key] = (old[0] + s["count"] - s["live_count"],
                         old[1] + s["bytes"] - s["live_bytes"])
        self.assertEqual(sites, {key: freed for key, freed in rows.items() if freed[0]})

    def test_memory_map(self):
        """Bytes in use in each piece of the address space, at three moments."""
        page, events = make_page(MT, self.dir / "x.html"), events_of(MT)
        shift, reader = page.data["pieceShift"], Reader(page.data["pieces"])
        pieces, last = [], (None, 0)
        for _ in range(page.data["pieceCount"]):
            pool = reader.unsigned()
            number = reader.unsigned() + (last[1] if pool == last[0] else 0)
            pieces.append((page.data["pools"][pool]["name"], number))
            last = (pool, number)
        cells = page.read_cells("blocks", 3)
        for to in (page.steps // 3, page.steps // 2, page.steps):
            use, cover = [0] * len(pieces), [0] * len(pieces)
            for step, key, v in cells:
                if step < to:
                    use[key] += v[0]
                    cover[key] += v[1]
            whole = 0
            for i, change in enumerate(cover):
                whole += change
                use[i] += whole << shift
            wanted = dict.fromkeys(pieces, 0)
            end = page.step_begin(to)
            for event in events:
                at, size = int(event["address"], 16), int(event["size"])
                if int(event["alloc_ns"]) >= end or (event["free_ns"] and
                                                     int(event["free_ns"]) < end):
                    continue
                for number in range(at >> shift, (at + size - 1 >> shift) + 1):
                    low, high = max(at, number << shift), min(at + size, number + 1 << shift)
                    wanted[event["pool"], number] += high - low
            self.assertEqual(dict(zip(pieces, use)), wanted)
        self.check_owners(page, events, pieces)

    def test_single_blocks(self):
        """Those live at the end, and of the others the largest and earliest ones."""
        page, events = make_page(MT, self.dir / "x.html"), events_of(MT)
        blocks = page.blocks()
        self.assertEqual(page.data["allBlocks"], len(events))
        self.assertLess(len(blocks), len(events))
        order = sorted(events, key=lambda e: (e["free_ns"] != "", -int(e["size"]),
                                              int(e["alloc_ns"]), int(e["address"], 16)))
        wanted = [(e["pool"], int(e["address"], 16), int(e["size"]),
                   page.slot_of(int(e["alloc_ns"])),
                   page.slot_of(int(e["free_ns"])) if e["free_ns"] else None)
                  for e in order[:len(blocks)]]
        self.assertEqual(sorted((b[:5] for b in blocks), key=str), sorted(wanted, key=str))
        largest = max(report(MT)["sites"], key=lambda s: s["bytes"] / s["count"])
        self.assertEqual(max(blocks, key=lambda b: b[2])[5],
                         (largest["function"], largest["file"], largest["line"]))

    def check_owners(self, page, events, pieces):
        """Who allocated most bytes in each piece; of equal ones the first."""
        shift, others = page.data["pieceShift"], page.data["ownerCount"]
        names = [t["name"] or t["id"] for t in page.data["threads"]][:-1][:others]
        sums = {piece: [0] * (others + 1) for piece in pieces}
        for event in events:
            at, size = int(event["address"], 16), int(event["size"])
            thread = event["alloc_thread_name"] or event["alloc_thread"]
            who = names.index(thread) if thread in names else others
            for number in range(at >> shift, (at + size - 1 >> shift) + 1):
                low, high = max(at, number << shift), min(at + size, number + 1 << shift)
                sums[event["pool"], number][who] += high - low
        reader = Reader(page.data["owners"])
        sites = set()
        for piece in pieces:
            most = max(sums[piece])
            self.assertEqual(reader.unsigned(),
                             sums[piece].index(most) if most else others + 1, piece)
            sites.add(reader.unsigned())
        self.assertGreater(len(sites), 1)
        self.assertLessEqual(max(sites), others + 1)

    def test_call_stacks(self):
        """Bytes by call stack, frames outermost first, against the exported ones."""
        page, events = make_page(MT, self.dir / "x.html"), events_of(MT)
        lines = csv.DictReader(io.StringIO(run("csvexport", MT, "--callstacks").stdout))
        names = {}
        for line in lines:
            names.setdefault(line["callstack"], []).append(line["function"])
        wanted = {}
        for event in events:
            stack = tuple(names.get(event["alloc_callstack"], ()))
            wanted[stack] = wanted.get(stack, 0) + int(event["size"])
        strings, found = page.data["strings"], {}
        for _, key, v in page.cells:
            node, stack = page.stack_nodes[page.keys[key][2]], []
            while node:
                node, frame = page.nodes[node]
                stack.append(strings[page.data["frames"][frame][0]])
            found[tuple(stack)] = found.get(tuple(stack), 0) + v[1]
        self.assertGreater(len(wanted), 20)
        self.assertEqual(found, wanted)
        self.assertNotIn(1, page.stack_folded[1:])
        for things in (map(tuple, page.data["frames"]), page.nodes):  # none looks like another
            self.assertEqual([t for t, n in collections.Counter(things).items() if n > 1], [])


class Elements(html.parser.HTMLParser):
    """Names of all elements, and of their attributes."""

    def __init__(self, text):
        super().__init__()
        self.names, self.attributes = [], set()
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.names.append(tag)
        self.attributes |= {name for name, _ in attrs}


def hostile_trace(output):
    """Names of everything are hostile."""
    items = b""
    for i, text in enumerate(HOSTILE):
        raw, address = text.encode(), 0x401000 + 16 * i
        items += thread_name(7 + i, raw) + string(0x5000 + i, raw)
        items += frame_name(address, raw, raw + b".c", line=i + 1, image=b"/lib/" + raw)
        for k in range(3):
            items += callstack(address) + alloc(10, 7 + i, 0x100000 * (i + 1) + 64 * k, 32)
        # The last of many pools has the highest peak.
        size = 4096 if text == HOSTILE[-1] else 48
        items += alloc_plain(10, 7 + i, 0x100000 * (i + 1), size, pool=0x5000 + i)
    items += frame_name(0x402000, b"\xff\xfe broken \xc3", b"\xe2\x80", image=b"\xed\xa0\x80")
    items += callstack(0x402000) + alloc(10, 7, 0x9000000, 32)
    items += callstack(0x401000) + alloc(10, 7, 0x9000000, 32)  # a fault: it is live already
    return capture_items(output, items)


def typed_trace(output):
    """The function of an allocator says what one of two blocks is made of."""
    items = thread_name(7, b"main")
    for address, name in ((0x401000, b"operator new(unsigned long)"), (0x403000, b"main"),
                          (0x402000, b"std::__new_allocator<Item>::allocate(unsigned long, void const*)")):
        items += frame_name(address, name, b"prog.cpp", line=5)
    items += callstack(0x401000, 0x402000, 0x403000) + alloc(10, 7, 0x1000, 32)
    items += callstack(0x401000, 0x403000) + alloc(20, 7, 0x2000, 32)
    return capture_items(output, items)


@unittest.skipUnless(BUILT, UNBUILT)
class WhatIsResident(Case):
    def test_the_highest_reading_of_each_slot(self):
        trace = self.dir / "x.tracy"
        record_resident(trace)
        page, points = make_page(trace, self.dir / "x.html"), plots(trace)[0]
        values = [points[name] for name in ("RSS anonymous", "RSS file", "RSS shared", "swap")]
        readings = [(a[0], int(a[1] + b[1] + c[1]), int(d[1])) for a, b, c, d in zip(*values)]
        time, wanted = page.data["time"], []
        for slot in range(time["slots"]):
            begin = time["from"] + slot * time["slot"]
            # A reading counts until the next one.
            there = [r for r, after in zip(readings, readings[1:])
                     if r[0] < begin + time["slot"] and after[0] > begin]
            there += [readings[-1]] if begin <= readings[-1][0] < begin + time["slot"] else []
            wanted.append(max(there, key=lambda r: r[1])[1:] if there else (0, 0))
        self.assertEqual(page.resident(), wanted)
        self.assertGreater(max(r for r, _ in wanted), 24 << 20)
        self.assertIsNone(make_page(MT, self.dir / "y.html").resident())

    def test_a_reading_behind_the_last_event(self):
        """The plot has the highest reading, also of a program whose last events come before it."""
        items = thread_name(7, b"main") + struct.pack("<BQH", 104, RSS, 3) + b"RSS"
        items += alloc(1000, 7, 0x1000, 64) + struct.pack("<BI", 61, 7)
        for time, value in ((500, 1 << 20), (4000000, 5 << 20)):
            items += struct.pack("<BQqd", 47, RSS, time, value)
        self.assertEqual(capture_items(self.dir / "x.tracy", items).returncode, 0)
        page = make_page(self.dir / "x.tracy", self.dir / "x.html")
        self.assertEqual(max(page.resident()), (5 << 20, 0))
        narrow = make_page(self.dir / "x.tracy", self.dir / "y.html", "--size", "64:")
        self.assertEqual(narrow.data["time"]["to"], narrow.data["time"]["from"])

    def test_the_rows_of_report_resident(self):
        trace = self.dir / "x.tracy"
        record_resident(trace)
        data = make_page(trace, self.dir / "x.html").data
        look = data["look"]
        self.assertEqual(data["lines"], [run("report", trace).stdout.split("\n")[2]])
        found = json.loads(run("report", "--resident", "--format", "json", trace).stdout)
        keys = ("resident", "resident_bytes"), ("pins", "pinned_bytes"), ("swapped", "swapped_bytes"), \
               ("absent", "not_resident_bytes"), ("bytes", "bytes"), ("count", "count")
        self.assertEqual([[row[key] for key, _ in keys] for row in look["rows"]],
                         [[row[key] for _, key in keys] for row in found["sites"]])
        self.assertGreater(len(look["rows"]), 10)
        self.assertEqual([f["words"] for f in look["findings"]],
                         [f["text"] for f in found["findings"]])
        self.assertIn(" free in their pages", " ".join(f["words"] for f in look["findings"]))
        self.assertNotIn("look", make_page(MT, self.dir / "y.html").data)
        # Without the process, there is nothing to compare with.
        part = make_page(trace, self.dir / "z.html", "--size", "1K:").data["look"]
        self.assertEqual(part["words"], "")
        self.assertLess(len(part["rows"]), len(look["rows"]))


def dumped(trace, sections):
    result = run("dump", trace, "--section", sections, "--format", "jsonl")
    return list(map(json.loads, result.stdout.splitlines()))


@unittest.skipUnless(BUILT, UNBUILT)
class Lanes(Case):
    """Zones, messages and plots of each slot, from the list of all of them."""

    def setUp(self):
        super().setUp()
        self.pages = [(trace, make_page(trace, self.dir / f"{trace.stem}.html"))
                      for trace in (MT, ALL)]

    def test_zones(self):
        for trace, page in self.pages:
            zones = {}
            for zone in dumped(trace, "zones"):
                if zone["depth"] < 2:
                    zones.setdefault(str(zone["thread"]), []).append(zone)
            busy = {thread: sum(self.overlap(page, z, 0, 1024) for z in all_ if z["depth"] == 0)
                    for thread, all_ in zones.items()}
            most = sorted((n for n in busy.values() if n), reverse=True)
            lanes = page.lane_rows()
            self.assertEqual([busy[thread] for _, thread in lanes], most[:6])
            self.assertEqual(page.data["lanes"]["threadsLeftOut"], max(0, len(most) - 6))
            for (_, thread), rows in lanes.items():
                self.assertEqual(len(rows), 2)
                for depth, row in enumerate(rows):
                    wanted = self.longest(page, [z for z in zones[thread] if z["depth"] == depth])
                    self.assertEqual(row, wanted, (trace, thread, depth))

    def overlap(self, page, zone, first, last):
        time = page.data["time"]
        begin, end = (time["from"] + slot * time["slot"] for slot in (first, last))
        return max(0, min(end, zone.get("end", end)) - max(begin, zone["start"]))

    def longest(self, page, zones):
        """For each slot the name of the zones that were open longest in it."""
        sums = [{} for _ in range(page.data["time"]["slots"])]
        for zone in zones:
            key = zone.get("name") or zone["function"], zone["file"], zone["line"]
            first = page.slot_of(max(zone["start"], page.data["time"]["from"]))
            for slot in range(first, len(sums)) if first is not None else ():
                ns = self.overlap(page, zone, slot, slot + 1)
                if ns == 0:
                    break
                sums[slot][key] = sums[slot].get(key, 0) + ns
        return [max(by_key, key=by_key.get)[0] if by_key else "" for by_key in sums]

    def test_messages(self):
        found = 0
        for trace, page in self.pages:
            wanted = {}
            for message in sorted(dumped(trace, "messages"), key=lambda m: m["time"]):
                slot = page.slot_of(message["time"])
                if slot is not None:
                    first = wanted.setdefault(slot, [0, message["text"]])
                    first[0] += 1
            flat, strings = page.data["lanes"]["messages"], page.data["strings"]
            shown = {slot: [n, strings[text]]
                     for slot, n, text in zip(flat[::3], flat[1::3], flat[2::3])}
            self.assertEqual(shown, wanted)
            found += len(shown)
        self.assertGreater(found, 100)

    def test_plots(self):
        found = 0
        for trace, page in self.pages:
            wanted = {}
            for point in dumped(trace, "plots,plot-points"):
                if "value" not in point:
                    continue
                slot = page.slot_of(point["time"])
                if slot is not None:
                    row = wanted.setdefault(point.get("plot", ""), [None] * 1024)
                    old = row[slot]
                    row[slot] = point["value"] if old is None else max(old, point["value"])
            lanes = page.data["lanes"]
            shown = {page.data["strings"][p["name"]]: p["values"] for p in lanes["plots"]}
            shown["Frame"] = shown.pop("Frame", None)
            self.assertEqual(len(lanes["plots"]) + lanes["plotsLeftOut"], len(wanted))
            for name, row in shown.items():
                if name != "Frame":
                    self.assertEqual(row, wanted[name], name)
            found += len(shown)
        self.assertGreater(found, 4)


@unittest.skipUnless(BUILT, UNBUILT)
class Escaping(Case):
    def setUp(self):
        super().setUp()
        result = hostile_trace(self.dir / "x.tracy")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.page = make_page(self.dir / "x.tracy", self.dir / "x.html")

    def test_names_stay_text(self):
        self.assertNotRegex(self.page.block, r"[<>&\u2028\u2029\u202e\u2066\x00-\x09\x0b-\x1f\x7f]")
        self.assertEqual(self.page.block.count("\n"), 1)
        strings = self.page.data["strings"]
        for text in HOSTILE:
            if text.isprintable():
                self.assertIn(text, strings)
                self.assertIn(text, [t["name"] for t in self.page.data["threads"]])
                self.assertIn(text, [p["name"] for p in self.page.data["pools"]])
        self.assertIn("a\\x0ab\\x09c", strings)
        self.assertIn("\\u{202e}dcba\\u{2066}", strings)
        self.assertTrue(any("broken" in s for s in strings))

    def test_the_document_is_that_of_any_trace(self):
        plain = Elements(make_page(MT, self.dir / "plain.html").html)
        hostile = Elements(self.page.html)
        self.assertEqual(hostile.names, plain.names)
        self.assertEqual(hostile.attributes, plain.attributes)

    def test_sources(self):
        page = make_page(SOURCE, self.dir / "source.html")
        self.assertGreater(len(page.data["texts"]), 3)
        for text in page.data["texts"]:
            _, file, line = page.site(text["site"])
            here = [int(number) for number, _, marked in text["lines"] if marked]
            self.assertEqual((text["of"], here), (file, [line]))
            for number, shown, _ in text["lines"]:
                self.assertIn(f"line {number}", shown)

    def test_policy(self):
        policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"',
                           self.page.html)[1]
        self.assertIn("default-src 'none'", policy)
        self.assertNotIn("unsafe", policy)
        self.assertNotRegex(self.page.html, r'(src|href)="(?!#)')


def deep_recording(heavy, light, spread=0, more=0):
    """A recording of heaptrack: blocks of call stacks as many, through two functions for each of 15
    levels. The heavy ones have 4096 bytes and up to `spread` more, and are freed;
    `more` such blocks follow, of call stacks by chance."""
    chance = random.Random(3)
    names = ["app", "a.cpp", "main", "site", *(f"f{i}" for i in range(30))]
    lines = ["v 10500 3", "X ./app", "I 1000 5e298d", *(f"s {len(n):x} {n}" for n in names)]
    lines += ["i 401000 1 3 2 1", "i 402000 1 4 2 2", "t 1 0"]
    lines += [f"i {0x403000 + 16 * i:x} 1 {i + 5:x} 2 {i + 3:x}" for i in range(30)]
    nodes = {(): 1}
    for n in range(heavy + light):
        path = tuple(2 * level + (n * 40503 >> level & 1) for level in range(15))
        for depth in range(15):
            if path[:depth + 1] not in nodes:
                lines.append(f"t {path[depth] + 3:x} {nodes[path[:depth]]:x}")
                nodes[path[:depth + 1]] = len(nodes) + n + 1
        size = 4096 + chance.randint(0, spread) if n < heavy else 1
        lines += [f"t 2 {nodes[path]:x}", f"a {size:x} {len(nodes) + n + 1:x}",
                  f"+ {n:x}", *([f"- {n:x}"] if n < heavy else [])]
    return "\n".join(lines + ["+ {0:x}\n- {0:x}".format(chance.randrange(heavy)) for _ in range(more)]) + "\n"


@unittest.skipUnless(BUILT, UNBUILT)
class Bounds(Case):
    def test_steps_of_a_small_page(self):
        """Call stacks give way to steps of time, of which the smallest page has 16, too."""
        recording = self.dir / "f.c2s.bin"
        subprocess.run([FIREHOSE, "-o", str(recording), "--events", "600000", "--stacks", "1500",
                        "--seed", "3"], check=True, stdout=subprocess.DEVNULL)
        with replaying(recording) as (_, port):
            self.assertEqual(run("capture", "-o", self.dir / "f.tracy", "-p", port).returncode, 0)
        page = make_page(self.dir / "f.tracy", self.dir / "f.html", "--page-size", "500K")
        self.assertLessEqual((self.dir / "f.html").stat().st_size, 500 << 10)
        self.assertGreaterEqual(page.steps, 16)
        self.assertGreater(len(page.data["sites"]), 32)

    def test_many_of_everything(self):
        """More pools, threads, stacks and sites than the page has places for."""
        recording = self.dir / "f.c2s.bin"
        subprocess.run([FIREHOSE, "-o", str(recording), "--events", "600000", "--threads", "60",
                        "--pools", "40", "--stacks", "30000", "--live", "20000"], check=True)
        with replaying(recording) as (_, port):
            result = run("capture", "-o", self.dir / "f.tracy", "-p", port)
        self.assertEqual(result.returncode, 0, result.stderr)
        page, doc = make_page(self.dir / "f.tracy", self.dir / "f.html"), report(self.dir / "f.tracy")
        self.assertLessEqual((self.dir / "f.html").stat().st_size, 1_200_000)
        self.assertGreaterEqual(page.steps, 16)
        other = page.data["other"]
        large = make_page(self.dir / "f.tracy", self.dir / "g.html", "--page-size", "3000000")
        self.assertLessEqual((self.dir / "g.html").stat().st_size, 3_000_000)
        self.assertLess(large.data["other"]["stacks"], other["stacks"])
        for size in ("499999", "64000001", "x"):
            self.assertEqual(run("report", MT, "--format", "html", "--page-size", size).returncode, 2)
        self.assertEqual(run("report", MT, "--page-size", "1M").returncode, 2)
        self.assertGreater(other["stacks"], 0)
        self.assertEqual((len(page.data["pools"]), page.data["pools"][-1]["count"]), (25, 16))
        self.assertEqual((len(page.data["threads"]), other["threads"]), (33, 28))
        rows = page.figures(0, page.steps)
        for key, field in (("count", "allocations"), ("bytes", "total_bytes"),
                           ("live", "live_allocations"), ("live_bytes", "live_bytes")):
            self.assertEqual(sum(r[key] for r in rows.values()),
                             sum(p[field] for p in doc["pools"]), field)
        peaks = {p["name"]: p["peak_bytes"] for p in doc["pools"]}
        for pool, points in zip(page.data["pools"][:-1], page.points()):
            self.assertEqual(max(p[0] for p in points), peaks[pool["name"]])
            at_peak = sum(r["at_peak"] for (name, _), r in rows.items() if name == pool["name"])
            self.assertEqual(at_peak, peaks[pool["name"]])

    def test_heavy_call_stacks_are_told_apart(self):
        """8,000 call stacks have all but a few bytes, 5,000 others what is live in the end: the former
        are whole, the latter keep their outer frames."""
        trace = self.dir / "deep.tracy"
        (self.dir / "heaptrack.deep.1").write_text(deep_recording(8000, 5000))
        result = run("import", self.dir / "heaptrack.deep.1", trace)
        self.assertEqual(result.returncode, 0, result.stderr)
        page = make_page(trace, self.dir / "deep.html", "--page-size", "500000")
        self.assertLessEqual((self.dir / "deep.html").stat().st_size, 500_000)
        whole = sum(v[1] for _, _, v in page.cells)
        light = sum(v[1] for _, key, v in page.cells if page.stack_folded[page.keys[key][2]])
        self.assertEqual(whole, 8000 * 4096 + 5000)
        self.assertLess(light, 0.01 * whole)
        strings, frames, gaps = page.data["strings"], page.data["frames"], 0
        for node, folded in zip(page.stack_nodes[1:], page.stack_folded[1:]):
            names = []
            while node:
                node, frame = page.nodes[node]
                names.append(strings[frames[frame][0]])
            self.assertEqual(names[0], "site")
            self.assertEqual(names[-1], "main")
            self.assertEqual(names[1] == "[frames left out]", bool(folded), names)
            gaps += folded
        self.assertGreater(gaps, 100)

    def test_room_is_for_call_stacks(self):
        """24,000 call stacks that allocate by chance, for which a small page has no room: steps give way
        to the last 16, and what is left is filled. The sums stay those of the report."""
        trace = self.dir / "deep.tracy"
        (self.dir / "heaptrack.deep.1").write_text(deep_recording(24000, 4000, 10**6, 300000))
        result = run("import", self.dir / "heaptrack.deep.1", trace)
        self.assertEqual(result.returncode, 0, result.stderr)
        page, doc = make_page(trace, self.dir / "deep.html", "--page-size", "500000"), report(trace)
        size = (self.dir / "deep.html").stat().st_size
        self.assertTrue(450_000 < size <= 500_000, size)
        self.assertEqual(page.steps, 16)
        whole = page.stack_folded.count(0)
        self.assertTrue(5_000 < whole < 24_000, whole)
        self.assertEqual(page.data["other"]["stacks"] + whole, 28_000)
        row, = page.figures(0, page.steps).values()
        site, = doc["sites"]
        self.assertEqual([row[key] for key in ("count", "bytes", "live", "live_bytes", "at_peak")],
                         [site[key] for key in ("count", "bytes", "live_count", "live_bytes",
                                                "at_peak_bytes")])

    def test_nothing_in_the_trace(self):
        result = run("update", "-s", "M", MT, self.dir / "x.tracy")
        self.assertEqual(result.returncode, 0, result.stderr)
        page = make_page(self.dir / "x.tracy", self.dir / "x.html")
        self.assertEqual((page.data["pools"], page.cells), ([], []))


# ---- in a browser

MODULES = BUILD / "test-web" / "node_modules"
CHROMIUM = next((p for p in map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))
                 if p), None)


def browser_is_missing():
    if not BUILT:
        return UNBUILT
    if not CHROMIUM or not shutil.which("node") or not (MODULES / "playwright-core").exists():
        return "Chromium or playwright-core is missing: make deps-test-full"
    return None


class Browser(Case):
    """Runs test/web/page_test.mjs once; each of its checks is a test here."""

    @classmethod
    def setUpClass(cls):
        cls.missing = browser_is_missing()
        if cls.missing:
            return
        work = BUILD / "test-web"
        traces = {"mt": MT, "lanes": ALL, "source": SOURCE, "hostile": work / "hostile.tracy",
                  "empty": work / "empty.tracy", "resident": work / "resident.tracy",
                  "figures": work / "figures.tracy", "typed": work / "typed.tracy"}
        for name in ("hostile", "empty", "figures", "typed"):
            traces[name].unlink(missing_ok=True)
        hostile_trace(traces["hostile"])
        typed_trace(traces["typed"])
        record_resident(traces["resident"])
        with replaying(WIRE / "v0.14.0" / "memscen.c2s.bin") as (_, port):
            run("capture", "--figures", "-o", traces["figures"], "-p", port, "--connect-timeout", LIMIT)
        run("update", "-s", "M", MT, traces["empty"])
        for name, trace in traces.items():
            make_page(trace, work / f"{name}.html", "--force")
        make_page(MT, work / "selected.html", "--force", "--thread", "Main thread", "--size", "1K:",
                  "--match", "<b>|.")
        make_page(MT, work / "one.html", "--force", "--size", "1296:1296", "--thread", "Main thread")
        for name, now in (("diff", MT), ("hostilediff", traces["hostile"]),
                          ("typeddiff", traces["typed"])):
            run("diff", TRACES / "v0.13.1" / "memscen.tracy", now, "--format", "html", "-fo",
                work / f"{name}.html", "--fail-if", "peak>+5%", "--fail-if", "count>+5%")
        before = TRACES / "v0.13.1" / "memscen.tracy"
        for name, runs in (("runs", [before] * 5 + ["--"] + [MT] * 5),
                           ("fewruns", [before] * 3 + ["--"] + [MT] * 3), ("oneside", ["--", MT, MT]),
                           ("hostileruns", [MT, "--", traces["hostile"]])):
            run("diff", *runs, "--format", "html", "-fo", work / f"{name}.html", "--fail-if",
                "count>9500" if name == "oneside" else "count>+5%")
        result = subprocess.run(
            ["node", str(ROOT / "test" / "web" / "page_test.mjs"), CHROMIUM, str(work)],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=900)
        cls.checks = {}
        for line in result.stdout.splitlines():
            check = json.loads(line)
            cls.checks[check["name"]] = check["error"]
        cls.failure = result.stderr if result.returncode else ""

    def check(self, name):
        if self.missing:
            self.skipTest(self.missing)
        self.assertIn(name, self.checks, f"the check did not run: {self.failure}")
        self.assertIsNone(self.checks[name])


# What page_test.mjs checks; a name that it does not have fails here, one that this lacks there.
for _name in json.loads((ROOT / "test" / "web" / "checks.json").read_text()):
    setattr(Browser, "test_" + _name.replace(" ", "_").replace("-", "_"),
            lambda self, name=_name: self.check(name))


if __name__ == "__main__":
    unittest.main()
