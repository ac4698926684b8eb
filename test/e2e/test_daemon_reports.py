"""Pages of finished traces that the daemon has made by a process of its own."""

import http.client
import json
import os
import pathlib
import re
import resource
import shutil
import unittest

import hostilefile
from clients import thread_name
from test_capture import alloc, frame, TERMINATE
from test_daemon import announce
from test_daemon_http import THREE, TOKEN, Web
from tools import LIMIT, SANITIZED, TRACES, children, run, wait_until


class Reports(Web):
    def saved(self, body=None):
        """A finished trace; gives its name."""
        client = self.client(body or frame(thread_name(7, b"main") + alloc(10, 7, 0x1000, 64) +
                                           TERMINATE))
        before = self.status()["traces_saved"]
        announce(self.udp, client.port, b"prog")
        wait_until(lambda: self.status()["traces_saved"] == before + 1)
        return max(self.status()["clients"], key=lambda c: c["number"])["trace"]

    def test_the_summary(self):
        with self.web() as process:
            name = self.saved()
            got = self.get(f"/api/v1/traces/{name}/summary")
            self.assertEqual(got["schema"], "tidemark.report/1")
            self.assertEqual(got["pools"][0]["live_bytes"], 64)
            self.assertEqual(got, self.get(f"/api/v1/traces/{name}/summary"))
            own = json.loads(run("report", self.traces / name, "--format", "json").stdout)
            self.assertEqual(got["pools"], own["pools"])
            self.assertEqual(self.stop(process), 0, self.said())

    def test_the_page(self):
        with self.web():
            name = self.saved()
            page = self.dir / "page.html"
            made = run("report", self.traces / name, "--format", "html", "-o", page)
            if made.returncode != 0:
                status, _, body = self.ask(f"/api/v1/traces/{name}/report")
                self.assertEqual(status, 500)
                cause, _ = made.stderr.split("\n", 1)
                self.assertEqual("report: " + json.loads(body)["error"], cause)
                self.skipTest("this program was built without the page")
            for _ in range(2):
                status, headers, body = self.ask(f"/api/v1/traces/{name}/report")
                self.assertEqual((status, headers["Content-Type"]),
                                 (200, "text/html; charset=utf-8"))
                self.assertEqual(body, page.read_bytes())
                policy = headers["Content-Security-Policy"]
                self.assertTrue(policy.startswith("sandbox allow-scripts"), policy)
                self.assertNotIn("allow-same-origin", policy)
                self.assertIsNone(headers["Content-Disposition"])
            status, headers, _ = self.ask(f"/api/v1/traces/{name}/report?download")
            self.assertEqual((status, headers["Content-Disposition"]),
                             (200, f'attachment; filename="{name}.html"'))

    def test_pages_of_real_traces(self):
        """The same as `report` writes."""
        self.traces.mkdir()
        page = self.dir / "page.html"
        names = [t.name for t in sorted(TRACES.glob("**/*all*.tracy"))][:1] or self.fail("no trace")
        for name in names:
            shutil.copy(next(TRACES.glob(f"**/{name}")), self.traces / name)
            if run("report", self.traces / name, "--format", "html", "-fo", page).returncode != 0:
                self.skipTest("this program was built without the page")
        with self.web():
            for name in names:
                status, _, body = self.ask(f"/api/v1/traces/{name}/report")
                self.assertEqual(status, 200, body[:200])
                run("report", self.traces / name, "--format", "html", "-fo", page)
                self.assertEqual(body, page.read_bytes())

    def test_a_trace_that_was_replaced(self):
        with self.web():
            first = self.saved()
            self.assertEqual(self.get(f"/api/v1/traces/{first}/summary")["pools"][0]["live_bytes"],
                             64)
            second = self.saved(frame(thread_name(7, b"main") + alloc(10, 7, 0x1000, 128) +
                                      TERMINATE))
            os.replace(self.traces / second, self.traces / first)
            self.assertEqual(self.get(f"/api/v1/traces/{first}/summary")["pools"][0]["live_bytes"],
                             128)

    def test_what_is_no_trace(self):
        self.traces.mkdir()
        (self.traces / "broken.tracy").write_bytes(b"tracy\0\0\0\0\0" * 9)
        (self.traces / "empty.tracy").write_bytes(b"")
        outside = self.dir / "outside.tracy"
        outside.write_text("secret")
        (self.traces / "link.tracy").symlink_to(outside)
        with self.web():
            for name in ("broken", "empty"):
                for _ in range(2):
                    status, _, body = self.ask(f"/api/v1/traces/{name}.tracy/summary")
                    self.assertEqual(status, 422, body)
                    self.assertIn("standard input", json.loads(body)["error"])
            for path in ("link.tracy/report", "none.tracy/summary", "broken.tracy/other",
                         "broken.tracy/", "../outside.tracy/summary",
                         "broken.tracy/report/report"):
                self.assertEqual(self.ask(f"/api/v1/traces/{path}")[0], 404, path)

    @unittest.skipIf(SANITIZED, "sanitizers need more than the limit by themselves")
    def test_a_trace_that_needs_too_much_memory(self):
        """The maker says so, and the daemon goes on."""
        self.traces.mkdir()
        hostilefile.distinct_sites(self.traces / "large.tracy", 200_000)
        with self.web() as process:
            name = self.saved()
            self.assertEqual(self.get(f"/api/v1/traces/{name}/summary")["pools"][0]["live_bytes"],
                             64)
            data = re.search(r"VmData:\s+(\d+) kB",
                             pathlib.Path(f"/proc/{process.pid}/status").read_text())
            limit = (int(data[1]) << 10) + (2 << 20)
            resource.prlimit(process.pid, resource.RLIMIT_DATA, (limit, limit))
            status, _, body = self.ask("/api/v1/traces/large.tracy/summary")
            self.assertEqual(status, 500, body[:200])
            self.assertRegex(json.loads(body)["error"],
                             "out of memory for [^:]*; the daemon gives a report 768 MiB of memory, "
                             "`tidemark report --format json large.tracy` takes what it needs$")
            self.assertEqual(self.status()["traces_saved"], 1)
            self.assertEqual(self.stop(process), 0, self.said())

    def test_the_token_is_needed(self):
        with self.web("--token", TOKEN):
            self.assertEqual(self.ask("/api/v1/traces/x.tracy/report")[0], 401)

    def test_who_asks_and_leaves(self):
        """Nothing is left of pages that nobody waits for, and of processes that made them."""
        with self.web() as process:
            name = self.saved()
            for _ in range(8):
                connection = http.client.HTTPConnection("127.0.0.1", self.port(), timeout=LIMIT)
                connection.request("GET", f"/api/v1/traces/{name}/summary")
                connection.close()
            self.get(f"/api/v1/traces/{name}/summary")
            wait_until(lambda: not children(process))
            self.recorded(THREE)
            self.assertEqual(self.stop(process), 0, self.said())


if __name__ == "__main__":
    unittest.main()
