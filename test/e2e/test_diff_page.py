"""`tidemark diff --format html`: the figures in the page against the other formats of the same
comparison. What a browser makes of it is in test/web/page_test.mjs."""

import json
import subprocess
import unittest

from pagedata import BLOCK, Reader, unpack
from test_page import ALL, MT, BUILT, hostile_trace
from tools import FIREHOSE, TRACES, UNBUILT, Case, replaying, run

MEMSCEN = TRACES / "v0.13.1" / "memscen.tracy"
METRICS = ("bytes", "count", "live_bytes", "live_count", "at_peak_bytes", "at_peak_count",
           "temporary")


class DiffPage:
    def __init__(self, path):
        blocks = BLOCK.findall(path.read_text(encoding="utf-8"))
        assert len(blocks) == 1, len(blocks)
        self.block = blocks[0]
        self.data = json.loads(self.block)
        self.data |= json.loads(unpack(self.data.pop("tables")))
        self.read_tree()

    def read_tree(self):
        reader, n = Reader(self.data["tree"]), self.data["nodeCount"]
        parents = [0] + [i - reader.unsigned() for i in range(1, n)]
        frames = [0] + [reader.unsigned() for _ in range(1, n)]
        figures = [[[reader.unsigned() for _ in range(n)] for _ in range(2)] for _ in METRICS]
        assert reader.done()
        self.paths = [()]
        for parent, frame in zip(parents[1:], frames[1:]):
            self.paths.append((*self.paths[parent], self.name(self.data["frames"][frame])))
        # Of each side the own figures by path.
        self.own = [{path: tuple(metric[side][i] for metric in figures)
                     for i, path in enumerate(self.paths)
                     if any(metric[side][i] for metric in figures)} for side in range(2)]

    def name(self, frame):
        function, _, _, image, _, _ = frame
        strings = self.data["strings"]
        return strings[function] or f"[unknown] {strings[image].split('/')[-1]}"

    def curve(self, side):
        curve = self.data["curves"][side]
        reader, at, out = Reader(curve["high"]), 0, []
        for _ in range(curve["count"]):
            at += reader.signed()
            out.append(at)
        assert reader.done()
        return out


def make_page(base, now, output, *args):
    result = run("diff", base, now, "--format", "html", "-fo", output, *args)
    assert result.returncode in (0, 1), result.stderr
    return DiffPage(output)


def ask(*args):
    return json.loads(run(*args, "--format", "json").stdout)


def tree_of(trace, *args):
    """The own figures of a trace's tree by path, and the total."""
    doc = ask("tree", trace, "--by", "line", *args)
    paths, own = {None: ()}, {}
    for node in doc["nodes"]:
        name = node["function"]
        if name is None:
            unknown = node["image"] is not None
            name = f"[unknown] {node['image'].split('/')[-1]}" if unknown else node["name"]
        path = paths[node["id"]] = (*paths[node["parent"]], name)
        figures = tuple(node["exclusive"][m] for m in METRICS)
        if any(figures):
            old = own.get(path, (0,) * len(METRICS))
            own[path] = tuple(a + b for a, b in zip(old, figures))
    return own, tuple(doc["total"][m] for m in METRICS)


