"""`annotate`: instructions of a real client's machine code, their source lines, and what was
allocated through each call, held against a second reader of the file and against other commands."""

import csv
import io
import json
import os
import re
import shutil
import struct
import subprocess
import unittest

from clients import capture_items, frame_name, pack
from test_capture import alloc, callstack
from tools import TRACES, Case, run
from tracyfile import Trace

LEDGER = TRACES / "v0.14.0" / "ledger.tracy"
MEMSCEN = TRACES / "v0.14.0" / "memscen.tracy"
FUNCTIONS = ("main", "ledger_block", "ledger_drop", "entry_fill", "entry_clear", "branch")
ID_BITS = (1 << 62) - 1
SYMBOL_CODE = 112  # the item's number in protocol 74
BASE = 0x555512340000  # where the image was mapped
# The place of the processor: after magic, version; resolution to last_time; offset, pid, period.
PROCESSOR = 5 + 3 + 24 + 24
FIGURES = ("count", "bytes", "live_count", "live_bytes")


def annotate(trace, function, *args):
    result = run("annotate", trace, function, "--format", "json", *args)
    if result.returncode != 0:
        raise AssertionError(f"annotate {function}: {result.stderr}")
    return json.loads(result.stdout)


def tree(trace, *args):
    return json.loads(run("tree", trace, "--format", "json", "--all-frames", *args).stdout)


def figures(events):
    live = [e for e in events if e[3] is None]
    return dict(zip(FIGURES, (len(events), sum(e[1] for e in events), len(live),
                              sum(e[1] for e in live))))


class Figures(Case):
    def events(self):
        """(frames of the call stack, event) of each allocation."""
        trace = Trace(LEDGER)
        return [(trace.callstacks[e[4]] or (), e)
                for pool in trace.pools.values() for e in pool["events"]]

    def test_each_instruction(self):
        """Those whose call stack returns to the end of an instruction; once however often."""
        events = self.events()
        for name in FUNCTIONS:
            doc = annotate(LEDGER, name)
            start, size = int(doc["function"]["address"], 16), doc["function"]["size"]
            calls = 0
            at = start
            for line in doc["instructions"]:
                address = int(line["address"], 16)
                self.assertEqual(address, at)
                at += line["size"]
                self.assertTrue(line["code"])
                through = [e for stack, e in events
                           if any(address < f <= address + line["size"] for f in stack)]
                self.assertEqual(line["call"], figures(through) if through else None,
                                 (name, line))
                calls += bool(through)
                if through:
                    self.assertTrue(line["text"].startswith("call"), line)
            self.assertEqual(at, start + size)
            inside = [e for stack, e in events if any(start < f <= start + size for f in stack)]
            self.assertEqual(doc["through"], figures(inside), name)
            self.assertEqual(calls > 0, name not in ("ledger_drop", "entry_clear"))

    def test_against_the_tree(self):
        """A function's share is that of its outermost nodes, without what it calls again."""
        for args in ([], ["--size", "20:"], ["--range", "400ms:"], ["--at", "400ms"]):
            nodes = {None: None}
            sums = {}
            for node in tree(LEDGER, "--no-inlines", *args)["nodes"]:
                above = nodes[node["parent"]] or frozenset()
                name = (node["function"] or "").split("(")[0]
                nodes[node["id"]] = above | {name}
                if name in FUNCTIONS and name not in above:
                    to = sums.setdefault(name, dict.fromkeys(FIGURES, 0))
                    for key in FIGURES:
                        to[key] += node["inclusive"][key]
            for name in FUNCTIONS:
                self.assertEqual(annotate(LEDGER, name, *args)["through"],
                                 sums.get(name, dict.fromkeys(FIGURES, 0)), (name, args))

    def test_against_the_report(self):
        """What is a function's own is what the report by function gives it."""
        result = run("report", LEDGER, "--by", "function", "--format", "json")
        rows = json.loads(result.stdout)["groups"]
        named = {row["function"].split("(")[0]: row for row in rows if row.get("function")}
        self.assertIn("ledger_block", named)
        for name in FUNCTIONS:
            own = annotate(LEDGER, name)["own"]
            row = named.get(name)
            self.assertEqual(own["count"], row["count"] if row else 0, name)
            self.assertEqual(own["bytes"], row["bytes"] if row else 0, name)

    def test_pools_and_selections(self):
        self.assertEqual(annotate(LEDGER, "main", "--pool", "default")["through"],
                         annotate(LEDGER, "main")["through"])
        self.assertEqual(annotate(LEDGER, "main", "--match", "branch")["through"],
                         annotate(LEDGER, "branch")["through"])
        result = run("annotate", LEDGER, "main", "--pool", "other")
        self.assertEqual(result.returncode, 2)
        self.assertIn("no pool is called 'other'", result.stderr)


