"""What others put where journals, traces and recordings lie stays: symlinks are not followed, and
only files with a header of ours are removed."""

import os
import shutil
import time
import unittest

import test_recover
from test_daemon_production import ENDS, Running
from tools import run


def contents(folder):
    """Paths below a folder, with what is in the files and where symlinks lead."""
    found = {}
    for path in sorted(folder.rglob("*")):
        name = str(path.relative_to(folder))
        found[name] = (os.readlink(path) if path.is_symlink() else
                       path.read_bytes() if path.is_file() else None)
    return found


class Captures(test_recover.Killed):
    """Journals are left by captures that are killed."""

    def setUp(self):
        super().setUp()
        self.foreign = self.dir / "foreign"

    def make_foreign(self, folder):
        """With names of ours, as a journal has them."""
        folder.mkdir(exist_ok=True)
        for name in ("00000002", "20240101", "00000009.state", "x.state", "next.state", "notes"):
            (folder / name).write_bytes(b"precious" * 20)
        (folder / "00000003").touch()
        (folder / "inner").mkdir()
        (folder / "inner" / "file").touch()
        (folder / "00000004").symlink_to("notes")
        (folder / "00000005.state").symlink_to("notes")

    def test_a_symlink_in_place_of_a_journal(self):
        """To a folder with files of ours and of others, to an empty one, and to nothing."""
        self.leave()
        full = self.dir / "full"
        self.journal.rename(full)
        self.make_foreign(full)
        for where in ("full", "empty", "absent"):
            (self.dir / "empty").mkdir(mode=0o700, exist_ok=True)
            self.journal.symlink_to(where)
            before = contents(self.dir)
            result = self.capture(self.RECORDING, self.out, "--no-summary")
            self.assertEqual(result.returncode, 4, where)
            self.assertIn("is in the way: it is no journal of tidemark", result.stderr, where)
            self.assertEqual(run("recover", self.dir).returncode, 3, where)
            self.assertEqual(contents(self.dir), before, where)
            self.journal.unlink()

    def test_a_folder_in_place_of_a_journal(self):
        """An empty one is ours only as we make them."""
        for fill in (self.make_foreign, lambda folder: folder.mkdir(mode=0o755)):
            fill(self.journal)
            before = contents(self.dir)
            result = self.capture(self.RECORDING, self.out, "--no-summary")
            self.assertEqual(result.returncode, 4, result.stderr)
            self.assertIn("is in the way", result.stderr)
            self.assertEqual(contents(self.dir), before)
            shutil.rmtree(self.journal)
        self.journal.mkdir(mode=0o700)
        result = self.capture(self.RECORDING, self.out, "--no-summary")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assert_clean("x.tracy")

    def test_files_of_others_in_a_journal(self):
        """They stay when it is recovered by name, also through a symlink."""
        self.leave()
        kept = self.dir / "kept"
        self.journal.rename(kept)
        self.make_foreign(self.foreign)
        (self.foreign / "00000002").unlink() # or the journal would be damaged
        (self.foreign / "00000003").unlink()
        (self.foreign / "20240101").unlink()
        others = contents(self.foreign)
        for link in (False, True):
            place = self.dir / "elsewhere" if link else self.journal
            shutil.copytree(kept, place)
            shutil.copytree(self.foreign, place, symlinks=True, dirs_exist_ok=True)
            if link:
                self.journal.symlink_to(place)
            result = run("recover", self.journal, "-o", self.out, "-f")
            self.assertEqual(result.returncode, 4, result.stderr)
            self.assertIn("there are files in it that are no journal's", result.stderr)
            self.assertEqual(contents(place), others)
            self.assertEqual(self.journal.is_symlink(), link)
            self.assertEqual(run("verify", self.out).returncode, 0)
            shutil.rmtree(place)

    def test_a_symlink_to_a_recording(self):
        result = run("run", "--keep-recording", "-o", self.out, "--", "/bin/true", cwd=self.dir)
        self.assertEqual(result.returncode, 0, result.stderr)
        (recording,) = self.dir.glob("tidemark-run.*/*.recording")
        link = self.dir / "r.recording"
        link.symlink_to(recording)
        result = run("recover", link)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertTrue(link.is_symlink() and recording.exists())
        self.assertEqual(run("recover", recording).returncode, 0)
        self.assertFalse(recording.exists())

    def test_a_symlink_in_place_of_a_part(self):
        """It gets another name, and the symlink leads where it led."""
        (self.dir / "x.2.tracy").symlink_to("absent")
        result = self.capture(self.RECORDING, self.out, "--no-summary", "--rotate", "100K")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(os.readlink(self.dir / "x.2.tracy"), "absent")
        self.assertTrue((self.dir / "x.3.tracy").is_file())
        self.assertFalse((self.dir / "absent").exists())


class Daemons(Running, test_recover.Killed):
    def test_symlinks_in_its_folder(self):
        """Neither recovered nor removed; captures take other names."""
        self.leave()
        full, empty = self.dir / "full", self.dir / "empty"
        self.journal.rename(full)
        for name in ("20240101", "x.state"):
            (full / name).write_bytes(b"precious")
        empty.mkdir(mode=0o700)
        self.traces.mkdir()
        (self.traces / "x.tracy").symlink_to("absent")
        (self.traces / "x_1.tracy.journal").symlink_to("absent")
        (self.traces / "y.tracy.journal").symlink_to(full)
        (self.traces / "z.tracy.journal").symlink_to(empty)
        before = contents(self.dir)
        client = self.client(ENDS)
        with self.daemon("--name", "x.tracy", "--target", f"127.0.0.1:{client.port}") as process:
            self.wait_said("Trace size", process)
            time.sleep(3) # it looks every two seconds
            self.assertEqual(self.stop(process), 0, self.said())
        after = contents(self.dir)
        del after["log"], after["traces/x_2.tracy"]
        self.assertEqual(after, before, self.said())


if __name__ == "__main__":
    unittest.main()
