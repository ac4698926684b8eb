"""`tidemark dump`: equal for a trace and what is made of it, for a capture and the official trace of
the same bytes, and what its options do."""

import difflib
import json
import os
import re
import signal
import subprocess
import time
import unittest

from clients import alloc_plain, capture_items, thread_name
from tools import LIMIT, RELEASES, TIDEMARK, TRACES, WIRE, Case, not_sanitized, run
from tracyfile import Trace

EVERYTHING = TRACES / "v0.14.0" / "allscen_sys.tracy"
VERSIONS = ("0.9.0", "0.9.2", "0.11.0", "0.11.1", "0.11.2", "0.11.3", "0.12.3", "0.12.4", "0.13.2",
            "0.13.4", "0.14.0")

# Sections in which a capture need not equal the official one of the same bytes. One that is not here
# must be equal for every recording.
MAY_DIFFER = set()

# Fields that an official release gets wrong: they are compared without.
OFFICIAL_FAULTS = {
    ("v0.12.2", "context-switches"): " start=",  # 0 for fibers
}


def dump(trace, *args, **kwargs):
    """The lines of a dump."""
    result = run("dump", trace, *args, **kwargs)
    if result.returncode != 0:
        raise AssertionError(f"dump {trace}: {result.stderr}")
    return result.stdout.splitlines()


def without(field, lines):
    return [re.sub(field + "[^ ]*", "", line) for line in lines] if field else lines


def by_section(lines):
    sections = {}
    for line in lines:
        sections.setdefault(line.split(" ", 1)[0], []).append(line)
    return sections


def names():
    """All sections, from what the program says to a wrong one."""
    said = run("dump", EVERYTHING, "--section", "?").stderr
    return said.split("the sections are ", 1)[1].split("\n", 1)[0].split(", ")


def number(version):
    return tuple(int(part) for part in version.split("."))


class Dump(Case):
    def assert_equal_lines(self, a, b):
        if a != b:
            differences = list(difflib.unified_diff(a, b, lineterm="", n=0))
            self.fail("\n".join(line[:300] for line in differences[:12]))


@not_sanitized
class Equality(Dump):
    def test_of_captures_and_official_traces(self):
        for release in RELEASES:
            for recording in sorted((WIRE / release).glob("*.c2s.bin")):
                name = recording.name.split(".")[0]
                official = TRACES / release / f"wire_{name}.tracy"
                own = self.dir / f"{release}-{name}.tracy"
                version = ".".join(map(str, Trace(official).version))
                result = self.capture(recording, own, "--trace-version", version,
                                      "--compat", release)
                self.assertEqual(result.returncode, 0, result.stderr)
                theirs, ours = by_section(dump(official)), by_section(dump(own))
                for section in sorted((theirs.keys() | ours.keys()) - MAY_DIFFER):
                    field = OFFICIAL_FAULTS.get((release, section))
                    with self.subTest(release=release, recording=name, section=section):
                        self.assert_equal_lines(without(field, theirs.get(section, [])),
                                                without(field, ours.get(section, [])))

    def test_of_a_trace_and_its_copy(self):
        for path in sorted(TRACES.glob("*/*.tracy")):
            with self.subTest(path):
                copy = self.dir / "copy"
                self.assertEqual(run("update", "-4", path, copy).returncode, 0)
                self.assert_equal_lines(dump(path), dump(copy))

    def test_of_a_trace_and_its_conversions(self):
        """In what both versions can hold."""
        for release in RELEASES:
            path = TRACES / release / "allscen_sys.tracy"
            own = ".".join(map(str, Trace(path).version))
            for version in VERSIONS:
                with self.subTest(path, version=version):
                    other = self.dir / "other"
                    result = run("update", "-4", "--trace-version", version, path, other)
                    self.assertEqual(result.returncode, 0, result.stderr)
                    older = min(own, version, key=number)
                    self.assert_equal_lines(dump(path, "--common", older),
                                            dump(other, "--common", older))


class Content(Dump):
    def test_memory_events(self):
        """The events of a second reader, resolved."""
        path = TRACES / "v0.14.0" / "memscen.tracy"
        trace = Trace(path)
        expected = {key: sorted((e[2], e[0], e[1], e[6], e[3], e[7]) for e in events)
                    for key, events in trace.memory_by_pool().items()}
        got = {}
        for line in dump(path, "--section", "memory", "--format", "jsonl"):
            v = json.loads(line)
            got.setdefault(int(v["key"], 16), []).append(
                (v["time"], int(v["address"], 16), v["size"], v["thread"], v.get("free_time"),
                 v.get("free_thread")))
        self.assertEqual({key: sorted(events) for key, events in got.items()}, expected)

    def test_callstacks_of_events_are_listed(self):
        sections = by_section(dump(EVERYTHING, "--format", "text"))
        listed = {line.split(" ")[1] for line in sections["callstacks"]}
        self.assertEqual(len(listed), len(sections["callstacks"]))
        for section in ("memory", "samples", "messages", "zones"):
            used = {field for line in sections[section] for field in line.split(" ")
                    if field.startswith("callstack=")}
            self.assertTrue(used)
            self.assertLessEqual(used, listed)

    def test_own_facts_are_left_out(self):
        recording = WIRE / "v0.14.0" / "memscen.c2s.bin"
        own = self.dir / "own.tracy"
        self.assertEqual(self.capture(recording, own).returncode, 0)
        self.assertFalse([line for line in dump(own) if 'text="tidemark' in line])
        facts = dump(own, "--all", "--section", "app-info")
        self.assertTrue([line for line in facts if 'text="tidemark.protocol=82"' in line])

    def test_own_fault_messages_are_left_out(self):
        own = self.dir / "fault.tracy"
        items = thread_name(7, b"main") + alloc_plain(10, 7, 0x1000, 64)
        items += alloc_plain(20, 7, 0x2000, 64) + alloc_plain(30, 7, 0x1000, 32)
        self.assertEqual(capture_items(own, items).returncode, 0)
        line, = dump(own, "--all", "--section", "messages")
        self.assertIn('text="tidemark: allocation at live address 0x1000 in pool default"', line)
        self.assertEqual(dump(own, "--section", "messages"), [])
        self.assertEqual(len(dump(own, "--section", "memory")), 3)


