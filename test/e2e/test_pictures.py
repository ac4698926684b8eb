"""`timeline` and `map` as SVG and PNG: figures against those of the JSON, what names may do, and
whether readers of both formats can read them."""

import json
import os
import pty
import re
import struct
import subprocess
import xml.etree.ElementTree
import zlib

from clients import alloc_plain, capture_items, string, thread_name
from tools import LIMIT, TIDEMARK, TRACES, Case, run

MEMSCEN = TRACES / "v0.14.0" / "memscen.tracy"
EVERYTHING = TRACES / "v0.14.0" / "allscen_sys.tracy"
SVG = "{http://www.w3.org/2000/svg}"


def read_png(data):
    """(width, height, rows of RGB bytes), with every checksum and length checked."""
    assert data[:8] == b"\x89PNG\r\n\x1a\n", data[:8]
    at, chunks = 8, []
    while at < len(data):
        size, = struct.unpack_from(">I", data, at)
        kind, body = data[at + 4:at + 8], data[at + 8:at + 8 + size]
        crc, = struct.unpack_from(">I", data, at + 8 + size)
        assert crc == zlib.crc32(kind + body), kind
        chunks.append((kind, body))
        at += 12 + size
    assert chunks[0][0] == b"IHDR" and chunks[-1] == (b"IEND", b""), [k for k, _ in chunks]
    width, height, *form = struct.unpack(">IIBBBBB", chunks[0][1])
    assert form == [8, 2, 0, 0, 0], form
    lines = zlib.decompress(b"".join(body for kind, body in chunks if kind == b"IDAT"))
    assert len(lines) == height * (1 + 3 * width), (len(lines), width, height)
    return width, height, unfilter(lines, 3 * width)


