"""Text for people on a terminal: columns that fit its width, shares with bars, colours."""

import json
import os
import pathlib
import re
import stat
import subprocess
import unittest

from clients import capture_items, thread_name
from pagedata import Page
from screen import Terminal
from test_capture import alloc, callstack
from tools import (TIDEMARK, TRACES, UNBUILT, WIRE, Case, not_sanitized, page_built, preloaded,
                   replaying, report, run)

ALLSCEN = TRACES / "v0.14.0" / "allscen.tracy"
MEMSCEN = TRACES / "v0.14.0" / "memscen.tracy"
RECORDING = WIRE / "v0.14.0" / "memscen.c2s.bin"
OLDER = TRACES / "v0.13.1" / "memscen.tracy"
SIZES = ((40, 24), (80, 24), (120, 40), (200, 50))
COLOR = re.compile(rb"\x1b\[[0-9;]*m")


def on_terminal(*args, width=80, height=24, **env):
    """The bytes that a command writes to a terminal, without carriage returns."""
    with Terminal([TIDEMARK, *args], width=width, height=height, **env) as t:
        status = t.end()
        return t.raw.replace(b"\r\n", b"\n"), status


def plain(raw):
    return COLOR.sub(b"", raw).decode()


class Fits(Case):
    def test_no_line_is_wider(self):
        for width, height in SIZES:
            for args in (("report", ALLSCEN), ("report", MEMSCEN, "--by", "zone"),
                         ("report", ALLSCEN, "--sort", "peak"), ("report", MEMSCEN, "--leaks"),
                         ("report", MEMSCEN, "--patterns"),
                         ("report", ALLSCEN, "--by", "type"), ("tree", ALLSCEN),
                         ("tree", MEMSCEN, "--bottom-up"), ("diff", ALLSCEN, MEMSCEN),
                         ("diff", ALLSCEN, MEMSCEN, "--metric", "count"),
                         ("diff", *[OLDER] * 3, "--", *[MEMSCEN] * 3)):
                with self.subTest(width=width, args=args[:1] + args[2:]):
                    raw, status = on_terminal(*args, width=width, height=height, NO_COLOR="1")
                    self.assertEqual(status, 0)
                    self.assertNotIn(b"\x1b", raw)
                    for line in raw.decode().split("\n"):
                        # A word that does not fit alone stays whole.
                        if len(line) > width:
                            self.assertNotIn(" ", line.strip())

    def test_bars_stay_in_their_rows(self):
        text = plain(on_terminal("report", MEMSCEN, "--histograms", width=80)[0])
        self.assertIn("█", text)
        self.assertNotRegex(text, r"\n *█+\n")

    def test_columns_of_a_report(self):
        doc = report(ALLSCEN)
        text = plain(on_terminal("report", ALLSCEN, width=80)[0])
        self.assertRegex(text, r"\nSource location +At peak +Share +Size +Pool *\n")
        for width, columns in ((80, ["Size", "Share", "Peak"]),
                               (160, ["Size", "Share", "Peak", "Live", "Count"])):
            text = plain(on_terminal("report", ALLSCEN, "--sort", "size", width=width)[0])
            titles = next(line for line in text.split("\n") if line.startswith("Source location"))
            self.assertEqual([c for c in ("Size", "Share", "Peak", "Live", "Count")
                              if c in titles.split()], columns)
            self.assertEqual("more columns have no room here" in text, width == 80)
            rows = text[text.index(titles):].split("\n")[1:]
            site = doc["sites"][0]
            share = 100 * site["bytes"] / sum(p["total_bytes"] for p in doc["pools"])
            self.assertIn(f" {share:.1f} %  █", rows[0])
            self.assertTrue(rows[0].startswith("memory (allscen.cpp:155) "))

    def test_names_lose_their_middle(self):
        doc = json.loads(run("tree", ALLSCEN, "--format", "json", "--min-share", "1").stdout)
        longest = max((n["name"] for n in doc["nodes"]), key=len)
        text = plain(on_terminal("tree", ALLSCEN, width=40)[0])
        self.assertTrue(len(longest) < 30 or "…" in text)
        text = plain(on_terminal("report", MEMSCEN, "--by", "callstack", "--limit", "1",
                                 "--sort", "size", width=48)[0])
        row = next(line for line in text.split("\n") if "…" in line)
        self.assertTrue(row.split("…")[0])

    def test_changes(self):
        """Shares are of all growth; names have room beside the pool's."""
        text = plain(on_terminal("diff", ALLSCEN, MEMSCEN, "--limit", "0", width=100)[0])
        grown = re.findall(r"^ +\+.*? ([\d.]+) % .*$", text[text.index("New:"):], re.M)
        self.assertEqual(len(grown), 16)
        self.assertAlmostEqual(sum(map(float, grown)), 100, delta=2)
        title = re.search(r"^ +Change .*?(Source location +)Pool$", text, re.M)
        self.assertGreaterEqual(len(title[1]), 20)
        for row in re.findall(r"^ +[-+].* % .*$", text, re.M):
            self.assertIn(row[title.start(1) + len(title[1]) - title.start():],
                          [pool["name"] for trace in (ALLSCEN, MEMSCEN) for pool in report(trace)["pools"]])

    def test_sentences_are_folded_at_blanks(self):
        sentence = run("report", ALLSCEN).stdout.split("\n")[0]
        text = plain(on_terminal("report", ALLSCEN, width=50)[0])
        first = re.match(r".*(\n  .*)+", text)[0]
        self.assertEqual(re.sub(r"\n +", " ", first), sentence)
        for width in range(60, 100):
            text = plain(on_terminal("report", MEMSCEN, width=width)[0])
            self.assertNotRegex(text, r"\d\n +(%|[KM]iB|ms)")


