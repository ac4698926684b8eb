"""The pages of docs/ for users: every command in them is run, each page in a folder of its own, with
the built program. A ```console block shows commands behind "$ " (continued behind "> ") and what
they print; a ```sh block is one script. A command has to exit with 0, or with what the page shows
below a following `echo $?`. Every line of output that the page shows has to come, in that order;
numbers may differ, and a line that ends in "…" is the beginning of one. Ports are replaced by free
ones, so that pages can run beside other tests, and the folder is printed as /home/you."""

import contextlib
import os
import pathlib
import platform
import re
import signal
import subprocess
import sys
import tempfile
import unittest

from test_run_attach import may_attach
from tools import BUILD, ROOT, free_port

PAGES = ("kit", "iree", "heaptrack-users", "resident", "ci", "fleet", "agents")
LINKED = ("fixtures", "examples", "include")
PORTS = ("8086", "8088")
PAGE_LIMIT = 300
MARK = "\x01"


class Command:
    """One that a page shows: its text, the status and the lines of output that it promises."""

    def __init__(self, line, text):
        self.line, self.text, self.status, self.output = line, text, 0, []


def console_commands(first, lines):
    commands = []
    for number, line in enumerate(lines, first):
        if line.startswith("$ "):
            commands.append(Command(number, line[2:]))
        elif line.startswith("> "):
            commands[-1].text += "\n" + line[2:]
        else:
            commands[-1].output.append(line)
    for command, following in zip(commands, commands[1:]):
        if following.text == "echo $?":
            command.status = int(following.output[0])
    return commands


def page_commands(text):
    commands, language, block, first = [], None, [], 0
    for number, line in enumerate(text.splitlines(), 1):
        if not line.startswith("```"):
            block.append(line)
        elif language is None:
            language, block, first = line[3:], [], number + 1
        else:
            if language == "console":
                commands += console_commands(first, block)
            elif language == "sh":
                commands.append(Command(first, "\n".join(block)))
            language = None
    return commands


def page_script(commands):
    """Bash that runs them in one shell, with a line before each that has its index and one behind it
    that has its status, which is that of the first command of a script that failed."""
    parts = ["set -o pipefail; status=0"]
    for i, command in enumerate(commands):
        parts += [f"printf '\\n{MARK}begin {i}\\n'; failed=0; trap 'failed=$?' ERR; "
                  "(exit $status)", "failed=0", command.text] if command.text != "echo $?" else [
                  f"printf '\\n{MARK}begin {i}\\n'; failed=0; (exit $status)", command.text]
        parts += [f"status=$failed; trap - ERR; printf '\\n{MARK}end {i} %d\\n' $status"]
    return "\n".join(parts) + "\n"


def without_numbers(line):
    # The C library's own frame has a name where its debug symbols are installed.
    line = re.sub(r"libc\.so\.6\+0x[0-9a-f]+", "__libc_start_call_main", line)
    line = re.sub(r"0x[0-9a-f]+|\b[0-9a-f]{16,}\b|\d[\d,.]*(?:e[+-]\d+)?", "#", line)
    line = re.sub(r"# ?(?:[KMGT]iB|B|ns|us|ms|s|%)(?![\w])", "#", line)
    return re.sub(r"[\s-]+", " ", line).strip()


def missing_line(promised, printed):
    """The first promised line that is not among those printed behind the one before it, or None."""
    rest = iter([without_numbers(line) for line in printed])
    for line in promised:
        wanted = without_numbers(line.removesuffix("…"))
        same = str.startswith if line.endswith("…") else str.__eq__
        if wanted and not any(same(line_printed, wanted) for line_printed in rest):
            return line
    return None


