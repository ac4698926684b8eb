"""Small traces that expand to gigabytes: what they may take of memory that the kernel cannot write
out, by default and with --memory, is bounded; each is read, or refused with file and offset."""

import contextlib
import json
import os
import pathlib
import re
import resource
import subprocess
import time
import unittest

import hostilefile
from memory_group import MemoryGroup, NoGroups
from test_mcp import Client
from tools import LIMIT, SANITIZED, TIDEMARK, TRACES, Case, run

MIB = 1 << 20
COMMANDS = (("report",), ("verify",))

# Of each command with --memory, one of each way that it takes; FILE is the trace.
QUESTIONS = (
    "report FILE", "report FILE --by callstack", "report FILE --by zone", "report FILE --by sample",
    "report FILE --leaks", "report FILE --grown 0:1s", "report FILE --peak",
    "report FILE --histograms", "report FILE --patterns", "report FILE --faults",
    "report FILE --resident", "report FILE --related", "report FILE --format markdown",
    "info FILE", "verify FILE", "diff FILE FILE", "diff FILE FILE -- FILE FILE", "tree FILE", "map FILE",
    "find FILE 0x1000", "annotate FILE main", "timeline FILE", "export FILE --format pprof",
    "export FILE --format folded", "export FILE --format speedscope", "export FILE --format chrome",
    "export FILE --format sqlite -f -o OUT", "export FILE --format ndjson --table allocations")

# Measured with a file that the kernel refuses memory for; the others are alike.
LARGE = ("report FILE", "report FILE --leaks", "report FILE --patterns", "report FILE --faults",
         "report FILE --format markdown", "info FILE", "verify FILE", "diff FILE FILE", "tree FILE", "map FILE",
         "find FILE 0x1000", "timeline FILE", "export FILE --format pprof -f -o OUT",
         "export FILE --format sqlite -f -o OUT")


def measured(*command):
    """Exit status, error output, and the most bytes seen that no file is behind (heap, private
    mappings, stacks)."""
    most = 0
    with subprocess.Popen([TIDEMARK, *map(str, command)], stdout=subprocess.DEVNULL,
                          stderr=subprocess.PIPE, text=True) as process:
        while process.poll() is None:
            with contextlib.suppress(OSError, ValueError):
                status = (pathlib.Path("/proc") / str(process.pid) / "status").read_text()
                most = max([most, *map(int, re.findall(r"RssAnon:\s+(\d+)", status))])
            time.sleep(0.003)
        return process.returncode, process.stderr.read(), most * 1024


def limited(size):
    """Data that no file is behind: heap, private mappings, stacks of threads."""
    return lambda: resource.setrlimit(resource.RLIMIT_DATA, (size, size))


