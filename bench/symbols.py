#!/usr/bin/env python3
"""Speed and memory of resolving 50,000 addresses of a program with more than 100 MB of debug
information, beside llvm-symbolizer on the same addresses and addr2line run as the official `update`
runs it; the second time from the cache of the index. Then a trace with as many frames goes through
`tidemark symbols`, and with OFFICIAL=DIR a part of it through the official `update -r` found there.

    /usr/bin/python3 bench/symbols.py [PROGRAM]

Times are wall-clock; each is the least of three, taken in turns."""

import os
import pathlib
import random
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import time

import symbol_image
from sizes import ROUNDS, scaled

ROOT = pathlib.Path(__file__).resolve().parents[1]
BUILD = ROOT / os.environ.get("BUILD", "build")
LOOKUP, OFFLINE_TRACE = BUILD / "bench" / "index_lookup", BUILD / "bench" / "offline_trace"
OFFICIAL = os.environ.get("OFFICIAL")
ADDRESSES = scaled(50_000)
COMMAND_BYTES = 8000  # of one addr2line command (update/src/OfflineSymbolResolverAddr2Line.cpp)
BATCHES = 2           # of these that are run; the time of all is extrapolated
OFFICIAL_PART = 10    # one frame in so many goes through the official tool, whose time is proportional


class Timed:
    """One finished process: seconds, CPU-seconds, peak memory in bytes, and its answers."""

    def __init__(self, args, asked, output, env=None):
        began = time.monotonic()
        with open(asked, "rb") as source, open(output, "wb") as sink:
            process = subprocess.Popen([str(a) for a in args], stdin=source, stdout=sink,
                                       stderr=subprocess.DEVNULL, env=env)
            _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        self.seconds = time.monotonic() - began
        self.cpu = usage.ru_utime + usage.ru_stime
        self.memory = usage.ru_maxrss * 1024
        if process.returncode != 0:
            sys.exit(f"{args[0]} failed with {process.returncode}")


def addresses(program):
    """Distinct ones, in functions chosen at random."""
    listing = subprocess.run(["nm", "-S", str(program)], check=True, stdout=subprocess.PIPE,
                             text=True).stdout
    functions = [(int(f[0], 16), int(f[1], 16)) for f in map(str.split, listing.splitlines())
                 if len(f) == 4 and f[2] in "tTwW" and int(f[1], 16) > 4]
    source, chosen = random.Random(1), set()
    while len(chosen) < ADDRESSES:
        start, size = source.choice(functions)
        chosen.add(start + source.randrange(size))
    return list(chosen)


def debug_bytes(program):
    text = subprocess.run(["readelf", "-SW", str(program)], check=True, stdout=subprocess.PIPE,
                          text=True).stdout
    return sum(int(size, 16) for size in
               re.findall(r"\.debug_\w+\s+\w+\s+\w+\s+\w+\s+(\w+)", text))


def show(name, runs, extra=""):
    best = min(runs, key=lambda r: r.seconds)
    print(f"  {name:34} {best.seconds:7.2f} s, {best.cpu:6.2f} CPU-s, peak "
          f"{max(r.memory for r in runs) / 2**20:6,.0f} MiB{extra}", flush=True)
    return best.seconds


def addr2line_seconds(program, asked):
    """Of all addresses, extrapolated from a few commands as long as those of the official tool."""
    batch = COMMAND_BYTES // len(f" {asked[0]:#x}")
    began = time.monotonic()
    for i in range(BATCHES):
        subprocess.run(["addr2line", "-C", "-f", "-e", str(program), "-a",
                        *map(hex, asked[i * batch:(i + 1) * batch])], check=True,
                       stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return (time.monotonic() - began) / BATCHES * -(-len(asked) // batch)


def bench(folder, program):
    asked_list = addresses(program)
    asked, cache, out = folder / "asked", folder / "cache", folder / "out"
    asked.write_text("".join(f"{a:#x}\n" for a in asked_list))
    sections = debug_bytes(program)
    print(f"{ADDRESSES:,} addresses, {sections / 2**20:,.0f} MiB of debug sections", flush=True)
    first, again, theirs = [], [], []
    llvm = shutil.which("llvm-symbolizer")
    for _ in range(ROUNDS):
        cache.unlink(missing_ok=True)
        first.append(Timed([LOOKUP, "-c", cache, program], asked, out))
        again.append(Timed([LOOKUP, "-c", cache, program], asked, out))
        if llvm:
            theirs.append(Timed([llvm, f"--obj={program}"], asked, out))
    mine = show("index and resolve", first,
                f", {max(r.memory for r in first) / sections:.2f}x the debug sections")
    cached = show("again, from the cache", again)
    print(f"  {'':34} {mine / cached:7.1f}x faster than the first time")
    if llvm:
        print(f"  {'':34} {mine / show('llvm-symbolizer', theirs):7.2f}x its time")
    seconds = addr2line_seconds(program, asked_list)
    print(f"  {'addr2line as official update does':34} {seconds:7.0f} s (from {BATCHES} commands): "
          f"{seconds / mine:.0f}x our time")


def offline_trace(folder, program, asked, name):
    listed, trace = folder / "listed", folder / name
    listed.write_text("".join(f"{a:#x}\n" for a in asked))
    with open(listed, "rb") as source:
        subprocess.run([str(OFFLINE_TRACE), str(program), str(trace)], stdin=source, check=True)
    return trace


def bench_trace(folder, program):
    """A trace whose frames have no names yet, as a client leaves it that resolves nothing."""
    asked, out = addresses(program), folder / "named.tracy"
    trace = offline_trace(folder, program, asked, "offline.tracy")
    cache = folder / "symbols"
    environment = {**os.environ, "XDG_CACHE_HOME": str(cache)}
    command = [BUILD / "tidemark", "symbols", trace, "-o", out, "-f", "--images-from-trace"]
    first, again = [], []
    for _ in range(ROUNDS):
        shutil.rmtree(cache, ignore_errors=True)
        first.append(Timed(command, os.devnull, os.devnull, environment))
        again.append(Timed(command, os.devnull, os.devnull, environment))
    mine = show(f"trace of {len(asked):,} frames: symbols", first)
    cached = show("again, from the cache", again)
    print(f"  {'':34} {mine / cached:7.1f}x faster than the first time")
    if OFFICIAL:
        part = offline_trace(folder, program, asked[::OFFICIAL_PART], "part.tracy")
        theirs = Timed([pathlib.Path(OFFICIAL) / "update", "-r", part, out], os.devnull, os.devnull)
        seconds = theirs.seconds * OFFICIAL_PART
        print(f"  {'official update -r':34} {seconds:7.0f} s (from one frame in {OFFICIAL_PART}): "
              f"{seconds / mine:.0f}x our time")


def main():
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with tempfile.TemporaryDirectory(prefix="tidemark-bench-") as name:
        folder = pathlib.Path(name)
        program = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else symbol_image.make(folder, copies=scaled(16))
        bench(folder, program)
        bench_trace(folder, program)


if __name__ == "__main__":
    main()
