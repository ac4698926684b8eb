"""Reads recordings of libtidemark.so by their description (client/recording_format.h), and by nothing else."""

import struct

UNIT = 16384
CHUNK_HEAD = 128
CHUNK_MAGIC = 0x4B484354
IDLE = (1 << 64) - 1
ALLOC, FREE, FREE_STACK, PUT_BACK = 1, 2, 3, 4
OWNER, THREAD_NAME, THREAD_EXIT, CLOCK, MODULE_LOAD, MODULE_UNLOAD = 8, 9, 10, 11, 12, 13
FORK, EXEC, SPAWN, LOSS, POOL, MESSAGE, PLOT, FRAME = 14, 15, 16, 17, 18, 19, 20, 21
ZONE_BEGIN, ZONE_END, DISCARD, PAUSE, ZONE_TEXT = 22, 23, 24, 25, 26
BY16, HOW, HAS_POOL = 0x20, 0x40, 0x80
PC_CUT = 1
STATES = ["new", "recording", "exiting", "full", "exec"]
CLOCK_TSC, CLOCK_COUNTER = 1, 2  # enum rec_clock

LOSSES = ["nested", "space", "memory", "stack"]
OPTIONS = struct.Struct("<4I4Q2I72x")


class Event:
    __slots__ = ("stamp", "kind", "thread", "address", "size", "stack", "how", "pool", "rest")

    def __init__(self, stamp, kind, thread):
        self.stamp, self.kind, self.thread = stamp, kind, thread
        self.address = self.size = self.stack = self.how = self.pool = 0
        self.rest = None

    def __repr__(self):
        return (f"{self.stamp} kind {self.kind} thread {self.thread} {self.address:#x} "
                f"{self.size} stack {self.stack} how {self.how}")


class Bytes:
    def __init__(self, data):
        self.data, self.at = data, 0

    def byte(self):
        self.at += 1
        return self.data[self.at - 1]

    def number(self):
        value = shift = 0
        while True:
            byte = self.byte()
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value
            assert shift < 70, "a number of more than ten bytes"

    def zigzag(self):
        value = self.number()
        return value >> 1 ^ -(value & 1)

    def text(self):
        length = self.number()
        assert self.at + length <= len(self.data)
        self.at += length
        return self.data[self.at - length:self.at]