class Sources(Case):
    def test_lines_and_texts(self):
        doc = annotate(LEDGER, "entry_fill(entry*)")
        calls = [line for line in doc["instructions"] if line["call"]]
        self.assertEqual([(c["source"]["function"], c["source"]["line"], c["source"]["inline"],
                           c["source"]["text"]) for c in calls],
                         [("copy_text", 36, True, "void *p = ledger_block(length + 1);"),
                          ("entry_fill(entry*)", 43, False, "e->amount = ledger_block(16);")])

    def test_what_the_program_did(self):
        """Its source is in the trace: sixty entries of random length, each sixth one is kept."""
        seed, sizes = 7, []
        for _ in range(60):
            seed = (seed * 6364136223846793005 + 1442695040888963407) & ((1 << 64) - 1)
            sizes.append(8 + (seed >> 33) % 24 + 1)
        kept = sizes[::6]
        calls = [line["call"] for line in annotate(LEDGER, "entry_fill")["instructions"]
                 if line["call"]]
        self.assertEqual(calls, [
            {"count": 60, "bytes": sum(sizes), "live_count": 10, "live_bytes": sum(kept)},
            {"count": 60, "bytes": 60 * 16, "live_count": 10, "live_bytes": 160}])

    def test_recursion_counts_once(self):
        """Five times five calls, one in another."""
        doc = annotate(LEDGER, "branch")
        calls = [line["call"]["count"] for line in doc["instructions"] if line["call"]]
        self.assertEqual((doc["through"]["count"], calls), (25, [25, 20]))


class Names(Case):
    def test_one_of_several(self):
        result = run("annotate", LEDGER, "ledger_")
        self.assertEqual(result.returncode, 1)
        self.assertIn("2 functions fit 'ledger_'", result.stderr)
        addresses = re.findall(r"^ +(0x[0-9a-f]+) .*(ledger_\w+)\(", result.stdout, re.M)
        self.assertEqual([name for _, name in addresses], ["ledger_block", "ledger_drop"])
        for address, name in addresses:
            doc = annotate(LEDGER, address)
            self.assertTrue(doc["function"]["name"].startswith(name))
            inside = hex(int(address, 16) + 1)
            self.assertEqual(annotate(LEDGER, inside)["function"], doc["function"])
        out = self.dir / "list.json"
        result = run("annotate", LEDGER, "^ledger_", "--regex", "--format", "json", "-o", out)
        self.assertEqual(result.returncode, 1)
        doc = json.loads(out.read_text())
        self.assertEqual(doc["schema"], "tidemark.annotate-matches/1")
        self.assertEqual([f["address"] for f in doc["functions"]], [a for a, _ in addresses])

    def test_none(self):
        for function, status, text in (
                ("no_such_thing", 2, "no function is called 'no_such_thing'"),
                ("0x10", 2, "no function holds the address"),
                ("copy_text", 1, "it was inlined, for example into 'entry_fill(entry*)'")):
            result = run("annotate", LEDGER, function)
            self.assertEqual((result.returncode, result.stdout), (status, ""), function)
            self.assertIn(text, result.stderr)
        result = run("annotate", MEMSCEN, "main")
        self.assertEqual(result.returncode, 1)
        self.assertIn("TRACY_NO_CODE_TRANSFER", result.stderr)

    def test_stripped_code(self):
        bare = self.dir / "bare.tracy"
        self.assertEqual(run("update", "-s", "C", LEDGER, bare).returncode, 0)
        self.assertEqual(run("annotate", bare, "main").returncode, 1)
        self.assertEqual(run("update", "-s", "S", LEDGER, bare).returncode, 0)
        doc = annotate(bare, "branch")
        self.assertEqual({line["source"]["text"] for line in doc["instructions"]}, {None})


class Forms(Case):
    def test_text(self):
        result = run("annotate", LEDGER, "branch")
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        self.assertNotIn("\033", result.stdout)
        lines = result.stdout.splitlines()
        self.assertIn("69 bytes, 21 instructions", lines[1])
        self.assertEqual(lines[2], "Through it: 25 allocations, 800 B; live: 1, 32 B")
        call = [line for line in lines if re.match(r" +25 +800 B +1 +32 B +0x[0-9a-f]+  call", line)]
        self.assertEqual(len(call), 1)
        self.assertTrue(call[0].endswith("ledger.cpp:55  void *kept = ledger_block(32);"))

    def test_csv(self):
        doc = annotate(LEDGER, "branch")
        rows = list(csv.DictReader(io.StringIO(
            run("annotate", LEDGER, "branch", "--format", "csv").stdout)))
        self.assertEqual(len(rows), len(doc["instructions"]))
        for row, line in zip(rows, doc["instructions"]):
            self.assertEqual((row["address"], row["size"], row["instruction"], row["source"]),
                             (line["address"], str(line["size"]), line["text"],
                              line["source"]["text"]))
            call = line["call"] or dict.fromkeys(FIGURES, "")
            self.assertEqual([row[k] for k in FIGURES], [str(call[k]) for k in FIGURES])

    def test_arguments(self):
        for args in ([], [LEDGER], [LEDGER, "main", "more"], [LEDGER, ""],
                     [LEDGER, "(", "--regex"]):
            self.assertEqual(run("annotate", *args).returncode, 2, args)


