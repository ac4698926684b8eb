#!/usr/bin/python3
"""The daemon for a long time: clients that come, are killed or go, parts that rotate under a bound on
memory. At the end nothing is left over, what clients said that ended by themselves is exact, and the
daemon itself has not grown.

    BUILD=build bench/soak.py [--minutes 30] [--clients 32] [--seed N]
"""

import argparse
import collections
import json
import os
import pathlib
import random
import re
import signal
import socket
import subprocess
import tempfile
import time

BUILD = pathlib.Path(os.environ.get("BUILD", "build")).resolve()
TIDEMARK = os.environ.get("TIDEMARK", str(BUILD / "tidemark"))
EVENTS = ("--events", "20000", "--depth", "4", "--protocol", "82", "--live", "2000", "--stacks", "200")


def free_port():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def held_by(pid):
    """Resident KiB, and descriptors."""
    status = pathlib.Path(f"/proc/{pid}/status").read_text()
    return int(re.search(r"VmRSS:\s+(\d+)", status)[1]), len(os.listdir(f"/proc/{pid}/fd"))


class Client:
    """A recording that is played for half a minute to two, or cut off before."""

    def __init__(self, recording, udp, chance):
        self.cut = chance.random() < 0.3
        self.until = time.monotonic() + (chance.uniform(1, 40) if self.cut else 600)
        rate = chance.randrange(recording.stat().st_size // 120, recording.stat().st_size // 30)
        self.process = subprocess.Popen(
            [TIDEMARK, "replay", str(recording), f"--broadcast=127.0.0.1:{udp}", "-p", "0", "--rate",
             str(rate)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    def over(self):
        """None while it plays; else whether it said all."""
        if self.process.poll() is not None:
            return self.process.returncode == 0
        if time.monotonic() < self.until:
            return None
        self.process.kill()
        self.process.wait()
        return False


def totals(parts):
    """Allocations and frees of a client's parts together: each begins with what is live."""
    made = freed = live = 0
    for part in parts:
        result = subprocess.run([TIDEMARK, "report", str(part), "--format", "json", "--limit", "1"],
                                capture_output=True, text=True, timeout=300, check=True)
        pools = json.loads(result.stdout)["pools"]
        made += sum(p["allocations"] for p in pools) - live
        freed += sum(p["frees"] for p in pools)
        live = sum(p["live_allocations"] for p in pools)
    return made, freed


def by_client(folder):
    """The parts of each capture in their order: x.tracy, x.2.tracy, …"""
    found = collections.defaultdict(dict)
    for path in folder.iterdir():
        name, part = re.fullmatch(r"(.*?)(?:\.(\d+))?\.tracy", path.name).groups()
        found[name][int(part or 1)] = path
    return [[parts[n] for n in sorted(parts)] for parts in found.values()]


def keep_going(options, folder, daemon, udp):
    chance, clients, done, cut, samples = random.Random(options.seed), [], 0, 0, []
    began = sampled = time.monotonic()
    while time.monotonic() - began < options.minutes * 60 or clients:
        ending = time.monotonic() - began >= options.minutes * 60
        for client in list(clients):
            over = client.over()
            if over is None:
                continue
            clients.remove(client)
            done, cut = done + over, cut + (not over)
        if not ending and len(clients) < options.clients:
            clients.append(Client(folder / "f.c2s.bin", udp, chance))
        if time.monotonic() - sampled > 10:
            sampled = time.monotonic()
            samples.append(held_by(daemon.pid))
        if daemon.poll() is not None:
            raise SystemExit(f"the daemon ended: {daemon.returncode}")
        time.sleep(0.2)
    return done, cut, samples


def check(folder, traces, done):
    left = [p.name for p in traces.iterdir() if not p.name.endswith(".tracy")]
    assert not left, left
    truth = json.loads((folder / "f.truth.json").read_text())["pools"]
    whole = sum(p["allocs"] for p in truth), sum(p["frees"] for p in truth)
    captures = by_client(traces)
    exact = sum(totals(parts) == whole for parts in captures)
    print(f"{len(captures)} captures in {sum(map(len, captures))} traces, {exact} of them whole")
    assert exact == done, (exact, done)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--clients", type=int, default=32)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="tidemark-soak-") as name:
        folder, udp = pathlib.Path(name), free_port()
        traces = folder / "traces"
        subprocess.run([str(BUILD / "bench" / "firehose"), "-o", str(folder / "f.c2s.bin"), *EVENTS],
                       check=True)
        with open(folder / "log", "wb") as log:
            daemon = subprocess.Popen(
                [TIDEMARK, "daemon", "-o", str(traces), "-p", str(udp), "--local", "--rotate", "200K",
                 "--memory-limit", "4G", "--http", "127.0.0.1:0"], stdout=log, stderr=log)
        try:
            time.sleep(1)
            done, cut, samples = keep_going(options, folder, daemon, udp)
            daemon.send_signal(signal.SIGTERM)
            status = daemon.wait(timeout=300)
        finally:
            daemon.kill()
        print(f"{done} clients said all, {cut} were cut off; the daemon's KiB and descriptors after "
              f"a minute {samples[min(6, len(samples) - 1)]}, at the end {samples[-1]}, at most "
              f"{max(samples)}; exit status {status}")
        assert status == 0, (folder / "log").read_text()[-3000:]
        check(folder, traces, done)


if __name__ == "__main__":
    main()
