#!/usr/bin/env python3
"""Records what test_analysis_runs.c draws samples from: 64 runs each of a program whose peak depends on
chance, of a stable one, and of the stable one with planted regressions. Writes fixtures/noise.tsv, with
a line "PROGRAM, FIGURE, VALUE OF EACH RUN" for each total of the pool and the peak of each function.
Takes minutes; no test runs it."""

import argparse
import json
import os
import pathlib
import subprocess
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[1]
BUILD = ROOT / os.environ.get("BUILD", "build")
PROGRAMS = {"queue": ("queue",), "stable": ("stable", "0"), "stable+5%": ("stable", "5"),
            "function+5%": ("function", "5")}
TOTALS = ("peak_bytes", "live_bytes", "live_allocations", "total_bytes", "allocations",
          "temporary_allocations")


def record(folder, runs, arguments):
    """The figures of so many runs of the program."""
    for number in range(runs):
        trace = folder / f"{number}.tracy"
        subprocess.run([BUILD / "tidemark", "run", "-f", "-o", trace, "--report", "none", "--",
                        BUILD / "bench" / "noisy", *arguments], check=True,
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        subprocess.run([BUILD / "tidemark", "baseline", folder, trace, "--keep", "0"], check=True,
                       stdout=subprocess.DEVNULL)
        trace.unlink()
    return [json.loads(path.read_text()) for path in sorted((folder / "main").glob("*.json"))]


def write(out, program, runs):
    peaks = [{} for _ in runs]
    for run, sums in zip(runs, peaks):
        for site in run["sites"]:
            name = site["function"] or "?"
            sums[name] = sums.get(name, 0) + site["peak_bytes"]
    rows = {f"total {key}": [run["pools"][0][key] for run in runs] for key in TOTALS}
    for name in sorted(set().union(*peaks)):
        rows[name] = [sums.get(name, 0) for sums in peaks]
    for name, values in rows.items():
        print(program, name, *values, sep="\t", file=out)


def main():
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--runs", type=int, default=64, help="of each program (64)")
    options.add_argument("--output", default=ROOT / "fixtures" / "noise.tsv")
    options = options.parse_args()
    with open(options.output, "w", encoding="utf-8") as out:
        for program, arguments in PROGRAMS.items():
            with tempfile.TemporaryDirectory(prefix="tidemark-") as folder:
                runs = record(pathlib.Path(folder), options.runs, arguments)
            write(out, program, runs)
            peaks = [run["pools"][0]["peak_bytes"] / 1e6 for run in runs]
            print(f"{program:16} {len(runs)} runs, peak {min(peaks):.1f} to {max(peaks):.1f} MB")


if __name__ == "__main__":
    main()
