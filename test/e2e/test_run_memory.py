"""The plots of what the kernel counts of a process, which `tidemark run` adds to its trace."""

import contextlib
import json
import os
import pathlib
import signal
import struct
import subprocess
import time
import unittest

import test_run_client
from memory_group import MemoryGroup, NoGroups
from test_run import RunCase, compiled, wait_until
from tools import LIMIT, TIDEMARK, Case, report, run

MIB = 1 << 20
# A reading may come before the last touched pages are counted: counters of the kernel are batched.
SLACK = 2 * MIB
SECOND = 10**9

# run/kernel_notes.c, trace/store/kernel_plot.h
READING = 0
OF_CGROUP = 1 << 7

# Takes MIB, touches some of them, prints what the kernel says, and ends when standard input does.
PROGRAM = r"""
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
static void show(const char *who)
{
    char line[256];
    FILE *f = fopen("/proc/self/status", "r");
    while (f && fgets(line, sizeof line, f))
        if (!strncmp(line, "RssAnon:", 8))
            printf("%s %d %ld\n", who, getpid(), strtol(line + 8, NULL, 10) * 1024);
    fflush(stdout);
}
int main(int count, char **argv)
{
    (void)count;
    size_t taken = (size_t)atoi(argv[1]) << 20, touched = (size_t)atoi(argv[2]) << 20;
    size_t more = (size_t)atoi(argv[3]) << 20;
    char *p = malloc(taken), c;
    memset(p, 1, touched);
    if (more && fork() == 0) {
        memset(p + touched, 1, more);
        show("child");
        return read(0, &c, 1) != 0;
    }
    show("self");
    return read(0, &c, 1) != 0 || (more && wait(NULL) < 0);
}
"""


# Takes and touches MiB after MiB, and waits for a byte on the way: the pauses between readings are as
# long as a reading takes here. With a file's name, it writes twice the cgroup's limit to it first.
GROWING = r"""
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
static char *volatile kept;
__attribute__((noinline)) static void grow(void)
{
    kept = malloc(1 << 20);
    memset(kept, 1, 1 << 20);
}
int main(int count, char **argv)
{
    char c;
    static char part[1 << 20];
    FILE *f = count > 1 ? fopen(argv[1], "w") : NULL;
    for (int i = 0; i < 192 && f; i++)
        fwrite(part, sizeof part, 1, f);
    for (int i = 1; i < 1000; i++) {
        grow();
        if (i == 48 || i == 88) { /* of 96 MiB: far from the limit, and near it */
            printf("%d\n", getpid());
            fflush(stdout);
            if (read(0, &c, 1) != 1)
                return 1;
        }
    }
    return 0;
}
"""


# Reads from all over a file of twice the cgroup's limit, again and again: waits for its pages.
WAITING = r"""
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>
int main(int count, char **argv)
{
    enum { PART = 1 << 20, PARTS = 192, PAGE = 4096 };
    int f = open(argv[count - 1], O_RDWR | O_CREAT, 0600);
    char *part = malloc(48 * PART);
    memset(part, 1, 48 * PART);
    for (int i = 0; i < PARTS; i++)
        if (write(f, part, PART) != PART)
            return 1;
    fsync(f);
    volatile char *p = mmap(NULL, (size_t)PARTS * PART, PROT_READ, MAP_SHARED, f, 0);
    struct pollfd ends = {.fd = 0, .events = POLLIN};
    unsigned at = 1, sum = 0;
    while (poll(&ends, 1, 0) == 0) /* until standard input ends */
        for (int i = 0; i < 64; i++)
            sum += p[(size_t)((at = at * 1664525 + 1013904223) >> 8) % (PARTS * PART / PAGE) * PAGE];
    return sum == 1;
}
"""


GREW = (r"\nlimit: the cgroup used .* MiB of 96\.0 MiB by .*s, less than 80 % until .*s; then live "
        r"blocks grew by .* MiB: .* MiB at grow \(grow\.c:")


