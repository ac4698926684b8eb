#!/usr/bin/env python3
"""Speed and memory of capture, load, save and update on generated streams, beside what the machine
allows on the same bytes, and beside the official tools when OFFICIAL names the folder that has them.

    make bench [OFFICIAL=dir] [BENCH_EVENTS="1000000 10000000"] [BENCH_DEPTHS="0 16"]

CPU is user plus system time of the process, as the kernel accounts it; memory is its highest
resident size. Where two threads share the work the time on the clock is printed, too: it means
something on a machine that does nothing else. Ratios are printed, not judged. A tool that fails, or
a trace whose totals are not those of the stream, ends it with 1. bench/sizes.py has the knobs."""

import contextlib
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "test" / "e2e"))
from memory_group import MemoryGroup, NoGroups  # noqa: E402
from sizes import ROUNDS, scaled  # noqa: E402

BUILD = ROOT / os.environ.get("BUILD", "build")
TIDEMARK = BUILD / "tidemark"
OFFICIAL = os.environ.get("OFFICIAL")
EVENTS = [scaled(int(n)) for n in os.environ.get("BENCH_EVENTS", "1000000 10000000").split()]
BOUND_EVENTS = scaled(int(os.environ.get("BENCH_BOUND", "50000000")))
CONTAINER_EVENTS = scaled(10000000)
CONTAINER = 300 << 20
DEPTHS = [int(n) for n in os.environ.get("BENCH_DEPTHS", "0 16").split()]
TICK = os.sysconf("SC_CLK_TCK")
PROTOCOL = "82"  # the default of firehose


class Run:
    """One finished process: CPU-seconds in all and until it began to save, and peak memory."""

    def __init__(self, args, watch_saving=False, output=None):
        self.cpu_before_saving = None
        began = time.monotonic()
        # What is long goes to `output` at once: this process's size would count for its children.
        process = subprocess.Popen([str(a) for a in args], stdout=output or subprocess.PIPE,
                                   stderr=subprocess.PIPE if output else subprocess.STDOUT)
        stream = process.stderr if output else process.stdout
        text = b""
        while chunk := os.read(stream.fileno(), 65536):
            text += chunk
            if watch_saving and self.cpu_before_saving is None and b"Saving trace" in text:
                self.cpu_before_saving = cpu_of(process.pid)
        _, status, usage = os.wait4(process.pid, 0)
        self.wall = time.monotonic() - began
        stream.close()
        process.returncode = os.waitstatus_to_exitcode(status)
        self.output = text.decode(errors="replace")
        if process.returncode != 0:
            sys.exit(f"{args[0]} failed with {process.returncode}:\n{self.output}")
        self.cpu = usage.ru_utime + usage.ru_stime
        self.memory = usage.ru_maxrss * 1024


def cpu_of(pid):
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / TICK


