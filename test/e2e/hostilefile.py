"""Small traces that expand to gigabytes: a fixture with one of its lists made long by records that
repeat. For tests of the bounds on memory."""

import itertools
import struct

import zstandard

from tools import TRACES
from tracyfile import Trace

BLOCK = 65536


class Places(Trace):
    """Where the lists of a trace begin, and where their records end."""

    def __init__(self, path):
        self.place = {}
        super().__init__(path)

    def listed(self, name, walk, count=-8):
        """Notes the list that `walk` passes over and that its count stands before."""
        begin = self.pos
        walk()
        self.place[name] = (begin, self.pos)

    def strings_list(self):
        for _ in range(self.u64()):
            self.u64()
            self.bytes(self.u64())

    def names(self):
        begin = self.pos
        self.listed("strings", self.strings_list)
        self.listed("pointers", self.pairs)
        self.pos = begin
        super().names()

    def locations(self):
        begin = self.pos
        self.listed("locations", lambda: self.skip_list(43))
        self.pos = begin
        super().locations()

    def memory(self):
        begin = self.pos
        pools, _ = self.take("QQ")
        self.place["pools"] = (begin, self.pos)
        self.u64()
        self.place["memory"] = (self.pos, self.pos + 24 + self.u64() * 42)
        self.pos = begin
        super().memory()

    def stacks(self):
        begin = self.pos
        self.listed("callstacks", lambda: [self.bytes(8 * self.take("H"))
                                           for _ in range(self.u64())])
        self.listed("frames", self.frame_list)
        self.pos = begin
        super().stacks()

    def frame_list(self):
        for _ in range(self.u64()):
            self.take("Q")
            n = self.take("B")
            self.bytes(3 + n * 18)

    def tail(self):
        begin = self.pos
        self.listed("app_infos", lambda: self.skip_list(9))
        self.bytes(self.take("I"))
        self.listed("images", lambda: [self.image() for _ in range(self.u64())])
        for _ in range(self.u64()):
            self.u64()
            self.skip_list(36)
        self.u64()
        for _ in range(256):
            self.skip_list(18)
        self.skip_list(16)
        self.skip_list(24)
        self.u64()
        symbols = self.pos
        self.place["symbols"] = (symbols, symbols + 16 + 0)
        self.pos = begin
        super().tail()

    def image(self):
        w, h, _ = self.take("HHB")
        self.bytes(w * h // 2)


def write(path, pieces, streams=1):
    """Bytes as a trace of blocks of zstd, in so many streams."""
    packers = [zstandard.ZstdCompressor(compression_params=zstandard.ZstdCompressionParameters(
        compression_level=1, window_log=21)).compressobj() for _ in range(streams)]
    rest = b""
    number = 0
    with open(path, "wb") as f:
        f.write(b"tr\xfdP\x01" + bytes([streams]))

        def put(block):
            nonlocal number
            packer = packers[number % streams]
            number += 1
            packed = packer.compress(block) + packer.flush(zstandard.COMPRESSOBJ_FLUSH_BLOCK)
            f.write(struct.pack("<I", len(packed)) + packed)

        for piece in pieces:
            rest += piece
            at = 0
            while len(rest) - at >= BLOCK:
                put(rest[at:at + BLOCK])
                at += BLOCK
            rest = rest[at:]
        if rest:
            put(rest)


def repeated(record, n):
    """`n` times a record, in pieces."""
    many = max(1, (1 << 20) // len(record))
    piece = record * many
    for _ in range(n // many):
        yield piece
    yield record * (n % many)


def longer(path, fixture, name, records, n, streams=1):
    """The fixture with `n` records more in a list. `records`: an iterable of their bytes."""
    places = Places(fixture)
    begin, end = places.place[name]
    inner = places.inner
    count = struct.unpack_from("<Q", inner, begin)[0]
    head = inner[:begin] + struct.pack("<Q", count + n) + inner[begin + 8:end]
    write(path, itertools.chain([head], records, [inner[end:]]), streams)


MEMSCEN = TRACES / "v0.14.0" / "memscen.tracy"
MIB = 1 << 20


def one_string(path, size):
    longer(path, MEMSCEN, "strings", itertools.chain(
        [struct.pack("<QQ", 1 << 40, size)], repeated(b"x", size)), 1)


def many_strings(path, total, each):
    record = struct.pack("<QQ", 1 << 40, each) + b"x" * each
    n = total // len(record)
    longer(path, MEMSCEN, "strings", repeated(record, n), n)


def distinct_strings(path, total, each):
    """None of them is another's."""
    n = total // (16 + each)
    longer(path, MEMSCEN, "strings",
           (piece for i in range(n) for piece in (struct.pack("<QQQ", 1 << 40 | i, each, i),
                                                  b"x" * (each - 8))), n)


def pointers(path, n):
    """Many pointers to one string."""
    places = Places(MEMSCEN)
    key = struct.unpack_from("<Q", places.inner, places.place["strings"][0] + 8)[0]
    longer(path, MEMSCEN, "pointers", (struct.pack("<QQ", 1 << 60 | i, key) for i in range(n)), n)


def long_frame(path, size):
    """A text that a frame's 255 functions have, twice each."""
    places = Places(MEMSCEN)
    inner = places.inner
    begin, end = places.place["strings"]
    count = struct.unpack_from("<Q", inner, begin)[0]
    frames_begin, frames_end = places.place["frames"]
    frames = struct.unpack_from("<Q", inner, frames_begin)[0]
    number = struct.pack("<I", count + 1)[:3]
    frame = struct.pack("<QB", 1 << 62 | 7, 255) + number + (number + number + bytes(12)) * 255
    write(path, itertools.chain(
        [inner[:begin], struct.pack("<Q", count + 1), inner[begin + 8:end],
         struct.pack("<QQ", 1 << 40, size)], repeated(b"x", size),
        [inner[end:frames_begin], struct.pack("<Q", frames + 1),
         inner[frames_begin + 8:frames_end], frame, inner[frames_end:]]))


def app_infos(path, total):
    n = total // 9
    longer(path, MEMSCEN, "app_infos", repeated(struct.pack("<QB", 0, 3), n), n)


def deep_callstacks(path, total, depth=65535):
    """Each begins with an outermost frame of its own, so none of its nodes is another's."""
    n = total // (2 + 8 * depth)
    body = struct.pack("<H", depth) + struct.pack("<Q", 5) * (depth - 1)
    longer(path, MEMSCEN, "callstacks",
           (piece for i in range(n) for piece in (body, struct.pack("<Q", 1000 + i))), n)


def equal_callstacks(path, n):
    longer(path, MEMSCEN, "callstacks", repeated(struct.pack("<HQ", 1, 5), n), n)


def distinct_sites(path, n):
    """Blocks that have a call stack each, all at addresses of their own."""
    longer(path, MEMSCEN, "callstacks",
           (struct.pack("<HQ", 1, 1 << 40 | i) for i in range(n)), n)
    places = Places(path)
    first = struct.unpack_from("<Q", places.inner, places.place["callstacks"][0])[0] - n + 1
    longer(path, path, "memory",
           (struct.pack("<QQ", 4096, 1) + struct.pack("<I", first + i)[:3] + bytes(3) +
            struct.pack("<qqHH", 0, 10**10, 0, 0) for i in range(n)), n)


def frames(path, total):
    """Each stands for 255 functions."""
    body = struct.pack("<B", 255) + bytes(3) + bytes(18) * 255
    n = total // (8 + len(body))
    longer(path, MEMSCEN, "frames",
           (piece for i in range(n) for piece in (struct.pack("<Q", 1 << 50 | i), body)), n)


def events(path, n):
    """Blocks at one address that are freed at the end."""
    record = struct.pack("<QQ", 4096, 1) + bytes(6) + struct.pack("<qqHH", 0, 10**10, 0, 0)
    longer(path, MEMSCEN, "memory", repeated(record, n), n)


def windows(path, total, streams):
    """As many windows of the decompressor as there are streams, each filled."""
    places = Places(MEMSCEN)
    begin, end = places.place["strings"]
    inner = places.inner
    count = struct.unpack_from("<Q", inner, begin)[0]
    n = total // (16 + 65520)
    record = struct.pack("<QQ", 1 << 40, 65520) + b"x" * 65520
    head = inner[:begin] + struct.pack("<Q", count + n) + inner[begin + 8:end]
    write(path, itertools.chain([head], repeated(record, n), [inner[end:]]), streams)
