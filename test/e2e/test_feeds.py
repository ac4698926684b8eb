"""A question's document is the same, whether events are counted while the file is read, in a loaded
store, with a second thread, from figures that were stored with the trace, or in a sweep that reads the
file, with the names from behind it."""

import json
import subprocess

from tools import FIREHOSE, TIDEMARK, TRACES, Case, not_sanitized, run

GROUPS = ("site", "function", "callstack", "type", "pool")
EVERY_SIZE = ("--size", "0:")  # every block is selected, but a selection needs a loaded store
TOGETHER = (("--leaks",), ("--grown", "1ms:1h"), ("--histograms",), ("--patterns",), ("--faults",))
QUESTIONS = (("--leaks",), ("--patterns",), ("--histograms",), ("--peak",), ("--by", "thread"))


@not_sanitized
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

    def test_call_stacks_of_a_file(self):
        for trace in sorted(TRACES.glob("v0.14.0/*.tracy")):
            files = []
            for selection in ((), EVERY_SIZE):
                files.append(self.dir / f"{trace.stem}.{len(selection)}")
                result = run("export", trace, "--format", "folded", "-fo", files[-1], *selection)
                self.assertEqual(result.returncode, 0, result.stderr)
            self.assertTrue(files[0].read_text())
            self.assertEqual(files[0].read_text(), files[1].read_text(), trace)

    def assert_together(self, trace, *options):
        """All at once are as each alone, and JSON is one document."""
        every = [word for question in TOGETHER for word in question]
        for form in ("json", "text", "markdown"):
            with self.subTest(trace=trace.name, form=form):
                alone = [run("report", trace, *question, *options, "--format", form)
                         for question in TOGETHER]
                self.assertEqual([result.returncode for result in alone], [0] * len(TOGETHER))
                together = run("report", trace, *every, *options, "--format", form)
                self.assertEqual(together.returncode, 0, together.stderr)
                if form != "json":
                    self.assertEqual(together.stdout, "\n".join(a.stdout for a in alone))
                    continue
                document = json.loads(together.stdout)
                self.assertEqual(document, {"schema": "tidemark.answers/1",
                                            "answers": [json.loads(a.stdout) for a in alone]})

    def assert_piped(self, trace, *question):
        """As from standard input, which is loaded."""
        with self.subTest(trace=trace.name, question=question):
            with open(trace, "rb") as stdin:
                piped = subprocess.run([TIDEMARK, "report", "-", *question, "--format", "json"],
                                       stdin=stdin, stdout=subprocess.PIPE, check=True, text=True)
            self.assertEqual(run("report", trace, *question, "--format", "json").stdout, piped.stdout)

    def test_a_sweep_that_reads_the_file(self):
        """Of a capture with its names behind it, and without; with several pools, and with one."""
        recording, stored = self.dir / "f.c2s.bin", self.dir / "stored.tracy"
        bare = self.dir / "bare.tracy"
        subprocess.run([FIREHOSE, "-o", str(recording), "--events", "300000", "--depth", "8",
                        "--stacks", "50"], check=True)
        self.assertEqual(self.capture(recording, stored).returncode, 0)
        self.assertEqual(run("update", stored, bare).returncode, 0)
        self.assertGreater(stored.stat().st_size, bare.stat().st_size)
        for trace in (stored, bare):
            for question in (*TOGETHER[:4], ("--leaks", "--patterns", "--grown", "1ms:1h")):
                for options in ((), ("--pool", "default"), ("--size", "100:", "--memory", "1M")):
                    self.assert_piped(trace, *question, *options)

    def test_questions_together(self):
        for name in ("memscen", "allscen", "memscen_mt", "ledger"):
            trace = TRACES / "v0.14.0" / f"{name}.tracy"
            self.assert_together(trace)
            self.assert_together(trace, "--size", "64:4K", "--stack-traces", "--limit", "3")

    def test_refusals_of_questions_together(self):
        trace = TRACES / "v0.14.0" / "memscen.tracy"
        for wrong, text in (
                (("--leaks", "--histograms", "--format", "csv"), "one table"),
                (("--leaks", "--peak"), "--peak selects"),
                # The first question of the pass has begun by then.
                (("--leaks", "--patterns", "--grown", "1ms:2ms", "--at", "0"), "of --grown is seen")):
            result = run("report", trace, *wrong)
            self.assertEqual(result.returncode, 2, wrong)
            self.assertIn(text, result.stderr)
            self.assertEqual(result.stdout, "")

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
        self.assert_together(trace)