class Colours(Case):
    def test_only_where_they_are_wanted(self):
        for args in (("report", ALLSCEN), ("tree", ALLSCEN), ("diff", ALLSCEN, MEMSCEN)):
            self.assertTrue(COLOR.search(on_terminal(*args)[0]))
            self.assertFalse(COLOR.search(on_terminal(*args, NO_COLOR="1")[0]))
            self.assertFalse(COLOR.search(on_terminal(*args, TERM="dumb")[0]))
            self.assertNotIn("\x1b", run(*args).stdout)

    def test_mean_something(self):
        raw = on_terminal("diff", ALLSCEN, MEMSCEN, "--limit", "1")[0]
        new, gone = raw.index(b"\nNew"), raw.index(b"\nGone")
        self.assertRegex(raw[new:], rb"\x1b\[31m +\+")
        self.assertRegex(raw[gone:], rb"\x1b\[32m +-")
        raw = on_terminal("tree", MEMSCEN)[0]
        self.assertRegex(raw, rb"\x1b\[31m +100 %\x1b\[0m")

    def test_every_colour_ends(self):
        for args in (("report", ALLSCEN), ("tree", MEMSCEN), ("diff", ALLSCEN, MEMSCEN),
                     ("report", MEMSCEN, "--leaks")):
            codes = COLOR.findall(on_terminal(*args, width=200)[0])
            self.assertEqual(len(codes) % 2, 0)
            self.assertEqual(set(codes[1::2]), {b"\x1b[0m"})
            self.assertNotIn(b"\x1b[0m", codes[::2])