def unfilter(lines, stride):
    rows, before = [], bytes(stride)
    for at in range(0, len(lines), stride + 1):
        kind, row = lines[at], bytearray(lines[at + 1:at + 1 + stride])
        for i in range(stride if kind else 0):
            left, up = row[i - 3] if i >= 3 else 0, before[i]
            corner = before[i - 3] if i >= 3 else 0
            near = min((left, up, corner), key=lambda v: abs(left + up - corner - v))
            row[i] = (row[i] + (0, left, up, (left + up) // 2, near)[kind]) & 255
        rows.append(row)
        before = row
    return rows


def points(path):
    return [tuple(map(float, p.split())) for p in re.findall(r"[ML]([^MLZ]+)", path.get("d"))]


def groups(element, name):
    return [g for g in element.iter(SVG + "g") if g.get("class") == name]


class Picture(Case):
    def svg(self, *args):
        result = run(*args, "--format", "svg")
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        root = xml.etree.ElementTree.fromstring(result.stdout)
        self.assertEqual(root.get("role"), "img")
        self.assertEqual([root.find(SVG + tag).get("id") for tag in ("title", "desc")],
                         root.get("aria-labelledby").split())
        return root

    def png(self, *args):
        out = self.dir / "picture.png"
        result = run(*args, "--format", "png", "-f", "-o", out)
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        return read_png(out.read_bytes())

    def ask(self, *args):
        return json.loads(run(*args, "--format", "json").stdout)


class Timeline(Picture):
    def values(self, root, kind, path):
        """What the points of a path stand for, by the marks of the axis."""
        marks = {int(g.get("data-value")): points(g.find(SVG + "path"))[0][1]
                 for g in groups(root, "mark " + kind)}
        most = max(marks)
        scale = most / (marks[0] - marks[most])
        for value, y in marks.items():
            self.assertAlmostEqual((marks[0] - y) * scale, value, delta=0.01 * scale)
        return [(marks[0] - y) * scale for _, y in points(path)], scale

    def test_figures(self):
        for trace in (MEMSCEN, EVERYTHING):
            root = self.svg("timeline", trace, "--buckets", 300)
            doc = self.ask("timeline", trace, "--buckets", 300)
            pools = sorted(doc["pools"], key=lambda p: -max(b["high_bytes"] for b in p["buckets"]))
            lines = groups(root, "pool")[::-1]
            self.assertEqual(len(lines), len(pools))
            for line, blocks, pool in zip(lines, groups(root, "blocks")[::-1], pools):
                peak = max(pool["buckets"], key=lambda b: b["high_bytes"])
                self.assertEqual([int(line.get("data-" + k)) for k in
                                  ("peak-bytes", "peak-ns", "last-bytes")],
                                 [peak["high_bytes"], peak["high_time_ns"],
                                  pool["buckets"][-1]["last_bytes"]])
                self.assertIn(f"pool {pool['name']}: peak ", line.findtext(SVG + "title"))
                for group, kind, key in ((line, "bytes", "high_bytes"),
                                         (blocks, "blocks", "high_live")):
                    got, scale = self.values(root, kind, group.find(SVG + "path"))
                    self.assertEqual(len(got), 600)
                    for i, bucket in enumerate(pool["buckets"]):
                        self.assertAlmostEqual(got[2 * i], bucket[key], delta=0.02 * scale)
                        self.assertEqual(got[2 * i], got[2 * i + 1])

    def test_words(self):
        root = self.svg("timeline", MEMSCEN)
        self.assertEqual(root.findtext(SVG + "title"), "Memory in use by memscen")
        self.assertIn("pool default: peak 8.00 MiB (8,388,608) at ", root.findtext(SVG + "desc"))
        words = [t.text for t in root.iter(SVG + "text")]
        for word in ("8 MiB", "0 B", "time since the trace began", "default", "arena", "gpu.vram",
                     "bytes in use", "blocks in use", "200 ms"):
            self.assertIn(word, words)
        self.assertEqual(len(groups(root, "peak")), 1)
        self.assertTrue(any(w.startswith("peak 8.00 MiB at ") for w in words))
        one = self.svg("timeline", MEMSCEN, "--together", "--range", "220ms:230ms")
        self.assertEqual(len(groups(one, "pool")), 1)
        self.assertIn("224 ms", [t.text for t in one.iter(SVG + "text")])

    def test_png(self):
        width, height, rows = self.png("timeline", MEMSCEN)
        root = self.svg("timeline", MEMSCEN)
        self.assertEqual((width, height), (2 * float(root.get("width")),
                                           2 * float(root.get("height"))))
        self.assertEqual(rows[0][:3], b"\xff\xff\xff")
        line = groups(root, "pool")[-1].find(SVG + "path")
        colour = bytes.fromhex(line.get("stroke")[1:])
        highest = min(points(line), key=lambda p: p[1])
        x, y = (int(2 * v) for v in highest)
        self.assertEqual(bytes(rows[y + 1][3 * x:3 * x + 3]), colour)
        self.assertGreater(len({bytes(row) for row in rows}), 100)

    def test_names_stay_text(self):
        """Pools of a hostile program, more of them than are drawn."""
        evil = b"<script>alert(1)</script>\"'&]]>\x1b[2J\xff\xe2\x80\xae\xef\xbf\xbe\0<!--"
        items = thread_name(7, b"main")
        for pool in range(20):
            items += string(0xbee0 + pool, evil + b"%d" % pool * 30)
            items += alloc_plain(5 + pool, 7, 0x9000, 8 + pool, 0xbee0 + pool)
        out = self.dir / "x.tracy"
        self.assertEqual(capture_items(out, items).returncode, 0)
        for command in ("timeline", "map"):
            root = self.svg(command, out)
            self.assertEqual({e.tag.removeprefix(SVG) for e in root.iter()} -
                             {"svg", "title", "desc", "style", "g", "text", "path", "rect"}, set())
            self.assertIn("<script>alert(1)</script>\"'&", root.findtext(SVG + "desc"))
            self.assertEqual(len(groups(root, "pool")), 12 if command == "timeline" else 20)
            self.png(command, out)
        words = [t.text for t in self.svg("timeline", out).iter(SVG + "text")]
        self.assertTrue(any(w.startswith("8 more pools with lower peaks") for w in words))

    def test_no_memory_data(self):
        out = self.dir / "stripped.tracy"
        self.assertEqual(run("update", "-s", "M", MEMSCEN, out).returncode, 0)
        for command, word in (("timeline", "0 B"), ("map", "no memory data")):
            root = self.svg(command, out)
            self.assertIn("no memory data", root.findtext(SVG + "desc"))
            self.assertIn(word, [t.text for t in root.iter(SVG + "text")])
            self.png(command, out)

    def test_refusals(self):
        self.assertEqual(run("timeline", MEMSCEN, "--format", "svg", "--buckets", 6000).returncode,
                         2)
        self.assertEqual(run("timeline", MEMSCEN, "--format", "gif").returncode, 2)
        self.assertEqual(run("tree", MEMSCEN, "--format", "svg").returncode, 2)
        result = run("map", MEMSCEN, "--format", "png", "--columns", 1, "--rows", 100000, "-o",
                     self.dir / "x.png")
        self.assertEqual(result.returncode, 2)
        self.assertIn("take fewer --rows", result.stderr)
        self.assert_clean()
        ours, theirs = pty.openpty()
        try:
            result = subprocess.run([TIDEMARK, "map", str(MEMSCEN), "--format", "png"],
                                    stdout=theirs, stderr=subprocess.PIPE, timeout=LIMIT, text=True)
        finally:
            os.close(theirs)
            os.close(ours)
        self.assertEqual(result.returncode, 2)
        self.assertIn("nothing for a terminal", result.stderr)


class Map(Picture):
    def test_cells(self):
        for args in ((), ("--columns", 256, "--rows", 100), ("--pool", "default", "--at", "220ms")):
            root = self.svg("map", MEMSCEN, *args)
            doc = self.ask("map", MEMSCEN, *args)
            pools = groups(root, "pool")
            self.assertEqual([g.findtext(SVG + "title") for g in pools],
                             [p["name"] for p in doc["pools"]])
            for drawn, pool in zip(pools, doc["pools"]):
                self.assertEqual(int(drawn.get("data-cell-bytes")), pool["cell_bytes"])
                lines = groups(drawn, "line")
                self.assertEqual([g.get("data-address") for g in lines],
                                 [line["address"] for line in pool["lines"]])
                for group, line in zip(lines, pool["lines"]):
                    self.cells(group, line, doc)

    def cells(self, group, line, doc):
        left = float(group.find(SVG + "rect").get("x"))
        width = float(group.find(SVG + "rect").get("width")) / len(line["used_bytes"])
        got = {round((float(c.find(SVG + "rect").get("x")) - left) / width):
               (int(c.get("data-used")), int(c.get("data-age"))) for c in groups(group, "cell")}
        self.assertEqual(got, {i: (used, age) for i, (used, age) in
                               enumerate(zip(line["used_bytes"], line["age_ns"])) if used})

    def test_colours_follow_age(self):
        root = self.svg("map", MEMSCEN)
        cells = sorted((int(c.get("data-age")), c.find(SVG + "rect").get("fill"))
                       for c in groups(root, "cell"))
        scale = [r.get("fill") for r in groups(root, "legend")[0].iter(SVG + "rect")][:9]
        oldest = cells[-1][0]
        for age, fill in cells:
            self.assertEqual(scale.index(fill), age * 8 // oldest)

    def test_png(self):
        width, height, rows = self.png("map", MEMSCEN)
        root = self.svg("map", MEMSCEN)
        self.assertEqual((width, height), (2 * float(root.get("width")),
                                           2 * float(root.get("height"))))
        for cell in groups(root, "cell")[::50]:
            rect = cell.find(SVG + "rect")
            if rect.get("fill-opacity"):
                continue
            x, y = (int(2 * float(rect.get(k))) + 6 for k in "xy")
            self.assertEqual(bytes(rows[y][3 * x:3 * x + 3]),
                             bytes.fromhex(rect.get("fill")[1:]))
