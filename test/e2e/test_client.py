"""libtidemark.so: what it writes of programs, read by a decoder of its own (recording.py)."""

import array
import collections
import errno
import math
import os
import pathlib
import resource
import signal
import socket
import struct
import subprocess
import tempfile
import threading
import time
import unittest

import recording
from tools import BUILD, LIMIT, ROOT, Case

LIBRARY = str(BUILD / "libtidemark.so")
GPU_LIBRARY = str(BUILD / "libtidemark-gpu.so")
HERE = pathlib.Path(__file__).resolve().parent
CC = os.environ.get("CC", "gcc")
CXX = {"clang": "clang++"}.get(CC, "g++")
COUNTER = 1 << 5
FOLLOW = 1

# Never waits and holds no lock, so signal handlers may use it; gives nothing back.
BUMP = r"""
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
static _Atomic(char *) room;
static _Atomic size_t used;
void *malloc(size_t n)
{
    size_t whole = 1ul << 36;
    char *p = atomic_load(&room);
    if (!p) {
        char *fresh = mmap(0, whole, 3, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        if (fresh == MAP_FAILED)
            return 0;
        if (atomic_compare_exchange_strong(&room, &p, fresh))
            p = fresh;
    }
    size_t at = atomic_fetch_add(&used, (n + 31) & ~15ul);
    if (at + n + 16 > whole)
        return 0;
    memcpy(p + at, &n, sizeof n);
    return p + at + 16;
}
void free(void *p) { (void)p; }
void *calloc(size_t n, size_t m) { return malloc(n * m); }
void *realloc(void *old, size_t n)
{
    void *p = malloc(n);
    size_t had = 0;
    if (old)
        memcpy(&had, (char *)old - 16, sizeof had);
    if (p && old)
        memcpy(p, old, had < n ? had : n);
    return p;
}
"""

# After libtidemark.so: a kernel with pages of 64 KiB, as AArch64 may have, for its own system calls.
# A kernel before MADV_WIPEONFORK.
KEPT_PAGES = r"""
#define _GNU_SOURCE
#include <errno.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>
int madvise(void *at, size_t size, int advice)
{
    if (advice == MADV_WIPEONFORK) {
        errno = EINVAL;
        return -1;
    }
    return (int)syscall(SYS_madvise, at, size, advice);
}
"""

LARGE_PAGES = r"""
#include <errno.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/auxv.h>
#include <sys/syscall.h>
#define PAGE 65536ul
static long call(long n, long a, long b, long c, long d, long e, long f)
{
    register long r10 __asm__("r10") = d, r8 __asm__("r8") = e, r9 __asm__("r9") = f;
    long result;
    __asm__ volatile("syscall" : "=a"(result) : "0"(n), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
                     : "rcx", "r11", "memory");
    return result;
}
unsigned long getauxval(unsigned long what)
{
    unsigned long entry[2] = {0, 0}, value = 0;
    if (what == AT_PAGESZ)
        return PAGE;
    long fd = call(SYS_open, (long)"/proc/self/auxv", 0, 0, 0, 0, 0);
    while (call(SYS_read, fd, (long)entry, sizeof entry, 0, 0, 0) == sizeof entry && entry[0])
        if (entry[0] == what)
            value = entry[1];
    call(SYS_close, fd, 0, 0, 0, 0, 0);
    return value;
}
long syscall(long n, ...)
{
    va_list ap;
    va_start(ap, n);
    long a = va_arg(ap, long), b = va_arg(ap, long), c = va_arg(ap, long), d = va_arg(ap, long),
         e = va_arg(ap, long), f = va_arg(ap, long);
    va_end(ap);
    int maps = n == SYS_mmap || n == SYS_munmap || n == SYS_mprotect;
    if (maps && (a % PAGE || (n == SYS_mmap && f % PAGE))) {
        errno = EINVAL;
        return -1;
    }
    if (maps)
        b = (b + PAGE - 1) & ~(PAGE - 1);
    if (n == SYS_mmap && !a) { /* somewhere on such a page */
        long room = call(SYS_mmap, 0, b + PAGE, 0, 0x4022, -1, 0);
        a = (room + PAGE - 1) & ~(PAGE - 1);
        d |= 0x10;
    }
    long result = call(n, a, b, c, d, e, f);
    if (result < 0 && result >= -4095) {
        errno = -result;
        return -1;
    }
    return result;
}
"""

PLUGIN = r"""
#include <stdlib.h>
void *NAME(void)
{
    void *p = malloc(SIZE);
    __asm__ volatile("" : "+r"(p));
    return p;
}
void *make(void)
{
    void *p = NAME();
    __asm__ volatile("" : "+r"(p));
    return p;
}
"""

OPERATORS = r"""
#include <new>
#include <cstdlib>
struct alignas(64) Aligned { char room[192]; };
template <class T> static T *hide(T *p) { __asm__ volatile("" : "+r"(p)); return p; }
int main()
{
    delete hide(new char[1]);                       // named as they are called
    delete[] hide(new char[1001]);
    delete hide(new Aligned);
    delete[] hide(new Aligned[2]);
    operator delete(hide((char *)operator new(1002, std::nothrow)), std::nothrow);
    int caught = 0;
    for (int i = 0; i < 3; i++) {
        try {
            hide((char *)operator new((size_t)-1 / 4));
        } catch (std::bad_alloc &) {
            caught++;
        }
        free(hide((char *)malloc(1003)));
    }
    return caught == 3 ? 0 : 1;
}
"""


def build(path, source, *flags, compiler=CC, language="c"):
    subprocess.run([compiler, "-g", "-O1", "-w", "-fno-builtin", "-fno-optimize-sibling-calls",
                    "-x", language, "-", "-x", "none", *flags, "-o", str(path), "-pthread"],
                   input=source, text=True, check=True)
    return str(path)


