"""`tidemark run`: programs that were not built for it, recorded from outside."""

import ctypes
import json
import os
import pathlib
import pty
import re
import resource
import shutil
import signal
import subprocess
import tempfile
import time
import unittest
from unittest import mock

from test_faults import environment
from tools import LIMIT, ROOT, TIDEMARK, Case, not_sanitized, remove_folder, report, run

SOURCE = ROOT / "test" / "e2e" / "run_program.c"
CC = os.environ.get("CC", "gcc")
PATIENCE = LIMIT
CONTROL = 1476  # where a recording's header has the collector's wish (client/recording_format.h)
EXPEDITED = 6240  # and whether the process is reached by quick memory barriers
MEMBARRIER = 324  # x86-64
# Names of the C library are read once for all tests.
CACHE = tempfile.TemporaryDirectory(prefix="tidemark-")


def compiled(folder, name="program", flags=(), source=SOURCE):
    path = folder / name
    subprocess.run([CC, "-g", "-O1", f"-I{ROOT}/include", *flags, "-o", path, source,
                    "-lpthread"], check=True)
    return path


def record(folder, *command, options=(), **kwargs):
    """Runs `command` under `tidemark run`; the trace is FOLDER/out.tracy."""
    return run("run", "-o", folder / "out.tracy", "--no-debuginfod", *options, "--", *command,
               **kwargs)


def site(trace, function):
    """The row of an allocation site: counts of one function's allocations."""
    rows = [s for s in report(trace)["sites"] if s["function"] == function]
    if len(rows) != 1:
        names = [(s["function"], s["count"]) for s in report(trace)["sites"]]
        raise AssertionError(f"{trace}: {len(rows)} sites called {function}: {names}")
    return rows[0]


def wait_until(condition):
    """For things that happen by themselves; generous, since the machine may be busy."""
    end = time.monotonic() + PATIENCE
    while not condition():
        if time.monotonic() > end:
            raise AssertionError("it did not happen")
        time.sleep(0.01)


def is_gone(pid):
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    stat = pathlib.Path(f"/proc/{pid}/stat")
    try:
        return stat.read_text().rsplit(")", 1)[1].split()[0] == "Z"
    except OSError:
        return True


class RunCase(Case):
    def setUp(self):
        super().setUp()
        self.program = compiled(self.dir)
        cache = mock.patch.dict(os.environ, {"XDG_CACHE_HOME": str(CACHE.name)})
        cache.start()
        self.addCleanup(cache.stop)
        self.trace = self.dir / "out.tracy"

    def assert_sound(self, trace=None):
        """No free of an unknown block, no allocation of a live one, nothing lost."""
        result = run("info", trace or self.trace, "--format", "json")
        self.assertEqual(result.returncode, 0, result.stderr)
        facts = json.dumps(json.loads(result.stdout))
        for fault in ("unknown_frees", "double_allocations", "lost_"):
            self.assertNotIn(fault, facts)

    def assert_nothing_left(self):
        self.assertEqual([n for n in os.listdir(self.dir) if n.startswith("tidemark-run")], [])


class Size(RunCase):
    def test_it_is_no_larger_than_that_of_an_official_capture(self):
        """Which compresses the same bytes with zstd, level 3. Times by the kernel's clock, where the
        processor has no steady one, are packed a little worse: 0.4 % larger has been seen."""
        result = record(self.dir, self.program, "threads", 4, 20000)
        self.assertEqual(result.returncode, 0, result.stderr)
        official = self.dir / "official.tracy"
        result = run("update", "-z", 3, self.trace, official)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertLessEqual(self.trace.stat().st_size, 1.01 * official.stat().st_size)

    def test_neither_is_one_of_two_streams(self):
        """As those of many events are. A recording so large is freed by a process of its own."""
        result = record(self.dir, self.program, "threads", 4, 1050000)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assert_nothing_left()
        with open(self.trace, "rb") as file:
            self.assertEqual(file.read(6), b"tr\xfdP\x01\x02")
        self.assertEqual(site(self.trace, "make_block")["count"], 4 * 1050000)
        self.assert_sound()
        official = self.dir / "official.tracy"
        result = run("update", "-z", 3, "-j", 4, self.trace, official)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertLessEqual(self.trace.stat().st_size, 1.01 * official.stat().st_size)


class Exactness(RunCase):
    def counted(self, threads, rounds):
        result = record(self.dir, self.program, "threads", threads, rounds)
        self.assertEqual(result.returncode, 0, result.stderr)
        made, freed = map(int, result.stdout.split())
        self.assertEqual(made, threads * rounds)
        self.assertEqual(freed, made)
        row = site(self.trace, "make_block")
        self.assertEqual(row["count"], made)
        self.assertEqual(row["live_count"], 0)
        self.assert_sound()
        self.assert_nothing_left()

    def test_one_thread(self):
        self.counted(1, 20000)

    def test_four_threads_pass_blocks(self):
        self.counted(4, 20000)

    def test_sixteen_threads_pass_blocks(self):
        self.counted(16, 10000)

    def test_names_files_and_lines(self):
        result = record(self.dir, self.program, "exit", 0)
        self.assertEqual(result.returncode, 0, result.stderr)
        row = site(self.trace, "make_block")
        self.assertTrue(row["file"].endswith("run_program.c"), row)
        lines = SOURCE.read_text().splitlines()
        self.assertIn("malloc(size)", lines[row["line"] - 1])
        functions = [f["function"] for f in row["callstack"]]
        self.assertIn("main", functions)
        self.assertLess(functions.index("make_block"), functions.index("main"))


