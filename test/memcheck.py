#!/usr/bin/env python3
"""Runs unit tests and commands under valgrind's memcheck, with what it says of memory that is lost and of
descriptors that stay open. Ends with "N runs under memcheck, N with findings"; exit status 1 when there
are some. What a run printed and what memcheck said is kept in $BUILD/memcheck.

    BUILD=build test/memcheck.py [--only unit|commands] [--pattern TEXT]
"""

import argparse
import collections
import concurrent.futures
import contextlib
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request

ROOT = pathlib.Path(__file__).resolve().parents[1]
BUILD = (ROOT / os.environ.get("BUILD", "build")).resolve()
TIDEMARK = str(BUILD / "tidemark")
WIRE, TRACES = ROOT / "fixtures" / "wire", ROOT / "fixtures" / "traces"
SEEDS = ROOT / "test" / "fuzz" / "seeds"
OUT = BUILD / "memcheck"
FINDING = 99
LIMIT = 7200
MEMCHECK = ["valgrind", "-q", f"--error-exitcode={FINDING}", "--leak-check=full",
            "--errors-for-leak-kinds=definite", "--track-fds=yes",
            f"--suppressions={ROOT}/test/memcheck.supp"]
# Where valgrind itself stands in the way: its own calls meet our filter of calls, as in sessions of the
# daemon; it executes /proc/self/exe as the wrong program, so the symbol helper does not start (below
# commands, neither, which then have fewer names); a spawn of what is not there succeeds.
NOT_UNDER_VALGRIND = ("test_server_guard", "test_symbols_helper", "test_symbols_addr2line")
# Until it exits, a capture keeps a thread that ends it on a signal, and that thread's descriptor.
KEPT_TO_THE_END = re.compile(r"stop_(init|watch|end_with) \(stop\.c:\d+\).* capture_run \(", re.S)


class Run:
    """A program under memcheck, in a folder of its own."""

    def __init__(self, name, *args, trace_children=False, stdin=None):
        self.name, self.dir, self.stdin = name, OUT / name, stdin
        self.args = [*MEMCHECK, f"--log-file={self.dir}/memcheck.%p",
                     *(["--trace-children=yes"] if trace_children else []), *map(str, args)]

    def start(self):
        self.dir.mkdir(parents=True, exist_ok=True)
        self.began = time.monotonic()
        with open(self.dir / "printed", "wb") as printed:
            self.process = subprocess.Popen(self.args, cwd=ROOT, stdout=printed,
                                            stderr=subprocess.STDOUT,
                                            stdin=self.stdin or subprocess.DEVNULL)
        return self.process

    def findings(self, statuses):
        """What memcheck has to say, and a status that was not expected. Descriptors that it was
        started with are nobody's fault, and a child of fork ends with what its parent had."""
        said = []
        for log in sorted(self.dir.glob("memcheck.*")):
            lines = collections.defaultdict(list)
            for pid, line in re.findall(r"(?m)^==(\d+)== ?(.*)", log.read_text(errors="replace")):
                lines[int(pid)].append(line)
            for pid, of_process in lines.items():
                for text in re.split(r"\n\s*\n", "\n".join(of_process)):
                    text = re.sub(r"FILE DESCRIPTORS: .*", "", text).strip()
                    held = text.startswith("Open ") or "lost in loss record" in text
                    if text and not (held and (pid != self.process.pid or
                                               "<inherited from parent>" in text or
                                               KEPT_TO_THE_END.search(text))):
                        said.append(f"process {pid}: {text}")
        if self.process.returncode not in statuses:
            said.append(f"exit status {self.process.returncode}")
        return said

    def said(self, pattern):
        """What it prints, as soon as it does; None when it ends before."""
        while not (found := re.search(pattern, (self.dir / "printed").read_text())):
            if self.process.poll() is not None:
                return None
            time.sleep(0.2)
        return found[1]

    def end(self, statuses=(0,)):
        try:
            self.process.wait(timeout=LIMIT)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        said = self.findings(statuses)
        first = (f"{'FINDING' if said else 'ok     '} {self.name}, "
                 f"{time.monotonic() - self.began:.0f} s")
        print("\n".join([first, *said])[:6000] + "\n", end="", flush=True)
        return not said


def run(name, *args, statuses=(0,), **how):
    program = Run(name, *args, **how)
    program.start()
    return program.end(statuses)


def tidemark(name, *args, **how):
    return run(name, TIDEMARK, *args, **how)


# ---- the commands

