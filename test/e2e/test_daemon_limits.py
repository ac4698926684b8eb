"""What keeps the daemon and its sessions within bounds: guards, disk space, time to save, and web
clients that behave badly."""

import contextlib
import ctypes
import os
import pathlib
import resource
import shutil
import signal
import socket
import struct
import subprocess
import unittest

from test_capture import TERMINATE, FakeClient, frame, listener, welcome
from clients import string
from test_daemon import announce
from test_daemon_events import Driven, Telling
from test_daemon_production import ENDS, ONE, STAYS, Running
from tools import (FIREHOSE, LIMIT, SANITIZED, TIDEMARK, children, end_daemon, free_port, replaying,
                   report, run, wait_until)


def status_of(pid):
    lines = pathlib.Path(f"/proc/{pid}/status").read_text().splitlines()
    return dict(line.split(":\t", 1) for line in lines if ":\t" in line)


class UnfinishedFrames(Running):
    def test_they_give_up_their_place(self):
        """Also when a byte comes now and then. What came before is saved, others are captured."""
        stuck = self.client(frame(ONE) + struct.pack("<I", 1000) + b"x", after=b"x")
        waits = self.client(ENDS)
        with self.daemon("--max-clients", "1") as process:
            announce(self.udp, stuck.port, b"stuck")
            self.wait_recorded(1)
            self.wait_said("a frame that the client began is not whole after 30 s", process)
            wait_until(lambda: (announce(self.udp, waits.port, b"waits"),
                                any(n.startswith("waits") and n.endswith(".tracy")
                                    for n in self.names()))[1])
            stuck.end()
            self.stop(process)
        (trace,) = [n for n in self.names() if n.startswith("stuck")][:1]
        self.assertEqual(report(self.traces / trace)["pools"][0]["allocations"], 1)
        self.assertIn("the client vanished: a frame", run("info", self.traces / trace).stdout)


class Opened:
    """How often folders are opened from now on, as inotify tells it."""

    OPEN = 0x20

    def __init__(self, *folders):
        libc = ctypes.CDLL(None, use_errno=True)
        self.fd = libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
        self.watches = [libc.inotify_add_watch(self.fd, bytes(f), self.OPEN) for f in folders]
        if self.fd < 0 or min(self.watches) < 0:
            raise OSError(ctypes.get_errno(), "inotify")
        self.times = [0] * len(folders)

    def counts(self):
        with contextlib.suppress(BlockingIOError):
            while data := os.read(self.fd, 65536):
                while data:
                    watch, _, _, length = struct.unpack_from("<iIII", data)
                    if length == 0:  # the folder itself, not what is in it
                        self.times[self.watches.index(watch)] += 1
                    data = data[16 + length:]
        return self.times

    def close(self):
        os.close(self.fd)


class Guards(Telling):
    def test_sessions_have_no_rights_to_spare(self):
        client = self.client(STAYS)
        with self.web() as process:
            announce(self.udp, client.port)
            self.wait_recorded(1)
            (session,) = children(process)
            status = status_of(session)
            if not SANITIZED:
                self.assertEqual((status["NoNewPrivs"].strip(), status["Seccomp"].strip()),
                                 ("1", "2"))
            limits = pathlib.Path(f"/proc/{session}/limits").read_text()
            self.assertRegex(limits, r"Max core file size\s+0\s+0")
            self.assertEqual(self.stop(process), 0, self.said())
        self.assertEqual(report(self.traces / self.names()[0])["pools"][0]["allocations"], 1)

    def test_the_module_table_is_still_there(self):
        """A program of this host is recorded as before: its images are read from /proc."""
        client = self.client(STAYS)
        with self.web() as process:
            announce(self.udp, client.port)
            self.wait_recorded(1)
            self.assertEqual(self.stop(process), 0, self.said())
        found = run("info", self.traces / self.names()[0], "--format", "json").stdout
        self.assertIn("python", found)


def open_files(pid):
    """Its soft and its hard limit."""
    return resource.prlimit(pid, resource.RLIMIT_NOFILE)


