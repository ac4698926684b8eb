#!/usr/bin/env python3
"""Plots the bytes that each pool of a trace had in use over time, as SVG.

    PYTHONPATH=python LD_LIBRARY_PATH=build examples/plot_memory.py run.tracy memory.svg

Needs numpy, and the package in python/ (pip install ./python)."""

import sys
from xml.sax.saxutils import escape

import numpy
import tidetrace

WIDTH, HEIGHT, MARGIN = 1000, 300, 40
COLOURS = ("#1f77b4", "#ff7f0e", "#2ca02c", "#d62728", "#9467bd", "#8c564b", "#e377c2")


def use_of(blocks, ends):
    """The highest use in each of the steps of time that end there."""
    freed = blocks[blocks["free_time"] != -1]
    times = numpy.concatenate([blocks["time"], freed["free_time"]])
    change = numpy.concatenate([blocks["size"].astype("i8"), -freed["size"].astype("i8")])
    order = numpy.argsort(times, kind="stable")
    use = numpy.concatenate([[0], numpy.cumsum(change[order])])
    last = numpy.searchsorted(times[order], ends, side="right")
    first = numpy.concatenate([[0], last[:-1]])
    return numpy.array([use[i:k + 1].max() for i, k in zip(first, last)])


def picture(trace):
    """The lines of an SVG file."""
    blocks, pools, duration = trace.allocations(), trace.pools, max(trace.info.duration, 1)
    ends = numpy.linspace(0, duration, WIDTH)
    uses = [use_of(blocks[blocks["pool"] == i], ends) for i in range(len(pools))]
    peak = max([int(use.max()) for use in uses] + [1])
    yield (f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH + 2 * MARGIN}" '
           f'height="{HEIGHT + 2 * MARGIN}" font-family="sans-serif" font-size="12">')
    yield (f'<text x="{MARGIN}" y="20">{escape(trace.info.capture_name)}: up to '
           f'{peak / 2**20:.2f} MiB within {duration / 1e9:.3f} s</text>')
    for i, (pool, use) in enumerate(zip(pools, uses)):
        points = " ".join(f"{MARGIN + x},{MARGIN + HEIGHT * (1 - y / peak):.1f}"
                          for x, y in enumerate(use))
        colour = COLOURS[i % len(COLOURS)]
        yield f'<polyline fill="none" stroke="{colour}" points="{points}"/>'
        yield (f'<text x="{MARGIN + 10}" y="{MARGIN + 15 * (i + 1)}" fill="{colour}">'
               f'{escape(pool.name)}</text>')
    yield "</svg>"


def main():
    if len(sys.argv) != 3:
        print("usage: plot_memory.py TRACE PICTURE", file=sys.stderr)
        return 2
    with tidetrace.open(sys.argv[1]) as trace, open(sys.argv[2], "w", encoding="utf-8") as out:
        out.writelines(line + "\n" for line in picture(trace))
    return 0


if __name__ == "__main__":
    sys.exit(main())
