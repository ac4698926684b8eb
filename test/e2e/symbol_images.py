"""Programs with debug information of every kind, made by the compilers at hand: what the tests of
symbols compare with llvm-symbolizer and addr2line. A recipe whose tool is absent raises Absent."""

import pathlib
import shutil
import struct
import subprocess

from tools import LIMIT

SHAPES_H = r"""
// Templates, calls inlined three deep, a name in no namespace: with no header of any library.
#pragma once
#define INLINE inline __attribute__((always_inline))
#define NOINLINE __attribute__((noinline))

template <typename T> INLINE T third(T x, volatile T *out)
{
    *out = x * 3;
    return *out + 1;
}

template <typename T> INLINE T second(T x, volatile T *out)
{
    T sum = 0;
    for (int i = 0; i < 4; i++)
        sum += third<T>(x + i, out);
    return sum;
}

template <typename T> INLINE T first(T x, volatile T *out)
{
    return second<T>(x, out) - third<T>(x, out);
}

namespace shapes {
template <typename T, int N> struct stack {
    T items[N];
    int used = 0;
    NOINLINE void push(const T &item)
    {
        if (used < N)
            items[used++] = item;
    }
    T pop() { return used > 0 ? items[--used] : T(); }
    struct inner {
        T value;
        NOINLINE T twice() const { return value + value; }
    };
};

struct shape {
    virtual ~shape() {}
    virtual double area() const = 0;
    static NOINLINE double unit(double x) { return x * 1.5; }
};
} // namespace shapes

int other(int x);
extern "C" int plain(int x);
"""

MAIN_CC = r"""
#include "shapes.h"

volatile int sink;
volatile double dsink;
volatile long lsink;

namespace {
struct square : shapes::shape {
    double side;
    explicit square(double s) : side(s) {}
    double area() const override { return unit(side) * side; }
};

NOINLINE int hidden(int x)
{
    auto twice = [](int y) { return first<int>(y, &sink) * 2; };
    auto add = [&](auto y) NOINLINE { return y + x; };
    return twice(x) + add(x) + (int)add((long)x);
}
} // namespace

NOINLINE static int choose(int x)
{
    switch (x & 7) {
    case 0: return hidden(x);
    case 1: return other(x + 1);
    case 2: return plain(x) + first<int>(x, &sink);
    case 3: sink = x; return 7;
    case 4: return (int)first<long>(x, &lsink);
    default: return x > 100 ? choose(x / 3) : (int)first<double>(x, &dsink);
    }
}

NOINLINE int local_class(int x)
{
    struct local {
        int v;
        NOINLINE int get() { return first<int>(v, &sink) + choose(v); }
    } l{x};
    return l.get();
}

template <typename... Args> NOINLINE int pack(Args... args)
{
    int sum = 0;
    int values[] = {choose((int)args)...};
    for (int v : values)
        sum += v;
    return sum;
}

int main(int argc, char **)
{
    shapes::stack<int, 8> ints;
    shapes::stack<double, 3> doubles;
    for (int i = 0; i < argc + 5; i++) {
        ints.push(choose(i));
        doubles.push(i * 0.5);
    }
    square s(argc);
    const shapes::shape *p = &s;
    dsink = p->area() + doubles.pop();
    shapes::stack<long, 2>::inner in{argc};
    sink = ints.pop() + local_class(argc) + (int)in.twice() + pack(1, 2L, 3.5);
    return sink & 1;
}
"""

OTHER_CC = r"""
#include "shapes.h"

static volatile int kept;
extern volatile double dsink;

namespace deep { namespace deeper {
NOINLINE int work(int x)
{
    return first<int>(x, &kept) + (int)shapes::shape::unit(x);
}
} }

int other(int x)
{
    shapes::stack<int, 8> s;
    s.push(deep::deeper::work(x));
    dsink = first<double>(x, &dsink);
    return s.pop() + second<int>(x, &kept);
}

int never_called(int x) { return other(x) * 2; }
"""

