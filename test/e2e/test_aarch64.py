"""libtidemark.so for AArch64, built by a cross compiler and run by qemu."""

import collections
import os
import pathlib
import shutil
import subprocess
import unittest

import recording
from tools import LIMIT, ROOT, TIDEMARK, Case

CC = "aarch64-linux-gnu-gcc"
SYSROOT = pathlib.Path("/usr/aarch64-linux-gnu")
THERE = shutil.which(CC) and shutil.which("qemu-aarch64") and (SYSROOT / "include").exists()

SOURCE = r"""
#include <pthread.h>
#include <stdlib.h>
#define KEEP(p) __asm__ volatile("" : "+r"(p))
__attribute__((noinline)) void *inner(size_t n) { void *p = malloc(n); KEEP(p); return p; }
__attribute__((noinline)) void *outer(size_t n) { void *p = inner(n); KEEP(p); return p; }
static void *work(void *extra)
{
    for (int i = 0; i < 500; i++) {
        void *p = outer(1000 + (size_t)extra);
        p = realloc(p, 2000 + (size_t)extra);
        free(p);
    }
    return NULL;
}
int main(void)
{
    pthread_t threads[4];
    for (size_t i = 0; i < 4; i++)
        if (pthread_create(&threads[i], NULL, work, (void *)i))
            return 1;
    for (size_t i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    return 7;
}
"""


@unittest.skipUnless(THERE, f"no {CC}, libc6-dev-arm64-cross or qemu-user")
class AArch64(Case):
    def built(self):
        clean = {k: v for k, v in os.environ.items() if not k.startswith(("MAKE", "MFLAGS"))}
        subprocess.run(["make", "-s", "-C", str(ROOT), f"BUILD={self.dir}", "SAN=",
                        "client-aarch64"], check=True, env=clean,
                       stdout=subprocess.DEVNULL)
        return self.dir / "aarch64" / "libtidemark.so"

    def recorded(self, library, program, options=""):
        path = self.dir / "recording"
        path.unlink(missing_ok=True)
        # What is read of /proc/self/environ is qemu's own environment.
        environment = dict(os.environ, TIDEMARK_FILE=str(path), TIDEMARK_OPTIONS=options)
        result = subprocess.run(["qemu-aarch64", "-L", str(SYSROOT), "-E",
                                 f"LD_PRELOAD={library}", str(program)], env=environment,
                                stdin=subprocess.DEVNULL, timeout=LIMIT)
        self.assertEqual(result.returncode, 7)
        return recording.Recording(path)

    def check(self, record, program):
        live, faults, _ = record.replay()
        self.assertEqual(faults, [])
        self.assertEqual(record.state, "exiting")
        self.assertEqual([lost for lost in record.lost.values() if any(lost)], [])
        stacks = collections.defaultdict(set)
        sizes = collections.Counter()
        for event in record.events:
            if event.kind == recording.ALLOC and 1000 <= event.size < 2004:
                sizes[event.size] += 1
                places = [record.place(pc) for pc in record.stack(event.stack)]
                stacks[event.size // 1000].add(sum(1 for p in places if p and p[0] == program))
        self.assertEqual(sizes, {size + i: 500 for size in (1000, 2000) for i in range(4)})
        # inner, outer and work; work alone
        self.assertEqual(dict(stacks), {1: {3}, 2: {1}})
        self.assertFalse([e for e in live.values() if 1000 <= e.size < 2004])

    def test_events_and_call_stacks(self):
        library = self.built()
        for name, flag in (("plain", "-fno-omit-frame-pointer"),
                           ("signed", "-mbranch-protection=standard")):
            with self.subTest(name):
                program = self.dir / name
                subprocess.run([CC, "-O1", "-fno-omit-frame-pointer", flag, "-fno-builtin",
                                "-fno-optimize-sibling-calls", "-x", "c", "-", "-o", str(program),
                                "-pthread"], input=SOURCE, text=True, check=True)
                self.check(self.recorded(library, program), str(program))
        record = self.recorded(library, program, "sample=4096,seed=3")
        self.assertEqual(record.replay()[1], [])
        trace = self.dir / "out.tracy"
        self.recorded(library, program)
        result = subprocess.run([TIDEMARK, "run", "--recover", str(self.dir / "recording"), "-o",
                                 str(trace), "--no-debuginfod"], stdout=subprocess.PIPE,
                                stderr=subprocess.STDOUT, text=True, timeout=LIMIT)
        self.assertEqual(result.returncode, 0, result.stdout)
        self.assertIn("inner", result.stdout)
