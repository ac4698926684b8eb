"""Recorded real clients played to `tidemark capture`, held against the official traces of the same
bytes and against what the programs themselves counted."""

import contextlib
import fcntl
import json
import os
import re
import resource
import signal
import socket
import struct
import subprocess
import threading
import time

import lz4.block

import check_truth
import hostile
import passing
from tools import (LIMIT, RELEASES, TIDEMARK, TRACES, WIRE, Case, free_port, interrupt, listens, replaying,
                   report, run, wait_for, wait_until)
from tracyfile import Trace

STAMPS = {"v0.9.1": (0, 9, 0), "v0.10": (0, 10, 0), "v0.11.1": (0, 11, 1), "v0.12.2": (0, 12, 0),
          "v0.13.1": (0, 13, 0), "v0.14.0": (0, 14, 0)}
PROTOCOLS = {"v0.9.1": 63, "v0.10": 64, "v0.11.1": 69, "v0.12.2": 74, "v0.13.1": 76, "v0.14.0": 82}


class SameBytesSameTrace(Case):
    def check(self, release, name):
        recording = WIRE / release / f"{name}.c2s.bin"
        out = self.dir / "out.tracy"
        result = self.capture(recording, out, "-f", "--compat", release)
        self.assertEqual(result.returncode, 0, result.stderr)
        ours, official = Trace(out), Trace(TRACES / release / f"wire_{name}.tracy")
        self.assertEqual(ours.version, STAMPS[release])
        mine, theirs = ours.memory_by_pool(), official.memory_by_pool()
        self.assertEqual(sorted(mine), sorted(theirs))
        for key in theirs:
            self.assert_same_events(mine[key], theirs[key])
            for field in ("high", "low", "usage", "frees", "active"):
                self.assertEqual(ours.pools[key][field], official.pools[key][field], field)
            self.assertEqual(ours.pointers.get(key), official.pointers.get(key))
        used = {frame for stack in ours.callstacks[1:] for frame in stack}
        for frame in used:
            self.assertEqual(ours.frames.get(frame), official.frames.get(frame), hex(frame))
        self.assert_same_threads(ours, official)
        self.assertEqual(ours.resolution, official.resolution)
        self.assertEqual(ours.program, official.program)
        self.assertEqual(ours.host_info, official.host_info)
        self.assert_clean("out.tracy")
        return out

    def assert_same_threads(self, ours, official):
        """Threads and fibers with their names, zones and messages."""
        self.assertEqual(sorted(ours.thread_details), sorted(official.thread_details))
        self.assertEqual((ours.zones, ours.zone_lists), (official.zones, official.zone_lists))
        self.assertEqual({k: n for k, n in ours.zones_ended.items() if n},
                         {k: n for k, n in official.zones_ended.items() if n})
        self.assertEqual(ours.resolved_messages(ours.messages),
                         official.resolved_messages(official.messages))
        for thread, mine in ours.thread_details.items():
            theirs = official.thread_details[thread]
            self.assertEqual(ours.thread_names.get(thread), official.thread_names.get(thread))
            for field in ("zones", "fiber", "hint"):
                self.assertEqual(mine[field], theirs[field], f"{field} of {thread}")
            self.assert_same_events(ours.resolved_zones(thread), official.resolved_zones(thread))
            self.assertEqual(ours.resolved_messages(mine["messages"]),
                             official.resolved_messages(theirs["messages"]))

    def assert_same_events(self, mine, theirs):
        self.assertEqual(len(mine), len(theirs))
        for i, (a, b) in enumerate(zip(mine, theirs)):
            self.assertEqual(a, b, f"event {i}")

    def test_memscen(self):
        for release in RELEASES:
            with self.subTest(release):
                out = self.check(release, "memscen")
                truth = json.loads((WIRE / release / "memscen.truth.json").read_text())
                check = check_truth.compare(report(out, "--by", "function"), truth)
                self.assertGreater(check.compared, 200)
                self.assertEqual(check.differences, [])

    def test_allscen(self):
        for release in RELEASES:
            with self.subTest(release):
                out = self.check(release, "allscen")
                truth = json.loads((WIRE / release / "allscen.truth.json").read_text())
                pools = report(out)["pools"]
                self.assertEqual(sum(p["allocations"] for p in pools), truth["allocs"])
                # A discard frees what it drops; the truth counts those frees apart.
                self.assertGreaterEqual(sum(p["frees"] for p in pools), truth["frees"])


