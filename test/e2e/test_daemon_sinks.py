"""Traces that the daemon sends on: `--sink`, with labels, through failures and restarts."""

import errno
import os
import re
import shutil
import subprocess
from unittest import mock

from parquetfile import ParquetFile
from test_capture import TERMINATE, frame
from test_daemon import announce
from test_daemon_events import VRAM, Telling
from test_push import stand_in
from tools import BUILD, LIMIT, ROOT, TIDEMARK, TRACES, free_port, run, wait_until

MEMSCEN = TRACES / "v0.14.0" / "memscen.tracy"


class Sinks(Telling):
    def setUp(self):
        super().setUp()
        self.fleet = self.dir / "fleet"

    def rows(self, table):
        return [row for path in sorted((self.fleet / table).glob("*/*.parquet"))
                for row in ParquetFile(path).table()]

    def files(self):
        return {row["file"] for row in self.rows("traces")}

    def sinking(self, *args):
        return self.web("--sink", f"files={self.fleet}", *args)

    def test_what_a_client_leaves(self):
        client = self.client(frame(VRAM + TERMINATE))
        with self.sinking("--label", "build=7") as process:
            announce(self.udp, client.port, b"prog", pid=99)
            wait_until(lambda: self.rows("traces"))
            wait_until(lambda: b"tidemark_sink_traces_total 1\n" in self.ask("/metrics")[2])
            self.assertEqual(self.stop(process), 0, self.said())
        self.assertEqual(self.files(), set(self.names()))
        self.assertEqual([(r["name"], r["value"]) for r in self.rows("labels")], [("build", "7")])
        self.assertEqual([(r["name"], r["live_bytes"]) for r in self.rows("pools")],
                         [("gpu.vram", 1 << 21)])
        self.assertEqual(os.listdir(self.traces), self.names())

    def test_the_timer(self):
        """The commands of docs/fleet.md compact the sink of a running daemon, beside its traces, too."""
        text = (ROOT / "docs" / "fleet.md").read_text()
        commands = re.findall(r"tidemark push --sink files=\S+ --compact (--keep .*)$", text, re.M)
        self.assertEqual(len(commands), 3)
        self.fleet = self.traces / "fleet"
        self.traces.mkdir()
        for number, rules in enumerate(commands, 1):
            shutil.copy(TRACES / ("v0.9.1", "v0.11.1", "v0.14.0")[number - 1] / "memscen.tracy",
                        self.traces / f"{number}.tracy")
            with self.sinking("--label", "branch=main") as process:
                wait_until(lambda count=number: len(self.rows("traces")) == count)
                told = run("push", "--sink", f"files={self.fleet}", "--compact",
                           *re.sub(r"\d+(?= |$)", "99999", rules).split())
                self.assertEqual((told.returncode, told.stderr), (0, ""))
                self.assertEqual(self.stop(process), 0, self.said())
        self.assertEqual(self.files(), {"1.tracy", "2.tracy", "3.tracy"})
        self.assertTrue(list(self.fleet.glob("traces/*/part-*.parquet")))

    def test_one_that_is_saved_at_the_end(self):
        client = self.client(frame(VRAM))
        with self.sinking() as process:
            announce(self.udp, client.port, b"prog")
            wait_until(lambda: self.status()["clients"] and self.status()["clients"][0]["counters"])
            self.assertEqual(self.stop(process), 0, self.said())
        client.end()
        self.assertEqual(self.files(), set(self.names()))

    def test_a_restart_sends_what_is_left(self):
        self.traces.mkdir()
        shutil.copy(MEMSCEN, self.traces / "one.tracy")
        with self.sinking() as process:
            wait_until(lambda: self.files() == {"one.tracy"})
            self.assertEqual(self.stop(process), 0, self.said())
        shutil.copy(TRACES / "v0.13.1" / "memscen.tracy", self.traces / "two.tracy")
        (self.traces / "bad.tracy").write_bytes(MEMSCEN.read_bytes()[:20000])
        (self.traces / "link.tracy").symlink_to(MEMSCEN)
        before = {p: p.stat().st_mtime_ns for p in self.fleet.rglob("*.parquet")}
        with self.sinking() as process:
            wait_until(lambda: self.files() == {"one.tracy", "two.tracy"})
            self.wait_said("bad.tracy could not be sent to the sink")
            self.assertEqual(self.stop(process), 0, self.said())
        self.assertEqual(before, {p: p.stat().st_mtime_ns for p in before})
        self.assertEqual(self.said().count("bad.tracy could not"), 1)

    def test_where_files_cannot_be_marked(self):
        """A hidden file says what was sent: after a restart it is not sent again."""
        faults = {"LD_PRELOAD": str(BUILD / "test" / "faults.so"), "FAULT_FROM": "1",
                  "FAULT_ONLY": "fsetxattr", "FAULT_HOW": str(errno.EOPNOTSUPP),
                  "ASAN_OPTIONS": "verify_asan_link_order=0"}
        self.traces.mkdir()
        shutil.copy(MEMSCEN, self.traces / "one.tracy")

        def sent():
            return int(re.search(rb"^tidemark_sink_traces_total (\d+)", self.ask("/metrics")[2],
                                 re.M)[1])

        def kept():
            return [n for n in self.names() if n.startswith(".sent-")]

        with mock.patch.dict(os.environ, faults), self.sinking() as process:
            wait_until(kept)
            shutil.copy(TRACES / "v0.13.1" / "memscen.tracy", self.traces / "two.tracy")
            # A client that is gone makes it look again.
            client = self.client(frame(TERMINATE))
            announce(self.udp, client.port, b"prog", pid=99)
            wait_until(lambda: sent() == 3)
            self.assertEqual(self.stop(process), 0, self.said())
        self.assertNotIn("user.tidemark.sent", os.listxattr(self.traces / "one.tracy"))
        (name,) = kept()
        lines = (self.traces / name).read_text().split("\n")
        self.assertEqual([len(line) for line in lines], [16, 16, 16, 0])
        (self.traces / name).write_text("\n".join(["f" * 16] * 200 + lines) + "half a line")
        shutil.copy(TRACES / "v0.12.2" / "memscen.tracy", self.traces / "three.tracy")
        with mock.patch.dict(os.environ, faults), self.sinking() as process:
            wait_until(lambda: sent() == 1)
            wait_until(lambda: b"tidemark_sink_waiting 0\n" in self.ask("/metrics")[2])
            self.assertEqual(sent(), 1)
            self.assertEqual(self.stop(process), 0, self.said())
        # What is gone was forgotten.
        after = (self.traces / name).read_text().split()
        self.assertEqual(len(after), 4)
        self.assertEqual(set(after[:3]), set(lines[:3]))
        # What was cut off does not take the next one with it.
        with open(self.traces / name, "a") as file:
            file.write("0123")
        shutil.copy(TRACES / "v0.11.1" / "memscen.tracy", self.traces / "four.tracy")
        for expected in 1, 0:
            with mock.patch.dict(os.environ, faults), self.sinking() as process:
                wait_until(lambda: sent() == expected)
                wait_until(lambda: b"tidemark_sink_waiting 0\n" in self.ask("/metrics")[2])
                self.assertEqual(sent(), expected)
                self.assertEqual(self.stop(process), 0, self.said())

    def test_those_that_wait_are_sent_together(self):
        """An unusable one among them does not keep the others."""
        self.traces.mkdir()
        server = stand_in(self)
        releases = ("v0.11.1", "v0.12.2", "v0.13.1", "v0.14.0")
        for release in releases:
            shutil.copy(TRACES / release / "memscen.tracy", self.traces / f"{release}.tracy")
        sink = f"clickhouse=http://127.0.0.1:{server.server_port}/fleet"
        with self.web("--sink", sink) as process:
            wait_until(lambda: b"tidemark_sink_traces_total 4\n" in self.ask("/metrics")[2])
            self.assertEqual(self.stop(process), 0, self.said())
        listed = [body for query, body, _ in server.said if "INTO fleet.traces" in query]
        self.assertEqual([len(body.splitlines()) for body in listed], [4])
        (self.traces / "v0.12.2.a.tracy").write_bytes(MEMSCEN.read_bytes()[:20000])
        for release in releases:
            os.removexattr(self.traces / f"{release}.tracy", "user.tidemark.sent")
        with self.web("--sink", sink) as process:
            wait_until(lambda: b"tidemark_sink_traces_total 4\n" in self.ask("/metrics")[2])
            self.wait_said("v0.12.2.a.tracy could not be sent to the sink")
            self.assertEqual(self.stop(process), 0, self.said())

    def test_a_place_that_is_gone(self):
        """It is tried again, with pauses, and told of once."""
        self.traces.mkdir()
        shutil.copy(MEMSCEN, self.traces / "one.tracy")
        with self.web("--sink", f"clickhouse=http://127.0.0.1:{free_port()}") as process:
            wait_until(lambda: re.search(rb"^tidemark_sink_failures_total ([2-9]|\d\d)",
                                         self.ask("/metrics")[2], re.M))
            self.assertIn(b"tidemark_sink_waiting 1\n", self.ask("/metrics")[2])
            self.assertEqual(self.stop(process), 0, self.said())
        self.assertEqual(self.said().count("one.tracy could not be sent"), 1)
        self.assertIn("Failed to connect", self.said())

    def test_one_that_is_refused_holds_nobody_up(self):
        """The others go first when it is tried again."""
        self.traces.mkdir()
        shutil.copy(MEMSCEN, self.traces / "a.tracy")
        shutil.copy(TRACES / "v0.13.1" / "memscen.tracy", self.traces / "b.tracy")
        self.fleet.mkdir()
        trace = run("push", "--sink", f"files={self.dir / 'elsewhere'}", MEMSCEN).stdout.split()[-1]
        day, = (self.dir / "elsewhere" / "pools").iterdir()
        # Where a file of the first one should be there is a folder.
        (self.fleet / "pools" / day.name / f"{trace}.parquet").mkdir(parents=True)
        with self.sinking() as process:
            wait_until(lambda: self.files() == {"b.tracy"})
            self.assertEqual(self.stop(process), 0, self.said())
        self.assertIn("a.tracy could not be sent to the sink", self.said())

    def test_usage(self):
        for args in (["--sink", "x"], ["--sink", "files="], ["--label", "a=b"],
                     ["--sink", "files=x", "--label", "=b"]):
            result = subprocess.run([TIDEMARK, "daemon", "-o", self.traces, *args], timeout=LIMIT,
                                    stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
            self.assertEqual(result.returncode, 2, args)
