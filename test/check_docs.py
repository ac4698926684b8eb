#!/usr/bin/env python3
"""Holds the documents against the program in $BUILD: every command has a man page with all its
options and no others, the README lists every command, the options that README.md and docs/*.md show
exist, docs/facts.md and tidemark(1) have every fact that the code writes, the table of folders is
the one that check_layers.py enforces, each item of a client and record of a file has a bound in
docs/expansion.md, files that documents name exist, the pages of formats have every record and
schema, no text has the phrases that check_prose.py refuses, and mandoc finds no fault."""

import os
import pathlib
import re
import shutil
import subprocess
import sys

import check_layers
import check_prose

ROOT = pathlib.Path(__file__).resolve().parents[1]
TIDEMARK = ROOT / os.environ.get("BUILD", "build") / "tidemark"
PAGELESS = {"help", "version"}


def read(path):
    return (ROOT / path).read_text()


def table_names(name):
    """The first strings of the rows of a table in cli/main.c."""
    body = re.search(rf"{name}\[\] = \{{(.*?)^\}};", read("cli/main.c"), re.S | re.M)[1]
    return re.findall(r'^\s*\{"([^"]+)"', body, re.M)


def usage_text(command):
    return subprocess.run([TIDEMARK, command, "--help"], stdout=subprocess.PIPE, text=True,
                          check=True).stdout


def shown_options(text):
    """Options that a usage text explains: one line each, `-f, --force` counts as two."""
    rows = re.findall(r"^ {2,}(-\w\b)?(?:, )?(--[a-z][a-z_-]*)?", text, re.M)
    return {option for row in rows for option in row if option}


def paged_options(text):
    """Options that a page explains, from its list items."""
    items = re.findall(r"^\.It (Fl .*)$", text, re.M)
    return {"-" + flag for item in items for flag in re.findall(r"(?:Fl|,) (-?[\w][\w-]*)", item)}


def check_page(command):
    page = f"man/tidemark-{command}.1"
    if not (ROOT / page).exists():
        yield f"{page} is missing"
        return
    program, text = shown_options(usage_text(command)), read(page)
    if "--help" not in program:
        yield f"`tidemark {command} --help`: no list of options found"
    for option in sorted(program - paged_options(text)):
        yield f"{page}: {option} is missing"
    for option in sorted(paged_options(text) - program):
        yield f"{page}: {option} is not in `tidemark {command} --help`"
    for section in ("NAME", "SYNOPSIS", "DESCRIPTION", "EXIT STATUS", "SEE ALSO"):
        if f".Sh {section}\n" not in text:
            yield f"{page}: no section {section}"


def check_names(commands):
    overview, readme = read("man/tidemark.1"), read("README.md")
    see_also = overview.split(".Sh SEE ALSO\n")[1]
    for command in commands:
        if f".It Ic {command}\n" not in overview:
            yield f"man/tidemark.1: the command {command} is missing"
        if command not in PAGELESS and f".Xr tidemark-{command} 1 ," not in see_also:
            yield f"man/tidemark.1: {command} is not under SEE ALSO"
        if f"`tidemark {command}" not in readme:
            yield f"README.md: the command {command} is missing"
    for name in table_names("drop_ins"):
        if not re.search(rf"^\.It Nm .*\b{name}\b", overview, re.M):
            yield f"man/tidemark.1: the drop-in name {name} is missing"
        if not re.search(rf"^(DROP_INS|COMPAT)\b.*[ =]{name}( |$)", read("Makefile"), re.M):
            yield f"Makefile: the drop-in name {name} is not installed"


def command_lines(text):
    """(command, arguments) of the command lines in blocks and spans of code, up to `--`, pipe or
    redirection; the command is None for a span that is only an option."""
    blocks = re.findall(r"^```\w*\n(.*?)^```", text, re.M | re.S)
    spans = re.findall(r"`([^`\n]+)`", re.sub(r"^```.*?^```", "", text, flags=re.M | re.S))
    for block in [re.sub(r"\\\n>?", "", block) for block in blocks] + spans:
        for line in block.splitlines():
            for name, rest in re.findall(r"\btidemark ([a-z]+)\b([^|;>&]*)", line):
                yield name, re.split(r" -- |\s#", re.sub(r"'[^']*'", "''", rest))[0]
            if line.startswith("--"):
                yield None, line


