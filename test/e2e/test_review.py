"""The forms for the review of a change: `report` as Markdown, `report` and `verify` as JUnit XML."""

import json
import re
import xml.etree.ElementTree

from clients import alloc_plain, capture_items, frame_name, string, thread_name
from test_capture import alloc, callstack
from tools import TRACES, Case, report, run, without_code

MEMSCEN = TRACES / "v0.14.0" / "memscen.tracy"
EVERYTHING = TRACES / "v0.14.0" / "allscen_sys.tracy"
BUDGETS = (("peak>=8M", False, "peak is 8.00 MiB (8,388,608)"),
           ("leaked>1G", True, "leaked is 320 KiB (327,797)"),
           ('count(site=~"<x>|y")>0', True, "is 0"))


def flags(option="--fail-if"):
    return [arg for expression, _, _ in BUDGETS for arg in (option, expression)]


def table(markdown, title):
    """Rows of the table whose head begins so."""
    lines = markdown.splitlines()
    begin = next(i for i, line in enumerate(lines) if line.startswith(title))
    found = []
    for line in lines[begin + 2:]:
        if not line.startswith("|"):
            break
        found.append([cell.strip() for cell in line.strip("|").split("|")])
    return found


def unescape(text):
    return re.sub("&#(\\d+);", lambda m: chr(int(m[1])), text).replace("<code>", "").replace(
        "</code>", "").replace("`", "")


class JUnit(Case):
    def cases(self, xml_text, failures):
        suite = xml.etree.ElementTree.fromstring(xml_text).find("testsuite")
        cases = {case.get("name"): case for case in suite.iter("testcase")}
        self.assertEqual((suite.get("tests"), suite.get("failures")),
                         (str(len(cases)), str(failures)))
        return cases

    def outcomes(self, cases, wanted):
        for expression, holds, why in BUDGETS:
            failure = cases[expression].find("failure")
            self.assertEqual(failure is None, holds == wanted, expression)
            said = (cases[expression].findtext("system-out") if failure is None
                    else failure.get("message"))
            self.assertIn(why, said)

    def test_report(self):
        out = self.dir / "junit.xml"
        result = run("report", MEMSCEN, "--format", "junit", *flags(), "-o", out)
        self.assertEqual(result.returncode, 1)
        cases = self.cases(out.read_text(), 1)
        self.assertEqual(list(cases), [expression for expression, _, _ in BUDGETS])
        self.outcomes(cases, True)
        result = run("report", MEMSCEN, "--format", "junit", "--fail-if", "leaked>1G")
        self.assertEqual(result.returncode, 0)
        self.cases(result.stdout, 0)

    def test_verify(self):
        result = run("verify", MEMSCEN, "--format", "junit", *flags("--expect"))
        self.assertEqual(result.returncode, 1)
        cases = self.cases(result.stdout, 2)
        self.assertEqual(list(cases), ["memory-data"] + [text for text, _, _ in BUDGETS])
        self.outcomes(cases, False)
        result = run("verify", MEMSCEN, "--format", "junit", "--pool", "<none>&\"'\x1b\xff")
        self.assertEqual(result.returncode, 1)
        self.assertIn("<none>&\"'\\x1b", self.cases(result.stdout, 1)["pool"].find("failure").get(
            "message"))

    def test_refusals(self):
        for args in (("report", MEMSCEN, "--format", "junit"),
                     ("report", MEMSCEN, "--format", "junit", "--related", "--fail-if", "peak>1"),
                     ("report", MEMSCEN, "--leaks", "--by", "function"),
                     ("report", MEMSCEN, "--patterns", "--sort", "count"),
                     ("report", MEMSCEN, "--grown", "0:1s", "--min-size", "1K"),
                     ("report", MEMSCEN, "--related", "--min-count", "2"),
                     ("report", MEMSCEN, "--format", "junit", "--histograms", "--fail-if", "peak>1"),
                     ("tree", MEMSCEN, "--format", "junit")):
            self.assertEqual(run(*args).returncode, 2, args)


def shown_part(name):
    """A part of a function's name that every Markdown form has: of a long one its last word."""
    if len(name.encode()) <= 60:
        return name.split("(")[0]
    while "<" in (bare := re.sub("<[^<>]*>", "", name)) and bare != name:
        name = bare
    return bare.split("(")[0].split("::")[-1].strip()


