"""`tidemark daemon` for weeks: clients that are looked for, names by template, filters, leftovers,
many clients at once, one bound on memory, and what is left when the daemon itself is killed."""

import contextlib
import os
import pathlib
import re
import resource
import signal
import socket
import subprocess
import sys
import time
import unittest
from unittest import mock

from clients import thread_name
from passing import journal_bytes
from test_capture import TERMINATE, FakeClient, alloc, frame
from test_daemon import announce, free_udp_port
from tools import (BUILD, LIMIT, ROOT, TIDEMARK, Case, children, end_daemon, interrupt,
                   remove_folder, report, run, wait_until)

ONE = thread_name(7, b"main") + alloc(10, 7, 0x1000, 64)
STAYS = frame(ONE)
ENDS = frame(ONE + TERMINATE)


class Running(Case):
    def setUp(self):
        super().setUp()
        self.udp = free_udp_port()
        self.traces = self.dir / "traces"
        self.log = self.dir / "log"

    @contextlib.contextmanager
    def daemon(self, *args, start=lambda *command: list(map(str, command))):
        with open(self.log, "wb") as log:
            process = subprocess.Popen(start(TIDEMARK, "daemon", "-o", self.traces, "-p", self.udp,
                                             "--local", *args), stdout=log, stderr=log)
        try:
            self.wait_said("Listening", process)
            yield process
        finally:
            end_daemon(process)

    def said(self):
        return self.log.read_text(errors="replace")

    def wait_said(self, text, process=None, times=1):
        def holds():
            if process and process.poll() is not None and self.said().count(text) < times:
                raise AssertionError(f"it ended: {self.said()}")
            return self.said().count(text) >= times
        try:
            wait_until(holds)
        except AssertionError:
            raise AssertionError(f"{text!r} never came: {self.said()}") from None

    def stop(self, process):
        interrupt(process, signal.SIGTERM)
        return process.returncode

    def names(self):
        return sorted(os.listdir(self.traces))

    def journals(self):
        return [n for n in self.names() if n.endswith(".journal")]

    def wait_recorded(self, clients):
        """Of so many clients everything has come that they say."""
        wait_until(lambda: self.traces.exists() and len(self.journals()) == clients and all(
            len(journal_bytes(self.traces / j)) >= len(STAYS) for j in self.journals()))

    def client(self, body, **kwargs):
        client = FakeClient(body, **kwargs)
        self.addCleanup(client.end)
        return client


class Looking(Running):
    def test_a_target_that_comes_and_goes(self):
        first = self.client(ENDS)
        with self.daemon("--target", f"127.0.0.1:{first.port}") as process:
            self.wait_said("Trace size")
            first.end()
            self.client(ENDS, port=first.port)
            self.wait_said("Trace size", times=2)
            self.assertEqual(self.stop(process), 0, self.said())
        self.assertEqual(len(self.names()), 2)
        for name in self.names():
            self.assertEqual(report(self.traces / name)["pools"][0]["allocations"], 1)

    def test_a_target_over_ipv6(self):
        with socket.socket(socket.AF_INET6) as s:
            try:
                s.bind(("::1", 0))
            except OSError:
                self.skipTest("no IPv6 on the loopback")
            port = s.getsockname()[1]
        client = FakeClient.__new__(FakeClient)
        FakeClient.__init__(client, ENDS)
        forward = Forward(port, client.port)
        self.addCleanup(forward.close)
        self.addCleanup(client.end)
        with self.daemon("--target", f"[::1]:{port}") as process:
            self.wait_said("Trace size")
            self.assertEqual(self.stop(process), 0, self.said())
        (name,) = self.names()
        self.assertIn("--1_", name)

    def test_a_host_that_is_scanned(self):
        for port in range(8105, 8085, -1):
            try:
                client = self.client(ENDS, port=port)
                break
            except OSError:
                continue
        else:
            self.skipTest("no port from 8086 to 8105 is free")
        with self.daemon("--scan", "127.0.0.1", "--filter-port", client.port):
            self.wait_said("Trace size")

    def test_the_client_may_come_later(self):
        client = self.client(ENDS)
        client.end()
        with self.daemon("--target", f"127.0.0.1:{client.port}"):
            self.client(ENDS, port=client.port)
            self.wait_said("Trace size")


