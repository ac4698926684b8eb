#!/usr/bin/env python3
"""What Python functions in call stacks cost in programs: the processor time of recorded programs, from
their start to the end of their work.

    /usr/bin/python3 bench/python_programs.py [--python PYTHON] [PROGRAM…]

Milliseconds. `program`: as it is; `recording`: what recording without Python functions (--no-python)
adds; `functions`: what they add to that, also in percent of it. Each twice: as it is, and with
--python-allocators (`small`). The runs take turns; the least time of BENCH_ROUNDS (5) counts."""

import argparse
import os
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[1]
TIDEMARK = ROOT / os.environ.get("BUILD", "build") / "tidemark"
ROUNDS = int(os.environ.get("BENCH_ROUNDS", "5"))
RUN = ["run", "-f", "--report", "none", "--no-debuginfod"]

PROGRAMS = {
    "compileall": """
import compileall, tempfile
with tempfile.TemporaryDirectory() as to:
    for name in ("json", "email", "logging", "concurrent", "unittest"):
        compileall.compile_dir(f"{LIBRARY}/{name}", quiet=1, force=True, stripdir="/", prependdir=to,
                               workers=1)
""",
    "json and pickle": """
import json, pickle
data = [{"id": i, "name": f"name {i}", "tags": [str(i % 7), str(i % 11)], "at": i * 1.5}
        for i in range(30000)]
for _ in range(3):
    assert json.loads(json.dumps(data)) == data
    assert pickle.loads(pickle.dumps(data)) == data
""",
    "ast and tokenize": """
import ast, glob, io, tokenize
for file in sorted(glob.glob(f"{LIBRARY}/*.py"))[:25]:
    with open(file, encoding="utf-8") as f:
        text = f.read()
    ast.unparse(ast.parse(text))
    list(tokenize.generate_tokens(io.StringIO(text).readline))
""",
    "numpy": """
import numpy as np
def work(n):
    a = np.arange(n, dtype=float)
    for i in range(200):
        b = np.sqrt(a * a + i)
        a = np.where(b > 1, b - 1, b)
        np.sort(a[::-1])
    return a.sum()
for n in (10, 100, 1000, 3000):
    work(n)
    for _ in range(1500):
        np.linalg.norm(np.outer(np.ones(12), np.ones(12)))
""",
    "sqlite3": """
import sqlite3
db = sqlite3.connect(":memory:")
db.execute("create table t (a integer primary key, b text, c real)")
db.executemany("insert into t values (?, ?, ?)", ((i, f"row {i}", i / 3) for i in range(60000)))
db.execute("create index i on t (b)")
for i in range(15000):
    db.execute("select * from t where b = ?", (f"row {i * 3}",)).fetchall()
db.execute("select b, sum(c) from t group by substr(b, 1, 6)").fetchall()
""",
    "threads": """
import concurrent.futures, hashlib, re, zlib
def work(i):
    text = " ".join(f"word{j * i % 977}" for j in range(3000))
    words = re.findall(r"\\w+", text)
    counts = {}
    for w in words:
        counts[w] = counts.get(w, 0) + 1
    packed = zlib.compress(text.encode())
    return hashlib.sha256(zlib.decompress(packed)).hexdigest(), sorted(counts)
with concurrent.futures.ThreadPoolExecutor(4) as pool:
    list(pool.map(work, range(120)))
""",
    "unittest": """
import io, unittest, textwrap, string, statistics, decimal, fractions
class T(unittest.TestCase):
    pass
for i in range(400):
    def test(self, i=i):
        with self.subTest(i=i):
            words = "a b " * 30
            self.assertEqual(textwrap.dedent(textwrap.indent(words, "  ")).strip(), words.strip())
            self.assertAlmostEqual(statistics.mean([i, i + 2]), i + 1)
            self.assertEqual(fractions.Fraction(i, 7) * 7, i)
            self.assertEqual(string.Template("$a").substitute(a=i), str(i))
            self.assertRaises(ZeroDivisionError, lambda: decimal.Decimal(1) / 0)
    setattr(T, f"test_{i}", test)
suite = unittest.defaultTestLoader.loadTestsFromTestCase(T)
unittest.TextTestRunner(stream=io.StringIO(), verbosity=2).run(suite)
""",
    "html and xml": """
import html.parser, xml.etree.ElementTree as E, csv, io, difflib
text = "<a>" + "".join(f'<b k="{i}"><c>text {i}</c><d/></b>' for i in range(8000)) + "</a>"
root = E.fromstring(text)
assert len(E.tostring(root)) > 1000
class P(html.parser.HTMLParser):
    n = 0
    def handle_starttag(self, tag, attrs):
        self.n += len(attrs)
P().feed(text)
rows = list(csv.reader(io.StringIO("\\n".join(f"{i},{i * 2},x{i}" for i in range(20000)))))
list(difflib.unified_diff([r[2] for r in rows[:1500]], [r[2] for r in rows[7:1500]]))
""",
    "imports": """
import argparse, asyncio, ctypes, email.mime.text, http.client, http.server, logging.config, multiprocessing
import unittest.mock, urllib.request, xml.dom.minidom, pdb, doctest, tarfile, zipfile, typing, dataclasses
""",
    "pygments": """
import glob
from pygments import highlight
from pygments.lexers import PythonLexer
from pygments.formatters import HtmlFormatter
for file in sorted(glob.glob(f"{LIBRARY}/*.py"))[:6]:
    with open(file, encoding="utf-8") as f:
        highlight(f.read(), PythonLexer(), HtmlFormatter())
""",
}
FRAME = """import os, sys
LIBRARY = os.path.dirname(os.__file__)
{}
import time
print(time.process_time(), file=open(sys.argv[1], "w"))
"""


def milliseconds(command, told):
    result = subprocess.run([str(a) for a in [*command, told]], stdout=subprocess.DEVNULL,
                            stderr=subprocess.PIPE, text=True)
    if result.returncode != 0:
        sys.exit(f"{command[0]} failed: {result.stderr}")
    return float(told.read_text()) * 1e3


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--python", default="/usr/bin/python3")
    parser.add_argument("programs", nargs="*", default=list(PROGRAMS))
    args = parser.parse_args()
    print(f"{'':18}{'program':>9}{'recording':>11}{'functions':>11}{'':7}{'small: recording':>18}"
          f"{'functions':>11}")
    with tempfile.TemporaryDirectory(prefix="tidemark-") as folder:
        script, trace, told = (pathlib.Path(folder, n) for n in ("script.py", "out.tracy", "told"))
        recorded = [TIDEMARK, *RUN, "-o", trace]
        for name in args.programs:
            script.write_text(FRAME.format(PROGRAMS[name]))
            command = [args.python, "-B", script]
            ways = [command, *([*recorded, *options, "--", *command] for options in (
                ["--no-python"], [], ["--no-python", "--python-allocators"],
                ["--python-allocators"]))]
            times = [[milliseconds(w, told) for w in ways] for _ in range(ROUNDS)]
            program, plain, mixed, plain_small, mixed_small = (min(c) for c in zip(*times))
            line = f"{name:18}{program:9.0f}"
            for a, b in (plain, mixed), (plain_small, mixed_small):
                line += f"{a - program:11.0f}{b - a:11.0f}{100 * (b - a) / (a - program):5.0f} %       "
            print(line, flush=True)


if __name__ == "__main__":
    main()
