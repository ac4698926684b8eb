"""libtidetrace as other programs meet it: the examples, the exported names, the header for C and C++,
what `make install` installs, and damaged traces."""

import importlib.util
import json
import os
import pathlib
import shutil
import subprocess
import sys
import unittest

from clients import capture_items, frame_name
from test_capture import alloc, callstack
from tools import BUILD, LIMIT, RELEASES, ROOT, TRACES, Case, report, run

LIBRARY = BUILD / "libtidetrace.so"
EXAMPLES = ROOT / "examples"
CC = os.environ.get("CC", "gcc").split()
STATIC = ["-llz4", "-lzstd", "-lxxhash", "-ljansson", "-lpcre2-8", "-lm"]

sys.path[:0] = [str(EXAMPLES), str(ROOT / "python")]
import live_over_time  # noqa: E402

needs_numpy = unittest.skipUnless(importlib.util.find_spec("numpy"), "no numpy")


def call(*args, **kwargs):
    return subprocess.run([*map(str, args)], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          text=True, errors="replace", stdin=subprocess.DEVNULL, timeout=LIMIT,
                          **kwargs)


def sanitizers():
    """The options that the library was built with, if any."""
    return ["-fsanitize=address,undefined"] if b"libasan.so" in LIBRARY.read_bytes() else []


def loaded():
    """An environment in which Python can load the library."""
    env = dict(os.environ, TIDETRACE=str(LIBRARY), PYTHONPATH=str(ROOT / "python"))
    if sanitizers():
        asan = call(*CC, "-print-file-name=libasan.so").stdout.strip()
        env.update(LD_PRELOAD=asan, ASAN_OPTIONS="detect_leaks=0")
    return env


class Examples(Case):
    def compile(self, *args):
        program = self.dir / "top_sites"
        made = call(*CC, "-std=c99", "-pedantic", "-Wall", "-Wextra", "-Werror", *sanitizers(),
                    "-o", program, EXAMPLES / "top_sites.c", *args)
        self.assertEqual((made.returncode, made.stderr), (0, ""))
        return program

    def check_sites(self, program, trace, **kwargs):
        said = call(program, trace, **kwargs)
        self.assertEqual((said.returncode, said.stderr), (0, ""))
        lines = said.stdout.splitlines()
        doc = report(trace)
        total = sum(pool["allocations"] for pool in doc["pools"])
        self.assertIn(f": {total} allocations in ", lines[0])
        rows = [(int(words[0]), int(words[2])) for words in map(str.split, lines[1:11])
                if words[1:2] == ["bytes"]]
        sites = [(site["bytes"], site["count"]) for site in doc["sites"][:10]]
        self.assertEqual(rows, sites)

    def test_c(self):
        program = self.compile(f"-I{ROOT}/include", f"-L{BUILD}", "-ltidetrace")
        env = dict(os.environ, LD_LIBRARY_PATH=str(BUILD))
        for release in RELEASES:
            self.check_sites(program, TRACES / release / "memscen.tracy", env=env)

    def test_c_static(self):
        program = self.compile(f"-I{ROOT}/include", BUILD / "libtidetrace.a", *STATIC)
        self.check_sites(program, TRACES / "v0.14.0" / "memscen_mt.tracy")

    def test_installed(self):
        """With what `make install` put somewhere, through pkg-config."""
        root = self.dir / "root"
        made = call("make", "--old-file=all", "install", f"BUILD={os.environ.get('BUILD', 'build')}",
                    f"DESTDIR={root}", "PREFIX=/usr", cwd=ROOT,
                    env={k: v for k, v in os.environ.items() if k != "MAKEFLAGS"})
        self.assertEqual(made.returncode, 0, made.stderr)
        env = dict(os.environ, PKG_CONFIG_PATH=str(root / "usr/lib/pkgconfig"),
                   PKG_CONFIG_SYSROOT_DIR=str(root), PKG_CONFIG_ALLOW_SYSTEM_CFLAGS="1",
                   PKG_CONFIG_ALLOW_SYSTEM_LIBS="1", LD_LIBRARY_PATH=str(root / "usr/lib"))
        flags = call("pkg-config", "--cflags", "--libs", "tidetrace", env=env)
        self.assertEqual(flags.returncode, 0, flags.stderr)
        program = self.compile(*flags.stdout.split())
        self.check_sites(program, TRACES / "v0.14.0" / "memscen.tracy", env=env)
        self.assertTrue((root / "usr/share/man/man3/tidetrace.3").is_file())
        self.assertTrue((root / "usr/lib/libtidetrace.so.1").is_symlink())

    @needs_numpy
    def test_python(self):
        trace = TRACES / "v0.14.0" / "memscen_mt.tracy"
        said = call(sys.executable, EXAMPLES / "live_over_time.py", trace, "peak<1G", "leaked=0",
                    env=loaded())
        self.assertEqual((said.returncode, said.stderr), (1, ""))
        lines = said.stdout.splitlines()
        self.assertEqual(len(lines), live_over_time.STEPS + 3)
        live = sum(pool["live_bytes"] for pool in report(trace)["pools"])
        self.assertEqual(lines[live_over_time.STEPS - 1].split()[2], str(live))
        checks = run("verify", trace, "--expect", "peak<1G", "--expect", "leaked=0").stdout
        self.assertEqual([" ".join(line.split()) for line in lines[-3:]],
                         [line.replace(": ", " ", 1) for line in checks.splitlines()])

    @needs_numpy
    def test_damaged(self):
        """A trace that is cut, or whose bytes were changed: an error, or another trace."""
        whole = (TRACES / "v0.14.0" / "ledger.tracy").read_bytes()
        said = []
        for i in range(24):
            path = self.dir / f"{i}.tracy"
            place = (i * 7919) % len(whole)
            data = whole[:place] if i % 2 else bytes(
                b ^ 0x41 if place <= at < place + 3 else b for at, b in enumerate(whole))
            path.write_bytes(data)
            result = call(sys.executable, EXAMPLES / "live_over_time.py", path, env=loaded())
            self.assertIn(result.returncode, (0, 3))
            self.assertNotIn("Traceback", result.stderr)
            said.append(result.stderr.strip().splitlines()[-1:])
        errors = [line[0] for line in said if line]
        self.assertGreater(len(errors), 12)
        for line in errors:
            self.assertRegex(line, r"^live_over_time: .*\d\.tracy")
        for args, status, cause in (([], 2, "usage: "), ([self.dir / "none"], 3, "none"),
                                    ([TRACES / "v0.14.0" / "ledger.tracy", "peak<"], 2, "peak<")):
            result = call(sys.executable, EXAMPLES / "live_over_time.py", *args, env=loaded())
            self.assertEqual(result.returncode, status, result.stderr)
            self.assertIn(cause, result.stderr)
            self.assertNotIn("Traceback", result.stderr)


