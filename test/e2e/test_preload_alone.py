"""LD_PRELOAD=libtidemark.so PROGRAM, without `tidemark run`: the library finds a collector itself."""

import os
import re
import socket
import subprocess
import threading
import unittest

from test_run import compiled, site
from test_run_client import SANITIZED
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


def pools(trace):
    """Figures of pools without those that depend on names: only the captured trace has names."""
    return [{key: value for key, value in pool.items() if not key.startswith("permanent")}
            for pool in report(trace)["pools"]]


class AloneCase(Case):
    def setUp(self):
        super().setUp()
        self.program = compiled(self.dir)
        self.trace = self.dir / "out.tracy"

    def environment(self, words, **more):
        environment = {k: v for k, v in os.environ.items()
                       if not k.startswith(("TIDEMARK_", "TRACY_"))}
        environment.update({"LD_PRELOAD": LIBRARY, "TIDEMARK_COLLECTOR": str(TIDEMARK),
                            "TIDEMARK_PROGRAM": "program", "TIDEMARK_RUN": f"--port 0 --no-symbols {words}",
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


class Alone(AloneCase):
    def test_a_trace(self):
        out, err = self.preloaded(self.program, "threads", 4, 500)
        self.assertEqual(out, "2000 2000\n")
        self.assertNotIn("listening", err)
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
        self.assertEqual(pools(self.dir / "got.tracy"), pools(self.trace))

    def test_the_program_knows_nothing(self):
        (self.dir / "children.c").write_text(CHILDREN)
        self.preloaded(compiled(self.dir, "children", source=self.dir / "children.c"),
                       TIDEMARK_PROGRAM="children")

    def test_children(self):
        self.preloaded("/bin/sh", "-c", f"{self.program} exit 0; {self.program} exit 0; :",
                       TIDEMARK_PROGRAM="sh")
        self.assertNotIn("children", " ".join(os.listdir(self.dir)))
        _, err = self.preloaded("/bin/sh", "-c", f"{self.program} exit 0; {self.program} exit 0; :",
                                words=f"--follow-fork --min-lifetime 1000 -f -o {self.trace}",
                                TIDEMARK_PROGRAM="/bin/sh")
        self.assertNotIn("listening", err)
        self.assertIn("out.children.tracy", os.listdir(self.dir))

    def test_options(self):
        self.preloaded(self.program, "threads", 1, 100, words=f"--min-size 1M -o {self.trace}")
        self.assertEqual(report(self.trace)["pools"], [])

    def test_without_a_collector(self):
        for program in (str(self.dir / "nowhere"), "/bin/false"):
            out, err = self.preloaded(self.program, "threads", 1, 50, TIDEMARK_COLLECTOR=program)
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
        out, err = self.preloaded(self.program, "threads", 2, 300, TIDEMARK_COLLECTOR="",
                                  LD_PRELOAD="liballocwrapper.so",
                                  LD_LIBRARY_PATH=f"{root}/usr/lib")
        self.assertEqual(out, "600 600\n")
        self.assertIn("out.tracy", err)
        row = [s for s in report(self.trace)["sites"] if s["count"] == 600]
        self.assertEqual([s["live_count"] for s in row], [0])
        # And what it starts does not load it again.
        out, err = self.preloaded("/bin/sh", "-c", "echo $LD_PRELOAD; exec env", TIDEMARK_COLLECTOR="",
                                  TIDEMARK_PROGRAM="sh", words=f"-f -o {self.trace}", LD_PRELOAD="liballocwrapper.so",
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
        for words, code, said in (
                (["--adopt", "0"], 2, ""),
                # What the library that started it prints.
                (["--adopt", str(2**31 - 2)], 127,
                 f"!process {2**31 - 2} cannot be recorded: No such file or directory\n"),
                (["--adopt", "1", "--", "true"], 2, "")):
            result = subprocess.run([TIDEMARK, "run", *words], cwd=ROOT, stdout=subprocess.PIPE,
                                    stderr=subprocess.PIPE, text=True, timeout=LIMIT)
            self.assertEqual((result.returncode, result.stdout), (code, said), result.stderr)


class Scripts(AloneCase):
    """`export LD_PRELOAD`: what a script starts."""

    def traces(self):
        return sorted(n for n in os.listdir(self.dir) if n.endswith((".tracy", ".recording")))

    def test_a_short_program_leaves_a_line(self):
        _, err = self.preloaded("/bin/sh", "-c", f"{self.program} exit 0; {self.program} exit 0",
                                words="", TIDEMARK_PROGRAM="")
        # Children of a recorded process do not load the library, so the shell is the only one.
        self.assertRegex(err, r"\Atidemark: process \d+ \((da)?sh\) ended within 1 s: no trace; "
                              r"TIDEMARK_PROGRAM=(da)?sh records it\n\Z")
        self.assertEqual(self.traces(), [])
        # Nor one whose collector cannot begin, for a reason of its own or because it is none.
        for words, collector in (("--spool /nowhere", str(TIDEMARK)), ("", "/bin/false")):
            _, err = self.preloaded(self.program, "exit", 0, words=words, TIDEMARK_PROGRAM="",
                                    TIDEMARK_COLLECTOR=collector)
            self.assertEqual(err.count("\n"), 1, err)
            self.assertEqual(self.traces(), [])
        self.assertIn("; if it lives for a second, `tidemark run --recover", err)

    def test_one_that_lives_is_recorded_from_its_beginning(self):
        go = self.dir / "go"
        process = subprocess.Popen([self.program, "wait", go, "700"], cwd=self.dir, text=True,
                                   env=self.environment(f"-o {self.trace}", TIDEMARK_PROGRAM=""),
                                   stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE)
        self.addCleanup(process.kill)
        self.assertIn("listening on 127.0.0.1:", process.stderr.readline())
        go.touch()
        out, err = process.communicate(timeout=LIMIT)
        self.assertEqual(out, "ready\n1200 700\n", err)
        self.assertGreaterEqual(report(self.trace)["pools"][0]["allocations"], 1200)

    def test_the_program_that_is_named(self):
        """However short its life, and wherever in the tree; no other one."""
        script = self.dir / "script"
        script.write_text(f"#!/bin/sh\n{self.program} threads 1 60\n: | cat\n")
        script.chmod(0o755)
        for name in ("program", str(self.program)):
            out, err = self.preloaded("/bin/sh", "-c", f"date >/dev/null; {script}; mkdir x; rmdir x",
                                      words="", TIDEMARK_PROGRAM=name)
            self.assertEqual(out, "60 60\n")
            # One that takes longer than a second, as under sanitizers, says where it listens.
            lines = [line for line in err.splitlines() if "tidemark: listening on " not in line]
            self.assertEqual((err.count("tracy: "), len(lines)), (1, 1), err)
            made = self.traces()
            self.assertEqual(len(made), 1)
            self.assertRegex(made[0], r"^program\.\d+\.tracy$")
            os.unlink(self.dir / made[0])
        # A script by its own name.
        self.preloaded(script, words=f"-o {self.trace}", TIDEMARK_PROGRAM="script")
        self.assertTrue(self.trace.exists())


class Ports(AloneCase):
    """The program gets the port that it binds, whoever of ours listens there."""

    def start(self, *command, words="", **more):
        process = subprocess.Popen([str(c) for c in command], cwd=self.dir, text=True,
                                   env=self.environment(f"-o {self.trace} {words}", **more),
                                   stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE)
        self.addCleanup(process.kill)
        said = process.stderr.readline()
        match = re.match(r"tidemark: listening on 127\.0\.0\.1:(\d+)", said)
        self.assertTrue(match, said)
        return process, int(match[1])

    def claim(self, process, port):
        """The program binds the port. Gives where the recording is offered then."""
        process.stdin.write("\n")
        process.stdin.flush()
        self.assertEqual(process.stdout.readline(), f"bound {port}\n")
        said = process.stderr.readline()
        match = re.match(rf"tidemark: process \d+ binds port {port}: now listening on "
                         r"127\.0\.0\.1:(\d+)\n", said)
        self.assertTrue(match, said)
        with socket.create_connection(("127.0.0.1", port), timeout=LIMIT) as own:
            self.assertEqual(own.recv(64), b"the program")
        self.assertNotEqual(int(match[1]), port)
        return int(match[1])

    def captured(self, port, end):
        """What a server gets from the listener's new port."""
        got = self.dir / "got.tracy"
        capture = subprocess.Popen([TIDEMARK, "capture", "-f", "-p", str(port), "-o", got],
                                   stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.addCleanup(capture.kill)
        self.assertIn("Connecting", capture.stdout.readline())
        self.assertIn("protocol", capture.stdout.readline())
        end.stdin.close()
        self.assertEqual(capture.wait(timeout=LIMIT), 0)
        capture.stdout.close()
        end.stdin = None
        return pools(got)

    def test_the_program_itself_and_its_libraries(self):
        program = compiled(self.dir, "program", source=ROOT / "test" / "e2e" / "bind_program.c")
        library = compiled(self.dir, "libbind.so", flags=("-shared", "-fPIC"),
                           source=ROOT / "test" / "e2e" / "bind_program.c")
        for family in "46":
            for how in ([], [library], [library, "deep"]):
                with self.subTest(family=family, how=how):
                    # The port is only known when the listener has it.
                    with socket.socket() as probe:
                        probe.bind(("127.0.0.1", 0))
                        port = probe.getsockname()[1]
                    process, at = self.start(program, port, family, *how,
                                             words=f"-f --port {port}")
                    self.assertEqual(at, port)
                    moved = self.claim(process, port)
                    captured = self.captured(moved, process)
                    _, err = process.communicate(timeout=LIMIT)
                    self.assertEqual(process.returncode, 0, err)
                    self.assertEqual(captured, pools(self.trace))

    def test_another_program_has_the_port_before(self):
        """TRACY_PORT names it; so the recording is offered at another one."""
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            port = taken.getsockname()[1]
            program = compiled(self.dir, "program", source=ROOT / "test" / "e2e" / "bind_program.c")
            process, at = self.start(program, 0, 4, words=f"--port {port}")
            self.assertNotEqual(at, port)
            process.communicate(timeout=LIMIT)

    def test_the_listener_is_that_of_another_program(self):
        """As where a shell script lives long and starts a program with a client of its own."""
        program = compiled(self.dir, "program", source=ROOT / "test" / "e2e" / "bind_program.c")
        other, port = self.start(program, 0, 4, words="-f")
        process, _ = self.start(program, port, 4, words=f"-f -o {self.dir / 'two.tracy'}")
        process.stdin.write("\n")
        process.stdin.flush()
        self.assertEqual(process.stdout.readline(), f"bound {port}\n")
        self.assertRegex(other.stderr.readline(),
                         rf"process {process.pid} binds port {port}: now listening on")
        for one in (process, other):
            one.communicate("\n", timeout=LIMIT)

    def test_a_port_of_nobody_of_ours(self):
        """It fails as without us."""
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            port = taken.getsockname()[1]
            program = compiled(self.dir, "program", source=ROOT / "test" / "e2e" / "bind_program.c")
            process, _ = self.start(program, port, 4)
            out, _ = process.communicate("\n", timeout=LIMIT)
            self.assertEqual(out, f"Address already in use {port}\n")

    @unittest.skipIf(SANITIZED, "the client needs a sanitizer's library to come first")
    def test_a_capture_is_of_the_client_in_the_program(self):
        """It says where the malloc events are. It waits for the client before the program starts."""
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        got = self.dir / "got.tracy"
        capture = subprocess.Popen([TIDEMARK, "capture", "-f", "-p", str(port), "-o", got],
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(capture.kill)
        self.assertIn("Connecting", capture.stdout.readline())
        process = subprocess.Popen([BUILD / "test" / "stack_client", "names", str(port)],
                                   cwd=self.dir, text=True, stdout=subprocess.PIPE,
                                   env=self.environment(f"-f -o {self.trace} --port {port}",
                                                        TIDEMARK_PROGRAM="stack_client"),
                                   stdin=subprocess.DEVNULL, stderr=subprocess.PIPE)
        self.addCleanup(process.kill)
        self.assertEqual(process.stdout.readline().split()[0], str(port))
        _, err = capture.communicate(timeout=LIMIT)
        self.assertEqual(capture.returncode, 0, err)
        self.assertEqual(process.communicate(timeout=LIMIT)[0], "")
        self.assertEqual([(p["allocations"], p["total_bytes"]) for p in report(got)["pools"]],
                         [(9, 324)])
        self.assertIn(f"records malloc of this process: not in this trace, but in {self.trace}",
                      err)
        self.assertTrue(self.trace.exists())

    @unittest.skipIf(SANITIZED, "the client needs a sanitizer's library to come first")
    def test_a_capture_changes_to_the_client(self):
        """That comes late, with a plugin: the capture is connected to our listener by then."""
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            port = probe.getsockname()[1]
        go, got = self.dir / "go", self.dir / "got.tracy"
        process, at = self.start(BUILD / "test" / "zone_client", "82", "200", "ticks", go,
                                 words=f"-f --port {port}", TRACY_PORT=str(port),
                                 TIDEMARK_PROGRAM="zone_client")
        self.assertEqual(at, port)
        capture = subprocess.Popen([TIDEMARK, "capture", "-f", "-p", str(port), "-o", got],
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(capture.kill)
        self.assertIn("Connecting", capture.stdout.readline())
        self.assertIn("zone_client, protocol", capture.stdout.readline())
        go.touch()
        _, err = capture.communicate(timeout=LIMIT)
        self.assertEqual(capture.returncode, 0, err)
        self.assertIn("own Tracy client is at this port now", err)
        self.assertIn(f"not in this trace, but in {self.trace}", err)
        _, said = process.communicate(timeout=LIMIT)
        self.assertIn("now listening on", said)
        self.assertEqual({p["name"]: p["allocations"] for p in report(got)["pools"]},
                         {"default": 100, "GPU pool": 1})
        self.assertGreaterEqual(report(self.trace)["pools"][0]["allocations"], 400)
        self.assertEqual([n for n in os.listdir(self.dir) if "journal" in n], [])
