"""`tidemark import`: Chrome traces and heaptrack recordings become traces with the content that
their texts tell, under every name of the command; what is damaged is refused or counted."""

import gzip
import json
import os
import re
import resource
import subprocess

from tools import LIMIT, TIDEMARK, Case, report, run

RAW = """v 10500 3
x c /opt/app/app
X ./app --fast
I 1000 5e298d
m 1 -
m 1 x 559368f62000 0 1000 1000 400
m 9 /lib/c.so 7fd06a200000 0 200000
t 7fd06a200100 0
t 559368f630e6 1
t 559368f630fa 2
+ 40 3 559369000010
+ 18 3 559369000060
c a
R 3d0
- 559369000010
- dead
+ 100 2 559369000010
c 14
"""

INTERPRETED = """v 10500 3
X ./app --fast
I 1000 5e298d
s c /opt/app/app
s 4 main
s 7 app.cpp
s 4 grow
s 6 inline
i 559368f631e6 1 2 3 e
t 1 0
i 559368f631fa 1 5 3 6 4 3 f
t 2 1
i 7fd06a2a57b9 0
t 3 0
a 40 2
+ 0
+ 0
a c 3
c a
R 3d0
+ 1
- 0
- 1
+ 0
- 1
c 14
# strings: 5
"""


class Importing(Case):
    def write(self, content, name="in.json"):
        path = self.dir / name
        if isinstance(content, (list, dict)):
            content = json.dumps(content)
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    def imported(self, content, *args, name="in.json"):
        """(lines of the dump, what was said) of the trace that a file becomes."""
        out = self.dir / "out.tracy"
        result = run("import", "-f", *args, self.write(content, name), out)
        self.assertEqual(result.returncode, 0, result.stderr)
        dump = run("dump", "--all", out)
        self.assertEqual(dump.returncode, 0, dump.stderr)
        return dump.stdout.splitlines(), result

    def section(self, lines, name):
        return [line.split(" ", 1)[1] for line in lines if line.startswith(name + " ")]


