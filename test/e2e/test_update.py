"""`tidemark update`: what it leaves as it was, what it converts and says, what it strips, and that
an output is whole or not there. Files are read by tracyfile.py."""

import contextlib
import json
import os
import re
import signal
import subprocess
import time

from clients import pack
from tools import FIREHOSE, LIMIT, RELEASES, TIDEMARK, TRACES, Case, replaying, run
from tracyfile import Trace, decompress

TARGETS = ("0.9.1", "0.10.0", "0.11.1", "0.12.2", "0.13.1", "0.14.0")
MEMSCEN = TRACES / "v0.14.0" / "memscen.tracy"
ALLSCEN = TRACES / "v0.14.0" / "allscen.tracy"
EVERYTHING = TRACES / "v0.14.0" / "allscen_sys.tracy"

# What each letter empties, as `info` counts it.
STRIPPED = {
    "l": {"locks"},
    "m": {"messages"},
    "p": {"plots", "plot_points"},
    "M": {"memory_allocations"},
    "i": {"frame_images"},
    "c": {"context_switches", "processor_switches"},
    "s": {"samples", "context_switch_samples"},
    "C": set(),
    "S": set(),
}


def fixtures():
    return sorted(path for release in RELEASES for path in (TRACES / release).glob("*.tracy"))


def number(version):
    return tuple(int(part) for part in version.split("."))


def counts(trace):
    return json.loads(run("info", trace, "--format", "json").stdout)["counts"]


class Update(Case):
    def update(self, *args, **kwargs):
        result = run("update", *args, **kwargs)
        self.assertEqual(result.returncode, 0, result.stderr)
        return result


class Converting(Update):
    def test_own_version_is_the_same_stream(self):
        """Whatever way it is packed."""
        packings = ((), ("-4",), ("-h",), ("-z", 3), ("-z", -5), ("-j", 4), ("-4", "-j", 3))
        for i, path in enumerate(fixtures()):
            with self.subTest(path):
                out = self.dir / "out"
                result = self.update(*packings[i % len(packings)], path, out)
                self.assertTrue(decompress(out.read_bytes()) == decompress(path.read_bytes()))
                grown = os.path.getsize(out) > os.path.getsize(path) * 1.01
                self.assertEqual("which is compressed more" in result.stderr, grown)
                self.assertEqual(len(result.stderr.splitlines()), grown)
        self.assert_clean("out")

    def test_every_version_from_every_version(self):
        for path in fixtures():
            before = Trace(path)
            for target in TARGETS:
                with self.subTest(path=path, target=target):
                    out = self.dir / "out"
                    self.update("--trace-version", target, path, out)
                    self.same(before, Trace(out), number(target))

    def same(self, before, after, version):
        self.assertEqual(after.version, version)
        self.assertEqual(after.memory_by_pool(), before.memory_by_pool())
        for field in ("strings", "pointers", "thread_names", "threads", "callstacks", "frames",
                      "frame_sets", "app_info", "zones", "program", "host_info", "capture_name",
                      "last_time", "resolution", "timer_mul", "pid", "cpu_id"):
            self.assertEqual(getattr(after, field), getattr(before, field), field)
        # Source and severity, last, came with 0.13.2.
        end = None if min(before.version, version) >= (0, 13, 2) else -1
        self.assertEqual([m[1:end] for m in after.messages], [m[1:end] for m in before.messages])
        for key, pool in before.pools.items():
            for field in ("active", "frees", "high", "low", "usage", "name_key"):
                self.assertEqual(after.pools[key][field], pool[field], field)

    def test_losses_are_told(self):
        out = self.dir / "out"
        for target, words in (("0.9.1", ("120 sections", "1 thread group", "1 section category")),
                              ("0.11.1", ("120 sections", "13 wakeup processors")),
                              ("0.13.1", ("120 sections", "23 message sources"))):
            result = self.update("--trace-version", target, EVERYTHING, out)
            self.assertIn(f"tidemark: version {target} cannot hold: ", result.stderr)
            for word in words:
                self.assertIn(word, result.stderr)
        self.assertEqual(self.update("--trace-version", "0.14.0", EVERYTHING, out).stderr, "")
        old = TRACES / "v0.9.1" / "allscen_sys.tracy"
        self.assertEqual(self.update("--trace-version", "0.14.0", old, out).stderr,
                         "tidemark: version 0.14.0 cannot hold: 1 queue delay\n")
        self.assertEqual(self.update("--trace-version", "0.12.2", old, out).stderr, "")

    def test_there_and_back(self):
        """An old trace in the newest version and back again is what it was, but for the delay."""
        for release, version in (("v0.9.1", "0.9.1"), ("v0.11.1", "0.11.1"), ("v0.13.1", "0.13.1")):
            path = TRACES / release / "memscen.tracy"
            self.assertEqual(Trace(path).version, number(version))
            self.update("--trace-version", "0.14.0", path, self.dir / "new")
            self.update("--trace-version", version, self.dir / "new", self.dir / "old")
            want = bytearray(decompress(path.read_bytes()))
            want[8:16] = bytes(8)
            self.assertTrue(decompress((self.dir / "old").read_bytes()) == bytes(want))


