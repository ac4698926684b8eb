#!/usr/bin/env python3
"""A fleet to try questions on: runs of a renderer in 20 builds on three kinds of hosts, pushed with
build and host as labels.

    usage: make_fleet.py TIDEMARK SINK [TRACES]

TIDEMARK is the program, SINK what `tidemark push --sink` takes, TRACES how many in all (1000). From
build-13 on, decode_texture keeps three times what it kept before, and on an l40 build_mesh leaks.
The questions beside this file, for ClickHouse and for DuckDB, find that out.
"""

import pathlib
import random
import subprocess
import sys
import tempfile

BUILDS = 20
RAISED_BY = 13
HOSTS = ("a100", "h100", "l40")
SITES = (("parse_scene", "scene.cpp", 40), ("decode_texture", "texture.cpp", 120),
         ("build_mesh", "mesh.cpp", 77), ("main", "main.cpp", 9))


def recording(build, host, chance):
    """What heaptrack writes of a run: strings, code addresses, call stacks, sizes, then events."""
    lines = ["v 10500 3", f"X ./renderer --build {build}", "I 1000 100"]
    texts = ["renderer"] + [text for site in SITES for text in site[:2]]
    lines += [f"s {len(text):x} {text}" for text in texts]
    lines += [f"i {0x1000 + i:x} 1 {2 + 2 * i:x} {3 + 2 * i:x} {site[2]:x}"
              for i, site in enumerate(SITES)]
    lines += ["t 4 0"] + [f"t {i + 1:x} 1" for i in range(3)]  # each called by main
    kept = [4096, 65536 * (3 if build >= RAISED_BY else 1), 16384]
    lines += [f"a {size + 16 * chance.randrange(64):x} {i + 2:x}" for i, size in enumerate(kept)]
    for frame in range(40):
        lines.append(f"c {frame:x}")
        live = chance.choices(range(3), weights=(4, 1, 2), k=24)
        lines += [f"+ {which:x}" for which in live]
        leaks = 0.5 if host == "l40" else 0.03
        lines += [f"- {which:x}" for which in live
                  if chance.random() >= (leaks if which == 2 else 0.03)]
    return "\n".join(lines) + "\n"


def main():
    tidemark, sink, *rest = sys.argv[1:]
    each = max(1, int(rest[0] if rest else 1000) // BUILDS)
    chance = random.Random(1)
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        for build in range(BUILDS):
            for host in HOSTS:
                traces = []
                for run in range(HOSTS.index(host), each, len(HOSTS)):
                    text = folder / "heaptrack"
                    trace = folder / f"build-{build:02}.{run}.tracy"
                    text.write_text(recording(build, host, chance))
                    subprocess.run([tidemark, "import", text, trace], check=True,
                                   stdout=subprocess.DEVNULL)
                    traces.append(trace)
                if traces:
                    subprocess.run([tidemark, "push", "--sink", sink, "--label",
                                    f"build=build-{build:02}", "--label", f"host={host}", *traces],
                                   check=True, stdout=subprocess.DEVNULL)
                for trace in traces:
                    trace.unlink()


main()