class Charts(Case):
    """`timeline` and `map`: axes with marks, no time without events, repeats as a number."""

    def lines(self, *args, **kwargs):
        raw, status = on_terminal(*args, NO_COLOR="1", **kwargs)
        self.assertEqual(status, 0)
        return raw.decode().split("\n")

    def test_marks_are_at_their_times(self):
        for width in (40, 80, 200):
            lines = self.lines("timeline", MEMSCEN, "--together", "--range", "0:200ms",
                               width=width)
            axis = next(i for i, line in enumerate(lines) if "0└" in line)
            marks, labels = lines[axis], lines[axis + 1]
            self.assertLessEqual(len(marks), width)
            found = [(m.start(), float(m[1])) for m in re.finditer(r"([\d.]+) ms", labels)]
            self.assertGreater(len(found), 1)
            for column, ms in found:
                exact = 11 + ms / 200 * (width - 12)
                if column + len("100 ms") < len(marks):
                    self.assertLess(abs(column - exact), 1.01, labels)
                    self.assertEqual(marks[column], "┬")
            self.assertRegex(lines[axis - 4], r"^ *[\d.]+ (Mi|Ki)?B┤")

    def test_time_without_events_is_left_out(self):
        lines = self.lines("timeline", ALLSCEN)
        begin, end = re.match(r"from ([\d.]+) ms to ([\d.]+) ms: ", lines[0]).groups()
        events = [e for e in json.loads(run("timeline", ALLSCEN, "--together", "--format", "json",
                                            "--buckets", "10000").stdout)["pools"][0]["buckets"]
                  if e["allocations"] or e["frees"]]
        self.assertLessEqual(float(begin) * 1e6, events[0]["end_ns"])
        self.assertGreaterEqual(float(end) * 1e6, events[-1]["begin_ns"])
        whole = self.lines("timeline", ALLSCEN, "--range", "0:")
        self.assertFalse(whole[0].startswith("from "))
        self.assertNotIn("no events", run("timeline", ALLSCEN).stdout)

    def bursts(self, *starts):
        """A trace with a burst of 10 ms of events at each of these times, ms."""
        out = self.dir / "bursts.tracy"
        items, now = thread_name(7, b"t"), 0
        for number, start in enumerate(starts):
            for i in range(100):
                at = start * 1000000 + i * 100000
                items += callstack(0x401000) + alloc(at - now, 7, 0x100000 * (number + 1) + 64 * i, 64)
                now = at
        self.assertEqual(capture_items(out, items).returncode, 0)
        return out

    def test_time_without_events_in_the_middle(self):
        trace = self.bursts(1000, 2000, 9000)
        for width in (60, 80, 200):
            lines = self.lines("timeline", trace, width=width)
            begin = next(i for i, line in enumerate(lines) if line.startswith("┊ no events"))
            note = re.sub(r"\s+", " ", " ".join(lines[begin:begin + 2]))
            gaps = re.findall(r"from ([\d.]+) s to ([\d.]+) s", note)
            # The ends of the bursts, about as exactly as a column is wide.
            for (begin, end), (last, first) in zip(gaps[-2:], ((1.01, 2), (2.01, 9)), strict=True):
                self.assertLess(abs(float(begin) - last), .003, note)
                self.assertLess(abs(float(end) - first), .003, note)
            top = next(i for i, line in enumerate(lines) if "┤" in line)
            chart = [line[11:] for line in lines[top:top + 8]]
            self.assertLessEqual(max(map(len, chart)), width - 11)
            parts = [part for part in chart[-1].split("┊") if part]
            self.assertEqual(len(parts), 3)
            # The bursts are equally long, and the columns are used.
            self.assertGreater(sum(map(len, parts)), (width - 12) * .8)
            self.assertLessEqual(max(map(len, parts)) - min(map(len, parts)), 3)
            # Use grows to the end of the last one.
            self.assertRegex(chart[0], r"^[ ┊]*┊[^┊]*█$")
            # Marks have the times of their columns.
            axis = next(i for i, line in enumerate(lines) if "0└" in line)
            self.assertEqual([len(part) for part in lines[axis][11:].split("┊") if part],
                             [len(part) for part in parts])
            for mark in re.finditer(r"([\d.]+) s", lines[axis + 1]):
                at = mark.start()
                if at + len(mark[0]) >= len(lines[axis]):
                    continue
                burst = (1, 2, 9)[lines[axis][12:at].count("┊")]
                self.assertEqual(lines[axis][at], "┬")
                self.assertTrue(burst - .006 <= float(mark[1]) <= burst + .016, lines[axis + 1])
        whole = self.lines("timeline", trace, "--range", "0:")
        self.assertNotIn("┊", "".join(whole))
        self.assertNotIn("┊", run("timeline", trace).stdout)

    def test_a_map_fits(self):
        for width, cells in ((48, 32), (80, 64), (120, 64), (200, 128)):
            lines = self.lines("map", MEMSCEN, width=width)
            rows = [line for line in lines if line.endswith("│")]
            self.assertTrue(rows)
            for row in rows:
                self.assertEqual(len(row.split("│")[1]), cells)
                self.assertLessEqual(len(row), width)
            self.assertTrue(any(re.match(r" {14}\+0 +\+[\d.]+ [KM]?i?B", line) for line in lines))
        rows = [line for line in self.lines("map", MEMSCEN, "--columns", "16") if "│" in line]
        self.assertEqual({len(row.split("│")[1]) for row in rows}, {16})

    def test_equal_lines_of_a_map_are_counted(self):
        """A block of 16 MiB is one full line, and the number of others."""
        out = self.dir / "large.tracy"
        items = thread_name(7, b"t") + callstack(0x401000) + alloc(10, 7, 0x10000000, 16 << 20)
        self.assertEqual(capture_items(out, items).returncode, 0)
        lines = self.lines("map", out)
        full = [i for i, line in enumerate(lines) if "█" * 64 in line]
        plain = [line for line in run("map", out).stdout.split("\n") if "█" * 64 in line]
        self.assertEqual(len(full), 1)
        self.assertIn(f"⋮ {len(plain) - 1} more such lines", lines[full[0] + 1])


