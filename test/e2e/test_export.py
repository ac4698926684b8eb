"""`tidemark export`: every format against `report`, `csvexport` and each other, names that would break
a careless writer, the manual's queries, options, and files that are no traces or damaged ones."""

import collections
import csv
import io
import json
import pathlib
import re
import subprocess
import tempfile

from clients import alloc_plain, capture_items, frame_name, string, thread_name
from exported import (TABLES, Pprof, database, export, read_folded, read_ndjson,
                      read_parquet, read_tsv, same_numbers, texts)
from parquetfile import ParquetFile
from test_capture import alloc, callstack
from tools import RELEASES, ROOT, TIDEMARK, TRACES, Case, report, run
from tracyfile import Trace

MEMSCEN = TRACES / "v0.14.0" / "memscen.tracy"
ALLSCEN = TRACES / "v0.14.0" / "allscen.tracy"
FORMATS = ("folded", "pprof", "speedscope", "sqlite", "parquet", "tsv", "ndjson", "chrome")
ORDERED = ("callstack_frames", "frame_functions", "frame_marks") # by their first two columns
FOLDERS = ("parquet", "tsv", "ndjson")
TRACES_COMPARED = [TRACES / release / f"{name}.tracy" for release in RELEASES
                   for name in ("memscen", "allscen")]
# (--of, --metric) → where `report` has it: of a pool, and of a site
MEASURES = {("total", "bytes"): ("total_bytes", "bytes"),
            ("total", "count"): ("allocations", "count"),
            ("live", "bytes"): ("live_bytes", "live_bytes"),
            ("live", "count"): ("live_allocations", "live_count"),
            ("peak", "bytes"): ("peak_bytes", "at_peak_bytes"),
            ("temporary", "count"): ("temporary_allocations", "temporary")}
# Names of functions, files, pools and threads that a careless writer would choke on.
NASTY = [b"quote\"apostrophe'comma,", b"new\nline\r\ttab\x0b", b"c1\xc2\x9b31m", b"bell\x07escape\x1b[31m",
         b"stray\xff\xfe\x80bytes", b"semi;colon; and space 42", b"back\\slash\\N\\",
         b"</script><script>alert(1)</script>&amp;", "\u00e9\u4e2d\U0001f600\u202e".encode(),
         b"{\"json\": [1]}", b"'); DROP TABLE pools;--", b"\\x41", b" ", b"-1"]


def csvexport(*args):
    out = subprocess.run([TIDEMARK, "csvexport", *map(str, args)], stdout=subprocess.PIPE,
                         check=True).stdout.decode()
    return list(csv.DictReader(io.StringIO(out, newline="")))


def dump(trace, section):
    result = run("dump", trace, "--section", section, "--format", "jsonl", "--all")
    return list(map(json.loads, result.stdout.splitlines()))


def pool_totals(trace):
    return {p["name"]: p for p in report(trace)["pools"]}


class Stacks(Case):
    """folded, pprof, speedscope"""

    def test_folded_totals(self):
        for trace in TRACES_COMPARED:
            pools = pool_totals(trace)
            for (of, metric), (key, _) in MEASURES.items():
                with self.subTest(trace=trace, of=of, metric=metric):
                    path = export(trace, "folded", self.dir / "f", "-f", "--of", of, "--metric",
                                  metric)
                    sums = collections.Counter()
                    for stack, value in read_folded(path):
                        self.assertGreater(value, 0)
                        sums[stack[0] if len(pools) > 1 else next(iter(pools))] += value
                    self.assertEqual(dict(sums), {n: p[key] for n, p in pools.items() if p[key]})

    def test_folded_lines_are_sorted_and_different(self):
        lines = export(MEMSCEN, "folded", self.dir / "f").read_bytes().split(b"\n")[:-1]
        stacks = [line.rsplit(b" ", 1)[0] for line in lines]
        self.assertEqual(len(stacks), len(set(stacks)))
        self.assertEqual(stacks, sorted(stacks))

    def test_the_client_is_left_out(self):
        shown = {stack[-1] for stack, _ in read_folded(export(MEMSCEN, "folded", self.dir / "a"))}
        self.assertFalse([f for f in shown if f.startswith("tracy::") or f == "Callstack"])
        all_frames = read_folded(export(MEMSCEN, "folded", self.dir / "b", "--all-frames"))
        inner = {stack[-1] for stack, _ in all_frames}
        self.assertIn("Callstack", inner)
        self.assertEqual(sum(v for _, v in all_frames),
                         sum(v for _, v in read_folded(self.dir / "a")))

    def test_leaves_are_sites(self):
        """Here every innermost function is the site: nothing of an allocator stands inside."""
        sites = collections.Counter()
        for s in report(MEMSCEN)["sites"]:
            sites[s["pool"], s["function"] or "[no call stack]"] += s["bytes"]
        leaves = collections.Counter()
        for stack, value in read_folded(export(MEMSCEN, "folded", self.dir / "f")):
            leaves[stack[0], stack[-1]] += value
        self.assertEqual({k: v for k, v in leaves.items() if "lambda" not in k[1]},
                         {k: v for k, v in sites.items() if "lambda" not in k[1]})

    def test_pprof_totals(self):
        names = {"total": "alloc", "live": "inuse", "peak": "peak", "temporary": "temporary"}
        for trace in TRACES_COMPARED:
            with self.subTest(trace=trace):
                profile = Pprof(export(trace, "pprof", self.dir / "p.pb.gz", "-f"))
                pools = pool_totals(trace)
                for (of, metric), (key, _) in MEASURES.items():
                    kind = f"{names[of]}_{'space' if metric == 'bytes' else 'objects'}"
                    sums = collections.Counter()
                    for pool, _, values in profile.samples:
                        sums[pool] += values[kind]
                    self.assertEqual(dict(sums), {n: p[key] for n, p in pools.items()})

    def test_pprof_stacks_are_the_folded_ones(self):
        sums = collections.Counter()
        for pool, stack, values in Pprof(export(MEMSCEN, "pprof", self.dir / "p")).samples:
            sums[pool, *(f.replace(";", ":") for f in reversed(stack))] += values["alloc_space"]
        folded = {tuple(s): v for s, v in read_folded(export(MEMSCEN, "folded", self.dir / "f"))}
        self.assertEqual(dict(sums), folded)

    def test_pprof_mappings(self):
        profile = Pprof(export(MEMSCEN, "pprof", self.dir / "p"))
        files = [profile.strings[m[5]] for m in profile.mappings]
        self.assertTrue(files[0].endswith("/memscen"), files)
        self.assertTrue(any("libc.so" in f for f in files))
        for m in profile.mappings:
            self.assertLess(m[2], m[3])

    def test_speedscope_totals(self):
        titles = {"total": "all allocations", "live": "live at the end",
                  "peak": "live at the peak", "temporary": "temporary"}
        for trace in TRACES_COMPARED:
            for metric in ("bytes", "count"):
                with self.subTest(trace=trace, metric=metric):
                    export(trace, "speedscope", self.dir / "s.json", "-f", "--metric", metric)
                    doc = json.loads((self.dir / "s.json").read_bytes())
                    frames = len(doc["shared"]["frames"])
                    got = {}
                    for p in doc["profiles"]:
                        self.assertEqual(len(p["samples"]), len(p["weights"]))
                        self.assertEqual(sum(p["weights"]), p["endValue"])
                        self.assertTrue(all(0 <= f < frames for s in p["samples"] for f in s))
                        got[p["name"]] = p["endValue"]
                    for name, pool in pool_totals(trace).items():
                        for (of, m), (key, _) in MEASURES.items():
                            if m == metric:
                                self.assertEqual(got[f"{name}: {titles[of]}"], pool[key])

    def test_speedscope_of_one_measure(self):
        export(MEMSCEN, "speedscope", self.dir / "s", "--of", "live")
        names = [p["name"] for p in json.loads((self.dir / "s").read_bytes())["profiles"]]
        self.assertEqual(len(names), 3)
        self.assertTrue(all(n.endswith(": live at the end") for n in names))