class Processors(Case):
    def test_an_unknown_one(self):
        """The header's byte for the processor says that it is not known, or nonsense."""
        inner = bytearray(Trace(LEDGER).inner)
        self.assertEqual(inner[PROCESSOR], 2)
        for arch in (0, 250):
            inner[PROCESSOR] = arch
            path = self.dir / "other.tracy"
            path.write_bytes(pack(bytes(inner)))
            result = run("annotate", path, "main")
            self.assertEqual(result.returncode, 1, result.stderr)
            self.assertIn("which processor", result.stderr)
        inner[PROCESSOR] = 4  # AArch64: what is no instruction there is shown as words
        path.write_bytes(pack(bytes(inner)))
        doc = annotate(path, "main")
        self.assertEqual({line["size"] for line in doc["instructions"][:-1]}, {4})
        self.assertEqual(sum(line["size"] for line in doc["instructions"]), 173)


SHELF_C = """
__attribute__((noinline)) void *take(long n) { static char room[64]; return room + n % 64; }
static inline long half(long n)
{
    return n / 2 + (n & 1);
}
__attribute__((noinline)) char *shelf(long n)
{
    char *all = take(n);
    all[0] = (char)half(n);
    if (n > 3)
        all = take(n - 3);
    return all + half(n * 3);
}
int main(int argc, char **argv) { return *shelf(argc + (argv == 0)); }
"""


@unittest.skipUnless(shutil.which("gcc") and shutil.which("objdump") and shutil.which("addr2line"),
                     "gcc, objdump or addr2line is absent")
class Images(Case):
    """Names and lines that the client did not know, from the image."""

    def program(self):
        (self.dir / "shelf.c").write_text(SHELF_C)
        path = self.dir / "stock"
        subprocess.run(["gcc", "-O1", "-g", "-pie", "-fPIE", "-o", path, self.dir / "shelf.c"], check=True)
        text = subprocess.run(["objdump", "-d", "--disassemble=shelf", path], check=True,
                              capture_output=True, text=True).stdout
        rows = re.findall(r"^ +([0-9a-f]+):\t((?:[0-9a-f]{2} )+) *\t?(.*)$", text, re.M)
        return path, [(int(a, 16), bytes.fromhex(b), t) for a, b, t in rows]

    def lines(self, program, addresses):
        """addr2line's innermost answers."""
        out = subprocess.run(["addr2line", "-f", "-e", program, *map(hex, addresses)], check=True,
                             capture_output=True, text=True).stdout.splitlines()
        return [int(re.search(r":(\d+|\?)", line)[1].replace("?", "0")) for line in out[1::2]]

    @unittest.skipUnless(os.uname().machine == "x86_64", "the code is that of an x86-64 client")
    def test_resolve(self):
        program, rows = self.program()
        start, code = BASE + rows[0][0], b"".join(b for _, b, _ in rows)
        image = str(program).encode()
        items = b"".join(frame_name(BASE + a, b"[unknown]", b"[unknown]", image=image)
                         for a, _, _ in rows)
        items += struct.pack("<BQI", SYMBOL_CODE, start, len(code)) + code
        returns = [a + len(b) for a, b, t in rows if t.startswith("call")]
        self.assertEqual(len(returns), 2)
        for i, address in enumerate((returns[0], returns[1], returns[1])):
            items += callstack(BASE + address) + alloc(10, 7, 0x1000 + 64 * i, 10 << i)
        trace = self.dir / "t.tracy"
        result = capture_items(trace, items, "--symbols", "client")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(run("annotate", trace, "shelf").returncode, 2)
        options = ("--resolve", "--images-from-trace", "--no-symbol-cache", "--base",
                   f"{program}={BASE:x}")
        doc = annotate(trace, "shelf", *options)
        lines = doc["instructions"]
        self.assertEqual([int(line["address"], 16) for line in lines],
                         [BASE + a for a, _, _ in rows])
        self.assertEqual([line["call"] and line["call"]["bytes"] for line in lines
                          if line["call"] or line["text"].startswith("call")], [10, 60])
        looked_up = [a - (a in returns) for a, _, _ in rows]
        self.assertEqual([line["source"]["line"] for line in lines],
                         self.lines(program, looked_up))
        self.assertIn(True, [line["source"]["inline"] for line in lines])
        inner = bytearray(Trace(trace).inner)
        at = PROCESSOR + 8  # files of version 0.12 have the delay of the clock, too
        self.assertEqual(inner[at], 2)
        inner[at] = 0  # unknown: the image says it
        trace.write_bytes(pack(bytes(inner)))
        self.assertEqual(annotate(trace, hex(start), *options)["instructions"], lines)