@unittest.skipUnless(BUILT, UNBUILT)
class Figures(Case):
    def test_as_in_the_other_formats(self):
        for base, now in ((MEMSCEN, MT), (MT, ALL), (MT, MT)):
            with self.subTest(base=base, now=now):
                self.compare(base, now)

    def compare(self, base, now):
        page, doc = make_page(base, now, self.dir / "x.html"), ask("diff", base, now)
        data, strings = page.data, page.data["strings"]
        shown = run("diff", base, now).stdout
        self.assertEqual(data["answer"], doc["answer"])
        self.assertEqual(shown.split("\n")[0], doc["answer"])
        self.assertEqual((data["same"], data["metric"]), (doc["same"], doc["metric"]))
        rows = [self.row(r, strings) for r in data["rows"]]
        self.assertEqual(rows, [self.row_of_json(r) for r in doc["rows"]])
        self.assertEqual(data["rowsLeftOut"], 0)
        titles = [f["name"] for f in data["poolFigures"]]
        self.assertEqual(titles[0], "Peak")
        keys = ("peak_bytes", "live_bytes", "live_allocations", "total_bytes", "allocations",
                "temporary_allocations")
        self.assertEqual(
            [(p["name"], p["figures"]) for p in data["pools"]],
            [(p["name"], [[(p[side] or {}).get(key, 0) for side in ("base", "now")]
                          for key in keys]) for p in doc["pools"]])

    def row(self, row, strings):
        site = row["site"]
        function, file, line = (None, None, None) if site == 2 else \
            (strings[site[0]] or None, strings[site[1]] or None, site[2] or None)
        return (row["kind"], strings[row["pool"]], function, file, line, bool(row["unsure"]),
                strings[row["type"]] or None, *map(self.side, row["sides"]))

    def side(self, figures):
        return figures and tuple(figures)

    def row_of_json(self, row):
        keys = ("bytes", "count", "live_bytes", "live_count", "peak_bytes")
        return (row["kind"], row["pool"], row["function"], row["file"], row["line"], row["unsure"],
                row["type"], *(row[s] and tuple(row[s][k] for k in keys) for s in ("base", "now")))

    def test_call_stacks(self):
        page = make_page(MEMSCEN, MT, self.dir / "x.html")
        self.assertEqual(page.data["leftOut"], 0)
        for side, trace in enumerate((MEMSCEN, MT)):
            own, total = tree_of(trace)
            self.assertGreater(len(own), 10)
            self.assertEqual(page.own[side], own)
            self.assertEqual(tuple(map(sum, zip(*own.values()))), total)
        self.assertTrue(set(page.own[0]) & set(page.own[1]), "call stacks of both are one")

    def test_a_selection(self):
        only = ("--pool", "arena", "--size", "100:")
        page = make_page(MEMSCEN, MT, self.dir / "x.html", *only)
        self.assertEqual([p["name"] for p in page.data["pools"]], ["arena"])
        self.assertIn("of pool arena, of 100 bytes or more", page.data["selection"])
        for side, trace in enumerate((MEMSCEN, MT)):
            self.assertEqual(page.own[side], tree_of(trace, *only)[0])

    def test_curves(self):
        page = make_page(MEMSCEN, MT, self.dir / "x.html")
        for side, trace in enumerate((MEMSCEN, MT)):
            doc = ask("timeline", trace, "--together", "--buckets", 1024)
            buckets = doc["pools"][0]["buckets"]
            self.assertEqual(page.curve(side), [b["high_bytes"] for b in buckets])
            self.assertEqual(page.data["curves"][side]["end"], buckets[-1]["end_ns"])

    def test_budgets(self):
        page = make_page(MEMSCEN, MT, self.dir / "x.html", "--fail-if", "peak>+5%", "--fail-if",
                         "count>+5%")
        doc = ask("diff", MEMSCEN, MT, "--fail-if", "peak>+5%", "--fail-if", "count>+5%")
        self.assertEqual(page.data["checks"], doc["checks"])
        self.assertEqual([c["holds"] for c in doc["checks"]], [True, False])

    def test_light_calls_are_combined(self):
        recording, traces = self.dir / "f.c2s.bin", []
        for seed in (1, 2):
            traces.append(self.dir / f"{seed}.tracy")
            subprocess.run([FIREHOSE, "-o", recording, "--events", "200000", "--stacks", "30000",
                            "--seed", str(seed)], check=True, stdout=subprocess.DEVNULL)
            with replaying(recording) as (_, port):
                result = run("capture", "-o", traces[-1], "-p", port)
            self.assertEqual(result.returncode, 0, result.stderr)
        page = make_page(*traces, self.dir / "x.html")
        marks = sum(path[-1:] == ("[lighter calls left out]",) for path in page.paths)
        self.assertGreater(page.data["leftOut"], 1000)
        self.assertEqual(len(page.paths) - marks, 20000)
        for side, trace in enumerate(traces):
            own, total = tree_of(trace)
            self.assertEqual(tuple(map(sum, zip(*page.own[side].values()))), total)
            # What is still there by its path is what it was.
            kept = {path: f for path, f in page.own[side].items()
                    if path[-1:] != ("[lighter calls left out]",)}
            self.assertEqual({path: own[path] for path in kept}, kept)


@unittest.skipUnless(BUILT, UNBUILT)
class Runs(Case):
    def test_the_page_has_the_document(self):
        hostile_trace(self.dir / "x.tracy")
        damaged = self.dir / "damaged"
        damaged.mkdir()
        (damaged / "1.tracy").write_bytes(MT.read_bytes())
        (damaged / "2.tracy").write_bytes(MT.read_bytes()[:20000])
        for runs in ((MEMSCEN, MEMSCEN, "--", MT, MT, MT), ("--", MT, MT),
                     (MT, "--", self.dir / "x.tracy"), (damaged, "--", MT)):
            with self.subTest(runs=runs):
                page, budget = self.dir / "x.html", ("--fail-if", "count>9500")
                told = run("diff", *runs, *budget, "--format", "html", "-fo", page)
                doc = run("diff", *runs, *budget, "--format", "json")
                self.assertEqual((told.returncode, told.stderr), (doc.returncode, doc.stderr))
                blocks = BLOCK.findall(page.read_text(encoding="utf-8"))
                self.assertEqual(len(blocks), 1)
                data = json.loads(blocks[0])
                self.assertEqual(data["schema"], "tidemark.runspage/1")
                self.assertEqual(unpack(data["runs"]).decode(), doc.stdout)
                self.assertEqual("all-runs-read" in doc.stdout, runs[0] == damaged)


@unittest.skipUnless(BUILT, UNBUILT)
class Safety(Case):
    def test_hostile_names(self):
        hostile_trace(self.dir / "x.tracy")
        page = make_page(MT, self.dir / "x.tracy", self.dir / "x.html")
        self.assertNotRegex(page.block, r"[<>&\u2028\u2029\u202e\u2066\x00-\x09\x0b-\x1f\x7f]")
        self.assertEqual(page.block.count("\n"), 1)
        self.assertIn("</script><script>alert(1)</script>", page.data["strings"])

    def test_options_that_choose_rows_are_refused(self):
        for option in (["--limit", "3"], ["--stack-traces"]):
            result = run("diff", MT, MT, "--format", "html", *option)
            self.assertEqual((result.returncode, result.stdout), (2, ""))
            self.assertIn("--format html", result.stderr)
        result = run("diff", MT, "--", MT, "--format", "html", "--limit", "3")
        self.assertEqual((result.returncode, result.stdout), (2, ""))


if __name__ == "__main__":
    unittest.main()
