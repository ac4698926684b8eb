"""--between: the range of time between two messages, such as those of Kit's measurements."""

import json
import struct
import unittest

from clients import alloc_plain, capture_items, string, thread_name
from test_capture import free
from tools import Case, run

THREAD_CONTEXT, MESSAGE = 61, 77  # items of protocol 74
MEASURE = "[command_macro][Measurement]"


def message(time, key):
    return struct.pack("<BqQ", MESSAGE, time, key)


class Between(Case):
    def trace(self, name="a.tracy", size=100, delay=0):
        """Blocks at 1, 2, ... µs; measured are those at 3 and 4, and once more the one at 7."""
        items = thread_name(7, b"main")
        for key, text in ((1, "Start - load"), (2, "End - load"), (3, "End - other"),
                          (4, "Start - once"), (5, "End - once")):
            items += string(key, f"{MEASURE} {text}".encode())
        for i in range(1, 10):
            items += alloc_plain(1000, 7, 0x1000 * i, size * i)  # times are relative
        items += free(500, 7, 0x1000 * 3)
        items += struct.pack("<BI", THREAD_CONTEXT, 7)
        for at, key in ((500, 3), (2500, 1), (4200, 3), (4500, 2), (6500, 1), (7500, 2),
                        (8500, 4), (9100, 5)):
            items += message(at + delay, key)
        out = self.dir / name
        result = capture_items(out, items)
        self.assertEqual(result.returncode, 0, result.stderr)
        return out

    def report(self, trace, *args):
        result = run("report", trace, "--format", "json", *args)
        self.assertEqual(result.returncode, 0, result.stderr)
        return json.loads(result.stdout), result.stderr

    def test_what_was_allocated_between(self):
        trace = self.trace()
        answer, said = self.report(trace, "--between", f"{MEASURE} Start - load",
                                   f"{MEASURE} End - load")
        (pool,) = answer["pools"]
        self.assertEqual((pool["allocations"], pool["total_bytes"]), (2, 700))
        # The free of the block comes after the range.
        self.assertEqual(pool["live_bytes"], 700)
        self.assertEqual(self.report(trace, "--range", "2500:4500")[0]["pools"], answer["pools"])
        self.assertIn(f"2 messages fit '{MEASURE} Start - load': the range begins at the first "
                      "one, 2.50 us", said)
        answer, said = self.report(trace, "--between", "Start - once", "End - once")
        self.assertEqual((answer["pools"][0]["allocations"], said), (1, ""))

    def test_expressions(self):
        trace = self.trace()
        answer, _ = self.report(trace, "--between", r"/Start - \w+$/", "/End - o/")
        self.assertEqual(answer["pools"][0]["allocations"], 2)
        result = run("report", trace, "--between", "/Start - (/", "End")
        self.assertEqual(result.returncode, 2)
        self.assertIn("--between: '/Start - (/'", result.stderr)

    def test_budgets_and_tree_and_timeline(self):
        trace, range_ = self.trace(), ("--between", "Start - once", "End - once")
        self.assertEqual(run("report", trace, *range_, "--fail-if", "total>900").returncode, 0)
        self.assertEqual(run("report", trace, *range_, "--fail-if", "total>899").returncode, 1)
        tree = json.loads(run("tree", trace, *range_, "--format", "json").stdout)
        self.assertEqual(tree["total"]["bytes"], 900)
        for command in ("timeline", "map"):
            same = [run(command, trace, "--format", "csv", *option).stdout
                    for option in (range_, ("--range", "8500:9100"))]
            self.assertEqual(same[0], same[1])
            self.assertNotEqual(same[0], run(command, trace, "--format", "csv").stdout)

    def test_both_traces_of_a_diff_have_ranges_of_their_own(self):
        base, now = self.trace(), self.trace("b.tracy", size=101, delay=1000)
        result = run("diff", base, now, "--between", "Start - once", "End - once", "--format",
                     "json", "--fail-if", "total>+10%")
        (pool,) = json.loads(result.stdout)["pools"]
        # The second run's messages came 1 µs later, when it had made the last block.
        self.assertEqual((pool["base"]["total_bytes"], pool["now"]["total_bytes"]), (900, 0))
        self.assertEqual(result.returncode, 0)

    def test_what_is_refused(self):
        trace = self.trace()
        for args, words in ((("nothing", "End"), "none of 8 messages fits 'nothing'; the first are "
                             f"'{MEASURE} End - other'"),
                            (("End - once", "Start - load"), "no message after 9.10 us"),
                            (("", "End"), "a message's text is empty")):
            result = run("report", trace, "--between", *args)
            self.assertEqual((result.returncode, result.stdout), (2, ""))
            self.assertIn(words, result.stderr)
        result = run("report", trace, "--between", "Start", "End", "--range", "0:1s")
        self.assertEqual(result.returncode, 2)
        self.assertIn("give one", result.stderr)
        result = run("report", trace, "--between", "Start")
        self.assertEqual(result.returncode, 2)
        self.assertIn("--between takes two values", result.stderr)
        result = run("report", "-", "--between", "Start", "End")
        self.assertEqual(result.returncode, 2)
        self.assertIn("standard input", result.stderr)


if __name__ == "__main__":
    unittest.main()