def check_user_options(commands):
    """The options in command lines of README.md and docs/*.md are options of that command. One that
    is alone in a span is an option of some command."""
    options = {command: shown_options(usage_text(command)) for command in commands}
    options[None] = set().union(*options.values())
    for page in [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]:
        for command, rest in command_lines(page.read_text()):
            for option in re.findall(r"(?<!\S)(--[a-z][a-z-]*|-[a-zA-Z]\b)", rest):
                if command in options and option not in options[command]:
                    yield f"{page.relative_to(ROOT)}: {command or 'no command'} has no {option}"


def check_facts():
    source = "".join(p.read_text() for f in check_layers.MAY for p in (ROOT / f).glob("*.c"))
    keys = set(re.findall(r'trace_add_fact\([^;"]*?"([\w.]+)"', source))
    keys |= set(re.findall(r'^ +\{"([\w.]+)", (?:t|in|zones)->', source, re.M))  # tables of them
    keys |= set(re.findall(r'write_count\(\w+, "([\w.]+)"', source))
    keys |= set(re.findall(r'merge_fact\([\w>-]+, e,\s*"([\w.]+)=', source))
    if not keys:
        yield "no facts found in the sources"
    for key in sorted(keys):
        if f"`{key}`" not in read("docs/facts.md"):
            yield f"docs/facts.md: the fact {key} is missing"
        if not re.search(rf"^\.It Cm (.* )?{re.escape(key)}( |$)", read("man/tidemark.1"), re.M):
            yield f"man/tidemark.1: the fact {key} is missing"
    rows = re.findall(r"^\| (`.*?) \|", read("docs/facts.md"), re.M)
    for key in re.findall(r"`([\w.]+)`", " ".join(rows)):
        if f'"{key}"' not in source and f"{key}=" not in source:
            yield f"docs/facts.md: no source has the fact {key}"


def check_folders():
    rows = re.findall(r"^\| `([\w/]+)` \|.*\| ([^|]*) \|$", read("ARCHITECTURE.md"), re.M)
    written = {folder: set(re.findall(r"`([^`]+)`", cell)) for folder, cell in rows}
    for folder, may in check_layers.MAY.items():
        if written.get(folder) != set(may.split()):
            yield f"ARCHITECTURE.md: the row of {folder} is not what check_layers.py allows"


def table_rows(text, heading):
    """(names of the first column, the last column) of each row of the table below a heading."""
    section = text.split(f"\n## {heading}\n")[1].split("\n## ")[0]
    for row in re.findall(r"^\| .* \|$", section, re.M)[2:]:
        cells = row.strip("| ").split(" | ")
        yield re.findall(r"`([^`]+)`", cells[0]), cells[-1]


def wire_items():
    rows = read("protocol/queue-items.tsv").splitlines()
    name = rows[0].split("\t").index("name")
    return {row.split("\t")[name] for row in rows[1:]} - {"-"}


def file_records():
    return set(re.findall(r"^ +RECORD\((\w+), \w+, ", read("trace/file/record.h"), re.M))


def varying_records():
    """Those whose codec reads a size from the file."""
    structs = re.findall(r"^VARYING\(x_rec_(\w+), \1\)", read("trace/file/codec.c"), re.M)
    return {name for name, struct in re.findall(r"^ +RECORD\((\w+), (\w+), ",
                                                read("trace/file/record.h"), re.M)
            if struct in structs}


def check_rows(page, rows, wanted):
    listed = [name for names, _ in rows for name in names]
    for name in sorted(wanted - set(listed)):
        yield f"{page}: {name} has no bound"
    for name in sorted({n for n in listed if n not in wanted or listed.count(n) > 1}):
        yield f"{page}: {name} has several rows, or does not exist"
    for names, bound in rows:
        if not re.search(r"`[A-Z_]+`", bound):
            yield f"{page}: no bound for {' '.join(names)}"


def check_expansion():
    """Every wire item and file record has one row, with a bound that is a constant of the source."""
    page, text = "docs/expansion.md", read("docs/expansion.md")
    source = "".join(p.read_text() for f in check_layers.MAY for p in (ROOT / f).glob("*.[ch]"))
    items, records = (list(table_rows(text, heading))
                      for heading in ("Items of a client", "Records of a file"))
    yield from check_rows(page, items, wire_items())
    yield from check_rows(page, records, file_records())
    bounds = {name: bound for names, bound in records for name in names}
    for name in sorted(varying_records()) or ["trace/file/codec.c"]:
        if "`TRACE_RECORD_MAX`" not in bounds.get(name, ""):
            yield f"{page}: the length of {name} has no bound"
    for name in sorted(set(re.findall(r"`([A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+)`", text)) - file_records()):
        if not re.search(rf"^#define {name}\b", source, re.M):
            yield f"{page}: there is no constant {name}"