class Streams(RunCase):
    def test_input_and_output_are_the_programs(self):
        text = "one\ntwo\nthree\n"
        result = subprocess.run([TIDEMARK, "run", "-o", str(self.trace), "--no-debuginfod", "--",
                                 str(self.program), "copy"], input=text, text=True,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=LIMIT)
        self.assertEqual(result.stdout, text)
        self.assertTrue(result.stderr.startswith("said\nsaid\nsaid\n"), result.stderr)
        self.assertIn("make_block", result.stderr)
        self.assertEqual(site(self.trace, "make_block")["count"], 3)

    def test_environment_is_given_back(self):
        env = dict(os.environ)
        env.pop("LD_PRELOAD", None)
        native = subprocess.run(["env"], stdout=subprocess.PIPE, text=True, check=True, env=env)
        result = record(self.dir, "env", options=["--report", "none", "--env", "TIDE=high"],
                        env=env)
        ours = set(result.stdout.splitlines()) - {"TIDE=high"}
        self.assertIn("TIDE=high", result.stdout)
        skip = re.compile(r"^(_|LD_PRELOAD|TIDEMARK_SOCKET)=")
        self.assertEqual({v for v in ours if not skip.match(v)},
                         {v for v in native.stdout.splitlines() if not skip.match(v)})

    def test_a_report_for_programs_is_all_that_is_written(self):
        """A silent program: one JSON document, on standard output, and nothing else anywhere."""
        silent = compiled(self.dir, "silent", source=self.write_source(
            "#include <stdlib.h>\nint main(void) { void *volatile p = malloc(9); free(p); }\n"))
        result = record(self.dir, silent, options=["--report", "json"])
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        told = json.loads(result.stdout)
        self.assertEqual(told["schema"], "tidemark.report/1")
        self.assertEqual([p["trace"] for p in told["processes"]], [str(self.trace)])
        result = record(self.dir, silent, options=["-f", "--report", "csv"])
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        self.assertGreater(len(result.stdout.splitlines()), 1)
        with open("/dev/full", "w") as full:
            result = subprocess.run([TIDEMARK, "run", "-f", "-o", self.trace, "--report", "json",
                                     "--", silent], stdout=full, stderr=subprocess.PIPE, text=True)
        self.assertEqual(result.returncode, 4, result.stderr)
        self.assertIn("cannot write the output", result.stderr)

    def write_source(self, text):
        source = self.dir / "source.c"
        source.write_text(text)
        return source

    def test_closed_standard_error(self):
        command = [TIDEMARK, "run", "-o", str(self.trace), "--no-debuginfod", "--",
                   str(self.program), "exit", "0"]
        result = subprocess.run(["sh", "-c", 'exec "$@" 2>&-', "sh", *command],
                                stdout=subprocess.PIPE, timeout=LIMIT)
        self.assertEqual(result.returncode, 0)
        self.assertEqual(site(self.trace, "make_block")["count"], 1)


class Status(RunCase):
    def test_is_the_programs(self):
        result = record(self.dir, self.program, "exit", 3)
        self.assertEqual(result.returncode, 3, result.stderr)
        self.assertTrue(self.trace.exists())

    def test_of_a_signal(self):
        result = record(self.dir, self.program, "signal", int(signal.SIGSEGV))
        self.assertEqual(result.returncode, 128 + signal.SIGSEGV, result.stderr)
        self.assertEqual(site(self.trace, "make_block")["count"], 1000)

    def test_of_sigkill(self):
        result = record(self.dir, self.program, "signal", int(signal.SIGKILL))
        self.assertEqual(result.returncode, 128 + signal.SIGKILL, result.stderr)
        row = site(self.trace, "make_block")
        self.assertEqual((row["count"], row["live_count"]), (1000, 1000))
        self.assert_sound()

    def test_of_budgets(self):
        failing = ["--fail-if", "count(site=~\"make_block\")>0", "--report", "json",
                   "--report-file", self.dir / "report.json"]
        result = record(self.dir, self.program, "exit", 0, options=failing)
        self.assertEqual(result.returncode, 1, result.stderr)
        checks = json.loads((self.dir / "report.json").read_text())["checks"]
        self.assertEqual([c["holds"] for c in checks if c["name"] == "fail-if"], [False])
        result = record(self.dir, self.program, "exit", 5, options=["-f", *failing])
        self.assertEqual(result.returncode, 5, result.stderr)
        holding = ["-f", "--fail-if", "peak>1G"]
        result = record(self.dir, self.program, "exit", 0, options=holding)
        self.assertEqual(result.returncode, 0, result.stderr)
        result = record(self.dir, self.program, "exit", 0, options=[*holding, "--min-size", "1G"])
        self.assertEqual(result.returncode, 1, result.stderr)
        self.assertIn("peak>1G: unknown, no memory data", result.stderr)

    def test_no_such_program(self):
        result = record(self.dir, self.dir / "none")
        self.assertEqual(result.returncode, 127, result.stderr)
        result = record(self.dir, "no-such-program-anywhere")
        self.assertEqual(result.returncode, 127, result.stderr)
        self.assertFalse(self.trace.exists())
        self.assert_nothing_left()

    def test_not_executable(self):
        plain = self.dir / "plain"
        plain.write_text("text")
        result = record(self.dir, plain)
        self.assertEqual(result.returncode, 126, result.stderr)
        result = record(self.dir, self.dir)
        self.assertEqual(result.returncode, 126, result.stderr)

    def test_output_is_not_overwritten(self):
        self.trace.write_text("precious")
        result = record(self.dir, self.program, "exit", 0)
        self.assertEqual(result.returncode, 4, result.stderr)
        self.assertEqual(self.trace.read_text(), "precious")

    def test_default_name(self):
        result = run("run", "--no-debuginfod", "--", self.program, "exit", 0, cwd=self.dir)
        self.assertEqual(result.returncode, 0, result.stderr)
        names = [n for n in os.listdir(self.dir) if n.endswith(".tracy")]
        self.assertEqual(len(names), 1)
        self.assertRegex(names[0], r"^program\.\d+\.tracy$")


