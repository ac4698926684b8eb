"""What a file has behind its trace: our own intact appendix is silent, anything else is reported."""

import json
import os
import subprocess
import unittest

import lz4.block
import zstandard

import tracyfile
from test_stored_figures import content_of, end_of, with_content
from tools import FIREHOSE, TIDEMARK, TRACES, Case, run

MEMSCEN = TRACES / "v0.14.0" / "memscen.tracy"
OTHER = TRACES / "v0.11.1" / "memscen.tracy"


def repacked(inner, zstd):
    """A file whose blocks hold these bytes."""
    pack = zstandard.ZstdCompressor(level=1).compressobj() if zstd else None
    out = b"tZst" if zstd else b"tlZ\x04"
    for at in range(0, len(inner), 65536):
        block = inner[at:at + 65536]
        if zstd:
            block = pack.compress(block) + pack.flush(zstandard.COMPRESSOBJ_FLUSH_BLOCK)
        else:
            block = lz4.block.compress(block, store_size=False,
                                       dict=inner[max(0, at - 65536):at])
        out += len(block).to_bytes(4, "little") + block
    return out


class Behind(Case):
    def file(self, data):
        path = self.dir / "in.tracy"
        path.write_bytes(data)
        return path

    def reported(self, path, text):
        """By all commands that answer from a trace, and by verify as a check that fails."""
        verify = run("verify", path)
        self.assertEqual(verify.returncode, 1, verify.stderr)
        self.assertRegex(verify.stdout, rf"(?m)^FAILED whole-file: .*{text}")
        info = run("info", path)
        self.assertRegex(info.stdout, rf"(?m)^warning +(?=\d).*{text}")
        self.assertRegex(str(json.loads(run("info", path, "--format", "json").stdout)["warnings"]),
                         text)
        report = run("report", path)
        self.assertEqual(report.returncode, 0, report.stderr)
        self.assertRegex(report.stdout, rf"(?m)^note: .*{text}")
        checks = json.loads(run("report", path, "--format", "json").stdout)["checks"]
        self.assertRegex(*[c["detail"] for c in checks if c["name"] == "whole-file"], text)
        for command in (("report", path), ("report", path, "--leaks"), ("tree", path),
                        ("dump", path), ("diff", path, MEMSCEN), ("diff", MEMSCEN, path),
                        ("update", path, self.dir / "out.tracy"),
                        ("merge", path, MEMSCEN, "--align", "begin", "-o", self.dir / "merged.tracy"),
                        ("export", path, "--format", "folded", "-o", self.dir / "folded")):
            result = run(*command)
            self.assertEqual(result.returncode, 0, (command, result.stderr))
            self.assertRegex(result.stderr, text, command)
            for made in ("out.tracy", "merged.tracy", "folded"):
                (self.dir / made).unlink(missing_ok=True)
        # Of a pipe, too, which can be read but once.
        with open(path, "rb") as pipe:
            cat = subprocess.Popen(["cat"], stdin=pipe, stdout=subprocess.PIPE)
            result = subprocess.run([TIDEMARK, "verify", "-"], stdin=cat.stdout,
                                    stdout=subprocess.PIPE, text=True)
            cat.stdout.close()
            cat.wait()
        self.assertEqual(result.returncode, 1)
        self.assertRegex(result.stdout, rf"(?m)^FAILED whole-file: .*{text}")

    def silent(self, path):
        for data in (path, "-"):
            with open(path, "rb") as f:
                result = subprocess.run([TIDEMARK, "verify", data], stdin=f, stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, text=True)
            self.assertEqual((result.returncode, result.stderr), (0, ""), result.stdout)
            self.assertNotIn("whole-file", result.stdout)
        self.assertNotIn("warning", run("info", path).stdout)
        self.assertNotIn("offset", run("report", path, "--recount").stdout)

    def with_appendix(self, **kwargs):
        recording, trace = self.dir / "f.c2s.bin", self.dir / "stored.tracy"
        subprocess.run([FIREHOSE, "-o", str(recording), "--events", "210000", "--depth", "8",
                        "--stacks", "100"], check=True)
        self.assertEqual(self.capture(recording, trace).returncode, 0)
        self.assertIsNotNone(end_of(trace))
        return trace

    def test_another_trace(self):
        for first in (MEMSCEN, OTHER):
            with self.subTest(first):
                size = os.path.getsize(first)
                self.reported(self.file(first.read_bytes() + OTHER.read_bytes()),
                              f"{os.path.getsize(OTHER)} bytes .*another trace begins at offset "
                              f"{size}\\b")

    def test_other_bytes(self):
        for junk in (b"\0", b"junk" * 30000, b"tr\xfd", MEMSCEN.read_bytes()[100:5000]):
            with self.subTest(junk[:4]):
                self.reported(self.file(MEMSCEN.read_bytes() + junk),
                              f"{len(junk)} bytes .* no part of the trace")

    def test_bytes_in_the_last_block(self):
        inner = tracyfile.decompress(MEMSCEN.read_bytes())
        for zstd in (True, False):
            self.silent(self.file(repacked(inner, zstd)))
            self.reported(self.file(repacked(inner + b"abc", zstd)), "3 bytes after the end")

    def test_an_appendix(self):
        stored = self.with_appendix()
        self.silent(stored)
        data, size = stored.read_bytes(), end_of(stored)[0]
        for name, changed, text in (
                ("of another trace", MEMSCEN.read_bytes() + data[size:], "for other bytes"),
                ("damaged", data[:size + 500] + bytes([data[size + 500] ^ 1]) + data[size + 501:],
                 "for other bytes"),
                ("truncated", data[:-1], "no part of the trace"),
                ("with more", data + b"x", "no part of the trace"),
                ("twice", data + data[size:], "no part of the trace"),
                ("before a trace", data + data, f"another trace begins at offset {len(data)}\\b"),
                ("behind a trace", data[:size] + data, f"another trace begins at offset {size}\\b")):
            with self.subTest(name):
                self.reported(self.file(changed), text)

    def test_an_appendix_for_more_than_the_trace(self):
        """Its hash holds for the bytes before it, but these are not only the trace."""
        stored = self.with_appendix()
        content, size = content_of(stored), end_of(stored)[0]
        data = stored.read_bytes()[:size] + b"hidden"
        forged = self.dir / "forged.tracy"
        (self.dir / "base").write_bytes(data)
        with_content(self.dir / "base", content, forged, len(data))
        result = run("verify", forged)
        self.assertEqual(result.returncode, 1)
        self.assertRegex(result.stdout, r"(?m)^FAILED whole-file: .* no part of the trace")


if __name__ == "__main__":
    unittest.main()
