"""What `tidemark daemon --http` answers, to whom, and what it refuses."""

import concurrent.futures
import contextlib
import http.client
import json
import os
import pathlib
import re
import socket
import subprocess
import time
import unittest
import zlib
from unittest import mock

import test_capture
from test_capture import alloc, frame, free
from test_daemon import announce
from test_daemon_production import ENDS, Running
from clients import thread_name
from pagedata import Page
from tools import LIMIT, TIDEMARK, WIRE, end_daemon, replaying, report, run, wait_until

TOKEN = "a-token-of-some-length"
THREE = frame(thread_name(7, b"main") + alloc(10, 7, 0x1000, 64) + alloc(20, 7, 0x2000, 128) +
              alloc(30, 7, 0x3000, 256) + free(40, 7, 0x2000))


class Unpacked:
    """The lines of an answer in gzip. `taken`: compressed bytes."""

    def __init__(self, answer):
        assert answer.headers["Content-Encoding"] == "gzip", answer.headers
        self.answer, self.taken, self.text = answer, 0, b""
        self.unpack = zlib.decompressobj(zlib.MAX_WBITS | 16)

    def readline(self):
        while b"\n" not in self.text:
            some = self.answer.read1(65536)
            assert some, "the stream ended"
            self.taken += len(some)
            self.text += self.unpack.decompress(some)
        line, self.text = self.text.split(b"\n", 1)
        return line + b"\n"

    def is_whole(self):
        """Reads the rest. Whether the answer ends as gzip does: its sum and length are right."""
        self.unpack.decompress(self.answer.read())
        return self.unpack.eof and not self.unpack.unused_data


class Web(Running):
    def web(self, *args):
        return self.daemon("--http", "127.0.0.1:0", *args)

    def port(self):
        self.wait_said("Web server: port ")
        return int(re.search(r"Web server: port (\d+)", self.said())[1])

    def ask(self, path, method="GET", body=None, **headers):
        """(status, headers, bytes)"""
        connection = http.client.HTTPConnection("127.0.0.1", self.port(), timeout=LIMIT)
        try:
            connection.request(method, path, body=body,
                               headers={k.replace("_", "-"): v for k, v in headers.items()})
            answer = connection.getresponse()
            return answer.status, answer.headers, answer.read()
        finally:
            connection.close()

    def get(self, path, **headers):
        status, _, body = self.ask(path, **headers)
        self.assertEqual(status, 200, body)
        return json.loads(body)

    @staticmethod
    def steady(status):
        """Others write to the disk, too."""
        del status["disk"]["free"]
        return status

    def status(self):
        return self.steady(self.get("/api/v1/status"))

    def wait_saved(self, traces):
        """Their journals are removed, too: nothing that the status says changes from then on."""
        wait_until(lambda: self.status()["traces_saved"] == traces)
        wait_until(lambda: self.status()["disk"]["held"] == 0)

    def recorded(self, body=THREE):
        """A client whose figures are all there; gives its number."""
        client = self.client(body)
        announce(self.udp, client.port, b"my \"prog\"", pid=4242)
        wait_until(lambda: any(c["counters"] and c["counters"]["memory_events"] == 4
                               for c in self.status()["clients"]))
        return self.status()["clients"][0]["number"]


