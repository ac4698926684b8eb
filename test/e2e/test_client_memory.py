"""The plots of what the kernel counts of a client of `capture` and `daemon` on this host."""

import json
import os
import pathlib
import re
import signal
import struct
import subprocess
import sys
import time
import unittest

import passing
from memory_group import MemoryGroup, NoGroups
from test_capture import TERMINATE, FakeClient, frame
from test_daemon import announce
from test_daemon_events import Telling
from test_run_memory import MIB, SLACK, plots
from tools import BUILD, LIMIT, TIDEMARK, Case, all_children, name_of, run, wait_until

NOBODY = 65534
READINGS = 5
MEMORY = 9    # the kind of a journal's record that has a reading
PAGES = 10    # … and a piece of a look


def resident(pid):
    text = pathlib.Path(f"/proc/{pid}/status").read_text()
    return int(re.search(r"^RssAnon:\s+(\d+)", text, re.M)[1]) * 1024


def rests(pid):
    """An emulator has memory of its own, with which 64 MiB are reached before all is touched."""
    before = resident(pid)
    time.sleep(0.3)
    return abs(resident(pid) - before) < SLACK // 8


def readings(journal):
    """The times of a journal's readings of all but the PSS."""
    found = set()
    for kind, payload in passing.journal_records(journal):
        if kind == MEMORY:
            time, known = struct.unpack_from("<qI", payload)
            found |= {time} if known & 1 else set()
    return found


class Held:
    """A client that has touched 64 MiB and waits."""

    def hold(self, command=list, reported=(), **kwargs):
        client = [BUILD / "test" / "stack_client", "offline", "0", "64", *reported]
        process = subprocess.Popen(command(client),
                                   stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, **kwargs)
        self.addCleanup(process.wait)
        self.addCleanup(process.stdout.close)
        self.addCleanup(process.stdin.close)
        self.addCleanup(process.kill)
        port, pid = map(int, process.stdout.readline().split())
        return process, port, pid

    def group(self, size):
        try:
            group = MemoryGroup(size)
        except NoGroups as why:
            self.skipTest(str(why))
        self.addCleanup(lambda: wait_until(lambda: not (group.folder / "cgroup.procs").read_text())
                        or group.__exit__())
        return group

    def wait_readings(self, pid, journal):
        """Returns what is resident, once there are so many readings of that."""
        wait_until(lambda: resident(pid) >= 64 * MIB)
        seen = readings(journal)

        def more():
            now = readings(journal)
            fresh.update(now - seen)
            return len(fresh) >= READINGS
        fresh = set()
        wait_until(more)
        return resident(pid)

    def kill_by_oom(self, group, client):
        """Another program takes what is left of 80 MiB. Of the two, the client is larger."""
        subprocess.run(group.command(sys.executable, "-c", "bytearray(40 << 20)"), check=True)
        self.assertEqual(client.wait(), -signal.SIGKILL)

    def check_resident(self, points, size):
        times = [t for t, _ in points["RSS anonymous"]]
        self.assertEqual(times, sorted(times))
        self.assertLess(min(abs(value - size) for _, value in points["RSS anonymous"]), SLACK)
        return len(times)

    def check(self, trace, size):
        points, formats = plots(trace)
        self.assertGreaterEqual(self.check_resident(points, size), READINGS)
        self.assertGreater(points["RSS file"][-1][1], 0)
        self.assertGreater(points["PSS"][-1][1], 0)
        self.assertEqual(formats["RSS anonymous"], 1)

    def check_near(self, saved):
        """A trace that was saved near the limit of 70 MiB."""
        facts = {f["key"]: f["value"] for f in
                 json.loads(run("info", saved, "--format", "json").stdout)["facts"]}
        self.assertEqual(int(facts["near_limit"].split()[3]), 70 * MIB)
        report = run("report", saved).stdout
        self.assertRegex(report, r"\nlimit: the cgroup used .* of 70\.0 MiB by ")
        self.assertRegex(report, r"\nresident .* MiB at .*: blocks \d+ %")
        looks = json.loads(run("report", "--resident", "--format", "json", saved).stdout)["looks"]
        self.assertIn("near the end of its memory", [look["reason"] for look in looks])

    def looks(self, whole=True):
        """Of a client that reported what it touched: the reasons. `whole`: it had touched all."""
        found = json.loads(run("report", "--resident", "--format", "json", self.trace).stdout)
        both = max(found["sites"], key=lambda row: row["bytes"])    # they have no call stacks
        self.assertTrue(found["resident"]["reported_blocks"])
        self.assertEqual(both["resident_bytes"] + both["not_resident_bytes"], both["bytes"], both)
        self.assertEqual(both["bytes"], 128 * MIB)
        self.assertGreater(both["resident_bytes"], 0)
        if whole:
            self.assertEqual(both["resident_bytes"], 64 * MIB, both)
        return [look["reason"] for look in found["looks"]]


