"""man/tidemark-json.5: commands print the documents that it lists, with exactly those members."""

import json
import re

from tools import ROOT, TIDEMARK, TRACES, Case, run

MEMSCEN = TRACES / "v0.14.0" / "memscen.tracy"
LEDGER = TRACES / "v0.14.0" / "ledger.tracy"
COMMANDS = {
    "report": ("report", MEMSCEN),
    "leaks": ("report", MEMSCEN, "--leaks"),
    "grown": ("report", MEMSCEN, "--grown", "1ms:20s"),
    "patterns": ("report", MEMSCEN, "--patterns"),
    "faults": ("report", MEMSCEN, "--faults"),
    "histograms": ("report", MEMSCEN, "--histograms"),
    "answers": ("report", MEMSCEN, "--leaks", "--histograms"),
    "related": ("report", MEMSCEN, "--related"),
    "samples": ("report", MEMSCEN, "--by", "sample"),
    "tree": ("tree", MEMSCEN),
    "diff": ("diff", MEMSCEN, MEMSCEN),
    "find": ("find", MEMSCEN, "0x1000"),
    "map": ("map", MEMSCEN),
    "timeline": ("timeline", MEMSCEN),
    "info": ("info", MEMSCEN),
    "verify": ("verify", MEMSCEN),
    "annotate": ("annotate", LEDGER, "main"),
    "symbols": ("symbols", MEMSCEN, "--no-debuginfod"),
    "symbolize": ("symbolize", TIDEMARK, "0x1000", "--no-debuginfod"),
}
# test_push, test_compact, test_daemon_events, test_daemon_http, test_resident, test_diff_runs
ELSEWHERE = {
    "push", "compact", "event", "memory", "resident", "runs", "figures"}


def members(text):
    """The words of the .Va lines."""
    words = " ".join(re.findall(r"^\.Va (.*)$", text, re.M))
    return set(re.findall(r"\b[a-z]\w+\b", words))


def listed():
    """Name of a document: members that it always has, members that it may have."""
    page = (ROOT / "man" / "tidemark-json.5").read_text()
    documents = {}
    for item in re.split(r"^\.It Cm (?=tidemark\.)", page, flags=re.M)[1:]:
        name = re.match(r"tidemark\.(\w+)/1\n", item)[1]
        always, _, rest = item.split("\n.El\n")[0].split("\nHere\n")[0].partition("\nOptional:\n")
        documents[name] = (members(always), members(rest))
    return documents


class JsonPage(Case):
    def check(self, name, *args):
        always, optional = listed()[name]
        result = run(*COMMANDS[name], *args, "--format", "json")
        self.assertEqual(result.returncode, 0, result.stderr)
        doc = json.loads(result.stdout)
        self.assertEqual(doc["schema"], f"tidemark.{name}/1")
        self.assertEqual(set(doc) - optional, always)
        return doc

    def test_every_document_is_known(self):
        self.assertEqual(set(listed()), set(COMMANDS) | ELSEWHERE)

    def test_members(self):
        for name in COMMANDS:
            with self.subTest(name):
                self.check(name)

    def test_optional_members_of_a_report(self):
        self.assertIn("selection", self.check("report", "--size", "1K:"))
        self.assertIn("groups", self.check("report", "--by", "type"))
        self.assertLessEqual({"groups", "frames"}, set(self.check("report", "--by", "frame")))
