"""Captures that go on in further traces: nothing is lost or counted twice at a seam, and a journal
knows where the seams are."""

import json
import resource
import subprocess

from passing import Player, frame_ends, journal_bytes, journal_records, wait_for
from test_recover import Killed
from tools import FIREHOSE, LIMIT, WIRE, replaying, report, run


class Rotating(Killed):
    def stream(self):
        recording = self.dir / "f.c2s.bin"
        subprocess.run([FIREHOSE, "-o", str(recording), "--events", "100000", "--depth", "3",
                        "--protocol", "82", "--live", "3000", "--pools", "2",
                        "--stacks", "300"], check=True)
        return recording, json.loads((self.dir / "f.truth.json").read_text())

    def parts(self):
        """The parts in their order."""
        found = [self.out]
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
                     "--no-summary", "--connect-timeout", 20)
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
        with replaying(recording, "--rate", "1M") as (_, port):
            result = run("capture", "-o", self.out, "-p", port, "--no-summary", "--rotate", "0.2s")
        self.assertEqual(result.returncode, 0, result.stderr)
        parts = self.parts()
        self.assertGreater(len(parts), 1)
        self.assertEqual(self.sums(parts), self.whole(recording.read_bytes()))

    def test_killed(self):
        """The journal goes on where the saved parts end; of parts that are gone it has all."""
        recording, _ = self.stream()
        stream = recording.read_bytes()
        ends = frame_ends(stream, 82)
        stop = ends[-2] + 2
        with self.capturing(recording, "--rotate", "300K", stop_at=stop) as (capture, _, _):
            wait_for(lambda: self.journal.exists() and
                     ends[0] + len(journal_bytes(self.journal)) == stop, "the journal")
            wait_for(lambda: (self.dir / "x.3.tracy").exists(), "parts")
            capture.kill()
            capture.communicate(timeout=LIMIT)
        # One may have been saved without a word of it in the journal yet: it is saved again.
        known = sum(kind == 6 for kind, _ in journal_records(self.journal))
        saved, unknown = self.parts()[:known], self.parts()[known:]
        self.assertLessEqual(len(unknown), 1)
        expected = self.whole(stream[: ends[-2]])
        result = run("recover", self.journal, "--keep")
        self.assertEqual(result.returncode, 0, result.stderr)
        recovered = self.recovered()
        self.assertEqual(self.sums([*saved, *recovered]), expected)
        for trace in (*saved, *recovered):
            trace.unlink()
        result = run("recover", self.journal)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(len(self.recovered()), len(saved) + len(recovered))
        self.assertEqual(self.sums(self.recovered()), expected)

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
        known = sum(kind == 6 for kind, _ in journal_records(self.journal))
        saved = self.parts()[:known]
        ends = frame_ends(stream, 82)
        kept = ends[0] + len(journal_bytes(self.journal))
        expected = self.whole(stream[: max(end for end in ends if end <= kept)])
        result = run("recover", self.journal)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(self.sums([*saved, *self.recovered()]), expected)

    def test_room_again(self):
        """A part that could not be saved is saved at the end after all, and says so once."""
        recording, _ = self.stream()
        (self.dir / "x.previous.tracy").mkdir() # what cannot be replaced by a file
        with replaying(recording) as (_, port):
            result = run("capture", "-f", "-o", self.out, "-p", port, "--no-summary", "--no-code",
                         "--keep-last", "300K")
        self.assertEqual(result.returncode, 4)
        (self.dir / "x.previous.tracy").rmdir()
        with self.capturing(recording, "--keep-last", "300K", stop_at=100000) as (
                capture, proxy, _):
            wait_for(lambda: len(proxy.passed) == 100000, "bytes")
            (self.dir / "x.previous.tracy").mkdir()
            proxy.go_on()
            out, err = capture.communicate(timeout=LIMIT)
        self.assertEqual(capture.returncode, 4, out + err)
        facts = run("info", self.out).stdout
        self.assertIn("no room left", facts)
        self.assertNotIn("continued in the next part", facts)
        self.assertEqual(facts.count("tidemark.protocol"), facts.count("tidemark.end"))

    def recovered(self):
        found = [self.dir / "x.recovered.tracy"]
        while (name := self.dir / f"x.recovered.{len(found) + 1}.tracy").exists():
            found.append(name)
        return found

    def test_flight_recorder(self):
        """Whatever came before, the last two parts have what is live at the end."""
        recording, _ = self.stream()
        previous = self.dir / "x.previous.tracy"
        args = ("capture", "-o", self.out, "--no-summary", "--keep-last", "300K")
        with replaying(recording) as (_, port):
            result = run(*args, "-p", port)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assert_clean("f.c2s.bin", "f.s2c.bin", "f.truth.json", "x.tracy", "x.previous.tracy")
        self.assertGreater(result.stdout.count("this part of the trace ends"), 1)
        live = [pool[2:] for pool in self.whole(recording.read_bytes()).values()]
        self.assertEqual([pool[2:] for pool in self.sums([previous, self.out]).values()], live)
        self.assertIn("continued in the next part", run("info", previous).stdout)
        self.out.unlink()
        self.assertEqual(run(*args, "-p", 1).returncode, 4) # the previous one would be lost

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
                     ("--max-size", "much")):
            self.assertEqual(run("capture", "-o", self.out, *args).returncode, 2, args)


if __name__ == "__main__":
    import unittest
    unittest.main()