def page_items(page):
    """The items of a list whose head is a word, or a number and a word."""
    return set(re.findall(r"^\.It ((?:\d+ )?Cm \S+)$", read(page), re.M))


def check_formats():
    """The pages of section 5 have the records that the sources declare, by number and name."""
    kinds = re.search(r"enum journal_type \{(.*?)\};", read("server/capture/journal.h"), re.S)[1]
    names = re.findall(r"^    JOURNAL_(\w+)(?: = 1)?,", kinds, re.M)
    wanted = {"man/tidemark-journal.5": {f"{i} Cm {name}" for i, name in enumerate(names, 1)}}
    kinds = re.search(r"enum rec_kind \{(.*?)\};", read("client/recording_format.h"), re.S)[1]
    wanted["man/tidemark-recording.5"] = {
        f"{number} Cm {name}" for name, number in re.findall(r"REC_(\w+) = (\d+),", kinds)
        if name not in ("NOTHING", "SIZED_KINDS")}
    source = "".join(p.read_text() for f in check_layers.MAY for p in (ROOT / f).glob("*.[ch]"))
    schemas = set(re.findall(r'"(tidemark\.\w+/\d+)\\?"', source))
    page = "man/tidemark-json.5"
    wanted[page] = {f"Cm {s}" for s in schemas if f".Ql {s}\n" not in read(page)}
    for page, items in wanted.items():
        for item in sorted(items ^ page_items(page)) or ([] if items else ["its list is empty"]):
            yield f"{page}: {item} is missing, or not in the sources"


def check_paths():
    """The sources and pages that the documents name exist, and so do the functions and tables of
    ARCHITECTURE.md's section "Where to find it"."""
    for _, cell in table_rows(read("ARCHITECTURE.md"), "Where to find it"):
        files = re.findall(r"`([\w/-]+\.\w+)`", cell)
        text = "".join(read(path) for path in files)
        for name in re.findall(r"`(\w+)`", cell):
            if not re.search(rf"\b{name}(\(|\[)", text):
                yield f"ARCHITECTURE.md: {name} is not in {' '.join(files)}"
    tops = [ROOT / name for name in ("README.md", "ARCHITECTURE.md", "CONTRIBUTING.md")]
    folders = [ROOT / name / "README.md" for name in check_layers.MAY]
    for page in [*tops, *sorted((ROOT / "docs").rglob("*.md")), *folders]:
        text = page.read_text()
        paths = re.findall(r"`((?:\w+/)+\w+\.(?:[ch]|py|tsv))`", text)
        named = [(ROOT / path, path) for path in paths]
        named += [(page.parent / path, path) for path in re.findall(r"\]\(([^):#]+)[)#]", text)]
        for path, name in named:
            if not path.exists() and not (page.parent / name).exists():
                yield f"{page.relative_to(ROOT)}: there is no {name}"


def check_version():
    said = subprocess.run([TIDEMARK, "version"], stdout=subprocess.PIPE, text=True, check=True)
    newest = re.search(r"^## \[(\d+\.\d+\.\d+)\] - \d{4}-\d\d-\d\d$", read("CHANGELOG.md"), re.M)
    if not newest or said.stdout.split() != ["tidemark", newest[1]]:
        yield f"CHANGELOG.md: its newest version is not that of `{said.stdout.strip()}`"


def check_mandoc():
    if not shutil.which("mandoc"):
        yield "mandoc is not installed"
        return
    pages = sorted((ROOT / "man").glob("*.[1-9]"))
    lint = subprocess.run(["mandoc", "-Tlint", "-W", "warning", *pages], stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True)
    yield from lint.stdout.splitlines()


def main():
    commands = table_names("commands")
    paged = [command for command in commands if command not in PAGELESS]
    faults = [fault for command in paged for fault in check_page(command)]
    for check in (check_names(commands), check_user_options(paged), check_facts(), check_folders(),
                  check_expansion(), check_paths(), check_formats(), check_version(),
                  check_mandoc(), check_prose.check_prose()):
        faults.extend(check)
    print("\n".join(faults) or "documents hold")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
