"""`tidemark mcp` as a client meets it: the protocol's messages, every tool against the command that
asks the same, pages to the end, folders that must not be left, and hostile input."""

import contextlib
import json
import os
import shutil
import subprocess
import threading
import unittest

from clients import alloc_plain, capture_items, frame_name, thread_name
from test_capture import alloc, callstack
from tools import BUILD, LIMIT, TIDEMARK, TRACES, Case, run

NEWEST = "2025-06-18"
REVISIONS = ("2024-11-05", "2025-03-26", NEWEST)
TRACE = str(TRACES / "v0.14.0" / "memscen_mt.tracy")
OLDER = str(TRACES / "v0.9.1" / "memscen.tracy")
ZONES = str(TRACES / "v0.14.0" / "allscen.tracy")
TOOLS = ["diff", "faults", "find", "growth", "histograms", "info", "leaks", "map", "patterns",
         "peak", "related", "report", "timeline", "tree", "verify"]


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
        return self.ask("tools/call", name=tool, arguments=arguments)["result"]

    def document(self, tool, **arguments):
        result = self.call(tool, **arguments)
        text = result["content"][0]["text"]
        if result["isError"]:
            raise AssertionError(text)
        assert json.loads(text) == result["structuredContent"]
        return result["structuredContent"]

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
            assert page["page"]["count"] == len(page[key]) <= arguments.get("limit", 50)
            rows += page[key]
            pages.append(page)
            cursor = page["page"]["next_cursor"]
        assert pages[-1]["page"]["total"] == len(rows)
        return rows, pages

    def end(self):
        self.process.stdin.close()
        return self.process.wait(LIMIT)


def command(*args):
    return json.loads(run(*args, "--format", "json").stdout)


class Protocol(Case):
    def test_hello(self):
        for revision in REVISIONS:
            with Client(revision=revision) as client:
                self.assertEqual(client.hello["protocolVersion"], revision)
                self.assertEqual(client.hello["capabilities"], {"tools": {}})
                self.assertEqual(client.hello["serverInfo"]["name"], "tidemark")
                result = client.call("info", trace=TRACE)
                self.assertEqual("structuredContent" in result, revision == NEWEST)
                tools = client.ask("tools/list")["result"]["tools"]
                self.assertEqual(["outputSchema" in tool for tool in tools],
                                 [revision == NEWEST] * len(TOOLS))
                self.assertEqual(client.end(), 0)
        for revision in ("1999-01-01", "2099-01-01", ""):
            with Client(revision=None) as client:
                self.assertEqual(client.initialize(revision)["protocolVersion"], NEWEST)

    def test_tools_list(self):
        with Client() as client:
            tools = client.ask("tools/list")["result"]["tools"]
            self.assertEqual(sorted(tool["name"] for tool in tools), TOOLS)
            for tool in tools:
                schema = tool["inputSchema"]
                self.assertEqual((schema["type"], schema["additionalProperties"]),
                                 ("object", False))
                self.assertIn("trace", schema["required"])
                self.assertEqual(set(schema["required"]) - set(schema["properties"]), set())
                self.assertTrue(tool["annotations"]["readOnlyHint"])
                for value in schema["properties"].values():
                    self.assertIn(value["type"],
                                  ("string", "integer", "number", "boolean", "array"))
                    self.assertTrue(value["description"])
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
        return [{k: v for k, v in row.items() if "callstack" not in k} for row in rows]

    def check(self, client, tool, key, told, **arguments):
        """Pages of any length hold what the command prints."""
        for limit in (1000, 7):
            rows, pages = client.rows(tool, key, limit=limit, call_stack_frames=1000,
                                      **arguments)
            self.assertEqual(rows, told[key])
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
            told = command("report", ZONES, "--by", "zone")
            self.check(client, "report", "groups", told, trace=ZONES, by="zone")
            pools, _ = client.rows("report", "pools", trace=TRACE, list="pools", limit=1)
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
            self.assertEqual((page["faults"], page["faults_left_out"]), (told[:5], 4))
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
            page = client.document("related", trace=ZONES, limit=3)
            self.assertEqual((page["plots"], page["messages"], page["messages_left_out"]),
                             (told["plots"][:3], told["messages"][:20], messages - 20))
            self.assertEqual(page["page"]["total"], plots)
            page = client.document("related", trace=ZONES, limit=3, list="messages")
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
                             (told["window_ns"], told["plots"][:50]))
            name = command("report", ZONES, "--by", "zone")["groups"][0]["name"]
            told = command("report", ZONES, "--related", "--zone", name)
            page = client.document("related", trace=ZONES, zone=name)
            self.assertEqual(page["plots"], told["plots"][:50])
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
                             command("timeline", TRACE, "--buckets", 40))
            self.assertEqual(client.document("timeline", trace=TRACE, buckets=7, together=True,
                                             begin_ns=10**8, end_ns=2 * 10**8),
                             command("timeline", TRACE, "--buckets", 7, "--together", "--range",
                                     "100ms:200ms"))
            time = command("report", TRACE)["pools"][0]["peak_time_ns"]
            self.assertEqual(client.document("map", trace=TRACE, lines=3, samples=5, at_ns=time),
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
        with Client() as client:
            whole = command("report", TRACE)["sites"]
            for site, row in zip(whole, client.rows("report", "sites", trace=TRACE,
                                                    call_stack_frames=3)[0]):
                self.assertEqual(row["callstack"], site["callstack"][:3])
                self.assertEqual(row.get("callstack_left_out", 0),
                                 max(0, len(site["callstack"]) - 3))

    def test_wrong_arguments(self):
        cases = (({}, "trace is missing"), ({"trace": None}, "trace is missing"),
                 ({"trace": 5}, "trace is a string"), ({"trace": ""}, "no path"),
                 ({"trace": "/"}, "no regular file"), ({"trace": "/dev/zero"}, "no regular file"),
                 ({"trace": "nowhere.tracy"}, "No such file"),
                 ({"trace": __file__}, "test_mcp.py"),
                 ({"trace": TRACE, "colour": 1}, "no argument 'colour'"),
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
                                             call_stack_frames=1)["page"]["first"], 3)

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
                                  limit=4, call_stack_frames=1000)
            self.assertEqual(rows, told)

    def test_damaged(self):
        whole = (TRACES / "v0.14.0" / "ledger.tracy").read_bytes()
        with Client("--root", self.dir) as client:
            for i in range(12):
                (self.dir / f"{i}.tracy").write_bytes(whole[:len(whole) * i // 12])
                self.assertIn(f"{i}.tracy", client.refusal("report", trace=f"{i}.tracy"))
            self.assertEqual(client.ask("ping")["result"], {})


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

    def test_no_root(self):
        result = run("mcp", "--root", self.dir / "nowhere")
        self.assertEqual(result.returncode, 2)
        self.assertIn("--root", result.stderr)


if __name__ == "__main__":
    unittest.main()
