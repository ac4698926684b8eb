"""The zones that `tidemark run` adds: main and dlopen; and that they change nothing else."""

import os
import re
import subprocess
import unittest

from test_listen import ListenCase
from test_run import RunCase, record
from tools import LIMIT, report, run

CC = os.environ.get("CC", "gcc")
LIBRARY = r"""
#include <stdlib.h>
static void *kept;
__attribute__((constructor)) static void come(void) { kept = malloc(SIZE); }
void *make(void) { return malloc(11); }
"""
# Says what each dlopen gave. Its RUNPATH leads to libnear.so, and so does that of libmiddle.so to
# libfar.so; $ORIGIN is where the caller lies.
LOADER = r"""
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
static void *volatile last;
static void *try(const char *name, int mode)
{
    void *library = dlopen(name, mode);
    last = malloc(1000);
    printf("%s %d\n", name ? name : "itself", library != NULL);
    return library;
}
int main(void)
{
    void *near = try("libnear.so", RTLD_NOW);
    void *middle = try("$ORIGIN/sub/libmiddle.so", RTLD_NOW);
    try("sub/libmiddle.so", RTLD_NOW);
    try("libfar.so", RTLD_NOW); /* not along our own path */
    last = malloc(2000);
    void *(*far)(void) = middle ? (void *(*)(void))dlsym(middle, "far") : 0;
    printf("far %d\n", far && far());
    printf("again %d\n", dlopen("libnear.so", RTLD_NOW | RTLD_NOLOAD) == near);
    try(NULL, RTLD_LAZY);
    try("libm.so.6", RTLD_LAZY);
    for (int i = 0; i < 3; i++)
        dlopen("libnear.so", RTLD_LAZY);
    last = malloc(3000);
    void *none = dlopen("libnowhere.so", RTLD_NOW);
    printf("%s\n", none ? "?" : dlerror());
    return 7;
}
"""
MIDDLE = r"""
#include <dlfcn.h>
void *far(void)
{
    void *library = dlopen("libfar.so", RTLD_NOW);
    __asm__ volatile("" : "+r"(library));
    return library;
}
"""
# Ends in the way that its argument names. SIZE blocks are allocated in main, 77 bytes behind it.
ENDS = r"""
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
static void *volatile block;
static void registered_in_main(void) { block = malloc(55); }
static void registered_before(void) { block = malloc(77); }
__attribute__((constructor)) static void early(void) { atexit(registered_before); }
static void *other(void *how) { if (!strcmp(how, "thread")) exit(3); return block = malloc(66); }
static void leave(void *unused) { (void)unused; }
int main(int argc, char **argv)
{
    const char *how = argv[1];
    pthread_t thread;
    block = malloc(44);
    atexit(registered_in_main);
    if (!strcmp(how, "exit"))
        exit(3);
    if (!strcmp(how, "_exit"))
        _exit(3);
    if (!strcmp(how, "kill"))
        raise(SIGKILL);
    if (!strcmp(how, "exec"))
        execl(argv[0], argv[0], "return", (char *)0);
    if (!strcmp(how, "fork")) {
        int status;
        pid_t child = fork();
        if (child == 0)
            return 3;
        waitpid(child, &status, 0);
        return WEXITSTATUS(status);
    }
    if (!strcmp(how, "thread") || !strcmp(how, "pthread_exit")) {
        pthread_create(&thread, 0, other, (void *)how);
        if (!strcmp(how, "pthread_exit"))
            pthread_exit(0);
        pthread_join(thread, 0);
    }
    return 3;
}
"""
# A program of before glibc 2.34: the start files of then, in short.
OLD_START = r"""
    .globl _start
    .symver old_start, __libc_start_main@GLIBC_2.2.5
_start:
    xor %ebp, %ebp
    mov %rdx, %r9
    pop %rsi
    mov %rsp, %rdx
    and $-16, %rsp
    push %rax
    push %rsp
    lea done(%rip), %r8
    lea init(%rip), %rcx
    lea main(%rip), %rdi
    call *old_start@GOTPCREL(%rip)
    hlt
init: done:
    ret
main:
    sub $8, %rsp
    mov $99, %edi
    call malloc@PLT
    mov $9, %eax
    add $8, %rsp
    ret
    .section .note.GNU-stack,"",@progbits
"""


