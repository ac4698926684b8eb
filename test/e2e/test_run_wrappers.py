"""Allocation wrappers that no list names: a trace shows them by their callers and sizes, every
question passes over them, and --why-site says what was passed over."""

import contextlib
import json
import os
import re
import sqlite3
import subprocess

from pagedata import Page
from test_run import RunCase, record
from tools import page_built, run

CC = os.environ.get("CC", "gcc")
CXX = os.environ.get("CXX", "g++")
CALLERS = 12
# Three layers and a variant of the second, a factory of one size, a wrapper of few callers, and one
# of a name that a list has.
C = r"""
#include <stdlib.h>
#include <string.h>
#define APART __attribute__((noinline, noclone))
#define END __asm__ volatile("" ::: "memory")
static void *volatile kept;
APART static void *page_room(size_t n) { void *p = malloc(n); if (!p) abort(); kept = p; END; return p; }
APART static void *pool_room(size_t n) { void *p = page_room(n + 8); kept = p; END; return p; }
APART static void *clear_room(size_t n) { void *p = memset(page_room(n), 0, n); kept = p; END; return p; }
APART static void *obtain_room(size_t n) { void *p = pool_room(n); kept = p; END; return p; }
APART static void *make_node(void) { void *p = malloc(40); if (!p) abort(); kept = p; END; return p; }
APART static void *rare_room(size_t n) { void *p = malloc(n); if (!p) abort(); kept = p; END; return p; }
APART static void *xmalloc(size_t n) { void *p = malloc(n); if (!p) abort(); kept = p; END; return p; }
APART static void caller_of_xmalloc(size_t n) { kept = xmalloc(n); END; }
#define CALLER(N) APART static void user_##N(void) { kept = obtain_room(10000 + 16 * N); \
    kept = clear_room(500 + 16 * N); kept = make_node(); END; }
USERS
int main(void)
{
    CALLS
    for (size_t n = 0; n < 20; n++)
        kept = rare_room(1000 + n);
    caller_of_xmalloc(5000);
    return 0;
}
"""
# As in a stripped library: what is exported has names, and between malloc and them is a function
# that has none.
STRIPPED = C[:C.index("APART static void *page_room")] + r"""
APART static void *nameless(size_t n) { void *p = malloc(n); if (!p) abort(); kept = p; END; return p; }
APART void *obtain_room(size_t n) { void *p = nameless(n); kept = p; END; return p; }
#define CALLER(N) APART void user_##N(void) { kept = obtain_room(10000 + 16 * N); END; }
USERS
int main(void)
{
    CALLS
    return 0;
}
"""
CPP = r"""
#include <cstdlib>
#define APART __attribute__((noinline, noclone))
#define END __asm__ volatile("" ::: "memory")
static void *volatile kept;
namespace engine {
struct Heap {
    APART void *grab(size_t n) { void *p = ::operator new(n); kept = p; END; return p; }
};
template <class T> struct Store {
    Heap heap;
    APART T *take(size_t n) { T *p = static_cast<T *>(heap.grab(n * sizeof(T))); kept = p; END; return p; }
};
static Store<char> store;
APART char *lines(size_t n) { char *p = store.take(n); kept = p; END; return p; }
}
#define CALLER(N) APART static void user_##N() { kept = engine::lines(10000 + 16 * N); END; }
USERS
int main()
{
    CALLS
    return 0;
}
"""
TABLE_OF_SITES = """
    SELECT s.function, sum(t.total_bytes) FROM callstack_totals t
    JOIN callstacks c ON c.id = t.callstack JOIN sites s ON s.id = c.site GROUP BY s.function
"""
NAMES = {f"user_{n}" for n in range(CALLERS)}


