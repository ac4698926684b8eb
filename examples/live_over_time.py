#!/usr/bin/env python3
"""Live bytes of a trace at twenty times, from its allocations, and the checks of a budget.

    PYTHONPATH=python LD_LIBRARY_PATH=build examples/live_over_time.py run.tracy ['peak<512M' ...]

Exits with 1 when a budget does not hold, with 2 for a wrong command line or expression, with 3 when
the trace cannot be read. Needs numpy, and the package in python/ (pip install ./python)."""

import sys

import tidetrace

STEPS = 20


def live_at(blocks, time):
    """Bytes live at the end of that nanosecond."""
    held = (blocks["time"] <= time) & ((blocks["free_time"] == -1) | (blocks["free_time"] > time))
    return int(blocks["size"][held].sum())


def show(path, budgets):
    with tidetrace.open(path) as trace:
        blocks = trace.allocations()
        for step in range(1, STEPS + 1):
            time = trace.info.duration * step // STEPS
            print(f"{time:>15} ns {live_at(blocks, time):>15} bytes")
        checks = trace.verify(expect=budgets)
    for check in checks["checks"]:
        print("ok    " if check["holds"] else "FAILED", check["name"], check["detail"])
    return 0 if checks["holds"] else 1


def main():
    if len(sys.argv) < 2:
        print("usage: live_over_time.py TRACE [EXPRESSION...]", file=sys.stderr)
        return 2
    try:
        return show(sys.argv[1], sys.argv[2:])
    except (OSError, tidetrace.TraceError) as error:  # no such library, no such trace
        print(f"live_over_time: {error}", file=sys.stderr)
        return 2 if getattr(error, "code", None) == tidetrace.TraceError.USAGE else 3


if __name__ == "__main__":
    sys.exit(main())