class Recording:
    """`events`: all, in order of their stamps; `modules`: (number, path, …) as they came."""

    def __init__(self, path):
        with open(path, "rb") as file:
            self.data = file.read()
        self.header()
        self.nodes = {}
        self.events = []
        self.chunks = []
        self.names = {}
        self.modules = []
        self.unloads = {}
        self.walk()
        self.events.sort(key=lambda event: event.stamp)

    def header(self):
        data = self.data
        assert data[:8] == b"TMRECORD", "no recording"
        (self.version, unit, self.arch, self.clock, self.pid, self.ppid,
         self.realtime) = struct.unpack_from("<4I2iQ", data, 8)
        assert (self.version, unit) == (1, UNIT)
        self.first = struct.unpack_from("<2Q", data, 40)
        self.last = struct.unpack_from("<2Q", data, 56)
        self.options = OPTIONS.unpack_from(data, 72)
        self.exe = data[200:1224].split(b"\0")[0].decode()
        at = (1224 + 63) // 64 * 64
        state, self.units = struct.unpack_from("<2I", data, at)
        self.state = STATES[state]
        (self.end_stamp, self.end_errno, self.threads, self.epoch, self.children,
         self.early) = struct.unpack_from("<Q5I", data, at + 8)
        at += 8 + 8 + 24
        self.too_small = struct.unpack_from("<Q", data, at + 24 * len(LOSSES))[0]
        self.dropped = {}
        line = (at + 24 * len(LOSSES) + 8 + 63) // 64 * 64  # what the collector writes
        for pool in range(256):
            count, size = struct.unpack_from("<2Q", data, line + 128 + 16 * pool)
            if count:
                self.dropped[pool] = (count, size)
        self.dropped_notes = struct.unpack_from("<Q", data, line + 128 + 16 * 256)[0]
        more = line + 128 + 16 * 256 + 32 + 512 + 4  # behind only_threads and expedited
        self.deep_libraries, self.deep_unseen = struct.unpack_from("<2I", data, more)
        self.unseen = data[more + 8:more + 520].split(b"\0")[0].decode()
        self.lost = {name: struct.unpack_from("<3Q", data, at + 24 * i)
                     for i, name in enumerate(LOSSES)}

    def walk(self):
        unit = 1
        while unit < self.units and unit * UNIT + CHUNK_HEAD <= len(self.data):
            at = unit * UNIT
            magic, kind, units = struct.unpack_from("<IHH", self.data, at)
            if magic != CHUNK_MAGIC:
                unit += 1
                continue
            assert 1 <= units <= 16
            if kind == 1:
                self.chunk(at, units)
            else:
                self.node_chunk(at, units)
            unit += units

    def node_chunk(self, at, units):
        number = struct.unpack_from("<I", self.data, at + 16)[0]
        for place in range(at + CHUNK_HEAD, at + units * UNIT - 15, 16):
            if place + 16 > len(self.data):
                break
            pc, parent = struct.unpack_from("<QI", self.data, place)
            if pc:
                self.nodes[number] = (pc & (1 << 48) - 1, pc >> 48, parent & 0x7FFFFFFF,
                                      bool(parent >> 31))
            number += 1

    def chunk(self, at, units):
        thread, tid, _, level, stamp, _ = struct.unpack_from("<IiIIQQ", self.data, at + 8)
        committed, state, pending = struct.unpack_from("<IIQ", self.data, at + 64)
        assert committed <= units * UNIT - CHUNK_HEAD
        self.chunks.append((thread, tid, level, state, committed, units))
        body = Bytes(self.data[at + CHUNK_HEAD:at + CHUNK_HEAD + committed])
        address = 0
        while body.at < committed:
            tag = body.byte()
            kind = tag & 0x1F
            assert kind, "a record of kind 0"
            if kind >= 8:
                length = body.number()
                end = body.at + length
                assert end <= committed
                stamp += body.number()
                event = Event(stamp, kind, thread)
                event.rest = self.sized(event, body, kind)
                body.at = end
                if kind == OWNER:
                    thread, tid = event.rest
                    address = 0
                self.events.append(event)
                continue
            stamp += body.number()
            event = Event(stamp, kind, thread)
            if tag & HOW:
                event.how = body.byte()
            if tag & HAS_POOL:
                event.pool = body.number()
            address += body.zigzag() * (16 if tag & BY16 else 1)
            assert 0 < address < 1 << 64
            event.address = address
            if kind == ALLOC:
                event.size = body.number()
            if kind in (ALLOC, FREE_STACK):
                event.stack = body.number()
            self.events.append(event)

    def sized(self, event, body, kind):
        if kind == OWNER:
            return body.number(), body.number()
        if kind == THREAD_NAME:
            self.names[event.thread] = body.text().decode()
            return self.names[event.thread]
        if kind == MODULE_LOAD:
            number, epoch, bias = body.number(), body.number(), body.number()
            path, build_id = body.text().decode(), body.text()
            segments = [tuple(body.number() for _ in range(5)) for _ in range(body.number())]
            self.modules.append((number, epoch, bias, path or self.exe, build_id, segments))
            return self.modules[-1]
        if kind == MODULE_UNLOAD:
            number, epoch = body.number(), body.number()
            self.unloads[number] = epoch
            return number, epoch
        if kind in (FORK, SPAWN):
            return body.number(), body.number()
        if kind in (EXEC, ZONE_TEXT):
            return body.text().decode()
        if kind == POOL:
            return body.number(), body.text().decode()
        if kind in (DISCARD, PAUSE, CLOCK):
            return body.number()
        if kind == LOSS:
            return body.number(), body.number(), body.number()
        if kind == MESSAGE:
            body.number(), body.number()
            return body.text().decode()
        if kind == PLOT:
            body.at += 8
            value = struct.unpack("<d", body.data[body.at - 8:body.at])[0]
            return body.text().decode(), value
        if kind == FRAME:
            return body.number(), body.text().decode()
        if kind == ZONE_BEGIN:
            body.number(), body.number(), body.number()
            return body.text().decode(), body.text().decode()
        return None

    def stack(self, node):
        """The addresses of a call stack, innermost first, without what says that it is cut."""
        frames = []
        while node:
            pc, epoch, parent, exact = self.nodes[node]
            if pc == PC_CUT:
                break
            frames.append((pc, epoch, exact))
            node = parent
        return frames

    def is_cut(self, node):
        while node:
            pc, _, node, _ = self.nodes[node]
        return pc == PC_CUT

    def place(self, frame):
        """(path, link time address) of a frame."""
        pc, epoch, _ = frame
        for number, loaded, bias, path, _, segments in self.modules:
            if epoch < loaded or epoch >= self.unloads.get(number, 1 << 32):
                continue
            if any(0 <= pc - bias - low < size for low, size, *_ in segments):
                return path, pc - bias
        return None

    def replay(self):
        """Plays the history of the heap. Returns (live blocks, faults, counts)."""
        live, faults, taken = {}, [], {}
        counts = {"allocations": 0, "frees": 0, "put back": 0, "bytes": 0, "peak": 0}
        use = 0
        for event in self.events:
            key = (event.pool, event.address)
            if event.kind == ALLOC:
                counts["allocations"] += 1
                counts["bytes"] += event.size
                if key in live:
                    faults.append(("allocated twice", event))
                    use -= live[key].size
                live[key] = event
                use += event.size
                counts["peak"] = max(counts["peak"], use)
            elif event.kind in (FREE, FREE_STACK):
                counts["frees"] += 1
                block = live.pop(key, None)
                if block is None:
                    faults.append(("free of unknown", event))
                else:
                    use -= block.size
                    taken[event.thread] = block
            elif event.kind == PUT_BACK:
                counts["put back"] += 1
                block = taken.get(event.thread)
                if block is None or block.address != event.address:
                    faults.append(("put back unknown", event))
                else:
                    live[key] = block
                    use += block.size
        return live, faults, counts


class Clock:
    """Stamps to nanoseconds since the recording began, from the header's two pairs."""

    def __init__(self, recording):
        self.first, self.last = recording.first, recording.last

    def ns(self, stamp):
        ticks = self.last[0] - self.first[0] or 1
        return (stamp - self.first[0]) * (self.last[1] - self.first[1]) / ticks