class Signals(RunCase):
    def start(self, *options, what="wait", says="ready\n"):
        """A program that waits, with its recorder, in a process group of their own."""
        process = subprocess.Popen([TIDEMARK, "run", "-o", str(self.trace), "--no-debuginfod",
                                    *options, "--", str(self.program), what,
                                    str(self.dir / "go"), "100"],
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                   start_new_session=True)
        self.addCleanup(self.end, process)
        self.assertEqual(process.stdout.readline(), says)
        return process

    @staticmethod
    def end(process):
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        process.communicate()

    def child_of(self, process):
        children = pathlib.Path(f"/proc/{process.pid}/task")
        for task in children.iterdir():
            for pid in (task / "children").read_text().split():
                if "program" in pathlib.Path(f"/proc/{pid}/comm").read_text():
                    return int(pid)
        raise AssertionError("it has no child")

    def test_sigterm_goes_to_the_program(self):
        process = self.start()
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=LIMIT)
        self.assertEqual(process.returncode, 128 + signal.SIGTERM, errors)
        self.assertEqual(site(self.trace, "make_block")["count"], 500)

    def test_sigint_of_the_group(self):
        process = self.start()
        os.killpg(process.pid, signal.SIGINT)
        _, errors = process.communicate(timeout=LIMIT)
        self.assertEqual(process.returncode, 128 + signal.SIGINT, errors)
        self.assertEqual(site(self.trace, "make_block")["count"], 500)

    def test_a_child_goes_on_until_somebody_asks(self):
        process = self.start("--follow-fork", "--min-lifetime", "0", what="leave", says="left\n")
        # Its words that a child goes on.
        self.assertIn("1 of its children goes on", process.stderr.readline())
        process.send_signal(signal.SIGINT)
        # Not to the end of its words: the child has the same standard error.
        self.assertEqual(process.wait(LIMIT), 0)
        child = [p for p in self.dir.glob("out.*.tracy")]
        self.assertEqual(len(child), 1)
        self.assertEqual(site(child[0], "make_block")["count"], 200)
        (self.dir / "go").touch()

    def test_children_that_go_on_are_counted(self):
        script = 'for i in 1 2; do { echo; while [ ! -e "$1" ]; do sleep 0.02; done; } & done'
        process = subprocess.Popen([TIDEMARK, "run", "-o", str(self.trace), "--follow-fork",
                                    "--no-debuginfod", "--", "bash", "-c",
                                    f"coproc {{ {script}; wait; }}; read -u ${{COPROC[0]}}; "
                                    "read -u ${COPROC[0]}", "bash", str(self.dir / "go")],
                                   stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True,
                                   start_new_session=True)
        self.addCleanup(self.end, process)
        # A loaded machine may count several of the short ones.
        self.assertRegex(process.stderr.readline(), "([2-9]|[1-9][0-9]+) of its children go on")
        (self.dir / "go").touch()
        process.communicate(timeout=LIMIT)
        self.assertEqual(process.returncode, 0)

    def test_the_collector_is_killed(self):
        process = self.start()
        pid = self.child_of(process)
        process.kill()
        process.wait()
        (self.dir / "go").touch()
        # The program's own work is done, to its end.
        self.assertEqual(process.stdout.readline(), "600 100\n")
        wait_until(lambda: is_gone(pid))
        left = list(self.dir.glob("tidemark-run.*/*.recording"))
        self.assertEqual(len(left), 1)
        result = run("recover", left[0], "-o", self.trace)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertFalse(left[0].exists())
        row = site(self.trace, "make_block")
        self.assertEqual((row["count"], row["live_count"]), (600, 500))

    def test_who_reads_along_need_not_wait_for_barriers(self):
        libc = ctypes.CDLL(None, use_errno=True)
        if os.uname().machine != "x86_64" or libc.syscall(MEMBARRIER, 0, 0, 0) & 4 == 0:
            self.skipTest("the kernel has none that are quick")
        result = record(self.dir, self.program, "exit", 0, options=["--keep-recording"])
        self.assertEqual(result.returncode, 0, result.stderr)
        kept, = self.dir.glob("tidemark-run.*/*.recording")
        self.assertEqual(kept.read_bytes()[EXPEDITED:EXPEDITED + 4], b"\1\0\0\0")

    def test_the_recording_can_be_kept(self):
        result = record(self.dir, self.program, "exit", 0, options=["--keep-recording"])
        self.assertEqual(result.returncode, 0, result.stderr)
        kept = list(self.dir.glob("tidemark-run.*/*.recording"))
        self.assertEqual(len(kept), 1)
        again = self.dir / "again.tracy"
        result = run("run", "--recover", kept[0], "-o", again, "--report", "none",
                     "--no-debuginfod")
        self.assertEqual(result.returncode, 0, result.stderr)
        for trace in (again, self.trace):
            row = site(trace, "make_block")
            self.assertEqual((row["count"], row["live_bytes"]), (1, 1000))


    def test_recordings_that_are_kept_are_finished_by_what_is_said(self):
        """A trace that cannot be written leaves recordings; the message is the command."""
        blocked = self.dir / "blocked"
        blocked.mkdir()
        process = self.start("-o", str(blocked / "out.tracy"), "--spool", str(self.dir))
        remove_folder(blocked)
        blocked.touch()
        (self.dir / "go").touch()
        _, errors = process.communicate(timeout=LIMIT)
        command = re.search(r"the recordings are kept; `tidemark (run --recover (.*))` finishes",
                            errors)
        self.assertIsNotNone(command, errors)
        for options in ([], ["-f", "-o", self.dir / "named.tracy"]):
            result = run(*command[1].split(" "), "--report", "none", "--no-debuginfod", *options)
            self.assertEqual(result.returncode, 0, result.stderr)
        traces = [*pathlib.Path(command[2]).glob("*.tracy"), self.dir / "named.tracy"]
        self.assertEqual(len(traces), 2)
        for trace in traces:
            self.assertEqual(site(trace, "make_block")["count"], 600)
        result = run("run", "--recover", self.dir)
        self.assertEqual(result.returncode, 3, result.stderr)
        self.assertIn("no recording is in this folder", result.stderr)

    def gone(self, tmpdir, **env):
        """The folder of the trace, and so that of the recordings, is removed while it runs."""
        folder = self.dir / "gone"
        folder.mkdir()
        with mock.patch.dict(os.environ, env, TMPDIR=str(tmpdir)):
            process = self.start("-o", str(folder / "x.tracy"))
        remove_folder(folder)
        (self.dir / "go").touch()
        _, errors = process.communicate(timeout=LIMIT)
        self.assertEqual(process.returncode, 4, errors)
        self.assertNotIn("recordings are kept", errors)
        self.assertFalse(folder.exists())
        return errors

    def test_the_folder_is_removed(self):
        saved = self.dir / "x.tracy"
        self.assertIn(f"the folder was removed: the trace is {saved}\n", self.gone(self.dir))
        self.assertEqual(site(saved, "make_block")["count"], 600)
        self.assertEqual(saved.stat().st_mode & 0o777, 0o600)

    @not_sanitized
    def test_the_folder_is_removed_at_once(self):
        """The recorder is held where it has just begun the program."""
        env = environment(FAULT_AT=3, FAULT_ONLY="unlink", FAULT_HOLD=self.dir / "go")
        self.assertIn("the folder was removed: the trace is ", self.gone(self.dir, **env))
        self.assertEqual(site(self.dir / "x.tracy", "make_block")["count"], 600)

    def test_the_folder_is_removed_and_there_is_no_other(self):
        errors = self.gone(self.dir / "nowhere")
        self.assertRegex(errors, "the recordings are lost: their folder .*/gone/.* was removed")

    def test_recording_stops_after_a_while(self):
        process = self.start("--seconds", "0.5")

        def is_told():
            return any(p.read_bytes()[CONTROL] for p in self.dir.glob("tidemark-run.*/*.recording"))

        wait_until(is_told)
        (self.dir / "go").touch()
        _, errors = process.communicate(timeout=LIMIT)
        self.assertEqual(process.returncode, 0, errors)
        rows = [s for s in report(self.trace)["sites"] if s["function"] == "make_block"]
        self.assertLessEqual(sum(row["count"] for row in rows), 500)
        self.assert_sound()


