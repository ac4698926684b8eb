"""The Python package: its structs against the header, its answers against the commands', columns, and
that it installs."""

import json
import re
import shutil
import sys
import unittest

from test_library import CC, call, loaded, needs_numpy
from tools import ROOT, TRACES, Case, run

PACKAGE = ROOT / "python"
TRACE = TRACES / "v0.14.0" / "memscen_mt.tracy"
OTHER = TRACES / "v0.14.0" / "memscen.tracy"
ZONES = TRACES / "v0.14.0" / "allscen.tracy"

sys.path.insert(0, str(PACKAGE))
from tidetrace import _library  # noqa: E402


class Structs(Case):
    def test_as_in_the_header(self):
        """Each member has its place and size, and none is missing."""
        header = (ROOT / "include" / "tidetrace.h").read_text()
        lines, told = [], []
        for name in _library.STRUCTS:
            kind = type(_library.struct(name))
            lines.append(f'printf("{name} %zu\\n", sizeof(struct tidetrace_{name}));')
            told.append(f"{name} {_library.size_of(name)}")
            for member, _ in kind._fields_:
                where = getattr(kind, member)
                lines.append(f'printf("{name}.{member} %zu %zu\\n", '
                             f"offsetof(struct tidetrace_{name}, {member}), "
                             f"sizeof ((struct tidetrace_{name} *)0)->{member});")
                told.append(f"{name}.{member} {where.offset} {where.size}")
            body = re.search(rf"struct tidetrace_{name} {{\n(.*?)\n}};", header, re.S)[1]
            body = re.sub(r"/\*.*?\*/", "", body, flags=re.S)
            members = re.findall(r"\**(\w+)(?=[,;])", body)
            self.assertEqual(members, [member for member, _ in kind._fields_], name)
        source = self.dir / "structs.c"
        source.write_text('#include <stddef.h>\n#include <stdio.h>\n#include "tidetrace.h"\n'
                          "int main(void) {\n" + "\n".join(lines) + "\nreturn 0;\n}\n")
        made = call(*CC, "-o", self.dir / "structs", source, f"-I{ROOT}/include")
        self.assertEqual((made.returncode, made.stderr), (0, ""))
        self.assertEqual(call(self.dir / "structs").stdout.splitlines(), told)


def python(source, *args):
    """What a program that uses the package prints, as JSON."""
    said = call(sys.executable, "-c", source, *args, env=loaded())
    if said.returncode != 0 or said.stderr:
        raise AssertionError(said.stderr)
    return json.loads(said.stdout)


def command(*args):
    return json.loads(run(*args, "--format", "json").stdout)


ASK = """
import json, sys, tidetrace
from tidetrace import Selection
with tidetrace.open(sys.argv[1], zones=True, plots=True) as trace:
    print(json.dumps(eval(sys.argv[2])))
"""

# The last one makes sites of what the other one passes over.
RULES = "skip=['vram_reserve', 'decode_pixels', 'cache_insert'], no_skip=['^vram']"
RULE_ARGS = ("--skip", "vram_reserve", "--skip", "decode_pixels", "--skip", "cache_insert",
             "--no-skip", "^vram")