class Wrappers(RunCase):
    def recorded(self, source=C, compiler=CC, name="p.c", callers=CALLERS, output=None,
                 flags=("-g",)):
        users = "\n".join(f"CALLER({n})" for n in range(callers))
        calls = "\n".join(f"user_{n}();" for n in range(callers))
        (self.dir / name).write_text(source.replace("USERS", users).replace("CALLS", calls))
        subprocess.run([compiler, "-O1", *flags, "-fno-optimize-sibling-calls", "-o", self.dir / "p",
                        self.dir / name], check=True)
        options = () if output is None else ("-o", output)
        result = record(self.dir, self.dir / "p", options=("-f", *options))
        self.assertEqual(result.returncode, 0, result.stderr)
        return result.stderr

    def text(self, *words):
        result = run(*words)
        self.assertEqual(result.returncode, 0, result.stderr)
        return result.stdout

    def sites(self, trace, *options):
        """Bytes of each function that is a site."""
        document = json.loads(self.text("report", trace, "--format", "json", *options))
        found = {}
        for row in document["sites"]:
            name = re.sub(r"\(.*", "", row["function"] or "")
            found[name] = found.get(name, 0) + row["bytes"]
        self.assertEqual(sum(found.values()), document["pools"][0]["total_bytes"])
        return found

    def below(self, text, site):
        """The lines below the row of a site."""
        lines = text.split("\n")
        start = next(i for i, line in enumerate(lines) if line.startswith(site + " "))
        end = next(i for i in range(start + 1, len(lines)) if not lines[i].startswith("    "))
        return "\n".join(lines[start + 1:end])

    def test_three_layers_in_c(self):
        printed = self.recorded()
        self.assertRegex(printed, r"(?m)^user_11 ")  # what `run` prints
        sites = self.sites(self.trace)
        self.assertEqual({name for name in sites if name.startswith("user_")}, NAMES)
        for n in range(CALLERS):
            self.assertEqual(sites[f"user_{n}"], 10000 + 16 * n + 8 + 500 + 16 * n)
        self.assertEqual(sites["make_node"], 40 * CALLERS)  # of one size
        self.assertEqual(sites["rare_room"], sum(range(1000, 1020)))  # of one caller
        self.assertEqual(sites["caller_of_xmalloc"], 5000)
        text = self.text("report", self.trace)
        self.assertRegex(text, r"(?m)^passed over as allocation wrappers, by their callers and "
                               r"sizes: .*page_room.* \(--no-skip makes them sites\)$")

    def test_three_layers_in_cpp(self):
        self.recorded(CPP, CXX, "p.cpp")
        sites = self.sites(self.trace)
        for n in range(CALLERS):
            self.assertEqual(sites[f"user_{n}"], 10000 + 16 * n)

    def test_stripped(self):
        self.recorded(STRIPPED, flags=("-rdynamic", "-s"))
        sites = self.sites(self.trace)
        for n in range(CALLERS):
            self.assertEqual(sites[f"user_{n}"], 10000 + 16 * n)
        text = self.text("report", self.trace, "--by", "function", "--why-site")
        self.assertRegex(self.below(text, "user_3"),
                         r"near \w+\+0x[0-9a-f]+: has no name\n      obtain_room: allocation wrapper")

    def test_every_question_has_the_same_sites(self):
        self.recorded()
        whole = self.sites(self.trace)
        # From events instead of figures, with a selection, and from the stored events.
        self.assertEqual(self.sites(self.trace, "--recount"), whole)
        part = self.sites(self.trace, "--size", "10000:")
        self.assertEqual(set(part), NAMES)
        self.assertEqual(set(self.sites(self.trace, "--match", "user_3")), {"user_3", "make_node"})
        tree = json.loads(self.text("tree", self.trace, "--bottom-up", "--format", "json"))
        nodes = json.dumps(tree)
        self.assertIn("user_11", nodes)
        self.assertNotIn("obtain_room", nodes)
        leaks = self.text("report", self.trace, "--leaks")
        self.assertIn("user_11 ", leaks)
        self.assertNotIn("obtain_room ", leaks)
        exported = self.dir / "p.db"
        self.text("export", self.trace, "--format", "sqlite", "-o", exported)
        with contextlib.closing(sqlite3.connect(exported)) as db:
            self.assertEqual(dict(db.execute(TABLE_OF_SITES)), whole)
        if page_built():
            self.text("report", self.trace, "--format", "html", "-o", self.dir / "p.html")
            page = Page(self.dir / "p.html")
            named = {page.site(i)[0] for i in range(len(page.data["sites"]))}
            self.assertLessEqual(set(whole), named)
            self.assertEqual({name for name in named if name and name.endswith("_room")},
                             {"rare_room"})

    def test_equal_recordings_have_equal_sites(self):
        self.recorded()
        again = self.dir / "again.tracy"
        first = self.sites(self.trace)
        self.recorded(output=again)
        second = self.sites(again)
        for name in NAMES | {"make_node", "rare_room", "caller_of_xmalloc"}:
            self.assertEqual(first[name], second[name], name)

    def test_diff_passes_over_the_wrappers_of_both(self):
        few = self.dir / "few.tracy"
        self.recorded(callers=3, output=few)
        self.assertIn("page_room", self.sites(few))  # of three callers
        self.recorded()
        document = json.loads(self.text("diff", few, self.trace, "--format", "json"))
        self.assertEqual({row["function"] for row in document["rows"]},
                         {f"user_{n}" for n in range(3, CALLERS)} | {"make_node"})
        # Figures without a trace are by names alone, on both sides.
        runs = json.loads(self.text("diff", few, "--", self.trace, "--format", "json"))
        self.assertIn("page_room", json.dumps(runs))

    def test_budgets_go_by_names(self):
        """A function that gains callers does not escape its budget."""
        few = self.dir / "few.tracy"
        self.recorded(callers=3, output=few)
        budget = 'total(site="page_room")>50k'
        options = ["--fail-if", budget]
        result = record(self.dir, self.dir / "p", options=("-f", *options))
        self.assertEqual(result.returncode, 0, result.stderr)
        self.recorded()
        result = record(self.dir, self.dir / "p", options=("-f", *options))
        self.assertEqual(result.returncode, 1, result.stderr)
        self.assertRegex(result.stderr, r"(?m)^page_room ")
        self.assertEqual(run("report", few, *options).returncode, 0)
        for words in (["report", self.trace, *options], ["diff", few, self.trace, *options],
                      ["diff", few, "--", self.trace, *options],
                      ["verify", self.trace, "--expect", 'total(site="page_room")<50k']):
            result = run(*words)
            self.assertEqual(result.returncode, 1, (words, result.stdout, result.stderr))

    def test_no_skip(self):
        self.recorded()
        sites = self.sites(self.trace, "--no-skip", "^obtain_room$")
        self.assertEqual(sites["obtain_room"], sum(10008 + 16 * n for n in range(CALLERS)))
        self.assertEqual(sites["user_1"], 516)  # through clear_room
        self.assertEqual(self.sites(self.trace, "--no-skip", "^xmalloc$")["xmalloc"], 5000)
        self.assertEqual(run("report", self.trace, "--no-skip", "(").returncode, 2)

    def test_why_site(self):
        self.recorded()
        text = self.text("report", self.trace, "--by", "function", "--why-site")
        self.assertEqual(self.below(text, "caller_of_xmalloc").split("\n")[-3:], [
            "    why this site, in its call stack with most bytes:",
            "      xmalloc: allocation function of GNU programs",
            "      caller_of_xmalloc: site: the program's innermost function"])
        wrapper = "allocation wrapper, by its callers and sizes"
        self.assertEqual(self.below(text, "user_11").split("\n")[-5:], [
            "    why this site, in its call stack with most bytes:",
            f"      page_room: {wrapper}", f"      pool_room: {wrapper}",
            f"      obtain_room: {wrapper}",
            "      user_11: site: the program's innermost function"])
        self.assertEqual(text.count("why this site"), text.count(": site: "))
        skipped = self.text("report", self.trace, "--by", "function", "--why-site",
                            "--skip", "rare_room")
        self.assertIn("      rare_room: --skip\n"
                      "      main: site: the program's innermost function", skipped)
        for options in (["--format", "json"], ["--by", "pool"], ["--leaks"]):
            self.assertEqual(run("report", self.trace, "--why-site", *options).returncode, 2,
                             options)