class Forward:
    """Takes a connection over IPv6 and hands it on."""

    def __init__(self, port, to):
        import threading
        self.socket = socket.socket(socket.AF_INET6)
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(("::1", port))
        self.socket.listen(8)
        self.to = to
        threading.Thread(target=self.serve, daemon=True).start()

    def serve(self):
        import threading
        with contextlib.suppress(OSError):
            while True:
                peer, _ = self.socket.accept()
                threading.Thread(target=self.pass_on, args=(peer,), daemon=True).start()

    def pass_on(self, peer):
        import threading
        # A connection that only looks whether somebody is there is no client's business.
        with contextlib.suppress(OSError):
            first = peer.recv(12)
            if not first:
                peer.close()
                return
            far = socket.create_connection(("127.0.0.1", self.to))
            far.sendall(first)
            threading.Thread(target=self.pump, args=(peer, far), daemon=True).start()
            self.pump(far, peer)

    @staticmethod
    def pump(a, b):
        with contextlib.suppress(OSError):
            while data := a.recv(65536):
                b.sendall(data)
            b.shutdown(socket.SHUT_WR)

    def close(self):
        self.socket.close()


class Names(Running):
    def test_a_template(self):
        client = self.client(ENDS)
        with self.daemon("--name", "{program}_{host}_{pid}_{time}.tracy") as process:
            announce(self.udp, client.port, b"../my prog", pid=4711)
            self.wait_said("Trace size")
            self.stop(process)
        (name,) = self.names()
        self.assertRegex(name, r"^my_prog_127\.0\.0\.1_\d+_\d{8}T\d{6}Z\.tracy$")

    def test_no_name_is_an_option(self):
        client = self.client(ENDS)
        with self.daemon() as process:
            announce(self.udp, client.port, b"-rf")
            self.wait_said("Trace size")
            self.stop(process)
        self.assertEqual(self.names(), [f"_rf_127.0.0.1_{client.port}.tracy"])

    def test_wrong_templates(self):
        for template in ("", "a/b", ".x", "{x}", "a}", "{pid}{pid}", "x" * 241):
            result = run("daemon", "-o", self.traces, "--name", template)
            self.assertEqual(result.returncode, 2, template)
            self.assertIn("--name", result.stderr)

    def test_a_capture_takes_one(self):
        self.traces.mkdir()
        client = self.client(ENDS)
        (self.traces / f"x_{client.port}.tracy").write_text("not mine")
        result = run("capture", "-o", self.traces, "--name", "x_{port}", "-p", client.port,
                     "--no-summary", "--connect-timeout", LIMIT)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(self.names(), [f"x_{client.port}.tracy", f"x_{client.port}_1.tracy"])
        self.assertEqual((self.traces / f"x_{client.port}.tracy").read_text(), "not mine")


class Filters(Running):
    def test_process_id_and_address(self):
        other, wanted = self.client(ENDS), self.client(ENDS)
        with self.daemon("--filter-pid", 77, "--filter-address", "127.0.0.0/8"):
            announce(self.udp, other.port, b"other", pid=78)
            announce(self.udp, wanted.port, b"wanted", pid=77)
            self.wait_said("Trace size")
        self.assertNotIn("other @", self.said())

    def test_an_address_elsewhere(self):
        client = self.client(ENDS)
        with self.daemon("--filter-address", "10.1.0.0/17",
                         "--target", f"127.0.0.1:{client.port}") as process:
            announce(self.udp, client.port)
            announce(self.udp, client.port)
            self.assertEqual(self.stop(process), 0)
        self.assertIn("Total: 0 files", self.said())

    def test_usage(self):
        for args in (["--filter-pid", "0"], ["--filter-address", "x"], ["--target", "[::1"],
                     ["--filter-address", "10.0.0.0/33"], ["--target", "a:0"], ["--target", ""],
                     ["--scan", "a:1"], ["--memory-limit", "1M"], ["--rotate", "x"]):
            self.assertEqual(run("daemon", "-o", self.traces, *args).returncode, 2, args)


