"""A lot of events through a small buffer, so that most of them go through the spool file, held
against what the program that wrote the stream counted."""

import contextlib
import json
import os
import pathlib
import re
import subprocess
import threading
import time

from memory_group import MemoryGroup, NoGroups
from tools import FIREHOSE, LIMIT, TIDEMARK, Case, replaying, report, run
from tracyfile import Trace

FIELDS = {"allocations": "allocs", "frees": "frees", "live_allocations": "live",
          "live_bytes": "live_bytes", "total_bytes": "total_bytes", "peak_bytes": "peak_bytes"}


class SpoolWatch(threading.Thread):
    """Looks whether a process has an unlinked file in a folder, and how large it becomes."""

    def __init__(self, pid, folder):
        super().__init__(daemon=True)
        self.pid, self.folder, self.largest = pid, str(folder), 0
        self.start()

    def run(self):
        fds = f"/proc/{self.pid}/fd"
        while os.path.exists(fds):
            try:
                for fd in os.listdir(fds):
                    link = os.readlink(f"{fds}/{fd}")
                    if link.startswith(self.folder) and link.endswith(" (deleted)"):
                        self.largest = max(self.largest, os.stat(f"{fds}/{fd}").st_size)
            except OSError:
                pass
            time.sleep(0.005)


class Firehose(Case):
    def record(self, protocol, depth):
        recording, spool = self.dir / "f.c2s.bin", self.dir / "spool"
        spool.mkdir()
        subprocess.run([FIREHOSE, "-o", str(recording), "--events", "300000", "--depth", str(depth),
                        "--protocol", str(protocol), "--live", "20000"], check=True)
        with replaying(recording) as (_, port):
            capture = subprocess.Popen([TIDEMARK, "capture", "-o", str(self.dir / "x.tracy"), "-p",
                                        str(port), "--buffer", "1M", "--spool", str(spool)],
                                       stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            watch = SpoolWatch(capture.pid, spool)
            out, err = capture.communicate(timeout=LIMIT)
        watch.join(timeout=10)
        self.assertEqual((capture.returncode, err), (0, ""), out)
        self.assertRegex(out, rf"protocol {protocol} ")
        self.assertGreater(watch.largest, 0, "nothing went through the spool")
        self.assertEqual(os.listdir(spool), [])
        return json.loads((self.dir / "f.truth.json").read_text())

    def check(self, protocol, depth):
        truth = self.record(protocol, depth)
        doc = report(self.dir / "x.tracy")
        pools = {pool["name"]: pool for pool in doc["pools"]}
        self.assertEqual(sorted(pools), sorted(p["name"] or "default" for p in truth["pools"]))
        for want in truth["pools"]:
            got = pools[want["name"] or "default"]
            for ours, theirs in FIELDS.items():
                self.assertEqual(got[ours], want[theirs], f"{want['name']}: {ours}")
        self.assertEqual(sum(p["allocs"] + p["frees"] for p in truth["pools"]),
                         truth["memory_events"])
        self.assertEqual(doc["faults"], [])
        self.assertTrue(doc["trace"]["complete"])
        if depth:
            named = [c for c in doc["checks"] if c["name"] == "call-stacks"]
            self.assertRegex(named[0]["detail"], r"^([\d,]+) of \1 allocations have a call stack")
        self.assert_second_reader(truth)

    def assert_second_reader(self, truth):
        """The file itself, read without the program under test."""
        events = [pool["events"] for pool in Trace(self.dir / "x.tracy").pools.values()]
        self.assertEqual(sum(map(len, events)), sum(p["allocs"] for p in truth["pools"]))
        self.assertEqual(sum(row[3] is not None for rows in events for row in rows),
                         sum(p["frees"] for p in truth["pools"]))
        self.assertEqual(sum(row[1] for rows in events for row in rows),
                         sum(p["total_bytes"] for p in truth["pools"]))


class Bounded(Case):
    def setUp(self):
        super().setUp()
        if "AddressSanitizer" in run("version", env=dict(os.environ, ASAN_OPTIONS="help=1")).stderr:
            self.skipTest("a sanitizer needs memory of its own")


class MemoryLimit(Bounded):
    """The bound on anonymous memory, as the kernel counts it."""

    BOUND = 96 << 20

    def captured(self, *options, status=0):
        """Highest anonymous memory, and what the capture said. `status`: what it exits with."""
        recording = self.dir / "f.c2s.bin"
        subprocess.run([FIREHOSE, "-o", str(recording), "--protocol", "82", *options], check=True)
        most = 0
        with replaying(recording) as (_, port):
            capture = subprocess.Popen([TIDEMARK, "capture", "-o", str(self.dir / "x.tracy"), "-p",
                                        str(port), "--memory-limit", "96M", "--buffer", "200M",
                                        "--no-summary"], stdout=subprocess.PIPE,
                                       stderr=subprocess.STDOUT, text=True)
            while capture.poll() is None:
                with contextlib.suppress(OSError):
                    kernels = pathlib.Path(f"/proc/{capture.pid}/status").read_text()
                    anonymous = re.search(r"^RssAnon:\s+(\d+) kB$", kernels, re.M)
                    most = max(most, int(anonymous[1]) << 10 if anonymous else 0)
                time.sleep(0.01)
            out, _ = capture.communicate()
        self.assertEqual(capture.returncode, status, out)
        return most, out

    def test_is_kept(self):
        most, out = self.captured("--events", "2000000", "--depth", "2", "--live", "100000",
                                  "--stacks", "10000")
        self.assertIn("the client ended", out)
        self.assertGreater(most, 10 << 20)
        self.assertLessEqual(most, self.BOUND)
        truth = json.loads((self.dir / "f.truth.json").read_text())
        pools = report(self.dir / "x.tracy")["pools"]
        self.assertEqual(sum(p["allocations"] for p in pools),
                         sum(p["allocs"] for p in truth["pools"]))

    def test_what_cannot_be_spilled(self):
        """The table of live blocks may not grow: what came is saved, and the journal has the rest."""
        most, out = self.captured("--events", "6000000", "--depth", "0", "--live", "20000000",
                                  status=4)
        self.assertIn("the memory limit is reached", out)
        self.assertLessEqual(most, self.BOUND)
        self.assertEqual(run("verify", self.dir / "x.tracy").returncode, 0)
        saved = report(self.dir / "x.tracy")["pools"][0]["allocations"]
        result = run("recover", self.dir / "x.tracy.journal", "-o", self.dir / "all.tracy")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertGreaterEqual(report(self.dir / "all.tracy")["pools"][0]["allocations"], saved)


class Container(Bounded):
    """As in a container: the kernel ends what takes more, pages of files that it wrote included.
    make bench does it with ten million events and 300 MiB."""

    LIMIT = 128 << 20
    EVENTS = 3000000

    def test_a_capture_completes(self):
        recording, out = self.dir / "f.c2s.bin", self.dir / "x.tracy"
        try:
            group = MemoryGroup(self.LIMIT)
        except NoGroups as e:
            self.skipTest(str(e))
        with group:
            subprocess.run([FIREHOSE, "-o", str(recording), "--events", str(self.EVENTS), "--depth",
                            "8", "--live", "100000", "--stacks", "10000"], check=True)
            # More is written than there is room for.
            self.assertGreater(recording.stat().st_size, self.LIMIT // 2)
            with replaying(recording) as (_, port):
                result = subprocess.run(group.command(TIDEMARK, "capture", "-o", out, "-p", port),
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            self.assertEqual((result.returncode, result.stderr), (0, ""), result.stdout)
            self.assertLessEqual(group.most(), self.LIMIT)
        self.assert_totals(out, json.loads((self.dir / "f.truth.json").read_text()))

    def assert_totals(self, trace, truth):
        pools = {pool["name"]: pool for pool in report(trace)["pools"]}
        for want in truth["pools"]:
            got = pools[want["name"] or "default"]
            self.assertEqual({ours: got[ours] for ours in FIELDS},
                             {ours: want[theirs] for ours, theirs in FIELDS.items()})


def add_tests():
    for protocol in (63, 72, 82):
        for depth in (0, 8):
            def test(self, protocol=protocol, depth=depth):
                self.check(protocol, depth)
            setattr(Firehose, f"test_protocol_{protocol}_depth_{depth}", test)


add_tests()
