"""`tidemark run --pid`: processes that run already."""

import ctypes
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import unittest

from test_run import CC, RunCase, compiled, report, site, wait_until
from test_run_control import facts
from test_run_python import NO_PYTHON, PYTHONS
from test_run_users import AS_NOBODY, can_become_nobody
from tools import LIMIT, TIDEMARK, run, shared_library

# Of a recording's header (client/recording_format.h): whether it has begun, and allocations are on hold.
STATE, CONTROL = 1280, 1476
HOLD = 2

# Says that it is there, and goes on when the file is.
WAITING = r"""
#include <stdio.h>
#include <unistd.h>
#include <sys/prctl.h>
static void wait_for_recorder(const char *file)
{
    prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY);
    puts("ready");
    fflush(stdout);
    while (access(file, F_OK) != 0)
        usleep(2000);
}
"""

OPERATORS = WAITING + r"""
__attribute__((noinline)) char *make_array() { return new char[100]; }
int main(int, char **argv)
{
    wait_for_recorder(argv[1]);
    for (int i = 0; i < 1000; i++)
        delete[] make_array();
}
"""

JEMALLOC = WAITING + r"""
#include <stddef.h>
void *mallocx(size_t, int), dallocx(void *, int);
__attribute__((noinline)) void *make_block(size_t n)
{
    void *p = mallocx(n, 0);
    __asm__ volatile("" : "+r"(p));
    return p;
}
int main(int count, char **argv)
{
    wait_for_recorder(argv[1]);
    for (int i = 0; i < 1000; i++)
        dallocx(make_block(100), 0);
    return make_block(7) == NULL;
}
"""

# An executable at a fixed address whose code takes the addresses of functions: they are those of
# PLT entries of its own. Blocks are made and freed by calls and through copies of the addresses.
POINTERS = WAITING + r"""
#include <dlfcn.h>
#include <stdlib.h>
struct functions {
    void *(*make)(size_t);
    void (*drop)(void *);
};
static struct functions table = {malloc, free};
struct functions *volatile copied;
static void *(*volatile called)(size_t) = malloc;
__attribute__((noinline)) void *make_block(int i)
{
    void *p = i % 3 == 0 ? malloc(100) : i % 3 == 1 ? copied->make(100) : called(100);
    __asm__ volatile("" : "+r"(p));
    return p;
}
int main(int count, char **argv)
{
    static void *before[50];
    copied = malloc(sizeof *copied);
    *copied = table;
    for (int i = 0; i < 50; i++)
        before[i] = make_block(i);
    wait_for_recorder(argv[1]);
    for (int i = 0; i < 50; i++)
        (i % 2 ? copied->drop : free)(before[i]);
    for (int i = 0; i < 3000; i++)
        (i % 2 ? copied->drop : free)(make_block(i));
    void *library = count > 2 ? dlopen(argv[2], RTLD_NOW) : NULL;
    void (*work)(int) = library ? (void (*)(int))dlsym(library, "work") : NULL;
    if (work)
        work(700);
    return make_block(0) == NULL;
}
"""

# Four threads allocate and free through pointers in blocks of their own; in the end the pointers are
# compared with the functions.
STORED = WAITING + r"""
#include <pthread.h>
#include <stdlib.h>
struct functions {
    void *(*make)(size_t);
    void (*drop)(void *);
};
static volatile int ended;
static void *(*volatile maker)(size_t) = malloc;
static void (*volatile dropper)(void *) = free;
__attribute__((noinline)) void *make_block(struct functions *volatile f)
{
    void *p = f->make(100);
    __asm__ volatile("" : "+r"(p));
    return p;
}
static void *work(void *at)
{
    struct functions *volatile f = at;
    while (!ended) {
        /* A pointer that is in a register before the attach cannot be changed: load it after. */
        void *p = make_block(f);
        __asm__ volatile("" : "+r"(p) : : "memory");
        f->drop(p);
    }
    return NULL;
}
int main(int count, char **argv)
{
    pthread_t threads[4];
    struct functions *table[4];
    int same = 1;
    for (int i = 0; i < 4; i++) {
        table[i] = malloc(sizeof *table[i]);
        *table[i] = (struct functions){maker, dropper};
        pthread_create(&threads[i], NULL, work, table[i]);
    }
    wait_for_recorder(argv[1]);
    ended = 1;
    for (int i = 0; i < 4; i++) {
        pthread_join(threads[i], NULL);
        same &= table[i]->make == maker && table[i]->drop == dropper;
    }
    puts(same ? "same" : "different");
    return 0;
}
"""

