"""`tidemark top` on a terminal: a trace and a replayed client, keys, sizes, locales, signals."""

import errno
import json
import re
import signal
import subprocess

import hostile
from clients import capture_items, frame_name, thread_name
from hostile import CASES, Hostile
from screen import Terminal
from test_capture import FakeClient, alloc, callstack, frame
from test_faults import SHORT, environment
from test_terminal import clock_library
from tools import TIDEMARK, TRACES, WIRE, Case, not_sanitized, preloaded, replaying, report, run

MEMSCEN = TRACES / "v0.14.0" / "memscen.tracy"
RECORDING = WIRE / "v0.14.0" / "memscen.c2s.bin"
UP, DOWN, RIGHT, LEFT, END, HOME = ("\x1bO" + c for c in "ABCDFH")


def top(*args, **kwargs):
    return Terminal([TIDEMARK, "top", *args], **kwargs)


def tree(*args):
    """Children of each node of `tree --format json`, in order; 0 is the root."""
    doc = json.loads(run("tree", MEMSCEN, "--format", "json", *args).stdout)
    nodes = {}
    for node in doc["nodes"]:
        nodes.setdefault(node["parent"] or 0, []).append(node)
    return nodes


def rows(lines):
    """(depth, name, whether it can be opened, cells) of the rows shown, without the root's."""
    found = []
    column = lines[2].find("By ") if len(lines) > 4 else -1
    for line in lines[4:-1]:
        match = re.match(r"( +)([▾▸] )?(\S.*)$", line[column:])
        if column > 0 and match:
            found.append(((len(match[1]) - (0 if match[2] else 2)) // 2, match[3],
                          match[2] is not None, re.split(r" {2,}", line[:column].strip())))
    return found


SLOW_WAITS = """#include <poll.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>
#include <sys/syscall.h>
static void rest(int forever) {
    struct timespec second = {1, 0};
    if (forever) syscall(SYS_nanosleep, &second, 0);
}
int poll(struct pollfd *p, nfds_t n, int ms) {
    struct timespec t = {ms / 1000, ms % 1000 * 1000000L};
    rest(ms < 0);
    return syscall(SYS_ppoll, p, n, ms < 0 ? 0 : &t, 0, 8);
}
int ppoll(struct pollfd *p, nfds_t n, const struct timespec *t, const sigset_t *mask) {
    rest(!t);
    return syscall(SYS_ppoll, p, n, t, mask, 8);
}
"""


@not_sanitized
class Resized(Case):
    def test_just_before_it_waits(self):
        """A terminal whose size changes between a key and the wait for the next one is drawn anew."""
        source, library = self.dir / "slow.c", self.dir / "slow.so"
        source.write_text(SLOW_WAITS)
        subprocess.run(["gcc", "-D_GNU_SOURCE", "-shared", "-fPIC", "-o", library, source], check=True)
        with top(MEMSCEN, width=120, height=40, **preloaded(library)) as t:
            t.wait_for("By function, top-down")
            t.resize(60, 30)
            t.wait_for("By function, top-down")
            t.keys("q")
            self.assertEqual(t.end(), 0)


