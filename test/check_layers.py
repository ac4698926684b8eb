#!/usr/bin/env python3
"""Holds every #include against the table of who may include whom (ARCHITECTURE.md)."""

import pathlib
import re
import sys

MAY = {
    "base": {"base"},
    "protocol": {"base", "protocol"},
    "trace": {"base", "trace", "protocol/event.h"},
    "import": {"base", "import", "trace", "protocol/event.h"},
    "recording": {"base", "recording", "trace", "protocol/event.h", "client/record.h"},
    "symbols": {"base", "symbols"},
    "analysis": {"base", "trace", "analysis"},
    "report": {"base", "analysis", "report"},
    "lib": {"base", "trace", "analysis", "report", "lib", "include"},
    "mcp": {"base", "mcp", "include"},
    "server": {"base", "protocol", "trace", "symbols", "analysis", "report", "server",
               "client/record.h"},
    "cli": {"base", "protocol", "trace", "symbols", "analysis", "report", "server", "import",
            "recording", "client/record.h", "mcp", "cli"},
    "client": {"client", "include/tidemark.h"},
    "bench": {"base", "protocol", "trace", "symbols", "analysis", "report", "server", "bench"},
}
# Wire and symbol code that must stay a pure function of its input.
NO_SOCKETS = {"protocol", "trace", "import", "recording", "symbols", "analysis", "report", "base",
              "lib", "mcp"}
SOCKET_HEADERS = {"sys/socket.h", "netinet/in.h", "netdb.h", "arpa/inet.h"}
# Processes of one program talk over socket pairs; an address has no place there.
PAIRS_ONLY = {("symbols", "sys/socket.h")}
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')


# The C library, the kernel and the compiler; no other library.
CLIENT_MAY = re.compile(r"""(asm|linux|netinet|sys)/.*|(cpuid|dlfcn|elf|errno|fcntl|link|malloc|math|poll|
    pthread|sched|signal|spawn|stdarg|stdatomic|stdbool|stddef|stdint|stdlib|string|time|
    unistd)\.h""", re.VERBOSE)


def allowed(folder, target):
    return target.split("/")[0] in MAY[folder] or target in MAY[folder]


def check_line(path, number, line):
    match = INCLUDE.match(line)
    if not match:
        return None
    quoted, target = match[1] == '"', match[2]
    folder = path.parts[0]
    if quoted and not allowed(folder, target):
        return f"{path}:{number}: {folder} must not include {target}"
    if not quoted and folder == "client" and not CLIENT_MAY.fullmatch(target):
        return f"{path}:{number}: client must not use {target}"
    if (not quoted and folder in NO_SOCKETS and target in SOCKET_HEADERS
            and (folder, target) not in PAIRS_ONLY):
        return f"{path}:{number}: {folder} must not use sockets ({target})"
    return None


def main():
    faults = []
    for folder in MAY:
        for path in sorted(pathlib.Path(folder).rglob("*.[ch]")):
            for number, line in enumerate(path.read_text().splitlines(), 1):
                fault = check_line(path, number, line)
                if fault:
                    faults.append(fault)
    print("\n".join(faults) or "layers hold")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
