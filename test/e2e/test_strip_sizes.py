"""The strip test by size: users compare a trace before and after `update -s M`, by this program or
by the official tool of the release. fixtures/stripped.tsv has what the official tools make of the
fixtures, and of our captures of the recordings, on which it depends in nothing but their content."""

import lzma
import os
import re
import subprocess

from clients import pack
from tools import ROOT, TIDEMARK, TRACES, WIRE, Case, replaying, run
from tracyfile import decompress

STRIPPED = {name: int(size) for name, size in (
    line.split("\t") for line in (ROOT / "fixtures" / "stripped.tsv").read_text().splitlines())}
CODE = "codescen.c2s.bin.xz"  # most of the trace is machine code and the names of its lines
EVENTS = 9500  # allocations in it


class Strip(Case):
    def captured(self, release, name, *args):
        """Our capture of a recording."""
        recording, out, protocol = WIRE / release / name, self.dir / "captured", []
        if name.endswith(".xz"):
            recording = self.dir / "c2s.bin"
            recording.write_bytes(lzma.decompress((WIRE / release / name).read_bytes()))
            protocol = ["--protocol", 69]
        with replaying(recording, *protocol) as (_, port):
            result = run("capture", "-f", "-o", out, "-p", port, *args)
        self.assertEqual(result.returncode, 0, result.stderr)
        return out

    def update(self, *args):
        """Gives (size, what it printed)."""
        result = run("update", *args, self.dir / "out")
        self.assertEqual(result.returncode, 0, result.stderr)
        return os.path.getsize(self.dir / "out"), result


class Sizes(Strip):
    def test_our_captures_shrink(self):
        """By us and by the official tool, and about as much; they have the release's codec."""
        for key, official in STRIPPED.items():
            kind, release, name = key.split("/")
            if kind == "wire":
                with self.subTest(key):
                    captured = self.captured(release, name)
                    size = os.path.getsize(captured)
                    self.assertLess(official, size * 0.9)
                    trace = TRACES / release / f"wire_{name.split('.')[0]}.tracy"
                    if trace.exists():
                        # What the official tool saved of these bytes. Ours has also the modules of
                        # the replaying process: 1 to 2 % of the file, less where /proc shows fewer.
                        share = size / os.path.getsize(trace)
                        self.assertGreater(share, 0.94)
                        self.assertLess(share, 1.04)
                    stripped, _ = self.update("-s", "M", captured)
                    self.assertLess(stripped, size * 0.9)
                    self.assertLess(stripped, official * 1.02)
                    theirs = (TRACES / release / "memscen.tracy").read_bytes()
                    header = 4 if theirs.startswith(b"tlZ\4") else 6
                    self.assertEqual(captured.read_bytes()[:header], theirs[:header])

    def test_official_captures_shrink(self):
        for key, official in STRIPPED.items():
            if key.startswith("traces/"):
                with self.subTest(key):
                    stripped, _ = self.update("-s", "M", ROOT / "fixtures" / key)
                    self.assertLess(stripped, official * 1.01)

    def test_an_update_alone_does_not_grow(self):
        for path in sorted(TRACES.glob("*/*.tracy")):
            with self.subTest(path):
                size, result = self.update(path)
                self.assertLess(size, os.path.getsize(path) * 1.01)
                self.assertEqual(result.stderr, "")

    def test_a_capture_in_an_old_version(self):
        old = self.captured("v0.14.0", "memscen.c2s.bin", "--trace-version", "0.10.0")
        self.assertEqual(old.read_bytes()[:4], b"tlZ\4")
        zstd = self.captured("v0.9.1", "memscen.c2s.bin", "--compression", "zstd")
        self.assertEqual(zstd.read_bytes()[:4], b"tZst")

    def test_an_update_packs_as_its_input(self):
        old, new = TRACES / "v0.10" / "memscen.tracy", TRACES / "v0.14.0" / "memscen.tracy"
        for args, start in ((("-z", 1, old), b"tZst"), (("-j", 3, new), b"tr\xfdP\1\3"),
                            (("-4", "-j", 2, new), b"tr\xfdP\0\2")):
            self.update(*args)
            before = self.dir / "before"
            (self.dir / "out").rename(before)
            self.assertTrue(before.read_bytes().startswith(start))
            self.update(before)
            # zstd is the default, and smaller than LZ4; fewer streams are smaller, too.
            after = (self.dir / "out").read_bytes()
            self.assertEqual(after[:len(start)], start.replace(b"P\0", b"P\1"))
            self.assertEqual(decompress(after), decompress(before.read_bytes()))


