"""`tidemark csvexport`: output equal to that of the official tools, options and exit codes under
their names, and our own modes against what the programs counted."""

import collections
import csv
import hashlib
import io
import itertools
import json
import subprocess

from screen import Terminal
from tools import LIMIT, RELEASES, ROOT, TIDEMARK, TRACES, WIRE, Case, report, run

ALLSCEN = TRACES / "v0.14.0" / "allscen.tracy"
MEMSCEN = TRACES / "v0.14.0" / "memscen.tracy"
NAMES = ("tracy-csvexport", "csvexport", "iree-tracy-csvexport")


def output(*args):
    """What the program prints, as bytes: names of zones need not be text."""
    result = subprocess.run([TIDEMARK, "csvexport", *map(str, args)], stdout=subprocess.PIPE,
                            stderr=subprocess.PIPE, stdin=subprocess.DEVNULL, timeout=LIMIT)
    if result.returncode != 0:
        raise AssertionError(f"csvexport {args}: {result.stderr}")
    return result.stdout


def rows(*args):
    return list(csv.DictReader(io.StringIO(output(*args).decode(), newline="")))


def official():
    """(release, trace, options, number of lines, digest) of official outputs."""
    for line in (ROOT / "fixtures" / "csvexport.tsv").read_text().splitlines():
        if not line.startswith("#"):
            release, name, options, lines, digest = line.split("\t")
            yield release, TRACES / release / f"{name}.tracy", options.split(), int(lines), digest


class Official(Case):
    def test_output_is_the_official_one(self):
        for release, trace, options, lines, digest in official():
            with self.subTest(release=release, trace=trace.name, options=options):
                text = output("--compat", release, *options, trace)
                self.assertEqual(text.count(b"\n"), lines)
                if "-p" in options:
                    text = b"\n".join(sorted(text.split(b"\n")))
                self.assertEqual(hashlib.sha256(text).hexdigest()[:32], digest)

    def test_newest_release_is_the_default(self):
        for options in ([], ["-u"], ["-m"], ["-g"]):
            self.assertEqual(output(*options, ALLSCEN),
                             output("--compat", "0.14", *options, ALLSCEN))

    def test_columns_by_release(self):
        last = {}
        for release in RELEASES:
            text = output("--compat", release, "-u", ALLSCEN)
            last[release] = text.split(b"\n")[0].split(b",")[-1].decode()
        self.assertEqual(last, {"v0.9.1": "exec_time_ns", "v0.10": "thread", "v0.11.1": "thread",
                                "v0.12.2": "value", "v0.13.1": "value", "v0.14.0": "value"})

    def test_a_release_refuses_what_it_lacks(self):
        for release, option in (("v0.9.1", "-m"), ("v0.11.1", "-g"), ("v0.11.1", "-p"),
                                ("v0.12.2", "--truncated_mean")):
            result = run("csvexport", "--compat", release, option, ALLSCEN)
            self.assertEqual((result.returncode, result.stdout), (2, ""))
            self.assertIn(option, result.stderr)
        for tag in ("0.8", "v0.15.0", "v0", "", "0.14.0.1", "latest", "0.9999"):
            self.assertEqual(run("csvexport", "--compat", tag, ALLSCEN).returncode, 2, tag)

    def test_long_names(self):
        for short, long in (("-u", "--unwrap"), ("-e", "--self"), ("-g", "--gpu"),
                            ("-m", "--messages")):
            self.assertEqual(output(short, ALLSCEN), output(long, ALLSCEN))
        self.assertEqual(output("-u", "-p", ALLSCEN), output("--unwrap", "--plot", ALLSCEN))
        wanted = output("-c", "-f", "zone", "-s", "|", ALLSCEN)
        self.assertEqual(wanted, output("--case", "--filter=zone", "--sep=|", ALLSCEN))
        self.assertEqual(wanted, output("--case", "--filter", "zone", "--sep", "|", ALLSCEN))

    def test_percentile_option(self):
        wanted = output("--truncated_mean=90", ALLSCEN)
        for args in (["-t"], ["--truncated_mean"], ["-t90"], ["-t", "90"],
                     ["--truncated_mean", "90"]):
            self.assertEqual(output(*args, ALLSCEN), wanted, args)
        self.assertNotEqual(output("-t", "50", ALLSCEN), wanted)
        for value in ("0", "100", "x"):
            self.assertEqual(run("csvexport", f"-t{value}", ALLSCEN).returncode, 2)

    def test_memory_plots_are_complete(self):
        """The official tool leaves out pools whose plots are not computed yet when it prints."""
        for release in RELEASES:
            truth = json.loads((WIRE / release / "memscen.truth.json").read_text())
            trace = TRACES / release / "wire_memscen.tracy"
            text = output("-u", "-p", "-f", "no such zone", trace).decode()
            points = list(csv.reader(io.StringIO(text)))[1:]
            plots = [(name, list(group)) for name, group in
                     itertools.groupby(points, lambda row: row[0])]
            for pool in truth["pools"]:
                # The plot of the processor's load has the name of the default pool's, too, and
                # may follow it.
                count = pool["allocs"] + pool["frees"] + 1
                plot = max((p for n, p in plots if n == (pool["name"] or "Frame")), key=len)
                self.assertIn(len(plot) - count, (0, 1), release)
                values = [float(row[6]) for row in plot[:count]]
                self.assertEqual(values[0], 0)
                self.assertEqual(max(values), pool["peak_bytes"])
                self.assertEqual(values[-1], pool["live_bytes"])

    def test_from_a_pipe(self):
        with open(ALLSCEN, "rb") as trace:
            piped = subprocess.run([TIDEMARK, "csvexport", "-u", "-p", "-"], stdin=trace,
                                   stdout=subprocess.PIPE, timeout=LIMIT, check=True).stdout
        self.assertEqual(piped, output("-u", "-p", ALLSCEN))

    def test_damaged_and_missing_traces(self):
        cut = self.dir / "cut.tracy"
        cut.write_bytes(ALLSCEN.read_bytes()[:40000])
        # What lies behind what is printed is not looked into, but must be there.
        late = self.dir / "late.tracy"
        late.write_bytes(ALLSCEN.read_bytes()[:-1])
        for options in ([], ["-u", "-p"], ["-g"], ["-m"], ["-t"], ["--memory"],
                        ["--memory-sites"], ["--callstacks"]):
            for trace in (cut, late, self.dir / "none.tracy", ROOT / "README.md"):
                result = run("csvexport", *options, trace)
                self.assertEqual(result.returncode, 3, (options, trace))
                self.assertIn("tidemark: ", result.stderr)