class Dying(Running):
    def test_what_a_killed_session_left_is_finished_at_once(self):
        client, other = self.client(STAYS), self.client(STAYS)
        with self.daemon() as process:
            announce(self.udp, client.port, b"prog")
            self.wait_said("protocol 74")
            self.wait_recorded(1)
            (killed,) = children(process)
            announce(self.udp, other.port, b"other")
            self.wait_recorded(2)
            os.kill(killed, signal.SIGKILL)
            name = f"prog_127.0.0.1_{client.port}.recovered.tracy"
            wait_until(lambda: name in self.names())
            wait_until(lambda: len(self.journals()) == 1)
            self.wait_said("saved to ")
            found = report(self.traces / name)
            self.assertEqual(found["pools"][0]["allocations"], 1)
            # The other one goes on, and when it is killed has its turn, too.
            wait_until(lambda: len(children(process)) == 1)
            (killed,) = children(process)
            os.kill(killed, signal.SIGKILL)
            wait_until(lambda: not self.journals())
            self.wait_said("saved to ", times=2)
            self.assertEqual(self.stop(process), 4)
        self.assertNotIn("is in use", self.said()) # nothing is wrong with the other one
        client.end()
        other.end()
        self.assertEqual(self.names(), sorted([name, f"other_127.0.0.1_{other.port}"
                                                     ".recovered.tracy"]))

    def test_what_was_left_is_finished_at_the_start(self):
        client = self.client(STAYS)
        with self.daemon("--no-recover") as process:
            announce(self.udp, client.port, b"prog")
            self.wait_said("protocol 74")
            self.wait_recorded(1)
            for pid in children(process):
                os.kill(pid, signal.SIGKILL)
            self.wait_said("killed by signal 9")
            self.stop(process)
        client.end()
        self.assertEqual(len(self.journals()), 1)
        with self.daemon("--no-recover") as process:
            self.stop(process)
        self.assertEqual(len(self.journals()), 1)
        with self.daemon() as process:
            self.stop(process)
        self.assertEqual(self.names(), [f"prog_127.0.0.1_{client.port}.recovered.tracy"])
        found = report(self.traces / self.names()[0])
        self.assertEqual(found["pools"][0]["allocations"], 1)

    def outlives_its_daemon(self, number, trace):
        """A session goes on without its daemon; the next one is there when it gets a signal."""
        client = self.client(STAYS, after=b"")
        with self.daemon() as process:
            announce(self.udp, client.port, b"prog")
            self.wait_recorded(1)
            (session,) = children(process)
            process.kill()
            process.wait()
        with self.daemon() as process:
            self.assertEqual(len(self.journals()), 1)
            os.kill(session, number)
            wait_until(lambda: self.names() == [f"prog_127.0.0.1_{client.port}{trace}"])
            self.stop(process)
        self.assertEqual(report(self.traces / self.names()[0])["pools"][0]["allocations"], 1)

    def test_the_daemon_is_killed(self):
        """Sessions save by themselves, and the next daemon leaves them alone."""
        self.outlives_its_daemon(signal.SIGTERM, ".tracy")

    def test_the_daemon_is_killed_and_then_its_session(self):
        self.outlives_its_daemon(signal.SIGKILL, ".recovered.tracy")

    def orphan(self):
        """A session whose daemon was killed, and the name of its client."""
        client = self.client(STAYS)
        with self.daemon("--no-recover") as process:
            announce(self.udp, client.port, b"prog")
            self.wait_recorded(1)
            (session,) = children(process)
            process.kill()
            process.wait()
        self.addCleanup(client.end)
        return session, f"prog_127.0.0.1_{client.port}"

    def test_a_folder_that_is_no_journal(self):
        """It is left alone without a word, unlike one of a capture that had just begun."""
        session, name = self.orphan()
        (self.traces / "empty.journal").mkdir(mode=0o700)
        (self.traces / "notes.journal").mkdir()
        (self.traces / "notes.journal" / "mine").write_text("hello")
        with self.daemon() as process:
            self.assertEqual(self.names(), ["notes.journal", f"{name}.tracy.journal"])
            os.kill(session, signal.SIGKILL)
            wait_until(lambda: self.names() == ["notes.journal", f"{name}.recovered.tracy"])
            self.stop(process)
        self.assertNotIn("notes", self.said())
        self.assertEqual(os.listdir(self.traces / "notes.journal"), ["mine"])

    def test_what_cannot_be_recovered_keeps_nothing_else(self):
        """Neither a session of an earlier daemon nor one of its own, and it is told of once."""
        self.leave_damaged()
        stuck = "y" * 235 + ".tracy.journal"
        (self.traces / self.journals()[0]).rename(self.dir / stuck)
        session, name = self.orphan()
        (self.dir / stuck).rename(self.traces / stuck)
        with open(self.traces / stuck / "more", "wb") as more:
            more.truncate(1 << 42)  # no disk gets so much more room meanwhile that it is a reason
        client = self.client(STAYS)
        with self.daemon() as process:
            announce(self.udp, client.port, b"other")
            wait_until(lambda: len(self.journals()) == 3)
            self.wait_said("protocol 74")
            os.kill(session, signal.SIGKILL)
            wait_until(lambda: f"{name}.recovered.tracy" in self.names())
            os.kill(children(process)[0], signal.SIGKILL)
            self.wait_said("saved to ", times=3)
            wait_until(lambda: self.journals() == [stuck])
            self.stop(process)
        # It was tried once: nothing has waited for its pause.
        self.assertEqual(self.said().count("cannot be moved aside"), 1, self.said())

    def test_what_breaks_recovery_keeps_nothing_else(self):
        """Of several none is known to be the one: each is tried alone."""
        hold, log = self.dir / "go", self.dir / "calls"
        names = []
        for _ in range(2):
            session, name = self.orphan()
            os.kill(session, signal.SIGKILL)
            names.append(f"{name}.recovered.tracy")
            (self.traces / self.journals()[0]).rename(self.dir / f"{name}.tracy.journal")
        faults = {"LD_PRELOAD": str(BUILD / "test" / "faults.so"), "FAULT_AT": "1",
                  "FAULT_HOLD": str(hold), "FAULT_ONLY": "fsync", "FAULT_LOG": str(log),
                  "ASAN_OPTIONS": "verify_asan_link_order=0"}
        with mock.patch.dict(os.environ, faults), self.daemon() as process:
            for journal in self.dir.glob("*.journal"):
                journal.rename(self.traces / journal.name)
            wait_until(lambda: log.exists() and "fsync" in log.read_text())  # and there it stays
            self.assertEqual(self.names(), [n.replace("recovered.tracy", "tracy.journal")
                                            for n in sorted(names)])
            os.kill(children(process)[0], signal.SIGKILL)
            wait_until(lambda: self.names() == sorted(names))
            self.stop(process)
        self.assertEqual(self.said().count("the process that does so was killed"), 1)

    def test_it_waits_for_room(self):
        """For --min-free at the start, too; not for --total-quota, which it is good for."""
        session, name = self.orphan()
        os.kill(session, signal.SIGKILL)
        with self.daemon("--min-free", "1000000G") as process:
            self.assertEqual(self.names(), [f"{name}.tracy.journal"])
            time.sleep(5)
            self.stop(process)
        self.assertEqual(self.names(), [f"{name}.tracy.journal"])
        self.assertEqual(self.said().count("1 journal that captures left: recovered when "), 1)
        with self.daemon("--total-quota", "1") as process:
            self.stop(process)
        self.assertEqual(self.names(), [f"{name}.recovered.tracy"])

    def test_no_process_can_be_begun(self):
        """It is told of once, and done as soon as one can."""
        session, name = self.orphan()
        with self.daemon() as process:
            used = {int(fd) for fd in os.listdir(f"/proc/{process.pid}/fd")}
            before = resource.prlimit(process.pid, resource.RLIMIT_NOFILE)
            # Three more: enough to see the journal, too few to hear a process.
            most = [fd for fd in range(max(used) + 5) if fd not in used][2] + 1
            resource.prlimit(process.pid, resource.RLIMIT_NOFILE, (most, before[1]))
            os.kill(session, signal.SIGKILL)
            self.wait_said("Too many open files")
            time.sleep(5)
            self.assertEqual(self.said().count("Too many open files"), 1)
            self.assertEqual(self.names(), [f"{name}.tracy.journal"])
            resource.prlimit(process.pid, resource.RLIMIT_NOFILE, before)
            wait_until(lambda: self.names() == [f"{name}.recovered.tracy"])
            self.stop(process)

    def leave_damaged(self):
        """A journal with bytes behind its records that are none; gives its client's name."""
        client = self.client(STAYS)
        with self.daemon("--no-recover") as process:
            announce(self.udp, client.port, b"prog")
            self.wait_recorded(1)
            os.kill(children(process)[0], signal.SIGKILL)
            self.wait_said("killed by signal 9")
            self.stop(process)
        client.end()
        segment = self.traces / self.journals()[0] / "00000001"
        segment.write_bytes(segment.read_bytes() + bytes(100) + b"no record")
        return f"prog_127.0.0.1_{client.port}"

    def test_what_is_damaged_is_recovered_once(self):
        """Not at each start, and not when another session is killed."""
        name, other = self.leave_damaged(), self.client(STAYS)
        wanted = [f"{name}.recovered.tracy", f"{name}.tracy.journal.damaged"]
        for times in range(3):
            with self.daemon() as process:
                self.stop(process)
            self.assertEqual("damaged" in self.said(), times == 0, self.said())
            self.assertEqual(self.names(), wanted)
        self.assertEqual(report(self.traces / wanted[0])["pools"][0]["allocations"], 1)
        with self.daemon() as process:
            announce(self.udp, other.port, b"other")
            self.wait_recorded(1)
            os.kill(children(process)[0], signal.SIGKILL)
            self.wait_said("saved to ")
            self.stop(process)
        wanted.append(f"other_127.0.0.1_{other.port}.recovered.tracy")
        self.assertEqual(self.names(), sorted(wanted))

    def test_what_is_damaged_and_cannot_be_moved_aside(self):
        """Nobody asked for a copy, which each start would make anew."""
        self.leave_damaged()
        journal = "y" * 235 + ".tracy.journal"
        (self.traces / self.journals()[0]).rename(self.traces / journal)
        with self.daemon() as process:
            self.stop(process)
        self.assertIn("cannot be moved aside: File name too long", self.said())
        self.assertEqual(self.names(), [journal])

    def test_what_was_left_in_a_spool_folder_is_finished_by_its_own_daemon(self):
        spool = self.dir / "spool"
        spool.mkdir()
        client = self.client(STAYS)
        with self.daemon("--spool", spool, "--no-recover") as process:
            announce(self.udp, client.port, b"prog")
            wait_until(lambda: any(journal_bytes(j) for j in spool.iterdir()))
            for pid in children(process):
                os.kill(pid, signal.SIGKILL)
            self.wait_said("killed by signal 9")
            self.stop(process)
        client.end()
        (journal,) = os.listdir(spool)
        ours, self.traces = self.traces, self.dir / "another's"
        with self.daemon("--spool", spool) as process:
            self.stop(process)
        self.assertEqual((os.listdir(spool), self.names()), ([journal], []))
        self.traces = ours
        with self.daemon("--spool", spool) as process:
            self.stop(process)
        self.assertEqual(os.listdir(spool), [])
        self.assertEqual(self.names(), [f"prog_127.0.0.1_{client.port}.recovered.tracy"])
        self.assertEqual(report(self.traces / self.names()[0])["pools"][0]["allocations"], 1)