class Markdown(Case):
    def test_figures(self):
        result = run("report", MEMSCEN, "--format", "markdown", *flags())
        self.assertEqual(result.returncode, 1)
        shown = result.stdout
        self.assertTrue(shown.startswith("<!-- tidemark -->\n### Memory of `memscen`\n\n17,808 memory "))
        for line in shown.splitlines():  # the source can be read
            self.assertTrue("<x>|y" in unescape(line) or not re.search("&#|<code>", line), line)
        self.assertIn("`render::Mesh::build_vertices(Rng&) (ms_render.cpp:28)`", shown)
        budgets = [unescape(line) for line in shown.splitlines() if line.startswith("- ")]
        self.assertEqual(budgets[0], "- ❌ peak>=8M: peak is 8.00 MiB (8,388,608)")
        self.assertEqual([line[2] for line in budgets], ["❌", "✅", "⚠"])
        truth = report(MEMSCEN)
        pools = table(shown, "| Pool | Peak ")
        self.assertEqual([unescape(row[0]) for row in pools], [p["name"] for p in truth["pools"]])
        self.assertEqual([row[5] for row in pools],
                         [f"{p['allocations']:,}" for p in truth["pools"]])
        sites = table(shown, "| Where ")
        best = sorted(truth["sites"], key=lambda s: -s["bytes"])[:10]
        self.assertEqual([row[2] for row in sites], [f"{s['count']:,}" for s in best])
        self.assertIn(f"<summary>10 of {len(truth['sites'])} sites, by size</summary>\n\n|", shown)

    def test_rows(self):
        for by in ("site", "function", "callstack", "type", "pool", "thread", "zone", "frame"):
            result = run("report", EVERYTHING, "--format", "markdown", "--by", by, "--limit", 0)
            self.assertEqual((result.returncode, result.stderr), (0, ""), by)
            doc = report(EVERYTHING, "--by", by)
            rows = doc["sites" if by == "site" else "groups"]
            word = "call stack" if by == "callstack" else by
            self.assertIn(f"<summary>{len(rows)} {word}{'s' * (len(rows) != 1)}, by size<",
                          result.stdout)
            self.assertEqual(sorted(row[2] for row in table(result.stdout, "| Where ")),
                             sorted(f"{row['count']:,}" for row in rows))

    def test_tree(self):
        """The nodes of the JSON form, each once and in its order, within its parent."""
        for args in ((), ("--bottom-up", "--by", "line"), ("--metric", "live-count"),
                     ("--depth", "3", "--pool", "default")):
            result = run("tree", MEMSCEN, "--format", "markdown", "--min-share", "0", *args)
            self.assertEqual((result.returncode, result.stderr), (0, ""))
            doc = json.loads(run("tree", MEMSCEN, "--format", "json", *args).stdout)
            self.assertTrue(result.stdout.startswith(
                "<!-- tidemark -->\n### Call-stack tree of `memscen`\n\n"))
            self.assertIn(f"{doc['direction'].capitalize()} by {doc['by']}, {doc['metric']}: ",
                          result.stdout)
            self.assertEqual("Only allocations of pool" in result.stdout, "--pool" in args)
            lines = [line for line in result.stdout.splitlines() if line.lstrip().startswith("- ")]
            self.assertEqual(len(lines), len(doc["nodes"]))
            for line, node in zip(lines, doc["nodes"]):
                self.assertIn(unescape(shown_part(node["name"])), unescape(line))
                self.assertEqual(len(line) - len(line.lstrip()), 2 * (node["depth"] - 1), line)
        short = run("tree", MEMSCEN, "--format", "markdown").stdout
        self.assertIn(" smaller one", short)

    def test_leaks(self):
        shown = run("report", MEMSCEN, "--format", "markdown").stdout
        self.assertIn("<summary>Never freed: 194 blocks, 320 KiB; growing: 142 KiB</summary>", shown)
        leaks = table(shown, "| | Where ")
        self.assertEqual(leaks[0][0], "growing")
        self.assertIn("text_grow_log", unescape(leaks[0][1]))
        self.assertEqual(sum(int(row[3].replace(",", "")) for row in leaks), 194)
        self.assertEqual(shown.count("<details>"), shown.count("</details>"))
        shown = run("report", MEMSCEN, "--format", "markdown", "--limit", 1).stdout
        self.assertEqual(len(table(shown, "| Where ")), 1)
        self.assertEqual(len(table(shown, "| | Where ")), 1)
        self.assertRegex(shown, r"\d+ more sites not shown\.")
        self.assertNotIn("Never freed",
                         run("report", MEMSCEN, "--format", "markdown", "--peak").stdout)

    def test_questions(self):
        """Tables have the rows and figures of the JSON."""
        def ask(*args):
            doc = run("report", EVERYTHING, *args, "--format", "json")
            shown = run("report", EVERYTHING, *args, "--format", "markdown", "--limit", 0)
            self.assertEqual((doc.returncode, shown.returncode, shown.stderr), (0, 0, ""), args)
            self.assertEqual(shown.stdout.count("<details>"), shown.stdout.count("</details>"))
            for line in shown.stdout.splitlines():
                self.assertLess(len(line.rstrip()), 5000)
            return json.loads(doc.stdout), shown.stdout

        doc, shown = ask("--leaks", "--stack-traces")
        rows = table(shown, "| Kind ")
        self.assertEqual([(r[0], r[4]) for r in rows],
                         [(r["kind"], f"{r['live_count']:,}") for r in doc["leaks"]])
        self.assertEqual(shown.count("<details>"), sum(bool(r["callstack"]) for r in doc["leaks"]))
        doc, shown = ask("--grown", ":1h", "--thread", report(EVERYTHING, "--by", "thread")
                         ["groups"][0]["name"])
        self.assertIn("Only allocations by thread ", shown)
        self.assertIn("From the beginning to ", shown)
        self.assertEqual([r[6] for r in table(shown, "| Where ")],
                         [f"{r['allocations']:,}" for r in doc["sites"]])
        doc, shown = ask("--histograms")
        self.assertEqual([r[1] for r in table(shown, "| Size from ")],
                         [f"{c['count']:,}" for c in doc["sizes"]])
        self.assertEqual([r[1] for r in table(shown, "| Lived below ")][:-1],
                         [f"{c['count']:,}" for c in doc["lifetimes"]])
        doc, shown = ask("--patterns")
        waste = sorted((s["glibc_waste"]["peak_bytes"], s["count"]) for s in doc["sites"]
                       if s["glibc_waste"]["peak_bytes"])
        self.assertEqual(sorted(r[3] for r in table(shown, "| Where | Pool | At most ")),
                         sorted(f"{count:,}" for _, count in waste))
        doc, shown = ask("--related")
        self.assertEqual(len(table(shown, "| Plot ")), sum(p["related"] for p in doc["plots"]))
        doc, shown = ask("--faults")
        self.assertIn("no memory faults", shown)
        self.assertIn("Only allocations live at ",
                      run("report", EVERYTHING, "--peak", "--format", "markdown").stdout)

    def test_names_stay_text(self):
        out = self.dir / "x.tracy"
        evil = (b"<script>alert(1)</script>|`[x](y)*_&\"'\x1b[31m\xff\n# @all http://x.y ~~a~~ $a$ "
                b"__b__ %1")
        items = thread_name(7, evil) + string(0xbeef, evil) + alloc_plain(5, 7, 0x9000, 8, 0xbeef)
        items += frame_name(0x401000, evil, evil, 3, evil) + callstack(0x401000)
        items += alloc(10, 7, 0x1000, 64)
        items += callstack(0x401000) + alloc(10, 7, 0x1000, 32)  # a fault
        self.assertEqual(capture_items(out, items).returncode, 0)
        for by in ("site", "thread", "callstack", "pool"):
            shown = run("report", out, "--format", "markdown", "--by", by).stdout
            self.assertIn("<script>alert", unescape(shown))
            shown = without_code(shown)
            self.assertNotIn("<script>", shown)
            self.assertNotIn("\x1b", shown)
            for sign in ("`", "*", "](", "@all", "\n# ", "://", "~~", "$", "__", "%1"):
                self.assertNotIn(sign, shown)
            self.assertLessEqual({line.count("|") for line in shown.splitlines()
                                  if line.startswith("|")}, {7, 8})
        for question in (("--leaks", "--stack-traces"), ("--grown", ":1s", "--stack-traces"),
                         ("--patterns",), ("--faults",), ("--histograms",), ("--related",),
                         ("--leaks", "--match", "<script>|`[*]")):
            shown = run("report", out, "--format", "markdown", *question).stdout
            for sign in ("<script>", "\x1b", "`", "*[", "](", "@all", "\n# "):
                self.assertNotIn(sign, without_code(shown), question)
            if question[0] in ("--leaks", "--grown", "--patterns", "--faults"):
                self.assertIn("<script>alert", unescape(shown), question)
        self.assertIn("<pre>", run("report", out, "--format", "markdown", "--faults").stdout)
        self.assertEqual(run("report", out, "--format", "markdown", "--fail-if",
                             'count(site="<script>|`")>0').returncode, 0)