PLAIN_C = r"""
static volatile int cell;
static inline __attribute__((always_inline)) int innermost(int x) { cell = x; return cell * 5; }
static inline __attribute__((always_inline)) int middle(int x) { return innermost(x) + innermost(x + 1); }
int plain(int x)
{
    int sum = 0;
    for (int i = 0; i < x; i++)
        sum += middle(i);
    return sum;
}
"""

FREESTANDING = "extern \"C\" void _start() { extern int main(int, char **); main(1, 0); for (;;); }\n"

RUST = r"""
mod shapes {
    pub struct Stack<T> { items: Vec<T> }
    impl<T: Copy + std::ops::Add<Output = T>> Stack<T> {
        pub fn new() -> Self { Stack { items: Vec::new() } }
        #[inline(never)]
        pub fn push(&mut self, x: T) { self.items.push(x); }
        #[inline(always)]
        pub fn sum(&self, zero: T) -> T { self.items.iter().fold(zero, |a, b| a + *b) }
    }
    pub trait Area { fn area(&self) -> f64; }
    pub struct Square(pub f64);
    impl Area for Square { #[inline(never)] fn area(&self) -> f64 { self.0 * self.0 } }
}
use shapes::Area;
fn main() {
    let mut ints = shapes::Stack::<i64>::new();
    let mut reals = shapes::Stack::<f64>::new();
    for i in 0..std::env::args().count() as i64 + 5 {
        ints.push(i);
        reals.push(i as f64 * 0.5);
    }
    let boxed: Box<dyn Area> = Box::new(shapes::Square(2.0));
    println!("{} {} {}", ints.sum(0), reals.sum(0.0), boxed.area());
}
"""

D = r"""
module shapes;
extern (C) int printf(const char*, ...);
struct Stack(T) {
    T[8] items; int used;
    void push(T x) { if (used < 8) items[used++] = x; }
    T sum() { T s = 0; foreach (i; items[0 .. used]) s += i; return s; }
}
pragma(inline, true) int twice(int x) { return x * 2; }
int apply(int delegate(int) f, int x) { return f(x) + twice(x); }
extern (C) int main(int argc, char** argv)
{
    Stack!int ints; Stack!double reals;
    for (int i = 0; i < argc + 5; i++) { ints.push(i); reals.push(i * 0.5); }
    return (ints.sum() + cast(int) reals.sum() + apply((int y) => y + argc, argc)) & 1;
}
"""


class Absent(Exception):
    """A tool that a recipe needs is not there."""


def tool(*names):
    """The first of these programs that is there."""
    for name in names:
        if shutil.which(name):
            return name
    raise Absent(f"no {' or '.join(names)}")


def sh(folder, *command):
    """Runs a tool in the folder; its failure is a failure of the test."""
    result = subprocess.run([str(c) for c in command], cwd=folder, stdout=subprocess.PIPE,
                            stderr=subprocess.STDOUT, text=True, errors="replace", timeout=LIMIT)
    if result.returncode != 0:
        raise AssertionError(f"{command}: {result.stdout}")


class Image:
    """What a recipe made. `reference` is what llvm-symbolizer is asked about, where that is another
    file; `arguments` are for index_lookup."""

    def __init__(self, path, reference=None, arguments=()):
        self.path = pathlib.Path(path)
        self.reference = pathlib.Path(reference or path)
        self.arguments = [str(a) for a in arguments]


def sources(folder):
    for name, text in (("shapes.h", SHAPES_H), ("main.cc", MAIN_CC), ("other.cc", OTHER_CC),
                       ("plain.c", PLAIN_C), ("start.cc", FREESTANDING)):
        (folder / name).write_text(text)


def program(folder, compiler, flags, link=()):
    """The C and C++ program, by "gcc" or "clang"."""
    sources(folder)
    return linked(folder, compiler, flags, link)


def linked(folder, compiler, flags, link=()):
    c = tool(compiler)
    cc = tool({"gcc": "g++", "clang": "clang++"}[compiler])
    made = []
    for source in ("main.cc", "other.cc", "plain.c"):
        made.append(source + ".o")
        sh(folder, cc if source.endswith(".cc") else c, "-g", *flags, "-c", source, "-o", made[-1])
    sh(folder, cc, "-g", *flags, *link, *made, "-o", "program")
    return Image(folder / "program")


