"""What the daemon tells of: alerts, ends of clients and full disks, to programs, web servers and the
log."""

import http.server
import json
import os
import re
import signal
import struct
import subprocess
import threading
import time
import unittest
from unittest import mock

from clients import alloc_plain, string, thread_name
from test_capture import TERMINATE, FakeClient, alloc, frame, free, welcome
from test_daemon import announce
from test_daemon_http import Web
from tools import LIMIT, TIDEMARK, children, run, wait_until

POOL = 0x9000
VRAM = thread_name(7, b"main") + string(POOL, b"gpu.vram") + alloc_plain(10, 7, 0x1000, 1 << 21, POOL)


class Driven(FakeClient):
    """Sends what the test tells it to."""

    def talk(self):
        while True:
            peer, _ = self.socket.accept()
            request = peer.recv(12)
            if request and struct.unpack("<I", request[8:])[0] == self.speaks:
                break
            peer.sendall(b"\x02")
            peer.close()
        peer.sendall(b"\x01" + welcome(self.timer_mul))
        self.peer = peer
        self.ready.set()
        while peer.recv(65536):
            pass

    def __init__(self, body, **kwargs):
        self.ready = threading.Event()
        super().__init__(body, **kwargs)

    def send(self, data):
        if not self.ready.wait(LIMIT):
            raise AssertionError("nobody connected")
        self.peer.sendall(data)


class Listener:
    """A web server that keeps what it is sent. `statuses`: what it answers, one after another, the
    last again and again."""

    def __init__(self, *statuses):
        self.got, left = [], list(statuses)
        listener = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_POST(self):
                body = self.rfile.read(int(self.headers["Content-Length"]))
                listener.got.append((self.path, self.headers["Content-Type"], json.loads(body)))
                self.send_response(left.pop(0) if len(left) > 1 else left[0])
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *args):
                pass

        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def close(self):
        self.server.shutdown()
        self.server.server_close()

    def events(self):
        """In their order: up to four are sent at a time, and one may arrive before an earlier one."""
        return [event["event"] for _, _, event in sorted(self.got, key=lambda got: got[2]["time"])]


class Telling(Web):
    def listener(self, *statuses):
        listener = Listener(*(statuses or (204,)))
        self.addCleanup(listener.close)
        return listener

    def program(self, text):
        path = self.dir / "program"
        path.write_text("#!/bin/sh\n" + text)
        path.chmod(0o755)
        return path

    def end(self, client, process):
        self.assertEqual(self.stop(process), 0, self.said())
        client.end()


class Ending(Telling):
    def test_a_further_signal_ends_the_wait_for_who_is_told(self):
        """When all is saved: else a program that hangs has its minute."""
        program = self.program(f"echo > {self.dir}/began; exec sleep 600")
        client = self.client(frame(VRAM) + frame(TERMINATE))
        with self.daemon("--on-finish", program) as process:
            announce(self.udp, client.port, b"prog")
            wait_until((self.dir / "began").exists)
            process.terminate()
            self.wait_said("Shutting down")
            process.terminate()
            process.wait(LIMIT)
        self.assertEqual(process.returncode, 0, self.said())
        self.assertIn("a further signal came", self.said())


