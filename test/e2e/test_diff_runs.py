"""`diff` of several runs on each side, and `baseline`, which keeps their figures."""

import csv
import io
import json
import os
import xml.etree.ElementTree

from tools import TRACES, Case, run

MEMSCEN = TRACES / "v0.14.0" / "memscen.tracy"
POOLS = ("peak_bytes", "live_bytes", "live_allocations", "total_bytes", "allocations",
         "temporary_allocations")


class Runs(Case):
    def figures(self):
        folder = self.dir / "source"
        self.assertEqual(run("baseline", folder, MEMSCEN).returncode, 0)
        return json.loads(next((folder / "main").iterdir()).read_text())

    def side(self, name, factors):
        """A folder of runs in which everything is so many times as large."""
        folder, figures = self.dir / name, self.figures()
        folder.mkdir()
        for i, factor in enumerate(factors):
            one = json.loads(json.dumps(figures))
            for row in one["pools"] + one["sites"]:
                for key in ("live_bytes", "peak_bytes", "total_bytes", "bytes"):
                    if key in row:
                        row[key] = int(row[key] * factor)
            (folder / f"{i}.json").write_text(json.dumps(one))
        return folder

    def document(self, *args, status=0):
        result = run("diff", *args, "--format", "json")
        self.assertEqual(result.returncode, status, result.stderr)
        return json.loads(result.stdout)

    def test_regression(self):
        base = self.side("base", (1, 1.001, 0.999, 1.002, 1))
        now = self.side("now", (1.05, 1.051, 1.049, 1.05, 1.052))
        doc = self.document(base, "--", now, "--metric", "peak")
        self.assertEqual(doc["schema"], "tidemark.runs/1")
        self.assertTrue(doc["noise_known"])
        self.assertEqual((len(doc["base"]), len(doc["now"])), (5, 5))
        peak = doc["pools"][0]["totals"]["peak_bytes"]
        self.assertTrue(peak["changed"] and peak["low"] > 0)
        self.assertLess(peak["low"], peak["change"])
        self.assertLess(peak["change"], peak["high"])
        self.assertAlmostEqual(peak["change"] / peak["base"]["mean"], 0.05, delta=0.002)
        self.assertTrue(all(row["kind"] in ("grown", "same") for row in doc["rows"]))
        self.assertIn("grown", [row["kind"] for row in doc["rows"]])
        self.assertFalse(doc["pools"][0]["totals"]["allocations"]["changed"])
        result = run("diff", base, "--", now, "--fail-if", "peak>+4%", "--fail-if", "peak>+10%")
        self.assertEqual(result.returncode, 1)
        self.assertIn("FAILED peak>+4%: ", result.stdout)
        self.assertIn("ok peak>+10%: ", result.stdout)

    def test_noise(self):
        base = self.side("base", (1, 2.2, 4.1, 1.5, 3))
        now = self.side("now", (3.1, 1.2, 2, 4.4, 4))
        doc = self.document(base, "--", now, "--fail-if", "peak>+1%")
        self.assertEqual({row["kind"] for row in doc["rows"]}, {"same"})
        self.assertTrue(doc["pools"][0]["totals"]["peak_bytes"]["unstable"])
        self.assertGreater(doc["unstable"], 0)
        self.assertIn("within the noise", doc["checks"][0]["detail"])
        self.assertIn("peak is unstable", doc["checks"][0]["detail"])
        muted = self.document(base, "--", now, "--mute-unstable")
        self.assertEqual(muted["muted"], muted["unstable"])
        figures = [*muted["rows"],
                   *(one for pool in muted["pools"] for one in pool["totals"].values())]
        self.assertTrue(muted["pools"][0]["totals"]["peak_bytes"]["muted"])
        self.assertEqual([one["muted"] for one in figures], [one["unstable"] for one in figures])
        self.assertEqual(muted["tested"], sum(not one["muted"] for one in figures))
        text = run("diff", base, "--", now).stdout
        self.assertIn("(diff --mute-unstable leaves such out)", text)
        self.assertNotIn("muted", text)
        named = self.document(base, "--", now, "--mute", ".")
        self.assertEqual(named["muted"], sum(bool(row["function"] or row["file"])
                                             for row in named["rows"]))
        for mute, count in ((".", named["muted"]), ("misspelt", 0)):
            for form in ("text", "markdown"):
                shown = run("diff", base, "--", now, "--mute", mute, "--format", form).stdout
                self.assertRegex(shown, f"(?m)^muted: {count} rows$")

    def test_too_few(self):
        """One against one cannot show what is noise, whatever the figures are."""
        base, now = self.side("base", (1,)), self.side("now", (9,))
        doc = self.document(base, "--", now, "--fail-if", "peak>+5%", status=1)
        self.assertFalse(doc["noise_known"])
        self.assertEqual({row["kind"] for row in doc["rows"]}, {"same"})
        self.assertIn("unknown: 1 against 1", doc["checks"][0]["detail"])
        self.assertIn("no change is established", run("diff", base, "--", now).stdout)
        for format in ("text", "markdown"):
            self.assertIn("One run on each side does not show", run("diff", MEMSCEN, MEMSCEN, "--format",
                                                        format).stdout)
        self.assertIs(self.document(MEMSCEN, MEMSCEN)["noise_known"], False)

    def test_formats(self):
        base, now = self.side("base", (1,) * 5), self.side("now", (1.1,) * 5)
        args = ("diff", base, "--", now, "--limit", "0", "--fail-if", "peak>+5%", "--format")
        doc = json.loads(run(*args, "json").stdout)
        rows = list(csv.DictReader(io.StringIO(run(*args, "csv").stdout)))
        totals = [row for row in rows if row["kind"] == "total"]
        self.assertEqual(len(totals), len(POOLS) * len(doc["pools"]))
        self.assertEqual([(row["kind"], row["function"], float(row["change"]))
                          for row in rows if row["kind"] != "total"],
                         [(row["kind"], row["function"] or "", row["change"])
                          for row in doc["rows"]])
        suite = xml.etree.ElementTree.fromstring(run(*args, "junit").stdout).find("testsuite")
        self.assertEqual((suite.get("name"), suite.get("tests"), suite.get("failures")),
                         ("tidemark diff", "1", "1"))
        shown = run(*args, "markdown").stdout
        self.assertIn("Within the noise", shown)
        self.assertEqual(shown.count("<details"), shown.count("</details>"))

    def test_other_programs(self):
        """Runs of another program in a baseline would look like noise."""
        base, now = self.side("base", (1, 1, 1)), self.side("now", (1, 1))
        self.assertEqual(run("diff", base, "--", now).stderr, "")
        other = json.loads((base / "2.json").read_text())
        (base / "2.json").write_text(json.dumps({**other, "program": "other"}))
        self.assertEqual(run("diff", base, "--", now, "--format", "json").stderr,
                         f"tidemark: note: runs of different programs: memscen ({base}/0.json), "
                         f"other ({base}/2.json)\n")

    def test_traces(self):
        """Traces, files of figures and folders may stand side by side."""
        folder = self.side("base", (1, 1))
        doc = self.document(MEMSCEN, folder, "--", folder / "0.json", MEMSCEN, MEMSCEN)
        self.assertEqual((len(doc["base"]), len(doc["now"])), (3, 3))
        for pool in doc["pools"]:
            self.assertEqual({total["change"] for total in pool["totals"].values()}, {0})
        self.assertEqual({row["change"] for row in doc["rows"]}, {0})

    def test_no_base(self):
        """Runs of one side: medians and spreads, and budgets of the medians."""
        runs = self.side("runs", (1, 1, 2, 1, 3))
        args = ("--", runs, "--fail-if", "peak>1G", "--fail-if", "peak>1")
        doc = self.document(*args, status=1)
        self.assertEqual((len(doc["base"]), len(doc["now"])), (0, 5))
        self.assertEqual([check["holds"] for check in doc["checks"]], [True, False])
        figures = self.figures()["pools"][0]
        peak = doc["pools"][0]["totals"]["peak_bytes"]
        self.assertEqual((peak["now"]["median"], peak["change"], peak["base"]["median"]),
                         (figures["peak_bytes"], None, None))
        self.assertTrue(peak["unstable"])
        means = [row["now"]["mean"] for row in doc["rows"]]
        self.assertEqual(means, sorted(means, reverse=True))
        self.assertIn("5 runs: medians", run("diff", *args).stdout)
        self.assertIn("| | Median | |", run("diff", *args, "--format", "markdown").stdout)
        rows = list(csv.DictReader(io.StringIO(run("diff", *args, "--format", "csv").stdout)))
        self.assertEqual({row["base_median"] for row in rows}, {""})

    def test_unreadable_files_of_a_folder(self):
        """Each is named, the others are compared, and the exit status is not 0."""
        base = self.side("base", (1, 1))
        whole = self.document(base, "--", MEMSCEN)
        os.mkfifo(base / "8.json")
        (base / "9.tracy").write_bytes(MEMSCEN.read_bytes()[:20000])
        said = [f"tidemark: {base}/8.json: not a regular file", f"tidemark: {base}/9.tracy: ",
                "tidemark: 2 files of a folder cannot be read: see above"]
        lacks = f"2 files cannot be read: {base}/8.json, {base}/9.tracy"
        for args, status, lines in (((), 3, 3), (("--fail-if", "peak>1T"), 3, 3),
                                    (("--fail-if", "peak>1"), 1, 3)):
            out = self.dir / "out.json"
            result = run("diff", base, "--", MEMSCEN, "--format", "json", "-f", "-o", out, *args)
            self.assertEqual(result.returncode, status, result.stderr)
            found = result.stderr.splitlines()
            self.assertEqual(len(found), lines, found)
            for line, begin in zip(found, said[:2] if status == 1 else said):
                self.assertTrue(line.startswith(begin), line)
            doc = json.loads(out.read_text())
            self.assertEqual((doc["base"], doc["rows"]), (whole["base"], whole["rows"]))
            self.assertEqual(doc["checks"][-1],
                             {"name": "all-runs-read", "holds": False, "detail": lacks})
        args = ("diff", base, "--", MEMSCEN, "--format")
        for form, line in (("text", f"FAILED all-runs-read: {lacks}\n"),
                           ("markdown", f"❌ `all-runs-read`: `{lacks}`\n")):
            self.assertEqual(run(*args, form).stdout.count(line), 1, form)
        suite = xml.etree.ElementTree.fromstring(run(*args, "junit").stdout).find("testsuite")
        self.assertEqual([(case.get("name"), case.find("failure").get("message"))
                          for case in suite], [("all-runs-read", lacks)])
        result = run("baseline", self.dir / "ci", base)
        self.assertEqual((result.returncode, result.stdout), (3, ""))
        self.assertEqual(result.stderr.splitlines()[-1], said[-1])
        self.assertFalse((self.dir / "ci").exists())
        for path in base.glob("[01].json"):
            path.unlink()
        result = run("diff", base, "--", MEMSCEN)
        self.assertEqual((result.returncode, result.stdout), (3, ""))
        self.assertIn(f"tidemark: {base}: no run in this folder can be read\n", result.stderr)

    def test_refusals(self):
        empty = self.dir / "empty"
        empty.mkdir()
        bad = self.dir / "bad.json"
        bad.write_text('{"schema": "tidemark.figures/1", "verdict": "", "empty": false}')
        for status, args in ((2, (MEMSCEN, "--")), (2, ("--",)),
                             (2, ("--", MEMSCEN, "--fail-if", "peak>+1%")),
                             (2, (MEMSCEN, "--", MEMSCEN, "--by", "callstack")),
                             (2, (MEMSCEN, MEMSCEN, MEMSCEN)), (3, (empty, "--", MEMSCEN)),
                             (3, (bad, "--", MEMSCEN)), (3, (MEMSCEN, "--", self.dir / "none")),
                             (2, (self.side("base", (1,)), "--", MEMSCEN, "--pool", "default"))):
            result = run("diff", *args)
            self.assertEqual((result.returncode, result.stdout), (status, ""), args)
            self.assertRegex(result.stderr, r"\A(tidemark|diff): [^\n]+\n", args)


