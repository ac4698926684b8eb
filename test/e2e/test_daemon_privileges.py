"""A daemon of root gives up its capabilities. One process of it keeps those that looking into the
clients of other users takes, and its parent does, which restarts it."""

import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import unittest

from test_daemon import announce
from test_daemon_events import Driven, Telling
from test_daemon_parts import BEGIN
from tools import BUILD, KEEPER, SAMPLER, all_children, name_of, run, wait_until

NOBODY = 65534
# Bits of linux/capability.h: DAC_READ_SEARCH, SYS_PTRACE, CHECKPOINT_RESTORE.
KEPT = 1 << 2 | 1 << 19 | 1 << 40


def status_of(pid):
    text = pathlib.Path(f"/proc/{pid}/status").read_text()
    return {key: int(value, 16) for key, value in
            re.findall(r"^(Cap\w+|NoNewPrivs):\s+([0-9a-f]+)$", text, re.M)}


def processes_of(pid):
    """It and all that descend from it."""
    return [pid] + [p for child in all_children(pid) for p in processes_of(child)]


@unittest.skipIf(os.geteuid() != 0, "needs root")
class Privileges(Telling):
    def owned_client(self, mode):
        """A client of another user, in a folder that only that user may enter: port, pid."""
        home = self.dir / "home"
        home.mkdir()
        program = home / "shop"
        shutil.copy(BUILD / "test" / "stack_client", program)
        os.chown(home, NOBODY, NOBODY)
        os.chown(program, NOBODY, NOBODY)
        os.chmod(program, 0o700)
        home.chmod(0o700)
        os.chmod(self.dir, 0o755)
        note = subprocess.run(["readelf", "-n", program], capture_output=True, text=True).stdout
        self.build_id = re.search(r"Build ID: ([0-9a-f]+)", note)[1]
        process = subprocess.Popen([program, mode], stdout=subprocess.PIPE, text=True, user=NOBODY,
                                   group=NOBODY, extra_groups=[])
        self.addCleanup(process.communicate)
        self.addCleanup(process.kill)
        return map(int, process.stdout.readline().split())

    def test_no_process_but_the_sampler_has_capabilities(self):
        with self.web("--name", "x", "--target", "127.0.0.1:1") as process:
            client = self.connect()
            sampler, keeper = self.samplers(process)
            found = {p: status_of(p) for p in processes_of(process.pid)}
            self.assertGreaterEqual(len(found), 4)  # daemon, sampler, prober, session
            for pid, status in found.items():
                with self.subTest(pid=pid, name=name_of(pid)):
                    allowed = KEPT if pid in (sampler, keeper) else 0
                    self.assertEqual(status["CapPrm"] & ~allowed, 0)
                    self.assertEqual(status["CapEff"], status["CapPrm"])
                    self.assertEqual((status["CapInh"], status["CapAmb"]), (0, 0))
                    self.assertEqual(status["NoNewPrivs"], 1)
                    self.assertEqual(status["CapBnd"], 0)
            self.assertEqual(found[sampler]["CapPrm"], status_of(os.getpid())["CapPrm"] & KEPT)
            self.end(client, process)
        wait_until(lambda: name_of(sampler) is None)
        self.assertIsNone(name_of(keeper))

    def test_a_client_of_another_user(self):
        """Its table of mappings and the build id of a program that root itself could not open."""
        with self.web("--name", "x") as process:
            port, pid = self.owned_client("offline")
            announce(self.udp, port, b"shop", pid=pid, protocol=82)
            self.wait_said("Trace size")
            self.assertEqual(self.stop(process), 0, self.said())
        facts = run("info", "--format", "json", self.traces / "x.tracy").stdout
        self.assertRegex(facts, rf"[0-9a-f]+-[0-9a-f]+ [0-9a-f]+ {self.build_id} \S*/shop")

    def test_it_is_started_again(self):
        """The next client is inspected. The daemon logs it, and does without when its parent is killed."""
        with self.web("--name", "x") as process:
            sampler, keeper = self.samplers(process)
            os.kill(sampler, signal.SIGKILL)
            self.wait_said("ended (signal 9) and is restarted", process)
            wait_until(lambda: SAMPLER in map(name_of, all_children(keeper)))
            port, pid = self.owned_client("offline")
            announce(self.udp, port, b"shop", pid=pid, protocol=82)
            self.wait_said("Trace size")
            os.kill(keeper, signal.SIGKILL)
            self.wait_said("cannot be restarted", process)
            self.assertEqual(self.stop(process), 0, self.said())
        facts = run("info", "--format", "json", self.traces / "x.tracy").stdout
        self.assertRegex(facts, rf"[0-9a-f]+-[0-9a-f]+ [0-9a-f]+ {self.build_id} \S*/shop")

    def test_programs_have_none(self):
        told = self.dir / "told"
        program = self.program(f"grep Cap /proc/self/status > {told}; cat > /dev/null")
        with self.web("--name", "x", "--on-finish", program) as process:
            client = self.connect()
            client.peer.shutdown(socket.SHUT_RDWR)
            wait_until(lambda: told.exists() and told.read_text().count("\n") == 5)
            self.assertEqual(self.stop(process), 0, self.said())
        self.assertEqual(set(re.findall(r"\b[0-9a-f]{16}\b", told.read_text())), {"0" * 16})

    def test_a_session_of_a_daemon_that_was_killed(self):
        """The sampler goes with the last session, not with the daemon."""
        with self.web("--name", "x") as process:
            client = self.connect()
            sampler, keeper = self.samplers(process)
            process.kill()
            process.wait()
            self.assertEqual(name_of(sampler), SAMPLER)
            client.peer.shutdown(socket.SHUT_RDWR)
            wait_until(lambda: name_of(sampler) is None and name_of(keeper) is None)
            wait_until((self.traces / "x.tracy").exists)

    def test_a_folder_that_root_may_write_with_capabilities_only(self):
        self.traces.mkdir()
        os.chown(self.traces, NOBODY, NOBODY)
        self.traces.chmod(0o700)
        result = run("daemon", "-o", self.traces, "-p", self.udp, "--local")
        self.assertEqual(result.returncode, 4, result.stdout + result.stderr)
        self.assertIn("start it as the owner of the folder", result.stderr + result.stdout)

    @staticmethod
    def samplers(process):
        """The one that inspects clients, and its parent, which restarts it."""
        wait_until(lambda: KEEPER in map(name_of, all_children(process.pid)))
        (keeper,) = [p for p in all_children(process.pid) if name_of(p) == KEEPER]
        wait_until(lambda: SAMPLER in map(name_of, all_children(keeper)))
        return all_children(keeper)[0], keeper

    def connect(self):
        client = Driven(b"")
        self.addCleanup(client.end)
        announce(self.udp, client.port, b"prog")
        client.send(BEGIN)
        wait_until(lambda: self.status()["clients"] and
                   self.status()["clients"][0]["state"] == "recording")
        return client

    def end(self, client, process):
        client.peer.shutdown(socket.SHUT_RDWR)
        self.assertEqual(self.stop(process), 0, self.said())


if __name__ == "__main__":
    unittest.main()
