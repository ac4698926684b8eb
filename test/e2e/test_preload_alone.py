"""LD_PRELOAD=libtidemark.so PROGRAM, without `tidemark run`: the library finds a collector itself."""

import os
import re
import subprocess
import threading

from test_run import compiled, site
from tools import BUILD, LIMIT, ROOT, TIDEMARK, Case, report

LIBRARY = str(BUILD / "libtidemark.so")
CHILDREN = r"""
#include <errno.h>
#include <stdlib.h>
#include <sys/wait.h>
extern char **environ;
int main(void)
{
    /* Of a collector the program sees neither a child nor a variable. */
    if (waitpid(-1, NULL, __WALL) != -1 || errno != ECHILD)
        return 1;
    return getenv("LD_PRELOAD") || getenv("TIDEMARK_RUN") || getenv("TIDEMARK_SOCKET") ? 2 : 0;
}
"""


class Alone(Case):
    def setUp(self):
        super().setUp()
        self.program = compiled(self.dir)
        self.trace = self.dir / "out.tracy"

    def environment(self, words, **more):
        environment = {k: v for k, v in os.environ.items()
                       if not k.startswith(("TIDEMARK_", "TRACY_"))}
        environment.update({"LD_PRELOAD": LIBRARY, "TIDEMARK_PROGRAM": str(TIDEMARK),
                            "TIDEMARK_RUN": f"--port 0 --no-symbols {words}",
                            "XDG_CACHE_HOME": str(self.dir / "cache"), **more})
        return environment

    def preloaded(self, *command, words=None, code=0, **more):
        """What the program wrote, and what was said to its standard error until the collector had
        ended, too."""
        words = f"-o {self.trace}" if words is None else words
        result = subprocess.run([str(c) for c in command], env=self.environment(words, **more),
                                cwd=self.dir, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, text=True, timeout=LIMIT)
        self.assertEqual(result.returncode, code, result.stderr)
        self.assertEqual([n for n in os.listdir(self.dir) if n.startswith("tidemark-run")], [])
        return result.stdout, result.stderr

    def test_a_trace(self):
        out, err = self.preloaded(self.program, "threads", 4, 500)
        self.assertEqual(out, "2000 2000\n")
        self.assertIn("listening on 127.0.0.1:", err)
        row = [s for s in report(self.trace)["sites"] if s["count"] == 2000]
        self.assertEqual([s["live_count"] for s in row], [0])
        _, err = self.preloaded(self.program, "exit", 5, words="-f", code=5)
        self.assertIn(".tracy", err)
        self.assertEqual(len([n for n in os.listdir(self.dir)
                              if re.fullmatch(r"program\.\d+\.tracy", n)]), 1)

    def test_a_server(self):
        process = subprocess.Popen([self.program, "threads", "1", "300"], cwd=self.dir, text=True,
                                   env=self.environment(f"--no-exit -o {self.trace}"),
                                   stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE)
        port = re.search(r"listening on 127.0.0.1:(\d+)", process.stderr.readline())[1]
        capture = subprocess.Popen([TIDEMARK, "capture", "-p", port, "-o", self.dir / "got.tracy"],
                                   stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.addCleanup(capture.kill)
        watch = threading.Timer(LIMIT, capture.kill)
        watch.start()
        said = capture.communicate()[0]
        watch.cancel()
        self.assertEqual(capture.returncode, 0, said)
        self.assertEqual(process.communicate(timeout=LIMIT)[0], "300 300\n")
        for trace in (self.trace, self.dir / "got.tracy"):
            pool = report(trace)["pools"][0]
            self.assertGreaterEqual(pool["allocations"], 300)
        self.assertEqual(pool, report(self.trace)["pools"][0])

    def test_the_program_knows_nothing(self):
        (self.dir / "children.c").write_text(CHILDREN)
        self.preloaded(compiled(self.dir, "children", source=self.dir / "children.c"))

    def test_children(self):
        self.preloaded("/bin/sh", "-c", f"{self.program} exit 0; {self.program} exit 0; :")
        self.assertNotIn("children", " ".join(os.listdir(self.dir)))
        _, err = self.preloaded("/bin/sh", "-c", f"{self.program} exit 0; {self.program} exit 0; :",
                                words=f"--follow-fork --min-lifetime 1000 -f -o {self.trace}")
        self.assertEqual(err.count("listening"), 1)
        self.assertIn("out.children.tracy", os.listdir(self.dir))

    def test_options(self):
        self.preloaded(self.program, "threads", 1, 100, words=f"--min-size 1M -o {self.trace}")
        self.assertEqual(report(self.trace)["pools"], [])

    def test_without_a_collector(self):
        for program in (str(self.dir / "nowhere"), "/bin/false"):
            out, err = self.preloaded(self.program, "threads", 1, 50, TIDEMARK_PROGRAM=program)
            self.assertEqual(out, "50 50\n")
            name = re.search(r"run --recover (tidemark\.\d+\.recording)", err)[1]
            result = subprocess.run([TIDEMARK, "run", "--recover", self.dir / name, "-f", "-o",
                                     self.trace, "--no-debuginfod"], stdout=subprocess.PIPE,
                                    stderr=subprocess.STDOUT, text=True, timeout=LIMIT)
            self.assertEqual(result.returncode, 0, result.stdout)
            self.assertEqual(site(self.trace, "make_block")["count"], 50)

    def test_the_name_that_users_of_tracy_know(self):
        """As `make install-compat` installs it, found by its name alone."""
        root = self.dir / "root"
        made = subprocess.run(["make", "--old-file=all", "install-compat", f"DESTDIR={root}",
                               f"BUILD={os.environ.get('BUILD', 'build')}", "PREFIX=/usr"], cwd=ROOT,
                              env={k: v for k, v in os.environ.items() if k != "MAKEFLAGS"},
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                              timeout=LIMIT)
        self.assertEqual(made.returncode, 0, made.stdout)
        # The loader's cache has libraries by this name, not by that of the file.
        dynamic = subprocess.run(["readelf", "-d", root / "usr/lib/liballocwrapper.so"], check=True,
                                 stdout=subprocess.PIPE, text=True, timeout=LIMIT).stdout
        self.assertIn("[liballocwrapper.so]", dynamic)
        out, err = self.preloaded(self.program, "threads", 2, 300, TIDEMARK_PROGRAM="",
                                  LD_PRELOAD="liballocwrapper.so",
                                  LD_LIBRARY_PATH=f"{root}/usr/lib")
        self.assertEqual(out, "600 600\n")
        self.assertIn("listening on 127.0.0.1:", err)
        row = [s for s in report(self.trace)["sites"] if s["count"] == 600]
        self.assertEqual([s["live_count"] for s in row], [0])
        # And what it starts does not load it again.
        out, err = self.preloaded("/bin/sh", "-c", "echo $LD_PRELOAD; exec env", TIDEMARK_PROGRAM="",
                                  words=f"-f -o {self.trace}", LD_PRELOAD="liballocwrapper.so",
                                  LD_LIBRARY_PATH=f"{root}/usr/lib")
        self.assertNotIn("LD_PRELOAD", out)

    def test_a_server_that_loads_it_is_not_recorded(self):
        """Scripts preload it for all that they start."""
        fixture = ROOT / "fixtures" / "traces" / "v0.14.0" / "ledger.tracy"
        # Under a sanitizer its own library is to come second.
        out, err = self.preloaded(TIDEMARK, "info", fixture,
                                  ASAN_OPTIONS="verify_asan_link_order=0")
        self.assertIn("0.14.0", out)
        self.assertEqual(err, "")
        self.assertFalse(self.trace.exists())

    def test_off(self):
        out, err = self.preloaded(self.program, "threads", 1, 50, TIDEMARK_RUN="off")
        self.assertEqual((out, err), ("50 50\n", ""))
        self.assertFalse(self.trace.exists())

    def test_adopting_nobody(self):
        for words, code in ((["--adopt", "0"], 2), (["--adopt", str(2**31 - 2)], 127),
                            (["--adopt", "1", "--", "true"], 2)):
            result = subprocess.run([TIDEMARK, "run", *words], cwd=ROOT, stdout=subprocess.PIPE,
                                    stderr=subprocess.PIPE, text=True, timeout=LIMIT)
            self.assertEqual((result.returncode, result.stdout), (code, ""), result.stderr)
