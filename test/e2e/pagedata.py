"""Reads what `report --format html` wrote: the data block, and the numbers packed in it, without the
page's own code."""

import base64
import collections
import itertools
import json
import re
import zlib

BLOCK = re.compile(r'<script type="application/json" id="data">(.*?)</script>', re.S)
VALUES = ("allocs", "alloc_bytes", "frees", "free_bytes", "temporary", "temporary_bytes", "peak",
          "peak_bytes")


# Digits of base 85: those of the page, and Python's.
DIGITS = str.maketrans(bytes(range(40, 125)).decode().translate({60: 125, 62: 126, 92: 33}),
                       "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
                       "!#$%&()*+-;<=>?@^_`{|}~")


def unpack(text):
    return zlib.decompress(base64.b85decode(text.translate(DIGITS)))


class Reader:
    def __init__(self, text):
        self.bytes = unpack(text)
        self.at = 0

    def unsigned(self):
        n = shift = 0
        while True:
            b = self.bytes[self.at]
            self.at += 1
            n |= (b & 127) << shift
            shift += 7
            if b < 128:
                return n

    def signed(self):
        n = self.unsigned()
        return -(n + 1) // 2 if n & 1 else n // 2

    def done(self):
        return self.at == len(self.bytes)


class Page:
    def __init__(self, path=None, block=None):
        """Of a file, or of the data block alone."""
        self.html = "" if block else path.read_text(encoding="utf-8")
        blocks = [block] if block else BLOCK.findall(self.html)
        if len(blocks) != 1:
            raise AssertionError(f"{len(blocks)} blocks of data")
        self.block = blocks[0]
        self.data = json.loads(self.block)
        self.data |= json.loads(unpack(self.data.pop("tables")))
        self.steps = self.data["time"]["steps"]
        self.read_tree()
        self.cells = self.read_figures()

    def read_tree(self):
        """Nodes are (parent, frame); the root is 0. Keys are (pool, thread, stack)."""
        reader = Reader(self.data["tree"])
        nodes, stacks, keys = (self.data[f"{name}Count"] for name in ("node", "stack", "key"))
        self.nodes, callees = [(0, 0)], collections.defaultdict(list)

        def above(node):
            for _ in range(reader.unsigned()):
                node = self.nodes[node][0]
            return node
        for i in range(1, nodes):
            parent = above(i - 1)
            known, which = callees[self.nodes[parent][1]], reader.unsigned()
            if which == 0:
                known.append(reader.unsigned())
            self.nodes.append((parent, known[which - 1]))
        self.stack_nodes = list(itertools.accumulate(reader.unsigned() for _ in range(stacks)))
        self.stack_begins = [above(node) for node in self.stack_nodes]
        self.stack_sites, self.stack_folded, sites = [], [], collections.Counter()
        for node in self.stack_begins:
            frame, number = self.nodes[node][1], reader.unsigned()
            sites[frame] = (number >> 1) - 1 if number > 1 else sites[frame]
            self.stack_sites.append(sites[frame])
            self.stack_folded.append(number & 1)
        pools, threads = ([reader.unsigned() for _ in range(keys)] for _ in range(2))
        keyed = itertools.accumulate(reader.unsigned() for _ in range(keys))
        self.keys = list(zip(pools, threads, keyed))
        if not reader.done():
            raise AssertionError("tree: bytes left over")

    def read_cells(self, name, values):
        """(step, key, [values]) of each cell."""
        reader, steps, keys = Reader(self.data[name]), [], []
        for step in range(self.steps):
            steps += [step] * reader.unsigned()
        for i, step in enumerate(steps):
            key = reader.unsigned()
            keys.append(key + (keys[-1] if i and steps[i - 1] == step else 0))
        out = [(step, key, list(v)) for step, key, v in
               zip(steps, keys, zip(*([reader.signed() for _ in steps] for _ in range(values))))]
        if not reader.done():
            raise AssertionError(f"{name}: bytes left over")
        return out

    def read_figures(self):
        """Bytes are differences from what blocks of an expected size have, frees from allocations."""
        def of(n, size):
            return n * size if abs(n * size) < 1 << 53 else 0
        cells, of_key, of_site = self.read_cells("cells", 8), {}, {}
        for _, key, v in cells:
            site = self.stack_sites[self.keys[key][2]]
            size = of_key.get(key) or of_site.get(site, 0)
            v[1] += of(v[0], size)
            if v[0] and v[1] < 1 << 53:
                size = of_site[site] = v[1] // v[0]
            of_key[key] = size
            v[3] += v[1] + of(v[2], size)
            v[2] += v[0]
            v[5] += of(v[4], size)
            v[7] += of(v[6], size)
        return cells

    def points(self):
        """For each pool a list of (max, end, blocks, allocs)."""
        reader, out = Reader(self.data["points"]), []
        for _ in self.data["pools"]:
            end = blocks = 0
            points = []
            for _ in range(self.data["time"]["slots"]):
                high = end + reader.signed()
                end += reader.signed()
                blocks += reader.signed()
                points.append((high, end, blocks, reader.unsigned()))
            out.append(points)
        if not reader.done():
            raise AssertionError("points: bytes left over")
        return out

    def resident(self):
        """For each slot (RSS, swapped); (0, 0): unknown. None: the trace has no readings."""
        if "resident" not in self.data:
            return None
        reader, out = Reader(self.data["resident"]), [(0, 0)]
        for _ in range(self.data["time"]["slots"]):
            out.append((out[-1][0] + reader.signed(), out[-1][1] + reader.signed()))
        if not reader.done():
            raise AssertionError("resident: bytes left over")
        return out[1:]

    def lives(self):
        """(row, part in which allocated, part in which freed, blocks, bytes)."""
        reader, n = Reader(self.data["lives"]), self.data["lifeCount"]
        plain = lambda: [reader.unsigned() for _ in range(n)]
        rows, born = list(itertools.accumulate(plain())), plain()
        freed = [part + reader.signed() for part in born]
        out = list(zip(rows, born, freed, plain(), plain()))
        if not reader.done():
            raise AssertionError("lives: bytes left over")
        return out

    def blocks(self):
        """(pool, address, size, slot of the allocation, of the free or None, site)."""
        n, shift, pools = self.data["listedBlocks"], self.data["pieceShift"], self.data["pools"]
        reader = Reader(self.data["pieces"])
        pieces, last = [], (None, 0)
        for _ in range(self.data["pieceCount"]):
            pool = reader.unsigned()
            last = (pool, reader.unsigned() + (last[1] if pool == last[0] else 0))
            pieces.append((pools[pool]["name"], last[1] << shift))
        reader = Reader(self.data["singles"])
        plain = lambda: [reader.unsigned() for _ in range(n)]
        begins = [pieces[i] for i in itertools.accumulate(plain())]
        offsets, sizes, born, after, sites = (plain() for _ in range(5))
        if not reader.done():
            raise AssertionError("singles: bytes left over")
        return [(pool, begin + offset, size, slot, slot + life - 1 if life else None, self.site(site))
                for (pool, begin), offset, size, slot, life, site in
                zip(begins, offsets, sizes, born, after, sites)]

    def slot_of(self, ns):
        """None outside of the timeline."""
        time = self.data["time"]
        slot = (ns - time["from"]) // time["slot"]
        return slot if 0 <= slot < time["slots"] else None

    def lane_rows(self):
        """(thread name, its id) → for each depth the name of a zone by slot, "" for none."""
        strings, out = self.data["strings"], {}
        for lane in self.data["lanes"]["zones"]:
            rows = [[strings[text] for n, text in zip(row[::2], row[1::2]) for _ in range(n)]
                    for row in lane["rows"]]
            out[strings[lane["name"]], lane["id"]] = rows
        return out

    def step_begin(self, step):
        """ns; the first nanosecond of a step."""
        time = self.data["time"]
        return time["from"] + step * time["slot"] * (time["slots"] // self.steps)

    def site(self, number):
        """(function or None, file or None, line or None) as the JSON report has them."""
        entry = self.data["sites"][number]
        if isinstance(entry, int):
            return {1: "rest", 2: (None, None, None)}[entry]
        strings = self.data["strings"]
        function, file, line = entry[:3]
        return strings[function] or None, strings[file] or None, line or None

    def peak_step(self, pool, first, last, points):
        """The step of a pool's highest slot within steps [first, last)."""
        per = self.data["time"]["slots"] // self.steps
        slots = range(first * per, last * per)
        return max(slots, key=lambda i: (points[pool][i][0], -i)) // per

    def figures(self, first, last):
        """What each (pool, site) did within steps [first, last), by the rules of the page."""
        points = self.points()
        peak_steps = [self.peak_step(p, first, last, points) for p in range(len(self.data["pools"]))]
        live, out = {}, {}
        by_step = {}
        for step, key, v in self.cells:
            by_step.setdefault(step, []).append((key, dict(zip(VALUES, v))))
        at_peak = {}
        for step in range(last):
            for pool, peak_step in enumerate(peak_steps):
                if peak_step != step:
                    continue
                for key, n in live.items():
                    if self.keys[key][0] == pool:
                        at_peak[key] = at_peak.get(key, 0) + n[1]
                for key, v in by_step.get(step, []):
                    if self.keys[key][0] == pool:
                        at_peak[key] = at_peak.get(key, 0) + v["peak_bytes"]
            for key, v in by_step.get(step, []):
                n = live.setdefault(key, [0, 0])
                n[0] += v["allocs"] - v["frees"]
                n[1] += v["alloc_bytes"] - v["free_bytes"]
                if step >= first:
                    row = out.setdefault(self.row(key), dict.fromkeys(
                        ("count", "bytes", "live", "live_bytes", "at_peak", "temporary"), 0))
                    row["count"] += v["allocs"]
                    row["bytes"] += v["alloc_bytes"]
                    row["temporary"] += v["temporary"]
        for key, n in live.items():
            row = out.setdefault(self.row(key), dict.fromkeys(
                ("count", "bytes", "live", "live_bytes", "at_peak", "temporary"), 0))
            row["live"] += n[0]
            row["live_bytes"] += n[1]
            row["at_peak"] += at_peak.get(key, 0)
        return out

    def row(self, key):
        pool, _, stack = self.keys[key]
        return self.data["pools"][pool]["name"], self.site(self.stack_sites[stack])