def build(path, source, *flags, language="c"):
    subprocess.run([CC, "-g", "-O1", "-w", "-fno-builtin", "-fno-optimize-sibling-calls",
                    "-x", language, "-", "-x", "none", *flags, "-o", str(path), "-pthread", "-ldl"],
                   input=source, text=True, check=True)
    return path


def zones(trace):
    """(name, text, start, end) of the zones, as they begin; end is None where there is none."""
    found = []
    for line in run("dump", trace).stdout.splitlines():
        match = re.match(r'zones .* start=(\d+)(?: end=(-?\d+))? name="([^"]*)".*?(?: text="(.*?)")?'
                         r'(?: callstack=\w+)?$', line)
        if match:
            end = int(match[2]) if match[2] and int(match[2]) >= 0 else None
            found.append((match[3], match[4] or "", int(match[1]), end))
    return sorted(found, key=lambda zone: zone[2])


def sizes(trace, *options):
    """Bytes and number of the blocks of each site."""
    return {(s["bytes"], s["count"]) for s in report(trace, *options)["sites"]}


class Loading(RunCase):
    def loader(self):
        sub = self.dir / "sub"
        (sub / "deep").mkdir(parents=True)
        shared = ("-shared", "-fPIC")
        build(sub / "libnear.so", LIBRARY, *shared, "-DSIZE=5001")
        build(sub / "deep" / "libfar.so", LIBRARY, *shared, "-DSIZE=5003")
        build(sub / "libmiddle.so", MIDDLE, *shared, "-Wl,-rpath,$ORIGIN/deep",
              "-Wl,--enable-new-dtags")
        return build(self.dir / "loader", LOADER, "-Wl,-rpath,$ORIGIN/sub",
                     "-Wl,--enable-new-dtags")

    def test_libraries_are_found_as_without_us(self):
        program = self.loader()
        plain = subprocess.run([program], cwd=self.dir, stdout=subprocess.PIPE, text=True,
                               timeout=LIMIT)
        self.assertEqual(plain.returncode, 7)
        for line in ("libnear.so 1", "$ORIGIN/sub/libmiddle.so 1", "libfar.so 0", "far 1",
                     "again 1"):
            self.assertIn(line, plain.stdout.splitlines())
        result = record(self.dir, program, cwd=self.dir)
        self.assertEqual((result.returncode, result.stdout), (7, plain.stdout), result.stderr)
        self.assert_sound()
        names = [(name, text) for name, text, _, _ in zones(self.trace)]
        self.assertEqual(names, [("main", "")] + [("dlopen", text) for text in (
            "libnear.so", "$ORIGIN/sub/libmiddle.so", "sub/libmiddle.so", "libfar.so", "libfar.so",
            "libnear.so", "", "libm.so.6", "libnear.so", "libnear.so", "libnear.so",
            "libnowhere.so")])

    def test_what_is_allocated_meanwhile(self):
        """Within the zones are constructors, and not what follows."""
        result = record(self.dir, self.loader(), cwd=self.dir)
        self.assertEqual(result.returncode, 7, result.stderr)
        within = sizes(self.trace, "--zone", "dlopen")
        self.assertLessEqual({(5001, 1), (5003, 1)}, within)
        self.assertFalse(within & {(7000, 7), (6000, 6), (1000, 1), (2000, 1), (3000, 1)})
        self.assertLessEqual({(5001, 1), (2000, 1), (3000, 1)}, sizes(self.trace, "--zone", "main"))
        opened = [zone for zone in zones(self.trace) if zone[0] == "dlopen"]
        for before, after in zip(opened, opened[1:]):
            self.assertLessEqual(before[3], after[2])

    def test_names_of_what_is_loaded_by_a_relative_path(self):
        sub = self.dir / "sub"
        sub.mkdir()
        build(sub / "libnear.so", LIBRARY, "-shared", "-fPIC", "-DSIZE=5001")
        program = build(self.dir / "relative", r"""
            #include <dlfcn.h>
            int main(void) { return dlopen("sub/libnear.so", RTLD_NOW) ? 5 : 6; }
            """)
        result = record(self.dir, program, cwd=self.dir)
        self.assertEqual(result.returncode, 5, result.stderr)
        row, = [s for s in report(self.trace)["sites"] if s["bytes"] == 5001]
        self.assertEqual(row["function"], "come")

    def test_old_paths_hold_for_what_is_loaded_by_others(self):
        """DT_RPATH of the program is that of its libraries as well."""
        sub = self.dir / "sub"
        sub.mkdir()
        build(sub / "libfar.so", LIBRARY, "-shared", "-fPIC", "-DSIZE=5003")
        build(self.dir / "libmiddle.so", MIDDLE, "-shared", "-fPIC")
        program = build(self.dir / "loader", r"""
            void *far(void);
            int main(void) { return far() ? 5 : 6; }
            """, self.dir / "libmiddle.so", f"-Wl,-rpath,{self.dir}:{sub}",
                        "-Wl,--disable-new-dtags")
        result = record(self.dir, program)
        self.assertEqual(result.returncode, 5, result.stderr)
        self.assertIn((5003, 1), sizes(self.trace, "--zone", "dlopen"))


