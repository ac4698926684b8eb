"""`tidemark daemon`: several clients at once, each in a process and a trace of its own."""

import contextlib
import os
import re
import resource
import signal
import socket
import struct
import subprocess
import time

from clients import thread_name
from passing import journal_bytes
from test_capture import TERMINATE, FakeClient, alloc, frame, listener
from tools import (LIMIT, TIDEMARK, WIRE, Case, children, end_daemon, free_port, interrupt, replaying,
                   report, run, wait_until)

PROTOCOL = 74
STAYS = frame(thread_name(7, b"main") + alloc(10, 7, 0x1000, 64))  # and never says that it ends


def free_udp_port():
    """Held at another address of the loopback: it gets nothing of what is sent to the daemon."""
    return free_port(socket.SOCK_DGRAM, "127.0.0.2")


def announce(udp, port, name=b"fake", pid=4242, protocol=PROTOCOL, age=1):
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        s.sendto(struct.pack("<HHIQi", 3, port, protocol, pid, age) + name + b"\0",
                 ("127.0.0.1", udp))


class Daemon(Case):
    def setUp(self):
        super().setUp()
        self.udp = free_udp_port()
        self.traces = self.dir / "a" / "b"

    @contextlib.contextmanager
    def daemon(self, *args, command=(TIDEMARK, "daemon")):
        process = subprocess.Popen([*command, "-o", str(self.traces), "-p", str(self.udp),
                                    "--local", *args], stdout=subprocess.PIPE,
                                   stderr=subprocess.STDOUT, text=True)
        try:
            self.assertIn("Listening", process.stdout.readline())
            yield process
        finally:
            end_daemon(process)

    def wait_for(self, process, text, times=1):
        seen = []
        while sum(text in line for line in seen) < times:
            line = process.stdout.readline()
            self.assertTrue(line, "".join(seen))
            seen.append(line)
        return "".join(seen)

    def names(self):
        return sorted(os.listdir(self.traces))

    def wait_recorded(self, clients):
        """Until all that so many clients of STAYS say has come."""
        def have_come():
            journals = list(self.traces.glob("*.journal"))
            return len(journals) == clients and all(
                len(journal_bytes(j)) >= len(STAYS) for j in journals)
        wait_until(have_come)

    def test_every_client_gets_a_trace(self):
        recordings = [WIRE / release / "memscen.c2s.bin" for release in ("v0.9.1", "v0.14.0")]
        with self.daemon() as process, contextlib.ExitStack() as clients:
            for recording in recordings:
                clients.enter_context(
                    replaying(recording, f"--broadcast=127.0.0.1:{self.udp}"))
            self.wait_for(process, "Trace size", 2)
            out, _ = interrupt(process, signal.SIGTERM)
        self.assertEqual(process.returncode, 0, out)
        self.assertEqual(len(re.findall(r" -> \S+\.tracy \(", out)), 2, out)
        for name in self.names():
            self.assertRegex(name, r"^\S+_127\.0\.0\.1_\d+\.tracy$")
            self.assertGreater(report(self.traces / name)["pools"][0]["allocations"], 1000)

    def test_a_program_that_comes_back(self):
        stream = frame(thread_name(7, b"main") + alloc(10, 7, 0x1000, 64) + b"\x3b")
        with self.daemon() as process:
            for turn in (1, 2):
                client = FakeClient(stream, port=0 if turn == 1 else port)
                port = client.port
                announce(self.udp, port, b"my prog/x", pid=1, age=turn)
                self.wait_for(process, "Trace size")
                client.end()
                # The daemon has heard the end of the process a moment after its last words.
                wait_until(lambda: not children(process))
            interrupt(process)
        self.assertEqual(self.names(), [f"my_progx_127.0.0.1_{port}.tracy",
                                        f"my_progx_127.0.0.1_{port}_1.tracy"])

    def test_filters(self):
        with self.daemon("--filter-name", "wanted") as process:
            sock, port = listener()
            announce(self.udp, port, b"other")
            announce(self.udp, port, b"wanted too", age=-1)  # is busy or going away
            announce(self.udp, port, b"all wanted", pid=2)
            said = self.wait_for(process, "Connecting")
            sock.close()
        self.assertIn("all wanted", said)
        self.assertNotIn("other", said)
        with self.daemon("--filter-port", str(port)) as process:
            announce(self.udp, port + 1, b"elsewhere")
            announce(self.udp, port, b"there")
            said = self.wait_for(process, "Connecting")
        self.assertIn("there @", said)
        self.assertNotIn("elsewhere", said)

    def test_a_signal_saves_what_has_come(self):
        # Never ends by itself: the stream lacks item Terminate.
        with self.daemon() as process:
            client = FakeClient(STAYS)
            announce(self.udp, client.port)
            self.wait_for(process, "protocol 74")
            self.wait_recorded(1)
            out, _ = interrupt(process, signal.SIGINT)
            client.end()
        self.assertEqual(process.returncode, 0, out)
        self.assertIn("waiting for 1 client to finish", out)
        (name,) = self.names()
        self.assertEqual(report(self.traces / name)["pools"][0]["allocations"], 1)

    def test_one_that_dies_takes_no_other_with_it(self):
        self.one_dies(4)

    def test_one_that_dies_under_the_drop_in_name(self):
        name = self.dir / "tracy-capture-daemon"
        name.symlink_to(TIDEMARK)
        self.one_dies(1, command=[name])

    def one_dies(self, status, **daemon):
        with self.daemon(**daemon) as process:
            clients = [FakeClient(STAYS) for _ in range(2)]
            for i, client in enumerate(clients):
                announce(self.udp, client.port, pid=10 + i)
            self.wait_for(process, "protocol 74", 2)
            self.wait_recorded(2)
            killed, _ = children(process)
            os.kill(killed, signal.SIGKILL)
            out, _ = interrupt(process, signal.SIGTERM)
            for client in clients:
                client.end()
        self.assertEqual(process.returncode, status, out)
        self.assertIn("killed by signal 9", out)
        self.assertIn("Total: 1 file,", out)

    def test_a_client_that_cannot_be_captured(self):
        with self.daemon() as process:
            client = FakeClient(b"", speaks=66)
            announce(self.udp, client.port, protocol=PROTOCOL, age=5)
            self.wait_for(process, "does not speak")
            time.sleep(0.3)
            announce(self.udp, client.port, protocol=PROTOCOL, age=6)  # still the same program
            time.sleep(0.3)
            out, _ = interrupt(process, signal.SIGTERM)
            client.end()
        self.assertNotIn("Connecting", out)
        self.assertIn("not captured", out)
        self.assertIn("Total: 0 files", out)

    def test_no_more_than_asked_for(self):
        with self.daemon("--max-clients", "1") as process:
            clients = [FakeClient(STAYS) for _ in range(2)]
            announce(self.udp, clients[0].port, pid=10)
            self.wait_for(process, "protocol 74")
            self.wait_recorded(1)
            announce(self.udp, clients[1].port, pid=11)
            self.wait_for(process, "further ones must wait")
            interrupt(process, signal.SIGTERM)
            for client in clients:
                client.end()
        self.assertEqual(len(self.names()), 1)

    def test_more_clients_over_time_than_there_may_be_descriptors(self):
        """Those that have ended are remembered, but not waited for."""
        with self.daemon() as process:
            resource.prlimit(process.pid, resource.RLIMIT_NOFILE, (48, 48))
            for i in range(24):
                client = FakeClient(STAYS + frame(TERMINATE))
                announce(self.udp, client.port, b"p", pid=100 + i)
                self.wait_for(process, "Trace size")
                client.end()
            interrupt(process)
        self.assertEqual(process.returncode, 0)
        self.assertEqual(len(self.names()), 24)

    def test_rubbish_is_passed_over(self):
        with self.daemon() as process:
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
                for datagram in (b"", b"\0", b"\xff" * 84, os.urandom(200), b"\3\0" * 42):
                    s.sendto(datagram, ("127.0.0.1", self.udp))
            time.sleep(0.3)
            out, _ = interrupt(process, signal.SIGTERM)
        self.assertEqual(process.returncode, 0)
        self.assertIn("Total: 0 files", out)

    def test_usage(self):
        for args in ([], ["-o"], ["-o", "x", "-p", "0"], ["-o", "x", "-m", "0"], ["-o", "x", "y"],
                     ["-o", "x", "--filter-port", "z"], ["-o", "x", "--compression", "zip"]):
            self.assertEqual(run("daemon", *args).returncode, 2, args)
        self.assertEqual(run("daemon", "--help").returncode, 0)
        (self.dir / "file").write_text("")
        result = run("daemon", "-o", self.dir / "file", "-p", self.udp, timeout=LIMIT)
        self.assertEqual(result.returncode, 4)
        self.assertIn("is no folder", result.stderr)
