"""`tidemark run` of programs that generate code: names from their perf maps."""

import json
import os
import pathlib
import re
import shutil
import signal
import subprocess
import unittest

from test_run import RunCase, compiled, record
from tools import TIDEMARK, report, run

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
    if (!strcmp(argv[1], "wait"))
        getchar();
    if (!strcmp(argv[1], "remove")) {
        sleep(3);
        unlink(path);
    }
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
            blocks = run("find", self.trace, "0x0-0xffffffffffff", "--size", f"{size}:{size}",
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

    def test_removed_by_the_program(self):
        said = self.record("remove")
        self.assertEqual(self.names()[3000], ("made by hand", None, None))
        self.assertNotIn("generated code", said)

    def test_servers_of_listen(self):
        """They ask while the program runs: they have neither the names nor the fact."""
        served = self.dir / "served.tracy"
        with subprocess.Popen([TIDEMARK, "run", "-f", "-o", self.trace, "--listen", "--port", "0",
                               "--report", "none", "--", self.program, "wait"], text=True,
                              stdin=subprocess.PIPE, stderr=subprocess.PIPE) as process:
            port = re.search(r"127\.0\.0\.1:(\d+)", process.stderr.readline())[1]
            with subprocess.Popen([TIDEMARK, "capture", "-o", served, "-p", port], text=True,
                                  stdout=subprocess.PIPE) as capture:
                while not capture.stdout.readline().startswith("jit, protocol"):
                    self.assertIsNone(capture.poll())
                process.stdin.close()
                capture.stdout.read()
            process.stderr.read()
        self.assertEqual((process.returncode, capture.returncode), (0, 0))
        self.assertEqual(self.facts()["generated_code"], "2 ambiguous 1")
        own, self.trace = self.names(), served
        self.assertEqual(own[3000], ("made by hand", None, None))
        self.assertNotEqual(self.names()[3000][0], "made by hand")
        self.assertNotIn("generated_code", self.facts())

    @unittest.skipUnless(os.geteuid() == 0, "only root can mount")
    def test_in_another_mount_namespace(self):
        """A /tmp of its own with the folders of the library's socket and of the test.

        Folders of tests beside this one are there, too, and may go while this one mounts them."""
        script = """
            set -e
            mkdir "$1/tmp"
            mount -t tmpfs none "$1/tmp"
            for folder in /tmp/tidemark*/; do
                mkdir "$1/tmp/${folder#/tmp/}"
                mount --bind "$folder" "$1/tmp/${folder#/tmp/}" || test ! -e "$folder"
            done
            mount --move "$1/tmp" /tmp
            exec "$1/jit" plain"""
        if subprocess.run(["unshare", "-m", "true"], capture_output=True).returncode:
            self.skipTest("namespaces are not permitted")
        result = record(self.dir, "unshare", "-m", "sh", "-c", script, "sh", self.dir, options=["-f"])
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(self.names()[3000], ("made by hand", None, None))

    @unittest.skipUnless(os.geteuid() == 0, "only root can give a file away")
    def test_of_another_user(self):
        said = self.record("other")
        self.assertRegex(said, r"no names of generated code: /tmp/perf-\d+\.map: it is another user's\n")
        self.assertEqual(self.names()[3000][0], None)

    def test_large(self):
        said = self.record("large")
        self.assertRegex(said, r"no names of generated code: .*: it has more than 256 MiB\n")


# The same code at two places, in turns that of several functions; blocks tell which one took them.
DUMPING = PROGRAM[:PROGRAM.index("int main")] + r"""
#include <stdint.h>
#include <time.h>
#include <fcntl.h>
static FILE *dump;
static uint64_t now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}
static void put(uint32_t kind, const uint64_t *numbers, uint32_t count, const char *name)
{
    uint32_t more = name ? (uint32_t)strlen(name) + 1 : 0;
    const uint32_t head[] = {kind, 16 + count * 8 + more};
    uint64_t time = now();
    fwrite(head, sizeof head, 1, dump);
    fwrite(&time, sizeof time, 1, dump);
    fwrite(numbers, 8, count, dump);
    fwrite(name, 1, more, dump);
}
static void load(char *at, uint64_t index, const char *name)
{
    const uint64_t numbers[] = {0, (uintptr_t)at, (uintptr_t)at, sizeof code, index};
    put(0, numbers, 5, name);
}
static void move(char *from, char *to, uint64_t index)
{
    const uint64_t numbers[] = {0, (uintptr_t)to, (uintptr_t)from, (uintptr_t)to, sizeof code, index};
    put(1, numbers, 6, NULL);
}
int main(int count, char **argv)
{
    char path[4096];
    char *room = mmap(NULL, 8192, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS,
                      -1, 0);
    memcpy(room, code, sizeof code);
    memcpy(room + 4096, code, sizeof code);
    snprintf(path, sizeof path, "%s/jit-%d.dump", argv[1], getpid());
    dump = fopen(path, "w+");
    const uint32_t head[] = {0x4a695444, 1, 40, 62, 0, (uint32_t)getpid(), 0, 0, count > 3, 0};
    fwrite(head, sizeof head, 1, dump);
    fflush(dump);
    if (!strcmp(argv[2], "map")) { /* long enough that its mappings are seen */
        if (mmap(NULL, 4096, PROT_READ | PROT_EXEC, MAP_PRIVATE, fileno(dump), 0) == MAP_FAILED)
            return 1;
        sleep(2);
    }
    load(room, 1, "JS:*first /a.js:1:1");
    ((make *)room)(malloc, 3000);
    const uint64_t lines[] = {(uintptr_t)room, 1, (uintptr_t)room, 7 | (uint64_t)9 << 32};
    put(2, lines, 4, "/b.js");
    load(room, 2, "JS:*second /a.js:4:1");
    free(((make *)room)(malloc, 4000));
    move(room, room + 4096, 2);
    ((make *)(room + 4096))(malloc, 5000);
    load(room, 3, "third");
    ((make *)room)(malloc, 6000);
    load(room, 4, "JS:*first /a.js:1:1");
    ((make *)room)(malloc, 7000);
    fclose(dump);
    return 0;
}
"""


@unittest.skipUnless(os.uname().machine == "x86_64", "the code is x86-64's")
class Moving(RunCase):
    """Code that moves and addresses that are used again, in a jitdump."""
    FUNCTIONS = {3000: ("first", "/a.js", 1), 4000: ("second", "/b.js", 7),
                 5000: ("second", "/b.js", 7), 6000: ("third", None, None),
                 7000: ("first", "/a.js", 1)}

    def setUp(self):
        super().setUp()
        source = self.dir / "moving.c"
        source.write_text(DUMPING)
        self.program = compiled(self.dir, "moving", source=source)

    def record(self, *arguments, options=()):
        result = record(self.dir, self.program, *arguments, options=["-f", *options], cwd=self.dir)
        self.assertEqual(result.returncode, 0, result.stderr)
        return result.stderr

    def names(self):
        found = {}
        for size in self.FUNCTIONS:
            blocks = run("find", self.trace, "0x0-0xffffffffffff", "--size", f"{size}:{size}",
                         "--format", "json")
            block, = json.loads(blocks.stdout)["allocations"]
            frame = block["callstack"][0]
            found[size] = (frame["function"], frame["file"], frame["line"])
        return found

    def test_each_time_has_its_function(self):
        said = self.record(self.dir, "plain")
        self.assertNotIn("generated code", said)
        self.assertEqual(self.names(), self.FUNCTIONS)
        info = json.loads(run("info", self.trace, "--format", "json").stdout)
        self.assertIn(("generated_code", "2 ambiguous 0"), [(f["key"], f["value"]) for f in info["facts"]])
        self.assertEqual(run("verify", self.trace).returncode, 0)
        sites = {(s["function"], s["line"]): s["bytes"] for s in report(self.trace)["sites"]}
        self.assertEqual(sites["first", 1], 10000)
        self.assertEqual(sites["second", 7], 9000)
        self.assertEqual(sites["third", 0] if ("third", 0) in sites else sites["third", None], 6000)

    def test_found_among_its_mappings(self):
        folder = self.dir / "elsewhere"
        folder.mkdir()
        self.record(folder, "map")
        self.assertEqual(self.names(), self.FUNCTIONS)

    def test_without_times(self):
        """Times of another clock are none; and a trace of figures only has none."""
        self.record(self.dir, "plain", "processor's time")
        self.assertEqual(self.names()[3000], ("first or 2 other functions", None, None))
        self.record(self.dir, "plain", options=["--figures"])
        self.assertIn("first or 2 other functions",
                      {s["function"] for s in report(self.trace)["sites"]})


# A server that keeps a page for each address, and ends as services do. A compiler that inlines `load`
# names its caller, so few calls are made.
SERVER = """
const cache = new Map();
function load(id) {
    return Buffer.alloc(20000, 1);
}
function handle(id) {
    Buffer.alloc(30000, 1);
    if (!cache.has(id))
        cache.set(id, load(id));
}
let id = 0;
function serve() {
    handle(id++);
    handle(id++);
    if (id < 700)
        setTimeout(serve, 5);
    else
        process.kill(process.pid, 'SIGTERM');
}
serve();
"""


@unittest.skipUnless(NODE, "there is no node")
class Node(RunCase):
    def record(self, *options, text=SCRIPT, status=0):
        script = self.dir / "script.js"
        script.write_text(text)
        result = record(self.dir, NODE, *options, script, cwd=self.dir)  # it leaves a log
        for path in pathlib.Path("/tmp").glob("perf-*.map"):
            if str(script) in path.read_text(errors="replace"):
                path.unlink()
        self.assertEqual(result.returncode, status, result.stderr)
        return result.stderr

    def test_a_cache_of_buffers_leads(self):
        self.record("--perf-prof", OPTIONS[1], text=SERVER, status=128 + signal.SIGTERM)
        leaks = json.loads(run("report", "--leaks", self.trace, "--format", "json").stdout)
        first = leaks["leaks"][0]
        self.assertEqual(leaks["trace"]["runtime_heap"], "V8")
        for text in (run("report", "--leaks", *form, self.trace).stdout
                     for form in ((), ("--format", "markdown"))):
            self.assertIn("bjects in the heap of V8 were not recorded", text)
        note = "tidemark: objects in the heap of V8 were not recorded\n"
        for question in (["report", "--grown"], ["report", "--by", "sample"], ["report", "--histograms"],
                         ["tree"], ["timeline"], ["diff", self.trace]):
            said = run(*question, self.trace)
            self.assertEqual(said.stderr.count(note), 1, said)
        for question in ([], ["--leaks"], ["--leaks", "--grown"]):
            said = run("report", *question, self.trace)
            self.assertEqual((said.stderr.count(note), said.stdout.count("n the heap of V8")), (0, 1), said)
        self.assertEqual((first["kind"], first["file"]), ("growing", str(self.dir / "script.js")))
        self.assertIn(first["function"], ("load", "handle"))
        self.assertGreater(first["live_count"], 600)

    def test_functions_of_a_script(self):
        self.record(*OPTIONS)
        self.check_functions()

    def test_frames_of_the_runtime_are_hidden(self):
        """Those of node's image, which is a library or the program itself. If it is a library, the C
        library's start of the program stays."""
        self.record(*OPTIONS)
        frames, sites = {}, {}
        for choice in ("show", "hide"):
            summary = json.loads(run("report", "--runtime-frames", choice, "--format", "json",
                                     self.trace).stdout)
            cached = [s for s in summary["sites"] if s["function"] == "cache"]
            frames[choice] = {(f["image"], f["function"]) for s in cached for f in s["callstack"]}
            sites[choice] = [(s["file"], s["line"], s["count"], s["bytes"])
                             for s in summary["sites"]
                             if s["file"] == str(self.dir / "script.js")]
        runtime = {image for image, function in frames["show"] if function.startswith("node::")}
        self.assertEqual(len(runtime), 1, frames["show"])
        hidden = {image for image, _ in frames["hide"]}
        self.assertIn("[generated code]", hidden)
        if runtime == {os.path.realpath(NODE)}:
            self.assertEqual(hidden, {"[generated code]"})
        self.assertFalse(hidden & runtime)
        self.assertEqual(sites["hide"], sites["show"])
        tree = run("tree", "--runtime-frames", "hide", "--depth", "30", self.trace).stdout
        self.assertNotIn("::", tree[:tree.index(" (anonymous)\n")])
        self.assertRegex(tree, r"│ handle\n.*│ cache\n")

    def test_functions_of_a_jitdump(self):
        """With lines of calls, also in compiled code."""
        self.record("--perf-prof", OPTIONS[1])
        self.assertEqual(len(list(self.dir.glob("jit-*.dump"))), 1)
        self.check_functions()
        info = json.loads(run("info", self.trace, "--format", "json").stdout)
        fact, = (f["value"] for f in info["facts"] if f["key"] == "generated_code")
        self.assertRegex(fact, r"^\d+ ambiguous 0$")

    def check_functions(self):
        blocks = run("find", self.trace, "0x0-0xffffffffffff", "--size", "100000:200000", "--limit",
                     "0", "--format", "json")
        blocks = json.loads(blocks.stdout)["allocations"]
        cached = [b for b in blocks if any(re.match("cache( or .*)?$", f["function"] or "")
                                           for f in b["callstack"])]
        self.assertGreater(len(cached), 900)
        places = {(f["file"], f["line"]) for b in cached for f in b["callstack"]
                  if f["function"] == "cache"}
        self.assertEqual(places, {(str(self.dir / "script.js"), 3)})
        summary = report(self.trace)
        self.assertEqual(summary["trace"]["runtime_heap"], "V8")
        first = summary["sites"][0]
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