@unittest.skipIf(SANITIZED, "sanitizers take more by themselves")
class HostileFiles(Case):
    def file(self, make, *args):
        path = self.dir / "in.tracy"
        make(path, *args)
        self.assertLess(os.path.getsize(path), MIB)
        return path

    def read_by_all(self, path, status=0):
        for command in COMMANDS:
            with self.subTest(command=command):
                result = run(*command, path, preexec_fn=limited(320 * MIB))
                self.assertEqual(result.returncode, status, result.stderr)
        with self.subTest("--memory"):
            result = run("report", path, "--memory", "48M", preexec_fn=limited(160 * MIB))
            self.assertEqual(result.returncode, status, result.stderr)
        return result

    def refused_by_all(self, path, text):
        self.assertRegex(self.read_by_all(path, 3).stderr, rf"^tidemark: {path}: .*{text}")

    def test_one_string(self):
        self.refused_by_all(self.file(hostilefile.one_string, 1024 * MIB),
                            r"string .* offset \d+ .*: at most 67108864 are taken|"
                            r"offset \d+ .*; at most 67108864 are taken")

    def test_strings(self):
        self.read_by_all(self.file(hostilefile.many_strings, 400 * MIB, 60000))

    def test_strings_of_filters(self):
        path = self.file(hostilefile.many_strings, 400 * MIB, 60000)
        for command in (("csvexport", path), ("csvexport", "-m", path),
                        ("update", "-r", path, "/dev/null"), ("update", path, "/dev/null")):
            with self.subTest(command=command):
                result = run(*command, preexec_fn=limited(320 * MIB))
                self.assertEqual(result.returncode, 0, result.stderr)

    def within(self, size, *command):
        result = run(*command, preexec_fn=limited(size))
        self.assertEqual(result.returncode, 0, (command, result.stderr))

    def test_dump_and_merge(self):
        """Texts, facts and what pointers stand for."""
        for make, args in ((hostilefile.distinct_strings, (400 * MIB, 60000)),
                           (hostilefile.app_infos, (200 * MIB,)),
                           (hostilefile.equal_callstacks, (16_000_000,))):
            with self.subTest(make.__name__):
                path = self.file(make, *args)
                self.within(160 * MIB, "dump", path, "--section", "trace,memory")
                self.within(160 * MIB, "merge", "-f", self.dir / "out.tracy", path)

    def test_keys(self):
        """Hash tables that grow with the file."""
        path = self.dir / "in.tracy"
        hostilefile.pointers(path, 4_000_000)
        self.within(80 * MIB, "report", path, "--memory", "48M")
        self.within(160 * MIB, "info", path)
        self.within(160 * MIB, "update", "-r", path, "/dev/null")
        self.within(160 * MIB, "merge", "-f", self.dir / "out.tracy", path)

    def test_long_text_in_a_dump(self):
        """Its length and hash stand for it."""
        path = self.file(hostilefile.long_frame, 60 * MIB)
        for form in "text", "jsonl":
            with self.subTest(form):
                result = run("dump", path, "--section", "callstack-frames", "--format", form,
                             preexec_fn=limited(160 * MIB))
                self.assertEqual(result.returncode, 0, result.stderr)
                self.assertEqual(len(re.findall(rf'function_bytes"?[:=] ?{60 * MIB}\D',
                                                result.stdout)), 255)
                self.assertLess(len(result.stdout), MIB)

    def test_short_strings(self):
        self.read_by_all(self.file(hostilefile.many_strings, 250 * MIB, 4))

    def test_application_info(self):
        self.read_by_all(self.file(hostilefile.app_infos, 800 * MIB))

    def test_frames(self):
        self.read_by_all(self.file(hostilefile.frames, 350 * MIB))

    def test_call_stacks(self):
        self.read_by_all(self.file(hostilefile.deep_callstacks, 120 * MIB))

    def test_events(self):
        """Millions of blocks that are all live, allocated in one nanosecond."""
        path = self.file(hostilefile.events, 8_000_000)
        self.read_by_all(path)
        self.within(160 * MIB, "report", path, "--memory", "48M", "--by", "zone")

    def test_equal_call_stacks(self):
        """As many as there may be: each has a site."""
        path = self.file(hostilefile.equal_callstacks, 16_000_000)
        self.within(160 * MIB, "report", path, "--memory", "48M", "--by", "function")

    def test_sites(self):
        """Each call stack has a site, a row and counters of its own."""
        path = self.dir / "in.tracy"
        hostilefile.distinct_sites(path, 400_000)
        self.within(160 * MIB, "report", path, "--memory", "48M", "--by", "callstack")
        self.within(256 * MIB, "report", path)

    def test_windows(self):
        """The decompressor's windows of many streams, each filled."""
        path = self.file(hostilefile.windows, 600 * MIB, 200)
        for command in COMMANDS:
            result = run(*command, path)
            self.assertEqual(result.returncode, 3, result.stderr)
            self.assertRegex(result.stderr, rf"{path}: block \d+ \(file offset \d+, .*windows of all "
                             "streams take too much memory together")

    def test_mcp(self):
        path = self.file(hostilefile.many_strings, 400 * MIB, 60000)
        calls = [{"jsonrpc": "2.0", "id": 1, "method": "initialize",
                  "params": {"protocolVersion": "2025-06-18", "capabilities": {},
                             "clientInfo": {"name": "t", "version": "1"}}},
                 {"jsonrpc": "2.0", "method": "notifications/initialized"},
                 {"jsonrpc": "2.0", "id": 2, "method": "tools/call",
                  "params": {"name": "report", "arguments": {"trace": str(path)}}}]
        text = "".join(json.dumps(call) + "\n" for call in calls)
        result = subprocess.run([TIDEMARK, "mcp", "--memory", "256M"], input=text, text=True,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, timeout=LIMIT,
                                preexec_fn=limited(256 * MIB))
        self.assertEqual(result.returncode, 0, result.stderr)
        answer = json.loads(result.stdout.splitlines()[-1])
        self.assertFalse(answer["result"].get("isError"), answer)

    def questions(self, path, asked=QUESTIONS):
        for question in asked:
            yield question, [{"FILE": path, "OUT": self.dir / "out"}.get(word, word)
                             for word in question.split()]

    def test_memory_of_every_question(self):
        """--memory is a bound: an answer within it, or an error that names it and no output."""
        path = self.dir / "in.tracy"
        out = self.dir / "out"
        hostilefile.distinct_sites(path, 60_000)
        refused = set()
        for question, command in self.questions(path, LARGE):
            with self.subTest(question):
                status, error, most = measured(*command, "--memory", "64M")
                self.assertLessEqual(most, 64 * MIB)
                self.assertIn(status, (0, 4), error)
                if status == 4:
                    refused.add(question)
                    self.assertRegex(error, r"^tidemark: out of memory for .*: --memory allows "
                                            r"64 MiB; allow more\n$")
                    self.assertEqual(sorted(self.dir.iterdir()), [path])
                out.unlink(missing_ok=True)
        self.assertTrue(refused)
        self.assertFalse(refused & {"report FILE", "info FILE", "verify FILE"})

    def test_memory_runs_out_anywhere(self):
        """Wherever an allocation fails, it is an error."""
        path = self.dir / "in.tracy"
        hostilefile.distinct_sites(path, 20_000)
        for question, command in self.questions(path, LARGE):
            for size in range(4, 34, 10):
                with self.subTest(question, size=size):
                    result = run(*command, preexec_fn=limited(size * MIB))
                    self.assertIn(result.returncode, (0, 4), result.stderr)
                    self.assertIn(result.stderr.count("\n"), (0, 1))

    def test_memory_of_a_small_trace(self):
        path = TRACES / "v0.14.0" / "memscen.tracy"
        for question, command in self.questions(path):
            with self.subTest(question):
                plain, bounded = run(*command), run(*command, "--memory", "48M")
                self.assertEqual((bounded.returncode, bounded.stdout, bounded.stderr),
                                 (plain.returncode, plain.stdout, plain.stderr))

    def test_every_question_is_asked(self):
        commands = re.findall(r"^   ([a-z]+) ", run("--help").stdout, re.M)
        self.assertIn("report", commands)
        bounded = {c for c in commands if "take at most so much memory" in run(c, "--help").stdout}
        # mcp has a test of its own below; view is report --format html, at a path that differs.
        self.assertEqual(bounded - {"mcp", "view"}, {q.split()[0] for q in QUESTIONS})

    def test_memory_of_mcp(self):
        """What earlier questions left open makes room for the next one; one that has no room alone
        fails, and the session continues."""
        path = self.dir / "in.tracy"
        larger = self.dir / "larger.tracy"
        hostilefile.distinct_sites(path, 10_000)
        hostilefile.distinct_sites(larger, 60_000)
        with Client("--memory", "64M") as client:
            for tool in ("leaks", "tree", "peak", "report", "faults"):
                self.assertFalse(client.call(tool, trace=str(path))["isError"], tool)
            self.assertRegex(client.refusal("faults", trace=str(larger)),
                             "out of memory for .*: --memory allows 64 MiB; allow more")
            self.assertFalse(client.call("faults", trace=str(path))["isError"])

    def test_in_a_group(self):
        """The kernel's own bound, file pages included: it writes them out."""
        path = self.file(hostilefile.many_strings, 400 * MIB, 60000)
        try:
            group = MemoryGroup(300 * MIB)
        except NoGroups as e:
            self.skipTest(str(e))
        with group:
            for command in (*COMMANDS, ("info",)):
                result = subprocess.run(group.command(TIDEMARK, *command, str(path)),
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                        timeout=LIMIT)
                self.assertEqual(result.returncode, 0, (command, result.stderr))


if __name__ == "__main__":
    unittest.main()
