#!/usr/bin/env python3
"""What recording costs: programs as they are, recorded by `tidemark run`, and by heaptrack where it
is installed, in turns, at the same depth of call stacks.

    /usr/bin/python3 bench/programs.py

Times are wall-clock, each the least of BENCH_ROUNDS (3). `program`: until the program itself ended,
with its recording on disk. `trace`: until the trace is on disk. `figures`: the same with --figures.
`sampled`: the program, sampled at
512 KiB. For heaptrack there is one time, until all its processes ended. Memory is the highest
resident size of the program's own process, looked at every few milliseconds."""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time

from sizes import ROUNDS, scaled

ROOT = pathlib.Path(__file__).resolve().parents[1]
BUILD = ROOT / os.environ.get("BUILD", "build")
TIDEMARK, LIBRARY, PAIRS = BUILD / "tidemark", BUILD / "libtidemark.so", BUILD / "bench" / "pairs"
PAIRS_MADE = scaled(5_000_000)
DEPTH = 64  # heaptrack's
PYTHON = "/usr/bin/python3"

SCRIPT = """
import collections, json
table = collections.defaultdict(list)
for i in range(60000):
    table[i % 100].append({"number": i, "text": str(i)})
print(len(json.loads(json.dumps(table))))
"""
ROWS = """
import sqlite3
with sqlite3.connect(":memory:") as db:
    db.execute("create table t (a integer primary key, b text)")
    db.executemany("insert into t (b) values (?)", ((str(i) * 8,) for i in range(100000)))
    print(db.execute("select count(distinct b) from t").fetchone()[0])
"""


def programs(folder):
    """(name, command, environment) of those that are here. heaptrack wants commands of one line."""
    (folder / "rows.py").write_text(ROWS)
    (folder / "script.py").write_text(SCRIPT)
    yield f"{PAIRS_MADE:,} pairs, 1 thread", [PAIRS, 1, PAIRS_MADE], {}
    yield f"{PAIRS_MADE:,} pairs, 16 threads", [PAIRS, 16, PAIRS_MADE], {}
    yield "sqlite, 100,000 rows", [PYTHON, folder / "rows.py"], {}
    yield "python3, malloc", [PYTHON, folder / "script.py"], {"PYTHONMALLOC": "malloc"}
    if shutil.which("git") and (ROOT / ".git").exists():
        yield "git log --stat", ["git", "-C", ROOT, "log", "--stat", "-200"], {}


def timed(command, environment):
    began = time.monotonic()
    result = subprocess.run([str(a) for a in command], stdout=subprocess.DEVNULL,
                            stderr=subprocess.PIPE, text=True, env=dict(os.environ, **environment))
    if result.returncode != 0:
        sys.exit(f"{command[0]} failed: {result.stderr}")
    return time.monotonic() - began


def below(pid):
    """The process and all that it began."""
    yield pid
    for children in pathlib.Path(f"/proc/{pid}/task").glob("*/children"):
        try:
            for child in children.read_text().split():
                yield from below(int(child))
        except OSError:
            pass


def peak_of(pid, program):
    """The highest resident size so far of a process that runs that program, 0 for any other."""
    try:
        if os.readlink(f"/proc/{pid}/exe") != program:
            return 0
        found = re.search(r"^VmHWM:\s+(\d+) kB$",
                          pathlib.Path(f"/proc/{pid}/status").read_text(), re.M)
    except OSError:
        return 0
    return int(found[1]) << 10 if found else 0


def resident(command, environment, program):
    """The highest resident size of the program while the command runs, in bytes."""
    program, most = os.path.realpath(shutil.which(program)), 0
    process = subprocess.Popen([str(a) for a in command], stdout=subprocess.DEVNULL,
                               stderr=subprocess.DEVNULL, env=dict(os.environ, **environment))
    while process.poll() is None:
        most = max([most, *(peak_of(pid, program) for pid in below(process.pid))])
        time.sleep(0.002)
    return most


def preloaded(folder, options):
    """The environment that records into a file, without a reader."""
    recording = folder / "recording"
    recording.unlink(missing_ok=True)
    return {"LD_PRELOAD": str(LIBRARY), "TIDEMARK_FILE": str(recording),
            "TIDEMARK_OPTIONS": options}


def measure(command, environment, folder):
    """
    The least of each kind of time, in seconds; the sizes of trace and heaptrack's file in bytes; the
    program's memory as it is, recorded, and under heaptrack.
    """
    trace, only, heap = folder / "out.tracy", folder / "only.tracy", folder / "heap"
    commands = {"native": command,
                "trace": [TIDEMARK, "run", "-f", "-o", trace, "--depth", DEPTH, "--report", "none",
                          "--", *command],
                "figures": [TIDEMARK, "run", "--figures", "-f", "-o", only, "--depth", DEPTH,
                            "--report", "none", "--", *command]}
    if shutil.which("heaptrack"):
        commands["heaptrack"] = ["heaptrack", "-o", heap, *command]
    ways = {
        "native": lambda: timed(commands["native"], environment),
        "program": lambda: timed(command, {**environment, **preloaded(folder, f"depth={DEPTH}")}),
        "trace": lambda: timed(commands["trace"], environment),
        "figures": lambda: timed(commands["figures"], environment),
        "sampled": lambda: timed(command, {**environment,
                                           **preloaded(folder, f"depth={DEPTH},sample=524288")}),
    }
    if "heaptrack" in commands:
        ways["heaptrack"] = lambda: timed(commands["heaptrack"], environment)
    least = {}
    for _ in range(ROUNDS):
        for way, run in ways.items():
            seconds = run()
            least[way] = min(least.get(way, seconds), seconds)
    memory = [resident(c, environment, str(command[0])) for c in commands.values()]
    sizes = [p.stat().st_size for p in (trace, only, *folder.glob("heap.*"))]
    return least, sizes, memory


def main():
    print(f"recording programs, call stacks of {DEPTH} frames, least of {ROUNDS}\n")
    print(f"{'':28}{'native':>9}{'program':>9}{'trace':>9}{'figures':>9}{'sampled':>9}{'heaptrack':>11}"
          f"{'added':>9}{'whole':>8}  size  memory added")
    with tempfile.TemporaryDirectory(prefix="tidemark-") as folder:
        folder = pathlib.Path(folder)
        for name, command, environment in programs(folder):
            least, sizes, memory = measure(command, environment, folder)
            row = "".join(f"{least[w]:9.3f}"
                          for w in ("native", "program", "trace", "figures", "sampled"))
            if "heaptrack" in least:
                other = least["heaptrack"] - least["native"]
                added = (least["program"] - least["native"]) / other if other > 0 else float("nan")
                row += (f"{least['heaptrack']:11.3f}{added:8.2f}x"
                        f"{least['trace'] / least['heaptrack']:7.2f}x")
            else:
                row += f"{'-':>11}{'-':>9}{'-':>8}"
            more = " ".join(f"{(m - memory[0]) / 2**20:.1f}" for m in memory[1:])
            size = " ".join(f"{n / 1024:.0f}" for n in sizes)
            print(f"{name:28}{row}  {size} KiB  {more} MiB", flush=True)
    print("\nadded: what recording adds to the program, over what heaptrack adds; whole: until the\n"
          "trace is on disk, over heaptrack's whole time; size: the trace, that of figures only, and\n"
          "heaptrack's file; memory added: by run, by run --figures, by heaptrack")


if __name__ == "__main__":
    main()
