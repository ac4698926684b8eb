"""A daemon whose parts are killed at any moment: a session, the daemon, both, the client. Each time
what had arrived is there in the end. What passed is counted by a proxy; a trace of the same whole
frames, captured undisturbed, says what must be in it. Also many clients at once, each whole."""

import contextlib
import os
import pathlib
import signal
import subprocess
import time
import unittest

import test_recover
from passing import Proxy, body_begins, frame_ends, journal_bytes, wait_for
from test_daemon import announce, free_udp_port
from test_daemon_production import Running
from test_recover import KILLS, SEED, dump
from tools import FIREHOSE, LIMIT, TIDEMARK, children, end_daemon, replaying, report

PROTOCOL = 82


class Kills(test_recover.Killed):
    def setUp(self):
        super().setUp()
        self.udp = free_udp_port()
        self.traces = self.dir / "traces"
        self.out = self.traces / "x.tracy"
        self.journal = self.traces / "x.tracy.journal"
        self.log = self.dir / "log"

    @contextlib.contextmanager
    def daemon(self, *args):
        with open(self.log, "ab") as log:
            process = subprocess.Popen(
                [TIDEMARK, "daemon", "-o", str(self.traces), "-p", str(self.udp), "--local",
                 "--name", "x.tracy", *args], stdout=log, stderr=log)
        try:
            wait_for(lambda: process.poll() is not None or
                     "Listening" in self.said(), "the daemon")
            yield process
        finally:
            end_daemon(process)

    def said(self):
        return self.log.read_text(errors="replace")

    @contextlib.contextmanager
    def recording(self, recording, stop_at=None):
        """A daemon that records a client behind a proxy."""
        self.log.unlink(missing_ok=True)
        with replaying(recording, "--rate", "2M") as (client, port):
            proxy = Proxy(port, stop_at)
            try:
                with self.daemon("--no-recover") as process:
                    self.announce_until_heard(proxy)
                    yield process, proxy, client
            finally:
                proxy.close()

    def announce_until_heard(self, proxy):
        """As clients do: now and then, for nothing says that a datagram arrives."""
        last = 0

        def heard():
            nonlocal last
            if not proxy.passed and time.monotonic() - last > 1:
                last = time.monotonic()
                announce(self.udp, proxy.port, b"x", protocol=PROTOCOL)
            return proxy.passed

        wait_for(heard, "the connection")

    def stop(self, process):
        process.send_signal(signal.SIGTERM)
        process.wait(LIMIT)

    def finish(self):
        """The next daemon makes a trace of what was left."""
        self.log.unlink(missing_ok=True)
        with self.daemon() as process:
            self.stop(process)
        self.assertEqual(process.returncode, 0, self.said())

    def hold_against(self, trace, passed):
        """The trace has all whole frames of what passed."""
        ends = frame_ends(passed, PROTOCOL)
        self.assertGreater(len(ends), 1)
        self.assertEqual(dump(trace), self.reference(passed[: ends[-1]], PROTOCOL), SEED)
        trace.unlink()
        self.assertEqual(os.listdir(self.traces), [])

    def moments(self, recording, parts):
        """Offsets of the stream behind its first whole frame."""
        first = frame_ends(recording.read_bytes(), PROTOCOL)[1]
        size = recording.stat().st_size
        for i in range(max(KILLS // parts, 2)):
            yield self.random.randrange(first + 1, max(size * 7 // 10, first + 2))

    def wait_passed(self, proxy, at):
        try:
            wait_for(lambda: len(proxy.passed) >= at, "bytes")
        except AssertionError:
            raise AssertionError(f"{len(proxy.passed)} of {at} bytes; SEED={SEED}; "
                                 f"{self.said()}") from None

    def kill_at(self, recording, at, kill):
        """Gives the bytes of which a part passed until the session was dead."""
        stream = recording.read_bytes()
        least = frame_ends(stream, PROTOCOL)[1] - body_begins(stream, PROTOCOL)
        # It never gets the end: however late the kill comes, there is a session to kill.
        with self.recording(recording, recording.stat().st_size * 9 // 10) as (process, proxy, _):
            self.wait_passed(proxy, at)
            wait_for(lambda: len(journal_bytes(self.journal)) >= least, "the first frame")
            kill(process)
            wait_for(lambda: not self.lives(), "the session's end")
            process.kill()
            process.wait()
        return stream

    def lives(self):
        """Whether the session that was killed still runs; one that waits for its parent does not."""
        try:
            stat = pathlib.Path(f"/proc/{self.session}/stat").read_text()
        except OSError:
            return False
        return stat.rsplit(")", 1)[1].split()[0] != "Z"

    def kill_session(self, process):
        (self.session,) = children(process)
        os.kill(self.session, signal.SIGKILL)

    def kill_both(self, process):
        """The daemon first: nobody is left to see the session's end."""
        (self.session,) = children(process)
        process.kill()
        process.wait()
        os.kill(self.session, signal.SIGKILL)

    def kill_and_finish(self, kill, parts):
        recording = self.firehose()
        for at in self.moments(recording, parts):
            passed = self.kill_at(recording, at, kill)
            kept = journal_bytes(self.journal)
            begin = body_begins(passed, PROTOCOL)
            self.assertTrue(passed[begin:].startswith(kept), "what is kept is not what passed")
            self.finish()
            self.assertFalse(self.journal.exists(), self.said())
            self.hold_against(self.traces / "x.recovered.tracy", passed[: begin + len(kept)])

    def test_sessions(self):
        self.kill_and_finish(self.kill_session, 2)

    def test_daemons_with_their_sessions(self):
        self.kill_and_finish(self.kill_both, 2)

    def test_daemons_alone(self):
        """Their sessions go on to the client's end, and save by themselves."""
        recording = self.firehose()
        for at in self.moments(recording, 2):
            with self.recording(recording) as (process, proxy, _):
                self.wait_passed(proxy, at)
                process.kill()
                process.wait()
                wait_for(lambda: self.out.exists() and not self.journal.exists(), "the trace")
            self.hold_against(self.out, recording.read_bytes())

    def test_clients(self):
        recording = self.firehose()
        for at in self.moments(recording, 2):
            with self.recording(recording, stop_at=at) as (process, proxy, client):
                wait_for(lambda: len(proxy.passed) == at, "bytes")
                client.kill()
                proxy.hang_up()
                wait_for(lambda: "the client vanished" in self.said() and self.out.exists()
                         and not self.journal.exists(), "the trace")
                self.stop(process)
            self.assertEqual(process.returncode, 0, self.said())
            self.hold_against(self.out, bytes(proxy.passed))


class Together(Running):
    CLIENTS = 64
    EVENTS = 2000

    def test_none_is_starved(self):
        """So many real streams at once: each client's totals are exact, and all were live."""
        recording = self.dir / "f.c2s.bin"
        subprocess.run([FIREHOSE, "-o", str(recording), "--events", str(self.EVENTS), "--depth",
                        "4", "--protocol", "82", "--live", "200", "--stacks", "50"], check=True)
        one = self.dir / "one.tracy"
        self.assertEqual(self.capture(recording, one, "--no-summary").returncode, 0)
        wanted = report(one)["pools"]
        with contextlib.ExitStack() as stack:
            process = stack.enter_context(self.daemon())
            for _ in range(self.CLIENTS):
                stack.enter_context(replaying(recording, f"--broadcast=127.0.0.1:{self.udp}",
                                              "--rate", "100K"))
            self.wait_said("Trace size", process, times=self.CLIENTS)
            self.assertEqual(self.stop(process), 0, self.said())
        self.assertEqual(len(self.names()), self.CLIENTS)
        for name in self.names():
            self.assertEqual(report(self.traces / name)["pools"], wanted, name)


if __name__ == "__main__":
    unittest.main()
