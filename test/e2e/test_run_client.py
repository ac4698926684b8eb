"""`tidemark run` of a program that has a Tracy client of its own: both in one trace."""

import bisect
import json
import os
import pathlib
import socket
import sqlite3
import subprocess
import unittest

from tools import BUILD, LIMIT, TIDEMARK, Case, report, run

CLIENT = BUILD / "test" / "zone_client"
COUNT = 500
VERSIONS = {63: "0.9.0", 69: "0.11.1", 82: "0.14.0"}


# A client that begins to listen when main returns.
BRIEF = r"""
#include <fcntl.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>
static volatile int tried;
static void *client(void *file)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    prctl(PR_SET_NAME, "Tracy Profiler");
    usleep(20000);
    int s = socket(AF_INET, SOCK_STREAM, 0);
    int failed = bind(s, (struct sockaddr *)&at, sizeof at) || listen(s, 4);
    tried = 1;
    if (failed)
        return NULL;
    int c = accept(s, NULL, NULL);
    close(open(file, O_CREAT | O_WRONLY, 0600));
    close(c);
    for (;;)
        pause();
}
int main(int n, char **v)
{
    pthread_t t;
    void *volatile p = malloc(100);
    free(p);
    int status = pthread_create(&t, NULL, client, v[n - 1]);
    while (n > 2 && !tried)
        usleep(1000);
    if (n > 2 && v[1][0] == 'l')
        _exit(status);
    usleep(n > 2 ? 100000 : 0);
    return status;
}
"""


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


SOURCE = pathlib.Path("/sys/devices/system/clocksource/clocksource0/current_clocksource")
ONE_CLOCK = unittest.skipUnless(SOURCE.exists() and SOURCE.read_text() in ("tsc\n", "kvm-clock\n"),
                                "the kernel's clock is not made of the time stamp counter")

# Nothing can be preloaded before a sanitizer's library, which a sanitized client needs.
SANITIZED = CLIENT.exists() and b"__asan_init" in CLIENT.read_bytes()


