"""`tidemark run` of Python programs: threads without the GIL, processes, subinterpreters, hosts."""

import collections
import json
import subprocess
import unittest

from test_run import RunCase, compiled, record
from test_run_python import LIBRARY, NO_LIBRARY, NO_PYTHON, PYTHONS
from tools import run

SIZE = 70001  # of the blocks that the tests look at
# Called through ctypes.CDLL, which releases the GIL.
BLOCKS = r"""
#include <stdlib.h>
#include <unistd.h>
void *block(void) { return malloc(70001); }
void calls_back(void (*function)(int), int n)
{
    function(n);
    __asm__ volatile("");
}
void calls_again(void (*function)(int), int n)
{
    function(n);
    __asm__ volatile("nop");
}
void churn(void)
{
    for (;;) {
        volatile char *p = malloc(70001);
        p[0] = 1;
        free((void *)p);
        usleep(100);
    }
}
"""
LOAD = """
import ctypes, os, sys, threading
blocks = ctypes.CDLL(sys.argv[1])
"""
RELEASED = LOAD + """
def first():
    return blocks.block()
def second():
    return blocks.block()
def calls():
    first()
    [second() for i in range(2)]
def work(n):
    for i in range(n):
        bytearray(5000)
        calls()
def generator():
    yield first()
threads = [threading.Thread(target=work, args=(10,)) for i in range(3)]
for t in threads:
    t.start()
for t in threads:
    t.join()
work(10)
next(generator())
"""
DAEMONS = LOAD + """
import time
def churning():
    bytearray(5000)
    started.release()
    blocks.churn()
started = threading.Semaphore(0)
for i in range(3):
    threading.Thread(target=churning, daemon=True).start()
for i in range(3):
    started.acquire()
"""
FORK = LOAD + """
def child():
    bytearray(5000)  # with the GIL, as until then the child's own state is not known
    blocks.block()
def waits():
    bytearray(5000)
    event.wait()
event = threading.Event()
t = threading.Thread(target=waits)
t.start()
bytearray(5000)
if os.fork() == 0:
    child()
    os._exit(0)
os.wait()
event.set()
t.join()
"""
MULTI = LOAD + """
import multiprocessing
def job(n):
    blocks.block()
if __name__ == "__main__":
    context = multiprocessing.get_context(sys.argv[2])
    p = context.Process(target=job, args=(1,))
    p.start()
    p.join()
    sys.exit(p.exitcode)
"""
SUB = LOAD + """
bytearray(5000)
try:
    import _xxsubinterpreters as sub
except ImportError:
    import _interpreters as sub
sub.run_string(sub.create(), "h = bytearray(70000)")
def after():
    return bytearray(70001)
after()
"""
# Through ctypes.PyDLL, which keeps the GIL: Python and C in turns, as deep as the argument says.
HYBRID = """
import ctypes, os, sys
blocks = ctypes.PyDLL(sys.argv[1])
keep = []
def inner(n):
    if n:
        outer(n - 1)
    else:
        keep.append(bytearray(70000))
callback = ctypes.PYFUNCTYPE(None, ctypes.c_int)(inner)
def outer(n):
    blocks.calls_back(callback, n)
outer(3)
os._exit(0)
"""
ONE_CALL = LOAD + """
keep, block = [], ctypes.PyDLL(sys.argv[1]).block
for i in range(20):
    for call in bytearray, block:
        keep.append(call(70000))
os._exit(0)
"""
ONE_CALLBACK = LOAD + """
keep = []
@ctypes.PYFUNCTYPE(None, ctypes.c_int)
def inner(n):
    keep.append(bytearray(70000))
held = ctypes.PyDLL(sys.argv[1])
for i in range(20):
    for call in held.calls_back, held.calls_again:
        call(inner, 1)
os._exit(0)
"""
GREENLETS = LOAD + """
import greenlet
def inner():
    other.switch()
    keep.append(bytearray(70000))
def another():
    keep.append(bytearray(70000))
    one.switch()
keep = []
one, other = greenlet.greenlet(inner), greenlet.greenlet(another)
def switches():
    one.switch()
switches()
os._exit(0)
"""
# Linked with libpython, and with a thread of C++'s kind: it has a thread state only at times.
HOST = r"""
#include <pthread.h>
#include <stdlib.h>
extern void Py_Initialize(void);
extern int PyRun_SimpleString(const char *);
extern int Py_FinalizeEx(void);
extern int PyGILState_Ensure(void);
extern void PyGILState_Release(int);
extern void *PyEval_SaveThread(void);
extern void PyEval_RestoreThread(void *);
static void *calls(void *code)
{
    for (int i = 0; i < 3; i++) {
        int held = PyGILState_Ensure();
        PyRun_SimpleString(code);
        PyGILState_Release(held);
        free(malloc(70002));
    }
    return NULL;
}
int main(int count, char **argv)
{
    pthread_t thread;
    (void)count;
    Py_Initialize();
    int status = PyRun_SimpleString(argv[1]);
    void *state = PyEval_SaveThread();
    pthread_create(&thread, NULL, calls, argv[1]);
    pthread_join(thread, NULL);
    PyEval_RestoreThread(state);
    return status || Py_FinalizeEx();
}
"""


