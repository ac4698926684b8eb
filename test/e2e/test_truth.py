"""A program whose leaks, peak, temporary blocks and growth are known because it is made here, as a
client on the wire and as a recording of heaptrack: all of them are found, and nothing else. And
memory faults, with the call stacks of both their sides."""

import collections
import contextlib
import csv
import io
import json
import random
import struct

from clients import capture_items, frame_name, thread_name
from pagedata import Page
from test_capture import TERMINATE, FakeClient, alloc, callstack, frame
from tools import LIMIT, TRACES, Case, report, run

MEMSCEN = TRACES / "v0.14.0" / "memscen.tracy"
BUILT = "without the page" not in run("report", MEMSCEN, "--format", "html", "--by", "site").stderr

MAIN, WORKER = 7, 8
STEP = 1000  # ns from event to event
ROUNDS = 1000

Event = collections.namedtuple("Event", "is_alloc thread site size block")


class Program:
    """What happens to blocks, in order. A site is a function; its line is its number."""

    def __init__(self):
        self.sites, self.events = [], []
        self.live = {}  # block → (site, size, thread)
        self.blocks = 0
        self.run()

    def site(self, name):
        if name not in self.sites:
            self.sites.append(name)
        return name

    def take(self, site, size, thread=MAIN):
        self.blocks += 1
        self.live[self.blocks] = (self.site(site), size, thread)
        self.events.append(Event(True, thread, site, size, self.blocks))
        return self.blocks

    def drop(self, block, thread=MAIN):
        site, size, _ = self.live.pop(block)
        self.events.append(Event(False, thread, site, size, block))

    def vector(self):
        held = self.take("grow_vector", 32)
        for step in range(1, 9):
            fresh = self.take("grow_vector", 32 << step)
            self.drop(held)
            held = fresh
        return held

    def run(self):
        chance = random.Random(5)
        for size in (100_000, 5_000, 300):
            self.take("load_config", size)
        cache = [self.take("cache_insert", 500) for _ in range(40)]
        swing, burst, vector = [], [], None
        for i in range(ROUNDS):
            if i % 10 == 3:
                self.take("leak_often", 64)
            if i % 50 == 7:
                self.take("leak_seldom", 40)
            for _ in range(3):
                self.drop(self.take("format_line", 200))
            slot = chance.randrange(len(cache))
            self.drop(cache[slot])
            cache[slot] = self.take("cache_insert", chance.randrange(1, 1000))
            if swing and chance.random() < 0.5:
                self.drop(swing.pop())
            elif len(swing) < 30:
                swing.append(self.take("swing", 400, WORKER))
            if i % 100 == 50:
                vector = self.vector()
            if i % 100 == 60:
                self.drop(vector)
            if i == 300:
                burst = [self.take("decode_frame", 65536) for _ in range(200)]
            if i == 310:
                for block in burst:
                    self.drop(block, WORKER)

    # ---- what is true of it, one event at a time

    def never_freed(self):
        sums = collections.defaultdict(lambda: (0, 0))
        for site, size, _ in self.live.values():
            sums[site] = (sums[site][0] + 1, sums[site][1] + size)
        return dict(sums)

    def peak(self):
        """(bytes, number of the event, what each site held) at the highest use."""
        held, now, best = collections.Counter(), 0, (0, 0, {})
        for number, e in enumerate(self.events):
            held[e.site] += e.size if e.is_alloc else -e.size
            now += e.size if e.is_alloc else -e.size
            if now > best[0]:
                best = (now, number, dict(held))
        return best

    def temporary(self):
        """Freed by the allocating thread's very next event."""
        counts, last = collections.Counter(), {}
        for e in self.events:
            before = last.get(e.thread)
            if not e.is_alloc and before and before.is_alloc and before.block == e.block:
                counts[e.site] += 1
            last[e.thread] = e
        return dict(counts)

    # ---- forms of it

    def address(self, site, depth=0):
        return 0x401000 + 0x100 * self.sites.index(site) + 0x10000 * depth

    def wire(self):
        items = thread_name(MAIN, b"main") + thread_name(WORKER, b"worker")
        items += frame_name(0x500000, b"operator new(unsigned long)", b"new_op.cc", 50)
        items += frame_name(0x510000, b"main", b"app.cpp", 900)
        for line, site in enumerate(self.sites, 1):
            items += frame_name(self.address(site), site.encode(), b"app.cpp", line)
        frames = [frame(items)]
        items = b""
        for e in self.events:
            # Every event has a call stack of its own: what is pending is taken by the next one.
            items += callstack(0x500000, self.address(e.site), 0x510000)
            place = 0x7f0000000000 + e.block * 0x20000
            items += (alloc(STEP, e.thread, place, e.size) if e.is_alloc
                      else free_there(STEP, e.thread, place))
            if len(items) > 60000:
                frames.append(frame(items))
                items = b""
        return b"".join(frames + [frame(items + TERMINATE)])

    def heaptrack(self):
        names = ["app", "app.cpp", "main", *self.sites]
        out = ["v 10500 3", "X ./app", "I 1000 5e298d"]
        out += [f"s {len(name):x} {name}" for name in names]
        out += ["i 401000 1 3 2 384", "t 1 0"]
        for number, site in enumerate(self.sites):
            out += [f"i {self.address(site):x} 1 {number + 4:x} 2 {number + 1:x}",
                    f"t {number + 2:x} 1"]
        kinds = {}
        for i, e in enumerate(self.events):
            kind = (e.size, e.site)
            if kind not in kinds:
                kinds[kind] = len(kinds)
                out.append(f"a {e.size:x} {self.sites.index(e.site) + 2:x}")
            if i % 100 == 0:
                out.append(f"c {i:x}")
            out.append(f"{'+' if e.is_alloc else '-'} {kinds[kind]:x}")
        return "\n".join(out) + "\n"