class Children(RunCase):
    def test_are_not_recorded_unless_wanted(self):
        result = record(self.dir, self.program, "children", 20)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(sorted(p.name for p in self.dir.glob("*.tracy")), ["out.tracy"])

    def test_a_thousand_short_ones_share_a_trace(self):
        result = record(self.dir, self.program, "children", 1000,
                        options=["--follow-fork", "--min-lifetime", 60])
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(result.stdout.split(), ["0", "0"])
        folded = self.dir / "out.children.tracy"
        self.assertEqual(site(folded, "make_block")["count"], 2000)
        self.assert_nothing_left()

    def test_what_short_ones_leave_is_not_called_freed(self):
        """They share a trace in which their blocks end with them: the reports say so."""
        result = record(self.dir, self.program, "children", 20,
                        options=["--follow-fork", "--min-lifetime", 60])
        self.assertRegex(result.stderr, r"(?m)^ *-  20 short processes +100 B +1000 B +80 +/")
        folded = self.dir / "out.children.tracy"
        left = "freed by the end of a process only"
        self.assertIn(f"; 20 blocks (1000 B) {left}", run("report", folded).stdout)
        self.assertIn(f"{left}: 20 blocks (1000 B)", run("report", folded, "--leaks").stdout)
        totals = json.loads(run("report", folded, "--leaks", "--format", "json").stdout)["totals"]
        self.assertEqual(totals["left_by_ended_processes"], {"count": 20, "bytes": 1000})

    def test_budgets_of_leaks_look_at_short_ones(self):
        leaks = ["-f", "--follow-fork", "--fail-if", 'leaked(site="make_block")>0']
        result = record(self.dir, self.program, "children", 3, options=leaks)
        self.assertEqual(result.returncode, 1, result.stderr)
        self.assertEqual(result.stderr.count("tidemark: fail-if leaked"), 3, result.stderr)
        result = record(self.dir, self.program, "children", 3,
                        options=[*leaks, "--min-lifetime", 60])
        self.assertEqual(result.returncode, 2, result.stderr)
        self.assertIn("leave out --min-lifetime", result.stderr)
        result = record(self.dir, self.program, "children", 3,
                        options=[*leaks, "--min-lifetime", 60, "--this-process"])
        self.assertEqual(result.returncode, 0, result.stderr)

    def test_each_has_a_trace_when_it_lives_long_enough(self):
        result = record(self.dir, self.program, "children", 3,
                        options=["--follow-fork", "--min-lifetime", 0])
        self.assertEqual(result.returncode, 0, result.stderr)
        traces = [p for p in self.dir.glob("out.*.tracy")]
        self.assertEqual(len(traces), 3, traces)
        for trace in traces:
            row = site(trace, "make_block")
            self.assertEqual((row["count"], row["live_count"]), (2, 1))

    def static(self):
        return compiled(self.dir, "static", ["-static"])

    def test_what_ran_unrecorded_is_named(self):
        """The wrappers that people use: fork and exec, vfork and exec, posix_spawn by a shell."""
        slow = self.dir / "slow"
        slow.symlink_to(shutil.which("sleep"))
        for command, name in ((["timeout", "60", slow, "1"], os.path.realpath(slow)),
                              (["sh", "-c", f"{self.program} exit 0; true"], str(self.program)),
                              ([self.program, "shell"], "/bin/sh")):
            with self.subTest(command=command):
                result = record(self.dir, *command, options=["-f", "--fail-if", "peak>1G"])
                said = [s for s in result.stderr.splitlines() if "not recorded: " in s]
                self.assertEqual(len(said), 1, result.stderr)
                self.assertRegex(said[0], r"^tidemark: not recorded: [12] child process(es)?: .*; "
                                          r"--follow-fork records them$")
                self.assertIn(name, said[0])
                self.assertEqual(result.returncode, 1, result.stderr)
                self.assertIn("--fail-if covers less than the process tree", result.stderr)
                self.assertIn("--this-process", result.stderr)
                result = record(self.dir, *command,
                                options=["-f", "--fail-if", "peak>1G", "--this-process"])
                self.assertEqual(result.returncode, 0, result.stderr)
                self.assertNotIn("covers less", result.stderr)
                result = record(self.dir, *command,
                                options=["-f", "--fail-if", "peak>1G", "--follow-fork"])
                self.assertEqual(result.returncode, 0, result.stderr)
                self.assertNotIn("not recorded", result.stderr)

    def test_children_that_no_hook_of_fork_sees(self):
        """The C library's own calls of fork, and the kernel's."""
        for how in ("daemon", "forkpty", "clone"):
            with self.subTest(how=how):
                command = [self.program, "other-children", how]
                result = record(self.dir, *command, options=["-f", "--fail-if", "peak>1G"])
                self.assertEqual(result.returncode, 1, result.stderr)
                self.assertIn("not recorded: 1 child process", result.stderr)
                self.assertIn("--fail-if covers less than the process tree", result.stderr)
                budget = ["-f", "--follow-fork", "--fail-if", "count>=300"]
                result = record(self.dir, *command, options=budget)
                self.assertEqual(result.returncode, 1, result.stderr)
                self.assertIn("count is 300", result.stderr)
                self.assertNotIn("not recorded", result.stderr)

    def test_a_budget_of_children(self):
        """Each process by itself, unless it is for the program's own."""
        command = ["sh", "-c", f"{self.program} exit 0; true"]
        budget = ["-f", "--follow-fork", "--fail-if", 'count(site=~"make_block")>0']
        result = record(self.dir, *command, options=budget)
        self.assertEqual(result.returncode, 1, result.stderr)
        self.assertNotIn("covers less", result.stderr)
        result = record(self.dir, *command, options=[*budget, "--this-process"])
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("nothing matches site=~", result.stderr)
        # That nothing matches is said if it is so of all processes.
        budget = ["-f", "--follow-fork", "--fail-if", 'count(site=~"make_block")>1000000',
                  "--fail-if", 'count(site=~"make_blok")>0']
        result = record(self.dir, *command, options=budget)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(re.findall("nothing matches (.*)", result.stderr), ['site=~"make_blok"'])

    def test_a_budget_of_a_parent_that_calls_nothing(self):
        """Its outcome is that of its children; alone, or with --this-process, it has none."""
        source, parent = self.dir / "parent.c", self.dir / "parent"
        source.write_text("#include <sys/wait.h>\n#include <unistd.h>\n"
                          "int main(int n, char **v) { pid_t c = fork(); int s;"
                          " if (c == 0) execv(v[1], v + 1);"
                          " return n < 2 || waitpid(c, &s, 0) != c || s; }\n")
        subprocess.run([CC, "-O1", "-o", parent, source], check=True)
        for budget, options, status, failures in (
                ("peak>1G", [], 0, 0), ('count(site=~"make_block")>0', [], 1, 1),
                ("peak>1G", ["--this-process"], 1, 1)):
            result = record(self.dir, parent, self.program, "exit", 0, options=[
                "-f", "--follow-fork", "--report", "junit", "--fail-if", "live>1G", "--fail-if",
                budget, *options])
            self.assertEqual(result.returncode, status, result.stderr)
            self.assertEqual(result.stdout.count("<failure"), failures + len(options), result.stdout)
            self.assertEqual("unknown" in result.stderr, bool(options), result.stderr)

    def test_programs_without_the_library_are_named(self):
        static, go = self.static(), self.dir / "go-program"
        note = self.dir / "note"
        note.write_bytes(b"\4\0\0\0\4\0\0\0\4\0\0\0Go\0\0test")
        subprocess.run(["objcopy", "--add-section", f".note.go.buildid={note}", static, go],
                       check=True)
        command = ["sh", "-c", f"{static} exit 0; {static} exit 0; (exec {go} exit 0); "
                               f"{self.program} exit 0; true"]
        for lifetime in (0, 60):
            result = record(self.dir, *command, options=[
                "-f", "--follow-fork", "--fail-if", "peak>1G", "--min-lifetime", lifetime])
            self.assertEqual(result.returncode, 1, result.stderr)
            said = [s for s in result.stderr.splitlines() if "not recorded: " in s]
            self.assertEqual(len(said), 2, result.stderr)
            self.assertIn(f"{static} (2 processes), which is statically linked", said[0])
            self.assertIn(f"{go}, which is a Go program", said[1])
            self.assertIn("3 child processes not recorded", result.stderr)
        # Without it, only the child that it would record is a reason to give it.
        result = record(self.dir, "sh", "-c", f"{static} exit 0; {self.program} exit 0; true",
                        options=["-f", "--fail-if", "peak>1G"])
        said = [s for s in result.stderr.splitlines() if "not recorded: " in s]
        self.assertEqual(len(said), 2, result.stderr)
        self.assertIn(f"{static}, which is statically linked", said[0])
        self.assertEqual(said[1], f"tidemark: not recorded: 1 child process: {self.program}; "
                                  "--follow-fork records them")
        self.assertIn("2 child processes not recorded", result.stderr)

    def test_children_that_ended_before_the_program(self):
        """Whenever their ends are noticed, none goes on."""
        command = ["sh", "-c", f"{self.program} exit 0; {self.program} exit 0; true"]
        for _ in range(8):
            result = record(self.dir, *command, options=["-f", "--follow-fork"])
            self.assertNotIn("of its children go", result.stderr)

    @unittest.skipIf(os.getuid() != 0, "giving a file to another user needs root")
    def test_privileged_children_are_named(self):
        program = compiled(self.dir, "privileged")
        os.chown(program, 65534, 65534)
        program.chmod(0o4755)
        self.dir.chmod(0o755)
        result = record(self.dir, "sh", "-c", f"{program} exit 0; true", options=["--follow-fork"])
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn(f"not recorded: {program}, which is setuid", result.stderr)

    def test_a_program_that_is_replaced_by_a_static_one(self):
        for options in ([], ["--this-process"], ["--follow-fork"]):
            result = record(self.dir, "sh", "-c", f"exec {self.static()} exit 0",
                            options=["-f", "--fail-if", "peak>1G", *options])
            self.assertEqual(result.returncode, 1, result.stderr)
            self.assertIn("the program itself was not recorded to its end", result.stderr)

    def test_reports_of_several_begin_with_a_table(self):
        command = ["sh", "-c", f"{self.program} exit 0; true"]
        for lifetime in (0, 60):
            options = ["-f", "--follow-fork", "--min-lifetime", lifetime]
            result = record(self.dir, *command, options=options)
            lines = result.stderr.split("\n\n")[1].splitlines()
            self.assertEqual(lines[0].split(),
                             ["PID", "Program", "Peak", "Live", "size", "Events", "Trace"])
            self.assertEqual(len(lines), 3, result.stderr)
            self.assertRegex(lines[1], r"^ *[0-9]+  (da)?sh .* out\.tracy$|/out\.tracy$")
            child = r"^ *[0-9]+  program " if lifetime == 0 else r"^ *-  1 short process "
            self.assertRegex(lines[2], child)
            file = self.dir / "report.json"
            record(self.dir, *command,
                   options=[*options, "--report", "json", "--report-file", file])
            first, second = json.loads(file.read_text())["processes"]
            self.assertEqual(first["trace"], str(self.trace))
            self.assertEqual(second["program"], None if lifetime else "program")
            row = site(pathlib.Path(second["trace"]), "make_block")
            self.assertEqual(row["count"], 1)
            told = json.loads(run("report", "--format", "json", second["trace"]).stdout)
            self.assertEqual((second["peak_bytes"], second["live_bytes"]),
                             (told["pools"][0]["peak_bytes"], 1000))

    def test_other_reports_have_the_table_on_standard_error(self):
        command = ["sh", "-c", f"{self.program} exit 0; true"]
        for kind in ("none", "csv"):
            with self.subTest(report=kind):
                result = record(self.dir, *command, options=["-f", "--follow-fork",
                                                             "--min-lifetime", 0, "--report", kind])
                self.assertRegex(result.stderr, r"(?m)^ +PID  Program .* Trace$")
                self.assertRegex(result.stderr, r"(?m)^ *[0-9]+  (da)?sh .*out\.tracy$")
                self.assertRegex(result.stderr, r"(?m)^ *[0-9]+  program .*out\.[0-9]+\.tracy$")
                self.assertNotIn("Program", result.stdout)

    def test_that_get_no_file_are_told_of(self):
        script = "exec 3<&0; for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14; do " \
                 "sh -c 'echo up; read line <&3' & done; wait"
        for files in (29, 30, 31):  # which call it is that finds none left depends on the number
            with self.subTest(files=files):
                process = subprocess.Popen(
                    [TIDEMARK, "run", "-f", "-o", self.trace, "--no-symbols", "--follow-fork", "--",
                     "sh", "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                    stderr=subprocess.PIPE, text=True,
                    preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (files, files)))
                for _ in range(14):
                    self.assertEqual(process.stdout.readline(), "up\n")
                _, stderr = process.communicate(timeout=LIMIT)
                self.assertEqual(process.returncode, 0, stderr)
                self.assertIn("not all children were recorded: there was no file to be had: "
                              "Too many open files", stderr)
        self.assert_nothing_left()

    def test_each_program_of_a_child_has_a_trace(self):
        """Also where traces of earlier runs may be replaced."""
        command = ["bash", "-c", f"bash -c 'exec {self.program} exit 0'; true"]
        result = record(self.dir, *command, options=["--follow-fork", "--min-lifetime", 0, "-f"])
        self.assertEqual(result.returncode, 0, result.stderr)
        names = sorted(p.name.split(".")[2:] for p in self.dir.glob("out.*.tracy"))
        self.assertEqual(names, [["2", "tracy"], ["3", "tracy"], ["tracy"]])

    def of_nothing(self, *command, lifetime=60):
        """Runs what has children that allocate nothing; the words on them."""
        result = record(self.dir, self.program, *command, options=[
            "-f", "--no-symbols", "--follow-fork", "--min-lifetime", lifetime])
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual([p.name for p in self.dir.glob("*.tracy")], ["out.tracy"])
        self.assert_nothing_left()
        return [line for line in result.stderr.splitlines() if "no trace" in line]

    def test_that_recorded_nothing_leave_no_trace(self):
        for lifetime in (0, 60):
            with self.subTest(lifetime=lifetime):
                said, = self.of_nothing("idle-children", 3, lifetime=lifetime)
                self.assertEqual(said, "tidemark: 3 child processes recorded nothing and have no "
                                 f"trace: {os.path.realpath(self.program)} called none of the "
                                 "functions that are watched, to name one")

    def test_that_only_execute_another_program_leave_no_trace(self):
        """As `timeout 5 PROGRAM` has one. What is executed here loads no library."""
        static = compiled(self.dir, "static", ["-static"])
        for lifetime in (0, 60):
            with self.subTest(lifetime=lifetime):
                said = self.of_nothing("idle-children", 2, static, "exit", 0, lifetime=lifetime)
                self.assertEqual(said, [])

    def test_that_only_send_messages_have_a_trace(self):
        result = record(self.dir, self.program, "idle-children", 1, self.program, "note",
                        options=["--no-symbols", "--follow-fork", "--min-lifetime", 60])
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertNotIn("no trace", result.stderr)
        result = run("info", self.dir / "out.children.tracy", "--format", "json")
        self.assertEqual(json.loads(result.stdout)["counts"]["messages"], 1, result.stdout)


