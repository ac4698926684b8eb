#!/usr/bin/env python3
"""Runs all unit and end-to-end tests and ends with "N passed, N failed".

Unit tests are cmocka programs in $BUILD/test/unit; end-to-end tests are unittest files in test/e2e
that drive the built program. Each cmocka test and each unittest method counts as one."""

import argparse
import os
import pathlib
import re
import subprocess
import sys
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[1]
BUILD = ROOT / os.environ.get("BUILD", "build")
UNIT_LIMIT = 900


def run_unit(program):
    """(passed, failed, skipped) of one cmocka program."""
    began = time.monotonic()
    try:
        result = subprocess.run([str(program)], cwd=ROOT, stdout=subprocess.PIPE,
                                stderr=subprocess.STDOUT, text=True, errors="replace",
                                timeout=UNIT_LIMIT)
        output, status = result.stdout, result.returncode
    except subprocess.TimeoutExpired as late:
        output, status = (late.stdout or b"").decode(errors="replace") + "\ntimed out", 1
    passed = len(re.findall(r"^\[       OK \]", output, re.M))
    failed = len(set(re.findall(r"^\[  FAILED  \] (\w+)$", output, re.M)))
    skipped = sorted(set(re.findall(r"^\[  SKIPPED \] (\w+)$", output, re.M)))
    if status != 0 and failed == 0:
        failed = 1
    for name in skipped:
        print(f"skipped {program.name}: {name}")
    print(f"{'ok    ' if not failed else 'FAILED'} {program.name}: {passed} passed, "
          f"{time.monotonic() - began:.1f} s", flush=True)
    if failed:
        print(output)
    return passed, failed, len(skipped)


class Result(unittest.TextTestResult):
    """Counts, and prints one line for each test."""

    def startTest(self, test):
        super().startTest(test)
        self.began = time.monotonic()

    def line(self, word, test):
        print(f"{word} {test.id()}, {time.monotonic() - self.began:.1f} s", flush=True)

    def addSuccess(self, test):
        super().addSuccess(test)
        self.line("ok    ", test)

    def addError(self, test, err):
        super().addError(test, err)
        self.line("FAILED", test)

    def addFailure(self, test, err):
        super().addFailure(test, err)
        self.line("FAILED", test)

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        self.line(f"skipped ({reason})", test)


def run_e2e(pattern):
    sys.path.insert(0, str(ROOT / "test" / "e2e"))
    suite = unittest.defaultTestLoader.discover(str(ROOT / "test" / "e2e"), pattern=pattern)
    with open(os.devnull, "w") as quiet:
        result = unittest.TextTestRunner(stream=quiet, resultclass=Result).run(suite)
    for test, text in result.failures + result.errors:
        print(f"\n---- {test}\n{text}")
    bad = len(result.failures) + len(result.errors)
    return result.testsRun - bad - len(result.skipped), bad, len(result.skipped)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", choices=("unit", "e2e"))
    parser.add_argument("--pattern", default="test_*.py", help="end-to-end files to run")
    options = parser.parse_args()
    passed = failed = skipped = 0
    if options.only != "e2e":
        programs = sorted(p.with_suffix("") for p in (ROOT / "test" / "unit").glob("test_*.c"))
        for source in programs:
            p, f, s = run_unit(BUILD / "test" / "unit" / source.name)
            passed, failed, skipped = passed + p, failed + f, skipped + s
    if options.only != "unit":
        p, f, s = run_e2e(options.pattern)
        passed, failed, skipped = passed + p, failed + f, skipped + s
    print(f"{passed} passed, {failed} failed" + (f", {skipped} skipped" if skipped else ""))
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
