"""Debian's Prometheus scrapes the daemon, and knows what the clients hold."""

import contextlib
import json
import shutil
import subprocess
import unittest
import urllib.parse
import urllib.request

from test_daemon import announce
from test_daemon_http import THREE, TOKEN, Web
from tools import LIMIT, free_port, wait_until

PROMETHEUS = shutil.which("prometheus")


@unittest.skipUnless(PROMETHEUS, "prometheus is not installed")
class Prometheus(Web):
    def get(self, path, **headers):
        return super().get(path, Authorization="Bearer " + TOKEN, **headers)

    @contextlib.contextmanager
    def prometheus(self):
        """One that scrapes the daemon each second; gives its own address."""
        config, secret = self.dir / "prometheus.yml", self.dir / "secret"
        secret.write_text(TOKEN)
        config.write_text(f"""
global: {{scrape_interval: 1s, scrape_timeout: 1s}}
scrape_configs:
  - job_name: tidemark
    authorization: {{credentials_file: {secret}}}
    static_configs: [{{targets: ["127.0.0.1:{self.port()}"]}}]
""")
        port = free_port()
        log = self.dir / "prometheus.log"
        with open(log, "wb") as out:
            process = subprocess.Popen(
                [PROMETHEUS, f"--config.file={config}", f"--web.listen-address=127.0.0.1:{port}",
                 f"--storage.tsdb.path={self.dir / 'tsdb'}"], stdout=out, stderr=out)
        try:
            yield f"http://127.0.0.1:{port}", process, log
        finally:
            process.kill()
            process.wait()

    def query(self, address, text):
        """The (labels, value) that an expression has now; none while nobody answers."""
        url = f"{address}/api/v1/query?" + urllib.parse.urlencode({"query": text})
        try:
            with urllib.request.urlopen(url, timeout=LIMIT) as answer:
                result = json.load(answer)["data"]["result"]
        except OSError:
            return []
        return [(r["metric"], float(r["value"][1])) for r in result]

    def test_live_bytes_come_through(self):
        with self.web("--token", TOKEN, "--alert", 'live_bytes(pool="default")>100') as process:
            number = self.recorded(THREE)
            with self.prometheus() as (address, prometheus, log):
                # Whenever a busy machine takes longer than a scrape may, all series are gone for once.
                found = []

                def there():
                    if prometheus.poll() is not None:
                        raise AssertionError(log.read_text())
                    found[:] = self.query(address, "tidemark_live_bytes")
                    return found

                wait_until(there, "nothing was scraped")
                ((labels, value),) = found
                self.assertEqual(value, 320)
                self.assertEqual((labels["client"], labels["program"], labels["pool"],
                                  labels["job"]), (str(number), "fake.c", "default", "tidemark"))

                def becomes(text, wanted):
                    wait_until(lambda: [v for _, v in self.query(address, text)] == [wanted], text)

                becomes("sum(tidemark_frees_total)", 1)
                becomes("tidemark_clients", 1)
                becomes('up{job="tidemark"}', 1)
                becomes("tidemark_alert_firing", 1)
                # A further one is a further series.
                announce(self.udp, self.client(THREE).port, b"other", pid=77)
                becomes("sum(tidemark_live_bytes)", 640)
            self.assertEqual(self.stop(process), 0, self.said())


if __name__ == "__main__":
    unittest.main()