CLOCK = """
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>
int clock_gettime(clockid_t id, struct timespec *t)
{
    static long looks;
    long status = syscall(SYS_clock_gettime, id, t);
    if (id == CLOCK_MONOTONIC && JUMPS)
        t->tv_sec += __atomic_add_fetch(&looks, 1, __ATOMIC_RELAXED);
    return (int)status;
}
"""
SAVING = """
#include <stdio.h>
#include <string.h>
static int saving;
int fputs(const char *text, FILE *f)
{
    saving |= strcmp(text, "Saving trace...") == 0;
    return fputs_unlocked(text, f);
}
size_t fwrite(const void *p, size_t size, size_t n, FILE *f)
{
    saving |= size * n == 15 && memcmp(p, "Saving trace...", 15) == 0;
    return fwrite_unlocked(p, size, n, f);
}
"""


def clock_library(folder, jumps="1", more=""):
    """To be preloaded: each look at the clock is a second later than the one before, where `jumps`."""
    source, library = folder / "clock.c", folder / "clock.so"
    source.write_text(more + CLOCK)
    subprocess.run(["gcc", "-shared", "-fPIC", "-D_GNU_SOURCE", f"-DJUMPS={jumps}", "-o", library,
                    source], check=True)
    return library


PROGRESS = re.compile(rb"\r\x1b\[K([a-z ]+: )?[\d.]+ %, \d+ (s|min) left")


