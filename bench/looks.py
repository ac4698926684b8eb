#!/usr/bin/env python3
"""What `tidemark run` takes to see the memory of a process from outside.

    /usr/bin/python3 bench/looks.py

Looks at the pages: milliseconds for each GiB, the least of BENCH_ROUNDS (3), beside the time in which
the kernel gives the same pages from /proc/PID/pagemap alone. Readings of the kernel's
counts: processor time that `--memory-plots 10` adds, as a share of one core."""

import json
import mmap
import os
import pathlib
import subprocess
import sys
import tempfile
import time

from sizes import ROUNDS, scaled

TIDEMARK = pathlib.Path(__file__).resolve().parents[1] / os.environ.get("BUILD", "build") / "tidemark"
MIB, GIB, PAGE = 1 << 20, 1 << 30, mmap.PAGESIZE
SIZE = scaled(1024) * MIB
SECONDS = max(2, scaled(20))
LOOK_GOAL, READING_GOAL = 50, 0.5  # ms for each GiB; percent of a core
PROGRAMS = {
    "one block": f"x = bytearray(b'x') * {SIZE}",
    "every second of small blocks": f"x = [bytearray(1000) for _ in range({SIZE} // 1060)][::2]",
}


def run_on(script, *options):
    """Processor seconds of the recorder and the program, and of the clock."""
    began = time.monotonic()
    process = subprocess.Popen([TIDEMARK, "run", "-f", "--report", "none", "--no-debuginfod", *options,
                                "--", "/usr/bin/python3", "-c", script], stderr=subprocess.DEVNULL)
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        sys.exit(f"tidemark run failed: {process.returncode}")
    return used.ru_utime + used.ru_stime, time.monotonic() - began


def kernels_time():
    """Seconds in which pagemap gives a GiB of touched pages, at best."""
    best = float("inf")
    with mmap.mmap(-1, SIZE) as area, open("/proc/self/maps", encoding="ascii") as maps, \
            open("/proc/self/pagemap", "rb", buffering=0) as pagemap:
        for at in range(0, SIZE, PAGE):
            area[at] = 1
        start = next(int(line.split("-")[0], 16) for line in maps
                     if int(line.split("-")[1].split()[0], 16) - int(line.split("-")[0], 16) >= SIZE)
        for _ in range(ROUNDS):
            began = time.monotonic()
            for at in range(0, SIZE, 64 * MIB):
                os.pread(pagemap.fileno(), 64 * MIB // PAGE * 8, (start + at) // PAGE * 8)
            best = min(best, time.monotonic() - began)
    return best * GIB / SIZE


def verdict(value, goal):
    return "" if value <= goal else f"  more than {goal}"


def bench_looks(folder):
    print(f"a look at the pages of {SIZE / GIB:.2f} GiB, ms for each GiB; goal {LOOK_GOAL}")
    for name, script in PROGRAMS.items():
        best = float("inf")
        for _ in range(ROUNDS):
            run_on(script, "-o", folder / "x.tracy")
            result = subprocess.run([TIDEMARK, "report", "--resident", "--format", "json",
                                     folder / "x.tracy"], stdout=subprocess.PIPE, text=True)
            if result.returncode:
                print(f"  {name}: not done: the pages cannot be read here")
                return
            look = json.loads(result.stdout)
            best = min(best, look["look_ns"] / 1e6 * GIB / look["resident"]["bytes"])
        print(f"  {name:30} {best:6.1f}{verdict(best, LOOK_GOAL)}", flush=True)
    print(f"  limit: pagemap alone           {kernels_time() * 1e3:6.1f}", flush=True)


def bench_readings(folder):
    """The program sleeps, so that what differs is the readings."""
    script = f"x = bytearray(b'x') * {64 * MIB}\nimport time; time.sleep({SECONDS})"
    used = {hz: min(run_on(script, "-o", folder / "x.tracy", "--no-resident", "--memory-plots", str(hz))
                    for _ in range(ROUNDS)) for hz in (0, 10)}
    share = (used[10][0] - used[0][0]) / used[10][1] * 100
    print(f"10 readings per second of 64 MiB, percent of a core; goal {READING_GOAL}\n"
          f"  {'':30} {share:6.2f}{verdict(share, READING_GOAL)}", flush=True)


def main():
    with tempfile.TemporaryDirectory(prefix="tidemark-bench-") as name:
        bench_looks(pathlib.Path(name))
        bench_readings(pathlib.Path(name))


if __name__ == "__main__":
    main()
