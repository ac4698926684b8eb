"""A second reader of .tracy files, written apart from the C one, so that tests do not ask the code
under test for its own opinion. Slow and plain: it walks every section and keeps what tests compare.
Layout facts: server/TracyWorker.cpp `Worker::Write` @ v0.9.1 ... v0.14.0."""

import itertools
import struct

import lz4.block
import zstandard


def decompress(data):
    """The inner stream of a file, as bytes."""
    if data[:4] in (b"tlZ\x04", b"tZst"):
        zstd, streams, pos = data[:4] == b"tZst", 1, 4
    elif data[:4] == b"tr\xfdP":
        zstd, streams, pos = data[4] == 1, data[5], 6
    else:
        raise ValueError("no Tracy trace")
    # What Tidemark stores behind a trace decompresses like all blocks, and is no part of it.
    end = len(data)
    if data[-48:-32] == b"TidemarkAppendix":
        end = struct.unpack_from("<Q", data, len(data) - 32)[0]
    states = [zstandard.ZstdDecompressor().decompressobj() if zstd else b"" for _ in range(streams)]
    out, blocks = [], 0
    while pos < len(data):
        begins = pos
        size = struct.unpack_from("<I", data, pos)[0]
        block = data[pos + 4 : pos + 4 + size]
        if len(block) != size:
            raise ValueError("truncated block")
        pos += 4 + size
        which = blocks % streams
        blocks += 1
        if zstd:
            inner = states[which].decompress(block)
        else:
            inner = states[which] = lz4.block.decompress(block, uncompressed_size=65536,
                                                         dict=states[which])
        if begins < end:
            out.append(inner)
    return b"".join(out)