@not_sanitized
class Waiting(Case):
    """The progress line of what takes longer than a second: each look at the clock is a second
    later than the one before."""

    def setUp(self):
        super().setUp()
        self.clock = clock_library(self.dir)

    def test_reading(self):
        out = self.dir / "out.tracy"
        for args in (("report", "--recount", MEMSCEN), ("tree", MEMSCEN), ("timeline", MEMSCEN),
                     ("report", MEMSCEN, "--leaks"), ("diff", ALLSCEN, MEMSCEN),
                     ("info", MEMSCEN), ("verify", MEMSCEN),
                     ("update", MEMSCEN, out), ("symbols", MEMSCEN, "--no-debuginfod", "-o", out),
                     ("dump", MEMSCEN, "-o", out), ("merge", out, MEMSCEN, ALLSCEN),
                     ("export", "--format", "pprof", MEMSCEN, "-o", out),
                     ("export", "--format", "chrome", MEMSCEN, "-o", out),
                     ("export", "--format", "sqlite", MEMSCEN, "-o", out)):
            out.unlink(missing_ok=True)
            raw, status = on_terminal(*args, **preloaded(self.clock))
            self.assertEqual(status, 0, raw)
            found = PROGRESS.search(raw)
            self.assertTrue(found, args)
            # It is gone before the answer.
            self.assertNotRegex(raw[raw.rindex(b"\x1b[K"):], rb"\d (s|min) left")
            out.unlink(missing_ok=True)
            raw, _ = on_terminal(*args, "--quiet", **preloaded(self.clock))
            self.assertFalse(PROGRESS.search(raw), args)

    def test_merging(self):
        """Inputs are read by turns: the share is of all of them."""
        raw, status = on_terminal("merge", self.dir / "out.tracy", MEMSCEN, OLDER, ALLSCEN,
                                  **preloaded(self.clock))
        self.assertEqual(status, 0, raw)
        for stage in rb"", rb"writing: ":
            shares = list(map(float, re.findall(rb"\x1b\[K" + stage + rb"([\d.]+) %, ", raw)))
            self.assertEqual(shares, sorted(shares))
            self.assertGreater(len(set(shares)), 2)

    def test_saving(self):
        """What `capture` writes after its client has ended: until then the clock is right."""
        clock = clock_library(self.dir, "saving", SAVING)
        for quiet in (), ("--quiet",):
            with replaying(WIRE / "v0.14.0" / "memscen.c2s.bin") as (_, port):
                raw, status = on_terminal("capture", "-f", "-o", self.dir / "x.tracy", "-p", port, *quiet,
                                          **preloaded(clock))
            self.assertEqual(status, 0, raw)
            shown = re.search(rb"Saving trace\.\.\.\r\x1b\[KSaving trace\.\.\. [\d.]+ %, \d+ (s|min) left.*"
                              rb"\r\x1b\[KSaving trace\.\.\. done", raw, re.S)
            self.assertEqual(bool(shown), not quiet, raw)
            self.assertEqual(b" left" in raw, not quiet, raw)

    def test_reading_again(self):
        """The saved answer is read first, and does not fit the question."""
        saved = self.dir / "saved.tracy"
        self.assertEqual(on_terminal("run", "-o", saved, "--", "/bin/ls")[1], 0)
        raw, status = on_terminal("report", saved, "--skip", "nothing", **preloaded(self.clock))
        self.assertEqual(status, 0, raw)
        self.assertTrue(PROGRESS.search(raw), raw)

    def test_what_follows_reading(self):
        """Events are gone through again in memory: the line begins anew, and ends before the answer."""
        out, text, many = self.dir / "out", self.dir / "many.txt", self.dir / "many.tracy"
        lines = ["v 10500 3", "X /bin/many"]
        for i in range(5000):
            lines += [f"s {len(f'f{i}()'):x} f{i}()", f"i {4096 + i:x} 0 {i + 1:x}", f"t {i + 1:x} 0",
                      f"a 10 {i + 1:x}", f"+ {i:x}"]
        out.mkdir()
        text.write_text("\n".join(lines) + "\nc 5\n")
        run("import", "--format", "heaptrack", text, many)
        for args, stages in ((("timeline", MEMSCEN), 2), (("map", MEMSCEN), 2),
                             (("tree", MEMSCEN), 3), (("tree", many), 5), (("report", many), 6),
                             (("report", "--format", "html", many, "-fo", out / "page"), 13),
                             (("diff", many, many), 14),
                             (("export", "--format", "parquet", many, "-fo", out / "many"), 13),
                             (("report", "--by", "zone", MEMSCEN), 1),
                             (("diff", MEMSCEN, MEMSCEN), 4),
                             (("export", "--format", "parquet", MEMSCEN, "-fo", out), 2),
                             (("export", "--format", "sqlite", MEMSCEN, "-fo", out / "db"), 4)):
            raw, status = on_terminal(*args, **preloaded(self.clock))
            self.assertEqual(status, 0, raw)
            self.assertGreaterEqual(len(re.findall(rb"left\r\x1b\[K(?!(reading: |counting: )?\d)", raw)), stages, args)
            self.assertNotRegex(raw[raw.rindex(b"\x1b[K"):], rb"\d (s|min) left")

    def both(self, *args):
        """What a terminal shows in order, the second time with --quiet."""
        raw, status = on_terminal(*args, **preloaded(self.clock))
        self.assertEqual(status, 0, raw)
        quiet, _ = on_terminal(*args, "--quiet", **preloaded(self.clock))
        self.assertFalse(PROGRESS.search(quiet), quiet)
        return raw

    def test_a_recording(self):
        """What is left to read when the program has ended, and the trace."""
        run("run", "--keep-recording", "--report", "none", "-o", self.dir / "out.tracy", "/bin/ls",
            self.dir)
        recording, = self.dir.glob("tidemark-run.*/*.recording")
        raw = self.both("run", "--recover", recording, "-f", "-o", self.dir / "out.tracy")
        for what in b"reading the recording", b"writing the trace":
            self.assertRegex(raw, rb"\r\x1b\[K" + what + rb": [\d.]+ %, \d+ s left")

    def test_sorted_lines(self):
        """They are written when all of a section are there, between and after reading."""
        raw = self.both("dump", MEMSCEN, "-f", "-o", self.dir / "out.txt")
        self.assertRegex(raw, rb"\r\x1b\[Kwriting: [\d.]+ %, \d+ (s|min) left")

    def test_capturing(self):
        """Figures of what comes in."""
        raws = []
        for more in ((), ("--quiet",)):
            with replaying(RECORDING, "--rate", "500K") as (_, port):
                raw, status = on_terminal("capture", "-f", "-p", port, "-o", self.dir / "out.tracy",
                                          *more)
            self.assertEqual(status, 0, raw)
            self.assertIn(b"Saving trace...", raw)
            raws.append(raw)
        line = re.compile(rb"\r\x1b\[K[\d.]+ [KM]?i?B/s \| [^|]+, [\d.]+% \| [\d,]+ events \| "
                          rb"[\d,]+ live, [^|]+ \| ")
        self.assertRegex(raws[0], line)
        self.assertNotIn(b"\x1b[K", raws[1])

    def test_pushing(self):
        for more in ((), ("--quiet",)):
            raw, status = on_terminal("push", "--sink", f"files={self.dir}/fleet{len(more)}", MEMSCEN,
                                      *more, **preloaded(self.clock))
            self.assertEqual(status, 0, raw)
            self.assertEqual(PROGRESS.search(raw) is None, bool(more), raw)

    def test_importing(self):
        """What is read before the first look is not counted: a file of several blocks."""
        source = self.dir / "chrome.json"
        source.write_text(json.dumps([{"ph": "X", "pid": 1, "tid": 1, "ts": i, "dur": 1, "name": "z"}
                                      for i in range(9000)]))
        raw = self.both("import", "-f", source, self.dir / "out.tracy")
        self.assertTrue(PROGRESS.search(raw), raw)

    def test_lines_on_the_terminal(self):
        """They are not mixed with a progress line; of what goes elsewhere there is one."""
        out = self.dir / "out.csv"
        for args in (("dump", MEMSCEN), ("csvexport", "--memory", MEMSCEN), ("csvexport", MEMSCEN),
                     ("csvexport", "--memory-sites", MEMSCEN),
                     ("export", "--format", "ndjson", "--table", "allocations", MEMSCEN)):
            raw, _ = on_terminal(*args, **preloaded(self.clock))
            self.assertFalse(PROGRESS.search(raw), args)
            words = ["sh", "-c", f'exec "$@" >{out}', "sh", TIDEMARK, *args]
            with Terminal(words, **preloaded(self.clock)) as t:
                status, raw = t.end(), t.raw
            self.assertEqual(status, 0, raw)
            self.assertTrue(PROGRESS.search(raw), args)
            self.assertEqual(out.read_text(), run(*args).stdout)

    def test_only_on_a_terminal(self):
        result = run("tree", MEMSCEN, env={**os.environ, **preloaded(self.clock)})
        self.assertEqual((result.returncode, result.stderr), (0, ""))