class Faults(Case):
    def test_both_sides(self):
        """As structs, through ctypes; the JSON of the rest is held in test_mcp.py."""
        trace = self.dir / "x.tracy"
        items = frame_name(0x401000, b"make", b"a.c", 1) + frame_name(0x402000, b"again", b"a.c", 2)
        items += callstack(0x401000) + alloc(10, 7, 0x2000, 32)
        for size in range(1, 10):
            items += callstack(0x402000) + alloc(10, 7, 0x2000, size)
        self.assertEqual(capture_items(trace, items).returncode, 0)
        program = self.dir / "faults.c"
        program.write_text(r"""
#include <stdio.h>
#include <string.h>
#include "tidetrace.h"
int main(int n, char **args) {
    struct tidetrace *t; struct tidetrace_result *r; struct tidetrace_error e;
    struct tidetrace_fault_row f; struct tidetrace_fault_case c;
    (void)n;
    memset(&f, 0, sizeof f); memset(&c, 0, sizeof c);
    f.struct_size = sizeof f; c.struct_size = sizeof c;
    if (tidetrace_open(args[1], NULL, &t, &e) || tidetrace_faults(t, NULL, &r, &e)) {
        puts(e.text); return 1;
    }
    for (uint64_t i = 0; i < tidetrace_result_rows(r); i++) {
        tidetrace_fault_row(r, i, &f, &e);
        printf("%u %.*s %lu %lu %u\n", f.kind, (int)f.function.size, f.function.data,
               (unsigned long)f.count, (unsigned long)f.count_least, f.cases);
        for (uint32_t k = 0; k < f.cases && !tidetrace_fault_case(r, i, k, &c, &e); k++)
            printf("%u %lx %lu %d %lu %u %u\n", c.cause, (unsigned long)c.address,
                   (unsigned long)c.size, c.has_previous, (unsigned long)c.previous_size,
                   c.held_callstack != 0, c.has_around);
        printf("%d\n", tidetrace_fault_case(r, i, f.cases, &c, &e));
    }
    tidetrace_result_free(r);
    tidetrace_close(t);
    return 0;
}""")
        made = call(*CC, "-Wall", "-Werror", *sanitizers(), "-o", self.dir / "faults", program,
                    f"-I{ROOT}/include", f"-L{BUILD}", "-ltidetrace")
        self.assertEqual((made.returncode, made.stderr), (0, ""))
        said = call(self.dir / "faults", trace, env=dict(os.environ, LD_LIBRARY_PATH=str(BUILD)))
        lines = [line.split() for line in said.stdout.splitlines()]
        self.assertEqual(lines[0], ["1", "again", "9", "9", "6"])
        self.assertEqual([line[2] for line in lines[1:7]], ["1", "2", "3", "7", "8", "9"])
        for line, before in zip(lines[1:7], ("32", "1", "2", "6", "7", "8")):
            self.assertEqual(line[:2] + line[3:], ["5", "2000", "1", before, "1", "0"])
        self.assertEqual(lines[7:], [["-1"]])


