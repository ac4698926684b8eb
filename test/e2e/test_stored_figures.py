"""Figures that are stored with a trace when it is saved: a report of them is the one that counts the
memory events, and nothing but that report is told by them."""

import ctypes
import json
import re
import struct
import subprocess

from tools import FIREHOSE, TIDEMARK, Case, not_sanitized, run, shared_library

MAGIC = b"TidemarkAppendix"
FORMATS = ("text", "json", "csv", "markdown")
PIECE = 65512


def end_of(trace):
    """Bytes of the trace itself, bytes of what is stored with it; None: nothing is."""
    end = trace.read_bytes()[-48:]
    return struct.unpack("<2Q", end[16:32]) if end.startswith(MAGIC) else None


def xxh3(data):
    library = ctypes.CDLL(shared_library("libxxhash.so.0"))
    library.XXH3_64bits.restype = ctypes.c_uint64
    library.XXH3_64bits.argtypes = (ctypes.c_char_p, ctypes.c_size_t)
    return library.XXH3_64bits(data, len(data))


def content_of(trace):
    data, (at, left) = trace.read_bytes(), end_of(trace)
    content = b""
    while left:
        n = min(left, PIECE)
        content += data[at + 7:at + 7 + n]
        at, left = at + 7 + n, left - n
    return content


def with_content(trace, content, to, whole=None):
    """The trace, or its first bytes, with something else stored with it."""
    data = trace.read_bytes()[:whole or end_of(trace)[0]]
    with open(to, "wb") as out:
        out.write(data)
        for at in range(0, len(content), PIECE):
            piece = content[at:at + PIECE]
            out.write(struct.pack("<II", len(piece) + 3, len(piece) << 3)[:7] + piece)
        out.write(struct.pack("<II", 51, 48 << 3)[:7] + MAGIC +
                  struct.pack("<4Q", len(data), len(content), xxh3(data), xxh3(content)))
    return to


def numbers_at(content, skip):
    """Where number `skip` of the figures begins, which are the first section."""
    at = 8 + 16
    for _ in range(skip):
        while content[at] & 0x80:
            at += 1
        at += 1
    return at