class Capture(Case, Held):
    def capture(self, port, *options):
        process = subprocess.Popen([TIDEMARK, "capture", "-o", self.trace, "-p", str(port),
                                    "--connect-timeout", str(LIMIT), *options],
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(process.communicate)
        self.addCleanup(process.kill)
        return process

    def setUp(self):
        super().setUp()
        self.trace = self.dir / "x.tracy"
        self.journal = self.dir / "x.tracy.journal"

    def test_a_client_of_this_host(self):
        client, port, pid = self.hold()
        process = self.capture(port)
        size = self.wait_readings(pid, self.journal)
        client.stdin.close()
        _, said = process.communicate(timeout=LIMIT)
        self.assertEqual(process.returncode, 0, said)
        self.assertNotIn("no plots", said)
        self.check(self.trace, size)

    def test_the_reading_of_its_end(self):
        """Also if no look goes with it."""
        for options in [], ["--no-resident"], ["--figures"]:
            client, port, pid = self.hold()
            process = self.capture(port, "-f", "--memory-plots", "1", *options)
            wait_until(lambda: resident(pid) >= 64 * MIB and readings(self.journal) and rests(pid))
            size, before = resident(pid), len(readings(self.journal))
            client.stdin.close()
            _, said = process.communicate(timeout=LIMIT)
            self.assertEqual(process.returncode, 0, said)
            found = plots(self.trace)[0]["RSS anonymous"]
            self.assertGreater(len(found), before, options)
            self.assertLess(abs(found[-1][1] - size), SLACK, options)

    def test_a_plot_of_the_client_has_the_same_name(self):
        client, port, pid = self.hold()
        process = self.capture(port)
        self.wait_readings(pid, self.journal)
        client.stdin.close()
        _, said = process.communicate(timeout=LIMIT)
        self.assertEqual(process.returncode, 0, said)
        found = run("dump", self.trace, "--section", "plots").stdout
        rows = [line for line in found.splitlines() if "kernel: PSS" in line]
        self.assertEqual(len(rows), 2, found)
        self.assertEqual(sum("min=7 max=7" in row for row in rows), 1, rows)

    def test_no_plots_if_none_are_wanted(self):
        client, port, pid = self.hold()
        process = self.capture(port, "--memory-plots", "0")
        wait_until(lambda: resident(pid) >= 64 * MIB)
        client.stdin.close()
        _, said = process.communicate(timeout=LIMIT)
        self.assertEqual(process.returncode, 0, said)
        points, _ = plots(self.trace)
        self.assertLessEqual(set(points), {"PSS"})  # the client's

    def test_near_the_limit_of_its_cgroup(self):
        group = self.group(70 * MIB)
        client, port, pid = self.hold(lambda args: group.command(*args))
        process = self.capture(port)
        self.wait_readings(pid, self.journal)
        client.stdin.close()
        _, said = process.communicate(timeout=LIMIT)
        self.assertEqual(process.returncode, 0, said)
        facts = json.loads(run("info", self.trace, "--format", "json").stdout)["facts"]
        near, = (fact["value"].split(" ", 4) for fact in facts if fact["key"] == "near_limit")
        self.assertEqual(int(near[3]), 70 * MIB)
        self.assertGreaterEqual(int(near[2]), 70 * MIB * 9 // 10)
        # What it touched was not reported; the rest may have been before the first reading.
        self.assertRegex(near[4], r"^live blocks (grew by 324 B: 324 B at |did not grow)")
        self.assertRegex(said, r"^tidemark: the client is near the end of its memory: its memory cgroup "
                               r"uses [67]\d[.\d]* MiB of 70\.0 MiB\n$")

    def test_a_flight_recorder_saves_near_the_limit(self):
        group = self.group(70 * MIB)
        client, port, pid = self.hold(lambda args: group.command(*args), reported=["reported"])
        process = self.capture(port, "--keep-last", "1h")
        saved = self.dir / "x.2.tracy"
        wait_until(saved.exists)
        process.send_signal(signal.SIGKILL)  # as by the OOM killer
        process.wait()
        self.check_near(saved)

    def test_the_verdict_is_recovered(self):
        """The OOM killer takes both."""
        group = self.group(70 * MIB)
        client, port, pid = self.hold(lambda args: group.command(*args), reported=["reported"])
        process = self.capture(port)
        self.wait_readings(pid, self.journal)
        had = len(passing.journal_bytes(self.journal))
        client.stdin.write(".")  # which it reads after it has reported its blocks
        client.stdin.flush()
        wait_until(lambda: len(passing.journal_bytes(self.journal)) > had)
        wait_until(lambda: PAGES in [kind for kind, _ in passing.journal_records(self.journal)])
        client.kill()
        process.kill()
        process.wait()
        result = run("recover", self.journal, "-o", self.trace)
        self.assertEqual(result.returncode, 0, result.stderr)
        said = run("report", self.trace).stdout
        self.assertRegex(said, r"\nlimit: the cgroup used .* of 70\.0 MiB by ")
        self.assertRegex(said, r"\nresident .* MiB at .*: blocks \d+ %")
        self.assertNotIn("OOM", said)

    def test_an_oom_kill_after_the_capture_was_killed(self):
        """Also if the journal's first segment, with the note of the cgroup, was removed meanwhile."""
        for options, is_ready in ([], self.journal.exists), \
                (["--keep-last", "2s"], lambda: not (self.journal / "00000001").exists()):
            group = self.group(80 * MIB)
            client, port, pid = self.hold(lambda args: group.command(*args), reported=["reported"])
            process = self.capture(port, "-f", *options)
            self.wait_readings(pid, self.journal)

            def ready():
                client.stdin.write(".")
                client.stdin.flush()
                return is_ready()
            wait_until(ready)
            self.wait_readings(pid, self.journal)
            process.kill()
            process.wait()
            self.kill_by_oom(group, client)
            result = run("recover", self.journal, "-o", self.trace, "-f")
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertIn("the OOM killer has killed 1 program in the program's memory cgroup since it was "
                          "first read; the cgroup's limit is 80.0 MiB\n", result.stderr)
            self.assertIn("the OOM killer killed 1 program in the memory cgroup between its first reading "
                          "and the recovery\n", run("report", self.trace).stdout)

    def test_an_oom_kill(self):
        for options in [], ["--keep-last", "1h"]:
            group = self.group(80 * MIB)
            client, port, pid = self.hold(lambda args: group.command(*args), reported=["reported"])
            process = self.capture(port, "-f", *options)
            self.wait_readings(pid, self.journal)
            self.kill_by_oom(group, client)
            _, said = process.communicate(timeout=LIMIT)
            self.assertEqual(process.returncode, 0, said)
            self.assertIn("tidemark: the client vanished while the OOM killer killed 1 program in its "
                          "memory cgroup, whose limit was 80.0 MiB\n", said)
            self.assertRegex(run("report", self.trace).stdout,
                             r"\nlimit: the cgroup used .*; the OOM killer killed 1 program in the "
                             r"memory cgroup\n")
            near = json.loads(run("report", "--format", "json", self.trace).stdout)["near_limit"]
            self.assertEqual((near["limit_bytes"], near["oom_kills"]), (80 * MIB, 1))

    def test_another_end_is_no_oom_kill(self):
        group = self.group(80 * MIB)
        client, port, pid = self.hold(lambda args: group.command(*args))
        process = self.capture(port)
        self.wait_readings(pid, self.journal)
        client.kill()
        _, said = process.communicate(timeout=LIMIT)
        self.assertEqual(process.returncode, 0, said)
        self.assertNotIn("OOM", said)
        self.assertNotIn("oom_kills", run("info", self.trace).stdout)

    def test_recovered(self):
        client, port, pid = self.hold()
        process = self.capture(port)
        size = self.wait_readings(pid, self.journal)
        process.send_signal(signal.SIGKILL)
        process.wait()
        result = run("recover", self.journal, "-o", self.trace)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.check(self.trace, size)

    def test_looks(self):
        client, port, pid = self.hold(reported=["reported"])
        process = self.capture(port)
        size = self.wait_readings(pid, self.journal)
        client.stdin.close()
        said, _ = process.communicate(timeout=LIMIT)
        self.assertRegex(said, r"resident \d+.* MiB at .*: blocks \d+ %, beside them \d+ %")
        self.assertEqual(self.looks(), ["at the highest RSS so far", "at exit"])
        text = run("report", "--resident", self.trace).stdout
        self.assertIn("may be blocks that it does not report", text)
        self.assertNotRegex(text, "malloc_trim|keep .* free")
        self.assertIn("are not in memory", text)
        summary = json.loads(run("report", "--format", "json", self.trace).stdout)
        self.assertLess(abs(summary["resident"]["rss_bytes"] - size), 8 * MIB)

    def test_a_look_when_the_capture_is_stopped(self):
        client, port, pid = self.hold(reported=["reported"])
        process = self.capture(port)
        self.wait_readings(pid, self.journal)
        process.send_signal(signal.SIGINT)
        _, said = process.communicate(timeout=LIMIT)
        self.assertEqual(process.returncode, 0, said)
        self.assertEqual(self.looks(), ["at the highest RSS so far", "at the recording's end"])

    def test_looks_at_chosen_times_and_on_request(self):
        client, port, pid = self.hold(reported=["reported"])
        process = self.capture(port, "--resident-at", "3600,0.5", "--resident-on", "USR2",
                               "--memory-plots", "0")
        wait_until(lambda: resident(pid) >= 64 * MIB)

        def looks():
            return [payload[0] for kind, payload in passing.journal_records(self.journal)
                    if kind == PAGES].count(1)
        wait_until(lambda: looks() == 1)
        process.send_signal(signal.SIGUSR2)
        wait_until(lambda: looks() == 2)
        client.stdin.close()
        _, said = process.communicate(timeout=LIMIT)
        self.assertEqual(process.returncode, 0, said)
        self.assertEqual(said, "tidemark: looked at the client's pages\n"
                               "tidemark: the capture ended before --resident-at 3600\n")
        self.assertEqual(self.looks(), ["at a chosen time", "on request", "at exit"])

    def test_a_request_that_cannot_be_met(self):
        """The socket's owner is not the client."""
        client = FakeClient(frame(TERMINATE))
        self.addCleanup(client.socket.close)
        process = self.capture(client.port, "--resident-at", "0")
        _, said = process.communicate(timeout=LIMIT)
        self.assertEqual(process.returncode, 0, said)
        self.assertEqual(said, "tidemark: no look at the client: its pages may not be read\n")

    def test_options_that_do_not_go_together(self):
        for options in (["--resident-at", "1", "--no-resident"], ["--resident-on", "USR1", "--figures"],
                        ["--resident-on", "USR1", "--keep-last", "1m"], ["--resident-at", "1,"]):
            result = run("capture", "-o", self.trace, *options)
            self.assertEqual(result.returncode, 2, result.stderr)
            self.assertIn("--resident-", result.stderr)

    def test_looks_are_recovered(self):
        client, port, pid = self.hold(reported=["reported"])
        process = self.capture(port)
        self.wait_readings(pid, self.journal)
        wait_until(lambda: PAGES in [kind for kind, _ in passing.journal_records(self.journal)])
        process.send_signal(signal.SIGKILL)
        process.wait()
        result = run("recover", self.journal, "-o", self.trace)
        self.assertEqual(result.returncode, 0, result.stderr)
        # The last look that the journal has may be from before all was touched.
        self.assertEqual(self.looks(whole=False), ["at the highest RSS so far"])

    def test_no_looks_if_none_are_wanted(self):
        client, port, pid = self.hold(reported=["reported"])
        process = self.capture(port, "--no-resident")
        self.wait_readings(pid, self.journal)
        client.stdin.close()
        _, said = process.communicate(timeout=LIMIT)
        self.assertEqual(process.returncode, 0, said)
        result = run("report", "--resident", self.trace)
        self.assertEqual(result.returncode, 3)
        self.assertIn("no look at the pages", result.stderr)

    def test_what_a_flight_recorder_keeps(self):
        client, port, pid = self.hold()
        process = self.capture(port, "--keep-last", "1h")
        size = self.wait_readings(pid, self.journal)
        client.stdin.close()
        _, said = process.communicate(timeout=LIMIT)
        self.assertEqual(process.returncode, 0, said)
        self.check(self.trace, size)

    def test_what_a_flight_recorder_keeps_after_a_checkpoint(self):
        client, port, pid = self.hold()
        process = self.capture(port, "--keep-last", "2s")
        size = self.wait_readings(pid, self.journal)

        def dropped():
            client.stdin.write(".")
            client.stdin.flush()
            return not (self.journal / "00000001").exists()
        wait_until(dropped)
        self.wait_readings(pid, self.journal)
        process.send_signal(signal.SIGKILL)
        process.wait()
        result = run("recover", self.journal, "-o", self.trace)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertTrue(self.check_resident(plots(self.trace)[0], size))

    def test_another_process_than_the_client_says(self):
        """The socket's owner is not the client: no guess."""
        for options, times in ([], 0), (["--memory-plots", "10"], 1):
            client = FakeClient(frame(TERMINATE))
            self.addCleanup(client.socket.close)
            process = self.capture(client.port, "-f", *options)
            _, said = process.communicate(timeout=LIMIT)
            self.assertEqual(said.count("no plots of the client's memory"), times, said)
            self.assertEqual(plots(self.trace), ({}, {}))


class Daemon(Telling, Held):
    def record(self, *options, reasons=("at the highest RSS so far",), **kwargs):
        with self.web("--name", "x", *options) as process:
            client, port, pid = self.hold(reported=["reported"], **kwargs)
            announce(self.udp, port, b"shop", pid=pid, protocol=82)
            size = self.wait_readings(pid, self.traces / "x.tracy.journal")
            wait_until(lambda: (self.get("/api/v1/clients/1/counters")["client_resident_bytes"] or 0)
                       >= 64 * MIB)
            client.stdin.close()
            self.wait_said("Trace size")
            self.assertEqual(self.stop(process), 0, self.said())
        self.assertNotIn("no plots", self.said())
        self.check(self.traces / "x.tracy", size)
        self.trace = self.traces / "x.tracy"
        self.assertEqual(sorted(self.looks()), sorted([*reasons, "at exit"]))

    def test_a_client_of_this_host(self):
        self.record()

    def test_a_look_at_a_chosen_time(self):
        self.record("--resident-at", "0.3",
                    reasons=["at the highest RSS so far", "at a chosen time"])

    def test_an_oom_kill(self):
        group = self.group(80 * MIB)
        with self.web("--name", "x") as process:
            client, port, pid = self.hold(lambda args: group.command(*args), reported=["reported"])
            announce(self.udp, port, b"shop", pid=pid, protocol=82)
            self.wait_readings(pid, self.traces / "x.tracy.journal")
            self.kill_by_oom(group, client)
            self.wait_said("Trace size")
            self.assertEqual(self.stop(process), 0, self.said())
        self.assertIn("the client vanished while the OOM killer killed 1 program", self.said())
        said = run("report", self.traces / "x.tracy").stdout
        self.assertRegex(said, r"\nlimit: the cgroup used .*; the OOM killer killed 1 program")
        self.assertRegex(said, r"\nresident .* MiB at .*: blocks \d+ %")

    def test_a_flight_recorder_saves_near_the_limit(self):
        group = self.group(70 * MIB)
        with self.web("--name", "x", "--keep-last", "1h") as process:
            client, port, pid = self.hold(lambda args: group.command(*args), reported=["reported"])
            announce(self.udp, port, b"shop", pid=pid, protocol=82)
            saved = self.traces / "x.2.tracy"
            wait_until(saved.exists)
            sessions = all_children(process.pid)
            for victim in [process.pid, *sessions]:  # as by the OOM killer
                os.kill(victim, signal.SIGKILL)
            process.wait()
            wait_until(lambda: not any(map(name_of, sessions)))
        self.check_near(saved)

    @unittest.skipIf(os.geteuid() != 0, "needs root")
    def test_a_client_of_another_user(self):
        self.record(user=NOBODY, group=NOBODY, extra_groups=[])


if __name__ == "__main__":
    unittest.main()