def plots(trace):
    """Name → list of (ns, value), of those that the kernel's counts have; and name → format."""
    result = run("dump", trace, "--section", "plots,plot-points", "--format", "jsonl")
    assert result.returncode == 0, result.stderr
    points, formats = {}, {}
    for line in map(json.loads, result.stdout.splitlines()):
        if not line.get("plot", "").startswith("kernel: "):
            continue
        name = line["plot"].removeprefix("kernel: ")
        if "value" in line:
            points.setdefault(name, []).append((int(line["time"]), float(line["value"])))
        else:
            formats[name] = int(line["format"])
    return points, formats


def kill_if_there(pid):
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def is_alive(pid):
    try:
        return ") Z " not in pathlib.Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False


def noted(notes):
    """Time and values of each reading in a file of run/kernel_notes.h."""
    data, at = notes.read_bytes(), 0
    while at + 8 <= len(data):
        kind, size = struct.unpack_from("<II", data, at)
        if kind == READING and at + 8 + size <= len(data):
            yield struct.unpack_from("<qI", data, at + 8)
        at += 8 + size


class MemoryCase(RunCase):
    def setUp(self):
        super().setUp()
        source = self.dir / "memory.c"
        source.write_text(PROGRAM)
        self.program = compiled(self.dir, "memory", source=source)

    def start(self, *arguments, options=(), before=()):
        process = subprocess.Popen([*before, TIDEMARK, "run", "-o", self.trace, "--no-symbols",
                                    "--report", "none", *map(str, options), "--", self.program,
                                    *map(str, arguments)],
                                   stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True)
        self.addCleanup(process.kill)
        return process

    def finish(self, process):
        out, said = process.communicate(timeout=LIMIT)
        self.assertEqual(process.returncode, 0, said)
        return out


