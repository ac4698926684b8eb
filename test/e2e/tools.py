"""What the end-to-end tests share: the built program, temporary folders, replayed clients."""

import contextlib
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = ROOT / os.environ.get("BUILD", "build")
TIDEMARK = str(BUILD / "tidemark")
FIREHOSE = str(BUILD / "bench" / "firehose")
WIRE = ROOT / "fixtures" / "wire"
TRACES = ROOT / "fixtures" / "traces"
RELEASES = ("v0.9.1", "v0.10", "v0.11.1", "v0.12.2", "v0.13.1", "v0.14.0")
LIMIT = 900
# A sanitizer takes memory and system calls of its own. Its library is needed by version.
SANITIZED = re.search(rb"libasan\.so\.[0-9]", pathlib.Path(TIDEMARK).read_bytes()) is not None
EMULATED = bool(os.environ.get("EMULATED"))
# Everything, however long it takes: the long tier of the CI.
THOROUGH = bool(os.environ.get("FAULTS"))
# Of tests that run for minutes under sanitizers, and hardly enter code that others do not.
not_sanitized = unittest.skipIf(SANITIZED and not THOROUGH, "with sanitizers in the long tier of the CI")
SAMPLER, KEEPER = "tidemark-look", "tidemark-keep"  # of a daemon of root

# Under nohup, or in a script's background, signals come ignored; the tests send them.
signal.signal(signal.SIGHUP, signal.SIG_DFL)
signal.signal(signal.SIGINT, signal.default_int_handler)


# What whoever starts the tests has set is no part of them, nor are the names that were looked up
# before in his cache.
for variable in list(os.environ):
    if variable.startswith(("TIDEMARK_", "TRACY_", "DEBUGINFOD_", "CLICKHOUSE_")) or \
            variable in ("NO_COLOR", "NOTIFY_SOCKET"):
        del os.environ[variable]
CACHE = tempfile.TemporaryDirectory(prefix="tidemark-")
os.environ["XDG_CACHE_HOME"] = CACHE.name
# A proxy that the machine has is not asked for the loopback.
os.environ["no_proxy"] = os.environ["NO_PROXY"] = "127.0.0.1,localhost"


def shared_library(name):
    """Where the dynamic linker finds it; None: it is not installed."""
    listed = subprocess.run([shutil.which("ldconfig") or "/sbin/ldconfig", "-p"],
                            stdout=subprocess.PIPE, text=True).stdout
    found = re.search(rf"\t{re.escape(name)} .*=> (\S+)", listed)
    return found[1] if found else None


def preloaded(library):
    """The environment that loads it before a program, also before AddressSanitizer."""
    return {"LD_PRELOAD": str(library), "ASAN_OPTIONS": "verify_asan_link_order=0"}


def run(*args, **kwargs):
    """Runs the program to its end. Output is text; the status is not checked."""
    kwargs.setdefault("timeout", LIMIT)
    return subprocess.run([TIDEMARK, *map(str, args)], stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True, errors="replace",
                          stdin=subprocess.DEVNULL, **kwargs)


def page_built():
    """Whether the program has the page of `report --format html`."""
    return "without the page" not in run("report", TRACES / "v0.14.0" / "memscen_mt.tracy",
                                         "--format", "html", "--by", "site").stderr


UNBUILT = "the page is not built: no node and npm"


def report(trace, *args):
    """`report --format json` as an object."""
    result = run("report", trace, "--format", "json", *args)
    if result.returncode != 0:
        raise AssertionError(f"report {trace}: {result.stderr}")
    return json.loads(result.stdout)


