"""Frames, images, sections, plots, locks, processors and crashes of a capture are those of the
official trace of the same bytes."""

import unittest

from tools import RELEASES, TRACES, WIRE, Case
from tracyparts import Parts

COMPARED = ("frame sets", "sections", "section texts", "plots", "images", "topology", "crash",
            "last time", "frame offset")


class Recordings(Case):
    def compare(self, release, name):
        out = self.dir / f"{release}-{name}.tracy"
        result = self.capture(WIRE / release / f"{name}.c2s.bin", out, "--no-summary")
        self.assertEqual(result.returncode, 0, result.stderr)
        mine, theirs = Parts(out).parts(), Parts(TRACES / release / f"wire_{name}.tracy").parts()
        for part in COMPARED:
            self.assertEqual(mine[part], theirs[part], part)
        self.assertEqual(mine["locks"], theirs["locks"])
        return mine

    def test_all_releases(self):
        for release in RELEASES:
            with self.subTest(release):
                parts = self.compare(release, "allscen")
                self.assertEqual(len(parts["locks"]), 4)
                self.assertGreater(len(parts["plots"]), 5)
                self.assertGreater(len(parts["images"][1]), 0)
                self.assertEqual(len(parts["frame sets"]), 3)
                self.assertGreater(len(parts["topology"]), 0)
                self.compare(release, "memscen")


if __name__ == "__main__":
    unittest.main()