class Tables(Case):
    def folders(self, trace, *args):
        return {form: export(trace, form, self.dir / form, "-f", *args) for form in FOLDERS}

    def test_all_formats_hold_the_same_rows(self):
        for trace in (MEMSCEN, ALLSCEN, TRACES / "v0.14.0" / "allscen_sys.tracy",
                      TRACES / "v0.9.1" / "allscen.tracy",
                      TRACES / "v0.11.1" / "memscen_ondemand.tracy"):
            folders = self.folders(trace)
            db = database(export(trace, "sqlite", self.dir / "db", "-f"))
            for table in TABLES:
                with self.subTest(trace=trace, table=table):
                    names, wanted = read_tsv(folders["tsv"] / f"{table}.tsv")
                    self.assertTrue(names)
                    self.assert_rows(wanted, read_ndjson(folders["ndjson"] / f"{table}.ndjson"))
                    self.assert_rows(wanted, read_parquet(folders["parquet"] /
                                                          f"{table}.parquet"))
                    if "id" in names: # the database keeps these in order
                        wanted.sort(key=lambda row: int(row["id"]))
                    order = "1, 2" if table in ORDERED else "rowid"
                    self.assert_rows(wanted, db.execute(
                        f"SELECT * FROM {table} ORDER BY {order}").fetchall())

    def assert_rows(self, wanted, rows):
        rows = texts(rows)
        self.assertEqual(len(rows), len(wanted))
        for a, b in zip(wanted, rows):
            if a != b:
                self.assertEqual(list(a), list(b))
                for name in a:
                    self.assertTrue(same_numbers(a[name], b[name]), (name, a, b))

    def test_pools_and_sites_are_those_of_report(self):
        for trace in TRACES_COMPARED:
            with self.subTest(trace=trace):
                db = database(export(trace, "sqlite", self.dir / "db", "-f"))
                doc = report(trace)
                for row, p in zip(db.execute("SELECT * FROM pools ORDER BY id"), doc["pools"],
                                  strict=True):
                    for key in ("name", "allocations", "frees", "total_bytes", "live_allocations",
                                "live_bytes", "peak_bytes", "temporary_allocations"):
                        self.assertEqual(row[key], p[key], key)
                    self.assertEqual(row["peak_ns"], p["peak_time_ns"])
                    self.assertEqual(hex(row["low_address"]), p["low_address"])
                wanted = sorted((s["pool"], s["function"] or "", s["file"] or "", s["line"] or 0,
                                 s["count"], s["bytes"], s["live_count"], s["live_bytes"],
                                 s["at_peak_bytes"], s["temporary"]) for s in doc["sites"])
                got = sorted(tuple(r) for r in db.execute(
                    "SELECT t.pool, coalesce(s.function, ''), coalesce(s.file, ''), "
                    "coalesce(s.line, 0), sum(t.allocations), sum(total_bytes), "
                    "sum(live_allocations), sum(live_bytes), sum(at_peak_bytes), "
                    "sum(temporary_allocations) FROM (SELECT p.name AS pool, allocations, "
                    "t.total_bytes, t.live_allocations, t.live_bytes, at_peak_bytes, "
                    "t.temporary_allocations, callstack FROM (SELECT pool AS number, * FROM "
                    "callstack_totals) t JOIN (SELECT id, name FROM pools) p ON p.id = number) t "
                    "LEFT JOIN callstacks c ON c.id = t.callstack LEFT JOIN sites s "
                    "ON s.id = c.site GROUP BY t.pool, s.id"))
                self.assertEqual(got, wanted)

    def test_allocations_are_those_of_a_second_reader(self):
        for trace in TRACES_COMPARED:
            with self.subTest(trace=trace):
                db = database(export(trace, "sqlite", self.dir / "db", "-f"))
                got = [tuple(r) for r in db.execute(
                    "SELECT p.name, a.address, a.size, a.alloc_ns, a.free_ns, a.alloc_thread, "
                    "a.free_thread, a.alloc_callstack, a.free_callstack FROM allocations a "
                    "JOIN pools p ON p.id = a.pool ORDER BY a.id")]
                rows = csvexport("--memory", trace)
                def number(text):
                    return int(text, 0) if text else None
                wanted = [(r["pool"], number(r["address"]), number(r["size"]),
                           number(r["alloc_ns"]), number(r["free_ns"]), number(r["alloc_thread"]),
                           number(r["free_thread"]), number(r["alloc_callstack"]),
                           number(r["free_callstack"])) for r in rows]
                self.assertEqual(sorted(got, key=str), sorted(wanted, key=str))
                self.assertEqual(len(got), sum(len(p["events"]) for p in Trace(trace).pools.values()))

    def test_sums_of_rows_are_the_totals(self):
        db = database(export(MEMSCEN, "sqlite", self.dir / "db"))
        for p in db.execute("SELECT * FROM pools"):
            a = db.execute("SELECT count(*) n, sum(size) bytes, count(free_ns) frees, "
                           "sum(free_ns IS NULL) live, sum(size * (free_ns IS NULL)) live_bytes, "
                           "sum(size * (alloc_ns <= ?1 AND (free_ns IS NULL OR free_ns > ?1))) "
                           "AS peak FROM allocations WHERE pool = ?2",
                           (p["peak_ns"], p["id"])).fetchone()
            self.assertEqual((a["n"], a["bytes"], a["frees"], a["live"], a["live_bytes"],
                              a["peak"]),
                             (p["allocations"], p["total_bytes"], p["frees"],
                              p["live_allocations"], p["live_bytes"], p["peak_bytes"]))

    def test_usage(self):
        """Every change, counted anew from the allocations; and the peak of the coarse form."""
        for trace in (MEMSCEN, ALLSCEN):
            db = database(export(trace, "sqlite", self.dir / "db", "-f", "--points", "0"))
            for pool in db.execute("SELECT id, peak_bytes FROM pools").fetchall():
                changes = collections.defaultdict(lambda: [0, 0])
                for a in db.execute("SELECT size, alloc_ns, free_ns FROM allocations "
                                    "WHERE pool = ?", (pool["id"],)):
                    for time, sign in ((a["alloc_ns"], 1), (a["free_ns"], -1)):
                        if time is not None:
                            changes[time][0] += sign * a["size"]
                            changes[time][1] += sign
                live, count, wanted = 0, 0, []
                for time in sorted(changes):
                    live, count = live + changes[time][0], count + changes[time][1]
                    wanted.append((time, live, count))
                got = [tuple(r) for r in db.execute(
                    "SELECT time_ns, live_bytes, live_allocations FROM pool_usage WHERE pool = ? "
                    "ORDER BY time_ns", (pool["id"],))]
                self.assertEqual(got, wanted)
            for points in (1, 7, 100):
                coarse = database(export(trace, "sqlite", self.dir / "db", "-f", "--points",
                                         points))
                for pool in coarse.execute("SELECT * FROM pools").fetchall():
                    use = coarse.execute(
                        "SELECT count(*), max(live_bytes) FROM pool_usage WHERE pool = ?",
                        (pool["id"],)).fetchone()
                    self.assertEqual(use[1], pool["peak_bytes"])
                    self.assertLessEqual(use[0], 3 * (points + 1))
                    last = coarse.execute("SELECT live_bytes FROM pool_usage WHERE pool = ? "
                                          "ORDER BY time_ns DESC", (pool["id"],)).fetchone()
                    self.assertEqual(last[0], pool["live_bytes"])

    def test_zones_messages_plots(self):
        for release in RELEASES:
            trace = TRACES / release / "allscen.tracy"
            with self.subTest(trace=trace):
                db = database(export(trace, "sqlite", self.dir / "db", "-f"))
                info = json.loads(run("info", trace, "--format", "json").stdout)["counts"]
                def count(what):
                    return db.execute(f"SELECT count(*) FROM {what}").fetchone()[0]
                self.assertEqual(count("zones"), info["zones"])
                self.assertEqual(count("messages"), info["messages"])
                self.assertEqual(count("plots"), info["plots"])
                self.assertEqual(count("plot_points"), info["plot_points"])
                self.assertEqual(count("frame_marks"), info["frames"])
                self.assertEqual(count("callstacks"), info["call_stacks"])
                sums = db.execute("SELECT sum(points) FROM plots").fetchone()[0]
                self.assertEqual(sums, info["plot_points"])
                self.check_zones(db, trace)
                self.check_messages(db, trace)

    def check_zones(self, db, trace):
        """Against the dump; and children lie in their parents."""
        keys = ("thread", "depth", "start", "end", "name", "function", "file", "line",
                "zone_name", "text")
        wanted = collections.Counter(tuple(z.get(k) for k in keys) for z in dump(trace, "zones"))
        got = collections.Counter(tuple(r) for r in db.execute(
            "SELECT thread, depth, start_ns, end_ns, l.name, l.function, l.file, l.line, z.name, "
            "z.text FROM zones z LEFT JOIN source_locations l ON l.id = z.source_location"))
        self.assertEqual(got, wanted)
        self.assertGreater(len(got), 100)
        self.assertEqual(db.execute(
            "SELECT count(*) FROM zones z JOIN zones p ON p.id = z.parent WHERE "
            "z.thread <> p.thread OR z.depth <> p.depth + 1 OR z.start_ns < p.start_ns "
            "OR z.id <= p.id").fetchone()[0], 0)
        self.assertEqual(db.execute("SELECT count(*) FROM zones WHERE (parent IS NULL) <> "
                                    "(depth = 0)").fetchone()[0], 0)

    def check_messages(self, db, trace):
        wanted = sorted((m["time"], m.get("thread", -1), m.get("text", ""))
                        for m in dump(trace, "messages"))
        got = sorted((r[0], -1 if r[1] is None else r[1], r[2] or "") for r in db.execute(
            "SELECT time_ns, thread, text FROM messages"))
        self.assertEqual(got, wanted)

    def test_gpu_zones_locks_samples(self):
        for release in RELEASES:
            for name in ("allscen", "allscen_sys"):
                trace = TRACES / release / f"{name}.tracy"
                if trace.exists():
                    with self.subTest(trace=trace):
                        self.check_lists(trace)

    def check_lists(self, trace):
        """Against the dump, which numbers contexts and locks otherwise."""
        db = database(export(trace, "sqlite", self.dir / "db", "-f"))

        def same(got, wanted):
            self.assertEqual(collections.Counter(map(tuple, db.execute(got))),
                             collections.Counter(wanted))

        location = ("name", "function", "file", "line")
        places = "l.name, l.function, l.file, l.line"
        joined = "LEFT JOIN source_locations l ON l.id = x.source_location"
        same("SELECT name, type, thread FROM gpu_contexts",
             ((c.get("name"), c["type"], c["thread"] or None) for c in dump(trace, "gpu-contexts")))
        names = {c["context"]: c.get("name") for c in dump(trace, "gpu-contexts")}
        same("SELECT c.name, depth, cpu_start_ns, cpu_end_ns, gpu_start_ns, gpu_end_ns, "
             f"coalesce(x.thread, 0), x.callstack IS NULL, {places} FROM gpu_zones x {joined} "
             "JOIN gpu_contexts c ON c.id = x.context",
             ((names[z["context"]], z["depth"], z["cpu_start"], z.get("cpu_end"), z["gpu_start"],
               z.get("gpu_end"), z["thread"], int("callstack" not in z), *map(z.get, location))
              for z in dump(trace, "gpu-zones")))
        self.assertEqual(db.execute(
            "SELECT count(*) FROM gpu_zones z LEFT JOIN gpu_zones p ON p.id = z.parent WHERE "
            "(z.depth = 0) <> (p.id IS NULL) OR p.depth + 1 <> z.depth OR p.context <> z.context"
        ).fetchone()[0], 0)
        same(f"SELECT x.name, shared, announced_ns, terminated_ns, {places} FROM locks x {joined}",
             ((k.get("custom_name"), k["type"], k["announced"] or None, k["terminated"] or None,
               *map(k.get, location)) for k in dump(trace, "locks")))
        same(f"SELECT time_ns, thread, event, {places} FROM lock_events x {joined}",
             ((v["time"], v.get("thread"), v["event"], *map(v.get, location))
              for v in dump(trace, "lock-events")))
        same("SELECT thread, time_ns FROM samples",
             ((v["thread"], v["time"]) for v in dump(trace, "samples")))

    def test_call_stacks(self):
        db = database(export(MEMSCEN, "sqlite", self.dir / "db"))
        wanted = [(int(r["callstack"]), r["function"] or None, r["file"] or None,
                   int(r["line"]) if r["line"] else None, r["image"] or None, r["address"],
                   int(r["inline"])) for r in csvexport("--callstacks", MEMSCEN)]
        got = [tuple(r) for r in db.execute(
            "SELECT callstack, function, file, line, image, address, inlined "
            "FROM callstack_functions ORDER BY callstack, position, inline_position")]
        self.assertEqual(got, wanted)

    def test_references_lead_somewhere(self):
        for trace in TRACES_COMPARED:
            db = database(export(trace, "sqlite", self.dir / "db", "-f"))
            for table, column, other in (
                    ("allocations", "pool", "pools"), ("allocations", "alloc_thread", "threads"),
                    ("allocations", "free_thread", "threads"),
                    ("allocations", "alloc_callstack", "callstacks"),
                    ("allocations", "free_callstack", "callstacks"),
                    ("zones", "thread", "threads"), ("zones", "parent", "zones"),
                    ("zones", "source_location", "source_locations"),
                    ("zones", "callstack", "callstacks"), ("messages", "thread", "threads"),
                    ("messages", "callstack", "callstacks"), ("plot_points", "plot", "plots"),
                    ("frame_marks", "frame_set", "frame_sets"), ("callstacks", "site", "sites"),
                    ("callstack_frames", "callstack", "callstacks"),
                    ("callstack_frames", "frame", "frames"),
                    ("frame_functions", "frame", "frames"), ("pool_usage", "pool", "pools"),
                    ("callstack_totals", "pool", "pools"),
                    ("gpu_zones", "context", "gpu_contexts"), ("gpu_zones", "parent", "gpu_zones"),
                    ("gpu_zones", "source_location", "source_locations"),
                    ("gpu_zones", "callstack", "callstacks"), ("lock_events", "lock", "locks"),
                    ("lock_events", "source_location", "source_locations"),
                    ("samples", "callstack", "callstacks"),
                    ("callstack_totals", "callstack", "callstacks")):
                lost = db.execute(f"SELECT count(*) FROM {table} WHERE {column} IS NOT NULL AND "
                                  f"{column} NOT IN (SELECT id FROM {other})").fetchone()[0]
                self.assertEqual(lost, 0, (trace, table, column))

    def test_parquet_encodings(self):
        """Both are used, and the file says of its columns what they are."""
        export(MEMSCEN, "parquet", self.dir / "p")
        f = ParquetFile(self.dir / "p" / "allocations.parquet")
        self.assertEqual(f.encodings, {0, 8})
        kinds = {c[4].decode(): (c[1], c.get(6), c[3]) for c in f.schema}
        self.assertEqual(kinds["address"], (2, 14, 0))
        self.assertEqual(kinds["alloc_ns"], (2, 18, 0))
        self.assertEqual(kinds["free_ns"], (2, 18, 1))
        self.assertEqual(f.footer[6].decode(), "tidemark version " + run("version").stdout.split()[1])

    def test_one_table_alone(self):
        for form in FOLDERS:
            export(MEMSCEN, form, self.dir / "folder", "-f")
            whole = (self.dir / "folder" / f"pools.{form}").read_bytes()
            export(MEMSCEN, form, self.dir / "one", "-f", "--table", "pools")
            self.assertEqual((self.dir / "one").read_bytes(), whole)
            piped = subprocess.run([TIDEMARK, "export", "-", "--format", form, "--table", "pools"],
                                   stdin=open(MEMSCEN, "rb"), stdout=subprocess.PIPE, check=True)
            self.assertEqual(piped.stdout, whole)
        export(MEMSCEN, "tsv", self.dir / "two", "--table", "pools", "--table", "sites")
        self.assertEqual(sorted(p.name for p in (self.dir / "two").iterdir()),
                         ["pools.tsv", "sites.tsv"])


