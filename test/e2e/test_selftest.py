"""`tidemark selftest`: right where all is right, 1 where a count is not, and honest about what the
machine lacks. It leaves nothing behind."""

import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import unittest

from tools import BUILD, LIMIT, TIDEMARK, Case, free_port, run, wait_until

ALTERED = str(BUILD / "test" / "altered.so")
HEAP, BLOCK = 0x7F0000000000, 4096  # where the client's blocks lie
NOBODY = 65534


def rows(text):
    """(verdict, what, detail) of each line but the last."""
    return [re.match(r"(\w+)\s+(.{18}) (.*)", line).groups() for line in text.splitlines()[:-1]]


def verdicts(text):
    return {what.strip(): verdict for verdict, what, _ in rows(text)}


class Selftest(Case):
    def selftest(self, *args, status=0, **environment):
        environment = {**os.environ, "TMPDIR": str(self.dir), **environment}
        environment.setdefault("ASAN_OPTIONS", "verify_asan_link_order=0")
        # The default is for machines that do nothing else.
        time_limit = () if "--timeout" in args else ("--timeout", 300)
        result = run("selftest", *args, *time_limit, env=environment)
        self.assertEqual(result.returncode, status, result.stdout + result.stderr)
        return result

    def test_all_as_played(self):
        """The checks are those of the man page, with counts in them, and the folder is gone."""
        text = self.selftest().stdout
        checks = [row for row in rows(text) if row[0] in ("ok", "DIFFERS")]
        self.assertEqual({verdict for verdict, _, _ in checks}, {"ok"})
        self.assertEqual([what.strip() for _, what, _ in checks],
                         ["capture", "info", "report", "report", "report"] +
                         ["report --recount"] * 3 + ["strip", "verify"])
        self.assertIn("4,000 allocations, 2 threads, 1,000 zones", checks[1][2])
        self.assertIn("0 allocations, 2 threads, 1,000 zones", checks[8][2])
        self.assertRegex(text.splitlines()[-1], r"^10 checks, all as the client sent it, ")
        self.assert_clean()

    def test_protocols(self):
        for protocol in (63, 69, 76, 81):
            with self.subTest(protocol=protocol):
                self.assertIn(f"protocol {protocol} at", self.selftest("--protocol", protocol).stdout)

    def test_an_allocation_at_another_address(self):
        """A capture that misreads one address: its free is a fault, its block is live."""
        text = self.selftest(status=1, LD_PRELOAD=ALTERED, ALTER_FROM=f"{HEAP + 5 * BLOCK:x}",
                             ALTER_TO=f"{HEAP + 5 * BLOCK + 16:x}").stdout
        differs = [(what.strip(), detail) for verdict, what, detail in rows(text)
                   if verdict == "DIFFERS"]
        # The fault is a message in the trace.
        self.assertEqual({what for what, _ in differs},
                         {"info", "report", "report --recount", "strip"})
        self.assertIn("40 messages (found: 41)", differs[0][1])
        self.assertIn("2,873 frees (found: 2,872), 127 live blocks (found: 128)", differs[1][1])
        self.assertIn("no memory faults, but the trace has some", differs[2][1])
        self.assertEqual(text.splitlines()[-1].split(",")[0],
                         "6 of 10 checks differ from what the client sent")
        self.assert_clean()

    def test_a_capture_that_fails(self):
        """A message's length becomes another, and what follows cannot be decoded."""
        text = self.selftest(status=1, LD_PRELOAD=ALTERED,
                             ALTER_FROM=b"\x10selftes"[::-1].hex(),
                             ALTER_TO=b"\xf0selftes"[::-1].hex()).stdout
        self.assertEqual(verdicts(text)["capture"], "DIFFERS")
        self.assertIn("(exit status 3)", rows(text)[0][2])
        self.assert_clean()

    def test_a_capture_that_hangs(self):
        """It is killed, and so is nothing else: all that follows differs at once."""
        text = self.selftest("--timeout", 2, status=1, LD_PRELOAD=ALTERED,
                             ALTER_FROM=f"{HEAP + 5 * BLOCK:x}", ALTER_TO="hang").stdout
        self.assertIn("not done 2 s after the selftest began", rows(text)[0][2])
        self.assertEqual([(verdict, what.strip()) for verdict, what, _ in rows(text)[:6]],
                         [("DIFFERS", what) for what in ("capture", "info", "report",
                                                         "report --recount", "strip", "verify")])
        # It says nothing of a trace that is not there.
        self.assertNotIn("found", text.split("\nhere")[0])
        self.assert_clean()

    def test_a_recording_that_hangs(self):
        """Whether the library works is not known then."""
        result = run("selftest", "--timeout", 2,
                     env={**os.environ, "TMPDIR": str(self.dir), "LD_PRELOAD": ALTERED,
                          "ALTER_HANG": "run", "ASAN_OPTIONS": "verify_asan_link_order=0"})
        found = {what.strip(): (verdict, detail) for verdict, what, detail in rows(result.stdout)}
        self.assertEqual(found["preload library"][0], "UNKNOWN")
        self.assertIn("not done 2 s after the selftest began", found["preload library"][1])
        self.assert_clean()

    def test_nothing_to_write_to(self):
        result = self.selftest(status=4, TMPDIR=str(self.dir / "none"))
        self.assertEqual(result.stdout, "")
        self.assertIn("set TMPDIR to a writable one", result.stderr)

    def test_wrong_command_lines(self):
        for args in (("--protocol", "62"), ("--protocol", "83"), ("--timeout", "0"), ("x",)):
            self.assertEqual(self.selftest(*args, status=2).stdout, "")

    def test_a_signal_leaves_nothing(self):
        process = subprocess.Popen([TIDEMARK, "selftest"], stdout=subprocess.PIPE, text=True,
                                   env=dict(os.environ, TMPDIR=str(self.dir)))
        wait_until(lambda: os.listdir(self.dir) or process.poll() is not None)
        process.send_signal(signal.SIGTERM)
        text = process.communicate(timeout=LIMIT)[0]
        self.assertEqual(process.returncode, -signal.SIGTERM)
        self.assertNotIn("DIFFERS", text)
        self.assert_clean()

    def test_a_reader_that_goes_away_leaves_nothing(self):
        process = subprocess.Popen([TIDEMARK, "selftest"], stdout=subprocess.PIPE, text=True,
                                   env=dict(os.environ, TMPDIR=str(self.dir)))
        process.stdout.close()
        self.assertEqual(process.wait(timeout=LIMIT), 4)
        self.assert_clean()

    @unittest.skipIf(os.geteuid() != 0, "needs root")
    def test_another_user_in_a_folder_that_cannot_be_written(self):
        """Also with a home folder that is not there."""
        os.chmod(self.dir, 0o777)
        with tempfile.TemporaryDirectory() as place:
            os.chmod(place, 0o555)
            program = pathlib.Path(place) / "tidemark"
            shutil.copy(TIDEMARK, program)
            result = subprocess.run(
                [program, "selftest", "--timeout", "300"], cwd=place, user=NOBODY, group=NOBODY,
                extra_groups=[],
                env={"TMPDIR": str(self.dir), "HOME": "/nonexistent", "PATH": os.environ["PATH"]},
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
            self.assertEqual(result.returncode, 0, result.stdout)
            self.assertEqual(os.listdir(place), ["tidemark"])
            # The library is not beside this copy of the program, unless one is installed.
            if not list(pathlib.Path("/usr").glob("**/libtidemark.so")):
                self.assertEqual(verdicts(result.stdout)["preload library"], "MISSING")
        self.assert_clean()

    def test_what_is_there(self):
        found = verdicts(self.selftest().stdout)
        for what in ("libdw", "preload library"):
            self.assertEqual(found[what], "here")
        self.assertEqual(found["debuginfod"], "MISSING")

    def test_the_report_page(self):
        """What `report` itself writes, or that this build has no page; never a usage text."""
        trace = self.dir / "in.tracy"
        source = self.dir / "in.json"
        source.write_text('[{"ph": "X", "name": "a", "ts": 1, "dur": 2, "pid": 1, "tid": 1}]')
        self.assertEqual(run("import", source, trace).returncode, 0)
        there = run("report", trace, "--format", "html", "-o", self.dir / "page.html")
        verdict, detail = next((verdict, detail) for verdict, what, detail
                               in rows(self.selftest().stdout) if what.strip() == "report page")
        if there.returncode == 0:
            self.assertEqual(verdict, "here")
            self.assertRegex(detail, r"^report --format html wrote [\d.,]+ \w+$")
        else:
            self.assertIn("this program was built without the page", there.stderr)
            self.assertEqual(verdict, "MISSING")
            self.assertIn("this program was built without the page", detail)

    def test_what_is_missing(self):
        port = free_port()
        with socket.socket() as holder:
            holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                holder.bind(("127.0.0.1", 8086))
                holder.listen()
            except OSError:
                pass  # it is taken already
            text = self.selftest(LD_PRELOAD=ALTERED, ALTER_PTRACE="1",
                                 DEBUGINFOD_URLS=f"http://127.0.0.1:{port}/").stdout
        details = {what.strip(): (verdict, detail) for verdict, what, detail in rows(text)}
        self.assertEqual(details["attach"][0], "MISSING")
        self.assertIn("Operation not permitted", details["attach"][1])
        self.assertEqual(details["debuginfod"][0], "MISSING")
        self.assertIn("refused", details["debuginfod"][1])
        self.assertEqual(details["port 8086"][0], "MISSING")
        self.assertIn("in use", details["port 8086"][1])
