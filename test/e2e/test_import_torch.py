"""`tidemark import` of snapshots of PyTorch's CUDA memory: reports, leaks, timelines, differences and
budgets of the trace hold what the allocator of torch_snapshots.py did; nothing in a pickle runs."""

import gzip
import itertools
import json
import os
import pickle
import pickletools
import random
import subprocess

from test_mcp import Client
from test_user_docs import page_commands
from tools import BUILD, LIMIT, ROOT, Case, report, run
from torch_snapshots import FIRST_US, MIB, Gpu, Site, frame, random_gpu, snapshot, training


class Torch(Case):
    def write(self, content, name="snapshot.pickle", protocol=4):
        path = self.dir / name
        path.write_bytes(content if isinstance(content, bytes)
                         else pickle.dumps(content, protocol=protocol))
        return path

    def imported(self, content, *args, name="snapshot.pickle", protocol=4):
        """(trace, result) of a snapshot; content of bytes is written as it is."""
        out = self.dir / (name + ".tracy")
        result = run("import", "-f", *args, self.write(content, name, protocol), out)
        self.assertEqual(result.returncode, 0, result.stderr)
        return out, result

    def refused(self, content, why, *args):
        out = self.dir / "refused.tracy"
        result = run("import", *args, self.write(content, "refused.pickle"), out)
        self.assertEqual(result.returncode, 3, result.stdout + result.stderr)
        self.assertIn(why, result.stderr)
        self.assertFalse(out.exists())

    def check_pools(self, trace, *gpus):
        expected = {pool: values for gpu in gpus for pool, values in gpu.pools().items()}
        found = {p["name"]: (p["live_allocations"], p["live_bytes"], p["peak_bytes"])
                 for p in report(trace)["pools"]}
        for pool, (count, *sizes) in expected.items():
            self.assertEqual(found[pool][1:], tuple(sizes), pool)
            if count is not None:
                self.assertEqual(found[pool][0], count, pool)
        self.assertEqual(set(found), set(expected))

    def dumped(self, trace):
        lines = run("dump", "--all", trace).stdout.splitlines()
        return [line for line in lines if not line.startswith("trace ")
                and "tidemark.imported" not in line]


