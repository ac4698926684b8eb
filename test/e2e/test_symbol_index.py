"""Functions, inlined calls, files and lines of random addresses: the index
against llvm-symbolizer and addr2line.

Both are asked about a copy without the symbol table, since llvm-symbolizer takes the outermost name
from there. Names are compared as the linker knows them. SYMBOL_ADDRESSES says how many addresses
of each image (400)."""

import os
import pathlib
import random
import re
import subprocess
import tempfile
import unittest

import symbol_images
from symbol_images import Absent, sh, tool
from tools import BUILD, LIMIT

LOOKUP = str(BUILD / "bench" / "index_lookup")
ADDRESSES = int(os.environ.get("SYMBOL_ADDRESSES", "400"))

# Where addr2line of binutils 2.40 is not compared, and why.
ADDR2LINE_WRONG = {
    r"^(clang-(O0|O2|lto|split|package(-by-hand)?|split-\w+|sections-lld|icf-lld)|aarch64|i386|gcc-O0|"
    r"gcc-split-O0|gcc-O3-no-pie)$":
        "of DWARF 5, the file before the first DW_LNS_set_file, DW_FORM_rnglistx, call file 0",
    r"^gcc-dwarf-5-64-bit$": "64-bit DWARF 5",
    r"^gcc-type-units$": "type units in .debug_info",
    r"^gcc-lto": "functions whose abstract origin lies in another unit",
    r"^d$": "places of functions without a name",
}


def frames(text):
    """Answers in the format of llvm-symbolizer: for each address [(function, file, line, column)]."""
    answers = []
    for block in text.strip("\n").split("\n\n"):
        lines = block.split("\n")
        answers.append([(function, *place.rsplit(":", 2))
                        for function, place in zip(lines[::2], lines[1::2])])
    return answers


def lookup(image, addresses, *args):
    """(answers, what it says of itself)."""
    asked = "".join(f"{a:#x}\n" for a in addresses)
    result = subprocess.run([LOOKUP, *args, *image.arguments, str(image.path)], input=asked,
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                            errors="replace", timeout=LIMIT)
    if result.returncode != 0:
        raise AssertionError(f"index_lookup: {result.returncode}: {result.stderr}")
    return frames(result.stdout), result.stderr


def llvm(program, addresses):
    asked = "".join(f"{a:#x}\n" for a in addresses)
    result = subprocess.run([tool("llvm-symbolizer"), "--no-demangle", f"--obj={program}"],
                            input=asked, stdout=subprocess.PIPE, text=True, errors="replace",
                            timeout=LIMIT, check=True)
    return frames(result.stdout)


def addr2line(program, addresses):
    """Answers with line "0" for unknown ones and no columns; paths are normalized."""
    asked = "".join(f"{a:#x}\n" for a in addresses)
    result = subprocess.run(["addr2line", "-a", "-i", "-f", "-e", str(program)], input=asked,
                            stdout=subprocess.PIPE, text=True, errors="replace", timeout=LIMIT,
                            check=True)
    answers, lines = [], result.stdout.splitlines()
    while lines:
        line = lines.pop(0)
        if re.fullmatch(r"0x[0-9a-f]{8,16}", line):
            answers.append([])
            continue
        place = re.sub(r" \(discriminator \d+\)$", "", lines.pop(0))
        path, number = place.rsplit(":", 1)
        answers[-1].append((line, plain_path(path), number.replace("?", "0")))
    return answers


def plain_path(path):
    return path if path == "??" else os.path.normpath(path)


def code(program):
    """Address and size of .text."""
    text = subprocess.run(["readelf", "-SW", str(program)], stdout=subprocess.PIPE, text=True,
                          check=True).stdout
    match = re.search(r"\.text\s+PROGBITS\s+(\w+)\s+\w+\s+(\w+)", text)
    return int(match[1], 16), int(match[2], 16)


def random_addresses(program, n=ADDRESSES):
    start, size = code(program)
    source = random.Random(str(program.name) + str(size))
    return [start + source.randrange(size) for _ in range(n)]


