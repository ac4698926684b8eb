"""`tidemark run` of programs that generate code: names from their perf maps."""

import json
import os
import pathlib
import re
import shutil
import subprocess
import unittest

from test_run import RunCase, compiled, record
from tools import report, run

NODE = shutil.which("node")
OPTIONS = ("--perf-basic-prof", "--interpreted-frames-native-stack")

SCRIPT = """
const keep = [];
function cache(n) {
    keep.push(Buffer.alloc(100000 + n, 1));
}
function handle(n) {
    cache(n);
}
for (let i = 0; i < 1000; i++)
    handle(i);
"""

# Copies the code of a function that takes a block to memory of its own, and says so as told.
PROGRAM = r"""
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
typedef void *make(void *(*take)(size_t), size_t n);
/* push rbp; mov rbp, rsp; mov rax, rdi; mov rdi, rsi; call rax; pop rbp; ret */
static const unsigned char code[] = {0x55, 0x48, 0x89, 0xe5, 0x48, 0x89, 0xf8, 0x48,
                                     0x89, 0xf7, 0xff, 0xd0, 0x5d, 0xc3};
int main(int count, char **argv)
{
    char path[64];
    char *room = mmap(NULL, 8192, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS,
                      -1, 0);
    (void)count;
    memcpy(room, code, sizeof code);
    memcpy(room + 4096, code, sizeof code);
    snprintf(path, sizeof path, "/tmp/perf-%d.map", getpid());
    if (!strcmp(argv[1], "link"))
        return symlink(argv[2], path);
    FILE *f = fopen(path, "w");
    fprintf(f, "%lx %zx made by hand\n", (long)room, sizeof code);
    fprintf(f, "%lx 10 JS:~old /a.js:1:1\n%lx 10 JS:*new /a.js:9:1\nnonsense\n", (long)room + 4096,
            (long)room + 4096);
    fclose(f);
    if (!strcmp(argv[1], "other"))
        (void)!chown(path, 65534, 65534);
    if (!strcmp(argv[1], "large"))
        (void)!truncate(path, 257L << 20);
    ((make *)room)(malloc, 3000);
    ((make *)(room + 4096))(malloc, 5000);
    return 0;
}
"""


@unittest.skipUnless(os.uname().machine == "x86_64", "the code is x86-64's")
class Generated(RunCase):
    def setUp(self):
        super().setUp()
        source = self.dir / "jit.c"
        source.write_text(PROGRAM)
        self.program = compiled(self.dir, "jit", source=source)

    def names(self):
        found = {}
        for size in (3000, 5000):
            blocks = run("find", self.trace, "0x0-0x7fffffffffff", "--size", f"{size}:{size}",
                         "--format", "json")
            block, = json.loads(blocks.stdout)["allocations"]
            frame = block["callstack"][0]
            found[size] = (frame["function"], frame["file"], frame["line"])
        return found

    def record(self, *arguments):
        result = record(self.dir, self.program, *arguments, options=["-f"])
        self.assertEqual(result.returncode, 0, result.stderr)
        for path in pathlib.Path("/tmp").glob("perf-*.map"):
            if "made by hand" in path.read_text(errors="replace")[:100]:
                path.unlink()
        return result.stderr

    def facts(self):
        info = json.loads(run("info", self.trace, "--format", "json").stdout)
        return {f["key"]: f["value"] for f in info["facts"]}

    def test_names(self):
        said = self.record("plain")
        self.assertEqual(self.names(), {3000: ("made by hand", None, None),
                                        5000: ("new or old", None, None)})
        self.assertEqual(self.facts()["generated_code"], "2 ambiguous 1")
        self.assertNotIn("generated code", said)
        self.assertNotIn("runtime_heap", self.facts())

    @unittest.skipUnless(os.geteuid() == 0, "only root can give a file away")
    def test_of_another_user(self):
        said = self.record("other")
        self.assertRegex(said, r"no names of generated code: /tmp/perf-\d+\.map: it is another user's\n")
        self.assertEqual(self.names()[3000][0], None)

    def test_large(self):
        said = self.record("large")
        self.assertRegex(said, r"no names of generated code: .*: it has more than 256 MiB\n")


@unittest.skipUnless(NODE, "there is no node")
class Node(RunCase):
    def record(self, *options):
        script = self.dir / "script.js"
        script.write_text(SCRIPT)
        result = record(self.dir, NODE, *options, script, cwd=self.dir)  # it leaves a log
        for path in pathlib.Path("/tmp").glob("perf-*.map"):
            if str(script) in path.read_text(errors="replace"):
                path.unlink()
        self.assertEqual(result.returncode, 0, result.stderr)
        return result.stderr

    def test_functions_of_a_script(self):
        said = self.record(*OPTIONS)
        self.assertNotIn("no names", said)
        blocks = run("find", self.trace, "0x0-0x7fffffffffff", "--size", "100000:200000", "--limit",
                     "0", "--format", "json")
        blocks = json.loads(blocks.stdout)["allocations"]
        cached = [b for b in blocks if any(re.match("cache( or .*)?$", f["function"] or "")
                                           for f in b["callstack"])]
        self.assertGreater(len(cached), 900)
        places = {(f["file"], f["line"]) for b in cached for f in b["callstack"]
                  if f["function"] == "cache"}
        self.assertEqual(places, {(str(self.dir / "script.js"), 3)})
        first = report(self.trace)["sites"][0]
        self.assertEqual((first["function"], first["file"]), ("cache", str(self.dir / "script.js")))
        self.assertGreater(first["bytes"], 90 * 1000 * 1000)
        told = run("report", "--why-site", self.trace).stdout
        self.assertIn(": of the runtime or its library\n", told)
        self.assertIn("site: the program's innermost function in generated code\n", told)
        self.assertIn("objects in the heap of V8 were not recorded\n", told)

    def test_options_are_named(self):
        said = self.record()
        self.assertIn("call stacks have no names of node code; the options --perf-basic-prof "
                      "--interpreted-frames-native-stack give them\n", said)


JAVA_PROGRAM = """
import java.nio.ByteBuffer;
public class Cache {
    static ByteBuffer[] keep = new ByteBuffer[200];
    static void cache(int n) { keep[n % 200] = ByteBuffer.allocateDirect(100000 + n); }
    static void handle(int n) { cache(n); }
    public static void main(String[] unused) { for (int i = 0; i < 6000; i++) handle(i); }
}
"""


@unittest.skipUnless(shutil.which("java") and shutil.which("javac"), "there is no JDK")
class Java(RunCase):
    def test_compiled_methods(self):
        """The interpreter's frames have no names, so the first calls do not count."""
        source = self.dir / "Cache.java"
        source.write_text(JAVA_PROGRAM)
        subprocess.run(["javac", "-d", self.dir, source], check=True, capture_output=True)
        result = record(self.dir, "java", "-XX:+PreserveFramePointer",
                        "-XX:+UnlockDiagnosticVMOptions", "-XX:+DumpPerfMapAtExit", "-Xbatch", "-cp",
                        self.dir, "Cache")
        for path in pathlib.Path("/tmp").glob("perf-*.map"):
            if "Cache.cache" in path.read_text(errors="replace"):
                path.unlink()
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("objects in the heap of the Java virtual machine were not recorded", result.stderr)
        sites = {s["function"]: s for s in report(self.trace)["sites"]}
        made = [sites[n]["bytes"] for n in ("Cache.cache", "Cache.handle", "Cache.main") if n in sites]
        self.assertGreater(sum(made), 6000 * 100000 // 2)


if __name__ == "__main__":
    unittest.main()