class Selection(Case):
    """Each filter against SQL over everything: rows, pools, call stacks and use over time."""

    def check(self, trace, args, condition, end=None):
        """`end`: what happens from this nanosecond on is not seen."""
        late = "free_ns" if end is None else f"CASE WHEN free_ns < {end} THEN free_ns END"
        everything = database(export(trace, "sqlite", self.dir / "all", "-f"))
        db = database(export(trace, "sqlite", self.dir / "some", "-f", "--points", 0, *args))
        columns = "p.name, address, size, alloc_ns, alloc_thread, alloc_callstack"
        wanted = [tuple(r) for r in everything.execute(
            f"SELECT {columns}, {late} FROM allocations a JOIN pools p ON p.id = a.pool "
            f"WHERE {condition} ORDER BY a.id")]
        got = [tuple(r) for r in db.execute(
            f"SELECT {columns}, free_ns FROM allocations a JOIN pools p ON p.id = a.pool "
            "ORDER BY a.id")]
        self.assertEqual(got, wanted)
        self.assertGreater(len(got), 0)
        self.assertLess(len(got), everything.execute("SELECT count(*) FROM allocations")
                        .fetchone()[0])
        sums = collections.defaultdict(lambda: [0, 0, 0])
        for row in got:
            sums[row[0]][0] += 1
            sums[row[0]][1] += row[2]
            sums[row[0]][2] += row[2] if row[6] is None else 0
        pools = {r["name"]: [r["allocations"], r["total_bytes"], r["live_bytes"]]
                 for r in db.execute("SELECT * FROM pools WHERE allocations > 0")}
        self.assertEqual(pools, dict(sums))
        totals = db.execute("SELECT sum(allocations), sum(total_bytes), sum(live_bytes) "
                            "FROM callstack_totals").fetchone()
        self.assertEqual(list(totals), [sum(v) for v in zip(*sums.values())])
        use = db.execute("SELECT sum(live_bytes) FROM (SELECT live_bytes, max(time_ns) "
                         "FROM pool_usage GROUP BY pool)").fetchone()[0]
        self.assertEqual(use, totals[2])
        folded = read_folded(export(trace, "folded", self.dir / "f", "-f", *args))
        self.assertEqual(sum(v for _, v in folded), totals[1])
        profile = Pprof(export(trace, "pprof", self.dir / "p", "-f", *args))
        self.assertEqual(sum(v["inuse_space"] for _, _, v in profile.samples), totals[2])

    def test_pool_thread_size(self):
        self.check(MEMSCEN, ["--pool", "arena"], "p.name = 'arena'")
        self.check(MEMSCEN, ["--size", "100:4K"], "size BETWEEN 100 AND 4096")
        self.check(ALLSCEN, ["--thread", "Main thread"],
                   "alloc_thread = (SELECT id FROM threads WHERE name = 'Main thread')")

    def test_times(self):
        db = database(export(MEMSCEN, "sqlite", self.dir / "all"))
        a, b = db.execute("SELECT min(alloc_ns) + (max(alloc_ns) - min(alloc_ns)) / 3, "
                          "max(alloc_ns) - (max(alloc_ns) - min(alloc_ns)) / 3 "
                          "FROM allocations").fetchone()
        self.check(MEMSCEN, ["--range", f"{a}:{b}"], f"alloc_ns >= {a} AND alloc_ns < {b}", b)
        self.check(MEMSCEN, ["--at", a],
                   f"alloc_ns <= {a} AND (free_ns IS NULL OR free_ns > {a})", a + 1)

    def test_call_stack_zone_frame(self):
        self.check(MEMSCEN, ["--match", "^render"],
                   "alloc_callstack IN (SELECT callstack FROM callstack_functions WHERE "
                   "function GLOB 'render*' OR file GLOB 'render*' OR image GLOB 'render*')")
        self.check(ALLSCEN, ["--zone", "frame"],
                   "EXISTS (SELECT 1 FROM zones z JOIN source_locations l "
                   "ON l.id = z.source_location WHERE coalesce(l.name, l.function) = 'frame' "
                   "AND z.thread = alloc_thread AND alloc_ns >= start_ns AND "
                   "(end_ns IS NULL OR alloc_ns < end_ns))")
        db = database(export(MEMSCEN, "sqlite", self.dir / "all", "-f"))
        begin, end = db.execute("SELECT start_ns, end_ns FROM frame_marks WHERE frame_set = 1 "
                                "AND number = 5").fetchone()
        self.check(MEMSCEN, ["--frame", 5], f"alloc_ns >= {begin} AND alloc_ns < {end}", end)

    def test_other_tables_are_whole(self):
        for table in ("zones", "messages", "plot_points", "frame_marks", "callstacks"):
            export(ALLSCEN, "tsv", self.dir / "all", "-f", "--table", table)
            export(ALLSCEN, "tsv", self.dir / "some", "-f", "--table", table, "--zone", "frame",
                   "--frame", 3)
            self.assertEqual((self.dir / "some").read_bytes(), (self.dir / "all").read_bytes())

    def test_what_is_not_there(self):
        for args in (["--pool", "none"], ["--thread", "none"], ["--zone", "none"],
                     ["--frame", "1000000"], ["--match", "("]):
            for form in ("folded", "parquet"):
                result = run("export", MEMSCEN, "--format", form, "-o", self.dir / "x", *args)
                self.assertEqual(result.returncode, 2, args)
                self.assert_clean()


