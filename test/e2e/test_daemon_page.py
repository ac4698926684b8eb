"""The page of `tidemark daemon --http` in a real browser."""

import json
import shutil
import subprocess
import unittest

from test_daemon_http import THREE, TOKEN, Web
from tools import BUILD, LIMIT, ROOT, TRACES, report, run

MODULES = BUILD / "test-web" / "node_modules"
CHROMIUM = next((p for p in map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))
                 if p), None)


def html_is_there():
    return "without the page" not in run("report", TRACES / "none", "--format", "html").stderr


class Page(Web):
    def get(self, path, **headers):
        return super().get(path, Authorization="Bearer " + TOKEN, **headers)

    def test_in_a_browser(self):
        if not CHROMIUM or not shutil.which("node") or not (MODULES / "playwright-core").exists():
            self.skipTest("no browser: chromium, node and the packages of test/web are needed")
        if not html_is_there():
            self.skipTest("the page of reports was not built: node and npm are needed")
        work = self.dir / "work"
        work.mkdir()
        (work / "node_modules").symlink_to(MODULES.resolve())
        second = self.client(THREE)
        with self.web("--token", TOKEN, "--alert", "live_count>1", "--quota", "1G") as process:
            number = self.recorded(THREE)
            self.assertEqual(number, 1)
            result = subprocess.run(
                ["node", str(ROOT / "test" / "web" / "daemon_test.mjs"), CHROMIUM, str(work),
                 f"http://127.0.0.1:{self.port()}/", TOKEN, str(second.port)],
                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, timeout=LIMIT)
            found = [json.loads(line) for line in result.stdout.splitlines()]
            self.assertEqual([f for f in found if f["error"]], [], self.said())
            self.assertEqual(len(found), 18, result.stderr)
            self.assertEqual(self.stop(process), 0)
        self.assertEqual(report(work / "downloaded.tracy")["pools"][0]["live_bytes"], 320)
        self.assertIn("<!doctype html>", (work / "downloaded.html").read_text()[:100].lower())


if __name__ == "__main__":
    unittest.main()