class AfterTheRelease(Case):
    """The server after v0.14.0 gives the memory of fibers to the fibers; it kept the number."""

    def test_memory_of_fibers(self):
        threads = []
        for args in ((), ("--compat", "v0.14.0")):
            out = self.dir / f"{len(args)}.tracy"
            result = self.capture(WIRE / "v0.14.0" / "allscen.c2s.bin", out, *args)
            self.assertEqual(result.returncode, 0, result.stderr)
            lines = run("dump", out, "--section", "memory").stdout.splitlines()
            threads.append([tuple(map(int, re.findall(r"thread=(\d+)", line))) for line in lines])
        changed = [(a, b) for a, b in zip(*threads) if a != b]
        self.assertEqual(len(threads[0]), len(threads[1]))
        self.assertTrue(changed)
        for fiber, thread in changed:
            self.assertTrue(all(f >> 32 for f in fiber), fiber)
            self.assertFalse(any(t >> 32 for t in thread), thread)
        self.assertFalse(any(t >> 32 for pair in threads[1] for t in pair))

    def test_older_clients_are_as_they_were(self):
        outputs = []
        for args in ((), ("--compat", "v0.13.1")):
            out = self.dir / f"{len(args)}.tracy"
            result = self.capture(WIRE / "v0.13.1" / "allscen.c2s.bin", out, *args)
            self.assertEqual(result.returncode, 0, result.stderr)
            outputs.append(run("dump", out, "--section", "memory,plots,zones").stdout)
        self.assertEqual(*outputs)

    def test_handshake_is_no_regular_file(self):
        """replay names a FIFO beside its recording; it does not wait for it."""
        recording = self.dir / "x.c2s.bin"
        recording.write_bytes(b"")
        os.mkfifo(self.dir / "x.s2c.bin")
        result = run("replay", recording)
        self.assertEqual((result.returncode, result.stderr),
                         (3, f"tidemark: {self.dir}/x.s2c.bin: too short for a handshake\n"))

    def test_arguments(self):
        result = run("capture", "-o", self.dir / "x", "--compat", "v0.15.0")
        self.assertEqual(result.returncode, 2)
        self.assertIn("v0.9.0 to v0.14.0", result.stderr)