def long_dead(folder):
    """A function left out by the linker whose lines, counted from 0, reach into addresses of code.
    The reference is the program without it: llvm-symbolizer 14 takes that function for the code."""
    flags = ["-O2", "-ffunction-sections"]
    program(folder, "gcc", flags, ["-Wl,--gc-sections"]).path.rename(folder / "whole")
    body = "".join(f"    x = x * {i + 3} + y; y ^= x >> {i % 13};\n" for i in range(3000))
    with open(folder / "plain.c", "a") as out:
        out.write(f"int never(int x)\n{{\n    int y = x;\n{body}    return y;\n}}\n")
    linked(folder, "gcc", flags, ["-Wl,--gc-sections"])
    return Image(folder / "program", folder / "whole")


def compressed(folder, kind):
    image = program(folder, "gcc", ["-O2"])
    help_text = subprocess.run([tool("objcopy"), "--help"], stdout=subprocess.PIPE, text=True,
                               check=True).stdout
    if kind not in help_text:
        raise Absent(f"objcopy cannot compress with {kind}")
    sh(folder, "objcopy", f"--compress-debug-sections={kind}", "program", "packed")
    return Image(folder / "packed", image.path)


def separate(folder):
    image = program(folder, "gcc", ["-O2"])
    sh(folder, tool("objcopy"), "--only-keep-debug", "program", "program.debug")
    return Image(folder / "program.debug", image.path)


def dwz(folder, common, *more):
    """Two programs with what they share in a third file (or one alone)."""
    tool("dwz")
    image = program(folder, "gcc", ["-O2"])
    sh(folder, "cp", "program", "whole")
    if not common:
        sh(folder, "dwz", "program", "-o", "small")
        return Image(folder / "small", folder / "whole")
    sh(folder, "g++", "-g", "-O2", "-DTWIN", "main.cc.o", "other.cc.o", "plain.c.o", "-o", "twin")
    sh(folder, "dwz", *more, "-m", "common", "program", "twin")
    return Image(image.path, folder / "whole", ["-a", folder / "common"])


def split(folder, compiler, version, flags=("-O2",)):
    """The reference is the same program with all in one file: llvm-symbolizer 14 does not count
    ranges of a split unit from the address that its skeleton states."""
    program(folder, compiler, [*flags, f"-gdwarf-{version}"])
    (folder / "program").rename(folder / "whole")
    program(folder, compiler, [*flags, f"-gdwarf-{version}", "-gsplit-dwarf"])
    return Image(folder / "program", folder / "whole")


def package(folder, compiler, version, packer):
    tool(packer)
    image = split(folder, compiler, version)
    sh(folder, packer, "-e", "program", "-o", "program.dwp")
    (folder / "empty").mkdir()
    image.arguments = ["-p", str(folder / "program.dwp"), "-d", str(folder / "empty")]
    return image


SECTIONS_5 = {1: "info", 3: "abbrev", 4: "line", 5: "loclists", 6: "str_offsets", 8: "rnglists"}


def packed(folder, compiler):
    """A package of DWARF 5 made by hand (DWARF 5, 7.3.5): of gcc's .dwo files there is no other way
    here. dwp of binutils 2.40 writes version 2 and crashes on them, llvm-dwp 14 never ends."""
    image = split(folder, compiler, 5)
    whole = {kind: b"" for kind in SECTIONS_5}
    strings, rows = b"", []
    for dwo in sorted(folder.glob("*.dwo")):
        parts = {kind: dwo_section(folder, dwo, name) for kind, name in SECTIONS_5.items()}
        parts[6] = moved_strings(parts[6], len(strings))
        strings += dwo_section(folder, dwo, "str")
        _, version, unit_type, _, _, unit_id = struct.unpack_from("<IHBBIQ", parts[1])
        assert (version, unit_type) == (5, 5), dwo  # DW_UT_split_compile
        rows.append((unit_id, [(len(whole[k]), len(parts[k])) for k in SECTIONS_5]))
        for kind, part in parts.items():
            whole[kind] += part
    contents = {name: whole[kind] for kind, name in SECTIONS_5.items()}
    contents |= {"str": strings, "cu_index": package_index(rows)}
    arguments = []
    for name, data in contents.items():
        (folder / f"{name}.bin").write_bytes(data)
        suffix = "" if name == "cu_index" else ".dwo"
        arguments.append(f"--add-section=.debug_{name}{suffix}={folder / name}.bin")
    (folder / "none.c").write_text("")
    sh(folder, "gcc", "-c", "none.c", "-o", "none.o")
    sh(folder, "objcopy", *arguments, "none.o", "program.dwp")
    (folder / "empty").mkdir()
    image.arguments = ["-p", str(folder / "program.dwp"), "-d", str(folder / "empty")]
    return image