class Memory(MemoryCase):
    def test_touched_pages_are_resident_and_others_are_not(self):
        process = self.start(256, 16, 0)
        said = int(process.stdout.readline().split()[2])
        time.sleep(1.3)
        self.finish(process)
        points, formats = plots(self.trace)
        values = [v for _, v in points["RSS anonymous"]]
        self.assertGreater(len(values), 1)  # how many depends on what one costs here
        self.assertLess(abs(values[-1] - said), SLACK)
        self.assertGreaterEqual(values[-1], 16 * MIB)
        times = [t for t, _ in points["RSS anonymous"]]
        self.assertEqual(times, sorted(times))
        self.assertGreater(points["RSS file"][-1][1], 0)
        self.assertTrue(points["PSS"])
        self.assertGreaterEqual(min(v for _, v in points["minor page faults per second"]), 0)
        for name in ("RSS anonymous", "RSS file", "RSS shared", "swap", "PSS"):
            self.assertEqual(formats[name], 1, name)

    def test_the_timeline_has_what_is_resident(self):
        process = self.start(256, 16, 0)
        said = int(process.stdout.readline().split()[2])
        time.sleep(0.5)
        self.finish(process)
        points, _ = plots(self.trace)
        names = ("RSS anonymous", "RSS file", "RSS shared", "swap")
        readings = list(zip(*([v for _, v in points[name]] for name in names)))
        result = run("timeline", self.trace, "--buckets", 50, "--format", "json")
        buckets = json.loads(result.stdout)["pools"][0]["buckets"]
        keys = ("resident_anonymous_bytes", "resident_file_bytes", "resident_shared_bytes",
                "swapped_bytes")
        for b in buckets:
            if b["resident_bytes"] is None:
                continue
            self.assertIn(tuple(b[k] for k in keys), readings)
            self.assertEqual(b["resident_bytes"], sum(b[k] for k in keys[:3]))
        known = [b["resident_bytes"] for b in buckets if b["resident_bytes"] is not None]
        self.assertGreater(len(known), 25)
        self.assertEqual(max(known), max(sum(r[:3]) for r in readings))
        # The last reading: the first one may be amid the program's touching.
        last = [b["resident_anonymous_bytes"] for b in buckets if b["resident_bytes"] is not None][-1]
        self.assertLess(abs(last - said), SLACK)
        shown = run("timeline", self.trace).stdout
        self.assertRegex(shown, r"\nresident \(RSS of the process\): [\d.]+ MiB at .* "
                                r"\(anonymous [\d.]+ MiB, files .*\); highest [\d.]+ MiB at ")
        # The use has its own scale: the highest column fills it.
        self.assertIn("█", shown.splitlines()[1])
        shown = run("timeline", self.trace, "--format", "svg").stdout
        self.assertIn(f'data-peak-bytes="{int(max(known))}"', shown)
        self.assertIn("The dashed line is what was resident", shown)

    def test_no_line_without_readings(self):
        process = self.start(8, 4, 0, options=["--memory-plots", 0])
        process.stdout.readline()
        self.finish(process)
        result = run("timeline", self.trace, "--format", "json")
        buckets = json.loads(result.stdout)["pools"][0]["buckets"]
        self.assertEqual({b["resident_bytes"] for b in buckets}, {None})
        for options in ((), ("--format", "svg")):
            self.assertNotIn("resident", run("timeline", self.trace, *options).stdout)

    def test_a_short_program_has_the_reading_of_its_end(self):
        for options in [], ["--no-resident"], ["--figures"]:
            process = self.start(64, 16, 0, options=["-f", *options])
            said = int(process.stdout.readline().split()[2])
            self.finish(process)
            last = plots(self.trace)[0]["RSS anonymous"][-1]
            self.assertLess(abs(last[1] - said), SLACK, options)

    def test_no_plots_if_none_are_wanted(self):
        process = self.start(8, 4, 0, options=["--memory-plots", 0])
        process.stdout.readline()
        self.finish(process)
        self.assertEqual(plots(self.trace), ({}, {}))

    def test_each_process_has_its_own(self):
        process = self.start(64, 4, 48, options=["--follow-fork", "--min-lifetime", 0])
        lines = [process.stdout.readline().split() for _ in range(2)]
        self.finish(process)
        said = {who: (int(pid), int(size)) for who, pid, size in lines}
        pid, size = said["child"]
        points, _ = plots(self.trace.with_name(f"out.{pid}.tracy"))
        self.assertLess(abs(points["RSS anonymous"][-1][1] - size), SLACK)
        points, _ = plots(self.trace)
        self.assertLess(abs(points["RSS anonymous"][-1][1] - said["self"][1]), SLACK)

    def test_a_running_process(self):
        process = subprocess.Popen([self.program, "64", "32", "0"], stdin=subprocess.PIPE,
                                   stdout=subprocess.PIPE, text=True)
        self.addCleanup(process.kill)
        self.addCleanup(process.communicate)
        said = int(process.stdout.readline().split()[2])
        result = run("run", "--pid", process.pid, "--seconds", 1, "-o", self.trace, "--no-symbols",
                     "--report", "none")
        if "ptrace" in result.stderr:
            self.skipTest("processes cannot be attached to here")
        self.assertEqual(result.returncode, 0, result.stderr)
        points, _ = plots(self.trace)
        self.assertLess(abs(points["RSS anonymous"][-1][1] - said), SLACK)