class Stripping(Update):
    def test_each_letter(self):
        before = counts(EVERYTHING)
        for letter, names in STRIPPED.items():
            with self.subTest(letter):
                self.update("-s", letter, EVERYTHING, self.dir / "out")
                Trace(self.dir / "out")
                after = counts(self.dir / "out")
                emptied = {k for k in before if before[k] and not after[k]}
                self.assertEqual(emptied, names)
                # Of the pools, the default one stays, empty.
                changed = {k for k in before if before[k] != after[k]} - {"memory_pools"}
                self.assertEqual(changed, names)

    def test_all_at_once_and_one_after_the_other(self):
        self.update("-s", "".join(STRIPPED), EVERYTHING, self.dir / "once")
        self.update(EVERYTHING, self.dir / "each")
        for letter in STRIPPED:
            self.update("-s", letter, self.dir / "each", self.dir / "each")
        once, each = ((self.dir / n).read_bytes() for n in ("once", "each"))
        self.assertEqual(decompress(once), decompress(each))

    def test_without_memory_it_is_smaller(self):
        for release in RELEASES:
            path = TRACES / release / "memscen.tracy"
            self.update("-s", "M", path, self.dir / "out")
            self.assertLess(os.path.getsize(self.dir / "out"), os.path.getsize(path) * 0.6)
            before, after = Trace(path), Trace(self.dir / "out")
            self.assertEqual(after.memory_events, 0)
            self.assertEqual(after.callstacks, before.callstacks)
            self.assertEqual(after.strings, before.strings)


class Streams(Update):
    def test_standard_input_and_output(self):
        wanted = decompress(MEMSCEN.read_bytes())
        with open(MEMSCEN, "rb") as file:
            result = subprocess.run([TIDEMARK, "update", "-", str(self.dir / "out")], stdin=file,
                                    stdout=subprocess.PIPE, check=False)
        self.assertEqual(result.returncode, 0)
        self.assertEqual(decompress((self.dir / "out").read_bytes()), wanted)
        cat = subprocess.Popen(["cat", str(MEMSCEN)], stdout=subprocess.PIPE)
        result = subprocess.run([TIDEMARK, "update", "-4", "-", "/dev/stdout"], stdin=cat.stdout,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False)
        cat.stdout.close()
        cat.wait()
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(decompress(result.stdout), wanted)
        self.assertIn(b"/dev/stdout", result.stderr)
        self.assert_clean("out")

    def test_a_named_pipe(self):
        pipe = self.dir / "pipe"
        os.mkfifo(pipe)
        reader = subprocess.Popen(["cat", str(pipe)], stdout=subprocess.PIPE)
        self.update(MEMSCEN, pipe)
        data, _ = reader.communicate(timeout=LIMIT)
        self.assertEqual(decompress(data), decompress(MEMSCEN.read_bytes()))
        self.assert_clean("pipe")


