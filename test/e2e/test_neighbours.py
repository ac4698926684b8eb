"""Functions without a name in a stripped library: the exported one before them is named, and marked."""

import json
import os
import shutil
import subprocess
import unittest

from test_run import RunCase, record
from tools import report, run

# The linker keeps their order.
LIBRARY = """
#include <stdlib.h>
void *first(size_t n) { return n > 100 ? malloc(n) : NULL; }
static __attribute__((noinline)) void *hidden(size_t n, int k) { return k ? malloc(n) : malloc(n + 1); }
static __attribute__((noinline)) void *covered(size_t n, int k) { return hidden(n, k + 1); }
void *second(size_t n, int k) { return covered(n, k) ? malloc(n + 2) : NULL; }
"""
PROGRAM = """
#include <stddef.h>
void *second(size_t, int);
int main(void) { return second(5000, 1) == NULL; }
"""


@unittest.skipUnless(shutil.which("gcc") and shutil.which("strip"), "there is no compiler")
class Neighbours(RunCase):
    def setUp(self):
        super().setUp()
        self.library = self.dir / "libnear.so"
        (self.dir / "near.c").write_text(LIBRARY)
        (self.dir / "main.c").write_text(PROGRAM)
        subprocess.run(["gcc", "-g", "-O0", "-fno-toplevel-reorder", "-shared", "-fPIC", "-o", self.library,
                        self.dir / "near.c"], check=True)
        subprocess.run(["gcc", "-O0", "-o", self.dir / "main", self.dir / "main.c", self.library,
                        f"-Wl,-rpath,{self.dir}"], check=True)

    def stack(self, size):
        found = run("find", self.trace, "0x0-0x7fffffffffff", "--size", f"{size}:{size}", "--format", "json")
        block, = json.loads(found.stdout)["allocations"]
        return [f["function"] for f in block["callstack"]]

    def test_neighbours_come_last(self):
        whole = self.dir / "whole.so"
        shutil.copy(self.library, whole)
        subprocess.run(["strip", self.library], check=True)
        result = record(self.dir, self.dir / "main", options=["-f"])
        self.assertEqual(result.returncode, 0, result.stderr)
        hidden, covered, second = self.stack(5000)[:3]
        self.assertRegex(hidden, r"^near first\+0x[0-9a-f]+$")
        self.assertRegex(covered, r"^near first\+0x[0-9a-f]+$")
        self.assertNotEqual(hidden, covered)
        self.assertEqual(second, "second")
        self.assertEqual(self.stack(5002)[0], "second")
        # They are no names: a function that has one is the site.
        self.assertEqual([s["function"] for s in report(self.trace)["sites"]], ["second"])

        # Better names replace them: here those of the library itself, put back.
        os.replace(whole, self.library)
        better = run("symbols", self.trace, "-o", self.dir / "better.tracy", "-f")
        self.assertEqual(better.returncode, 0, better.stderr)
        self.trace = self.dir / "better.tracy"
        self.assertEqual(self.stack(5000)[:3], ["hidden", "covered", "second"])


if __name__ == "__main__":
    unittest.main()