def dwo_section(folder, dwo, name):
    part = folder / "part.bin"
    part.write_bytes(b"")
    subprocess.run(["objcopy", f"--dump-section=.debug_{name}.dwo={part}", dwo, "/dev/null"],
                   check=False, capture_output=True)
    return part.read_bytes()


def moved_strings(offsets, by):
    """A table of 32-bit offsets into .debug_str, behind its header."""
    n = (len(offsets) - 8) // 4
    values = struct.unpack_from(f"<{n}I", offsets, 8)
    return offsets[:8] + struct.pack(f"<{n}I", *(v + by for v in values))


def package_index(rows):
    slots = 1
    while slots <= len(rows) * 3 // 2:
        slots *= 2
    ids, numbers = [0] * slots, [0] * slots
    for number, (unit_id, _) in enumerate(rows, 1):
        at, step = unit_id & (slots - 1), (unit_id >> 32) & (slots - 1) | 1
        while numbers[at]:
            at = (at + step) & (slots - 1)
        ids[at], numbers[at] = unit_id, number
    cells = [[cell[i] for _, row in rows for cell in row] for i in (0, 1)]
    return (struct.pack("<HHIII", 5, 0, len(SECTIONS_5), len(rows), slots) +
            struct.pack(f"<{slots}Q", *ids) + struct.pack(f"<{slots}I", *numbers) +
            struct.pack(f"<{len(SECTIONS_5)}I", *SECTIONS_5) +
            b"".join(struct.pack(f"<{len(c)}I", *c) for c in cells))


def freestanding(folder, target, link):
    """For another machine, with nothing but compiler and linker."""
    sources(folder)
    tool("clang++"), tool("ld.lld")
    flags = [f"--target={target}", "-O2", "-g", "-ffreestanding", "-fno-exceptions", "-fno-rtti",
             "-fno-threadsafe-statics", "-fno-asynchronous-unwind-tables"]
    made = []
    for source in ("main.cc", "other.cc", "plain.c", "start.cc"):
        text = (folder / source).read_text().replace("virtual ~shape() {}", "")
        (folder / source).write_text(text)
        header = (folder / "shapes.h").read_text().replace("virtual ~shape() {}", "")
        (folder / "shapes.h").write_text(header.replace("= 0;\n    static", "{ return 0; }\n    static"))
        made.append(source + ".o")
        language = "clang++" if source.endswith(".cc") else "clang"
        keep = [f for f in flags if language == "clang++" or "rtti" not in f and "statics" not in f]
        sh(folder, language, *keep, "-c", source, "-o", made[-1])
    sh(folder, "ld.lld", *link, *made, "-o", "program", "--unresolved-symbols=ignore-all")
    return Image(folder / "program")


def rust(folder):
    (folder / "main.rs").write_text(RUST)
    sh(folder, tool("rustc"), "-g", "-O", "main.rs", "-o", "program")
    return Image(folder / "program")


def d(folder):
    (folder / "main.d").write_text(D)
    compiler = tool("gdc", "gdc-12")
    sh(folder, compiler, "-g", "-O2", "main.d", "-o", "program")
    return Image(folder / "program")