class FindingTheProtocol(Case):
    def test_every_number_is_found_by_probing(self):
        recording = WIRE / "v0.12.2" / "memscen.c2s.bin"
        for number in (63, 72, 82):
            with replaying(recording, "--protocol", number) as (_, port):
                result = run("capture", "-o", self.dir / "x", "-f", "-p", port,
                             "--connect-timeout", LIMIT, "--no-summary")
            self.assertIn(f"protocol {number}", result.stdout)

    def test_a_forced_number_that_is_not_spoken(self):
        result = self.capture(WIRE / "v0.12.2" / "memscen.c2s.bin", self.dir / "x",
                              "--protocol", 82)
        self.assertEqual(result.returncode, 5)
        self.assertIn("does not speak protocol 82", result.stderr)
        self.assert_clean()

    def test_an_announced_number_is_offered_first(self):
        port = free_port()
        capture = subprocess.Popen([TIDEMARK, "capture", "-o", str(self.dir / "x"), "-p",
                                    str(port)], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                   text=True)
        wait_until(lambda: listens(capture, 8086), "it does not listen for broadcasts")
        announcement = struct.pack("<HHIQi", 3, port, 67, 4242, 1) + b"fake\0"
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
            s.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
            s.sendto(announcement, ("127.255.255.255", 8086))
        client = FakeClient(frame(b"\x39"), speaks=67, port=port)  # item Terminate
        out, err = capture.communicate(timeout=LIMIT)
        client.end()
        self.assertEqual(capture.returncode, 0, out + err)
        self.assertIn("protocol 67", out)
        self.assertEqual(client.refused, [])

    def test_ipv6_loopback_alone(self):
        with replaying(WIRE / "v0.13.1" / "memscen.c2s.bin", "-a", "::1") as (_, port):
            result = run("capture", "-o", self.dir / "x", "-p", port, "--connect-timeout", LIMIT)
        self.assertEqual(result.returncode, 0, result.stderr)

    def test_a_client_that_comes_late(self):
        port = free_port()
        capture = subprocess.Popen([TIDEMARK, "capture", "-o", str(self.dir / "x"), "-p",
                                    str(port), "--no-summary"], stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True)
        said = wait_for(capture, "Connecting")
        time.sleep(0.7)  # it was refused a few times
        with replaying(WIRE / "v0.10" / "memscen.c2s.bin", "-p", port):
            out, err = capture.communicate(timeout=LIMIT)
        self.assertEqual(capture.returncode, 0, said + out + err)


def listener(port=0):
    s = socket.socket()
    s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    s.bind(("127.0.0.1", port))
    s.listen(4)
    return s, s.getsockname()[1]


def welcome(timer_mul=1.0, flags=0):
    """A welcome message of the numbers up to 74."""
    data = bytearray(1178)
    struct.pack_into("<dqqQQQQQqBB", data, 0, timer_mul, 0, 0, 0, 1, 1, 1, hostile.NO_PROCESS, 0, flags, 2)
    data[90:97] = b"fake.c\0"
    return bytes(data)


class FakeClient:
    """A client made by hand: one connection, protocol 74, then `body` bytes."""

    def __init__(self, body, status=1, close=False, speaks=74, timer_mul=1.0, port=0, after=b""):
        self.after = after
        self.socket, self.port = listener(port)
        self.refused = []
        self.timer_mul = timer_mul
        self.body, self.status, self.close, self.speaks = body, status, close, speaks
        self.queries = b""
        self.thread = threading.Thread(target=self.serve, daemon=True)
        self.thread.start()

    def serve(self):
        with contextlib.suppress(OSError):  # the test ended first
            self.talk()

    def talk(self):
        while True:
            peer, _ = self.socket.accept()
            request = peer.recv(12)
            if not request:  # somebody looked whether a client is there
                peer.close()
                continue
            if self.status == 1 and struct.unpack("<I", request[8:])[0] != self.speaks:
                self.refused.append(struct.unpack("<I", request[8:])[0])
                peer.sendall(b"\x02")
                peer.close()
                continue
            break
        peer.sendall(bytes([self.status]))
        if self.status == 1:
            peer.sendall(welcome(self.timer_mul) + self.body)
        while self.after:
            time.sleep(0.2)
            peer.sendall(self.after)
        if self.close:
            peer.close()
        else:
            while data := peer.recv(65536):
                self.queries += data
            peer.close()

    def end(self):
        with contextlib.suppress(OSError):  # else a thread that waits in accept() goes on listening
            self.socket.shutdown(socket.SHUT_RDWR)
        self.socket.close()
        self.thread.join(timeout=10)


def frame(items):
    block = lz4.block.compress(items, store_size=False)
    return struct.pack("<I", len(block)) + block


# Items of protocol 74.
def callstack(*addresses):
    data = struct.pack(f"<{len(addresses)}Q", *addresses)
    return struct.pack("<BQH", 106, 0, len(data)) + data + b"\x09"


