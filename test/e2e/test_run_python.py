"""`tidemark run` of Python programs: functions of Python in call stacks."""

import collections
import json
import os
import pathlib
import re
import signal
import subprocess
import unittest

from test_listen import ListenCase
from test_run import RunCase, record
from tools import report, run

COUNT = 2000  # of made functions
# Of Debian 12 to 14, and others that this variable names.
PYTHONS = [p for p in [pathlib.Path("/usr/bin/python3.11"), pathlib.Path("/usr/bin/python3.13"),
                       pathlib.Path("/usr/bin/python3.14"),
                       *map(pathlib.Path, os.environ.get("TEST_PYTHONS", "").split())]
           if p.exists()]
NO_PYTHON = "there is no CPython 3.11, 3.13 or 3.14 of the system"

# Allocates on many kinds of lines, then prints what tracemalloc counts of each. Blocks of up to 512
# bytes may come from free lists, whose contents differ between two runs.
LINES = """
import os, sys, threading
traced = len(sys.argv) > 1
if traced:
    import tracemalloc
keep = []
class Thing:
    def __init__(self, n):
        self.data = bytearray(n)
        self.names = {str(i): i for i in range(n % 50)}
    def grow(self):
        for i in range(200):
            keep.append("x" * (i + 100))
def numbers(n):
    for i in range(n):
        keep.append(bytearray(700 + i))
        yield bytes(600 + i)
def deep(n):
    if n == 0:
        return bytearray(4000)
    return deep(n - 1)
def cells(n):
    inner = lambda m: [n] * m
    return inner(1000)
async def later(n):
    return bytearray(n)
def turns():
    for i in range(20):
        keep.append(bytearray(3100))
        keep.append(bytearray(3200))
        keep.extend(map(bytearray, (3300, 3400)))
        keep.append(bytearray(3500)); exec("keep.append(bytearray(3600))")
def drive(c):
    try:
        c.send(None)
    except StopIteration as end:
        return end.value
def work():
    keep.extend(Thing(i) for i in range(300, 340))
    keep[-1].grow()
    keep.extend(list(numbers(30)))
    keep.append(deep(25))
    keep.append(cells(3))
    keep.append(drive(later(2500)))
    turns()
    keep.append(
        [bytes(700),
         bytes(800)])
    keep.append(sorted(range(500), key=lambda i: -i))
    keep.append(eval("bytearray(1234)"))
def main():
    work()
    t = threading.Thread(target=work)
    t.start()
    t.join()
if traced:
    tracemalloc.start(1)
main()
if traced:
    import collections
    lines = collections.Counter()
    for trace in tracemalloc.take_snapshot().traces:
        if trace.traceback[0].filename == __file__ and trace.size > 512:
            lines[f"{trace.traceback[0].lineno} {trace.size}"] += 1
    import json
    print(json.dumps(lines), flush=True)
os._exit(0)
"""

# The same for objects that Python takes from its own arenas, without free lists: 3.14 has one for
# short integers.
SMALL = """
import os, sys
traced = len(sys.argv) > 1
if traced:
    import tracemalloc
keep = [None] * 1000
numbers = list(range(1000))
class Slotted:
    __slots__ = "a", "b"
def text(i):
    return "x" * (i - 200)
def work():
    for i in numbers[:100]:
        keep[i] = bytes(i + 2)
    for i in numbers[100:200]:
        keep[i] = object()
    for i in numbers[200:300]:
        keep[i] = Slotted()
    for i in numbers[300:400]:
        keep[i] = text(i)
    for i in numbers[400:500]:
        keep[i] = {None}
    for i in numbers[500:600]:
        keep[i] = (1 << 40) + i
    for i in numbers[600:700]:
        keep[i] = bytearray(i % 200 + 1)
def main():
    work()
if traced:
    tracemalloc.start(1)
main()
if traced:
    import collections
    lines = collections.Counter()
    for trace in tracemalloc.take_snapshot().traces:
        if trace.traceback[0].filename == __file__:
            lines[f"{trace.traceback[0].lineno} {trace.size}"] += 1
    import json
    print(json.dumps(lines), flush=True)
os._exit(0)
"""

