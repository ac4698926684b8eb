"""What `tidemark export` writes, opened by the programs that it is for. They are heavy, so only
`make deps-test-full` installs them; without one its tests are skipped, by name."""

import collections
import json
import os
import re
import shutil
import subprocess
import unittest

from exported import TABLES, export, read_folded, read_tsv
from tools import LIMIT, RELEASES, ROOT, TRACES, Case, report, run

CONSUMERS = ROOT / "test" / "consumers"
MEMSCEN = TRACES / "v0.14.0" / "memscen.tracy"
ALLSCEN = TRACES / "v0.14.0" / "allscen.tracy"
TEXTS = ("name", "text", "key", "function", "file", "image")
COMPARED = [TRACES / release / f"{name}.tracy" for release in RELEASES
            for name in ("memscen", "allscen")]


def needs(package):
    there = shutil.which("node") and (CONSUMERS / "node_modules" / package).exists()
    return unittest.skipUnless(there, f"no {package}: make deps-test-full")


def ask(*queries):
    """DuckDB's answers."""
    result = subprocess.run(["node", CONSUMERS / "duckdb.mjs"], input=json.dumps(queries),
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                            timeout=LIMIT)
    if result.returncode != 0:
        raise AssertionError(result.stderr)
    return json.loads(result.stdout)


@needs("@duckdb/node-api")
class DuckDB(Case):
    def test_totals(self):
        for trace in COMPARED:
            with self.subTest(trace=trace):
                folder = export(trace, "parquet", self.dir / "p", "-f")
                rows, = ask(f"""
                    SELECT p.name, count(*), sum(a.size), count(a.free_ns),
                      sum(a.size) FILTER (a.free_ns IS NULL),
                      sum(a.size) FILTER (a.alloc_ns <= p.peak_ns AND
                                          (a.free_ns IS NULL OR a.free_ns > p.peak_ns))
                    FROM '{folder}/allocations.parquet' a
                    JOIN '{folder}/pools.parquet' p ON p.id = a.pool GROUP BY ALL""")
                got = {r[0]: [int(v or 0) for v in r[1:]] for r in rows}
                wanted = {p["name"]: [p["allocations"], p["total_bytes"], p["frees"],
                                      p["live_bytes"], p["peak_bytes"]]
                          for p in report(trace)["pools"]}
                self.assertEqual(got, wanted)

    def test_every_row(self):
        """As DuckDB sees the three forms, and as the text form reads."""
        for trace in (MEMSCEN, ALLSCEN):
            parquet = export(trace, "parquet", self.dir / "p", "-f")
            ndjson = export(trace, "ndjson", self.dir / "n", "-f")
            tsv = export(trace, "tsv", self.dir / "t", "-f")
            answers = iter(ask(*(q for table in TABLES for q in (
                f"SELECT * FROM '{parquet}/{table}.parquet'",
                f"SELECT * FROM read_json('{ndjson}/{table}.ndjson')"))))
            for table in TABLES:
                names, wanted = read_tsv(tsv / f"{table}.tsv")
                wanted = [self.cells(table, row.values(), names) for row in wanted]
                for form in ("parquet", "ndjson"):
                    with self.subTest(trace=trace, table=table, form=form):
                        got = [self.cells(table, row, names) for row in next(answers)]
                        if wanted:
                            self.assertEqual(got, wanted)

    def cells(self, table, values, names):
        """Values that can be compared: numbers as numbers, addresses too."""
        out = []
        for name, value in zip(names, values, strict=True):
            if value is not None and "address" in name:
                value = int(str(value), 0)
            elif value is not None and (table, name) != ("facts", "value") and name not in TEXTS:
                value = float(value)
            out.append(value)
        return out

    def test_row_groups_are_left_out_by_their_bounds(self):
        """What the file says of its columns is believed, so it must be right."""
        folder = export(MEMSCEN, "parquet", self.dir / "p")
        bounds, real = ask(
            "SELECT path_in_schema, min(stats_min_value::HUGEINT), max(stats_max_value::HUGEINT), "
            f"sum(stats_null_count) FROM parquet_metadata('{folder}/allocations.parquet') "
            "GROUP BY 1 ORDER BY 1",
            "SELECT * FROM (" + " UNION ALL ".join(
                f"SELECT '{c}', min({c})::HUGEINT, max({c})::HUGEINT, count(*) - count({c}) "
                f"FROM '{folder}/allocations.parquet'" for c in (
                    "address", "alloc_callstack", "alloc_ns", "alloc_thread", "free_callstack",
                    "free_ns", "free_thread", "id", "pool", "size")) + ") ORDER BY 1")
        self.assertEqual([[r[0], *map(int, r[1:])] for r in bounds],
                         [[r[0], *map(int, r[1:])] for r in real])


