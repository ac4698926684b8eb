"""A few MiB that expand to a GiB (hostile.py): limits on memory and time hold while they are taken in,
saved and recovered."""

import concurrent.futures
import re
import shutil
import signal
import subprocess
import time
import unittest

from hostile import CASES, Hostile, frame, stream
from memory_group import MemoryGroup, NoGroups
from passing import journal_bytes
from test_daemon_http import Web
from test_faults import SHORT, environment
from tools import LIMIT, SANITIZED, TIDEMARK, Case, run, wait_until

MIB = 1 << 20
# Those that took most beyond a limit.
BEYOND = ("strings", "zone texts", "call stacks", "open zones", "zone colors", "threads")


def anonymous(pid):
    """Anonymous resident bytes of a process, which --memory-limit bounds; 0 when it is gone."""
    try:
        with open(f"/proc/{pid}/status") as status:
            return int(re.search(r"RssAnon:\s+(\d+)", status.read())[1]) * 1024
    except (OSError, TypeError):
        return 0


class Streams(Case):
    def play(self, case, *args, interrupt=None, size=4 * MIB, folder=None, body=None,
             env=None, command=(TIDEMARK, "capture")):
        """(capture, its output, most bytes)."""
        folder = folder or self.dir
        client = Hostile(body or stream(case, size))
        self.addCleanup(client.close)
        with open(folder / "log", "w+") as log:
            began, most = time.monotonic(), 0
            capture = subprocess.Popen(
                [*command, "-f", "-o", str(folder / "x"), "-p", str(client.port),
                 "--protocol", "74", *args], stdout=log, stderr=log, env=env)
            try:
                while capture.poll() is None and time.monotonic() - began < 120:
                    most = max(most, anonymous(capture.pid))
                    if interrupt and time.monotonic() - began > interrupt:
                        capture.send_signal(signal.SIGINT)
                        began, interrupt = time.monotonic(), None
                    time.sleep(0.01)
            finally:
                capture.kill()
                capture.wait()
            log.seek(0)
            return capture, log.read(), most

    def check(self, case, played, limit, folder=None):
        folder = folder or self.dir
        capture, said, most = played
        self.assertIn(capture.returncode, (0, 4), f"{case}: {said}")
        if not SANITIZED:
            self.assertLessEqual(most, limit * MIB, f"{case}: {said}")
        verified = run("verify", folder / "x")
        self.assertIn(verified.returncode, (0, 1), f"{case}: {verified.stderr}")
        if capture.returncode == 4 and "no summary" not in said:
            self.assertIn("is kept in", said, case)
            self.assertTrue((folder / "x.journal").exists())
            recovered = run("recover", folder / "x.journal", "--memory-limit", f"{limit}M",
                            "-f", "-o", folder / "y")
            self.assertIn(recovered.returncode, (0, 4), f"{case}: {recovered.stderr}")

    def in_little_memory(self, case):
        folder = self.dir / case.replace(" ", "-")
        folder.mkdir()
        self.check(case, self.play(case, "--memory-limit", "96M", "-s", "2", size=MIB, folder=folder),
                   96, folder)
        shutil.rmtree(folder)

    def test_little_memory(self):
        """Several cases at a time: a capture of what expands rests most of the time."""
        cases = BEYOND if SANITIZED else CASES
        with concurrent.futures.ThreadPoolExecutor(6) as at_once:
            for case, tried in [(case, at_once.submit(self.in_little_memory, case)) for case in cases]:
                with self.subTest(case):
                    tried.result()

    def test_what_is_saved_is_read(self):
        """Tables longer than a file's, and one text longer than any record."""
        for case in ("processors", "GPU zones", "zone locations", "zone text"):
            with self.subTest(case):
                capture, said, *_ = self.play(case, "-s", "8", "--no-summary", size=4 * MIB)
                self.assertEqual(capture.returncode, 0, said)
                for path in self.dir.glob("x*"):
                    verified = run("verify", path)
                    self.assertIn(verified.returncode, (0, 1), f"{case}: {verified.stderr}")
                    path.unlink()

    def test_signals(self):
        """bench/hostile.py has how soon."""
        for case in ("zones", "deep call stacks", "frame marks"):
            with self.subTest(case):
                self.check(case, self.play(case, interrupt=1.5), 4096)

    def test_undecoded_bytes(self):
        """The clock runs so fast that the time to decode what was received is over before: the trace
        lacks it, and the journal has it."""
        self.undecoded(4)

    def test_undecoded_bytes_under_a_drop_in_name(self):
        name = self.dir / "tracy-capture"
        name.symlink_to(TIDEMARK)
        self.undecoded(5, command=[name])

    def undecoded(self, status, **capturing):
        faults = environment(FAULT_AT=1, FAULT_ONLY="pwritev", FAULT_HOW=SHORT, FAULT_LATE=15)
        marks = frame(CASES["frame marks"](0)) * 50000
        capture, said, _ = self.play("frame marks", "-s", "1", body=marks, env=faults, **capturing)
        self.assertEqual(capture.returncode, status, said)
        self.assertRegex(said, "tidemark: the last .* received were not decoded: that takes too long")
        self.assertIn("is kept in", said)
        self.assertIn("received bytes were not decoded", run("info", self.dir / "x").stdout)
        recovered = run("recover", self.dir / "x.journal", "-f", "-o", self.dir / "y")
        self.assertEqual(recovered.returncode, 0, recovered.stderr)
        self.assertNotIn("not decoded", run("info", self.dir / "y").stdout)

    def test_a_container(self):
        """Without an option; and what a killed capture leaves is recovered in as little."""
        for case in ("strings", "deep call stacks"):
            with self.subTest(case):
                self.in_container(case)

    def in_container(self, case):
        client = Hostile(stream(case, MIB * 3 // 2))
        self.addCleanup(client.close)
        try:
            with MemoryGroup(300 * MIB) as group:
                captured = subprocess.run(
                    group.command(TIDEMARK, "capture", "-f", "-o", self.dir / "x", "-p", client.port,
                                  "--protocol", "74", "-s", "4", "--no-summary"),
                    stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=LIMIT)
                self.assertIn(captured.returncode, (0, 4), captured.stdout)
        except NoGroups as why:
            self.skipTest(str(why))
        self.assertIn(run("verify", self.dir / "x").returncode, (0, 1))
        journal = self.dir / "x.journal"
        shutil.rmtree(journal, ignore_errors=True)
        capture = subprocess.Popen([TIDEMARK, "capture", "-f", "-o", str(self.dir / "x"), "-p",
                                    str(client.port), "--protocol", "74"],
                                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        wait_until(lambda: journal.exists() and len(journal_bytes(journal)) > MIB * 5 // 8)
        capture.kill()
        capture.wait()
        with MemoryGroup(300 * MIB) as group:
            recovered = subprocess.run(
                group.command(TIDEMARK, "recover", journal, "-f", "-o", self.dir / "y"),
                stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=LIMIT)
        # AddressSanitizer's memory counts, too, and may leave too little.
        self.assertIn(recovered.returncode, (0, 4) if SANITIZED else (0,), recovered.stdout)
        self.assertIn(run("verify", self.dir / "y").returncode, (0, 1))
        self.assertEqual(journal.exists(), recovered.returncode != 0)
        shutil.rmtree(journal, ignore_errors=True)


class Daemons(Web):
    @unittest.skipIf(SANITIZED, "AddressSanitizer's memory counts, too")
    def test_all_clients_together(self):
        """Three hostile clients of a daemon with 500 MiB."""
        clients = [Hostile(stream(case, 4 * MIB))
                   for case in ("strings", "deep call stacks", "open zones")]
        targets = [a for c in clients for a in ("--target", f"127.0.0.1:{c.port}")]
        most = 0
        with self.daemon("--memory-limit", "500M", "--no-recover", *targets) as process:
            began = time.monotonic()
            while time.monotonic() - began < 8:
                most = max(most, sum(map(anonymous, self.family(process.pid))))
                time.sleep(0.01)
            for client in clients:
                client.close()
            self.stop(process)
        self.assertGreater(most, 50 * MIB)
        self.assertLessEqual(most, 500 * MIB, self.said())

    def test_a_container(self):
        """Its limit is that of all captures together, unless the daemon is given one."""
        try:
            group = MemoryGroup(300 * MIB)
        except NoGroups as why:
            self.skipTest(str(why))
        with group:
            for args, limit in ((), 225), (("--memory-limit", "1G"), 1024):
                with self.daemon("--http", "127.0.0.1:0", *args, start=group.command) as process:
                    self.assertEqual(self.status()["memory_limit"], limit * MIB)
                    self.assertEqual(self.stop(process), 0, self.said())

    @staticmethod
    def family(pid):
        """The process and its descendants."""
        found = [pid]
        for parent in found:
            try:
                with open(f"/proc/{parent}/task/{parent}/children") as children:
                    found += map(int, children.read().split())
            except OSError:
                pass
        return found


if __name__ == "__main__":
    unittest.main()
