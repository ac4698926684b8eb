"""`annotate` of instructions that are newer than the disassembler: boundaries and names are those of
objdump, and what has no name is shown as its bytes."""

import json
import re
import shutil
import subprocess
import unittest

from clients import capture_items, frame_name
from test_capture import alloc, callstack
from tools import Case, run

BASE = 0x7f0000000000

X86 = r"""
#include <immintrin.h>
void *hold(void *p);
void products(float *a, float *b, double *c, int n)
{
    for (int i = 0; i < n; i++)
        a[i] = a[i] * b[i + 16] + c[i];
}
int dots(unsigned char *a, signed char *b, int n)
{
    int sum = 0;
    for (int i = 0; i < n; i++)
        sum += a[i] * b[i];
    return sum;
}
void tiles(void *a, void *b, void *c)
{
    _tile_loadd(0, hold(a), 64);
    _tile_loadd(1, b, 64);
    _tile_zero(2);
    _tile_dpbssd(2, 0, 1);
    _tile_dpbf16ps(2, 0, 1);
    _tile_stored(2, c, 64);
    _tile_release();
}
void halves(_Float16 *a, _Float16 *b, int n)
{
    for (int i = 0; i < n; i++)
        a[i] = a[i] * b[i] + (_Float16)1.5;
}
void lanes(__m512i *a, __m512i *b, __m512 *f, int *at, double *d)
{
    a[1] = _mm512_dpbusd_epi32(a[0], b[1], b[2]);
    a[3] = _mm512_mask_add_epi32(a[0], 0x55, b[3], b[4]);
    a[5] = _mm512_conflict_epi32(b[6]);
    a[7] = _mm512_popcnt_epi32(b[8]);
    a[9] = _mm512_permutex2var_epi8(a[1], a[2], a[3]);
    f[3] = _mm512_dpbf16_ps(f[3], (__m512bh)a[1], (__m512bh)a[2]);
    for (int i = 0; i < 64; i++)
        d[i] = d[at[i]] > 0 ? d[at[i]] : d[i] * 3;
}
long others(unsigned *p)
{
    _inc_ssp(1);
    _wbnoinvd();
    _cldemote(p);
    _ptwrite64(*p);
    __builtin_ia32_serialize();
    return _rdpid_u32() + (long)_get_ssp() + _tzcnt_u32(*p) + _mm_popcnt_u32(*p);
}
"""

ARM = r"""
#include <arm_sve.h>
#include <arm_fp16.h>
void *hold(void *p);
void products(float *a, float *b, double *c, int n)
{
    for (int i = 0; i < n; i++)
        a[i] = a[i] * b[i + 16] + c[i];
}
void vectors(int *a, int *b, long n)
{
    for (long i = 0; i < n; i += svcntw()) {
        svbool_t some = svwhilelt_b32(i, n);
        svst1(some, a + i, svmla_x(some, svld1(some, a + i), svld1(some, b + i), 3));
    }
}
long atomics(long *p, int *q, void *r)
{
    hold(r);
    int expected = 3;
    __atomic_compare_exchange_n(q, &expected, 4, 0, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED);
    return __atomic_fetch_add(p, 5, __ATOMIC_SEQ_CST) + __atomic_exchange_n(q, 1, __ATOMIC_ACQUIRE);
}
float16_t halves(float16_t *a, float16_t b, int n)
{
    for (int i = 0; i < n; i++)
        b = vfmah_f16(b, a[i], a[i + 1]);
    return b;
}
"""

RISCV = r"""
int hold(int n);
int loop(int n)
{
    int sum = 0;
    for (int i = 0; i < n; i++) {
        sum += hold(i);
        if (sum > 100)
            break;
    }
    return sum;
}
double products(double *a, long n)
{
    double sum = 0;
    for (long i = 0; i < n; i++)
        sum += a[i] * a[n - i] / 1.5;
    return sum;
}
long others(long *p, unsigned char *q)
{
    return __atomic_fetch_add(p, 5, __ATOMIC_SEQ_CST) + (q[3] << 9) % (q[1] | 1) + (long)(float)*p;
}
"""

# Names that objdump and Capstone give the same instruction.
ALIASES = {
    ("xchg", "nop"), ("movs", "movsd"), ("movs", "movsq"), ("movs", "movsb"), ("stos", "stosd"),
    ("stos", "stosq"), ("stos", "stosb"), ("movabs", "mov"), ("mov", "movz"), ("mov", "movn"),
    ("mov", "orr"), ("mov", "ins"), ("b.cs", "b.hs"), ("b.cc", "b.lo"), ("uxtl", "ushll"),
    ("sxtl", "sshll"), ("bti", "hint"), ("paciasp", "hint"), ("autiasp", "hint"),
    ("bge", "blez"), ("bge", "bgez"), ("blt", "bltz"), ("blt", "bgtz"),
}
PREFIXES = {"rep", "repz", "repnz", "lock", "bnd", "notrack", "data16", "cs", "{evex}", "{vex}"}


def mnemonic(text):
    words = text.split()
    while len(words) > 1 and words[0] in PREFIXES:
        words.pop(0)
    return words[0]


