"""`tidemark info`: what it says of every fixture, held against a second reader of the files."""

import json
import re

from clients import alloc_plain, capture_items, thread_name
from tools import RELEASES, TRACES, WIRE, Case, run
from tracyfile import Trace, decompress

COUNTS = {"threads", "zones", "gpu_zones", "frame_sets", "frames", "frame_images", "sections",
          "messages", "plots", "plot_points", "locks", "memory_pools", "memory_allocations",
          "call_stacks", "call_stack_frames", "samples", "context_switch_samples",
          "hardware_sample_addresses", "context_switches", "processor_switches", "processes",
          "symbols", "symbol_code", "source_files", "source_locations", "strings", "gpu_contexts",
          "application_info"}
FILES = sorted(path for release in RELEASES for path in (TRACES / release).glob("*.tracy"))


def text(trace, *args):
    result = run("info", trace, *args)
    if result.returncode != 0:
        raise AssertionError(result.stderr)
    return result.stdout


def info(trace):
    return json.loads(text(trace, "--format", "json"))


class Info(Case):
    def test_json(self):
        for path in FILES:
            with self.subTest(path):
                doc, trace = info(path), Trace(path)
                self.assertEqual(sorted(doc), ["complete", "counts", "facts", "file", "pools",
                                               "schema", "symbols", "trace", "warnings"])
                self.assertEqual(doc["schema"], "tidemark.info/1")
                self.check_file(doc["file"], path, trace)
                self.check_origin(doc["trace"], trace)
                self.check_counts(doc["counts"], trace)
                self.assertEqual(doc["warnings"], [])
                self.assertTrue(doc["complete"])
                self.assertEqual(doc["symbols"]["frames"], len(trace.frames))
                self.assertTrue(0 < doc["symbols"]["resolved"] <= len(trace.frames))
                self.assertEqual(sum(p["allocations"] for p in doc["pools"]), trace.memory_events)

    def check_file(self, file, path, trace):
        data = path.read_bytes()
        self.assertEqual(file["version"], ".".join(map(str, trace.version)))
        self.assertEqual(file["bytes"], len(data))
        self.assertEqual(file["inner_bytes"], len(decompress(data)))
        self.assertEqual(sum(file["part_bytes"].values()), file["inner_bytes"])
        self.assertEqual(file["streams"], data[5] if data[:4] == b"tr\xfdP" else 1)

    def check_origin(self, origin, trace):
        self.assertEqual(origin["program"].encode(), trace.program)
        self.assertEqual(origin["host"].encode(), trace.host_info)
        self.assertEqual(origin["capture_name"].encode(), trace.capture_name)
        self.assertEqual(origin["pid"], trace.pid)
        self.assertEqual(origin["duration_ns"], trace.last_time)
        self.assertEqual(origin["on_demand"], bool(trace.on_demand))

    def check_counts(self, counts, trace):
        self.assertLessEqual(set(counts), COUNTS)
        self.assertEqual(counts["strings"], len(trace.strings))
        self.assertEqual(counts["memory_pools"], len(trace.pools))
        self.assertEqual(counts["memory_allocations"], trace.memory_events)
        self.assertEqual(counts["call_stacks"], len(trace.callstacks) - 1)
        self.assertEqual(counts["call_stack_frames"], len(trace.frames))
        self.assertEqual(counts["messages"], len(trace.messages))
        self.assertEqual(counts["frame_sets"], len(trace.frame_sets))
        self.assertEqual(counts["frames"], sum(n for _, n in trace.frame_sets))
        self.assertEqual(counts["zones"], trace.zones)
        self.assertEqual(counts["application_info"], len(trace.app_info))
        self.assertEqual(counts["threads"], len(trace.listed_threads))

    def test_text_says_what_is_there_and_what_is_not(self):
        for path in FILES:
            with self.subTest(path):
                lines, counts = text(path).splitlines(), info(path)["counts"]
                version = ".".join(map(str, Trace(path).version))
                self.assertEqual(lines[0].split(), ["file", "version", version])
                begin = lines.index("holds")
                absent = next(line for line in lines if line.startswith("holds no "))
                there = {}
                for line in lines[begin + 1 : lines.index(absent) - 1]:
                    name, n = re.fullmatch(r"  (.*\S) +([\d,]+)", line).groups()
                    there[name.replace(" ", "_")] = int(n.replace(",", ""))
                self.assertEqual(there, {k: n for k, n in counts.items() if n})
                missing = {name.replace(" ", "_") for name in absent[9:].split(", ")}
                self.assertEqual(missing, {k for k, n in counts.items() if n == 0})

    def test_a_capture_holds_what_the_official_one_does(self):
        out = self.dir / "x.tracy"
        result = self.capture(WIRE / "v0.14.0" / "allscen.c2s.bin", out)
        self.assertEqual(result.returncode, 0, result.stderr)
        doc = info(out)
        official = info(TRACES / "v0.14.0" / "wire_allscen.tracy")
        # Our own facts are application info, and strings.
        counts = {k: n for k, n in doc["counts"].items()
                  if k not in ("strings", "application_info")}
        self.assertEqual(counts, {k: official["counts"][k] for k in counts})
        facts = {fact["key"]: fact for fact in doc["facts"]}
        self.assertEqual(facts["protocol"]["value"], "82")
        self.assertEqual(facts["end"]["value"], "the client ended")
        self.assertTrue(doc["complete"])
        self.assertGreater(doc["counts"]["memory_allocations"], 1000)

    def test_an_incomplete_capture_says_so(self):
        out = self.dir / "x.tracy"
        items = thread_name(7, b"main") + alloc_plain(10, 7, 0x1000, 64) + b"\xff"
        self.assertEqual(capture_items(out, items).returncode, 3)
        doc = info(out)
        self.assertFalse(doc["complete"])
        self.assertIn("incomplete", {fact["key"] for fact in doc["facts"]})
        self.assertRegex(text(out), r"\ncomplete +no\n")

    def test_wrong_arguments(self):
        for args in ((), (FILES[0], "b"), (FILES[0], "--format", "csv"), ("--nothing",)):
            result = run("info", *args)
            self.assertEqual((result.returncode, result.stdout), (2, ""))
