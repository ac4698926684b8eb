"""`tidemark run --listen`: Tracy servers at programs that were not built with Tracy."""

import os
import pathlib
import re
import signal
import socket
import subprocess
import tempfile
import time
import unittest
from unittest import mock

from tools import LIMIT, ROOT, TIDEMARK, Case, report, run, wait_for

CC = os.environ.get("CC", "gcc")
PROTOCOLS = [63, 64, 66, 69, 72, 74, 76, 78, 80, 82]
FILES = {63: "0.9.0", 69: "0.11.1", 82: "0.14.0"}
CACHE = tempfile.TemporaryDirectory(prefix="tidemark-")
# What the two ways to a trace know differently: see the comment of alike().
OTHERWISE = re.compile(r"trace |frames start=[01]$|strings pointer=0x0 |symbols |code-symbols |"
                       r"app-info |strings .*\"never began\"|strings .*\"\?\?\?\"|thread-names ")


def compiled(folder, source):
    path = folder / "program"
    subprocess.run([CC, "-g", "-O1", f"-I{ROOT / 'include'}", "-o", path,
                    ROOT / "test" / "e2e" / source, "-lpthread"], check=True)
    return path


def figures(trace):
    """Pools and sites of a report, with call stacks."""
    data = report(trace)
    pools = sorted((p["name"], p["allocations"], p["frees"], p["live_bytes"], p["peak_bytes"],
                    p["total_bytes"]) for p in data["pools"])
    sites = sorted((s["function"], str(s["file"]), s["line"], s["count"], s["bytes"],
                    tuple(f["function"] for f in s["callstack"])) for s in data["sites"])
    return pools, sites


def lines(trace, version):
    """
    Its contents as text, but for what is known differently: the processor, names of symbols that
    nobody asked for, a name that nothing bears, where the first frame begins, and that an official
    client calls its main thread so.
    """
    result = run("dump", "--common", version, trace)
    if result.returncode != 0:
        raise AssertionError(result.stderr)
    return [line for line in result.stdout.splitlines() if not OTHERWISE.match(line)]