class Trace:
    """What a file holds: header facts, strings, pools with their events, call stacks, frames."""

    def __init__(self, path):
        with open(path, "rb") as f:
            self.inner = decompress(f.read())
        self.pos = 0
        self.header()
        self.frames_and_sections()
        self.names()
        self.locations()
        self.locks()
        self.messages_and_threads()
        self.gpu()
        self.plots()
        self.memory()
        self.stacks()
        self.tail()
        if self.pos != len(self.inner):
            raise ValueError(f"ends at {self.pos} of {len(self.inner)}")

    # ---- primitives

    def take(self, fmt):
        values = struct.unpack_from("<" + fmt, self.inner, self.pos)
        self.pos += struct.calcsize("<" + fmt)
        return values if len(values) > 1 else values[0]

    def u64(self):
        return self.take("Q")

    def u32(self):
        return self.take("I")

    def bytes(self, n):
        if self.pos + n > len(self.inner):
            raise ValueError("past the end")
        data = self.inner[self.pos : self.pos + n]
        self.pos += n
        return data

    def skip_list(self, size):
        n = self.u64()
        self.bytes(n * size)
        return n

    def u24(self):
        low, high = self.take("HB")
        return low | high << 16

    def at_least(self, *version):
        return self.version >= version

    # ---- sections

    def header(self):
        if self.bytes(5) != b"tracy":
            raise ValueError("no inner magic")
        self.version = tuple(self.take("BBB"))
        if not self.at_least(0, 12, 3):
            self.take("q")
        self.resolution, self.timer_mul, self.last_time = self.take("qdq")
        self.frame_offset, self.pid, self.sampling_period = self.take("QQq")
        self.cpu_arch, self.cpu_id = self.take("BI")
        self.bytes(12)
        self.on_demand = self.take("B") if self.at_least(0, 9, 2) else None
        self.capture_name = self.bytes(self.u64())
        self.program = self.bytes(self.u64())
        self.capture_time, self.executable_time = self.take("QQ")
        self.host_info = self.bytes(self.u64())
        for _ in range(self.u64()):
            self.take("I")
            for _ in range(self.u64()):
                self.take("I")
                if not self.at_least(0, 11, 2):
                    self.skip_list(4)
                    continue
                for _ in range(self.u64()):
                    self.take("I")
                    self.skip_list(4)
        self.crash = self.take("QqQI")

    def frames_and_sections(self):
        self.frame_sets = []
        for _ in range(self.u64()):
            name, continuous, n = self.take("QBQ")
            self.frame_sets.append((name, n))
            data = self.bytes(n * (12 if continuous else 20))
            if name == 0 and continuous:
                deltas = [start for start, _ in struct.iter_unpack("<qi", data)]
                self.base_frames = list(itertools.accumulate(deltas))
        if self.at_least(0, 13, 5):
            for _ in range(self.u64()):
                self.take("H")
                self.skip_list(15)
            self.skip_list(5)
        elif self.at_least(0, 13, 4):
            self.skip_list(15)

    def names(self):
        self.strings, by_key = [], {}
        for _ in range(self.u64()):
            key, n = self.take("QQ")
            by_key.setdefault(key, len(self.strings))
            self.strings.append(self.bytes(n))
        self.pointers = {p: self.strings[by_key[k]] for p, k in self.pairs() if k in by_key}
        self.thread_names = {t: self.strings[by_key[k]] for t, k in self.pairs() if k in by_key}
        self.skip_list(24)
        self.threads = [self.u64() for _ in range(self.u64())]
        self.skip_list(8)

    def pairs(self):
        return [self.take("QQ") for _ in range(self.u64())]

    def locations(self):
        """Source locations by number; zones_ended: what the file says of each."""
        by_pointer = {self.u64(): self.location() for _ in range(self.u64())}
        expand = [self.u64() for _ in range(self.u64())]
        self.source_locations = {i: by_pointer[p] for i, p in enumerate(expand) if i > 0}
        self.source_locations[0] = None
        for i in range(self.u64()):
            self.source_locations[-1 - i] = self.location()
        self.zones_ended = {}
        for _ in range(self.u64()):
            number, ended = self.take("hQ")
            location = self.source_locations[number]
            self.zones_ended[location] = self.zones_ended.get(location, 0) + ended
        self.skip_list(10)

    def location(self):
        return (self.sref(), self.sref(), self.sref(), *self.take("II"))

    def sref(self):
        value, flags = self.take("QB")
        if flags == 3:
            return self.strings[value]
        return self.pointers.get(value, b"???") if flags == 2 else None

    def locks(self):
        for _ in range(self.u64()):
            self.bytes(27)
            self.skip_list(8)
            self.skip_list(12)

    def messages_and_threads(self):
        by_key = {}
        time = 0
        for _ in range(self.u64()):
            key, delta = self.take("Qq")
            time += delta
            text, color, stack = self.sref(), self.u32(), self.u24()
            kind = self.take("BB") if self.at_least(0, 13, 2) else None
            by_key[key] = (time, text, stack, color, kind)
        self.messages = list(by_key.values())
        self.zone_extras = [(self.u24(), self.text(self.u24()), self.text(self.u24()), self.u24())
                            for _ in range(self.u64())]
        self.zones, self.zone_lists = self.take("QQ")
        self.thread_details = {}
        for _ in range(self.u64()):
            thread, zones, _kernel, fiber = self.take("QQQB")
            hint = self.take("i") if self.at_least(0, 11, 1) else None
            tree = self.zone_tree("I", "hqI", "q")
            messages = [by_key[self.u64()] for _ in range(self.u64())]
            self.thread_details[thread] = {"zones": zones, "fiber": fiber, "hint": hint,
                                           "tree": tree, "messages": messages,
                                           "switch_samples": self.sample_list(),
                                           "samples": self.sample_list()}
        self.listed_threads = list(self.thread_details)

    def sample_list(self):
        """(time, call stack) of each."""
        time, samples = 0, []
        for _ in range(self.u64()):
            time += self.take("q")
            samples.append((time, self.u24()))
        return samples

    def zone_tree(self, count, begin, end):
        """The zones as (begin's fields, ..., children) and (end's fields, ...), in file order."""
        records, left = [], [self.take(count)]
        while left:
            if left[-1] == 0:
                left.pop()
                if left:
                    records.append((self.take(end),))
                continue
            left[-1] -= 1
            fields = self.take(begin)
            left.append(self.take(count))
            records.append((*fields, left[-1]))
        return records

    def resolved_zones(self, thread):
        """A thread's zones with absolute times, and what their numbers stand for."""
        time, out = 0, []
        for record in self.thread_details[thread]["tree"]:
            if len(record) == 1:
                time += record[0]
                out.append(("end", time))
                continue
            location, delta, extra, children = record
            time += delta
            stack, text, name, color = self.zone_extras[extra]
            out.append(("begin", time, self.source_locations[location], self.callstacks[stack],
                        text, name, color, children))
        return out

    def resolved_messages(self, messages):
        return [(time, text, self.callstacks[stack], color, kind)
                for time, text, stack, color, kind in messages]

    def gpu(self):
        self.take("QQ")
        notes = self.at_least(0, 12, 4)
        for _ in range(self.u64()):
            self.take("QBQfB")
            self.u24()
            self.u64()
            if notes:
                self.skip_list(11)
            for _ in range(self.u64()):
                self.u64()
                self.zone_tree("Q", "qqhHBH", "qqH" if notes else "qq")
            if notes:
                for _ in range(self.u64()):
                    self.take("H")
                    self.skip_list(16)

    def plots(self):
        for _ in range(self.u64()):
            self.bytes(40)
            self.skip_list(16)

    def memory(self):
        self.pools = {}
        n, self.memory_events = self.take("QQ")
        for _ in range(n):
            key, events, active, frees = self.take("QQQQ")
            rows, time = [], 0
            for _ in range(events):
                ptr, size = self.take("QQ")
                stack_alloc, stack_free = self.u24(), self.u24()
                delta, rel, thread_alloc, thread_free = self.take("qqHH")
                time += delta
                freed = time + rel if rel >= 0 else None
                rows.append((ptr, size, time, freed, stack_alloc, stack_free,
                             thread_alloc, thread_free))
            high, low, usage, name = self.take("QQQQ")
            self.pools[key] = dict(events=rows, active=active, frees=frees, high=high, low=low,
                                   usage=usage, name_key=name)

    def stacks(self):
        self.callstacks = [None]
        for _ in range(self.u64()):
            n = self.take("H")
            self.callstacks.append(struct.unpack(f"<{n}Q", self.bytes(8 * n)))
        self.frames = {}
        for _ in range(self.u64()):
            frame, n = self.take("QB")
            image = self.u24()
            inlines = []
            for _ in range(n):
                name, file = self.u24(), self.u24()
                line, symbol = self.take("IQ")
                inlines.append((self.text(name), self.text(file), line, symbol))
            self.frames[frame] = (self.text(image), inlines)

    def text(self, sidx):
        return self.strings[sidx - 1] if sidx else None

    def tail(self):
        self.app_info = []
        for _ in range(self.u64()):
            value, flags = self.take("QB")
            self.app_info.append(self.strings[value] if flags == 3 else self.pointers.get(value))
        self.image_dict = self.bytes(self.take("I"))
        self.images = []
        for _ in range(self.u64()):
            w, h, flip = self.take("HHB")
            self.images.append((w, h, flip, self.bytes(w * h // 2)))
        for _ in range(self.u64()):
            self.u64()
            self.skip_list(36 if self.at_least(0, 11, 3) else 35)
        self.u64()
        for _ in range(256):
            self.skip_list(18)
        self.skip_list(16)
        self.skip_list(24)
        self.take("QQ")
        self.skip_list(32)
        for _ in range(self.u64()):
            self.u64()
            self.bytes(self.take("I"))
        self.skip_list(16)
        for _ in range(self.u64()):
            self.u64()
            for _ in range(6):
                self.skip_list(8)
        for _ in range(self.u64()):
            self.bytes(self.take("I"))
            self.bytes(self.take("I"))

    # ---- comparisons

    def memory_by_pool(self):
        """Pool key -> events with every number resolved: threads by id, call stacks by content."""

        def resolve(row):
            ptr, size, time, freed, stack_alloc, stack_free, thread_alloc, thread_free = row
            return (ptr, size, time, freed, self.callstacks[stack_alloc],
                    self.callstacks[stack_free], self.threads[thread_alloc],
                    self.threads[thread_free] if freed is not None else None)

        return {key: [resolve(row) for row in pool["events"]] for key, pool in self.pools.items()}