class Images(RunCase):
    PROGRAM = """
        #include <dlfcn.h>
        #include <stdlib.h>
        __attribute__((noinline)) void *make_block(void)
        {
            void *p = malloc(100);
            __asm__ volatile("" : "+r"(p));
            return p;
        }
        int main(int count, char **argv)
        {
            make_block();
            void *library = dlopen(argv[1], RTLD_NOW);
            ((void (*)(void))dlsym(library, "work"))();
            return count != 2;
        }
    """
    LIBRARY = """
        #include <stdlib.h>
        __attribute__((noinline)) void *load_block(void)
        {
            void *p = malloc(50);
            __asm__ volatile("" : "+r"(p));
            return p;
        }
        void work(void) { load_block(); }
    """

    def setUp(self):
        super().setUp()
        source = self.dir / "source.c"
        source.write_text(self.LIBRARY)
        self.library = compiled(self.dir, "library.so",
                                ["-shared", "-fPIC", "-Wl,--build-id=none"], source)
        source.write_text(self.PROGRAM)
        self.image = compiled(self.dir, "image", ["-Wl,--build-id=none", "-ldl"], source)

    def test_those_that_ran_prove_themselves_without_build_ids(self):
        result = record(self.dir, self.image, self.library)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertNotIn("no names from", result.stderr)
        for function, line in (("make_block", 6), ("load_block", 5)):
            row = site(self.trace, function)
            self.assertEqual((row["file"].rsplit("/", 1)[1], row["line"]), ("source.c", line))
        # The trace has the proof, for later.
        named = self.dir / "named.tracy"
        result = record(self.dir, self.image, self.library, options=["-f", "--no-symbols"])
        self.assertNotIn("make_block", json.dumps(report(self.trace)))
        self.assertEqual(run("symbols", "--no-debuginfod", self.trace, "-o", named).returncode, 0)
        self.assertEqual(site(named, "make_block")["count"], 1)

    def test_update_adds_their_sources_or_says_why_not(self):
        source, updated = self.dir / "source.c", self.dir / "updated.tracy"
        os.utime(source, (1, 1))
        record(self.dir, self.image, self.library)

        def files():
            result = run("info", updated, "--format", "json")
            return json.loads(result.stdout)["counts"]["source_files"]

        result = run("update", self.trace, updated, "-c")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertNotIn("source file", result.stderr)
        self.assertGreaterEqual(files(), 1)
        had = files()
        os.utime(source)
        result = run("update", self.trace, updated, "-c")
        self.assertIn("1 source file left out: not older than the program or its capture",
                      result.stderr)
        self.assertEqual(files(), had - 1)
        record(self.dir, self.image, self.library, options=["-f", "--no-symbols"])
        result = run("update", self.trace, updated, "-c")
        self.assertIn("no source file was added: the trace names none; `tidemark symbols` finds "
                      "them", result.stderr)

    def test_files_that_were_changed_since_do_not(self):
        record(self.dir, self.image, self.library, options=["--no-symbols"])
        os.utime(self.image)
        self.library.write_bytes(self.library.read_bytes())
        result = run("symbols", "--no-debuginfod", self.trace, "-o", self.dir / "named.tracy")
        for path in (self.image, self.library):
            self.assertIn(f"{path} has no build id and is not, or no longer, the file that "
                          "ran", result.stdout + result.stderr)
        self.assertNotIn("make_block", json.dumps(report(self.dir / "named.tracy")))

    def test_a_file_of_the_same_name_does_not(self):
        other = self.dir / "other.so"
        shutil.copy(self.library, other)
        moved = self.dir / "moved.so"
        shutil.copy(self.library, moved)
        result = record(self.dir, self.image, other, options=["--no-symbols"])
        self.assertEqual(result.returncode, 0, result.stderr)
        os.replace(moved, other)
        result = run("symbols", "--no-debuginfod", self.trace, "-o", self.dir / "named.tracy")
        self.assertIn(f"{other} has no build id", result.stdout + result.stderr)
        self.assertNotIn("load_block", json.dumps(report(self.dir / "named.tracy")))


