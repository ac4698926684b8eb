#!/usr/bin/env python3
"""Runs all unit and end-to-end tests and ends with "N passed, N failed".

Unit tests are cmocka programs in $BUILD/test/unit; end-to-end tests are unittest files in test/e2e
that drive the built program. Each cmocka test and each unittest method counts as one. Files run
beside each other, one for each processor; an end-to-end file with the line "ALONE = True" (it
listens to the whole host, say) runs after them, by itself."""

import argparse
import concurrent.futures
import os
import pathlib
import re
import signal
import subprocess
import sys
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[1]
BUILD = ROOT / os.environ.get("BUILD", "build")
UNIT_LIMIT = 3600
# What cannot pass in an emulator of programs, and why.
EMULATOR = ROOT / "test" / "emulator.tsv"
EMULATED = bool(os.environ.get("EMULATED"))
E2E_LIMIT = 3600  # of one test; what hangs must not hang who waits for all of them


def causes():
    """{test: why it cannot run in an emulator}; a test is file.name or file.Class.name, a file all its
    tests."""
    lines = [line.split("\t") for line in EMULATOR.read_text().splitlines() if line[:1] not in ("", "#")]
    return {test: cause for test, cause in lines}


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
    failing = set(re.findall(r"^\[  FAILED  \] (\w+)$", output, re.M))
    skipped = sorted(set(re.findall(r"^\[  SKIPPED \] (\w+)$", output, re.M)))
    why = causes() if EMULATED else {}
    excused = sorted(name for name in failing if f"{program.name}.{name}" in why)
    failed = len(failing) - len(excused)
    if status != 0 and not failing:
        failed = 1
    for name in skipped:
        print(f"skipped {program.name}: {name}")
    for name in excused:
        print(f"skipped {program.name}: {name} ({why[f'{program.name}.{name}']})")
    skipped += excused
    print(f"{'ok    ' if not failed else 'FAILED'} {program.name}: {passed} passed, "
          f"{time.monotonic() - began:.1f} s", flush=True)
    if failed:
        print(output)
    return passed, failed, len(skipped)


def hangs(*_):
    raise AssertionError(f"it is not done after {E2E_LIMIT} s")


class Result(unittest.TextTestResult):
    """Counts, and prints one line for each test."""

    passed = 0

    def startTest(self, test):
        super().startTest(test)
        self.began = time.monotonic()
        signal.signal(signal.SIGALRM, hangs)
        signal.alarm(E2E_LIMIT)

    def stopTest(self, test):
        signal.alarm(0)
        super().stopTest(test)

    def line(self, word, test):
        print(f"{word} {test.id()}, {time.monotonic() - self.began:.1f} s", flush=True)

    def addSuccess(self, test):
        super().addSuccess(test)
        self.passed += 1
        self.line("ok    ", test)

    def addError(self, test, err):
        super().addError(test, err)
        self.line("FAILED", test)

    def addFailure(self, test, err):
        super().addFailure(test, err)
        self.line("FAILED", test)

    def addSubTest(self, test, subtest, err):
        super().addSubTest(test, subtest, err)
        if err:
            self.line("FAILED", subtest)

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        self.line(f"skipped ({reason})", test)


def tests_of(suite):
    for test in suite:
        if isinstance(test, unittest.TestSuite):
            yield from tests_of(test)
        else:
            yield test


def run_e2e(pattern, listed):
    """listed: only tests that cannot pass in an emulator of programs."""
    sys.path.insert(0, str(ROOT / "test" / "e2e"))
    suite = unittest.defaultTestLoader.discover(str(ROOT / "test" / "e2e"), pattern=pattern)
    why = causes()
    if listed:
        suite = unittest.TestSuite(test for test in tests_of(suite)
                                   if test.id() in why or test.id().split(".")[0] in why)
    for test in tests_of(suite):
        cause = why.get(test.id()) or why.get(test.id().split(".")[0])
        if cause and EMULATED:
            name = test.id().rpartition(".")[2]
            setattr(test, name, unittest.skip(cause)(getattr(test, name)))
    with open(os.devnull, "w") as quiet:
        result = unittest.TextTestRunner(stream=quiet, resultclass=Result).run(suite)
    for test, text in result.failures + result.errors:
        print(f"\n---- {test}\n{text}")
    # A test of which several parts failed is one.
    bad = len({getattr(test, "test_case", test).id()
               for test, _ in result.failures + result.errors})
    return result.passed, bad, len(result.skipped)