# Each level has many native frames: an activation, and the functions of C that call it.
LEVELS = """
import os, sys
keep = []
def through_c(n):
    return sorted([n], key=lambda n: through_c(n - 1)) if n else keep.append(bytearray(70000))
def level(n):
    return level(n - 1) if n else keep.append(bytearray(80000))
through_c(15)
level(100)
os._exit(0)
"""

# Recursion, also through C, whose depth changes: below and beyond the depth of call stacks.
DEPTHS = """
import json, os, random, sys
chance = random.Random(7)
keep, told = [], []
def chain():
    frame, names = sys._getframe(1), []
    while frame and len(names) < 64:
        names.append([frame.f_code.co_name, frame.f_lineno])
        frame = frame.f_back
    told.append(names)
def leaf():
    for i in range(2):
        keep.append(bytearray(70000 + len(keep))), chain()
        keep.append(bytearray(70000 + len(keep))), chain()
def down(n, by_c):
    if n and chance.random() < .05:
        keep.append(bytearray(70000 + len(keep))), chain()
        down(n // 3, by_c)
    if not n:
        return leaf()
    return sorted([n], key=lambda n: down(n - 1, by_c)) if by_c and n % by_c == 0 else down(n - 1, by_c)
for i in range(40):
    down(chance.choice((3, 40, 61, 62, 63, 64, 90, 210, 250, 300)) + i % 3, chance.choice((0, 0, 2, 7)))
print(json.dumps(told), flush=True)
os._exit(0)
"""

# A dict that grows in a thread of a service, until it is ended.
# Grows for as long as the start took: a shorter growth is in too few of the trace's parts to be judged.
GROWING = """
import json, os, signal, threading, time
began = int(open("/proc/self/stat").read().rsplit(")", 1)[1].split()[19]) / os.sysconf("SC_CLK_TCK")
cache = {}
def load(key):
    page = json.loads('["' + chr(233) * 700 + '"]')
    return page, bytearray(9000)
def lookup(key):
    if key not in cache:
        cache[key] = load(key)
    return cache[key]
def serve():
    start = time.clock_gettime(time.CLOCK_BOOTTIME) - began
    for i in range(2000):
        lookup(i)
        bytearray(5000)
        if i % 50 == 0:
            time.sleep(start / 40)
    os.kill(os.getpid(), signal.SIGTERM)
threading.Thread(target=serve).start()
signal.pause()
"""

MADE = """
import os, sys
keep = []
for i in range(int(sys.argv[1])):
    space = {}
    lines = chr(10) * (i % 100)
    exec(compile(lines + f"def f{i}():" + chr(10) + " return bytearray(2000)", "made", "exec"), space)
    keep.append(space[f"f{i}"]())
os._exit(0)
"""

# `read` and `main` are parts of names in the interpreter and its libraries, too.
NESTED = """
import os
keep = []
def read(n):
    keep.append(bytearray(3000 + n))
    if n % 2:
        pass
    keep.append(bytearray(5000 + n))
class Reader:
    def all(self):
        for n in range(10):
            read(n)
def main():
    Reader().all()
main()
os._exit(0)
"""

LIBRARY = next(pathlib.Path("/usr/lib").glob("*-linux-gnu/libpython3.1[134].so.1.0"), None)
NO_LIBRARY = "there is no libpython3.11.so, libpython3.13.so or libpython3.14.so"
HOST = r"""
#include <dlfcn.h>
int main(int count, char **argv)
{
    void *library = dlopen(argv[1], RTLD_NOW | RTLD_GLOBAL);
    if (!library)
        return 1;
    ((void (*)(void))dlsym(library, "Py_Initialize"))();
    return -((int (*)(const char *))dlsym(library, "PyRun_SimpleString"))(argv[2]);
}
"""
FREED = """
for i in range(100, 200):
    space = {}
    exec(compile(f"def f{i}(n): return bytearray(n)", f"file{i}", "exec"), space)
    space[f"f{i}"](7000)
    space.clear()
"""