class Descriptors(RunCase):
    def test_a_program_that_closes_them_all(self):
        result = record(self.dir, self.program, "close", 200000)
        self.assertEqual((result.returncode, result.stdout.split()), (0, ["200001", "200001"]))
        row = site(self.trace, "make_block")
        self.assertEqual((row["count"], row["live_count"]), (200001, 0))
        self.assertNotIn("another program", result.stderr)
        self.assert_sound()
        self.assert_nothing_left()

    def test_threads_beside_one_that_closes_them_all_again_and_again(self):
        result = record(self.dir, self.program, "close-beside", 8, 100000)
        self.assertEqual(result.returncode, 0, result.stderr)
        row = site(self.trace, "make_block")
        self.assertEqual((row["count"], row["live_count"]), (800000, 0), result.stderr)
        self.assertEqual(result.stdout.split(), ["800000", "800000"])
        self.assert_sound()
        self.assert_nothing_left()

    def test_a_daemon_that_closes_them_all(self):
        result = record(self.dir, self.program, "daemon", 200000,
                        options=["--follow-fork", "--min-lifetime", 60])
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(site(self.dir / "out.children.tracy", "make_block")["count"], 200000)
        self.assert_nothing_left()


@unittest.skipUnless(os.uname().machine == "x86_64", "numbers of system calls are x86-64's")
class Forbidden(RunCase):
    def forbid(self, call, *how):
        result = record(self.dir, self.program, "forbid", call, 0, 200000, *how, options=["-f"])
        self.assertEqual((result.returncode, result.stdout.split()),
                         (0, ["200001", "200001"]), result.stderr)
        self.assert_nothing_left()
        return result.stderr

    def test_what_recording_needs(self):
        """As the servers of OpenSSH do in the process that talks to strangers, and libseccomp."""
        for how in [], ["direct"]:
            errors = self.forbid(285, *how)  # fallocate
            self.assertIn("forbade itself system calls", errors)
            self.assertIn("incomplete", errors)

    def test_strict_mode(self):
        """The kernel takes the time stamp counter away, too. The memory event after it is lost."""
        for how in [], ["direct"]:
            result = record(self.dir, self.program, "forbid", -1, 0, 0, *how, options=["-f"])
            self.assertEqual(result.returncode, 7, result.stderr)
            self.assertIn("forbade itself system calls", result.stderr)
            self.assertIn("incomplete", result.stderr)
            self.assertEqual(site(self.trace, "make_block")["count"], 1)

    def test_other_calls_by_number_are_as_ever(self):
        result = record(self.dir, self.program, "by-number")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assert_sound()

    def test_what_recording_does_not_need(self):
        for call in 101, 157:  # ptrace; prctl, which asks for names
            self.assertNotIn("forbade", self.forbid(call))
            self.assertEqual(site(self.trace, "make_block")["count"], 200001)
            self.trace.unlink()