class Browse(Case):
    def names(self, lines, depth=1):
        return [name for at, name, _, _ in rows(lines) if at == depth]

    def test_rows_are_those_of_the_tree(self):
        with top(MEMSCEN, "--bottom-up", "--metric", "live", width=160, height=40) as t:
            nodes = tree("--bottom-up", "--metric", "live")
            t.wait_for("q quit")
            t.keys("c")
            t.wait(lambda lines: self.names(lines) == [n["name"] for n in nodes[0]])
            self.assertIn("memscen, all pools: 320 KiB live in 194 blocks, peak 8.00 MiB",
                          t.screen.lines()[0])
            self.assertRegex(t.screen.lines()[1], "up to 8.00 MiB .*█")
            for (_, _, _, cells), node in zip(rows(t.screen.lines()), nodes[0]):
                self.assertIn(f"{node['inclusive']['live_count']:,}", cells)
                self.assertIn(f"{node['inclusive']['count']:,}", cells)
            for key, metric in zip("1234567", ("bytes", "count", "live", "live-count", "at-peak",
                                               "at-peak-count", "temporary")):
                first = tree("--bottom-up", "--metric", metric)[0][0]["name"]
                t.keys(key)
                t.wait(lambda lines: self.names(lines)[:1] == [first])
            t.keys("2s")
            t.wait(lambda lines: self.names(lines) == [n["name"] for n in nodes[0]])
            t.keys("<")
            first = tree("--bottom-up", "--metric", "count")[0][0]["name"]
            t.wait(lambda lines: self.names(lines)[:1] == [first])
            t.keys("q")
            self.assertEqual(t.end(), 0)
            self.assertEqual(t.screen.unknown, [])
            self.assertTrue(t.settings_are_back())
            self.assertIn(b"\x1b[?1049l", t.raw)

    def test_names_have_room(self):
        """About half the width, less at most two fifths of it for the depth."""
        for width in 80, 100, 140:
            with top(MEMSCEN, width=width, height=60) as t:
                t.wait_for("q quit")
                t.keys("c*")
                t.wait(lambda lines: max((depth for depth, *_ in rows(lines)), default=0) >= 6)
                lines = t.screen.lines()
                room = width - lines[2].index("By ")
                self.assertGreaterEqual(room, width // 2 - 2)
                for line in lines[4:-1]:
                    label = line[width - room:]
                    self.assertLessEqual(len(label) - len(label.lstrip()), room * 2 // 5 + 2)

    def test_opening_and_closing(self):
        nodes = tree("--bottom-up", "--metric", "live")
        first = nodes[0][0]
        callers = nodes[first["id"]]
        with top(MEMSCEN, "--bottom-up", "--metric", "live", width=160, height=40) as t:
            t.wait_for("q quit")
            t.keys("c" + DOWN + RIGHT)
            t.wait(lambda lines: self.names(lines, 2) == [c["name"] for c in callers])
            t.keys("b")
            t.wait_for("top-down: ")
            t.keys("b")
            t.wait_for("bottom-up: ")
            t.wait(lambda lines: self.names(lines, 2) == [c["name"] for c in callers])
            t.keys(LEFT)
            t.wait(lambda lines: not self.names(lines, 2))
            t.keys("*")
            t.wait(lambda lines: self.names(lines, 3))
            t.keys("z")
            t.wait(lambda lines: not self.names(lines, 2))
            t.keys(END + " ")
            t.wait(lambda lines: [row[0] for row in rows(lines)][-1:] == [2])
            t.keys(HOME + "*")
            t.wait(lambda lines: len(rows(lines)) >= 35)
            t.keys("q")
            self.assertEqual(t.end(), 0)

    def test_filters(self):
        with top(MEMSCEN, "--bottom-up", "--metric", "live", width=160, height=40) as t:
            t.wait_for("By function, bottom-up")
            t.keys("c")
            live = [n for n in tree("--bottom-up", "--metric", "live")[0]
                    if n["inclusive"]["live_count"]]
            t.keys("a")
            t.wait_for("live only")
            t.wait(lambda lines: len(rows(lines)) == len(live))
            t.keys("a")
            t.wait(lambda lines: len(rows(lines)) > len(live))
            for pool in ("default", "arena", "gpu.vram"):
                t.keys("p")
                line = t.wait_for(f"memscen, pool {pool}: ")
                figures = next(p for p in report(MEMSCEN)["pools"] if p["name"] == pool)
                self.assertIn(f" live in {figures['live_allocations']:,} blocks, peak ", line)
                wanted = [n["name"] for n in tree("--bottom-up", "--metric", "live", "--pool",
                                                  pool)[0]]
                t.wait(lambda lines: self.names(lines) == wanted)
            t.keys("p")
            t.wait_for("memscen, all pools: ")
            t.keys("P")
            t.wait_for("memscen, pool gpu.vram: ")
            t.keys("q")
            self.assertEqual(t.end(), 0)
        with top(MEMSCEN, "--match", "vram_reserve", "--by", "line", "--metric", "count",
                 width=160) as t:
            t.wait_for("By line, top-down")
            t.keys("c")
            self.assertIn(" live in 2 blocks", t.screen.lines()[0])
            t.keys("vvvv")
            t.wait_for("By thread, top-down")
            t.wait(lambda lines: self.names(lines) == [
                n["name"] for n in tree("--match", "vram_reserve", "--by", "thread")[0]])
            t.keys("q")
            self.assertEqual(t.end(), 0)

    def test_search_and_details(self):
        with top(MEMSCEN, width=120, height=40) as t:
            t.wait_for("By function, top-down")
            t.keys("/GROW_log\r")
            t.wait(lambda lines: any("text_grow_log" in name for _, name, _, _ in rows(lines)))
            found = t.wait(lambda lines: re.match(r" 1 of (\d+), heaviest first: GROW_log", lines[-1]))
            count = sum("text_grow_log" in n["name"] for level in tree().values() for n in level)
            self.assertEqual(int(found[1]), count)
            t.keys("d")
            t.wait_for("the call stack with most bytes through here (142 KiB)")
            t.wait_for("text_grow_log(Rng&)  /home/dev/scen/ms_text.cpp:31")
            t.wait_for("142 KiB in 176 allocations, 0 temporary")
            t.wait_for("live: 142 KiB in 176 blocks; at the peak: 0 B in 0 blocks")
            t.keys("n")
            t.keys("/no such name\r")
            t.wait_for("not found: no such name")
            t.keys("/abc\x7f\x7f\x7fvram_reserve")
            t.wait_for("/vram_reserve")
            t.keys("\r")
            t.wait_for("the call stack with most bytes through here (39.4 MiB)")
            t.keys("]")
            t.wait(lambda lines: not any("TracyCallstack.hpp" in line for line in lines))
            t.resize(60, 30)
            t.wait(lambda lines: any(re.search(r"inl\. .*\.\.\.  stl_vector.h:\d+$", line)
                                     for line in lines))
            t.keys("?")
            t.wait_for("search in names, files and images")
            t.keys("x")
            t.wait_for("By function, top-down")
            t.keys("q")
            self.assertEqual(t.end(), 0)
            self.assertEqual(t.screen.unknown, [])

    def test_opens_at_the_peak(self):
        with top(MEMSCEN, "--bottom-up", width=160, height=40) as t:
            t.wait_for("   At peak   Share")
            self.assertTrue(t.screen.lines()[0].startswith(" memscen.tracy: memscen, all pools: "))
            t.keys("c")
            first = tree("--bottom-up", "--metric", "at-peak")[0][0]["name"]
            t.wait(lambda lines: self.names(lines)[:1] == [first])
            t.keys("q")
            self.assertEqual(t.end(), 0)

    def test_chains_share_a_row(self):
        """A node with one child of the same figures is in the row of that child."""
        nodes = tree("--metric", "at-peak")

        def folded(node, depth):
            head, between = node, -1
            while True:
                below = nodes.get(node["id"], [])
                between += 1
                if len(below) != 1 or below[0]["inclusive"] != node["inclusive"]:
                    break
                node = below[0]
            yield depth, head["name"], between, node["name"]
            for child in nodes.get(node["id"], []):
                yield from folded(child, depth + 1)

        wanted = [row for node in nodes[0] for row in folded(node, 1)]
        self.assertTrue(any(row[2] > 1 for row in wanted))
        with top(MEMSCEN, width=500, height=len(wanted) + 8) as t:
            t.wait_for("q quit")
            t.keys("*")
            shown = t.wait(lambda lines: len(rows(lines)) == len(wanted) and rows(lines))
            for (depth, name, _, _), (deep, head, between, last) in zip(shown, wanted):
                middle = f" → ({between - 1}) → " if between > 1 else " → "
                self.assertEqual((depth, name), (deep, head + middle + last if between else head))
            t.keys("q")
            self.assertEqual(t.end(), 0)

    def test_many_functions(self):
        """1,200 functions: 1,000 rows and one of the others, which shows them; search finds each."""
        lines, sizes = ["v 10500 3", "X /bin/many", "s 4 main", "i 900 0 1", "t 1 0"], {}
        for i in range(1200):
            lines += [f"s {len(f'f{i}()'):x} f{i}()", f"i {4096 + i:x} 0 {i + 2:x}", f"t {i + 2:x} 1",
                      f"a {2000 - i:x} {i + 2:x}", f"+ {i:x}"]
            sizes[f"f{i}()"] = 2000 - i
        text, trace = self.dir / "many.txt", self.dir / "many.tracy"
        text.write_text("\n".join(lines) + "\nc 5\n")
        run("import", "--format", "heaptrack", text, trace)
        with top(trace, "--bottom-up", width=120, height=40) as t:
            t.wait_for("q quit")
            t.keys(END)
            others = t.wait(lambda lines: next((row for row in rows(lines)
                                                if row[1] == "200 others"), None))
            self.assertTrue(others[2])
            self.assertEqual(others[3][0], f"{sum(sorted(sizes.values())[:200]) / 1024:.0f} KiB")
            t.keys("/f1150()\r")
            t.wait(lambda lines: lines[-1].startswith(" 1 of 1,"))
            t.wait(lambda lines: [row[1] for row in rows(lines)][-1:] == ["f1150() ← main"])
            t.keys("j")
            t.wait(lambda lines: [row[1] for row in rows(lines)][-1:] == ["199 others"])
            t.keys(END + "\r" + END)
            t.wait(lambda lines: [row[1] for row in rows(lines)][-1:] == ["f1199() ← main"])
            self.assertEqual(rows(t.screen.lines())[-1][3][2], "801 B")  # own, of the whole chain
            self.assertFalse(any("others" in line for line in t.screen.lines()))
            t.keys("q")
            self.assertEqual(t.end(), 0)

    @not_sanitized
    def test_a_long_search(self):
        """Its progress, when each look at the clock is a second later."""
        lines = ["v 10500 3", "X /bin/many"]
        for i in range(1200):
            lines += [f"s {len(f'f{i}()'):x} f{i}()", f"i {4096 + i:x} 0 {i + 1:x}", f"t {i + 1:x} 0",
                      f"a 10 {i + 1:x}", f"+ {i:x}"]
        text, trace = self.dir / "many.txt", self.dir / "many.tracy"
        text.write_text("\n".join(lines) + "\nc 5\n")
        run("import", "--format", "heaptrack", text, trace)
        with top(trace, **preloaded(clock_library(self.dir))) as t:
            t.wait_for("q quit")
            t.keys("/f77\r")
            t.wait(lambda lines: lines[-1].startswith(" 1 of 11, heaviest first: f77"))
            self.assertRegex(t.raw, rb"42.7 %; any key stops: f77")
            self.assertNotIn(b"adding up", t.raw)
            t.keys("bbbbb")
            t.wait_for("bottom-up: ")
            self.assertRegex(t.raw, rb"adding up call stacks: [\d,]+ steps")
            t.keys("q")
            self.assertEqual(t.end(), 0)

    def test_names_that_fit(self):
        """If short of room, a row shows the bare name of its function, folded chain or not."""
        name = "std::vector<long> shop::totals_by_day(std::map<int, shop::order> const&, unsigned)"
        lines = ["v 10500 3", "X /bin/shop", f"s {len(name):x} {name}", "s 6 main()", "s 6 next()",
                 "i 900 0 1", "i 910 0 2", "i 920 0 3", "t 1 0", "t 2 1", "t 3 1",
                 "a 10 2", "a 20 3", "+ 0", "+ 1", "c 5"]
        text, trace = self.dir / "names.txt", self.dir / "names.tracy"
        text.write_text("\n".join(lines) + "\n")
        run("import", "--format", "heaptrack", text, trace)
        for width, wanted in ((80, "shop::totals_by_day"), (200, name)):
            with top(trace, width=width) as t:
                t.wait_for("q quit")
                t.wait(lambda lines: self.names(lines) == [wanted])
                t.keys("q")
                self.assertEqual(t.end(), 0)

    def test_keys_that_fit(self):
        for width in (30, 80, 200):
            with top(MEMSCEN, width=width) as t:
                line = t.wait_for("q quit")
                self.assertLessEqual(len(line), width)
                self.assertIn(line.split("  ")[-1].strip(),
                              {30: ["? help", "/ search"], 80: ["p pool"],
                               200: ["c chains"]}[width])
                t.keys("q")
                self.assertEqual(t.end(), 0)

    def test_a_trace_on_standard_input(self):
        with open(MEMSCEN, "rb") as trace, top("-", stdin=trace) as t:
            t.wait_for("By function, top-down")
            t.keys("q")
            self.assertEqual(t.end(), 0)
            self.assertTrue(t.settings_are_back())


class Terminals(Case):
    def test_sizes(self):
        with top(MEMSCEN, width=100, height=30) as t:
            t.wait_for("q quit")
            t.keys("*d")
            t.wait_for("the call stack with most bytes")
            for width, height in ((60, 14), (40, 6), (20, 3), (7, 2), (1, 1), (3, 40), (200, 2)):
                t.resize(width, height)
                t.keys(DOWN + "?" + UP + "/v\rs")
            t.resize(120, 40)
            t.keys("z")
            t.wait_for("By function, top-down")
            t.keys("q")
            self.assertEqual(t.end(), 0)
        for width, height in ((1, 1), (12, 4), (500, 100)):
            with top(MEMSCEN, width=width, height=height) as t:
                t.wait(lambda _: t.raw)
                t.keys("*djjq")
                self.assertEqual(t.end(), 0)

    def test_without_utf8(self):
        with top(MEMSCEN, LC_ALL="C") as t:
            t.wait_for("  - all")
            t.wait_for("  + [unknown")
            t.keys("*d")
            t.wait_for("the call stack with most bytes")
            t.keys("q")
            self.assertEqual(t.end(), 0)
            self.assertTrue(t.raw.isascii())

    def test_colours(self):
        colour = re.compile(rb"\x1b\[(?:[0-9;]*;)?3[0-7](?:;[0-9;]*)?m")
        for env, wanted in (({}, True), ({"NO_COLOR": "1"}, False), ({"TERM": "vt100"}, False)):
            with top(MEMSCEN, **env) as t:
                t.wait_for("By function, top-down")
                t.keys("*q")
                self.assertEqual(t.end(), 0)
                self.assertEqual(bool(colour.search(t.raw)), wanted, env)

    def test_signals(self):
        for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
            with top(MEMSCEN) as t:
                t.wait_for("q quit")
                self.assertFalse(t.settings_are_back())
                t.process.send_signal(number)
                self.assertEqual(t.end(), 0)
                self.assertTrue(t.settings_are_back())
                self.assertIn(b"\x1b[?1049l", t.raw)
        with top(MEMSCEN) as t:
            t.wait_for("q quit")
            t.keys("\x03")
            self.assertEqual(t.end(), 0)
            self.assertTrue(t.settings_are_back())

    def test_names_stay_text(self):
        evil = b"\x1b]0;owned\x07\x1b[2J\x9b31m<b>\xe2\x80\xae\xff\xe6\xbc\xa2\xe5\xad\x97"
        out = self.dir / "x.tracy"
        items = thread_name(7, evil) + frame_name(0x401000, evil, evil, 3, evil)
        items += callstack(0x401000) + alloc(10, 7, 0x1000, 64)
        self.assertEqual(capture_items(out, items).returncode, 0)
        for env in ({}, {"LC_ALL": "C"}):
            with top(out, "--by", "line", width=140, **env) as t:
                t.wait_for("By line, top-down")
                t.wait_for("\\x1b]0;owned")
                t.keys("d*")
                t.wait_for("the call stack with most bytes")
                if not env:
                    t.wait_for("漢字")
                t.keys("q")
                self.assertEqual(t.end(), 0)
                self.assertNotIn(b"\x1b]", t.raw)
                self.assertEqual(t.screen.unknown, [])

    def test_refusals(self):
        result = run("top", MEMSCEN)
        self.assertEqual(result.returncode, 2)
        self.assertIn("top needs a terminal", result.stderr)
        out = self.dir / "there"
        out.write_text("x")
        for args, status, words in (
                ((self.dir / "none",), 3, "cannot open"),
                ((MEMSCEN, "-o", "x"), 2, "for a running client"),
                (("-p", "1", MEMSCEN), 2, "unexpected argument"),
                (("-p", "1", "--pool", "x"), 2, "recorded completely"),
                (("-p", "1", "-o", out), 4, "exists"),
                (("-p", "1", "--connect-timeout", "0"), 5, "tidemark: "),
                ((MEMSCEN, "--pool", "none"), 2, "none")):
            with top(*args, width=200) as t:
                self.assertEqual(t.end(), status, args)
                self.assertIn(words, "\n".join(t.screen.lines()))
        with top(MEMSCEN, TERM="no-such-terminal") as t:
            self.assertEqual(t.end(), 2)
            self.assertIn("top needs a terminal", " ".join(t.screen.lines()))


class Live(Case):
    def totals(self, trace):
        return [(p["name"], p["allocations"], p["live_allocations"], p["live_bytes"],
                 p["peak_bytes"]) for p in report(trace)["pools"]]

    def test_until_the_client_ends(self):
        out = self.dir / "live.tracy"
        with replaying(RECORDING) as (_, port), top("-p", port, "-o", out, width=160) as t:
            t.wait_for("the client ended: memscen, all pools: 320 KiB live in 194 blocks, peak 8.0")
            t.keys("b")
            t.wait_for("By function, bottom-up")
            t.wait_for("text_grow_log")
            self.assertFalse(out.exists())
            t.keys("q")
            self.assertEqual(t.end(), 0)
            self.assertIn(b"Saving trace... done!", t.raw)
            self.assertTrue(t.settings_are_back())
        self.assert_clean("live.tracy")
        plain = self.dir / "plain.tracy"
        self.assertEqual(self.capture(RECORDING, plain).returncode, 0)
        self.assertEqual(self.totals(out), self.totals(plain))
        self.assertEqual(run("dump", out).stdout, run("dump", plain).stdout)

    def test_while_it_runs(self):
        """Figures rise while events come; the tree stays open; freezing holds them."""
        def live_blocks(lines):
            match = re.match(r" [a-z ]+: memscen, .* live in ([\d,]+) block", lines[0])
            return int(match[1].replace(",", "")) if match else 0

        # Slow enough to be running for as long as this takes.
        with replaying(RECORDING, "--rate", "8000", "--hold") as (_, port), \
                top("-a", "127.0.0.1", "-p", port, "--bottom-up", width=160) as t:
            seen = t.wait(live_blocks)
            t.wait(lambda lines: live_blocks(lines) not in (0, seen))
            t.keys("f")
            t.wait_for("frozen: ")
            t.keys("*")
            t.wait(lambda lines: max((row[0] for row in rows(lines)), default=0) > 1)
            t.keys("z")
            t.wait(lambda lines: max((row[0] for row in rows(lines)), default=0) == 1)
            held = live_blocks(t.screen.lines())
            t.keys("f")
            t.wait(lambda lines: live_blocks(lines) not in (0, held))
            t.wait_for(" live: memscen")
            t.keys("q")
            self.assertEqual(t.end(), 0)
            self.assertTrue(t.settings_are_back())
            self.assertNotIn(b"Saving", t.raw)
        self.assert_clean()

    def test_as_a_release(self):
        """--compat: the memory of fibers belongs to their threads, as in a capture with it."""
        recording = WIRE / "v0.14.0" / "allscen.c2s.bin"
        dumps = {}
        for args in ((), ("--compat", "v0.14.0")):
            out, captured = self.dir / "top.tracy", self.dir / "capture.tracy"
            with replaying(recording) as (_, port), top("-p", port, "-o", out, "-f", *args) as t:
                t.wait_for("client ended")
                t.keys("q")
                self.assertEqual(t.end(), 0)
            with replaying(recording) as (_, port):
                result = run("capture", "-o", captured, "-f", "-p", port, "--no-summary", *args)
            self.assertEqual(result.returncode, 0, result.stderr)
            dumps[args] = run("dump", out, "--section", "memory,plots").stdout
            self.assertEqual(dumps[args], run("dump", captured, "--section", "memory,plots").stdout)
        self.assertEqual(len(set(dumps.values())), 2)
        with top(MEMSCEN, "--compat", "v0.14.0") as t:
            self.assertEqual(t.end(), 2)

    def test_a_signal_saves(self):
        out = self.dir / "live.tracy"
        with replaying(RECORDING, "--hold") as (_, port), top("-p", port, "-o", out,
                                                              width=160) as t:
            t.wait_for("all pools: 320 KiB live in 194 blocks")
            t.process.send_signal(signal.SIGTERM)
            self.assertEqual(t.end(), 0)
            self.assertTrue(t.settings_are_back())
        self.assertEqual(run("verify", out, "--expect", "count=9001").returncode, 0)

    def ends_early(self, port, status, *words, key=None, **env):
        """The trace is saved, and what it lacks makes the exit status."""
        out = self.dir / "live.tracy"
        with top("-p", port, "-o", out, "-f", width=160, **env) as t:
            t.wait_for(key or "all pools: ")
            t.keys("q")
            self.assertEqual(t.end(), status)
            said = t.raw.decode()
        for text in ("Saving trace... done!", *words):
            self.assertIn(text, said)
        self.assertIn("incomplete", run("info", out).stdout)
        return out

    @not_sanitized
    def test_no_room_for_the_journal(self):
        """The recording ends, and the trace lacks what the client sends after that."""
        full = environment(FAULT_FROM=4, FAULT_ONLY="pwritev", FAULT_HOW=errno.ENOSPC)
        with replaying(RECORDING) as (_, port):
            self.ends_early(port, 4, "the recording ended early: ", "No space left", **full,
                            key="no room left: memscen")
        self.assert_clean("live.tracy")

    def test_undecodable_bytes(self):
        client = FakeClient(frame(callstack(0x401000) + alloc(10, 7, 0x1000, 64) + b"\xff"))
        self.addCleanup(client.end)
        self.ends_early(client.port, 3, "the recording ended early: ", "item 255")
        self.assert_clean("live.tracy")

    @not_sanitized
    def test_undecoded_bytes(self):
        """The clock runs so fast that the time to decode what was received is over before."""
        late = environment(FAULT_AT=1, FAULT_ONLY="pwritev", FAULT_HOW=SHORT, FAULT_LATE=15)
        client = Hostile(hostile.frame(CASES["frame marks"](0)) * 50000)
        self.addCleanup(client.close)
        out = self.ends_early(client.port, 4, "is kept in", "lacks the last received data", **late)
        self.assert_clean("live.tracy", "live.tracy.journal")
        recovered = run("recover", self.dir / "live.tracy.journal", "-f", "-o", out)
        self.assertEqual(recovered.returncode, 0, recovered.stderr)

    def test_killed(self):
        """What had come is in a journal; the next one who writes there finishes it."""
        out = self.dir / "live.tracy"
        with replaying(RECORDING, "--hold") as (_, port), top("-p", port, "-o", out,
                                                              width=160) as t:
            t.wait_for("all pools: 320 KiB live in 194 blocks")
            t.process.kill()
            t.end()
        self.assert_clean("live.tracy.journal")
        self.assertEqual(run("recover", self.dir / "live.tracy.journal", "-o", out).returncode, 0)
        self.assertEqual(run("verify", out, "--expect", "count=9001").returncode, 0)
        self.assert_clean("live.tracy")
