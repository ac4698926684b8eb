"""Disks that are full or broken at any one call: each write, fsync, rename and so on of a command
fails in turn. Every time the words say why, an old file of the output's name stands or the new one
is whole, and what had arrived is in a trace or in a journal that `recover` finishes."""

import contextlib
import ctypes
import errno
import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import tempfile
import time
import unittest
from unittest import mock

import test_daemon_production
import test_recover
import test_rotate
from passing import Player, frame_ends, journal_arrived, journal_bytes, wait_for
from test_daemon import announce
from test_recover import dump
from tools import (BUILD, FIREHOSE, KEEPER, LIMIT, SAMPLER, THOROUGH, TIDEMARK, TRACES, Case,
                   all_children, name_of, not_sanitized, report, run, wait_until)

# Where guarded sessions may write, too.
TEMPORARY = os.environ.get("TMPDIR") or "/var/tmp"
FAULTS = str(BUILD / "test" / "faults.so")
OLD = b"what was there before"
SHORT = 0
ERRORS = (errno.ENOSPC, errno.EIO, errno.EDQUOT)
# What the kernel gives up in the middle, or does a part of, is gone on with.
INTERRUPTED = "write,pwrite,pwritev,fsync,fdatasync,ftruncate,fallocate"
WRITES = "write,pwrite,pwritev"
PROTOCOL = 82
NOTHING = "that is not in the parts before it" # the disk was full right after a part
ENDED = re.compile(r"Trace size|failed|cannot ")


def environment(**faults):
    env = dict(os.environ, LD_PRELOAD=FAULTS, **{k: str(v) for k, v in faults.items()})
    env["ASAN_OPTIONS"] = "verify_asan_link_order=0"
    return env