class ClientCase(Case):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        folder = tempfile.TemporaryDirectory(prefix="tidemark-")
        cls.addClassCleanup(folder.cleanup)
        cls.common = build(pathlib.Path(folder.name) / "program",
                           (HERE / "client_program.c").read_text())

    def setUp(self):
        super().setUp()
        self.program = self.common

    def build(self, name, source, *flags, **more):
        return build(self.dir / name, source, *flags, **more)

    def environment(self, options="", **more):
        environment = dict(os.environ, LD_PRELOAD=LIBRARY, TIDEMARK_FILE=str(self.dir / "rec.%p"),
                           TIDEMARK_OPTIONS=options, **more)
        environment.pop("ASAN_OPTIONS", None)
        return environment

    def start(self, *command, options="", **more):
        more.setdefault("env", self.environment(options))
        process = subprocess.Popen(list(command), stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                   stdin=subprocess.DEVNULL, text=True, **more)
        self.addCleanup(process.kill)  # of a test that fails before it ends the program itself
        return process

    def said(self, process, code=0):
        out, err = process.communicate(timeout=LIMIT)
        self.assertEqual((process.returncode, err), (code, ""))
        return {line.split()[0]: int(line.split()[1]) for line in out.splitlines()}

    def recorded(self, pid):
        return recording.Recording(self.dir / f"rec.{pid}")

    def record(self, *command, options="", program=None, **more):
        """Runs a mode of the program. Returns (recording, what it said)."""
        process = self.start(program or self.program, *map(str, command), options=options, **more)
        said = self.said(process)
        return self.recorded(process.pid), said

    def sound(self, record, faults=0):
        """Nothing lost, nothing freed or allocated twice. Returns what is left and the counts."""
        live, found, counts = record.replay()
        self.assertEqual(len(found), faults, found[:3])
        self.assertEqual({name: sum(lost) for name, lost in record.lost.items()},
                         dict.fromkeys(recording.LOSSES, 0))
        return live, counts

    def own(self, record):
        """The allocations that the program itself made, and the frees of those blocks."""
        made, freed, live, own = [], [], {}, {}
        block = None
        for event in record.events:
            if event.kind == recording.ALLOC:
                if event.stack not in own:
                    place = record.place(record.stack(event.stack)[0])
                    own[event.stack] = place is not None and place[0] == self.program
                if own[event.stack]:
                    made.append(event)
                    live[event.address] = event
            elif event.kind in (recording.FREE, recording.FREE_STACK):
                block = live.pop(event.address, None)
                if block:
                    freed.append(event)
            elif event.kind == recording.PUT_BACK and block:
                live[event.address] = block
        return made, freed


class Exactness(ClientCase):
    def check(self, threads, rounds, options=""):
        record, said = self.record("count", threads, rounds, options=options)
        self.sound(record)
        made, freed = self.own(record)
        self.assertEqual(len(made), said["allocations"])
        self.assertEqual(len(freed), said["frees"])
        self.assertEqual(sum(event.size for event in made), said["bytes"])
        self.assertEqual(record.state, "exiting")
        self.assertEqual(len({event.thread for event in made}), threads)
        stamps = [event.stamp for event in record.events]
        self.assertEqual(stamps, sorted(stamps))
        return record

    def test_one_thread(self):
        self.check(1, 30000)

    def test_four_threads(self):
        self.check(4, 10000)

    def test_sixteen_threads(self):
        self.check(16, 3000)

    def test_without_a_time_stamp_counter(self):
        record = self.check(4, 5000, f"flags={COUNTER}")
        self.assertEqual(record.clock, recording.CLOCK_COUNTER)
        counted = [e.stamp for e in record.events if e.kind == recording.ALLOC]
        self.assertEqual(len(counted), len(set(counted)))
        self.assertTrue([e for e in record.events if e.kind == recording.CLOCK])

    @unittest.skipUnless(os.uname().machine == "x86_64", "the kernel is played for x86-64")
    def test_large_pages(self):
        pages = self.build("pages.so", LARGE_PAGES, "-shared", "-fPIC")
        environment = self.environment()
        environment["LD_PRELOAD"] = f"{LIBRARY}:{pages}"
        record, said = self.record("count", 8, 3000, env=environment)
        self.sound(record)
        made, freed = self.own(record)
        self.assertEqual((len(made), len(freed)), (said["allocations"], said["frees"]))
        self.assertEqual(record.state, "exiting")

    def test_realloc(self):
        record, said = self.record("reallocs")
        self.assertEqual(said, {"failed": 1, "overflow": 1, "nothing": 1, "errno": 77})
        live, counts = self.sound(record)
        self.assertEqual(counts["put back"], 1)
        made, freed = self.own(record)
        self.assertEqual([e.size for e in made], [100 << i for i in range(10)] + [50])
        self.assertEqual(len(freed), 12)  # one of them was put back
        self.assertFalse([e for e in live.values() if e in made])

    def test_a_thousand_threads(self):
        record, said = self.record("threads", 1000, 1)
        self.sound(record)
        made, _ = self.own(record)
        self.assertEqual(len([e for e in made if e.size in (77, 33)]), said["allocations"])
        self.assertEqual(record.threads, 1001)

    def test_chunks_of_threads_that_ended_are_used_again(self):
        record, _ = self.record("threads", 10, 50)
        self.sound(record)
        self.assertEqual(record.threads, 501)
        self.assertLess(record.units, 60)
        self.assertEqual(len([e for e in record.events if e.kind == recording.THREAD_EXIT]), 500)

    def test_min_size(self):
        record, _ = self.record("count", 1, 2000, options="min-size=200")
        made, freed = self.own(record)
        self.assertTrue(made)
        self.assertGreaterEqual(min(event.size for event in made), 200)
        self.assertEqual(len(made), len(freed))
        self.assertGreaterEqual(record.too_small, 2000 - len(made))
        # Frees of what was not recorded are not, either.
        self.assertEqual([fault for fault, _ in record.replay()[1]], [])

    def test_sampling(self):
        mean = 4096
        options = f"sample={mean},seed=7"
        record, said = self.record("count", 2, 40000, options=options)
        self.sound(record)
        made, freed = self.own(record)
        self.assertEqual(len(made), len(freed))
        share = [1 - math.exp(-e.size / mean) for e in made]
        # Five standard deviations: each block counts 1 / p with probability p.
        for true, worth in ((said["allocations"], [1] * len(made)),
                            (said["bytes"], [e.size for e in made])):
            guess = sum(w / p for w, p in zip(worth, share))
            spread = math.sqrt(sum(w * w * (1 - p) / p ** 2 for w, p in zip(worth, share)))
            self.assertLess(abs(guess - true), 5 * spread)
            self.assertLess(spread, true / 10)

    def test_mappings(self):
        record, said = self.record("mappings", options="pools=3")
        self.sound(record)
        page = 4096
        events = [(e.kind, e.address, e.size) for e in record.events
                  if e.pool == 1 and e.kind in (recording.ALLOC, recording.FREE)]
        a, b = said["first"], said["moved"]
        take, give = recording.ALLOC, recording.FREE
        self.assertEqual(events, [
            (take, a, 10 * page),
            (give, a, 0), (take, a, 4 * page), (take, a + 5 * page, 5 * page),  # a hole
            (give, a, 0), (take, b, 400 * page),                                # moved
            (give, b, 0), (take, b + page, 399 * page), (take, b, page),        # replaced
            (give, b, 0), (give, b + page, 0),                                  # both at once
            (give, a + 5 * page, 0),
        ])
        self.assertFalse([e for e in record.replay()[0].values() if e.pool == 1])
        without, _ = self.record("mappings")
        self.assertFalse([e for e in without.events if e.pool])

    def test_operators(self):
        program = self.build("operators", OPERATORS, "-std=c++17", "-w", compiler=CXX,
                             language="c++")
        self.program = program
        record, _ = self.record(program=program)
        self.sound(record)
        made, freed = self.own(record)
        sizes = [(e.size, e.how) for e in made]
        self.assertEqual(sizes, [(1, 5), (1001, 5), (192, 4), (384, 5), (1002, 4)] +
                         [(1003, 0)] * 3)
        self.assertEqual([e.how for e in freed], [4, 5, 4, 5, 4, 0, 0, 0])
        # In a sample of nearly every byte those of some size are as above, in one of hardly any
        # there is nothing.
        record, _ = self.record(program=program, options="sample=1,seed=5")
        self.sound(record)
        made, freed = self.own(record)
        self.assertEqual([(e.size, e.how) for e in made if e.size > 1], sizes[1:])
        self.assertEqual(len(made), len(freed))
        self.assertEqual([e.how for e in freed][-7:], [5, 4, 5, 4, 0, 0, 0])
        record, _ = self.record(program=program, options=f"sample={1 << 60},seed=5")
        self.sound(record)
        self.assertEqual(self.own(record), ([], []))


