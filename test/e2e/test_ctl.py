"""`tidemark ctl` against a daemon, and against what is none."""

import contextlib
import json
import os
import signal
import socket
import threading
import unittest

from clients import alloc_plain, string, thread_name
from test_capture import frame
from test_daemon_http import THREE, TOKEN, Web
from tools import LIMIT, children, free_port, report, run, wait_until


class Ctl(Web):
    def ctl(self, *args, **kwargs):
        return run("ctl", "--at", f"127.0.0.1:{self.port()}", *args, timeout=LIMIT, **kwargs)

    def done(self, *args, **kwargs):
        result = self.ctl(*args, **kwargs)
        self.assertEqual((result.returncode, result.stderr), (0, ""), args)
        return result.stdout

    def test_a_client_from_start_to_trace(self):
        client = self.client(THREE)
        with self.web() as process:
            self.assertIn("0 recorded now", self.done("status"))
            number = self.done("start", f"127.0.0.1:{client.port}").strip()
            wait_until(lambda: "320 B in 2 blocks" in self.done("status"))
            (told,) = json.loads(self.done("status", "--format", "json"))["clients"]
            self.assertEqual(str(told["number"]), number)
            self.assertEqual(json.loads(self.done("counters", number))["live_bytes"], 320)
            self.assertEqual(json.loads(self.done("tree", number))["schema"], "tidemark.tree/1")
            self.assertEqual(json.loads(self.done("sites", number))["schema"],
                             "tidemark.report/1")
            self.assertIn("points", json.loads(self.done("history", number)))
            self.assertIn("tidemark_clients 1\n", self.done("metrics"))
            self.assertEqual(self.done("save", number), "")
            wait_until(lambda: self.done("traces"))
            self.assertEqual(self.done("stop", number), "")
            wait_until(lambda: "saved  " in self.done("status"))
            traces = [t["name"] for t in
                      json.loads(self.done("traces", "--format", "json"))["traces"]]
            self.assertEqual(len(traces), 2)
            for name in traces:
                self.done("get", name, cwd=self.dir)
                self.assertEqual(report(self.dir / name)["pools"][0]["live_bytes"], 320)
                self.assertEqual(self.ctl("get", name, cwd=self.dir).returncode, 4)
                self.done("get", name, "-f", "-o", self.dir / "other")
            self.assertEqual(self.stop(process), 0)

    def test_one_that_is_paused_is_stopped(self):
        """Who wants room on the disk need not wait for room on the disk."""
        client = self.client(THREE)
        with self.web() as process:
            number = self.done("start", f"127.0.0.1:{client.port}").strip()
            wait_until(lambda: "320 B in 2 blocks" in self.done("status"))
            (session,) = children(process)
            os.kill(session, signal.SIGSTOP)
            self.done("stop", number)
            wait_until(lambda: "saved  " in self.done("status"))
            self.assertEqual(self.stop(process), 0)

    def test_names_with_zeros(self):
        """Any byte may stand in what a client calls a pool."""
        client = self.client(frame(thread_name(7, b"main") + string(0x9000, b"gpu\0vram") +
                                   alloc_plain(10, 7, 0x1000, 100, 0x9000)))
        with self.web() as process:
            number = self.done("start", f"127.0.0.1:{client.port}").strip()
            wait_until(lambda: "100 B in 1 block" in self.done("status"))
            pools = [p["name"] for p in json.loads(self.done("counters", number))["pools"]]
            self.assertEqual(pools, ["default", "gpu\0vram"])
            self.assertIn('pool="gpu"} 100\n', self.done("metrics"))
            self.assertEqual(self.stop(process), 0)

    def test_what_the_daemon_refuses(self):
        with self.web("--token", TOKEN):
            for args, why in ((["status"], "a token is needed"),
                              (["--token", TOKEN, "stop", "7"], "no such client"),
                              (["--token", TOKEN, "get", "no.tracy", "-o", self.dir / "no"],
                               "no such trace"),
                              (["--token", TOKEN, "get", "a b?%#", "-o", self.dir / "no"],
                               "no such trace")):
                result = self.ctl(*args)
                self.assertEqual(result.returncode, 1, result.stderr)
                self.assertIn(why, result.stderr)
            self.assertFalse((self.dir / "no").exists())
            (self.dir / "secret").write_text(TOKEN)
            self.done("--token", f"@{self.dir / 'secret'}", "status")

    def test_usage(self):
        for args in ([], ["nothing"], ["stop"], ["stop", "x"], ["status", "1"], ["start", "a.b:1"],
                     ["start", "127.0.0.1:0"], ["--at", "x", "status"], ["get", "../x"],
                     ["--format", "csv", "status"], ["--token", "short", "status"]):
            self.assertEqual(run("ctl", *args).returncode, 2, args)

    def test_what_is_no_daemon(self):
        for answer in (b"", b"\xff" * 100, b"HTTP/1.1 200 OK\r\n\r\n<html>", b"SSH-2.0-x\r\n\r\n",
                       b"HTTP/1.1 200 OK\r\nContent-Length: 999\r\n\r\n{}", b"x" * 20000):
            with socket.socket() as listener:
                listener.bind(("127.0.0.1", 0))
                listener.listen()

                def serve():
                    peer, _ = listener.accept()
                    peer.recv(4096)
                    peer.sendall(answer)
                    peer.shutdown(socket.SHUT_WR)
                    with contextlib.suppress(OSError):  # it has heard enough
                        while peer.recv(4096):
                            pass
                    peer.close()

                thread = threading.Thread(target=serve, daemon=True)
                thread.start()
                result = run("ctl", "--at", f"127.0.0.1:{listener.getsockname()[1]}", "status")
                self.assertEqual(result.returncode, 5, (answer, result.stderr))
                thread.join(LIMIT)
        result = run("ctl", "--at", f"127.0.0.1:{free_port()}", "status")
        self.assertEqual(result.returncode, 5)
        self.assertIn("no daemon at", result.stderr)


if __name__ == "__main__":
    unittest.main()