class Chrome(Importing):
    def test_zones_in_any_order(self):
        lines, _ = self.imported([
            {"ph": "E", "ts": 9, "pid": 3, "tid": 4},
            {"ph": "X", "ts": 2.5, "dur": 3.25, "pid": 3, "tid": 4, "name": "inner",
             "args": {"n": 1.0, "a": "x"}, "loc": "src/a.cpp:12"},
            {"ph": "B", "ts": 1, "pid": 3, "tid": 4, "name": "outer"},
            {"ph": "B", "ts": 3, "tid": 5, "name": "open"},
            {"ph": "E", "ts": 30, "tid": 5},
            {"ph": "E", "ts": 40, "tid": 5},
            {"ph": "b", "ts": 35, "tid": 6, "name": "never ended"},
            {"ph": "M", "name": "thread_name", "pid": 3, "tid": 4, "args": {"name": "Main"}},
            {"ph": "M", "name": "process_name", "pid": 3, "args": {"name": "App"}},
            {"ph": "M", "name": "thread_sort_index", "tid": 5, "args": {"sort_index": -7}}])
        thread = 3 << 32 | 4
        self.assertEqual(self.section(lines, "zones"), [
            'thread=5 depth=0 start=2000 end=29000 function="open" file="" line=0',
            'thread=6 depth=0 start=34000 function="never ended" file="" line=0',
            f'thread={thread} depth=0 start=0 end=8000 function="outer" file="" line=0',
            f'thread={thread} depth=1 start=1500 end=4750 function="inner" file="src/a.cpp" '
            'line=12 text="a: x\\x0an: 1.0\\x0a"'])
        self.assertEqual(self.section(lines, "thread-names"), [
            'thread=5 name="5"', 'thread=6 name="6"', f'thread={thread} name="(PID 3 TID 4) Main"'])
        self.assertEqual(self.section(lines, "threads"), [
            'thread=5 fiber=0 group=-7 kernel_samples=0',
            'thread=6 fiber=0 group=0 kernel_samples=0',
            f'thread={thread} fiber=0 group=0 kernel_samples=0'])
        self.assertIn('text="tidemark.process=3 App"', self.section(lines, "app-info"))
        self.assertIn("trace last_time=39000", lines)

    def test_instants_counters_and_flows(self):
        lines, _ = self.imported({"displayTimeUnit": "ms", "traceEvents": [
            {"ph": "X", "ts": 0, "dur": 1, "tid": 1, "name": "z"},
            {"ph": "i", "ts": 2, "tid": 1, "name": "hello"},
            {"ph": "n", "ts": 3, "tid": "io", "name": "step", "id": 1},
            {"ph": "I", "ts": 3, "tid": 1, "name": "New Frame"},
            {"ph": "I", "ts": 5, "tid": 1, "name": "New Frame"},
            {"ph": "s", "ts": 6, "tid": 1, "name": "frame data", "id": "0x7"},
            {"ph": "f", "ts": 7, "tid": 1, "name": "frame data", "id": "0x7"},
            {"ph": "C", "ts": 1, "tid": 1, "pid": 1, "name": "heap", "args": {"used_bytes": 4096}},
            {"ph": "C", "ts": 1, "tid": 1, "pid": 1, "name": "cpu", "args": {"value": 1}},
            {"ph": "C", "ts": 2, "tid": 1, "pid": 1, "name": "gpu", "args": {"value": 2.5}},
            {"ph": "C", "ts": 2, "tid": 1, "pid": 2, "name": "gpu", "args": {"value": 3}}]})
        texts = [line.split('text="')[1].split('"')[0] for line in self.section(lines, "messages")]
        self.assertEqual(sorted(texts), ["flow begins 0x7: frame data", "flow ends 0x7: frame data",
                                         "hello", "step"])
        self.assertEqual(self.section(lines, "plot-points"), [
            'plot="cpu" time=1000 value=1', 'plot="gpu (PID 1)" time=2000 value=2.5',
            'plot="gpu (PID 2)" time=2000 value=3', 'plot="heap: used_bytes" time=1000 value=4096'])
        formats = {line.split('"')[1]: "format=1" in line for line in self.section(lines, "plots")}
        self.assertEqual([name for name, memory in formats.items() if memory],
                         ["heap: used_bytes"])
        frames = self.section(lines, "frames")
        self.assertEqual(len(frames), 2, frames)
        for frame, start in zip(frames, (3000, 5000)):
            self.assertIn('set="New Frame"', frame)
            self.assertIn(f"start={start}", frame)

    def test_counters_keep_their_names(self):
        lines, _ = self.imported([
            {"ph": "C", "ts": 1, "name": "GPU Memory (MB)", "args": {"value": 3}},
            {"ph": "C", "ts": 1, "name": "pool", "args": {"used": 1, "free": 2}},
            {"ph": "C", "ts": 1, "name": "pool", "id": "0x1", "args": {"used": 7}},
            {"ph": "C", "ts": 2, "name": "fps", "args": {"fps": 60}},
            {"ph": "C", "ts": 2, "name": "rss_bytes", "args": {"value": 4096}},
            {"ph": "C", "ts": 3, "args": {"alone": 5}}])
        self.assertEqual(sorted(self.section(lines, "plot-points")), sorted([
            'plot="GPU Memory (MB)" time=1000 value=3', 'plot="pool: used" time=1000 value=1',
            'plot="pool: free" time=1000 value=2', 'plot="pool[0x1]: used" time=1000 value=7',
            'plot="fps" time=2000 value=60', 'plot="rss_bytes" time=2000 value=4096',
            'plot="alone" time=3000 value=5']))
        formats = [line for line in self.section(lines, "plots") if "format=1" in line]
        self.assertEqual(len(formats), 1)
        self.assertIn('"rss_bytes"', formats[0])

    def test_categories_and_details(self):
        """Neither categories, nor arguments of ends and instants are lost."""
        lines, _ = self.imported([
            {"ph": "B", "ts": 1, "tid": 1, "name": "draw", "cat": "gpu,cc", "args": {"n": 1}},
            {"ph": "E", "ts": 5, "tid": 1, "args": {"result": "ok"}},
            {"ph": "X", "ts": 6, "dur": 1, "tid": 1, "name": "load", "cat": "io"},
            {"ph": "i", "ts": 7, "tid": 1, "name": "mark", "cat": "app", "args": {"x": [1, 2]}},
            {"ph": "E", "ts": 9, "tid": 1, "args": {"of": "nothing"}}])
        self.assertEqual(self.section(lines, "zones"), [
            'thread=1 depth=0 start=0 end=4000 function="draw" file="" line=0 '
            'text="n: 1\\x0acat: gpu,cc\\x0a\\x0aresult: ok\\x0a"',
            'thread=1 depth=0 start=5000 end=6000 function="load" file="" line=0 '
            'text="cat: io\\x0a"'])
        self.assertIn('text="mark\\x0ax: [1,2]\\x0acat: app"', self.section(lines, "messages")[0])

    def test_asynchronous_zones(self):
        """They end by id, on whatever thread, and never a zone of that thread."""
        zone = {"pid": 1, "cat": "net"}
        lines, result = self.imported([
            {"ph": "B", "ts": 1, "pid": 1, "tid": 1, "name": "main"},
            {"ph": "B", "ts": 1, "pid": 1, "tid": 2, "name": "worker"},
            {**zone, "ph": "b", "ts": 2, "tid": 1, "id": "0xa", "name": "first"},
            {**zone, "ph": "b", "ts": 3, "tid": 1, "id": "0xb", "name": "second"},
            {**zone, "ph": "b", "ts": 4, "tid": 2, "id": "0xa", "name": "inner"},
            {**zone, "ph": "e", "ts": 5, "tid": 2, "id": "0xa", "name": "inner"},
            {**zone, "ph": "e", "ts": 6, "tid": 2, "id": "0xa", "name": "first"},
            {**zone, "ph": "b", "ts": 7, "tid": 2, "id2": {"local": "0xb"}, "name": "third"},
            {**zone, "ph": "e", "ts": 8, "tid": 2, "id": "0xb", "name": "second"},
            {**zone, "ph": "e", "ts": 9, "tid": 1, "id2": {"local": "0xb"}, "name": "third"},
            {**zone, "ph": "e", "ts": 9, "tid": 1, "id": "0xc", "name": "never began"},
            {"ph": "E", "ts": 10, "pid": 1, "tid": 1}, {"ph": "E", "ts": 11, "pid": 1, "tid": 2}])
        names = {line.split()[0]: line.split('name="')[1][:-1]
                 for line in self.section(lines, "thread-names")}
        zones = sorted((names[line.split()[0]], line.split('function="')[1].split('"')[0],
                        re.search(r"depth=(\d+) start=(\d+) end=(\d+)", line).groups())
                       for line in self.section(lines, "zones"))
        self.assertEqual(zones, [
            ("PID 1 TID 1", "main", ("0", "0", "9000")),
            ("PID 1 TID 2", "worker", ("0", "0", "10000")),
            ("PID 1 TID async track 1", "first", ("0", "1000", "5000")),
            ("PID 1 TID async track 1", "inner", ("1", "3000", "4000")),
            ("PID 1 TID async track 1", "third", ("0", "6000", "8000")),
            ("PID 1 TID async track 2", "second", ("0", "2000", "7000"))])
        self.assertIn("1 end", result.stderr)
        self.assertIn("of asynchronous zones that did not begin", result.stderr)

    def test_categories_of_asynchronous_zones(self):
        """Both ends have them, because they belong to the id; the zone's text has them once."""
        zone = {"pid": 1, "tid": 1, "cat": "net", "id": "0xa"}
        lines, _ = self.imported([
            {**zone, "ph": "b", "ts": 1, "name": "get", "args": {"url": "x"}},
            {**zone, "ph": "e", "ts": 3, "name": "get", "args": {"status": 200}},
            {**zone, "ph": "b", "ts": 4, "name": "put"}, {**zone, "ph": "e", "ts": 5, "name": "put"}])
        self.assertEqual([line.split("text=")[1] for line in self.section(lines, "zones")],
                         ['"url: x\\x0acat: net\\x0a\\x0astatus: 200\\x0a"',
                          '"cat: net\\x0a"'])

    def test_compressed_is_the_same(self):
        events = [{"ph": "X", "ts": i, "dur": 1, "tid": 1, "name": f"n{i % 50}"}
                  for i in range(20000)]
        plain, _ = self.imported(events)
        text = json.dumps(events).encode()
        packed = gzip.compress(text)
        self.assertEqual(self.imported(packed)[0], plain)
        self.assertEqual(self.imported(packed, "--format", "chrome")[0], plain)
        zstd = subprocess.run(["/usr/bin/python3", "-c", "import sys, zstandard; sys.stdout.buffer"
                               ".write(zstandard.compress(sys.stdin.buffer.read()))"],
                              input=text, stdout=subprocess.PIPE, check=True).stdout
        self.assertEqual(self.imported(zstd)[0], plain)
        for cut in (packed[:-1], packed[:5000], zstd[:-1], zstd[:5000]):
            out = self.dir / "cut.tracy"
            result = run("import", self.write(cut, "cut"), out)
            self.assertEqual(result.returncode, 3)
            self.assertIn("cut off", result.stderr)
            self.assertFalse(out.exists())

    def test_lists_without_an_end(self):
        begun = '[{"ph":"X","ts":1,"dur":1,"tid":1,"name":"a"}'
        for end in ("", ",", ",\n"):
            lines, result = self.imported(begun + end)
            self.assertEqual(len(self.section(lines, "zones")), 1)
            self.assertIn("list of events without an end", result.stderr)
        result = run("import", self.write(begun + ',{"ph":"X'), self.dir / "cut.tracy")
        self.assertEqual(result.returncode, 3)
        self.assertFalse((self.dir / "cut.tracy").exists())

    def test_what_is_left_out_is_told(self):
        _, result = self.imported([
            1, {}, {"ph": "X"}, {"ph": "X", "ts": "soon"}, {"ph": "X", "ts": 1e300},
            {"ph": "X", "ts": 1, "dur": -5, "name": "z"}, {"ph": "C", "ts": 1, "args": {"a": "b"}},
            {"ph": "O", "ts": 1}, {"ph": "P", "ts": 1}])
        for words in ("1 entries of the list", "1 events without a phase",
                      "3 events without a usable time", "1 complete events without a usable dur",
                      "1 values of counters that are no numbers", "2 events of phases"):
            self.assertIn(words, result.stderr)
        self.assertIn("1 zones", result.stdout)

    def test_clocks_that_began_long_ago(self):
        """Times of the day count from the first event, also where there are no zones."""
        for phase in ("X", "i"):
            lines, result = self.imported([
                {"ph": phase, "ts": 1e12 + t, "dur": 1, "tid": 1, "name": "z"} for t in (5, 8)])
            self.assertEqual(result.stderr, "")
            self.assertIn(f"trace last_time={4000 if phase == 'X' else 3000}", lines)
        _, result = self.imported([{"ph": "X", "ts": t, "dur": 1, "tid": 1, "name": "z"}
                                   for t in (0, 1e12)])
        self.assertIn("times beyond", result.stderr)