class Answers(Web):
    def test_clients_that_come_together(self):
        """More than are begun before requests are answered, each announced once."""
        with self.web() as process:
            clients = [self.client(THREE) for _ in range(20)]
            for i, client in enumerate(clients):
                announce(self.udp, client.port, b"fake", pid=5000 + i)
            wait_until(lambda: sum(c["state"] == "recording" and c["counters"] is not None
                                   for c in self.status()["clients"]) == len(clients))
            self.assertEqual(self.stop(process), 0)

    def test_a_client_live(self):
        with self.web() as process:
            number = self.recorded()
            (client,) = self.status()["clients"]
            self.assertEqual((client["state"], client["pid"], client["protocol"]),
                             ("recording", 4242, 74))
            self.assertRegex(client["trace"], r"^my_prog_127\.0\.0\.1_\d+\.tracy$")
            (pool,) = client["counters"]["pools"]
            self.assertEqual(pool, {"name": "default", "allocations": 3, "frees": 1,
                                    "live_allocations": 2, "live_bytes": 320, "total_bytes": 448,
                                    "faults": 0})
            now = self.get(f"/api/v1/clients/{number}/counters")
            self.assertEqual(now["live_bytes"], 320)
            # The peak was between two looks, most likely.
            self.assertEqual((now["peak_bytes"], now["shape"][-1]), (448, 71))
            self.assertEqual(now["client_resident_bytes"], None)
            self.assertEqual(client["host"], None)
            history = self.get(f"/api/v1/clients/{number}/history")
            self.assertEqual(history["columns"][:3], ["seconds", "live_bytes", "live_allocations"])
            self.assertEqual(history["points"][-1][1:], [320, 2, 320])
            sites = self.get(f"/api/v1/clients/{number}/sites")
            self.assertEqual(sites["schema"], "tidemark.report/1")
            self.assertEqual(sites["pools"][0]["live_bytes"], 320)
            tree = self.get(f"/api/v1/clients/{number}/tree")
            self.assertEqual(tree["schema"], "tidemark.tree/1")
            memory = self.get(f"/api/v1/clients/{number}/memory")
            self.assertEqual(memory["schema"], "tidemark.memory/1")
            self.assertEqual(memory["client_time_ns"], now["client_time_ns"])
            self.assertEqual((memory["sites"], memory["tree"]), (sites, tree))
            self.assertEqual(memory["tree"]["total"]["live_bytes"], 320)
            self.assertEqual(self.ask(f"/api/v1/clients/{number}/nothing")[0], 404)
            self.assertEqual(self.ask("/api/v1/clients/77")[0], 404)
            self.assertEqual(self.ask("/api/v1/clients/77777777777777777777")[0], 404)
            self.assertEqual(self.stop(process), 0)

    def live_page(self, number):
        return Page(block=self.ask(f"/api/v1/clients/{number}/report")[2].decode())

    def test_the_page_of_a_client_live(self):
        """It has the figures that the page of the saved trace has, and each is of its moment."""
        with self.web() as process:
            number = self.recorded()
            live = self.live_page(number)
            self.assertEqual(live.data["schema"], "tidemark.page/4")
            (at,) = live.points()
            self.assertEqual(at[-1][1:3], (320, 2))
            with concurrent.futures.ThreadPoolExecutor(3) as pool:
                pages = list(pool.map(self.live_page, [number] * 3))
            for page in pages:
                self.assertEqual((page.figures(0, page.steps), page.points()),
                                 (live.figures(0, live.steps), live.points()))
            self.assertEqual(self.ask(f"/api/v1/clients/{number}/stop", "POST")[0], 202)
            wait_until(lambda: self.status()["clients"][0]["state"] == "saved")
            self.assertEqual(self.ask(f"/api/v1/clients/{number}/report")[0], 409)
            self.assertEqual(self.stop(process), 0)
        run("report", self.traces / self.names()[0], "--format", "html", "-o", self.dir / "x.html")
        saved = Page(self.dir / "x.html")
        for page in (live, saved):
            self.assertEqual(page.figures(0, page.steps), live.figures(0, live.steps))
        self.assertEqual(saved.points(), live.points())

    def test_the_frame_of_the_dashboard(self):
        with self.web("--token", TOKEN):
            status, headers, body = self.ask("/report")
            if b"without the page" in body:
                self.skipTest("the page of reports was not built")
            self.assertEqual(status, 200)
            self.assertIn(b'id="data">null</script>', body)
            self.assertEqual(headers["X-Frame-Options"], "SAMEORIGIN")
            self.assertIn("sandbox allow-scripts", headers["Content-Security-Policy"])
            self.assertIn("frame-ancestors 'self'", headers["Content-Security-Policy"])
            self.assertIn("frame-src 'self'", self.ask("/")[1]["Content-Security-Policy"])
            self.assertEqual(self.ask("/")[1]["X-Frame-Options"], "DENY")

    def test_limits(self):
        with self.web("--quota", "1G", "--total-quota", "2G", "--min-free", "1M",
                      "--memory-limit", "1G"):
            self.recorded()
            wait_until(lambda: self.status()["disk"]["held"])
            status = self.get("/api/v1/status")
            disk = status["disk"]
            self.assertEqual((disk["quota"], disk["total_quota"], disk["min_free"]),
                             (1 << 30, 2 << 30, 1 << 20))
            self.assertEqual(disk["size"], os.statvfs(self.traces).f_blocks
                             * os.statvfs(self.traces).f_frsize)
            self.assertLess(disk["free"], disk["size"])
            self.assertGreaterEqual(disk["held"], status["clients"][0]["disk_bytes"])
            self.assertEqual(status["memory_held"],
                             status["clients"][0]["counters"]["resident_bytes"])
            self.assertEqual(status["reports"], {"kept": 0, "most": 16, "evicted": 0})

    def test_the_name_of_the_host(self):
        data = bytearray(test_capture.welcome())
        data[154:154 + 38] = b"OS: Linux\nUser: me@build-7\nArch: x64\0\0"
        with mock.patch.object(test_capture, "welcome", lambda _: bytes(data)), self.web():
            self.recorded()
            self.assertEqual(self.status()["clients"][0]["host"], "build-7")

    def test_a_client_of_run(self):
        """Its collector says the host's name, and reads the program's RSS."""
        command = [TIDEMARK, "run", "-o", self.dir / "run.tracy", "--port", "0", "--report", "none",
                   "--no-debuginfod", "--", "/usr/bin/python3", "-c",
                   "x = bytearray(b'x') * (24 << 20); input()"]
        with self.web() as daemon, \
                subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                 stderr=subprocess.PIPE) as program:
            match = re.search(rb"listening on 127\.0\.0\.1:(\d+)", program.stderr.readline())
            body = json.dumps({"address": "127.0.0.1", "port": int(match[1])})
            self.assertEqual(self.ask("/api/v1/clients", "POST", body)[0], 201)

            def client():
                return self.status()["clients"][0]

            def resident():
                return (client()["counters"] or {}).get("client_resident_bytes") or 0
            wait_until(lambda: resident() > 24 << 20)
            self.assertLess(resident(), 128 << 20)
            self.assertEqual((client()["host"], client()["end"]), (os.uname().nodename, None))
            program.communicate(b"\n", timeout=LIMIT)
            wait_until(lambda: client()["state"] == "saved")
            self.assertEqual(client()["end"], "the client ended")
            self.assertEqual(self.stop(daemon), 0)

    def test_metrics(self):
        with self.web():
            number = self.recorded()
            status, headers, body = self.ask("/metrics")
            self.assertEqual(status, 200)
            self.assertIn("version=0.0.4", headers["Content-Type"])
            text = body.decode()
            labels = f'{{client="{number}",program="fake.c",address="127.0.0.1",pool="default"}}'
            self.assertIn(f"tidemark_live_bytes{labels} 320\n", text)
            self.assertIn(f"tidemark_frees_total{labels} 1\n", text)
            self.assertIn("tidemark_clients 1\n", text)
            names = re.findall(r"^# TYPE (\S+)", text, re.M)
            self.assertEqual(len(names), len(set(names)))
            series = [line.rsplit(" ", 1)[0] for line in text.splitlines() if line[0] != "#"]
            self.assertEqual(len(series), len(set(series)))
            for name in series:
                self.assertIn(name.split("{")[0], names)

    def test_events(self):
        with self.web():
            number = self.recorded()
            connection = http.client.HTTPConnection("127.0.0.1", self.port(), timeout=LIMIT)
            self.addCleanup(connection.close)
            connection.request("GET", "/api/v1/events")
            answer = connection.getresponse()
            self.assertEqual(answer.headers["Content-Type"], "text/event-stream")
            for _ in range(2):
                self.assertEqual(answer.readline(), b"event: status\n")
                line = answer.readline()
                self.assertTrue(line.startswith(b"data: "))
                self.assertEqual(json.loads(line[6:])["clients"][0]["number"], number)
                self.assertEqual(answer.readline(), b"\n")

    def next_event(self, stream):
        """Its type, what it says, and the bytes of that."""
        kind, data, end = stream.readline(), stream.readline(), stream.readline()
        self.assertEqual((kind[:7], data[:6], end), (b"event: ", b"data: ", b"\n"))
        return kind[7:-1].decode(), self.steady(json.loads(data[6:])), len(data)

    def listening(self, path, **headers):
        connection = http.client.HTTPConnection("127.0.0.1", self.port(), timeout=LIMIT)
        self.addCleanup(connection.close)
        connection.request("GET", path, headers=headers)
        return connection.getresponse()

    def test_events_of_what_changed(self):
        """Put together they are the status; of many clients that are remembered only the numbers
        come."""
        remembered = 60
        with self.web("--max-clients", "100") as process:
            for i in range(remembered):
                announce(self.udp, self.client(ENDS).port, b"a program with a name", pid=1 + i)
            self.wait_saved(remembered)
            stream = self.listening("/api/v1/events?changes")
            kind, status, whole = self.next_event(stream)
            self.assertEqual((kind, len(status["clients"])), ("status", remembered))
            self.assertEqual(status, self.status())
            for _ in range(2):
                kind, said, size = self.next_event(stream)
                self.assertEqual((kind, said["clients"]),
                                 ("changes", [c["number"] for c in status["clients"]]))
                self.assertLess(size, whole / 20)
            body = json.dumps({"address": "127.0.0.1", "port": self.client(THREE).port})
            self.assertEqual(self.ask("/api/v1/clients", "POST", body)[0], 201)

            def merged():
                kind, said, size = self.next_event(stream)
                self.assertEqual(kind, "changes")
                self.assertLess(size, whole / 10)
                known = {c["number"]: c for c in status["clients"]}
                status.update(said, clients=[known[c] if isinstance(c, int) else c
                                             for c in said["clients"]])
                return status["clients"][-1]

            wait_until(lambda: (merged()["counters"] or {}).get("memory_events") == 4)
            self.assertEqual(self.ask(f"/api/v1/clients/{remembered + 1}/stop", "POST")[0], 202)
            # Its journal is removed after that.
            wait_until(lambda: merged()["state"] == "saved" and status["disk"]["held"] == 0)
            self.assertEqual(status, self.status())
            # Who begins to listen hears all of it, and plain events are what they were.
            late = self.listening("/api/v1/events?changes=1")
            self.assertEqual(self.next_event(late)[:2], ("status", status))
            plain = self.listening("/api/v1/events")
            for _ in range(2):
                self.assertEqual(self.next_event(plain)[:2], ("status", status))
            self.assertEqual(self.stop(process), 0, self.said())

    def test_events_are_compressed_for_who_accepts_that(self):
        """A reader that comes later begins in the middle of what the daemon compressed."""
        with self.web() as process:
            for i in range(20):
                announce(self.udp, self.client(ENDS).port, b"a program with a name", pid=1 + i)
            self.wait_saved(20)
            status = self.status()
            streams = []
            for accepted in ("gzip", "deflate, GZIP , br"):
                for path, later in (("", "status"), ("?changes", "changes")):
                    packed = Unpacked(self.listening("/api/v1/events" + path,
                                                     **{"Accept-Encoding": accepted}))
                    kind, first, size = self.next_event(packed)
                    self.assertEqual((kind, first), ("status", status))
                    self.assertLess(packed.taken, size / 4)
                    kind, said, _ = self.next_event(packed)
                    said["clients"] = [first["clients"][c - 1] if isinstance(c, int) else c
                                       for c in said["clients"]]
                    self.assertEqual((kind, said), (later, status))
                    streams.append(packed)
            for refused in ("gzip;q=0, br", "gzip ; q=0", "identity", "br"):
                plain = self.listening("/api/v1/events", **{"Accept-Encoding": refused})
                self.assertIsNone(plain.headers["Content-Encoding"])
                self.assertEqual(self.next_event(plain)[:2], ("status", status))
            self.assertEqual(self.stop(process), 0, self.said())
        self.assertEqual([s.is_whole() for s in streams], [True] * 4)

    def test_start_save_now_and_stop(self):
        client = self.client(THREE)
        with self.web() as process:
            body = json.dumps({"address": "127.0.0.1", "port": client.port})
            status, _, answer = self.ask("/api/v1/clients", "POST", body)
            self.assertEqual(status, 201, answer)
            number = json.loads(answer)["number"]
            self.assertEqual(self.ask("/api/v1/clients", "POST", body)[0], 409)
            wait_until(lambda: (self.status()["clients"][0]["counters"] or {}).get("frees") or
                       (self.status()["clients"][0]["counters"] or {}).get("memory_events") == 4)
            self.assertEqual(self.ask(f"/api/v1/clients/{number}/save", "POST")[0], 202)
            self.wait_said("going on in")
            wait_until(lambda: [n for n in self.names() if n.endswith(".tracy")])
            (first,) = [n for n in self.names() if n.endswith(".tracy")]
            self.assertEqual(report(self.traces / first)["pools"][0]["allocations"], 3)
            self.assertEqual(self.ask(f"/api/v1/clients/{number}/stop", "POST")[0], 202)
            wait_until(lambda: self.status()["clients"][0]["state"] == "saved")
            self.assertEqual(self.ask(f"/api/v1/clients/{number}/stop", "POST")[0], 409)
            self.assertEqual(self.ask(f"/api/v1/clients/{number}/tree")[0], 409)
            self.assertEqual(self.stop(process), 0)
        second = sorted(n for n in self.names() if n.endswith(".2.tracy"))
        self.assertEqual(len(second), 1, self.names())
        self.assertEqual(report(self.traces / second[0])["pools"][0]["live_bytes"], 320)

    def test_what_cannot_be_started(self):
        with self.web():
            for body in ("", "{", "{}", '{"address":"example.org","port":1}',
                         '{"address":"127.0.0.1","port":0}', '{"address":"127.0.0.1"}',
                         '["127.0.0.1",1]'):
                self.assertEqual(self.ask("/api/v1/clients", "POST", body)[0], 400, body)
            self.assertEqual(self.ask("/api/v1/clients", "POST", "x" * 5000)[0], 413)
            self.assertEqual(self.ask("/api/v1/status", "DELETE")[0], 405)
            self.assertEqual(self.ask("/api/v1/status", "POST")[0], 404)

    def test_the_document_lists_what_there_is(self):
        with self.web():
            paths = self.get("/openapi.json")["paths"]
            number = self.recorded()
            for path, ways in paths.items():
                if "get" not in ways or path.endswith("/events") or "{name}" in path:
                    continue
                self.assertEqual(self.ask(path.replace("{number}", str(number)))[0], 200, path)

    def test_a_real_recording(self):
        recording = WIRE / "v0.14.0" / "memscen.c2s.bin"
        with self.web() as process, replaying(recording, f"--broadcast=127.0.0.1:{self.udp}"):
            self.wait_said("Trace size")
            wait_until(lambda: self.status()["traces_saved"] == 1)
            (trace,) = self.get("/api/v1/traces")["traces"]
            status, headers, body = self.ask(f"/api/v1/traces/{trace['name']}")
            self.assertEqual(status, 200)
            self.assertIn("attachment", headers["Content-Disposition"])
            self.assertEqual(body, (self.traces / trace["name"]).read_bytes())
            self.stop(process)

    def test_the_folder_is_removed_and_replaced(self):
        """What is recorded then lies in the folder of that name, and is shown."""
        def shown():
            return [t["name"] for t in self.get("/api/v1/traces")["traces"]]

        with self.web("--sink", f"files={self.dir / 'fleet'}") as process:
            self.traces.rmdir()
            self.wait_said("is gone: it was made again")
            wait_until(self.traces.exists)
            client = self.client(ENDS)
            announce(self.udp, client.port, b"prog", pid=1)
            wait_until(shown)
            wait_until(lambda: self.names() == shown())  # its journal goes a moment later
            wait_until(lambda: b"tidemark_sink_traces_total 1\n" in self.ask("/metrics")[2])
            self.traces.rename(self.dir / "before")
            self.traces.mkdir()
            (self.traces / "other.tracy").write_bytes(b"x")
            wait_until(lambda: shown() == ["other.tracy"])
            self.assertEqual(self.said().count("is gone"), 1)
            self.assertEqual(self.stop(process), 0, self.said())

    def test_memory_is_shared_out(self):
        limit = 500 << 20
        with self.web("--memory-limit", "500M") as process:
            for i in range(2):
                announce(self.udp, self.client(THREE).port, b"p", pid=100 + i)

            def shares():
                return [c["counters"]["resident_limit"] for c in self.status()["clients"]
                        if c["counters"]]

            least = 96 << 20
            wait_until(lambda: len(shares()) == 2 and min(shares()) > least)
            # One more could begin at any time.
            wait_until(lambda: sum(shares()) <= limit - least)
            self.assertEqual(self.stop(process), 0)

    def test_a_large_trace_from_a_daemon_that_has_nothing_else_to_do(self):
        """All of it comes at once, not a piece each time that the daemon looks around."""
        self.traces.mkdir()
        with open(self.traces / "large.tracy", "wb") as f:
            f.truncate(16 << 20)
        with self.web(), socket.create_connection(("127.0.0.1", self.port()), timeout=LIMIT) as s:
            s.sendall(b"GET /api/v1/traces/large.tracy HTTP/1.0\r\nHost: localhost\r\n\r\n")
            have, until = 0, time.monotonic() + LIMIT
            while time.monotonic() < until and (piece := s.recv(1 << 16)):
                have += len(piece)
            self.assertGreater(have, 16 << 20)

    def test_a_port_is_one_daemons(self):
        with self.web():
            other = run("daemon", "-o", self.traces, "-p", self.udp, "--http",
                        f"127.0.0.1:{self.port()}", timeout=20)
            self.assertEqual(other.returncode, 5, other.stderr)
            self.assertIn("cannot listen", other.stderr)

    def test_heads_alone(self):
        """As checks of health ask, and `curl -I`."""
        self.traces.mkdir()
        (self.traces / "x.tracy").write_bytes(b"no trace")
        with self.web() as process:
            for path, length in (("/healthz", 16), ("/api/v1/traces/x.tracy", 8)):
                status, headers, body = self.ask(path, "HEAD")
                self.assertEqual((status, headers["Content-Length"], body),
                                 (200, str(length), b""))
            self.assertEqual(self.ask("/api/v1/events", "HEAD")[::2], (200, b""))
            self.assertEqual(self.ask("/api/v1/clients/1/stop", "HEAD")[0], 404)
            self.assertEqual(self.stop(process), 0)

    def test_it_ends_while_somebody_waits(self):
        with self.web() as process:
            self.recorded()
            connection = http.client.HTTPConnection("127.0.0.1", self.port(), timeout=LIMIT)
            self.addCleanup(connection.close)
            connection.request("GET", "/api/v1/events")
            self.assertEqual(connection.getresponse().status, 200)
            self.assertEqual(self.stop(process), 0, self.said())

    def test_it_ends_although_somebody_asks_for_a_page_at_last(self):
        """A request that comes when nobody looks any more: while it waits to print its words."""
        self.traces.mkdir()
        (self.traces / "x.tracy").write_bytes(b"no trace")
        out, into = os.pipe()
        self.addCleanup(os.close, out)
        process = subprocess.Popen([TIDEMARK, "daemon", "-o", str(self.traces), "-p",
                                    str(self.udp), "--local", "--http", "127.0.0.1:0"],
                                   stdout=into, stderr=subprocess.PIPE)
        self.addCleanup(process.stderr.close)
        try:
            said = b""
            while b"Web server" not in said:
                said += os.read(out, 4096)
            port = int(re.search(rb"Web server: port (\d+)", said)[1])
            with socket.create_connection(("127.0.0.1", port), timeout=LIMIT) as s:
                s.sendall(b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n")
                self.assertIn(b"200 OK", s.recv(4096))
                os.set_blocking(into, False)
                with contextlib.suppress(BlockingIOError):
                    while os.write(into, b"x" * 4096):
                        pass
                os.set_blocking(into, True)
                process.terminate()
                status = pathlib.Path(f"/proc/{process.pid}/status")
                wait_until(lambda: re.search(r"ShdPnd:\s0+\n", status.read_text()))
                s.sendall(b"GET /api/v1/traces/x.tracy/report HTTP/1.1\r\nHost: localhost\r\n\r\n")
                os.close(into)
                into = -1
                while os.read(out, 65536):
                    pass
                self.assertIn(b" 503 ", s.recv(4096))
            self.assertEqual(process.wait(LIMIT), 0, process.stderr.read())
        finally:
            if into >= 0:
                os.close(into)
            end_daemon(process)


class Refusals(Web):
    def test_names_that_are_not_ours(self):
        with self.web():
            port = self.port()
            for host in ("localhost", f"localhost:{port}", "127.0.0.1", f"127.9.9.9:{port}",
                         "[::1]", f"[::1]:{port}"):
                self.assertEqual(self.ask("/api/v1/status", Host=host)[0], 200, host)
            for host in ("evil.example", f"evil.example:{port}", "127.0.0.1.evil.example",
                         "localhost.evil", "10.0.0.1", "", "[::2]"):
                self.assertEqual(self.ask("/api/v1/status", Host=host)[0], 421, host)

    def test_pages_of_others(self):
        with self.web():
            own = f"http://127.0.0.1:{self.port()}"
            self.assertEqual(self.ask("/api/v1/status", Origin=own)[0], 200)
            for origin in ("http://evil.example", "null", "https" + own[4:], own + "0"):
                self.assertEqual(self.ask("/api/v1/status", Origin=origin)[0], 403, origin)
            self.assertEqual(self.ask("/api/v1/clients", "POST", "{}",
                                      Sec_Fetch_Site="cross-site")[0], 403)

    def test_the_token(self):
        with self.web("--token", TOKEN):
            self.assertEqual(self.ask("/healthz")[0], 200)
            self.assertEqual(self.ask("/")[0], 200)
            for headers in ({}, {"Authorization": "Bearer " + TOKEN[:-1]},
                            {"Authorization": "Bearer " + TOKEN + "x"},
                            {"Authorization": "Basic " + TOKEN},
                            {"Cookie": "tidemark_token=wrong"}, {"Authorization": "Bearer"}):
                status, answer, _ = self.ask("/api/v1/status", **headers)
                self.assertEqual(status, 401, headers)
                self.assertEqual(answer["WWW-Authenticate"], "Bearer")
            self.assertEqual(self.ask("/metrics")[0], 401)
            self.assertEqual(
                self.ask("/api/v1/status", Authorization="Bearer " + TOKEN)[0], 200)
            self.assertEqual(self.ask("/api/v1/login", "POST", "wrong")[0], 401)
            status, headers, _ = self.ask("/api/v1/login", "POST", TOKEN)
            self.assertEqual(status, 204)
            cookie = headers["Set-Cookie"]
            self.assertIn("HttpOnly; SameSite=Strict", cookie)
            self.assertEqual(self.ask("/api/v1/status", Cookie=cookie.split(";")[0])[0], 200)

    def test_the_token_is_changed(self):
        """Its file is written anew; what is no token changes nothing."""
        file, other = self.dir / "token", TOKEN[::-1]
        file.write_text(TOKEN + "\n")
        with self.web("--token", f"@{file}"):
            def status(token):
                return self.ask("/api/v1/status", Authorization="Bearer " + token)[0]

            self.assertEqual((status(TOKEN), status(other)), (200, 401))
            file.write_text("short\n")
            self.wait_said("the one before stays")
            self.assertEqual((status(TOKEN), status(other)), (200, 401))
            (self.dir / "new").write_text(other + "\n")
            (self.dir / "new").rename(file)
            wait_until(lambda: status(other) == 200)
            self.assertEqual(status(TOKEN), 401)
            self.assertEqual(self.ask("/api/v1/login", "POST", TOKEN)[0], 401)

    def test_addresses_that_need_one(self):
        for args in (["--http", "0.0.0.0:0"], ["--http", "[::]:0"], ["--http", "x"],
                     ["--http", "127.0.0.1"], ["--http", "127.0.0.1:x"],
                     ["--http", "localhost:99999"], ["--token", "short"],
                     ["--token", "with a space, and long"], ["--token", "@/nowhere/at/all"]):
            result = run("daemon", "-o", self.traces, "-p", self.udp, *args)
            self.assertEqual(result.returncode, 2, (args, result.stderr))
        secret = self.dir / "secret"
        secret.write_text(TOKEN + "\n")
        with self.daemon("--http", "0.0.0.0:0", "--token", f"@{secret}"):
            self.assertEqual(self.ask("/api/v1/status")[0], 401)
            self.assertEqual(self.ask("/api/v1/status", Authorization="Bearer " + TOKEN)[0], 200)

    def test_files_that_are_nobodys_business(self):
        outside = self.dir / "outside.tracy"
        outside.write_text("secret")
        self.traces.mkdir()
        (self.traces / "notes.txt").write_text("secret")
        (self.traces / ".hidden.tracy").write_text("secret")
        (self.traces / "link.tracy").symlink_to(outside)
        (self.traces / "folder.tracy").mkdir()
        os.mkfifo(self.traces / "pipe.tracy")
        (self.traces / "real.tracy").write_text("mine")
        with self.web():
            self.assertEqual([t["name"] for t in self.get("/api/v1/traces")["traces"]],
                             ["real.tracy"])
            self.assertEqual(self.ask("/api/v1/traces/real.tracy")[2], b"mine")
            for name in ("notes.txt", ".hidden.tracy", "link.tracy", "folder.tracy", "pipe.tracy",
                         "../outside.tracy", "..%2Foutside.tracy", "%2e%2e/outside.tracy",
                         "folder.tracy/../real.tracy", "", ".", "none.tracy",
                         "/etc/passwd", "x" * 300 + ".tracy"):
                status, _, body = self.ask("/api/v1/traces/" + name)
                self.assertIn(status, (404, 400), name)
                self.assertNotIn(b"secret", body)

    def raw(self, request):
        """(status, the whole answer) of a request as it is written here."""
        with socket.create_connection(("127.0.0.1", self.port()), timeout=LIMIT) as s:
            s.sendall(request)
            answer = b""
            while b"\r\n\r\n" not in answer and (part := s.recv(4096)):
                answer += part
            if b"connection: close" in answer.lower():
                while part := s.recv(4096):
                    answer += part
        return int(answer.split()[1]), answer

    def test_requests_that_others_read_differently(self):
        """Refused, and the connection is closed: what follows may be somebody else's."""
        good = b"GET /healthz?a=%20b HTTP/1.1\r\nHost: localhost\r\nX-Note: some words\r\n\r\n"
        chunked = b"Transfer-Encoding: chunked\r\n"
        odd = {
            "two hosts": good.replace(b"X-Note: some words", b"Host: localhost"),
            "another host": good.replace(b"X-Note: some words", b"host: evil.example"),
            "bare line feeds": good.replace(b"\r\n", b"\n"),
            "one bare line feed": good.replace(b"localhost\r\n", b"localhost\n"),
            "a bare line feed at the end": good[:-2] + b"\n",
            "a bare return": good.replace(b"some words", b"some\rHost: evil.example"),
            "another coding": (b"POST /healthz HTTP/1.1\r\nHost: localhost\r\n"
                               b"Transfer-Encoding: identity\r\n\r\n"),
            "two codings": (b"POST /healthz HTTP/1.1\r\nHost: localhost\r\n" + chunked +
                            b"Transfer-Encoding: gzip\r\n\r\n"),
            "another coding and a length": (
                b"POST /healthz HTTP/1.1\r\nHost: localhost\r\n"
                b"Transfer-Encoding: identity\r\nContent-Length: 0\r\n\r\n"),
            "two lengths": (b"POST /healthz HTTP/1.1\r\nHost: localhost\r\nContent-Length: 5\r\n" +
                            chunked + b"\r\n0\r\n\r\n"),
            "two lengths, the other way": (b"POST /healthz HTTP/1.1\r\nHost: localhost\r\n" + chunked +
                                           b"Content-Length: 5\r\n\r\n0\r\n\r\n"),
        }
        with self.web() as process:
            self.assertEqual(self.raw(good)[0], 200)
            self.assertEqual(self.raw(good.replace(b"localhost", b""))[0], 421)
            for what, request in odd.items():
                status, answer = self.raw(request)
                self.assertEqual(status, 400, what)
                self.assertIn(b"connection: close", answer.lower(), what)
                self.assertEqual(self.raw(good)[0], 200, what)
            self.assertEqual(self.stop(process), 0, self.said())

    def test_slow_and_broken_clients_hold_nobody_up(self):
        with self.web() as process:
            port = self.port()
            slow = [socket.create_connection(("127.0.0.1", port)) for _ in range(100)]
            for i, s in enumerate(slow):
                self.addCleanup(s.close)
                s.sendall((b"GET /api", b"\0\xff" * 50, b"POST / HTTP/1.1\r\nContent-Length: 9\r\n\r\n",
                           b"GET " + b"/x" * 9000)[i % 4])
            self.recorded()
            self.assertEqual(self.stop(process), 0, self.said())


if __name__ == "__main__":
    unittest.main()
