"""`report --by sample`, held against a second reader of the files and counts made the slow way."""

import collections
import csv
import io
import json
import unittest

from test_questions import PLACEHOLDERS
from tools import RELEASES, TRACES, Case, run
from tracyfile import Trace

FILES = [TRACES / release / "allscen_sys.tracy" for release in RELEASES]


def ask(*args):
    result = run("report", *args, "--by", "sample", "--format", "json")
    if result.returncode != 0:
        raise AssertionError(f"report {args}: {result.stderr}")
    return json.loads(result.stdout)


def shown(name, image):
    """A function as the report names it: without the offset that a client adds to a near symbol."""
    head, plus, offset = name.rpartition(b" + ")
    name = head if plus and offset.isdigit() else name
    return None if not name or name in PLACEHOLDERS or name == image else name.decode()


def counted(thread):
    """The call stacks of a thread's samples but those that were taken at context switches."""
    timed = {time for time, _ in thread["switch_samples"] if time}
    timeless = collections.Counter(stack for time, stack in thread["switch_samples"] if not time)
    for time, stack in thread["samples"]:
        if time in timed:
            continue
        if not time and timeless[stack]:
            timeless[stack] -= 1
            continue
        yield stack


def statistics(trace, threads):
    """Named functions: (name, image) -> [self, total]."""
    figures = collections.defaultdict(lambda: [0, 0])
    for number in threads:
        for stack in counted(trace.thread_details[number]):
            functions = []
            for frame in trace.callstacks[stack]:
                image, inlines = trace.frames[frame]
                functions += [(shown(name, image), image) for name, _, _, _ in inlines]
            figures[functions[0]][0] += 1
            for function in set(functions):
                figures[function][1] += 1
    return {key: tuple(value) for key, value in figures.items() if key[0]}


def told(answer):
    return {(row["function"], row["image"].encode() if row["image"] else b""):
            (row["self"], row["total"]) for row in answer["functions"] if row["function"]}


def special(image):
    return not image or image[:1] == b"["


def expected(trace, threads):
    return {(name, b"" if special(image) else image): figures
            for (name, image), figures in statistics(trace, threads).items()}


class Samples(Case):
    def test_functions_and_threads_of_each_release(self):
        for path in FILES:
            with self.subTest(path=path.parent.name):
                trace = Trace(path)
                answer = ask(path)
                self.assertEqual(told(answer), expected(trace, trace.thread_details))
                by_thread = {number: len(list(counted(thread)))
                             for number, thread in trace.thread_details.items()}
                self.assertEqual({row["id"]: row["samples"] for row in answer["threads"]},
                                 {k: n for k, n in by_thread.items() if n})
                self.assertEqual(answer["samples"], sum(by_thread.values()))
                whole = sum(len(t["samples"]) for t in trace.thread_details.values())
                self.assertEqual(answer["context_switch_samples"], whole - answer["samples"])

    def test_one_thread(self):
        path = TRACES / "v0.14.0" / "allscen_sys.tracy"
        trace = Trace(path)
        (thread,) = (k for k, name in trace.thread_names.items() if name == b"compute")
        answer = ask(path, "--thread", "compute")
        self.assertEqual([row["id"] for row in answer["threads"]], [thread])
        self.assertEqual(told(answer), expected(trace, [thread]))

    def test_match_keeps_whole_call_stacks(self):
        answer = ask(FILES[-1], "--match", "^seq_read_iter$")
        rows = {row["function"]: row for row in answer["functions"]}
        self.assertEqual(rows["seq_read_iter"]["total"], answer["samples"])
        self.assertGreater(answer["samples"], 20)

    def test_text_and_csv(self):
        text = run("report", FILES[-1], "--by", "sample", "--limit", 3).stdout
        self.assertRegex(text, r"^\d+ call stack samples of \d threads, one every 100.00 us")
        self.assertIn("60 further samples taken at context switches: not counted", text)
        answer = ask(FILES[-1])
        result = run("report", FILES[-1], "--by", "sample", "--format", "csv")
        rows = list(csv.DictReader(io.StringIO(result.stdout)))
        self.assertEqual([int(r["self"]) for r in rows if r["kind"] == "function"],
                         [r["self"] for r in answer["functions"]])
        self.assertEqual(sum(int(r["total"]) for r in rows if r["kind"] == "thread"),
                         answer["samples"])

    def test_a_trace_without_samples(self):
        path = TRACES / "v0.14.0" / "memscen.tracy"
        self.assertEqual(run("report", path, "--by", "sample").stdout,
                         "no call stack samples of what is selected\n")
        self.assertEqual(ask(path)["functions"], [])

    def test_options_about_allocations_are_refused(self):
        for options in (["--pool", "default"], ["--leaks"], ["--sort", "live"],
                        ["--fail-if", "peak>1"], ["--format", "markdown"], ["--zone", "x"]):
            result = run("report", FILES[0], "--by", "sample", *options)
            self.assertEqual((result.returncode, result.stdout), (2, ""), options)
            self.assertIn("--by sample goes with", result.stderr)


if __name__ == "__main__":
    unittest.main()
