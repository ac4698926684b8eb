"""`tidemark push --compact`: one file for each table and day, in which each row is once, whatever is
killed; and what --keep drops."""

import datetime
import fcntl
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest

from parquetfile import ParquetFile
from test_export_consumers import CONSUMERS, needs
from test_faults import TEMPORARY, environment
from test_push import FLEET, USUAL, make_fleet, rows_of
from tools import LIMIT, TIDEMARK, TRACES, Case, not_sanitized, run, wait_until

RELEASES = ("v0.9.1", "v0.11.1", "v0.12.2", "v0.14.0")
STEPS = "write,fsync,link,mkdir,open,rename,unlink,rmdir"


def contents(folder):
    """The rows of all tables, each once or more often."""
    return {table: sorted(json.dumps(row) for row in rows_of(folder, table)) for table in USUAL}


def files(folder):
    return sorted(p.relative_to(folder) for p in folder.glob("*/day=*/*"))


def traces_of(folder, table="traces"):
    return sorted({row["trace"] for row in rows_of(folder, table)})


def age_of(folder):
    day, = {p.name for p in folder.glob("*/day=*")}
    return (datetime.datetime.now(datetime.timezone.utc).date() -
            datetime.date.fromisoformat(day[len("day="):])).days


class Fleet(Case):
    def setUp(self):
        super().setUp()
        self.fleet = self.dir / "fleet"

    def push(self, *args):
        result = run("push", "--sink", f"files={self.fleet}", *args)
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        return result.stdout

    def fill(self, *args, scene="memscen", releases=RELEASES):
        return self.push(*args, *(TRACES / release / f"{scene}.tracy" for release in releases))

    def compact(self, *args, **kwargs):
        return run("push", "--sink", f"files={self.fleet}", "--compact", *args, **kwargs)

    def compacted(self, *args, notes=""):
        result = self.compact("--format", "json", *args)
        self.assertEqual((result.returncode, result.stderr), (0, notes))
        told = json.loads(result.stdout)
        self.assertEqual(told["schema"], "tidemark.compact/1")
        return told