class Chrome(Case):
    def test_events(self):
        db = database(export(ALLSCEN, "sqlite", self.dir / "db"))
        doc = json.loads(export(ALLSCEN, "chrome", self.dir / "c").read_bytes())
        events = collections.Counter((e["ph"], e.get("cat")) for e in doc["traceEvents"])
        def count(what):
            return db.execute(f"SELECT count(*) FROM {what}").fetchone()[0]
        self.assertEqual(events["X", "zone"] + events["B", "zone"], count("zones"))
        self.assertEqual(events["i", "message"], count("messages"))
        self.assertEqual(events["C", "plot"], count("plot_points"))
        self.assertEqual(events["C", "memory"], 2 * count("pool_usage"))
        self.assertEqual(events["X", "frame"] + events["B", "frame"], count("frame_marks"))
        for p in db.execute("SELECT name, peak_bytes FROM pools"):
            values = [e["args"]["value"] for e in doc["traceEvents"]
                      if e["name"] == f"live bytes: {p['name']}"]
            self.assertEqual(max(values), p["peak_bytes"])
        self.assertTrue(all(0 <= e["tid"] < 2**31 for e in doc["traceEvents"] if "tid" in e))

    def test_times(self):
        db = database(export(ALLSCEN, "sqlite", self.dir / "db"))
        doc = json.loads(export(ALLSCEN, "chrome", self.dir / "c").read_bytes())
        wanted = sorted(r[0] for r in db.execute("SELECT start_ns FROM zones"))
        got = sorted(round(e["ts"] * 1000) for e in doc["traceEvents"] if e.get("cat") == "zone")
        self.assertEqual(got, wanted)