class Cgroup(MemoryCase):
    """Use and limit of a new cgroup. Only root can make one."""

    def make(self):
        try:
            group = MemoryGroup(96 * MIB)
        except NoGroups as why:
            self.skipTest(str(why))
        self.addCleanup(self.remove, group)
        return group.folder

    @staticmethod
    def remove(group):
        wait_until(lambda: not (group.folder / "cgroup.procs").read_text())
        group.__exit__()

    def test_use_and_limit(self):
        group = self.make()
        enter = f'echo $$ > {group}/cgroup.procs; exec "$@"'
        process = self.start(64, 24, 0, before=["sh", "-c", enter, "sh"])
        process.stdout.readline()
        self.finish(process)
        points, formats = plots(self.trace)
        self.assertEqual({v for _, v in points["cgroup limit"]}, {96.0 * MIB})
        self.assertGreaterEqual(points["cgroup memory"][-1][1], 24 * MIB)
        self.assertLessEqual(points["cgroup memory"][-1][1], 96 * MIB)
        self.assertEqual(points["cgroup OOM kills"][-1][1], 0)
        self.assertEqual((formats["cgroup memory"], formats["cgroup limit hits"]), (1, 0))

    def wait_reading(self):
        """A reading of the cgroup that began from now on."""
        began = time.monotonic_ns()

        def is_noted():
            return any(at > began and known & OF_CGROUP for notes in
                       self.dir.glob("*/*.1.recording.kernel") for at, known in noted(notes))
        wait_until(is_noted)

    def start_growing(self, *arguments):
        """GROWING in a new cgroup, once a reading far from the limit was noted."""
        group = self.make()
        source = self.dir / "grow.c"
        source.write_text(GROWING)
        program = compiled(self.dir, "grow", source=source)
        process = subprocess.Popen([TIDEMARK, "run", "-o", self.trace, "--no-debuginfod", "--",
                                    "sh", "-c", f'echo $$ > {group}/cgroup.procs; exec "$0" "$@"',
                                    program, *arguments],
                                   stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True)
        self.addCleanup(process.kill)
        pid = int(process.stdout.readline())
        self.addCleanup(kill_if_there, pid)
        self.wait_reading()
        return process, pid

    def grow(self):
        """The same, and a look near the limit."""
        process, pid = self.start_growing()
        process.stdin.write("\n")
        process.stdin.flush()
        while "is near the end of its memory: its memory cgroup" not in process.stderr.readline():
            self.assertIsNone(process.poll())
        return process, pid

    def need_files(self):
        kind = subprocess.run(["stat", "-f", "-c", "%T", self.dir], capture_output=True, text=True)
        if kind.stdout.strip() in ("tmpfs", "ramfs"):
            self.skipTest("files have no pages that the kernel could drop here")

    def test_waiting_for_memory(self):
        """Pages of files are dropped and read again: the cgroup is not full, but its process waits."""
        self.need_files()
        group = self.make()
        if not (group / "memory.pressure").exists():
            self.skipTest("the cgroup has no pressure: version 1, or a kernel without it")
        source = self.dir / "waiting.c"
        source.write_text(WAITING)
        process = subprocess.Popen([TIDEMARK, "run", "-o", self.trace, "--no-debuginfod", "--",
                                    "sh", "-c", f'echo $$ > {group}/cgroup.procs; exec "$0" "$1"',
                                    compiled(self.dir, "waiting", source=source), self.dir / "file"],
                                   stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(process.kill)
        self.assertRegex(process.stderr.readline(), "is near the end of its memory: tasks waited for "
                                                    r"memory for \d+ % of the last second\n$")
        said = process.communicate(timeout=LIMIT)[1]
        self.assertEqual(process.returncode, 0, said)
        self.assertRegex(said, r"\nlimit: tasks waited for memory for \d+ % of a second by ")
        self.assertTrue(plots(self.trace)[0]["cgroup memory pressure, full"])

    def test_pages_of_files_are_not_near_the_limit(self):
        """They fill the cgroup. The kernel drops them when memory is wanted, for which a slow machine
        may make the program wait: that is another sign."""
        self.need_files()
        process, _ = self.start_growing(self.dir / "file")
        process.stdin.close()
        said = process.stderr.read()
        self.assertEqual(process.wait(LIMIT), 1, said)
        self.assertNotIn("near the end of its memory: its memory cgroup", said)
        self.assertNotIn("\nlimit: the cgroup used", said)
        points, _ = plots(self.trace)
        use, files = points["cgroup memory"][-1][1], points["cgroup file pages"][-1][1]
        self.assertGreater(use, 96 * MIB * 8 // 10)
        self.assertLess(use - files, 96 * MIB * 8 // 10)

    def test_a_kill(self):
        """The program is killed, and the trace has its growth until then, and a look near the limit."""
        process, _ = self.grow()
        said = process.communicate("\n", timeout=LIMIT)[1]
        self.assertEqual(process.returncode, 128 + 9, said)
        self.assertIn("the OOM killer killed 1 program in its memory cgroup, whose limit was 96.0 MiB",
                      said)
        facts = json.loads(run("info", self.trace, "--format", "json").stdout)["facts"]
        self.assertIn(f"1 limit {96 * MIB}", [f["value"] for f in facts if f["key"] == "oom_kills"])
        doc = report(self.trace)
        row = next(s for s in doc["sites"] if s["function"] == "grow")
        self.assertGreater(row["live_bytes"], 80 * MIB)
        looks = json.loads(run("report", "--resident", "--format", "json", self.trace).stdout)
        near = [x for x in looks["looks"] if x["reason"] == "near the end of its memory"]
        self.assertEqual(len(near), 1, looks["looks"])
        self.assertGreater(near[0]["bytes"], 60 * MIB)
        grown = doc["near_limit"]
        self.assertEqual(grown["limit_bytes"], 96 * MIB)
        self.assertGreaterEqual(grown["bytes"], 96 * MIB * 9 // 10)
        self.assertLess(grown["from_ns"], grown["to_ns"])
        self.assertRegex(grown["growth"], r"^live blocks grew by .* MiB: .* MiB at grow \(grow\.c:")
        self.assertEqual((grown["oom_kills"], grown["oom_kills_at_recovery"]), (1, False))
        self.assertRegex(said, GREW)
        self.assertIn("; the OOM killer killed 1 program in the memory cgroup\n", said)

    def test_both_are_killed(self):
        """As the OOM killer does where `run` shares the cgroup. The recovered trace says who grew."""
        process, pid = self.grow()
        process.kill()
        os.kill(pid, signal.SIGKILL)
        process.communicate(timeout=LIMIT)
        self.assertFalse(self.trace.exists())
        result = run("run", "--recover", next(self.dir.glob("*/*.1.recording")), "-o", self.trace,
                     "--no-debuginfod")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertRegex(result.stderr, GREW)
        looks = json.loads(run("report", "--resident", "--format", "json", self.trace).stdout)
        self.assertIn("near the end of its memory", [x["reason"] for x in looks["looks"]])

    def test_a_kill_after_run_was_killed(self):
        """The cgroup is still there, and counts one more."""
        process, pid = self.grow()
        process.kill()
        process.stdin.write("\n")
        process.stdin.flush()
        process.wait()
        wait_until(lambda: not is_alive(pid))
        recording = next(self.dir.glob("*/*.1.recording"))
        result = run("run", "--recover", recording, "-o", self.trace, "--no-debuginfod")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("tidemark: the OOM killer has killed 1 program in the program's memory cgroup since "
                      "it was first read; the cgroup's limit is 96.0 MiB\n", result.stderr)
        self.assertRegex(result.stderr, GREW)
        self.assertIn("; the OOM killer killed 1 program in the memory cgroup between its first reading "
                      "and the recovery\n", result.stderr)
        near = report(self.trace)["near_limit"]
        self.assertEqual((near["oom_kills"], near["oom_kills_at_recovery"]), (1, True))
        # As after a restart of the system, when the count began anew.
        notes = recording.with_name(recording.name + ".kernel")
        boot = pathlib.Path("/proc/sys/kernel/random/boot_id").read_bytes().strip()
        self.assertGreaterEqual(notes.read_bytes().count(boot), 1)
        notes.write_bytes(notes.read_bytes().replace(boot, boot[::-1]))
        result = run("recover", recording, "-o", self.trace, "-f")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertNotIn("OOM", result.stderr + run("report", self.trace).stdout)

    def test_another_kill(self):
        """Only killed by a signal: no word of the OOM killer."""
        group = self.make()
        result = run("run", "-o", self.trace, "--no-debuginfod", "--", "sh", "-c",
                     f"echo $$ > {group}/cgroup.procs; kill -9 $$")
        self.assertEqual(result.returncode, 128 + 9, result.stderr)
        self.assertNotIn("OOM", result.stderr)


@unittest.skipUnless(os.uname().machine == "x86_64", "the stamps are the processor's")
@unittest.skipIf(test_run_client.SANITIZED, "the client needs a sanitizer's library to come first")
class Client(Case):
    """In a trace that the program's Tracy client shares, on the client's clock."""

    record = test_run_client.RunClient.record

    def test_plots_beside_the_client(self):
        self.record()
        points, _ = plots(self.trace)
        result = run("dump", self.trace, "--section", "messages", "--format", "jsonl")
        last = max(json.loads(line)["time"] for line in result.stdout.splitlines())
        self.assertTrue(points["RSS anonymous"])
        for at, value in points["RSS anonymous"]:
            self.assertLessEqual(-10 * SECOND, at)  # the program began before its client
            self.assertLessEqual(at, last + SECOND)
            self.assertGreater(value, 0)


if __name__ == "__main__":
    unittest.main()
