"""Memory that runs out anywhere, kills and signals at the worst moment: what is left then."""

import contextlib
import os
import shutil
import signal
import sqlite3
import subprocess
import tempfile
import time

from passing import Proxy, journal_bytes, wait_for
from tools import (BUILD, FIREHOSE, LIMIT, ROOT, SANITIZED, THOROUGH, TIDEMARK, TRACES, UNBUILT,
                   WIRE, Case, page_built, replaying, run)

PRELOAD = str(BUILD / "test" / "preload.so")
TRACE = TRACES / "v0.14.0" / "memscen_freeunknown.tracy"
OTHER = TRACES / "v0.14.0" / "allscen.tracy"
SYS = TRACES / "v0.14.0" / "allscen_sys.tracy"
OLD = b"what was there before"


def run_poorly(*args, **how):
    """A run of the program with things missing: test/preload.c tells which."""
    env = dict(os.environ, LD_PRELOAD=PRELOAD, **how)
    # Under a sanitizer its own library is to come second, and NULL is an answer.
    env["ASAN_OPTIONS"] = "verify_asan_link_order=0:allocator_may_return_null=1"
    return run(*args, env=env)


class OutOfMemory(Case):
    """One allocation of a run fails, or one and all that follow; every so many runs, another one."""

    def count(self, args):
        counted = self.dir / "count"
        result = run_poorly(*args, FAILMALLOC_COUNT=str(counted))
        self.assertEqual(result.returncode, 0, result.stderr)
        n = int(counted.read_text())
        counted.unlink()
        if n == 0:
            self.skipTest("this build does not let its allocations be replaced")
        return n, result.stdout

    def check(self, step, args, output=None, client=contextlib.nullcontext, same=True,
              copes=False):
        """Failures end with the exit status for short memory and words that say so; a run that can
        do without what failed (a buffer of the C library) does all of its job."""
        if SANITIZED and not THOROUGH:
            step *= 12
        with client() as served:
            n, good = self.count(served(args) if served else args)
        failed = 0
        for which in ("FAILMALLOC_AT", "FAILMALLOC_FROM"):
            for i in range(1, n + 1, step):
                if output:
                    (self.dir / output).write_bytes(OLD)
                with client() as served:
                    result = run_poorly(*(served(args) if served else args), **{which: str(i)})
                where = f"{args[0]} {which}={i}: {result.returncode} {result.stderr}"
                if "AddressSanitizer: CHECK failed: " in result.stderr:
                    # The sanitizer itself cannot do without memory, to start a thread say.
                    shutil.rmtree(self.dir / f"{output}.journal", ignore_errors=True)
                    continue
                self.assertIn(result.returncode, (0, 4), where)
                self.assertNotIn("Sanitizer", result.stderr, where)
                if result.returncode == 4:
                    failed += 1
                    self.assertIn("memory", result.stderr, where)
                elif same:
                    self.assertEqual(result.stdout, good, where)
                if output:
                    self.take_journal(output, result, where)
                    self.assert_clean(output)
                    if (self.dir / output).read_bytes() == OLD:
                        self.assertEqual(result.returncode, 4, where)
                    else:
                        whole = run("info", self.dir / output)
                        self.assertEqual(whole.returncode, 0, where + whole.stderr)
        if not copes:
            self.assertGreater(failed, n // step // 2)

    def take_journal(self, output, result, where):
        """What a capture that could not save has received is kept, and can be recovered."""
        journal = self.dir / f"{output}.journal"
        if not journal.exists():
            return
        self.assertEqual(result.returncode, 4, where)
        self.assertIn("is kept in", result.stderr, where)
        recovered = run("recover", journal, "-o", self.dir / "recovered")
        self.assertEqual(recovered.returncode, 0, where + recovered.stderr)
        self.assertEqual(run("info", self.dir / "recovered").returncode, 0, where)
        (self.dir / "recovered").unlink()

    def test_recover(self):
        recording = WIRE / "v0.14.0" / "memscen.c2s.bin"
        stop, left = recording.stat().st_size // 2, self.dir / "y.journal"
        with replaying(recording) as (_, port):
            proxy = Proxy(port, stop)
            capture = subprocess.Popen([TIDEMARK, "capture", "-o", str(self.dir / "y"), "-p",
                                        str(proxy.port)], stdout=subprocess.DEVNULL)
            wait_for(lambda: left.exists() and len(journal_bytes(left)) > stop - 2000, "bytes")
            capture.kill()
            capture.wait(timeout=LIMIT)
            proxy.close()
        journal = left.rename(self.dir.parent / f"{self.dir.name}.journal")
        self.addCleanup(shutil.rmtree, journal, True)
        self.check(9, ("recover", "-f", "--keep", journal, "-o", self.dir / "x"), "x", same=False)

    def test_info(self):
        self.check(5, ("info", TRACE))
        self.check(23, ("info", OTHER, "--format", "json"))

    def test_report(self):
        self.check(7, ("report", TRACE, "--stack-traces"))
        self.check(211, ("report", TRACE, "--format", "json"))
        for args in (("--by", "zone"), ("--by", "frame", "--format", "json"), ("--by", "type")):
            n, _ = self.count(("report", TRACE, *args))
            self.check(n // 12, ("report", TRACE, *args))
        n, _ = self.count(("report", OTHER, "--related", "--format", "json"))
        self.check(n // 25, ("report", OTHER, "--related", "--format", "json"))

    def test_stored_figures(self):
        """What cannot be stored is left out, and what cannot be used is counted."""
        folder, trace = tempfile.TemporaryDirectory(), self.dir / "x"
        self.addCleanup(folder.cleanup)
        recording = f"{folder.name}/f.c2s.bin"
        subprocess.run([FIREHOSE, "-o", recording, "--events", "210000", "--depth", "4",
                        "--stacks", "40", "--live", "500"], check=True)

        @contextlib.contextmanager
        def client():
            with replaying(recording) as (_, port):
                yield lambda args: (*args, "-p", port)
        args = ("capture", "-f", "--connect-timeout", LIMIT, "-o", trace)
        with client() as served:
            n, _ = self.count(served(args))
        self.check(n // 40, args, "x", client, same=False, copes=True)
        with client() as served:
            run(*served(args))
        self.assertIn(b"TidemarkAppendix", trace.read_bytes()[-48:])
        n, _ = self.count(("report", trace))
        self.check(n // 60, ("report", trace), copes=True)

    def test_pictures(self):
        for command, form in (("timeline", "svg"), ("timeline", "png"), ("map", "svg"),
                              ("map", "png")):
            n, _ = self.count((command, TRACE, "--format", form))
            self.check(n // 25, (command, TRACE, "--format", form))
        self.check(11, ("report", TRACE, "--format", "markdown"))

    def test_export(self):
        for step, form in ((53, "folded"), (53, "pprof"), (53, "speedscope"), (97, "chrome")):
            self.check(step, ("export", TRACE, "--format", form))
        for step, form in ((41, "tsv"), (41, "ndjson"), (29, "parquet")):
            self.check(step, ("export", OTHER, "--format", form, "--table", "messages"))

    def test_export_database(self):
        args = ("export", TRACE, "--format", "sqlite", "-f", "-o", self.dir / "x")
        n, _ = self.count(args)
        whole = self.dump()
        failed = 0
        for which in ("FAILMALLOC_AT", "FAILMALLOC_FROM"):
            for i in range(1, n + 1, n // 60):
                (self.dir / "x").write_bytes(OLD)
                result = run_poorly(*args, **{which: str(i)})
                where = f"{which}={i}: {result.returncode} {result.stderr}"
                self.assert_clean("x")
                if result.returncode == 0: # SQLite can do without some
                    self.assertEqual(self.dump(), whole, where)
                    continue
                failed += 1
                self.assertEqual(result.returncode, 4, where)
                self.assertIn("memory", result.stderr, where)
                self.assertEqual((self.dir / "x").read_bytes(), OLD, where)
        self.assertGreater(failed, 60)

    def dump(self):
        with contextlib.closing(sqlite3.connect(self.dir / "x")) as db:
            return list(db.iterdump())

    def test_page(self):
        if not page_built():
            self.skipTest(UNBUILT)
        self.check(17, ("report", TRACES / "v0.12.2" / "allscen.tracy", "--format", "html"))

    def test_symbols(self):
        self.check(29, ("symbols", TRACE, "-o", self.dir / "x", "--no-symbol-cache"), "x",
                   same=False)
        self.check(29, ("report", TRACE, "--resolve", "--images-from-trace", "--no-symbol-cache"),
                   same=False)

    def test_symbolize(self):
        self.check(1, ("symbolize", TIDEMARK, "--no-symbol-cache", "12345678", "--format", "json"),
                   same=False)

    def test_verify(self):
        self.check(5, ("verify", TRACE, "--require-symbols", 10))

    def test_import(self):
        seeds = ROOT / "test" / "fuzz" / "seeds"
        for name in ("fuzz_import_chrome/object", "fuzz_import_chrome/gzip",
                     "fuzz_import_chrome/zstd", "fuzz_import_heaptrack/interpreted",
                     "fuzz_import_heaptrack/raw"):
            self.check(3, ("import", "-f", seeds / name, self.dir / "x"), "x", same=False)

    def test_update(self):
        self.check(1, ("update", TRACE, self.dir / "x"), "x", same=False)
        self.check(1, ("update", "-s", "lpiC", "-h", "--trace-version", "0.9.0", OTHER,
                       self.dir / "x"), "x", same=False)

    def test_range(self):
        self.check(3, ("update", "--range", "210ms:220ms", SYS, self.dir / "x"), "x", same=False)

    def test_merge(self):
        """Both have frame images, and processors' switches."""
        self.check(7, ("merge", "-f", "--align", "begin", self.dir / "x", OTHER, SYS), "x",
                   same=False)

    def test_csvexport(self):
        self.check(2, ("csvexport", OTHER))
        self.check(3, ("csvexport", "-u", "-p", OTHER))
        self.check(2, ("csvexport", "-e", "-t", SYS))

    def test_capture(self):
        @contextlib.contextmanager
        def client():
            with replaying(WIRE / "v0.14.0" / "memscen.c2s.bin") as (_, port):
                yield lambda args: (*args, "-p", port)
        self.check(9, ("capture", "-f", "--connect-timeout", LIMIT, "--buffer", "1M", "-o",
                        self.dir / "x"), "x", client, same=False)


class WhileSaving(Case):
    """A save that takes seconds: the highest level of zstd."""

    @contextlib.contextmanager
    def saving(self, *args, replace=True, events=120000):
        subprocess.run([FIREHOSE, "-o", str(self.dir / "f.c2s.bin"), "--events", str(events),
                        "--depth", "0", "--protocol", "82"], check=True)
        if replace:
            (self.dir / "x").write_bytes(OLD)
            args = ("-f", *args)
        with replaying(self.dir / "f.c2s.bin") as (_, port):
            process = subprocess.Popen(
                [TIDEMARK, "capture", "-o", str(self.dir / "x"), "-p", str(port),
                 "--compression", "zstd:22", *args], stdout=subprocess.PIPE,
                stderr=subprocess.PIPE, text=True)
            said = ""
            while not said.endswith("Saving trace..."):
                piece = process.stdout.read(1)
                self.assertTrue(piece, process.stderr)
                said += piece
            time.sleep(0.1)
            yield process
        for path in self.dir.glob("f.*"):
            path.unlink()

    def test_one_signal_lets_it_finish(self):
        with self.saving("--no-summary", events=30000) as process:
            process.send_signal(signal.SIGTERM)
            out, err = process.communicate(timeout=LIMIT)
        self.assertEqual(process.returncode, 0, err)
        self.assertIn("done!", out)
        self.assertIn("a second signal ends it, and leaves the journal", err)
        self.assertEqual(run("verify", self.dir / "x").returncode, 0)
        self.assert_clean("x")

    def test_a_second_one_gives_it_up(self):
        with self.saving() as process:
            process.send_signal(signal.SIGINT)
            time.sleep(0.3)
            process.send_signal(signal.SIGTERM)
            out, err = process.communicate(timeout=LIMIT)
        self.assertEqual(process.returncode, 4, out + err)
        self.assertIn("nothing is saved", err)
        self.check_journal()

    def test_a_second_one_without_a_journal(self):
        with self.saving("--no-journal") as process:
            process.send_signal(signal.SIGINT)
            while "a second signal" not in process.stderr.readline():
                self.assertIsNone(process.poll())
            process.send_signal(signal.SIGTERM)
            out, err = process.communicate(timeout=LIMIT)
        self.assertEqual(process.returncode, 4, out + err)
        self.assertEqual((self.dir / "x").read_bytes(), OLD)
        self.assert_clean("x")

    def test_killed(self):
        with self.saving() as process:
            process.kill()
            process.communicate(timeout=LIMIT)
        self.check_journal()

    def check_journal(self):
        """The old file stands; all that came can be had from the journal, and nothing is missing."""
        self.assertEqual((self.dir / "x").read_bytes(), OLD)
        self.assert_clean("x", "x.journal")
        result = run("recover", self.dir / "x.journal")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("the client ended", result.stdout)
        self.assertNotIn("incomplete", run("info", self.dir / "x.recovered").stdout)
        self.assert_clean("x", "x.recovered")


    def test_a_file_that_takes_the_name_meanwhile(self):
        with self.saving("--no-summary", replace=False, events=30000) as process:
            (self.dir / "x").write_bytes(OLD)
            out, err = process.communicate(timeout=LIMIT)
        self.assertEqual(process.returncode, 0, out + err)
        self.assertIn("came to exist meanwhile; saving to", err)
        self.assertEqual((self.dir / "x").read_bytes(), OLD)
        self.assertEqual(run("verify", self.dir / "x.2").returncode, 0)
        self.assert_clean("x", "x.2")


class Outputs(Case):
    def test_update_from_a_pipe_killed(self):
        (self.dir / "x").write_bytes(OLD)
        process = subprocess.Popen([TIDEMARK, "update", "-", str(self.dir / "x")],
                                   stdin=subprocess.PIPE, stdout=subprocess.DEVNULL,
                                   stderr=subprocess.DEVNULL)
        process.stdin.write(TRACE.read_bytes()[:5000])
        process.stdin.flush()
        time.sleep(0.3)
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=LIMIT)
        self.assertEqual(process.returncode, -signal.SIGTERM)
        self.assertEqual((self.dir / "x").read_bytes(), OLD)
        self.assert_clean("x")

    def test_the_longest_name(self):
        name = "x" * 255
        for _ in range(2):
            result = run("update", TRACE, self.dir / name)
            self.assertEqual(result.returncode, 0, result.stderr)
            self.assert_clean(name)
        result = run("update", TRACE, self.dir / (name + "x"))
        self.assertEqual(result.returncode, 4)
        self.assertIn("File name too long", result.stderr)

    def test_a_hard_link_is_parted(self):
        (self.dir / "x").write_bytes(OLD)
        os.link(self.dir / "x", self.dir / "y")
        result = run("update", TRACE, self.dir / "x")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual((self.dir / "y").read_bytes(), OLD)
        self.assertNotEqual((self.dir / "x").read_bytes(), OLD)

    def test_poor_file_systems(self):
        """Without files that have no name, without links, and without both."""
        out = self.dir / "x"
        mask = os.umask(0)
        os.umask(mask)
        modes = {"new": 0o666 & ~mask, "replaced": 0o600}
        for how in ({"NO_TMPFILE": "1"}, {"NO_LINK": "1"}, {"NO_TMPFILE": "1", "NO_LINK": "1"}):
            with self.subTest(how):
                for what in ("new", "replaced"):
                    result = run_poorly("report", TRACE, "--output", out, "--force", **how)
                    self.assertEqual(result.returncode, 0, result.stderr)
                    self.assert_clean("x")
                    self.assertEqual(out.stat().st_mode & 0o777, modes[what])
                    out.chmod(0o600)
                old = out.read_bytes()
                result = run_poorly("report", TRACE, "--output", out, **how)
                self.assertEqual(result.returncode, 4)
                self.assertEqual(out.read_bytes(), old)
                out.unlink()
                result = run_poorly("report", TRACE, "--output", out, **how)
                self.assertEqual(result.returncode, 0, result.stderr)
                self.assert_clean("x")
                out.unlink()

    def test_modes(self):
        old = os.umask(0o027)
        try:
            run("update", TRACE, self.dir / "x")
        finally:
            os.umask(old)
        self.assertEqual((self.dir / "x").stat().st_mode & 0o777, 0o640)
        (self.dir / "x").chmod(0o604)
        run("update", TRACE, self.dir / "x")
        self.assertEqual((self.dir / "x").stat().st_mode & 0o777, 0o604)
