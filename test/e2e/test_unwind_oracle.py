"""Call stacks of generated programs, held against those that libgcc's unwinder finds in the same calls."""

import collections
import os
import pathlib
import random
import shutil
import struct
import subprocess
import unittest

import recording
from tools import BUILD, LIMIT, ROOT, Case

ADDRESS = (1 << 48) - 1
FUNCTIONS = 60

HEAD = r"""
#define _GNU_SOURCE
#include <alloca.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#define OWN __attribute__((noinline))
#define USE(p) __asm__ volatile("" ::"r"(p) : "memory")
static volatile uint64_t sink;
static volatile int handled;
static int interrupts; /* only handlers allocate: they may have interrupted anything else */
OWN static void *get(size_t n) { void *p = malloc(n); USE(p); return p; }
static void handler(int s) { void *p = get(24 + (s + handled) % 64); USE(p); free(p); handled++; }
"""

MAIN = r"""
int main(int count, char **arguments)
{
    static char stack[65536];
    stack_t alternate = {.ss_sp = stack, .ss_size = sizeof stack};
    struct sigaction act = {.sa_handler = handler, .sa_flags = SA_RESTART};
    struct itimerval timer = {{0, 1000}, {0, 1000}};
    int rounds = atoi(arguments[1]);
    sigaltstack(&alternate, NULL);
    interrupts = count > 2;
    sigaction(SIGUSR1, &act, NULL);
    if (interrupts && arguments[2][0] == 'a')
        act.sa_flags |= SA_ONSTACK;
    sigaction(SIGALRM, &act, NULL);
    free(get(1)); /* what the unwinder itself allocates */
    if (interrupts)
        setitimer(ITIMER_REAL, &timer, NULL);
    for (int i = 0; interrupts ? handled < rounds : i < rounds; i++)
        sink += table[i % (sizeof table / sizeof *table)](i % 30, (uint64_t)i * 77, i, 1.5);
    memset(&timer, 0, sizeof timer);
    setitimer(ITIMER_REAL, &timer, NULL);
    return 7;
}
"""

LEAVES = (
    "return a * b + (a >> 3);",
    "for (int i = 0; i < 30; i++) { a ^= b << 3; b += a >> 5; } return a;",
    "volatile uint64_t w[40]; for (int i = 0; i < 40; i++) w[i] = a + i;"
    " for (int i = 0; i < 40; i++) b += w[i]; return b;",
    "volatile uint64_t w[300]; for (int i = 0; i < 300; i++) w[i] = a + i; return w[b % 300];",
)

LOCALS = (
    "", "char room[16]; USE(room);", "char room[4096]; USE(room);", "char room[33000]; USE(room);",
    "char room[150000]; USE(room);", "char *room = alloca(16 + (a & 255)); USE(room);",
    "char room[1 + (b & 127)]; USE(room);",
    "char room[64] __attribute__((aligned(64))); USE(room);",
)


def function(rng, n, rooms):
    values, floats = rng.choice((0, 1, 3, 8, 14)), rng.choice((0, 0, 0, 4))
    body = [f"uint64_t v{v} = leaf{rng.randrange(FUNCTIONS)}(a + {v}, b);" for v in range(values)]
    body += [f"double d{v} = x * {v + 1} + (double)a;" for v in range(floats)]
    body.append(rng.choice(rooms))
    body.append("if (d <= 0) { if (!interrupts) free(get(1 + (a & 1023))); return a; }")
    if rng.random() < 0.3:
        body.append("if ((a & 7) == 1 && !interrupts) free(get(100 + (b & 255)));")
    if rng.random() < 0.2:
        body.append("if ((a & 63) == 1 && !interrupts) raise(SIGUSR1);")
    callee = rng.choice((f"table[(a * 2654435761u + b) % {FUNCTIONS}]",
                         f"f{rng.randrange(FUNCTIONS)}"))
    call = f"{callee}(d - 1, a * 31 + {n}, b + {rng.randrange(99)}, x)"
    if not values and not floats and rng.random() < 0.4:
        body.append(f"return {call};") # a tail call
    else:
        body.append(f"uint64_t r = {call};")
        if rng.random() < 0.3:
            body.append(f"if (d < 6) r += f{rng.randrange(FUNCTIONS)}(d - 2, r, b, x);")
        body.append("return " + " + ".join(["r"] + [f"v{v}" for v in range(values)] +
                                           [f"(uint64_t)d{v}" for v in range(floats)]) + ";")
    return (f"OWN uint64_t f{n}(int d, uint64_t a, uint64_t b, double x) "
            f"{{ (void)x; {' '.join(body)} }}")


def program(seed, rooms):
    rng, numbers = random.Random(seed), range(FUNCTIONS)
    lines = [HEAD]
    lines += [f"OWN uint64_t f{n}(int, uint64_t, uint64_t, double);" for n in numbers]
    lines += [f"OWN uint64_t leaf{n}(uint64_t a, uint64_t b) {{ {rng.choice(LEAVES)} }}"
              for n in numbers]
    lines.append("static uint64_t (*const table[])(int, uint64_t, uint64_t, double) = {" +
                 ", ".join(f"f{n}" for n in numbers) + "};")
    return "\n".join(lines + [function(rng, n, rooms) for n in numbers] + [MAIN])