@unittest.skipUnless(PYTHONS, NO_PYTHON)
class Threads(RunCase):
    def setUp(self):
        super().setUp()
        source = self.dir / "blocks.c"
        source.write_text(BLOCKS)
        self.blocks = compiled(self.dir, "blocks.so", ["-shared", "-fPIC"], source)

    def play(self, text, *arguments, python=None, options=()):
        script = self.dir / "script.py"
        script.write_text(text)
        result = record(self.dir, python or PYTHONS[0], script, self.blocks, *arguments,
                        options=["-f", *options])
        self.assertEqual(result.returncode, 0, result.stderr)
        return result

    def functions(self, trace=None, size=SIZE):
        """How many blocks each chain of Python functions has, innermost first."""
        blocks = run("find", trace or self.trace, "0x0-0xffffffffffff", "--size", f"{size}:{size}",
                     "--limit", "0", "--format", "json")
        chains = collections.Counter()
        for block in json.loads(blocks.stdout)["allocations"]:
            chains[" ".join(f"{f['function']}:{f['line']}" for f in block["callstack"]
                            if f["file"] and f["file"].endswith(("script.py", "<string>")))] += 1
        return chains

    def facts(self):
        info = json.loads(run("info", self.trace, "--format", "json").stdout)
        return {f["key"]: f["value"] for f in info["facts"]}

    def test_threads_that_released_the_gil(self):
        lines = RELEASED.splitlines()
        at = {name: lines.index(text) + 1 for name, text in {
            "first": "    return blocks.block()", "calls": "    first()",
            "comprehension": "    [second() for i in range(2)]", "work": "        calls()",
            "generator": "    yield first()"}.items()}
        for python in PYTHONS:
            with self.subTest(python):
                result = self.play(RELEASED, python=python)
                self.check_released(self.functions(), at)
                self.assertNotIn("GIL", result.stderr)
                self.assert_sound()

    def check_released(self, chains, at):
        counts = collections.Counter()
        for chain, count in chains.items():
            names = [f.split(":")[0].split(".")[-1] for f in chain.split()]
            lines = [int(f.split(":")[1]) for f in chain.split()]
            names = [n for n in names if n != "<listcomp>"]
            counts[" ".join(n for n in names if n != "<module>")] += count
            if names[:2] == ["first", "calls"]:
                self.assertEqual(lines[:3], [at["first"], at["calls"], at["work"]])
            elif names[0] == "second":
                self.assertEqual(lines[:2], [at["first"] + 2, at["comprehension"]])
        self.assertEqual(counts, {"first calls work": 40, "second calls work": 80,
                                  "first generator": 1})

    def test_daemon_threads_at_the_end(self):
        """The interpreter frees the states of threads that go on to allocate."""
        for python in PYTHONS:
            with self.subTest(python):
                self.play(DAEMONS, python=python)
                chains = self.functions()
                self.assertEqual({c.split(":")[0] for c in chains} - {""}, {"churning"})

    def test_a_child_of_fork_with_threads(self):
        for python in PYTHONS:
            with self.subTest(python):
                self.play(FORK, python=python, options=["--follow-fork", "--min-lifetime", "0"])
                child, = self.dir.glob("out.[0-9]*.tracy")
                chain, = self.functions(child)
                self.assertRegex(chain, "^child:")
                child.unlink()

    def test_multiprocessing(self):
        for how in ("fork", "spawn"):
            with self.subTest(how):
                self.play(MULTI, how, options=["--follow-fork", "--min-lifetime", "0"])
                children = list(self.dir.glob("out.[0-9]*.tracy"))
                chains = sum((self.functions(c) for c in children), collections.Counter())
                chain, = chains
                self.assertRegex(chain, "^job:")
                for c in children:
                    c.unlink()

    def test_subinterpreters_are_refused(self):
        for python in PYTHONS:
            with self.subTest(python):
                result = self.play(SUB, python=python)
                self.assertIn("those of subinterpreters are not read", result.stderr)
                self.assertGreater(int(self.facts()["python_subinterpreters"]), 0)
                for chain in self.functions():
                    self.assertNotIn("<string>", chain)
                chain, = self.functions(size=SIZE + 1)
                self.assertRegex(chain, "^after:")

    def test_python_and_c_in_turns(self):
        turn = "inner calls_back outer"
        for python in PYTHONS:
            with self.subTest(python):
                self.play(HYBRID, python=python, options=["--depth", "200"])
                names, = self.stacks()
                self.assertEqual(" ".join(n for n in names if n in turn.split()),
                                 " ".join([turn] * 4))

    def stacks(self):
        """The functions of each block's stack, innermost first."""
        blocks = run("find", self.trace, "0x0-0xffffffffffff", "--size", f"{SIZE}:{SIZE}",
                     "--limit", "0", "--format", "json")
        return [[f["function"] for f in block["callstack"]]
                for block in json.loads(blocks.stdout)["allocations"]]

    def test_one_call_of_python_and_c_in_turns(self):
        """The same instruction: only what runs within it differs."""
        for python in PYTHONS:
            with self.subTest(python):
                self.play(ONE_CALL, python=python)
                self.assertEqual(collections.Counter(s[0] for s in self.stacks()),
                                 {"block": 20, "<module>": 20})

    def test_one_callback_of_two_functions_in_turns(self):
        """The same Python frames: only what they are called through differs."""
        for python in PYTHONS:
            with self.subTest(python):
                self.play(ONE_CALLBACK, python=python)
                self.assertEqual(collections.Counter(f for s in self.stacks() for f in s
                                                     if f.startswith("calls_")),
                                 {"calls_back": 20, "calls_again": 20})

    def test_greenlets(self):
        if subprocess.run([PYTHONS[0], "-c", "import greenlet"], capture_output=True).returncode:
            self.skipTest("there is no python3-greenlet")
        self.play(GREENLETS)
        self.assertEqual({c.split(":")[0] for c in self.functions()}, {"inner", "another"})

    @unittest.skipUnless(LIBRARY, NO_LIBRARY)
    def test_a_linked_library(self):
        source = self.dir / "host.c"
        source.write_text(HOST)
        host = self.dir / "host"
        subprocess.run(["gcc", "-o", host, source, LIBRARY, "-lpthread"], check=True)
        code = "def made(): return bytearray(70000)\nmade()\n"
        result = record(self.dir, host, code, options=["-f"])
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(self.functions(), {"made:1 <module>:2": 4})
        self.assertEqual(self.functions(size=SIZE + 1), {"": 3})


if __name__ == "__main__":
    unittest.main()