class Abi(Case):
    def test_names(self):
        """What is exported is what was, so that programs go on to run."""
        out = call("nm", "-D", "--defined-only", LIBRARY)
        names = sorted(line.split()[-1] for line in out.stdout.splitlines())
        # The sanitizers put marks of their own into every library.
        names = [name for name in names if not name.startswith(("__asan", "__odr_asan", "__ubsan"))]
        self.assertEqual(names, (ROOT / "test/abi/libtidetrace.symbols").read_text().split())

    def test_archive(self):
        """Nothing else is visible in the archive, either."""
        out = call("nm", "--extern-only", "--defined-only", BUILD / "libtidetrace.a")
        names = [line.split()[-1] for line in out.stdout.splitlines() if len(line.split()) == 3]
        self.assertGreater(len(names), 30)
        self.assertEqual([name for name in names if not name.startswith("tidetrace_")], [])

    def test_archive_is_made_once(self):
        """Side by side, `make all web` made it twice, and each removed the object of the other."""
        plan = call("make", "-n", "all", "web", f"BUILD={self.dir}", "NODEPS=1", "V=1", cwd=ROOT,
                    env={k: v for k, v in os.environ.items() if k not in ("MAKEFLAGS", "MFLAGS")})
        self.assertEqual(plan.returncode, 0, plan.stderr)
        self.assertEqual(plan.stdout.count(f"ar rcs {self.dir}/libtidetrace.a"), 1)

    def test_soname(self):
        out = call("readelf", "-d", LIBRARY).stdout
        self.assertIn("[libtidetrace.so.1]", out)
        self.assertNotIn("TEXTREL", out)

    def test_header(self):
        """The header alone, in every language that may include it."""
        for compiler, language in (("gcc", "c99"), ("gcc", "c17"), ("clang", "c11"),
                                   ("clang++", "c++98"), ("clang++", "c++11"), ("clang++", "c++20"),
                                   ("g++", "c++11"), ("g++", "c++20")):
            with self.subTest(compiler=compiler, language=language):
                if not shutil.which(compiler):
                    self.skipTest(f"no {compiler}")
                kind = "c++" if "++" in compiler else "c"
                made = call(compiler, f"-std={language}", "-x", kind, "-pedantic", "-Wall",
                            "-Wextra", "-Werror", "-fsyntax-only", f"-I{ROOT}/include", "-include",
                            "tidetrace.h", "/dev/null")
                self.assertEqual((made.returncode, made.stderr), (0, ""))


class Documents(Case):
    def test_manual(self):
        """The page names every function, and no other."""
        page = (ROOT / "man" / "tidetrace.3").read_text()
        names = {name.split("@")[0]
                 for name in (ROOT / "test/abi/libtidetrace.symbols").read_text().split()
                 if "@" in name}
        written = {word for line in page.splitlines() if line.startswith(".It Fn ")
                   for word in line.split()[2:] if word.startswith("tidetrace_")}
        self.assertEqual(written, names)


if __name__ == "__main__":
    unittest.main()