class Elsewhere(Running):
    """The output folder gets another name, or none, while a session records into it."""

    def setUp(self):
        super().setUp()
        self.archive = self.dir / "archive"
        self.temporary = self.dir / "temporary"

    @contextlib.contextmanager
    def recording(self, *args, temporary=None):
        """A daemon, in a folder of its own since it is given relative paths, and a client."""
        client = self.client(STAYS)
        with mock.patch.dict(os.environ, TMPDIR=temporary or str(self.temporary)), \
                contextlib.chdir(self.dir), self.daemon("--name", "x.tracy", *args) as process:
            announce(self.udp, client.port, b"prog")
            self.wait_said("protocol 74")
            wait_until(lambda: any(len(journal_bytes(j)) >= len(STAYS)
                                   for j in self.dir.glob("*/x.tracy*.journal")))
            yield process

    @staticmethod
    def sockets(pid):
        """That it holds: its client's, a sampler's, and its daemon's as long as that is there."""
        fds = pathlib.Path(f"/proc/{pid}/fd")
        return sum(os.readlink(f).startswith("socket:") for f in fds.iterdir())

    def test_it_was_moved(self):
        with self.recording() as process:
            self.traces.rename(self.archive)
            self.wait_said("is gone: it was made again")
            self.assertEqual(self.stop(process), 0, self.said())
        self.assertEqual((self.names(), os.listdir(self.archive)), ([], ["x.tracy"]))
        self.assertIn(f" -> {self.archive / 'x.tracy'} (", self.said())
        self.assertEqual(report(self.archive / "x.tracy")["pools"][0]["allocations"], 1)

    def test_it_is_moved_again_and_again(self):
        """No descriptor stays of folders in which nothing is written any more."""
        def folders():
            held = pathlib.Path(f"/proc/{process.pid}/fd")
            return [path for path in (os.readlink(held / fd) for fd in os.listdir(held))
                    if "/archive" in path]

        with self.daemon("--name", "x.tracy") as process:
            for turn in range(4):
                client = self.client(frame(ONE + TERMINATE))
                announce(self.udp, client.port, b"prog", pid=1 + turn)
                wait_until(lambda: self.names() == ["x.tracy"] and not children(process))
                self.traces.rename(self.dir / f"archive{turn}")
                wait_until(self.traces.exists)
            # That of the newest capture is kept for the next one.
            wait_until(lambda: folders() == [str(self.dir.resolve() / "archive3")])
            self.stop(process)

    def test_it_was_moved_with_a_spool_folder_elsewhere(self):
        (self.dir / "spool").mkdir()
        with self.recording("--spool", "spool") as process:
            self.traces.rename(self.archive)
            self.wait_said("is gone: it was made again")
            self.assertEqual(self.stop(process), 0, self.said())
        self.assertEqual((self.names(), os.listdir(self.archive), os.listdir(self.dir / "spool")),
                         ([], ["x.tracy"], []))

    def test_it_was_moved_and_there_is_no_room(self):
        """What is said to have the data has it."""
        with self.recording() as process:
            self.traces.rename(self.archive)
            self.wait_said("is gone: it was made again")
            (session,) = children(process)
            resource.prlimit(session, resource.RLIMIT_FSIZE, (100, 100))
            self.assertEqual(self.stop(process), 4, self.said())
        self.assertIn(f"is kept in {self.archive / 'x.tracy.journal'};", self.said())
        self.assertEqual(os.listdir(self.archive), ["x.tracy.journal"])
        self.assertEqual(run("recover", self.archive / "x.tracy.journal").returncode, 0)

    def test_it_was_removed(self):
        """The trace goes to where temporary files do."""
        self.temporary.mkdir()
        (self.temporary / "x.tracy").write_bytes(b"somebody's")
        with self.recording() as process:
            remove_folder(self.traces)
            self.wait_said("is gone: it was made again")
            self.assertEqual(self.stop(process), 4, self.said())
        trace = self.temporary / "x.2.tracy"
        self.assertIn("the folder that client 1 was recorded into was removed meanwhile: tidemark: "
                      f"the folder was removed: the trace is {trace}\n", self.said())
        self.assertNotIn("is kept in", self.said())
        self.assertEqual(self.names(), [])
        self.assertEqual((self.temporary / "x.tracy").read_bytes(), b"somebody's")
        self.assertEqual(trace.stat().st_mode & 0o777, 0o600)
        self.assertEqual(report(trace)["pools"][0]["allocations"], 1)

    def test_it_was_removed_and_temporary_files_go_to_a_relative_path(self):
        """That leads from where the daemon was started, not from the folder."""
        self.temporary.mkdir()
        with self.recording(temporary="temporary") as process:
            remove_folder(self.traces)
            self.wait_said("is gone: it was made again")
            self.assertEqual(self.stop(process), 4, self.said())
        self.assertEqual(os.listdir(self.temporary), ["x.tracy"])

    def test_where_it_is_started_is_removed(self):
        """What a relative path leads to cannot be said there."""
        for words, variables in (["--spool", "spool"], {}), ([], {"TMPDIR": "temporary"}):
            gone = self.dir / "gone"
            gone.mkdir()
            result = subprocess.run(["sh", "-c", 'rmdir "$PWD" && exec "$@"', "sh", TIDEMARK,
                                     "daemon", "-o", self.traces, "-p", str(self.udp), *words],
                                    cwd=gone, env={**os.environ, **variables}, text=True,
                                    stderr=subprocess.PIPE, timeout=LIMIT)
            self.assertEqual(result.returncode, 2, result.stderr)
            self.assertIn("cannot find out where ", result.stderr)

    def test_it_was_removed_and_there_is_nowhere_to_go(self):
        with self.recording() as process:
            remove_folder(self.traces)
            self.wait_said("is gone: it was made again")
            self.assertEqual(self.stop(process), 4, self.said())
        self.assertIn("was removed meanwhile: tidemark: what was recorded is lost: its journal was "
                      "removed\n", self.said())
        self.assertNotIn("is kept in", self.said())

    def test_it_was_removed_and_its_daemon_killed_before(self):
        """The session is still one of a daemon."""
        self.temporary.mkdir()
        with self.recording() as process:
            (session,) = children(process)
            before = self.sockets(session)
            process.kill()
            process.wait()
            # It looks for the daemon's words ten times a second, and then knows.
            wait_until(lambda: self.sockets(session) == before - 1)
            remove_folder(self.traces)
            os.kill(session, signal.SIGTERM)
            wait_until(lambda: os.listdir(self.temporary) == ["x.tracy"])
        self.assertEqual(report(self.temporary / "x.tracy")["pools"][0]["allocations"], 1)


