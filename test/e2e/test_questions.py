"""`tree`, `find`, `map` and `timeline`: what they say of every fixture, held against a second reader
of the files and against sums made the slow way."""

import collections
import contextlib
import csv
import io
import json
import random
import re
import statistics
import struct
import xml.etree.ElementTree

from clients import alloc_plain, capture_items, frame_name, string, thread_name
from test_capture import TERMINATE, FakeClient, alloc, callstack, frame, free
from tools import LIMIT, RELEASES, TRACES, WIRE, Case, report, run, without_code
from tracyfile import Trace

MEMSCEN = TRACES / "v0.14.0" / "memscen.tracy"
THREADS = TRACES / "v0.14.0" / "memscen_mt.tracy"
FILES = [TRACES / r / f"{n}.tracy" for r in RELEASES for n in ("memscen", "allscen", "memscen_mt")]
PLOT_DOUBLE, THREAD_CONTEXT, MESSAGE, PLOT_NAME = 47, 61, 77, 104  # items of protocol 74
PLACEHOLDERS = (b"[unknown]", b"[unresolved]", b"[error]", b"???")


def text(command, *args):
    result = run(command, *args)
    if result.returncode != 0:
        raise AssertionError(f"{command} {args}: {result.stderr}")
    return result.stdout


def ask(command, *args):
    return json.loads(text(command, *args, "--format", "json"))


def rows(command, *args):
    return list(csv.DictReader(io.StringIO(text(command, *args, "--format", "csv"))))


def frame_label(trace, frame):
    """What the profiler groups by: the outermost function of a frame."""
    image, inlines = trace.frames.get(frame, (b"", []))
    name = re.sub(rb" \+ \d+$", b"", inlines[-1][0] or b"") if inlines else b""
    if not name or name in PLACEHOLDERS:
        return "[unknown]"
    return name.decode(errors="replace")


def profiler_tree(trace, events, outer_first):
    """Way of names -> [count, bytes], as the Memory tab sums up its trees."""
    tree = collections.defaultdict(lambda: [0, 0])
    for event in events:
        names = [frame_label(trace, f) for f in trace.callstacks[event[4]] or ()]
        if outer_first:
            names.reverse()
        for n in range(1, len(names) + 1):
            tree[tuple(names[:n])][0] += 1
            tree[tuple(names[:n])][1] += event[1]
    return tree


def our_tree(doc, figure):
    """The same of `tree`: without what stands for no call stack."""
    ways, tree = {None: ()}, collections.defaultdict(lambda: [0, 0])
    for node in doc["nodes"]:
        name = node["name"]
        if name == "[no call stack]":
            continue
        name = "[unknown]" if name.startswith("[unknown]") else name
        way = ways[node["parent"]] + (name,)
        ways[node["id"]] = way
        tree[way][0] += node["inclusive"][figure[0]]
        tree[way][1] += node["inclusive"][figure[1]]
    return {way: sums for way, sums in tree.items() if sums[0]}