class Verdicts(Strip):
    def share(self, result):
        return float(re.search(r"([\d.]+) % of the file", result.stdout)[1])

    def test_a_share_that_shows(self):
        path = TRACES / "v0.11.1" / "codescen.tracy"
        stripped, result = self.update("-s", "M", path)
        first, line = result.stdout.splitlines()
        self.assertIn("% change", first)
        self.assertIn(f"{path}: {EVENTS:,} memory allocations, ", line)
        self.assertIn("the size shows that they were there", line)
        self.assertEqual(result.stderr, "")
        # The share is of the bytes in the file: what it loses.
        lost = 100 - 100 * stripped / os.path.getsize(path)
        self.assertAlmostEqual(self.share(result), lost, delta=1)
        # Not a word of it where memory stays.
        self.assertEqual(len(self.update("-s", "m", path)[1].stdout.splitlines()), 1)

    def test_too_small_a_share(self):
        path = self.dir / "few"
        self.update("--drop-pools", "default", TRACES / "v0.11.1" / "codescen.tracy")
        (self.dir / "out").rename(path)
        stripped, result = self.update("-s", "M", path)
        self.assertLess(self.share(result), 10)
        self.assertLess(stripped, os.path.getsize(path))
        words = f"too small a part to judge by size; see `tidemark verify {path}`"
        self.assertIn(words, result.stdout)
        self.assertEqual(result.stderr, "")
        # By the official name, standard output is that of the official tool.
        tool = self.dir / "tracy-update"
        tool.symlink_to(TIDEMARK)
        result = subprocess.run([tool, "-s", "M", path, self.dir / "out"], stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, text=True, check=True)
        self.assertEqual(len(result.stdout.splitlines()), 1)
        self.assertIn(words, result.stderr)

    def test_no_memory(self):
        bare = self.dir / "bare"
        self.update("-s", "M", TRACES / "v0.14.0" / "memscen.tracy")
        (self.dir / "out").rename(bare)
        _, result = self.update("-s", "M", bare)
        self.assertIn(f"{bare}: no memory allocations; see `tidemark verify {bare}`", result.stdout)

    def test_growth_has_its_cause(self):
        path, packed = TRACES / "v0.11.1" / "codescen.tracy", self.dir / "packed"
        self.update("-z", 19, "-j", 1, path)
        (self.dir / "out").rename(packed)
        for args, words in (((), "zstd at level 3 in 1 stream"), (("-4",), "LZ4 in 1 stream"),
                            (("-z", 2, "-j", 2), "zstd at level 2 in 2 streams")):
            size, result = self.update(*args, packed)
            percent = 100 * size / os.path.getsize(packed) - 100
            self.assertIn(f"{percent:.1f} % larger than {packed}, which is compressed more than by "
                          f"{words}; -z LEVEL", result.stderr)
        # Memory that was there, but does not show.
        size, result = self.update("-4", "-s", "M", packed)
        self.assertGreater(size, os.path.getsize(packed))
        self.assertIn("but without them it is no smaller; see `tidemark verify", result.stdout)

    def test_growth_by_what_is_added(self):
        """A source file that the trace names."""
        named, source = b"/home/dev/scen/allscen.cpp", self.dir / "s.c"
        name = str(source).encode()
        if len(name) > len(named):
            self.skipTest("the folder for temporary files has too long a name")
        name = name.replace(b"/s.c", b"/" * (1 + len(named) - len(name)) + b"s.c")
        source.write_text("".join(f"/* {i * i * 7919 % 65537} */\n" for i in range(9000)))
        os.utime(source, (10**9, 10**9))
        inner = decompress((TRACES / "v0.14.0" / "allscen_sys.tracy").read_bytes())
        (self.dir / "in").write_bytes(pack(inner.replace(named, name)))
        self.update("-z", 3, self.dir / "in")
        before = self.dir / "before"
        (self.dir / "out").rename(before)
        _, result = self.update("-c", before)
        self.assertRegex(result.stderr, rf"% larger than {before}: uncompressed it holds [\d.]+ KiB "
                                        "more\n")