class Options(Dump):
    def test_sections(self):
        whole = by_section(dump(EVERYTHING))
        self.assertLessEqual(whole.keys(), set(names()))
        self.assertEqual(list(whole), [name for name in names() if name in whole])
        for args in (("--section", "locks,messages"), ("--section=messages", "--section=locks")):
            self.assert_equal_lines(dump(EVERYTHING, *args), whole["locks"] + whole["messages"])

    def test_limit(self):
        whole = by_section(dump(EVERYTHING))
        limited = by_section(dump(EVERYTHING, "--limit", 2))
        self.assertEqual(limited, {name: lines[:2] for name, lines in whole.items()})

    def test_json_lines_say_the_same(self):
        text = by_section(dump(EVERYTHING))
        objects = [json.loads(line) for line in dump(EVERYTHING, "--format", "jsonl")]
        for section, lines in text.items():
            own = [v for v in objects if v["section"] == section]
            self.assertEqual(len(own), len(lines), section)
        zone = next(v for v in objects if v["section"] == "zones")
        self.assertEqual(list(zone)[:5], ["section", "thread", "depth", "start", "end"])

    def test_from_a_pipe(self):
        with open(EVERYTHING, "rb") as f:
            result = subprocess.run([TIDEMARK, "dump", "-"], input=f.read(), timeout=LIMIT,
                                    stdout=subprocess.PIPE, check=True)
        self.assert_equal_lines(result.stdout.decode().splitlines(), dump(EVERYTHING))

    def test_from_standard_input_that_is_a_file(self):
        with open(EVERYTHING, "rb") as f:
            result = subprocess.run([TIDEMARK, "dump", "-"], stdin=f, timeout=LIMIT,
                                    stdout=subprocess.PIPE, check=True)
        self.assert_equal_lines(result.stdout.decode().splitlines(), dump(EVERYTHING))

    def test_output(self):
        out = self.dir / "out.txt"
        self.assertEqual(dump(EVERYTHING, "--output", out), [])
        self.assert_equal_lines(out.read_text().splitlines(), dump(EVERYTHING))
        again = run("dump", EVERYTHING, "-o", out)
        self.assertEqual(again.returncode, 4)
        self.assertIn("exists already", again.stderr)
        self.assertEqual(dump(EVERYTHING, "-f", "-o", out, "--section", "trace"), [])
        self.assertEqual(len(out.read_text().splitlines()), 16)
        self.assert_clean("out.txt")

    def test_refusals(self):
        damaged = self.dir / "damaged.tracy"
        damaged.write_bytes(EVERYTHING.read_bytes()[:50000])
        out = self.dir / "out.txt"
        for status, args in ((2, ()), (2, (EVERYTHING, "x")), (2, (EVERYTHING, "--section", "x")),
                             (2, (EVERYTHING, "--limit", "-1")), (2, (EVERYTHING, "--format", "x")),
                             (2, (EVERYTHING, "--common", "0.8.0")), (3, (self.dir / "none",)),
                             (3, (damaged, "-o", out))):
            with self.subTest(args):
                result = run("dump", *args)
                self.assertEqual(result.returncode, status, result.stderr)
                self.assertEqual(result.stdout, "")
                self.assertTrue(result.stderr)
        self.assertFalse(os.path.exists(out))

    def test_interrupted(self):
        """Whenever the signal comes, nothing half-written is left."""
        out = self.dir / "out.txt"
        out.write_text("old")
        whole = run("dump", EVERYTHING).stdout
        for milliseconds in range(0, 30, 3):
            process = subprocess.Popen([TIDEMARK, "dump", EVERYTHING, "-f", "-o", out],
                                       stderr=subprocess.PIPE)
            time.sleep(milliseconds / 1000)
            process.send_signal(signal.SIGINT)
            process.communicate(timeout=LIMIT)
            self.assert_clean("out.txt")
            self.assertIn(process.returncode, (0, -signal.SIGINT))
            self.assertIn(out.read_text(), ("old", whole) if process.returncode else (whole,))
            out.write_text("old")

    def test_full_disk(self):
        result = subprocess.run(f"{TIDEMARK} dump {EVERYTHING} > /dev/full", shell=True,
                                stderr=subprocess.PIPE, timeout=LIMIT, check=False)
        self.assertEqual(result.returncode, 4)


if __name__ == "__main__":
    unittest.main()