class Heaptrack(Importing):
    def test_raw(self):
        lines, _ = self.imported(RAW, name="heaptrack.app.1.raw")
        memory = self.section(lines, "memory")
        self.assertEqual(len(memory), 3, lines)
        self.assertIn("size=64", memory[0])
        self.assertIn("0x559369000010", memory[0])
        figures = report(self.dir / "out.tracy")["pools"][0]
        self.assertEqual((figures["allocations"], figures["frees"]), (3, 1))
        frames = "\n".join(self.section(lines, "callstack-frames"))
        for name in ("app+0x10e6", "app+0x10fa", "c.so+0x100"):
            self.assertIn(f'"{name}"', frames)
        self.assertIn('image="/opt/app/app"', frames)
        self.assertIn("trace program=\"./app\"", lines)
        self.assertEqual(self.section(lines, "plot-points"),
                         ['plot="RSS" time=10000000 value=3997696'])
        self.assertNotIn("tidemark.addresses", "\n".join(lines))

    def test_interpreted(self):
        lines, result = self.imported(INTERPRETED, name="heaptrack.app.1")
        figures = report(self.dir / "out.tracy")["pools"][0]
        self.assertEqual((figures["allocations"], figures["frees"]), (4, 2))
        self.assertIn("1 lines that cannot be understood", result.stderr)  # a free too many
        frames = "\n".join(self.section(lines, "callstack-frames"))
        for name in ("main", "grow", "inline", "0x7fd06a2a57b9"):
            self.assertIn(f'"{name}"', frames)
        infos = self.section(lines, "app-info")
        self.assertIn('text="tidemark.command=./app --fast"', infos)
        self.assertTrue(any("tidemark.addresses=made up" in line for line in infos))
        # Live blocks never share an address.
        self.assertEqual(figures["live_bytes"], 128)

    def test_broken(self):
        for text, words in ((RAW.replace("10500 3", "10500 4"), "version 4"), ("v 105\nzz\n+ 1\n", "")):
            result = run("import", "-f", self.write(text), self.dir / "out.tracy")
            self.assertEqual(result.returncode, 3 if words else 0, result.stderr)
            self.assertIn(words or "2 lines that cannot be understood", result.stderr)
        lines, result = self.imported(RAW + "+ 40 3 5593690")
        self.assertIn("1 lines that cannot be understood", result.stderr)
        self.assertEqual(len(self.section(lines, "memory")), 3)