class Newer(Case):
    def built(self, compiler, source, *options):
        path = self.dir / "newer.so"
        (self.dir / "newer.c").write_text(source)
        result = subprocess.run([compiler, "-O3", "-fPIC", "-shared", "-g0", *options, "-o", path,
                                 self.dir / "newer.c", "-nostdlib"], capture_output=True, text=True)
        if re.search("march|fatal error: .* No such file", result.stderr):
            raise unittest.SkipTest(result.stderr[:300])
        self.assertEqual(result.returncode, 0, result.stderr)
        return path

    def functions(self, objdump, path):
        """Name to (address, size, text of each instruction)."""
        syntax = ["-M", "intel"] if objdump.startswith("x86") else \
            ["-M", "no-aliases"] if "llvm" in objdump else []
        text = subprocess.run([objdump, "-d", "-w", "-j", ".text", *syntax, path], check=True,
                              capture_output=True, text=True).stdout
        found = {}
        for line in text.splitlines():
            if label := re.match(r"^[0-9a-f]+ <(\w+)>:$", line):
                rows = found.setdefault(label[1], [])
            elif row := re.match(r"^ +([0-9a-f]+):[ \t]((?:[0-9a-f]{2,8} )+) *(?:\t(.*))?$", line):
                rows.append((int(row[1], 16), len(row[2].replace(" ", "")) // 2, row[3]))
        return found

    def instructions(self, path, name):
        result = run("annotate", self.dir / "t.tracy", name, "--base", f"{path}={BASE:x}", "--format",
                     "json")
        self.assertEqual(result.returncode, 0, result.stderr)
        return json.loads(result.stdout)["instructions"]

    def check(self, path, objdump, names):
        functions = self.functions(objdump, path)
        trace, items = self.dir / "t.tracy", b""
        for i, name in enumerate(names):
            inside = BASE + functions[name][1][0]
            items += frame_name(inside, name.encode(), b"newer.c", image=str(path).encode())
            items += callstack(inside) + alloc(10, 7, 0x1000 + 64 * i, 64)
        result = capture_items(trace, items)
        self.assertEqual(result.returncode, 0, result.stderr)
        bytes_only = set()
        for name in names:
            lines = self.instructions(path, name)
            wanted = functions[name][:len(lines)]
            self.assertEqual([(int(l["address"], 16) - BASE, l["size"]) for l in lines],
                             [(address, size) for address, size, _ in wanted], name)
            for line, (_, _, text) in zip(lines, wanted):
                if line["code"]:
                    names_of = (mnemonic(text), mnemonic(line["text"]))
                    self.assertTrue(names_of[0] == names_of[1] or names_of in ALIASES,
                                    (names_of, line, text))
                else:
                    self.assertRegex(line["text"], r"^\.(byte|word) 0x")
                    bytes_only.add(mnemonic(text))
            head = run("annotate", trace, name, "--base", f"{path}={BASE:x}").stdout.splitlines()[1]
            unknown = sum(not line["code"] for line in lines)
            self.assertIn(f"{len(lines)} instructions", head)
            self.assertEqual(f", {unknown} of them unknown to the disassembler" in head, unknown > 0)
        return bytes_only

    @unittest.skipUnless(shutil.which("x86_64-linux-gnu-gcc"), "no gcc for x86-64")
    def test_x86(self):
        path = self.built("x86_64-linux-gnu-gcc", X86, "-march=sapphirerapids", "-mshstk",
                          "-Wl,-z,lazy")
        bytes_only = self.check(path, "x86_64-linux-gnu-objdump",
                                ["products", "dots", "tiles", "halves", "lanes", "others"])
        self.assertFalse(bytes_only & {"call", "jmp", "ret", "mov", "lea", "vmovups", "lfence"})

    @unittest.skipUnless(shutil.which("aarch64-linux-gnu-gcc"), "no gcc for AArch64")
    def test_aarch64(self):
        path = self.built("aarch64-linux-gnu-gcc", ARM, "-march=armv8.2-a+sve+fp16+lse",
                          "-mno-outline-atomics")
        bytes_only = self.check(path, "aarch64-linux-gnu-objdump",
                                ["products", "vectors", "atomics", "halves"])
        self.assertFalse(bytes_only & {"bl", "ret", "ldr", "stp", "b.ne"})

    @unittest.skipUnless(shutil.which("clang") and shutil.which("ld.lld") and
                         shutil.which("llvm-objdump"), "no LLVM")
    def test_riscv(self):
        """RISC-V, which Capstone 5 knows, and where jumps lead."""
        path = self.built("clang", RISCV, "--target=riscv64-linux-gnu", "-march=rv64gc", "-O1",
                          "-fuse-ld=lld", "-Wl,--unresolved-symbols=ignore-all")
        version = subprocess.run(["pkg-config", "--modversion", "capstone"], stdout=subprocess.PIPE,
                                 text=True).stdout
        if int(version.split(".")[0] or 0) < 5:
            with self.assertRaisesRegex(AssertionError, "with Capstone 5, 64-bit RISC-V"):
                self.check(path, "llvm-objdump", ["loop"])
            self.skipTest("Capstone 4")
        bytes_only = self.check(path, "llvm-objdump", ["loop", "products", "others"])
        self.assertEqual(bytes_only, set())
        starts = [row[0] for row in self.functions("llvm-objdump", path)["loop"]]
        texts = [line["text"] for line in self.instructions(path, "loop")]
        leads = [text for text in texts if re.match(r"(c\.)?(j|b\w+) ", text)]
        self.assertGreater(len(leads), 2)
        for text in leads:
            self.assertIn(int(text.split()[-1], 16) - BASE, starts, text)


if __name__ == "__main__":
    unittest.main()