class Tree(Case):
    def test_the_profilers_counts(self):
        """Its Memory tab: both trees, all allocations and only the active ones, pool by pool."""
        for path in FILES:
            if not path.exists():
                continue
            trace = Trace(path)
            for key, pool in trace.pools.items():
                name = "default" if key == 0 else trace.pointers[pool["name_key"]].decode()
                if len(pool["events"]) == 0:
                    continue
                active = [e for e in pool["events"] if e[3] is None]
                for flag, outer_first in (("--top-down", True), ("--bottom-up", False)):
                    with self.subTest(path=path, pool=name, direction=flag):
                        doc = ask("tree", path, flag, "--pool", name, "--no-inlines",
                                  "--all-frames")
                        self.assertEqual(doc["total"]["count"], len(pool["events"]))
                        self.assertEqual(doc["total"]["live_bytes"], sum(e[1] for e in active))
                        self.assertEqual(our_tree(doc, ("count", "bytes")),
                                         profiler_tree(trace, pool["events"], outer_first))
                        self.assertEqual(our_tree(doc, ("live_count", "live_bytes")),
                                         profiler_tree(trace, active, outer_first))

    def test_it_agrees_with_the_report(self):
        for path in (MEMSCEN, THREADS):
            sites = report(path, "--by", "function")
            for figure in ("bytes", "count", "live_bytes", "temporary"):
                want, got = collections.Counter(), collections.Counter()
                for row in sites["groups"]:
                    want[row["function"] or "[no call stack]"] += row[figure]
                for node in ask("tree", path, "--bottom-up", "--depth", 1)["nodes"]:
                    got[node["name"]] += node["exclusive"][figure]
                self.assertEqual(+got, +want)

    def test_by_thread(self):
        want = collections.Counter()
        for row in report(THREADS, "--by", "thread")["groups"]:
            want[row["name"]] += row["count"]
        got = {n["name"]: n["inclusive"]["count"]
               for n in ask("tree", THREADS, "--by", "thread", "--depth", 1)["nodes"]}
        self.assertEqual(got, dict(want))
        name, count = want.most_common(1)[0]
        self.assertEqual(ask("tree", THREADS, "--thread", name)["total"]["count"], count)

    def test_formats(self):
        doc, table = ask("tree", MEMSCEN), rows("tree", MEMSCEN)
        self.assertEqual(doc["schema"], "tidemark.tree/1")
        self.assertEqual([n["id"] for n in doc["nodes"]], [int(r["id"]) for r in table])
        for node, row in zip(doc["nodes"], table):
            self.assertEqual(node["name"], row["name"])
            self.assertEqual(node["inclusive"]["bytes"], int(row["bytes"]))
            self.assertEqual(node["exclusive"]["temporary"], int(row["own_temporary"]))
        lines = text("tree", MEMSCEN, "--metric", "count").splitlines()
        self.assertRegex(lines[0], r"^ +Count +Share +Own +Size  Function$")
        self.assertRegex(lines[1], r"^ +9,001 +100 % .*  all$")
        self.assertRegex(text("tree", MEMSCEN), r"(?m)^ +└ .* smaller ones$|│ └ \d+ smaller ones$")
        self.assertNotIn("smaller", text("tree", MEMSCEN, "--min-share", 0))

    def test_zones(self):
        """Zones that have no others in them: the truth names the innermost."""
        for release in RELEASES:
            truth = json.loads((WIRE / release / "memscen.truth.json").read_text())
            allocs = {z["innermost_zone"]: z["allocs"] for z in truth["zones"]}
            for zone in ("read_image", "line_buffer", "spike"):
                doc = ask("tree", TRACES / release / "wire_memscen.tracy", "--zone", zone)
                self.assertEqual(doc["total"]["count"], allocs[zone], (release, zone))

    def test_frames_and_times(self):
        for release in RELEASES:
            path = TRACES / release / "memscen.tracy"
            trace = Trace(path)
            events = [e for pool in trace.pools.values() for e in pool["events"]]
            for frame in (0, 3, len(trace.base_frames) - 1):
                begin, *rest = trace.base_frames[frame:frame + 2]
                end = rest[0] if rest else 1 << 62
                want = [e for e in events if begin <= e[2] < end]
                doc = ask("tree", path, "--frame", frame)
                self.assertEqual(doc["total"]["count"], len(want))
                self.assertEqual(doc["total"]["live_count"],
                                 sum(e[3] is None or e[3] >= end for e in want))
                self.assertEqual(ask("tree", path, "--range", f"{begin}:{min(end, 1 << 60)}")["nodes"],
                                 doc["nodes"])
                live = [e for e in events if e[2] <= begin and (e[3] is None or e[3] > begin)]
                doc = ask("tree", path, "--at", begin)
                self.assertEqual(doc["total"]["count"], len(live))
                self.assertEqual(doc["total"]["live_bytes"], sum(e[1] for e in live))
            self.assertEqual(run("tree", path, "--frame", 1 << 40).returncode, 2)

    def test_sizes_and_expressions(self):
        trace = Trace(MEMSCEN)
        events = [e for pool in trace.pools.values() for e in pool["events"]]
        for size, want in (("1K:2K", (1024, 2048)), (":100", (0, 100)), ("4K:", (4096, 1 << 60)),
                           ("64", (64, 64))):
            self.assertEqual(ask("tree", MEMSCEN, "--size", size)["total"]["count"],
                             sum(want[0] <= e[1] <= want[1] for e in events))
        sites = report(MEMSCEN)["sites"]
        self.assertEqual(ask("tree", MEMSCEN, "--match", "^text_(scratch|intern)")["total"]["count"],
                         sum(s["count"] for s in sites
                             if re.match("text_(scratch|intern)", s["function"] or "")))

    def test_refusals(self):
        for args in (("--by", "x"), ("--metric", "y"), ("--min-share", "101"), ("--size", "2K:1K"),
                     ("--match", "("), ("--pool", "nobody"), ("--zone", "nowhere"),
                     ("--range", "2:1"), ("--thread", "none"), ("--format", "xml")):
            result = run("tree", MEMSCEN, *args)
            self.assertEqual(result.returncode, 2, args)
            self.assertIn(args[1] if args[0] != "--match" else "expression", result.stderr)

    def test_into_a_file(self):
        out = self.dir / "tree.json"
        text("tree", MEMSCEN, "--format", "json", "--output", out)
        self.assertEqual(json.loads(out.read_text()), ask("tree", MEMSCEN))
        self.assertEqual(run("tree", MEMSCEN, "--output", out).returncode, 4)
        text("tree", MEMSCEN, "-f", "--output", out)
        self.assert_clean("tree.json")


