"""Traces of the next file version: read when the newest known layout fits them to the last byte."""

from clients import pack
from tools import TRACES, Case, run
from tracyfile import Trace

LEDGER = TRACES / "v0.14.0" / "ledger.tracy"


class NewerVersion(Case):
    def trace(self, version, behind=b""):
        inner = bytearray(Trace(LEDGER).inner)
        inner[5:8] = bytes(version)
        path = self.dir / "newer.tracy"
        path.write_bytes(pack(bytes(inner) + behind))
        return path

    def test_the_layout_fits(self):
        for version in ((0, 14, 1), (0, 15, 0)):
            path = self.trace(version)
            text = "file version {}.{}.{} is newer than this program knows".format(*version)
            for args in (("report", path), ("tree", path), ("dump", path), ("diff", path, LEDGER),
                         ("update", "-f", path, self.dir / "out")):
                result = run(*args)
                self.assertEqual(result.returncode, 0, result.stderr)
                self.assertIn(text, result.stderr, args)
            self.assertEqual(run("dump", path, "--section", "memory").stdout,
                             run("dump", LEDGER, "--section", "memory").stdout)
            self.assertEqual(Trace(self.dir / "out").version, (0, 14, 0))
            result = run("verify", path)
            self.assertEqual(result.returncode, 1)
            self.assertIn(f"FAILED whole-file: {text}", result.stdout)
            self.assertIn(text, run("info", path).stdout)

    def test_it_does_not_fit(self):
        for path in (self.trace((0, 14, 1), b"more"), self.trace((0, 15, 0), bytes(5000))):
            for command in ("report", "verify", "info"):
                result = run(command, path)
                self.assertEqual(result.returncode, 3)
                self.assertIn("is newer than this program knows, and its layout is not that of "
                              "0.14.0: ", result.stderr)

    def test_other_versions(self):
        """Two steps, or a step whose changes have no bound."""
        for version in ((0, 14, 2), (0, 15, 1), (0, 16, 0), (1, 0, 0)):
            result = run("report", self.trace(version))
            self.assertEqual(result.returncode, 3)
            self.assertIn("is newer than this program knows (0.9.0 to 0.14.0 can be read)",
                          result.stderr)
