"""A client with more threads than a trace can number: the capture goes on in further traces, which
begin with what is still needed. Together they say just what the client did, event by event, also
when the capture is killed on the way."""

import re
import struct
import subprocess

from clients import frame_name, keyed_text, string, thread_name
from passing import wait_for
from test_capture import TERMINATE, FakeClient, alloc, callstack, frame, free
from test_recover import frames_said
from test_rotate import PART
from tools import LIMIT, TIDEMARK, Case, run
from tracyfile import Trace

THREADS = 140000
PER_FRAME = 1000
FUNCTIONS = 50
KEPT = 97  # each so many-th block stays for as many threads as there are in a part


def address(n):
    return 0x401000 + 16 * (n % FUNCTIONS)


def stack_of(n):
    return (address(n), address(n * n + 1), address(n // 7))


class Program:
    """Each thread allocates a block and frees it, but for some, which a far later one frees, or none
    does. Early threads come back at the end; no name is told twice."""

    def __init__(self):
        self.time = 0
        self.blocks = {}  # address -> [size, time, freed, stack, stack of the free (none), thread, freer]
        self.ends = []    # events told by the end of each frame
        self.events = []  # (block, time of its free or None): in order
        self.frames = [self.beginning()]
        for first in range(0, THREADS, PER_FRAME):
            self.frames.append(b"".join(self.thread(i) for i in range(first, first + PER_FRAME)))
            self.ends.append(len(self.events))
        self.frames.append(b"".join(self.allocate(i, 1 << 40 | i) for i in range(0, THREADS, 5000)))
        self.ends.append(len(self.events))

    def beginning(self):
        self.ends.append(0)
        names = b"".join(frame_name(address(i), b"function %d" % i, b"x.c", i)
                         for i in range(FUNCTIONS))
        return names + string(0x77, b"pool")

    def tick(self):
        self.time += 10
        return 10

    def allocate(self, n, ptr):
        step, thread = self.tick(), 1000 + n
        self.blocks[ptr] = [1 + n % 1000, self.time, None, stack_of(n), None, thread, None]
        self.events.append((ptr, None))
        return callstack(*stack_of(n)) + alloc(step, thread, ptr, 1 + n % 1000)

    def release(self, n, ptr):
        step, thread = self.tick(), 1000 + n
        self.blocks[ptr][2], self.blocks[ptr][6] = self.time, thread
        self.events.append((ptr, self.time))
        return free(step, thread, ptr)

    def thread(self, n):
        items = thread_name(1000 + n, b"worker %d" % n) + self.allocate(n, 0x1000 + 64 * n)
        if n % KEPT:
            return items + self.release(n, 0x1000 + 64 * n)
        late = n - 70000 // KEPT * KEPT
        return items + (self.release(n, 0x1000 + 64 * late) if late >= 0 and late % 2 else b"")

    def body(self):
        return b"".join(frame(items) for items in self.frames)

    def until(self, frames):
        """What is to be in the traces when so many frames had come."""
        done = self.events[: self.ends[frames - 1]] if frames else []
        told = {}
        for ptr, freed in done:
            block = list(self.blocks[ptr])
            if freed is None:
                block[2] = block[6] = None
            told[ptr] = tuple(block)
        return told


def switch(step, old, new):
    """A processor changes threads, and the client tells who the new one is."""
    ids = struct.pack("<BqIIBBBBbb", 48, step, old, new, 0, 1, 1, 0, 0, 0)
    return ids + keyed_text(110, new, b"program %d" % (new % 7)) + keyed_text(111, new, b"t%d" % new)


class Full(Case):
    def setUp(self):
        super().setUp()
        self.out = self.dir / "x.tracy"

    def together(self, traces):
        """The blocks of all parts by address, on the client's clock; each part begins with what was
        live at the end of the one before."""
        blocks, live = {}, {}
        for n, path in enumerate(traces, 1):
            info = run("info", path).stdout
            found = PART.search(info)
            self.assertEqual(int(found[1]) if found else 1, n)
            self.assertNotIn("overflow", info)
            begins = int(found[2]) if found else 0
            live = self.add_part(Trace(path), begins, blocks, live)
        return blocks

    def add_part(self, trace, begins, blocks, before):
        live, carried = {}, 0
        for ptr, size, time, freed, stack, free_stack, thread, freer in trace.memory_by_pool()[0]:
            for one in {thread, freer} - {None}:
                self.assertEqual(trace.thread_names[one], b"worker %d" % (one - 1000))
            if ptr in before:
                self.assertEqual((time, size, stack, thread), (0, *before[ptr]))
                carried += 1
                block = list(blocks[ptr])
            else:
                self.assertNotIn(ptr, blocks)
                block = [size, begins + time, None, stack, None, thread, None]
            if freed is not None:
                block[2:7:2] = begins + freed, free_stack, freer
            else:
                live[ptr] = (size, stack, thread)
            blocks[ptr] = tuple(block)
        self.assertEqual(carried, len(before))
        for place in {a for stack in trace.callstacks[1:] for a in stack}:
            n = (place - 0x401000) // 16
            self.assertEqual(trace.frames[place],
                             (b"prog", [(b"function %d" % n, b"x.c", n, 0)]))
        return live

    def parts(self, name="x"):
        found = [self.dir / f"{name}.tracy"]
        while (path := self.dir / f"{name}.{len(found) + 1}.tracy").exists():
            found.append(path)
        return found

    def capture(self, client, *args):
        return subprocess.Popen([TIDEMARK, "capture", "-o", str(self.out), "-p", str(client.port),
                                 "--no-summary", "--connect-timeout", "120", *args],
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)

    def check(self, traces, expected):
        blocks = self.together(traces)
        self.assertEqual(len(blocks), len(expected))
        for ptr, block in expected.items():
            self.assertEqual(blocks[ptr], block, hex(ptr))

    def test_more_threads_than_a_trace_can_number(self):
        program = Program()
        client = FakeClient(program.body() + frame(TERMINATE))
        self.addCleanup(client.end)
        out, err = self.capture(client).communicate(timeout=LIMIT)
        parts = self.parts()
        self.assertEqual(err, "", out)
        self.assertEqual(len(parts), 3, out)
        self.check(parts, program.until(len(program.frames)))
        sizes = [len(Trace(part).threads) for part in parts]
        self.assertLess(max(sizes), 65536)
        self.assertFalse((self.dir / "x.tracy.journal").exists())

    def test_more_threads_than_a_processor_can_list(self):
        """One thread after the other runs, for 10 ns; a part numbers those that ran in it."""
        ids = range(1, THREADS + 1)
        frames = [b"".join(switch(10, n - 1, n) for n in ids[first : first + PER_FRAME])
                  for first in range(0, THREADS, PER_FRAME)]
        client = FakeClient(b"".join(map(frame, frames)) + frame(TERMINATE))
        self.addCleanup(client.end)
        out, err = self.capture(client).communicate(timeout=LIMIT)
        self.assertEqual(err, "", out)
        ran = {}
        for part in self.parts():
            info = run("info", part).stdout
            self.assertNotIn("overflow", info)
            found = PART.search(info)
            self.add_runs(part, int(found[2]) if found else 0, ran)
        self.assertGreater(len(self.parts()), 2)
        self.assertEqual(ran, {n: [10 * n, 10 * n + 10 if n < THREADS else None] for n in ids})

    def add_runs(self, part, begins, ran):
        text = run("dump", part, "--section", "processor-switches,external-names").stdout
        runs = re.findall(r"^processor-switches cpu=0 start=(\d+)(?: end=(\d+))? thread=(\d+)$", text,
                          re.M)
        names = re.findall(r'^external-names thread=(\d+) program="program (\d)" name="t(\d+)"$', text,
                           re.M)
        self.assertEqual(len(runs) + len(names), len(text.splitlines()))
        self.assertLess(len(runs), 65536)
        self.assertEqual(sorted(map(int, (n for n, _, _ in names))),
                         sorted({int(thread) for _, _, thread in runs}))
        self.assertEqual([n for n in names if int(n[0]) % 7 != int(n[1]) or n[0] != n[2]], [])
        for start, end, thread in runs:
            stretch = ran.setdefault(int(thread), [begins + int(start), None])
            self.assertIsNone(stretch[1])
            stretch[1] = begins + int(end) if end else None

    def test_killed_behind_a_part(self):
        program = Program()
        client = FakeClient(program.body())
        self.addCleanup(client.end)
        capture = self.capture(client)
        wait_for(lambda: (self.dir / "x.2.tracy").exists(), "two parts")
        capture.kill()
        capture.communicate(timeout=LIMIT)
        result = run("recover", self.dir / "x.tracy.journal")
        self.assertEqual(result.returncode, 0, result.stderr)
        frames = frames_said(result)
        self.assertGreater(frames, 62259 * 2 // PER_FRAME)
        recovered = self.parts("x.recovered")
        first = PART.search(run("info", recovered[0]).stdout)
        saved = self.parts()[: int(first[1]) - 1 if first else 0]
        self.check([*saved, *recovered], program.until(frames))


if __name__ == "__main__":
    import unittest
    unittest.main()
