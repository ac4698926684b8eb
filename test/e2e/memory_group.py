"""A memory cgroup of our own, of either version, with a limit that the kernel enforces: what a
process takes beyond it is taken back from its files' pages, and at last the process is killed."""

import contextlib
import os
import pathlib
import tempfile

from tools import wait_until

ROOT = pathlib.Path("/sys/fs/cgroup")


class NoGroups(Exception):
    """Why none can be made here."""


def parents():
    """(folder in which a group could be made, name of the file with the limit, of that with the
    most that was used): of ours, its parents first, since version 2 wants no processes beside."""
    for line in pathlib.Path("/proc/self/cgroup").read_text().splitlines():
        number, controllers, path = line.split(":", 2)
        if "memory" in controllers.split(","):
            yield (ROOT / "memory" / path.lstrip("/"), "memory.limit_in_bytes",
                   "memory.max_usage_in_bytes")
        elif number == "0" and (ROOT / "cgroup.controllers").exists():
            for own in (ROOT / path.lstrip("/"), *(ROOT / path.lstrip("/")).parents):
                if own.is_relative_to(ROOT):
                    yield own, "memory.max", "memory.peak"


def sweep(parent):
    """Removes what tests that were killed have left. A group with processes stays."""
    for folder in parent.glob("tidemark-*-*"):
        pid = folder.name.split("-")[1]
        if pid.isdigit() and not pathlib.Path(f"/proc/{pid}").exists():
            with contextlib.suppress(OSError):
                folder.rmdir()


class MemoryGroup:
    """Use it as `with MemoryGroup(bytes) as group`, and start processes in it with group.command."""

    def __init__(self, limit):
        why = "no memory cgroup here"
        for parent, self.limit, self.peak in parents():
            sweep(parent)
            try:
                self.folder = pathlib.Path(tempfile.mkdtemp(prefix=f"tidemark-{os.getpid()}-", dir=parent))
            except OSError as e:
                why = f"no memory cgroup can be made: {e}"
                continue
            try:
                with open(self.folder / self.limit, "r+") as file:  # a folder of a tmpfs has none
                    file.write(str(limit))
                self.forbid_swap()
                return
            except OSError as e:
                why = f"a memory cgroup cannot be limited: {e}"
                self.folder.rmdir()
        raise NoGroups(why)

    def forbid_swap(self):
        """Where there is some; else a limit would hold by it."""
        with contextlib.suppress(OSError):
            if self.limit == "memory.max":
                (self.folder / "memory.swap.max").write_text("0")
            else:
                (self.folder / "memory.swappiness").write_text("0")

    def command(self, *args):
        """A command line that does the same inside."""
        return ["sh", "-c", 'echo $$ > "$0" && exec "$@"', str(self.folder / "cgroup.procs"),
                *map(str, args)]

    def most(self):
        """Bytes, pages of files included. 0 where the kernel does not say."""
        try:
            return int((self.folder / self.peak).read_text())
        except OSError:
            return 0

    def __enter__(self):
        return self

    def __exit__(self, *_):
        """Its processes have ended, or do so: the kernel kills some, a daemon's sampler for one,
        when their parent has ended."""
        def removed():
            with contextlib.suppress(OSError):
                self.folder.rmdir()
            return not self.folder.exists()
        wait_until(removed, f"{self.folder} has processes")
