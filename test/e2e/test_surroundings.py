"""Captures in odd surroundings: standard streams that are closed or full, pipes, signals, a client
that is busy, and a client with a hostile name."""

import contextlib
import json
import os
import shlex
import signal
import socket
import struct
import subprocess
import threading
import time

import passing
from test_capture import TERMINATE, frame, listener, welcome
from clients import alloc_plain, capture_items, string, thread_name
from tools import (LIMIT, TIDEMARK, WIRE, Case, free_port, interrupt, replaying, report, run,
                   wait_for, wait_until)
from tracyfile import Trace

RECORDING = WIRE / "v0.14.0" / "memscen.c2s.bin"


class Streams(Case):
    def shell(self, redirections, *args):
        """A capture of the recording by a shell, which closes and redirects streams."""
        with replaying(RECORDING) as (_, port):
            command = shlex.join([TIDEMARK, "capture", "-o", str(self.dir / "x"), "-p", str(port),
                                  *map(str, args)])
            return subprocess.run(["sh", "-c", f"{command} {redirections}"], timeout=LIMIT,
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)

    def assert_whole(self):
        self.assertEqual(Trace(self.dir / "x").memory_events, 9001)
        (self.dir / "x").unlink()
        self.assert_clean()

    def test_closed_streams(self):
        """What is opened later must not get the number of a stream that messages are written to."""
        for redirections in ("<&-", ">&-", "2>&-", "<&- >&-", "<&- >&- 2>&-", ">/dev/full"):
            with self.subTest(redirections):
                self.shell(redirections, "--buffer", "1M")
                self.assert_whole()

    def test_a_reader_that_goes_away(self):
        """The first line is read, then nobody is there any more: the trace is saved still."""
        self.shell("| head -n 1")
        wait_until(lambda: os.listdir(self.dir) == ["x"])
        self.assert_whole()

    def test_a_named_pipe_as_output(self):
        pipe = self.dir / "pipe"
        os.mkfifo(pipe)
        with open(self.dir / "x", "wb") as copy, replaying(RECORDING) as (_, port):
            reader = subprocess.Popen(["cat", str(pipe)], stdout=copy)
            result = run("capture", "-o", pipe, "-f", "-p", port)
            reader.wait(timeout=LIMIT)
        self.assertEqual(result.returncode, 0, result.stderr)
        pipe.unlink()
        self.assert_whole()


class Usage(Case):
    def test_what_cannot_end_well_is_refused_at_once(self):
        for status, words, args in (
                (2, "no output file", ("-o", "")),
                (4, "cannot spool into", ("-o", self.dir / "x", "--spool", self.dir / "none"))):
            result = run("capture", "-p", free_port(), *args)
            self.assertEqual(result.returncode, status)
            self.assertIn(words, result.stderr)
        self.assert_clean()


class Clients(Case):
    def test_a_hostile_program_name(self):
        data = bytearray(welcome())
        data[90:120] = b"\x1b]0;owned\x07\x1b[2J\xff\x7f".ljust(30, b"\0")
        with contextlib.closing(listener()[0]) as server:
            threading.Thread(target=serve_once, args=(server, bytes(data)), daemon=True).start()
            result = run("capture", "-o", self.dir / "x", "-p", server.getsockname()[1],
                         "--protocol", 74, "--connect-timeout", LIMIT)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("\\x1b]0;owned\\x07\\x1b[2J\\xff\\x7f, protocol 74", result.stdout)

    def test_a_tunnel_that_hangs_up_is_tried_again(self):
        """With the same number: only an answer moves on to the next."""
        offers = []
        with contextlib.closing(listener()[0]) as server:
            capture = subprocess.Popen([TIDEMARK, "capture", "-o", str(self.dir / "x"), "-p",
                                        str(server.getsockname()[1])], stdout=subprocess.DEVNULL,
                                       stderr=subprocess.PIPE, text=True)
            for i in range(5):
                peer, _ = server.accept()
                if i % 2:
                    peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                else:
                    offers.append(peer.recv(12))
                peer.close()
            _, err = interrupt(capture)
        self.assertEqual(capture.returncode, 5, err)
        self.assertEqual(len(offers), 3)
        self.assertEqual(len(set(offers)), 1)
        self.assert_clean()

    def test_a_welcome_that_is_cut_short_is_asked_for_again(self):
        """A tunnel may go away at any byte: after the status, within the welcome message."""
        with contextlib.closing(listener()[0]) as server:
            def serve():
                for cut in (1, 700, 1178):
                    peer, _ = server.accept()
                    peer.recv(12)
                    peer.sendall((b"\x01" + welcome())[:cut])
                    peer.close()
                serve_once(server, welcome())
            threading.Thread(target=serve, daemon=True).start()
            result = run("capture", "-o", self.dir / "x", "-p", server.getsockname()[1],
                         "--protocol", 74, "--connect-timeout", LIMIT)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(Trace(self.dir / "x").memory_events, 1)

    def test_a_welcome_that_never_comes_in_full(self):
        with contextlib.closing(listener()[0]) as server:
            def serve():
                with contextlib.suppress(OSError):
                    while True:
                        peer, _ = server.accept()
                        peer.recv(12)
                        peer.sendall(b"\x01")
                        peer.close()
            threading.Thread(target=serve, daemon=True).start()
            result = run("capture", "-o", self.dir / "x", "-p", server.getsockname()[1],
                         "--protocol", 74, "--connect-timeout", 3)
        self.assertEqual(result.returncode, 5)
        self.assertRegex(result.stderr, "hung up during the handshake|did not answer in time")
        self.assert_clean()

    def test_addresses_in_brackets(self):
        with replaying(RECORDING, "-a", "[::1]") as (_, port):
            result = run("capture", "-o", self.dir / "x", "-a", "[::1]", "-p", port)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn(f"Connecting to [::1]:{port}...", result.stdout)
        for address in ("[::1", "[::1]x", "[::1]:1", "127.0.0.1:1"):
            result = run("capture", "-o", self.dir / "y", "-a", address, "-p", port)
            self.assertEqual(result.returncode, 5, address)
            self.assertIn(f"cannot resolve the address {address}", result.stderr)

    def test_more_pools_than_there_is_room_for(self):
        """All allocations of the last thousand are in the pool that stands for them."""
        items = thread_name(7, b"main")
        for i in range(5000):
            items += string(0x10000 + 8 * i, b"p%d" % i)
            items += alloc_plain(10, 7, 0x1000 + i % 50 * 64, 64, pool=0x10000 + 8 * i)
        result = capture_items(self.dir / "x", items)
        self.assertEqual(result.returncode, 0, result.stderr)
        doc = report(self.dir / "x")
        pools = {p["name"]: p["allocations"] for p in doc["pools"]}
        self.assertEqual(sum(pools.values()), 5000)
        self.assertEqual(len(pools), 4095)
        self.assertEqual(pools["(other pools)"], 5000 - 4094)
        self.assertEqual(doc["faults"], [])
        facts = {f["key"]: f["value"] for f in
                 json.loads(run("info", self.dir / "x", "--format", "json").stdout)["facts"]}
        self.assertEqual(facts["overflow.pools"], str(5000 - 4094))

    def test_a_client_that_serves_another(self):
        with contextlib.closing(listener()[0]) as server:
            result = run("capture", "-o", self.dir / "x", "-p", server.getsockname()[1],
                         "--connect-timeout", 3)
        self.assertEqual(result.returncode, 5)
        self.assertIn("another server may be capturing it", result.stderr)
        self.assert_clean()