class Options(Importing):
    JSON = '[{"ph":"X","ts":1,"dur":1,"tid":1,"name":"a"}]'

    def test_output_is_not_replaced_unasked(self):
        path, out = self.write(self.JSON), self.dir / "out.tracy"
        out.write_text("mine")
        result = run("import", path, out)
        self.assertEqual(result.returncode, 4)
        self.assertEqual(out.read_text(), "mine")
        self.assertEqual(run("import", "-f", path, out).returncode, 0)
        self.assertEqual(run("verify", "--help").returncode, 0)
        self.assertEqual(run("info", out).returncode, 0)
        self.assert_clean("in.json", "out.tracy")

    def test_versions_and_compression(self):
        path = self.write(self.JSON)
        for version in ("0.9.0", "0.11.2", "0.14.0"):
            for compression in ("lz4", "zstd:9"):
                out = self.dir / f"{version}-{compression}.tracy"
                result = run("import", path, out, "--trace-version", version, "--compression",
                             compression)
                self.assertEqual(result.returncode, 0, result.stderr)
                self.assertIn(f"version {version}", result.stdout)
                self.assertEqual(len(self.section(run("dump", out).stdout.splitlines(), "zones")), 1)

    def test_usage(self):
        path = self.write(self.JSON)
        for args in ([], [path], [path, "a", "b"], ["--format", "xml", path, "a"], ["-q"]):
            self.assertEqual(run("import", *args).returncode, 2, args)
        self.assertEqual(run("import", "--help").returncode, 0)
        self.assertEqual(run("import", self.dir / "none", self.dir / "out").returncode, 3)
        self.assertEqual(run("import", self.write("hello", "text"), self.dir / "out").returncode, 3)
        result = run("import", "--format", "heaptrack", path, self.dir / "out")
        self.assertIn("cannot be understood", result.stderr)

    def test_long_tokens_take_linear_time(self):
        """Texts and numbers of 48 MiB; a quadratic parser needs more processor time by far."""
        event = '[{"ph":"X","name":"a","ts":1,"dur":2,"pid":1,"tid":1,"args":{"x":%s}}]'
        many = 48 << 20
        for name, value in (("text", '"' + "y" * many + '"'), ("number", "7" * many),
                            ("escapes", '"' + '\\"' * (many // 2) + '"')):
            with self.subTest(name):
                result = run("import", "-f", self.write(event % value, name), self.dir / "out",
                             preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CPU, (8, 8)))
                self.assertEqual(result.returncode, 0, result.stderr)

    def test_drop_in_names(self):
        path, out = self.write(self.JSON), self.dir / "out.tracy"
        for name in ("tracy-import-chrome", "import-chrome"):
            link = self.dir / name
            os.symlink(TIDEMARK, link)

            def call(*args):
                return subprocess.run([link, *args], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                      timeout=LIMIT)
            for _ in range(2):  # the official tool replaces its output
                result = call(path, out)
                self.assertEqual(result.returncode, 0, result.stderr)
                self.assertEqual(result.stdout, b"Loading...\r\33[2KParsing...\r\33[2KProcessing...\r"
                                                b"\33[2KSaving...\r\33[2KCleanup...\n")
            self.assertEqual(call("--help").returncode, 1)
            for args in ((), (path,), (path, out, out)):
                result = call(*args)
                self.assertEqual(result.returncode, 1)
                self.assertIn(b"Usage: import-chrome input.json output.tracy", result.stdout)
            self.assertEqual(call(self.dir / "none", out).returncode, 1)
            self.assertEqual(call(path, self.dir / "no" / "folder").returncode, 1)
