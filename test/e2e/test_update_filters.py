"""`tidemark update`: pools, ranges of time, names by addr2line, source files and dictionaries."""

import os
import struct
import subprocess

import zstandard

from clients import pack
from tools import LIMIT, RELEASES, TIDEMARK, TRACES, Case, run
from tracyfile import Trace, decompress

MEMSCEN = TRACES / "v0.14.0" / "memscen.tracy"
EVERYTHING = TRACES / "v0.14.0" / "allscen_sys.tracy"
SOURCE = """#include <stdio.h>
__attribute__((noinline)) int deep(int x)
{
    return x * 3;
}
int main(int argc, char **argv)
{
    (void)argv;
    return deep(argc);
}
"""


class Filters(Case):
    def update(self, *args, **kwargs):
        result = run("update", *args, **kwargs)
        self.assertEqual(result.returncode, 0, result.stderr)
        return result


class Pools(Filters):
    def pools(self, *args, trace=MEMSCEN):
        self.update(*args, trace, self.dir / "out")
        return Trace(self.dir / "out").memory_by_pool()

    def test_keep_and_drop(self):
        for release in RELEASES:
            trace = TRACES / release / "memscen.tracy"
            names = Trace(trace).memory_by_pool()
            kept = self.pools("--keep-pools", "gpu.vram,arena", trace=trace)
            dropped = self.pools("--drop-pools", "default", trace=trace)
            self.assertEqual(kept, dropped)
            one = self.pools("--keep-pools", "gpu.vram", "--keep-pools", "default", trace=trace)
            gone = set(names) - set(one)
            self.assertEqual(len(gone), 1)
            for name, pool in one.items():
                self.assertEqual(pool, names[name])
            self.assertEqual(run("report", self.dir / "out").returncode, 0)

    def test_unknown_names(self):
        result = run("update", "--keep-pools", "gpu.vram,nope", MEMSCEN, self.dir / "out")
        self.assertEqual(result.returncode, 2)
        self.assertIn('no pool is named "nope"; there is: ', result.stderr)
        self.assertIn("arena", result.stderr)
        result = run("update", "--keep-pools", "a", "--drop-pools", "b", MEMSCEN, self.dir / "out")
        self.assertEqual(result.returncode, 2)
        self.assert_clean()