@unittest.skipUnless(LIBRARY, NO_LIBRARY)
class Embedded(RunCase):
    def test_a_library_that_dlopen_loads(self):
        """Its function for freed code objects is replaced only after the loader relocated it: a
        freed function's address lends its name to no other."""
        source = self.dir / "host.c"
        source.write_text(HOST)
        host = self.dir / "host"
        subprocess.run(["gcc", "-o", host, source], check=True)
        result = record(self.dir, host, LIBRARY, FREED, options=["-f"])
        self.assertEqual(result.returncode, 0, result.stderr)
        sites = report(self.trace, "--limit", "0")["sites"]
        made = [s for s in sites if re.fullmatch(r"f\d+", s["function"] or "")]
        self.assertEqual(sorted(s["function"] for s in made), [f"f{i}" for i in range(100, 200)])
        self.assertEqual({s["count"] for s in made}, {1})


@unittest.skipUnless(PYTHONS, NO_PYTHON)
class Python(RunCase):
    def script(self, text):
        path = self.dir / "script.py"
        path.write_text(text)
        return path

    def sites(self, trace=None):
        return report(trace or self.trace, "--limit", "0")["sites"]

    def test_lines_are_those_of_tracemalloc(self):
        script = self.script(LINES)
        for python in PYTHONS:
            with self.subTest(python):
                self.compare_lines(python, script, LINES, "513:")

    def test_lines_of_long_code(self):
        """Of a module and a function whose lines run in any order, in turns."""
        lines = ["import sys", "keep = []"]
        def allocate(indent, begin, end):
            for turn in range(begin, end):
                lines.extend([""] * (turn * 7919 % 90))
                lines.append(f"{indent}if turn == {turn}:")
                lines.append(f"{indent}    keep.append(bytearray({4000 + len(lines) + 1}))")
        lines.append("def function(turn):")
        allocate("    ", 0, 150)
        lines.append("for turn in sorted(range(300), key=lambda n: n * n * 31 % 307):")
        lines.append("    function(turn)")
        allocate("    ", 150, 300)
        script = self.script("\n".join(lines))
        for python in PYTHONS:
            with self.subTest(python):
                result = record(self.dir, python, script, options=["-f"])
                self.assertEqual(result.returncode, 0, result.stderr)
                blocks = run("find", self.trace, "0x0-0xffffffffffff", "--size", "4000:40000",
                             "--limit", "0", "--format", "json").stdout
                inner = [(b["size"] - 4001, b["callstack"][0])
                         for b in json.loads(blocks)["allocations"]]
                found = [(size, frame["line"]) for size, frame in inner
                         if frame["file"] == str(script)
                         and lines[frame["line"] - 1].strip().startswith("keep.append(bytearray")]
                self.assertEqual(len(found), 300)
                self.assertEqual([line for _, line in found], [size for size, _ in found])

    def test_objects_are_those_of_tracemalloc(self):
        script = self.script(SMALL)
        for python in PYTHONS:
            with self.subTest(python):
                self.compare_lines(python, script, SMALL, "1:512")

    def compare_lines(self, python, script, text, sizes):
        traced = subprocess.run([python, script, "traced"], check=True, capture_output=True)
        expected = json.loads(traced.stdout)
        result = record(self.dir, python, script, options=["-f", "--python-allocators"])
        self.assertEqual(result.returncode, 0, result.stderr)
        blocks = run("find", self.trace, "0x0-0xffffffffffff", "--size", sizes, "--limit", "0",
                     "--format", "json")
        found = collections.Counter()
        for block in json.loads(blocks.stdout)["allocations"]:
            inner = block["callstack"][0]
            if block["freed_ns"] is None and inner["file"] == str(script):
                found[f"{inner['line']} {block['size']}"] += 1
        self.assertGreater(len(expected), 30)
        for key, count in expected.items():
            line = int(key.split()[0])
            if line <= text.splitlines().index("def main():"):
                self.assertEqual(found[key], count, (key, text.splitlines()[line - 1]))
        self.assert_sound()

    def test_native_frames_of_the_interpreter_do_not_count(self):
        """A call stack is cut if it has too many frames without those that Python's replace."""
        script = self.script(LEVELS)
        for python in PYTHONS:
            with self.subTest(python):
                result = record(self.dir, python, script, options=["-f"])
                self.assertEqual(result.returncode, 0, result.stderr)
                blocks = run("find", self.trace, "0x0-0xffffffffffff", "--size", "70001:80001",
                             "--limit", "0", "--format", "json").stdout
                names = {b["size"]: [f["function"].split(".")[-1] for f in b["callstack"]]
                         for b in json.loads(blocks)["allocations"]}
                chain = ["through_c", *["<lambda>", "through_c"] * 15, "<module>"]
                self.assertEqual(names[70001][:len(chain)], chain)
                self.assertEqual(names[80001], [*["level"] * 64, "[cut at 64 frames]"])

    def test_recursion_of_any_depth(self):
        """Call stacks have the frames and lines that Python itself tells."""
        script = self.script(DEPTHS)
        for python in PYTHONS:
            with self.subTest(python):
                result = record(self.dir, python, script, options=["-f"])
                self.assertEqual(result.returncode, 0, result.stderr)
                told = json.loads(result.stdout)
                blocks = run("find", self.trace, "0x0-0xffffffffffff", "--size",
                             f"70001:{70001 + len(told)}", "--limit", "0", "--format", "json").stdout
                found = {b["size"] - 70001: [[f["function"].split(".")[-1], f["line"]]
                                             for f in b["callstack"] if f["file"] == str(script)]
                         for b in json.loads(blocks)["allocations"]}
                self.assertEqual(len(found), len(told))
                for i, chain in enumerate(told):
                    self.assertEqual(found[i], chain, i)
                self.assert_sound()

    def test_stacks_that_are_not_cut(self):
        """They end in a frame that has callers in others: _start is one of the interpreter's."""
        text = LEVELS.replace("through_c(15)", "").replace("level(100)", "level(100)\nlevel(100)")
        result = record(self.dir, PYTHONS[0], self.script(text), options=["-f", "--depth", "200"])
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(report(self.trace)["callstacks"]["cut"], 0)
        self.assertNotIn("cut at", result.stderr)

    def test_a_freed_function_lends_its_name_to_no_other(self):
        script = self.script(MADE)
        for python in PYTHONS:
            with self.subTest(python):
                result = record(self.dir, python, script, COUNT, options=["-f"])
                self.assertEqual(result.returncode, 0, result.stderr)
                self.check_made()

    def check_made(self):
        made = {s["function"]: s for s in self.sites() if s["file"] == "made" and s["live_count"]}
        self.assertEqual(len(made), COUNT)
        for i in range(COUNT):
            site = made[f"f{i}"]
            self.assertEqual((site["count"], site["line"]), (1, i % 100 + 2))

    def annotate(self, trace, function, *options):
        result = run("annotate", trace, function, *options)
        self.assertEqual(result.returncode, 0, result.stderr)
        return result.stdout

    def lines(self, trace, function):
        """(text, count, bytes) by line."""
        document = json.loads(self.annotate(trace, function, "--format", "json"))
        self.assertIsNone(document["function"]["address"])
        return {i["source"]["line"]: (i["source"]["text"], *(
            (i["call"]["count"], i["call"]["bytes"]) if i["call"] else (0, 0)))
                for i in document["instructions"]}

    def test_an_import_is_the_statement(self):
        """Not the functions of CPython that find, read and run the module."""
        (self.dir / "wide.py").write_text("".join(f"def f{i}(a, b={i}):\n    return '{i}' * {i + 1000}\n"
                                                  for i in range(3000)))
        script = self.script("import sys\nimport wide\nwide.f1(2)\n")
        for python in PYTHONS:
            with self.subTest(python):
                result = record(self.dir, python, script, options=["-f", "--python-allocators"])
                self.assertEqual(result.returncode, 0, result.stderr)
                sites = self.sites()
                self.assertGreater(sum(s["bytes"] for s in sites
                                       if (s["file"], s["line"]) == (str(script), 2)), 1 << 20)
                # What the interpreter itself imports, no statement does.
                own = [s for s in sites if (s["file"] or "").startswith("<frozen importlib.")]
                self.assertTrue(own)
                self.assertFalse([f for s in own for f in s["callstack"] if f["file"] == str(script)])
                self.assertFalse([s for s in sites if s["function"] == "__libc_start_call_main"])
                why = run("report", self.trace, "--why-site").stdout
                self.assertRegex(why, r"  <module>: site: the program's innermost function\n")
                self.assertNotIn("generated code", why)

    def test_a_cache_that_grows_in_a_thread_leads(self):
        """What CPython's library allocates has the site of a line of the script, too."""
        script = self.script(GROWING)
        line, = (i for i, text in enumerate(GROWING.splitlines(), 1) if "bytearray(9000)" in text)
        for python in PYTHONS:
            with self.subTest(python):
                result = record(self.dir, python, script, options=["-f"])
                self.assertEqual(result.returncode, 128 + signal.SIGTERM, result.stderr)
                leaks = json.loads(run("report", "--leaks", self.trace, "--format", "json").stdout)
                first, second = leaks["leaks"][:2]
                self.assertEqual((first["kind"], first["live_count"]), ("growing", 2000))
                self.assertEqual((first["function"], first["file"], first["line"]),
                                 ("load", str(script), line))
                self.assertEqual((second["function"], second["file"]), ("load", str(script)))
                self.assertNotEqual(second["line"], line)

    def test_annotate_shows_source_lines(self):
        """With their text once the trace has the file; whole names before parts of others."""
        script = self.script(NESTED)
        os.utime(script, (1, 1))
        result = record(self.dir, PYTHONS[0], script)
        self.assertEqual(result.returncode, 0, result.stderr)
        bare, full = self.dir / "out.tracy", self.dir / "full.tracy"
        self.assertEqual(self.lines(bare, "read"), {5: (None, 10, 30055), 8: (None, 10, 50055)})
        self.assertIn("`tidemark update -c` adds it", self.annotate(bare, "read"))
        self.assertEqual(run("update", "-c", bare, full).returncode, 0)
        self.assertEqual(self.lines(full, "read"), {
            5: ("    keep.append(bytearray(3000 + n))", 10, 30055), 6: ("    if n % 2:", 0, 0),
            7: ("        pass", 0, 0), 8: ("    keep.append(bytearray(5000 + n))", 10, 50055)})
        self.assertEqual(self.lines(full, "Reader.all"), {12: ("            read(n)", 20, 80110)})
        self.assertRegex(self.annotate(full, "Reader.all"),
                         r"\n +20 +78\.2 KiB +20 +78\.2 KiB +12              read\(n\)\n")
        result = run("annotate", full, "main")  # of Python's own library, too
        self.assertEqual(result.returncode, 1)
        self.assertIn("choose one by its FILE:FUNCTION", result.stderr)
        for name in (f"{script.name}:main", f"{script}:main"):
            self.assertEqual(self.lines(full, name)[14][1:], (20, 80110))

    def test_without_python_frames(self):
        script = self.script(MADE)
        result = record(self.dir, PYTHONS[0], script, 100, options=["--no-python"])
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual([s for s in self.sites() if s["file"] == "made"], [])


@unittest.skipUnless(PYTHONS, NO_PYTHON)
class Served(ListenCase):
    def made(self, trace):
        return sorted((s["function"], s["line"], s["count"])
                      for s in report(trace, "--limit", "0")["sites"] if s["file"] == "made")

    def test_servers_get_the_same_functions(self):
        script = self.dir / "script.py"
        script.write_text(MADE)
        process, port = self.start(PYTHONS[0], script, 50, options=["--no-exit"])
        result = self.capture(port)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.finish(process)
        self.assertGreaterEqual(len(self.made(self.own)), 50)
        self.assertEqual(self.made(self.served), self.made(self.own))


if __name__ == "__main__":
    unittest.main()
