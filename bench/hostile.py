#!/usr/bin/env python3
"""Memory and time of captures of hostile streams (test/e2e/hostile.py): a few MiB that expand to a
GiB. The goals: --memory-limit holds, -s 4 ends within 6 s, SIGINT within 3 s, and a daemon of 500 MiB
with three clients, of each case and the two after it, stays within that. Exits with 1 if one is
missed.

    hostile.py [--size MIB] [--limit MIB] [--only stop|interrupt|recover|daemon] [CASE...]
"""

import argparse
import ctypes
import itertools
import os
import pathlib
import re
import shutil
import signal
import socket
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
DAEMON, DAEMON_CLIENTS, DAEMON_SECONDS = 500, 3, 8
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


def high_water(pid, found):
    """Notes VmHWM of a process and its descendants in `found`, by process."""
    try:
        with open(f"/proc/{pid}/status") as status:
            found[pid] = int(re.search(r"VmHWM:\s+(\d+)", status.read())[1]) * 1024
        with open(f"/proc/{pid}/task/{pid}/children") as children:
            for child in children.read().split():
                high_water(child, found)
    except (OSError, TypeError):
        pass


def free_port():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


def daemon(case, size):
    """All captures of a daemon together. VmHWM has the pages of files, too, which no limit is for."""
    names = list(CASES)
    cases = [names[(names.index(case) + i) % len(names)] for i in range(DAEMON_CLIENTS)]
    clients = [Hostile(stream(c, size)) for c in cases]
    folder = pathlib.Path(tempfile.mkdtemp(prefix="tidemark-hostile-", dir=os.environ.get("TMPDIR")))
    targets = [a for c in clients for a in ("--target", f"127.0.0.1:{c.port}")]
    most, marks = 0, {}
    try:
        with open(folder / "log", "w") as log:
            process = subprocess.Popen(
                [TIDEMARK, "daemon", "-o", folder / "traces", "-p", str(free_port()), "--local", "--no-recover",
                 "--memory-limit", f"{DAEMON}M", *targets], stdout=log, stderr=log)
        began = time.monotonic()
        while time.monotonic() - began < DAEMON_SECONDS:
            most = max(most, anonymous(process.pid))
            high_water(process.pid, marks)
            time.sleep(0.005)
        process.send_signal(signal.SIGINT)
        status, after, seconds, _ = watched(process)
        words = (folder / "log").read_text(errors="replace").strip().splitlines()
    finally:
        for client in clients:
            client.close()
        shutil.rmtree(folder, ignore_errors=True)
    most = max(most, after)
    idle = len(marks) <= DAEMON_CLIENTS  # each client has a process, beside the daemon itself
    bad = status != 0 or idle or most > DAEMON * MIB
    print(f"{case:<22} {'daemon':<10} exit {status:>2} {most / MIB:7.1f} MiB, VmHWM of "
          f"{len(marks)} processes {sum(marks.values()) / MIB:.1f} MiB, end after {seconds:.2f} s"
          f"{' OVER' if most > DAEMON * MIB else ''}{' IDLE' if idle else ''}", flush=True)
    if bad or os.environ.get("V"):
        print("    " + "\n    ".join(words[-4:]), flush=True)
    return not bad


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
        return True
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    late = " LATE" if goal and seconds > goal else ""
    over = " OVER" if kind != "recover" and most > limit * MIB else ""
    print(f"{case:<22} {kind:<10} exit {status:>2} {most / MIB:7.1f} MiB {seconds:6.2f} s, {used:6.2f} s of processors{late}{over}",
          flush=True)
    if status or os.environ.get("V"):
        print("    " + "\n    ".join(words[-4:]), flush=True)
    return not late and not over


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--size", type=float, default=4)
    parser.add_argument("--limit", type=int, default=200)
    parser.add_argument("--only", choices=[*KINDS, "daemon"], action="append")
    parser.add_argument("cases", nargs="*")
    given = parser.parse_args()
    good = True
    for case in given.cases or CASES:
        client = Hostile(stream(case, int(given.size * MIB)))
        for kind in given.only or KINDS:
            if kind in KINDS:
                good &= measure(kind, case, client, given.limit)
        client.close()
        if not given.only or "daemon" in given.only:
            good &= daemon(case, int(given.size * MIB))
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
