"""Completion in bash, zsh and fish: commands, options and values; each completion file loads. And names
of commands: a trace in the place of one, and misspelt ones."""

import os
import shutil
import subprocess
import unittest

from tools import BUILD, ROOT, TRACES, Case, run

BASH = """
set -eu
source "$1"
complete -p tidemark >/dev/null
shift
COMP_WORDS=("$@")
COMP_CWORD=$(($# - 1))
COMPREPLY=()
_tidemark tidemark
printf '%s\\n' "${COMPREPLY[@]}"
"""

# Prints what the file hands to zsh, as in a completion of the last word.
ZSH = """
_describe() { print -rl -- ${(P)2} }
_files() { print -r -- FILES }
file=$1
shift
words=("$@")
CURRENT=$#
source $file
"""

FISH = 'source $argv[1]; complete -C (string join -- " " $argv[2..-1])'

SHELLS = {"bash": (["-c", BASH, "bash"], "tidemark.bash"),
          "zsh": (["-f", "-c", ZSH, "zsh"], "_tidemark"),
          "fish": (["--no-config", "-c", FISH], "tidemark.fish")}


class Completions(Case):
    def offered(self, shell, *words):
        arguments, file = SHELLS[shell]
        path = f"{BUILD}:{os.environ['PATH']}"
        done = subprocess.run([shutil.which(shell), *arguments, ROOT / "completions" / file, "tidemark", *words],
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=self.dir,
                              env={**os.environ, "PATH": path, "HOME": str(self.dir)}, timeout=60)
        self.assertEqual(done.stderr, "")
        separator = ":" if shell == "zsh" else "\t"
        return [line.split(separator)[0] for line in done.stdout.splitlines() if line]

    def check_shell(self, shell):
        if not shutil.which(shell):
            self.skipTest(f"{shell} is not installed")
        self.assertIn("report", self.offered(shell, "rep"))
        self.assertIn("--bottom-up", self.offered(shell, "tree", "--bo"))
        self.assertIn("markdown", self.offered(shell, "tree", "FILE", "--format", "mark"))

    def test_bash(self):
        self.check_shell("bash")
        self.assertEqual(self.offered("bash", "tree", "--by", "=", "thr"), ["thread"])
        self.assertEqual(self.offered("bash", "tree", "x"), [])

    def test_zsh(self):
        self.check_shell("zsh")
        self.assertEqual(self.offered("zsh", "tree", "x"), ["FILES"])

    def test_fish(self):
        self.check_shell("fish")
        self.assertIn("--by=thread", self.offered("fish", "tree", "--by=thr"))

    def test_a_trace_in_the_place_of_a_command(self):
        trace = TRACES / "v0.14.0" / "memscen.tracy"
        for options in ([], ["--limit", "1", "--format", "csv"]):
            alone, report = run(trace, *options), run("report", trace, *options)
            self.assertEqual((alone.returncode, alone.stdout), (0, report.stdout))
        for path in (self.dir / "absent", "absent.tracy"):
            alone = run(path)
            self.assertEqual(alone.returncode, 3)
            self.assertIn(f"cannot open {path}", alone.stderr)
        wrong = run(trace, "--limitt", "1")
        self.assertEqual(wrong.returncode, 2)
        self.assertIn("report: did you mean '--limit'?", wrong.stderr)

    def test_did_you_mean(self):
        for words, expected in ((["reprot", "x"], "no command 'reprot'; did you mean 'report'?"),
                                (["tree", "--buttom-up", "x"], "tree: did you mean '--bottom-up'?")):
            result = run(*words)
            self.assertEqual(result.returncode, 2)
            self.assertIn(expected, result.stderr)


if __name__ == "__main__":
    unittest.main()