class Baseline(Case):
    def add(self, *args):
        result = run("baseline", self.dir / "ci", *args)
        self.assertEqual(result.returncode, 0, result.stderr)
        return result.stdout

    def test_retention(self):
        for _ in range(3):
            self.add(MEMSCEN, MEMSCEN, "--keep", "5")
        kept = sorted((self.dir / "ci" / "main").iterdir())
        self.assertEqual(len(kept), 5)
        self.assertIn("1 run, 5 removed", self.add(MEMSCEN, "--keep", "1"))
        self.assertEqual(len(list((self.dir / "ci" / "main").iterdir())), 1)
        self.assertGreater(min((self.dir / "ci" / "main").iterdir()), kept[-1])
        old = self.dir / "ci" / "main" / "20010101T000000.000000000Z.json"
        old.write_text("{}")
        self.add(MEMSCEN, "--max-age", "86400")
        self.assertFalse(old.exists())

    def test_files_of_others(self):
        """A folder with other files keeps them, and they push no run out."""
        others = [self.dir / "ci" / "main" / name for name in ("0.json", "package.json", "x")]
        others[0].parent.mkdir(parents=True)
        for path in others:
            path.write_text("{}")
        self.assertIn("main: 1 run\n", self.add(MEMSCEN))
        self.assertIn("main: 1 run, 1 removed\n", self.add(MEMSCEN, "--keep", "1"))
        self.assertEqual(len(os.listdir(others[0].parent)), 4)
        for path in others:
            self.assertTrue(path.exists())

    def test_branches(self):
        self.add(MEMSCEN, "--branch", "feature/../x %")
        self.add(MEMSCEN, "--branch", "..")
        self.assertEqual(sorted(os.listdir(self.dir / "ci")), ["%2E.", "feature%2F..%2Fx%20%25"])
        self.assertEqual(run("baseline", self.dir / "ci").stdout,
                         "..: 1 run\nfeature/../x %: 1 run\n")

    def test_nothing_is_added(self):
        """Of several traces, if one has no memory data."""
        stripped = self.dir / "stripped.tracy"
        self.assertEqual(run("update", "-s", "M", MEMSCEN, stripped).returncode, 0)
        self.assertEqual(run("baseline", self.dir / "ci", MEMSCEN, stripped).returncode, 1)
        self.assertEqual(run("baseline", self.dir / "ci", MEMSCEN, self.dir / "none").returncode, 3)
        self.assertFalse((self.dir / "ci").exists())
        (self.dir / "file").write_text("")
        self.assertEqual(run("baseline", self.dir / "file", MEMSCEN).returncode, 4)
        self.assertEqual(run("baseline").returncode, 2)
