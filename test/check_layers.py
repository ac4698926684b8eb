#!/usr/bin/env python3
"""Holds every #include against the table of who may include whom (ARCHITECTURE.md), the table against
its own order, and the folders against their size; basenames are unique in the tree. No files call each
other in circles. Each folder has a README.md, and the files and functions that it names exist."""

import pathlib
import re
import sys

# From the ground up: a folder may include from the folders and headers named here, all of which come
# before it. A name in GROUPS covers the subfolders, too.
MAY = {
    "base": "",
    "protocol": "base",
    "trace/file": "base",
    "trace/store": "base trace/file protocol/event.h",
    "proc": "base trace/store/page_look.h trace/store/kernel_plot.h trace/store/limit_watch.h protocol/event.h",
    "trace/ingest": "base trace/store protocol/event.h",
    "trace/load": "base trace/file trace/store",
    "trace/filter": "base trace/file trace/store",
    "trace/save": "base trace/file trace/store trace/filter",
    "trace/merge": "base trace/file trace/store trace/filter",
    "import": "base trace/store trace/ingest",
    "symbols/pdb": "base",
    "symbols/elf": "base symbols/pdb",
    "symbols/dwarf": "base symbols/elf",
    "symbols/index": "base symbols/elf symbols/dwarf symbols/pdb",
    "symbols/place": "base symbols/elf",
    "symbols": "base symbols/elf symbols/index symbols/place",
    "symbols/helper": "base symbols symbols/elf symbols/place",
    "analysis/names": "base trace/file trace/store",
    "analysis/figures": "base trace/file trace/store trace/ingest trace/load analysis/names",
    "analysis/code": "base trace/file trace/store analysis/names analysis/figures",
    "analysis/questions": "base trace/file trace/store trace/load analysis/names "
                          "analysis/figures analysis/code",
    "analysis/diff": "base trace/store analysis/names analysis/figures analysis/code",
    "analysis/runs": "base trace/store analysis/figures analysis/questions analysis/diff",
    "analysis/tables": "base trace/file trace/store trace/ingest trace/load analysis/names "
                       "analysis/figures analysis/questions",
    "analysis/dump": "base trace/file trace/store trace/filter",
    "analysis/csvexport": "base trace/file trace/store analysis/names analysis/tables",
    "analysis/html": "base trace/file trace/store analysis/names analysis/figures analysis/code "
                     "analysis/questions analysis/diff",
    "report/write": "base trace/store analysis/names analysis/figures",
    "report": "base analysis report/write",
    "report/picture": "base analysis/questions report/write",
    "report/export": "base analysis/questions analysis/tables report/write",
    "report/html": "base analysis/names analysis/figures analysis/diff analysis/html",
    "naming": "base trace/store trace/filter analysis/names analysis/figures analysis/code report/write symbols "
              "symbols/pdb symbols/elf symbols/index symbols/place symbols/helper",
    "server/net": "base protocol",
    "server/guard": "base proc symbols symbols/place",
    "server/capture": "base protocol proc trace symbols symbols/place analysis/names "
                      "analysis/figures analysis/questions analysis/html report report/write report/html naming "
                      "server/net server/guard",
    "server/sinks": "base analysis/tables report/export server/net",
    "server/daemon": "base protocol trace/file symbols analysis/questions report/write report/html "
                     "server/net server/guard server/capture server/sinks",
    "lib": "base trace analysis report include",
    "client": "include/tidemark.h",
    "run/recording": "base trace/store trace/ingest client/recording_format.h",
    "run": "base protocol proc trace symbols/elf analysis/figures analysis/questions report naming "
           "server/net server/capture run/recording client/recording_format.h",
    "mcp": "base include",
    "cli/options": "base proc trace symbols/index analysis/names analysis/figures "
                   "analysis/questions report report/picture report/html naming server/net "
                   "server/capture server/daemon run",
    "cli": "base protocol trace import symbols symbols/place symbols/helper analysis report "
           "naming server run mcp cli/options client/recording_format.h",
    "cli/selftest": "base protocol symbols symbols/index report/html naming server/net run cli cli/options",
    "cli/top": "base trace/save analysis/figures analysis/questions report server/net "
               "server/capture cli cli/options",
    "cli/view": "base trace/load analysis/figures report/html cli cli/options",
    "bench": "base protocol trace symbols/elf symbols/index analysis report/export server/sinks "
             "server/capture",
}
GROUPS = {"trace", "analysis", "report", "server"}
FILES_MAX = 60
GUIDE_MAX = 25  # lines of a folder's README.md
ROOT = pathlib.Path()  # where make runs this
# Wire and symbol code that must stay a pure function of its input.
NO_SOCKETS = {"protocol", "trace", "import", "symbols", "analysis", "naming", "report", "base", "lib",
              "mcp"}
SOCKET_HEADERS = {"sys/socket.h", "netinet/in.h", "netdb.h", "arpa/inet.h"}
# Processes of one program talk over socket pairs; an address has no place there.
PAIRS_ONLY = {("symbols", "sys/socket.h")}
GUIDE_FILE = re.compile(r"(?<![\w/])(?:[\w-]+/)*[\w-]+\.(?:awk|c|h|js|map|md|py|tsv)\b")
WORD = re.compile(r"(?<![\w.>])(?<!struct )(?<!enum )[a-z]\w+")
FUNCTION = re.compile(r"^(static |_Noreturn static )?(?:_Noreturn )?[a-z][\w *]*?\b(\w+)"
                      r"\([^;{}]*\)\n\{", re.M)