class Run(Case):
    """`run` writes the same forms."""

    def record(self, form, *args, program=("/bin/ls", "/")):
        out = self.dir / f"out.{form}"
        result = run("run", "-f", "-o", self.dir / "x.tracy", "--report", form, "--report-file", out,
                     *args, "--", *program)
        return result.returncode, out.read_text() if out.exists() else None

    def test_junit(self):
        status, text = self.record("junit", "--fail-if", "peak>1", "--fail-if", "peak>1G")
        self.assertEqual(status, 1)
        suite = xml.etree.ElementTree.fromstring(text).find("testsuite")
        self.assertEqual([(case.get("name"), case.find("failure") is None)
                          for case in suite.iter("testcase")],
                         [("peak>1", False), ("peak>1G", True)])
        self.assertEqual(self.record("junit")[0], 2)
        # Another program, which is not recorded, keeps the job from passing.
        status, text = self.record("junit", "--fail-if", "peak>1G",
                                   program=("/bin/sh", "-c", "/bin/ls / & wait"))
        suite = xml.etree.ElementTree.fromstring(text).find("testsuite")
        self.assertEqual((status, suite.get("failures")), (1, "1"))
        self.assertEqual(suite.findall("testcase")[-1].get("name"), "covers-process-tree")

    def test_markdown(self):
        status, text = self.record("markdown", "--fail-if", "peak>1G")
        self.assertEqual(status, 0)
        self.assertTrue(text.startswith("<!-- tidemark -->\n### Memory of `ls`\n"))
        self.assertIn("\n- ✅ `peak>1G: peak is ", text)
        result = run("run", "-f", "-o", self.dir / "x.tracy", "--report", "markdown", "--",
                     "/bin/true")
        self.assertIn("### Memory of ", result.stdout)