class Images(unittest.TestCase):
    """One test for each kind of image; they are added below."""

    def compare(self, name, image, folder):
        bare = folder / "bare"
        sh(folder, tool("llvm-objcopy", "llvm-objcopy-14"), "-R", ".symtab", "-R", ".strtab",
           image.reference, bare)
        addresses = random_addresses(image.reference)
        want = llvm(bare, addresses)
        self.assertGreater(sum(a[0][0] != "??" for a in want), len(want) // 2)
        got, facts = lookup(image, addresses, "-m")
        self.same(addresses, want, got, f"{name}, {facts}")
        self.assertRegex(facts, " 0 incomplete, 0 splits missing")
        self.same(addresses, want, lookup(image, addresses, "-m", "-l", "-t", "1")[0], name)
        self.addr2line(name, bare, addresses, got)

    def same(self, addresses, want, got, what):
        for address, a, b in zip(addresses, want, got, strict=True):
            self.assertEqual(a, b, f"{address:#x} of {what}")

    def addr2line(self, name, bare, addresses, got):
        for pattern in ADDR2LINE_WRONG:
            if re.search(pattern, name):
                return
        want = addr2line(bare, addresses)
        for address, a, b in zip(addresses, want, got, strict=True):
            mine = [(function, plain_path(path), line) for function, path, line, _ in b]
            self.assertEqual(a, mine, f"{address:#x} of {name}, addr2line")


def add_test(name, recipe):
    def test(self):
        with tempfile.TemporaryDirectory() as folder:
            folder = pathlib.Path(folder)
            try:
                image = recipe(folder)
                self.compare(name, image, folder)
            except Absent as absent:
                self.skipTest(f"{name}: {absent}")
    setattr(Images, "test_" + re.sub(r"\W", "_", name), test)


for image_name, image_recipe in symbol_images.IMAGES.items():
    add_test(image_name, image_recipe)


class Index(unittest.TestCase):
    def setUp(self):
        self.temporary = tempfile.TemporaryDirectory()
        self.addCleanup(self.temporary.cleanup)
        self.folder = pathlib.Path(self.temporary.name)

    def need(self, recipe):
        try:
            return recipe(self.folder)
        except Absent as absent:
            self.skipTest(str(absent))

    def test_more_than_65535_strings(self):
        """A unit with 70,000 functions and 70,001 strings resolves whole."""
        def build(folder):
            (folder / "many.c").write_text("".join(f"int f{i}(void){{return {i};}}\n"
                                                   for i in range(70000)))
            sh(folder, tool("clang"), "-gdwarf-5", "-O0", "-c", "many.c", "-o", "many.o")
            sh(folder, tool("ld.lld"), "-e", "f0", "many.o", "-o", "many")
            return symbol_images.Image(folder / "many")
        image = self.need(build)
        listing = subprocess.run(["nm", str(image.path)], stdout=subprocess.PIPE, text=True,
                                 check=True).stdout
        functions = [(int(a, 16), n) for a, kind, n in map(str.split, listing.splitlines())
                     if kind == "T"]
        self.assertEqual(len(functions), 70000)
        got, facts = lookup(image, [a for a, _ in functions])
        self.assertTrue(facts.startswith("by libdw:"), facts)
        for (address, name), answer in zip(functions, got, strict=True):
            self.assertEqual([f[0] for f in answer], [name], f"{address:#x}")
            self.assertEqual(answer[0][2], str(int(name[1:]) + 1))

    def test_missing_split_file(self):
        """Lines are in the program itself; functions are not."""
        image = self.need(lambda f: symbol_images.program(f, "gcc", ["-O2", "-gsplit-dwarf"]))
        addresses = random_addresses(image.path, 50)
        whole, _ = lookup(image, addresses)
        for path in self.folder.glob("*.dwo"):
            path.unlink()
        got, facts = lookup(image, addresses)
        self.assertIn(" 3 splits missing", facts)
        for a, b in zip(whole, got, strict=True):
            self.assertEqual(a[0][1:], b[0][1:])

    def test_stale_split_file(self):
        """A .dwo file of another compilation is not taken."""
        image = self.need(lambda f: symbol_images.program(f, "gcc", ["-O2", "-gsplit-dwarf"]))
        dwo = [p for p in self.folder.glob("*.dwo") if "main" in p.name][0]
        other = [p for p in self.folder.glob("*.dwo") if "other" in p.name][0]
        dwo.write_bytes(other.read_bytes())
        self.assertIn(" 1 splits missing", lookup(image, [code(image.path)[0]])[1])

    def test_cache(self):
        """What is saved answers alike, and is added to when other units are asked for."""
        image = self.need(lambda f: symbol_images.program(f, "gcc", ["-O2"]))
        addresses = sorted(random_addresses(image.path, 300))
        want, _ = lookup(image, addresses)
        cache = self.folder / "cache"
        first, facts = lookup(image, addresses[:20], "-l", "-c", str(cache))
        self.assertRegex(facts, r"3 units, [12] built")
        self.assertEqual(first, want[:20])
        self.assertTrue(lookup(image, addresses[:20], "-l", "-c", str(cache))[1]
                        .startswith("by a cache"))
        self.assertEqual(lookup(image, addresses, "-l", "-c", str(cache))[0], want)
        again, facts = lookup(image, addresses, "-l", "-c", str(cache))
        self.assertEqual(again, want)
        self.assertTrue(facts.startswith("by a cache: 3 units, 3 built"), facts)
        self.assertEqual(lookup(image, addresses, "-m", "-c", str(cache))[0],
                         lookup(image, addresses, "-m")[0])

    def test_cache_of_another_image(self):
        image = self.need(lambda f: symbol_images.program(f, "gcc", ["-O2"]))
        addresses = random_addresses(image.path, 20)
        want, _ = lookup(image, addresses)
        cache = self.folder / "cache"
        sh(self.folder, "g++", "-g", "-O1", "main.cc", "other.cc", "plain.c.o", "-o", "another")
        lookup(symbol_images.Image(self.folder / "another"), addresses, "-c", str(cache))
        got, facts = lookup(image, addresses, "-c", str(cache))
        self.assertEqual(got, want)
        self.assertTrue(facts.startswith("by libdw"), facts)


if __name__ == "__main__":
    unittest.main()