@needs("speedscope")
class Speedscope(Case):
    def test_schema(self):
        paths = []
        for trace in COMPARED:
            for metric in ("bytes", "count"):
                paths.append(export(trace, "speedscope", self.dir / f"{len(paths)}", "--metric",
                                    metric))
        bare = self.dir / "bare.tracy"
        run("update", "-s", "M", ALLSCEN, bare)
        paths.append(export(bare, "speedscope", self.dir / "bare"))
        result = subprocess.run(["node", CONSUMERS / "speedscope.mjs", *paths],
                                stderr=subprocess.PIPE, text=True, timeout=LIMIT)
        self.assertEqual((result.returncode, result.stderr), (0, ""))

    def test_the_check_can_fail(self):
        bad = self.dir / "bad"
        bad.write_text('{"$schema": "https://www.speedscope.app/file-format-schema.json"}')
        result = subprocess.run(["node", CONSUMERS / "speedscope.mjs", bad],
                                stderr=subprocess.DEVNULL, timeout=LIMIT)
        self.assertEqual(result.returncode, 1)


@unittest.skipUnless(shutil.which("go"), "no go: make deps-test-full")
class GoPprof(Case):
    def pprof(self, *args):
        home = {"HOME": str(self.dir), "GOPATH": str(self.dir / "go"),
                "PPROF_TMPDIR": str(self.dir), "GOFLAGS": "-mod=mod"}
        result = subprocess.run(["go", "tool", "pprof", *map(str, args)], stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, text=True, timeout=LIMIT,
                                env={**os.environ, **home})
        self.assertEqual(result.returncode, 0, result.stderr)
        return result.stdout

    def test_totals(self):
        kinds = {"alloc_space": "total_bytes", "alloc_objects": "allocations",
                 "inuse_space": "live_bytes", "inuse_objects": "live_allocations",
                 "peak_space": "peak_bytes", "temporary_objects": "temporary_allocations"}
        for trace in (MEMSCEN, ALLSCEN, TRACES / "v0.9.1" / "memscen.tracy"):
            path = export(trace, "pprof", self.dir / "p.pb.gz", "-f")
            pools = report(trace)["pools"]
            for kind, key in kinds.items():
                with self.subTest(trace=trace, kind=kind):
                    tags = self.pprof("-tags", "-unit=B" if "space" in kind else "-unit=count",
                                      f"-sample_index={kind}", path)
                    got = {m[2]: int(m[1]) for m in
                           re.finditer(r"^ +(\d+)(?:\.0)?B? \([ \d.]+%\): (.*)$", tags, re.M)
                           if int(m[1])}
                    wanted = {p["name"]: p[key] for p in pools if p[key]}
                    self.assertEqual(got, wanted, tags)

    def test_top(self):
        """Flat bytes by function are those of the innermost functions of the folded stacks."""
        path = export(MEMSCEN, "pprof", self.dir / "p.pb.gz")
        top = self.pprof("-top", "-nodecount=0", "-nodefraction=0", "-unit=B",
                         "-sample_index=alloc_space", "-symbolize=none", path)
        got = sorted(int(m[1]) for m in re.finditer(r"^ *(\d+)(?:\.0)?B +[\d.]+%", top, re.M)
                     if int(m[1]))
        flat = collections.Counter()
        for stack, value in read_folded(export(MEMSCEN, "folded", self.dir / "f")):
            flat[stack[-1]] += value
        self.assertEqual(got, sorted(flat.values()))

    def test_the_default_is_what_was_never_freed(self):
        path = export(MEMSCEN, "pprof", self.dir / "p.pb.gz")
        self.assertIn("Type: inuse_space", self.pprof("-top", path))
        self.assertIn("File: memscen", self.pprof("-top", path))


if __name__ == "__main__":
    unittest.main()