NO_CODE = re.compile(r'/\*.*?\*/|"(?:[^"\\\n]|\\.)*"|^#[^\n]*', re.M | re.S)
# It and its subfolders are one layer: its hooks stand in for functions of the C library, which the
# rest of it calls.
GUEST = "client"
INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')


# The C library, the kernel and the compiler; no other library.
CLIENT_MAY = re.compile(r"""(asm|linux|netinet|sys)/.*|(cpuid|dlfcn|elf|errno|fcntl|link|malloc|math|poll|
    pthread|sched|signal|spawn|stdarg|stdatomic|stdbool|stddef|stdint|stdlib|string|time|ucontext|
    unistd)\.h""", re.VERBOSE)


def covers(name, folder):
    return folder == name or (name in GROUPS and folder.startswith(name + "/"))


def is_guest(folder):
    return folder == GUEST or folder.startswith(GUEST + "/")


def layer(folder):
    return GUEST if is_guest(folder) else folder


def folders():
    """Those of the table, and the guest's."""
    return [*MAY, *sorted({str(path.parent) for path in pathlib.Path(GUEST).glob("*/*.[ch]")})]


def allowed(folder, target):
    where = layer(target.rpartition("/")[0])
    return where == folder or any(target == name or covers(name, where)
                                  for name in MAY[folder].split())


def check_line(path, number, line):
    match = INCLUDE.match(line)
    if not match:
        return None
    quoted, target = match[1] == '"', match[2]
    folder, room = layer(str(path.parent)), path.parts[0]
    if quoted and not allowed(folder, target):
        return f"{path}:{number}: {folder} must not include {target}"
    if not quoted and folder == GUEST and not CLIENT_MAY.fullmatch(target):
        return f"{path}:{number}: client must not use {target}"
    if (not quoted and room in NO_SOCKETS and target in SOCKET_HEADERS
            and (room, target) not in PAIRS_ONLY):
        return f"{path}:{number}: {room} must not use sockets ({target})"
    return None


def check_order():
    """Each folder names only such as come before it: so no two can include each other."""
    before = []
    for folder, names in MAY.items():
        for name in names.split():
            where = name.rpartition("/")[0] if name.endswith(".h") else name
            for later in set(MAY) - set(before):
                if covers(where, later):
                    yield f"check_layers.py: {folder} may include {name}, but {later} comes later"
        before.append(folder)


def check_folder(folder, stems):
    files = sorted(pathlib.Path(folder).glob("*.[ch]"))
    if len(files) > FILES_MAX:
        yield f"{folder}: {len(files)} source files, more than {FILES_MAX}"
    for path in files:
        if stems.setdefault(path.stem, folder) != folder:
            yield f"{path}: there is a {path.stem} in {stems[path.stem]}, too"
        for number, line in enumerate(path.read_text().splitlines(), 1):
            fault = check_line(path, number, line)
            if fault:
                yield fault


def unlisted():
    rooms = {folder.split("/")[0] for folder in MAY}
    for room in sorted(rooms):
        for folder in {str(path.parent)
                       for path in pathlib.Path(room).rglob("*.[ch]")} - set(folders()):
            yield f"{folder}: not in the table of check_layers.py"


def check_guide(folder, words):
    """A file is named by its path in the folder or in the tree. A word with an underscore is a
    function, a struct or a variable."""
    guide = pathlib.Path(folder, "README.md")
    if not guide.exists():
        yield f"{guide} is missing"
        return
    text = guide.read_text()
    lines = len(text.splitlines())
    if lines > GUIDE_MAX:
        yield f"{guide}: {lines} lines, more than {GUIDE_MAX}"
    for name in GUIDE_FILE.findall(text):
        if "NAME" not in name and not any((at / name).exists() for at in (guide.parent, ROOT)):
            yield f"{guide}: there is no {name}"
    for name in re.findall(r"`([a-z]+(?:_[a-z0-9]+)+)`", text):
        if name not in words:
            yield f"{guide}: there is no {name} in the sources"


def check_guides():
    rooms = {folder.split("/")[0] for folder in MAY}
    words = set()
    for room in rooms:
        for path in pathlib.Path(room).rglob("*.[ch]"):
            words.update(re.findall(r"\w+", path.read_text()))
    for folder in sorted({*folders(), *rooms, "include"}):
        yield from check_guide(folder, words)


def calls():
    """The files whose functions each file uses, by the names that they define."""
    texts, local, where = {}, {}, {}
    for folder in set(MAY) - {GUEST}:
        for path in pathlib.Path(folder).glob("*.c"):
            texts[path] = NO_CODE.sub("", path.read_text())
            local[path] = {name for static, name in FUNCTION.findall(texts[path]) if static}
            where.update({name: path for static, name in FUNCTION.findall(texts[path])
                          if not static and name != "main"})
    return {path: {where[word] for word in set(WORD.findall(text)) - local[path]
                   if word in where} - {path}
            for path, text in texts.items()}


def check_reading():
    """Only one file can call a static function, also if _Noreturn precedes its name."""
    for words in "static void", "static _Noreturn void", "_Noreturn static void":
        if not FUNCTION.findall(f"{words} become(int out)\n{{\n")[0][0]:
            yield f"check_layers.py: takes {words} for a function of all files"


def check_circles(uses):
    for path in sorted(uses):
        found, new = set(), {path}
        while new:
            new = set().union(*(uses[file] for file in new)) - found
            found |= new
        if path in found:
            yield f"{path}: calls in a circle"


def main():
    stems = {}
    faults = [*check_order(), *unlisted(), *check_guides(), *check_reading(),
              *check_circles(calls())]
    for folder in folders():
        faults += check_folder(folder, stems)
    print("\n".join(faults) or "layers hold")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