@not_sanitized
class Faulty(Case):
    """`attempt(env)` runs the command and gives its CompletedProcess; `check(result, where, fails)`
    holds what is left against what may be. `words` may stand for those of the error."""

    words = ()

    def calls(self, attempt):
        """The calls of an undisturbed run."""
        with tempfile.TemporaryDirectory(dir=TEMPORARY) as folder:
            log = pathlib.Path(folder) / "calls"
            result = attempt(environment(FAULT_LOG=log))
            self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
            return [line.split(" ", 1)[0] for line in log.read_text().splitlines()]

    def chosen(self, calls, most):
        """Of each kind of call the first and the last, and some between."""
        found = set()
        for name in set(calls):
            at = [i for i, call in enumerate(calls, 1) if call == name]
            step = 1 if THOROUGH else max(1, len(at) // most)
            found.update(at[::step], at[:2], at[-2:])
        return sorted(found)

    def each(self, attempt, check, most=6, statuses=(0, 4)):
        """Every call fails, in one way or another: once, or with all that come after it."""
        calls = self.calls(attempt)
        failed = 0
        for turn, i in enumerate(self.chosen(calls, most)):
            ways = [(which, how) for how in ERRORS for which in ("FAULT_AT", "FAULT_FROM")]
            for which, how in ways if THOROUGH else (ways[turn % 6],):
                result = attempt(environment(**{which: i, "FAULT_HOW": how}))
                where = (f"{which}={i} ({calls[i - 1]}) {os.strerror(how)}: {result.returncode} "
                         f"{result.stdout} {result.stderr}")
                self.assertIn(result.returncode, statuses, where)
                self.assertNotIn("Sanitizer", result.stderr, where)
                if result.returncode:
                    failed += 1
                    self.assertTrue(any(w in result.stderr for w in (os.strerror(how), *self.words)),
                                    where)
                check(result, where)
        self.assertGreater(failed, 0)
        self.interrupted(attempt, check, most)

    def interrupted(self, attempt, check, most):
        """Half a write, and a call that a signal interrupts, cost nothing."""
        for how, only in ((SHORT, WRITES), (errno.EINTR, INTERRUPTED)):
            counted = [c for c in self.calls(attempt) if c in only.split(",")]
            for i in self.chosen(counted, most):
                result = attempt(environment(FAULT_AT=i, FAULT_HOW=how, FAULT_ONLY=only))
                where = f"{how} at {i} of {only}: {result.stdout} {result.stderr}"
                self.assertEqual(result.returncode, 0, where)
                check(result, where)


class Files(Faulty):
    """Commands that make one file of another."""

    def check_file(self, args, look, most=6):
        out = self.dir / "x"
        whole = []

        def attempt(env):
            out.write_bytes(OLD)
            return run(*args, env=env)

        def check(result, where):
            self.assert_clean("x")
            if result.returncode == 0:
                self.assertEqual(look(), whole[0], where)
            else:
                self.assertEqual(out.read_bytes(), OLD, where)

        self.assertEqual(attempt(dict(os.environ)).returncode, 0)
        whole.append(look())
        self.each(attempt, check, most)

    def test_update(self):
        self.check_file(("update", TRACES / "v0.14.0" / "allscen.tracy", self.dir / "x"),
                        lambda: dump(self.dir / "x"))
        self.check_file(("update", "--range", "210ms:220ms",
                         TRACES / "v0.14.0" / "allscen_sys.tracy", self.dir / "x"),
                        lambda: dump(self.dir / "x"))

    def test_export(self):
        trace = TRACES / "v0.14.0" / "allscen.tracy"
        for form in ("folded", "pprof", "chrome"):
            self.check_file(("export", trace, "--format", form, "-f", "-o", self.dir / "x"),
                            lambda: (self.dir / "x").read_bytes(), 3)
        for form in ("tsv", "parquet"):
            self.check_file(("export", trace, "--format", form, "--table", "messages", "-f", "-o",
                             self.dir / "x"), lambda: (self.dir / "x").read_bytes(), 3)

    def test_export_database(self):
        self.words = ("database or disk is full", "disk I/O error") # SQLite's
        self.check_file(("export", TRACES / "v0.14.0" / "memscen_freeunknown.tracy", "--format",
                         "sqlite", "-f", "-o", self.dir / "x"),
                        lambda: (self.dir / "x").stat().st_size, 3)

    def test_merge(self):
        a, b = TRACES / "v0.14.0" / "allscen.tracy", TRACES / "v0.14.0" / "allscen_sys.tracy"
        self.check_file(("merge", "-f", "--align", "begin", self.dir / "x", a, b),
                        lambda: dump(self.dir / "x"), 3)

    def test_report(self):
        self.check_file(("report", TRACES / "v0.14.0" / "allscen.tracy", "--format", "json",
                         "--output", self.dir / "x", "--force"),
                        lambda: (self.dir / "x").read_bytes(), 3)


class Captures(Faulty, test_recover.Killed):
    """What a capture got of the client is counted below the program, by what its calls returned: all
    of that must be there, in a trace or in the journal, as long as one of the two could be written
    at all. The clients have said all and are silent, so nothing is left on the way."""

    def setUp(self):
        super().setUp()
        self.got = self.dir / "got"
        self.references = {}

    def reference_of(self, stream):
        """What a capture of these bytes has; many faults leave the same."""
        end = frame_ends(stream, PROTOCOL)[-1]
        if end not in self.references:
            self.references[end] = self.whole_of(stream[:end])
        return self.references[end]

    def whole_of(self, stream):
        return self.reference(stream, PROTOCOL)

    def attempt_on(self, stream, *args):
        def attempt(env):
            self.clean_up()
            self.out.write_bytes(OLD)
            player = Player(stream, PROTOCOL)
            try:
                return run("capture", "-f", "-o", self.out, "-p", player.port, "--protocol",
                           PROTOCOL, "--no-summary", "--connect-timeout", 60, *args,
                           env=dict(env, FAULT_GOT=str(self.got)))
            finally:
                player.close()
        return attempt

    def clean_up(self):
        for path in self.dir.glob("x*"):
            if path.is_dir():
                shutil.rmtree(path)
            else:
                path.unlink()
        self.got.unlink(missing_ok=True)

    def take_journal(self, result, where):
        """Finishes the journal; gives how many bytes of the client it has or had, None without one."""
        if not self.journal.exists():
            return None
        self.assertEqual(result.returncode, 4, where)
        self.assertIn("is kept in", result.stderr, where)
        kept = journal_arrived(self.journal)
        recovered = run("recover", self.journal)
        said = f"{where}\n{recovered.stdout}{recovered.stderr}"
        self.assertEqual(recovered.returncode, 0, said)
        self.assertFalse(self.journal.exists(), said)
        self.assertNotEqual((self.dir / "x.recovered.tracy").exists(), NOTHING in said, said)
        return kept

    def arrived(self, stream, result, where):
        """The bytes of the client up to which all must be there, None when there are none; and
        whether a journal had them."""
        begin = frame_ends(stream, PROTOCOL)[0]
        got = int(self.got.read_text())
        kept = self.take_journal(result, where)
        if got <= begin: # it ended before the client said anything
            return None, False
        if (kept is None and "FAULT_FROM" in where and "failed!" in where and got < 200000 and
                self.out.read_bytes() == OLD):
            return None, False # the disk took nothing from the first bytes on
        if kept is None:
            return stream[:got], False
        if "FAULT_AT" in where:
            self.assertEqual(begin + kept, got, where)
        return stream[: begin + kept], True

    def check_one(self, stream):
        def check(result, where):
            arrived, journaled = self.arrived(stream, result, where)
            saved = self.out.read_bytes() != OLD
            self.assertTrue(saved or result.returncode == 4, where)
            if arrived is None:
                return
            trace = self.dir / "x.recovered.tracy" if journaled else self.out
            self.assertEqual(dump(trace), self.reference_of(arrived), where)
        return check

    def test_one_trace(self):
        stream = self.firehose(20000).read_bytes()
        self.each(self.attempt_on(stream, "--fsync"), self.check_one(stream), 12)

    def test_late(self):
        """Decoding takes so long that the session looks at its limits before it is through with the
        bytes that the journal has no room for: they are in the trace nevertheless."""
        stream = self.firehose(20000).read_bytes()
        attempt, check = self.attempt_on(stream), self.check_one(stream)
        only = {"FAULT_ONLY": "pwritev"}
        calls, failed = len(self.calls(lambda env: attempt(dict(env, **only)))), 0
        for i in range(2, calls + 1, max(1, calls // 6)):
            result = attempt(environment(FAULT_AT=i, FAULT_HOW=errno.EIO, FAULT_LATE=150, **only))
            where = f"FAULT_AT={i}: {result.returncode} {result.stdout} {result.stderr}"
            self.assertIn(result.returncode, (0, 4), where)
            failed += result.returncode == 4
            check(result, where)
        self.assertGreater(failed, 0)

    def test_spool(self):
        """The store has no room for what comes: the trace ends there, and the journal has it all."""
        stream = self.firehose(250000).read_bytes()
        attempt = self.attempt_on(stream, "--buffer", "300K")
        self.each(lambda env: attempt(dict(env, FAULT_ONLY="pwrite")), self.check_one(stream))


class Parts(Captures):
    """Traces that go on in further ones."""

    parts, sums, whole = (getattr(test_rotate.Rotating, n) for n in ("parts", "sums", "whole"))
    recovered, whole_run = (getattr(test_rotate.Rotating, n) for n in ("recovered", "whole_run"))
    whole_of = whole

    test_one_trace = test_late = test_spool = None

    def check_parts(self, stream):
        def check(result, where):
            arrived, journaled = self.arrived(stream, result, where)
            if self.out.read_bytes() == OLD:
                self.assertEqual(result.returncode, 4, where)
                self.out.unlink()
            if arrived is None:
                return
            goes_on = journaled and self.recovered()[0].exists()
            traces = self.whole_run() if goes_on else self.parts()
            self.assertEqual(self.sums(traces), self.reference_of(arrived), where)
        return check

    def test_rotate(self):
        stream = self.firehose(40000).read_bytes()
        self.each(self.attempt_on(stream, "--rotate", "100K"), self.check_parts(stream), 3)

    def without_room(self, *args):
        """More is live than the store keeps in memory, so a part's beginning is written, too: what
        captures leave whose writes into the spool fail there and around: (result, where)."""
        recording = self.dir / "f.c2s.bin"
        subprocess.run([FIREHOSE, "-o", str(recording), "--events", "800000", "--depth", "4",
                        "--protocol", str(PROTOCOL), "--live", "500000", "--pools", "4",
                        "--stacks", "200"], check=True)
        self.stream, only = recording.read_bytes(), {"FAULT_ONLY": "pwrite"}
        attempt = self.attempt_on(self.stream, "--buffer", "1M", *args)
        calls = len(self.calls(lambda env: attempt(dict(env, **only))))
        for turn, i in enumerate(range(calls // 3, calls, 1 if THOROUGH else calls // 16)):
            which = ("FAULT_AT", "FAULT_FROM")[turn % 2]
            result = attempt(environment(**{which: i, "FAULT_HOW": errno.ENOSPC}, **only))
            where = f"{which}={i}: {result.returncode} {result.stdout} {result.stderr}"
            self.assertIn(result.returncode, (0, 4), where)
            self.assertNotIn("Sanitizer", result.stderr, where)
            yield result, where

    def test_no_room_to_begin_a_part(self):
        """The one before is whole, and of the one that was not begun nothing is saved."""
        torn = 0
        for result, where in self.without_room("--rotate", "11M"):
            if "no room to begin it" in result.stderr:
                torn += 1
                self.assertEqual(self.parts(), [self.out], where)
                self.assertEqual(run("verify", self.out).returncode, 0, where)
                self.assertTrue(self.journal.exists(), where)
            self.check_parts(self.stream)(result, where)
        self.assertGreater(torn, 1)

    def test_no_room_to_begin_a_part_and_no_journal(self):
        """What came is in the part before."""
        torn = 0
        for result, where in self.without_room("--rotate", "11M", "--no-journal"):
            if "no room to begin it" in result.stderr:
                torn += 1
                self.assertEqual(result.returncode, 4, where)
                self.assertNotIn("is kept in", result.stderr, where)
                self.check_parts(self.stream)(result, where)
        self.assertGreater(torn, 1)

    def test_no_room_to_go_on_with_a_flight_recorder(self):
        """It would drop what came before only later, so the trace has it all."""
        for result, where in self.without_room("--keep-last", "20M"):
            arrived, journaled = self.arrived(self.stream, result, where)
            trace = self.recovered()[0] if journaled else self.out
            self.assertEqual(self.sums([trace]), self.reference_of(arrived), where)

    check_last, window = (getattr(test_rotate.Rotating, n) for n in ("check_last", "window"))

    def test_flight_recorder(self):
        stream = self.firehose(40000).read_bytes()
        attempt = self.attempt_on(stream, "--keep-last", "100K")

        def check(result, where):
            arrived, journaled = self.arrived(stream, result, where)
            if arrived is None:
                self.assertEqual(self.out.read_bytes(), OLD, where)
                return
            self.check_last(self.recovered()[0] if journaled else self.out, arrived)

        self.each(attempt, check, 4)


class Recoveries(Faulty, test_recover.Killed):
    def test_recover(self):
        """The journal stays until its trace is saved; then a part of it may be left, which says so."""
        stream = self.firehose(20000).read_bytes()
        stop = frame_ends(stream, PROTOCOL)[-2] + 3
        with self.capturing(self.dir / "f.c2s.bin", stop_at=stop) as (capture, _, _):
            begin = frame_ends(stream, PROTOCOL)[0]
            wait_for(lambda: self.journal.exists() and
                     begin + len(journal_bytes(self.journal)) == stop, "the journal")
            capture.kill()
            capture.communicate(timeout=LIMIT)
        whole, kept = self.reference(stream[:stop], PROTOCOL), self.journal.rename(self.dir / "kept")

        def attempt(env):
            shutil.rmtree(self.journal, True)
            shutil.copytree(kept, self.journal)
            self.out.write_bytes(OLD)
            return run("recover", "-f", self.journal, "-o", self.out, env=env)

        def check(result, where):
            if result.returncode == 0:
                self.assertFalse(self.journal.exists(), where)
            else:
                self.assertEqual(self.out.read_bytes(), OLD, where)
                again = run("recover", "-f", self.journal, "-o", self.out)
                self.assertEqual(again.returncode, 0, where + again.stderr)
            self.assertEqual(dump(self.out), whole, where)

        self.each(attempt, check)


class Programs(Faulty):
    def test_run(self):
        """The program runs as without us; what was recorded is in the trace or kept as it is."""
        out = self.dir / "x"
        whole = []

        def attempt(env):
            for path in self.dir.glob("*"):
                shutil.rmtree(path) if path.is_dir() else path.unlink()
            out.write_bytes(OLD)
            return run("run", "-f", "-o", out, "--no-symbols", "--", "/bin/echo", "said", env=env)

        def events(trace):
            return report(trace)["pools"][0]["allocations"]

        def check(result, where):
            if result.stdout == "": # there is no place to record it
                self.assertEqual(result.returncode, 4, where)
                self.assertIn("cannot make", result.stderr, where)
                self.assertEqual(out.read_bytes(), OLD, where)
                return
            self.assertIn("said", result.stdout, where)
            if result.returncode == 3:
                self.assertIn("no file to be had", result.stderr, where)
                self.assertEqual(out.read_bytes(), OLD, where)
            elif result.returncode == 0:
                whole.append(events(out))
                looks = run("report", "--resident", out).returncode == 0
                self.assertNotEqual(looks, "without what was in memory" in result.stderr, where)
            else:
                self.assertEqual(out.read_bytes(), OLD, where)
                found = list(self.dir.rglob("*.recording"))
                if found:
                    again = run("run", "--recover", found[0], "-f", "-o", out)
                    self.assertEqual(again.returncode, 0, where + again.stderr)
                    whole.append(events(out))
            self.assertEqual(set(whole[1:]), set(whole[:-1]), where)

        self.each(attempt, check, statuses=(0, 3, 4))


def has_landlock():
    lsm = pathlib.Path("/sys/kernel/security/lsm")
    if lsm.exists():
        return "landlock" in lsm.read_text()
    # LANDLOCK_CREATE_RULESET_VERSION; the number is the same on all processors.
    return ctypes.CDLL(None, use_errno=True).syscall(444, None, 0, 1) > 0


def children(pid):
    return [child for child in all_children(pid) if name_of(child) not in (SAMPLER, KEEPER)]


def alive(pid):
    with contextlib.suppress(FileNotFoundError, ProcessLookupError):
        return "State:\tZ" not in pathlib.Path(f"/proc/{pid}/status").read_text()
    return False


class Sessions(Faulty, test_daemon_production.Running):
    def setUp(self):
        super().setUp()
        recording = self.dir / "f.c2s.bin"
        subprocess.run([FIREHOSE, "-o", str(recording), "--events", "20000", "--depth", "4",
                        "--protocol", str(PROTOCOL), "--live", "2000", "--stacks", "200"],
                       check=True)
        self.stream = recording.read_bytes()

    def attempt(self, env):
        """One client, which says all it has and goes."""
        shutil.rmtree(self.traces, True)
        player = Player(self.stream, PROTOCOL)
        self.addCleanup(player.close)
        with mock.patch.dict(os.environ, env), self.daemon() as process:
            announce(self.udp, player.port, b"prog", protocol=PROTOCOL)
            wait_until(lambda: process.poll() is not None or
                       ENDED.search(self.said()), "the capture's end")
            status = self.stop(process) if process.poll() is None else process.returncode
        return subprocess.CompletedProcess((), status, "", self.said())

    def check(self, result, where):
        left = [n for n in self.names() if n.endswith(".journal")]
        for name in left:
            self.assertIn("is kept in", result.stderr, where)
            recovered = run("recover", self.traces / name)
            self.assertEqual(recovered.returncode, 0, where + recovered.stderr)
        names = self.names()
        self.assertEqual([n for n in names if n.startswith(".")], [], where)
        self.assertLessEqual(len(names), 1 + bool(left), where)
        if result.returncode == 0:
            self.assertEqual(len(names), 1, where)
        if names:
            found = max(sum(pool["allocations"] for pool in report(self.traces / n)["pools"])
                        for n in names)
            self.assertEqual(found, self.allocations, where)

    def test_daemon(self):
        """One call of the daemon or of its session fails, whatever it is but a write of what just
        came, after which no more is received."""
        truth = json.loads((self.dir / "f.truth.json").read_text())
        self.allocations = sum(p["allocs"] for p in truth["pools"])
        only = "open,write,pwrite,fsync,rename,link"
        calls = self.calls(lambda env: self.attempt(dict(env, FAULT_ONLY=only)))
        for turn, i in enumerate(self.chosen(calls, 2)):
            how = ERRORS[turn % len(ERRORS)]
            result = self.attempt(environment(FAULT_AT=i, FAULT_HOW=how, FAULT_ONLY=only))
            where = f"{i} ({calls[i - 1]}) {os.strerror(how)}: {result.returncode} {result.stderr}"
            self.check(result, where)

    def test_sessions_write_nowhere_else(self):
        """The log of calls, which each process writes by itself, ends when Landlock begins: a session
        has made its journal then, and no trace."""
        self.check_guarded()

    def test_sessions_write_nowhere_else_without_temporary_files(self):
        """There may be no folder for them."""
        self.check_guarded(TMPDIR=self.dir / "nowhere")

    def check_guarded(self, **more):
        log = self.dir / "calls"
        result = self.attempt(environment(FAULT_LOG=log, **more))
        self.assertEqual(result.returncode, 0, result.stderr)
        calls = [line.split(" ", 1)[0] for line in log.read_text().splitlines()]
        self.assertIn("mkdir", calls)
        if "fsync" in calls and not has_landlock():
            self.skipTest("this kernel has no Landlock")
        self.assertNotIn("fsync", calls)
        self.assertNotIn("write", calls)

    def test_parts_are_saved_while_more_is_received(self):
        """The saving of the first part is held until all has come of what follows it."""
        hold, begin = self.dir / "go", frame_ends(self.stream, PROTOCOL)[0]
        player = Player(self.stream, PROTOCOL)
        self.addCleanup(player.close)
        env = environment(FAULT_AT=1, FAULT_HOLD=hold, FAULT_ONLY="fsync")
        with mock.patch.dict(os.environ, env), self.daemon("--rotate", "100K") as process:
            announce(self.udp, player.port, b"prog", protocol=PROTOCOL)
            wait_until(lambda: self.traces.exists() and self.journals(), "the journal")
            journal = self.traces / self.journals()[0]
            wait_until(lambda: begin + journal_arrived(journal) > 190000, "what follows")
            self.assertEqual(self.traces_named(), [])
            hold.write_bytes(b"")
            wait_until(lambda: ENDED.search(self.said()), "the capture's end")
            self.assertEqual(self.stop(process), 0, self.said())
        self.assertGreater(len(self.traces_named()), 1)
        self.assertEqual(self.journals(), [])

    def test_nothing_is_left_running(self):
        """A session is killed whose copy, which saves a part, would go on for ever."""
        hold = self.dir / "go"
        player = Player(self.stream, PROTOCOL)
        self.addCleanup(player.close)
        env = environment(FAULT_AT=1, FAULT_HOLD=hold, FAULT_ONLY="fsync", FAULT_STRAY=1)
        with mock.patch.dict(os.environ, env), self.daemon("--rotate", "100K") as process:
            announce(self.udp, player.port, b"prog", protocol=PROTOCOL)
            # What is no session may have no name of its own yet: only a session has a copy.
            copies = lambda: [(s, c) for s in children(process.pid) for c in children(s)]
            wait_until(copies, "a session and its copy")
            ((session, copy),) = copies()
            os.kill(session, signal.SIGKILL)
            self.wait_said("killed by signal 9")
            wait_until(lambda: not alive(copy), "the copy's end")
            self.stop(process)

    def leave_parts(self):
        """A journal of a session that was killed before its first part was saved."""
        begin = frame_ends(self.stream, PROTOCOL)[0]
        player = Player(self.stream, PROTOCOL)
        self.addCleanup(player.close)
        env = environment(FAULT_AT=1, FAULT_HOLD=self.dir / "go", FAULT_ONLY="fsync")
        with mock.patch.dict(os.environ, env), \
                self.daemon("--no-recover", "--rotate", "100K") as process:
            announce(self.udp, player.port, b"prog", protocol=PROTOCOL)
            wait_until(lambda: self.traces.exists() and self.journals(), "the journal")
            journal = self.traces / self.journals()[0]
            wait_until(lambda: begin + journal_arrived(journal) > 190000, "what follows")
            os.kill(children(process.pid)[0], signal.SIGKILL)
            self.wait_said("killed by signal 9")
            self.stop(process)
        return journal

    def test_parts_are_recovered_together(self):
        """A recovery that is killed while it saves the second one leaves none, which would be sent on,
        and made again by the next."""
        journal = self.leave_parts()
        name = journal.name.removesuffix(".tracy.journal")
        shutil.copytree(journal, self.dir / "copy" / journal.name)
        self.assertEqual(run("recover", self.dir / "copy" / journal.name).returncode, 0)
        wanted = sorted(os.listdir(self.dir / "copy"))
        self.assertIn(f"{name}.recovered.2.tracy", wanted)
        journal.rename(self.dir / journal.name)
        env = environment(FAULT_AT=3, FAULT_HOLD=self.dir / "go", FAULT_ONLY="fsync")
        with mock.patch.dict(os.environ, env), self.daemon() as process:
            (self.dir / journal.name).rename(journal)
            wait_until(lambda: self.hidden() or self.traces_named(), "the first part")
            time.sleep(0.2)
            self.assertEqual((self.traces_named(), self.journals()), ([], [journal.name]))
            # The kernel's list may lack a child while another one ends.
            wait_until(lambda: children(process.pid), "the recovery")
            os.kill(children(process.pid)[0], signal.SIGKILL)
            self.wait_said("the process that does so was killed")
            self.stop(process)
        os.utime(self.hidden()[0], (0, 0))
        with self.daemon() as process:
            self.stop(process)
        self.assertEqual(self.names(), wanted)

    def test_unfinished_files_that_have_names_go(self):
        """Where there are no files without names: when the daemon starts, nobody writes them and
        they are old."""
        self.traces.mkdir()
        player = Player(self.stream, PROTOCOL)
        self.addCleanup(player.close)
        env = environment(FAULT_NAMED=1, FAULT_AT=1, FAULT_HOLD=self.dir / "go", FAULT_ONLY="fsync")
        capture = subprocess.Popen([TIDEMARK, "capture", "-o", self.traces / "x.tracy", "-p",
                                    str(player.port), "--protocol", str(PROTOCOL)],
                                   stdout=subprocess.DEVNULL, env=env)
        try:
            # At its start it makes one that it removes again.
            wait_until(self.begun, "an unfinished trace with bytes")
            (unfinished,) = self.hidden()
            kept = self.make_others()
            os.utime(unfinished, (0, 0))
            with self.daemon() as process:
                self.stop(process)
            self.assertTrue(unfinished.exists())
        finally:
            capture.kill()
            capture.wait()
        with self.daemon() as process:
            self.stop(process)
        self.assertEqual(self.names(), sorted([*kept, "x.recovered.tracy"]))

    def make_others(self):
        """Which stay."""
        (self.traces / ".tidemark-newest").touch()
        (self.traces / ".tidemark-folder").mkdir()
        (self.traces / ".tidemark-linked").symlink_to("elsewhere")
        others = [".tidemark-longname", ".tidemark-a.trac", "tidemark-abcdef"]
        for name in others:
            (self.traces / name).touch()
        others.append(".tidemark-foreig")
        (self.traces / others[-1]).write_bytes(b"of another program")
        for name in (*others, ".tidemark-folder", ".tidemark-linked"):
            os.utime(self.traces / name, (0, 0), follow_symlinks=False)
        return [".tidemark-newest", ".tidemark-folder", ".tidemark-linked", *others]

    def hidden(self):
        return list(self.traces.glob(".tidemark-??????"))

    def begun(self):
        """Whether one of these has bytes."""
        with contextlib.suppress(FileNotFoundError):
            return any(path.stat().st_size for path in self.hidden())
        return False

    def traces_named(self):
        return [n for n in self.names() if n.endswith(".tracy")]


if __name__ == "__main__":
    unittest.main()