def free_there(time, thread, ptr):
    """A free with a call stack."""
    return struct.pack("<BqIQ", 31, time, thread, ptr)


def ask(*args):
    return json.loads(run(*args, "--format", "json").stdout)


def rows(*args):
    return list(csv.DictReader(io.StringIO(run(*args, "--format", "csv").stdout)))


class Truth(Case):
    @classmethod
    def setUpClass(cls):
        cls.program = Program()

    def trace(self, form):
        out = self.dir / f"{form}.tracy"
        if form == "heaptrack":
            recording = self.dir / "heaptrack.app.1"
            recording.write_text(self.program.heaptrack())
            result = run("import", recording, out)
        else:
            client = FakeClient(self.program.wire())
            with contextlib.closing(client.socket):
                result = run("capture", "-o", out, "-p", client.port, "--connect-timeout", LIMIT)
            client.thread.join(timeout=10)
        self.assertEqual(result.returncode, 0, result.stderr)
        return out

    def check_leaks(self, path):
        doc = ask("report", path, "--leaks", "--limit", 0)
        self.assertEqual({r["function"]: (r["live_count"], r["live_bytes"]) for r in doc["leaks"]},
                         self.program.never_freed())
        kinds = collections.defaultdict(set)
        for r in doc["leaks"]:
            kinds[r["kind"]].add(r["function"])
        self.assertEqual(kinds["growing"], {"leak_often", "leak_seldom"})
        self.assertEqual(kinds["at-start"], {"load_config"})
        # The first site that is printed is the worst leak.
        lines = run("report", path, "--leaks").stdout.splitlines()
        self.assertEqual(lines[2], "Never freed and still growing")
        self.assertIn("leak_often (app.cpp:", lines[4])

    def check_peak(self, path, at=None):
        size, number, held = self.program.peak()
        doc = report(path, "--sort", "at-peak", "--limit", 0)
        pool, = doc["pools"]
        self.assertEqual(pool["peak_bytes"], size)
        if at:
            self.assertEqual(pool["peak_time_ns"], at(number))
        got = {s["function"]: s["at_peak_bytes"] for s in doc["sites"] if s["at_peak_bytes"]}
        self.assertEqual(got, {site: n for site, n in held.items() if n})
        self.assertEqual(doc["sites"][0]["function"], "decode_frame")
        # The same by asking for what was live then.
        then = {s["function"]: s["bytes"] for s in report(path, "--peak", "--limit", 0)["sites"]}
        self.assertEqual(then, got)

    def check_patterns(self, path, temporary):
        doc = ask("report", path, "--patterns", "--limit", 0)
        self.assertEqual(doc["schema"], "tidemark.patterns/1")
        sites = {s["function"]: s for s in doc["sites"]}
        self.assertEqual(set(sites), set(self.program.sites))
        vectors = ROUNDS // 100
        self.assertEqual({n for n, s in sites.items() if s["growth"]["told"]}, {"grow_vector"})
        self.assertEqual(sites["grow_vector"]["growth"],
                         {"told": True, "chains": vectors, "steps": 8 * vectors, "longest": 8,
                          "copied_bytes": vectors * 32 * 255, "steps_down": 0,
                          "given_back_bytes": 0})
        self.assertEqual({n: s["temporary"]["count"] for n, s in sites.items()
                          if s["temporary"]["count"]}, temporary)
        self.assertEqual(sites["format_line"]["temporary"]["longest_run"], 3)
        self.assertEqual({n for n, s in sites.items() if s["never_grown"]}, {"decode_frame"})
        table = {r["function"]: r for r in rows("report", path, "--patterns", "--limit", 0)}
        for name, site in sites.items():
            self.assertEqual(int(table[name]["copied_bytes"]), site["growth"]["copied_bytes"])
            self.assertEqual(int(table[name]["temporary"]), site["temporary"]["count"])
        words = run("report", path, "--patterns").stdout
        for title in ("Grow by copying", "Temporary blocks one after the other",
                      "Large, of one size, and never grown", "Room that glibc's malloc would add"):
            self.assertIn(title, words)

    def test_on_the_wire(self):
        path = self.trace("wire")
        self.check_leaks(path)
        self.check_peak(path, at=lambda number: STEP * (number + 1))
        temporary = self.program.temporary()
        self.assertEqual(set(temporary), {"format_line"})
        self.check_patterns(path, temporary)
        self.assertEqual({s["function"]: s["temporary"]
                          for s in report(path, "--limit", 0)["sites"] if s["temporary"]},
                         temporary)
        doc = ask("report", path, "--histograms")
        burst = sum(e.site == "decode_frame" for e in self.program.events) // 2
        self.assertLessEqual(burst, doc["freed_on_another_thread"]["count"])
        self.assertEqual(ask("report", path, "--faults")["faults"], [])

    def test_recorded_by_heaptrack(self):
        """That has one thread and no order within kinds; the rest is the same."""
        path = self.trace("heaptrack")
        self.check_leaks(path)
        self.check_peak(path)
        self.assertEqual(run("report", path, "--faults").stdout, "no memory faults\n")