class Refused(RunCase):
    def refused(self, program, word):
        result = record(self.dir, program)
        self.assertEqual(result.returncode, 126, result.stderr)
        self.assertIn(word, result.stderr)
        self.assertFalse(self.trace.exists())

    def test_static(self):
        self.refused(compiled(self.dir, "static", ["-static"]), "statically linked")

    def test_static_runs_when_children_are_wanted(self):
        program = compiled(self.dir, "static", ["-static"])
        result = record(self.dir, program, "exit", 0, options=["--follow-fork"])
        self.assertEqual(result.returncode, 3, result.stderr)
        self.assertIn("nothing was recorded", result.stderr)
        self.assertIn("statically linked", result.stderr)
        result = record(self.dir, program, "exit", 0,
                        options=["--follow-fork", "--report", "json", "--fail-if", "peak>1G"])
        self.assertEqual(result.returncode, 3, result.stderr)
        told = json.loads(result.stdout)
        self.assertEqual((told["schema"], told["sites"]), ("tidemark.report/1", []))
        checks = {check["name"]: check["detail"] for check in told["checks"] if not check["holds"]}
        self.assertIn("statically linked", checks["memory-data"])
        self.assertIn("not recorded", checks["covers-process-tree"])

    @unittest.skipIf(os.getuid() != 0, "giving a file to another user needs root")
    def test_setuid(self):
        program = compiled(self.dir, "privileged")
        os.chown(program, 65534, 65534)
        program.chmod(0o4755)
        self.refused(program, "setuid")

    def test_go(self):
        go = self.dir / "go-program"
        note = self.dir / "note"
        note.write_bytes(b"\4\0\0\0\4\0\0\0\4\0\0\0Go\0\0test")
        subprocess.run(["objcopy", "--add-section", f".note.go.buildid={note}", self.program, go],
                       check=True)
        self.refused(go, "Go")

    def own_allocator(self):
        source = self.dir / "own.c"
        source.write_text("""
            #include <stddef.h>
            #include <string.h>
            static char room[1 << 20];
            static size_t used;
            void *malloc(size_t n)
            {
                used += (n + 31) & ~(size_t)15;
                return memcpy(room + used - ((n + 15) & ~(size_t)15), &n, 0);
            }
            void *calloc(size_t n, size_t size) { return malloc(n * size); }
            void *realloc(void *p, size_t n)
            {
                char *to = malloc(n);
                for (size_t i = 0; p && i < n && (char *)p + i < room + sizeof room; i++)
                    to[i] = ((char *)p)[i];
                return to;
            }
            void free(void *p) { (void)p; }
            void mallctl(void) {}
            int main(void) { return malloc(1) == NULL; }
        """)
        return compiled(self.dir, "own", ["-rdynamic", "-fno-builtin"], source)

    def test_an_allocator_of_its_own(self):
        self.refused(self.own_allocator(), "jemalloc")

    def test_children_with_an_allocator_of_their_own(self):
        """Which are not refused, and of which it is said, though others have no trace either."""
        command = ["/bin/sh", "-c", '"$1" idle-children 2; "$0"; "$1" idle-children 2; true',
                   self.own_allocator(), self.program]
        for lifetime in (0, 60):
            result = record(self.dir, *command, options=["-f", "--follow-fork",
                                                         "--min-lifetime", lifetime])
            self.assertEqual(result.returncode, 0, result.stderr)
            said = [line for line in result.stderr.splitlines() if "no trace" in line]
            if lifetime:  # they share one with those that recorded something
                self.assertEqual(said, [])
                continue
            self.assertEqual(len(said), 1, result.stderr)
            self.assertIn("5 child processes recorded nothing", said[0])
            self.assertIn("has an allocator linked in", said[0])

    def test_address_sanitizer(self):
        """Its library ends the program when another one is loaded before it."""
        library = self.dir / "libasan.so.8"  # by name; the compiler's may not be installed
        subprocess.run([CC, "-shared", "-x", "c", "-o", library, f"-Wl,-soname,{library.name}",
                        os.devnull], check=True)
        program = compiled(self.dir, "asan", ["-Wl,--no-as-needed", f"-Wl,-rpath,{self.dir}",
                                              str(library)])
        self.refused(program, "AddressSanitizer")
        result = record(self.dir, program, "exit", 0, options=["--follow-fork"])
        self.assertEqual((result.returncode, result.stdout), (126, ""))
        self.assertNotIn("--follow-fork", result.stderr)
        for options, status in (("verify_asan_link_order=1", 126),
                                ("verify_asan_link_order=0:verify_asan_link_order=1", 126),
                                ("detect_leaks=0:verify_asan_link_order=0", 0)):
            with self.subTest(options):
                result = record(self.dir, program, "exit", 0,
                                env={**os.environ, "ASAN_OPTIONS": options})
                self.assertEqual(result.returncode, status, result.stderr)
        self.assertEqual(site(self.trace, "make_block")["count"], 1)

    def test_another_c_library(self):
        """Whose dynamic linker cannot load libraries of the GNU one, and ends the program."""
        musl = self.dir / "musl"
        linker = b"/lib/ld-musl-x86_64.so.1"
        musl.write_bytes(re.sub(rb"/lib(64)?/ld-linux-[\w.-]+\0",
                                lambda m: linker.ljust(len(m[0]), b"\0"),
                                self.program.read_bytes()))
        musl.chmod(0o755)
        self.refused(musl, "musl")
        result = record(self.dir, musl, "exit", 0, options=["--follow-fork"])
        self.assertEqual(result.returncode, 126, result.stderr)
        self.assertIn("musl", result.stderr)
        self.assertNotIn("--follow-fork", result.stderr)

    def test_another_processor(self):
        other = self.dir / "other"
        head = bytearray(self.program.read_bytes())
        head[18] = 0xF3 if head[18] != 0xF3 else 0x3E  # e_machine
        other.write_bytes(head)
        other.chmod(0o755)
        self.refused(other, "another processor")

    def test_scripts_are_their_interpreters(self):
        script = self.dir / "script"
        script.write_text(f"#!{self.program} exit\n")
        script.chmod(0o755)
        result = record(self.dir, script)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(site(self.trace, "make_block")["count"], 1)
        self.trace.unlink()
        script.write_text(f"#!{compiled(self.dir, 'static', ['-static'])} exit\n")
        self.refused(script, "statically linked")

    def test_a_script_that_names_no_interpreter(self):
        """A shell reads it, as shells and env(1) do."""
        script = self.dir / "script"
        script.write_text(f"exec {self.program} exit $1\n")
        script.chmod(0o755)
        result = record(self.dir, script, 0)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(site(self.trace, "make_block")["count"], 1)

    def test_what_a_wrapper_executes(self):
        static = compiled(self.dir, "static", ["-static"])
        for program, word in ((self.own_allocator(), "jemalloc"), (static, "static")):
            result = record(self.dir, "sh", "-c", f"exec {program}", options=["-f"])
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertIn("executed another program", result.stderr)
            self.assertIn(word, result.stderr)
        result = record(self.dir, "sh", "-c", f"exec {self.program} exit 0", options=["-f"])
        self.assertEqual(site(self.trace, "make_block")["count"], 1)
        self.assertNotIn("executed another", result.stderr)


