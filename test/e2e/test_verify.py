"""`tidemark verify`: each check holds and fails, with its cause named and its exit status."""

import json

from clients import capture_items, frame_name, no_callstacks, unnamed_frames
from tools import RELEASES, TRACES, Case, run, without_code

MEMSCEN = TRACES / "v0.14.0" / "memscen.tracy"
SYSTEM = TRACES / "v0.14.0" / "allscen_sys.tracy"


class Verify(Case):
    def check(self, status, line, trace, *args):
        """The exit status, and one line that begins and ends so."""
        result = run("verify", trace, *args)
        self.assertEqual(result.returncode, status, result.stdout + result.stderr)
        self.assertIn(line, result.stdout)
        self.assertEqual("FAILED" in result.stdout, status == 1)
        return result

    def stripped(self):
        out = self.dir / "stripped.tracy"
        self.assertEqual(run("update", "-s", "M", MEMSCEN, out).returncode, 0)
        return out

    def test_memory_data(self):
        for release in RELEASES:
            for name in ("memscen", "wire_memscen"):
                self.check(0, "ok memory-data: 9,001 allocations, 8,807 frees\n",
                           TRACES / release / f"{name}.tracy")

    def test_stripped(self):
        result = self.check(1, "FAILED memory-data: no memory data: the trace has no memory event, "
                            "but 26 call stacks beginning in the client's memory functions; "
                            "possible causes: memory events were stripped", self.stripped())
        self.assertEqual(len(result.stdout.splitlines()), 1)

    def test_zones_only(self):
        """A client that sends code has a frame for each instruction, its own functions' included."""
        out = self.dir / "zones.tracy"
        items = b"".join(frame_name(0x401000 + 4 * i, b"___tracy_emit_memory_alloc_callstack",
                                    b"TracyProfiler.cpp") for i in range(8))
        result = capture_items(out, items)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("possible causes: the program was built without allocation hooks",
                      result.stdout)
        self.assertNotIn("stripped", result.stdout)
        result = self.check(1, "FAILED memory-data: no memory data: the trace has no memory event; "
                            "possible causes: ", out)
        doc = json.loads(run("verify", out, "--format", "json").stdout)
        causes = doc["checks"][0]["possible_causes"]
        for cause, word in zip(causes, ("TracyAlloc", "liballocwrapper.so",
                                        "cpu.memory, graphics.memory", "stripped"), strict=True):
            self.assertIn(word, cause)
            self.assertIn(cause, result.stdout)

    def test_expected_allocations(self):
        for args in (("9001", "--within", 1), ("9,001",), ("901",), ("90010",),
                     ("4501", "--within", 2), ("18002", "--within", 2)):
            with self.subTest(args):
                self.check(0, "ok allocations: 9,001 allocations, expected ", MEMSCEN,
                           "--expect-allocations", *args)
        for args, cause in ((("900",), "too many"), (("90011",), "too few"),
                            (("9000", "--within", 1), "too many"),
                            (("9002", "--within", 1), "too few"), (("0",), "too many"),
                            (("18003", "--within", 2), "too few")):
            with self.subTest(args):
                self.check(1, f"FAILED allocations: 9,001 allocations: {cause}", MEMSCEN,
                           "--expect-allocations", *args)

    def test_pool(self):
        self.check(0, "ok memory-data: 926 allocations, 924 frees", MEMSCEN, "--pool", "gpu.vram")
        self.check(0, "ok allocations: 926 allocations", MEMSCEN, "--pool", "gpu.vram",
                   "--expect-allocations", 926, "--within", 1)
        result = self.check(1, "FAILED pool: no pool is called 'gpu'", MEMSCEN, "--pool", "gpu")
        for name in ("default", "arena", "gpu.vram"):
            self.assertIn(name, result.stdout)

    def test_selections(self):
        """What they select is test_matrix.py's; here: what is not there, and expressions."""
        for wrong, cause in ((("--thread", "nobody"), "no thread has the name or id 'nobody'"),
                             (("--zone", "nowhere"), "no zone is called 'nowhere'"),
                             (("--frame", 10**9), "there is no frame 1000000000")):
            with self.subTest(wrong=wrong):
                self.check(1, f"FAILED selection: {cause}", MEMSCEN, *wrong)
        self.check(1, "FAILED memory-data: no allocation is as wanted", MEMSCEN, "--size", "1G:")
        for wrong in (("--match", "("), ("--range", "2:1"), ("--pool", "x", "--match", "(")):
            self.assertEqual(run("verify", MEMSCEN, *wrong).returncode, 2, wrong)
        result = run("verify", MEMSCEN, "--pool", "gpu.vram", "--format", "markdown")
        self.assertEqual(result.stdout, "<!-- tidemark -->\n### Memory data: all checks hold\n\n"
                         "- ✅ memory-data: `926 allocations, 924 frees`\n")
        result = run("verify", MEMSCEN, "--pool", "<gpu>", "--format", "markdown")
        self.assertEqual(result.returncode, 1)
        self.assertIn("### Memory data: a check does not hold\n", result.stdout)
        self.assertIn("- ❌ pool: `", result.stdout)
        self.assertNotIn("<gpu>", without_code(result.stdout))

    def test_call_stacks(self):
        out = self.dir / "plain.tracy"
        self.assertEqual(no_callstacks(out).returncode, 0)
        result = self.check(0, "ok memory-data: 10 allocations", out)
        settings = ("TRACY_CALLSTACK", "memoryTraceStackCaptureDepth", "TRACY_USE_LIB_UNWIND_FOR_BT")
        note = result.stdout.splitlines()[-1]
        self.assertRegex(note, "^note: 0 of 10 allocations have a call stack; .*" +
                         ".*".join(settings))
        self.assertEqual(json.loads(run("verify", out, "--format", "json").stdout)["note"],
                         note[len("note: "):])
        self.assertIn("- note: `0 of 10", run("verify", out, "--format", "markdown").stdout)
        self.assertNotIn("note: ", run("verify", MEMSCEN).stdout)
        self.check(1, "FAILED call-stacks: none of 10 allocations has a call stack", out,
                   "--require-callstacks")
        self.check(1, "FAILED symbols: there are no call stacks", out, "--require-symbols", 1)
        self.check(1, "FAILED call-stacks: there are no allocations", self.stripped(),
                   "--require-callstacks")
        self.check(0, "ok call-stacks: 8,750 of 9,001 allocations (97.2 %)", MEMSCEN,
                   "--require-callstacks")
        self.check(0, "ok call-stacks: 8,750 of", MEMSCEN, "--require-callstacks=97.2")
        self.check(1, "FAILED call-stacks: 8,750 of", MEMSCEN, "--require-callstacks=97.3")

    def test_symbols(self):
        out = self.dir / "unnamed.tracy"
        result = unnamed_frames(out)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.check(0, "ok call-stacks: 10 of 10", out, "--require-callstacks=100")
        self.check(0, "note: call stacks of 10 of 10 allocations have 3 frames or fewer; settings",
                   out)
        self.check(1, "FAILED symbols: all 10 frames are [unknown]", out, "--require-symbols", 1)
        self.check(0, "ok symbols: ", MEMSCEN, "--require-symbols", 90)
        self.check(1, "FAILED symbols: ", MEMSCEN, "--require-symbols", 100)

    def test_samples_and_context_switches(self):
        """Fibers switch contexts in all of these; the system's switches only v0.14.0 recorded."""
        for release in RELEASES:
            with self.subTest(release):
                system = TRACES / release / "allscen_sys.tracy"
                memory = TRACES / release / "memscen.tracy"
                sampled = release != "v0.13.1"
                switched = release == "v0.14.0"
                self.check(0 if sampled else 1, "ok samples: " if sampled else "FAILED samples: ",
                           system, "--require-samples")
                self.check(0 if switched else 1,
                           f"{'ok' if switched else 'FAILED'} context-switches: ", system,
                           "--require-context-switches")
                self.check(1, "FAILED samples: no call stack samples: sampling was off", memory,
                           "--require-samples")
                self.check(1, "FAILED context-switches: no context switches: system tracing was",
                           memory, "--require-context-switches")
        out = self.dir / "x.tracy"
        run("update", "-s", "cs", SYSTEM, out)
        result = self.check(1, "FAILED samples: ", out, "--require-samples",
                            "--require-context-switches")
        self.assertIn("FAILED context-switches: ", result.stdout)

    def test_one_failure_is_enough(self):
        result = self.check(1, "ok memory-data: ", MEMSCEN, "--expect-allocations", 1,
                            "--require-callstacks")
        self.assertIn("FAILED allocations", result.stdout)
        self.assertIn("ok call-stacks", result.stdout)

    def test_json(self):
        for trace, args, holds in ((MEMSCEN, ("--expect-allocations", "9000"), True),
                                   (self.stripped(), ("--expect-allocations", "9000"), False)):
            result = run("verify", trace, "--format", "json", *args)
            doc = json.loads(result.stdout)
            self.assertEqual(result.returncode, 0 if holds else 1)
            self.assertEqual(sorted(doc), ["checks", "holds", "schema"])
            self.assertEqual((doc["schema"], doc["holds"]), ("tidemark.verify/1", holds))
            self.assertEqual([c["name"] for c in doc["checks"]], ["memory-data", "allocations"])
            for check in doc["checks"]:
                names = ["detail", "holds", "name"]
                self.assertEqual(sorted(check), names if check["name"] != "memory-data" or holds
                                 else [*names, "possible_causes"])
                self.assertEqual(check["holds"], holds)

    def test_unreadable(self):
        (self.dir / "junk").write_bytes(b"no trace at all")
        for trace in (self.dir / "missing", self.dir / "junk", self.dir):
            result = run("verify", trace)
            self.assertEqual(result.returncode, 3, result.stderr)
            self.assertEqual(result.stdout, "")
            self.assertIn(str(trace), result.stderr)

    def test_wrong_arguments(self):
        for args in ((), (MEMSCEN, "extra"), (MEMSCEN, "--unknown"), (MEMSCEN, "--within", "0.5"),
                     (MEMSCEN, "--expect-allocations", "many"), (MEMSCEN, "--within", "nan"),
                     (MEMSCEN, "--expect-allocations", "-1"), (MEMSCEN, "--format", "csv"),
                     (MEMSCEN, "--require-symbols", "101"), (MEMSCEN, "--require-symbols"),
                     (MEMSCEN, "--require-callstacks=all")):
            with self.subTest(args):
                result = run("verify", *args)
                self.assertEqual(result.returncode, 2)
                self.assertEqual(result.stdout, "")