class Faults(Case):
    def test_both_sides(self):
        out = self.dir / "x.tracy"
        items = thread_name(7, b"main")
        for line, name in enumerate((b"make", b"drop", b"again"), 1):
            items += frame_name(0x401000 * line, name, b"a.c", line)
        make, drop, again = (callstack(0x401000 * n) for n in (1, 2, 3))
        items += make + alloc(10, 7, 0x1000, 64) + drop + free_there(10, 7, 0x1000)
        items += again + free_there(10, 7, 0x1000)
        items += make + alloc(10, 7, 0x2000, 32) + again + alloc(10, 7, 0x2000, 16)
        self.assertEqual(capture_items(out, items).returncode, 0)
        doc = ask("report", out, "--faults")
        self.assertEqual(doc["schema"], "tidemark.faults/1")
        self.assertEqual((doc["unknown_frees"], doc["double_allocations"]), (1, 1))
        freed, taken = doc["faults"]

        def names(stack):
            return [f["function"] for f in stack]

        self.assertEqual((freed["kind"], names(freed["callstack"])), ("free-of-unknown", ["again"]))
        sample, = freed["samples"]
        self.assertEqual((sample["cause"], sample["address"]), ("freed-before", "0x1000"))
        self.assertEqual(names(sample["previous"]["callstack"]), ["make"])
        self.assertEqual(names(sample["previous"]["free_callstack"]), ["drop"])
        self.assertEqual((sample["previous"]["time_ns"], sample["previous"]["freed_ns"]), (10, 20))
        self.assertEqual((taken["kind"], names(taken["callstack"])), ("allocated-twice", ["again"]))
        sample, = taken["samples"]
        self.assertEqual((sample["cause"], sample["size"]), ("held", 16))
        self.assertEqual(names(sample["held_by"]), ["make"])
        self.assertEqual((sample["previous"]["size"], sample["previous"]["time_ns"]), (32, 40))
        words = run("report", out, "--faults").stdout
        self.assertIn("free-of-unknown, 1 time in pool default, at again (a.c:3)\n"
                      "  0x1000 at 30 ns: freed twice\n    free at 30 ns, main\n", words)
        for step in ("    freed at 20 ns, main\n", "    first allocated at 40 ns, main\n"):
            self.assertIn(step, words)
        table = rows("report", out, "--faults")
        self.assertEqual([r["cause"] for r in table], ["freed-before", "held"])
        self.assertEqual(ask("report", out, "--faults", "--match", "drop")["faults"], [])
        self.assertIs(doc["knows_unknown_frees"], True)

    def test_selected(self):
        """By everything that selects allocations; of many equal ones only some were noted."""
        out = self.dir / "x.tracy"
        items = thread_name(7, b"main") + thread_name(8, b"worker")
        for line, name in enumerate((b"make", b"drop", b"again"), 1):
            items += frame_name(0x401000 * line, name, b"a.c", line)
        make, drop, again = (callstack(0x401000 * n) for n in (1, 2, 3))
        items += make + alloc(10, 7, 0x1000, 64) + drop + free_there(10, 7, 0x1000)
        for i in range(20):  # at 30, 40, … 220; all noted at first: those at 30 to 50, 200 to 220
            items += again + free_there(10, 8 if i == 19 else 7, 0x1000)
        items += make + alloc(10, 7, 0x2000, 32) + again + alloc(10, 8, 0x2000, 16)
        for _ in range(30):  # else most frees were of unknown blocks
            items += make + alloc(10, 7, 0x3000, 8) + drop + free_there(10, 7, 0x3000)
        self.assertEqual(capture_items(out, items).returncode, 0)
        for options, freed, taken in (
                ([], (20, 20, 6), 1), (["--match", "again"], (20, 20, 6), 1),
                (["--match", "make"], None, 0), (["--range", "0:29"], None, 0),
                (["--range", "30:1s"], (20, 20, 6), 1), (["--range", "40:1s"], (19, 19, 5), 1),
                (["--range", "60:1s"], (17, 3, 3), 1), (["--range", ":45"], (2, 2, 2), 0),
                (["--range", "205:"], (2, 2, 2), 1), (["--range", "100:110"], (14, 0, 0), 0),
                (["--at", 210], (19, 19, 5), 0), (["--at", 39], (1, 1, 1), 0),
                (["--thread", "main"], (19, 5, 5), 0), (["--thread", 8], (15, 1, 1), 1),
                (["--size", "64"], (20, 6, 6), 0), (["--size", "16"], (14, 0, 0), 1),
                (["--pool", "default"], (20, 20, 6), 1)):
            with self.subTest(options=options):
                doc = ask("report", out, "--faults", *options)
                found = {f["kind"]: (f["count"], f["count_least"], len(f["samples"]))
                         for f in doc["faults"]}
                self.assertEqual(found.get("free-of-unknown"), freed)
                self.assertEqual(found.get("allocated-twice", (0,))[0], taken)
                self.assertEqual(doc["selected"], {"unknown_frees": freed[0] if freed else 0,
                                                   "double_allocations": taken})
                self.assertEqual((doc["unknown_frees"], doc["double_allocations"]), (20, 1))
                self.check_summary(out, options, doc["faults"])
        self.check_summary_words(out)
        words = run("report", out, "--faults", "--range", "60:1s").stdout
        self.assertTrue(words.startswith("17 frees of unknown addresses, 1 allocation at live "
                                         "addresses are as wanted\n"), words)
        self.assertIn("free-of-unknown, 3 to 17 times in pool default", words)
        self.assertIn("  … and up to 14 between …\n  0x1000 at 200 ns", words)
        self.assertIn("no memory fault is as wanted; in all: 20 frees of unknown addresses, "
                      "1 allocation at live addresses\n",
                      run("report", out, "--faults", "--match", "make").stdout)

    def check_summary(self, out, options, wanted):
        """The summary, budgets and the page have the faults that --faults lists."""
        def figures(faults):
            return [(f["kind"], f["pool"], f["count"], f["count_least"],
                     [s["time_ns"] for s in f["samples"]]) for f in faults]

        self.assertEqual(figures(ask("report", out, *options)["faults"]), figures(wanted))
        count = sum(f["count"] for f in wanted)
        for expression, holds in ((f"faults={count}", True), (f"faults>{count}", False)):
            done = run("report", out, "--fail-if", expression, *options)
            self.assertEqual(done.returncode, 1 if holds else 0, done.stdout + done.stderr)
            told = run("verify", out, "--expect", expression, *options).stdout
            self.assertIn(f"{'ok' if holds else 'FAILED'} expect: {expression}: ", told)
        if BUILT:
            page = self.dir / "x.html"
            run("report", out, "--format", "html", "-f", "-o", page, *options)
            page = Page(page)
            self.assertEqual([(f["kind"], f["count"], f["least"]) for f in page.data["faults"]],
                             [figure[:1] + figure[2:4] for figure in figures(wanted)])

    def check_summary_words(self, out):
        """Two numbers where it cannot be known how many are wanted, one where it can."""
        words = run("report", out, "--range", "60:1s").stdout
        self.assertIn("; up to 18 memory faults", words)
        self.assertIn("note: up to 17 frees of unknown addresses, 1 allocation at live addresses; ",
                      words)
        self.assertIn("0x1000 in pool default, 3 to 17 times, at again (a.c:3)\n", words)
        words = run("report", out, "--range", "40:1s").stdout
        self.assertIn("; 20 memory faults", words)
        self.assertIn("0x1000 in pool default, and 18 more, at again (a.c:3)\n", words)
        words = run("report", out, "--format", "markdown", "--range", "60:1s").stdout
        self.assertIn("Up to 18 memory faults, at 2 call stacks.", words)
        words = run("report", out, "--match", "make").stdout
        self.assertNotIn("emory fault", words)
        for most, status in ((17, 1), (18, 0)):
            self.assertEqual(run("diff", out, out, "--range", "60:1s", "--fail-if",
                                 f"faults>{most}").returncode, status)

    def test_an_official_trace_knows_no_unknown_frees(self):
        paths = sorted(TRACES.glob("*/*.tracy"))
        self.assertTrue(paths)
        for path in paths:
            self.assertIs(ask("report", path, "--faults")["knows_unknown_frees"], False)
            self.assertIn("an official tool wrote this trace",
                          run("report", path, "--faults").stdout)
