"""Every question with every selection: the figures of all of them are those of the allocations that
`export` gives for the same selection, which test_export.py holds against SQL on the whole trace."""

import collections
import json
import re

from pagedata import Page
from tools import TRACES, Case, not_sanitized, report, run

ALLSCEN = TRACES / "v0.14.0" / "allscen.tracy"
MEMSCEN = TRACES / "v0.14.0" / "memscen.tracy"
BUILT = "without the page" not in run("report", MEMSCEN, "--format", "html", "--by", "site").stderr


def ask(command, *args):
    result = run(command, *args, "--format", "json")
    if result.returncode != 0:
        raise AssertionError(f"{command} {args}: {result.stderr}")
    return json.loads(result.stdout)


class Blocks:
    """The allocations of a selection, one by one."""

    def __init__(self, trace, selection):
        def table(name):
            out = run("export", trace, "--format", "ndjson", "--table", name, "-o", "-",
                      *selection)
            if out.returncode != 0:
                raise AssertionError(out.stderr)
            return [json.loads(line) for line in out.stdout.splitlines()]

        pools = {p["id"]: p["name"] for p in table("pools")}
        self.rows = table("allocations")
        self.by_pool = collections.defaultdict(list)
        for row in self.rows:
            self.by_pool[pools[row["pool"]]].append(row)

    def sums(self, pool=None):
        rows = self.rows if pool is None else self.by_pool[pool]
        live = [r["size"] for r in rows if r["free_ns"] is None]
        return len(rows), sum(r["size"] for r in rows), len(live), sum(live)

    def use(self, time, rows=None):
        held = [r["size"] for r in (self.rows if rows is None else rows)
                if r["alloc_ns"] <= time and (r["free_ns"] is None or r["free_ns"] > time)]
        return len(held), sum(held)

    def peak(self, rows=None):
        rows = self.rows if rows is None else rows
        steps = collections.Counter()
        for r in rows:
            steps[r["alloc_ns"]] += r["size"]
            if r["free_ns"] is not None:
                steps[r["free_ns"]] -= r["size"]
        now, best = 0, (0, 0)
        for time in sorted(steps):
            now += steps[time]
            best = (now, time) if now > best[0] else best
        return best