class Stacks(Case):
    """What both machines share; `flags` lists what a compiler is given."""

    FLAGS = ("-O2 -fomit-frame-pointer", "-O0", "-O3 -fno-omit-frame-pointer")

    def compiled(self, compiler, text, name, *flags):
        """Without a PLT, which a signal may interrupt: on AArch64 it has no tables, and glibc 2.36's for
        _dl_runtime_resolve do not count the 16 bytes that it pushes. libgcc's unwinder ends at the
        one, and crashes beyond the other."""
        path = self.dir / name
        subprocess.run([compiler, *flags, "-fno-plt", "-w", "-x", "c", "-", "-o", str(path), "-ldl"],
                       input=text, text=True, check=True)
        return path

    def oracle(self, compiler):
        return self.compiled(compiler, (ROOT / "test/e2e/unwind_oracle.c").read_text(), "oracle.so",
                             "-D_GNU_SOURCE", "-O2", "-shared", "-fPIC")

    def check(self, prefix, library, oracle, path, *arguments):
        """Runs the program, and compares each block's stack with the oracle's."""
        log, recorded = self.dir / "log", self.dir / "recording"
        log.unlink(missing_ok=True)
        recorded.unlink(missing_ok=True)
        environment = dict(os.environ, TIDEMARK_FILE=str(recorded), TIDEMARK_OPTIONS="depth=200",
                           ORACLE_FILE=str(log))
        preload = f"LD_PRELOAD={library} {oracle}"
        command = [*prefix, "-E", preload] if prefix else ["env", preload]
        result = subprocess.run([*command, str(path), *arguments], env=environment,
                                stdin=subprocess.DEVNULL, timeout=LIMIT)
        self.assertEqual(result.returncode, 7)
        record = recording.Recording(recorded)
        wanted, data, at = collections.defaultdict(list), log.read_bytes(), 0
        while at < len(data):
            address, size, count = struct.unpack_from("<3Q", data, at)
            frames = struct.unpack_from(f"<{count}Q", data, at + 24)
            at += 24 + 8 * count
            # Without the oracle's frame and the hook's.
            wanted[address].append((size, [(pc & ADDRESS, pc >> 63 == 1) for pc in frames[2:]]))
        stacks, signals = set(), 0
        for event in record.events:
            if event.kind != recording.ALLOC or event.how:
                continue
            # The oracle sees allocations from before the recording, too.
            want = wanted[event.address]
            while want and want[0][0] != event.size:
                want.pop(0)
            self.assertTrue(want, event)
            got, true = [(pc, exact) for pc, _, exact in record.stack(event.stack)], want.pop(0)[1]
            self.assertEqual(got, true)
            stacks.add(tuple(got))
            signals += any(exact for _, exact in got)
        return len(stacks), signals

    def check_all(self, prefix, library, compilers, flags):
        for seed, (compiler, options, clean) in enumerate(
                (c, f, clean) for c, *own, clean in compilers for f in (*flags, *own)):
            with self.subTest(compiler=compiler[0], flags=options):
                oracle = self.oracle(compilers[0][0][0])
                path, unaligned = (self.compiled(compiler[0], program(seed, rooms), name,
                                                 *compiler[1:], *options.split())
                                   for name, rooms in (("program", LOCALS),
                                                       ("unaligned", LOCALS[:-1])))
                stacks, _ = self.check(prefix, library, oracle, path, "200")
                self.assertGreater(stacks, 200)
                # libgcc's unwinder crashes if the tables do not cover each instruction. GCC's for
                # x86-64 are wrong at the `ret` of a function that realigned its stack: registers
                # are still found by the %rbp that has been restored.
                for where in ("own", "alternate") if clean else ():
                    stacks, signals = self.check(prefix, library, oracle, unaligned, "150",
                                                 where)
                    self.assertGreater(stacks, 75)
                    self.assertGreaterEqual(signals, 150)


@unittest.skipUnless(shutil.which("gcc"), "no gcc")
class Native(Stacks):
    def test_stacks(self):
        self.check_all([], BUILD / "libtidemark.so", [(["gcc"], True)], self.FLAGS)


ARM = "aarch64-linux-gnu-gcc"
SYSROOT = pathlib.Path("/usr/aarch64-linux-gnu")


@unittest.skipUnless(shutil.which(ARM) and shutil.which("qemu-aarch64") and
                     (SYSROOT / "include").exists(), f"no {ARM}, libc6-dev-arm64-cross or qemu-user")
class AArch64(Stacks):
    def test_stacks(self):
        clean = {k: v for k, v in os.environ.items() if not k.startswith(("MAKE", "MFLAGS"))}
        subprocess.run(["make", "-s", "-C", str(ROOT), f"BUILD={self.dir}", "SAN=",
                        "client-aarch64"], check=True, env=clean, stdout=subprocess.DEVNULL)
        compilers = [([ARM], "-O2 -mbranch-protection=standard",
                      "-O3 -fomit-frame-pointer -mbranch-protection=pac-ret+leaf+b-key", True)]
        if shutil.which("clang"):
            compilers.append((["clang", "--target=aarch64-linux-gnu"], False))
        self.check_all(["qemu-aarch64", "-L", str(SYSROOT)],
                       self.dir / "aarch64" / "libtidemark.so", compilers, self.FLAGS)
