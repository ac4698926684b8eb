"""`annotate` of functions that the trace has no machine code of: taken from the program's image,
stripped, with its debug file elsewhere, and held against objdump."""

import json
import os
import re
import shutil
import subprocess
import unittest

from clients import capture_items, frame_name
from test_capture import alloc, callstack
from test_symbols import NAMED, SymbolCase
from tools import run


def objdump(path, symbol_file, name):
    """(size, bytes) of a function by another reader."""
    listing = subprocess.run(["nm", "-S", symbol_file], capture_output=True, text=True).stdout
    address, size = next((int(f[0], 16), int(f[1], 16)) for f in map(str.split, listing.splitlines())
                         if len(f) == 4 and f[3] == name)
    text = subprocess.run(["objdump", "-d", "--no-show-raw-insn", f"--start-address={address}",
                           f"--stop-address={address + size}", path],
                          capture_output=True, text=True).stdout
    return size, [int(m, 16) - address for m in re.findall(r"^ *([0-9a-f]+):\t", text, re.M)]


class Image(SymbolCase):
    def annotate(self, trace, function, *args):
        result = run("annotate", trace, function, "--format", "json", *args)
        self.assertEqual(result.returncode, 0, result.stderr)
        return json.loads(result.stdout)

    def options(self):
        return ["--resolve", "--debug-dir", self.debug]

    def debug_file(self):
        return next(self.debug.rglob("*.debug"))

    def check(self, doc, name, trace):
        size, starts = objdump(self.dir / "shop", self.debug_file(), name)
        function = doc["function"]
        self.assertEqual((function["name"], function["size"]), (name, size))
        begin = int(function["address"], 16)
        self.assertEqual([int(i["address"], 16) - begin for i in doc["instructions"]], starts)
        self.assertEqual(doc["image_code"], {"path": str(self.dir / "shop"), "checked": True})
        self.assertGreater(doc["through"]["count"], 0)
        calls = [i for i in doc["instructions"] if i["call"]]
        self.assertTrue(calls)
        for call in calls:
            self.assertRegex(call["text"], r"^(call|bl)")

    def test_stripped_program(self):
        """Bounds and names come from the debug file, code from the program; lines from both."""
        _, trace = self.record()
        for name in ("shop_order", "shop_restock", "main"):
            doc = self.annotate(trace, name, *self.options())
            self.check(doc, name, trace)
            lines = [i["source"]["line"] for i in doc["instructions"] if i["source"]]
            self.assertGreater(len(lines), len(doc["instructions"]) * 3 // 4)
            files = {os.path.basename(i["source"]["file"]) for i in doc["instructions"]
                     if i["source"]}
            self.assertIn("stack_client.c", files)

    def test_by_address_and_in_text(self):
        _, trace = self.record()
        doc = self.annotate(trace, "shop_order", *self.options())
        inside = hex(int(doc["function"]["address"], 16) + 1)
        self.assertEqual(self.annotate(trace, inside, *self.options()), doc)
        result = run("annotate", trace, inside, *self.options())
        self.assertIn(f"Code of {self.dir / 'shop'}, which has the build id that the program's "
                      "image had", result.stdout)
        result = run("annotate", trace, inside, *self.options(), "--format", "csv")
        self.assertIn(f"the machine code is that of {self.dir / 'shop'}\n", result.stderr)
        self.assertEqual(len(result.stdout.splitlines()), len(doc["instructions"]) + 1)

    def test_without_names(self):
        """Unwind entries tell bounds where there is no name; the address is what one has."""
        _, trace = self.record()
        doc = self.annotate(trace, "shop_order", *self.options())
        shutil.rmtree(self.debug)
        bare = self.annotate(trace, doc["function"]["address"])
        self.assertIsNone(bare["function"]["name"])
        self.assertEqual(bare["function"]["size"], doc["function"]["size"])
        self.assertEqual([i["text"] for i in bare["instructions"]],
                         [i["text"] for i in doc["instructions"]])
        self.assertEqual(bare["through"], doc["through"])

    def test_names_of_the_client(self):
        """Without --resolve: what dynamic symbols told the client is enough."""
        _, trace = self.record(program=NAMED, strip=False)
        doc = self.annotate(trace, "shop_order")
        self.assertEqual(doc["function"]["name"], "shop_order")
        self.assertTrue(doc["image_code"]["checked"])
        self.assertGreater(doc["through"]["count"], 0)

    def test_another_build_is_refused(self):
        _, trace = self.record()
        named = self.dir / "named.tracy"
        self.assertEqual(run("symbols", trace, "-o", named, "--debug-dir", self.debug).returncode, 0)
        shop = self.dir / "shop"
        subprocess.run(["strip", "--remove-section=.note.gnu.build-id", shop], check=True)
        result = run("annotate", named, "shop_order", "--debug-dir", self.debug)
        self.assertEqual((result.returncode, result.stdout), (1, ""))
        self.assertIn("nor is it to be had of", result.stderr)
        # Under a root of the user's, which has the right one, it is found again.
        os.unlink(shop)
        result = run("annotate", named, "shop_order", "--debug-dir", self.debug)
        self.assertEqual(result.returncode, 1)
        root = self.dir / "root"
        place = root / shop.relative_to("/")
        place.parent.mkdir(parents=True)
        self.client()
        shutil.move(shop, place)
        doc = self.annotate(named, "shop_order", "--sysroot", root, "--debug-dir", self.debug)
        self.assertEqual(doc["image_code"], {"path": str(place), "checked": True})

    def test_nothing_to_check_by(self):
        """A trace without a module table: only with the user's word."""
        _, trace = self.record(relay=True, mode="offline")
        result = run("annotate", trace, "shop_order", *self.options())
        self.assertEqual(result.returncode, 1, result.stderr)
        doc = self.annotate(trace, "shop_order", *self.options(), "--images-from-trace")
        self.assertEqual(doc["image_code"], {"path": str(self.dir / "shop"), "checked": False})
        result = run("annotate", trace, "shop_order", *self.options(), "--images-from-trace")
        self.assertIn("; not verified as the program's image", result.stdout)


class OtherProcessors(SymbolCase):
    def test_aarch64(self):
        """Code of AArch64 on a machine of another kind; --base tells where it was."""
        clang, lld = shutil.which("clang") or shutil.which("clang-14"), shutil.which("ld.lld")
        if not clang or not lld:
            raise unittest.SkipTest("no clang or lld")
        source, program = self.dir / "a.c", self.dir / "libwork.so"
        source.write_text("int helper(int x);\n"
                          "int work(int x)\n{\n    return helper(x + 1) + helper(x);\n}\n")
        build = subprocess.run([clang, "--target=aarch64-linux-gnu", "-O1", "-g", "-fPIC", "-shared",
                                "-nostdlib", "-fuse-ld=lld", "-Wl,--build-id",
                                "-Wl,--unresolved-symbols=ignore-all", source, "-o", program],
                               capture_output=True, text=True)
        if build.returncode != 0:
            raise unittest.SkipTest(build.stderr[:200])
        listing = subprocess.run(["nm", "-S", program], capture_output=True, text=True).stdout
        start, size = next((int(f[0], 16), int(f[1], 16)) for f in map(str.split, listing.splitlines())
                           if len(f) == 4 and f[3] == "work")
        base, trace = 0x7f0000000000, self.dir / "a.tracy"
        returns = base + start + 12
        items = frame_name(returns, b"work", b"a.c", line=4, image=str(program).encode())
        items += callstack(returns) + alloc(10, 7, 0x1000, 64)
        result = capture_items(trace, items)
        self.assertEqual(result.returncode, 0, result.stderr)
        result = run("annotate", trace, "work", "--base", f"{program}={base:x}", "--format", "json")
        self.assertEqual(result.returncode, 0, result.stderr)
        doc = json.loads(result.stdout)
        self.assertEqual(int(doc["function"]["address"], 16), base + start)
        self.assertEqual((doc["function"]["size"], len(doc["instructions"])), (size, size // 4))
        texts = [i["text"] for i in doc["instructions"]]
        self.assertTrue(any(t.startswith("bl ") for t in texts), texts)
        self.assertEqual(texts[-1], "ret")
        self.assertEqual([i["call"]["count"] for i in doc["instructions"] if i["call"]], [1])
        self.assertFalse(doc["image_code"]["checked"])
        self.assertIn(4, {i["source"]["line"] for i in doc["instructions"] if i["source"]})


if __name__ == "__main__":
    unittest.main()