@not_sanitized
class Stored(Case):
    def firehose(self, *args, events=250_000, stacks=300, name="out.tracy"):
        recording = self.dir / "f.c2s.bin"
        subprocess.run([FIREHOSE, "-o", str(recording), "--events", str(events), "--depth", "16",
                        "--stacks", str(stacks)], check=True)
        result = self.capture(recording, self.dir / name, *args)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.printed = result.stdout
        return self.dir / name

    def same(self, trace, *args, fails=0):
        told, counted = run("report", trace, *args), run("report", trace, "--recount", *args)
        self.assertEqual((told.returncode, counted.returncode), (fails, fails),
                         told.stderr + counted.stderr)
        self.assertEqual(told.stdout, counted.stdout)
        self.assertEqual(told.stderr, counted.stderr)
        return told.stdout

    def test_a_capture(self):
        trace = self.firehose()
        whole, stored = end_of(trace)
        self.assertLessEqual(stored * 8, whole)
        for form in FORMATS:
            self.same(trace, "--format", form, "--limit", "0")
        # It is what the capture printed, too.
        self.assertIn(self.same(trace, "--limit", "20"), self.printed)
        self.same(trace, "--pool", "gpu.vram")
        self.same(trace, "--sort", "peak", "--min-count", "500")
        self.same(trace, "--fail-if", "peak>1", fails=1)
        self.same(trace, "--pool", "no such", fails=2)
        # What the figures do not answer is counted.
        self.same(trace, "--skip", "function_1")
        self.same(trace, "--by", "function")
        self.same(trace, "--stack-traces")
        self.same(trace, "--size", "0:100")
        self.assertIn("ok stored-figures: ", run("verify", trace).stdout)
        self.assertNotIn("stored-figures", run("verify", trace, "--pool", "gpu.vram").stdout)

    def test_info_tells_of_them(self):
        trace = self.firehose()
        whole = end_of(trace)[0]
        (self.dir / "alone.tracy").write_bytes(trace.read_bytes()[:whole])
        info = json.loads(run("info", trace, "--format", "json").stdout)["file"]
        self.assertEqual(info["stored_figure_bytes"], trace.stat().st_size - whole)
        self.assertRegex(run("info", trace).stdout,
                         r"(?m)^stored figures +[\d.]+ KiB of the file: `tidemark report` need not")
        # Others than those of its sites are none.
        content = bytearray(content_of(trace))
        content[0] ^= 1
        with_content(trace, bytes(content), self.dir / "other.tracy")
        for none in "alone.tracy", "other.tracy":
            info = json.loads(run("info", self.dir / none, "--format", "json").stdout)["file"]
            self.assertEqual(info["stored_figure_bytes"], 0)
            self.assertRegex(run("info", self.dir / none).stdout, r"(?m)^stored figures +none: ")

    def test_a_run(self):
        trace = self.dir / "run.tracy"
        program = "my @a; for (1..150000) { push @a, [$_]; @a = () if $_ % 1000 == 0 }"
        result = run("run", "-o", trace, "--", "perl", "-e", program)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIsNotNone(end_of(trace))
        self.assertIn(self.same(trace, "--limit", "20").splitlines()[0], result.stderr)
        self.assertIn("ok stored-figures: ", run("verify", trace).stdout)

    def test_the_layout_of_earlier_releases(self):
        """Which had no sections: the length of the figures, the figures, the names."""
        trace = self.firehose()
        content = content_of(trace)
        kind, version, length = struct.unpack_from("<IIQ", content, 8)
        self.assertEqual((kind, version), (1, 1))
        figures, rest = content[24:24 + length], content[24 + length:]
        kind, version, names = struct.unpack_from("<IIQ", rest)
        self.assertEqual((kind, version), (2, 1))
        old = struct.pack("<Q", length) + figures + rest[16:16 + names]
        other = with_content(trace, old, self.dir / "old.tracy")
        info = json.loads(run("info", other, "--format", "json").stdout)["file"]
        self.assertGreater(info["stored_figure_bytes"], 0)
        self.assertEqual(run("report", other).stdout, run("report", trace).stdout)
        # Without the times of pools, or with impossible ones, the file is read twice.
        leaks = run("report", trace, "--leaks").stdout
        self.assertEqual(run("report", other, "--leaks").stdout, leaks)
        times = struct.pack("<2q", 9, 3)
        self.assertEqual(struct.unpack_from("<II", rest, 16 + names), (6, 1))
        wrong = with_content(trace, content[:-len(times)] + times, self.dir / "wrong.tracy")
        self.assertEqual(run("report", wrong, "--leaks").stdout, leaks)

    def test_other_figures_are_told(self):
        """It is these figures that are told, not the events': and verify finds it out."""
        trace = self.firehose()
        content = bytearray(content_of(trace))
        content[numbers_at(content, 1 + 4 + 5)] ^= 0x7F  # the peak of the first pool
        other = with_content(trace, bytes(content), self.dir / "other.tracy")
        pool = r'"name": "default",.*?"peak_bytes": (\d+)'
        peaks = [re.search(pool, run("report", other, "--format", "json", *args).stdout, re.S)[1]
                 for args in ((), ("--recount",))]
        self.assertNotEqual(*peaks)
        result = run("verify", other)
        self.assertEqual(result.returncode, 1)
        self.assertRegex(result.stdout, r"(?m)^FAILED stored-figures: .*--recount")

    def test_what_does_not_hold_is_not_told(self):
        trace = self.firehose()
        content = content_of(trace)
        right = run("report", trace, "--recount").stdout
        damaged = []
        for name, other in {"no figures": b"", "half": content[:len(content) // 2],
                            "cut": content[:-1], "no length": content[:5],
                            "long": struct.pack("<Q", 1 << 40) + content[8:],
                            "flipped": content[:56] + bytes([content[56] ^ 1]) + content[57:],
                            "names": content[:-500] + bytes(500)}.items():
            damaged.append(with_content(trace, other, self.dir / f"{name}.tracy"))
        for other in damaged:
            with self.subTest(other.name):
                result = run("report", other)
                self.assertEqual((result.returncode, result.stderr), (0, ""))
                self.assertEqual(result.stdout, right)
        # The trace has changed since: a time in the last of its blocks, or all of them.
        data, (whole, _) = bytearray(trace.read_bytes()), end_of(trace)
        data[whole // 2] ^= 4
        other = self.dir / "flipped in the trace.tracy"
        other.write_bytes(data)
        told, counted = run("report", other), run("report", other, "--recount")
        self.assertEqual((told.returncode, told.stdout, told.stderr),
                         (counted.returncode, counted.stdout, counted.stderr))

    def test_writing_it_anew_leaves_it_out(self):
        trace, updated = self.firehose(), self.dir / "updated.tracy"
        self.assertEqual(run("update", trace, updated).returncode, 0)
        self.assertIsNone(end_of(updated))
        for args in ((), ("--limit", "0")):
            self.assertEqual(run("report", trace, *args).stdout,
                             run("report", updated, *args).stdout)
        for tool in ("info", "dump"):
            result = run(tool, trace)
            self.assertEqual((result.returncode, result.stderr), (0, ""))
            self.assertNotIn("after the end", result.stdout)
        self.assertEqual(run("dump", trace).stdout, run("dump", updated).stdout)
        # From a pipe it is read in one go, and has no warning either.
        piped = subprocess.run(f"cat '{trace}' | '{TIDEMARK}' report -", shell=True,
                               capture_output=True, text=True)
        self.assertEqual((piped.returncode, piped.stderr), (0, ""))
        self.assertEqual(piped.stdout, run("report", trace).stdout)

    def test_where_it_is_not_stored(self):
        for args in (("--trace-version", "0.10.0"), ("--compression", "lz4")):
            with self.subTest(args):
                trace = self.firehose(*args, "-f")
                self.assertIsNone(end_of(trace))
                self.same(trace)
        trace = self.firehose(events=20_000, name="small.tracy")
        self.assertIsNone(end_of(trace))
        # Names that are most of the trace.
        trace = self.firehose(stacks=200_000, name="names.tracy")
        self.assertIsNone(end_of(trace))

    def test_standard_input_is_no_file(self):
        trace = self.firehose()
        trace.rename(self.dir / "-")
        result = run("report", "-", cwd=self.dir)
        self.assertEqual((result.returncode, result.stdout), (3, ""))
