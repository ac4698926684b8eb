"""`tidemark run` where the program becomes another user's, and where little can be written."""

import os
import shutil
import subprocess
import unittest

from test_run import RunCase, record, site, wait_until
from tools import BUILD, LIMIT, TIDEMARK, run

NOBODY = 65534
SETPRIV = shutil.which("setpriv")
AS_NOBODY = [SETPRIV, "--reuid", str(NOBODY), "--regid", str(NOBODY), "--clear-groups"]
READ_ONLY = """
mount --bind /tmp /tmp && mount --bind "$1" "$1" && mount -o remount,bind,ro /tmp || exit 99
if [ -d /dev/shm ]; then mount -t tmpfs -o ro none /dev/shm || exit 99; fi
cd "$1" && shift && exec "$@"
"""


def can_become_nobody():
    """Who is to load the library must be able to read it."""
    if os.geteuid() != 0 or not SETPRIV:
        return False
    library = str(BUILD / "libtidemark.so")
    return subprocess.run([*AS_NOBODY, "test", "-r", library],
                          stderr=subprocess.DEVNULL).returncode == 0


@unittest.skipUnless(can_become_nobody(), "needs root, and files that others may read")
class AnotherUser(RunCase):
    def setUp(self):
        super().setUp()
        self.dir.chmod(0o755)

    def test_what_gives_up_its_user_and_executes(self):
        result = record(self.dir, *AS_NOBODY, self.program, "exit", 3)
        self.assertEqual(result.returncode, 3, result.stderr)
        self.assertEqual(site(self.trace, "make_block")["count"], 1)
        self.assertNotIn("executed another", result.stderr)
        self.assert_nothing_left()

    def test_children_of_another_user(self):
        result = record(self.dir, *AS_NOBODY, self.program, "children", 20,
                        options=["--follow-fork", "--min-lifetime", 60])
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(site(self.dir / "out.children.tracy", "make_block")["count"], 40)
        self.assert_nothing_left()

    def test_a_stranger_is_not_recorded(self):
        """Who is no child of the program may connect, and gets nothing."""
        stranger = self.dir / "stranger"
        script = 'printenv TIDEMARK_SOCKET >"$1.new"; mv "$1.new" "$1"; cat >/dev/null'
        recorder = subprocess.Popen([TIDEMARK, "run", "--follow-fork", "--no-debuginfod", "-o",
                                     str(self.trace), "--", "sh", "-c",
                                     # What it executes sees the socket; who else knows it, too.
                                     f"sh -c '{script}' sh {stranger}; true"],
                                    stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                    stderr=subprocess.PIPE, text=True)
        self.addCleanup(recorder.communicate)
        self.addCleanup(recorder.kill)
        wait_until(stranger.exists)
        socket = stranger.read_text().strip()
        environment = dict(os.environ, LD_PRELOAD=str(BUILD / "libtidemark.so"),
                           TIDEMARK_SOCKET=socket)
        result = subprocess.run([*AS_NOBODY, "env", *(f"{k}={environment[k]}" for k in
                                                      ("LD_PRELOAD", "TIDEMARK_SOCKET")),
                                 str(self.program), "exit", "0"],
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        recorder.communicate("", timeout=LIMIT)
        for trace in self.dir.glob("*.tracy"):
            self.assertNotIn("make_block", run("report", trace).stdout)


@unittest.skipUnless(shutil.which("unshare"), "needs unshare")
class ReadOnly(RunCase):
    def test_temporary_folders(self):
        command = ["unshare", "-rm", "sh", "-c", READ_ONLY, "sh", str(self.dir)]
        if subprocess.run([*command, "true"], stderr=subprocess.DEVNULL).returncode != 0:
            self.skipTest("no mounts here")
        script = f"cd / && exec {self.program} exit 3"
        result = subprocess.run([*command, TIDEMARK, "run", "-o", "out.tracy", "--no-debuginfod",
                                 "--", "sh", "-c", script],
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                timeout=LIMIT)
        self.assertEqual(result.returncode, 3, result.stderr)
        self.assertEqual(site(self.trace, "make_block")["count"], 1)
        self.assertEqual([n for n in os.listdir(self.dir) if n.startswith("tidemark-")], [])


if __name__ == "__main__":
    unittest.main()