class Elsewhere(Case):
    def test_files_and_other_formats_are_not_fitted(self):
        for form in ("json", "csv"):
            raw, _ = on_terminal("report", ALLSCEN, "--format", form, width=60)
            self.assertEqual(raw.decode(), run("report", ALLSCEN, "--format", form).stdout)
        path = self.dir / "report.txt"
        on_terminal("report", ALLSCEN, "-o", path, width=60)
        self.assertEqual(path.read_text(), run("report", ALLSCEN).stdout)


@unittest.skipUnless(page_built(), UNBUILT)
class View(Case):
    """`tidemark view`, with an xdg-open that writes down what it was asked for."""

    def view(self, *args, status=0, display=":0"):
        tool, asked = self.dir / "bin", self.dir / "asked"
        tool.mkdir(exist_ok=True)
        (tool / "xdg-open").write_text(f'#!/bin/sh\necho "$@" >>{asked}\nexit {status}\n')
        (tool / "xdg-open").chmod(0o755)
        env = {**os.environ, "TMPDIR": str(self.dir), "PATH": f"{tool}:{os.environ['PATH']}",
               "DISPLAY": display, "WAYLAND_DISPLAY": ""}
        result = run("view", *args, env=env)
        return result, asked.read_text().split("\n")[:-1] if asked.exists() else []

    def test_opens_the_page(self):
        result, asked = self.view(MEMSCEN)
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        path = pathlib.Path(result.stdout.strip())
        self.assertEqual(asked, [str(path)])
        self.assertEqual(path.name, "memscen.html")
        self.assertEqual(stat.S_IMODE(path.parent.stat().st_mode), 0o700)
        self.assertEqual(path.parent.parent, self.dir.resolve())
        Page(path)
        self.assertEqual(run("report", MEMSCEN, "--format", "html").stdout, path.read_text())

    def test_without_a_browser(self):
        for args, display in ((("--no-browser",), ":0"), ((), "")):
            result, asked = self.view(MEMSCEN, *args, display=display)
            self.assertEqual((result.returncode, asked), (0, []))
            self.assertTrue(pathlib.Path(result.stdout.strip()).is_file())
        result, asked = self.view(MEMSCEN, status=3)
        self.assertEqual((result.returncode, len(asked)), (0, 1))

    def test_failures_leave_nothing(self):
        broken = self.dir / "broken.tracy"
        broken.write_bytes(b"no trace")
        for args in ((broken,), (MEMSCEN, "--pool", "none")):
            result, asked = self.view(*args)
            self.assertIn(result.returncode, (2, 3))
            self.assertEqual((result.stdout, asked), ("", []))
        self.assertEqual([p for p in self.dir.iterdir() if p.name.startswith("tidemark-")], [])


class Alone(Case):
    def test_a_trace_is_reported(self):
        self.assertEqual(run(MEMSCEN).stdout, run("report", MEMSCEN).stdout)


if __name__ == "__main__":
    import unittest
    unittest.main()
