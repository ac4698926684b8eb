"""Captures of the daemon that go on in further traces: what it counts is of the whole capture, and
every trace that is saved is told of."""

import contextlib
import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import unittest
from unittest import mock

from clients import thread_name
from passing import frame_ends
from test_capture import alloc, frame, free
from test_daemon import announce
from test_daemon_events import Driven, Telling
from test_daemon_limits import Lasting
from test_faults import environment
from tools import FIREHOSE, children, remove_folder, replaying, report, run, wait_until

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

    def told(self, listener, name):
        """Events that a web server was sent."""
        return [e for _, _, e in listener.got if e["event"] == name]

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
            self.assertEqual(self.counters()["peak_bytes"], 320)
            self.assertNotIn("alert:", self.said())
            client.send(frame(alloc(50, 7, 0x4000, 1)))
            self.wait_said("count>3")
            self.end(client, process)

    def test_figures_only(self):
        """Counters are those of events, and the trace has figures."""
        with self.web("--figures", "--name", "x") as process:
            client = self.connected(BEGIN + frame(free(30, 7, 0x2000)))
            self.become(memory_events=3, allocations=2, live_bytes=64)
            self.save("x.tracy")
            client.send(frame(alloc(40, 7, 0x3000, 256)))
            self.become(memory_events=4)
            page = json.loads(self.ask("/api/v1/clients/1/report")[2])
            self.assertTrue(page["answer"].startswith("peak 320 B at 40 ns"), page["answer"])
            client.peer.shutdown(socket.SHUT_RDWR)
            wait_until(lambda: self.status()["clients"][0]["state"] == "saved")
            self.end(client, process)
        for name, allocations, live in (("x.tracy", 2, 64), ("x.2.tracy", 2, 320)):
            trace = self.traces / name
            self.assertIn("figures only, no events", run("verify", "--figures-ok", trace).stdout)
            (pool,) = report(trace)["pools"]
            self.assertEqual((pool["allocations"], pool["live_bytes"]), (allocations, live))
        for args in (["--keep-last", "1M"], ["--sink", "files=x"], ["--compression", "lz4"]):
            result = run("daemon", "--figures", *args, "-o", self.dir)
            self.assertEqual(result.returncode, 2, args)
            self.assertIn("--figures", result.stderr)

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