def selections(trace, zone):
    times = sorted(r["alloc_ns"] for r in Blocks(trace, ()).rows)
    third, two = times[len(times) // 3], times[2 * len(times) // 3]
    thread = ask("report", trace, "--by", "thread")["groups"][0]["name"]
    pools = [p["name"] for p in report(trace)["pools"]]
    single = [("--pool", pools[-1]), ("--thread", thread), ("--range", f"{third}:{two}"),
              ("--at", third), ("--size", "64:128"), ("--match", "scen.cpp"), ("--frame", 5)]
    if zone:
        single.append(("--zone", zone))
    pairs = [single[0] + single[2], single[1] + single[4], single[2] + single[5],
             single[3] + single[4], single[-1] + single[4], ("--range", f"{third}:") + ("--at", two)]
    return [()] + single + pairs


@not_sanitized
class Matrix(Case):
    def check_report(self, trace, selection, blocks):
        doc = report(trace, *selection)
        for pool in doc["pools"]:
            rows = blocks.by_pool[pool["name"]]
            self.assertEqual((pool["allocations"], pool["total_bytes"], pool["live_allocations"],
                              pool["live_bytes"]), blocks.sums(pool["name"]))
            self.assertEqual((pool["peak_bytes"], pool["peak_time_ns"]),
                             blocks.peak(rows) if rows else (0, pool["peak_time_ns"]))
        self.assertEqual(sum(p["allocations"] for p in doc["pools"]), len(blocks.rows))
        for by in ("function", "callstack", "type", "pool", "thread", "zone", "frame"):
            rows = report(trace, "--by", by, *selection)["groups"]
            self.assertEqual((sum(r["count"] for r in rows), sum(r["bytes"] for r in rows),
                              sum(r["live_count"] for r in rows),
                              sum(r["live_bytes"] for r in rows)), blocks.sums(), by)

    def check_leaks(self, trace, selection, blocks):
        totals = ask("report", trace, "--leaks", *selection)["totals"].values()
        self.assertEqual((sum(t["count"] for t in totals), sum(t["bytes"] for t in totals)),
                         blocks.sums()[2:])

    def check_grown(self, trace, selection, blocks):
        times = sorted(r["alloc_ns"] for r in blocks.rows)
        begin, end = times[len(times) // 4], times[-1]
        result = run("report", trace, "--grown", f"{begin}:{end}", "--format", "json", *selection)
        if begin == end:
            self.assertEqual(result.returncode, 2)
            return
        self.assertEqual(result.returncode, 0, result.stderr)
        doc = json.loads(result.stdout)
        total = doc["total"]
        self.assertEqual((total["count_before"], total["bytes_before"]), blocks.use(begin))
        self.assertEqual((total["count_after"], total["bytes_after"]), blocks.use(doc["to_ns"]))
        self.assertEqual(sum(s["growth"] for s in doc["sites"]), total["growth"])

    def check_peak(self, trace, selection, blocks):
        if "--at" in selection:  # the highest until then, whatever lives on
            at = selection.index("--at")
            end = min([selection[at + 1] + 1] + [int(v.split(":")[1]) for v in map(str, selection)
                                                 if re.fullmatch(r"\d+:\d+", v) and int(
                                                     v.split(":")[1]) > 1000])
            begin = next((v.split(":")[0] for v in map(str, selection)
                          if v.endswith(":") and ":" in v), "")
            rest = selection[:at] + selection[at + 2:]
            if "--range" in rest:
                i = rest.index("--range")
                rest = rest[:i] + rest[i + 2:]
            blocks = Blocks(trace, (*rest, "--range", f"{begin}:{end}"))
        high, time = blocks.peak()
        doc = report(trace, "--peak", *selection)
        self.assertEqual(sum(p["live_bytes"] for p in doc["pools"]), high)
        self.assertEqual(doc["selection"]["at_ns"], time)
        self.assertEqual(sum(p["live_allocations"] for p in doc["pools"]), blocks.use(time)[0])

    def check_histograms(self, trace, selection, blocks):
        doc = ask("report", trace, "--histograms", *selection)
        self.assertEqual((sum(s["count"] for s in doc["sizes"]),
                          sum(s["bytes"] for s in doc["sizes"]),
                          doc["live"]["count"], doc["live"]["bytes"]), blocks.sums())
        freed = [r["free_ns"] - r["alloc_ns"] for r in blocks.rows if r["free_ns"] is not None]
        self.assertEqual(sum(s["count"] for s in doc["lifetimes"]), len(freed))
        below = doc["lifetimes"][0]["below_ns"] if freed else 0
        self.assertEqual(doc["lifetimes"][0]["count"] if freed else 0,
                         sum(life < below for life in freed))

    def check_patterns(self, trace, selection, blocks):
        sites = ask("report", trace, "--patterns", *selection)["sites"]
        self.assertEqual((sum(s["count"] for s in sites), sum(s["bytes"] for s in sites)),
                         blocks.sums()[:2])
        self.assertEqual(sum(s["live_bytes"] for s in sites), blocks.sums()[3])

    def check_related(self, trace, selection, blocks):
        doc = ask("report", trace, "--related", *selection)
        self.assertLess(doc["begin_ns"], doc["end_ns"])
        self.assertLessEqual(doc["begin_ns"], min(r["alloc_ns"] for r in blocks.rows))

    def check_tree(self, trace, selection, blocks):
        for direction in ("--top-down", "--bottom-up"):
            total = ask("tree", trace, direction, *selection)["total"]
            self.assertEqual((total["count"], total["bytes"], total["live_count"],
                              total["live_bytes"]), blocks.sums())
            if "--range" not in selection:
                self.assertEqual(total["at_peak_bytes"], blocks.peak()[0])

    def check_timeline(self, trace, selection, blocks):
        if "--range" in selection:  # that is the stretch of time which is drawn
            i = selection.index("--range")
            begin, end = selection[i + 1].split(":")
            blocks = Blocks(trace, selection[:i] + selection[i + 2:])
        for pool in ask("timeline", trace, *selection)["pools"]:
            rows, last = blocks.by_pool[pool["name"]], pool["buckets"][-1]
            self.assertEqual((last["last_live"], last["last_bytes"]),
                             blocks.use(last["end_ns"] - 1, rows))
            self.assertEqual(sum(b["allocations"] for b in pool["buckets"]),
                             sum(pool["buckets"][0]["begin_ns"] <= r["alloc_ns"] < last["end_ns"]
                                 for r in rows))

    def check_map(self, trace, selection, blocks):
        doc = ask("map", trace, *selection)
        for pool in doc["pools"]:
            rows = blocks.by_pool[pool["name"]]
            last = pool["samples"][-1]
            self.assertEqual((last["blocks"], last["bytes"]), blocks.use(doc["time_ns"], rows))

    def check_find(self, trace, selection, blocks):
        block = blocks.rows[len(blocks.rows) // 2]
        doc = ask("find", trace, block["address"], *selection)
        want = sum(int(r["address"], 16) <= int(block["address"], 16) < int(r["address"], 16) +
                   max(r["size"], 1) for r in blocks.rows)
        self.assertIn((block["alloc_ns"], block["size"]),
                      [(a["time_ns"], a["size"]) for a in doc["allocations"]])
        if "--at" not in selection:
            self.assertEqual(len(doc["allocations"]), want)

    def check_diff(self, trace, selection, blocks):
        doc = ask("diff", trace, trace, *selection)
        self.assertEqual(doc["rows"], [])
        now = [p["now"] for p in doc["pools"]]
        self.assertEqual((sum(p["allocations"] for p in now), sum(p["total_bytes"] for p in now),
                          sum(p["live_allocations"] for p in now),
                          sum(p["live_bytes"] for p in now)), blocks.sums())

    def check_budgets(self, trace, selection, blocks):
        count, size, live, leaked = blocks.sums()
        holds = (f"count={count}", f"total={size}", f"leaked_count={live}", f"leaked={leaked}")
        for expression in holds:
            result = run("verify", trace, "--expect", expression, *selection)
            self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
            result = run("report", trace, "--fail-if", expression, *selection)
            self.assertEqual(result.returncode, 1, result.stderr)
        result = run("verify", trace, "--expect", f"count<{count}", *selection)
        self.assertEqual(result.returncode, 1, result.stdout + result.stderr)
        result = run("verify", trace, "--expect-allocations", count, "--within", 1, *selection)
        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)

    def check_page(self, trace, selection, blocks):
        if not BUILT:
            return  # test_page.py says so
        out = self.dir / "page.html"
        result = run("report", trace, "--format", "html", "-o", out, "-f", *selection)
        self.assertEqual(result.returncode, 0, result.stderr)
        page = Page(out)
        rows = page.figures(0, page.steps).values()
        self.assertEqual((sum(r["count"] for r in rows), sum(r["bytes"] for r in rows),
                          sum(r["live"] for r in rows), sum(r["live_bytes"] for r in rows)),
                         blocks.sums())
        self.assertEqual(sum(r["temporary"] for r in rows),
                         sum(p["temporary_allocations"]
                             for p in report(trace, *selection)["pools"]))
        for pool, points in zip(page.data["pools"], page.points()):
            self.assertEqual(max(p[0] for p in points), blocks.peak(blocks.by_pool[pool["name"]])[0])
            self.assertEqual((points[-1][2], points[-1][1]), blocks.sums(pool["name"])[2:])
        times = [r["alloc_ns"] for r in blocks.rows]
        times += [r["free_ns"] for r in blocks.rows if r["free_ns"] is not None]
        self.assertEqual((page.data["time"]["from"], page.data["time"]["to"]),
                         (min(times), max(times)))
        self.assertEqual(bool(page.data["selection"]), bool(selection))

    def walk(self, trace, zone):
        checks = [getattr(self, name) for name in dir(self) if name.startswith("check_")]
        for selection in selections(trace, zone):
            blocks = Blocks(trace, selection)
            self.assertTrue(blocks.rows, selection)
            for check in checks:
                with self.subTest(trace=trace.name, selection=selection, check=check.__name__):
                    check(trace, selection, blocks)

    def test_zones_and_frames(self):
        self.walk(ALLSCEN, "frame")

    def test_pools_and_frames(self):
        self.walk(MEMSCEN, None)