class Alerts(Telling):
    def test_a_web_server_is_told(self):
        listener = self.listener()
        client = self.client(frame(VRAM))
        with self.web("--alert", 'live_bytes(pool="gpu.vram")>1M', "--alert", "live_count>7",
                      "--webhook", listener.url + "/hook?x=1") as process:
            announce(self.udp, client.port, b"prog", pid=99)
            wait_until(lambda: listener.got)
            path, kind, event = listener.got[0]
            self.assertEqual((path, kind), ("/hook?x=1", "application/json"))
            self.assertEqual((event["schema"], event["event"], event["level"]),
                             ("tidemark.event/1", "alert", "warning"))
            self.assertEqual(event["alert"], 'live_bytes(pool="gpu.vram")>1M')
            self.assertRegex(event["why"], r'^live_bytes\(pool="gpu.vram"\) is 2.00 MiB')
            self.assertEqual((event["client"]["program"], event["client"]["pid"]), ("prog", 99))
            self.assertRegex(event["time"], r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$")
            self.assertEqual(self.status()["clients"][0]["alerts"],
                             ['live_bytes(pool="gpu.vram")>1M'])
            (firing,) = self.status()["clients"][0]["firing"]
            self.assertEqual((firing["alert"], firing["now"]), (event["alert"], event["why"]))
            self.assertAlmostEqual(firing["since"], time.time(), delta=LIMIT)
            text = self.ask("/metrics")[2].decode()
            self.assertIn("tidemark_alerts_total 1\n", text)
            self.assertIn('alert="live_bytes(pool=\\"gpu.vram\\")>1M"} 1\n', text)
            self.assertIn('alert="live_count>7"} 0\n', text)
            self.end(client, process)
        self.assertEqual(listener.events(), ["alert", "client.finished"])
        finished = listener.got[1][2]
        self.assertTrue(finished["saved"])
        self.assertEqual(os.path.basename(finished["trace"]), self.names()[0])
        self.assertEqual(finished["trace_bytes"], os.path.getsize(self.traces / self.names()[0]))
        self.assertIn("alert: client 1 (prog)", self.said())

    def test_it_is_told_once(self):
        """A figure that stays beyond its bound is no second alert, however often it is counted."""
        listener = self.listener()
        client = self.client(frame(VRAM))
        with self.web("--alert", "live>1", "--alert-pause", "0s",
                      "--webhook", listener.url) as process:
            announce(self.udp, client.port)
            wait_until(lambda: self.status()["clients"]
                       and (self.status()["clients"][0]["counters"] or {}).get("seconds", 0) > 3)
            self.end(client, process)
        self.assertEqual(listener.events(), ["alert", "client.finished"])

    def rise_twice(self, pause):
        """Beyond the bound, below it, beyond it again; gives the events."""
        listener = self.listener()
        client = Driven(b"")
        self.addCleanup(client.end)

        def counted(allocations, frees):
            clients = self.status()["clients"]
            counters = clients and clients[0]["counters"] or {"pools": []}
            return any((p["allocations"], p["frees"]) == (allocations, frees)
                       for p in counters["pools"])

        with self.web("--alert", "live>50", "--alert-pause", pause,
                      "--webhook", listener.url) as process:
            announce(self.udp, client.port)
            client.send(frame(thread_name(7, b"main") + alloc(10, 7, 0x1000, 64)))
            wait_until(lambda: counted(1, 0))
            client.send(frame(free(10, 7, 0x1000)))
            wait_until(lambda: counted(1, 1))
            self.assertEqual(bool(self.status()["clients"][0]["alerts"]), pause != "0s")
            client.send(frame(alloc(10, 7, 0x2000, 64)))
            wait_until(lambda: counted(2, 1))
            self.end(client, process)
        return listener.events()

    def test_it_is_told_again_when_it_was_over(self):
        self.assertEqual(self.rise_twice("0s"), ["alert", "alert", "client.finished"])

    def test_up_and_down_is_told_once(self):
        self.assertEqual(self.rise_twice("1h"), ["alert", "client.finished"])

    def test_faults(self):
        listener = self.listener()
        client = self.client(frame(VRAM + alloc_plain(11, 7, 0x1000, 16, POOL)))
        with self.web("--alert", 'faults(pool="gpu.vram")>0', "--alert", "faults>1",
                      "--webhook", listener.url) as process:
            announce(self.udp, client.port)
            wait_until(lambda: listener.got)
            self.assertEqual([p["faults"] for p in self.status()["clients"][0]["counters"]["pools"]
                              if p["name"] == "gpu.vram"], [1])
            self.end(client, process)
        self.assertEqual([e["alert"] for _, _, e in listener.got if e["event"] == "alert"],
                         ['faults(pool="gpu.vram")>0'])

    def test_what_cannot_be_an_alert(self):
        for text in ("peak>1", "live(site=\"x\")>1", "live>", "faults(site=\"x\")>0", "largest>1",
                     "live>+5%", ""):
            result = run("daemon", "-o", self.traces, "--alert", text)
            self.assertEqual(result.returncode, 2, text)
            self.assertIn("--alert", result.stderr)
        for args in (["--webhook", "ftp://x/"], ["--webhook", "http://"],
                     ["--webhook", "http://a b/"],
                     ["--on-finish", "true"], ["--on-finish", "/nowhere/at/all"],
                     ["--on-alert", "rm -rf /"], ["--alert-pause", "-1s"], ["--log", "xml"]):
            self.assertEqual(run("daemon", "-o", self.traces, *args).returncode, 2, args)


class Programs(Telling):
    def test_they_are_told(self):
        out = self.dir / "out"
        program = self.program(f'echo "$1|$2|$(cat)" >> {out}\n')
        client = self.client(frame(VRAM))
        with self.web("--alert", "live>1M", "--on-alert", program,
                      "--on-finish", program) as process:
            announce(self.udp, client.port)
            wait_until(out.exists)
            self.end(client, process)
        alert, finished = (line.split("|", 2) for line in out.read_text().splitlines())
        self.assertEqual(alert[:2], ["alert", ""])
        self.assertEqual(json.loads(alert[2])["alert"], "live>1M")
        self.assertEqual(finished[:2], ["client.finished", str(self.traces / self.names()[0])])
        self.assertEqual(json.loads(finished[2])["client"]["number"], 1)

    def test_they_are_told_when_no_temporary_file_can_be_had(self):
        """A disk that is full is one of the events."""
        out = self.dir / "out"
        program = self.program(f'echo "$1|$(cat)" > {out}.new; mv {out}.new {out}\n')
        with mock.patch.dict(os.environ, TMPDIR=str(self.dir / "nowhere")), \
                self.web("--alert", "live>1M", "--on-alert", program) as process:
            announce(self.udp, self.client(frame(VRAM)).port)
            wait_until(lambda: out.exists() or "nowhere" in self.said())
            self.stop(process)
        self.assertEqual(json.loads(out.read_text().split("|", 1)[1])["event"], "alert")

    def test_signals_and_descriptors_are_as_for_any_program(self):
        out = self.dir / "out"
        program = self.program(f"exec 2>&1; {{ grep -E '^Sig(Blk|Ign)' /proc/self/status; "
                               f"ls /proc/self/fd; }} > {out}.new; mv {out}.new {out}\n")
        client = self.client(frame(VRAM + TERMINATE))
        with self.web("--on-finish", program) as process:
            announce(self.udp, client.port)
            wait_until(out.exists)
            self.stop(process)
        lines = out.read_text().split()
        self.assertEqual(lines[1], "0" * 16, lines)
        self.assertEqual(int(lines[3], 16) & (1 << 12), 0, lines) # SIGPIPE
        self.assertEqual(lines[4:7], ["0", "1", "2"])
        self.assertLessEqual(len(lines), 8, lines) # and the one of `ls`

    def test_one_that_fails_is_told_of(self):
        program = self.program("echo no luck >&2; exit 3\n")
        client = self.client(frame(VRAM + TERMINATE))
        with self.web("--on-finish", program) as process:
            announce(self.udp, client.port)
            self.wait_said("it failed: no luck")
            self.assertIn("tidemark_hook_failures_total 1\n", self.ask("/metrics")[2].decode())
            self.assertEqual(self.stop(process), 0)

    def test_one_that_talks_without_end_holds_nobody_up(self):
        out = self.dir / "pid"
        program = self.program(f"echo no luck >&2; echo $$ > {out}.new; mv {out}.new {out}\n"
                               "exec yes no luck >&2\n")
        client = self.client(frame(VRAM + TERMINATE))
        with self.web("--on-finish", program) as process:
            announce(self.udp, client.port)
            wait_until(out.exists)
            for _ in range(3):
                self.assertEqual(self.ask("/healthz")[0], 200)
            os.kill(int(out.read_text()), signal.SIGKILL)
            self.wait_said("it failed: no luck")
            self.assertEqual(self.stop(process), 0)


    def test_words_of_any_length(self):
        """Also where they just fill what is kept of them: nothing is written behind that."""
        count = self.dir / "count"
        count.write_text("32")
        program = self.program(f"n=$(($(cat {count}) * 2)); echo $n > {count}\n"
                               "head -c $n /dev/zero | tr '\\0' x >&2; exit 3\n")
        with self.web("--on-finish", program) as process:
            for n in range(6, 14): # 64 bytes, 128, … and 4096 of 8192
                client = self.client(frame(VRAM + TERMINATE))
                announce(self.udp, client.port)
                self.wait_said(f"it failed: {'x' * min(2**n, 4096)}\n", process)
            self.assertEqual(self.stop(process), 0)


    def test_what_is_dropped_is_told_of_each_time(self):
        """With how many; the queue has room in between."""
        go, alerts = self.dir / "go", []
        for n in range(320):
            alerts += ["--alert", f"live_bytes>{n}"]
        program = self.program(f"while ! [ -e {go} ]; do sleep 0.05; done\n")
        with self.web("--on-alert", program, *alerts) as process:
            for times in (1, 2):
                for _ in range(4):
                    announce(self.udp, self.client(frame(VRAM)).port, b"p", pid=times)
                self.wait_said("event queue full", process, times)
                wait_until(lambda: sum(len(c["alerts"]) for c in self.status()["clients"])
                           == times * 4 * 320)
                go.touch()
                self.wait_said("events dropped", process, times)
                dropped = [int(n) for n in re.findall(r"(\d+) events dropped", self.said())]
                self.assertGreaterEqual(dropped[-1], 4 * 320 - 1000 - 8)
                wait_until(lambda: not self.waiting(process))
                go.unlink()
            self.assertEqual(sum(dropped), self.failures())

    def waiting(self, process):
        return len(children(process)) > sum(c["state"] == "recording" for c in self.status()["clients"])

    def failures(self):
        return int(re.search(r"tidemark_hook_failures_total (\d+)",
                             self.ask("/metrics")[2].decode())[1])


class Servers(Telling):
    def test_one_in_trouble_is_told_again(self):
        listener = self.listener(503, 503, 200)
        client = self.client(frame(VRAM + TERMINATE))
        with self.web("--webhook", listener.url) as process:
            announce(self.udp, client.port)
            wait_until(lambda: len(listener.got) == 3)
            self.assertEqual(self.stop(process), 0, self.said())
        self.assertEqual(listener.events(), ["client.finished"] * 3)
        self.assertNotIn("did not receive", self.said())

    def test_one_that_refuses_is_not(self):
        listener = self.listener(404)
        client = self.client(frame(VRAM + TERMINATE))
        with self.web("--webhook", listener.url) as process:
            announce(self.udp, client.port)
            self.wait_said("the server refuses it (404)")
            self.assertEqual(self.stop(process), 0, self.said())
        self.assertEqual(len(listener.got), 1)


class Log(Telling):
    def events(self):
        return [json.loads(line) for line in self.said().splitlines()]

    def test_each_line_is_an_object(self):
        client = self.client(frame(VRAM))
        process = self.start_json("--alert", "live>1M")
        announce(self.udp, client.port, b"p\x1b[1m\"x\"", pid=5)
        self.wait_said('"event":"alert"')
        self.assertEqual(self.stop(process), 0, self.said())
        events = self.events()
        names = [e["event"] for e in events]
        for name in ("daemon.started", "client.recording", "client.says", "alert",
                     "client.finished", "daemon.stopping", "daemon.stopped"):
            self.assertIn(name, names)
        for event in events:
            self.assertEqual(event["schema"], "tidemark.event/1")
            self.assertLessEqual({"time", "level", "event", "message"}, set(event))
            self.assertIn(event["level"], ("info", "warning", "error"))
        recorded = next(e for e in events if e["event"] == "client.recording")
        self.assertEqual(recorded["client"]["program"], "p\x1b[1m\"x\"")
        self.assertEqual(events[0]["folder"], str(self.traces))

    def test_the_status_is_that_of_the_man_page(self):
        """Not that of the official tool, which has 0 for whatever is saved, and 3 for no client."""
        broken = self.client(frame(VRAM) + b"\xff" * 64)
        other = self.client(b"", speaks=66)
        process = self.start_json()
        announce(self.udp, broken.port, b"broken", pid=5)
        self.wait_said('"event":"client.finished"', process)
        announce(self.udp, other.port, b"other", pid=6)
        self.wait_said('"event":"client.failed"', process)
        self.assertEqual(self.stop(process), 0, self.said())
        told = {e["event"]: e for e in self.events()}
        finished, failed = told["client.finished"], told["client.failed"]
        self.assertEqual((finished["status"], finished["saved"]), (3, True), finished)
        self.assertEqual((failed["status"], failed["saved"]), (5, False), failed)

    def useless_journal(self):
        journal = self.traces / "x.tracy.journal"
        journal.mkdir(parents=True)
        # A whole header, of a version that there is not yet.
        (journal / "00000001").write_bytes(struct.pack("<8sIIQQQ", b"TIDEJRN1", 65535, 1, 7, 0, 0) +
                                           bytes.fromhex("5c9ba292844b9881"))
        return f"{journal}.damaged"

    def hold_recovery(self):
        """Each line that recovery said is an event of its own, and its errors are warnings."""
        for event in self.events():
            self.assertEqual(event["schema"], "tidemark.event/1")
            self.assertNotIn("\n", event["message"])
            self.assertNotIn("tidemark: ", event["message"])
        return [(e["level"], e["message"]) for e in self.events() if e["event"] == "recovery"]

    def test_recovery_too(self):
        aside = self.useless_journal()
        process = self.start_json()
        self.assertEqual(self.stop(process), 0, self.said())
        kept, unusable = self.hold_recovery()
        self.assertEqual(kept, ("warning", "the journal is damaged: what could not be used is kept "
                                           f"in {aside}"))
        self.assertEqual(unusable[0], "warning")
        self.assertIn("nothing in the journal can be used", unusable[1])

    def test_recovery_while_it_runs(self):
        process = self.start_json()
        self.wait_said('"event":"daemon.started"')
        self.useless_journal()
        self.wait_said("nothing in the journal can be used")
        self.assertEqual(self.stop(process), 0, self.said())
        self.assertEqual([level for level, _ in self.hold_recovery()], ["warning"] * 2)

    def test_recovery_while_it_runs_in_text(self):
        with self.daemon():
            aside = self.useless_journal()
            self.wait_said("nothing in the journal can be used")
        self.assertIn("\ntidemark: the journal is damaged: what could not be used is kept in "
                      f"{aside}\ntidemark: nothing in the journal can be used: ", self.said())

    def start_json(self, *args):
        with open(self.log, "wb") as log:
            process = subprocess.Popen([TIDEMARK, "daemon", "-o", str(self.traces), "-p",
                                        str(self.udp), "--local", "--log", "json",
                                        *map(str, args)], stdout=log, stderr=log)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        self.wait_said('"event":"daemon.started"', process)
        return process


if __name__ == "__main__":
    unittest.main()