# An allocator of its own that comes before the hooks, and that cannot work before its constructor.
OWN_ALLOCATOR = r"""
#include <stddef.h>
#include <stdlib.h>
static char *room, arena[1 << 20] __attribute__((aligned(16)));
__attribute__((constructor)) static void begin(void) { room = arena; }
void *malloc(size_t n)
{
    char *p = room;
    *p = 1;
    room += (n + 31) & ~15ul;
    return p;
}
void free(void *p) { (void)p; }
void *calloc(size_t n, size_t m) { return malloc(n * m); }
void *realloc(void *p, size_t n) { (void)p; return malloc(n); }
int main(void) { return malloc(10) ? 0 : 1; }
"""

INSTRUMENTED = r"""
#include <stdlib.h>
#include "tidemark.h"
int main(void)
{
    static char arena[1000];
    uint32_t pool = tidemark_pool("arena"), other = tidemark_pool("other");
    int before = tidemark_recording();
    TIDEMARK_ZONE("work");
    tidemark_alloc(pool, arena, 100);
    tidemark_alloc(other, arena, 200);
    tidemark_alloc(tidemark_pool("arena"), arena + 100, 50);
    tidemark_free(pool, arena);
    tidemark_plot("load", 0.5);
    tidemark_message("half way", 0xff0000);
    tidemark_zone_end();
    tidemark_frame(NULL);
    tidemark_discard(pool);
    tidemark_pause(1);
    void *volatile unseen = malloc(7777);
    tidemark_pause(0);
    void *volatile seen = malloc(8888);
    free(seen);
    return before ? 0 : 3;
}
"""


class Interface(ClientCase):
    """tidemark.h"""

    def instrumented(self, compiler=CC, language="c"):
        return self.build("instrumented", INSTRUMENTED, f"-I{ROOT / 'include'}",
                          compiler=compiler, language=language)

    def test_what_a_program_says(self):
        self.program = self.instrumented()
        record, _ = self.record(program=self.program)
        told = [e for e in record.events if e.pool or e.kind >= recording.POOL]
        self.assertEqual(told.pop(0).rest, ("main", "main"))
        self.assertEqual(told.pop().kind, recording.ZONE_END)
        arena = told[3].address
        take, give = recording.ALLOC, recording.FREE
        self.assertEqual(
            [(e.kind, e.pool, e.address - arena if e.pool else e.rest, e.size) for e in told],
            [(recording.POOL, 0, (2, "arena"), 0), (recording.POOL, 0, (3, "other"), 0),
             (recording.ZONE_BEGIN, 0, ("work", "main"), 0), (take, 2, 0, 100),
             (take, 3, 0, 200), (take, 2, 100, 50), (give, 2, 0, 0),
             (recording.PLOT, 0, ("load", 0.5), 0), (recording.MESSAGE, 0, "half way", 0),
             (recording.ZONE_END, 0, None, 0), (recording.FRAME, 0, (0, ""), 0),
             (recording.DISCARD, 0, 2, 0), (recording.PAUSE, 0, 1, 0),
             (recording.PAUSE, 0, 0, 0)])
        self.assertEqual(record.place(record.stack(told[3].stack)[0])[0], self.program)

    def test_times_without_a_time_stamp_counter(self):
        """Each message after a pause, in which no block is allocated, has a time of its own."""
        source = """
        #include <time.h>
        #include "tidemark.h"
        int main(void)
        {
            for (int i = 0; i < 3; i++) {
                nanosleep(&(struct timespec){.tv_nsec = 50000000}, 0);
                tidemark_message("next", 0);
            }
            return 0;
        }"""
        program = self.build("messages", source, f"-I{ROOT / 'include'}")
        record, _ = self.record(program=program, options=f"flags={COUNTER}")
        times, now = [], 0
        for event in record.events:
            if event.kind == recording.CLOCK:
                now = event.rest
            elif event.kind == recording.MESSAGE:
                times.append(now)
        self.assertEqual(len(times), 3)
        for before, after in zip(times, times[1:]):
            self.assertGreaterEqual(after - before, 40_000_000)

    def test_paused(self):
        record, _ = self.record(program=self.instrumented())
        sizes = {e.size for e in record.events if e.kind == recording.ALLOC}
        self.assertIn(8888, sizes)
        self.assertNotIn(7777, sizes)

    def test_in_cpp(self):
        self.record(program=self.instrumented(CXX, "c++"))

    def test_when_nobody_records(self):
        result = subprocess.run([self.instrumented()], timeout=LIMIT)
        self.assertEqual(result.returncode, 3)