def run_alone(job):
    """(output, status) of a process of this script for one unit program or end-to-end file."""
    only, pattern, *listed = job
    result = subprocess.run([sys.executable, __file__, "--only", only, "--pattern", pattern, *listed],
                            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                            errors="replace")
    return result.stdout, result.returncode


def jobs_of(only, pattern, names, listed):
    """The jobs that may run beside each other, longest first, and those that must be alone."""
    beside, alone = [("e2e", f"test_{name}.py") for name in names], []
    if only != "e2e":
        beside += [("unit", p.name) for p in sorted((ROOT / "test" / "unit").glob("test_*.c"))]
    if only != "unit":
        for path in sorted((ROOT / "test" / "e2e").glob(pattern), key=lambda p: -p.stat().st_size):
            is_alone = re.search(r"^ALONE = True", path.read_text(), re.M)
            (alone if is_alone else beside).append(("e2e", path.name))
    if listed:
        files = {test.split(".")[0] for test in causes()}
        beside, alone = ([(*job, "--listed") for job in jobs if pathlib.Path(job[1]).stem in files]
                         for jobs in (beside, alone))
    return beside, alone


def run_all(only, pattern, names, listed):
    """Runs every job in a process of its own; what failed is told once more at the end."""
    beside, alone = jobs_of(only, pattern, names, listed)
    total, reports = [0, 0, 0], []

    def take(job, answer):
        output, status = answer
        counts = re.search(r"^(\d+) passed, (\d+) failed(?:, (\d+) skipped)?\n?\Z", output, re.M)
        found = [int(n or 0) for n in counts.groups()] if counts else [0, 1, 0]
        if status != 0 and found[1] == 0:
            found[1] = 1
        print(output[:counts.start()] if counts else output, end="", flush=True)
        if found[1]:
            reports.append(f"==== {job[1]}\n{output}")
        for i, n in enumerate(found):
            total[i] += n

    # Most of them wait more than they compute.
    with concurrent.futures.ThreadPoolExecutor(2 * (os.cpu_count() or 1)) as pool:
        running = {pool.submit(run_alone, job): job for job in beside}
        for done in concurrent.futures.as_completed(running):
            take(running[done], done.result())
    for job in alone:
        take(job, run_alone(job))
    for report in reports:
        print("\n".join(line for line in report.splitlines()
                        if not line.startswith(("ok ", "skipped", "known failure"))))
    return total


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", choices=("unit", "e2e"))
    parser.add_argument("--pattern", help="only this end-to-end file or unit test's source, here")
    parser.add_argument("--beside", default="",
                        help="with --only unit: these end-to-end tests, too (report,update)")
    parser.add_argument("--listed", action="store_true",
                        help="only what an emulator of programs lacks something for: test/emulator.tsv")
    options = parser.parse_args()
    if options.pattern and options.only == "unit":
        program = BUILD / "test" / "unit" / pathlib.Path(options.pattern).stem
        passed, failed, skipped = run_unit(program)
    elif options.pattern:
        passed, failed, skipped = run_e2e(options.pattern, options.listed)
    else:
        passed, failed, skipped = run_all(options.only, "test_*.py",
                                          list(filter(None, options.beside.split(","))), options.listed)
    print(f"{passed} passed, {failed} failed" + (f", {skipped} skipped" if skipped else ""))
    # A file may have nothing but tests for which something is missing here.
    return 1 if failed or not passed + skipped else 0


if __name__ == "__main__":
    sys.exit(main())