SPAWNING = WAITING + r"""
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
extern char **environ;
static void ended(pid_t pid)
{
    waitpid(pid, NULL, 0);
}
int main(int count, char **argv)
{
    char *arguments[] = {"true", NULL};
    void *volatile block;
    pid_t pid;
    wait_for_recorder(argv[1]);
    block = malloc(100);
    if (posix_spawn(&pid, "/bin/true", NULL, NULL, arguments, environ) == 0)
        ended(pid);
    if (posix_spawnp(&pid, "true", NULL, NULL, arguments, environ) == 0)
        ended(pid);
    if ((pid = vfork()) == 0) {
        execve("/bin/true", arguments, environ);
        _exit(1);
    }
    ended(pid);
    if ((pid = vfork()) == 0) {
        execvp("true", arguments);
        _exit(1);
    }
    ended(pid);
    if ((pid = vfork()) == 0) {
        execl("/bin/true", "true", (char *)NULL);
        _exit(1);
    }
    ended(pid);
    if (strcmp(argv[2], "execs") == 0)
        execv("/bin/true", arguments);
    free(block);
    return 0;
}
"""

LOADED = r"""
#include <stdlib.h>
__attribute__((noinline)) void *load_block(int i)
{
    void *p = malloc(100 + i);
    __asm__ volatile("" : "+r"(p));
    return p;
}
void work(int n)
{
    for (int i = 0; i < n; i++)
        free(load_block(i));
}
"""

# All but the first line of what it prints comes after the recorder.
PYTHON = """
import os, sys, time
print("ready", flush=True)
while not os.path.exists(sys.argv[1]):
    time.sleep(0.01)
for i in range(3000):
    block = bytearray(1000 + i % 500)
"""


# A C program that loads C++ when the file of its first argument is there, and that C++.
LATE = r"""
#include <dlfcn.h>
#include <stdio.h>
#include <unistd.h>
int main(int count, char **argv)
{
    puts("ready");
    fflush(stdout);
    while (access(argv[1], F_OK) != 0)
        usleep(1000);
    void *library = dlopen(argv[2], RTLD_NOW);
    void (*go)(void) = 0;
    if (library)
        *(void **)&go = dlsym(library, "load");
    if (!go)
        return 1;
    go();
    return 0;
}
"""
LATE_CPP = r"""
#include <new>
extern "C" void load()
{
    for (int i = 0; i < 10; i++) {
        char *volatile array = new (std::nothrow) char[7001];
        delete[] array;
        void *volatile one = operator new(7002);
        operator delete(one, 7002);
    }
}
"""


def may_attach():
    """Whether this host lets a process attach to one that allows it."""
    process = subprocess.Popen(["sleep", "600"])
    try:
        libc = ctypes.CDLL(None, use_errno=True)
        libc.ptrace.restype = ctypes.c_long
        libc.ptrace.argtypes = [ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p]
        seize = 0x4206
        if libc.ptrace(seize, process.pid, None, None) != 0:
            return False
        libc.ptrace(17, process.pid, None, None)
        return True
    finally:
        process.kill()
        process.wait()