def run_page(text, folder):
    """(command, status or None when it was not reached, lines printed) of each command."""
    for port in PORTS:
        text = re.sub(rf"(?<!\d){port}(?!\d)", str(free_port()), text)
    commands = page_commands(text)
    for name in LINKED:
        os.symlink(ROOT / name, folder / name)
    os.symlink(BUILD, folder / "build")
    environment = {**os.environ, "PATH": f"{BUILD}:{os.environ['PATH']}", "LC_ALL": "C.UTF-8",
                   "ASAN_OPTIONS": "verify_asan_link_order=0"}
    with open(folder / ".printed", "w+", encoding="utf-8", errors="replace") as printed:
        shell = subprocess.Popen(["bash", "-c", page_script(commands)], cwd=folder, stdout=printed,
                                 stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL,
                                 env=environment, start_new_session=True)
        try:
            shell.wait(PAGE_LIMIT)
        finally:  # what the page left in the background ends with it
            with contextlib.suppress(ProcessLookupError):
                os.killpg(shell.pid, signal.SIGKILL)
            shell.wait()
        printed.seek(0)
        output = printed.read().replace(str(folder), "/home/you")
    for i, command in enumerate(commands):
        found = re.search(rf"{MARK}begin {i}\n(.*?)\n{MARK}end {i} (\d+)\n", output, re.S)
        yield (command, int(found[2]), found[1].splitlines()) if found else (command, None, [])


def page_faults(text, folder):
    for command, status, printed in run_page(text, folder):
        shown = "\n".join(printed)
        if status != command.status:
            yield (f"line {command.line}: `{command.text}` exits with {status}, "
                   f"not {command.status}:\n{shown}")
        elif (line := missing_line(command.output, printed)) is not None:
            yield f"line {command.line}: `{command.text}` does not print `{line}`:\n{shown}"


def faults_of(text):
    with tempfile.TemporaryDirectory(prefix="tidemark-") as folder:
        return list(page_faults(text, pathlib.Path(folder)))


def page_test(name):
    def test(self):
        if name == "heaptrack-users" and not (platform.machine() == "x86_64" and may_attach()):
            self.skipTest("attaching to a process is not possible here")
        if name == "heaptrack-users" and sys.version_info[:2] != (3, 11):
            self.skipTest("the page shows allocations of CPython 3.11")
        text = (ROOT / "docs" / f"{name}.md").read_text()
        self.assertTrue(page_commands(text))
        self.assertEqual([], faults_of(text), f"docs/{name}.md")
    return test


class Pages(unittest.TestCase):
    maxDiff = None


for page in PAGES:
    setattr(Pages, "test_" + page.replace("-", "_"), page_test(page))


class Checker(unittest.TestCase):
    """What must be noticed is."""

    def test_wrong_option(self):
        page = "```console\n$ tidemark report --sorted size fixtures/csvexport.tsv\n```\n"
        self.assertEqual(1, len(faults_of(page)))
        self.assertEqual(1, len(faults_of(page.replace("console\n$ ", "sh\n"))))
        self.assertEqual(1, len(faults_of(page.replace("\n```\n", " | cat\n```\n"))))

    def test_status(self):
        page = "```console\n$ (exit 3)\n$ echo $?\n3\n```\n"
        self.assertEqual([], faults_of(page))
        self.assertEqual(1, len(faults_of(page.replace("\n3\n", "\n4\n"))))
        self.assertEqual(1, len(faults_of("```sh\nfalse\ntrue\n```\n")))
        self.assertEqual(1, len(faults_of("```console\n$ exit 0\n```\n")))

    def test_output(self):
        page = "```console\n$ echo 'peak 1.5 KiB'; echo 'live 2 B'\npeak 9 MiB\nliv…\n```\n"
        self.assertEqual([], faults_of(page))
        self.assertEqual(1, len(faults_of(page.replace("\npeak 9 MiB\nliv…", "\nliv…\npeak 9 MiB"))))
        self.assertEqual(1, len(faults_of(page.replace("\nliv…", "\nliv"))))


if __name__ == "__main__":
    unittest.main()