class Ranges(Filters):
    def blocks(self, trace, begin=None, end=None):
        return {key: [e for e in pool["events"] if begin is None or
                      (e[2] < end and (e[3] is None or e[3] >= begin))]
                for key, pool in trace.pools.items()}

    def test_blocks_that_were_live(self):
        before, out = Trace(MEMSCEN), self.dir / "out"
        for text, begin, end in (("100ms:150ms", 10**8, 15 * 10**7), (":0.05s", 0, 5 * 10**7),
                                 ("200000000:", 2 * 10**8, 2**62),
                                 ("100us:0.1m", 10**5, 6 * 10**9), ("1h:2h", 36 * 10**11, 2**62)):
            with self.subTest(text):
                self.update("--range", text, MEMSCEN, out)
                after = Trace(out)
                self.assertEqual(self.blocks(after), self.blocks(before, begin, end))
                for pool in after.pools.values():
                    live = [e for e in pool["events"] if e[3] is None]
                    self.assertEqual(pool["active"], len(live))
                    self.assertEqual(pool["usage"], sum(e[1] for e in live))
                    self.assertEqual(pool["frees"], len(pool["events"]) - len(live))

    def test_every_version(self):
        for release in RELEASES:
            for name in ("allscen", "allscen_sys", "memscen"):
                path = TRACES / release / f"{name}.tracy"
                self.update("--range", "30ms:80ms", path, self.dir / "out")
                before, after = Trace(path), Trace(self.dir / "out")
                self.assertEqual(after.strings, before.strings)
                self.assertEqual(after.callstacks, before.callstacks)
                self.assertEqual(after.last_time, before.last_time)
                self.assertEqual(run("info", self.dir / "out").returncode, 0)

    def test_from_a_pipe(self):
        """What is read twice is kept in a temporary file without a name."""
        self.update("--range", "50ms:90ms", EVERYTHING, self.dir / "file")
        with subprocess.Popen(["cat", str(EVERYTHING)], stdout=subprocess.PIPE) as cat:
            result = subprocess.run([TIDEMARK, "update", "--range", "50ms:90ms", "-",
                                     str(self.dir / "pipe")], stdin=cat.stdout, timeout=LIMIT,
                                    stdout=subprocess.PIPE, check=False,
                                    env=dict(os.environ, TMPDIR=str(self.dir)))
        self.assertEqual(result.returncode, 0)
        self.assertEqual((self.dir / "file").read_bytes(), (self.dir / "pipe").read_bytes())
        self.assert_clean("file", "pipe")

    def test_with_every_letter(self):
        """What is stripped is stripped in the counting pass, too."""
        out = self.dir / "out"
        for letters in ("l", "m", "p", "M", "i", "c", "s", "C", "S", "lmpMicsCS"):
            for pools in ((), ("--keep-pools", "default"), ("--drop-pools", "default")):
                with self.subTest(letters=letters, pools=pools):
                    self.update("-s", letters, "--range", "210ms:250ms", *pools, MEMSCEN, out)
                    events = sum(map(len, Trace(out).memory_by_pool().values()))
                    self.assertEqual(events == 0, "M" in letters)

    def test_wrong_ranges(self):
        for text in ("", "5", "2s:1s", "1s:1s", "a:b", "1s:2x", "-1:5", "0x1:5", "1:2:3"):
            with self.subTest(text):
                result = run("update", "--range", text, MEMSCEN, self.dir / "out")
                self.assertEqual(result.returncode, 2, result.stderr)
        self.assert_clean()


class Names(Filters):
    """A frame of a real trace is moved to a function of a program that is built here."""

    def setUp(self):
        super().setUp()
        self.program, self.trace = self.dir / "pro gram", self.dir / "trace"
        (self.dir / "small.c").write_text(SOURCE)
        subprocess.run([os.environ.get("CC", "gcc"), "-g", "-O1", "-fPIE", "-pie", "-o",
                        str(self.program), str(self.dir / "small.c")], check=True)
        symbols = subprocess.run(["nm", str(self.program)], stdout=subprocess.PIPE, text=True,
                                 check=True).stdout.split("\n")
        address = next(int(s.split()[0], 16) for s in symbols if s.endswith(" T deep"))
        self.update("-R", MEMSCEN, self.trace)
        image, self.frame = next((v[0], k) for k, v in Trace(self.trace).frames.items() if v[0])
        old = Trace(self.trace).frames[self.frame][1][0][3]
        inner = decompress(self.trace.read_bytes())
        moved = inner.replace(struct.pack("<Q", old), struct.pack("<Q", address))
        self.trace.write_bytes(pack(moved))
        self.image = image
        self.frames = [k for k, v in Trace(self.trace).frames.items()
                       if v[0] == image and any(f[3] == address for f in v[1])]
        self.assertTrue(self.frames)

    def named(self, out):
        frames = Trace(out).frames
        return [f for k in self.frames for f in frames[k][1] if f[0] == b"deep"]

    def test_resolve(self):
        out = self.dir / "out"
        result = self.update("-r", "-p", f"^.*$;{self.program}", self.trace, out)
        self.assertIn("Path substituted to: ", result.stdout)
        for _name, file, line, _symbol in self.named(out):
            self.assertEqual(file, str(self.dir / "small.c").encode())
            self.assertIn(line, (2, 3, 4, 5))  # which one is the compiler's choice
        self.assertTrue(self.named(out))
        self.assertIn("change", result.stdout.splitlines()[-1])
        verbose = self.update("-rv", "-p", f".+;{self.program}", self.trace, out).stdout
        self.assertIn("-> 'deep'", verbose)

    def test_image_not_there(self):
        out = self.dir / "out"
        result = self.update("-r", "-p", ".+;/nonexistent/image", self.trace, out)
        self.assertIn("'/nonexistent/image': ", result.stderr)
        self.assertEqual(self.named(out), [])
        self.assertEqual(Trace(out).frames, Trace(self.trace).frames)

    def test_image_that_would_wait(self):
        os.mkfifo(self.dir / "pipe")
        self.update("-r", "-p", f".+;{self.dir / 'pipe'}", self.trace, self.dir / "out")
        self.assertEqual(self.named(self.dir / "out"), [])

    def test_another_tool(self):
        tool, out = self.dir / "tool", self.dir / "out"
        tool.write_text('#!/bin/sh\nwhile [ "$1" != -a ]; do shift; done; shift\n'
                        'for a; do echo $a; echo deep; echo t.c:5; done\n')
        tool.chmod(0o700)
        self.update("-r", "-a", tool, "-A", "-x 'y z'", self.trace, out)
        self.assertTrue(self.named(out))
        result = self.update("-r", "-a", self.dir / "none", self.trace, out)
        self.assertIn("cannot start", result.stderr)
        self.assertEqual(Trace(out).frames, Trace(self.trace).frames)

    def test_wrong_substitutions(self):
        for text in ("x", "(;y"):
            result = run("update", "-r", "-p", text, self.trace, self.dir / "out")
            self.assertEqual(result.returncode, 2)