class Names(Case):
    """Names that would break a careless writer."""

    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory(prefix="tidemark-")
        cls.addClassCleanup(folder.cleanup)
        cls.trace = pathlib.Path(folder.name) / "nasty.tracy"
        items = thread_name(7, b"main \"\xff\n\t'")
        for i, name in enumerate(NASTY):
            address = 0x401000 + 16 * i
            pool = 0x700000 + 16 * i
            items += string(pool, name) + frame_name(address, name, name, line=i)
            items += callstack(address) + alloc(10 + i, 7, 0x1000 + 64 * i, 64 + i)
            items += alloc_plain(20 + i, 7, 0x1000 + 64 * i, 100 + i, pool=pool)
        result = capture_items(cls.trace, items)
        if result.returncode != 0:
            raise AssertionError(result.stderr)
        cls.names = {n.decode("utf-8", "replace") for n in NASTY}
        cls.pools = {p["name"]: p for p in report(cls.trace)["pools"]}

    def test_report_knows_them(self):
        self.assertEqual(len(self.pools), len(NASTY) + 1)

    def test_tables(self):
        for form, read in (("ndjson", read_ndjson), ("parquet", read_parquet),
                           ("tsv", lambda path: read_tsv(path)[1])):
            export(self.trace, form, self.dir / form)
            pools = read(self.dir / form / f"pools.{form}")
            self.assertEqual({p["name"]: int(p["total_bytes"]) for p in pools},
                             {n: p["total_bytes"] for n, p in self.pools.items()}, form)
            functions = {f["function"] for f in read(self.dir / form / f"frame_functions.{form}")}
            self.assertLessEqual(self.names, functions, form)
        raw = (self.dir / "tsv" / "pools.tsv").read_bytes()
        self.assertFalse(re.search(rb"[\x00-\x08\x0b-\x1f\x7f]", raw))

    def test_sqlite(self):
        db = database(export(self.trace, "sqlite", self.dir / "db"))
        got = {r["name"]: r["total_bytes"] for r in db.execute("SELECT * FROM pools")}
        self.assertEqual(got, {n: p["total_bytes"] for n, p in self.pools.items()})

    def test_folded(self):
        lines = read_folded(export(self.trace, "folded", self.dir / "f"))
        self.assertEqual(sum(v for _, v in lines),
                         sum(p["total_bytes"] for p in self.pools.values()))
        self.assertTrue(all(len(stack) == 2 for stack, _ in lines))
        self.assertFalse(re.search(rb"[\x00-\x09\x0b-\x1f\x7f]",
                                   (self.dir / "f").read_bytes()))

    def test_pprof(self):
        profile = Pprof(export(self.trace, "pprof", self.dir / "p"))
        self.assertLessEqual(self.names, set(profile.functions.values()))
        self.assertEqual({pool for pool, _, _ in profile.samples}, set(self.pools))

    def test_json(self):
        doc = json.loads(export(self.trace, "speedscope", self.dir / "s").read_bytes())
        self.assertLessEqual(self.names, {f["name"] for f in doc["shared"]["frames"]})
        doc = json.loads(export(self.trace, "chrome", self.dir / "c").read_bytes())
        self.assertLessEqual({f"live bytes: {n}" for n in self.pools},
                             {e["name"] for e in doc["traceEvents"]})