class Compact(Fleet):
    def test_each_row_is_there_once(self):
        self.fill("--label", "build=7")
        before = contents(self.fleet)
        text = self.compact()
        self.assertEqual((text.returncode, text.stderr, text.stdout),
                         (0, "", "56 files became 14; 0 traces dropped\n"))
        self.assertEqual(len(files(self.fleet)), len(USUAL))
        self.assertEqual(contents(self.fleet), before)
        # What readers may be listing stays until the next time.
        self.assertEqual(len(list((self.fleet / ".compact").glob("*/*"))), 56)
        self.assertEqual(self.compacted()["files_after"], 14)
        self.assertEqual(list((self.fleet / ".compact").iterdir()), [])
        self.fill(scene="allscen")
        self.assertEqual(self.compacted()["files_before"], 14 + 4 * 13)
        self.assertEqual(len(files(self.fleet)), len(USUAL))
        whole = contents(self.fleet)
        for table, rows in before.items():
            self.assertLess(set(rows), set(whole[table]) | {""})
            self.assertEqual(len(set(whole[table])), len(whole[table]), table)

    def test_what_is_there_is_passed_over(self):
        self.fill()
        self.compacted()
        before = contents(self.fleet)
        self.assertEqual(self.fill().count("there already"), len(RELEASES))
        self.assertEqual(contents(self.fleet), before)
        again = run("push", "--sink", f"files={self.fleet}", "--again",
                    TRACES / "v0.14.0" / "memscen.tracy")
        self.assertEqual(again.returncode, 4)
        self.assertIn("--again cannot replace it", again.stderr)
        self.assertEqual(contents(self.fleet), before)

    def test_an_incomplete_trace(self):
        """A push that was killed before its row of `traces`: its files are left for the next one."""
        self.fill("--label", "a=b")
        whole = contents(self.fleet)
        gone = sorted((self.fleet / "traces").glob("*/*"))[0]
        gone.unlink()
        self.compacted()
        self.assertEqual(len(list((self.fleet / "allocations").glob("*/*"))), 2)
        self.compacted()
        self.fill("--label", "a=b")
        self.assertEqual(contents(self.fleet), whole)
        self.compacted()
        self.assertEqual(contents(self.fleet), whole)
        self.assertEqual(len(files(self.fleet)), len(USUAL))

    def test_files_of_others(self):
        """What is no table of this version stays."""
        self.fill()
        day, = (self.fleet / "pools").iterdir()
        shutil.copy(next((self.fleet / "threads").glob("*/*")), day / "other.parquet")
        (day / "README").write_text("mine")
        (day / ".tidemark-aaaaaa").write_text("left by a killed push")
        (self.fleet / "pools" / "x").mkdir()
        day.chmod(0o2775)
        before = (day / "other.parquet").read_bytes()
        self.assertEqual(self.compacted()["files_of_other_columns"], 1)
        self.assertEqual((day / "other.parquet").read_bytes(), before)
        self.assertEqual(day.stat().st_mode & 0o7777, 0o2775)
        self.assertEqual({p.name for p in day.iterdir() if not p.name.startswith("part-")},
                         {"other.parquet", "README"})
        self.assertIn("1 file of another version left alone", self.compact().stdout)

    def test_no_regular_file(self):
        """A FIFO is named, not waited for."""
        self.fill()
        day, = (self.fleet / "traces").iterdir()
        fifo = day / ("a" * 32 + ".parquet")
        os.mkfifo(fifo)
        result = self.compact()
        self.assertEqual(result.returncode, 3)
        self.assertIn(f"{fifo}: this is not a Parquet file\n", result.stderr)

    def test_a_damaged_file(self):
        self.fill("--label", "a=b")
        bad = sorted((self.fleet / "sites").glob("*/*"))[1]
        whole = bad.read_bytes()
        bad.write_bytes(whole[:100] + bytes(50) + whole[150:])
        before = {p: (self.fleet / p).read_bytes() for p in files(self.fleet)
                  if p.parts[0] == "sites"}
        result = self.compact()
        self.assertEqual(result.returncode, 3)
        self.assertIn(bad.name, result.stderr)
        self.assertIn("offset", result.stderr)
        self.assertEqual({p: (self.fleet / p).read_bytes() for p in files(self.fleet)
                          if p.parts[0] == "sites"}, before)
        bad.write_bytes(whole)
        self.compacted()
        self.assertEqual(len(files(self.fleet)), len(USUAL))

    def test_pushes_and_compactions_wait(self):
        self.fill()
        lock = os.open(self.fleet, os.O_RDONLY)
        self.addCleanup(os.close, lock)
        fcntl.flock(lock, fcntl.LOCK_SH) # as a push does
        waiting = subprocess.Popen([TIDEMARK, "push", "--sink", f"files={self.fleet}", "--compact"],
                                   stdout=subprocess.PIPE, text=True)
        self.addCleanup(waiting.kill)
        self.fill(scene="allscen") # other pushes go on
        wait_until(lambda: (self.fleet / ".compact").exists(), "it did not begin")
        second = self.compact()
        self.assertEqual(second.returncode, 4)
        self.assertIn("another process compacts", second.stderr)
        self.assertGreater(len(files(self.fleet)), 100)
        fcntl.flock(lock, fcntl.LOCK_UN)
        self.assertEqual(waiting.communicate(timeout=LIMIT)[0],
                         "104 files became 13; 0 traces dropped\n")

    def test_row_groups(self):
        """Of 2^17 rows, over the borders of files."""
        make_fleet(f"files={self.fleet}", 20)
        before = contents(self.fleet)
        self.compacted()
        self.assertEqual(contents(self.fleet), before)
        for path in files(self.fleet):
            table = ParquetFile(self.fleet / path)
            self.assertEqual(len(table.groups), -(-table.rows // 2**17))

    def test_usage(self):
        for args, words in ((("--sink", "files=x", "--compact", "a"), "no trace"),
                            (("--sink", "clickhouse=http://127.0.0.1:1", "--compact"), "files=FOLDER"),
                            (("--sink", "files=x", "--keep", "3", "a"), "--compact"),
                            (("--sink", "files=x", "--compact", "--again"), "--again"),
                            (("--sink", "files=x", "--compact", "--keep", "1", "--keep", "2"), "once"),
                            *((("--sink", "files=x", "--compact", "--keep", bad), "NAME=VALUE:DAYS")
                              for bad in ("", "x", "-1", "=a:3", "a=b", "a=b:", "a:3", "12345678"))):
            result = run("push", *args, cwd=self.dir)
            self.assertEqual(result.returncode, 2, (args, result.stderr))
            self.assertIn(words, result.stderr)
        result = run("push", "--sink", "files=none", "--compact", cwd=self.dir)
        self.assertEqual(result.returncode, 3)
        self.assert_clean()

    @needs("@duckdb/node-api")
    def test_duckdb_reads_what_was_compacted(self):
        make_fleet(f"files={self.fleet}", 60)
        self.compacted()
        self.assertEqual(len(files(self.fleet)), 14)
        query = [(FLEET / "which_build.duckdb.sql").read_text(),
                 "SELECT count(*), count(DISTINCT trace) FROM 'traces/*/*.parquet'"]
        answer = subprocess.run(["node", CONSUMERS / "duckdb.mjs"], input=json.dumps(query),
                                stdout=subprocess.PIPE, text=True, check=True, timeout=LIMIT,
                                cwd=self.fleet)
        raised, count = json.loads(answer.stdout)
        self.assertEqual(raised[0][:2], ["build-13", "decode_texture (texture.cpp:120)"])
        self.assertEqual([int(n) for n in count[0]], [60, 60])


class Keep(Fleet):
    def test_age(self):
        self.fill()
        age = age_of(self.fleet)
        before = contents(self.fleet)
        self.assertEqual(self.compacted("--keep", str(age + 1))["traces_dropped"], 0)
        self.assertEqual(contents(self.fleet), before)
        self.assertEqual(self.compacted("--keep", str(age - 1))["traces_dropped"], len(RELEASES))
        self.assertEqual(list(self.fleet.glob("*/day=*")), [])
        self.fill() # as if it had never been there
        self.assertEqual(contents(self.fleet), before)

    def test_branch(self):
        """Whether they were compacted before or not, and in two steps."""
        for first in ((), ("--keep", "branch=other:0"), ("--keep", "1000000")):
            with self.subTest(first):
                self.fill("--label", "branch=main", "--label", "x=y")
                wanted = contents(self.fleet)
                self.fill("--label", "branch=mai", scene="allscen")
                none = "tidemark: note: --keep {}: no trace has this label\n"
                self.compacted(*first, notes=none.format(first[1]) if "branch=other:0" in first
                               else "")
                keep = ("--keep", "0", "--keep", "branch=main:1000", "--keep", "branch=main:1",
                        "--keep", "x=z:1000")
                told = self.compacted(*keep, notes=none.format("x=z:1000"))
                self.assertEqual(told["traces_dropped"], len(RELEASES))
                self.assertEqual(contents(self.fleet), wanted)
                self.assertEqual(self.compacted("--keep", "x=y:0")["traces_dropped"], len(RELEASES))
                self.assertEqual(list(self.fleet.glob("*/day=*/*")), [])

    def test_a_label_may_have_less(self):
        self.fill("--label", "branch=try")
        self.fill(scene="allscen")
        self.assertEqual(self.compacted("--keep", "branch=try:0")["traces_dropped"], len(RELEASES))
        self.assertEqual(len(traces_of(self.fleet)), len(RELEASES))

    def test_an_unknown_day_is_kept(self):
        self.fill()
        for day in self.fleet.glob("*/day=*"):
            day.rename(day.parent / "day=1970-01-01")
        self.assertEqual(self.compacted("--keep", "0")["traces_dropped"], 0)
        self.assertEqual(len(traces_of(self.fleet)), len(RELEASES))

    def test_incomplete_traces_are_dropped(self):
        self.fill()
        shutil.rmtree(self.fleet / "traces")
        self.compacted("--keep", "1000")
        self.assertEqual(len(traces_of(self.fleet, "sites")), len(RELEASES))
        self.compacted("--keep", "0")
        self.assertEqual(list(self.fleet.glob("*/day=*")), [])


@not_sanitized
class Kills(Fleet):
    """At each step: before each call that changes a file or folder."""

    def steps(self, *args):
        with tempfile.TemporaryDirectory(dir=TEMPORARY) as folder:
            log = pathlib.Path(folder) / "calls"
            result = self.compact(*args, env=environment(FAULT_LOG=log, FAULT_ONLY=STEPS))
            self.assertEqual(result.returncode, 0, result.stderr)
            return log.read_text().splitlines()

    def each_step(self, args, check):
        """`check` after each kill, and after the next compaction."""
        kept = self.dir / "kept"
        left = self.fleet / ".compact" / "pools.day=2001-01-01" # of a compaction before
        left.mkdir(parents=True)
        (left / "part-0.parquet").touch()
        shutil.copytree(self.fleet, kept)
        steps = self.steps(*args)
        after = contents(self.fleet)
        self.assertEqual({s.split()[0] for s in steps}, set(STEPS.split(",")))
        for i, step in enumerate(steps, 1):
            shutil.rmtree(self.fleet)
            shutil.copytree(kept, self.fleet)
            result = self.compact(*args, env=environment(FAULT_AT=i, FAULT_KILL=1, FAULT_ONLY=STEPS))
            self.assertEqual(result.returncode, -signal.SIGKILL, step)
            check(f"killed before {step}")
            self.compacted(*args)
            self.assertEqual(contents(self.fleet), after, step)

    def fill_some(self, *args, **kwargs):
        """Few tables: each has the same steps."""
        self.fill("--table", "pools", "--table", "sites", *args, **kwargs)

    def test_compaction(self):
        self.fill_some("--label", "a=b", releases=RELEASES[:2])
        gone = sorted((self.fleet / "traces").glob("*/*"))[0]
        gone.unlink() # a file that is linked into the new folder
        self.fill_some(scene="allscen", releases=RELEASES[:2])
        before = contents(self.fleet)
        self.each_step((), lambda step: self.assertEqual(contents(self.fleet), before, step))

    def test_retention(self):
        """Each trace's rows are complete as long as it is in `traces`, and what stays is untouched."""
        self.fill_some("--label", "branch=main", releases=RELEASES[:1])
        stays = contents(self.fleet)
        self.fill_some("--label", "branch=try", scene="allscen", releases=RELEASES[:2])
        (self.fleet / "pools" / "day=2001-01-01").mkdir() # a folder that becomes empty
        shutil.copy(next((self.fleet / "pools").glob("day=2026*/*")),
                    self.fleet / "pools" / "day=2001-01-01")
        before = contents(self.fleet)

        def check(step):
            now = contents(self.fleet)
            listed = set(traces_of(self.fleet))
            for table, rows in before.items():
                if table != "pools": # which has a trace twice, on purpose
                    self.assertEqual(len(set(now[table])), len(now[table]), step)
                self.assertLessEqual(set(stays[table]), set(now[table]), step)
                wanted = {row for row in rows if json.loads(row)["trace"] in listed}
                self.assertLessEqual(wanted, set(now[table]), (step, table))
                self.assertLessEqual(set(now[table]), set(rows), step)

        self.each_step(("--keep", "1", "--keep", "branch=main:9999"), check)


@not_sanitized
class Readers(Fleet):
    def test_a_reader_sees_each_row_once(self):
        """While pushes and compactions run: all files that a folder has, or one has gone."""
        self.fill("--table", "sites", releases=RELEASES[:2])
        stop = self.dir / "stop"
        script = ("import subprocess, sys, pathlib\n"
                  "tidemark, sink, stop, *traces = sys.argv[1:]\n"
                  "while not pathlib.Path(stop).exists():\n"
                  "    for trace in traces:\n"
                  "        subprocess.run([tidemark, 'push', '--sink', sink, '--table', 'sites',\n"
                  "                        trace], check=True, stdout=subprocess.DEVNULL)\n"
                  "        subprocess.run([tidemark, 'push', '--sink', sink, '--compact'],\n"
                  "                       check=True, stdout=subprocess.DEVNULL)\n")
        traces = [TRACES / release / f"{scene}.tracy" for release in RELEASES
                  for scene in ("memscen", "allscen")]
        writer = subprocess.Popen([sys.executable, "-c", script, TIDEMARK, f"files={self.fleet}",
                                   stop, *traces])
        self.addCleanup(writer.kill)
        seen = set()
        while len(traces_of_when_whole(self.fleet)) < len(traces):
            self.assertIsNone(writer.poll())
        for _ in range(20):
            rows = read_when_whole(self.fleet)
            keys = [(row["trace"], row["row"]) for row in rows]
            self.assertEqual(len(keys), len(set(keys)))
            self.assertLessEqual(seen, set(keys))
            seen = set(keys)
        stop.touch()
        self.assertEqual(writer.wait(LIMIT), 0)


def read_when_whole(folder):
    """The rows of `sites`, as an engine reads them: it lists the files, then opens them all. When one
    has gone, it asks again."""
    while True:
        try:
            return rows_of(folder, "sites")
        except FileNotFoundError:
            continue


def traces_of_when_whole(folder):
    return {row["trace"] for row in read_when_whole(folder)}


if __name__ == "__main__":
    unittest.main()