class ListenCase(Case):
    def setUp(self):
        super().setUp()
        cache = mock.patch.dict(os.environ, {"XDG_CACHE_HOME": str(CACHE.name)})
        cache.start()
        self.addCleanup(cache.stop)
        self.own, self.served = self.dir / "own.tracy", self.dir / "served.tracy"

    def start(self, *command, options=()):
        """A program under `run --listen`; gives the process and the port."""
        process = subprocess.Popen([TIDEMARK, "run", "-f", "-o", str(self.own), "--no-debuginfod",
                                    "--report", "none", "--port", "0", *map(str, options), "--",
                                    *map(str, command)],
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                   start_new_session=True)
        self.addCleanup(self.end, process)
        said = process.stderr.readline()
        match = re.search(r"listening on 127\.0\.0\.1:(\d+), protocol", said)
        if not match:
            raise AssertionError(said + process.stderr.read())
        return process, int(match[1])

    @staticmethod
    def end(process):
        try:
            os.killpg(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        process.communicate()

    def capture(self, port, *options, output=None):
        return run("capture", "-f", "-a", "127.0.0.1", "-p", port, "-o", output or self.served,
                   "--connect-timeout", LIMIT, *options)

    def finish(self, process, status=0):
        _, errors = process.communicate(timeout=LIMIT)
        self.assertEqual(process.returncode, status, errors)
        return errors


class Protocols(ListenCase):
    """The trace of a server is that which the run itself writes, whatever it speaks."""

    def check(self, program, protocol):
        process, port = self.start(program, "threads", 4, 500,
                                   options=["--no-exit", "--protocol", protocol])
        result = self.capture(port)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn(f"protocol {protocol} ", result.stdout + result.stderr)
        self.finish(process)
        self.assertEqual(figures(self.served), figures(self.own))
        self.assertEqual(report(self.served)["faults"], [])

    def test_every_release(self):
        program = compiled(self.dir, "run_program.c")
        for protocol in PROTOCOLS:
            with self.subTest(protocol=protocol):
                self.check(program, protocol)

    def test_all_that_a_program_says(self):
        program = compiled(self.dir, "listen_program.c")
        for protocol, version in FILES.items():
            with self.subTest(protocol=protocol):
                process, port = self.start(program, options=["--no-exit", "--no-code",
                                                             "--protocol", protocol])
                result = self.capture(port)
                self.assertEqual(result.returncode, 0, result.stderr)
                self.finish(process)
                own, served = lines(self.own, version), lines(self.served, version)
                # Servers wait for zones to end; ours may stay open. And they are told of no faults.
                skip = re.compile(r'zones .*"never ends"|messages .*tidemark: ')
                self.assertEqual(sum('"never ends"' in line for line in served),
                                 sum('"never ends"' in line for line in own))
                self.assertEqual([line for line in served if not skip.match(line)],
                                 [line for line in own if not skip.match(line)])
                for text in ('name="work"', '"red"', '"level"', '"part"'):
                    self.assertTrue(any(text in line for line in served), text)
                self.assertEqual(report(self.served)["faults"], [])


class Servers(ListenCase):
    def test_two_of_them_while_it_runs(self):
        """The first one is killed; the second gets everything, from the beginning."""
        go = self.dir / "go"
        process, port = self.start(compiled(self.dir, "listen_program.c"), go)
        first = subprocess.Popen([TIDEMARK, "capture", "-a", "127.0.0.1", "-p", str(port), "-o",
                                  str(self.dir / "first.tracy"), "--no-journal"],
                                 stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        wait_for(first, "protocol")
        first.kill()
        first.communicate()
        second = subprocess.Popen([TIDEMARK, "capture", "-a", "127.0.0.1", "-p", str(port), "-o",
                                   str(self.served)],
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        wait_for(second, "protocol")
        go.touch()
        said, _ = second.communicate(timeout=LIMIT)
        self.assertEqual(second.returncode, 0, said)
        self.finish(process)
        self.assertEqual(figures(self.served), figures(self.own))

    def test_nobody_comes(self):
        process, _ = self.start(compiled(self.dir, "listen_program.c"))
        self.finish(process)
        self.assertEqual(report(self.own)["pools"][1]["name"], "arena")

    def test_waiting_for_a_server_ends_when_asked(self):
        process, port = self.start(compiled(self.dir, "run_program.c"), "exit", 7,
                                   options=["--no-exit"])
        # Somebody who is no server shows that the program's recording was begun.
        with socket.create_connection(("127.0.0.1", port), timeout=LIMIT) as nobody:
            nobody.sendall(b"GET / HTTP/1")
            self.assertEqual(nobody.recv(1), b"")
        process.send_signal(signal.SIGTERM)
        while process.poll() is None:
            try:
                process.wait(1)
            except subprocess.TimeoutExpired:
                process.send_signal(signal.SIGTERM)
        self.finish(process, process.returncode)
        self.assertIn(process.returncode, (7, 128 + signal.SIGTERM))
        self.assertTrue(self.own.exists())

    def test_another_protocol_is_a_mismatch(self):
        process, port = self.start(compiled(self.dir, "run_program.c"), "exit", 0,
                                   options=["--no-exit", "--protocol", "74"])
        with socket.create_connection(("127.0.0.1", port), timeout=LIMIT) as server:
            server.sendall(b"TracyPrf" + (82).to_bytes(4, "little"))
            self.assertEqual(server.recv(16), b"\2")
        result = self.capture(port)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.finish(process)
        self.assertEqual(figures(self.served), figures(self.own))

    def test_questions_that_make_no_sense_are_answered_or_passed_over(self):
        process, port = self.start(compiled(self.dir, "run_program.c"), "exit", 0,
                                   options=["--no-exit"])
        with socket.create_connection(("127.0.0.1", port), timeout=LIMIT) as server:
            server.sendall(b"TracyPrf" + (82).to_bytes(4, "little"))
            for kind in list(range(1, 9)) + list(range(10, 20)) + [255]:
                server.sendall(bytes([kind]) + b"\xfe" * 12)
            self.assertEqual(server.recv(1), b"\1")
        result = self.capture(port)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.finish(process)
        self.assertEqual(figures(self.served), figures(self.own))


# A child that makes 200 blocks of 3,000 bytes, lives until the file is there, and makes 100 more.
FORKS = r"""
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>
static void make_block(int n)
{
    while (n-- > 0)
        free(__builtin_memset(malloc(3000), 1, 3000));
}
int main(int argc, char **argv)
{
    pid_t child = fork();
    if (child == 0) {
        make_block(200);
        while (access(argv[1], F_OK) != 0)
            usleep(10000);
        make_block(100);
        return 0;
    }
    write(1, &child, sizeof child);
    return waitpid(child, NULL, 0) == child ? 0 : 1;
}
"""


class Children(ListenCase):
    def ports(self, process):
        """Where it listens."""
        sockets = set()
        for fd in pathlib.Path(f"/proc/{process.pid}/fd").iterdir():
            try:
                sockets.add(os.readlink(fd))
            except FileNotFoundError:
                pass
        found = set()
        for line in pathlib.Path("/proc/net/tcp").read_text().splitlines()[1:]:
            words = line.split()
            if words[3] == "0A" and f"socket:[{words[9]}]" in sockets:
                found.add(int(words[1].split(":")[1], 16))
        return found

    def start_child(self, *options):
        source, self.go = self.dir / "forks.c", self.dir / "go"
        source.write_text(FORKS)
        subprocess.run([CC, "-g", "-O1", "-fno-builtin", "-o", self.dir / "forks", source],
                       check=True)
        process, port = self.start(self.dir / "forks", self.go,
                                   options=["--follow-fork", "--min-lifetime", 0, *options])
        child = int.from_bytes(process.stdout.buffer.raw.read(4), "little")
        end = time.monotonic() + LIMIT
        while not self.ports(process) - {port}:
            self.assertLess(time.monotonic(), end, "the child is not offered")
            time.sleep(0.02)
        other, = self.ports(process) - {port}
        return process, port, other, child

    def test_each_is_a_client_of_its_own(self):
        process, port, other, child = self.start_child()
        captures = []
        for at, name in ((port, "served"), (other, "child")):
            captures.append(subprocess.Popen(
                [TIDEMARK, "capture", "-a", "127.0.0.1", "-p", str(at), "-o",
                 str(self.dir / f"{name}.tracy")], stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT))
            self.addCleanup(captures[-1].kill)
            wait_for(captures[-1], "protocol")
        self.go.touch()
        for capture in captures:
            said, _ = capture.communicate(timeout=LIMIT)
            self.assertEqual(capture.returncode, 0, said)
        self.finish(process)
        saved = self.dir / f"own.{child}.tracy"
        self.assertEqual(figures(self.served), figures(self.own))
        self.assertEqual(figures(self.dir / "child.tracy"), figures(saved))
        row, = [s for s in report(saved)["sites"] if s["function"] == "make_block"]
        self.assertEqual(row["count"], 300)
        self.assertEqual(report(self.dir / "child.tracy")["faults"], [])
        self.assertIn(f"pid={child}", run("dump", self.dir / "child.tracy").stdout)

    def test_nobody_comes_to_a_child(self):
        process, _, _, child = self.start_child()
        self.go.touch()
        self.finish(process)
        self.assertTrue((self.dir / f"own.{child}.tracy").exists())


class Names(ListenCase):
    def test_without_symbols_the_place_is_told(self):
        """Frames have image and offset, which later give the names."""
        process, port = self.start(compiled(self.dir, "run_program.c"), "exit", 0,
                                   options=["--no-exit", "--no-symbols"])
        result = self.capture(port)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.finish(process)
        dump = run("dump", self.served).stdout
        # Our capture knows what to do with that; what it was told is in the list of symbols.
        self.assertRegex(dump, r'symbols address=0x[0-9a-f]{1,8} size=0 name="\[unresolved\]"')
        self.assertIn("make_block", [s["function"] for s in report(self.served)["sites"]])

    def code(self, *options):
        """Size of the machine code of each function that a server got, by the function's name."""
        process, port = self.start(compiled(self.dir, "run_program.c"), "exit", 0,
                                   options=["--no-exit", *options])
        result = self.capture(port)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.finish(process)
        dump = run("dump", self.served).stdout
        names = dict(re.findall(r'^symbols address=(\w+) size=\d+ name="([^"]*)"', dump, re.M))
        return {names.get(address): int(size) for address, size in
                re.findall(r"^symbol-code address=(\w+) bytes=(\d+) ", dump, re.M)}

    def test_machine_code(self):
        code = self.code()
        sizes = {}
        for line in subprocess.run(["nm", "-S", self.dir / "program"], stdout=subprocess.PIPE,
                                   text=True, check=True).stdout.splitlines():
            words = line.split()
            if len(words) == 4 and words[2] in "tT":
                sizes[words[3]] = int(words[1], 16)
        for name in ("main", "make_block"):
            self.assertEqual(code.get(name), sizes[name], name)
        # Of the program only what call stacks lead through, not what that calls.
        unused = set(sizes) - {f["function"] for s in report(self.own)["sites"]
                               for f in s["callstack"]}
        self.assertFalse(unused & set(code))
        shown = run("annotate", self.served, "make_block")
        self.assertEqual(shown.returncode, 0, shown.stderr)
        self.assertRegex(shown.stdout, r"run_program\.c:\d+")

    def test_no_machine_code(self):
        for option in ("--no-code", "--no-symbols"):
            with self.subTest(option=option):
                self.assertEqual(self.code(option), {})

    def test_threads(self):
        process, port = self.start(compiled(self.dir, "listen_program.c"), options=["--no-exit"])
        result = self.capture(port)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.finish(process)
        names = sorted(re.findall(r'^thread-names thread=\d+ name="(.*)"$',
                                  run("dump", self.served).stdout, re.M))
        self.assertEqual(names, ["Main thread", "program"])


class Refusals(ListenCase):
    def test_a_port_that_is_taken(self):
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            port = taken.getsockname()[1]
            result = run("run", "-o", self.own, "--port", port, "--", "touch", self.dir / "ran")
        self.assertEqual(result.returncode, 4, result.stderr)
        self.assertIn(f"cannot listen on 127.0.0.1 port {port}", result.stderr)
        self.assertFalse((self.dir / "ran").exists())

    def test_numbers_of_no_protocol(self):
        for number in ("62", "83", "x"):
            result = run("run", "-o", self.own, "--protocol", number, "--", "true")
            self.assertEqual(result.returncode, 2, result.stderr)

    def test_nothing_to_watch(self):
        result = run("run", "--recover", self.dir / "x", "--listen")
        self.assertEqual(result.returncode, 2, result.stderr)
        self.assertIn("--recover", result.stderr)


if __name__ == "__main__":
    unittest.main()