class Signals(Case):
    def recording(self, rate="50K"):
        """A capture that is at work, slowly."""
        return replaying(RECORDING, "--rate", rate)

    def start(self, port):
        capture = subprocess.Popen([TIDEMARK, "capture", "-o", str(self.dir / "x"), "-p",
                                    str(port)], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                   text=True)
        wait_for(capture, "protocol 82")
        # Memory events come with the first frame.
        stream, journal = RECORDING.read_bytes(), self.dir / "x.journal"
        some = passing.frame_ends(stream, 82)[1] - passing.body_begins(stream, 82)
        passing.wait_for(lambda: journal.exists() and len(passing.journal_bytes(journal)) > some,
                         "the first frame")
        return capture

    def test_twice(self):
        with self.recording() as (_, port):
            capture = self.start(port)
            capture.send_signal(signal.SIGTERM)
            time.sleep(0.2)
            if capture.poll() is None:
                capture.send_signal(signal.SIGTERM)
            out, err = capture.communicate(timeout=LIMIT)
        # When the trace is safe the second one does what it always does.
        self.assertIn(capture.returncode, (0, -signal.SIGTERM), err)
        if capture.returncode == 0:
            self.assertIn("stopped by signal", out)
        self.assert_clean("x")
        self.assertGreater(Trace(self.dir / "x").memory_events, 0)

    def test_a_hangup_that_is_ignored(self):
        """As nohup has it; SIGINT, which shells have background jobs ignore, still ends it."""
        def ignore():
            signal.signal(signal.SIGHUP, signal.SIG_IGN)
            signal.signal(signal.SIGINT, signal.SIG_IGN)
        with self.recording("5K") as (_, port):
            capture = subprocess.Popen([TIDEMARK, "capture", "-o", str(self.dir / "x"), "-p",
                                        str(port)], stdout=subprocess.PIPE,
                                       stderr=subprocess.PIPE, text=True, preexec_fn=ignore)
            wait_for(capture, "protocol 82")
            capture.send_signal(signal.SIGHUP)
            time.sleep(0.5)
            self.assertIsNone(capture.poll())
            capture.send_signal(signal.SIGINT)
            out, err = capture.communicate(timeout=LIMIT)
        self.assertEqual(capture.returncode, 0, err)
        self.assertIn("stopped by signal", out)

    def test_killed(self):
        with self.recording() as (_, port):
            capture = self.start(port)
            capture.kill()
            capture.communicate(timeout=LIMIT)
        self.assert_clean("x.journal")

    def test_stopped_and_continued(self):
        with self.recording() as (_, port):
            capture = self.start(port)
            capture.send_signal(signal.SIGSTOP)
            time.sleep(0.5)
            capture.send_signal(signal.SIGCONT)
            _, err = capture.communicate(timeout=LIMIT)
        self.assertEqual(capture.returncode, 0, err)
        self.assertEqual(Trace(self.dir / "x").memory_events, 9001)


def serve_once(server, greeting):
    peer, _ = server.accept()
    peer.recv(12)
    items = thread_name(7, b"main") + alloc_plain(10, 7, 0x1000, 64) + TERMINATE
    peer.sendall(b"\x01" + greeting + frame(items))
    while peer.recv(4096):
        pass
    peer.close()