class Descriptors(Telling):
    def start(self, soft, hard, *args):
        """Under limits that the shell sets: the program that is tested cannot raise the hard one."""
        script = 'ulimit -Sn "$1" && ulimit -Hn "$2" && shift 2 && exec "$@"'
        with open(self.log, "wb") as log:
            process = subprocess.Popen(["sh", "-c", script, "sh", str(soft), str(hard), TIDEMARK,
                                        "daemon", "-o", str(self.traces), "-p", str(self.udp),
                                        "--local", *map(str, args)], stdout=log, stderr=log)
        self.addCleanup(end_daemon, process)
        self.wait_said("Listening", process)
        return process

    def test_the_limit_is_raised_for_the_daemon_alone(self):
        out = self.dir / "out"
        hook = self.program(f"ulimit -Sn > {out}.new\nulimit -Hn >> {out}.new\n"
                            f"mv {out}.new {out}")
        client = self.client(frame(ONE + TERMINATE))
        process = self.start(300, 4000, "--max-clients", 700, "--on-finish", hook, "--target",
                             f"127.0.0.1:{free_port()}")
        self.assertEqual(open_files(process.pid), (1496, 4000))
        (prober,) = children(process)
        wait_until(lambda: open_files(prober) == (300, 4000),
                   "the prober did not set back its limit")
        announce(self.udp, client.port, b"p", pid=1)
        wait_until(out.exists)
        self.assertEqual(out.read_text().split(), ["300", "4000"])
        self.assertEqual(self.stop(process), 0, self.said())
        self.assertNotIn("descriptors", self.said())

    def test_a_limit_that_is_high_enough_stays(self):
        process = self.start(900, 4000)
        self.assertEqual(open_files(process.pid), (900, 4000))

    def test_a_hard_limit_that_is_too_low_is_told(self):
        clients = [self.client(STAYS) for _ in range(9)]
        process = self.start(30, 32, "--max-clients", 700)
        self.assertEqual(open_files(process.pid), (32, 32))
        self.assertIn("700 clients at a time need 1496 descriptors, and no more than 32 are allowed"
                      " (ulimit -Hn): 8 are captured at a time", self.said())
        for i, client in enumerate(clients):
            announce(self.udp, client.port, b"p", pid=1 + i)
        self.wait_said("8 clients are being captured, further ones must wait")
        self.wait_recorded(8)
        self.assertEqual(self.stop(process), 0, self.said())
        self.assertEqual(len(self.names()), 8)

    def test_who_looks_for_clients_has_none_of_the_others(self):
        """Also one that was started again, when there are captures."""
        clients = [self.client(STAYS) for _ in range(2)]
        with self.web("--target", f"127.0.0.1:{free_port()}") as process:
            wait_until(lambda: len(children(process)) == 1)
            (prober,) = children(process)
            for i, client in enumerate(clients):
                announce(self.udp, client.port, b"p", pid=1 + i)
            self.wait_recorded(2)
            before = set(children(process))
            os.kill(prober, signal.SIGKILL)
            self.wait_said("the process that looks for clients died; starting another")
            wait_until(lambda: set(children(process)) - before)
            (prober,) = set(children(process)) - before

            def has_its_own_only():
                return len([fd for fd in os.listdir(f"/proc/{prober}/fd") if int(fd) > 2]) <= 2

            wait_until(has_its_own_only)
            self.assertEqual(self.stop(process), 0, self.said())


class SmallDisk(Telling):
    @contextlib.contextmanager
    def on_small_disk(self, size, filled, *args):
        """A daemon that sees a disk of its own in its folder, of which so much is taken. Gives the
        folder as it is seen from here."""
        self.traces.mkdir()
        script = (f'mount -t tmpfs -o size={size} none "$1" && '
                  f'head -c {filled} /dev/zero > "$1/filler"; shift; exec "$@"')
        command = ["unshare", "-rm", "sh", "-c", script, "sh", str(self.traces)]
        if subprocess.run([*command, "true"], stderr=subprocess.DEVNULL).returncode != 0:
            self.skipTest("no mounts here")
        with open(self.log, "wb") as log:
            process = subprocess.Popen([*command, TIDEMARK, "daemon", "-o", str(self.traces), "-p",
                                        str(self.udp), "--local", "--name", "x.tracy", *args],
                                       stdout=log, stderr=log)
        try:
            self.wait_said("Listening", process)
            yield pathlib.Path(f"/proc/{process.pid}/root{self.traces}")
        finally:
            end_daemon(process)


