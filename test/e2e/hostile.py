#!/usr/bin/env python3
"""Streams of a few MiB that take as much memory and time as their bytes can: LZ4 frames that expand
up to 250 times, full of items of one kind, each of which differs from the last where it counts.

    hostile.py                    lists the streams
    hostile.py CASE [MIB] [PORT]  plays one to a server, as a client of protocol 74
"""

import itertools
import pathlib
import socket
import struct
import sys
import threading

import lz4.block

FRAME_MAX = 262144
PROTOCOL = 74
NO_PROCESS = 1 << 23  # above the highest process id of Linux
TABLE = pathlib.Path(__file__).resolve().parents[2] / "protocol" / "queue-items.tsv"
FORMATS = {"u8": "B", "i8": "b", "u16": "H", "u32": "I", "i32": "i", "u64": "Q", "i64": "q",
           "f32": "f", "f64": "d"}


def layouts():
    """(number, size, {field: (offset, format)}, length of the length prefix) of each item."""
    names, rows, found = [], {}, {}
    for line in TABLE.read_text().splitlines()[1:]:
        protocol, place, name, size, fields = line.split("\t")
        if int(protocol) > PROTOCOL or name == "-":
            continue
        if place != "=":
            names.insert(len(names) if place == "+" else names.index(place) + 1, name)
        rows[name] = size, fields
    for number, name in enumerate(names):
        size, fields = rows[name]
        places = {}
        for field in fields.split(","):
            if ":" in field and not field.startswith("+"):
                key, place = field.split(":")
                kind, at = place.split("@")
                places[key] = (1 + int(at), FORMATS.get(kind, "Q" if kind == "u64tag" else None))
        prefix = "I" if "+len:u32" in fields else "H" if "+len:u16" in fields else None
        found[name] = (number, int(size), places, prefix)
    return found


LAYOUTS = layouts()


def item(kind, tail=None, **values):
    number, size, places, prefix = LAYOUTS[kind]
    out = bytearray(size)
    out[0] = number
    for key, value in values.items():
        at, form = places[key]
        struct.pack_into("<" + form, out, at, value)
    if tail is not None:
        out += struct.pack("<" + prefix, len(tail)) + tail
    return bytes(out)


def text(n, i):
    """n bytes that no other i gives, and that compress well. No zero: that would end them."""
    return (b"%012d" % i + b"x" * n)[:n]


def stack(*addresses):
    return item("CallstackPayload", struct.pack(f"<{len(addresses)}Q", *addresses), ptr=0)


def located(i):
    """A source location that comes with its zone."""
    return item("SourceLocationPayload", struct.pack("<HII", 0, 0, i)[2:] + text(30000, i) + b"\0f\0",
                ptr=0) + item("ZoneBeginAllocSrcLoc", time=0)


def resolved(i):
    """The answer to a question about an address, which nobody asked."""
    return (item("SingleStringData", text(300, i)) + item("CallstackFrameSize", ptr=i + 1, size=1) +
            item("SingleStringData", text(300, i)) + item("SecondStringData", text(300, i)) +
            item("CallstackFrame", symAddr=i + 1, symLen=100))


