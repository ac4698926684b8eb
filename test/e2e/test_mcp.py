"""`tidemark mcp` as a client meets it: the protocol's messages, every tool against the command that
asks the same, pages to the end, folders that must not be left, and hostile input."""

import contextlib
import json
import os
import re
import shutil
import subprocess
import threading
import unittest

from clients import alloc_plain, capture_items, frame_name, thread_name
from test_capture import alloc, callstack
from tools import BUILD, LIMIT, TIDEMARK, TRACES, Case, report, run

NEWEST = "2025-06-18"
REVISIONS = ("2024-11-05", "2025-03-26", NEWEST)
TRACE = str(TRACES / "v0.14.0" / "memscen_mt.tracy")
OLDER = str(TRACES / "v0.9.1" / "memscen.tracy")
ZONES = str(TRACES / "v0.14.0" / "allscen.tracy")
TOOLS = ["diff", "faults", "find", "growth", "histograms", "info", "leaks", "map", "patterns",
         "peak", "related", "report", "resident", "timeline", "traces", "tree", "verify"]
ONLY = ("pool", "thread", "begin_ns", "end_ns", "at_ns", "size_min", "size_max", "match", "frame",
        "zone")
MOST = 1 << 18  # bytes that an answer may have


class Client:
    """A client, which may also say what none should."""

    def __init__(self, *args, revision=NEWEST):
        self.process = subprocess.Popen([TIDEMARK, "mcp", *map(str, args)], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.watch = threading.Timer(LIMIT, self.process.kill)
        self.watch.start()
        self.number = 0
        self.hello = self.initialize(revision) if revision else None

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        self.watch.cancel()
        for stream in (self.process.stdin, self.process.stdout, self.process.stderr):
            with contextlib.suppress(BrokenPipeError):
                stream.close()

    def write(self, line):
        self.process.stdin.write(line if isinstance(line, bytes) else line.encode() + b"\n")
        self.process.stdin.flush()

    def read(self):
        line = self.process.stdout.readline()
        if not line.endswith(b"\n"):
            raise AssertionError(f"the server ended: {self.process.stderr.read()}")
        return json.loads(line)

    def send(self, **message):
        self.write(json.dumps({"jsonrpc": "2.0", **message}))

    def ask(self, method, **params):
        """The answer to a request."""
        self.number += 1
        self.send(id=self.number, method=method, params=params)
        answer = self.read()
        assert answer["jsonrpc"] == "2.0" and answer["id"] == self.number, answer
        return answer

    def initialize(self, revision):
        result = self.ask("initialize", protocolVersion=revision, capabilities={},
                          clientInfo={"name": "test", "version": "1"})["result"]
        self.send(method="notifications/initialized")
        return result

    def call(self, tool, **arguments):
        """Calls a tool; the arguments that select allocations are members of `only`."""
        only = {key: arguments.pop(key) for key in ONLY if key in arguments}
        if only:
            arguments["only"] = only
        return self.ask("tools/call", name=tool, arguments=arguments)["result"]

    def document(self, tool, **arguments):
        result = self.call(tool, **arguments)
        text = result["content"][0]["text"]
        if result["isError"]:
            raise AssertionError(text)
        assert list(result) == ["content", "isError"] and len(result["content"]) == 1, result
        if "bytes" not in arguments:
            assert len(text.encode()) <= 8192, (tool, arguments, len(text.encode()))
        return json.loads(text)

    def refusal(self, tool, **arguments):
        result = self.call(tool, **arguments)
        assert result["isError"] and "structuredContent" not in result, result
        return result["content"][0]["text"]

    def rows(self, tool, key, **arguments):
        """All rows, page by page, and the documents they came in."""
        rows, pages, cursor = [], [], None
        while not pages or cursor:
            more = {"cursor": cursor} if cursor else {}
            page = self.document(tool, **arguments, **more)
            assert page["page"]["first"] == len(rows), page["page"]
            assert page["page"]["count"] == len(page[key]) <= arguments.get("limit", 15)
            assert page["page"]["more"] == page["page"]["total"] - len(rows) - len(page[key])
            rows += page[key]
            pages.append(page)
            cursor = page["page"]["next_cursor"]
        assert pages[-1]["page"]["total"] == len(rows)
        return rows, pages

    def end(self):
        self.process.stdin.close()
        return self.process.wait(LIMIT)


def shown(value):
    """As a tool shows it: whole call stacks are lists of texts."""
    if isinstance(value, dict):
        if {"address", "inline"} <= set(value):
            where = f" ({value['file']}:{value.get('line', 0)})" if "file" in value else ""
            return f"{value['function']}{where}" if "function" in value else \
                f"{value.get('image', '')} {value['address']}"
        return {k: shown(v) for k, v in value.items()}
    return [shown(v) for v in value] if isinstance(value, list) else value


def without_nulls(value):
    if isinstance(value, dict):
        return {k: without_nulls(v) for k, v in value.items() if v is not None}
    return [without_nulls(v) for v in value] if isinstance(value, list) else value


def command(*args):
    """What a command says, without what is unknown."""
    return without_nulls(json.loads(run(*args, "--format", "json").stdout))


class Protocol(Case):
    def test_hello(self):
        for revision in REVISIONS:
            with Client(revision=revision) as client:
                self.assertEqual(client.hello["protocolVersion"], revision)
                self.assertEqual(client.hello["capabilities"], {"tools": {}})
                self.assertEqual(client.hello["serverInfo"]["name"], "tidemark")
                result = client.call("info", trace=TRACE)
                self.assertFalse(result["isError"])
                self.assertEqual(client.end(), 0)
        for revision in ("1999-01-01", "2099-01-01", ""):
            with Client(revision=None) as client:
                self.assertEqual(client.initialize(revision)["protocolVersion"], NEWEST)

    def test_tools_list(self):
        """The list of tools takes 12 kB; the instructions describe what many tools have."""
        with Client() as client:
            client.send(id=0, method="tools/list")
            line = client.process.stdout.readline()
            self.assertLessEqual(len(line), 12000)
            tools = json.loads(line)["result"]["tools"]
            self.assertEqual(sorted(tool["name"] for tool in tools), TOOLS)
            told = client.hello["instructions"]
            for tool in tools:
                schema = tool["inputSchema"]
                self.assertEqual(schema["required"][:1], ["trace"] * (tool["name"] != "traces"))
                self.assertEqual(set(schema["required"]) - set(schema["properties"]), set())
                self.assertTrue(tool["annotations"]["readOnlyHint"])
                for name, value in schema["properties"].items():
                    self.assertIn(value["type"],
                                  ("string", "integer", "number", "boolean", "array", "object"))
                    self.assertTrue(value.get("description") or f"- {name}: " in told, name)
            for name in ONLY:
                self.assertIn(f"- {name}: ", told)
            error = client.ask("tools/list", cursor="x")["error"]
            self.assertEqual(error["code"], -32602)

    def test_order(self):
        """Nothing but a ping before the two know each other."""
        with Client(revision=None) as client:
            self.assertEqual(client.ask("ping")["result"], {})
            self.assertEqual(client.ask("tools/list")["error"]["code"], -32600)
            self.assertEqual(client.ask("initialize")["error"]["code"], -32602)
            client.initialize(NEWEST)
            self.assertIn("result", client.ask("tools/list"))

    def test_errors(self):
        cases = (('{"jsonrpc": "2.0", "id": 1, "method"', -32700, None),
                 ("\x00", -32700, None),
                 ('{"jsonrpc": "2.0", "id": 1, "method": "a\\u0000"}', -32700, None),
                 ('{"jsonrpc": "2.0", "id": 1, "id": 2, "method": "ping"}', -32700, None),
                 ("7", -32600, None), ('"ping"', -32600, None), ("null", -32600, None),
                 ("[]", -32600, None), ('[{"jsonrpc": "2.0", "id": 1, "method": "ping"}]', -32600,
                                        None),
                 ('{"id": 1, "method": "ping"}', -32600, 1),
                 ('{"jsonrpc": "1.0", "id": "a", "method": "ping"}', -32600, "a"),
                 ('{"jsonrpc": "2.0", "id": 3, "method": 4}', -32600, 3),
                 ('{"jsonrpc": "2.0", "id": 3}', -32600, 3),
                 ('{"jsonrpc": "2.0", "id": null, "method": "ping"}', -32600, None),
                 ('{"jsonrpc": "2.0", "id": 1.5, "method": "ping"}', -32600, None),
                 ('{"jsonrpc": "2.0", "id": 5, "method": "ping", "params": []}', -32602, 5),
                 ('{"jsonrpc": "2.0", "id": 5, "method": "resources/list"}', -32601, 5),
                 ('{"jsonrpc": "2.0", "id": 5, "method": "tools/call"}', -32602, 5),
                 ('{"jsonrpc": "2.0", "id": 5, "method": "tools/call", "params": {"name": "eval"}}',
                  -32602, 5),
                 ('{"jsonrpc": "2.0", "id": 5, "method": "tools/call", "params": {"name": "info",'
                  ' "arguments": [1]}}', -32602, 5))
        with Client() as client:
            for line, code, number in cases:
                with self.subTest(line):
                    client.write(line)
                    answer = client.read()
                    self.assertEqual((answer["error"]["code"], answer["id"]), (code, number))
            self.assertEqual(client.ask("ping")["result"], {})

    def test_null(self):
        """Some clients say null for what they leave out."""
        with Client() as client:
            client.write('{"jsonrpc": "2.0", "id": 1, "method": "ping", "params": null}')
            self.assertEqual(client.read()["result"], {})
            self.assertIn("result", client.ask("tools/list", cursor=None))
            error = client.ask("tools/call", name="info", arguments=None)["result"]
            self.assertIn("trace is missing", error["content"][0]["text"])
            self.assertIn("schema", client.document("report", trace=TRACE, by=None, limit=None))

    def test_unanswered(self):
        """Notifications and answers get none; ends of lines are taken as they come."""
        with Client() as client:
            client.send(method="notifications/cancelled", params={"requestId": 1, "reason": "no"})
            client.send(method="notifications/of/some/future", params=[1])
            client.send(id=9, result={})
            client.send(id=9, error={"code": 1, "message": "x"})
            client.write(b"\n\r\n")
            client.write(b'{"jsonrpc": "2.0", "id": "\xc3\xa4", "method": "ping"}\r\n')
            self.assertEqual(client.read(), {"jsonrpc": "2.0", "id": "ä", "result": {}})
            client.write(b'{"jsonrpc": "2.0", "id": 77, "method": "ping"}')  # no end
            client.process.stdin.close()
            self.assertEqual(client.read()["id"], 77)
            self.assertEqual(client.process.wait(LIMIT), 0)

    def test_batches(self):
        """Only one revision has them."""
        batch = [{"jsonrpc": "2.0", "id": 1, "method": "ping"},
                 {"jsonrpc": "2.0", "method": "notifications/cancelled"},
                 {"jsonrpc": "2.0", "id": 2, "method": "nothing"}, 3]
        with Client(revision="2025-03-26") as client:
            client.write(json.dumps(batch))
            answers = client.read()
            self.assertEqual([answer["id"] for answer in answers], [1, 2, None])
            client.write(json.dumps(batch[1:2]))
            client.write(json.dumps(batch * 17))
            self.assertEqual(client.read()["error"]["code"], -32600)

    def test_hostile(self):
        """Deep, long and broken lines cost an error each."""
        ping = b'{"jsonrpc": "2.0", "id": 1, "method": "ping"}\n'
        with Client() as client:
            for line in (b"[" * 500000 + b"\n", b'{"a":' * 100000 + b"\n", b"x" * (3 << 20) + b"\n",
                         b'{"jsonrpc": "2.0", "id": 1, "method": "' + b"p" * (1 << 20) + b'"}\n',
                         b"\xff\xfe\n", b'{"jsonrpc": "2.0", "id": 1e999, "method": "ping"}\n',
                         b'{"jsonrpc": "2.0", "id": 99999999999999999999, "method": "ping"}\n'):
                client.write(line)
                self.assertEqual(client.read()["error"]["code"], -32700)
                client.write(ping)
                self.assertEqual(client.read()["result"], {})
            client.write(b"y" * (2 << 20))
            self.assertEqual(client.end(), 0)


class Answers(Case):
    def stripped(self, rows):
        """Rows without what a page cuts."""
        if isinstance(rows, list):
            return [self.stripped(row) for row in rows]
        if not isinstance(rows, dict):
            return rows
        return {k: self.stripped(v) for k, v in rows.items()
                if "callstack" not in k and "held_by" not in k}

    def check(self, client, tool, key, told, **arguments):
        """Pages of any length hold what the command prints."""
        for limit in (1000, 7):
            rows, pages = client.rows(tool, key, limit=limit, frames=1000, bytes=MOST,
                                      **arguments)
            self.assertEqual(rows, shown(told[key]))
            if limit == 7:
                self.assertEqual(len(pages), max(1, -(-len(rows) // 7)))
        rows, _ = client.rows(tool, key, **arguments)
        self.assertEqual(self.stripped(rows), self.stripped(told[key]))

    def test_report(self):
        with Client() as client:
            self.check(client, "report", "sites", command("report", TRACE), trace=TRACE)
            told = command("report", TRACE, "--by", "callstack", "--sort", "live", "--size", "100:")
            self.check(client, "report", "groups", told, trace=TRACE, by="callstack", sort="live",
                       size_min=100)
            told = command("report", TRACE, "--skip", "vram_reserve", "--skip", "decode_pixels",
                           "--no-skip", "^vram")
            self.check(client, "report", "sites", told, trace=TRACE,
                       skip=["vram_reserve", "decode_pixels"], no_skip=["^vram"])
            told = command("report", ZONES, "--by", "zone")
            self.check(client, "report", "groups", told, trace=ZONES, by="zone")
            pools, _ = client.rows("report", "pools", trace=TRACE, list="pools", limit=1,
                                   bytes=MOST)
            self.assertEqual(pools, command("report", TRACE)["pools"])

    def test_faults(self):
        """A list that is not the rows'."""
        items = thread_name(7, b"main")
        for pool in range(9):
            items += alloc_plain(10, 7, 0x1000, 64, pool) + alloc_plain(10, 7, 0x1000, 64, pool)
        trace = self.dir / "faulty.tracy"
        self.assertEqual(capture_items(trace, items).returncode, 0)
        told = command("report", trace)["faults"]
        self.assertEqual(len(told), 9)
        with Client() as client:
            rows, pages = client.rows("report", "faults", trace=str(trace), list="faults", limit=2)
            self.assertEqual((rows, len(pages)), (told, 5))
            page = client.document("report", trace=str(trace))
            self.assertEqual((page["faults"], page.get("faults_left_out")), (told, None))
            page = client.document("report", trace=str(trace), bytes=4000)
            self.assertEqual((page["faults"], page["faults_left_out"]), (told[:2], 7))
            for size, faults in ((64, told), (65, [])):
                rows, _ = client.rows("report", "faults", trace=str(trace), list="faults",
                                      size_min=size)
                self.assertEqual(rows, faults)

    def test_tree(self):
        with Client() as client:
            told = command("tree", TRACE, "--bottom-up", "--metric", "live")
            self.check(client, "tree", "nodes", told, trace=TRACE, direction="bottom-up",
                       metric="live", min_share=0)
            told = command("tree", TRACE, "--depth", "3", "--min-share", "1", "--no-inlines")
            self.check(client, "tree", "nodes", told, trace=TRACE, depth=3, inlines=False)

    def test_resident(self):
        trace = self.dir / "resident.tracy"
        result = run("run", "-o", trace, "--no-debuginfod", "--report", "none", "--", "perl", "-e",
                     "$x{$_} = 'x' x $_ for 1 .. 5000")
        self.assertEqual(result.returncode, 0, result.stderr)
        if "resident" not in report(trace):
            self.skipTest("the kernel does not show pages here")
        with Client() as client:
            told = command("report", trace, "--resident")
            self.check(client, "resident", "sites", told, trace=str(trace))
            told = command("report", trace, "--resident=1", "--size", "1K:", "--skip", "^Perl_")
            self.assertTrue(told["sites"])
            self.check(client, "resident", "sites", told, trace=str(trace), look=1, size_min=1024,
                       skip=["^Perl_"])
            self.assertIn("no look 60", str(client.call("resident", trace=str(trace), look=60)))
            told = command("report", trace, "--resident")
            for limit in (1, 3):
                page = client.document("resident", trace=str(trace), limit=limit)
                for key in ("resident", "findings", "empty_page_bytes", "looks"):
                    self.assertEqual(page[key], shown(told[key]), key)
            told = command("report", trace, "--sort", "resident")
            self.assertTrue(all("resident_bytes" in row for row in told["sites"]))
            self.check(client, "report", "sites", told, trace=str(trace), sort="resident")
            told = command("tree", trace, "--metric", "resident")
            self.check(client, "tree", "nodes", told, trace=str(trace), metric="resident", min_share=0)
            answer = client.call("resident", trace=TRACE)
            self.assertIn("has no look at the pages", answer["content"][0]["text"])

    def test_leaks(self):
        with Client() as client:
            told = command("report", TRACE, "--leaks")
            self.check(client, "leaks", "leaks", told, trace=TRACE)
            name = told["leaks"][0]["function"].split("(")[0]
            (self.dir / "known").write_text(f"leak:{name}\n")
            told = command("report", TRACE, "--leaks", "--suppressions", self.dir / "known")
            self.check(client, "leaks", "leaks", told, trace=TRACE,
                       suppressions=f"leak:{name}\n")

    def test_find(self):
        with Client() as client:
            pool = command("report", TRACE)["pools"][0]
            low, high = int(pool["low_address"], 16), int(pool["high_address"], 16)
            told = command("find", TRACE, f"{low}+{high - low}", "--size", "64:80")
            self.check(client, "find", "allocations", told, trace=TRACE, address=hex(low),
                       length=high - low, size_min=64, size_max=80)
            self.assertGreater(len(told["allocations"]), 20)
            time = pool["peak_time_ns"]
            told = command("find", TRACE, hex((low + high) // 2), "--at", time)
            self.check(client, "find", "allocations", told, trace=TRACE,
                       address=(low + high) // 2, at_ns=time)

    def test_peak(self):
        with Client() as client:
            told = command("report", TRACE, "--peak=2")
            self.check(client, "peak", "sites", told, trace=TRACE, which=2)
            page = client.document("peak", trace=TRACE)
            peaks = page["peaks"]
            self.assertEqual(page["page"]["more"], 0)
            self.assertEqual(peaks, sorted(peaks, key=lambda peak: -peak["bytes"]))
            self.assertEqual(page["selection"]["at_ns"], peaks[0]["time_ns"])
            self.assertEqual(sum(row["live_bytes"] for row in page["sites"]), peaks[0]["bytes"])
            self.assertIn("not so many", client.refusal("peak", trace=TRACE, which=4000))
            until = peaks[0]["time_ns"] - 1
            told = command("report", TRACE, "--peak", "--at", until)
            self.check(client, "peak", "sites", told, trace=TRACE, at_ns=until)
            for _ in range(2):  # the second time from what is kept
                page = client.document("peak", trace=TRACE, at_ns=until)
                self.assertLessEqual(max(p["time_ns"] for p in page["peaks"]), until)
                self.assertEqual(page["selection"]["at_ns"], page["peaks"][0]["time_ns"])

    def test_growth_and_patterns(self):
        with Client() as client:
            times = sorted(p["peak_time_ns"] for p in command("report", TRACE)["pools"])
            told = command("report", TRACE, "--grown", f"{times[0]}:{times[-1]}")
            self.check(client, "growth", "sites", told, trace=TRACE, from_ns=times[0],
                       to_ns=times[-1])
            told = command("report", TRACE, "--grown", ":1h", "--size", "64:")
            self.check(client, "growth", "sites", told, trace=TRACE, size_min=64)
            self.assertIn("later one", client.refusal("growth", trace=TRACE, from_ns=5, to_ns=5))
            self.check(client, "patterns", "sites", command("report", TRACE, "--patterns"),
                       trace=TRACE)

    def test_related(self):
        """Plots in pages beside the first messages, and the other way round."""
        with Client() as client:
            told = command("report", ZONES, "--related", "--limit", 0)
            self.assertGreater(len(told["plots"]), 20)
            self.assertGreater(len(told["messages"]), 20)
            self.check(client, "related", "plots", told, trace=ZONES)
            self.check(client, "related", "messages", told, trace=ZONES, list="messages")
            plots, messages = len(told["plots"]), len(told["messages"])
            page = client.document("related", trace=ZONES, limit=3, bytes=MOST)
            self.assertEqual((page["plots"], page["messages"], page["messages_left_out"]),
                             (told["plots"][:3], told["messages"][:20], messages - 20))
            self.assertEqual(page["page"]["total"], plots)
            page = client.document("related", trace=ZONES, limit=3, list="messages", bytes=MOST)
            self.assertEqual((page["messages"], page["plots"], page["plots_left_out"]),
                             (told["messages"][:3], told["plots"][:20], plots - 20))
            cursor = page["page"]["next_cursor"]
            self.assertIn("another question", client.refusal("related", trace=ZONES, cursor=cursor))
            for key in set(told) - {"plots", "messages"}:
                self.assertEqual(page[key], told[key])
            # A window, and a selection by what must be loaded beside plots.
            told = command("report", ZONES, "--related", "--window", "3ms", "--pool", "pool A")
            page = client.document("related", trace=ZONES, window_ns=3 * 10**6, pool="pool A")
            self.assertEqual((page["window_ns"], page["plots"]),
                             (told["window_ns"], told["plots"][:15]))
            name = command("report", ZONES, "--by", "zone")["groups"][0]["name"]
            told = command("report", ZONES, "--related", "--zone", name)
            page = client.document("related", trace=ZONES, zone=name)
            self.assertEqual(page["plots"], told["plots"][:15])
            for wrong in (0, -5):
                self.assertIn("window_ns", client.refusal("related", trace=ZONES, window_ns=wrong))
            # One without plots or messages.
            trace = self.dir / "x.tracy"
            self.assertEqual(capture_items(trace, alloc_plain(10, 7, 0x1000, 64)).returncode, 0)
            for key in ("plots", "messages"):
                self.assertEqual(client.rows("related", key, trace=str(trace), list=key)[0], [])

    def test_pictures(self):
        """Whole documents: those of the commands, but for what is cut."""
        with Client() as client:
            self.assertEqual(client.document("histograms", trace=TRACE, pool="arena"),
                             command("report", TRACE, "--histograms", "--pool", "arena"))
            self.assertEqual(client.document("timeline", trace=TRACE),
                             command("timeline", TRACE, "--buckets", 12))
            self.assertEqual(client.document("timeline", trace=TRACE, buckets=7, together=True,
                                             begin_ns=10**8, end_ns=2 * 10**8),
                             command("timeline", TRACE, "--buckets", 7, "--together", "--range",
                                     "100ms:200ms"))
            time = command("report", TRACE)["pools"][0]["peak_time_ns"]
            self.assertEqual(client.document("map", trace=TRACE, lines=3, samples=5, at_ns=time,
                                             bytes=MOST),
                             command("map", TRACE, "--columns", 16, "--rows", 3, "--samples", 5,
                                     "--at", time))
            for pool in client.document("map", trace=TRACE)["pools"]:
                self.assertEqual((pool["lines"], len(pool["samples"])), ([], 8))

    def test_faults_of_both_sides(self):
        trace = self.dir / "x.tracy"
        items = b"".join(frame_name(0x401000 + 16 * i, b"f%d" % i, b"a.c", i + 1) for i in range(9))
        for i in range(9):
            items += callstack(0x401000 + 16 * i) + alloc(10, 7, 0x1000, 64 + i)
        self.assertEqual(capture_items(trace, items).returncode, 0)
        with Client() as client:
            self.check(client, "faults", "faults", command("report", trace, "--faults"),
                       trace=str(trace))
            page = client.document("faults", trace=str(trace), match="f3")
            self.assertEqual([f["samples"][0]["size"] for f in page["faults"]], [67])

    def test_verify_selected(self):
        with Client() as client:
            count = len(command("find", TRACE, "0-0xffffffffffffffff", "--size", "64:80")
                        ["allocations"])
            page = client.document("verify", trace=TRACE, size_min=64, size_max=80,
                                   expect=[f"count={count}", f"count<{count}"])
            self.assertEqual([c["holds"] for c in page["checks"]], [True, True, False])

    def test_diff(self):
        with Client() as client:
            told = command("diff", OLDER, TRACE, "--metric", "peak")
            self.check(client, "diff", "rows", told, trace=TRACE, base=OLDER, metric="peak")
            wrong = ["peak>+5%", "leaked>0", "count(site=~\"a|b\")>1G"]
            told = command("diff", OLDER, TRACE, *(x for e in wrong for x in ("--fail-if", e)))
            page = client.document("diff", trace=TRACE, base=OLDER, fail_if=wrong)
            self.assertEqual(page["checks"], told["checks"])
            self.assertEqual(len(told["checks"]), 3)

    def test_info_and_verify(self):
        with Client() as client:
            told = command("info", ZONES)
            del told["file"]["stored_figure_bytes"] # which a loaded trace does not know of
            answer = client.document("info", trace=ZONES)
            self.assertEqual(answer, told)
            told = command("verify", TRACE, "--expect", "peak<1G", "--expect", "leaked=0",
                           "--require-symbols", "10", "--expect-allocations", "5")
            answer = client.document("verify", trace=TRACE, expect=["peak<1G", "leaked=0"],
                                     symbols_percent=10, allocations=5)
            self.assertEqual(answer, told)
            self.assertFalse(answer["holds"])

    def test_call_stacks_are_cut(self):
        """The frames that are shown begin at the site."""
        with Client() as client:
            rows = client.rows("report", "sites", trace=TRACE)[0]
            passed = 0
            for site, row in zip(command("report", TRACE)["sites"], rows):
                stack = site["callstack"]
                begin = next((i for i, f in enumerate(stack)
                              if "function" in f and (f["function"], f.get("line")) ==
                              (site["function"], site.get("line"))), 0)
                begin *= len(stack) > 3
                passed += begin > 0
                self.assertEqual(row["callstack"], shown(stack[begin:begin + 3]))
                self.assertEqual(row.get("callstack_left_out", 0), len(stack) - len(row["callstack"]))
            self.assertGreater(passed, 10)

    def test_bytes(self):
        """No answer is longer than asked for, and what it lacks is counted."""
        with Client() as client:
            schemas = {t["name"]: t["inputSchema"]["properties"]
                       for t in client.ask("tools/list")["result"]["tools"]}
            more = {"diff": {"base": OLDER}, "find": {"address": 0, "length": 1 << 47},
                    "map": {"lines": 4}, "timeline": {"buckets": 30}}
            for tool in set(TOOLS) - {"traces", "resident"}:
                sizes = []
                for size in (8192, 20000, MOST):
                    limit = {"limit": 1000} if "limit" in schemas[tool] else {}
                    answer = client.call(tool, trace=ZONES, bytes=size, frames=9, **limit,
                                         **more.get(tool, {}))
                    text = answer["content"][0]["text"]
                    self.assertFalse(answer["isError"], text)
                    self.assertLessEqual(len(text.encode()), size)
                    sizes.append(len(text))
                self.assertEqual(sizes, sorted(sizes))
            # A chart is whole, or refused.
            for arguments in ({"buckets": 400}, {"buckets": 100, "together": True}):
                self.assertIn("fewer buckets", client.refusal("timeline", trace=ZONES, **arguments))
            for wrong in (0, 1023, MOST + 1):
                self.assertIn("bytes", client.refusal("info", trace=ZONES, bytes=wrong))

    def test_wrong_arguments(self):
        cases = (({}, "trace is missing"), ({"trace": None}, "trace is missing"),
                 ({"trace": 5}, "trace is a string"), ({"trace": ""}, "no path"),
                 ({"trace": "/"}, "no regular file"), ({"trace": "/dev/zero"}, "no regular file"),
                 ({"trace": "nowhere.tracy"}, "No such file"),
                 ({"trace": __file__}, "test_mcp.py"),
                 ({"trace": TRACE, "colour": 1}, "no argument 'colour'"),
                 ({"trace": TRACE, "only": 1}, "only is an object"),
                 ({"trace": TRACE, "only": {"colour": 1}}, "no argument 'colour'"),
                 ({"trace": TRACE, "only": {"size_min": "1"}}, "size_min is a whole number"),
                 ({"trace": TRACE, "by": "mood"}, "by is one of site, function"),
                 ({"trace": TRACE, "limit": 0}, "limit is a whole number from 1 to 1000"),
                 ({"trace": TRACE, "limit": 1.5}, "limit is a whole number"),
                 ({"trace": TRACE, "skip": "x"}, "skip is a list"),
                 ({"trace": TRACE, "skip": ["("]}, "("),
                 ({"trace": TRACE, "match": "((a{1,999}){1,999}){1,999}"}, "too large"),
                 ({"trace": TRACE, "match": "a" * 2000}, "at most 1000 bytes"),
                 ({"trace": TRACE, "pool": "nowhere"}, "no pool is called 'nowhere'"),
                 ({"trace": TRACE, "begin_ns": 5, "end_ns": 5}, "ends after it begins"),
                 ({"trace": TRACE, "zone": "nowhere"}, "nowhere"),
                 ({"trace": TRACE, "cursor": "x"}, "cursor"),
                 ({"trace": TRACE, "cursor": "0" * 16 + "-5"}, "cursor"))
        with Client() as client:
            for arguments, text in cases:
                with self.subTest(arguments):
                    self.assertIn(text, client.refusal("report", **arguments))
            self.assertIn("base is missing", client.refusal("diff", trace=TRACE))
            self.assertIn("address", client.refusal("find", trace=TRACE, address="0xq"))
            self.assertIn("change", client.refusal("verify", trace=TRACE, expect=["peak>+5%"]))

    def test_cursor_of_another_question(self):
        with Client() as client:
            page = client.document("report", trace=TRACE, limit=3)
            cursor = page["page"]["next_cursor"]
            self.assertIn("another question",
                          client.refusal("report", trace=TRACE, sort="count", cursor=cursor))
            self.assertIn("another question",
                          client.refusal("peak", trace=TRACE, cursor=cursor))
            self.assertEqual(client.document("report", trace=TRACE, limit=3, cursor=cursor,
                                             frames=1)["page"]["first"], 3)

    def test_changed_trace(self):
        """A file that changed between two pages is read anew, and its cursor refused."""
        path = self.dir / "a.tracy"
        shutil.copy(TRACE, path)
        with Client() as client:
            cursor = client.document("report", trace=str(path), limit=3)["page"]["next_cursor"]
            os.unlink(path)
            shutil.copy(OLDER, path)
            self.assertIn("trace changed",
                          client.refusal("report", trace=str(path), limit=3, cursor=cursor))
            answer = client.document("report", trace=str(path))
            self.assertEqual(answer["trace"]["file_version"],
                             command("report", OLDER)["trace"]["file_version"])

    def test_little_memory(self):
        """Traces and results that have no room are read again."""
        traces = sorted(TRACES.glob("*/memscen.tracy"))
        with Client("--memory", "1K") as client:
            firsts = {}
            for _ in range(2):
                for trace in traces:
                    rows, _ = client.rows("report", "sites", trace=str(trace), limit=5)
                    self.assertEqual(firsts.setdefault(trace, rows), rows)
            told = command("diff", traces[0], traces[-1])["rows"]
            rows, _ = client.rows("diff", "rows", trace=str(traces[-1]), base=str(traces[0]),
                                  limit=4, frames=1000, bytes=MOST)
            self.assertEqual(rows, shown(told))

    def test_damaged(self):
        whole = (TRACES / "v0.14.0" / "ledger.tracy").read_bytes()
        with Client("--root", self.dir) as client:
            for i in range(12):
                (self.dir / f"{i}.tracy").write_bytes(whole[:len(whole) * i // 12])
                self.assertIn(f"{i}.tracy", client.refusal("report", trace=f"{i}.tracy"))
            self.assertEqual(client.ask("ping")["result"], {})


class Counting(Client):
    """Counts calls and bytes of answers."""

    def begin(self):
        self.calls = self.bytes = 0

    def call(self, tool, **arguments):
        result = super().call(tool, **arguments)
        self.calls += 1
        self.bytes += len(json.dumps(result).encode())
        return result


class Questions(Case):
    """Ten questions of a person about five traces, each answered by few calls and short answers."""

    def setUp(self):
        super().setUp()
        for name in ("memscen", "memscen_mt", "allscen", "ledger"):
            shutil.copy(TRACES / "v0.14.0" / f"{name}.tracy", self.dir)
        shutil.copy(OLDER, self.dir / "older.tracy")
        for i, name in enumerate(("memscen", "memscen_mt", "allscen", "ledger", "older")):
            os.utime(self.dir / f"{name}.tracy", (10**9 + i, 10**9 + i))
        self.client = Counting("--root", self.dir)
        self.addCleanup(self.client.__exit__)
        self.client.begin()

    def tearDown(self):
        self.assertLessEqual(self.client.calls, 4)
        self.assertLessEqual(self.client.bytes, 20 * 1024)

    def told(self, name, *args):
        """What the command says of that trace."""
        return command(args[0], self.dir / name, *args[1:])

    def test_which_trace_is_new_and_whole(self):
        rows = self.client.document("traces")["traces"]
        self.assertEqual([row["path"] for row in rows],
                         ["older.tracy", "ledger.tracy", "allscen.tracy", "memscen_mt.tracy",
                          "memscen.tracy"])
        info = self.client.document("info", trace=rows[0]["path"])
        self.assertEqual(info["file"]["version"], "0.9.1")
        self.assertGreater(info["counts"]["memory_allocations"], 0)

    def test_is_the_memory_data_there(self):
        answer = self.client.document("verify", trace="memscen.tracy", symbols_percent=50)
        self.assertTrue(answer["holds"])

    def test_who_made_the_peak(self):
        answer = self.client.document("peak", trace="memscen_mt.tracy")
        told = self.told("memscen_mt.tracy", "report", "--peak")["sites"][0]
        site = answer["sites"][0]
        self.assertEqual([site[k] for k in ("function", "file", "line", "live_bytes")],
                         [told[k] for k in ("function", "file", "line", "live_bytes")])
        self.assertIn(site["file"].rsplit("/", 1)[1], answer["answer"])

    def test_what_leaks(self):
        leaks = self.client.document("leaks", trace="memscen.tracy")["leaks"]
        told = self.told("memscen.tracy", "report", "--leaks")["leaks"]
        self.assertEqual([x["function"] for x in leaks], [x["function"] for x in told[:len(leaks)]])
        self.assertTrue(leaks[0]["callstack"])

    def test_which_pool_holds_most_at_a_time(self):
        answer = self.client.document("timeline", trace="memscen_mt.tracy")
        peaks = {p["name"]: p["peaks"][0] for p in answer["pools"]}
        name = max(peaks, key=lambda n: peaks[n]["bytes"])
        report = self.client.document("report", trace="memscen_mt.tracy", by="pool",
                                      at_ns=peaks[name]["time_ns"])
        rows = {r["name"]: r["live_bytes"] for r in report["groups"]}
        self.assertEqual(rows[name], peaks[name]["bytes"])
        self.assertEqual(max(rows, key=rows.get), name)

    def test_who_calls_the_allocating_function(self):
        site = self.client.document("report", trace="memscen.tracy")["sites"][0]
        nodes = self.client.document("tree", trace="memscen.tracy", direction="bottom-up",
                                     match="^" + re.escape(site["function"].split("(")[0]))["nodes"]
        self.assertGreater(len(nodes), 1)

    def test_whose_is_an_address(self):
        pool = self.client.document("report", trace="memscen.tracy", by="pool")["pools"][0]
        low = int(pool["low_address"], 16)
        found = self.client.document("find", trace="memscen.tracy", address=low, limit=3)
        self.assertEqual(found["allocations"][0]["address"], pool["low_address"])
        self.assertGreater(found["found"], 0)

    def test_what_changed_since(self):
        answer = self.client.document("diff", base="memscen.tracy", trace="memscen_mt.tracy",
                                      fail_if=["peak>+5%"])
        told = command("diff", self.dir / "memscen.tracy", self.dir / "memscen_mt.tracy",
                       "--fail-if", "peak>+5%")
        self.assertEqual(answer["checks"], told["checks"])
        self.assertEqual(answer["rows"][0]["function"], told["rows"][0]["function"])

    def test_which_zone_allocates_most(self):
        rows = self.client.document("report", trace="allscen.tracy", by="zone")["groups"]
        told = self.told("allscen.tracy", "report", "--by", "zone")["groups"]
        self.assertEqual([(r["name"], r["bytes"]) for r in rows],
                         [(r["name"], r["bytes"]) for r in told[:len(rows)]])

    def test_what_is_temporary(self):
        rows = self.client.document("report", trace="older.tracy", sort="temporary")["sites"]
        told = self.told("older.tracy", "report", "--sort", "temporary")["sites"]
        self.assertEqual([r["temporary"] for r in rows], [r["temporary"] for r in told[:len(rows)]])
        self.assertGreater(rows[0]["temporary"], 0)


class OutOfMemory(Case):
    """One allocation of a session fails, or one and all that follow: an error is the answer."""

    def test_failures(self):
        small = str(TRACES / "v0.14.0" / "ledger.tracy")
        calls = [("report", {"by": "callstack"}), ("tree", {}), ("leaks", {}), ("peak", {}),
                 ("find", {"address": 0, "length": 1 << 52}), ("diff", {"base": small}),
                 ("verify", {"expect": ["peak<1G"]}), ("info", {}), ("related", {})]
        lines = [{"id": 0, "method": "initialize", "params": {"protocolVersion": NEWEST}}]
        for i, (tool, more) in enumerate(calls, 1):
            lines.append({"id": i, "method": "tools/call", "params": {
                "name": tool, "arguments": {"trace": small, "limit": 2, **more}}})
        asked = "".join(json.dumps({"jsonrpc": "2.0", **line}) + "\n" for line in lines)
        (self.dir / "asked").write_text(asked)
        counted = self.dir / "count"
        good = self.session(FAILMALLOC_COUNT=str(counted)).stdout.splitlines()
        self.assertEqual(len(good), len(lines))
        total = int(counted.read_text())
        if total == 0:
            self.skipTest("this build does not let its allocations be replaced")
        failed = 0
        for which in ("FAILMALLOC_AT", "FAILMALLOC_FROM"):
            for i in range(1, total + 1, total // 40 + 1):
                result = self.session(**{which: str(i)})
                where = f"{which}={i}: {result.returncode} {result.stderr}"
                self.assertIn(result.returncode, (0, 4), where)
                self.assertNotIn("Sanitizer", result.stderr, where)
                for line, whole in zip(result.stdout.splitlines(), good):
                    answer = json.loads(line)
                    wrong = "error" in answer or answer["result"].get("isError")
                    failed += bool(wrong)
                    self.assertTrue(wrong or line == whole, where + line)
        self.assertGreater(failed, 40)

    def session(self, **how):
        env = dict(os.environ, LD_PRELOAD=str(BUILD / "test" / "preload.so"), **how)
        env["ASAN_OPTIONS"] = "verify_asan_link_order=0:allocator_may_return_null=1"
        with open(self.dir / "asked") as asked:
            return subprocess.run([TIDEMARK, "mcp"], stdin=asked, stdout=subprocess.PIPE,
                                  stderr=subprocess.PIPE, text=True, env=env, timeout=LIMIT)


class Root(Case):
    """With --root nothing outside of the folder can be opened."""

    def setUp(self):
        super().setUp()
        self.root = self.dir / "root"
        (self.root / "inner").mkdir(parents=True)
        shutil.copy(TRACE, self.root / "inner" / "a.tracy")
        shutil.copy(TRACE, self.dir / "secret.tracy")
        (self.root / "link.tracy").symlink_to("../secret.tracy")
        (self.root / "absolute.tracy").symlink_to(self.dir / "secret.tracy")
        (self.root / "up").symlink_to("..")
        (self.dir / "root2").mkdir()
        shutil.copy(TRACE, self.dir / "root2" / "a.tracy")

    def test_inside(self):
        with Client("--root", self.root) as client:
            for path in ("inner/a.tracy", "./inner//a.tracy", f"{self.root}/inner/a.tracy"):
                self.assertEqual(client.document("info", trace=path)["schema"], "tidemark.info/1")

    def test_outside(self):
        with Client("--root", self.root) as client:
            for path in ("../secret.tracy", "inner/../../secret.tracy", "link.tracy",
                         "absolute.tracy", "up/secret.tracy", f"{self.dir}/secret.tracy",
                         f"{self.root}/../secret.tracy", f"{self.root}2/a.tracy",
                         "/proc/self/exe", "//etc/passwd"):
                with self.subTest(path):
                    said = client.refusal("info", trace=path)
                    self.assertIn("not within the folder", said)
                    self.assertIn("not within the folder",
                                  client.refusal("diff", trace="inner/a.tracy", base=path))
            os.mkfifo(self.root / "pipe")
            self.assertIn("no regular file", client.refusal("info", trace="pipe"))
            self.assertIn("no regular file", client.refusal("info", trace="inner"))

    def test_traces(self):
        """The newest first, in pages; links, hidden folders and what is outside are not listed."""
        (self.root / ".hidden").mkdir()
        shutil.copy(TRACE, self.root / ".hidden" / "x.tracy")
        (self.root / "inner" / "notes.txt").write_text("no trace")
        (self.root / "folder.tracy").mkdir()
        for i in range(20):
            path = self.root / "inner" / f"{i}.tracy"
            path.write_bytes(b"x" * i)
            os.utime(path, (10**9 + i, 10**9 + i))
        with Client("--root", self.root) as client:
            rows, pages = client.rows("traces", "traces")
            self.assertEqual([p["page"]["count"] for p in pages], [15, 6])
            self.assertTrue(all(p["complete"] for p in pages))
            self.assertEqual([r["path"] for r in rows],
                             ["inner/a.tracy"] + [f"inner/{i}.tracy" for i in range(19, -1, -1)])
            self.assertEqual(rows[1], {"path": "inner/19.tracy", "bytes": 19,
                                       "modified": "2001-09-09T01:46:59Z"})
            self.assertEqual(client.document("info", trace=rows[0]["path"])["schema"],
                             "tidemark.info/1")
            for folder in ("inner", "inner/", f"{self.root}/inner"):
                found = client.document("traces", folder=folder)["traces"]
                self.assertEqual(found[0]["path"], folder.rstrip("/") + "/a.tracy")
            self.assertEqual(client.document("traces", folder=str(self.root))["page"]["total"], 21)
            for folder in ("..", "up", str(self.dir), "/"):
                self.assertIn("not within the folder", client.refusal("traces", folder=folder))
            self.assertIn("no folder", client.refusal("traces", folder="inner/a.tracy"))
            self.assertIn("cannot open", client.refusal("traces", folder="nowhere"))
            (self.root / "inner" / "new.tracy").write_bytes(b"")
            self.assertEqual(client.document("traces")["page"]["total"], 22)

    def test_more_folders_than_are_looked_at(self):
        path = self.root
        for _ in range(20):
            path = path / "d"
        path.mkdir(parents=True)
        with Client("--root", self.root) as client:
            self.assertFalse(client.document("traces")["complete"])

    def test_no_root(self):
        result = run("mcp", "--root", self.dir / "nowhere")
        self.assertEqual(result.returncode, 2)
        self.assertIn("--root", result.stderr)


if __name__ == "__main__":
    unittest.main()