def alloc(time, thread, ptr, size):
    return struct.pack("<BqIQIH", 29, time, thread, ptr, size & 0xffffffff, size >> 32)


def free(time, thread, ptr):
    return struct.pack("<BqIQ", 27, time, thread, ptr)


TERMINATE = b"\x3b"


class OddClients(Case):
    def run_capture(self, client, *args):
        try:
            return run("capture", "-o", self.dir / "x", "-p", client.port, "--connect-timeout", LIMIT,
                       *args)
        finally:
            client.end()

    def test_a_client_that_never_answers(self):
        body = frame(callstack(0x401000, 0x402000) + alloc(10, 7, 0x1000, 64) + TERMINATE)
        result = self.run_capture(FakeClient(body))
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("never received", result.stderr)
        t = Trace(self.dir / "x")
        self.assertEqual(t.memory_by_pool()[0],
                         [(0x1000, 64, 10, None, (0x401000, 0x402000), None, 7, None)])

    def test_the_client_vanishes(self):
        body = frame(callstack(0x401000) + alloc(10, 7, 0x1000, 64)) + b"\x10\x00\x00"
        result = self.run_capture(FakeClient(body, close=True))
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("vanished", result.stdout)
        t = Trace(self.dir / "x")
        self.assertEqual(len(t.pools[0]["events"]), 1)
        self.assertTrue(any(i and i.startswith(b"tidemark.incomplete=") for i in t.app_info))

    def test_undecodable_bytes(self):
        cases = {"unknown item": b"\xff", "short item": alloc(1, 1, 1, 1)[:-1],
                 "no call stack frame was announced": b""}
        for what in ("unknown item", "short item"):
            with self.subTest(what):
                body = frame(callstack(0x401000) + alloc(10, 7, 0x1000, 64) + cases[what])
                result = self.run_capture(FakeClient(body), "-f")
                self.assertEqual(result.returncode, 3, result.stdout)
                self.assertIn("protocol 74", result.stderr)
                self.assertIn("offset", result.stderr)
                self.assertEqual(len(Trace(self.dir / "x").pools[0]["events"]), 1)

    def test_oversized_frame(self):
        body = frame(callstack(0x401000) + alloc(10, 7, 0x1000, 64)) + struct.pack("<I", 263189)
        result = self.run_capture(FakeClient(body))
        self.assertEqual(result.returncode, 3)
        self.assertIn("263189", result.stderr)
        self.assertEqual(len(Trace(self.dir / "x").pools[0]["events"]), 1)

    def test_faults_are_counted_and_the_rest_goes_on(self):
        body = frame(callstack(0x401000) + alloc(10, 7, 0x1000, 64) + free(10, 7, 0x2000) +
                     callstack(0x402000) + alloc(10, 7, 0x1000, 32) + free(10, 7, 0x1000) +
                     TERMINATE)
        result = self.run_capture(FakeClient(body))
        self.assertEqual(result.returncode, 0, result.stderr)
        t = Trace(self.dir / "x")
        self.assertEqual([row[1:4] for row in t.pools[0]["events"]], [(64, 10, 30), (32, 30, 40)])
        self.assertEqual(len(t.messages), 2)
        faults = report(self.dir / "x")["faults"]
        self.assertEqual(len(faults), 2)

    def test_strict_ends_at_the_first_fault(self):
        body = frame(callstack(0x401000) + alloc(10, 7, 0x1000, 64) + free(10, 7, 0x2000) +
                     callstack(0x402000) + alloc(10, 7, 0x3000, 32) + TERMINATE)
        result = self.run_capture(FakeClient(body), "--strict")
        self.assertEqual(result.returncode, 1)
        self.assertIn("MemFree", result.stderr)
        self.assertEqual(len(Trace(self.dir / "x").pools[0]["events"]), 1)

    def test_not_available(self):
        result = self.run_capture(FakeClient(b"", status=3))
        self.assertEqual(result.returncode, 5)
        self.assertIn("cannot be captured any more", result.stderr)
        self.assert_clean()

    def test_no_tracy_client(self):
        result = self.run_capture(FakeClient(b"", status=72))
        self.assertEqual(result.returncode, 5)
        self.assertIn("no Tracy client", result.stderr)

    def test_a_clock_beyond_39_hours_goes_on_in_a_second_trace(self):
        """One tick of this client is a second."""
        body = frame(callstack(0x401000) + alloc(100, 7, 0x1000, 64) + callstack(0x402000) +
                     alloc(100, 7, 0x2000, 32) + free(139900, 7, 0x1000) + TERMINATE)
        result = self.run_capture(FakeClient(body, timer_mul=1e9))
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assert_clean("x", "x.2")
        second = 10**9
        first, then = Trace(self.dir / "x"), Trace(self.dir / "x.2")
        self.assertEqual([row[:4] for row in first.pools[0]["events"]],
                         [(0x1000, 64, 100 * second, None), (0x2000, 32, 200 * second, None)])
        self.assertEqual([row[:4] for row in then.pools[0]["events"]],
                         [(0x1000, 64, 0, 0), (0x2000, 32, 0, None)])
        self.assertEqual(then.memory_by_pool()[0][0][4], (0x401000,))
        # Each part says what was mapped; only the last one is complete.
        for name, complete in (("x", False), ("x.2", True)):
            doc = json.loads(run("info", self.dir / name, "--format", "json").stdout)
            self.assertEqual(doc["complete"], complete)
            self.assertIn("module", {f["key"] for f in doc["facts"]})
        self.assertIn("complete                   no, it goes on in the next part",
                      run("info", self.dir / "x").stdout)
        self.assertIn("the trace goes on in the next part", run("report", self.dir / "x").stdout)

    def test_keep_alives_after_the_end_do_not_hold_us(self):
        """Item Terminate, then a KeepAlive every 0.2 s while a name stays unanswered."""
        client = FakeClient(frame(callstack(0x401000) + alloc(10, 7, 0x1000, 64) + TERMINATE),
                            after=frame(b"\x3c"))
        result = self.run_capture(client)
        self.assertEqual(result.returncode, 0, result.stderr)

    def test_the_client_is_told_to_let_go(self):
        client = FakeClient(frame(TERMINATE))
        result = self.run_capture(client)
        self.assertEqual(result.returncode, 0)
        self.assertEqual(client.queries[-13:], bytes(13))


