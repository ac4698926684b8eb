"""Windows clients: frames with an image and an offset get their names here from PE images and PDB
files, with what was inlined, and the leak of such a client is the first row of its report."""

import json
import os
import re
import shutil
import struct
import subprocess

from clients import capture_items, frame_name, thread_name
from test_capture import alloc, callstack, free
from tools import ROOT, Case, run

FOLDER = ROOT / "fixtures" / "windows"
IMAGE = "C:\\Games\\Shop\\leak.exe"
BASE = 0x7FF612340000
CALLS = [tuple(int(x, 16) for x in line.split())
         for line in (FOLDER / "calls.txt").read_text().splitlines()]


def marked(name, file="leak.cpp"):
    lines = (FOLDER / file).read_text().splitlines()
    return next(n for n, text in enumerate(lines, 1) if f"/* line: {name} */" in text)


def return_to(low, high, number=0):
    """Where a call between two addresses returns to."""
    return [at for at, _ in CALLS if low < at <= high][number]


# Functions of the program, as it is linked.
TAKE, DAY, SERVE, MAIN, REMEMBER = 0x1000, 0x1020, 0x1070, 0x10A0, 0x10F0
OUTER = [return_to(SERVE, MAIN), return_to(DAY, SERVE), return_to(MAIN, REMEMBER)]
LEAK = [return_to(REMEMBER, 0x1160, 1), *OUTER]
PICTURE = [return_to(REMEMBER, 0x1160, 0), *OUTER]
NAMED = [("store::Map<unsigned int,shop::Picture *>::insert", "C:\\shop\\map.h", marked("insert", "map.h")),
         ("shop::Cache::remember", "C:\\shop\\leak.cpp", marked("remember")),
         ("shop::`anonymous namespace'::serve", "C:\\shop\\leak.cpp", marked("serve")),
         ("shop::day", "C:\\shop\\leak.cpp", marked("day")),
         ("mainCRTStartup", "C:\\shop\\leak.cpp", marked("main"))]


class WindowsCase(Case):
    def setUp(self):
        super().setUp()
        os.environ["XDG_CACHE_HOME"] = str(self.dir / "cache")
        os.environ.pop("DEBUGINFOD_URLS", None)
        self.debug = self.dir / "debug"
        self.debug.mkdir()
        self.trace = self.dir / "t.tracy"

    def keep(self, *names, folder=None):
        for name in names:
            shutil.copy(FOLDER / name, folder or self.debug)

    def capture(self, image=IMAGE):
        """A client that resolves nothing itself: a map of 100 entries leaks, 50 pictures are freed."""
        items = thread_name(7, b"main")
        for at in {*LEAK, *PICTURE}:
            items += frame_name(BASE + at, b"[unresolved]", b"[unknown]", image=image.encode(),
                                symbol=at)
        for i in range(100):
            items += callstack(*(BASE + at for at in LEAK)) + alloc(10, 7, 0x10000 + 64 * i, 40)
        for i in range(50):
            items += callstack(*(BASE + at for at in PICTURE)) + alloc(10, 7, 0x90000 + 64 * i, 32)
            items += free(10, 7, 0x90000 + 64 * i)
        result = capture_items(self.trace, items, "--symbols", "client")
        self.assertEqual(result.returncode, 0, result.stderr)

    def symbols(self, *args):
        out = self.dir / "out.tracy"
        result = run("symbols", self.trace, "-o", out, "--format", "json", *args)
        self.assertEqual(result.returncode, 0, result.stderr)
        return json.loads(result.stdout)["images"][0], out

    def first_leak(self, trace):
        result = run("report", trace, "--leaks", "--format", "json")
        self.assertEqual(result.returncode, 0, result.stderr)
        row = json.loads(result.stdout)["leaks"][0]
        return [(f["function"], f["file"], f["line"]) for f in row["callstack"]]

    def assert_named(self, *args):
        image, out = self.symbols(*args)
        self.assertEqual(self.first_leak(out), NAMED)
        return image, out