@contextlib.contextmanager
def replaying(recording, *args):
    """A replayed client on a free port of the loopback; gives (process, port)."""
    process = subprocess.Popen([TIDEMARK, "replay", str(recording), "-p", "0", *map(str, args)],
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        line = process.stdout.readline()
        match = re.search(r":(\d+)\s*$", line)
        if not match:
            raise AssertionError(f"replay said {line!r}: {process.stderr.read()}")
        yield process, int(match[1])
    finally:
        process.kill()
        process.communicate()


HELD = []  # ports that are given out, for as long as this process runs


def free_port(kind=socket.SOCK_STREAM, address="127.0.0.1"):
    """A port that nobody else is given while this process runs, and that nobody answers at until a
    program listens there. Such a program must allow that the address is in use (SO_REUSEADDR)."""
    s = socket.socket(socket.AF_INET, kind)
    s.bind((address, 0))
    s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    HELD.append(s)
    return s.getsockname()[1]


class Case(unittest.TestCase):
    """A test with a folder of its own that is gone afterwards."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory(prefix="tidemark-")
        self.addCleanup(folder.cleanup)
        self.dir = pathlib.Path(folder.name)

    def capture(self, recording, output, *args, replay_args=()):
        """Replays a recording to `capture`. Gives the finished capture."""
        with replaying(recording, *replay_args) as (_, port):
            return run("capture", "-o", output, "-p", port, "--connect-timeout", LIMIT, *args)

    def assert_clean(self, *names):
        """The folder holds exactly these files: nothing half-written is left."""
        self.assertEqual(sorted(os.listdir(self.dir)), sorted(names))


def wait_until(holds, what="nothing happened"):
    """Waits for a condition: a test on a busy machine takes longer, and does not fail."""
    end = time.monotonic() + LIMIT
    while not holds():
        if time.monotonic() > end:
            raise AssertionError(what)
        time.sleep(0.02)


def remove_folder(folder):
    """Also one in which a program makes and renames files meanwhile."""
    def removed():
        with contextlib.suppress(OSError):
            shutil.rmtree(folder)
            return True
        return False
    wait_until(removed, f"{folder} is there")


def without_code(markdown):
    """What of it may act as markup."""
    return re.sub("`[^`\n]*`", "", markdown)


def wait_for(process, text):
    """Reads what a process prints until `text` has come; gives that."""
    said = ""
    while text not in said:
        piece = os.read(process.stdout.fileno(), 4096).decode(errors="replace")
        if not piece:
            raise AssertionError(f"{text!r} never came: {said} {process.stderr and process.stderr.read()}")
        said += piece
    return said


def listens(process, port, protocol="udp"):
    """Whether a process has a socket on that port."""
    inodes = set()
    for version in ("", "6"):
        with open(f"/proc/net/{protocol}{version}") as table:
            for row in table.readlines()[1:]:
                fields = row.split()
                if int(fields[1].rsplit(":", 1)[1], 16) == port:
                    inodes.add(f"socket:[{fields[9]}]")
    fds = f"/proc/{process.pid}/fd"
    with contextlib.suppress(OSError):
        for fd in os.listdir(fds):
            with contextlib.suppress(OSError):
                if os.readlink(f"{fds}/{fd}") in inodes:
                    return True
    return False


def children(process):
    """The processes that it started and that are there: a daemon's sessions."""
    return [pid for pid in all_children(process.pid) if name_of(pid) not in (SAMPLER, KEEPER)]


def all_children(pid):
    path = pathlib.Path(f"/proc/{pid}/task/{pid}/children")
    return [int(child) for child in path.read_text().split()]


def name_of(pid):
    """None: it is gone, or nothing but its exit status is left."""
    with contextlib.suppress(OSError):
        name, rest = pathlib.Path(f"/proc/{pid}/stat").read_text().split("(", 1)[1].rsplit(")", 1)
        return None if rest.split()[0] == "Z" else name
    return None


def end_daemon(process):
    """Ends a daemon with its sessions, which else go on, in a folder that is being removed."""
    process.terminate()
    with contextlib.suppress(subprocess.TimeoutExpired):
        process.communicate(timeout=LIMIT)
    process.kill()
    process.communicate()


def interrupt(process, number=signal.SIGINT):
    process.send_signal(number)
    return process.communicate(timeout=LIMIT)