class Questions(Case):
    def test_as_the_commands(self):
        peak = command("report", TRACE)["pools"][0]["peak_time_ns"]
        for asked, args in (
                ("report()", ("report", TRACE)),
                ("report(by='callstack', sort='live', only=Selection(size_min=100))",
                 ("report", TRACE, "--by", "callstack", "--sort", "live", "--size", "100:")),
                ("report(skip=['^Rng'], min_count=50)",
                 ("report", TRACE, "--skip", "^Rng", "--min-count", 50)),
                (f"report({RULES})", ("report", TRACE, *RULE_ARGS)),
                (f"leaks({RULES})", ("report", TRACE, "--leaks", *RULE_ARGS)),
                (f"growth(end=220000000, {RULES})",
                 ("report", TRACE, "--grown", ":220ms", *RULE_ARGS)),
                (f"patterns({RULES})", ("report", TRACE, "--patterns", *RULE_ARGS)),
                (f"tree({RULES})", ("tree", TRACE, "--min-share", 0, *RULE_ARGS)),
                (f"report(only=Selection(at={peak}))", ("report", TRACE, "--at", peak)),
                ("report(only=Selection(pool='arena', begin=0, end=225000000))",
                 ("report", TRACE, "--pool", "arena", "--range", "0ns:225ms")),
                ("leaks()", ("report", TRACE, "--leaks")),
                ("growth(end=220000000)", ("report", TRACE, "--grown", ":220ms")),
                ("patterns()", ("report", TRACE, "--patterns")),
                ("faults()", ("report", TRACE, "--faults")),
                ("histograms()", ("report", TRACE, "--histograms")),
                ("related()", ("report", TRACE, "--related", "--limit", 0)),
                ("timeline(buckets=9, together=True, window=(10**8, 2*10**8))",
                 ("timeline", TRACE, "--buckets", 9, "--together", "--range", "100ms:200ms")),
                ("map(columns=16, lines=2, samples=3)",
                 ("map", TRACE, "--columns", 16, "--rows", 2, "--samples", 3)),
                ("tree(by='file', metric='live', bottom_up=True, inlines=False, depth=4)",
                 ("tree", TRACE, "--by", "file", "--metric", "live", "--bottom-up", "--no-inlines",
                  "--depth", 4, "--min-share", 0)),
                ("find(0x7f1000000010, length=4096)", ("find", TRACE, "0x7f1000000010+4096")),
                ("verify(allocations=9000, symbols_percent=50, expect=['peak<1M'])",
                 ("verify", TRACE, "--expect-allocations", 9000, "--require-symbols", 50,
                  "--expect", "peak<1M"))):
            with self.subTest(asked):
                self.assertEqual(python(ASK, TRACE, f"trace.{asked}"), command(*args))
        recorded = self.dir / "run.tracy"
        made = run("run", "-o", recorded, "--report", "none", "--", sys.executable, "-c",
                   "x = bytearray(1 << 20)")
        self.assertEqual(made.returncode, 0, made.stderr)
        for asked, args in (("resident()", ("--resident",)),
                            ("report(sort='resident')", ("--sort", "resident"))):
            self.assertEqual(python(ASK, recorded, f"trace.{asked}"),
                             command("report", recorded, *args, "--limit", 0))
        self.assertNotEqual(command("report", TRACE, *RULE_ARGS),
                            command("report", TRACE, *RULE_ARGS[:-2]))
        told = command("diff", OTHER, TRACE, *RULE_ARGS)
        self.assertEqual(python(ASK, TRACE, f"tidetrace.diff(tidetrace.open({str(OTHER)!r}), trace, "
                                            f"{RULES})"), told)
        told = command("diff", OTHER, TRACE, "--metric", "peak", "--fail-if", "peak>+5%")
        self.assertEqual(python(ASK, TRACE, f"tidetrace.diff(tidetrace.open({str(OTHER)!r}), trace,"
                                            " metric='peak', fail_if=['peak>+5%'])"), told)
        told = command("report", ZONES, "--by", "zone")
        self.assertEqual(python(ASK, ZONES, "trace.report(by='zone')"), told)

    def test_contents(self):
        told = command("report", TRACE)
        info = python(ASK, TRACE, "trace.info._asdict()")
        self.assertEqual((info["file_version"], info["program"], info["duration"]),
                         ("0.14.0", "memscen", told["trace"]["duration_ns"]))
        pools = python(ASK, TRACE, "[p._asdict() for p in trace.pools]")
        self.assertEqual([(p["name"], p["allocations"], p["live_bytes"]) for p in pools],
                         [(p["name"], p["allocations"], p["live_bytes"]) for p in told["pools"]])
        peak = python(ASK, TRACE, "trace.peaks()[0]._asdict()")
        self.assertEqual(peak["bytes"], python(ASK, TRACE, "sum(s['live_bytes'] for s in "
                                               f"trace.report(only=Selection(at={peak['time']}))"
                                               "['sites'])"))
        threads = python(ASK, TRACE, "trace.threads")
        self.assertIn("Main thread", [name for _, name, _ in threads])

    def test_errors(self):
        for asked, code, text in (("trace.report(by='mood')", -1, "by is one of site, function"),
                                  ("trace.report(skip='x')", -1, "list of texts"),
                                  ("trace.report(skip=['('])", -1, "("),
                                  ("trace.report(only=Selection(pool='x'))", -1, "no pool"),
                                  ("(trace.close(), trace.report())", -1, "closed"),
                                  ("tidetrace.open('nowhere.tracy')", -2, "nowhere.tracy"),
                                  (f"tidetrace.open({__file__!r})", -2, "test_python.py")):
            with self.subTest(asked):
                said = call(sys.executable, "-c", ASK, TRACE, asked, env=loaded())
                self.assertEqual(said.returncode, 1)
                self.assertIn("tidetrace._library.TraceError: ", said.stderr)
                self.assertIn(text, said.stderr.splitlines()[-1])
                code_of = f"(lambda: [{asked}])"
                self.assertEqual(python(CODE, TRACE, code_of), code)


CODE = """
import json, sys, tidetrace
from tidetrace import Selection
trace = tidetrace.open(sys.argv[1])
try:
    eval(sys.argv[2])()
except tidetrace.TraceError as error:
    print(error.code)
"""


