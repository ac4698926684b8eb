"""Names in stripped libraries are marked with the table that has them, or as those of a neighbour."""

import json
import lzma
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

    def frames(self, size):
        found = run("find", self.trace, "0x0-0x7fffffffffff", "--size", f"{size}:{size}", "--format", "json")
        block, = json.loads(found.stdout)["allocations"]
        return block["callstack"]

    def stack(self, size):
        return [f["function"] for f in self.frames(size)]

    def origins(self):
        return [f.get("name_from") for f in self.frames(5000)[:3]]

    def named_from(self):
        found = run("symbols", self.trace, "--format", "json")
        image, = (i for i in json.loads(found.stdout)["images"] if i["image"] == str(self.library))
        return image["named_from"]

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
        site, = report(self.trace)["sites"]
        self.assertEqual([site["function"], site["file"], site["name_from"]], ["second", None, ".dynsym"])
        self.assertEqual(self.origins(), ["neighbour", "neighbour", ".dynsym"])
        self.assertEqual(self.named_from(), {".dynsym": 2, "neighbour": 2})
        self.assertIn(f"functions of {self.library.name}, named from .dynsym", run("report", self.trace).stdout)

        # Better names replace them: here those of the library itself, put back.
        os.replace(whole, self.library)
        better = run("symbols", self.trace, "-o", self.dir / "better.tracy", "-f")
        self.assertEqual(better.returncode, 0, better.stderr)
        self.trace = self.dir / "better.tracy"
        self.assertEqual(self.stack(5000)[:3], ["hidden", "covered", "second"])
        self.assertEqual(self.origins(), [None] * 3)
        self.assertEqual(self.named_from(), {})

    @unittest.skipUnless(shutil.which("objcopy"), "there is no objcopy")
    def test_names_say_which_table_they_are_from(self):
        packed, plain = self.dir / "packed", self.dir / "plain"
        subprocess.run(["objcopy", "--strip-debug", self.library, plain], check=True)
        packed.write_bytes(lzma.compress(plain.read_bytes()))
        for options, table in [(["--strip-debug"], ".symtab"),
                               (["--strip-all", "--add-section", f".gnu_debugdata={packed}"], ".gnu_debugdata")]:
            with self.subTest(table):
                changed = self.dir / "changed.so"
                subprocess.run(["objcopy", *options, self.library, changed], check=True)
                shutil.copy(self.library, self.dir / "kept.so")
                os.replace(changed, self.library)
                result = record(self.dir, self.dir / "main", options=["-f"])
                os.replace(self.dir / "kept.so", self.library)
                self.assertEqual(result.returncode, 0, result.stderr)
                self.assertEqual(self.stack(5000)[:3], ["hidden", "covered", "second"])
                self.assertEqual(self.origins(), [table] * 3)


if __name__ == "__main__":
    unittest.main()