class Content(Torch):
    def test_random_histories(self):
        """All of a history, and the end of one that a ring buffer cut, of several devices."""
        for seed in range(6):
            clock = itertools.count(FIRST_US, 3)
            most = (None, 200, 1, 37)[seed % 4]
            gpus = [random_gpu(seed, n, max_entries=most, clock=clock) for n in range(1 + seed % 3)]
            trace, result = self.imported(snapshot(*gpus))
            self.assertEqual(result.stderr, "", seed)
            self.check_pools(trace, *gpus)
            blocks, size = map(sum, zip(*(gpu.early() for gpu in gpus)))
            self.assertEqual(f"{blocks} block" in result.stdout, blocks > 0, result.stdout)
            self.assertEqual(report(trace)["faults"], [])

    def test_sites(self):
        """Sites are the program's lines, also below C++ frames; of early blocks, too."""
        for most in (None, 100):
            gpu = random_gpu(7, max_entries=most)
            trace, _ = self.imported(snapshot(gpu))
            found = {}
            for site in report(trace, "--limit", "1000")["sites"]:
                if site["pool"].startswith("gpu0.allocated") and site["live_bytes"]:
                    key = site["pool"], site["function"]
                    found[key] = found.get(key, 0) + site["live_bytes"]
            self.assertEqual(found, gpu.live_by_site())

    def test_leaks(self):
        gpu = random_gpu(3)
        trace, _ = self.imported(snapshot(gpu))
        leaks = json.loads(run("report", trace, "--leaks", "--format", "json", "--pool",
                               "gpu0.allocated", "--limit", "1000").stdout)
        self.assertEqual(sum(leak["live_bytes"] for leak in leaks["leaks"]),
                         gpu.pools()["gpu0.allocated"][1])

    def test_timeline(self):
        """The highest value of each pool, and each value between two entries of the history."""
        gpu = random_gpu(5, steps=80)
        trace, _ = self.imported(snapshot(gpu))
        entries, states = gpu.history()
        for i in random.Random(1).sample(range(1, len(entries) - 1), 12):
            begin = (entries[i]["time_us"] - entries[0]["time_us"]) * 1000 + 3000
            found = json.loads(run("timeline", trace, "--format", "json", "--buckets", "1",
                                   "--range", f"{begin}:{begin + 1}").stdout)
            level = {p["name"]: p["buckets"][-1]["last_bytes"] for p in found["pools"]}
            self.assertEqual({k: v for k, v in level.items() if v}, dict(gpu.sums(states[i + 1])))

    def test_diff(self):
        base, now = random_gpu(11), random_gpu(12)
        traces = [self.imported(snapshot(gpu), name=f"{i}.pickle")[0]
                  for i, gpu in enumerate((base, now))]
        doc = json.loads(run("diff", "--format", "json", *traces).stdout)
        for pool in doc["pools"]:
            for side, gpu in (("base", base), ("now", now)):
                _, live, peak = gpu.pools()[pool["name"]]
                self.assertEqual((pool[side]["live_bytes"], pool[side]["peak_bytes"]), (live, peak))

    def test_budgets(self):
        gpu = random_gpu(13)
        trace, _ = self.imported(snapshot(gpu))
        for pool, (_, live, peak) in gpu.pools().items():
            for metric, value in (("peak", peak), ("live_bytes", live)):
                holds = f'{metric}(pool="{pool}")={value}'
                self.assertEqual(run("report", trace, "--fail-if", holds).returncode, 1, holds)
                more = f'{metric}(pool="{pool}")>{value}'
                self.assertEqual(run("report", trace, "--fail-if", more).returncode, 0, more)

    def test_peaks_maps_and_mcp(self):
        gpu = random_gpu(59)
        content = snapshot(gpu)
        trace, _ = self.imported(content)
        for pool, (count, live, peak) in gpu.pools().items():
            doc = report(trace, "--peak", "--pool", pool, "--limit", "1000")
            self.assertEqual(sum(s["bytes"] for s in doc["sites"]), peak, pool)
            doc = json.loads(run("map", trace, "--pool", pool, "--format", "json").stdout)
            found, = doc["pools"]
            self.assertEqual(found["samples"][-1]["bytes"], live, pool)
            self.assertIn(count, (found["samples"][-1]["blocks"], None), pool)
        with Client() as client:
            doc = client.document("report", trace=str(trace))
            self.assertEqual(doc["gpu_segments"], report(trace)["gpu_segments"])
            for tool, key, told in (("report", "sites", report(trace, "--pool", "gpu0.allocated")),
                                    ("peak", "sites", report(trace, "--pool", "gpu0.allocated", "--peak"))):
                rows, _ = client.rows(tool, key, trace=str(trace), pool="gpu0.allocated")
                self.assertEqual([(r["function"], r["bytes"]) for r in rows],
                                 [(r["function"], r["bytes"]) for r in told[key]], tool)
            doc = client.document("leaks", trace=str(trace), pool="gpu0.allocated")
            self.assertEqual(sum(t["bytes"] for t in doc["totals"].values()),
                             gpu.pools()["gpu0.allocated"][1])

    def test_sums_leave_reserved_memory_out(self):
        gpus = [random_gpu(14), random_gpu(15, number=1)]
        trace, _ = self.imported(snapshot(*gpus))
        pools = {p["name"]: p for p in report(trace)["pools"]}
        outer = {name for name in pools if ".reserved" in name}
        self.assertEqual({name for name, p in pools.items() if not p["counted"]}, outer)
        self.assertTrue(outer)
        inner = sum(p["live_bytes"] for name, p in pools.items() if name not in outer)
        merged = self.dir / "merged.tracy"
        self.assertEqual(run("merge", trace, trace, "-o", merged).returncode, 0)
        for file, live in (trace, inner), (merged, 2 * inner):
            self.assertEqual(run("report", file, "--fail-if", f"live_bytes>{live}").returncode, 0)
            self.assertEqual(run("report", file, "--fail-if", f"live_bytes={live}").returncode, 1)
            text = run("report", file).stdout
            self.assertRegex(text, r"peak [\d.]+ .iB in pool gpu\d\.allocated")
            self.assertIn("in which the others' blocks lie\n", text)
        leaks = json.loads(run("report", "--leaks", "--format", "json", trace).stdout)
        self.assertTrue(leaks["leaks"])
        self.assertFalse({row["pool"] for row in leaks["leaks"]} & outer)

    def test_reserved_memory_without_blocks_counts(self):
        gpu = Gpu()
        gpu.alloc(1000, Site("forward", 10))
        for segment in (state := snapshot(gpu))["segments"]:
            segment["blocks"] = [{**b, "state": "inactive"} for b in segment["blocks"]]
        state["device_traces"] = []
        trace, _ = self.imported(state)
        pool, = report(trace)["pools"]
        self.assertEqual((pool["name"], pool["counted"]), ("gpu0.reserved", True))
        self.assertEqual(run("report", trace, "--fail-if", "live_bytes>0").returncode, 1)

    def test_streams_ooms_and_facts(self):
        gpu = Gpu(max_entries=3)
        for i in range(3):
            gpu.alloc(1000 + i, Site("forward", 10), stream=0x7F00 * (i % 2))
        gpu.oom(80 << 30, 123 * MIB, Site("grow", 44))
        trace, result = self.imported(snapshot(gpu))
        lines = self.dumped(trace)
        self.assertTrue(any("gpu0: out of memory: 80.0 GiB asked for, 123 MiB free on the GPU; "
                            "PyTorch has reserved 4.00 MiB, blocks use 2.93 KiB of it" in line
                            for line in lines), lines)
        self.assertTrue(any("gpu0 stream 0x7f00" in line for line in lines))
        self.assertTrue(any("allocator_settings=expandable_segments:True" in line
                            for line in lines))
        self.assertIn("1 block of 1000 B allocated before the history began", result.stdout)
        self.assertTrue(any("gpu_history=gpu0: 3 entries; 1 block of 1000 B" in line for line in lines))

    def test_segments(self):
        """The report's figures of segments are the snapshot's own sums."""
        gpus = [random_gpu(47), random_gpu(53, 1)]
        content = snapshot(*gpus)
        trace, _ = self.imported(content)
        expected = []
        for gpu in range(2):
            segments = [s for s in content["segments"] if s["device"] == gpu]
            free = [b["size"] for s in segments for b in s["blocks"] if b["state"] == "inactive"]
            expected.append({"gpu": gpu, "segments": len(segments),
                             "reserved_bytes": sum(s["total_size"] for s in segments),
                             "used_bytes": sum(s["active_size"] for s in segments),
                             "largest_free_bytes": max(free)})
        self.assertEqual(report(trace)["gpu_segments"], expected)
        self.assertNotIn("gpu_segments", report(trace, "--pool", "gpu0.allocated", "--size", "1:"))
        text = run("report", trace).stdout
        self.assertRegex(text, r"\ngpu0: \d+ segments reserved .* are free, in pieces of .* or less\n")

    def test_without_times(self):
        gpu = random_gpu(17)
        for entry in gpu.entries:
            del entry["time_us"]
        trace, result = self.imported(snapshot(gpu))
        self.assertEqual(result.stderr, "")
        self.check_pools(trace, gpu)

    def test_skipped_actions(self):
        """Entries of frees may be left out on request: either kind is enough."""
        for skipped in ("free_requested", "free_completed"):
            gpu = random_gpu(43)
            for block in [b for s in gpu.segments.values() for b in s[3]]:
                if block.state == "active_pending_free":
                    gpu.complete(block.address)
            content = snapshot(gpu)
            content["device_traces"] = [[e for e in gpu.entries if e["action"] != skipped]]
            trace, result = self.imported(content)
            self.assertEqual(result.stderr, "")
            found = {p["name"]: p["live_bytes"] for p in report(trace)["pools"]}
            self.assertEqual(found, {p: v[1] for p, v in gpu.pools().items() if "pending" not in p})

    def test_without_pool_ids(self):
        """In older releases, only segments have a pool: blocks of those that are gone do not."""
        gpu = random_gpu(41)
        for entry in gpu.entries:
            entry.pop("pool_id", None)
        trace, result = self.imported(snapshot(gpu))
        self.assertIn("blocks of segments that are gone, taken as not in a private pool",
                      result.stderr)
        live = {p["name"]: p["live_bytes"] for p in report(trace)["pools"] if p["live_bytes"]}
        self.assertEqual(live, {p: v[1] for p, v in gpu.pools().items() if v[1]})

    def test_state_only(self):
        """No history: all blocks are early. A list of segments alone is the oldest form."""
        gpu = random_gpu(19, max_entries=0)
        segments = snapshot(gpu)["segments"]
        for content in (snapshot(gpu), {"segments": segments}, segments):
            trace, result = self.imported(content)
            self.assertEqual(result.stderr, "")
            self.check_pools(trace, gpu)

    def test_blocks_left_out(self):
        """Without a size, beyond all addresses, and no dictionary: each is counted."""
        used = {"state": "active_allocated", "requested_size": 500}
        blocks = [used | {"size": 512}, used, used | {"size": 512, "address": 1 << 62}, "block"]
        segment = {"device": 0, "address": 4096, "total_size": 2048, "stream": 0, "blocks": blocks}
        result = run("import", "-f", self.write(pickle.dumps({"segments": [segment]})),
                     self.dir / "out.tracy")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("3 entries without a usable address, size or action, left out", result.stderr)
        self.assertIn("2 allocations", result.stdout)

    def test_old_blocks(self):
        """Blocks of old releases have no address, and their frames in a list of uses."""
        gpu = random_gpu(23, max_entries=0)
        content = snapshot(gpu)
        for segment in content["segments"]:
            for block in segment["blocks"]:
                del block["address"]
                real, frames = block.pop("requested_size"), block.pop("frames")
                if real:
                    block["history"] = [{"real_size": real, "frames": frames}]
        self.check_pools(self.imported(content)[0], gpu)

    def test_annotations(self):
        """Annotations are zones; ends without a beginning, and other entries, are counted."""
        gpu, site, marks = Gpu(), Site("f", 1), []

        def mark(stage, name):
            marks.append({"stage": stage, "name": name, "device": 0, "time_us": next(gpu.clock)})

        sums = {}
        for inside, sizes in ((None, (1, 2)), ("step", (30, 40)), ("zero", (500,)), ("step", (600,)),
                              (None, (7000,))):
            if inside == "zero":
                mark("START", "zero")
            elif (inside, sizes[0]) == ("step", 30):
                mark("START", "step")
            elif inside is None and marks:
                mark("END", "step")
            for size in sizes:
                gpu.alloc(size, site)
                sums[inside] = sums.get(inside, 0) + size
            if inside == "zero":
                mark("END", "zero")
        mark("END", "lost")
        content = snapshot(gpu)
        random.Random(1).shuffle(marks)
        content["external_annotations"] = marks + [{"stage": "?", "name": "x"}, 5]
        trace, result = self.imported(content)
        self.assertIn("1 annotations without a beginning or nested too deep, left out", result.stderr)
        self.assertIn("2 entries without a usable address", result.stderr)
        zones = json.loads(run("report", trace, "--by", "zone", "--pool", "gpu0.allocated",
                               "--format", "json").stdout)["groups"]
        found = {z["name"]: z["bytes"] for z in zones}
        self.assertEqual({found.get(name) for name in ("step", "zero")},
                         {sums["step"], sums["zero"]}, zones)
        self.assertEqual(sum(found.values()), sum(sums.values()))

    def test_stacks_of_frees(self):
        """Where PyTorch records none, it repeats the allocation's, which is no place of a free."""
        for traced in (True, False):
            gpu = Gpu()
            gpu.frees_traced = traced
            for i in range(4):
                gpu.free(gpu.alloc(1000, Site("f", i)))
            trace, _ = self.imported(snapshot(gpu))
            address = next(iter(gpu.segments))
            found = run("find", trace, hex(address), "--format", "json").stdout
            self.assertEqual('"free"' in found, traced, found)

    def test_deep_stacks(self):
        """Call stacks keep their 255 innermost frames; those that are equal then count as one."""
        deep = [frame(f"f{i}", i) for i in range(300)]
        stacks = (deep, deep[:-1], deep[:255], deep[1:])
        entries = [{"action": "alloc", "addr": 512 * i, "size": 1, "stream": 0, "frames": frames}
                   for i, frames in enumerate(stacks * 2)]
        for form in (pickle.dumps, lambda content: json.dumps(content).encode()):
            trace, result = self.imported(form({"device_traces": [entries]}))
            self.assertEqual(result.stderr, "tidemark: 2 call stacks of more than 255 frames, cut\n")
            self.assertEqual({len(s["callstack"]) for s in report(trace, "--by", "callstack")["sites"]},
                             {255})

    def test_contradictions(self):
        """An allocation without a free before the next one, and blocks that the end does not have."""
        site = Site("f", 1)
        entries = [{"action": "alloc", "addr": 4096, "size": 10, "stream": 0, "frames": site.frames},
                   {"action": "alloc", "addr": 4096, "size": 20, "stream": 0, "frames": site.frames},
                   {"action": "annotate", "addr": 4096, "size": 0, "stream": 0},
                   {"action": "alloc", "addr": "?", "size": 20, "stream": 0}]
        trace, result = self.imported({"segments": [], "device_traces": [entries]})
        for count in ("1 blocks without a free before the next allocation, freed then",
                      "1 blocks that are never freed but not in the segments, freed at the end",
                      "1 entries of actions that a trace has no place for, left out",
                      "1 entries without a usable address, size or action, left out"):
            self.assertIn(count, result.stderr)
        pool = report(trace)["pools"][0]
        self.assertEqual((pool["allocations"], pool["live_bytes"], pool["peak_bytes"]), (2, 0, 20))


