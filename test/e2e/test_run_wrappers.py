"""Allocation wrappers that no list names: `report` recognises them by their callers and sizes, and
--why-site says what was passed over."""

import os
import subprocess

from test_run import RunCase, record
from tools import run

CC = os.environ.get("CC", "gcc")
CALLERS = 12
PROGRAM = r"""
#include <stdlib.h>
#define APART __attribute__((noinline, noclone))
static void *volatile kept;
/* A wrapper, a factory of one size, and a wrapper of few callers. */
APART static void *obtain_room(size_t n) { void *p = malloc(n); if (!p) abort(); kept = p; return p; }
APART static void *make_node(void) { void *p = malloc(40); if (!p) abort(); kept = p; return p; }
APART static void *rare_room(size_t n) { void *p = malloc(n); if (!p) abort(); kept = p; return p; }
APART static void *xmalloc(size_t n) { void *p = malloc(n); if (!p) abort(); kept = p; return p; }
APART static void caller_of_xmalloc(size_t n) { kept = xmalloc(n); __asm__ volatile("" ::: "memory"); }
#define CALLER(N) APART static void user_##N(void) { kept = obtain_room(10000 + 16 * N); \
    kept = make_node(); __asm__ volatile("" ::: "memory"); }
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


class Wrappers(RunCase):
    def recorded(self):
        users = "\n".join(f"CALLER({n})" for n in range(CALLERS))
        calls = "\n".join(f"user_{n}();" for n in range(CALLERS))
        (self.dir / "p.c").write_text(
            PROGRAM.replace("USERS", users).replace("CALLS", calls))
        subprocess.run([CC, "-O1", "-g", "-fno-optimize-sibling-calls", "-o", self.dir / "p",
                        self.dir / "p.c"], check=True)
        result = record(self.dir, self.dir / "p")
        self.assertEqual(result.returncode, 0, result.stderr)
        return self.trace

    def text(self, *options):
        result = run("report", *options)
        self.assertEqual(result.returncode, 0, result.stderr)
        return result.stdout

    def below(self, text, site):
        """The lines below the row of a site."""
        lines = text.split("\n")
        start = next(i for i, line in enumerate(lines) if line.startswith(site + " "))
        end = next(i for i in range(start + 1, len(lines)) if not lines[i].startswith("    "))
        return "\n".join(lines[start + 1:end])

    def test_recognised(self):
        trace = self.recorded()
        text = self.text(trace, "--by", "function")
        self.assertIn(f"looks like an allocation wrapper ({CALLERS} callers, {CALLERS} sizes or "
                      r"more): --skip '^\Qobtain_room\E$' gives its bytes to its callers",
                      self.below(text, "obtain_room"))
        self.assertEqual(text.count("looks like"), 1)
        # As the report says.
        skipped = self.text(trace, "--by", "function", "--skip", r"^\Qobtain_room\E$")
        self.assertNotIn("looks like", skipped)
        self.assertNotIn("\nobtain_room ", skipped)
        self.assertIn("\nuser_11 ", skipped)

    def test_why_site(self):
        trace = self.recorded()
        text = self.text(trace, "--by", "function", "--why-site")
        self.assertEqual(self.below(text, "caller_of_xmalloc").split("\n")[-3:], [
            "    why this site, in its call stack with most bytes:",
            "      xmalloc: allocation function of GNU programs",
            "      caller_of_xmalloc: site: the program's innermost function"])
        skipped = self.text(trace, "--by", "function", "--why-site", "--skip", "obtain_room")
        self.assertIn("      obtain_room: --skip\n"
                      "      user_11: site: the program's innermost function", skipped)
        for options in (["--format", "json"], ["--by", "pool"], ["--leaks"]):
            self.assertEqual(run("report", trace, "--why-site", *options).returncode, 2, options)