# As much of the driver as the hooks know, on two devices; and of the runtime, on top of it.
DRIVER = r"""
#include <stddef.h>
#include <string.h>
static unsigned long long next = 0x7f0000000000;
static int device;
int fake_device(int n) { return device = n; }
int cuCtxGetDevice(int *n) { *n = device; return 0; }
int cuMemAlloc_v2(unsigned long long *p, size_t n)
{
    if (n > 1ul << 40)
        return 2;
    *p = next;
    next += (n + 511) & ~511ul;
    return 0;
}
int cuMemAllocAsync(unsigned long long *p, size_t n, void *s) { return cuMemAlloc_v2(p, n); }
int cuMemAllocAsync_ptsz(unsigned long long *p, size_t n, void *s) { return cuMemAlloc_v2(p, n); }
int cuMemAllocManaged(unsigned long long *p, size_t n, unsigned f) { return cuMemAlloc_v2(p, n); }
int cuMemAllocPitch_v2(unsigned long long *p, size_t *pitch, size_t w, size_t h, unsigned e)
{
    *pitch = (w + 511) & ~511ul;
    return cuMemAlloc_v2(p, *pitch * h);
}
int cuMemFree_v2(unsigned long long p) { return 0; }
int cuMemFreeAsync(unsigned long long p, void *s) { return 0; }
int cuMemFreeAsync_ptsz(unsigned long long p, void *s) { return 0; }
static char primary[2], own; /* contexts */
static void *context = primary;
int cuCtxGetCurrent(void **c) { *c = context; return 0; }
int cuCtxCreate_v2(void **c, unsigned flags, int n) { *c = context = &own; return 0; }
int cuCtxDestroy_v2(void *c) { context = primary + device; return 0; }
int cuDevicePrimaryCtxGetState(int n, unsigned *flags, int *active) { *active = n < 2; return 0; }
int cuDevicePrimaryCtxRetain(void **c, int n) { *c = primary + n; return 0; }
int cuDevicePrimaryCtxRelease_v2(int n) { return 0; }
int cuDevicePrimaryCtxReset_v2(int n) { return 0; }
int cuMemHostAlloc(unsigned long long *p, size_t n, unsigned f) { return cuMemAlloc_v2(p, n); }
int cuMemFreeHost(unsigned long long p) { return 0; }
int cuMemHostRegister_v2(void *p, size_t n, unsigned f) { return p ? 0 : 1; }
int cuMemHostUnregister(void *p) { return 0; }
int cuMemMap(unsigned long long p, size_t n, size_t o, unsigned long long m, unsigned long long f)
{
    return 0;
}
int cuMemUnmap(unsigned long long p, size_t n) { return 0; }
int cuGetProcAddress_v2(const char *name, void **f, int version, unsigned long long flags, void *s);
int cuGetProcAddress(const char *name, void **f, int version, unsigned long long flags)
{
    static const struct { const char *name; void *plain, *stream; } all[] = {
        {"cuMemAlloc", cuMemAlloc_v2, cuMemAlloc_v2},
        {"cuMemFree", cuMemFree_v2, cuMemFree_v2},
        {"cuMemAllocAsync", cuMemAllocAsync, cuMemAllocAsync_ptsz},
        {"cuMemFreeAsync", cuMemFreeAsync, cuMemFreeAsync_ptsz},
        {"cuGetProcAddress", cuGetProcAddress_v2, cuGetProcAddress_v2},
        {"cuCtxGetDevice", cuCtxGetDevice, cuCtxGetDevice},
        {"cuCtxDestroy", cuCtxDestroy_v2, cuCtxDestroy_v2},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        if (!strcmp(name, all[i].name)) {
            *f = flags & 2 ? all[i].stream : all[i].plain;
            return 0;
        }
    }
    return 500;
}
int cuGetProcAddress_v2(const char *name, void **f, int version, unsigned long long flags, void *s)
{
    return cuGetProcAddress(name, f, version, flags);
}
"""

RUNTIME = r"""
#include <stddef.h>
int cuMemAlloc_v2(unsigned long long *p, size_t n);
int cuMemFree_v2(unsigned long long p);
int cudaMalloc(unsigned long long *p, size_t n) { return cuMemAlloc_v2(p, n); }
int cudaFree(unsigned long long p) { return cuMemFree_v2(p); }
int cuMemHostAlloc(unsigned long long *p, size_t n, unsigned f);
int cuMemFreeHost(unsigned long long p);
int cuMemHostRegister_v2(void *p, size_t n, unsigned f);
int cuDevicePrimaryCtxReset_v2(int n);
int cuCtxGetDevice(int *n);
int cudaMallocHost(unsigned long long *p, size_t n) { return cuMemHostAlloc(p, n, 0); }
int cudaFreeHost(unsigned long long p) { return cuMemFreeHost(p); }
int cudaHostRegister(void *p, size_t n, unsigned f) { return cuMemHostRegister_v2(p, n, f); }
int cudaDeviceReset(void) { int n; return cuCtxGetDevice(&n) || cuDevicePrimaryCtxReset_v2(n); }
"""