class Page(Torch):
    def test_docs(self):
        """Each command of docs/pytorch.md prints what the page shows, of the training's snapshot."""
        self.write(snapshot(training()))
        text = (ROOT / "docs" / "pytorch.md").read_text()
        for command in page_commands(text):
            if not command.text.startswith("tidemark "):
                continue
            done = subprocess.run(command.text, shell=True, cwd=self.dir, text=True, timeout=LIMIT,
                                  stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                  env={**os.environ, "PATH": f"{BUILD}:{os.environ['PATH']}"})
            self.assertEqual(done.returncode, command.status, done.stderr)
            lines = iter(done.stdout.splitlines())
            for line in command.output:
                if not line.startswith("Trace size"):  # depends on the version of zstd
                    self.assertTrue(any(line == printed for printed in lines), line)


class Forms(Torch):
    def test_protocols_and_json(self):
        content = snapshot(random_gpu(29, max_entries=150))
        first = None
        for protocol in range(2, 6):
            trace, result = self.imported(content, protocol=protocol)
            self.assertEqual(result.stderr, "")
            first = first or self.dumped(trace)
            self.assertEqual(self.dumped(trace), first, protocol)
        dumps = pickle.dumps(content, protocol=4)
        for form in (json.dumps(content).encode(), json.dumps(content, indent=1).encode(),
                     pickletools.optimize(dumps), gzip.compress(dumps)):
            self.assertEqual(self.dumped(self.imported(form)[0]), first)
        self.assertEqual(self.dumped(self.imported(json.dumps({"x": 1, **content}).encode(),
                                                   "--format", "torch")[0]), first)

    def test_large_lists(self):
        """Python splits lists of more than 1,000 items."""
        gpu = Gpu()
        for i in range(2500):
            gpu.alloc(1 + i, Site("f", i))
        trace, _ = self.imported(snapshot(gpu))
        self.check_pools(trace, gpu)
        content = snapshot(gpu)
        content["more"] = [None, True, 1.5, -1, 1 << 70, -(1 << 63), b"bytes", {1, 2}, frozenset([3]),
                           (), (1,), [], {}, "x" * 70000, bytearray(b"x")]
        content["more"].pop()  # bytearray calls something below protocol 5
        content["more"][8] = 0  # and so does a frozenset below 4
        self.check_pools(self.imported(content, protocol=4)[0], gpu)

    def test_plain_data(self):
        """All kinds of plain data, where an importer does not look."""
        gpu = random_gpu(37, steps=40)
        content = snapshot(gpu)
        content["more"] = [None, True, 1.5, -1, 1 << 70, -(1 << 63), 1 << 62, b"bytes", {1, 2},
                           frozenset([3]), (), (1,), (1, 2, 3, 4), [], {}, "x" * 70000,
                           dict.fromkeys(range(2500)), bytearray(b"x")]
        self.check_pools(self.imported(content, protocol=5)[0], gpu)

    def test_trailing_bytes(self):
        _, result = self.imported(pickle.dumps(snapshot(Gpu())) + b"\0\0")
        self.assertIn("2 bytes after the end of the data, left out", result.stderr)


