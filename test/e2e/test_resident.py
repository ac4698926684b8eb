"""Resident pages: the summary's line, and `report --resident`."""

import contextlib
import json
import mmap
import os
import pathlib
import re
import signal
import sqlite3
import subprocess
import unittest

from test_run import RunCase, compiled, record
from tools import EMULATED, LIMIT, SANITIZED, TIDEMARK, report, run, wait_until

MIB = 1 << 20
PAGE = 4096
LINUX = tuple(map(int, re.match(r"(\d+)\.(\d+)", os.uname().release).groups()))

# The first word of its arguments says what it does; then it exits, and its pages are read.
PROGRAM = r"""
#include <malloc.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>
#include "tidemark.h"
#define PAGE 4096
static void *volatile kept;
static pthread_barrier_t meet;
__attribute__((noinline)) static char *take(size_t n) { return kept = aligned_alloc(PAGE, n); }
__attribute__((noinline)) static char *survivor(size_t n) { return kept = malloc(n); }
static void *deep(void *unused)
{
    char room[1 << 20];
    memset(room, 1, sizeof room);
    kept = room;
    free(survivor(100)); /* it is recorded */
    pthread_barrier_wait(&meet);
    pause();
    return unused;
}
static void *in_arena(void *unused)
{
    enum { N = 64 };
    char *all[N];
    for (int i = 0; i < N; i++)
        memset(all[i] = survivor(65536), 1, 65536);
    for (int i = 0; i < N - 1; i++)
        free(all[i]);
    pthread_barrier_wait(&meet);
    pause();
    return unused;
}
int main(int count, char **argv)
{
    (void)count;
    const char *what = argv[1];
    int trimmed = 0;
    size_t big = (size_t)256 << 20;
    if (!strcmp(what, "touch")) {
        char *p = take(big);
        madvise(p, big, MADV_NOHUGEPAGE);
        memset(p, 1, 16 << 20);
    } else if (!strcmp(what, "two")) {
        char *p = take(big);
        madvise(p, big, MADV_NOHUGEPAGE);
        memset(p, 1, 1 << 20);
        memset(survivor(16 << 20), 1, 16 << 20);
    } else if (!strcmp(what, "zero")) {
        char *p = take(64 * PAGE);
        int sum = 0;
        for (int i = 0; i < 64; i++)
            sum += ((volatile char *)p)[i * PAGE];
        return sum;
    } else if (!strncmp(what, "comb", 4)) {
        enum { N = 40000 };
        static char *all[N];
        int every = what[4] ? 16 : 40; /* blocks of 208 or 224 bytes */
        for (int i = 0; i < N; i++)
            memset(all[i] = survivor(i % every ? 200 : 208), 1, 200);
        for (int i = 0; i < N; i++)
            if (i % every)
                free(all[i]);
        for (int i = 0; i < 3 && what[4]; i++)
            trimmed += malloc_trim(0);
        return trimmed > 1;
    } else if (!strncmp(what, "peak", 4)) {
        char *p = take(64 << 20);
        memset(p, 1, 64 << 20);
        usleep(REST); /* more than the pause between two readings */
        if (!what[4])
            free(p);
    } else if (!strcmp(what, "asked")) {
        char *p = take(8 << 20), c;
        madvise(p, 8 << 20, MADV_NOHUGEPAGE);
        for (int step = 2; step <= 6; step += 4) {
            memset(p, 1, (size_t)step << 20);
            printf("%d %lx\n", getpid(), (unsigned long)p);
            fflush(stdout);
            if (read(0, &c, 1) != 1)
                return 1;
        }
    } else if (!strcmp(what, "steps")) {
        char *p = take(8 << 20);
        madvise(p, 8 << 20, MADV_NOHUGEPAGE);
        memset(p, 1, 2 << 20);
        usleep(1500000);
        memset(p, 1, 4 << 20);
        usleep(1500000);
        memset(p, 1, 8 << 20);
    } else if (!strcmp(what, "keep")) {
        enum { N = 400 };
        static char *all[N];
        mallopt(M_TRIM_THRESHOLD, 1 << 30);
        mallopt(M_MMAP_THRESHOLD, 1 << 25);
        for (int i = 0; i < N; i++)
            memset(all[i] = survivor(65536), 1, 65536);
        for (int i = 0; i < N; i++)
            free(all[i]);
    } else if (!strcmp(what, "arenas")) {
        enum { N = 4 };
        pthread_t t[N];
        pthread_barrier_init(&meet, NULL, N + 1);
        for (int i = 0; i < N; i++)
            pthread_create(&t[i], NULL, in_arena, NULL);
        pthread_barrier_wait(&meet);
        usleep(20000);
    } else if (!strcmp(what, "pools")) {
        uint32_t arena = tidemark_pool("arena");
        char *p = take(64 * PAGE), *q;
        memset(p, 1, 64 * PAGE);
        for (int i = 0; i < 8; i++)
            tidemark_alloc(arena, p + i * 4 * PAGE, 2 * PAGE);
        q = memset(survivor(8 * PAGE), 1, 8 * PAGE);
        tidemark_alloc(arena, q, 8 * PAGE);
    } else if (!strcmp(what, "handles")) {
        uint32_t gpu = tidemark_pool("gpu");
        char *p = take(64 * PAGE);
        memset(p, 1, 64 * PAGE);
        for (int i = 0; i < 8; i++)
            tidemark_alloc(gpu, p + i * 64, 1 << 20);
    } else if (!strcmp(what, "huge")) {
        size_t n = (size_t)16 << 20;
        char *p = aligned_alloc(2 << 20, n);
        kept = p;
        madvise(p, n, MADV_HUGEPAGE);
        for (size_t i = 0; i < n; i += 2 << 20)
            p[i] = 1;
    } else if (!strcmp(what, "huge-zero")) {
        size_t n = (size_t)16 << 20;
        char *p = kept = aligned_alloc(2 << 20, n);
        int sum = 0;
        madvise(p, n, MADV_HUGEPAGE);
        for (size_t i = 0; i < n; i += PAGE)
            sum += ((volatile char *)p)[i];
        return sum;
    } else if (!strcmp(what, "forked") || !strcmp(what, "huge-forked")) {
        int end[2], huge = what[0] == 'h';
        size_t n = huge ? (size_t)16 << 20 : 64 * PAGE;
        char *p = huge ? aligned_alloc(2 << 20, n) : take(n);
        madvise(p, n, huge ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
        kept = memset(p, 1, n);
        if (pipe(end) == 0 && fork() == 0) {
            close(end[1]);
            _exit(read(end[0], &trimmed, 1) != 0); /* until its parent ends */
        }
    } else if (!strcmp(what, "thread")) {
        pthread_t t;
        pthread_barrier_init(&meet, NULL, 2);
        prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0); /* the stack would be a huge page */
        pthread_create(&t, NULL, deep, NULL);
        pthread_barrier_wait(&meet);
        usleep(20000);
    }
    return 0;
}
"""


