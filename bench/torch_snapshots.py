"""Memory and time of `tidemark import` for large snapshots of PyTorch: `torch_snapshots.py [MIB]`, by
hand. Call stacks of 60 frames are drawn from 5,000 (a training repeats its own), or each is another
(the worst case: the trace itself has to hold all of them)."""

import json
import os
import pathlib
import random
import re
import struct
import sys
import tempfile
import time

TIDEMARK = os.environ.get("BUILD", "build") + "/tidemark"
FRAMES, DEPTH = 4000, 60
MIB = 1 << 20


def entries(rng):
    """(action, address, size, µs) of blocks that are allocated and freed."""
    live, now = [], 1_700_000_000_000_000
    for number in range(1 << 40):
        now += rng.randrange(30)
        if live and (len(live) > 5000 or rng.random() < 0.5):
            address, size = live.pop(rng.randrange(len(live)))
            yield "free_requested", address, size, now
            yield "free_completed", address, size, now
        else:
            block = 0x7F0000000000 + 32768 * number, 512 * rng.randrange(1, 5000)
            live.append(block)
            yield ("alloc", *block, now)


class Pickle:
    """Writes what pickle.dump does at protocol 4, entry by entry."""

    def __init__(self, out):
        self.out, self.memo, self.texts, self.frames = out, 0, {}, {}
        out.write(b"\x80\x04}\x94(")
        self.memo = 1
        self.text("segments")
        self.container(b"]")
        self.text("device_traces")
        self.container(b"]")
        self.container(b"]")

    def container(self, opcode):
        self.out.write(opcode + b"\x94")
        self.memo += 1
        return self.memo - 1

    def get(self, index):
        self.out.write(b"h" + bytes([index]) if index < 256 else b"j" + struct.pack("<I", index))

    def text(self, text):
        if text in self.texts:
            self.get(self.texts[text])
        else:
            self.texts[text] = self.container(b"\x8c" + bytes([len(text)]) + text.encode())

    def number(self, n):
        short = (b"K", 1) if n < 1 << 8 else (b"M", 2) if n < 1 << 16 else (b"J", 4)
        if n < 1 << 31:
            self.out.write(short[0] + n.to_bytes(short[1], "little"))
        else:
            size = (n.bit_length() + 8) // 8
            self.out.write(b"\x8a" + bytes([size]) + n.to_bytes(size, "little"))

    def frame(self, f):
        if f in self.frames:
            self.get(self.frames[f])
            return
        self.frames[f] = self.container(b"}")
        self.out.write(b"(")
        for key, value in (("name", f"f{f}"), ("filename", f"/app/part{f % 97}.py"), ("line", f)):
            self.text(key)
            (self.text if isinstance(value, str) else self.number)(value)
        self.out.write(b"u")

    def entry(self, action, address, size, now, stack):
        self.container(b"}")
        self.out.write(b"(")
        for key, value in (("action", action), ("addr", address), ("size", size), ("stream", 0),
                           ("time_us", now), ("user_metadata", "")):
            self.text(key)
            (self.text if isinstance(value, str) else self.number)(value)
        self.text("frames")
        self.container(b"]")
        self.out.write(b"(")
        for f in stack:
            self.frame(f)
        self.out.write(b"eu")

    def begin(self):
        self.out.write(b"(")

    def end(self):
        self.out.write(b"e")

    def finish(self):
        self.out.write(b"au.")


class Json:
    def __init__(self, out):
        self.out, self.first = out, True
        out.write(b'{"segments":[],"device_traces":[[')

    def entry(self, action, address, size, now, stack):
        frames = [{"name": f"f{f}", "filename": f"/app/part{f % 97}.py", "line": f} for f in stack]
        entry = {"action": action, "addr": address, "size": size, "stream": 0, "time_us": now,
                 "frames": frames}
        self.out.write(b"" if self.first else b",")
        self.first = False
        self.out.write(json.dumps(entry).encode())

    def begin(self):
        pass

    end = begin

    def finish(self):
        self.out.write(b"]]}")


def write(path, form, stacks, size):
    rng = random.Random(1)
    known = [rng.choices(range(FRAMES), k=DEPTH) for _ in range(stacks)]
    count = 0
    with open(path, "wb", buffering=MIB) as out:
        to, steps = form(out), entries(rng)
        while out.tell() < size:
            to.begin()
            for _ in range(1000):
                step = next(steps)
                stack = rng.choice(known) if known else rng.choices(range(FRAMES), k=DEPTH)
                to.entry(*step, () if step[0] == "free_completed" else stack)
                count += 1
            to.end()
        to.finish()
    return count


def measure(path, out):
    """(seconds of CPU time, bytes of memory) of an import. ru_maxrss would count this program."""
    pid = os.posix_spawn(TIDEMARK, [TIDEMARK, "import", "-f", path, out], os.environ, file_actions=[
        (os.POSIX_SPAWN_OPEN, fd, os.devnull, os.O_WRONLY, 0) for fd in (1, 2)])
    memory = done = 0
    while not done:
        time.sleep(0.005)
        found = re.search(r"VmHWM:\s+(\d+)", pathlib.Path(f"/proc/{pid}/status").read_text())
        memory = int(found[1]) * 1024 if found else memory
        done, status, usage = os.wait4(pid, os.WNOHANG)
    if status:
        sys.exit(f"import of {path}: status {status}")
    return usage.ru_utime + usage.ru_stime, memory


def main():
    size = int(sys.argv[1] if len(sys.argv) > 1 else 64) * MIB
    print(f"{'form':8} {'stacks':>9} {'entries':>10} {'file MiB':>9} {'CPU s':>7} {'MiB':>7} MiB/MiB")
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "snapshot")
        for form, stacks in ((Pickle, 5000), (Pickle, 0), (Json, 5000)):
            count = write(path, form, stacks, size)
            seconds, memory = measure(path, pathlib.Path(folder, "out.tracy"))
            of = path.stat().st_size
            print(f"{form.__name__:8} {stacks or 'all':>9} {count:>10} {of / MIB:>9.1f} {seconds:>7.2f} "
                  f"{memory / MIB:>7.1f} {memory / of:.2f}", flush=True)


if __name__ == "__main__":
    main()