class Main(RunCase):
    def ended(self, how, code=3, options=()):
        self.ends = build(self.dir / "ends", ENDS)
        result = record(self.dir, self.ends, how, options=options)
        self.assertEqual(result.returncode, code, result.stderr)
        self.assert_sound()
        (name, _, _, end), = zones(self.trace)
        self.assertEqual(name, "main")
        return end

    def within(self):
        """Of the sizes that the program asks for, those in main's zone."""
        inside = {size for size, count in sizes(self.trace, "--zone", "main") if count == 1}
        return inside & {44, 55, 66, 77}

    def test_return(self):
        self.assertIsNotNone(self.ended("return"))
        self.assertEqual(self.within(), {44, 55})

    def test_exit(self):
        self.assertIsNotNone(self.ended("exit"))
        self.assertEqual(self.within(), {44, 55})

    def test_pthread_exit(self):
        """The process lives on; what was registered runs in the thread that ends last."""
        self.assertIsNotNone(self.ended("pthread_exit", 0))
        self.assertIn(44, self.within())

    def test_exit_of_another_thread(self):
        self.ended("thread")
        self.assertIn(44, self.within())

    def test_no_end_at_all(self):
        for how, code in (("_exit", 3), ("kill", 128 + 9)):
            with self.subTest(how=how):
                self.ended(how, code)
                self.assertEqual(self.within(), {44})
                self.trace.unlink()

    def test_exec(self):
        """The program that follows has a main of its own."""
        self.assertIsNotNone(self.ended("exec"))
        self.assertEqual(self.within(), {44, 55})

    def test_fork(self):
        """The child returns from a main that began in its parent's recording."""
        self.assertIsNotNone(self.ended("fork", options=["--follow-fork"]))
        child = self.dir / "out.children.tracy"
        self.assert_sound(child)
        self.assertEqual(report(child)["faults"], [])
        self.assertEqual(zones(child), [])

    def test_call_stacks_are_as_without_us(self):
        self.ended("return")
        site, = [s for s in report(self.trace)["sites"] if s["bytes"] == 44]
        images = " ".join(f.get("image") or "" for f in site["callstack"])
        self.assertNotIn("libtidemark", images)
        names = [f["function"] for f in site["callstack"]]
        self.assertEqual(names[0], "main")
        self.assertNotIn("main_entered", names)

    @unittest.skipUnless(os.uname().machine == "x86_64", "start files of x86-64")
    def test_a_program_of_an_older_c_library(self):
        program = build(self.dir / "old", OLD_START, "-nostartfiles", language="assembler")
        self.assertEqual(subprocess.run([program], timeout=LIMIT).returncode, 9)
        result = record(self.dir, program)
        self.assertEqual(result.returncode, 9, result.stderr)
        self.assertIn((99, 1), sizes(self.trace, "--zone", "main"))


class Offered(ListenCase):
    def test_servers_get_them(self):
        program = build(self.dir / "program", r"""
            #include <dlfcn.h>
            #include <stdlib.h>
            int main(void)
            {
                dlopen("libm.so.6", RTLD_NOW);
                free(malloc(10));
                return 0;
            }
            """)
        for protocol in (63, 74, 82):
            with self.subTest(protocol=protocol):
                process, port = self.start(program, options=["--no-exit", "--protocol", protocol])
                result = self.capture(port)
                self.assertEqual(result.returncode, 0, result.stderr)
                self.finish(process)
                self.assertEqual(zones(self.served), zones(self.own))
                self.assertEqual([zone[:2] for zone in zones(self.served)],
                                 [("main", ""), ("dlopen", "libm.so.6")])


if __name__ == "__main__":
    unittest.main()