CASES = {
    # texts and bytes that are kept
    "strings": lambda i: item("StringData", text(65535, i), ptr=i + 1),
    "short strings": lambda i: item("StringData", text(12, i), ptr=i + 1),
    "thread names": lambda i: item("ThreadName", text(65535, i), ptr=i + 1),
    "plot names": lambda i: item("PlotName", text(65535, i), ptr=i + 1),
    "frame names": lambda i: item("FrameName", text(65535, i), ptr=i + 1),
    "external names": lambda i: item("ExternalName", text(65535, i), ptr=i + 1),
    "app info": lambda i: item("SingleStringData", text(65535, i)) + item("MessageAppInfo", time=0),
    "messages": lambda i: item("SingleStringData", text(65535, i)) + item("Message", time=0),
    "zone texts": lambda i: item("ZoneBegin", srcloc=1) + item("SingleStringData", text(60000, i)) +
                            item("ZoneText") + item("ZoneEnd"),
    "zone text": lambda i: (item("ZoneBegin", srcloc=1) if i == 0 else b"") +
                           item("SingleStringData", text(60000, i)) + item("ZoneText"),
    "symbol code": lambda i: item("SymbolCode", text(200000, i), ptr=i + 1),
    "source code": lambda i: item("SourceCode", text(200000, i), ptr=i + 1),
    "frame images": lambda i: item("FrameMarkMsg") + item("FrameImageData", text(128 * 1024, i), ptr=1) +
                              item("FrameImage", frame=i & 0xffffffff, w=512, h=512),
    "locations": located,
    "frames": resolved,
    # call stacks
    "deep call stacks": lambda i: stack(*[i] * 8000) + item("CallstackSerial") +
                                  item("MemAllocCallstack", thread=1, ptr=64),
    "call stacks": lambda i: stack(i, 1) + item("CallstackSerial") +
                             item("MemAllocCallstack", thread=1, ptr=64),
    "samples": lambda i: stack(i) + item("CallstackSample", thread=1, time=1),
    # what has a number of its own
    "open zones": lambda i: item("ZoneBegin", srcloc=1),
    "zones": lambda i: item("ZoneBegin", srcloc=1, time=1) + item("ZoneEnd", time=1),
    "zone locations": lambda i: item("ZoneBegin", srcloc=i + 1),
    "zone colors": lambda i: item("ZoneBegin", srcloc=1) + item("ZoneColor", r=i & 255) +
                             item("ZoneValue", value=i),
    "threads": lambda i: item("ThreadContext", thread=i + 1) + item("ZoneBegin", srcloc=1),
    "fibers": lambda i: item("FiberEnter", fiber=i + 1, thread=1),
    "live blocks": lambda i: item("MemAlloc", thread=1, ptr=i * 16),
    "blocks at one address": lambda i: item("MemAlloc", thread=1, ptr=64),
    "unknown frees": lambda i: item("MemFree", thread=1, ptr=i * 16),
    "pools": lambda i: item("MemNamePayload", name=i + 1) + item("MemAllocNamed", thread=1, ptr=64),
    "plots": lambda i: item("PlotDataInt", name=i + 1, val=i),
    "plot values": lambda i: item("PlotDataInt", name=1, time=1, val=i * i),
    "frame marks": lambda i: item("FrameMarkMsg", time=1),
    "frame sets": lambda i: item("FrameMarkMsg", name=i + 1),
    "locks": lambda i: item("LockAnnounce", id=i + 1, lckloc=1),
    "lock events": lambda i: item("LockWait", id=1, thread=i & 63, time=1) +
                             item("LockObtain", id=1, thread=i & 63, time=1),
    "processors": lambda i: item("CpuTopology", package=i, core=i, thread=i),
    "switches": lambda i: item("ContextSwitch", oldThread=i, newThread=i + 1, cpu=i & 255, time=1),
    "wakeups": lambda i: item("ThreadWakeup", thread=i, time=1),
    "processes": lambda i: item("TidToPid", tid=i + 1, pid=i),
    "hardware samples": lambda i: item("HwSampleCpuCycle", ip=i, time=1),
    "symbols": lambda i: item("SingleStringData", text(12, i)) +
                         item("SymbolInformation", symAddr=i + 1),
    "literals": lambda i: item("MessageLiteral", text=i + 1),
    "GPU zones": lambda i: (item("GpuNewContext", period=1, context=0) if i == 0 else b"") +
                           item("GpuZoneBegin", thread=1, queryId=i & 0xffff, srcloc=1),
    "GPU contexts": lambda i: item("GpuNewContext", period=1, context=i & 255),
    "GPU times": lambda i: (item("GpuNewContext", period=1, context=0) if i == 0 else b"") +
                           item("GpuTime", gpuTime=1, queryId=i & 0xffff),
}


def frame(items):
    block = lz4.block.compress(items, store_size=False)
    return struct.pack("<I", len(block)) + block


def frames(case):
    """Without an end. Where items repeat, the same frame comes again and again."""
    make, pending = CASES[case], b""
    numbers = itertools.count()
    repeats = make(1) == make(257)
    while True:
        parts, size = [pending], len(pending)
        while size + len(pending := make(next(numbers))) <= FRAME_MAX:
            parts.append(pending)
            size += len(pending)
        block = frame(b"".join(parts))
        while repeats:
            yield block
        yield block


def stream(case, size):
    """So many bytes of it, in whole frames."""
    out, have = [], 0
    for block in frames(case):
        if have + len(block) > size:
            return b"".join(out)
        out.append(block)
        have += len(block)


def welcome():
    data = bytearray(1178)
    struct.pack_into("<dqqQQQQQqBB", data, 0, 1.0, 0, 0, 0, 1, 1, 1, NO_PROCESS, 0, 4, 2)
    data[90:99] = b"hostile.c"
    return bytes(data)


class Hostile:
    """A client that plays a stream to whoever connects, and then stays."""

    def __init__(self, body, port=0):
        self.body = body
        self.socket = socket.create_server(("127.0.0.1", port))
        self.port = self.socket.getsockname()[1]
        self.sent = 0
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        try:
            while True:
                peer, _ = self.socket.accept()
                threading.Thread(target=self.serve, args=(peer,), daemon=True).start()
        except OSError:
            pass

    def serve(self, peer):
        try:
            with peer:
                request = peer.recv(12)
                if len(request) != 12 or struct.unpack("<I", request[8:])[0] != PROTOCOL:
                    peer.sendall(b"\x02" if request else b"")
                    return
                peer.sendall(b"\x01" + welcome())
                threading.Thread(target=self.drain, args=(peer,), daemon=True).start()
                peer.sendall(self.body)
                self.sent = len(self.body)
                while peer.recv(65536):
                    pass
        except OSError:
            pass

    @staticmethod
    def drain(peer):
        """Questions, which a client that does not read would be asked no more."""
        try:
            while peer.recv(65536):
                pass
        except OSError:
            pass

    def close(self):
        self.socket.close()


if __name__ == "__main__":
    if len(sys.argv) < 2:
        print("\n".join(CASES))
    else:
        client = Hostile(stream(sys.argv[1], int(float((sys.argv[2:3] or ["4"])[0]) * (1 << 20))),
                         int((sys.argv[3:4] or ["8086"])[0]))
        print(f"{sys.argv[1]}: {len(client.body)} bytes, on port {client.port}", flush=True)
        threading.Event().wait()