@unittest.skipUnless(os.uname().machine == "x86_64", "the stamps are the processor's")
@unittest.skipIf(SANITIZED, "the client needs a sanitizer's library to come first")
class RunClient(Case):
    def test_a_client_of_a_program_that_ends_at_once(self):
        """Exit waits until a server has connected. This client hangs up, which is an error."""
        program, served = self.dir / "brief", self.dir / "served"
        subprocess.run(["gcc", "-pthread", "-x", "c", "-", "-o", program], input=BRIEF, text=True,
                       check=True)
        child = ["sh", "-c", f"{program} {served}; true"]
        for options, status, command in (([], 5, [program, served]),
                                         (["--no-client"], 0, [program, served]),
                                         (["--follow-fork"], 5, child)):
            with self.subTest(options=options):
                served.unlink(missing_ok=True)
                result = run("run", "-f", "-o", self.dir / "out.tracy", "--no-debuginfod", *options,
                             "--", *command)
                self.assertEqual(result.returncode, status, result.stderr)
                self.assertEqual(served.exists(), status == 5)
                self.assertEqual("ended before a server was connected" in result.stderr,
                                 status == 5)

    def record(self, *arguments, options=(), protocol=82, status=0):
        """Records the program; gives what standard error has."""
        self.trace = self.dir / "out.tracy"
        environment = {k: v for k, v in os.environ.items()
                       if not k.startswith(("TIDEMARK_", "TRACY_"))}
        environment["TRACY_PORT"] = str(free_port())
        environment["XDG_CACHE_HOME"] = str(self.dir / "cache")
        result = subprocess.run([TIDEMARK, "run", "-f", "-o", self.trace, "--no-debuginfod",
                                 *map(str, options), "--", CLIENT, str(protocol), str(COUNT),
                                 *arguments],
                                env=environment, cwd=self.dir, stdin=subprocess.DEVNULL,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                timeout=LIMIT)
        self.assertEqual(result.returncode, status, result.stderr)
        self.assertEqual(result.stdout, f"{2 * COUNT} zones\n")
        return result.stderr

    def test_missed_clients_of_children(self):
        """That is printed, and an error unless one process is wanted."""
        program = self.dir / "brief"
        subprocess.run(["gcc", "-pthread", "-x", "c", "-", "-o", program], input=BRIEF, text=True,
                       check=True)
        for options, said, status in (([], True, 5), (["--this-process"], True, 0),
                                      (["--no-client"], False, 0),
                                      (["--min-lifetime", 10, "leaves"], True, 5),
                                      (["--min-size", 1 << 40, "leaves"], True, 5)):
            how = options.pop() if options and options[-1] == "leaves" else "stays"
            result = run("run", "-f", "-o", self.dir / "out.tracy", "--no-debuginfod",
                         "--follow-fork", *map(str, options), "--", "sh", "-c",
                         f"{program} {how} {self.dir}/served; true")
            self.assertEqual(result.returncode, status, result.stderr)
            self.assertEqual("has malloc alone, and nothing of the Tracy client of process" in
                             result.stderr, said, result.stderr)
            self.assertEqual("(brief)" in result.stderr, said)

    @ONE_CLOCK
    def test_clients_of_children(self):
        """Each is in the trace of its process, however short its life."""
        children = [f"TRACY_PORT={free_port()} {CLIENT} {protocol} {COUNT} > /dev/null"
                    for protocol in VERSIONS]
        result = run("run", "-f", "-o", self.dir / "out.tracy", "--no-debuginfod", "--follow-fork",
                     "--", "sh", "-c", " & ".join(children) + "; wait; true")
        self.assertEqual(result.returncode, 0, result.stderr)
        traces = [t for t in self.dir.glob("out.*.tracy") if b"malloc" in
                  run("dump", t).stdout.encode()]
        self.assertEqual(len(traces), len(VERSIONS), result.stderr)
        versions = set()
        for trace in traces:
            info = json.loads(run("info", "--format", "json", trace).stdout)
            versions.add(info["file"]["version"])
            pools = {p["name"]: (p["allocations"], p["counted"]) for p in report(trace)["pools"]}
            self.assertEqual(set(pools), {"default", "GPU pool", "malloc"})
            self.assertEqual(pools["default"], (100, False))
            self.assertTrue(pools["malloc"][1])
            self.check_places(trace)
        self.assertEqual(versions, set(VERSIONS.values()))

    def database(self, trace):
        path = self.dir / "trace.db"
        path.unlink(missing_ok=True)
        result = run("export", "--format", "sqlite", "-o", path, trace)
        self.assertEqual(result.returncode, 0, result.stderr)
        db = sqlite3.connect(path)
        self.addCleanup(db.close)
        return db

    def check_places(self, trace):
        """Each malloc lies in a zone of its thread, as planted."""
        db = self.database(trace)
        zones = {}
        for thread, begin, end in db.execute(
                "SELECT z.thread, z.start_ns, z.end_ns FROM zones z JOIN source_locations l ON"
                " l.id = z.source_location WHERE l.name = 'plant' ORDER BY z.start_ns"):
            zones.setdefault(thread, []).append((begin, end))
        self.assertEqual([len(list_) for list_ in zones.values()], [COUNT, COUNT])
        blocks = list(db.execute(
            "SELECT a.alloc_thread, a.alloc_ns, a.free_ns FROM allocations a JOIN pools p ON"
            " p.id = a.pool WHERE p.name = 'malloc' AND a.size = 10007"))
        self.assertEqual(len(blocks), 2 * COUNT)
        inside = 0
        for thread, begin, end in blocks:
            of_thread = zones.get(thread, [])
            i = bisect.bisect_right(of_thread, (begin, 1 << 62)) - 1
            inside += i >= 0 and of_thread[i][0] <= begin and end <= of_thread[i][1]
        self.assertGreaterEqual(inside, 0.999 * len(blocks))

    @ONE_CLOCK
    def test_one_trace_of_both(self):
        for protocol, version in VERSIONS.items():
            with self.subTest(protocol=protocol):
                err = self.record(protocol=protocol)
                self.assertIn(f'"{version}"', run("info", "--format", "json", self.trace).stdout)
                data = report(self.trace)
                pools = {p["name"]: p for p in data["pools"]}
                self.assertEqual(set(pools), {"default", "GPU pool", "malloc"})
                self.assertEqual((pools["default"]["allocations"], pools["default"]["total_bytes"]),
                                 (100, 100 * 10007))
                self.assertEqual(pools["GPU pool"]["live_bytes"], 4096)
                planted = [s for s in data["sites"]
                           if s["function"] == "planted" and s["pool"] == "malloc"]
                self.assertEqual([(s["count"], s["bytes"]) for s in planted],
                                 [(2 * COUNT, 2 * COUNT * 10007)])
                self.assertIn("work", [f["function"] for f in planted[0]["callstack"]])
                self.assertEqual(data["faults"], [])
                self.check_places(self.trace)
                # Blocks that the client reports, too, are in no sum twice.
                self.assertEqual({name: p["counted"] for name, p in pools.items()},
                                 {"default": False, "GPU pool": False, "malloc": True})
                malloc = pools["malloc"]
                self.assertIn(f"{malloc['allocations'] + malloc['frees']:,} memory events in 1 pool",
                              err)
                self.assertIn("not counted: 2 pools of the program's Tracy client", err)
                self.assertIn("not in the trace beside the Tracy client's: 1 report of tidemark.h",
                              err)
                said = run("dump", self.trace).stdout
                self.assertIn("planted all", said)
                self.assertIn('"level"', said)
                # Nothing is left behind.
                self.assertEqual(sorted(os.listdir(self.dir)),
                                 ["cache", "out.tracy", "trace.db"])

    @ONE_CLOCK
    def test_sums(self):
        self.record(options=["--report", "none"])
        malloc = [p for p in report(self.trace)["pools"] if p["name"] == "malloc"][0]
        for expr, holds in ((f"total > {malloc['total_bytes']}", False),
                            (f"total >= {malloc['total_bytes']}", True),
                            (f"count > {malloc['allocations']}", False),
                            ('total(pool="default") >= 1000700', True)):
            result = run("report", "--fail-if", expr, self.trace)
            self.assertEqual(result.returncode, int(holds), (expr, result.stderr))
        self.assertIn(f"{malloc['allocations']:,}  all\n", run("tree", self.trace).stdout)
        # What is named is counted.
        self.assertIn("200 memory events in 1 pool", run("report", "--pool", "default",
                                                         self.trace).stdout)

    @ONE_CLOCK
    def test_malloc_is_that_of_a_plain_run(self):
        self.record()
        joined = report(self.trace)
        self.record(options=["--no-client"])
        plain = report(self.trace)
        self.assertEqual([p["name"] for p in plain["pools"]], ["default"])

        def planted(data, pool):
            return [(s["count"], s["bytes"], s["live_count"], s["line"],
                     [f["function"] for f in s["callstack"]])
                    for s in data["sites"] if s["function"] == "planted" and s["pool"] == pool]
        self.assertEqual(planted(joined, "malloc"), planted(plain, "default"))

    def test_another_clock(self):
        """Its times cannot be put among ours to the nanosecond: two traces, and it says so."""
        err = self.record("ns")
        self.assertIn("has a separate trace", err)
        self.assertEqual([p["name"] for p in report(self.trace)["pools"]], ["default"])
        pools = {p["name"]: p["allocations"]
                 for p in report(self.dir / "out.client.tracy")["pools"]}
        self.assertEqual(pools, {"default": 100, "GPU pool": 1})

    def test_a_bound_on_the_recording(self):
        """What was read is given back and cannot be read again: two traces."""
        err = self.record(options=["--buffer", "64M"])
        self.assertIn("has a separate trace", err)
        self.assertIn("with --buffer", err)
        pools = {p["name"]: p["allocations"]
                 for p in report(self.dir / "out.client.tracy")["pools"]}
        self.assertEqual(pools, {"default": 100, "GPU pool": 1})


if __name__ == "__main__":
    unittest.main()
