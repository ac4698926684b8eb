"""Captures and clients that are killed at any moment: what had arrived is all there. What passed is
counted by a proxy, and a trace of the same whole frames, captured undisturbed, says what is in
them."""

import contextlib
import os
import pathlib
import random
import re
import resource
import signal
import subprocess

from passing import Player, Proxy, body_begins, frame_ends, journal_bytes, wait_for
from screen import Terminal
from test_terminal import clock_library
from tools import (FIREHOSE, LIMIT, TIDEMARK, WIRE, Case, not_sanitized, preloaded, remove_folder,
                   replaying, run)

KILLS = int(os.environ.get("KILLS", "8"))
SEED = int(os.environ.get("SEED", random.randrange(1 << 30)))
FRAMES = re.compile(r"^([\d,]+) whole frames? of the client", re.M)


def frames_said(result):
    return int(FRAMES.search(result.stdout)[1].replace(",", ""))


def dump(trace):
    result = run("dump", trace)
    if result.returncode != 0:
        raise AssertionError(result.stderr)
    return result.stdout


class Killed(Case):
    RECORDING = WIRE / "v0.14.0" / "memscen.c2s.bin"
    PERCENT = 50  # of the recording that a capture gets which leave() kills

    def setUp(self):
        super().setUp()
        self.out = self.dir / "x.tracy"
        self.journal = self.dir / "x.tracy.journal"
        self.random = random.Random(SEED)

    def firehose(self, events=60000):
        recording = self.dir / "f.c2s.bin"
        subprocess.run([FIREHOSE, "-o", str(recording), "--events", str(events), "--depth", "4",
                        "--protocol", "82", "--live", "2000", "--stacks", "200"], check=True)
        return recording

    @contextlib.contextmanager
    def capturing(self, recording, *args, stop_at=None, replay_args=(), **how):
        """A capture behind a proxy: (its process, the proxy, the client's process)."""
        with replaying(recording, *replay_args) as (client, port):
            proxy = Proxy(port, stop_at)
            capture = subprocess.Popen(
                [TIDEMARK, "capture", "-o", str(self.out), "-p", str(proxy.port), "--no-summary",
                 *map(str, args)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **how)
            try:
                yield capture, proxy, client
            finally:
                capture.kill()
                capture.communicate(timeout=LIMIT)
                proxy.close()

    def leave(self, *args, among=()):
        """Leaves the journal of a killed capture."""
        stop = self.RECORDING.stat().st_size * self.PERCENT // 100
        with self.capturing(self.RECORDING, *args, stop_at=stop) as (capture, _, _):
            begin = body_begins(self.RECORDING.read_bytes(), 82)
            wait_for(lambda: self.journal.exists() and
                     begin + len(journal_bytes(self.journal)) == stop, "the journal")
            capture.kill()
            capture.communicate(timeout=LIMIT)
        self.assert_clean("x.tracy.journal", *among)

    def reference(self, stream, protocol):
        """The dump of a capture that had just these bytes."""
        player, out = Player(stream, protocol), self.dir / "reference.tracy"
        result = run("capture", "-o", out, "-f", "-p", player.port, "--protocol", protocol,
                     "--no-summary", "--connect-timeout", LIMIT)
        player.close()
        self.assertEqual(result.returncode, 0, result.stderr)
        text = dump(out)
        out.unlink()
        return text

    def recover(self, passed, protocol):
        """Recovers the journal; holds it against what was passed. Gives the whole frames."""
        kept = journal_bytes(self.journal)
        begin = body_begins(passed, protocol)
        self.assertTrue(passed[begin:].startswith(kept), "what is kept is not what was passed")
        ends = frame_ends(passed[: begin + len(kept)], protocol)
        result = run("recover", self.journal)
        self.assertEqual(result.returncode, 0, f"{result.stderr}; SEED={SEED}")
        self.assertFalse(self.journal.exists())
        recovered = self.dir / "x.recovered.tracy"
        if not kept:
            self.assertFalse(recovered.exists())
            return 0
        self.assertEqual(frames_said(result), len(ends) - 1, f"SEED={SEED}")
        self.assertEqual(dump(recovered), self.reference(passed[: ends[-1]], protocol))
        recovered.unlink()
        return len(ends) - 1


class KilledSessions(Killed):
    def kill_at(self, recording, protocol, at, rate, frames):
        """At the earliest when so many frames have come."""
        stream = recording.read_bytes()
        least = frame_ends(stream, protocol)[frames] - body_begins(stream, protocol)
        # It never gets the end: however late the kill comes, it is at work.
        most = recording.stat().st_size * 9 // 10
        with self.capturing(recording, stop_at=most,
                            replay_args=("--rate", rate)) as (capture, proxy, _):
            wait_for(lambda: len(proxy.passed) >= at and
                     (not frames or len(journal_bytes(self.journal)) >= least), "bytes")
            capture.kill()
            capture.communicate(timeout=LIMIT)
        if not self.journal.exists(): # not yet connected
            return 0
        return self.recover(stream, protocol)

    def test_at_random_moments(self):
        streams = [(self.firehose(), 82, "2M"),
                   (WIRE / "v0.14.0" / "memscen.c2s.bin", 82, "500K"),
                   (WIRE / "v0.12.2" / "allscen.c2s.bin", 74, "200K")]
        frames = 0
        for i in range(KILLS):
            recording, protocol, rate = streams[i % len(streams)]
            at = self.random.randrange(1000, recording.stat().st_size * 7 // 10)
            with self.subTest(recording=recording.name, at=at, seed=SEED):
                frames += self.kill_at(recording, protocol, at, rate, 0 if i else 1)
        self.assertGreater(frames, 0)

    def test_a_journal_that_was_moved_to_where_there_is_room(self):
        """And left a link where it was: both are gone when its trace is saved."""
        recording = WIRE / "v0.14.0" / "memscen.c2s.bin"
        with self.capturing(recording, stop_at=recording.stat().st_size // 2) as (capture, _, _):
            wait_for(lambda: self.journal.exists() and journal_bytes(self.journal), "bytes")
            capture.kill()
            capture.communicate(timeout=LIMIT)
        elsewhere = self.dir / "elsewhere"
        self.journal.rename(elsewhere)
        self.journal.symlink_to(elsewhere)
        result = run("recover", self.journal)
        self.assertEqual((result.returncode, result.stderr.count("cannot")), (0, 0), result.stderr)
        self.assertEqual(os.listdir(self.dir), ["x.recovered.tracy"])

    def test_all_that_arrived_is_kept(self):
        """The client falls silent in the middle of a frame. Nothing is left under way then."""
        recording = self.firehose()
        stream = recording.read_bytes()
        ends = frame_ends(stream, 82)
        for n in (1, len(ends) // 2, len(ends) - 2):
            stop = self.random.randrange(ends[n], ends[n + 1])
            begin = body_begins(stream, 82)
            with self.capturing(recording, stop_at=stop) as (capture, proxy, _):
                wait_for(lambda: self.journal.exists() and
                         begin + len(journal_bytes(self.journal)) == stop, "the journal")
                capture.kill()
                capture.communicate(timeout=LIMIT)
            self.assertEqual(self.recover(stream[:stop], 82), n)


@not_sanitized
class Progress(Killed):
    def test_on_a_terminal(self):
        clock = clock_library(self.dir)
        self.leave(among=("clock.c", "clock.so"))
        for quiet in ((), ("--quiet",)):
            with Terminal([TIDEMARK, "recover", "--keep", "-f", "-o", self.dir / "x.tracy", *quiet,
                           self.journal], **preloaded(clock)) as t:
                status, raw = t.end(), t.raw
            self.assertEqual(status, 0, raw)
            for what in b"reading the journal", b"writing the trace":
                shown = rb"\r\x1b\[K" + what + rb": [\d.]+ %, \d+ (s|min) left"
                self.assertEqual(bool(re.search(shown, raw)), not quiet, raw)


class KilledClients(Killed):
    def test_at_random_moments(self):
        recording = self.firehose()
        size = recording.stat().st_size
        for _ in range(max(KILLS // 2, 2)):
            at = self.random.randrange(5000, size * 9 // 10)
            with self.capturing(recording, stop_at=at) as (capture, proxy, client):
                wait_for(lambda: len(proxy.passed) == at, "bytes")
                client.kill()
                proxy.hang_up()
                out, err = capture.communicate(timeout=LIMIT)
            self.assertEqual(capture.returncode, 0, out + err)
            self.assertIn("the client vanished", out)
            self.assertFalse(self.journal.exists())
            ends = frame_ends(proxy.passed, 82)
            self.assertEqual(dump(self.out), self.reference(proxy.passed[: ends[-1]], 82))
            self.out.unlink()


class Compat(Killed):
    """The journal notes --compat: recovery gives the memory of fibers to their threads, too."""

    RECORDING = WIRE / "v0.14.0" / "allscen.c2s.bin"
    PERCENT = 95

    def fibers(self, *args):
        self.leave(*args)
        result = run("recover", self.journal)
        self.assertEqual(result.returncode, 0, result.stderr)
        recovered = self.dir / "x.recovered.tracy"
        lines = run("dump", recovered, "--section", "memory").stdout.splitlines()
        recovered.unlink()
        threads = [int(n) for line in lines for n in re.findall(r"thread=(\d+)", line)]
        self.assertTrue(threads)
        return sum(thread >> 32 != 0 for thread in threads)

    def test_memory_of_fibers(self):
        self.assertGreater(self.fibers(), 0)
        self.assertEqual(self.fibers("--compat", "v0.14.0"), 0)


class Leftovers(Killed):
    def test_the_next_capture_finishes_it(self):
        self.leave()
        result = self.capture(self.RECORDING, self.out, "--no-summary")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("An earlier capture was cut off", result.stdout)
        self.assert_clean("x.tracy", "x.recovered.tracy")
        self.leave_again()

    def leave_again(self):
        self.out.rename(self.dir / "whole")
        (self.dir / "x.recovered.tracy").rename(self.dir / "first")
        facts = run("info", self.dir / "first").stdout
        self.assertIn("the capture was cut off", facts)
        (self.dir / "x.recovered.tracy").write_bytes(b"somebody's")
        with self.capturing(self.RECORDING, stop_at=100000) as (capture, _, _):
            wait_for(self.journal.exists, "the journal")
            wait_for(lambda: journal_bytes(self.journal), "bytes")
            capture.kill()
            capture.communicate(timeout=LIMIT)
        result = self.capture(self.RECORDING, self.out, "--no-summary")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual((self.dir / "x.recovered.tracy").read_bytes(), b"somebody's")
        self.assert_clean("first", "whole", "x.tracy", "x.recovered.tracy", "x.recovered.2.tracy")

    def test_all_in_a_folder(self):
        """And each can be played as a client before."""
        self.leave()
        self.journal.rename(self.dir / "a.tracy-0123abcd.journal")
        self.leave(among=["a.tracy-0123abcd.journal"])
        with replaying(self.journal) as (_, port):
            result = run("capture", "-o", self.dir / "played", "-p", port, "--no-summary",
                         "--connect-timeout", LIMIT)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.journal.rename(self.dir / "b.tracy.journal")
        with self.capturing(self.RECORDING, stop_at=100000):
            wait_for(lambda: self.journal.exists() and journal_bytes(self.journal), "bytes")
            result = run("recover", self.dir)
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assert_clean("a.recovered.tracy", "b.recovered.tracy", "played",
                              "x.tracy.journal")
        played = dump(self.dir / "played")
        self.assertEqual(dump(self.dir / "a.recovered.tracy"), played)
        self.assertEqual(dump(self.dir / "b.recovered.tracy"), played)

    def damage(self):
        """Bytes behind the records that are none: no torn end."""
        segment = self.journal / "00000001"
        data = segment.read_bytes() + bytes(100) + b"no record"
        segment.write_bytes(data)
        return data

    def test_damaged_ones_are_recovered_once_and_kept(self):
        """By the next capture; a further one has nothing to do with it."""
        self.leave()
        data = self.damage()
        aside = self.dir / "x.tracy.journal.damaged"
        result = self.capture(self.RECORDING, self.out, "--no-summary")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn(f"is kept in {aside}", result.stderr)
        self.assertEqual((aside / "00000001").read_bytes(), data)
        self.assert_clean("x.tracy", "x.recovered.tracy", aside.name)
        result = self.capture(self.RECORDING, self.out, "-f", "--no-summary")
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        self.assert_clean("x.tracy", "x.recovered.tracy", aside.name)
        (self.dir / "x.tracy").unlink()
        self.by_hand(aside, data)

    def by_hand(self, aside, data):
        """As often as one likes; a second damaged journal of that name is kept beside it."""
        first = dump(self.dir / "x.recovered.tracy")
        self.assertEqual(run("recover", self.dir).returncode, 3)  # nothing there is to be finished
        result = run("recover", aside)
        self.assertEqual(result.returncode, 3)
        self.assertIn("could not be used", result.stderr)
        self.assertIn(f"damaged and stays: {aside}", result.stderr)
        self.assertEqual((aside / "00000001").read_bytes(), data)
        self.assertEqual(dump(self.dir / "x.recovered.2.tracy"), first)
        among = ["x.recovered.tracy", "x.recovered.2.tracy", aside.name]
        self.leave(among=among)
        self.damage()
        self.assertEqual(run("recover", self.journal).returncode, 3)
        self.assert_clean("x.recovered.3.tracy", aside.name + ".2", *among)
        self.assertEqual(dump(self.dir / "x.recovered.3.tracy"), first)

    def test_one_of_which_nothing_can_be_used(self):
        self.leave()
        (self.journal / "00000001").write_bytes(b"no segment" * 10)
        result = run("recover", self.journal)
        self.assertEqual(result.returncode, 3)
        self.assertIn("nothing in the journal can be used", result.stderr)
        self.assert_clean("x.tracy.journal.damaged")

    def test_one_in_use(self):
        with self.capturing(self.RECORDING, stop_at=200000):
            wait_for(self.journal.exists, "the journal")
            wait_for(lambda: journal_bytes(self.journal), "bytes")
            result = run("capture", "-o", self.out, "-p", 1)
            self.assertEqual(result.returncode, 4)
            self.assertIn("is in use", result.stderr)
            result = run("recover", self.journal)
            self.assertEqual(result.returncode, 4)
            self.assertIn("is in use", result.stderr)
            self.assert_clean("x.tracy.journal")

    def test_other_places_and_names(self):
        spool = self.dir / "spool"
        spool.mkdir()
        self.out = self.dir / ("y" * 250 + ".trac")
        with self.capturing(self.RECORDING, "--spool", spool, "--fsync",
                            stop_at=200000) as (capture, _, _):
            wait_for(lambda: os.listdir(spool), "the journal")
            [name] = os.listdir(spool)
            wait_for(lambda: len(journal_bytes(spool / name)) > 190000, "bytes")
            self.assertEqual(os.listdir(self.dir), ["spool"])
            capture.kill()
            capture.communicate(timeout=LIMIT)
        self.assertTrue(name.endswith(".journal"))
        result = run("recover", spool / name / "00000001", "-o", self.dir / "z")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(os.listdir(spool), [])
        self.assertEqual(run("verify", self.dir / "z").returncode, 0)

    def test_none_wanted(self):
        with self.capturing(self.RECORDING, "--no-journal", stop_at=200000) as (capture, proxy, _):
            wait_for(lambda: len(proxy.passed) == 200000, "bytes")
            self.assert_clean()

    def test_what_is_no_journal(self):
        (self.dir / "empty").mkdir()
        (self.dir / "file").write_bytes(b"TIDEJRN")
        for name, status in (("empty", 3), ("file", 3), ("absent", 3)):
            self.assertEqual(run("recover", self.dir / name).returncode, status, name)
        self.assert_clean("empty", "file")


class RemovedFolders(Killed):
    """What was recorded goes to the folder for temporary files, as in a daemon."""

    def setUp(self):
        super().setUp()
        self.folder, self.temporary = self.dir / "folder", self.dir / "temporary"
        self.folder.mkdir()
        self.temporary.mkdir()
        self.out = self.folder / "x.tracy"
        self.journal = self.folder / "x.tracy.journal"

    def remove_while_capturing(self, *args, then, **how):
        stream = self.RECORDING.read_bytes()
        stop = len(stream) // 2
        with self.capturing(self.RECORDING, *args, stop_at=stop,
                            env={**os.environ, "TMPDIR": str(self.temporary)}, **how) as (
                                capture, proxy, client):
            begin = body_begins(stream, 82)
            wait_for(lambda: self.journal.exists() and
                     begin + len(journal_bytes(self.journal)) == stop, "the journal")
            remove_folder(self.folder)
            then(capture, proxy)
            out, err = capture.communicate(timeout=LIMIT)
        self.assertEqual(capture.returncode, 4, out + err)
        self.assertIn("the folder was removed: the trace is " + str(self.temporary / "x.tracy"), err)
        self.assertEqual(os.listdir(self.temporary), ["x.tracy"])
        ends = frame_ends(stream[:stop], 82)
        self.assertEqual(dump(self.temporary / "x.tracy"), self.reference(stream[: ends[-1]], 82))
        self.assertEqual((self.temporary / "x.tracy").stat().st_mode & 0o77, 0)

    def test_the_client_ends(self):
        self.remove_while_capturing(then=lambda capture, proxy: proxy.hang_up())

    def test_a_signal_comes(self):
        self.remove_while_capturing(then=lambda capture, _: capture.send_signal(signal.SIGINT))

    def test_by_a_relative_name(self):
        self.out = pathlib.Path("folder/x.tracy")
        self.remove_while_capturing(then=lambda capture, proxy: proxy.hang_up(), cwd=self.dir)

    def test_another_folder_has_its_name(self):
        def then(capture, proxy):
            self.folder.mkdir()
            proxy.hang_up()
        self.remove_while_capturing(then=then)
        self.assertEqual(os.listdir(self.folder), [])


class FullDisks(Killed):
    def limited(self, size):
        """No file of the process gets larger."""
        return {"preexec_fn": lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))}

    def test_no_room_for_the_journal(self):
        recording = self.firehose()
        stream = recording.read_bytes()
        size = 700000
        with self.capturing(recording, "--compression", "zstd:9", **self.limited(size)) as (
                capture, _, _):
            out, err = capture.communicate(timeout=LIMIT)
        self.assertEqual(capture.returncode, 4, out + err)
        self.assertIn("cannot write the journal", err)
        self.assertIn("no room left", run("info", self.out).stdout)
        self.assertFalse(self.journal.exists())
        self.out.unlink()
        self.assertGreater(len(stream), size)

    def test_no_room_for_the_trace(self):
        """The disk fills when all has come, and the program ends by itself."""
        recording = self.firehose()
        stream = recording.read_bytes()
        stop = frame_ends(stream, 82)[-2] + 3
        with self.capturing(recording, stop_at=stop) as (capture, _, _):
            begin = body_begins(stream, 82)
            wait_for(lambda: self.journal.exists() and
                     begin + len(journal_bytes(self.journal)) == stop, "the journal")
            resource.prlimit(capture.pid, resource.RLIMIT_FSIZE, (1000, 1000))
            capture.send_signal(signal.SIGTERM)
            out, err = capture.communicate(timeout=LIMIT)
        self.assertEqual(capture.returncode, 4, out + err)
        self.assertIn("what was recorded is kept in", err)
        self.assertIn("File too large", err)
        self.assertFalse(self.out.exists())
        self.assertEqual(self.recover(stream, 82), len(frame_ends(stream, 82)) - 2)


if __name__ == "__main__":
    import unittest
    unittest.main()