class Stopping(Case):
    def cut(self):
        """A recording whose client goes on for ever: it never says that it ends."""
        for suffix in ("c2s.bin", "s2c.bin"):
            data = (WIRE / "v0.12.2" / f"memscen.{suffix}").read_bytes()
            (self.dir / f"cut.{suffix}").write_bytes(data[: len(data) * 2 // 3])
        return self.dir / "cut.c2s.bin"

    def start(self, port, *args):
        return subprocess.Popen([TIDEMARK, "capture", "-o", str(self.dir / "x"), "-p", str(port),
                                 *map(str, args)], stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, text=True)

    def wait_until_silent(self):
        """Until all whole frames of the cut recording have come."""
        stream = (self.dir / "cut.c2s.bin").read_bytes()
        whole = passing.frame_ends(stream, 74)[-1] - passing.body_begins(stream, 74)
        wait_until(lambda: len(passing.journal_bytes(self.dir / "x.journal")) >= whole)

    def test_signals_save(self):
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            with self.subTest(number), replaying(self.cut(), "--hold") as (_, port):
                capture = self.start(port, "-f")
                said = wait_for(capture, "protocol 74")
                self.wait_until_silent()
                out, err = interrupt(capture, number)
                out = said + out
                self.assertEqual(capture.returncode, 0, out + err)
                self.assertIn("stopped by signal", out)
                self.assertGreater(Trace(self.dir / "x").memory_events, 3000)

    def test_a_signal_after_the_save(self):
        """The reader of the summary stalls. The trace is complete: the exit status says so."""
        ours, theirs = os.pipe()
        room = fcntl.fcntl(theirs, fcntl.F_SETPIPE_SZ, 4096)
        with replaying(self.cut(), "--hold") as (_, port), open(ours, "rb", 0) as stalled, \
                open(self.dir / "log", "w+") as log:
            capture = subprocess.Popen([TIDEMARK, "capture", "-o", str(self.dir / "x"), "-p",
                                        str(port)], stdout=theirs, stderr=log)
            said = b""
            while b"protocol 74" not in said:
                said += stalled.read(4096)
            self.wait_until_silent()
            os.write(theirs, bytes(room - 300))  # room for the capture's end, not for the summary
            os.close(theirs)
            capture.send_signal(signal.SIGINT)
            wait_until(lambda: (self.dir / "x").exists() and not (self.dir / "x.journal").exists())
            wait_until(lambda: capture.send_signal(signal.SIGINT) or capture.poll() is not None)
            log.seek(0)
            said = log.read()
        self.assertEqual(capture.returncode, 0, said)
        self.assertIn("interrupted after the capture's end", said)
        self.assertGreater(Trace(self.dir / "x").memory_events, 3000)
        self.assert_clean("cut.c2s.bin", "cut.s2c.bin", "log", "x")

    def test_time_limit(self):
        for seconds in (1, 10, 100):  # within which a slow machine gets everything
            with replaying(self.cut(), "--hold") as (_, port):
                capture = self.start(port, "-f", "-s", seconds)
                out, err = capture.communicate(timeout=LIMIT)
            self.assertEqual(capture.returncode, 0, err)
            self.assertIn("time limit", out)
            if Trace(self.dir / "x").memory_events > 3000:
                break
        self.assertGreater(Trace(self.dir / "x").memory_events, 3000)

    def test_recording_that_breaks_off(self):
        """Its replay ends as the client did, from a file and from a pipe."""
        cut = self.cut()
        with replaying(cut) as (replay, port):
            out, err = self.start(port).communicate(timeout=LIMIT)
            self.assertIn("the client vanished", out + err)
            self.assertEqual(replay.wait(timeout=LIMIT), 0)
        events = Trace(self.dir / "x").memory_events
        self.assertGreater(events, 3000)
        with open(cut, "rb") as stdin, subprocess.Popen(
                [TIDEMARK, "replay", "-", "--protocol", "74", "-p", "0"], stdin=stdin,
                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as replay:
            port = int(replay.stdout.readline().rsplit(":", 1)[1])
            out, err = self.start(port, "-f").communicate(timeout=LIMIT)
            self.assertIn("the client vanished", out + err)
            self.assertEqual(replay.wait(timeout=LIMIT), 0)
        self.assertEqual(Trace(self.dir / "x").memory_events, events)

    def test_signal_before_there_is_a_client(self):
        capture = self.start(free_port())
        wait_for(capture, "Connecting")
        interrupt(capture)
        self.assertEqual(capture.returncode, 5)
        self.assert_clean()


class BadUsage(Case):
    recording = WIRE / "v0.12.2" / "memscen.c2s.bin"

    def test_help_by_the_official_names(self):
        """Their tools end with 1, but for csvexport."""
        for name, status in (("tidemark", 0), ("tracy-capture", 1), ("tracy-capture-daemon", 1),
                             ("tracy-update", 1), ("tracy-csvexport", 0)):
            tool = self.dir / name
            os.symlink(TIDEMARK, tool)
            result = subprocess.run([tool, "--help"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                    text=True, timeout=LIMIT)
            self.assertEqual(result.returncode, status, name)
            self.assertRegex(result.stdout.lower(), "usage: ", name)

    def test_numbers_that_are_none(self):
        """The official tool takes them as 0 and waits for ever; this one says so and ends."""
        tool = self.dir / "tracy-capture"
        os.symlink(TIDEMARK, tool)
        for option, value in (("-p", "abc"), ("-p", "8086x"), ("-s", "abc")):
            result = subprocess.run([tool, "-o", self.dir / "x", option, value],
                                    stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                    timeout=LIMIT)
            self.assertEqual((result.returncode, result.stdout), (1, ""), result.stderr)
            self.assertIn(f"not '{value}'\n", result.stderr)

    def test_output_exists(self):
        out = self.dir / "x"
        out.write_text("precious")
        result = run("capture", "-o", out, "-p", free_port(), "--connect-timeout", 0)
        self.assertEqual(result.returncode, 4)
        self.assertIn("exists", result.stderr)
        self.assertEqual(out.read_text(), "precious")

    def test_old_output_stands_until_the_new_one_is_whole(self):
        out = self.dir / "x"
        out.write_text("precious")
        result = run("capture", "-f", "-o", out, "-p", free_port(), "--connect-timeout", 0)
        self.assertEqual(result.returncode, 5)
        self.assertEqual(out.read_text(), "precious")
        self.assert_clean("x")

    def test_a_link_stays_and_its_file_is_replaced(self):
        (self.dir / "real").write_text("old")
        os.chmod(self.dir / "real", 0o600)
        os.symlink("real", self.dir / "link")
        result = self.capture(self.recording, self.dir / "link", "-f")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertTrue(os.path.islink(self.dir / "link"))
        self.assertEqual(os.stat(self.dir / "real").st_mode & 0o777, 0o600)
        self.assertEqual(Trace(self.dir / "real").memory_events, 9001)

    def test_an_output_that_came_to_exist_meanwhile(self):
        out = self.dir / "x.tracy"
        body = frame(callstack(0x401000) + alloc(10, 7, 0x1000, 64))
        client = FakeClient(body)
        capture = subprocess.Popen([TIDEMARK, "capture", "-o", str(out), "-p", str(client.port)],
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        wait_for(capture, "protocol 74")
        wait_until(lambda: len(passing.journal_bytes(self.dir / "x.tracy.journal")) >= len(body))
        out.write_text("precious")
        _, err = interrupt(capture)
        client.end()
        self.assertEqual(capture.returncode, 0, err)
        self.assertIn("meanwhile", err)
        self.assertEqual(out.read_text(), "precious")
        self.assertEqual(len(Trace(self.dir / "x.2.tracy").pools[0]["events"]), 1)

    def test_folder_that_is_not_there(self):
        result = run("capture", "-o", self.dir / "no" / "x", "-p", free_port())
        self.assertEqual(result.returncode, 4)
        self.assertIn("cannot write", result.stderr)

    def test_refused_connection(self):
        result = run("capture", "-o", self.dir / "x", "-p", free_port(), "--connect-timeout", 0.3)
        self.assertEqual(result.returncode, 5)
        self.assertIn("refused", result.stderr)
        self.assert_clean()

    def test_unresolvable_address(self):
        result = run("capture", "-o", self.dir / "x", "-a", "no-such-host.invalid")
        self.assertEqual(result.returncode, 5)
        self.assertIn("cannot resolve", result.stderr)

    def test_port_in_use(self):
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            s.listen()
            result = run("replay", self.recording, "-p", s.getsockname()[1])
        self.assertEqual(result.returncode, 5)
        self.assertIn("in use", result.stderr.lower())

    def test_wrong_arguments(self):
        for args in ((), ("-o",), ("-o", "x", "-p", "0"), ("-o", "x", "-p", "70000"),
                     ("-o", "x", "-s", "soon"), ("-o", "x", "--protocol", "99"),
                     ("-o", "x", "extra"), ("-o", "x", "--trace-version", "0.8.0"),
                     ("-o", "x", "--unknown"), ("-o", "x", "--compression", "zip")):
            with self.subTest(args):
                self.assertEqual(run("capture", *args).returncode, 2)

    def test_full_disk_while_saving(self):
        """The file size limit stands in for a disk that is full: write(2) fails half-way."""
        out = self.dir / "x"
        out.write_text("precious")
        with replaying(self.recording) as (_, port):
            result = run("capture", "-f", "-o", out, "-p", port, preexec_fn=small_files)
        self.assertEqual(result.returncode, 4, result.stdout)
        self.assertIn("cannot write", result.stderr)
        self.assertEqual(out.read_text(), "precious")
        self.assert_clean("x", "x.journal")
        self.assertEqual(run("recover", self.dir / "x.journal").returncode, 0)
        self.assert_clean("x", "x.recovered")

    def test_full_device(self):
        with replaying(self.recording) as (_, port):
            result = run("capture", "-f", "-o", "/dev/full", "-p", port)
        self.assertEqual(result.returncode, 4)
        self.assertIn("No space left", result.stderr)


def small_files():
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20000, 20000))


class DropIn(Case):
    """Called by the official tool's name: its exit codes."""

    def setUp(self):
        super().setUp()
        self.name = self.dir / "tracy-capture"
        os.symlink(TIDEMARK, self.name)

    def call(self, *args):
        return subprocess.run([str(self.name), *map(str, args)], stdout=subprocess.PIPE,
                              stderr=subprocess.PIPE, text=True, timeout=LIMIT)

    def test_captures(self):
        with replaying(WIRE / "v0.14.0" / "memscen.c2s.bin") as (_, port):
            result = self.call("-o", self.dir / "x.tracy", "-f", "-p", port)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("Saving trace... done!", result.stdout)

    def test_words_that_scripts_read(self):
        """Names and forms of the figures are those of the official tool."""
        with replaying(WIRE / "v0.14.0" / "allscen.c2s.bin") as (_, port):
            result = self.call("-o", self.dir / "x.tracy", "-s", "-1", "-m", "0", "-p", port)
        self.assertEqual(result.returncode, 0, result.stderr)
        # Figures of an official capture of the same recording.
        self.assertRegex(result.stdout, re.compile(
            r"^Connecting to 127\.0\.0\.1:\d+\.\.\.$.*^Timer resolution: 0 ns$.*"
            r"^Frames: 102\nTime span: 267\.08 ms\nZones: 2,200\nElapsed time: \d[^\n]*s\n"
            r"Saving trace\.\.\. done!\nTrace size \d+(\.\d+)? KB \(\d+\.\d\d% ratio\)$",
            re.M | re.S))
        result = self.call("-o", self.dir / "x.tracy", "-p", port)
        self.assertEqual(result.returncode, 4)
        self.assertEqual(result.stdout, f"Output file {self.dir / 'x.tracy'} already exists! "
                                        "Use -f to force overwrite.\n")
        result = self.call("-o", self.dir / "no" / "x.tracy", "-p", port)
        self.assertEqual(result.returncode, 5)
        self.assertEqual(result.stdout, f"Cannot open output file {self.dir / 'no' / 'x.tracy'} "
                                        "for writing!\n")

    def test_what_is_lost(self):
        """The trace is saved, but lacks bytes that the client sent."""
        client = FakeClient(frame(callstack(0x401000) + alloc(10, 7, 0x1000, 64) + b"\xff"))
        result = self.call("-o", self.dir / "x", "-p", client.port, "--protocol", 74)
        client.end()
        self.assertEqual(result.returncode, 3, result.stderr)
        self.assertEqual(len(Trace(self.dir / "x").pools[0]["events"]), 1)

    def test_exit_codes(self):
        self.assertEqual(self.call().returncode, 1)
        (self.dir / "old").write_text("")
        self.assertEqual(self.call("-o", self.dir / "old").returncode, 4)
        self.assertEqual(self.call("-o", self.dir / "no" / "x").returncode, 5)
