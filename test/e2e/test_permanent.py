"""What the C and C++ libraries and the loader keep until the end is no leak: `leaked>0` is usable on
clean programs, finds real leaks of libraries' functions, and says what it left out."""

import json
import shutil
import subprocess
import unittest

from tools import Case, report, run

CLEAN_C = """#include <dlfcn.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
int main(void)
{
    setlocale(LC_ALL, "C.UTF-8");
    puts("hello");
    dlopen("libm.so.6", RTLD_NOW);
    free(strdup("freed"));
    return 0;
}
"""

CLEAN_THREADS = """#include <pthread.h>
#include <stdio.h>
static void *work(void *a) { printf("here\\n"); return a; }
int main(void)
{
    pthread_t t[4];
    for (int i = 0; i < 4; i++)
        pthread_create(&t[i], 0, work, t);
    for (int i = 0; i < 4; i++)
        pthread_join(t[i], 0);
    return 0;
}
"""

CLEAN_CXX = """#include <iostream>
#include <thread>
#include <vector>
int main()
{
    std::ios::sync_with_stdio(false);
    std::thread t([] { std::cout << std::vector<int>(100).size() << std::endl; });
    t.join();
}
"""

LEAKY = """#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
static void *volatile kept[3];
int main(void)
{
    puts("hello");
    kept[0] = strdup("0123456789");
    FILE *f = fopen("/dev/null", "r");
    kept[1] = f;
    getc(f);
    kept[2] = opendir("/");
    return 0;
}
"""


@unittest.skipUnless(shutil.which("gcc") and shutil.which("g++"), "no compiler")
class Permanent(Case):
    def recorded(self, source, *args, suffix="c", status=0):
        """(stderr, trace) of a program that is run with a budget for leaks."""
        (self.dir / f"app.{suffix}").write_text(source)
        subprocess.run(["gcc" if suffix == "c" else "g++", "-g", "-O1", "-pthread", "-o", "app",
                        f"app.{suffix}"], cwd=self.dir, check=True)
        trace = self.dir / "app.tracy"
        result = run("run", "-o", trace, "-f", "--report", "none", "--fail-if", "leaked>0", *args,
                     "--", self.dir / "app")
        self.assertEqual(result.returncode, status, result.stderr)
        return result.stderr, trace

    def test_clean_programs(self):
        for suffix, source in (("c", CLEAN_C), ("c", CLEAN_THREADS), ("cpp", CLEAN_CXX)):
            with self.subTest(source):
                _, trace = self.recorded(source, suffix=suffix)
                pool = report(trace)["pools"][0]
                self.assertGreater(pool["permanent_bytes"], 0)
                self.assertEqual(pool["permanent_bytes"], pool["live_bytes"])
                self.assertEqual(pool["permanent_allocations"], pool["live_allocations"])

    def test_switched_off(self):
        errors, trace = self.recorded(CLEAN_THREADS, "--no-suppressions", status=1)
        self.assertRegex(errors, r"fail-if leaked>0: leaked is [\d.]+ KiB \([\d,]+\)\n")
        self.assertEqual(run("report", trace, "--fail-if", "leaked>0").returncode, 0)
        self.assertEqual(run("report", trace, "--fail-if", "leaked>0",
                             "--no-suppressions").returncode, 1)
        self.assertEqual(run("verify", trace, "--expect", "leaked_count=0").returncode, 0)
        self.assertEqual(run("verify", trace, "--expect", "leaked_count=0",
                             "--no-suppressions").returncode, 1)
        self.assertEqual(run("diff", trace, trace, "--fail-if", "leaked>0").returncode, 0)
        self.assertEqual(run("diff", trace, trace, "--fail-if", "leaked>0",
                             "--no-suppressions").returncode, 1)

    def test_what_was_suppressed_is_counted(self):
        _, trace = self.recorded(CLEAN_C)
        count = report(trace)["pools"][0]["permanent_allocations"]
        told = f"leaked is 0 bytes (suppressed: {count} block"
        for command in (("report", "--fail-if", "leaked>0", "--format", "json", trace),
                        ("verify", "--expect", "leaked=0", trace),
                        ("diff", "--fail-if", "leaked>0", trace, trace),
                        ("diff", "--fail-if", "leaked>0", trace, "--", trace, trace)):
            self.assertIn(told, run(*command).stdout, command)
        self.assertIn("the loader, in the run with most)", run(*command).stdout)
        self.assertNotIn("suppressed", run(*command[:3], "--no-suppressions", *command[3:]).stdout)

    def test_leaks_remain(self):
        """What strdup, fopen and opendir return is the program's; the buffer of stdout is not."""
        errors, trace = self.recorded(LEAKY, status=1)
        self.assertRegex(errors, r"leaked is .* \(suppressed: [\d,]+ blocks?, .* of the C and C\+\+ "
                                 r"libraries and the loader\)")
        leaks = json.loads(run("report", trace, "--leaks", "--format", "json").stdout)
        self.assertEqual(sorted(row["live_count"] for row in leaks["leaks"]), [1, 1, 1])
        self.assertIn(11, [row["live_bytes"] for row in leaks["leaks"]])
        hidden = [one for one in leaks["suppressed"] if one["built_in"]]
        self.assertTrue(any("stdio" in one["pattern"] and one["bytes"] >= 4096 for one in hidden))
        everything = json.loads(run("report", trace, "--leaks", "--no-suppressions", "--format",
                                    "json").stdout)
        self.assertEqual(sum(row["live_count"] for row in everything["leaks"]),
                         3 + sum(one["count"] for one in hidden))
        self.assertEqual(everything["suppressed"], [])
        text = run("report", trace, "--leaks").stdout
        self.assertIn("built-in: buffers of stdio streams", text)
        self.assertIn("of which the C and C++ libraries and the loader keep",
                      run("report", trace).stdout)
        sites = report(trace)["sites"]
        self.assertIn("buffers of stdio streams; a stream that is never closed is another block",
                      [site.get("permanent") for site in sites])

    def test_stored_figures(self):
        """Budgets are the same from the figures that a run stores and from the events."""
        _, trace = self.recorded(LEAKY, status=1)
        texts = {run("report", trace, "--fail-if", "leaked>0", *how).stderr
                 for how in ((), ("--recount",))}
        self.assertEqual(len(texts), 1, texts)


if __name__ == "__main__":
    unittest.main()
