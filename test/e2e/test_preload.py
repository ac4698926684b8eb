"""Allocation wrappers that leak into a capture through LD_PRELOAD."""

import os
import subprocess

from clients import thread_name
from test_capture import FakeClient, alloc, frame
from tools import LIMIT, TIDEMARK, Case

WRAPPER = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <unistd.h>
void *malloc(size_t n) { return calloc(1, n); }
__attribute__((constructor)) static void hello(void)
{
    static const char word[] = "WRAPPED\n";
    if (write(2, word, sizeof word - 1) < 0)
        _exit(9);
}
"""

BYSTANDER = "int bystander;\n"


class Preload(Case):
    def library(self, name, source):
        path = self.dir / name
        subprocess.run([os.environ.get("CC", "gcc"), "-shared", "-fPIC", "-x", "c", "-o", str(path),
                        "-"], input=source, text=True, check=True)
        return path

    def capture(self, preload, *args, program=(TIDEMARK, "capture")):
        client = FakeClient(frame(thread_name(7, b"main") + alloc(10, 7, 0x1000, 64) + b"\x3b"))
        environment = dict(os.environ, LD_PRELOAD=preload)
        # A sanitizer's runtime must come first and says so when something is before it.
        environment["ASAN_OPTIONS"] = "verify_asan_link_order=0:detect_leaks=0"
        result = subprocess.run([*program, "-o", str(self.dir / "out.tracy"), "-f", "-p",
                                 str(client.port), *args], stdout=subprocess.PIPE,
                                stderr=subprocess.PIPE, text=True, env=environment,
                                timeout=LIMIT)
        client.end()
        self.assertEqual(result.returncode, 0, result.stderr)
        return result.stderr

    def test_a_known_wrapper_is_dropped_once(self):
        wrapper = self.library("liballocwrapper.so", WRAPPER)
        other = self.library("libother.so", BYSTANDER)
        said = self.capture(f"{other}:{wrapper}")
        self.assertEqual(said.count("WRAPPED"), 1, said)
        self.assertIn("liballocwrapper.so is preloaded", said)
        self.assertNotIn("libother", said)

    def test_under_a_drop_in_name(self):
        wrapper = self.library("liballocwrapper.so", WRAPPER)
        name = self.dir / "tracy-capture"
        name.symlink_to(TIDEMARK)
        said = self.capture(str(wrapper), program=(str(name),))
        self.assertEqual(said.count("WRAPPED"), 1, said)

    def test_other_libraries_stay(self):
        # An allocator by another name, and a file of a wrapper's name that wraps nothing.
        allocator = self.library("libfastmalloc.so", WRAPPER)
        harmless = self.library("liballocwrapper.so", BYSTANDER)
        said = self.capture(f"{allocator} {harmless}")
        self.assertEqual(said.count("WRAPPED"), 1, said)
        self.assertNotIn("is preloaded", said)

    def test_one_that_is_named(self):
        allocator = self.library("libfastmalloc.so", WRAPPER)
        said = self.capture(str(allocator), "--drop-preload", "fastmalloc")
        self.assertEqual(said.count("WRAPPED"), 1, said)
        self.assertIn("libfastmalloc.so is preloaded", said)