class Manual(Case):
    page = (ROOT / "man" / "tidemark-export.1").read_text()

    def queries(self):
        section = self.page.split(".Ss Worked queries", 1)[1]
        return [q.replace("\\e", "\\") for q in
                re.findall(r"^\.Bd -literal.*?\n(.*?)^\.Ed$", section, re.S | re.M)]

    def test_worked_queries(self):
        queries = self.queries()
        self.assertGreaterEqual(len(queries), 12)
        answered = set()
        for trace in (MEMSCEN, ALLSCEN, TRACES / "v0.14.0" / "memscen_mt.tracy"):
            db = database(export(trace, "sqlite", self.dir / "db", "-f"))
            for i, query in enumerate(queries):
                with self.subTest(query=query):
                    if db.execute(query).fetchall():
                        answered.add(i)
        self.assertEqual(answered, set(range(len(queries))))

    def test_answers(self):
        """Some of the answers, against figures from elsewhere."""
        db = database(export(MEMSCEN, "sqlite", self.dir / "db"))
        doc = report(MEMSCEN)
        queries = self.queries()
        live = db.execute(queries[0]).fetchall()
        self.assertEqual(sum(r["live_bytes"] for r in live),
                         sum(p["live_bytes"] for p in doc["pools"]))
        peak = collections.Counter()
        for r in db.execute(queries[1]):
            peak[r[0]] += r["bytes"]
        self.assertEqual(dict(peak), {p["name"]: p["peak_bytes"] for p in doc["pools"]})
        temporary = db.execute(queries[2]).fetchall()
        self.assertEqual(sum(r["temporary_allocations"] for r in temporary),
                         sum(p["temporary_allocations"] for p in doc["pools"]))
        lives = db.execute(queries[3]).fetchall()
        self.assertEqual(sum(r[1] for r in lives), sum(p["frees"] for p in doc["pools"]))
        classes = db.execute(queries[4]).fetchall()
        self.assertEqual(sum(r[3] for r in classes), sum(p["total_bytes"] for p in doc["pools"]))

    def test_answer_of_threads(self):
        """Threads are told apart by number: many programs give all of theirs one name."""
        db = database(export(TRACES / "v0.14.0" / "memscen_mt.tracy", "sqlite", self.dir / "db"))
        wanted = db.execute("SELECT count(*) FROM allocations "
                            "WHERE free_thread <> alloc_thread").fetchone()[0]
        self.assertGreater(wanted, 0)
        db.execute("UPDATE threads SET name = 'worker'")
        query = [q for q in self.queries() if "free_thread <>" in q][0]
        self.assertEqual(sum(r["count(*)"] for r in db.execute(query)), wanted)

    def test_answer_of_zones(self):
        """The innermost zone of each allocation, found by looking at all of them."""
        db = database(export(ALLSCEN, "sqlite", self.dir / "db"))
        query = [q for q in self.queries() if "[no zone]" in q][0]
        wanted = collections.defaultdict(lambda: [0, 0])
        zones = collections.defaultdict(list)
        for z in db.execute("SELECT n.name, z.* FROM zones z JOIN named_zones n ON n.id = z.id"):
            zones[z["thread"]].append(z)
        for a in db.execute("SELECT * FROM allocations"):
            around = [z for z in zones[a["alloc_thread"]] if z["start_ns"] <= a["alloc_ns"] and
                      (z["end_ns"] is None or z["end_ns"] > a["alloc_ns"])]
            name = max(around, key=lambda z: z["depth"])[0] if around else "[no zone]"
            wanted[name][0] += 1
            wanted[name][1] += a["size"]
        self.assertEqual({r[0]: [r[1], r[2]] for r in db.execute(query)}, dict(wanted))

    def test_columns(self):
        """The page lists the tables and columns that there are, in their order."""
        listed = {}
        section = self.page.split(".Ss Tables", 1)[1].split(".Sh EXIT STATUS")[0]
        for part in re.split(r"^\.It Cm ", section, flags=re.M)[1:]:
            listed[part.split("\n", 1)[0]] = re.findall(r"^\.It Va (\w+)$", part, re.M)
        export(MEMSCEN, "tsv", self.dir / "t")
        there = {table: read_tsv(self.dir / "t" / f"{table}.tsv")[0] for table in TABLES}
        self.assertEqual(sorted(p.stem for p in (self.dir / "t").iterdir()), sorted(TABLES))
        self.assertEqual(listed, there)