class DropIn(Case):
    def call(self, *args, name="tracy-csvexport"):
        link = self.dir / name
        if not link.exists():
            link.symlink_to(TIDEMARK)
        return subprocess.run([link, *map(str, args)], stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True, timeout=LIMIT)

    def test_each_name_prints_the_same(self):
        wanted = run("csvexport", ALLSCEN).stdout
        for name in NAMES:
            result = self.call(ALLSCEN, name=name)
            self.assertEqual((result.returncode, result.stdout, result.stderr), (0, wanted, ""))

    def test_help_succeeds(self):
        for option in ("-h", "--help"):
            result = self.call(option)
            self.assertEqual((result.returncode, result.stdout), (0, ""))
            self.assertIn("--truncated_mean", result.stderr)
        self.assertEqual(self.call("-V").returncode, 0)

    def test_exit_codes(self):
        none = self.dir / "none.tracy"
        for args in ([], ["--no-such-option", ALLSCEN], [ALLSCEN, ALLSCEN], [none],
                     [ROOT / "README.md"]):
            result = self.call(*args)
            self.assertEqual((result.returncode, result.stdout), (1, ""), args)
        self.assertEqual(self.call(none).stderr, f"Could not open file {none}\n")

    def test_percentiles_are_forced_into_range(self):
        self.assertEqual(self.call("-t250", ALLSCEN).stdout, self.call("-t99", ALLSCEN).stdout)
        self.assertEqual(self.call("-tx", ALLSCEN).stdout, self.call("-t1", ALLSCEN).stdout)