@needs_numpy
class Columns(Case):
    def test_as_the_export(self):
        """Every column of every block, in arrays that the library fills; later ones do not change
        earlier ones."""
        self.assertEqual(run("export", TRACE, "--format", "tsv", "-o", self.dir / "t").returncode, 0)
        rows = (self.dir / "t" / "allocations.tsv").read_text().splitlines()
        names = rows[0].split("\t")
        told = [dict(zip(names, row.split("\t"))) for row in rows[1:]]
        found = python("""
import json, sys, numpy, tidetrace
with tidetrace.open(sys.argv[1]) as trace:
    blocks = trace.allocations()
    batches = list(trace.batches(rows=1000))
    threads = [t.id for t in trace.threads]
again = numpy.concatenate(batches)
assert all((blocks[c] == again[c]).all() for c in blocks.dtype.names if c != "reserved")
assert blocks["size"].base is not None and not blocks["size"].flags.owndata
print(json.dumps([[int(b["address"]), int(b["size"]), int(b["time"]), int(b["free_time"]),
                   threads[b["thread"]]] for b in blocks]))
""", TRACE)
        key = ["address", "size", "alloc_ns", "free_ns", "alloc_thread"]
        self.assertEqual(sorted(found),
                         sorted([int(row[k], 0) if row[k] not in ("", "\\N") else -1 for k in key]
                                for row in told))

    def test_selected(self):
        self.assertEqual(python(ASK, TRACE, "len(trace.allocations(Selection(pool='arena', "
                                            "size_min=64)))"),
                         len(command("find", TRACE, "0-0xffffffffffffffff", "--pool", "arena",
                                     "--size", "64:", "--limit", 0)["allocations"]))


class Installed(Case):
    def test_install(self):
        """From the source tree, without a network; the example that plots runs with it."""
        if call(sys.executable, "-m", "pip", "--version").returncode != 0:
            self.skipTest("no pip")
        source = self.dir / "python"
        shutil.copytree(PACKAGE, source, ignore=shutil.ignore_patterns("__pycache__"))
        made = call(sys.executable, "-m", "pip", "install", "--quiet", "--no-index", "--no-deps",
                    "--no-build-isolation", "--disable-pip-version-check",
                    "--root-user-action=ignore", "--target", self.dir / "site", source)
        self.assertEqual(made.returncode, 0, made.stderr)
        self.assertTrue((self.dir / "site" / "tidetrace" / "py.typed").exists())
        env = dict(loaded(), PYTHONPATH=str(self.dir / "site"))
        said = call(sys.executable, "-c", "import tidetrace; print(tidetrace.__file__)", env=env)
        self.assertIn(str(self.dir / "site"), said.stdout)

    @needs_numpy
    def test_plot(self):
        """The example: the highest point of each line is the pool's peak."""
        picture = self.dir / "memory.svg"
        said = call(sys.executable, ROOT / "examples" / "plot_memory.py", TRACE, picture,
                    env=loaded())
        self.assertEqual((said.returncode, said.stdout, said.stderr), (0, "", ""))
        text = picture.read_text()
        pools = command("report", TRACE)["pools"]
        most = max(p["peak_bytes"] for p in pools)
        lines = re.findall(r'points="(.*?)".*?>([^<]*)</text>', text, re.S)
        self.assertEqual([name for _, name in lines], [p["name"] for p in pools])
        for (points, _), pool in zip(lines, pools):
            top = min(float(point.split(",")[1]) for point in points.split())
            self.assertAlmostEqual(top, 40 + 300 * (1 - pool["peak_bytes"] / most), delta=0.06)

    @needs_numpy
    def test_document(self):
        """The program in docs/agents.md."""
        text = (ROOT / "docs" / "agents.md").read_text()
        program, printed = re.search(r"```python\n(.*?)```.*?```text\n(.*?)```", text, re.S).groups()
        shutil.copy(OTHER, self.dir / "app.tracy")
        said = call(sys.executable, "-c", program, env=loaded(), cwd=self.dir)
        self.assertEqual((said.returncode, said.stdout, said.stderr), (0, printed, ""))

    def test_types(self):
        if not shutil.which("mypy"):
            self.skipTest("no mypy")
        said = call("mypy", "--strict", "--cache-dir", self.dir, PACKAGE / "tidetrace")
        self.assertEqual(said.returncode, 0, said.stdout)

    def test_version(self):
        text = (PACKAGE / "pyproject.toml").read_text()
        self.assertIn(f'version = "{run("version").stdout.split()[1]}"', text)


if __name__ == "__main__":
    unittest.main()