GPU_PROGRAM = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stddef.h>
typedef unsigned long long address;
int fake_device(int n);
int cudaMalloc(address *p, size_t n);
int cudaFree(address p);
int cuMemAlloc_v2(address *p, size_t n);
int cuMemAllocManaged(address *p, size_t n, unsigned flags);
int cuMemAllocPitch_v2(address *p, size_t *pitch, size_t w, size_t h, unsigned e);
int cuMemFree_v2(address p);
int main(void)
{
    address a, b, c, d, e, f, none = 0;
    size_t pitch;
    cudaMalloc(&a, 1000);
    fake_device(1);
    cuMemAlloc_v2(&b, 2000);
    cudaFree(a); /* of the other device */
    cuMemAllocManaged(&c, 3000, 1);
    cuMemAllocPitch_v2(&d, &pitch, 100, 10, 4);
    int refused = cudaMalloc(&none, (size_t)1 << 41);
    void *driver = dlopen("libcuda.so.1", RTLD_NOW);
    int (*alloc)(address *, size_t) = dlsym(driver, "cuMemAlloc_v2");
    alloc(&e, 4000);
    int (*get)(const char *, void **, int, address) = dlsym(driver, "cuGetProcAddress");
    int (*get2)(const char *, void **, int, address, void *) = 0;
    int (*async)(address *, size_t, void *) = 0, (*free_async)(address, void *) = 0;
    if (get("cuGetProcAddress", (void **)&get2, 12000, 0) ||
        get2("cuMemAllocAsync", (void **)&async, 12000, 2, 0) ||
        get2("cuMemFreeAsync", (void **)&free_async, 12000, 2, 0))
        return 1;
    async(&f, 5000, 0);
    free_async(f, 0);
    cuMemFree_v2(e);
    /* The next definition behind this program's is still found by the place of the caller. */
    return refused == 2 && dlsym(RTLD_NEXT, "fake_device") && !dlsym(RTLD_NEXT, "main") ? 0 : 2;
}
"""


# Pinned memory, mappings, and what ends with a context.
GPU_CONTEXTS = r"""
#include <stddef.h>
typedef unsigned long long address;
int fake_device(int n);
int cudaMalloc(address *p, size_t n);
int cudaMallocHost(address *p, size_t n);
int cudaFreeHost(address p);
int cudaHostRegister(void *p, size_t n, unsigned f);
int cudaDeviceReset(void);
int cuMemHostRegister_v2(void *p, size_t n, unsigned f);
int cuMemHostUnregister(void *p);
int cuMemAlloc_v2(address *p, size_t n);
int cuMemHostAlloc(address *p, size_t n, unsigned f);
int cuMemMap(address p, size_t n, size_t o, address m, address f);
int cuMemUnmap(address p, size_t n);
int cuGetProcAddress(const char *name, void **f, int version, unsigned long long flags);
int cuCtxCreate_v2(void **c, unsigned flags, int n);
int cuDevicePrimaryCtxReset_v2(int n);
static char registered[100];
int main(void)
{
    address a, b;
    void *context;
    int (*destroy)(void *);
    cudaMallocHost(&a, 100);
    cudaFreeHost(a);
    cudaHostRegister(registered, 100, 0);
    cuMemHostUnregister(registered);
    int refused = cuMemHostRegister_v2(NULL, 200, 0);
    for (address i = 0; i < 3; i++)
        cuMemMap(0x6f0000000000 + i * 0x200000, 0x200000, 0, i, 0);
    cuMemUnmap(0x6f0000200000, 0x400000);
    cuMemMap(0x6f0000200000, 0x400000, 0, 3, 0);
    cudaMalloc(&a, 1000);
    if (cuCtxCreate_v2(&context, 0, 0) || cuGetProcAddress("cuCtxDestroy", (void **)&destroy, 12000, 0))
        return 1;
    cuMemAlloc_v2(&b, 2000);
    cuMemHostAlloc(&b, 3000, 0);
    destroy(context);
    fake_device(1);
    cuDevicePrimaryCtxReset_v2(2); /* not active */
    fake_device(0);
    cudaDeviceReset();
    cuMemAlloc_v2(&b, 4000);
    cuDevicePrimaryCtxReset_v2(0);
    return refused == 1 ? 0 : 2;
}
"""


class Gpu(ClientCase):
    """libtidemark-gpu.so with a driver that is none."""

    def record_gpu(self, preload, symbolic=("-Wl,-Bsymbolic",), source=GPU_PROGRAM):
        self.build("libcuda.so.1", DRIVER, "-shared", "-fPIC", "-Wl,-soname,libcuda.so.1",
                   *symbolic)
        self.build("libcudart.so", RUNTIME, "-shared", "-fPIC", str(self.dir / "libcuda.so.1"))
        self.program = self.build("gpu", source, str(self.dir / "libcudart.so"),
                                  str(self.dir / "libcuda.so.1"), f"-Wl,-rpath,{self.dir}")
        environment = self.environment()
        environment["LD_PRELOAD"] = preload
        process = self.start(self.program, env=environment)
        self.said(process)
        return self.recorded(process.pid)

    def test_device_memory(self):
        self.check(self.record_gpu(f"{LIBRARY}:{GPU_LIBRARY}"))

    def test_a_driver_that_meets_the_hooks_itself(self):
        self.check(self.record_gpu(f"{LIBRARY}:{GPU_LIBRARY}", symbolic=()))

    def check(self, record):
        self.sound(record)
        pools = dict(e.rest for e in record.events if e.kind == recording.POOL)
        events = [(pools[e.pool], e.kind, e.size) for e in record.events if e.pool]
        first, second = "CUDA device 0", "CUDA device 1"
        take, give = recording.ALLOC, recording.FREE
        self.assertEqual(events, [
            (first, take, 1000), (second, take, 2000), (first, give, 0), (second, take, 3000),
            (second, take, 5120), (second, take, 4000), (second, take, 5000), (second, give, 0),
            (second, give, 0)])
        for event in record.events:
            if event.pool and event.kind == take:
                self.assertEqual(record.place(record.stack(event.stack)[0])[0], self.program)

    def test_pinned_memory_mappings_and_ends_of_contexts(self):
        for symbolic in (("-Wl,-Bsymbolic",), ()):
            record = self.record_gpu(f"{LIBRARY}:{GPU_LIBRARY}", symbolic, GPU_CONTEXTS)
            self.sound(record)
            pools = dict(e.rest for e in record.events if e.kind == recording.POOL)
            live, events = {}, []
            for e in record.events:
                if e.pool and e.kind == recording.ALLOC:
                    live[e.pool, e.address] = e.size
                    events.append((pools[e.pool], e.size))
                elif e.pool and e.kind == recording.FREE:
                    events.append((pools[e.pool], -live.pop((e.pool, e.address))))
            device, pinned = "CUDA device 0", "CUDA pinned host memory"
            mapped, registered = 2 << 20, "CUDA registered host memory"
            self.assertEqual(events[:11], [
                (pinned, 100), (pinned, -100), (registered, 100), (registered, -100),
                *[(device, mapped)] * 3, *[(device, -mapped)] * 2, (device, 2 * mapped),
                (device, 1000)])
            self.assertEqual(events[11:13], [(device, 2000), (pinned, 3000)])
            self.assertEqual(sorted(events[13:15]), [(device, -2000), (pinned, -3000)])
            self.assertEqual(sorted(events[15:18]),
                             [(device, -2 * mapped), (device, -mapped), (device, -1000)])
            self.assertEqual(events[18:], [(device, 4000), (device, -4000)])
            self.assertFalse(live)

    def test_the_program_is_unharmed_without_a_recording(self):
        record = self.record_gpu(LIBRARY)
        self.assertFalse([e for e in record.events if e.pool])


class Stacks(ClientCase):
    def names(self, record, stack):
        return [record.place(frame) for frame in record.stack(stack)]

    def test_depth_of_recursion(self):
        record, _ = self.record("stacks", 10, 3, options="depth=64")
        depths = collections.Counter()
        aligned = collections.Counter()
        for event in self.own(record)[0]:
            frames = self.names(record, event.stack)
            inside = [place for place in frames if place and place[0] == self.program]
            # leaf, descend …, stacks, main, _start; the C library's between the last two
            self.assertEqual(frames[-1][0], self.program)
            self.assertIn("libc", frames[-2][0])
            depths[len(inside)] += 1
            aligned[inside[0][1]] += 1
        self.assertEqual(len(aligned), 1, "one place allocates")
        # leaf, stacks, main, _start; and 1 to 11 times descend, or aligned_frame
        self.assertEqual(depths, {5: 6, **{n: 3 for n in range(6, 16)}})

    def test_cut_stacks(self):
        def lengths(depth, recursion=20):
            record, _ = self.record("stacks", recursion, 2, options=f"depth={depth}")
            found = collections.defaultdict(set)
            for event in self.own(record)[0]:
                found[record.is_cut(event.stack)].add(len(record.stack(event.stack)))
            return found[True], found[False]
        self.assertEqual(lengths(6), ({6}, set()))
        whole = lengths(255)[1]
        deepest = max(whole)
        self.assertGreater(deepest, 20)
        self.assertEqual(lengths(deepest), (set(), whole))
        self.assertEqual(lengths(deepest - 1), ({deepest - 1}, whole - {deepest}))
        self.assertEqual(lengths(255, 300)[0], {255})

    def test_equal_stacks_are_one(self):
        record, _ = self.record("stacks", 10, 50, options="depth=64")
        self.assertEqual(len({e.stack for e in self.own(record)[0]}), 12)

    def test_through_a_signal_frame(self):
        record, _ = self.record("signal_stack")
        self.sound(record)
        found = [e for e in self.own(record)[0] if e.size == 4321]
        self.assertEqual(len(found), 2)
        for event in found:
            frames = record.stack(event.stack)
            self.assertTrue(any(exact for _, _, exact in frames))
            places = self.names(record, event.stack)
            self.assertEqual(len([p for p in places if p and p[0] == self.program]), 6)

    def test_libraries_at_the_same_address(self):
        sizes = {"first": 1111, "second": 2222}
        paths = {}
        for name, size in sizes.items():
            paths[name] = self.build(f"lib{name}.so", PLUGIN, "-shared", "-fPIC",
                                     f"-DNAME={name}", f"-DSIZE={size}")
        record, said = self.record("libraries", *paths.values())
        self.assertGreater(said["reused"], 0, "no address was used again")
        self.sound(record)
        made = [e for e in record.events
                if e.kind == recording.ALLOC and e.size in sizes.values()]
        self.assertEqual(len(made), 10)
        for event in made:
            place = record.place(record.stack(event.stack)[0])
            self.assertEqual(place[0], paths["first" if event.size == 1111 else "second"])
        ids = {bytes(build_id) for _, _, _, path, build_id, _ in record.modules
               if path in paths.values()}
        self.assertIn(len(ids), (1, 2))  # 1: the linker makes none


class Surroundings(ClientCase):
    def test_signal_handlers_that_allocate(self):
        bump = self.build("libbump.so", BUMP, "-shared", "-fPIC")
        program = self.build("storm", (HERE / "client_program.c").read_text(), bump)
        self.program = program
        record, said = self.record("storm", 300, program=program)
        self.sound(record)
        found = [e for e in record.events if e.kind == recording.ALLOC and e.size in (64, 123)]
        self.assertEqual(len(found), said["allocations"])

    def test_signal_handlers_that_jump_away(self):
        bump = self.build("libbump.so", BUMP, "-shared", "-fPIC")
        self.program = self.build("jumps", (HERE / "client_program.c").read_text(), bump)
        record, _ = self.record("jumps", 300, program=self.program)
        self.assertEqual(sum(record.lost["nested"]), 0)
        # Whatever was left in the middle: all that comes later is there, with its call stack.
        last = [e for e in record.events if e.kind == recording.ALLOC and e.size == 99]
        self.assertEqual(len(last), 1000)
        self.assertEqual(len([e for e in last if e.stack]), 1000)

    def test_hooks_are_no_points_of_cancellation(self):
        record, said = self.record("cancelled")
        self.assertEqual(said, {"finished": 1})
        self.sound(record)

    def test_an_allocator_of_the_program_that_is_not_ready(self):
        program = self.build("own", OWN_ALLOCATOR)
        self.assertEqual(subprocess.run([program], timeout=LIMIT).returncode, 0)
        record, _ = self.record(program=program)
        self.assertEqual(record.state, "exiting")

    def test_children_are_not_followed(self):
        process = self.start(self.program, "children")
        said = self.said(process)
        self.assertEqual(said, {"forked": 1, "fork": 0, "vfork": 0, "system": 3})
        self.assertEqual([p.name for p in self.dir.glob("rec.*")], [f"rec.{process.pid}"])
        record = self.recorded(process.pid)
        self.sound(record)
        self.assertEqual(record.children, 3)
        self.assertFalse([e for e in record.events if e.size == 2000])
        freed = [e for e in self.own(record)[1]]
        self.assertEqual(len(freed), 1)

    def test_children_where_no_page_is_wiped(self):
        """As before Linux 4.14 and in emulators: fork itself is noticed."""
        kernel = self.build("kernel.so", KEPT_PAGES, "-shared", "-fPIC")
        for options, records in (("", 1), (f"flags={FOLLOW}", 4)):
            environment = self.environment(options)
            environment["LD_PRELOAD"] = f"{LIBRARY}:{kernel}"
            process = self.start(self.program, "children", env=environment)
            self.assertEqual(self.said(process), {"forked": 1, "fork": 0, "vfork": 0, "system": 3})
            self.sound(self.recorded(process.pid))
            self.assertGreaterEqual(len(list(self.dir.glob("rec.*"))), records)

    def test_children_are_followed(self):
        process = self.start(self.program, "children", options=f"flags={FOLLOW}")
        self.said(process)
        records = [recording.Recording(p) for p in self.dir.glob("rec.*")]
        self.assertGreaterEqual(len(records), 4)
        self.sound(self.recorded(process.pid))
        child = [r for r in records if [e for e in r.events if e.size == 2000]]
        self.assertEqual(len(child), 1)
        self.assertEqual(child[0].ppid, process.pid)
        self.assertEqual(len(child[0].replay()[1]), 1)  # frees what its parent allocated

    def test_exec_goes_on(self):
        process = self.start("/bin/sh", "-c", f"exec {self.program} count 1 100")
        said = self.said(process)
        made, _ = self.own(self.recorded(process.pid))
        self.assertEqual(len(made), said["allocations"])

    def test_the_environment_is_left_in_order(self):
        environment = self.environment(LD_LIBRARY_PATH="")
        environment["LD_PRELOAD"] = f"{LIBRARY}:libm.so.6"
        process = self.start("env", env=environment)
        out, err = process.communicate(timeout=LIMIT)
        self.assertEqual((process.returncode, err), (0, ""))
        self.assertIn("LD_PRELOAD=libm.so.6\n", out)
        self.assertNotIn("TIDEMARK", out)
        self.assertTrue(self.recorded(process.pid).events)

    def test_without_a_collector_nothing_happens(self):
        for more in ({"TIDEMARK_RUN": "off"}, {"TIDEMARK_SOCKET": str(self.dir / "nobody")},
                     {"TIDEMARK_FILE": str(self.dir / "no" / "folder")}):
            environment = dict(os.environ, LD_PRELOAD=LIBRARY, **more)
            process = self.start(self.program, "count", "2", "1000", env=environment)
            self.assertGreaterEqual(self.said(process)["allocations"], 2000)

    def limited(self, what, value, *command, code=0, options=""):
        def limit():
            resource.setrlimit(what, (value, value))

        process = self.start(self.program, *command, options=options, preexec_fn=limit)
        return process, self.said(process, code)

    def test_file_size_limit(self):
        process, said = self.limited(resource.RLIMIT_FSIZE, 1 << 20, "count", "4", "50000")
        self.assertGreaterEqual(said["allocations"], 200000)
        record = self.recorded(process.pid)
        self.assertEqual((record.state, record.end_errno), ("full", 27))
        self.complete_up_to_the_end(record)

    def test_bounded_file(self):
        record, said = self.record("count", 4, 50000, options=f"bytes={1 << 20}")
        self.assertEqual((record.state, record.end_errno), ("full", errno.ENOBUFS))
        self.assertLessEqual(record.units * 16384, 1 << 20)
        self.complete_up_to_the_end(record)

    def test_dropped_blocks(self):
        record, said = self.record("count", 1, 100000, options=f"bytes={1 << 20},full=2")
        self.assertEqual(record.state, "exiting")
        self.sound(record)
        made, freed = self.own(record)
        dropped, size = record.dropped.pop(0)
        self.assertGreater(dropped, 1000)
        self.assertEqual(len(made) + dropped, said["allocations"])
        self.assertEqual(sum(event.size for event in made) + size, said["bytes"])
        # All are freed in the end: those that were dropped without a word.
        self.assertEqual(len(freed), len(made))
        self.assertEqual(record.dropped, {})
        told = [e.rest for e in record.events if e.kind == recording.LOSS]
        self.assertEqual([(4, dropped, size)],
                         [(why, sum(t[1] for t in told), sum(t[2] for t in told))
                          for why in {t[0] for t in told}])

    def test_dropped_blocks_of_threads(self):
        record, said = self.record("count", 8, 50000, options=f"bytes={1 << 20},full=2")
        self.assertEqual(record.state, "exiting")
        self.sound(record)
        made, freed = self.own(record)
        dropped = record.dropped[0][0]
        # What the C library takes for a thread may be among them.
        self.assertGreaterEqual(len(made) + dropped, said["allocations"])
        self.assertLessEqual(len(made) + dropped, said["allocations"] + 64)
        self.assertEqual(len(freed), len(made))

    def test_reallocs_of_dropped_blocks(self):
        record, said = self.record("full_reallocs", options=f"bytes={1 << 18},full=2")
        self.assertEqual(said["failed"], 1000)
        live, counts = self.sound(record)
        self.assertEqual(counts["put back"], said["known"])
        self.assertEqual([e for e in live.values() if e.size in (24, 48)], [])

    def complete_up_to_the_end(self, record):
        record.events = [e for e in record.events if e.stamp < record.end_stamp]
        self.assertGreater(len(record.events), 1000)
        self.assertEqual(record.replay()[1], [])
        self.assertGreater(record.lost["space"][0], 0)
        self.assertGreater(record.lost["space"][2], 0)

    def test_little_address_space(self):
        for room in (24, 48, 96):
            process, said = self.limited(resource.RLIMIT_AS, room << 20, "count", "1", "20000")
            self.assertGreaterEqual(said["allocations"], 20000)

    def test_few_descriptors(self):
        process, said = self.limited(resource.RLIMIT_NOFILE, 8, "count", "2", "5000")
        self.sound(self.recorded(process.pid))

    def test_a_program_that_closes_all_descriptors(self):
        record, said = self.record("daemon_like")
        self.assertEqual(said, {"done": 1})
        self.sound(record)
        self.assertEqual(len(self.own(record)[0]), 200001)

    def test_killed(self):
        process = self.start(self.program, "forever")
        self.assertEqual(process.stdout.readline(), "running 1\n")
        process.kill()
        process.communicate(timeout=LIMIT)
        record = self.recorded(process.pid)
        self.assertEqual(record.state, "recording")
        live, _ = self.sound(record)
        self.assertLessEqual(len([e for e in live.values() if e.size == 100]), 1)
        self.assertGreaterEqual(len(self.own(record)[0]), 100000)

    def test_closed_streams(self):
        process = subprocess.run(["/bin/sh", "-c", f"{self.program} count 1 100 >&- 2>&- <&-"],
                                 env=self.environment(), timeout=LIMIT)
        self.assertEqual(process.returncode, 99)  # it could not say what it did


class Collector(ClientCase):
    """The other end of the socket."""

    HELLO = struct.Struct("<8sIIiiIIQQ1024s")

    def setUp(self):
        super().setUp()
        self.path = str(self.dir / "socket")
        self.hellos = []
        self.accepted = []
        self.server = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.server.bind(self.path)
        self.server.listen(64)
        self.answer = 1
        self.options = recording.OPTIONS.pack(0, 0, 0, 0, 0, 0, 0, 0, 0, 0)
        self.thread = threading.Thread(target=self.serve, daemon=True)
        self.thread.start()

    def tearDown(self):
        self.server.shutdown(socket.SHUT_RDWR)
        self.thread.join(LIMIT)
        self.server.close()
        for connection in self.accepted:
            connection.close()
        super().tearDown()

    def serve(self):
        while True:
            try:
                connection, _ = self.server.accept()
            except OSError:
                return
            hello = self.HELLO.unpack(connection.recv(4096))
            self.hellos.append(hello)
            self.accepted.append(connection)
            fd = os.open(self.dir / f"rec.{hello[3]}", os.O_RDWR | os.O_CREAT, 0o600)
            welcome = struct.pack("<8sII", b"TMRECORD", 1, self.answer) + self.options
            connection.sendmsg([welcome], [(socket.SOL_SOCKET, socket.SCM_RIGHTS,
                                            array.array("i", [fd]))])
            os.close(fd)

    def start(self, *command, **more):
        environment = dict(os.environ, LD_PRELOAD=LIBRARY, TIDEMARK_SOCKET=self.path)
        return super().start(*command, env=environment, **more)

    def test_meeting(self):
        record, said = self.record("count", 2, 1000)
        self.sound(record)
        self.assertEqual(len(self.own(record)[0]), said["allocations"])
        magic, version, _, pid, ppid, origin, _, _, _, exe = self.hellos[0]
        self.assertEqual((magic, version, pid, ppid, origin),
                         (b"TMRECORD", 1, record.pid, os.getpid(), 0))
        self.assertEqual(exe.rstrip(b"\0").decode(), self.program)
        # Its death is the end of the connection.
        self.accepted[0].settimeout(LIMIT)
        self.assertEqual(self.accepted[0].recv(1), b"")

    def test_refused(self):
        self.answer = 0
        process = self.start(self.program, "count", "2", "1000")
        self.said(process)
        self.assertEqual(os.path.getsize(self.dir / f"rec.{process.pid}"), 0)

    def test_a_collector_that_dies(self):
        process = self.start(self.program, "forever")
        self.assertEqual(process.stdout.readline(), "running 1\n")
        self.accepted[0].close()
        size = (self.dir / f"rec.{process.pid}").stat().st_size
        end = time.monotonic() + LIMIT
        while (self.dir / f"rec.{process.pid}").stat().st_size <= size + (1 << 20):
            self.assertLess(time.monotonic(), end, "the program went on writing")
        self.assertIsNone(process.poll())
        process.kill()
        process.communicate(timeout=LIMIT)
        self.sound(self.recorded(process.pid))

    def test_the_same_file_again(self):
        record, said = self.record("daemon_like")
        self.assertEqual(said, {"done": 1})
        self.sound(record)
        self.assertEqual(len(self.own(record)[0]), 200001)
        self.assertEqual([hello[5] for hello in self.hellos], [0, 2])

    def test_followed_children(self):
        self.options = recording.OPTIONS.pack(0, FOLLOW, 0, 0, 0, 0, 0, 0, 0, 0)
        process = self.start(self.program, "children")
        self.said(process)
        origins = collections.Counter(hello[5] for hello in self.hellos)
        self.assertEqual(origins[1], 1)
        self.assertGreaterEqual(origins[0], 2)
        (stamp,) = [hello[8] for hello in self.hellos if hello[5] == 1]
        self.assertEqual(stamp > 0, self.recorded(process.pid).clock == recording.CLOCK_TSC)

    def test_waiting_for_room(self):
        """With when_full 1 the program waits until units were released."""
        self.options = recording.OPTIONS.pack(0, 0, 0, 0, 0, 0, 0, 1 << 20, 1, 0)
        process = self.start(self.program, "count", "2", "80000")
        path = self.dir / f"rec.{process.pid}"
        end = time.monotonic() + LIMIT
        while process.poll() is None:
            self.assertLess(time.monotonic(), end)
            if path.exists() and path.stat().st_size >= 16384:
                with open(path, "r+b") as file:
                    at = self.released_at()
                    file.seek((1224 + 63) // 64 * 64 + 4)
                    taken = struct.unpack("<I", file.read(4))[0]
                    file.seek(at)
                    file.write(struct.pack("<I", max(taken, 16) - 16))
            time.sleep(0.01)
        said = self.said(process)
        record = self.recorded(process.pid)
        self.assertEqual(record.state, "exiting")
        self.sound(record)
        self.assertEqual(len(self.own(record)[0]), said["allocations"])
        self.assertGreater(record.units * 16384, 2 << 20)

    @staticmethod
    def released_at():
        # state … children, early_allocations; lost; too_small; then a line of its own
        at = (1224 + 63) // 64 * 64 + 40 + 4 * 24 + 8
        return (at + 63) // 64 * 64
