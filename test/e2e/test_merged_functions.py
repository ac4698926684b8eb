"""Functions that the linker merged: their common name, and no type that only one of them has."""

import shutil
import subprocess
import unittest

from test_run import RunCase, record
from tools import report, run

# Linkage names of std::__new_allocator<int>::allocate and of others, all at one address.
PROGRAM = """
#include <stdlib.h>
void *of_int(size_t n) __asm__("_ZNSt15__new_allocatorIiE8allocateEmPKv");
__attribute__((noinline)) void *of_int(size_t n) { return malloc(4 * n) ?: malloc(n); }
void *other(size_t n) __asm__("%s");
void *other(size_t n) __attribute__((alias("_ZNSt15__new_allocatorIiE8allocateEmPKv")));
int main(void) { return of_int(1000) == NULL; }
"""


@unittest.skipUnless(shutil.which("gcc"), "there is no compiler")
class Merged(RunCase):
    def block(self, other, *options):
        (self.dir / "main.c").write_text(PROGRAM % other)
        subprocess.run(["gcc", "-O1", *options, "-o", self.dir / "main", self.dir / "main.c"], check=True)
        result = record(self.dir, self.dir / "main", options=["-f"])
        self.assertEqual(result.returncode, 0, result.stderr)
        group, = (g for g in report(self.trace, "--by", "callstack")["groups"] if g["bytes"] == 4000)
        return group["callstack"][0]["function"], group["type"]

    def test_types(self):
        for options in ([], ["-g"], ["-rdynamic", "-s"]):
            with self.subTest(options):
                name, kind = self.block("_ZNSt15__new_allocatorIfE8allocateEmPKv", *options)
                self.assertEqual(name, "std::__new_allocator<_>::allocate(unsigned long, void const*)")
                self.assertIsNone(kind)
                # The same name, spelled otherwise.
                name, kind = self.block("__ZNSt15__new_allocatorIiE8allocateEmPKv", *options)
                self.assertEqual(name, "std::__new_allocator<int>::allocate(unsigned long, void const*)")
                self.assertEqual(kind, "int")

    def test_symbolize(self):
        self.block("_ZNSt15__new_allocatorIfE8allocateEmPKv")
        symbols = subprocess.run(["nm", self.dir / "main"], check=True, text=True, stdout=subprocess.PIPE).stdout
        at, = (line.split()[0] for line in symbols.splitlines() if line.endswith("IiE8allocateEmPKv"))
        said = run("symbolize", "--obj", self.dir / "main", f"0x{at}")
        self.assertEqual(said.stdout.splitlines()[0], "std::__new_allocator<_>::allocate(unsigned long, void const*)")
        said = run("symbolize", "--no-demangle", "--obj", self.dir / "main", f"0x{at}")
        self.assertRegex(said.stdout, r"^_ZNSt15__new_allocatorI[if]E8allocateEmPKv\n")


if __name__ == "__main__":
    unittest.main()