class Names(WindowsCase):
    def test_the_leak_is_the_first_row(self):
        self.capture()
        self.keep("leak.exe", "leak.pdb")
        image, out = self.assert_named("--images-from-trace", "--debug-dir", self.debug)
        self.assertEqual(image["image"], IMAGE)
        text = run("report", out, "--leaks").stdout
        rows = [line for line in text.splitlines() if "leak.cpp:" in line or "map.h:" in line]
        self.assertRegex(rows[0], rf"map\.h:{marked('insert', 'map.h')}\b")

    def test_symbol_store(self):
        """NAME/GUIDAGE/NAME."""
        self.capture()
        self.keep("leak.exe")
        dump = subprocess.run(["llvm-pdbutil", "dump", "-summary", FOLDER / "leak.pdb"],
                              capture_output=True, text=True, check=True).stdout
        guid = re.search(r"GUID: \{(.*)\}", dump)[1].replace("-", "")
        age = int(re.search(r"Age: (\d+)", dump)[1])
        place = self.debug / "leak.pdb" / f"{guid}{age:X}"
        place.mkdir(parents=True)
        self.keep("leak.pdb", folder=place)
        self.assert_named("--images-from-trace", "--debug-dir", self.debug)

    def test_beside_the_image_at_a_substituted_path(self):
        self.capture()
        here = self.dir / "here"
        here.mkdir()
        self.keep("leak.exe", "leak.pdb", folder=here)
        self.assert_named("--images-from-trace", "--substitute", f"^C:.*Shop.;{here}/")

    def test_the_pdb_file_alone(self):
        self.capture()
        self.keep("leak.pdb")
        self.assert_named("--images-from-trace", "--debug-dir", self.debug)

    def test_another_build(self):
        """A PDB file of another GUID or age gives no names."""
        self.capture()
        self.keep("leak.exe")
        data = bytearray((FOLDER / "leak.pdb").read_bytes())
        exe = (FOLDER / "leak.exe").read_bytes()
        guid = exe[exe.index(b"RSDS") + 4:][:16]
        at = data.index(guid)
        data[at] ^= 1
        (self.debug / "leak.pdb").write_bytes(data)
        image, out = self.symbols("--images-from-trace", "--debug-dir", self.debug)
        self.assertNotIn("Map", str(self.first_leak(out)))
        self.assertEqual([f[0] for f in self.first_leak(out)][0], "leak.exe+0x113d")
        text = run("symbols", self.trace, "--images-from-trace", "--debug-dir", self.debug).stdout
        self.assertIn("leak.pdb (exists, without matching debug information)", text)

    def test_unchecked_images_need_leave(self):
        self.capture()
        self.keep("leak.exe", "leak.pdb")
        image, _ = self.symbols("--debug-dir", self.debug)
        self.assertIn("--images-from-trace", image["problem"])

    def test_update(self):
        self.capture()
        self.keep("leak.exe", "leak.pdb")
        out = self.dir / "out.tracy"
        result = run("update", "-r", "-p", f"^C:.*Shop.;{self.debug}/", self.trace, out)
        self.assertEqual(result.returncode, 0, result.stderr)
        leak = self.first_leak(out)
        # As official tools do, update keeps one function for each address, and looks up the address
        # behind a call.
        self.assertEqual(leak[0][:2], ("shop::Cache::remember", "C:\\shop\\map.h"))
        self.assertIn(leak[0][2], range(marked("insert", "map.h"), marked("insert", "map.h") + 3))
        self.assertEqual([f[0] for f in leak[1:]], [f[0] for f in NAMED[2:]])


    def test_exports_of_an_image_without_a_pdb_file(self):
        exe = FOLDER / "exports.dll"
        result = run("symbolize", "--no-symbol-cache", exe, "0x1000", "0x1045", "0x3000")
        self.assertEqual(result.stdout.splitlines()[::2],
                         ["plain", "store::Map<__int64>::insert", "exports.dll+0x3000"])

    def test_code_between_functions(self):
        """Padding gets the decoded name of the public symbol before it."""
        result = run("symbolize", "--no-symbol-cache", FOLDER / "leak.exe", "0x1066")
        self.assertEqual(result.stdout, "shop::day + 70\n??:0\n", result.stderr)


class SameAsLlvm(WindowsCase):
    @staticmethod
    def frames(text):
        """By address: function, file, line of each frame, innermost first."""
        out = {}
        for part in text.strip().split("\n0x"):
            lines = [line for line in part.splitlines() if line]
            address = int(lines[0].removeprefix("0x"), 16)
            if len(lines) % 2 == 0:  # no function: llvm-symbolizer prints an empty line
                lines.insert(1, "??")
            out[address] = [(f, *place.rsplit(":", 1)) for f, place in zip(lines[1::2], lines[2::2])]
        return out

    def test_each_address(self):
        """
        Functions, files and inlined calls as llvm-symbolizer prints them, and the lines of the
        outermost function. Lines within inlined calls are compared where a row begins: elsewhere
        llvm-symbolizer gives the line of the next row (its loop ends behind the row that it wants).
        """
        exe = FOLDER / "leak.exe"
        data = exe.read_bytes()
        section = data.index(b".text\0\0\0")
        size, low = struct.unpack_from("<II", data, section + 8)
        addresses = [f"{low + i:#x}" for i in range(size)]
        theirs = subprocess.run(["llvm-symbolizer", "--relative-address", "-a", "--functions=short",
                                 f"--obj={exe}", *addresses], capture_output=True, text=True,
                                check=True).stdout
        ours = run("symbolize", "-a", "--no-symbol-cache", exe, *addresses).stdout
        theirs, ours = self.frames(theirs.replace(":0\n", "\n")), self.frames(ours)
        self.assertEqual(len(ours), size)
        inlined = equal = 0
        for address, wanted in theirs.items():
            found = ours[address]
            if wanted[0][0] == "??":
                self.assertEqual((len(found), found[0][1]), (1, "??"), hex(address))
                continue
            self.assertEqual([f[:2] for f in found], [f[:2] for f in wanted], hex(address))
            self.assertEqual(found[-1], wanted[-1], hex(address))
            inlined += len(found) > 1
            begins = ours.get(address - 1) != found
            equal += len(found) > 1 and begins and found == wanted
        self.assertGreater(inlined, 100)
        self.assertGreater(equal, 5)


if __name__ == "__main__":
    import unittest
    unittest.main()
