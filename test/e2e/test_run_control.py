"""`tidemark run`: what is left out by wish, and what is said about it."""

import json
import os
import signal
import struct
import subprocess
import unittest

from test_run import CONTROL, RunCase, record, site, wait_until
from tools import LIMIT, TIDEMARK, run

RELEASED = CONTROL - 4
TAKEN = 1280 + 4


def facts(trace):
    """The facts about a recording, each with all that it says."""
    result = run("info", trace, "--format", "json")
    if result.returncode != 0:
        raise AssertionError(result.stderr)
    found = {}
    for fact in json.loads(result.stdout)["facts"]:
        found.setdefault(fact["key"], []).append(fact["value"])
    return found


class ControlCase(RunCase):
    def start(self, *options, rounds=1000):
        """The program of three bouts, with its recorder."""
        self.first, self.second = self.dir / "first", self.dir / "second"
        process = subprocess.Popen(
            [TIDEMARK, "run", "-o", str(self.trace), "--no-debuginfod", *map(str, options), "--",
             str(self.program), "bouts", str(self.first), str(self.second), str(rounds)],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True)
        self.addCleanup(self.end, process)
        self.assertEqual(process.stdout.readline(), "ready\n")
        return process

    @staticmethod
    def end(process):
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        process.communicate()

    def word(self, at):
        """A number of the recording's header."""
        path, = self.dir.glob("tidemark-run.*/*.recording")
        with open(path, "rb") as file:
            file.seek(at)
            return struct.unpack("<I", file.read(4))[0]

    def finish(self, process, code=0):
        """Its last words; (made, freed) by the program's own count."""
        out, errors = process.communicate(timeout=LIMIT)
        self.assertEqual(process.returncode, code, errors)
        made, freed = map(int, out.split()[-2:])
        return made, freed, errors


class Dropping(ControlCase):
    def test_a_stalled_recorder_costs_allocations_only(self):
        rounds = 3000000
        process = self.start("--buffer", "16M", "--when-full", "drop", "--report", "json",
                             "--report-file", self.dir / "report.json", rounds=rounds)
        process.send_signal(signal.SIGSTOP)
        self.first.touch()
        # The program does not wait for it.
        self.assertEqual(process.stdout.readline(), "worked\n")
        process.send_signal(signal.SIGCONT)
        wait_until(lambda: self.word(TAKEN) - self.word(RELEASED) < 512)  # half of the limit
        self.second.touch()
        made, freed, _ = self.finish(process)
        self.assertEqual(made, rounds + 500)
        told = facts(self.trace)
        dropped, bytes_dropped = (int(told[f"dropped_{what}"][0])
                                  for what in ("allocations", "bytes"))
        self.assertGreater(dropped, 1000)
        self.assertEqual(told["dropped"], [f"0x0|{dropped}|{bytes_dropped}"])
        row = site(self.trace, "make_block")
        self.assertEqual(row["count"] + dropped, made)
        self.assertEqual(row["bytes"] + bytes_dropped,
                         500 * 100 + sum(20 + i % 100 for i in range(rounds)))
        # All blocks of the recording that are live were not freed. Half of all were.
        self.assertLessEqual(row["live_count"], made - freed)
        self.assertNotIn("lost_frees", told)
        # It went on when there was room again.
        self.assertEqual(site(self.trace, "late_block")["count"], 300)
        document = json.loads((self.dir / "report.json").read_text())
        self.assertIn("dropped, since the buffer was full", run("report", self.trace).stdout)
        checks = {check["name"]: check["holds"] for check in document["checks"]}
        self.assertIs(checks["nothing-lost"], False)
        for fault in ("fault", "unknown_frees", "double_allocations"):
            self.assertNotIn(fault, told)

    def test_nothing_is_dropped_while_there_is_room(self):
        process = self.start("--buffer", "64M", "--when-full", "drop", "--report", "none")
        self.first.touch()
        self.second.touch()
        made, freed, _ = self.finish(process)
        row = site(self.trace, "make_block")
        self.assertEqual((row["count"], row["live_count"]), (made, made - freed))
        self.assertNotIn("dropped_allocations", facts(self.trace))


