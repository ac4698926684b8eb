#!/usr/bin/env python3
"""The questions of examples/fleet to 100,000 traces, in DuckDB and in ClickHouse where they are there.

    usage: fleet.py [TRACES]

Prints time on the clock and processor time of the fastest of ROUNDS answers; those of DuckDB include
the start of node. Rows come from seeds (fleet_rows.c). Answers that do not name what was planted end
it with 1."""

import json
import os
import pathlib
import resource
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "test" / "e2e"))
from test_export_consumers import CONSUMERS  # noqa: E402
from test_push import CLICKHOUSE, FLEET, ClickHouse  # noqa: E402

ROUNDS = 3
ROWS = ROOT / os.environ.get("BUILD", "build") / "bench" / "fleet_rows"
PLANTED = {"which_build": ["build-13", "decode_texture"], "highest_peaks": ["build-1"],
           "leaks_of_hosts": ["build_mesh", "l40"]}


def children():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def of_server(pid):
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def measure(engine, ask, cpu):
    for name, planted in PLANTED.items():
        best = None
        for _ in range(ROUNDS):
            before, begin = cpu(), time.monotonic()
            first = ask((FLEET / f"{name}.{engine}.sql").read_text())[0]
            took = time.monotonic() - begin, cpu() - before
            best = min(best or took, took)
            if not all(any(str(cell).startswith(p) for cell in first) for p in planted):
                sys.exit(f"{engine}: {name}: {first}")
        print(f"{engine:<11} {name:<15} {best[0]:6.2f} s, processor {best[1]:5.2f} s", flush=True)


def duckdb(folder, traces):
    print(subprocess.run([ROWS, f"files={folder}", traces], check=True, stdout=subprocess.PIPE,
                         text=True).stdout.strip())
    measure("duckdb", lambda query: json.loads(subprocess.run(
        ["node", CONSUMERS / "duckdb.mjs"], input=json.dumps([query]), check=True, text=True,
        stdout=subprocess.PIPE, cwd=folder).stdout)[0], children)


def clickhouse(traces):
    """In the server that the tests start."""
    ClickHouse.setUpClass()
    server = ClickHouse()
    subprocess.run([ROWS, f"clickhouse={server.url}/fleet", traces], check=True,
                   stdout=subprocess.DEVNULL)
    pid = ClickHouse.server.pid
    measure("clickhouse", lambda query: server.ask(query, "fleet"), lambda: of_server(pid))


def main():
    traces = sys.argv[1] if len(sys.argv) > 1 else "100000"
    try:
        if (CONSUMERS / "node_modules").exists():
            with tempfile.TemporaryDirectory() as folder:
                duckdb(folder, traces)
        if CLICKHOUSE:
            clickhouse(traces)
    finally:
        ClickHouse.doClassCleanups()


main()