IMAGES = {
    "gcc-O0": lambda f: program(f, "gcc", ["-O0"]),
    "gcc-O2": lambda f: program(f, "gcc", ["-O2"]),
    "gcc-O3-no-pie": lambda f: program(f, "gcc", ["-O3", "-fno-pie"], ["-no-pie"]),
    "clang-O0": lambda f: program(f, "clang", ["-O0"]),
    "clang-O2": lambda f: program(f, "clang", ["-O2"]),
    "gcc-dwarf-2-strict": lambda f: program(f, "gcc", ["-O0", "-gdwarf-2", "-gstrict-dwarf"]),
    "gcc-dwarf-2": lambda f: program(f, "gcc", ["-O2", "-gdwarf-2"]),
    "gcc-dwarf-3": lambda f: program(f, "gcc", ["-O2", "-gdwarf-3"]),
    "gcc-dwarf-4": lambda f: program(f, "gcc", ["-O2", "-gdwarf-4"]),
    "gcc-dwarf-5-64-bit": lambda f: program(f, "gcc", ["-O2", "-gdwarf-5", "-gdwarf64"]),
    "clang-dwarf-2": lambda f: program(f, "clang", ["-O2", "-gdwarf-2"]),
    "clang-dwarf-3": lambda f: program(f, "clang", ["-O2", "-gdwarf-3"]),
    "clang-dwarf-4": lambda f: program(f, "clang", ["-O2", "-gdwarf-4"]),
    "gcc-type-units": lambda f: program(f, "gcc", ["-O2", "-fdebug-types-section"]),
    "gcc-type-units-4": lambda f: program(f, "gcc", ["-O2", "-gdwarf-4", "-fdebug-types-section"]),
    "gcc-sections": lambda f: program(f, "gcc", ["-O2", "-ffunction-sections"],
                                      ["-Wl,--gc-sections"]),
    "gcc-sections-long": long_dead,
    "clang-sections-lld": lambda f: program(f, "clang", ["-O2", "-ffunction-sections"],
                                            ["-fuse-ld=" + tool("lld"), "-Wl,--gc-sections"]),
    "clang-icf-lld": lambda f: program(f, "clang", ["-O1", "-ffunction-sections"],
                                       ["-fuse-ld=" + tool("lld"), "-Wl,--icf=all"]),
    "gcc-lto": lambda f: program(f, "gcc", ["-O2", "-flto"]),
    "gcc-lto-4": lambda f: program(f, "gcc", ["-O2", "-flto", "-gdwarf-4"]),
    "clang-lto": lambda f: program(f, "clang", ["-O2", "-flto"], ["-fuse-ld=" + tool("lld")]),
    "gcc-split": lambda f: split(f, "gcc", 5),
    "gcc-split-4": lambda f: split(f, "gcc", 4),
    "gcc-split-O0": lambda f: split(f, "gcc", 5, ["-O0"]),
    "clang-split": lambda f: split(f, "clang", 5),
    "clang-split-4": lambda f: split(f, "clang", 4),
    "clang-split-inlining": lambda f: split(f, "clang", 5, ["-O2", "-fsplit-dwarf-inlining"]),
    "clang-split-sections": lambda f: split(f, "clang", 5, ["-O2", "-ffunction-sections"]),
    "gcc-package-4": lambda f: package(f, "gcc", 4, "dwp"),
    "gcc-package": lambda f: packed(f, "gcc"),
    "clang-package-by-hand": lambda f: packed(f, "clang"),
    "clang-package": lambda f: package(f, "clang", 5, "llvm-dwp"),
    "clang-package-4": lambda f: package(f, "clang", 4, "llvm-dwp"),
    "zlib": lambda f: compressed(f, "zlib"),
    "zlib-gnu": lambda f: compressed(f, "zlib-gnu"),
    "zstd": lambda f: compressed(f, "zstd"),
    "separate": separate,
    "dwz": lambda f: dwz(f, False),
    "dwz-common": lambda f: dwz(f, True),
    "dwz-supplement": lambda f: dwz(f, True, "--dwarf-5"),
    "aarch64": lambda f: freestanding(f, "aarch64-linux-gnu", []),
    "i386": lambda f: freestanding(f, "i386-linux-gnu", ["-m", "elf_i386"]),
    "rust": rust,
    "d": d,
}