class Disk(SmallDisk):
    def told(self, listener, name):
        wait_until(lambda: name in listener.events())
        return next(e for _, _, e in listener.got if e["event"] == name)

    def test_the_quota_of_a_client(self):
        listener = self.listener()
        small, large = Driven(b""), Driven(b"")
        self.addCleanup(small.end)
        self.addCleanup(large.end)
        with self.web("--quota", "300K", "--webhook", listener.url) as process:
            announce(self.udp, small.port, b"small", pid=1)
            announce(self.udp, large.port, b"large", pid=2)
            small.send(frame(ONE))
            large.send(frame(ONE))
            # Bytes that do not compress, in texts that nobody looks at.
            with contextlib.suppress(OSError):  # when it had enough before the last one
                for _ in range(40):
                    large.send(frame(string(int.from_bytes(os.urandom(7), "little"),
                                            os.urandom(16384))))
            event = self.told(listener, "disk.quota")
            self.assertEqual(event["client"]["program"], "large")
            self.assertIn("--quota is 300 KiB", event["message"])
            wait_until(lambda: self.status()["traces_saved"] == 1)
            self.assertEqual([c["state"] for c in self.status()["clients"]],
                             ["recording", "saved"])
            self.assertEqual(self.stop(process), 0, self.said())
        self.assertEqual(len(self.names()), 2)

    def test_files_are_those_of_the_captures_that_they_are_called_after(self):
        clients = [self.client(STAYS) for _ in range(3)]
        mib = 1 << 20
        with self.web("--name", "t") as process:
            for pid, client in enumerate(clients):
                announce(self.udp, client.port, b"p", pid=1 + pid)
            self.wait_recorded(3)

            def have():
                found = {c["trace"]: c["disk_bytes"] // mib for c in self.status()["clients"]}
                return [found.get(name) for name in ("t.tracy", "t_1.tracy", "t_2.tracy")]

            for name, size in (("t", 64), ("t.2.tracy", 32), ("t.tracy.part", 16), ("t_1", 8),
                               ("t_1.2.tracy", 4), ("t_11.tracy", 2), ("s.tracy", 1)):
                (self.traces / name).write_bytes(os.urandom(size * mib))
            (self.traces / "t_2.folder").mkdir()
            (self.traces / "t_2.folder" / "x").write_bytes(os.urandom(mib))
            wait_until(lambda: have() == [48, 4, 0], "other figures")
            (self.traces / "t.2.tracy").unlink()
            wait_until(lambda: have() == [16, 4, 0], "other figures")
            self.assertEqual(self.stop(process), 0, self.said())

    def test_the_quota_of_a_client_whose_folder_was_moved(self):
        """What is in its own counts, and not what has the same name in the new one."""
        clients = [self.client(STAYS), self.client(STAYS)]
        archive = self.dir / "archive"
        mib = 1 << 20

        def taken():
            return [c["disk_bytes"] // mib for c in self.status()["clients"]]

        with self.web("--quota", "20M", "--name", "t") as process:
            announce(self.udp, clients[0].port, b"p", pid=1)
            self.wait_recorded(1)
            self.traces.rename(archive)
            self.wait_said("is gone: it was made again")
            announce(self.udp, clients[1].port, b"p", pid=2)
            self.wait_recorded(1)
            (archive / "t.2.tracy").write_bytes(os.urandom(8 * mib))
            (self.traces / "t.2.tracy").write_bytes(os.urandom(4 * mib))
            wait_until(lambda: taken() == [8, 4], "other figures")
            (archive / "t.3.tracy").write_bytes(os.urandom(16 * mib))
            wait_until(lambda: [c["left_alone"] for c in self.status()["clients"]] ==
                       ["quota", None])
            self.assertEqual(self.stop(process), 0, self.said())

    def test_the_folder_is_read_once_for_all_captures(self):
        for args in ((), ("--total-quota", "1000G")):
            with self.subTest(args), self.web(*args) as process:
                clients = [self.client(STAYS) for _ in range(4)]
                for i, client in enumerate(clients):
                    announce(self.udp, client.port, b"p", pid=1 + i)
                self.wait_recorded(4)
                wait_until(lambda: all(c["disk_bytes"] for c in self.status()["clients"]))
                opened = Opened(self.traces, self.traces / self.journals()[0])
                self.addCleanup(opened.close)
                # The journal of a capture is read in each round, too.
                wait_until(lambda: opened.counts()[1] >= 6)
                folder, journal = opened.counts()
                self.assertLessEqual(folder, journal + 1)
                self.assertEqual(self.stop(process), 0, self.said())

    def test_no_room_for_anybody(self):
        """What is there is saved; nothing more begins."""
        self.no_room_for_anybody()

    def test_no_room_for_anybody_though_a_full_disk_pauses(self):
        self.no_room_for_anybody("--when-full", "pause")

    def no_room_for_anybody(self, *options):
        listener = self.listener()
        client, late = self.client(STAYS), self.client(STAYS)
        self.traces.mkdir()
        with self.web("--total-quota", "1M", "--webhook", listener.url, *options) as process:
            announce(self.udp, client.port, b"p", pid=1)
            self.wait_recorded(1)
            (self.traces / "filler.tracy").write_bytes(os.urandom(2 << 20))
            event = self.told(listener, "disk.quota")
            self.assertIn("--total-quota is 1.00 MiB", event["message"])
            wait_until(lambda: self.status()["traces_saved"] == 1)
            announce(self.udp, late.port, b"p", pid=2)
            self.assertTrue(self.status()["disk_full"])
            self.assertIn("tidemark_disk_full 1\n", self.ask("/metrics")[2].decode())
            (self.traces / "filler.tracy").unlink()
            wait_until(lambda: not self.status()["disk_full"])
            announce(self.udp, late.port, b"p", pid=2)
            self.wait_recorded(1)
            self.assertEqual(self.stop(process), 0, self.said())
        self.assertEqual(len(self.names()), 2)

    @unittest.skipUnless(shutil.which("unshare"), "needs unshare")
    def test_a_disk_that_stays_full_is_told_of_seldom(self):
        """Not at each announcement of a client for which there is no room."""
        self.traces.mkdir()
        script = ('mount -t tmpfs -o size=1m none "$1" && '
                  'head -c 2M /dev/zero > "$1/filler" 2>/dev/null; shift; exec "$@"')
        command = ["unshare", "-rm", "sh", "-c", script, "sh", str(self.traces)]
        if subprocess.run([*command, "true"], stderr=subprocess.DEVNULL).returncode != 0:
            self.skipTest("no mounts here")
        first, second = self.client(STAYS), self.client(STAYS)
        with open(self.log, "wb") as log:
            process = subprocess.Popen([*command, TIDEMARK, "daemon", "-o", str(self.traces), "-p",
                                        str(self.udp), "--local"], stdout=log, stderr=log)
        try:
            self.wait_said("Listening", process)
            announce(self.udp, first.port, b"first", pid=1)
            self.wait_said("no room is left for client 1", process)
            announce(self.udp, first.port, b"first", pid=1, age=9)
            announce(self.udp, second.port, b"second", pid=2)
            self.wait_said("] second @", process)
            self.assertIn("[2] second @", self.said())
        finally:
            end_daemon(process)

    @unittest.skipUnless(shutil.which("unshare"), "needs unshare")
    def test_what_a_full_disk_left_is_finished_when_there_is_room(self):
        """By the same daemon, which tries seldom until then."""
        recording = self.dir / "f.c2s.bin"
        subprocess.run([FIREHOSE, "-o", str(recording), "--events", "60000", "--depth", "4",
                        "--protocol", "82", "--live", "2000", "--stacks", "200"], check=True)
        with self.on_small_disk("7m", "6500K") as folder:
            with replaying(recording, f"--broadcast=127.0.0.1:{self.udp}"):
                self.wait_said("was recorded is kept in")
                self.wait_said("stays as it was: ")
            self.assertEqual(sorted(os.listdir(folder)), ["filler", "x.tracy.journal"])
            (folder / "filler").unlink()
            wait_until(lambda: sorted(os.listdir(folder)) == ["x.recovered.tracy"])
            self.wait_said("saved to ")
            self.assertEqual(self.said().count("stays as it was: "), 1, self.said())
            self.assertGreater(report(folder / "x.recovered.tracy")["pools"][0]["allocations"], 0)

    def test_a_disk_that_fills_ends_captures(self):
        listener = self.listener()
        client = self.client(STAYS)
        with self.web("--min-free", "1000000G", "--webhook", listener.url) as process:
            status = self.ask("/api/v1/clients", "POST",
                              f'{{"address":"127.0.0.1","port":{client.port}}}')[0]
            self.assertIn(status, (201, 409)) # it had a look at the disk already, or not
            wait_until(lambda: self.status()["disk_full"])
            if status == 201:
                self.told(listener, "disk.full")
            self.assertEqual(self.stop(process), 0, self.said())

    def test_a_disk_that_fills_pauses_captures_by_choice(self):
        """And they are saved all the same."""
        listener = self.listener()
        client = self.client(STAYS)
        self.traces.mkdir()
        free = os.statvfs(self.traces)
        spare = max(free.f_bavail * free.f_frsize // 2, 1)
        with self.web("--min-free", spare, "--when-full", "pause",
                      "--webhook", listener.url) as process:
            announce(self.udp, client.port)
            self.wait_recorded(1)
            (session,) = children(process)
            self.assertNotIn("T", status_of(session)["State"][:1])
            self.assertEqual(self.stop(process), 0, self.said())
        (name,) = self.names()
        (self.traces / name).unlink()
        with self.web("--min-free", "1000000G", "--when-full", "pause",
                      "--webhook", listener.url) as process:
            wait_until(lambda: self.status()["disk_full"])
            self.told(listener, "disk.full")
            self.assertEqual(self.stop(process), 0, self.said())


class Lasting(FakeClient):
    """One that stays and takes the next server, as clients that are captured on demand do."""

    def __init__(self, body, keeps=True, **kwargs):
        self.keeps = keeps # a server, until that goes; else it hangs up when all is sent
        self.captured = self.looked_at = 0
        super().__init__(body, **kwargs)

    def talk(self):
        while True:
            peer, _ = self.socket.accept()
            with contextlib.closing(peer), contextlib.suppress(OSError):
                request = peer.recv(12)
                if not request:
                    self.looked_at += 1
                    continue
                if struct.unpack("<I", request[8:])[0] != self.speaks:
                    peer.sendall(b"\x02")
                    continue
                peer.sendall(b"\x01" + welcome() + self.body)
                self.captured += 1
                while self.keeps and peer.recv(65536):
                    pass


class Enough(SmallDisk):
    """A client whose capture a limit ended, or somebody's wish, is left alone although it stays."""

    def lasting(self, body=STAYS, **kwargs):
        client = Lasting(body, **kwargs)
        self.addCleanup(client.end)
        return client

    def left_alone(self):
        return [c["left_alone"] for c in self.status()["clients"]]

    def limits(self):
        return [c["limit"] for c in self.status()["clients"]]

    def wait_left_alone(self, *why):
        wait_until(lambda: self.left_alone() == list(why))

    def heard(self, number):
        """All that was announced before has been heard, since this one is captured."""
        client = self.client(frame(ONE + TERMINATE))
        announce(self.udp, client.port, b"later", pid=100 + number)
        wait_until(lambda: any(c["pid"] == 100 + number and c["state"] == "saved"
                               for c in self.status()["clients"]))

    def stays_alone(self, *args, why, begin=lambda: None):
        client = self.lasting()
        with self.web(*args) as process:
            announce(self.udp, client.port, b"p", pid=1, age=3)
            wait_until(lambda: client.captured == 1)
            begin()
            self.wait_left_alone(why)
            self.assertEqual(self.limits(), [None if why == "stop" else why])
            self.assertIn(f"left alone ({why})", run("ctl", "--at", f"127.0.0.1:{self.port()}",
                                                     "status").stdout)
            for age in (3, 6, -1, 9):
                announce(self.udp, client.port, b"p", pid=1, age=age)
            if "--max-time" not in args and "--max-size" not in args: # which would end that, too
                self.heard(1)
            else:
                announce(self.udp, 1, b"nobody", pid=2)
                self.wait_said("] nobody @")
            self.assertEqual(client.captured, 1)
            return client, process

    def test_time(self):
        self.stays_alone("--max-time", "0.1s", why="max-time")

    def test_bytes_received(self):
        self.stays_alone("--max-size", "10", why="max-size")

    def test_bytes_on_disk(self):
        def fill(): # a session has its client before it has its journal
            wait_until(lambda: self.traces.exists() and self.journals(), "the journal")
            (name,) = self.journals()
            (self.traces / name / "filler").write_bytes(os.urandom(2 << 20))
        self.stays_alone("--quota", "1M", why="quota", begin=fill)

    def test_all_bytes_on_disk(self):
        """Also when there is room again."""
        def fill():
            wait_until(self.traces.exists, "the folder")
            (self.traces / "filler").write_bytes(os.urandom(2 << 20))
            self.wait_left_alone("total-quota")
            (self.traces / "filler").unlink()
            wait_until(lambda: not self.status()["disk_full"])
        self.stays_alone("--total-quota", "1M", why="total-quota", begin=fill)

    @unittest.skipUnless(shutil.which("unshare"), "needs unshare")
    def test_room_on_the_disk(self):
        """Also when there is room again, and others are captured."""
        client, other = self.lasting(), self.lasting()

        def other_is_captured():
            announce(self.udp, client.port, b"p", pid=1, age=6)
            announce(self.udp, other.port, b"other", pid=2)
            return other.captured == 1

        with self.on_small_disk("20m", 0, "--min-free", "10M") as folder:
            announce(self.udp, client.port, b"p", pid=1, age=3)
            wait_until(lambda: client.captured == 1)
            (folder / "more").write_bytes(bytes(12 << 20))
            self.wait_said("left alone from now on (min-free)")
            (folder / "more").unlink()
            wait_until(other_is_captured)
            self.assertEqual(client.captured, 1)

    def stop_first(self):
        self.assertEqual(self.ask("/api/v1/clients/1/stop", "POST")[0], 202)

    def test_somebody_stopped_it(self):
        self.stays_alone(why="stop", begin=self.stop_first)

    def test_until_somebody_starts_it(self):
        client = self.lasting()
        with self.web() as process:
            announce(self.udp, client.port, b"p", pid=1, age=3)
            wait_until(lambda: client.captured == 1)
            self.stop_first()
            self.wait_left_alone("stop")
            self.assertEqual(self.ask("/api/v1/clients", "POST",
                                      f'{{"address":"127.0.0.1","port":{client.port}}}')[0], 201)
            wait_until(lambda: client.captured == 2)
            self.assertEqual(self.left_alone(), [None, None])
            wait_until(lambda: self.status()["clients"][1]["state"] == "recording")
            announce(self.udp, client.port, b"p", pid=1, age=6)
            self.heard(1)
            self.assertEqual(self.left_alone(), [None] * 3)
            self.assertEqual(self.ask("/api/v1/clients/2/stop", "POST")[0], 202)
            self.wait_left_alone(None, "stop", None)
            announce(self.udp, client.port, b"p", pid=1, age=9)
            self.heard(2)
            self.assertEqual(client.captured, 2)
            self.assertEqual(self.stop(process), 0, self.said())

    def test_until_it_is_another_process(self):
        """Also one with the same process id, as in containers."""
        client = self.lasting()
        with self.web("--max-time", "0.1s") as process:
            for captured, (pid, age) in enumerate(((1, 3), (1, 2), (2, 2)), 1):
                announce(self.udp, client.port, b"p", pid=pid, age=age)
                wait_until(lambda: client.captured == captured)
                wait_until(lambda: self.left_alone()[-1] == "max-time")
            self.assertEqual(self.stop(process), 0, self.said())

    def test_until_it_is_another_process_that_comes_while_there_is_no_room(self):
        """It has run for longer than the one before when there is some."""
        client, other = self.lasting(), self.lasting()
        with self.web("--max-clients", "1") as process:
            announce(self.udp, client.port, b"p", pid=1, age=30)
            wait_until(lambda: client.captured == 1)
            self.stop_first()
            self.wait_left_alone("stop")
            announce(self.udp, other.port, b"o", pid=2)
            wait_until(lambda: other.captured == 1)
            announce(self.udp, client.port, b"p", pid=1, age=-1)
            announce(self.udp, client.port, b"p", pid=1, age=3)
            self.wait_said("further ones must wait")
            self.assertEqual(self.ask("/api/v1/clients/2/stop", "POST")[0], 202)
            wait_until(lambda: self.status()["running"] == 0)
            announce(self.udp, client.port, b"p", pid=1, age=33)
            wait_until(lambda: client.captured == 2)
            self.assertEqual(self.stop(process), 0, self.said())

    def test_not_when_it_was_not_captured(self):
        """A limit ended the wait for a client that says nothing; there was not enough of it."""
        silent, port = listener()
        self.addCleanup(silent.close)
        with self.web("--total-quota", "1M") as process:
            announce(self.udp, port, b"p", pid=1, age=3)
            wait_until(lambda: self.status()["running"] == 1)
            (self.traces / "filler").write_bytes(os.urandom(2 << 20))
            wait_until(lambda: self.status()["running"] == 0)
            self.assertEqual(self.left_alone(), [None])
            (self.traces / "filler").unlink()
            wait_until(lambda: not self.status()["disk_full"])
            announce(self.udp, port, b"p", pid=1, age=6)
            wait_until(lambda: self.status()["running"] == 1)
            self.assertEqual(self.stop(process), 0, self.said())

    def test_not_when_the_daemon_ends(self):
        """The next one wants it."""
        client, listener = self.lasting(), self.listener()
        with self.web("--webhook", listener.url) as process:
            announce(self.udp, client.port, b"p", pid=1, age=3)
            wait_until(lambda: client.captured == 1)
            self.assertEqual(self.stop(process), 0, self.said())
        (end,) = [e for _, _, e in listener.got if e["event"] == "client.finished"]
        self.assertNotIn("left_alone", end)
        self.assertNotIn("left alone", self.said())

    def test_one_that_was_lost_is_wanted(self):
        client = self.lasting(keeps=False)
        with self.web("--quota", "100G", "--max-size", "100G") as process:
            for captured in (1, 2):
                announce(self.udp, client.port, b"p", pid=1, age=3 * captured)
                wait_until(lambda: self.status()["traces_saved"] == captured)
            self.assertEqual(self.left_alone(), [None, None])
            self.assertEqual(self.stop(process), 0, self.said())

    def test_a_target(self):
        """It is another client when nobody took connections in between."""
        client = self.lasting()
        with self.web("--target", f"127.0.0.1:{client.port}", "--max-time", "0.1s") as process:
            self.wait_left_alone("max-time")
            looked_at = client.looked_at
            wait_until(lambda: client.looked_at >= looked_at + 2)
            self.assertEqual(client.captured, 1)
            client.end()
            self.wait_left_alone(None)
            self.assertEqual(self.limits(), ["max-time"])
            self.client(STAYS, port=client.port)
            self.wait_left_alone(None, "max-time")
            self.assertEqual(self.stop(process), 0, self.said())
        self.assertEqual(len(self.names()), 2)


class Busy(FakeClient):
    """Takes every connection, and has always the same answer to it."""

    def __init__(self, answer):
        self.answer, self.tried = answer, 0
        super().__init__(b"")

    def talk(self):
        while True:
            peer, _ = self.socket.accept()
            with contextlib.closing(peer), contextlib.suppress(OSError):
                if peer.recv(12):
                    self.tried += 1
                    peer.sendall(self.answer)


class Repeats(Telling):
    def try_again(self, client, times):
        """Each try has ended when the next one begins."""
        def has_tried():
            announce(self.udp, client.port, b"p", pid=1, age=3)
            return client.tried >= until
        until = client.tried + times
        wait_until(has_tried)

    def test_what_fails_again_is_told_once(self):
        client = Busy(b"\x63")
        self.addCleanup(client.end)
        with self.web() as process:
            self.try_again(client, 6)
            for text in ("Connecting", "is no Tracy client"):
                self.assertEqual(self.said().count(text), 1, self.said())
            (now,) = self.status()["clients"]
            self.assertGreaterEqual(now["number"], 6)
            client.answer = b"\x02" # something else is wrong
            self.try_again(client, 1)
            self.wait_said("does not speak protocol 74")
            self.assertEqual(self.said().count("Connecting"), 2, self.said())
            self.assertEqual(self.stop(process), 0, self.said())

    def test_what_works_then_is_told_as_ever(self):
        client = Busy(b"\x63")
        with self.web() as process:
            self.try_again(client, 3)
            client.end()
            self.client(STAYS, port=client.port)
            # Again and again: the try before may not have ended.
            wait_until(lambda: announce(self.udp, client.port, b"p", pid=1, age=3)
                       or "protocol 74" in self.said())
            self.assertEqual(self.said().count("Connecting"), 2, self.said())
            self.assertEqual(self.stop(process), 0, self.said())


class Gone(Telling):
    """A host that loses power, or whose link is cut, says nothing: it has to be asked."""

    KEEPALIVE = 2  # of the timers that /proc/net/tcp has

    def is_asked(self, local=None, remote=None):
        def port(text):
            return int(text.split(":")[1], 16)

        for line in pathlib.Path("/proc/net/tcp").read_text().splitlines()[1:]:
            _, here, there, state, _, timer, *_ = line.split()
            if state == "01" and port(here) == (local or port(here)) and \
                    port(there) == (remote or port(there)):
                return int(timer.split(":")[0], 16) == self.KEEPALIVE
        return False

    def setUp(self):
        super().setUp()
        if not os.path.exists("/proc/net/tcp"):
            self.skipTest("connections cannot be looked at")

    def test_clients_of_a_capture(self):
        client = self.client(STAYS)
        capture = subprocess.Popen([TIDEMARK, "capture", "-o", str(self.dir / "x"), "-p",
                                    str(client.port)], stdout=subprocess.DEVNULL)
        self.addCleanup(end_daemon, capture)
        wait_until(lambda: self.is_asked(remote=client.port))

    def test_clients_and_readers_of_a_daemon(self):
        client = self.client(STAYS)
        with self.web() as process:
            announce(self.udp, client.port)
            wait_until(lambda: self.is_asked(remote=client.port))
            with socket.create_connection(("127.0.0.1", self.port()), timeout=LIMIT) as reader:
                wait_until(lambda: self.is_asked(self.port(), reader.getsockname()[1]))
            self.assertEqual(self.stop(process), 0, self.said())


class Ending(Telling):
    def test_who_is_not_saved_in_time_leaves_a_journal(self):
        client = self.client(STAYS)
        with self.web("--stop-timeout", "1s") as process:
            announce(self.udp, client.port, b"prog")
            self.wait_recorded(1)
            (session,) = children(process)
            os.kill(session, signal.SIGSTOP)
            self.assertEqual(self.stop(process), 4, self.said())
            self.assertIn("1 captures were not saved in time", self.said())
        self.assertEqual(len(self.journals()), 1)
        with self.web() as process:
            self.assertEqual(self.stop(process), 0, self.said())
        self.assertEqual(self.names(), [f"prog_127.0.0.1_{client.port}.recovered.tracy"])
        self.assertEqual(report(self.traces / self.names()[0])["pools"][0]["allocations"], 1)

    def test_wrong_values(self):
        for args in (["--quota", "x"], ["--total-quota", "-1"], ["--min-free", ""],
                     ["--when-full", "x"], ["--stop-timeout", "-1s"]):
            self.assertEqual(run("daemon", "-o", self.traces, *args).returncode, 2, args)


class Floods(Telling):
    def test_more_connections_than_there_may_be(self):
        """The session goes on, and who comes when they are gone is answered."""
        client = self.client(STAYS)
        with self.web() as process:
            port = self.port()
            held = []
            for _ in range(300):
                s = socket.create_connection(("127.0.0.1", port), timeout=LIMIT)
                s.sendall(b"GET /api/v1/status HTTP/1.1\r\nHost: localhost\r\nX-Slow: ")
                held.append(s)
            announce(self.udp, client.port)
            self.wait_recorded(1)
            for s in held:
                s.close()

            def answers():
                try:
                    return bool(self.status()["clients"])
                except (OSError, ValueError):
                    return False

            wait_until(answers)
            fds = len(os.listdir(f"/proc/{process.pid}/fd"))
            self.assertLess(fds, 200)
            self.assertEqual(self.stop(process), 0, self.said())

    def hold(self, request, connections, source="127.0.0.1"):
        """Connections of somebody who asks, and then does nothing."""
        for _ in range(connections):
            s = socket.create_connection(("127.0.0.1", self.port()), timeout=LIMIT,
                                         source_address=(source, 0))
            self.addCleanup(s.close)
            with contextlib.suppress(OSError): # it is hung up on
                s.sendall(request)

    def listening(self, headers=b""):
        """A stream of events, from its first one on."""
        s = socket.create_connection(("127.0.0.1", self.port()), timeout=60)
        self.addCleanup(s.close)
        s.sendall(b"GET /api/v1/events HTTP/1.1\r\nHost: localhost\r\n" + headers + b"\r\n")
        stream = s.makefile("rb")
        self.addCleanup(stream.close)
        self.assertIn(b"200", stream.readline())
        self.next_event(stream)
        return stream

    def next_event(self, stream):
        while line := stream.readline():
            if line.startswith(b"data: "):
                return
        self.fail("the stream was cut")

    def test_strangers_hold_nobody_up(self):
        """Whether their requests never end, or are refused; on the loopback all have one address."""
        for request in (b"GET /api/v1/status HTTP/1.1\r\nHost: localhost\r\nX-Slow: ",
                        b"GET /api/v1/status HTTP/1.1\r\nHost: elsewhere\r\n\r\n"):
            with self.web() as process:
                stream = self.listening()
                self.hold(request, 300)
                self.assertEqual(self.status()["clients"], [])
                for _ in range(2):
                    self.next_event(stream)
                self.assertEqual(self.stop(process), 0, self.said())

    def test_strangers_elsewhere_hold_nobody_up(self):
        """Nor who is at their address, and knows the token."""
        token = b"abcdefghijklmnopqrstuvwxyz"
        good = b"Authorization: Bearer " + token + b"\r\n"
        with self.daemon("--http", "0.0.0.0:0", "--token", token.decode()):
            stream = self.listening(good)
            self.hold(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", 150, "127.0.0.2")
            self.hold(b"GET /", 150)
            for source in ("127.0.0.1", "127.0.0.2", "127.0.0.3"):
                with socket.create_connection(("127.0.0.1", self.port()), timeout=60,
                                              source_address=(source, 0)) as s:
                    s.sendall(b"GET /api/v1/status HTTP/1.1\r\nHost: localhost\r\n" + good +
                              b"\r\n")
                    self.assertIn(b"200 OK", s.recv(100))
            self.next_event(stream)

    def test_a_byte_now_and_then_is_no_request(self):
        with self.web():
            with socket.create_connection(("127.0.0.1", self.port()), timeout=LIMIT) as slow:
                slow.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\nX-Slow: ")

                def hung_up():
                    try:
                        slow.sendall(b"x")
                        slow.settimeout(0.5)
                        slow.recv(1000) # an answer, or its end
                        return True
                    except TimeoutError:
                        return False
                    except OSError:
                        return True

                wait_until(hung_up)


if __name__ == "__main__":
    unittest.main()
