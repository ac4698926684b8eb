"""Recorded real clients played to `tidemark capture`: what `tidemark dump` says of switches,
symbols, code and source files is what it says of the official traces of the same bytes."""

import re

from tools import RELEASES, TRACES, WIRE, Case, run

SECTIONS = ("external-names,context-switches,processor-switches,processor-threads,processes,"
            "samples,context-switch-samples,hardware-samples,callstacks,callstack-frames,symbols,"
            "symbol-code,code-symbols,source-files,threads")


class SameSections(Case):
    def dump(self, trace):
        result = run("dump", trace, "--section", SECTIONS)
        self.assertEqual(result.returncode, 0, result.stderr)
        return sorted(result.stdout.splitlines())

    def official(self, release, name):
        lines = self.dump(TRACES / release / f"wire_{name}.tracy")
        if release != "v0.12.2":
            return lines
        # That release forgets to note when a fiber begins to run; its wakeup is the same time.
        fiber = re.compile(r"(wakeup=(\d+)) start=0 (.*reason=99)")
        return sorted(fiber.sub(r"\1 start=\2 \3", line) for line in lines)

    def test_the_same_lines(self):
        for release in RELEASES:
            for name in ("allscen", "memscen"):
                with self.subTest(f"{release} {name}"):
                    out = self.dir / "out.tracy"
                    result = self.capture(WIRE / release / f"{name}.c2s.bin", out, "-f")
                    self.assertEqual(result.returncode, 0, result.stderr)
                    mine, theirs = self.dump(out), self.official(release, name)
                    self.assertGreater(len(mine), 100)
                    self.assertEqual(mine, theirs)
