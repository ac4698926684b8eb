#!/usr/bin/python3
"""The daemon for a long time: clients that come, are killed or go, parts that rotate under a bound on
memory. For two of three clients days pass in the minute that they are there, so their traces come to
the end of the format's clock, 39 hours, again and again. At the end nothing is left over, what
clients said that ended by themselves is exact, up to the last nanosecond, and the daemon itself has
not grown.

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
HOURS = (0, 100, 400)  # of a client's clock, from its beginning to its end; 0: a millisecond
CLOCK_END = 2**47 // 100 * 95  # nanoseconds of a part, at most
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


def ask(command, part):
    result = subprocess.run([TIDEMARK, *command, str(part), "--format", "json"],
                            capture_output=True, text=True, timeout=300, check=True)
    return json.loads(result.stdout)


class Told:
    """Totals over a client's parts: each part begins with what is live."""

    def __init__(self, parts):
        self.made = self.freed = live = 0
        begins, self.ends, self.lost = [0], [], []
        for part in parts:
            pools = ask(["report", "--limit", "1"], part)["pools"]
            self.made += sum(p["allocations"] for p in pools) - live
            self.freed += sum(p["frees"] for p in pools)
            live = sum(p["live_allocations"] for p in pools)
            info = ask(["info"], part)
            facts = {f["key"]: f["value"] for f in info["facts"]}
            self.lost += [f"{part.name}: {key}" for key in facts if key.startswith("overflow")]
            if part is not parts[0]:
                begins.append(int(re.match(r"\d+, begins (\d+) ns", facts["part"])[1]))
            self.ends.append(begins[-1] + info["trace"]["duration_ns"])
        lengths = [end - begin for begin, end in zip(begins, self.ends)]
        self.lost += [f"{parts[0].name} lasts {n} ns" for n in lengths if n > CLOCK_END]
        # Behind the end of the clock a part begins with the event that has no place before it.
        steps = [after - before for before, after in zip(begins, begins[1:])]
        self.clock_ends = sum(step > CLOCK_END for step in steps)

    def figures(self):
        return self.made, self.freed, self.ends[-1]


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
            hours = chance.choice(HOURS)
            clients.append(Client(folder / f"{hours}.c2s.bin", udp, chance))
        if time.monotonic() - sampled > 10:
            sampled = time.monotonic()
            samples.append(held_by(daemon.pid))
        if daemon.poll() is not None:
            raise SystemExit(f"the daemon ended: {daemon.returncode}")
        time.sleep(0.2)
    return done, cut, samples


def truth_of(folder, hours):
    truth = json.loads((folder / f"{hours}.truth.json").read_text())
    pools = truth["pools"]
    return sum(p["allocs"] for p in pools), sum(p["frees"] for p in pools), truth["last_time_ns"]


def check(folder, traces, done):
    left = [p.name for p in traces.iterdir() if not p.name.endswith(".tracy")]
    assert not left, left
    told = [Told(parts) for parts in by_client(traces)]
    whole = [collections.Counter(t.figures() for t in told)[truth_of(folder, h)] for h in HOURS]
    clock_ends = [t.clock_ends for t in told]
    print(f"{len(told)} captures in {sum(len(t.ends) for t in told)} traces, {sum(whole)} of them "
          f"whole (clients of {', '.join(map(str, HOURS))} hours: {whole}); the format's clock ended "
          f"{sum(clock_ends)} times, in one capture up to {max(clock_ends)} times")
    lost = [text for t in told for text in t.lost]
    assert not lost, lost
    assert sum(whole) == done, (whole, done)
    assert max(clock_ends) > 1


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--clients", type=int, default=32)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="tidemark-soak-") as name:
        folder, udp = pathlib.Path(name), free_port()
        traces = folder / "traces"
        for seed, hours in enumerate(HOURS):
            subprocess.run([str(BUILD / "bench" / "firehose"), "-o", str(folder / f"{hours}.c2s.bin"),
                            "--hours", str(hours), "--seed", str(seed), *EVENTS], check=True)
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