class OnTerminal(Case):
    """Texts of the trace are escaped for a terminal, and for nothing else."""

    HOSTILE = "a\33]0;title\7b\rc\x08d\u202ee"
    ESCAPED = r"a\x1b]0;title\x07b\x0dc\x08d\u{202e}e"

    def test_control_bytes(self):
        source, trace = self.dir / "in.json", self.dir / "in.tracy"
        text = self.HOSTILE
        source.write_text(json.dumps([
            {"ph": "X", "name": text, "ts": 1, "dur": 2, "pid": 1, "tid": 1, "loc": text + ":5",
             "args": {"x": text}},
            {"ph": "i", "name": text, "ts": 1, "pid": 1, "tid": 1},
            {"ph": "C", "name": text, "ts": 1, "pid": 1, "tid": 1, "args": {text: 5}}]))
        self.assertEqual(run("import", source, trace).returncode, 0)
        for options in ((), ("-u",), ("-u", "-p"), ("-m",)):
            with self.subTest(options):
                raw = output(*options, trace)
                self.assertIn(text.encode(), raw)
                with Terminal((TIDEMARK, "csvexport", *options, "-s", "\t", trace), width=400) as t:
                    t.wait_for(self.ESCAPED)
                    t.process.wait(LIMIT)
                    while t.read(0.2):
                        pass
                    shown = t.raw
                self.assertEqual([b for b in shown if b < 0x20 and b not in b"\r\n\t"], [])
                self.assertNotIn("\u202e".encode(), shown)
                self.assertEqual(shown.count(b"\r"), shown.count(b"\r\n"))


class Own(Case):
    def test_memory_events_against_the_truth(self):
        for release in RELEASES:
            truth = json.loads((WIRE / release / "memscen.truth.json").read_text())
            events = rows("--memory", TRACES / release / "wire_memscen.tracy")
            with self.subTest(release=release):
                for pool in truth["pools"]:
                    mine = [e for e in events if e["pool"] == (pool["name"] or "default")]
                    live = [e for e in mine if e["free_ns"] == ""]
                    self.assertEqual(len(mine), pool["allocs"])
                    self.assertEqual(len(mine) - len(live), pool["frees"])
                    self.assertEqual(sum(int(e["size"]) for e in mine), pool["total_bytes"])
                    self.assertEqual(sum(int(e["size"]) for e in live), pool["live_bytes"])
                    self.assertEqual(
                        sorted((int(e["address"], 16), int(e["size"])) for e in live),
                        sorted((int(str(b["addr"]), 0), b["size"])
                               for b in pool["live_blocks"]))
                self.assertEqual(len(events), sum(p["allocs"] for p in truth["pools"]))
                for e in events:
                    self.assertEqual(e["free_ns"] == "", e["free_thread"] == "")
                    if e["free_ns"]:
                        self.assertLessEqual(int(e["alloc_ns"]), int(e["free_ns"]))

    def test_sites_are_those_of_the_report(self):
        sites = rows("--memory-sites", MEMSCEN)
        wanted = report(MEMSCEN)["sites"]
        self.assertEqual([(s["function"], int(s["bytes"])) for s in sites],
                         [(s["function"] or "", s["bytes"]) for s in wanted])

    def test_call_stacks_tell_the_sites_of_events(self):
        stacks = collections.defaultdict(list)
        for row in rows("--callstacks", MEMSCEN):
            self.assertEqual(int(row["frame"]), len(stacks[row["callstack"]]))
            stacks[row["callstack"]].append(row["function"])
        counts = collections.Counter()
        for e in rows("--memory", MEMSCEN):
            for function in set(stacks.get(e["alloc_callstack"], ())):
                counts[e["pool"], function] += 1
        for site in report(MEMSCEN)["sites"]:
            if site["function"] and site["function"] != "main":
                self.assertGreaterEqual(counts[site["pool"], site["function"]], site["count"])
        self.assertEqual(counts["gpu.vram", "vram_reserve"], 926)

    def test_own_modes_stand_alone(self):
        for args in (["--memory", "-u"], ["--memory", "--callstacks"], ["--memory-sites", "-t"],
                     ["--callstacks", "--compat", "v0.12.2"]):
            self.assertEqual(run("csvexport", *args, MEMSCEN).returncode, 2)