class Shells(ControlCase):
    def test_are_counted(self):
        result = record(self.dir, self.program, "shell")
        self.assertEqual((result.returncode, result.stdout), (0, "1 1\n"), result.stderr)
        self.assertEqual(facts(self.trace)["children"], ["2"])

    def test_are_followed(self):
        result = record(self.dir, self.program, "shell",
                        options=["--follow-fork", "--min-lifetime", 60])
        self.assertEqual((result.returncode, result.stdout), (0, "1 1\n"), result.stderr)
        self.assertNotIn("children", facts(self.trace))
        self.assertEqual(facts(self.dir / "out.children.tracy")["processes"], ["2"])


class Surroundings(ControlCase):
    """The program's result is its own, whatever it is left with."""

    def limited(self, limit, *command):
        result = record(self.dir, "sh", "-c", f'ulimit {limit} && exec "$@"', "sh", self.program,
                        *command, options=["-f", "--report", "none"])
        self.assertEqual(result.returncode, 0, result.stderr)
        return result.stdout.split(), result.stderr

    def test_little_address_space(self):
        for room in (30000, 60000, 200000):
            out, errors = self.limited(f"-v {room}", "threads", 1, 20000)
            self.assertEqual(out, ["20000", "20000"], errors)

    def test_little_memory(self):
        """A shell that sets the limit has no private memory left to tell the program of us."""
        for room in (1024, 2000, 8000):
            out, errors = self.limited(f"-d {room}", "threads", 0)
            self.assertEqual(out, ["0", "0"], errors)
            self.assertNotIn("another program", errors)
            self.assertNotIn("nothing was recorded", errors)
        # With the library it would not even start.
        out, errors = self.limited("-d 500", "threads", 0)
        self.assertEqual(out, ["0", "0"], errors)
        self.assertIn("it executed another program, which never loaded libtidemark.so: a limit on "
                      "its memory (RLIMIT_DATA, RLIMIT_AS) leaves no room for recording", errors)

    def test_no_memory(self):
        result = record(self.dir, self.program, "limit")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("nothing was recorded: the program had 1 failed allocation: a "
                      "limit on its memory (RLIMIT_DATA, RLIMIT_AS), perhaps", result.stderr)
        self.assertEqual(facts(self.trace)["failed_allocations"], ["1"])
        result = record(self.dir, self.program, "idle-children", 1, self.program, "limit",
                        options=["-f", "--follow-fork"])
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("no trace: " + os.path.realpath(self.program) + " had 1 failed allocation",
                      result.stderr)

    def test_few_descriptors(self):
        for most in (4, 10, 40):
            out, errors = self.limited(f"-n {most}", "threads", 2, 5000)
            self.assertEqual(out, ["10000", "10000"], errors)

    def test_small_files(self):
        out, errors = self.limited("-f 1000", "threads", 2, 50000)
        self.assertEqual(out, ["100000", "100000"], errors)
        self.assertIn("incomplete", run("info", self.trace).stdout)

    def test_a_library_that_is_not_loaded(self):
        library = self.dir / "libtidemark.so"
        library.write_text("no library")
        result = record(self.dir, self.program, "exit", 0, options=["--library", library])
        self.assertEqual(result.returncode, 3, result.stderr)
        self.assertIn("LD_PRELOAD was lost", result.stderr)
        result = record(self.dir, self.program, "exit", 7, options=["--library", library])
        self.assertEqual(result.returncode, 7, result.stderr)

    def test_the_page_is_shown(self):
        tools, shown = self.dir / "tools", self.dir / "shown"
        tools.mkdir()
        browser = tools / "xdg-open"
        browser.write_text(f'#!/bin/sh\nprintf "%s\\n" "$@" >"{shown}"\n')
        browser.chmod(0o755)
        env = dict(os.environ, PATH=f"{tools}:{os.environ['PATH']}")
        result = record(self.dir, self.program, "exit", 0, options=["--open"], env=env)
        if "built without the page" in result.stderr:
            self.skipTest("there is no page in this build")
        self.assertEqual(result.returncode, 0, result.stderr)
        page = self.dir / "out.html"
        self.assertEqual(shown.read_text(), f"{page}\n")
        self.assertIn("make_block", page.read_text(errors="replace"))


