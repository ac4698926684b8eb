"""Captures of the daemon that go on in further traces: what it counts is of the whole capture, and
every trace that is saved is told of."""

import contextlib
import json
import re
import socket
import subprocess
import unittest

from clients import thread_name
from passing import frame_ends
from test_capture import alloc, frame, free
from test_daemon import announce
from test_daemon_events import Driven, Telling
from tools import FIREHOSE, replaying, wait_until

SERIES = re.compile(r"^(tidemark_\w+)(\{.*\})? (\S+)$", re.M)
BEGIN = frame(thread_name(7, b"main") + alloc(10, 7, 0x1000, 64) + alloc(20, 7, 0x2000, 128))


class Parts(Telling):
    def metrics(self):
        """{(name, labels): value}"""
        status, _, body = self.ask("/metrics")
        self.assertEqual(status, 200)
        return {(n, labels): float(v) for n, labels, v in SERIES.findall(body.decode())}

    def counters(self, number=1):
        return self.get(f"/api/v1/clients/{number}/counters")

    def events(self, name=None):
        """Those of a log in JSON."""
        said = [json.loads(line) for line in self.said().splitlines() if line.startswith("{")]
        return [e for e in said if name in (None, e["event"])]

    def connected(self, body=BEGIN):
        """A client that says what the test tells it to, and has said `body`."""
        client = Driven(b"")
        self.addCleanup(client.end)
        announce(self.udp, client.port, b"prog")
        client.send(body)
        return client

    def become(self, **wanted):
        """Until its counters, or those of its first pool, are these."""
        def holds():
            clients = self.status()["clients"]
            if not clients or clients[0]["state"] != "recording" or not clients[0]["counters"]:
                return False
            now = self.counters()
            found = {k: now.get(k, now["pools"][0].get(k)) for k in wanted}
            return found == wanted
        wait_until(holds, f"never {wanted}")

    def save(self, name):
        """Asks for a trace, and waits for it."""
        self.assertEqual(self.ask("/api/v1/clients/1/save", "POST")[0], 202)
        wait_until(lambda: (self.traces / name).exists())


class Totals(Parts):
    def test_a_block_that_is_carried_over_counts_once(self):
        with self.web("--alert", "count>3", "--name", "x") as process:
            client = self.connected(BEGIN + frame(free(30, 7, 0x2000)))
            self.become(memory_events=3, allocations=2)
            time = self.counters()["client_time_ns"]
            self.save("x.tracy")
            self.become(memory_events=3, allocations=2, frees=1, total_bytes=192,
                        live_allocations=1, live_bytes=64)
            self.assertGreaterEqual(self.counters()["client_time_ns"], time)
            client.send(frame(alloc(40, 7, 0x3000, 256)))
            self.become(memory_events=4, allocations=3, frees=1, total_bytes=448,
                        live_allocations=2, live_bytes=320)
            self.save("x.2.tracy")
            self.become(memory_events=4, allocations=3, frees=1, total_bytes=448)
            self.assertEqual(self.counters()["peak_bytes_sampled"], 320)
            self.assertNotIn("alert:", self.said())
            client.send(frame(alloc(50, 7, 0x4000, 1)))
            self.wait_said("count>3")
            self.end(client, process)

    def test_the_last_figures_are_told_unasked(self):
        """Also of a client that ends before it is asked again."""
        with self.web("--alert", "count>2", "--name", "x") as process:
            client = self.connected()
            self.become(memory_events=2)
            client.send(frame(alloc(40, 7, 0x3000, 256)))
            client.peer.shutdown(socket.SHUT_RDWR)
            wait_until(lambda: self.status()["clients"][0]["state"] == "saved")
            (one,) = self.status()["clients"]
            self.assertEqual(one["counters"]["memory_events"], 3)
            self.wait_said("count>2")
            self.end(client, process)

    @contextlib.contextmanager
    def firehose(self):
        """A client that holds still when all is said; gives the bytes that come, and the truth."""
        recording = self.dir / "f.c2s.bin"
        subprocess.run([FIREHOSE, "-o", str(recording), "--events", "100000", "--depth", "3",
                        "--protocol", "82", "--live", "3000", "--pools", "2",
                        "--stacks", "300"], check=True)
        stream = recording.read_bytes()
        ends = frame_ends(stream, 82)
        recording.write_bytes(stream[: ends[-2]])  # without the farewell
        truth = json.loads((self.dir / "f.truth.json").read_text())
        with replaying(recording, "--hold", "--rate", "600K",
                       f"--broadcast=127.0.0.1:{self.udp}"):
            yield ends[-2] - ends[0], truth

    def check_totals(self, *args):
        """Looks at all figures again and again while parts come and go."""
        with self.web("--alert", "count>45000", *args) as process, \
                self.firehose() as (size, truth):
            before, last = {}, {}

            def said_all():
                now = self.metrics()
                for (name, labels), value in now.items():
                    if name.endswith("_total"):
                        self.assertGreaterEqual(value, before.get((name, labels), 0), name)
                before.update(now)
                last.clear()
                last.update(now)
                return one("tidemark_received_bytes_total") >= size

            def one(name):
                return max((v for (n, _), v in last.items() if n == name), default=0)

            def of(name):
                return {re.search(r'pool="(.*?)"', labels)[1]: v
                        for (n, labels), v in last.items() if n == name}
            wait_until(said_all)
            self.assertEqual(one("tidemark_memory_events_total"), truth["memory_events"])
            for name, key in (("allocations_total", "allocs"), ("frees_total", "frees"),
                              ("allocated_bytes_total", "total_bytes"),
                              ("live_allocations", "live"), ("live_bytes", "live_bytes")):
                self.assertEqual(of("tidemark_" + name), {p["name"] or "default": p[key]
                                                          for p in truth["pools"]}, name)
            # No part alone has so many.
            self.wait_said("alert: client 1")
            self.assertEqual(self.ask("/api/v1/clients/1/stop", "POST")[0], 202)
            wait_until(lambda: self.status()["clients"][0]["state"] == "saved")
            self.assertEqual(self.stop(process), 0, self.said())

    def test_parts(self):
        self.check_totals("--rotate", "150K")
        self.assertGreater(len(self.names()), 5)

    def test_a_flight_recorder(self):
        self.check_totals("--keep-last", "150K")


if __name__ == "__main__":
    unittest.main()
