"""A question's document is the same, whether events are counted while the file is read, in a loaded
store, with a second thread, or from figures that were stored with the trace."""

import json
import subprocess

from tools import FIREHOSE, TRACES, Case, run

GROUPS = ("site", "function", "callstack", "type", "pool")
EVERY_SIZE = ("--size", "0:")  # every block is selected, but a selection needs a loaded store
QUESTIONS = (("--leaks",), ("--patterns",), ("--histograms",), ("--peak",), ("--by", "thread"))


class Feeds(Case):
    def document(self, trace, *args):
        result = run("report", trace, *args, "--format", "json")
        self.assertEqual(result.returncode, 0, result.stderr)
        document = json.loads(result.stdout)
        document.pop("selection", None)
        return document

    def assert_same(self, trace, one, other):
        with self.subTest(trace=trace.name, one=one, other=other):
            self.assertEqual(self.document(trace, *one), self.document(trace, *other))

    def test_every_file(self):
        for trace in sorted(TRACES.glob("*/*.tracy")):
            for group in GROUPS:
                self.assert_same(trace, ("--by", group, "--recount"), ("--by", group, *EVERY_SIZE))

    def test_more_events_than_one_thread_takes(self):
        recording, trace = self.dir / "f.c2s.bin", self.dir / "f.tracy"
        subprocess.run([FIREHOSE, "-o", str(recording), "--events", "60000", "--depth", "8",
                        "--stacks", "50"], check=True)
        result = self.capture(recording, trace)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assert_same(trace, (), ("--recount",))
        for group in GROUPS:
            self.assert_same(trace, ("--by", group, "--recount"), ("--by", group, *EVERY_SIZE))
        for question in QUESTIONS:
            self.assert_same(trace, question, (*question, *EVERY_SIZE))
            self.assert_same(trace, question, (*question, "--memory", "1M"))