class Service(Running):
    def test_it_tells_who_started_it(self):
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as told:
            told.bind(str(self.dir / "notify"))
            told.settimeout(LIMIT)
            os.environ["NOTIFY_SOCKET"] = str(self.dir / "notify")
            self.addCleanup(os.environ.pop, "NOTIFY_SOCKET")
            with self.daemon() as process:
                self.assertEqual(told.recv(100), b"READY=1")
                process.send_signal(signal.SIGTERM)
                self.assertEqual(told.recv(100), b"STOPPING=1")
                process.wait(LIMIT)

    def test_the_unit(self):
        """What it starts is a command line that the program takes."""
        unit = (ROOT / "server" / "tidemark.service.in").read_text()
        command = re.search(r"^ExecStart=@PREFIX@/bin/tidemark (.*)$", unit, re.M)[1]
        words = command.replace("%S", str(self.dir)).replace("%%", "%").split()
        words[words.index("--http") + 1] = "127.0.0.1:0"
        process = subprocess.Popen([TIDEMARK, *words, "-p", str(self.udp)], text=True,
                                   stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        self.assertIn("Listening", process.stdout.readline())
        out, _ = interrupt(process, signal.SIGTERM)
        self.assertEqual(process.returncode, 0, out)


    def given(self, *sockets, pid=None):
        """Starts a daemon as a service manager does that has opened these."""
        code = ("import fcntl, os, sys\n"
                "pid, fds, *words = sys.argv[1:]\n"
                "high = [fcntl.fcntl(int(f), fcntl.F_DUPFD, 100) for f in fds.split(',')]\n"
                "for i, f in enumerate(high):\n"
                "    os.dup2(f, 3 + i)\n"
                "    os.close(f)\n"
                "os.environ.update(LISTEN_FDS=str(len(high)), LISTEN_FDNAMES='a:b',\n"
                "                  LISTEN_PID=pid or str(os.getpid()))\n"
                "os.execv(words[0], words)\n")
        fds = [s.fileno() for s in sockets]
        hook = self.dir / "hook"
        hook.write_text(f"#!/bin/sh\nenv >{self.dir}/env\nls -l /proc/self/fd >{self.dir}/fds\n")
        hook.chmod(0o755)
        with open(self.log, "wb") as log:
            process = subprocess.Popen(
                [sys.executable, "-c", code, pid or "", ",".join(map(str, fds)), TIDEMARK, "daemon",
                 "-o", self.traces, "--local", "-p", str(self.udp), "--on-finish",
                 hook],
                pass_fds=fds, stdout=log, stderr=log)
        self.addCleanup(end_daemon, process)
        return process

    def test_sockets_that_are_given(self):
        """Who came before the daemon was there is heard."""
        client = self.client(ENDS)
        with socket.create_server(("127.0.0.1", 0)) as web, \
                socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp:
            udp.bind(("127.0.0.1", 0))
            announced, port = udp.getsockname()[1], web.getsockname()[1]
            announce(announced, client.port, b"early")
            with socket.create_connection(("127.0.0.1", port), timeout=LIMIT) as reader:
                reader.sendall(b"GET /api/v1/status HTTP/1.1\r\nHost: localhost\r\n\r\n")
                process = self.given(web, udp)
                self.wait_said(f"Web server: port {port} of 127.0.0.1:{port}", process)
                self.assertIn(f"Listening on 0.0.0.0:{announced}", self.said())
                self.assertTrue(reader.recv(100).startswith(b"HTTP/1.1 200 "))
            wait_until(lambda: (self.dir / "fds").exists() and
                       [n for n in self.names() if n.startswith("early")])
            self.stop(process)
        self.assertEqual(process.returncode, 0, self.said())
        self.assertNotIn("LISTEN_", (self.dir / "env").read_text())
        self.assertNotIn("socket", (self.dir / "fds").read_text())

    def test_sockets_that_are_not_ours(self):
        bare = socket.socket(socket.AF_UNIX), socket.socket()
        for one in bare:
            self.addCleanup(one.close)
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as udp:
            udp.bind(("127.0.0.1", 0))
            process = self.given(udp, pid="1")  # of another process
            self.wait_said(f"Listening on 0.0.0.0:{self.udp}", process)
            self.stop(process)
            for wrong in (udp, udp), (bare[0],), (bare[1],):
                process = self.given(*wrong)
                self.assertEqual(process.wait(LIMIT), 2, self.said())
                self.assertIn("of $LISTEN_FDS is neither", self.said())
            with socket.create_server(("0.0.0.0", 0)) as web:  # everybody's: no token
                process = self.given(web)
                self.assertEqual(process.wait(LIMIT), 2, self.said())
                self.assertIn("needs a --token", self.said())

    def test_the_unit_of_the_sockets(self):
        unit = (ROOT / "server" / "tidemark.socket").read_text()
        service = (ROOT / "server" / "tidemark.service.in").read_text()
        self.assertEqual(re.search(r"^ListenStream=(.*)$", unit, re.M)[1],
                         re.search(r"--http (\S+)", service)[1])
        self.assertIn("ListenDatagram=0.0.0.0:8086\n", unit)


class Many(Running):
    def test_sixty_four_at_once(self):
        clients = [self.client(STAYS) for _ in range(64)]
        with self.daemon() as process:
            for i, client in enumerate(clients):
                announce(self.udp, client.port, b"p", pid=100 + i)
            self.wait_recorded(64)
            self.assertEqual(self.stop(process), 0, self.said())
        self.assertEqual(len(self.names()), 64)
        self.assertIn("Total: 64 files", self.said())
        for name in self.names():
            self.assertEqual(report(self.traces / name)["pools"][0]["allocations"], 1, name)

    def test_the_memory_is_for_all_together(self):
        """Two have room; a third waits."""
        clients = [self.client(STAYS) for _ in range(3)]
        with self.daemon("--memory-limit", "200M") as process:
            for i, client in enumerate(clients):
                announce(self.udp, client.port, b"p", pid=100 + i)
            self.wait_said("further ones must wait (--memory-limit)")
            self.wait_said("protocol 74", times=2)
            self.assertEqual(self.stop(process), 0, self.said())
        self.assertEqual(len(self.names()), 2)


if __name__ == "__main__":
    unittest.main()
