#!/usr/bin/env python3
"""Holds the subjects of commits against the form `area: imperative summary`, 72 characters at most.

The rule is younger than the repository: commits before FIRST are left alone. A copy without that
history has nothing to check.
"""

import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
FIRST = "7d2e999"
FORM = re.compile(r"[a-z][a-z0-9 ,/_.-]*: \S.*[^.]")
LONGEST = 72


def main():
    git = ["git", "-C", str(ROOT)]
    if subprocess.run([*git, "merge-base", "--is-ancestor", FIRST, "HEAD"],
                      stderr=subprocess.DEVNULL, check=False).returncode != 0:
        print("no history to check")
        return 0
    log = subprocess.run([*git, "log", "--no-merges", "--format=%h %s", f"{FIRST}..HEAD"],
                         stdout=subprocess.PIPE, text=True, check=True).stdout
    commits = [line.split(" ", 1) for line in log.splitlines()]
    bad = [(name, subject) for name, subject in commits
           if len(subject) > LONGEST or not FORM.fullmatch(subject)]
    for name, subject in bad:
        print(f"{name}: not `area: summary` in {LONGEST} characters: {subject}")
    print(f"{len(commits)} subjects, {len(bad)} wrong")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