class Saved(Parts):
    """Every trace that is saved is counted and told of, not only the first."""

    @contextlib.contextmanager
    def one_told_of(self):
        """A client, two of whose memory events have come, and a web server that is told."""
        listener = self.listener()
        with self.web("--name", "x", "--webhook", listener.url) as process:
            client = self.connected()
            self.become(memory_events=2)
            yield listener, process, client

    def test_each_part_is_told_of(self):
        told = self.dir / "told"
        program = self.program(f'echo "$1 $2" >> {told}; cat > /dev/null')
        listener = self.listener()
        with self.web("--name", "x", "--webhook", listener.url, "--on-part", program,
                      "--on-finish", program) as process:
            client = self.connected()
            self.become(memory_events=2)
            for number, name in enumerate(("x.tracy", "x.2.tracy"), 1):
                self.save(name)
                wait_until(lambda n=number: self.status()["traces_saved"] == n)
                (one,) = self.status()["clients"]
                self.assertEqual((one["state"], one["parts_saved"]), ("recording", number))
                client.send(frame(alloc(40 + number, 7, 0x3000 + 64 * number, 8)))
                self.become(memory_events=2 + number)
            client.peer.shutdown(socket.SHUT_RDWR)
            wait_until(lambda: self.status()["clients"][0]["state"] == "saved")
            (one,) = self.status()["clients"]
            sizes = {n: (self.traces / n).stat().st_size for n in self.names()}
            self.assertEqual(sorted(sizes), ["x.2.tracy", "x.3.tracy", "x.tracy"])
            self.assertEqual((one["parts_saved"], one["parts_bytes"]), (3, sum(sizes.values())))
            self.assertEqual((one["trace"], one["trace_bytes"]), ("x.tracy", sizes["x.tracy"]))
            metrics = self.metrics()
            self.assertEqual(metrics["tidemark_traces_saved_total", ""], 3)
            self.assertEqual(metrics["tidemark_trace_bytes_saved_total", ""], sum(sizes.values()))
            wait_until(lambda: self.told(listener, "client.finished"))
            parts = [(pathlib.Path(e["trace"]).name, e["trace_bytes"], e["parts_saved"])
                     for e in self.told(listener, "part.saved")]
            self.assertEqual(parts, [("x.tracy", sizes["x.tracy"], 1),
                                     ("x.2.tracy", sizes["x.2.tracy"], 2)])
            (end,) = self.told(listener, "client.finished")
            self.assertTrue(end["saved"])
            self.assertEqual([(pathlib.Path(e["trace"]).name, e["trace_bytes"])
                              for e in end["parts"]],
                             [(n, sizes[n]) for n in ("x.tracy", "x.2.tracy", "x.3.tracy")])
            self.assertEqual((end["parts_saved"], end["parts_bytes"]), (3, sum(sizes.values())))
            wait_until(lambda: told.exists() and len(told.read_text().splitlines()) == 3)
            self.assertEqual(sorted(told.read_text().splitlines()),
                             [f"client.finished {self.traces}/x.tracy",
                              f"part.saved {self.traces}/x.2.tracy",
                              f"part.saved {self.traces}/x.tracy"])
            self.end(client, process)

    def test_a_first_part_that_was_taken_away(self):
        with self.one_told_of() as (listener, process, client):
            self.save("x.tracy")
            wait_until(lambda: self.status()["traces_saved"] == 1)
            (self.traces / "x.tracy").unlink()
            client.peer.shutdown(socket.SHUT_RDWR)
            wait_until(lambda: self.status()["clients"][0]["state"] == "saved")
            (one,) = self.status()["clients"]
            self.assertEqual((one["trace"], one["parts_saved"]), ("x.2.tracy", 2))
            wait_until(lambda: self.told(listener, "client.finished"))
            (end,) = self.told(listener, "client.finished")
            self.assertEqual((end["saved"], end["trace"]), (True, f"{self.traces}/x.2.tracy"))
            self.end(client, process)

    def test_one_trace_is_one_part(self):
        with self.one_told_of() as (listener, process, client):
            client.peer.shutdown(socket.SHUT_RDWR)
            wait_until(lambda: self.told(listener, "client.finished"))
            self.end(client, process)
        (end,) = self.told(listener, "client.finished")
        self.assertEqual(end["parts"],
                         [{"trace": end["trace"], "trace_bytes": end["trace_bytes"]}])
        self.assertEqual(self.told(listener, "part.saved"), [])

    def test_the_last_part_is_not_saved(self):
        """Where the session is killed, what was saved before counts, and the rest is recovered."""
        with self.one_told_of() as (listener, process, client):
            self.save("x.tracy")
            wait_until(lambda: self.told(listener, "part.saved"))
            client.send(frame(alloc(40, 7, 0x4000, 32)))
            self.become(memory_events=3)
            os.kill(children(process)[0], signal.SIGKILL)
            wait_until(lambda: self.told(listener, "client.finished"))
            (end,) = self.told(listener, "client.finished")
            self.assertFalse(end["saved"])
            self.assertEqual([p["trace"] for p in end["parts"]], [str(self.traces / "x.tracy")])
            self.assertEqual(self.status()["traces_saved"], 1)
            wait_until((self.traces / "x.recovered.tracy").exists)
            client.end()
            self.stop(process)


class Gone(Parts):
    def test_what_had_come_of_a_host_that_is_gone(self):
        """It came while a part was begun, which took long, and is read before the end is."""
        hold, gone = self.dir / "go", self.dir / "gone"
        env = environment(FAULT_AT=1, FAULT_HOLD=hold, FAULT_ONLY="rename", FAULT_GONE=gone)
        with mock.patch.dict(os.environ, env), self.web("--name", "x") as process:
            client = self.connected()
            self.become(memory_events=2)
            self.save("x.tracy")
            client.send(frame(alloc(40, 7, 0x3000, 256)))
            gone.touch()
            hold.touch()
            self.wait_said("the client vanished")
            self.end(client, process)
        self.assertEqual(report(self.traces / "x.2.tracy")["pools"][0]["allocations"], 3)