class Output(Update):
    def test_in_place(self):
        path = self.dir / "x"
        path.write_bytes(MEMSCEN.read_bytes())
        self.update("-s", "M", path, path)
        self.assertEqual(Trace(path).memory_events, 0)
        self.assert_clean("x")

    def test_damaged_input_leaves_the_old_output(self):
        out, bad = self.dir / "out", self.dir / "bad"
        out.write_text("precious")
        inner = decompress(EVERYTHING.read_bytes())
        whole = EVERYTHING.read_bytes()
        middle = len(whole) // 2
        flipped = whole[:middle] + bytes([whole[middle] ^ 0xFF]) + whole[middle + 1:]
        block = r"block \d+ \(file offset (\d+), \d+ bytes\): "
        for data, where, least, most in (
                (b"", "no Tracy trace: only 0 bytes", None, None),
                (b"junk" * 100, "no Tracy trace: it begins with 6a 75 6e 6b", None, None),
                (whole[:-1], block, middle, len(whole)), (flipped, block, 1, middle),
                (pack(inner[: len(inner) * 9 // 10]), r".* offset (\d+) of the uncompressed stream: ",
                 len(inner) // 2, len(inner) * 9 // 10)):
            bad.write_bytes(data)
            result = run("update", bad, out)
            self.assertEqual(result.returncode, 3, result.stderr)
            found = re.match(f"tidemark: {re.escape(str(bad))}: {where}", result.stderr)
            self.assertTrue(found, result.stderr)
            if least is not None:
                self.assertTrue(least <= int(found[1]) <= most, result.stderr)
            self.assertEqual(out.read_text(), "precious")
            self.assert_clean("bad", "out")

    def test_where_nothing_can_be_written(self):
        for out in (self.dir / "no" / "x", self.dir, "/dev/full"):
            result = run("update", MEMSCEN, out)
            self.assertEqual(result.returncode, 4, result.stderr)
            self.assertIn(str(out), result.stderr + str(out))
        self.assert_clean()

    def test_missing_input(self):
        result = run("update", self.dir / "none", self.dir / "out")
        self.assertEqual(result.returncode, 3)
        self.assertIn("No such file", result.stderr)
        self.assert_clean()

    def test_wrong_arguments(self):
        for args in ((), (MEMSCEN,), (MEMSCEN, "a", "b"), ("-s", "X", MEMSCEN, "a"),
                     ("-z", "23", MEMSCEN, "a"), ("-j", "256", MEMSCEN, "a"),
                     ("--trace-version", "0.8.0", MEMSCEN, "a"), ("-q", MEMSCEN, "a"),
                     ("--trace-version", "0.15.0", MEMSCEN, "a")):
            with self.subTest(args):
                self.assertEqual(run("update", *args, cwd=self.dir).returncode, 2)
        self.assert_clean()

    def test_interrupted(self):
        """Compressing takes long; a signal in the middle leaves the old output and nothing else."""
        recording, trace, out = self.dir / "f.c2s.bin", self.dir / "in", self.dir / "out"
        subprocess.run([FIREHOSE, "-o", str(recording), "--events", "300000", "--depth", "0"],
                       check=True)
        with replaying(recording) as (_, port):
            result = run("capture", "-o", trace, "-p", port, "--no-summary")
        self.assertEqual(result.returncode, 0, result.stderr)
        before = sorted(os.listdir(self.dir)) + ["out"]
        for number_ in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            with self.subTest(number_):
                out.write_text("precious")
                update = subprocess.Popen([TIDEMARK, "update", "-z", "22", str(trace), str(out)],
                                          stdout=subprocess.PIPE, stderr=subprocess.PIPE)
                self.wait_for_temporary(update)
                update.send_signal(number_)
                update.communicate(timeout=LIMIT)
                self.assertEqual(update.returncode, -number_)
                self.assertEqual(out.read_text(), "precious")
                self.assert_clean(*before)

    def has_temporary(self, process):
        """Whether the process writes into a file of the folder that has no name, or a hidden one."""
        fds = f"/proc/{process.pid}/fd"
        for fd in os.listdir(fds):
            with contextlib.suppress(OSError):
                name = os.readlink(f"{fds}/{fd}")
                if name.startswith(f"{self.dir}/") and (
                        name.endswith(" (deleted)") or "/.tidemark-" in name):
                    return True
        return False

    def wait_for_temporary(self, process):
        until = time.monotonic() + LIMIT
        while not self.has_temporary(process):
            self.assertIsNone(process.poll(), "it was done before it could be interrupted")
            self.assertLess(time.monotonic(), until)
            time.sleep(0.005)


class Damaged(Case):
    """Exit status 3, with the file's name and an offset, whoever of reader, filters and writer
    notices."""

    def refused(self, data, *args):
        path = self.dir / "in.tracy"
        path.write_bytes(data)
        result = run("update", *args, path, self.dir / "out.tracy")
        self.assertEqual(result.returncode, 3, result.stderr)
        self.assertRegex(result.stderr, rf"^tidemark: {path}: .*\boffset \d+")
        self.assertFalse((self.dir / "out.tracy").exists())
        return result.stderr

    def test_blocks(self):
        data = MEMSCEN.read_bytes()
        for args in ((), ("-s", "M"), ("-d",), ("--range", "1ms:2ms"), ("-r",)):
            with self.subTest(args):
                self.refused(data[:100000], *args)
                self.refused(data[:20000] + bytes(2000) + data[22000:], *args)

    def test_counts(self):
        """Lists too long for the writer's tables are refused with their place in the input."""
        trace = Trace(ALLSCEN)
        trace.pos = 0
        trace.header()
        trace.frames_and_sections()
        trace.names()
        locations = trace.pos
        trace.locations()
        trace.locks()
        trace.messages_and_threads()
        trace.take("QQQQBQfB")  # totals, number of contexts, the first of them
        trace.u24()
        trace.u64()
        trace.skip_list(11)
        trace.take("QQ")  # its threads, the first one's id
        for at, text in ((locations, "at most 32767 are possible"),
                         (trace.pos, "no trace holds so many")):
            inner = bytearray(trace.inner)
            inner[at + 2:at + 8] = b"\1\1\1\1\1\1"
            for args in ((), ("-s", "M"), ("--trace-version", "0.9.0")):
                with self.subTest((text, args)):
                    self.assertIn(text, self.refused(pack(bytes(inner)), *args))


class DropIn(Update):
    """Called by the official tool's name: its flags, its exit codes."""

    def call(self, name, *args):
        link = self.dir / name
        os.symlink(TIDEMARK, link)
        try:
            return subprocess.run([str(link), *map(str, args)], stdout=subprocess.PIPE,
                                  stderr=subprocess.PIPE, text=True, timeout=LIMIT, check=False)
        finally:
            link.unlink()

    def test_names(self):
        for name in ("tracy-update", "update"):
            result = self.call(name, "-h", "-s", "M", MEMSCEN, self.dir / "out")
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assertRegex(result.stdout, r"\(0\.14\.0\) \{140\.43 KB\} -> .* \(0\.14\.0\) .*change")
            self.assertEqual(Trace(self.dir / "out").memory_events, 0)

    def test_exit_codes(self):
        for args in ((), ("-z", "99", MEMSCEN, self.dir / "out"), (self.dir / "none", "x"),
                     (MEMSCEN, self.dir / "no" / "x")):
            self.assertEqual(self.call("tracy-update", *args).returncode, 1)
        self.assert_clean()
