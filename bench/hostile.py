#!/usr/bin/env python3
"""Memory and time of captures of hostile streams (test/e2e/hostile.py): a few MiB that expand to a
GiB. The goals: --memory-limit holds, -s 4 ends within 6 s, SIGINT within 3 s.

    hostile.py [--size MIB] [--limit MIB] [--only stop|interrupt|recover] [CASE...]
"""

import argparse
import ctypes
import itertools
import os
import pathlib
import re
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "test/e2e"))
from hostile import CASES, PROTOCOL, Hostile, stream  # noqa: E402
from memory_group import MemoryGroup, NoGroups  # noqa: E402
from passing import journal_bytes, journal_records, journal_segments  # noqa: E402

TIDEMARK = ROOT / os.environ.get("BUILD", "build") / "tidemark"
MIB = 1 << 20
HANG = 180
STOP_GOAL, INTERRUPT_GOAL = 6.0, 3.0
GROUP = 300 * MIB
SEGMENT_HEADER, RECEIVED, PIECE = 48, 2, 32768  # of a journal


def xxh3(data, seed=0):
    library = ctypes.CDLL("libxxhash.so.0")
    library.XXH3_64bits_withSeed.restype = ctypes.c_uint64
    library.XXH3_64bits_withSeed.argtypes = (ctypes.c_char_p, ctypes.c_size_t, ctypes.c_uint64)
    return library.XXH3_64bits_withSeed(data, len(data), seed)


def anonymous(pid):
    """Anonymous resident bytes of a process and its children; 0 when it is gone."""
    try:
        with open(f"/proc/{pid}/status") as status:
            own = int(re.search(r"RssAnon:\s+(\d+)", status.read())[1]) * 1024
        with open(f"/proc/{pid}/task/{pid}/children") as children:
            return own + sum(map(anonymous, children.read().split()))
    except (OSError, TypeError):
        return 0


def watched(process, interrupt=None):
    """(exit status, most anonymous bytes, seconds since it began or was interrupted, those of all
    processors)."""
    began, most = time.monotonic(), 0
    while True:
        pid, status, usage = os.wait4(process.pid, os.WNOHANG)
        if pid:
            process.returncode = os.waitstatus_to_exitcode(status)
            break
        most = max(most, anonymous(process.pid))
        now = time.monotonic()
        if interrupt and now - began > interrupt:
            process.send_signal(signal.SIGINT)
            began, interrupt = now, None
        elif now - began > HANG:
            process.kill()
        time.sleep(0.005)
    return (process.returncode, most, time.monotonic() - began,
            usage.ru_utime + usage.ru_stime)


def capture(folder, port, *args):
    log = open(folder / "log", "w")
    return subprocess.Popen([TIDEMARK, "capture", "-f", "-o", folder / "x", "-p", str(port),
                             "--protocol", str(PROTOCOL), *args], stdout=log, stderr=log)


def stop(folder, client, limit):
    return watched(capture(folder, client.port, "--memory-limit", f"{limit}M", "-s", "4"))


def interrupt(folder, client, limit):
    return watched(capture(folder, client.port, "--memory-limit", f"{limit}M"), 1.5)


def first_segment(folder, port):
    """The first segment of a journal that a killed capture left, with its records up to the first
    of the client's bytes."""
    process = capture(folder, port)
    journal = folder / "x.journal"
    end = time.monotonic() + HANG
    while len(journal_bytes(journal)) == 0:
        if process.poll() is not None or time.monotonic() > end:
            raise SystemExit(f"hostile.py: no journal: {(folder / 'log').read_text()}")
        time.sleep(0.01)
    process.kill()
    process.wait()
    head = list(itertools.takewhile(lambda record: record[0] != RECEIVED, journal_records(journal)))
    segments = journal_segments(journal)
    for other in set(journal.iterdir()) - {segments[0]}:
        other.unlink()
    return segments[0], head


def fill_journal(folder, port, body):
    """A journal of all of `body`. Left to itself a capture is paced: it would take long to receive
    what expands, or end by its limit before. server/capture/journal_format.h has the format."""
    segment, head = first_segment(folder, port)
    header = segment.read_bytes()[:SEGMENT_HEADER]
    number, identity = struct.unpack_from("<IQ", header, 12)
    out = bytearray(header)
    for kind, payload in head + [(RECEIVED, body[i:i + PIECE]) for i in range(0, len(body), PIECE)]:
        where = struct.pack("<QQII", identity, number << 32 ^ len(out), kind, len(payload))
        out += struct.pack("<IIQ", len(payload), kind, xxh3(payload, xxh3(where))) + payload
    segment.write_bytes(out)
    if journal_bytes(segment.parent) != body:
        raise SystemExit("hostile.py: the journal does not hold the stream")
    return segment.parent


def recover(folder, client, limit):
    """Of the whole stream, in a container."""
    journal = fill_journal(folder, client.port, client.body)
    with MemoryGroup(GROUP) as group, open(folder / "log", "w") as log:
        return watched(subprocess.Popen(
            group.command(TIDEMARK, "recover", journal, "-f", "-o", folder / "y"), stdout=log,
            stderr=log))


KINDS = {"stop": (stop, STOP_GOAL), "interrupt": (interrupt, INTERRUPT_GOAL),
         "recover": (recover, None)}


def measure(kind, case, client, limit):
    run, goal = KINDS[kind]
    folder = pathlib.Path(tempfile.mkdtemp(prefix="tidemark-hostile-", dir=os.environ.get("TMPDIR")))
    try:
        status, most, seconds, used = run(folder, client, limit)
        words = (folder / "log").read_text(errors="replace").strip().splitlines()
    except NoGroups as why:
        print(f"{case:<22} {kind:<10} skipped: {why}")
        return
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    late = " LATE" if goal and seconds > goal else ""
    over = " OVER" if kind != "recover" and most > limit * MIB else ""
    print(f"{case:<22} {kind:<10} exit {status:>2} {most / MIB:7.1f} MiB {seconds:6.2f} s, {used:6.2f} s of processors{late}{over}",
          flush=True)
    if status or os.environ.get("V"):
        print("    " + "\n    ".join(words[-4:]), flush=True)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--size", type=float, default=4)
    parser.add_argument("--limit", type=int, default=200)
    parser.add_argument("--only", choices=KINDS, action="append")
    parser.add_argument("cases", nargs="*")
    given = parser.parse_args()
    for case in given.cases or CASES:
        client = Hostile(stream(case, int(given.size * MIB)))
        for kind in given.only or KINDS:
            measure(kind, case, client, given.limit)
        client.close()


if __name__ == "__main__":
    main()