@contextlib.contextmanager
def replaying(recording, *args):
    """A client, not under memcheck; gives its port."""
    client = subprocess.Popen([TIDEMARK, "replay", str(recording), "-p", "0", *args],
                              stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    try:
        yield int(re.search(r":(\d+)\s*$", client.stdout.readline())[1])
    finally:
        client.kill()
        client.communicate()


def capture(name, recording, *args, **how):
    with replaying(recording) as port:
        return tidemark(name, "capture", "-o", OUT / name / "x.tracy", "-p", port, *args, **how)


def captures():
    """(name, what to call) of all that records."""
    for release in sorted(p.name for p in WIRE.iterdir()):
        for scene in "allscen", "memscen":
            recording = WIRE / release / f"{scene}.c2s.bin"
            yield f"capture-{release}-{scene}", lambda n, r=recording: capture(n, r)
    recording = WIRE / "v0.14.0" / "allscen.c2s.bin"
    for name, args in {"rotate": ["--rotate", "5K"], "keep-last": ["--keep-last", "10K"],
                       "limit": ["--memory-limit", "400M"], "buffer": ["--buffer", "1M"],
                       "no-journal": ["--no-journal"], "max-size": ["--max-size", "20K"],
                       "server": ["--symbols", "server"]}.items():
        yield f"capture-{name}", lambda n, a=args: capture(n, recording, *a)
    yield "recover", recover
    yield "daemon", daemon
    yield "run", lambda n: tidemark(n, "run", "-o", OUT / n / "x.tracy", "--", "sort", "README.md")
    yield "run-listen", lambda n: tidemark(n, "run", "--listen", "--port", "0", "-o",
                                           OUT / n / "x.tracy", "--", "sort", "README.md")
    # With the program, and our library in it; behind its hooks is valgrind's own malloc.
    yield "run-program", lambda n: tidemark(n, "run", "-o", OUT / n / "x.tracy", "--",
                                            BUILD / "bench" / "churn", "20000", trace_children=True)
    yield "replay", replay


def recover(name):
    """The journal of a capture that was killed."""
    folder = OUT / f"{name}-journal"
    folder.mkdir()
    recording = WIRE / "v0.14.0" / "allscen.c2s.bin"
    with replaying(recording, "--hold", "--rate", "100K") as port:
        killed = subprocess.Popen([TIDEMARK, "capture", "-o", str(folder / "x.tracy"), "-p",
                                   str(port)], stdout=subprocess.DEVNULL)
        journal = folder / "x.tracy.journal"
        while sum(f.stat().st_size for f in journal.glob("*")) < 50000:
            time.sleep(0.05)
        killed.kill()
        killed.wait()
    return tidemark(name, "recover", "--keep", journal)


def replay(name):
    player = Run(name, TIDEMARK, "replay", WIRE / "v0.12.2" / "memscen.c2s.bin", "-p", "0")
    player.start()
    if port := player.said(r":(\d+)\s*$"):
        subprocess.run([TIDEMARK, "capture", "-o", str(OUT / name / "x.tracy"), "-p", port],
                       stdout=subprocess.DEVNULL, check=True)
    return player.end()


def free_port():
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def daemon(name):
    """Asked over HTTP about traces that are there. No client, sink or page: those are processes behind
    a filter of calls and limits that valgrind does not keep to."""
    folder = OUT / name / "traces"
    run = Run(name, TIDEMARK, "daemon", "-o", folder, "-p", free_port(), "--local", "--http",
              "127.0.0.1:0", "--alert", "live_bytes>1")
    folder.mkdir(parents=True)
    shutil.copy(TRACES / "v0.14.0" / "memscen.tracy", folder)
    run.start()
    at = run.said(r"port (\d+) of 127\.0\.0\.1")
    for path in ("", "healthz", "metrics", "openapi.json", "api/v1/status", "api/v1/traces",
                 "traces/memscen.tracy", "api/v1/clients/1/tree", "../etc/passwd", "nothing"):
        with contextlib.suppress(urllib.error.HTTPError):
            urllib.request.urlopen(f"http://127.0.0.1:{at}/{path}").read()
    run.process.send_signal(signal.SIGTERM)
    return run.end()


def questions(trace, other):
    """name: arguments, of what only reads a trace."""
    yield from ((f"report-{f}", ["report", trace, "--format", f])
                for f in ("text", "json", "csv", "html", "markdown"))
    yield from ((f"report-by-{by}", ["report", trace, "--by", by, "--stack-traces"])
                for by in ("site", "function", "callstack", "type", "pool", "thread", "zone", "frame"))
    for what in ("--peak", "--leaks", "--histograms", "--patterns", "--faults", "--related"):
        for f in "text", "json":
            yield f"report{what[1:]}-{f}", ["report", trace, what, "--format", f]
    yield "report-grown", ["report", trace, "--grown", "1ms:100ms"]
    yield "report-range", ["report", trace, "--range", "1ms:100ms", "--match", "main"]
    yield "report-junit", ["report", trace, "--format", "junit", "--fail-if", "peak>1T"]
    yield "report-memory", ["report", trace, "--memory", "1M", "--format", "csv"]
    yield from ((f"tree-by-{by}", ["tree", trace, "--bottom-up", "--by", by])
                for by in ("function", "line", "file", "image", "module", "thread", "type"))
    yield from ((f"tree-{f}", ["tree", trace, "--format", f])
                for f in ("text", "json", "csv", "markdown"))
    yield from ((f"find-{f}", ["find", trace, "0x1000-0xffffffffffff", "--format", f])
                for f in ("text", "json", "csv"))
    yield "find-at", ["find", trace, "0x7f0000000000", "--at", "50ms", "--stack-traces"]
    for f in "text", "json", "csv", "svg", "png":
        yield f"map-{f}", ["map", trace, "--format", f, "-o", "OUT"]
        yield f"timeline-{f}", ["timeline", trace, "--format", f, "-o", "OUT"]
    yield from ((f"diff-{f}", ["diff", other, trace, "--format", f, "--by", by])
                for f, by in (("text", "site"), ("json", "callstack"), ("csv", "type"),
                              ("markdown", "site"), ("junit", "site")))
    yield from ((f"info-{f}", ["info", trace, "--format", f]) for f in ("text", "json"))
    yield from ((f"verify-{f}", ["verify", trace, "--format", f, "--require-callstacks", "--expect",
                                 "peak<1T"]) for f in ("text", "json"))
    yield from ((f"dump-{f}", ["dump", trace, "--all", "--format", f]) for f in ("text", "jsonl"))
    yield "dump-common", ["dump", trace, "--common", "0.9.0"]
    yield from ((f"csvexport{mode}", ["csvexport", *([mode] if mode else []), trace])
                for mode in ("", "-u", "-g", "-m", "-up", "-et", "--memory", "--memory-sites",
                             "--callstacks"))
    yield from ((f"export-{f}", ["export", trace, "--format", f, "-o", "OUT"])
                for f in ("folded", "pprof", "speedscope", "sqlite", "parquet", "tsv", "ndjson",
                          "chrome"))
    yield "push", ["push", "--sink", "files=OUT", trace]
    yield "symbols", ["symbols", trace, "--images-from-trace", "-o", "OUT"]


def rewrites(trace, other):
    yield from ((f"update-strip-{flags}", ["update", "-s", flags, trace, "OUT"])
                for flags in ("M", "lmpicsCS"))
    yield "update-range", ["update", "--range", "1ms:100ms", trace, "OUT"]
    yield "update-pools", ["update", "--drop-pools", "default", trace, "OUT"]
    yield from ((f"update-to-{v}", ["update", "--trace-version", v, trace, "OUT"])
                for v in ("0.9.0", "0.14.0"))
    yield from ((f"update{flag}", ["update", flag, trace, "OUT"]) for flag in ("-4", "-h", "-rR", "-dc"))
    yield "update-streams", ["update", "-j", "4", "-z", "3", trace, "OUT"]
    yield "merge", ["merge", "OUT", trace, other]


def readers():
    trace, old = TRACES / "v0.14.0" / "allscen.tracy", TRACES / "v0.9.1" / "allscen.tracy"
    memory = TRACES / "v0.14.0" / "memscen_mt.tracy"
    named = {}
    for label, a, b in ("new", trace, memory), ("old", old, trace), ("memory", memory, trace):
        for name, args in (*questions(a, b), *rewrites(a, b)):
            named[f"{name}-{label}"] = args
    churn = BUILD / "bench" / "churn"
    address = re.search(r"^([0-9a-f]+) . main$", subprocess.run(
        ["nm", churn], capture_output=True, text=True, check=True).stdout, re.M)[1]
    named["symbolize"] = ["symbolize", churn, address]
    named["modules"] = ["modules", str(os.getpid())]
    named["annotate"] = ["annotate", trace, "main"]
    for kind in "chrome", "heaptrack":
        for seed in sorted((SEEDS / f"fuzz_import_{kind}").glob("*")):
            named[f"import-{kind}-{seed.name}"] = ["import", "--format", kind, seed, "OUT"]
    for name, args in named.items():
        yield name, lambda n, a=args: tidemark(
            n, *(str(x).replace("OUT", str(OUT / n / "out")) for x in a), statuses=(0, 1, 3))


def jobs_of(only):
    if only != "commands":
        for path in sorted((BUILD / "test" / "unit").glob("test_*")):
            if not path.suffix and path.name not in NOT_UNDER_VALGRIND:
                yield path.name, lambda n, p=path: run(n, p)
    if only != "unit":
        yield from captures()
        yield from readers()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", choices=("unit", "commands"))
    parser.add_argument("--pattern", default="")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    options = parser.parse_args()
    shutil.rmtree(OUT, ignore_errors=True)
    OUT.mkdir(parents=True)
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        results = list(pool.map(lambda job: job[1](job[0]),
                                [j for j in jobs_of(options.only) if options.pattern in j[0]]))
    print(f"{len(results)} runs under memcheck, {results.count(False)} with findings")
    return 1 if not all(results) or not results else 0


if __name__ == "__main__":
    sys.exit(main())