@contextlib.contextmanager
def replay(recording):
    """Plays a recording; yields the port."""
    process = subprocess.Popen([str(TIDEMARK), "replay", str(recording), "-p", "0"],
                               stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        found = re.search(r":(\d+)\b", process.stdout.readline())
        if not found:
            sys.exit(f"{recording} cannot be replayed")
        yield found[1]
    finally:
        process.kill()
        process.communicate()


def capture(tool, recording, output, *args):
    """Plays a recording to a capture tool."""
    with replay(recording) as port:
        return Run([*tool, "-f", "-o", output, "-p", port, *args], watch_saving=True)


def mib(n):
    return f"{n / 2**20:,.0f} MiB"


def show_capture(name, run, events, size):
    ingest = run.cpu_before_saving or run.cpu
    print(f"  {name:28} {run.cpu:6.2f} CPU-s, {events / run.cpu / 1e6:6.2f} M events per CPU-s "
          f"(ingest alone {events / max(ingest, 0.01) / 1e6:6.2f}), peak {mib(run.memory):>9}, "
          f"{size / events:5.2f} bytes per event", flush=True)


def compare(what, ours, theirs, wanted):
    print(f"  {what:28} {ours / max(theirs, 1 / TICK):.2f}x the official tool's (wanted: {wanted})", flush=True)


def show_ingest(recording, events):
    """Without socket, journal and new memory: what decoding and the store take."""
    out = subprocess.run([str(BUILD / "bench" / "ingest_rate"), str(recording), PROTOCOL, str(ROUNDS)],
                         check=True, stdout=subprocess.PIPE, text=True)
    seconds = float(out.stdout.split()[1])
    print(f"  {'decoding and store alone':28} {seconds:6.2f} CPU-s, {seconds / events * 1e9:5.1f} ns "
          "per event", flush=True)


def show_limits(recording, trace, folder, events):
    out = subprocess.run([str(BUILD / "bench" / "machine_limits"), str(recording), str(trace),
                          str(folder / "scratch")], check=True, stdout=subprocess.PIPE, text=True)
    for line in out.stdout.splitlines():
        name, seconds, size = line.split()
        print(f"  limit: {name:21} {float(seconds):6.2f} CPU-s, {float(seconds) / events * 1e9:5.1f} "
              f"ns per event, {int(size) / max(float(seconds), 1e-9) / 1e6:,.0f} MB/s", flush=True)


# What `update` is asked for, and what the official tool is asked for beside it: None for what it
# does not do.
UPDATES = (
    ("update, own level", (), ()),
    ("update -z 1", ("-z", "1"), ("-z", "1")),
    ("update -z 3", ("-z", "3"), ("-z", "3")),
    ("update -z 9", ("-z", "9"), ("-z", "9")),
    ("update -4", ("-4",), ("-4",)),
    ("strip, -s M", ("-s", "M"), ("-s", "M")),
    ("convert to 0.11.1", ("--trace-version", "0.11.1"), None),
    ("drop a pool", ("--drop-pools", "default"), None),
    ("a range of time", ("--range", "50ms:200ms"), None),
)


def least_wall(runs):
    return min(run.wall for run in runs)


def least(runs):
    return min(run.cpu for run in runs), max(run.memory for run in runs)


def bench_update(folder, trace):
    """Ours and the official tool take turns on the same trace; the least time of each counts."""
    out = folder / "again.tracy"
    for name, args, theirs in UPDATES:
        runs, official = [], []
        for _ in range(ROUNDS):
            runs.append(Run([TIDEMARK, "update", *args, trace, out]))
            size = out.stat().st_size
            if OFFICIAL and theirs is not None:
                official.append(Run([pathlib.Path(OFFICIAL) / "update", *theirs, trace, out]))
        cpu, memory = least(runs)
        text = f"  {name:28} {cpu:6.2f} CPU-s, peak {mib(memory):>9}, file {mib(size):>9}"
        if official:
            other, other_memory = least(official)
            text += (f"; official {other:6.2f} CPU-s, peak {mib(other_memory):>9}, "
                     f"file {mib(out.stat().st_size):>9}: {cpu / other:.2f}x its CPU")
        print(text, flush=True)


# What `csvexport` is asked for; what begins with two dashes the official tool does not know.
EXPORTS = ((), ("-u", "-p"), ("--memory",))


def bench_csvexport(trace):
    for args in EXPORTS:
        runs, official = [], []
        for _ in range(ROUNDS):
            runs.append(Run([TIDEMARK, "csvexport", *args, trace], output=subprocess.DEVNULL))
            if OFFICIAL and not any(a.startswith("--") for a in args):
                official.append(Run([pathlib.Path(OFFICIAL) / "csvexport", *args, trace],
                                    output=subprocess.DEVNULL))
        cpu, memory = least(runs)
        text = f"  {' '.join(('csvexport', *args)):28} {cpu:6.2f} CPU-s, peak {mib(memory):>9}"
        if official:
            other, other_memory = least(official)
            text += (f"; official {other:6.2f} CPU-s, peak {mib(other_memory):>9}: "
                     f"{cpu / other:.2f}x its CPU")
        print(text, flush=True)


# Where `make deps-test-full` puts what a browser is driven with.
MODULES = BUILD / "test-web"
CHROMIUM = shutil.which("chromium")


def bench_page(folder, trace):
    """The page of `report --format html`, how soon a browser shows it, and its slowest interaction."""
    page = folder / "report.html"
    asked = subprocess.run([TIDEMARK, "report", "--format", "html"], stderr=subprocess.PIPE)
    if b"without the page" in asked.stderr:
        print("  the page is not built: no node and npm")
        return
    run = Run([TIDEMARK, "report", trace, "--format", "html", "-fo", page])
    text = f"  {'report --format html':28} {run.cpu:6.2f} CPU-s, peak {mib(run.memory):>9}, " \
           f"page {mib(page.stat().st_size):>9}"
    if CHROMIUM and (MODULES / "node_modules").exists():
        shown = [json.loads(subprocess.run(
            ["node", ROOT / "test" / "web" / "page_times.mjs", CHROMIUM, MODULES, page],
            stdout=subprocess.PIPE, check=True).stdout) for _ in range(ROUNDS)]
        text += (f"; first paint {min(s['paint'] for s in shown):.0f} ms, "
                 f"all there {min(s['ready'] for s in shown):.0f} ms")
        slowest = min(shown, key=lambda s: s["worst"])
        text += f", slowest interaction {slowest['worst']:.0f} CPU-ms ({slowest['what']})"
    print(text, flush=True)


# What `report` is asked for. The first two count events while they are read, with a thread that
# decompresses and one that counts; the others have more to do.
QUESTIONS = (("--recount",), ("--by", "callstack", "--stack-traces"), ("--leaks",), ("--patterns",),
             ("--histograms",))
REPORT_WANTED = 1.5  # times the decompression
REPORT_MEMORY = 128 << 20  # and 16 bytes for each block that is live at once


def bench_report(folder, recording, trace, events):
    """Questions beside decompressing the same file; they take turns."""
    runs, decoding = {q: [] for q in QUESTIONS}, []
    for _ in range(ROUNDS):
        for question in QUESTIONS:
            runs[question].append(Run([TIDEMARK, "report", trace, *question],
                                      output=subprocess.DEVNULL))
        out = subprocess.run([str(BUILD / "bench" / "machine_limits"), str(recording), str(trace),
                              str(folder / "scratch")], check=True, stdout=subprocess.PIPE,
                             text=True).stdout
        decoding.append(float(re.search(r"^container-decode (\S+)", out, re.M)[1]))
    for question in QUESTIONS:
        cpu, memory = least(runs[question])
        wanted = f" (wanted: {REPORT_WANTED}x, {mib(REPORT_MEMORY)} and live blocks)"
        print(f"  {' '.join(('report', *question)):28} {cpu:6.2f} CPU-s, peak {mib(memory):>9}, "
              f"{cpu / events * 1e9:5.0f} ns per event; of the decompression "
              f"{cpu / min(decoding):.1f}x the CPU, {least_wall(runs[question]) / min(decoding):.1f}x "
              f"on the clock{wanted if '--recount' in question else ''}", flush=True)


def bench_heaptrack(folder):
    """The report of a recording of heaptrack that became a trace, beside heaptrack's own."""
    print("\na program recorded by heaptrack", flush=True)
    if not all(map(shutil.which, ("heaptrack", "heaptrack_print"))):
        print("  heaptrack is not installed")
        return
    recording, trace = folder / "churn.zst", folder / "churn.tracy"
    subprocess.run(["heaptrack", "-o", folder / "churn", BUILD / "bench" / "churn",
                    str(scaled(5000000))], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                   check=True)
    if not recording.exists():
        sys.exit("heaptrack left no recording")
    imported = Run([TIDEMARK, "import", recording, "-f", trace])
    # Of the figures that the import stored, and of the events.
    ways, theirs = {"report": [], "report --recount": []}, []
    for _ in range(ROUNDS):
        for way, runs in ways.items():
            command, *options = way.split()
            runs.append(Run([TIDEMARK, command, trace, *options], output=subprocess.DEVNULL))
        theirs.append(Run(["heaptrack_print", recording], output=subprocess.DEVNULL))
    other, other_memory = least(theirs)
    print(f"  {'import':28} {imported.cpu:6.2f} CPU-s, peak {mib(imported.memory):>9}")
    for way, runs in ways.items():
        cpu, memory = least(runs)
        wanted = " (wanted: 5x)" if way == "report" else ""
        print(f"  {way:28} {cpu:6.3f} CPU-s, peak {mib(memory):>9}; heaptrack_print "
              f"{other:6.2f} CPU-s, peak {mib(other_memory):>9}: {other / cpu:.1f}x faster by CPU, "
              f"{least_wall(theirs) / least_wall(runs):.1f}x on the clock{wanted}", flush=True)


def bench_export(folder, trace):
    """Forms of `export`; all but the first have a row for each allocation."""
    for form in ("pprof", "parquet", "sqlite"):
        output = folder / f"export.{form}"
        run = Run([TIDEMARK, "export", trace, "--format", form, "-fo", output])
        size = sum(f.stat().st_size for f in output.iterdir()) if output.is_dir() else \
            output.stat().st_size
        print(f"  {'export --format ' + form:28} {run.cpu:6.2f} CPU-s, peak {mib(run.memory):>9}, "
              f"output {mib(size):>9}", flush=True)
        shutil.rmtree(output) if output.is_dir() else output.unlink()


class Best:
    """The least of several captures of one stream: each figure for itself."""

    def __init__(self, runs):
        self.cpu = min(run.cpu for run in runs)
        self.cpu_before_saving = min(run.cpu_before_saving for run in runs)
        self.memory = max(run.memory for run in runs)


def capture_in_turns(recording, ours, theirs):
    """Ours and the official capture take turns, since other work on the machine disturbs both."""
    mine, bare, official = [], [], []
    for _ in range(ROUNDS):
        bare.append(capture([TIDEMARK, "capture"], recording, ours, "--no-summary",
                            "--no-journal"))
        mine.append(capture([TIDEMARK, "capture"], recording, ours, "--no-summary"))
        if OFFICIAL:
            official.append(capture([pathlib.Path(OFFICIAL) / "capture"], recording, theirs))
    return Best(mine), Best(bare), Best(official) if official else None


def bench_stream(folder, events, depth):
    """Gives the bytes of figures behind the trace, which everything here must skip."""
    recording = folder / "firehose.c2s.bin"
    ours, theirs = folder / "ours.tracy", folder / "official.tracy"
    print(f"\n{events:,} memory events, call stacks {depth} deep", flush=True)
    subprocess.run([str(BUILD / "bench" / "firehose"), "--events", str(events), "--depth",
                    str(depth), "-o", str(recording)], check=True, stdout=subprocess.DEVNULL)
    print(f"  stream {mib(recording.stat().st_size)}")
    mine, bare, official = capture_in_turns(recording, ours, theirs)
    show_capture("capture and save", mine, events, ours.stat().st_size)
    show_capture("the same without a journal", bare, events, ours.stat().st_size)
    summed = capture([TIDEMARK, "capture"], recording, ours)
    show_capture("capture, save, summary", summed, events, ours.stat().st_size)
    show_ingest(recording, events)
    file = json.loads(Run([TIDEMARK, "info", ours, "--format", "json"]).output)["file"]
    inner = file["inner_bytes"]
    load = Run([TIDEMARK, "report", ours])
    print(f"  {'load and report':28} {load.cpu:6.2f} CPU-s, {inner / load.cpu / 1e6:,.0f} MB/s, "
          f"peak {mib(load.memory)}")
    if not OFFICIAL:
        bench_update(folder, ours)
        bench_csvexport(ours)
    bench_report(folder, recording, ours, events)
    bench_page(folder, ours)
    bench_export(folder, ours)
    show_limits(recording, ours, folder, events)
    if OFFICIAL:
        show_capture("official capture", official, events, theirs.stat().st_size)
        loaded = Run([pathlib.Path(OFFICIAL) / "update", theirs, folder / "again.tracy"])
        print(f"  {'official update':28} {loaded.cpu:6.2f} CPU-s, peak {mib(loaded.memory)}")
        bench_update(folder, theirs)
        bench_csvexport(theirs)
        compare("events per CPU-s", official.cpu, mine.cpu, "at least 2")
        # The official capture keeps no journal.
        compare("ingest alone", official.cpu_before_saving, bare.cpu_before_saving, "at least 2.5")
        compare("ingest with its journal", official.cpu_before_saving, mine.cpu_before_saving, "no figure")
        compare("peak memory", mine.memory, official.memory, "at most 0.25 at 50 million")
        compare("file size", ours.stat().st_size, theirs.stat().st_size, "at most 1")
        compare("report against update, CPU", load.cpu, loaded.cpu, "at most 0.7")
        compare("report against update, memory", load.memory, loaded.memory, "at most 0.5")
    return file["stored_figure_bytes"]


def anonymous_of(pid):
    """Anonymous resident bytes of a process, 0 when it is gone."""
    try:
        status = pathlib.Path(f"/proc/{pid}/status").read_text()
    except OSError:
        return 0
    found = re.search(r"^RssAnon:\s+(\d+) kB$", status, re.M)
    return int(found[1]) << 10 if found else 0


def truth_of(recording):
    truth = recording.with_name(recording.name.replace(".c2s.bin", ".truth.json"))
    pools = json.loads(truth.read_text())["pools"]
    return {p["name"] or "default": (p["allocs"], p["frees"], p["live_bytes"], p["peak_bytes"])
            for p in pools}


def totals_of(trace):
    """None when there is no trace that can be read."""
    result = subprocess.run([TIDEMARK, "report", trace, "--format", "json", "--limit", "1"],
                            stdout=subprocess.PIPE, stderr=subprocess.DEVNULL)
    if result.returncode != 0:
        return None
    return {p["name"]: (p["allocations"], p["frees"], p["live_bytes"], p["peak_bytes"])
            for p in json.loads(result.stdout)["pools"]}


def check_totals(tool, trace, recording):
    if tool.returncode != 0 or totals_of(trace) != truth_of(recording):
        sys.exit(f"capture: exit status {tool.returncode}, and totals that are not the stream's")


def bench_bound(folder):
    """Anonymous memory through capture and save of many events with few live blocks."""
    recording, out = folder / "bound.c2s.bin", folder / "bound.tracy"
    print(f"\n{BOUND_EVENTS:,} memory events, 100,000 live, 10,000 call stacks 16 deep", flush=True)
    subprocess.run([str(BUILD / "bench" / "firehose"), "--events", str(BOUND_EVENTS), "--depth",
                    "16", "--live", "100000", "--stacks", "10000", "-o", str(recording)],
                   check=True, stdout=subprocess.DEVNULL)
    for limit in ((), ("--memory-limit", "128M")):
        most = 0
        with replay(recording) as port:
            tool = subprocess.Popen([TIDEMARK, "capture", "-f", "-o", out, "-p", port,
                                     "--no-summary", *limit], stdout=subprocess.DEVNULL)
            while tool.poll() is None:
                most = max(most, anonymous_of(tool.pid))
                time.sleep(0.02)
        check_totals(tool, out, recording)
        print(f"  {' '.join(('capture and save', *limit)):40} anonymous {mib(most)}", flush=True)
    recording.unlink()


def bench_container(folder):
    """A capture with the memory of a small container, where the kernel ends what takes more."""
    recording, out = folder / "container.c2s.bin", folder / "container.tracy"
    print(f"\n{CONTAINER_EVENTS:,} memory events, in a memory cgroup of {mib(CONTAINER)}",
          flush=True)
    try:
        group = MemoryGroup(CONTAINER)
    except NoGroups as e:
        print(f"  not done: {e}", flush=True)
        return
    with group:
        subprocess.run([str(BUILD / "bench" / "firehose"), "--events", str(CONTAINER_EVENTS),
                        "--depth", "16", "--live", "100000", "--stacks", "10000", "-o",
                        str(recording)], check=True, stdout=subprocess.DEVNULL)
        with replay(recording) as port:
            tool = subprocess.run(group.command(TIDEMARK, "capture", "-f", "-o", out, "-p", port,
                                                "--no-summary"), stdout=subprocess.DEVNULL)
        check_totals(tool, out, recording)
        print(f"  {'capture and save':40} all totals those of the stream, "
              f"most {mib(group.most())}", flush=True)
    recording.unlink()


def bench_trees():
    """The structures of analysis/ alone, and questions on a trace of 35 million live blocks."""
    live = str(scaled(1000000))
    print("\nstructures", flush=True)
    best = {}
    for number in range(ROUNDS):
        # Addresses once only: that takes long and has a resolution of milliseconds.
        args = (live, str(scaled(35000000)) if number == 0 else "1000")
        out = subprocess.run([str(BUILD / "bench" / "trees"), *args], check=True,
                             stdout=subprocess.PIPE, text=True).stdout
        for line in out.splitlines():
            speed = re.search(r"([\d.]+) million per second", line)
            if number == 0 or (line.startswith("interval") and
                               float(speed[1]) > best[line[:28]][0]):
                best[line[:28]] = (float(speed[1]) if speed else 0, line)
    print("".join(f"  {line}\n" for _, line in best.values()), end="", flush=True)


def main():
    began = time.monotonic()
    bench_trees()
    with tempfile.TemporaryDirectory(prefix="tidemark-bench-") as name:
        bench_heaptrack(pathlib.Path(name))
        stored = [bench_stream(pathlib.Path(name), events, depth)
                  for events in EVENTS for depth in DEPTHS]
        if not any(stored):
            sys.exit("no trace is so large that its summary is stored: BENCH_SCALE is too small")
        bench_bound(pathlib.Path(name))
        bench_container(pathlib.Path(name))
    print(f"\n{time.monotonic() - began:.0f} s")


if __name__ == "__main__":
    main()