def has_zero_page():
    """Whether pages that were only read share one: each has memory of its own in some guests."""
    def anonymous():
        status = pathlib.Path("/proc/self/status").read_text()
        return int(re.search(r"RssAnon:\s+(\d+) kB", status)[1]) << 10
    before = anonymous()
    with mmap.mmap(-1, 16 * MIB, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as block:
        for at in range(0, len(block), PAGE):
            block[at] # reads
        return anonymous() - before < 8 * MIB


def in_smaps(pid, address):
    """Rss of the mapping of an address; Rss and Swap of all."""
    here, block, whole, swapped = False, 0, 0, 0
    for line in pathlib.Path(f"/proc/{pid}/smaps").read_text().splitlines():
        span = re.match(r"([0-9a-f]+)-([0-9a-f]+) ", line)
        if span:
            here = int(span[1], 16) <= address < int(span[2], 16)
        elif line.startswith("Rss:"):
            size = int(line.split()[1]) << 10
            whole += size
            block += size * here
        elif line.startswith("Swap:"):
            swapped += int(line.split()[1]) << 10
    return block, whole, swapped


CHAIN = r"""
#include <stdlib.h>
#include <string.h>
#include "tidemark.h"
int main(void)
{
    long n = 2000000;
    char *p = memset(malloc(n * 16 + 64), 1, n * 16 + 64);
    uint32_t pools[2] = {tidemark_pool("even"), tidemark_pool("odd")};
    for (long i = 0; i < n; i++)
        tidemark_alloc(pools[i & 1], p + i * 16, 24);
    return 0;
}
"""


class Chain(RunCase):
    def test_blocks_that_overlap_in_a_chain(self):
        """Each ends within the next one, of another pool. A search of all before each
        block took an hour."""
        source = self.dir / "chain.c"
        source.write_text(CHAIN)
        result = record(self.dir, compiled(self.dir, "chain", source=source))
        self.assertEqual(result.returncode, 0, result.stderr)
        if "\nresident " not in result.stderr:
            self.skipTest("the kernel does not show pages here")
        result = run("report", "--resident", "--format", "json", self.trace)
        self.assertEqual(result.returncode, 0, result.stderr)
        within = json.loads(result.stdout)["within"]
        self.assertEqual({(w["pool"], w["kept_by"]) for w in within},
                         {("even", "default"), ("odd", "default"), ("even", "odd"),
                          ("odd", "even")})
        self.assertEqual(sum(w["resident_bytes"] for w in within), 24 * 2000000)


class Resident(RunCase):
    def setUp(self):
        super().setUp()
        source = self.dir / "resident.c"
        source.write_text(f"#define REST {8000000 if SANITIZED or EMULATED else 2000000}\n" + PROGRAM)
        self.program = compiled(self.dir, "resident", source=source)

    def look(self, what, options=()):
        result = record(self.dir, self.program, what, options=["-f", *options])
        self.assertEqual(result.returncode, 0, result.stderr)
        self.said = result.stderr
        if what and "\nresident " not in result.stderr:
            self.skipTest("the kernel does not show pages here")
        result = run("report", "--resident", "--format", "json", self.trace)
        self.assertEqual(result.returncode, 0, result.stderr)
        return json.loads(result.stdout)

    def site(self, look, function):
        rows = [s for s in look["sites"] if s["function"] == function]
        self.assertEqual(len(rows), 1, look["sites"])
        return rows[0]

    def assert_whole(self, look):
        """The classes are the whole, which is what the kernel counts."""
        resident = look["resident"]
        self.assertEqual(sum(resident["shares"].values()), resident["bytes"])
        # Pages may come and go while the others are read: those of the recording among them.
        self.assertLess(abs(resident["bytes"] - resident["rss_bytes"]), MIB)

    def test_touched_bytes_of_a_large_block(self):
        look = self.look("touch")
        row = self.site(look, "take")
        self.assertEqual(row["bytes"], 256 * MIB)
        self.assertEqual(row["resident_bytes"] + row["swapped_bytes"], 16 * MIB)
        self.assertEqual(row["not_resident_bytes"], 240 * MIB)
        self.assertEqual(row["pinned_bytes"], 0)
        self.assert_whole(look)
        self.assertEqual(look["resident"]["reason"], "at exit")
        line = next(x for x in self.said.splitlines() if x.startswith("resident "))
        self.assertRegex(line, r"resident [\d.]+ MiB at [\d.]+ m?s: blocks \d+ %, allocator "
                               r"overhead and holes \d+ %, libraries \d+ %, stacks \d+ %, "
                               r"other \d+ %$")
        self.assertEqual(report(self.trace)["resident"], look["resident"])
        blocks = look["resident"]["shares"]["blocks"]
        self.assertLess(abs(blocks - 16 * MIB), MIB)

    def test_a_column_of_the_site_table(self):
        self.look("touch")
        for options in ((), ("--recount",), ("--by", "function"), ("--by", "callstack")):
            doc = report(self.trace, *options)
            row = next(s for s in doc["groups" if "--by" in options else "sites"]
                       if s["function"] == "take")
            self.assertEqual(row["resident_bytes"], 16 * MIB, options)
        self.assertRegex(run("report", self.trace).stdout, r"At peak|Resident\b")
        head, *rows = run("report", "--format", "csv", self.trace).stdout.splitlines()
        self.assertEqual(head.split(",")[-1], "resident_bytes")
        self.assertTrue(any(r.endswith(f",{16 * MIB}") for r in rows), rows)
        shown = run("report", "--format", "markdown", self.trace).stdout
        self.assertIn("| Live at the end | Resident | Temporary |", shown)
        self.assertRegex(shown, r"take .*\| 256 MiB \| 16.0 MiB \|")
        # What a part of the blocks had is not known, nor is it by thread.
        for options in (("--size", "1M:"), ("--by", "thread")):
            doc = report(self.trace, *options)
            rows = doc["groups" if "--by" in options else "sites"]
            self.assertTrue(rows)
            self.assertFalse([r for r in rows if "resident_bytes" in r])

    def test_sorted_by_what_is_resident(self):
        """The site with most bytes has the least in memory."""
        self.look("two")
        for options, list_name in (((), "sites"), (("--by", "function"), "groups")):
            rows = report(self.trace, "--sort", "resident", *options)[list_name]
            names = [r["function"] for r in rows]
            self.assertLess(names.index("survivor"), names.index("take"), options)
            values = [r["resident_bytes"] for r in rows]
            self.assertEqual(values, sorted(values, reverse=True))
            by_size = report(self.trace, *options)[list_name]
            self.assertEqual(by_size[0]["function"], "take")
        for options in (("--by", "thread"), ("--size", "1M:")):
            result = run("report", self.trace, "--sort", "resident", *options)
            self.assertEqual(result.returncode, 2, options)
            self.assertIn("what was resident is unknown", result.stderr)

    def test_blocks_within_blocks_of_another_pool(self):
        """Their bytes count once: 16 pages of a large block, and a block that is in both pools."""
        look = self.look("pools")
        rows = {(s["pool"], s["function"]): s for s in look["sites"]}
        outer, twin = rows["default", "take"], rows["default", "survivor"]
        self.assertEqual((outer["resident_bytes"], outer["nested_bytes"]), (64 * PAGE, 16 * PAGE))
        self.assertEqual((twin["resident_bytes"], twin["nested_bytes"]), (8 * PAGE, 8 * PAGE))
        inner = [s for s in look["sites"] if s["pool"] == "arena"]
        self.assertEqual(sum(s["resident_bytes"] for s in inner), 24 * PAGE)
        self.assertEqual([(s["nested_bytes"], s["pinned_bytes"]) for s in inner],
                         [(0, 0)] * len(inner))
        self.assertEqual(look["within"], [{"pool": "arena", "kept_by": "default",
                                           "resident_bytes": 24 * PAGE}])
        alone = json.loads(run("report", "--resident", "--pool", "default", "--format", "json",
                               self.trace).stdout)
        self.assertEqual(look["total"], alone["total"])
        self.assertEqual(alone["total"]["bytes"], sum(s["bytes"] for s in alone["sites"]))
        self.assertEqual((alone["within"], look["resident"]["shares"]["blocks"]),
                         ([], alone["total"]["resident_bytes"]))
        shown = run("report", "--resident", self.trace).stdout
        self.assertIn("Counted once: 96.0 KiB of pool arena lie in blocks of pool default, which keep "
                      "them\n", shown)
        # A tree of all pools has the bytes at the inner blocks.
        trees = {}
        for pool in ((), ("--pool", "default"), ("--pool", "arena")):
            result = run("tree", self.trace, "--metric", "resident", "--format", "json", *pool)
            trees[pool[1:]] = json.loads(result.stdout)
        whole, default, arena = trees[()], trees["default",], trees["arena",]
        self.assertEqual(whole["total"]["resident_bytes"], alone["total"]["resident_bytes"])
        self.assertEqual(default["total"]["resident_bytes"], alone["total"]["resident_bytes"])
        self.assertEqual(arena["total"]["resident_bytes"], 24 * PAGE)
        own = {n["function"]: n["exclusive"]["resident_bytes"] for n in whole["nodes"]}
        self.assertEqual((own["take"], own["survivor"]), (48 * PAGE, 0))

    def test_rows_for_other_tools(self):
        self.look("pools")
        database = self.dir / "x.sqlite"
        result = run("export", self.trace, "--format", "sqlite", "-o", database)
        self.assertEqual(result.returncode, 0, result.stderr)
        with contextlib.closing(sqlite3.connect(database)) as db:
            rows = db.execute("SELECT p.name, s.function, sum(r.resident_bytes), sum(r.nested_bytes) "
                              "FROM callstack_resident r JOIN pools p ON p.id = r.pool "
                              "JOIN callstacks c ON c.id = r.callstack JOIN sites s ON s.id = c.site "
                              "GROUP BY 1, 2").fetchall()
        found = {row[:2]: row[2:] for row in rows}
        self.assertEqual(found["default", "take"], (64 * PAGE, 16 * PAGE))
        self.assertEqual(found["default", "survivor"], (8 * PAGE, 8 * PAGE))
        self.assertEqual(sum(v[0] for k, v in found.items() if k[0] == "arena"), 24 * PAGE)

    def test_the_tree(self):
        self.look("two")
        sites = {r["function"]: r["resident_bytes"] for r in report(self.trace)["sites"]}
        result = run("tree", self.trace, "--metric", "resident", "--format", "json")
        self.assertEqual(result.returncode, 0, result.stderr)
        tree = json.loads(result.stdout)
        self.assertEqual(tree["total"]["resident_bytes"], sum(sites.values()))
        own = {n["function"]: n["exclusive"]["resident_bytes"] for n in tree["nodes"]}
        self.assertEqual((own["take"], own["survivor"]), (sites["take"], sites["survivor"]))
        children = [n for n in tree["nodes"] if n["function"] in ("take", "survivor")]
        self.assertEqual([n["function"] for n in children], ["survivor", "take"])
        main = next(n for n in tree["nodes"] if n["function"] == "main")
        self.assertGreaterEqual(main["inclusive"]["resident_bytes"], 17 * MIB)
        self.assertEqual(main["exclusive"]["resident_bytes"], 0)
        head = run("tree", self.trace, "--format", "csv").stdout.splitlines()[0].split(",")
        self.assertEqual((head.count("resident_bytes"), head[-1]), (1, "own_resident_bytes"))
        self.assertRegex(run("tree", self.trace, "--metric", "resident").stdout, r"^ *Resident ")
        for options in (("--by", "thread"), ("--size", "1M:")):
            result = run("tree", self.trace, "--metric", "resident", *options)
            self.assertEqual(result.returncode, 2, options)
            self.assertIn("what was resident is unknown", result.stderr)

    def test_budgets(self):
        over, under = 'resident(site="take")>15M', 'resident(site="take")>16M'
        junit = self.dir / "junit.xml"
        result = record(self.dir, self.program, "touch",
                        options=["-f", "--report", "junit", "--report-file", junit,
                                 "--fail-if", over, "--fail-if", under])
        if "the pages" in result.stderr:
            self.skipTest("the kernel does not show pages here")
        self.assertEqual(result.returncode, 1, result.stderr)
        self.assertIn(f"fail-if {over}: resident(site=\"take\") is 16.0 MiB", result.stderr)
        self.assertIn('failures="1"', junit.read_text())
        for expression, status in ((over, 1), (under, 0), ("resident<16M", 0), ("resident>16M", 1),
                                   ('resident(pool="default")>1G', 0)):
            result = run("report", self.trace, "--fail-if", expression)
            self.assertEqual(result.returncode, status, expression)
        result = run("report", self.trace, "--format", "json", "--fail-if", over)
        check = next(c for c in json.loads(result.stdout)["checks"] if c["name"] == "fail-if")
        self.assertFalse(check["holds"])
        self.assertEqual(run("verify", self.trace, "--expect", over).returncode, 0)
        self.assertEqual(run("verify", self.trace, "--expect", under).returncode, 1)
        for most, status in (("200M", 0), ("16M", 1), ("16385K", 0)):
            expected = f'resident(site=~"^ta")<{most}'
            self.assertEqual(run("verify", self.trace, "--expect", expected).returncode, status)
        figures = self.dir / "figures"
        self.assertEqual(run("baseline", figures, self.trace).returncode, 0)
        for expression, status in ((over, 1), (under, 0), ("resident>1G", 0)):
            for command in ((self.trace, self.trace), (figures / "main", "--", self.trace),
                            (self.trace, "--", next((figures / "main").iterdir()))):
                result = run("diff", *command, "--fail-if", expression)
                self.assertEqual(result.returncode, status, (command, result.stderr))

    def test_a_budget_without_a_look_fails(self):
        expression = 'resident(site=~"take")>1G'
        result = record(self.dir, self.program, "touch",
                        options=["-f", "--no-resident", "--fail-if", expression])
        self.assertEqual(result.returncode, 1, result.stderr)
        self.assertIn("resident is unknown: the trace has no look", result.stderr)
        for command in (("report", self.trace, "--fail-if", "resident>1G"),
                        ("verify", self.trace, "--expect", "resident<1G"),
                        ("diff", self.trace, self.trace, "--fail-if", "resident>+5%"),
                        ("diff", self.trace, "--", self.trace, "--fail-if", "resident>1G")):
            result = run(*command)
            self.assertEqual(result.returncode, 1, command)
            self.assertIn("resident is unknown", result.stdout + result.stderr)
        self.look("touch")
        result = run("report", self.trace, "--fail-if", "resident>1G", "--size", "1M:")
        self.assertEqual(result.returncode, 1)
        self.assertIn("resident is unknown: it is known of the whole trace", result.stderr)
        # The fact stays in a trace that is stripped; what sites had does not.
        other = self.dir / "other.tracy"
        self.assertEqual(run("update", "-s", "m", self.trace, other).returncode, 0)
        self.assertEqual(run("report", other, "--fail-if", "resident>1G").returncode, 0)
        result = run("report", other, "--fail-if", expression)
        self.assertEqual(result.returncode, 1)
        self.assertIn("was rewritten", result.stderr)

    @unittest.skipUnless(has_zero_page(), "this kernel gives each page that is read memory of its own")
    def test_the_zero_page_is_not_resident(self):
        row = self.site(self.look("zero"), "take")
        self.assertEqual((row["resident_bytes"], row["unsure_bytes"]), (0, 64 * PAGE))

    @unittest.skipUnless(has_zero_page(), "this kernel gives each page that is read memory of its own")
    def test_the_huge_zero_page_is_not_resident(self):
        """Also where there is none: then each small page is the zero page."""
        look = self.look("huge-zero")
        row = self.site(look, "main")
        self.assertEqual((row["resident_bytes"], row["unsure_bytes"]), (0, 16 * MIB))
        self.assertLess(look["huge_page_bytes"], 16 * MIB)
        self.assert_whole(look)

    @unittest.skipIf(LINUX < (6, 7), "the kernel does not distinguish shared pages from the zero page")
    def test_pages_shared_with_a_forked_process_are_resident(self):
        look = self.look("forked")
        self.assertEqual(self.site(look, "take")["resident_bytes"], 64 * PAGE)
        self.assert_whole(look)
        self.assertEqual(run("report", self.trace, "--fail-if", 'resident(site="take")>200K').returncode,
                         1)

    def test_a_budget_of_pages_that_are_not_told_apart(self):
        """A huge page that a forked process has, too, may be the huge zero page."""
        result = record(self.dir, self.program, "huge-forked", options=["-f"])
        self.assertEqual(result.returncode, 0, result.stderr)
        look = json.loads(run("report", "--resident", "--format", "json", self.trace).stdout)
        if look["resident"]["unsure_bytes"] < 16 * MIB:
            self.skipTest("the kernel makes no transparent huge pages here, or distinguishes them")
        self.assertRegex(result.stderr, r"\nresident .*; without 16\.\d MiB that a forked process has, too\n")
        for budget in "resident>1G", 'resident(site="main")>1G':
            result = run("report", self.trace, "--fail-if", budget)
            self.assertEqual(result.returncode, 1, budget)
            self.assertIn("resident is unknown: it is without pages that a forked process has, too",
                          result.stderr)

    def test_small_survivors_keep_pages(self):
        look = self.look("comb")
        row = self.site(look, "survivor")
        self.assertEqual(row["count"], 1000)
        self.assertEqual(row["resident_bytes"], 1000 * 208)
        # 40 blocks take 8320 or 8336 bytes: every second page or so has a survivor.
        self.assertGreater(row["pinned_bytes"], 900 * (PAGE - 2 * 224))
        self.assertLess(row["pinned_bytes"], 1001 * PAGE)
        self.assertGreater(look["empty_page_bytes"], 900 * PAGE)
        self.assertGreater(look["resident"]["shares"]["overhead"], 7 * MIB)
        self.assert_whole(look)

    def test_the_highest_point_of_a_program_that_frees_all(self):
        look = self.look("peak")
        self.assertEqual(look["resident"]["reason"], "at the highest RSS so far")
        row = self.site(look, "take")
        self.assertEqual(row["bytes"], 64 * MIB)
        # The last hundredth may have been touched after the look.
        self.assertGreater(row["resident_bytes"], 63 * MIB)
        self.assert_whole(look)

    def test_the_last_of_two_looks_that_hardly_differ(self):
        look = self.look("peak-stays")
        self.assertEqual(look["resident"]["reason"], "at exit")
        self.assertGreater(len(look["looks"]), 1)
        self.assertEqual(look["look"], len(look["looks"]))

    def test_chosen_times(self):
        look = self.look("steps", ["--resident-at", "2.25,0.75", "--resident-at", "60"])
        self.assertIn("ended before --resident-at 60\n", self.said)
        looks = look["looks"]
        self.assertEqual(looks, sorted(looks, key=lambda x: x["time_ns"]))
        chosen = [i for i, x in enumerate(looks) if x["reason"] == "at a chosen time"]
        # A loaded machine may come to one of them too late, and says so.
        ended = self.said.count("ended before --resident-at ")
        self.assertEqual(len(chosen) + ended, 3, f"{looks} {self.said}")
        self.assertIn(0, chosen)
        for i, expected in zip(chosen, (2, 4)):
            one = run("report", f"--resident={i + 1}", "--format", "json", self.trace)
            one = json.loads(one.stdout)
            self.assertEqual(one["look"], i + 1)
            self.assertEqual(one["resident"]["time_ns"], looks[i]["time_ns"])
            self.assertEqual(self.site(one, "take")["resident_bytes"], expected * MIB)
        self.assertEqual(look["resident"]["bytes"], max(x["bytes"] for x in looks))
        result = run("report", f"--resident={len(looks) + 1}", self.trace)
        self.assertEqual(result.returncode, 2)
        self.assertIn("there is no look", result.stderr)
        text = run("report", "--resident=1", self.trace).stdout
        self.assertRegex(text, r"Look 1: [\d.]+ MiB resident at .*: this report\n")

    def test_a_chosen_time_without_pages(self):
        source = self.dir / "static.c"
        source.write_text("#include <unistd.h>\nint main(void) { return usleep(300000); }\n")
        program = compiled(self.dir, "static", ["-static"], source)
        said = record(self.dir, program, options=["-f", "--follow-fork", "--resident-at",
                                                      "0.1"]).stderr
        self.assertIn("the pages were not looked at: no recorded program has any", said)

    def start_asked(self):
        """The program waits for its input; the signal would end it."""
        self.errors = self.dir / "said"
        with self.errors.open("w") as errors:
            process = subprocess.Popen([TIDEMARK, "run", "-o", self.trace, "--no-debuginfod",
                                        "--resident-on", "USR1", "--report", "none", "--",
                                        self.program, "asked"],
                                       stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=errors)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.stdin.close)
        self.addCleanup(process.wait, LIMIT)
        self.addCleanup(process.kill)
        return process

    def ask(self, process, count):
        """Returns pid and address of the block once `count` looks were reported."""
        pid, address = process.stdout.readline().split()
        process.send_signal(signal.SIGUSR1)
        said = self.errors.read_text
        wait_until(lambda: said().count("looked at the pages of 1 recorded program") == count
                   or "were not looked at" in said())
        if "were not looked at" in said():
            self.skipTest("the kernel does not show pages here")
        return int(pid), int(address, 16)

    def test_on_request(self):
        process = self.start_asked()
        kernel = []
        for n in (1, 2):
            kernel.append(in_smaps(*self.ask(process, n)))
            process.stdin.write(b"x")
            process.stdin.flush()
        self.assertEqual(process.wait(LIMIT), 0, self.errors.read_text())
        whole = json.loads(run("report", "--resident", "--format", "json", self.trace).stdout)
        asked = [i for i, x in enumerate(whole["looks"]) if x["reason"] == "on request"]
        self.assertEqual(len(asked), 2, whole["looks"])
        for i, expected, (block, whole, swapped) in zip(asked, (2, 6), kernel):
            one = json.loads(run("report", f"--resident={i + 1}", "--format", "json",
                                 self.trace).stdout)
            row = self.site(one, "take")
            self.assertEqual(row["resident_bytes"] + row["swapped_bytes"], expected * MIB)
            # The mapping of the block has the page of malloc's head, too.
            self.assertLessEqual(abs(row["resident_bytes"] - block), PAGE)
            sums = one["resident"]
            self.assertLessEqual(abs(sums["bytes"] + sums["unsure_bytes"] - whole), 16 * PAGE)
            self.assertLessEqual(abs(sums["swapped_bytes"] - swapped), 16 * PAGE)

    def test_after_a_kill(self):
        """`run` is killed after a look: the recovered trace has it, and what the kernel counted."""
        process = self.start_asked()
        self.ask(process, 1)
        process.kill()
        process.wait(LIMIT)
        folder = next(self.dir.glob("*/*.recording")).parent
        notes = next(folder.glob("*.recording.kernel"))
        whole = notes.read_bytes()
        # The last note may be incomplete, and is ignored then. Other damage is an error.
        notes.write_bytes(whole + b"\1\0\0\0\xff\0\0\0torn")
        result = run("run", "--recover", folder, "-o", self.trace, "--report", "none")
        self.assertEqual(result.returncode, 0, result.stderr)
        one = json.loads(run("report", "--resident", "--format", "json", self.trace).stdout)
        self.assertEqual([x["reason"] for x in one["looks"]], ["on request"])
        self.assertEqual(self.site(one, "take")["resident_bytes"], 2 * MIB)
        dump = run("dump", self.trace).stdout
        self.assertIn("kernel: RSS anonymous", dump)
        self.assertIn("kernel: RSS file", dump)
        notes.write_bytes(b"\3\0\0\0\0\0\0\0" + whole)
        result = run("run", "--recover", folder, "-o", self.dir / "damaged.tracy")
        self.assertEqual(result.returncode, 3, result.stderr)
        self.assertIn("offset 0: a note of an unknown kind", result.stderr)
        self.assertFalse((self.dir / "damaged.tracy").exists())

    def test_requests_that_do_not_fit(self):
        for options in (("--resident-on", "KILL"), ("--resident-on", "USR1", "--toggle", "USR1"),
                        ("--resident-on", "USR1", "--no-resident"),
                        ("--resident-on", "USR1", "--sample", "1M")):
            result = run("run", *options, "--", self.program, "touch")
            self.assertEqual(result.returncode, 2, options)

    def finding(self, look, kind):
        rows = [f for f in look["findings"] if f["kind"] == kind]
        self.assertEqual(len(rows), 1, look["findings"])
        return rows[0]

    def test_finding_of_a_large_request(self):
        look = self.look("touch")
        found = self.finding(look, "not_resident")
        self.assertEqual((found["bytes"], found["count"]), (240 * MIB, 1))
        self.assertTrue(found["site"].startswith("take (resident.c:"), found)
        self.assertEqual(found["callstack"][0]["function"], "take")
        text = run("report", "--resident", self.trace).stdout
        self.assertRegex(text, r"Findings, and what usually helps\n  take \(resident.c:\d+\): 240 MiB "
                               r"of the 256 MiB in 1 block are not in memory: never touched, or given "
                               r"back\n      request less")
        shown = run("report", "--resident", "--format", "markdown", self.trace).stdout
        self.assertRegex(shown, r"(?m)^- `take .*240 MiB of the 256 MiB")

    def test_finding_of_survivors(self):
        look = self.look("comb")
        found = self.finding(look, "pinned")
        self.assertEqual(found["bytes"], self.site(look, "survivor")["pinned_bytes"])
        self.assertEqual(found["count"], 1000)
        self.assertEqual([f for f in look["findings"] if f["kind"] == "not_resident"], [])

    def test_finding_of_malloc_trim(self):
        """There is no whole page between survivors; the first call may return the heap's end."""
        found = self.finding(self.look("comb-trim"), "malloc_trim")
        self.assertIn(found["count"], (2, 3))
        self.assertEqual((found["bytes"], found["site"]), (0, None))
        self.assertEqual(found["text"],
                         f"{found['count']} of 3 calls of malloc_trim returned nothing")

    def test_finding_of_pages_that_the_allocator_keeps(self):
        look = self.look("keep")
        found = self.finding(look, "empty_pages")
        self.assertEqual(found["bytes"], look["empty_page_bytes"])
        self.assertGreater(found["bytes"], 24 * MIB)
        self.assertRegex(found["remedy"], "^with glibc.s malloc, malloc_trim.* other allocators")

    def test_finding_of_arenas(self):
        look = self.look("arenas")
        if look["arena_heaps"] == 0:
            self.skipTest("the memory of programs cannot be read here")
        self.assertEqual(look["arena_heaps"], 4)
        found = self.finding(look, "arenas")
        self.assertEqual(found["count"], 4)
        self.assertGreater(found["bytes"], 4 * 3 * MIB)
        self.assertLess(found["bytes"], 4 * 5 * MIB)

    def test_finding_of_huge_pages(self):
        look = self.look("huge")
        if look["huge_page_bytes"] == 0:
            self.skipTest("the kernel makes no transparent huge pages here")
        self.assertEqual(self.finding(look, "huge_pages")["bytes"], look["huge_page_bytes"])
        self.assertGreaterEqual(look["huge_page_bytes"], 2 * MIB)
        self.assertLessEqual(look["huge_page_bytes"], 18 * MIB)

    def test_handles_are_no_memory(self):
        """Blocks of one pool that overlap: their addresses stand for memory elsewhere."""
        look = self.look("handles")
        rows = [s for s in look["sites"] if s["pool"] == "gpu"]
        self.assertEqual(sum(s["bytes"] for s in rows), 8 * MIB)
        self.assertEqual([s["resident_bytes"] for s in rows if s["resident_bytes"]], [])
        self.assertEqual(sum(s["outside_bytes"] for s in rows), 8 * MIB)
        self.assertEqual(self.site(look, "take")["resident_bytes"], 64 * PAGE)

    def test_refused_times(self):
        for options in (["--resident-at", "1,"], ["--resident-at", "x"],
                        ["--resident-at", "1", "--no-resident"],
                        ["--resident-at", ",".join(["1"] * 33)],
                        ["--resident-at", "1", "--sample", "64K"]):
            result = run("run", *options, "true")
            self.assertEqual(result.returncode, 2, options)

    def test_call_stacks_of_a_site(self):
        look = self.look("comb")
        options = ["report", "--resident", "--stack-traces", self.trace]
        row = self.site(json.loads(run(*options, "--format", "json").stdout), "survivor")
        stacks = row.pop("stacks")
        for key in ("count", "bytes", "resident_bytes", "pinned_bytes", "not_resident_bytes"):
            self.assertEqual(sum(s[key] for s in stacks), row[key])
        self.assertEqual(stacks[0]["callstack"][0]["function"], "survivor")
        self.assertIsNone(self.site(look, "survivor")["stacks"])
        text = run(*options).stdout
        self.assertIn("of these, from\n", text)

    def test_the_stack_of_a_thread(self):
        look = self.look("thread")
        stacks = look["resident"]["shares"]["stacks"]
        if stacks < MIB // 2:
            self.skipTest("stack pointers of threads cannot be read here")
        self.assertLess(abs(stacks - MIB), MIB // 4)

    def test_text_csv_and_a_selection(self):
        self.look("touch")
        text = run("report", "--resident", self.trace).stdout
        self.assertIn("256 MiB live", text)
        self.assertIn("take (resident.c:", text)
        rows = run("report", "--resident", "--format", "csv", self.trace).stdout.splitlines()
        self.assertIn(f",{16 * MIB},0,0,{240 * MIB},{256 * MIB},1,0,0", rows[1])
        shown = run("report", "--resident", "--format", "markdown", self.trace).stdout
        self.assertRegex(shown, r"(?m)^\| `take .*\| 16.0 MiB \|.*\| 240 MiB \|")
        narrow = run("report", "--resident", "--format", "json", "--size", "1M:", self.trace)
        narrow = json.loads(narrow.stdout)
        self.assertIsNone(narrow["resident"])
        self.assertEqual([s["function"] for s in narrow["sites"]], ["take"])

    def test_no_look(self):
        for options in (["--sample", "64K"], ["--no-resident"]):
            result = record(self.dir, self.program, "touch", options=["-f", *options])
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertNotIn("\nresident ", result.stderr)
            self.assertNotIn("resident", report(self.trace))
        result = run("report", "--resident", self.trace)
        self.assertEqual(result.returncode, 3)
        self.assertIn("no look at the pages", result.stderr)

    def test_rewritten_traces_keep_it_or_say_so(self):
        look, table = self.look("touch"), run("report", self.trace).stdout
        self.assertIn("Resident", table)
        other = self.dir / "other.tracy"
        for command in (["update", "-z", "3", self.trace, other],
                        ["symbols", self.trace, "-o", other]):
            result = run(*command)
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertNotIn("is not kept", result.stderr)
            again = run("report", "--resident", "--format", "json", other).stdout
            self.assertEqual(json.loads(again)["sites"], look["sites"])
            self.assertEqual(json.loads(again)["resident"], look["resident"])
            self.assertEqual(run("report", other).stdout, table)
            self.assertEqual(run("verify", other).returncode, 0)
        for command in (["update", "-4", self.trace, other],
                        ["update", "--trace-version", "0.10.0", self.trace, other],
                        ["update", "--range", "0:1s", self.trace, other],
                        ["merge", self.trace, self.trace, "-f", "-o", other]):
            result = run(*command)
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertIn("`report --resident`) is not kept", result.stderr)

    def test_stripped_memory_has_none(self):
        self.look("touch")
        other = self.dir / "stripped.tracy"
        result = run("update", "-s", "M", self.trace, other)
        self.assertEqual(result.returncode, 0)
        self.assertIn("`report --resident`) is not kept", result.stderr)
        result = run("report", "--resident", other)
        self.assertEqual(result.returncode, 3)
        self.assertNotIn("\nresident ", run("report", other).stdout)

    def test_the_trace_is_sound(self):
        """The pages are behind the trace, where `verify` and others expect them."""
        self.look("touch")
        self.assertEqual(run("verify", self.trace).returncode, 0)
        data = bytearray(self.trace.read_bytes())
        data[-100] ^= 1
        damaged = self.dir / "damaged.tracy"
        damaged.write_bytes(data)
        self.assertEqual(run("report", "--resident", damaged).returncode, 3)


if __name__ == "__main__":
    unittest.main()