class Removed(Parts):
    """The output folder is removed, and its journals with it, when a part is saved, or while one is:
    nothing that had arrived is lost."""

    def setUp(self):
        super().setUp()
        self.temporary, self.hold = self.dir / "temporary", self.dir / "go"
        self.temporary.mkdir()

    def connected(self, client):
        if not client:
            return super().connected()
        self.addCleanup(client.end)
        announce(self.udp, client.port, b"prog")
        return client

    @contextlib.contextmanager
    def recording(self, *args, client=None, env=()):
        """Gives the daemon, the session and the client."""
        with mock.patch.dict(os.environ, env, TMPDIR=str(self.temporary)), \
                self.web("--name", "x", *args) as process:
            client = self.connected(client)
            self.become(memory_events=2)
            (session,) = children(process)
            yield process, session, client

    def held(self, *args):
        """The first file that is saved is not whole before `hold` is there."""
        env = environment(FAULT_AT=1, FAULT_HOLD=self.hold, FAULT_ONLY="fsync")
        return self.recording(*args, env=env)

    @staticmethod
    def saves(pid):
        """Whether it has a file without a name, as an unfinished trace is."""
        for fd in pathlib.Path(f"/proc/{pid}/fd").iterdir():
            with contextlib.suppress(FileNotFoundError): # closed meanwhile
                if os.readlink(fd).endswith(" (deleted)"):
                    return True
        return False

    def wait_child(self, session):
        """The process that saves a part, and does so. The session has begun the next part: until its
        journal has a file for that, a folder that is removed ends the recording, and a session that
        only waits for a part to be saved does not answer."""
        path = pathlib.Path(f"/proc/{session}/task/{session}/children")
        wait_until(path.read_text)
        child = int(path.read_text())
        wait_until(lambda: self.saves(child))
        wait_until((self.traces / "x.tracy.journal" / "00000002").exists)
        return child

    def remove(self):
        remove_folder(self.traces)
        self.wait_said("is gone: it was made again")

    def found(self):
        """Allocations of what is among temporary files."""
        return {n: report(self.temporary / n)["pools"][0]["allocations"]
                for n in os.listdir(self.temporary)}

    def end(self, client, process):
        """Not all is where it should be."""
        self.assertEqual(self.stop(process), 4, self.said())
        client.end()

    def test_then_there_is_no_next_part(self):
        listener = self.listener()
        with self.recording("--webhook", listener.url, client=Lasting(BEGIN)) as (
                process, _, client):
            self.remove()
            self.assertEqual(self.ask("/api/v1/clients/1/save", "POST")[0], 202)
            wait_until(lambda: self.told(listener, "client.lost"))
            (event,) = self.told(listener, "client.lost")
            self.assertIn(f"the trace is {self.temporary / 'x.tracy'}", event["message"])
            self.assertEqual((event["end"], event["saved"]),
                             ("the output folder was removed", False))
            # It is captured into the folder that there is now, and at once.
            announce(self.udp, client.port, b"prog")
            wait_until(lambda: client.captured == 2)
            self.end(client, process)
        self.assertNotIn("no room", self.said())
        self.assertEqual((self.found(), self.names()), ({"x.tracy": 2}, ["x.tracy"]))
        said = run("info", self.temporary / "x.tracy").stdout
        self.assertIn("the output folder was removed: no other part can be made there", said)

    def test_while_a_part_is_saved(self):
        with self.held() as (process, session, client):
            self.assertEqual(self.ask("/api/v1/clients/1/save", "POST")[0], 202)
            self.wait_child(session)
            self.remove()
            client.send(frame(alloc(40, 7, 0x3000, 256)))
            self.become(memory_events=3)
            self.hold.touch()
            self.wait_said(f"a part of the trace is {self.temporary / 'x.tracy'}")
            client.peer.shutdown(socket.SHUT_RDWR)
            self.wait_said(f"the trace is {self.temporary / 'x.2.tracy'}")
            self.end(client, process)
        self.assertEqual(self.found(), {"x.tracy": 2, "x.2.tracy": 3})

    def test_while_a_part_is_saved_that_is_lost(self):
        """What comes after it is not lost with it, since no journal has both."""
        with self.held() as (process, session, client):
            self.assertEqual(self.ask("/api/v1/clients/1/save", "POST")[0], 202)
            child = self.wait_child(session)
            self.remove()
            client.send(frame(alloc(40, 7, 0x3000, 256)))
            self.become(memory_events=3)
            os.kill(child, signal.SIGKILL)
            self.wait_said(f"the trace is {self.temporary / 'x.2.tracy'}")
            self.end(client, process)
        self.assertIn("a part is lost: ", self.said())
        self.assertEqual(self.found(), {"x.2.tracy": 3})

    def test_while_the_last_is_saved(self):
        with self.held() as (process, session, client):
            client.peer.shutdown(socket.SHUT_RDWR)
            wait_until(lambda: self.saves(session))
            self.remove()
            self.hold.touch()
            self.wait_said(f"the trace is {self.temporary / 'x.tracy'}")
            self.end(client, process)
        self.assertEqual(self.found(), {"x.tracy": 2})


if __name__ == "__main__":
    unittest.main()
