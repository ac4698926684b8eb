"""Summaries: which debug symbols would give sites their lines."""

import os
import re
import shutil
import subprocess
import unittest

from tools import TIDEMARK, Case, free_port, report, run

PROGRAM = """
#include <stdlib.h>
void *volatile kept;
__attribute__((noinline)) void grow(void) { for (int i = 0; i < 1000; i++) kept = malloc(100 + i); }
int main(void) { grow(); return 0; }
"""
ADVICE = "no source lines for "
OWN = "functions of grow, named from .dynsym: no Debian package has it; if you build it, -g without strip gives lines\n"
SERVER = "debug symbols from a debuginfod server: tidemark symbols {} -o OUT --debuginfod URL\n"


class Advice(Case):
    def build(self, *flags):
        source, program = self.dir / "grow.c", self.dir / "grow"
        source.write_text(PROGRAM)
        subprocess.run(["gcc", "-O1", "-Wl,--build-id=0xc0ffee12", *flags, "-o", program, source],
                       check=True)
        return program

    def record(self, *args):
        self.trace = self.dir / "out.tracy"
        result = run("run", "-f", "-o", self.trace, *args)
        self.assertEqual(result.returncode, 0, result.stderr)
        return result

    def dpkg(self, script):
        """Answers for dpkg-query with a script of the shell."""
        query = self.dir / "dpkg-query"
        query.write_text(f"#!/bin/sh\n{script}\n")
        query.chmod(0o755)
        if not os.environ["PATH"].startswith(f"{self.dir}:"):
            os.environ["PATH"] = f"{self.dir}:{os.environ['PATH']}"

    def test_of_no_package(self):
        self.dpkg("exit 1")
        text = self.record("--", self.build("-rdynamic", "-s")).stderr
        share = re.search(ADVICE + r"([\d.]+) % of bytes, at " + OWN + r"\Z", text)
        self.assertGreater(float(share[1]), 95)

    def test_without_dpkg(self):
        """What fails to run says nothing about packages."""
        program = self.build("-rdynamic", "-s")
        self.dpkg("")
        (self.dir / "dpkg-query").write_bytes(b"\x7fELF")
        text = self.record("--", program).stderr
        self.assertIn("functions of grow, named from .dynsym (build id c0ffee12)\n", text)
        self.assertTrue(text.endswith(SERVER.format(self.trace)))

    def test_a_server_that_cannot_be_asked(self):
        program = self.build("-rdynamic", "-s")
        url = f"http://127.0.0.1:{free_port()}"
        text = self.record("--debuginfod", url, "--report", "none", "--", program).stderr
        self.assertRegex(text, r"tidemark: debuginfod: Connection refused: debug information for \d+ "
                               r"files? is missing\n")

    def test_with_lines(self):
        self.assertNotIn(ADVICE, self.record("--", self.build("-g")).stderr)

    def test_other_reports(self):
        program = self.build("-rdynamic", "-s")
        for args in (("--report", "json"), ("--report", "none"),
                     ("--report-file", self.dir / "report.txt")):
            result = self.record(*args, "--", program)
            self.assertNotIn(ADVICE, result.stderr + result.stdout)
            self.assertEqual(report(self.trace)["pools"][0]["allocations"], 1000)
        self.assertIn(ADVICE, (self.dir / "report.txt").read_text())
        for args in (("--format", "json"), ("--format", "csv"), ("--format", "markdown"),
                     ("--by", "thread"), ("--leaks",)):
            result = run("report", self.trace, *args)
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertNotIn(ADVICE, result.stderr + result.stdout, args)

    def test_report(self):
        program = self.build("-rdynamic", "-s")
        self.record("--report", "none", "--", program)
        self.dpkg("echo one: /a; echo two: /b")
        for args in ((), ("--by", "function"), ("--by", "callstack"), ("--limit", "1")):
            text = run("report", self.trace, *args).stdout
            self.assertRegex(text, ADVICE + r"[\d.]+ % of bytes, at functions of grow, named from .dynsym "
                                            r"\(build id c0ffee12\)\n")
            self.assertTrue(text.endswith(SERVER.format(self.trace)), args)
        with self.trace.open("rb") as file:
            piped = subprocess.run([TIDEMARK, "report", "-"], stdin=file, stdout=subprocess.PIPE,
                                   text=True, check=True).stdout
        self.assertIn(ADVICE, piped)
        self.assertNotIn("debuginfod", piped)

    def test_another_build(self):
        """The package of this machine's file is not named for another build of it."""
        self.dpkg('echo "grow-tools:amd64: $2"')
        program = self.build("-rdynamic", "-s")
        package = "functions of grow, named from .dynsym: its package is grow-tools, and the debug symbols' is " \
                  "grow-tools-dbgsym if Debian's naming holds\n"
        text = self.record("--", program).stderr
        self.assertIn(package, text)
        self.assertIn(package, run("report", self.trace).stdout)
        program.unlink()
        self.build("-rdynamic", "-s", "-Wl,--build-id=0xc0ffee13")
        for _ in range(2):
            text = run("report", self.trace).stdout
            self.assertIn("functions of grow, named from .dynsym (build id c0ffee12)\n", text)
            self.assertTrue(text.endswith(SERVER.format(self.trace)))
            program.unlink(missing_ok=True)

    def test_no_build_id(self):
        """A file without one is known by what it was when it ran."""
        program = self.build("-rdynamic", "-s", "-Wl,--build-id=none")
        self.dpkg("exit 1")
        self.assertTrue(self.record("--", program).stderr.endswith(OWN))
        program.write_bytes(program.read_bytes())
        text = run("report", self.trace).stdout
        self.assertRegex(text, ADVICE + r"[\d.]+ % of bytes, at functions of grow, named from .dynsym\n\Z")

    @unittest.skipUnless(shutil.which("sqlite3") and shutil.which("dpkg"),
                         "needs sqlite3 of a Debian package")
    def test_a_package(self):
        """The package is the one that dpkg names."""
        text = self.record("--", "sqlite3", ":memory:",
                           "create table t(a); with recursive c(x) as (select 1 union all "
                           "select x+1 from c where x<3000) insert into t select x from c").stderr
        found = re.search(r"at functions of (libsqlite3\.so[^\s,]*), named from \.dynsym: its package is (\S+), and the "
                          r"debug symbols' is (\S+) if Debian's naming holds\n", text)
        if not found and ADVICE not in text:
            self.skipTest("debug symbols of libsqlite3 are installed")
        owner = subprocess.run(["dpkg", "-S", f"*/{found[1]}"], check=True, text=True,
                               stdout=subprocess.PIPE).stdout.split(":")[0]
        self.assertEqual((found[2], found[3]), (owner, owner + "-dbgsym"))


if __name__ == "__main__":
    unittest.main()
