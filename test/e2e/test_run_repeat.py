"""`tidemark run --repeat`: several runs of a program, a trace of each, one report of all."""

import json
import signal
import subprocess
import sys
import xml.etree.ElementTree

from tools import TIDEMARK, Case, run

SOURCE = """#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
int main(int argc, char **argv) {
    char *volatile p = malloc(atoi(argv[1]));
    if (argc > 3) { puts("ready"); fflush(stdout); pause(); }
    free(p);
    return argc > 2 ? atoi(argv[2]) : 0;
}
"""


class Repeat(Case):
    def setUp(self):
        super().setUp()
        (self.dir / "app.c").write_text(SOURCE)
        subprocess.run(["gcc", "-g", "-O0", "-o", self.dir / "app", self.dir / "app.c"], check=True)

    def repeat(self, count, *options, size=5000000, name="run", program=()):
        return run("run", "--repeat", count, "-o", self.dir / f"{name}.tracy", *options, "--",
                   self.dir / "app", size, *program)

    def traces(self, name="run"):
        return sorted(path.name for path in self.dir.glob(f"{name}*.tracy"))

    def test_figures(self):
        result = self.repeat(3, "--report", "json", "--fail-if", "peak>4M", "--fail-if", "peak>1G")
        self.assertEqual(result.returncode, 1, result.stderr)
        self.assertEqual(self.traces(), ["run.1.tracy", "run.2.tracy", "run.3.tracy"])
        doc = json.loads(result.stdout)
        self.assertEqual((doc["schema"], doc["base"], len(doc["now"])), ("tidemark.runs/1", [], 3))
        self.assertEqual([check["holds"] for check in doc["checks"]], [False, True])
        peak, = (pool["totals"]["peak_bytes"] for pool in doc["pools"] if pool["name"] == "default")
        self.assertEqual(peak["now"], {"median": 5000000, "mean": 5000000, "spread": 0})

    def test_base(self):
        self.assertEqual(self.repeat(5, "--report", "none", name="main").returncode, 0)
        base = run("baseline", self.dir / "ci", *(self.dir / name for name in self.traces("main")))
        self.assertEqual(base.returncode, 0, base.stderr)
        compare = ("--base", self.dir / "ci" / "main", "-f", "--fail-if", "peak>+5%", "--report")
        result = self.repeat(5, *compare, "markdown")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("Nothing changed beyond the noise.", result.stdout)
        report = self.dir / "memory.xml"
        result = self.repeat(5, *compare, "junit", "--report-file", report, size=6000000)
        self.assertEqual((result.returncode, result.stdout), (1, ""), result.stderr)
        suite = xml.etree.ElementTree.parse(report).find("testsuite")
        self.assertEqual((suite.get("name"), suite.get("tests"), suite.get("failures")),
                         ("tidemark run", "1", "1"))
        result = self.repeat(5, *compare, "none", size=6000000)
        self.assertEqual((result.returncode, result.stdout), (1, ""))
        self.assertIn("fail-if peak>+5%", result.stderr)
        text = self.repeat(5, *compare, "text", size=6000000)
        self.assertEqual((text.returncode, text.stdout), (1, ""))
        self.assertIn("FAILED peak>+5%", text.stderr)

    def test_failures(self):
        """A run that fails is no sample: there is no report, and no further run."""
        result = self.repeat(3, "--report", "json", program=(7,))
        self.assertEqual((result.returncode, result.stdout), (7, ""))
        self.assertIn("run 1 of 3 ended with exit status 7", result.stderr)
        self.assertEqual(self.traces(), ["run.1.tracy"])
        again = self.repeat(3)
        self.assertEqual(again.returncode, 4)
        self.assertIn("run.1.tracy exists; -f replaces it", again.stderr)
        again = self.repeat(2, "--base", self.dir / "none", name="new")
        self.assertEqual((again.returncode, self.traces("new")), (3, []), again.stderr)

    def test_request_to_end(self):
        """SIGTERM is passed on to the run, after which there is no other one."""
        process = subprocess.Popen(
            [TIDEMARK, "run", "--repeat", "3", "-o", str(self.dir / "run.tracy"), "--",
             str(self.dir / "app"), "5000", "0", "wait"],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.assertEqual(process.stdout.readline(), "ready\n")
        process.send_signal(signal.SIGTERM)
        out, errors = process.communicate(timeout=60)
        self.assertEqual((process.returncode, out), (128 + signal.SIGTERM, ""), errors)
        self.assertIn("run 1 of 3 ended with exit status 143 after a request to end", errors)
        self.assertEqual(self.traces(), ["run.1.tracy"])

    def test_unrecorded(self):
        """Budgets do not cover children that are not recorded."""
        (self.dir / "app").rename(self.dir / "child")
        (self.dir / "app").write_text(f"#!{sys.executable}\nimport subprocess\n"
                                      f"subprocess.run(['{self.dir}/child', '5000'])\n")
        (self.dir / "app").chmod(0o755)
        result = self.repeat(2, "--fail-if", "peak>1G", "--report", "none")
        self.assertEqual(result.returncode, 1)
        self.assertIn("--fail-if covers less than the process tree", result.stderr)
        result = self.repeat(2, "-f", "--fail-if", "peak>1G", "--report", "none", "--this-process")
        self.assertEqual(result.returncode, 0, result.stderr)

    def test_an_earlier_report(self):
        """None is left where there is no new one, and a file that cannot be written costs no run."""
        report, trace = self.dir / "report", self.dir / "run.tracy"
        for status, options, program in ((127, ("--report", "json"), (self.dir / "none",)),
                                         (127, ("--report", "text"), (self.dir / "none",)),
                                         (3, ("--repeat", 2, "--report", "json"),
                                          (self.dir / "app", 1, 3))):
            report.write_text("yesterday")
            result = run("run", "-f", "-o", trace, *options, "--report-file", report, "--", *program)
            self.assertEqual((result.returncode, report.read_text()), (status, ""), result.stderr)
        report.write_text("yesterday")
        for file, repeat in ((report, ()), (report, ("--repeat", 2)), (self.dir / "none/x", ())):
            result = run("run", "-o", self.dir / "new.tracy", *repeat, "--report-file", file, "--",
                         "touch", self.dir / "ran")
            self.assertEqual(result.returncode, 4, result.stderr)
            self.assertFalse((self.dir / "ran").exists())
        self.assertEqual(report.read_text(), "yesterday")
        missing = self.dir / "missing"
        result = run("run", "-f", "-o", trace, "--report-file", missing, "--", self.dir / "none")
        self.assertEqual((result.returncode, missing.exists()), (127, False))

    def test_refusals(self):
        for args in (("--repeat", "2"), ("--base", "x", "-o", "x"), ("--fail-if", "peak>+5%"),
                     ("--repeat", "0", "-o", "x"),
                     ("--repeat", "2", "-o", "x", "--follow-fork"),
                     ("--repeat", "2", "-o", "x", "--fail-if", "peak>+5%"),
                     ("--repeat", "2", "-o", "x", "--report", "html")):
            result = run("run", *args, "--", self.dir / "app", "1")
            self.assertEqual((result.returncode, result.stdout), (2, ""), args)
        self.assertEqual(self.traces(), [])
