"""The jobs of examples/ci: their commands run here as the CI systems would run them, with stand-ins for
what a runner provides (the cache, `make`, `gh`)."""

import json
import os
import re
import subprocess
import xml.etree.ElementTree

from tools import BUILD, ROOT, Case

JOBS = ROOT / "examples" / "ci"
SOURCE = """#include <stdlib.h>
int main(void) { for (int i = 0; i < KEPT; i++) free(malloc(10)); char *volatile p = malloc(KEPT * 1000);
    free(p); return 0; }
"""
GH = """#!/usr/bin/python3
import json, pathlib, sys
args, store = sys.argv[2:], pathlib.Path("comments.json")
comments = json.loads(store.read_text()) if store.exists() else []
body = [a[6:] for a in args if a.startswith("body=@")]
if not body:
    assert args[-2] == "--jq" and 'startswith("<!-- tidemark -->")' in args[-1]
    print("\\n".join(str(i) for i, c in enumerate(comments) if c.startswith("<!-- tidemark -->")))
elif "PATCH" in args:
    comments[int(args[2].rpartition("/")[2])] = pathlib.Path(body[0]).read_text()
else:
    comments.append(pathlib.Path(body[0]).read_text())
store.write_text(json.dumps(comments))
"""


def github_steps():
    """Name and script of each step that has one."""
    steps, name, lines = [], None, (JOBS / "github.yml").read_text().splitlines()
    for i, line in enumerate(lines):
        if match := re.match(r" +- name: (.*)", line):
            name = match[1]
        if match := re.match(r"( +)run: (.*)", line):
            script = match[2]
            if script == "|":
                block = [text for text in lines[i + 1:] if text.startswith(match[1] + "  ")]
                script = "\n".join(block)
            steps.append((name, script))
    return steps


def gitlab_script():
    text = (JOBS / "gitlab.yml").read_text()
    return [line.strip()[2:] for line in re.search(r"  script:\n((?:    - .*\n)+)", text)[1]
            .splitlines()]


class Examples(Case):
    def prepare(self, kept):
        """A checkout whose program keeps so much; `make` builds it."""
        (self.dir / "bin").mkdir(exist_ok=True)
        for name, text in (("gh", GH), ("make", "#!/bin/sh\nexec gcc -g -O0 -o app app.c\n")):
            (self.dir / "bin" / name).write_text(text)
            (self.dir / "bin" / name).chmod(0o755)
        (self.dir / "app.c").write_text(SOURCE.replace("KEPT", str(kept)))
        if not (self.dir / "examples").exists():
            (self.dir / "examples").symlink_to(ROOT / "examples")

    def shell(self, script, branch):
        environment = {**os.environ, "PATH": f"{self.dir / 'bin'}:{BUILD}:{os.environ['PATH']}",
                       "BRANCH": branch, "REPOSITORY": "a/b", "NUMBER": "7", "GH_TOKEN": "x"}
        return subprocess.run(["bash", "-e", "-c", script], cwd=self.dir, env=environment,
                              capture_output=True, text=True, timeout=120)

    def job(self, branch, failing=()):
        for name, script in github_steps():
            if name == "Comment" and branch == "main":
                continue
            result = self.shell(script, branch)
            self.assertEqual(result.returncode, name in failing, (name, result.stderr))

    def test_github(self):
        self.assertEqual([name for name, _ in github_steps()], ["Build", "Compare", "Comment"])
        self.prepare(1000)
        self.job("main")
        self.job("feature")
        comments = json.loads((self.dir / "comments.json").read_text())
        self.assertEqual(len(comments), 1)
        self.assertIn("Nothing changed beyond the noise.", comments[0])
        self.assertRegex(comments[0], "\n- ✅ `peak.*\n- ✅ `leaked")
        self.prepare(1200)
        self.job("feature", failing=("Compare",))
        comments = json.loads((self.dir / "comments.json").read_text())
        self.assertEqual(len(comments), 1)  # replaced
        self.assertNotIn("Nothing changed", comments[0])
        self.assertRegex(comments[0], "\n- ❌ `peak.*\n- ✅ `leaked")
        suite = xml.etree.ElementTree.parse(self.dir / "memory.xml").find("testsuite")
        self.assertEqual((suite.get("tests"), suite.get("failures")), ("2", "1"))
        # A program that fails has no outcome, and keeps none of the job before.
        (self.dir / "app.c").write_text("int main(void) { return 1; }\n")
        self.job("feature", failing=("Compare",))
        comment, = json.loads((self.dir / "comments.json").read_text())
        self.assertEqual(comment, "<!-- tidemark -->\nThe memory was not compared: see the job's log.\n")
        self.assertFalse((self.dir / "memory.xml").exists())

    def test_only_the_main_branch_saves(self):
        """Each system has its own rules of which branch sees which cache."""
        gitlab, github = ((JOBS / name).read_text() for name in ("gitlab.yml", "github.yml"))
        self.assertRegex(gitlab, 'merge_request_event"\n +variables: {POLICY: pull}\n')
        self.assertRegex(gitlab, "policy: \\$POLICY.*\n +unprotect: true")
        self.assertRegex(github, "actions/cache/save@v4\n +if: github.event_name == 'push'\n")
        self.assertNotIn("actions/cache@", github)

    def test_gitlab(self):
        self.prepare(1000)
        for branch, kept, status in (("", 1000, 0), ("main", 1000, 0), ("", 1000, 0),
                                     ("", 1200, 1)):
            self.prepare(kept)
            result = self.shell("\n".join(gitlab_script()), branch)
            self.assertEqual(result.returncode, status, result.stderr)
