#!/usr/bin/env python3
"""What Python functions in call stacks cost: the processor time of a recorded program's own thread, in
a loop of allocations below so many Python functions, on one line and on two lines in turns.

    /usr/bin/python3 bench/python_frames.py [PYTHON…]

Nanoseconds for each allocation and its free. `program`: as it is; `recording`: what recording without
Python functions (--no-python) adds; `functions`: what they add to that, also in percent of it. The
runs take turns; the least time of BENCH_ROUNDS (3) rounds of each counts."""

import itertools
import os
import pathlib
import subprocess
import sys
import tempfile

from sizes import ROUNDS, scaled

ROOT = pathlib.Path(__file__).resolve().parents[1]
TIDEMARK = ROOT / os.environ.get("BUILD", "build") / "tidemark"
DEPTHS = (3, 8, 15, 25, 50)
COUNT, TIMES = 1000, scaled(300)  # short, so that some are not disturbed
RUN = ["run", "-f", "--report", "none", "--no-debuginfod"]

# Blocks too large for free lists, so each is one malloc and one free.
SCRIPT = """
import sys, time
lines, depth, count, times = map(int, sys.argv[1:])
def one():
    for j in range(count):
        bytearray(600)
def two():
    for j in range(count // 2):
        bytearray(600)
        bytearray(601)
def loop():
    least, calls = 1e9, one if lines == 1 else two
    for i in range(times):
        began = time.thread_time()
        calls()
        least = min(least, time.thread_time() - began)
    return least
def deeper(n):
    return deeper(n - 1) if n else loop()
print(loop() if depth < 4 else deeper(depth - 4))
"""


def nanoseconds(command):
    result = subprocess.run([str(a) for a in command], capture_output=True, text=True)
    if result.returncode != 0:
        sys.exit(f"{command[0]} failed: {result.stderr}")
    return float(result.stdout) * 1e9 / COUNT


def main():
    pythons = sys.argv[1:] or ["/usr/bin/python3"]
    print(f"{'':44}{'lines':>6}{'depth':>6}{'program':>9}{'recording':>11}{'functions':>11}")
    with tempfile.TemporaryDirectory(prefix="tidemark-") as folder:
        script, trace = pathlib.Path(folder, "script.py"), pathlib.Path(folder, "out.tracy")
        script.write_text(SCRIPT)
        recorded = [TIDEMARK, *RUN, "-o", trace]
        for python in pythons:
            for lines, depth in itertools.product((1, 2), DEPTHS):
                command = [python, script, lines, depth, COUNT, TIMES]
                ways = (command, [*recorded, "--no-python", "--", *command],
                        [*recorded, "--", *command])
                times = [[nanoseconds(w) for w in ways] for _ in range(ROUNDS)]
                program, plain, mixed = (min(column) for column in zip(*times))
                print(f"{python:44}{lines:6}{depth:6}{program:9.0f}{plain - program:11.0f}"
                      f"{mixed - plain:11.0f} {100 * (mixed - plain) / (plain - program):4.0f} %",
                      flush=True)


if __name__ == "__main__":
    main()
