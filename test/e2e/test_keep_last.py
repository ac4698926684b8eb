"""Flight recorders of the daemon: asked for what they keep, they save it and go on."""

import subprocess

import test_rotate
from passing import Player, frame_ends
from test_daemon_http import Web
from test_recover import dump
from tools import FIREHOSE, replaying, report, run, wait_until


class KeepLast(Web):
    def stream(self):
        recording = self.dir / "f.c2s.bin"
        subprocess.run([FIREHOSE, "-o", str(recording), "--events", "100000", "--depth", "3",
                        "--protocol", "82", "--live", "3000", "--pools", "2",
                        "--stacks", "300"], check=True)
        return recording

    def whole(self, stream):
        player, out = Player(stream, 82), self.dir / "whole.tracy"
        result = run("capture", "-o", out, "-p", player.port, "--protocol", 82, "--no-summary",
                     "--connect-timeout", 20)
        player.close()
        self.assertEqual(result.returncode, 0, result.stderr)
        return dump(out)

    def received(self):
        counters = [c["counters"] for c in self.status()["clients"] if c["counters"]]
        return counters[0]["received_bytes"] if counters else 0

    def saved(self, ending):
        return [self.traces / n for n in self.names() if n.endswith(ending)]

    def check(self, trace, whole):
        """That trace has just what the whole one has since it begins; gives when that is."""
        found = test_rotate.PART.search(run("info", trace).stdout)
        begins = int(found[2]) if found else 0
        self.assertEqual(test_rotate.Rotating.window(self, dump(trace), 0),
                         test_rotate.Rotating.window(self, whole, begins))
        return begins

    def check_end(self, trace):
        """It has all there was when it was asked for: no further part follows, and none is missing."""
        info = run("info", trace).stdout
        self.assertIn("saved while the capture goes on", info)
        self.assertNotIn("next part", info)
        self.assertTrue(report(trace, "--limit", 1)["trace"]["complete"])
        verified = run("verify", trace)
        self.assertEqual(verified.returncode, 0, verified.stdout + verified.stderr)

    def test_save_now(self):
        recording = self.stream()
        stream = recording.read_bytes()
        ends = frame_ends(stream, 82)
        recording.write_bytes(stream[: ends[-2]]) # without the client's farewell
        whole = self.whole(stream[: ends[-2]])
        with self.web("--keep-last", "100K") as process:
            with replaying(recording, "--hold", "--rate", "2M",
                           f"--broadcast=127.0.0.1:{self.udp}"):
                wait_until(lambda: self.received() >= ends[-2] - ends[0])
                number = self.status()["clients"][0]["number"]
                for n in (2, 3):
                    self.assertEqual(self.ask(f"/api/v1/clients/{number}/save", "POST")[0], 202)
                    wait_until(lambda n=n: self.saved(f".{n}.tracy"))
                first, second = self.saved(".2.tracy") + self.saved(".3.tracy")
                self.assertGreater(self.check(first, whole), 0)
                self.check(second, whole)
                for trace in (first, second):
                    self.check_end(trace)
                self.assertEqual(self.status()["clients"][0]["state"], "recording")
                self.assertEqual(self.ask(f"/api/v1/clients/{number}/stop", "POST")[0], 202)
                wait_until(lambda: self.status()["clients"][0]["state"] == "saved")
            self.assertEqual(self.stop(process), 0)
        (last,) = [t for t in self.saved(".tracy") if t not in (first, second)]
        self.assertGreater(self.check(last, whole), 0)
        self.assertEqual(report(last, "--limit", 1)["faults"], [])
        self.assertEqual([n for n in self.names() if n.endswith(".journal")], [])


if __name__ == "__main__":
    import unittest
    unittest.main()
