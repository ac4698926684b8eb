#!/usr/bin/env python3
"""Refuses translated phrasing in documents, comments and message texts: a program is "it" or has a
name, and it prints, logs or reports. Each row of PHRASES has a pattern and what to write instead."""

import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]

PHRASES = [
    (r"somebody|someone|nobody|anybody|anyone|whoever|strangers?", "the program, client or process"),
    (r"(?<!user )(?<!users )(?<!people )who", "which, or name the actor"),
    (r"himself|herself|\bhe\b|\bshe\b", "it"),
    (r"tells?|telling|told", "print, report, show, distinguish"),
    (r"(?:is|are|was|were|be|been|being) said|it says so|said so", "print, report"),
    (r"(?:was|were) to (?:be|have)", "what it is"),
    (r"lets? go|letting go", "release, free, detach"),
    (r"stands?(?! for\b)(?!-)|stood", "is"),
    (r"(?:is|are|was|were|be) looked for", "search, find"),
    (r"of (?:its|their|our) own", "separate, private, its own X"),
    (r"as without us|how manieth|(?:came|comes) of (?:it|that|them)|and (?:its|their) kin", "reword"),
    (r"(?<!be )(?:hears|heard)", "receive"),
    (r"more seldom|seldom", "rarely"),
]
RULES = [(re.compile(rf"\b(?:{pattern})\b", re.I), hint) for pattern, hint in PHRASES]

C_TOKEN = re.compile(r'/\*.*?\*/|//[^\n]*|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.S)
PYTHON = re.compile(r'"""(.*?)"""|(?m:(?:^|(?<=\s))#[^\n]*)', re.S)
UNREAD = ("test/",)  # comments and docstrings of tests are not checked yet
EXTERNAL = ("test/", "fixtures/", "bench/", "examples/")  # their strings are data


def prose(path, text):
    """(offset, text) of what a reader of the file reads as sentences."""
    if path.endswith((".c", ".h", ".js")):
        strings = path.endswith((".c", ".h")) and not path.startswith(EXTERNAL)
        for match in C_TOKEN.finditer(text):
            if match[0][0] == "/" or (strings and match[0][0] == '"' and " " in match[0]):
                yield match.start(), match[0]
    elif path.endswith(".py"):
        for match in PYTHON.finditer(text):
            yield match.start(), match[0]
    elif path.endswith((".md", ".1", ".3", ".5", "Makefile")):
        yield 0, text


def faults(path):
    whole = (ROOT / path).read_text(errors="replace")
    for offset, text in prose(path, whole):
        for rule, instead in RULES:
            for match in rule.finditer(text):
                line = whole.count("\n", 0, offset + match.start()) + 1
                yield f"{path}:{line}: '{match[0]}': {instead}"


def check_prose():
    files = subprocess.run(["git", "ls-files"], cwd=ROOT, stdout=subprocess.PIPE, text=True,
                           check=True).stdout.split()
    for path in files:
        if path != "test/check_prose.py" and not path.startswith(UNREAD):
            yield from faults(path)


if __name__ == "__main__":
    found = list(check_prose())
    print("\n".join(found) or "prose holds")
    sys.exit(1 if found else 0)