class Command(Case):
    def test_wrong_command_lines(self):
        for args in ([], [MEMSCEN], ["--format", "folded"], [MEMSCEN, "--format", "svg"],
                     [MEMSCEN, MEMSCEN, "--format", "folded"],
                     [MEMSCEN, "--format", "folded", "--of", "all"],
                     [MEMSCEN, "--format", "folded", "--metric", "kilobytes"],
                     [MEMSCEN, "--format", "pprof", "--of", "live", "-o", self.dir / "x"],
                     [MEMSCEN, "--format", "sqlite"], [MEMSCEN, "--format", "parquet"],
                     [MEMSCEN, "--format", "tsv", "--table", "pool", "-o", self.dir / "x"],
                     [MEMSCEN, "--format", "folded", "--table", "pools"],
                     [MEMSCEN, "--format", "chrome", "--points", "many"],
                     [MEMSCEN, "--format", "folded", "--points", "3"],
                     [MEMSCEN, "--format", "chrome", "--all-frames"]):
            result = run("export", *args)
            self.assertEqual((result.returncode, result.stdout), (2, ""), args)
            self.assertTrue(result.stderr.startswith("export: "), result.stderr)
        self.assert_clean()

    def test_standard_output(self):
        for form in ("folded", "pprof", "speedscope", "chrome"):
            export(MEMSCEN, form, self.dir / "file", "-f")
            with open(MEMSCEN, "rb") as trace:
                piped = subprocess.run([TIDEMARK, "export", "-", "--format", form, "-o", "-"],
                                       stdin=trace, stdout=subprocess.PIPE, check=True)
            self.assertEqual(piped.stdout, (self.dir / "file").read_bytes(), form)

    def test_outputs_that_exist_stand(self):
        for form in FORMATS:
            with self.subTest(form=form):
                out = self.dir / form
                if form in FOLDERS:
                    out.mkdir()
                    old = out / f"zones.{form}"
                else:
                    old = out
                old.write_bytes(b"old")
                result = run("export", MEMSCEN, "--format", form, "-o", out)
                self.assertEqual(result.returncode, 4)
                self.assertIn("exists", result.stderr)
                self.assertEqual(old.read_bytes(), b"old")
                if form in FOLDERS:
                    self.assertEqual([p.name for p in out.iterdir()], [old.name])
                export(MEMSCEN, form, out, "-f")
                self.assertNotEqual(old.read_bytes(), b"old")

    def test_damaged_traces_leave_nothing(self):
        cut = self.dir / "cut.tracy"
        cut.write_bytes(ALLSCEN.read_bytes()[:60000])
        for form in FORMATS:
            result = run("export", cut, "--format", form, "-o", self.dir / "out")
            self.assertEqual(result.returncode, 3, form)
            self.assert_clean("cut.tracy")
            missing = run("export", self.dir / "no", "--format", form, "-o", self.dir / "out")
            self.assertEqual(missing.returncode, 3, form)
            self.assert_clean("cut.tracy")

    def test_outputs_that_cannot_be_written(self):
        for form in FORMATS:
            result = run("export", MEMSCEN, "--format", form, "-o", self.dir / "no" / "such")
            self.assertEqual(result.returncode, 4, form)
        for form in ("folded", "pprof", "speedscope", "chrome"):
            with open("/dev/full", "wb") as full:
                result = subprocess.run([TIDEMARK, "export", MEMSCEN, "--format", form, "-o", "-"],
                                        stdout=full, stderr=subprocess.PIPE)
            self.assertEqual(result.returncode, 4, form)
        result = run("export", MEMSCEN, "--format", "sqlite", "-o", "/dev/null")
        self.assertEqual(result.returncode, 4)
        self.assert_clean()

    def test_traces_without_memory(self):
        bare = self.dir / "bare.tracy"
        self.assertEqual(run("update", "-s", "M", ALLSCEN, bare).returncode, 0)
        for form in FORMATS:
            export(bare, form, self.dir / form)
        self.assertEqual(read_folded(self.dir / "folded"), [])
        self.assertEqual(Pprof(self.dir / "pprof").samples, [])
        self.assertEqual(read_parquet(self.dir / "parquet" / "allocations.parquet"), [])
        self.assertEqual(read_tsv(self.dir / "tsv" / "pools.tsv")[1], [])
        db = database(self.dir / "sqlite")
        self.assertEqual(db.execute("SELECT count(*) FROM site_totals").fetchone()[0], 0)
        self.assertGreater(db.execute("SELECT count(*) FROM zones").fetchone()[0], 0)

    def test_every_fixture(self):
        for trace in sorted(TRACES.glob("*/*.tracy")):
            for form in ("sqlite", "pprof", "chrome"):
                export(trace, form, self.dir / form, "-f")
            export(trace, "parquet", self.dir / "zones", "-f", "--table", "zones")
            self.assertEqual(json.loads((self.dir / "chrome").read_bytes())["displayTimeUnit"],
                             "ns")