class Hostile(Torch):
    def test_code_does_not_run(self):
        """A pickle that would run a command is refused at the opcode that names it."""
        marker = self.dir / "ran"

        class Bomb:
            def __reduce__(self):
                return os.system, (f"touch {marker}",)

        for protocol in range(2, 6):
            content = snapshot(random_gpu(1))
            content["device_traces"].append(Bomb())
            bomb = pickle.dumps(content, protocol=protocol)
            self.refused(bomb, "GLOBAL would import or call something")
            self.assertFalse(marker.exists())
        pickle.loads(bomb)  # the bomb is one
        self.assertTrue(marker.exists())

    def test_opcodes_that_call(self):
        names = ("GLOBAL", "STACK_GLOBAL", "REDUCE", "BUILD", "INST", "OBJ", "NEWOBJ", "NEWOBJ_EX",
                 "EXT1", "EXT2", "EXT4", "PERSID", "BINPERSID")
        for name in names:
            code = next(op.code for op in pickletools.opcodes if op.name == name)
            self.refused(b"\x80\x04" + b"N" * 3 + code.encode("latin-1") + b"aa\nbb\n.",
                         f"pickle, byte 5: {name} would import or call something")

    def test_damage(self):
        for content, why in (
                (b"\x80\x04", "cut off: the pickle ends after 2 bytes"),
                (b"\x80\x04.", "within a container"),
                (b"\x80\x04NN.", "within a container"),
                (b"\x80\x06N.", "neither a Chrome trace"),
                (b"\x80\x04X\xff\xff\xff\xffabc", "longer than 16 MiB"),
                (b"\x80\x04X\x00\x00\x10\x00abc", "cut off"),
                (b"\x80\x04h\x05.", "a memo entry does not exist"),
                (b"\x80\x04]\x94h\x00a.", "contains itself"),
                (b"\x80\x04}\x94(h\x00Nu.", "contains itself"),
                (b"\x80\x04a.", "more values than there are"),
                (b"\x80\x04(Na.", "more values than there are"),
                (b"\x80\x04e.", "no mark"),
                (b"\x80\x04(Nd.", "a key has no value"),
                (b"\x80\x04N(Ne.", "another kind of container"),
                (b"\x80\x04Nr\xff\xff\xff\x7f.", "out of order"),
                (b"\x80\x04" + b"(" * 5000, "nest deeper"),
                (b"\x80\x04\xff.", "byte 2: unknown opcode"),
                (b"\x80\x04N.", "no snapshot of PyTorch's memory"),
                (pickle.dumps([1, {"a": 1}]), "none of its 2 entries has"),
                (pickle.dumps({"device_traces": [[1, 2, 3]]}), "none of its 3 entries has"),
                (b'{"segments": [', "JSON text"),
                (b'{"segments": 1}', "no snapshot"),
                (b'{"segments": ' + b"[" * 100, "nest deeper"),
                (pickle.dumps({"segments": [{"device": 200, "address": 1, "total_size": 1}]}),
                 "PyTorch has at most 128")):
            self.refused(content, why)

    def test_shared_lists(self):
        """One list of entries that is named again and again takes no time."""
        entries = [{"action": "alloc", "addr": 512 * i, "size": 1, "stream": 0} for i in range(3000)]
        blocks = [{"state": "inactive", "size": 1}] * 3000
        for content in ({"device_traces": [entries] * 120},
                        {"segments": [{"address": i, "total_size": 1, "blocks": blocks}
                                      for i in range(3000)]}):
            self.refused(pickle.dumps(content), "repeated more often than its size allows")

    def test_cut_and_flipped(self):
        """Each ends with a trace or with a reason, never otherwise."""
        whole = pickle.dumps(snapshot(random_gpu(31, steps=60)), protocol=4)
        text = json.dumps(snapshot(random_gpu(31, steps=20))).encode()
        rng = random.Random(2)
        out = self.dir / "out.tracy"
        for base in (whole, text):
            for i in range(60):
                damaged = bytearray(base)
                if i % 3 == 0:
                    del damaged[rng.randrange(len(damaged)):]
                else:
                    damaged[rng.randrange(len(damaged))] ^= 1 << rng.randrange(8)
                result = run("import", "-f", "--format", "torch", self.write(bytes(damaged)), out)
                self.assertIn(result.returncode, (0, 3), result.stderr)
                if result.returncode == 0:
                    self.assertEqual(run("verify", out).returncode, 0)
                else:
                    self.assertIn("tidemark: ", result.stderr)
        for at in range(1, len(whole) - 1, len(whole) // 40):
            self.refused(whole[:at], "cut off" if at > 1 else "", "--format", "torch")