class Find(Case):
    def test_every_allocation_of_an_address(self):
        for path in (MEMSCEN, THREADS, TRACES / "v0.9.1" / "allscen.tracy"):
            trace = Trace(path)
            events = [e for pool in trace.pools.values() for e in pool["events"]]
            for event in events[::len(events) // 7]:
                address = event[0] + event[1] // 2
                want = sorted((e[2], e[0], e[1], e[3]) for e in events
                              if e[0] <= address <= e[0] + max(e[1], 1) - 1)
                doc = ask("find", path, hex(address))
                got = sorted((a["time_ns"], int(a["address"], 16), a["size"], a["freed_ns"])
                             for a in doc["allocations"])
                self.assertEqual(got, want)
                self.assertEqual(doc["found"], len(want))

    def test_before_and_after(self):
        events = [e for e in Trace(MEMSCEN).pools[0]["events"]]
        uses = collections.Counter(e[0] for e in events)
        address = uses.most_common(1)[0][0]
        history = [e for e in events if e[0] <= address < e[0] + e[1]]
        middle = history[len(history) // 2]
        doc = ask("find", MEMSCEN, address, "--pool", "default", "--at", middle[2])
        found = {a["when"]: a for a in doc["allocations"]}
        self.assertEqual(found["at"]["time_ns"], middle[2])
        self.assertEqual(found["after"]["time_ns"], min(e[2] for e in history if e[2] > middle[2]))
        self.assertEqual(found["before"]["freed_ns"],
                         max(e[3] for e in history if e[3] is not None and e[3] <= middle[2]))
        shown = text("find", MEMSCEN, address, "--at", middle[2], "--stack-traces")
        self.assertIn("before: 0x", shown)
        self.assertIn("after: 0x", shown)
        self.assertIn("worker", shown)

    def test_ranges_and_limits(self):
        pools = report(MEMSCEN)["pools"]
        low, high = pools[0]["low_address"], pools[0]["high_address"]
        doc = ask("find", MEMSCEN, f"{low}-{high}", "--pool", "default")
        self.assertEqual(doc["found"], pools[0]["allocations"])
        self.assertEqual((doc["live"], doc["live_bytes"]),
                         (pools[0]["live_allocations"], pools[0]["live_bytes"]))
        self.assertEqual(len(rows("find", MEMSCEN, f"{low}-{high}", "--limit", 7)), 7)
        shown = text("find", MEMSCEN, f"{low}-{high}", "--pool", "default")
        self.assertIn("the newest 20 of them", shown)
        self.assertEqual(ask("find", MEMSCEN, "0x10+16")["allocations"], [])
        for bad in ("0x", "12z", "5-4", "5+0", "-1", "", "1-"):
            self.assertEqual(run("find", MEMSCEN, "--", bad).returncode, 2, bad)
        self.assertEqual(run("find", MEMSCEN).returncode, 2)


class Map(Case):
    def test_samples_and_cells(self):
        for path in (MEMSCEN, TRACES / "v0.10" / "memscen.tracy"):
            trace = Trace(path)
            pools = {("default" if k == 0 else trace.pointers[p["name_key"]].decode()): p
                     for k, p in trace.pools.items()}
            doc = ask("map", path, "--samples", 20)
            self.assertEqual(doc["schema"], "tidemark.map/1")
            for pool in doc["pools"]:
                events = pools[pool["name"]]["events"]
                for s in pool["samples"]:
                    time = s["time_ns"]
                    live = [e for e in events if e[2] <= time and (e[3] is None or e[3] > time)]
                    self.assertEqual((s["blocks"], s["bytes"]),
                                     (len(live), sum(e[1] for e in live)))
                    pages = {p for e in live for p in range(e[0] >> 12,
                                                            (e[0] + max(e[1], 1) - 1 >> 12) + 1)}
                    self.assertEqual(s["page_bytes"], 4096 * len(pages))
                drawn = sum(sum(line["used_bytes"]) for line in pool["lines"])
                self.assertEqual(drawn, pool["samples"][-1]["covered_bytes"])
            self.assertEqual(len(rows("map", path, "--samples", 20)), 20 * len(doc["pools"]))

    def test_text(self):
        shown = text("map", MEMSCEN, "--pool", "default")
        self.assertNotIn("\033", shown)
        self.assertRegex(shown, r"^pool default at .*: 182 live blocks, 218 KiB, from 0x")
        drawn = [line for line in shown.splitlines() if line.endswith("│")]
        self.assertTrue(0 < len(drawn) <= 32)
        self.assertEqual({len(line) for line in drawn}, {16 + 1 + 1 + 64 + 1})
        self.assertEqual(run("map", MEMSCEN, "--columns", 100).returncode, 2)


class Timeline(Case):
    def test_buckets(self):
        for path in (MEMSCEN, THREADS):
            trace, pools = Trace(path), {p["name"]: p for p in report(path)["pools"]}
            doc = ask("timeline", path, "--buckets", 50)
            self.assertEqual(doc["schema"], "tidemark.timeline/1")
            for series in doc["pools"]:
                pool, buckets = pools[series["name"]], series["buckets"]
                top = max(buckets, key=lambda b: b["high_bytes"])
                self.assertEqual((top["high_bytes"], top["high_time_ns"]),
                                 (pool["peak_bytes"], pool["peak_time_ns"]))
                self.assertEqual(buckets[-1]["last_bytes"], pool["live_bytes"])
                self.assertEqual(buckets[-1]["end_ns"], trace.last_time + 1)
                self.assertEqual(sum(b["allocations"] for b in buckets), pool["allocations"])
                self.assertEqual(sum(b["freed_bytes"] for b in buckets),
                                 pool["total_bytes"] - pool["live_bytes"])
                self.assertIn(pool["peak_bytes"], [p["bytes"] for p in series["peaks"]])
                # What the tree shows at a peak is what the peak holds.
                peak = series["peaks"][0]
                tree = ask("tree", path, "--pool", series["name"], "--at", peak["time_ns"])
                self.assertEqual(tree["total"]["bytes"], peak["bytes"])
            self.assertEqual(len(rows("timeline", path, "--buckets", 50)), 50 * len(doc["pools"]))

    def test_a_window(self):
        """Blocks from before the window are in use in it."""
        whole = ask("timeline", MEMSCEN, "--buckets", 1)["pools"][0]["buckets"][0]
        middle = (whole["high_time_ns"] + whole["end_ns"]) // 2
        late = ask("timeline", MEMSCEN, "--range", f"{middle}:")["pools"][0]["buckets"]
        self.assertEqual(late[0]["begin_ns"], middle)
        self.assertEqual(late[-1]["last_bytes"], whole["last_bytes"])
        self.assertGreater(late[0]["low_bytes"], 0)

    def test_text(self):
        shown = text("timeline", MEMSCEN, "--rows", 4)
        self.assertIn("pool default: 218 KiB in use at the end in 182 blocks", shown)
        self.assertIn("peaks: 8.00 MiB at ", shown)
        self.assertTrue(all(len(line) <= 80 for line in shown.splitlines()
                            if not line.startswith("peaks")))

    def test_times_differ(self):
        """Peaks within 50 us at 1.028 s."""
        shown = text("timeline", TRACES / "v0.14.0" / "ledger.tracy",
                     "--range", "1027800000:1028090000")
        times = re.findall(r"\d+ B at ([\d.]+) s", shown)
        self.assertEqual(len(set(times)), 5, shown)


class Leaks(Case):
    def test_the_program_that_leaks(self):
        """Of memscen's sites text_grow_log never frees; the truth names every live block."""
        for release in RELEASES:
            truth = json.loads((WIRE / release / "memscen.truth.json").read_text())
            path = TRACES / release / "wire_memscen.tracy"
            doc = ask("report", path, "--leaks")
            self.assertEqual(doc["schema"], "tidemark.leaks/1")
            first, *rest = doc["leaks"]
            self.assertEqual((first["function"], first["kind"]), ("text_grow_log(Rng&)", "growing"))
            self.assertGreater(first["z"], 5)
            self.assertNotIn("growing", [leak["kind"] for leak in rest])
            self.assertEqual(sum(leak["live_bytes"] for leak in doc["leaks"]),
                             sum(pool["live_bytes"] for pool in truth["pools"]))
            self.assertEqual(sum(total["count"] for total in doc["totals"].values()),
                             sum(pool["live"] for pool in truth["pools"]))
            lines = text("report", path, "--leaks").splitlines()
            self.assertEqual(lines[2], "Never freed and still growing")
            self.assertIn("text_grow_log", lines[4])

    def test_suppressions(self):
        known = self.dir / "known.txt"
        known.write_text("# known\nleak:^text_grow*&)$\nleak:nothing_is_called_so\n")
        doc = ask("report", MEMSCEN, "--leaks", "--suppressions", known)
        self.assertNotIn("text_grow_log(Rng&)", [leak["function"] for leak in doc["leaks"]])
        self.assertEqual([s["count"] > 0 for s in doc["suppressed"]], [True, False])
        self.assertIn("Suppressions used", text("report", MEMSCEN, "--leaks", "--suppressions", known))
        known.write_text("leak:x\nnonsense\n")
        result = run("report", MEMSCEN, "--leaks", "--suppressions", known)
        self.assertEqual(result.returncode, 2)
        self.assertIn("line 2: not of the form leak:PATTERN", result.stderr)
        self.assertEqual(run("report", MEMSCEN, "--leaks", "--suppressions", self.dir).returncode, 3)
        self.assertEqual(run("report", MEMSCEN, "--suppressions", known).returncode, 2)

    def test_growth(self):
        trace = Trace(MEMSCEN)
        events = [e for pool in trace.pools.values() for e in pool["events"]]
        a, b = events[2000][2], max(e[2] for e in events)

        def use(time):
            return sum(e[1] for e in events if e[2] <= time and (e[3] is None or e[3] > time))

        doc = ask("report", MEMSCEN, "--grown", f"{a}:{b}")
        self.assertEqual((doc["total"]["bytes_before"], doc["total"]["bytes_after"]),
                         (use(a), use(b)))
        self.assertEqual(doc["total"]["growth"], sum(s["growth"] for s in doc["sites"]))
        self.assertEqual(doc["sites"][0]["function"], "text_grow_log(Rng&)")
        table = rows("report", MEMSCEN, "--grown", f"{a}:{b}")
        self.assertEqual([int(r["growth"]) for r in table], [s["growth"] for s in doc["sites"]])
        self.assertIn("+", text("report", MEMSCEN, "--grown", f"{a}:{b}"))
        self.assertEqual(run("report", MEMSCEN, "--grown", "1:2", "--peak").returncode, 2)

    def test_peaks(self):
        for path in (MEMSCEN, THREADS):
            events = [e for pool in Trace(path).pools.values() for e in pool["events"]]
            steps = sorted([(e[3], -e[1]) for e in events if e[3] is not None] +
                           [(e[2], e[1]) for e in events])
            use = highest = 0
            for i, (time, change) in enumerate(steps):
                use += change
                if i + 1 == len(steps) or steps[i + 1][0] != time:
                    highest = max(highest, use)
            doc = report(path, "--peak")
            self.assertEqual(sum(site["bytes"] for site in doc["sites"]), highest)
            self.assertEqual(sum(pool["frees"] for pool in doc["pools"]), 0)
            at = doc["selection"]["at_ns"]
            self.assertEqual(report(path, "--at", at)["sites"], doc["sites"])
            second = report(path, "--peak=2")
            self.assertLessEqual(sum(site["bytes"] for site in second["sites"]), highest)
            self.assertEqual(run("report", path, "--peak=4000").returncode, 2)
            self.assertRegex(text("report", path, "--peak"), r"^live at ")

    def test_selections_of_the_report(self):
        """The report and the tree look at the same allocations."""
        for args in (("--thread", "Main thread"), ("--size", "1K:"), ("--match", "render"),
                     ("--zone", "step"), ("--frame", "20"), ("--at", "230ms")):
            doc, tree = report(MEMSCEN, *args), ask("tree", MEMSCEN, *args)
            for ours, theirs in (("bytes", "bytes"), ("count", "count"), ("temporary", "temporary"),
                                 ("live_bytes", "live_bytes")):
                self.assertEqual(sum(site[ours] for site in doc["sites"]), tree["total"][theirs])
        self.assertNotIn("selection", report(MEMSCEN, "--pool", "default"))
        self.assertRegex(text("report", MEMSCEN, "--size", "5G:"), "^no allocation is as wanted")


class Sums(Case):
    """Of more bytes than 64 bits can tell: they stay at the highest number."""

    def test_they_do_not_begin_anew(self):
        lines = ["v 10500 3", "X prog", "I 1000 1000"]
        lines += [f"s {len(s):x} {s}" for s in ("/lib/a.so", "early", "a.c", "late")]
        lines += ["i 1000 1 2 3 a", "i 2000 1 4 3 b", "t 1 0", "t 2 0", "a ffffffffffff 1", "a 3e8 2"]
        lines += ["c 1"] + ["+ 0"] * 66000
        for i in range(64):
            lines += [f"c {1000 + 100 * i:x}"] + ["+ 1"] * 20
        recording, trace = self.dir / "x.ht", self.dir / "x.tracy"
        recording.write_text("\n".join(lines) + "\n")
        self.assertEqual(run("import", recording, trace).returncode, 0)
        most = r"16\.0 EiB"
        self.assertRegex(text("report", trace, "--leaks"), f"^67,280 .*\\({most}\\); growing: 1.22 MiB")
        for args in ((), ("--leaks",)):
            self.assertRegex(text("report", trace, "--format", "markdown", *args),
                             f"67,280 blocks, {most}; growing")
        self.assertRegex(text("find", trace, "0-0xffffffffffffffff"), f"67,280 still live \\({most}\\)")
        (first, second) = ask("report", trace, "--grown", "0:1h")["sites"]
        self.assertEqual((first["function"], first["growth"]), ("early", 2**63 - 1))
        self.assertEqual((second["function"], second["growth"]), ("late", 64 * 20 * 1000))
        self.assertRegex(text("tree", trace), f"{most} +100 %")
        self.assertRegex(text("timeline", trace), f"{most} in use")


class Diff(Case):
    def test_types(self):
        """By type the rows are those of both reports; a site has the type of most bytes."""
        elements = {b"A": 0x401000, b"B": 0x402000, b"<i>C": 0x403000}
        program = {b"one": 0x501000, b"two": 0x502000}

        def trace(name, blocks):
            items = thread_name(7, b"main")
            for element, at in elements.items():
                items += frame_name(at, b"std::__new_allocator<" + element +
                                    b">::allocate(unsigned long, void const*)", b"new.h", 1)
            for function, at in program.items():
                items += frame_name(at, function, b"a.cpp", 1)
            for i, (element, function, size) in enumerate(blocks):
                items += callstack(*([elements[element]] if element else []), program[function])
                items += alloc(10, 7, 0x10000 + 0x1000 * i, size)
            self.assertEqual(capture_items(self.dir / name, items).returncode, 0)
            return self.dir / name

        old = trace("old", [(b"A", b"one", 10), (b"B", b"one", 5), (None, b"two", 7)])
        new = trace("new", [(b"A", b"one", 10), (b"B", b"one", 50), (b"B", b"one", 1),
                            (None, b"one", 3), (b"<i>C", b"two", 9)])
        doc = ask("diff", old, new, "--by", "type")
        found = {r["type"]: (r["kind"], r["base"] and r["base"]["bytes"],
                             r["now"] and r["now"]["bytes"]) for r in doc["rows"]}
        self.assertEqual(found, {"B": ("grown", 5, 51), "<i>C": ("new", None, 9),
                                 None: ("shrunk", 7, 3)})
        self.assertEqual(doc["same"], 1)
        for path, side in ((old, "base"), (new, "now")):
            groups = {g["type"]: g["bytes"] for g in report(path, "--by", "type")["groups"]}
            for row in doc["rows"]:
                if row[side]:
                    self.assertEqual(groups[row["type"]], row[side]["bytes"])
        rows_of = {r["function"]: r for r in ask("diff", old, new)["rows"]}
        self.assertEqual((rows_of["one"]["type"], rows_of["one"]["other_types"]), ("B", 2))
        self.assertEqual((rows_of["two"]["type"], rows_of["two"]["other_types"]), ("<i>C", 0))
        shown = text("diff", old, new)
        self.assertRegex(shown, r"one \(a\.cpp:1\)  type B, \+2\n")
        self.assertEqual([r["type"] for r in rows("diff", old, new)], ["B", "<i>C"])
        shown = text("diff", old, new, "--format", "markdown")
        self.assertIn("| Change | Type |\n| --- | --- | ---: | ---: | ---: | --- |", shown)
        self.assertNotIn("<i>", without_code(shown))
        self.assertIn("[no type]", text("diff", old, new, "--by", "type"))
        self.assertNotIn("| Type |", text("diff", old, new, "--format", "markdown", "--by", "type"))
        self.assertEqual(run("diff", old, new, "--by", "thread").returncode, 2)

    def test_releases_of_one_program(self):
        """The same steps recorded with six releases: nothing but addresses differs."""
        for release in RELEASES[:-1]:
            for by in ("site", "callstack"):
                doc = ask("diff", TRACES / release / "memscen.tracy", MEMSCEN, "--by", by)
                self.assertEqual(doc["schema"], "tidemark.diff/1")
                if by == "site":
                    self.assertEqual((doc["rows"], doc["same"]), ([], 16), release)
                for pool in doc["pools"]:
                    self.assertEqual(pool["base"], pool["now"])

    def test_what_changed(self):
        base, now = report(MEMSCEN), report(THREADS)
        doc = ask("diff", MEMSCEN, THREADS)

        def by_site(report_of):
            sums = collections.Counter()
            for site in report_of["sites"]:
                sums[site["pool"], site["function"], (site["file"] or "").split("/")[-1]] += \
                    site["bytes"]
            return sums

        a, b = by_site(base), by_site(now)
        want = {key: (a.get(key), b.get(key)) for key in {**a, **b} if a.get(key) != b.get(key)}
        got = {(r["pool"], r["function"], (r["file"] or "").split("/")[-1]):
               (r["base"] and r["base"]["bytes"], r["now"] and r["now"]["bytes"])
               for r in doc["rows"]}
        self.assertEqual(got, want)
        for pool in now["pools"]:
            theirs = next(p["now"] for p in doc["pools"] if p["name"] == pool["name"])
            self.assertEqual(theirs["peak_bytes"], pool["peak_bytes"])
            self.assertEqual(theirs["live_bytes"], pool["live_bytes"])
        self.assertEqual(len(rows("diff", MEMSCEN, THREADS)), len(doc["rows"]))
        shown = text("diff", MEMSCEN, THREADS, "--limit", 2, "--stack-traces")
        self.assertRegex(shown, r"\nGrown: \d+ sites, by bytes\n")
        self.assertIn("more (--limit 0 shows all)", shown)
        self.assertIn("worker", shown)

    def test_budgets(self):
        cases = (("peak>+5%", 0), ("count>+5%", 1), ("leaked>0", 1), ("faults>0", 0),
                 ("total(site=~\"realloc\")<-50% and peak(pool=\"arena\")>+10K", 1),
                 ("not leaked_count>100", 0))
        for expression, status in cases:
            result = run("diff", MEMSCEN, THREADS, "--fail-if", expression)
            self.assertEqual(result.returncode, status, expression)
            self.assertIn("FAILED" if status else "ok", result.stdout)
            self.assertEqual(expression in result.stderr, status == 1)
        self.assertEqual(run("diff", MEMSCEN, THREADS, "--fail-if", "peak>5%").returncode, 2)
        out = self.dir / "junit.xml"
        args = [arg for expression, _ in cases for arg in ("--fail-if", expression)]
        result = run("diff", MEMSCEN, THREADS, "--format", "junit", "-o", out, *args)
        self.assertEqual(result.returncode, 1)
        suite = xml.etree.ElementTree.parse(out).getroot().find("testsuite")
        self.assertEqual((suite.get("tests"), suite.get("failures")), ("6", "3"))
        self.assertEqual([case.get("name") for case in suite.iter("testcase")],
                         [expression for expression, _ in cases])
        doc = json.loads(run("diff", MEMSCEN, THREADS, "--format", "json", *args).stdout)
        self.assertEqual([c["holds"] for c in doc["checks"]], [not status for _, status in cases])

    def test_no_budget_holds_of_no_memory_data(self):
        bare, told = self.dir / "bare.tracy", "unknown, no memory data: the trace has no"
        self.assertEqual(run("update", "-s", "M", MEMSCEN, bare).returncode, 0)
        for budget in ("peak>512M", "peak<512M", "faults>0"):
            result = run("report", bare, "--fail-if", budget)
            self.assertEqual(result.returncode, 1, budget)
            self.assertIn(f"fail-if {budget}: {told}", result.stderr)
        self.assertEqual(run("verify", bare, "--expect", "peak=0").returncode, 1)
        for before, after, budget, status in ((MEMSCEN, bare, "peak>+5%", 1),
                                              (bare, MEMSCEN, "peak>+99999999%", 1),
                                              (bare, MEMSCEN, "peak>1G", 0)):
            result = run("diff", before, after, "--fail-if", budget)
            self.assertEqual(result.returncode, status, result.stdout)
            self.assertEqual(": unknown" in result.stderr, status == 1)
        # Selected to nothing is something else.
        self.assertEqual(run("report", MEMSCEN, "--size", "1G:", "--fail-if", "peak>0").returncode, 0)

    def test_budgets_of_one_trace(self):
        self.assertEqual(run("report", MEMSCEN, "--fail-if", "peak>8M").returncode, 0)
        result = run("report", MEMSCEN, "--fail-if", "peak>=8M", "--format", "json")
        self.assertEqual(result.returncode, 1)
        check = next(c for c in json.loads(result.stdout)["checks"] if c["name"] == "fail-if")
        self.assertEqual((check["holds"], check["detail"]),
                         (False, "peak>=8M: peak is 8.00 MiB (8,388,608)"))
        self.assertEqual(run("report", MEMSCEN, "--fail-if", "peak>+1%").returncode, 2)
        out = self.dir / "report.txt"
        self.assertEqual(run("report", MEMSCEN, "--fail-if", "leaked>0", "-o", out).returncode, 1)
        self.assertIn("vram_reserve", out.read_text())
        self.assertEqual(run("verify", MEMSCEN, "--expect", "count=9001").returncode, 0)
        result = run("verify", MEMSCEN, "--expect", "count=9001", "--expect", "leaked=0")
        self.assertEqual(result.returncode, 1)
        self.assertIn("FAILED expect: leaked=0: leaked is", result.stdout)

    def test_budgets_of_what_is_not_there(self):
        """A misspelt name has the figure 0: the budget holds, and the output says so."""
        told = ('leaked(pool="gpux") is 0 bytes; nothing matches pool="gpux" '
                "(pools: default, arena, gpu.vram)")
        typo, fine = 'leaked(pool="gpux")>0', 'leaked(pool=~"^gpu.")>1G'
        args = ("--fail-if", typo, "--fail-if", fine, "--fail-if", 'count(pool!="default")>10000')
        for command in (("report", MEMSCEN), ("diff", THREADS, MEMSCEN),
                        ("diff", THREADS, "--", MEMSCEN, MEMSCEN)):
            for form in ("json", "junit", "markdown"):
                result = run(*command[:1], *args, "--format", form, *command[1:])
                self.assertEqual((result.returncode, result.stderr),
                                 (0, f"tidemark: note: fail-if {typo}: {told}\n"))
                if form == "json":
                    checks = [check["detail"] for check in json.loads(result.stdout)["checks"]]
                    self.assertEqual([told in one for one in checks[-3:]], [True, False, False])
                if form == "junit":
                    suite = xml.etree.ElementTree.fromstring(result.stdout)
                    self.assertEqual([told in one.text for one in suite.iter("system-out")],
                                     [True, False, False])
                if form == "markdown":
                    self.assertEqual(re.findall("^- (✅|⚠️)", result.stdout, re.M),
                                     ["⚠️", "✅", "✅"])
        result = run("verify", MEMSCEN, "--expect", 'leaked(site="parsse")=0')
        self.assertEqual(result.returncode, 0)
        self.assertIn('nothing matches site="parsse"', result.stdout)
        # What only the older side has is known.
        result = run("diff", TRACES / "v0.14.0" / "allscen.tracy", MEMSCEN, "--fail-if",
                     'count(site="fibers")>+5%')
        self.assertEqual(result.stderr, "")

    def test_names_stay_text(self):
        """What a program calls its functions means nothing in Markdown and XML."""
        out = self.dir / "x.tracy"
        name = b"<script>alert(1)</script>|`[x](y)*&\x1b[31m"
        items = thread_name(7, b"main") + frame_name(0x401000, name, b"<a>.c", 3)
        items += callstack(0x401000) + alloc(10, 7, 0x1000, 64)
        self.assertEqual(capture_items(out, items).returncode, 0)
        for form in ("markdown", "junit", "text"):
            shown = run("diff", MEMSCEN, out, "--format", form, "--fail-if",
                        "count(site=~\"<script>\")>0").stdout
            self.assertNotIn("\x1b", shown)
            if form != "text":
                self.assertNotIn("<script>", without_code(shown))
            if form == "junit":
                xml.etree.ElementTree.fromstring(shown)
        shown = run("diff", MEMSCEN, out, "--format", "markdown", "--limit", 0).stdout
        self.assertEqual({line.count("|") for line in shown.splitlines() if line[:1] == "|"}, {6})


class Moments(Case):
    def test_zones(self):
        """The truth names the innermost zone of every allocation."""
        for release in RELEASES:
            truth = json.loads((WIRE / release / "memscen.truth.json").read_text())
            want = {z["innermost_zone"] or "[no zone]": (z["allocs"], z["bytes"])
                    for z in truth["zones"]}
            got = collections.defaultdict(lambda: (0, 0))
            doc = report(TRACES / release / "wire_memscen.tracy", "--by", "zone")
            for row in doc["groups"]:
                count, size = got[row["name"]]
                got[row["name"]] = (count + row["count"], size + row["bytes"])
            self.assertEqual(dict(got), want)
            self.assertEqual(sum(row["live_bytes"] for row in doc["groups"]),
                             sum(pool["live_bytes"] for pool in doc["pools"]))

    def test_frames(self):
        trace = Trace(MEMSCEN)
        events = [e for pool in trace.pools.values() for e in pool["events"]]
        want = collections.Counter()
        for event in events:
            begun = sum(start <= event[2] for start in trace.base_frames)
            want[f"frame {begun - 1}" if begun else "[before the first frame]"] += event[1]
        got = collections.Counter()
        for row in report(MEMSCEN, "--by", "frame")["groups"]:
            got[row["name"]] += row["bytes"]
        self.assertEqual(got, want)
        self.assertIn("frame ", text("report", MEMSCEN, "--by", "frame", "--limit", 3))


    def test_calls_of_zones(self):
        """Against the zones of the file, as a second reader has them."""
        for path in (MEMSCEN, TRACES / "v0.10" / "memscen.tracy"):
            trace, names = Trace(path), {0: "default"}
            names.update({key: trace.pointers[pool["name_key"]].decode()
                          for key, pool in trace.pools.items() if key})
            calls, own, inner = self.calls(trace, names)
            groups = report(path, "--by", "zone")["groups"]
            self.assertEqual({(r["pool"], r["name"]) for r in groups if "calls" in r},
                             {(pool, calls[c]) for pool, c in own})
            for row in groups:
                if "calls" not in row:
                    self.assertEqual(row["name"], "[no zone]")
                    continue
                ids = [c for c, name in calls.items() if name == row["name"]]
                self.assertEqual(row["calls"], len(ids))
                for key, figures in (("per_call", own), ("per_call_with_inner", inner)):
                    got = row[key]
                    for at, what in enumerate(("count", "bytes")):
                        each = [figures[row["pool"], c][at] for c in ids
                                if (row["pool"], c) in figures]
                        self.assertEqual(got[f"{what}_max"], max(each))
                        self.assertAlmostEqual(got[f"{what}_mean"], sum(each) / len(ids))

    @staticmethod
    def calls(trace, names):
        """Call -> zone's name; (pool, call) -> [allocations, bytes], of its own and with those
        inside."""
        calls, own, inner = {}, {}, {}
        for thread, allocs in _by_thread(trace, names).items():
            way, at = [], 0
            zones = trace.resolved_zones(thread) if thread in trace.thread_details else []
            for record in [*zones, ("end", None)]:
                # What happens as a zone ends is inside it, unless the next one begins then.
                while at < len(allocs) and (record[1] is None or allocs[at][0] < record[1] or
                                            record[0] == "end" and allocs[at][0] == record[1]):
                    _, pool, size = allocs[at]
                    for depth, call in enumerate(reversed(way)):
                        for figures in (own, inner) if depth == 0 else (inner,):
                            sums = figures.setdefault((pool, call), [0, 0])
                            sums[0] += 1
                            sums[1] += size
                    at += 1
                if record[0] == "begin":
                    calls[len(calls)] = (record[2][0] or record[2][1]).decode()
                    way.append(len(calls) - 1)
                elif way:
                    way.pop()
        return calls, own, inner

    def test_frames_that_stand_apart(self):
        trace = Trace(MEMSCEN)
        doc = report(MEMSCEN, "--by", "frame")
        shown = {(row["pool"], row["frame"]): row for row in doc["groups"]}
        for pool in doc["frames"]:
            key = 0 if pool["pool"] == "default" else next(
                k for k, p in trace.pools.items()
                if k and trace.pointers[p["name_key"]].decode() == pool["pool"])
            counts = [0] * len(trace.base_frames)
            for event in trace.pools[key]["events"]:
                begun = sum(start <= event[2] for start in trace.base_frames)
                if begun:
                    counts[begun - 1] += 1
            median = statistics.median(counts)
            mad = statistics.median([abs(n - median) for n in counts])
            self.assertEqual((pool["frames"], pool["empty"]), (len(counts), counts.count(0)))
            self.assertEqual((pool["count"]["median"], pool["count"]["mad"]), (median, mad))
            for frame, n in enumerate(counts):
                if n:
                    self.assertAlmostEqual(shown[pool["pool"], frame]["count_score"],
                                           0.6745 * (n - median) / mad, places=3)
        self.assertEqual([o["frame"] for o in doc["frames"][0]["outliers"]], [1])
        self.assertIn("frame 1 is an outlier: 32 allocations",
                      text("report", MEMSCEN, "--by", "frame"))


def _by_thread(trace, names):
    """Thread -> (time, pool, size) of its allocations, in order of time."""
    allocs = collections.defaultdict(list)
    for key, events in trace.memory_by_pool().items():
        for event in events:
            allocs[event[6]].append((event[2], names[key], event[1]))
    return {thread: sorted(list_) for thread, list_ in allocs.items()}


class Related(Case):
    """Plots and messages that moved with memory."""

    def program(self):
        """A trace that holds what it is about: use follows "load level" and is told by "in use"."""
        rng = random.Random(3)
        items = thread_name(7, b"main")
        for key, name in ((0x100, b"in use"), (0x200, b"left"), (0x300, b"noise"), (0x400, b"idle")):
            items += struct.pack("<BQH", PLOT_NAME, key, len(name)) + name
        for key, name in ((0x500, b"load level"), (0x600, b"tick"), (0x700, b"\x1b[31mred")):
            items += string(key, name)
        memory, thread, use, live = b"", struct.pack("<BI", THREAD_CONTEXT, 7), 0, []
        now = 0  # a plot's time is that after the last one's, a message's stands alone
        for i in range(1, 1501):
            time = 1000 * i
            if i % 150 == 20:
                thread += struct.pack("<BqQ", MESSAGE, time - 900, 0x500)
            for _ in range(rng.random() < 0.1):
                thread += struct.pack("<BqQ", MESSAGE, time - 500, rng.choice((0x600, 0x700)))
            size = 100000 if i % 150 in (20, 21, 22) else rng.randrange(1, 200)
            if rng.random() < 0.55 or size == 100000:
                live.append((0x100000 * i, size))
                memory += alloc_plain(1000, 7, *live[-1])
                use += size
            elif live:
                ptr, size = live.pop(rng.randrange(len(live)))
                memory += free(1000, 7, ptr)
                use -= size
            else:
                live.append((0x100000 * i, 1))
                memory += alloc_plain(1000, 7, *live[-1])
                use += 1
            for name, value in ((0x100, use), (0x200, 1e9 - use), (0x300, rng.random()), (0x400, 1)):
                thread += struct.pack("<BQqd", PLOT_DOUBLE, name, time + 10 - now, value)
                now = time + 10
        out = self.dir / "moved.tracy"
        parts = [items + memory, thread]
        frames = b"".join(frame(part[at : at + 200000]) for part in parts
                          for at in range(0, len(part), 200000))
        client = FakeClient(frames + frame(TERMINATE))
        with contextlib.closing(client.socket):
            done = run("capture", "-f", "-o", out, "-p", client.port, "--connect-timeout", LIMIT)
        client.thread.join(timeout=LIMIT)
        self.assertEqual(done.returncode, 0, done.stderr)
        return out

    def test_what_moved(self):
        trace = self.program()
        doc = ask("report", trace, "--related", "--window", "8us")
        self.assertEqual(doc["schema"], "tidemark.related/1")
        plots = {p["plot"]: p for p in doc["plots"]}
        self.assertEqual({name for name, p in plots.items() if p["related"]}, {"in use", "left"})
        self.assertGreater(plots["in use"]["spearman"], 0.9)
        self.assertLess(plots["left"]["spearman"], -0.9)
        self.assertEqual(plots["in use"]["points"], 1500)
        self.assertIsNone(plots["idle"]["p"])
        messages = {m["message"]: m for m in doc["messages"]}
        self.assertEqual([m for m, row in messages.items() if row["related"]], ["load level"])
        level = messages["load level"]
        self.assertEqual((level["count"], level["used"]), (10, 10))
        self.assertGreater(level["steep"], 3 * level["expected"])
        self.assertGreater(level["rise_bytes"], 200000)
        shown = text("report", trace, "--related", "--window", "8us")
        self.assertIn("load level", shown)
        self.assertNotIn("noise", shown)
        self.assertNotIn("\x1b", text("report", trace, "--related", "--format", "csv"))
        table = rows("report", trace, "--related", "--window", "8us")
        self.assertEqual({r["name"] for r in table if r["related"] == "1"},
                         {"in use", "left", "load level"})
        self.assertEqual(len(table), len(doc["plots"]) + len(doc["messages"]))

    def test_ranges_and_pools(self):
        trace = self.program()
        doc = ask("report", trace, "--related", "--range", "0:500us")
        self.assertLessEqual(doc["end_ns"], 500000)
        points = {p["plot"]: p["points"] for p in doc["plots"]}
        self.assertLess(points["in use"], 501)
        # A selection of allocations that has none of the large ones: no message tells of those.
        doc = ask("report", trace, "--related", "--window", "8us", "--size", ":1000")
        self.assertFalse([m for m in doc["messages"] if m["related"]])
        allscen = TRACES / "v0.14.0" / "allscen.tracy"
        doc = ask("report", allscen, "--related", "--pool", "pool A")
        self.assertEqual({row["pool"] for row in doc["plots"] + doc["messages"]}, {"pool A"})
        counts = collections.Counter(m[1] for m in Trace(allscen).messages)
        self.assertEqual({m["message"]: m["count"] for m in doc["messages"]},
                         {m.decode(errors="replace"): n for m, n in counts.items()})

    def test_refusals(self):
        for wrong in (["--window", "1s"], ["--related", "--window", "0"],
                      ["--related", "--leaks"],
                      ["--related", "--peak"], ["--related", "--fail-if", "peak>0"],
                      ["--related", "--format", "html"]):
            with self.subTest(wrong=wrong):
                self.assertEqual(run("report", MEMSCEN, *wrong).returncode, 2)
        self.assertEqual(capture_items(self.dir / "x.tracy", alloc_plain(10, 7, 0x1000, 64))
                         .returncode, 0)
        shown = text("report", self.dir / "x.tracy", "--related")
        self.assertIn("no plots", shown)
        self.assertIn("no messages", shown)


class Histograms(Case):
    def test_against_the_file(self):
        for path in (MEMSCEN, THREADS):
            events = [e for pool in Trace(path).pools.values() for e in pool["events"]]
            doc = ask("report", path, "--histograms")
            self.assertEqual(doc["schema"], "tidemark.histograms/1")
            want = collections.Counter(1 << e[1].bit_length() - 1 if e[1] else 0 for e in events)
            self.assertEqual({s["from"]: s["count"] for s in doc["sizes"]}, dict(want))
            freed = [e for e in events if e[3] is not None]
            self.assertEqual(sum(life["count"] for life in doc["lifetimes"]), len(freed))
            for life in doc["lifetimes"]:
                if life["below_ns"]:
                    self.assertEqual(life["count"], sum(
                        life["below_ns"] // 10 * (life["below_ns"] > 100) <= e[3] - e[2] <
                        life["below_ns"] for e in freed))
            self.assertEqual(doc["freed_on_another_thread"]["count"],
                             sum(e[6] != e[7] for e in freed))
            self.assertIn("freed on another thread: ", text("report", path, "--histograms"))
            table = rows("report", path, "--histograms")
            self.assertEqual(sum(int(r["count"]) for r in table if r["kind"] == "size"),
                             len(events))
        self.assertEqual(run("report", MEMSCEN, "--histograms", "--fail-if", "peak>0").returncode, 2)
