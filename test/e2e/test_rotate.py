"""Captures that go on in further traces: nothing is lost or counted twice at a seam, and a journal
knows where the seams are."""

import json
import re
import resource
import shutil
import signal
import subprocess
import time

from passing import (Player, frame_ends, journal_arrived, journal_before, journal_bytes,
                     journal_segments, wait_for)
from test_recover import KILLS, SEED, Killed, dump, frames_said
from tools import FIREHOSE, LIMIT, RELEASES, TIDEMARK, WIRE, free_port, replaying, report, run

PART = re.compile(r"part: (\d+), begins (\d+) ns after the client's start")
BLOCK = re.compile(r" time=(\d+) (.*?)(?: free_time=(\d+)(.*))?$")


class Rotating(Killed):
    def stream(self, events=100000):
        recording = self.dir / "f.c2s.bin"
        subprocess.run([FIREHOSE, "-o", str(recording), "--events", str(events), "--depth", "3",
                        "--protocol", "82", "--live", "3000", "--pools", "2",
                        "--stacks", "300"], check=True)
        return recording, json.loads((self.dir / "f.truth.json").read_text())

    def parts(self):
        """The parts in their order."""
        found = [self.out] if self.out.exists() else []
        if not found:
            return found
        while (name := self.dir / f"x.{len(found) + 1}.tracy").exists():
            found.append(name)
        return found

    def sums(self, traces):
        """Of each pool what was allocated and freed in all, and is live at the end. What a part
        begins with must be what the one before ended with."""
        total, live = {}, {}
        for trace in traces:
            doc = report(trace, "--limit", 1)
            for pool in doc["pools"]:
                name = tuple(pool["pool_ids"])
                before, before_bytes = live.get(name, (0, 0))
                self.assertEqual(
                    pool["allocations"] - pool["frees"], pool["live_allocations"], trace.name)
                self.assertGreaterEqual(pool["allocations"], before)
                sums = total.setdefault(name, [0, 0, 0, 0])
                sums[0] += pool["allocations"] - before
                sums[1] += pool["frees"]
                sums[2:] = pool["live_allocations"], pool["live_bytes"]
                self.assertGreaterEqual(pool["total_bytes"], before_bytes)
                live[name] = (pool["live_allocations"], pool["live_bytes"])
            self.assertEqual(doc["faults"], [])
        return total

    def whole(self, stream, protocol=82):
        """The sums of a capture without parts."""
        player, out = Player(stream, protocol), self.dir / "one"
        result = run("capture", "-f", "-o", out, "-p", player.port, "--protocol", protocol,
                     "--no-summary", "--connect-timeout", LIMIT)
        player.close()
        self.assertEqual(result.returncode, 0, result.stderr)
        return self.sums([out])

    def test_by_size(self):
        recording, truth = self.stream()
        with replaying(recording) as (_, port):
            result = run("capture", "-o", self.out, "-p", port, "--no-summary", "--rotate", "300K")
        self.assertEqual((result.returncode, result.stderr), (0, ""), result.stdout)
        parts = self.parts()
        self.assertGreater(len(parts), 2)
        sums = self.sums(parts)
        self.assertEqual(sum(s[0] for s in sums.values()),
                         sum(p["allocs"] for p in truth["pools"]))
        self.assertEqual(sum(s[1] for s in sums.values()),
                         sum(p["frees"] for p in truth["pools"]))
        self.assertEqual(sums, self.whole(recording.read_bytes()))
        for n, part in enumerate(parts, 1):
            facts = run("info", part).stdout
            self.assertNotIn("incomplete", facts)
            self.assertEqual("continued in the next part" in facts, n < len(parts))
            self.assertEqual(f"{n}, begins " in facts, n > 1)
        self.assertFalse(self.journal.exists())

    def test_a_program_with_everything(self):
        recording = WIRE / "v0.14.0" / "allscen.c2s.bin"
        with replaying(recording) as (_, port):
            result = run("capture", "-o", self.out, "-p", port, "--no-summary", "--rotate", "1K")
        self.assertEqual(result.returncode, 0, result.stderr)
        parts = self.parts()
        self.assertEqual(self.sums(parts), self.whole(recording.read_bytes()))
        for part in parts:
            self.assertEqual(run("dump", part).returncode, 0)

    def test_by_time(self):
        recording, _ = self.stream()
        stop, begin = recording.stat().st_size // 2, frame_ends(recording.read_bytes(), 82)[0]
        with self.capturing(recording, "--rotate", "0.2s", stop_at=stop) as (capture, proxy, _):
            wait_for(lambda: begin + journal_arrived(self.journal) == stop, "the journal")
            time.sleep(0.3)
            proxy.go_on()
            out, err = capture.communicate(timeout=LIMIT)
        self.assertEqual(capture.returncode, 0, out + err)
        parts = self.parts()
        self.assertGreater(len(parts), 1)
        self.assertEqual(self.sums(parts), self.whole(recording.read_bytes()))

    def whole_run(self):
        """The parts that were saved and the journal's, in their order. One may be both: when nobody
        could write into the journal any more that it is saved."""
        recovered = self.recovered()
        found = PART.search(run("info", recovered[0]).stdout)
        before = int(found[1]) - 1 if found else 0
        saved = self.parts()[:before]
        self.assertEqual(len(saved), before)
        self.assertLessEqual(len(self.parts()), before + len(recovered))
        return [*saved, *recovered]

    def check_kept(self, stream, frames_begin):
        """What the journal holds is what passed; gives where its last whole frame ends, and how many
        there were since the beginning, counted by their lengths in what passed."""
        before, kept = journal_before(self.journal), journal_bytes(self.journal)
        at = frames_begin + before
        self.assertEqual(stream[at : at + len(kept)], kept, "what is kept is not what was passed")
        ends = frame_ends(stream[: at + len(kept)], 82)
        return ends[-1], len(ends) - 1

    def test_killed(self):
        """The journal goes on where the saved parts end, and has nothing of them any more."""
        recording, _ = self.stream()
        stream = recording.read_bytes()
        ends = frame_ends(stream, 82)
        stop = ends[-2] + 2
        with self.capturing(recording, "--rotate", "300K", stop_at=stop) as (capture, _, _):
            wait_for(lambda: ends[0] + journal_arrived(self.journal) == stop, "the journal")
            wait_for(lambda: (self.dir / "x.3.tracy").exists(), "parts")
            wait_for(lambda: journal_segments(self.journal)[1:] == [] and
                     journal_arrived(self.journal) - len(journal_bytes(self.journal)) > 1000000,
                     "segments to go")
            capture.kill()
            capture.communicate(timeout=LIMIT)
        self.assertGreater(journal_before(self.journal), 1000000)
        self.assertLess(sum(f.stat().st_size for f in self.journal.iterdir()), 700000)
        expected = self.whole(stream[: ends[-2]])
        result = run("recover", self.journal, "--keep")
        self.assertEqual(result.returncode, 0, result.stderr)
        saved, recovered = self.parts(), self.recovered()
        self.assertEqual(self.sums(self.whole_run()), expected)
        self.assertEqual(run("replay", self.journal, "-p", 0).returncode, 3) # not from its beginning
        first = dump(recovered[0])
        for trace in (*saved, *recovered):
            trace.unlink()
        result = run("recover", self.journal)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(dump(self.recovered()[0]), first)
        self.assertFalse(self.journal.exists())

    def test_nothing_came_after_a_part(self):
        """Killed then, the parts have all, and nothing is made of a journal that holds only where it
        goes on."""
        recording, _ = self.stream()
        stream = recording.read_bytes()
        ends = frame_ends(stream, 82)
        stop = ends[4]
        with self.capturing(recording, "--rotate", "0.3s", stop_at=stop) as (capture, _, _):
            wait_for(lambda: journal_segments(self.journal) and
                     ends[0] + journal_before(self.journal) == stop, "the part to be saved")
            capture.kill()
            capture.communicate(timeout=LIMIT)
        self.assertEqual(journal_bytes(self.journal), b"")
        result = run("recover", self.journal)
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        self.assertEqual(result.stdout, f"nothing of a client is in {self.journal} that is not in "
                         "the parts before it\n")
        self.assertFalse(self.journal.exists())
        self.assertFalse(self.recovered()[0].exists())
        self.assertEqual(self.sums(self.parts()), self.whole(stream[:stop]))

    def has_dropped(self):
        """Whether the journal holds less than has come."""
        return journal_arrived(self.journal) > len(journal_bytes(self.journal))

    def kill_at(self, recording, at, *args, when=lambda: True):
        """Kills a capture; None when it had nothing yet, else the bytes of the client up to its last
        whole frame. It never gets the end: however late the kill comes, it is at work."""
        stream = recording.read_bytes()
        with self.capturing(recording, *args, stop_at=len(stream) - 1,
                            replay_args=("--rate", "3M")) as (capture, proxy, _):
            wait_for(lambda: len(proxy.passed) >= at and when(), "bytes")
            capture.kill()
            capture.communicate(timeout=LIMIT)
        if not self.journal.exists() or not journal_segments(self.journal):
            return None
        end, frames = self.check_kept(stream, frame_ends(stream, 82)[0])
        result = run("recover", self.journal)
        self.assertEqual(result.returncode, 0, f"{result.stderr}; SEED={SEED}")
        self.assertFalse(self.journal.exists())
        if not frames and not self.recovered()[0].exists():
            return None
        self.assertEqual(frames_said(result), frames, f"SEED={SEED}")
        return stream[:end]

    def clean_up(self):
        for path in self.dir.glob("x.*"):
            if path.is_dir():  # a journal, of a capture that had nothing yet
                shutil.rmtree(path)
            else:
                path.unlink()

    def test_killed_at_random_moments(self):
        recording, _ = self.stream()
        size = recording.stat().st_size
        for _ in range(KILLS):
            stream = self.kill_at(recording, self.random.randrange(1000, size * 9 // 10),
                                  "--rotate", self.random.choice(("50K", "300K")))
            if stream is not None:
                self.assertEqual(self.sums(self.whole_run()), self.whole(stream), f"SEED={SEED}")
            self.clean_up()

    def window(self, text, begins):
        """The blocks of a dump that were live at `begins` or came later, on a clock that begins then."""
        lines = []
        for line in text.splitlines():
            found = BLOCK.search(line) if line.startswith("memory ") else None
            if not found:
                continue
            time, block, free_time, free = found.groups()
            if free_time and int(free_time) <= begins:
                continue
            rest = f" free_time={int(free_time) - begins}{free}" if free_time else ""
            lines.append(f"{line[:found.start()]} time={max(0, int(time) - begins)} {block}{rest}")
        return sorted(lines)

    def check_last(self, trace, stream):
        """That trace has just what a capture of the whole stream has since it begins, and at least
        the last 300 KiB of it. Gives how many bytes that are."""
        whole = self.dir / "one"
        self.whole(stream)
        found = PART.search(run("info", trace).stdout)
        begins = int(found[2]) if found else 0
        self.assertEqual(self.window(dump(trace), 0), self.window(dump(whole), begins),
                         f"SEED={SEED}")
        return begins

    def test_recorder_killed_at_random_moments(self):
        recording, _ = self.stream()
        size, began = recording.stat().st_size, set()
        for i in range(KILLS):
            at = self.random.randrange(1000, size * 9 // 10)
            # Once surely behind what is dropped: on a slow machine much of what passed is on its way.
            more = {} if i else {"when": self.has_dropped}
            stream = self.kill_at(recording, at, "--keep-last", "100K", **more)
            if stream is not None:
                began.add(self.check_last(self.recovered()[0], stream))
            self.clean_up()
        self.assertGreater(max(began), 0)

    def test_full_disk(self):
        """No room for a part: the session ends, and the journal has what is not saved."""
        recording, _ = self.stream()
        stream = recording.read_bytes()
        self.assertGreater(len(stream), 1100000)
        with self.capturing(recording, "--rotate", "300K", stop_at=900000) as (
                capture, proxy, _):
            wait_for(lambda: (self.dir / "x.2.tracy").exists(), "a part")
            resource.prlimit(capture.pid, resource.RLIMIT_FSIZE, (20000, 20000))
            proxy.go_on()
            out, err = capture.communicate(timeout=LIMIT)
        self.assertEqual(capture.returncode, 4, out + err)
        self.assertIn("is kept in", err)
        ends = frame_ends(stream, 82)
        kept = ends[0] + journal_arrived(self.journal)
        expected = self.whole(stream[: max(end for end in ends if end <= kept)])
        result = run("recover", self.journal)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(self.sums(self.whole_run()), expected)

    def recovered(self):
        found = [self.dir / "x.recovered.tracy"]
        while (name := self.dir / f"x.recovered.{len(found) + 1}.tracy").exists():
            found.append(name)
        return found

    def test_flight_recorder(self):
        """One trace, of the last stretch, with what was live at its beginning; on the way there is
        never much more on the disk: up to four segments, each with a checkpoint as large."""
        recording, _ = self.stream(300000)
        stream = recording.read_bytes()
        most = 0
        with replaying(recording, "--rate", "4M") as (_, port):
            args = ["capture", "-o", self.out, "--no-summary", "--keep-last", "100K", "-p", port]
            capture = subprocess.Popen([TIDEMARK, *map(str, args)], stdout=subprocess.PIPE,
                                       stderr=subprocess.PIPE, text=True)
            while capture.poll() is None:
                most = max(most, self.journal_size())
            out, err = capture.communicate(timeout=LIMIT)
        self.assertEqual((capture.returncode, err), (0, ""), out)
        self.assert_clean("f.c2s.bin", "f.s2c.bin", "f.truth.json", "x.tracy")
        self.assertLess(most, len(stream) // 3)
        begins = self.check_last(self.out, stream)
        self.assertGreater(begins, 0)
        facts = run("info", self.out).stdout
        self.assertIn("the client ended", facts)
        self.assertNotIn("incomplete", facts)

    def test_flight_recorder_asked_by_a_signal(self):
        """SIGUSR1 saves what is kept under the next free name, also with -f, and the recorder goes
        on."""
        recording, _ = self.stream()
        ends = frame_ends(recording.read_bytes(), 82)
        stream = recording.read_bytes()[: ends[-2]] # without the client's farewell
        recording.write_bytes(stream)
        taken, stop = self.dir / "x.2.tracy", ends[len(ends) // 2]
        taken.write_bytes(b"somebody's")
        self.out.write_bytes(b"of yesterday")
        with self.capturing(recording, "-f", "--keep-last", "100K", stop_at=stop,
                            replay_args=("--hold",)) as (capture, proxy, _):
            for n, arrived in (3, stop), (4, len(stream)):
                wait_for(lambda: ends[0] + journal_arrived(self.journal) == arrived, "the journal")
                capture.send_signal(signal.SIGUSR1)
                wait_for(lambda: (self.dir / f"x.{n}.tracy").exists(), "what is kept")
                proxy.go_on()
            self.assertEqual(self.out.read_bytes(), b"of yesterday")
            capture.send_signal(signal.SIGINT)
            out, err = capture.communicate(timeout=LIMIT)
        self.assertEqual((capture.returncode, err), (0, ""), out)
        self.assertEqual(len(re.findall(r"^\S+/x\.[34]\.tracy is saved", out, re.M)), 2, out)
        self.assertEqual(taken.read_bytes(), b"somebody's")
        self.assertGreater(self.check_last(self.dir / "x.3.tracy", stream[:stop]), 0)
        self.assertGreater(self.check_last(self.dir / "x.4.tracy", stream), 0)
        self.assertGreater(self.check_last(self.out, stream), 0)
        facts = run("info", self.dir / "x.3.tracy").stdout
        self.assertIn("saved while the capture goes on", facts)
        self.assertNotIn("next part", facts)
        self.assertFalse(self.journal.exists())

    def test_signal_before_there_is_a_client(self):
        args = ["capture", "-o", self.out, "-p", free_port(), "--keep-last", "1M"]
        capture = subprocess.Popen([TIDEMARK, *map(str, args)], stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True)
        self.assertIn("Connecting", capture.stdout.readline())
        capture.send_signal(signal.SIGUSR1)
        capture.send_signal(signal.SIGTERM)
        capture.communicate(timeout=LIMIT)
        self.assertEqual(capture.returncode, 5)

    def journal_size(self):
        size = 0
        try:
            for f in self.journal.iterdir():
                size += f.stat().st_size
        except FileNotFoundError:
            pass
        return size

    def test_flight_recorder_with_everything(self):
        """All kinds of events; the unit tests of checkpoints go into them, in all releases."""
        for release in RELEASES[0], RELEASES[-1]:
            recording = WIRE / release / "allscen.c2s.bin"
            with replaying(recording) as (_, port):
                result = run("capture", "-f", "-o", self.out, "-p", port, "--no-summary",
                             "--keep-last", "10K")
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertEqual(run("dump", self.out).returncode, 0)

    def fill_disk(self, recording, stop):
        """A flight recorder that has just `stop` bytes of the client when files may grow no more
        than to 330,000 bytes: what it says as errors."""
        begin = frame_ends(recording.read_bytes(), 82)[0]
        with self.capturing(recording, "--keep-last", "600K", stop_at=stop) as (
                capture, proxy, _):
            wait_for(lambda: begin + journal_arrived(self.journal) == stop, "the journal")
            resource.prlimit(capture.pid, resource.RLIMIT_FSIZE, (330000, 330000))
            proxy.go_on()
            out, err = capture.communicate(timeout=LIMIT)
        self.assertEqual(capture.returncode, 4, out + err)
        self.assertIn("cannot write the journal", err)
        return err

    def test_flight_recorder_without_room(self):
        """The disk fills: what is to be kept and fits is in the trace, and why it ended."""
        recording, _ = self.stream()
        self.fill_disk(recording, 200000)
        self.assertIn("no room left", run("info", self.out).stdout)
        self.assertFalse(self.journal.exists())

    def test_flight_recorder_without_room_for_its_trace(self):
        """The disk fills and the trace does not fit either: the journal keeps what there is."""
        recording, _ = self.stream()
        err = self.fill_disk(recording, 800000)
        self.assertIn("what was recorded is kept in", err)
        self.assertFalse(self.out.exists())
        result = run("recover", self.journal)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertGreaterEqual(frames_said(result), 1)
        self.assertEqual(run("dump", self.dir / "x.recovered.tracy").returncode, 0)

    def test_limits(self):
        recording, _ = self.stream()
        with replaying(recording, "--rate", "2M") as (_, port):
            result = run("capture", "-o", self.out, "-p", port, "--no-summary", "--max-size",
                         "400K")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("size limit reached", result.stdout)
        self.assertNotIn("incomplete", run("info", self.out).stdout)
        with replaying(recording, "--hold", "--rate", "1K") as (_, port):
            result = run("capture", "-f", "-o", self.out, "-p", port, "--no-summary", "--max-time",
                         "100ms")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("time limit reached", result.stdout)

    def test_usage(self):
        for args in (("--rotate", "0"), ("--rotate", "soon"), ("--rotate", "5x"),
                     ("--rotate", "0s"), ("--max-time", "-1s"), ("--max-time", "0"),
                     ("--max-size", "much"), ("--keep-last", "1M", "--no-journal")):
            self.assertEqual(run("capture", "-o", self.out, *args).returncode, 2, args)


if __name__ == "__main__":
    import unittest
    unittest.main()