class Images(Filters):
    def test_dictionary(self):
        """With it the images take less memory in a reader, and they are the same."""
        out = self.dir / "out"
        for release in RELEASES:
            path = TRACES / release / "allscen.tracy"
            self.update("-d", path, out)
            before, after = Trace(path), Trace(out)
            self.assertEqual(after.images, before.images)
            words = zstandard.ZstdCompressionDict(after.image_dict)
            plain, with_dict = (sum(len(c.compress(image[3])) for image in after.images) for c in
                                (zstandard.ZstdCompressor(level=3),
                                 zstandard.ZstdCompressor(level=3, dict_data=words)))
            self.assertLess(with_dict, plain * 0.8)

    def test_too_few_images(self):
        result = self.update("-d", MEMSCEN, self.dir / "out")
        self.assertIn("too few frame images", result.stderr)
        self.assertEqual(Trace(self.dir / "out").image_dict, b"")


class Sources(Filters):
    def test_files_that_are_there(self):
        """The trace names an absolute path that is replaced by one of the same length here."""
        old = b"/home/dev/scen/allscen.cpp"
        path = self.dir / "s.c"
        new = str(path).encode()
        if len(new) > len(old):
            self.skipTest("the folder for temporary files has too long a name")
        new = new.replace(b"/s.c", b"/" * (1 + len(old) - len(new)) + b"s.c")
        path.write_text("content of s.c\n")
        os.utime(path, (10**9, 10**9))
        inner = decompress(EVERYTHING.read_bytes()).replace(old, new)
        self.assertIn(new, inner)
        (self.dir / "in").write_bytes(pack(inner))
        self.update("-c", self.dir / "in", self.dir / "out")
        self.assertIn(b"content of s.c\n", decompress((self.dir / "out").read_bytes()))
        # What the trace holds is not read again, and stripping takes it out first.
        path.write_text("changed")
        os.utime(path, (10**9, 10**9))
        self.update("-c", self.dir / "out", self.dir / "again")
        self.assertIn(b"content of s.c\n", decompress((self.dir / "again").read_bytes()))
        self.update("-c", "-s", "S", self.dir / "out", self.dir / "again")
        self.assertIn(b"changed", decompress((self.dir / "again").read_bytes()))
        os.utime(path)
        self.update("-c", self.dir / "in", self.dir / "newer")
        self.assertNotIn(b"changed", decompress((self.dir / "newer").read_bytes()))