class Threads(ControlCase):
    def counted(self, threads, count):
        result = record(self.dir, self.program, "named", 4, 20000,
                        options=["--threads", threads])
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(result.stdout.split(), ["160001", "160001"])
        row = site(self.trace, "make_block")
        self.assertEqual((row["count"], row["live_count"]), (count, 0))
        self.assertIn("some threads only: " + threads, result.stderr)
        told = facts(self.trace)
        self.assertEqual(told["threads"], [threads])
        self.assertGreaterEqual(int(told["other_threads"][0]), 160001 - count)
        for fault in ("fault", "unknown_frees", "double_allocations"):
            self.assertNotIn(fault, told)

    def test_names(self):
        self.counted("worker-*", 80000)

    def test_one_name(self):
        self.counted("worker-2", 20000)

    def test_several_names(self):
        self.counted("worker-?,!*-0,main", 60001)

    def test_all_but_some(self):
        self.counted("!*er-*", 1)

    def test_an_empty_list_is_refused(self):
        result = run("run", "--threads", "", "--", self.program)
        self.assertEqual(result.returncode, 2, result.stderr)


class Pausing(ControlCase):
    def toggle(self, process, paused):
        process.send_signal(signal.SIGUSR2)
        wait_until(lambda: self.word(CONTROL) == paused)

    def messages(self):
        result = run("export", self.trace, "--format", "ndjson", "--table", "messages")
        self.assertEqual(result.returncode, 0, result.stderr)
        return [line for line in result.stdout.splitlines() if "tidemark:" in line]

    def test_by_signal(self):
        rounds = 20000
        process = self.start("--start-paused", "--toggle", "USR2", rounds=rounds)
        self.assertEqual(self.word(CONTROL), 1)
        self.toggle(process, 0)
        self.first.touch()
        self.assertEqual(process.stdout.readline(), "worked\n")
        self.toggle(process, 1)
        self.second.touch()
        # The program knows nothing of the signal, which would have ended it.
        made, freed, errors = self.finish(process)
        row = site(self.trace, "make_block")
        # 500 came before; frees of the others were recorded while it was paused.
        self.assertEqual(row["count"], rounds)
        self.assertEqual(row["live_count"], made - freed)
        self.assertNotIn("late_block", errors)
        told = facts(self.trace)
        self.assertEqual(told["paused"], ["2"])
        self.assertGreaterEqual(int(told["paused_allocations"][0]), 800)
        self.assertGreaterEqual(int(told["paused_bytes"][0]), 500 * 100 + 300 * 30)
        for fault in ("fault", "unknown_frees", "double_allocations"):
            self.assertNotIn(fault, told)
        self.assertIn("left out while the recording was paused", errors)

    def test_says_where(self):
        process = self.start("--toggle", "SIGUSR2")
        self.toggle(process, 1)
        self.first.touch()
        self.assertEqual(process.stdout.readline(), "worked\n")
        self.toggle(process, 0)
        self.second.touch()
        made, freed, _ = self.finish(process)
        self.assertEqual(site(self.trace, "make_block")["count"], 500)
        self.assertEqual(site(self.trace, "late_block")["count"], 300)
        said = self.messages()
        self.assertEqual(len(said), 2, said)
        self.assertIn("not recorded", said[0])
        self.assertIn("recorded again", said[1])

    def test_paused_to_the_end(self):
        process = self.start("--start-paused")
        self.first.touch()
        self.second.touch()
        _, _, errors = self.finish(process)
        self.assertIn("nothing was recorded: the recording was paused", errors)

    def test_other_signals_are_refused(self):
        result = run("run", "--toggle", "KILL", "--", self.program)
        self.assertEqual(result.returncode, 2, result.stderr)
        self.assertIn("USR1 or USR2", result.stderr)


if __name__ == "__main__":
    unittest.main()