class Limits(RunCase):
    def test_files_that_may_not_grow(self):
        for blocks in 0, 20:
            script = f"ulimit -f {blocks}; exec {self.program} exit 3"
            result = record(self.dir, "sh", "-c", script, options=["-f"])
            self.assertEqual(result.returncode, 3, result.stderr)
            self.assertIn("a limit on the size of files", result.stderr)
            self.assert_nothing_left()

    def test_recording_stops_when_it_is_full(self):
        result = record(self.dir, self.program, "threads", 1, 5000000,
                        options=["--buffer", "16M", "--when-full", "stop"])
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(result.stdout.split(), ["5000000", "5000000"])
        row = site(self.trace, "make_block")
        self.assertLess(row["count"], 5000000)
        self.assertGreater(row["count"], 1000)
        self.assertFalse(report(self.trace)["trace"]["complete"])
        self.assertIn("the recording reached its limit of 16.0 MiB",
                      run("info", self.trace).stdout)

    def test_the_program_waits_for_space(self):
        result = record(self.dir, self.program, "threads", 2, 3000000,
                        options=["--buffer", "16M", "--report", "none"])
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(site(self.trace, "make_block")["count"], 6000000)
        self.assert_sound()

    def test_idle_threads_hold_no_space(self):
        result = record(self.dir, self.program, "idle", 100, 30000, 300000,
                        options=["--buffer", "16M", "--report", "none"])
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(site(self.trace, "make_block")["count"], 3300000)
        self.assert_sound()

    def test_small_blocks_are_left_out(self):
        result = record(self.dir, self.program, "exit", 0, options=["--min-size", 1000])
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(site(self.trace, "make_block")["count"], 1)
        result = record(self.dir, self.program, "exit", 0,
                        options=["-f", "--min-size", "1M", "--report", "none"])
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("--min-size", result.stderr)

    def test_full_disk(self):
        result = self.record_on_disk_of("2m", 1000000)
        self.assertIn("there was no room for more", result.stderr)

    def test_half_of_the_disk(self):
        result = self.record_on_disk_of("40m", 5000000)
        self.assertRegex(result.stderr, "the recording reached its limit of (19|20)\\.")

    def test_the_limit_is_printed_at_the_start(self):
        terminal, ours = pty.openpty()
        command = [TIDEMARK, "run", "-o", str(self.trace), "--report", "none", "--no-debuginfod"]
        subprocess.run([*command, "--", str(self.program), "exit", "0"], stderr=ours, timeout=LIMIT)
        os.close(ours)
        text = os.read(terminal, 4096).decode()
        os.close(terminal)
        self.assertRegex(text, r"^tidemark: a recording takes at most .* of the .* that are free")

    def record_on_disk_of(self, size, blocks):
        if not shutil.which("unshare"):
            self.skipTest("needs unshare")
        small = self.dir / "small"
        small.mkdir()
        script = f'mount -t tmpfs -o size={size} none "$1" && shift && exec "$@"'
        command = ["unshare", "-rm", "sh", "-c", script, "sh", str(small)]
        if subprocess.run([*command, "true"], stderr=subprocess.DEVNULL).returncode != 0:
            self.skipTest("no mounts here")
        result = subprocess.run([*command, TIDEMARK, "run", "-o", str(self.trace),
                                 "--no-debuginfod", "--spool", str(small), "--",
                                 str(self.program), "threads", "1", str(blocks)],
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                timeout=LIMIT)
        self.assertEqual(result.stdout.split(), [str(blocks)] * 2, result.stderr)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("incomplete", result.stderr)
        return result


if __name__ == "__main__":
    unittest.main()