@unittest.skipUnless(may_attach(), "this host lets nobody attach to a process")
class Attach(RunCase):
    def start(self, *command, program=None):
        process = subprocess.Popen([str(program or self.program), *map(str, command)],
                                   stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True)
        self.addCleanup(self.end, process)
        self.assertEqual(process.stdout.readline(), "ready\n")
        return process

    @staticmethod
    def end(process):
        process.kill()
        process.communicate()

    def attach(self, pid, *options):
        """The recorder, once the process is being recorded."""
        recorder = subprocess.Popen([TIDEMARK, "run", "--pid", str(pid), "-o", str(self.trace),
                                     "--no-debuginfod", *map(str, options)],
                                    stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.addCleanup(self.end, recorder)

        def headers():
            return [p.read_bytes()[:4096] for p in self.dir.glob("tidemark-run.*/*.recording")]

        def is_recorded():
            self.assertIsNone(recorder.poll(), "it ended at once")
            return any(h[STATE:STATE + 1] == b"\1" for h in headers())

        wait_until(is_recorded)
        # The thread that loaded the library was let go, and stored pointers were changed.
        wait_until(lambda: self.tracer(pid) == 0 and all(h[CONTROL] != HOLD for h in headers()))
        return recorder

    @staticmethod
    def tracer(pid):
        for task in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{task}/status") as status:
                for line in status:
                    if line.startswith("TracerPid:") and int(line.split()[1]):
                        return int(line.split()[1])
        return 0

    def detach(self, recorder, code=0):
        recorder.send_signal(signal.SIGINT)
        return self.ended(recorder, code)

    def ended(self, recorder, code=0):
        _, errors = recorder.communicate(timeout=LIMIT)
        self.assertEqual(recorder.returncode, code, errors)
        self.assert_nothing_left()
        return errors

    def said(self, process, *text):
        out, errors = process.communicate(*text, timeout=LIMIT)
        self.assertEqual((process.returncode, errors), (0, ""))
        return out

    def assert_no_faults(self):
        told = facts(self.trace)
        # Frees of blocks from before are no faults.
        for fault in ("fault", "double_allocations", "lost_allocations"):
            self.assertNotIn(fault, told)
        return told

    def test_records_from_then_on_and_leaves(self):
        first, second = self.dir / "first", self.dir / "second"
        process = self.start("bouts", first, second, 50000)
        recorder = self.attach(process.pid)
        first.touch()
        self.assertEqual(process.stdout.readline(), "worked\n")
        self.assertRegex(self.detach(recorder), "50[0-9] frees of blocks from before")
        second.touch()
        made, freed = map(int, self.said(process).split())
        self.assertEqual((made, freed), (50500, 50000))
        row = site(self.trace, "make_block")
        # All of what was allocated since, and the frees of these; nothing from behind the end.
        self.assertEqual((row["count"], row["live_count"]), (50000, 1000))
        self.assertNotIn("late_block", [s["function"] for s in report(self.trace)["sites"]])
        self.assertIn("attached", self.assert_no_faults()["recorded"][0])

    def recordings_of(self, pid):
        """What the process holds of recordings: mapped files and descriptors."""
        held = pathlib.Path(f"/proc/{pid}/maps").read_text().split("\n")
        held += [os.readlink(fd) for fd in pathlib.Path(f"/proc/{pid}/fd").iterdir()]
        return [text for text in held if ".recording" in text]

    def test_again_and_again(self):
        """Threads that go on meanwhile, and options that differ: each recording is its own."""
        until = self.dir / "until"
        process = self.start("churn", until)
        for options in ([], ["--sample", "4K"], [], ["--min-size", "50"], ["--pools", "malloc,mmap"], []):
            with self.subTest(options=options):
                self.trace.unlink(missing_ok=True)
                recorder = self.attach(process.pid, "--report", "none", *options)
                wait_until(lambda: any(p.stat().st_size > 1 << 20
                                       for p in self.dir.glob("tidemark-run.*/*.recording")))
                self.assertNotEqual(self.recordings_of(process.pid), [])
                self.detach(recorder)
                self.assertEqual(self.recordings_of(process.pid), [])
                self.assertGreater(site(self.trace, "make_block")["count"], 1000)
                self.assert_no_faults()
        until.touch()
        made, freed = map(int, self.said(process).split())
        self.assertEqual(made, freed)

    def test_again_counts_as_the_first_time(self):
        first, second = self.dir / "first", self.dir / "second"
        process = self.start("bouts", first, second, 50000)
        self.detach(self.attach(process.pid, "--sample", "1M"))
        self.trace.unlink()
        recorder = self.attach(process.pid)
        first.touch()
        self.assertEqual(process.stdout.readline(), "worked\n")
        self.assertRegex(self.detach(recorder), "50[0-9] frees of blocks from before")
        row = site(self.trace, "make_block")
        self.assertEqual((row["count"], row["live_count"]), (50000, 1000))
        self.trace.unlink()
        recorder = self.attach(process.pid)
        second.touch()
        self.said(process)
        self.ended(recorder)
        self.assertEqual(site(self.trace, "late_block")["count"], 300)

    def test_many_threads(self):
        until = self.dir / "until"
        process = self.start("churn", until)
        recorder = self.attach(process.pid, "--report", "none")
        wait_until(lambda: any(p.stat().st_size > 1 << 20
                               for p in self.dir.glob("tidemark-run.*/*.recording")))
        self.detach(recorder)
        until.touch()
        made, freed = map(int, self.said(process).split())
        self.assertEqual(made, freed)
        self.assertGreater(site(self.trace, "make_block")["count"], 1000)
        self.assert_no_faults()

    def test_for_a_while(self):
        process = self.start("byte")
        result = run("run", "--pid", process.pid, "-o", self.trace, "--seconds", "0.1",
                     "--no-debuginfod")
        # It waits all the time in one poll, which the kernel began anew when it was let go first.
        self.assertEqual((result.returncode, "safely" in result.stderr), (0, False), result.stderr)
        self.assertEqual(facts(self.trace)["end"], ["detached, the process goes on"])
        process.stdin.write("a")
        process.stdin.flush()
        self.assertEqual(process.stdout.readline(), "again\n")
        self.assertEqual(self.said(process, "b"), "1 1\n")

    def recorded_to_its_end(self, process, first, second):
        recorder = self.attach(process.pid)
        first.touch()
        second.touch()
        self.said(process)
        self.ended(recorder)
        self.assertEqual(site(self.trace, "make_block")["count"], 1000)

    @unittest.skipUnless(can_become_nobody(), "needs root, and files that others may read")
    def test_root_records_a_process_of_another_user(self):
        self.dir.chmod(0o755)
        first, second = self.dir / "first", self.dir / "second"
        process = self.start(*AS_NOBODY[1:], self.program, "bouts", first, second, 1000,
                             program=AS_NOBODY[0])
        self.recorded_to_its_end(process, first, second)

    def test_a_process_that_ends(self):
        first, second = self.dir / "first", self.dir / "second"
        process = self.start("bouts", first, second, 1000)
        self.recorded_to_its_end(process, first, second)
        self.assertEqual(site(self.trace, "late_block")["count"], 300)
        self.assertEqual(facts(self.trace)["end"], ["the process ended"])

    def test_a_process_that_is_killed(self):
        first, second = self.dir / "first", self.dir / "second"
        process = self.start("bouts", first, second, 1000)
        recorder = self.attach(process.pid)
        first.touch()
        self.assertEqual(process.stdout.readline(), "worked\n")
        process.kill()
        self.ended(recorder)
        self.assertEqual(site(self.trace, "make_block")["count"], 1000)

    def test_a_recorder_that_is_killed(self):
        first, second = self.dir / "first", self.dir / "second"
        process = self.start("bouts", first, second, 1000)
        recorder = self.attach(process.pid)
        recorder.kill()
        recorder.wait()
        first.touch()
        second.touch()
        self.said(process)

    def test_waiting_system_calls_go_on(self):
        process = self.start("byte")
        recorder = self.attach(process.pid)
        process.stdin.write("a")
        process.stdin.flush()
        self.assertEqual(process.stdout.readline(), "again\n")
        self.detach(recorder)
        self.assertEqual(self.said(process, "b"), "1 1\n")

    def test_a_process_that_only_computes(self):
        process = self.start("spin")
        recorder = self.attach(process.pid)
        self.detach(recorder)
        process.terminate()
        self.said(process)
        self.assert_no_faults()

    @unittest.skipIf(subprocess.run(["which", "g++"], stdout=subprocess.DEVNULL).returncode,
                     "there is no g++")
    def test_operators_of_cpp(self):
        program, go = self.dir / "operators", self.dir / "go"
        subprocess.run(["g++", "-g", "-O1", "-x", "c++", "-", "-o", str(program)],
                       input=OPERATORS, text=True, check=True)
        process = self.start(go, program=program)
        recorder = self.attach(process.pid)
        go.touch()
        self.said(process)
        self.ended(recorder)
        row = [s for s in report(self.trace)["sites"] if "make_array" in s["function"]]
        self.assertEqual([(r["count"], r["bytes"], r["live_count"]) for r in row],
                         [(1000, 100000, 0)])
        self.assert_no_faults()

    @unittest.skipIf(subprocess.run(["which", "g++"], stdout=subprocess.DEVNULL).returncode,
                     "there is no g++")
    def test_a_runtime_of_cpp_that_is_loaded_later(self):
        """Global look-ups find no operators but those of the library that was attached."""
        program, plugin, go = self.dir / "loads", self.dir / "libplugin.so", self.dir / "go"
        for compiler, language, source, output, *flags in (
                ("gcc", "c", LATE, program), ("g++", "c++", LATE_CPP, plugin, "-shared", "-fPIC")):
            subprocess.run([compiler, "-g", "-O1", *flags, "-x", language, "-", "-o", str(output)],
                           input=source, text=True, check=True)
        process = self.start(go, plugin, program=program)
        recorder = self.attach(process.pid)
        go.touch()
        self.said(process)
        self.ended(recorder)
        row = [s for s in report(self.trace)["sites"] if "load" in s["function"]]
        self.assertEqual([(r["count"], r["bytes"], r["live_count"]) for r in row],
                         [(10, 70020, 0), (10, 70010, 0)])
        self.assert_no_faults()

    def refused(self, pid, word):
        result = run("run", "--pid", pid, "-o", self.trace, "--no-debuginfod")
        self.assertEqual(result.returncode, 126, result.stderr)
        self.assertIn(word, result.stderr)
        self.assertFalse(self.trace.exists())
        self.assert_nothing_left()

    def recorded_from_outside(self, program, *arguments):
        """Attaches, has the program go on (its first argument is the file that it waits for)."""
        go = self.dir / "go"
        process = self.start(*[go if a is None else a for a in arguments], program=program)
        recorder = self.attach(process.pid)
        go.touch()
        self.said(process)
        self.ended(recorder)

    def test_addresses_of_functions_at_a_fixed_address(self):
        for flags in ([], ["-Wl,-z,lazy"], ["-Wl,-z,now"]):
            with self.subTest(flags=flags):
                source, library = self.dir / "pointers.c", self.dir / "loaded.so"
                source.write_text(POINTERS)
                program = compiled(self.dir, "pointers", ["-no-pie", "-fno-pie", *flags, "-ldl"],
                                   source)
                source.write_text(LOADED)
                compiled(self.dir, "loaded.so", ["-shared", "-fPIC"], source)
                (self.dir / "go").unlink(missing_ok=True)
                self.trace.unlink(missing_ok=True)
                self.recorded_from_outside(program, None, library)
                row, loaded = site(self.trace, "make_block"), site(self.trace, "load_block")
                self.assertEqual((row["count"], row["live_count"]), (3001, 1))
                self.assertEqual((loaded["count"], loaded["live_count"]), (700, 0))
                self.assertEqual(self.assert_no_faults()["unknown_frees"], ["50"])

    def test_pointers_that_were_stored_before(self):
        """In tables, blocks and variables of libraries, which no relocation names."""
        source = self.dir / "pointers.c"
        source.write_text(POINTERS)
        for flags in (["-pie", "-fPIE", "-Wl,-z,lazy"], ["-pie", "-fPIE", "-Wl,-z,now"]):
            with self.subTest(flags=flags):
                program = compiled(self.dir, "pointers", [*flags, "-ldl"], source)
                (self.dir / "go").unlink(missing_ok=True)
                self.trace.unlink(missing_ok=True)
                self.recorded_from_outside(program, None)
                row = site(self.trace, "make_block")
                self.assertEqual((row["count"], row["live_count"]), (3001, 1))
                told = self.assert_no_faults()
                self.assertEqual(told["unknown_frees"], ["50"])
                self.assertNotIn("missed_frees", told)

    def test_stored_pointers_of_many_threads(self):
        """Threads that run all the time; all is as before when they are let go."""
        source = self.dir / "stored.c"
        source.write_text(STORED)
        program = compiled(self.dir, "stored", ["-pie", "-fPIE", "-pthread"], source)
        process = self.start(self.dir / "go", program=program)
        for _ in range(3):
            self.trace.unlink(missing_ok=True)
            recorder = self.attach(process.pid, "--report", "none")
            wait_until(lambda: any(p.stat().st_size > 1 << 20
                                   for p in self.dir.glob("tidemark-run.*/*.recording")))
            self.detach(recorder)
            row = site(self.trace, "make_block")
            self.assertGreater(row["count"], 1000)
            self.assertLessEqual(row["live_count"], 4)
            self.assertNotIn("missed_frees", self.assert_no_faults())
        (self.dir / "go").touch()
        self.assertEqual(self.said(process), "same\n")

    @unittest.skipUnless(PYTHONS, NO_PYTHON)
    def test_python_at_a_fixed_address(self):
        python = PYTHONS[0]
        script = self.dir / "script.py"
        script.write_text(PYTHON)
        self.recorded_from_outside(python, script, None)
        self.assert_no_faults()
        attached = report(self.trace)
        loop = [s for s in attached["sites"] if s["file"] == str(script) and s["count"] >= 3000]
        self.assertEqual([(s["function"], s["line"]) for s in loop],
                         [("<module>", len(PYTHON.splitlines()))])
        plain = self.dir / "plain.tracy"
        result = run("run", "-o", plain, "--no-debuginfod", "--", python, script, self.dir / "go")
        self.assertEqual(result.returncode, 0, result.stderr)

        def large(told):
            return max(s["count"] for s in told["sites"] if s["bytes"] > 3000 * 1000)

        # The loop's blocks; each is freed when the next one is made, and the last one at the end.
        self.assertGreaterEqual(large(attached), 3000)
        self.assertLess(abs(large(report(plain)) - large(attached)), 100)

    def test_libraries_without_build_ids_prove_nothing(self):
        """What was loaded long ago may have been replaced since; the advice is for this command."""
        source, go = self.dir / "source.c", self.dir / "go"
        source.write_text(LOADED)
        library = compiled(self.dir, "libloaded.so",
                           ["-shared", "-fPIC", "-Wl,--build-id=none"], source)
        source.write_text(WAITING + "void work(int);\n"
                          "int main(int n, char **v) { wait_for_recorder(v[n - 1]); work(9); }\n")
        program = compiled(self.dir, "program2", ["-Wl,--no-as-needed", library, "-Wl,--build-id=none"], source)
        process = self.start(go, program=program)
        recorder = self.attach(process.pid)
        go.touch()
        self.said(process)
        errors = self.ended(recorder)
        self.assertIn(f"no names from {library}: no build id to check it by: `tidemark symbols "
                      "--images-from-trace` allows it", errors)
        self.assertNotIn(f"no names from {program}", errors)
        result = run("symbols", "--images-from-trace", "--no-debuginfod", self.trace, "-o",
                     self.dir / "named.tracy")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(site(self.dir / "named.tracy", "load_block")["count"], 9)

    def test_children_are_counted(self):
        """A budget covers less than the process tree, also where the process was attached to."""
        script, go = self.dir / "script.py", self.dir / "go"
        script.write_text(PYTHON + "os.system('true')\nos.waitpid(os.fork() or os._exit(0), 0)\n")
        for options, code in ((["--fail-if", "peak>1G"], 1), ([], 0),
                              (["--fail-if", "peak>1G", "--this-process"], 0)):
            go.unlink(missing_ok=True)
            self.trace.unlink(missing_ok=True)
            process = self.start(script, go, program=sys.executable)
            recorder = self.attach(process.pid, *options)
            go.touch()
            self.said(process)
            errors = self.ended(recorder, code)
            self.assertRegex(errors, "not recorded: 2 child processes(, among them|:) /bin/sh")
            self.assertNotIn("--follow-fork", errors)

    def test_children_of_vfork_and_posix_spawn(self):
        """Counted like those of fork; and a program that replaces the recorded one is named."""
        source, go = self.dir / "spawning.c", self.dir / "go"
        source.write_text(SPAWNING)
        program = compiled(self.dir, "spawning", [], source)
        for mode, options, code in (("goes_on", ["--fail-if", "peak>1G"], 1), ("goes_on", [], 0),
                                    ("goes_on", ["--fail-if", "peak>1G", "--this-process"], 0),
                                    ("execs", ["--fail-if", "peak>1G", "--this-process"], 1)):
            with self.subTest(mode=mode, options=options):
                go.unlink(missing_ok=True)
                self.trace.unlink(missing_ok=True)
                process = self.start(go, mode, program=program)
                recorder = self.attach(process.pid, *options)
                go.touch()
                self.said(process)
                errors = self.ended(recorder, code)
                self.assertIn("not recorded: 5 child processes", errors)
                self.assertNotIn("--follow-fork", errors)
                self.assertEqual("/bin/true was executed after the attach" in errors,
                                 mode == "execs", errors)

    def test_functions_of_jemalloc(self):
        library = shared_library("libjemalloc.so.2")
        if not library:
            self.skipTest("libjemalloc.so.2 is not installed")
        source, until = self.dir / "je.c", self.dir / "until"
        source.write_text(JEMALLOC)
        program = compiled(self.dir, "je", ["-Wl,--no-as-needed", library], source)
        process = self.start(until, program=program)
        recorder = self.attach(process.pid)
        until.touch()
        self.said(process)
        self.ended(recorder)
        row = site(self.trace, "make_block")
        self.assertEqual((row["count"], row["live_count"]), (1001, 1))
        self.assert_no_faults()

    def test_static_programs(self):
        program = compiled(self.dir, "static", ["-static"])
        process = self.start("byte", program=program)
        self.refused(process.pid, "statically linked")
        process.stdin.write("a")
        process.stdin.flush()
        self.assertEqual(process.stdout.readline(), "again\n")
        self.said(process, "b")

    def test_stopped_processes(self):
        process = self.start("byte")
        process.send_signal(signal.SIGSTOP)
        wait_until(lambda: self.state(process.pid) == "T")
        self.refused(process.pid, "is stopped")
        self.assertEqual(self.state(process.pid), "T")

    @staticmethod
    def state(pid):
        with open(f"/proc/{pid}/stat") as stat:
            return stat.read().rsplit(")", 1)[1].split()[0]

    def test_no_such_process(self):
        process = subprocess.Popen(["true"])
        process.wait()
        self.refused(process.pid, "there is no process")

    def test_a_handler_may_hold_a_lock(self):
        process = self.start("handler")
        self.refused(process.pid, "no thread")
        self.assertEqual(self.said(process, "a"), "0 0\n")

    def test_what_is_recorded_already(self):
        process = self.start("byte")
        recorder = self.attach(process.pid)
        result = run("run", "--pid", process.pid, "-o", self.dir / "other.tracy")
        self.assertEqual(result.returncode, 126, result.stderr)
        self.assertIn("recorded already", result.stderr)
        self.detach(recorder)

    def test_nothing_is_run(self):
        result = run("run", "--pid", "1", "--", self.program)
        self.assertEqual(result.returncode, 2, result.stderr)


if __name__ == "__main__":
    unittest.main()
