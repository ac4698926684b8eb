"""libtidemark.so with other allocators than the C library's: what a program allocates is in the
recording once, whichever of the allocator's functions call which."""

import re
import shutil
import subprocess

import recording
from test_client import CXX, OPERATORS, ClientCase
from tools import LIMIT

# Blocks of one array, by way of malloc or not.
ARRAY = r"""
#include <cstddef>
#include <cstring>
#include <new>
static char room[1 << 20];
static size_t used;
static void *take(size_t n)
{
    if (n > sizeof room)
        return nullptr;
    size_t at = __atomic_fetch_add(&used, (n + 47) & ~31ul, __ATOMIC_RELAXED);
    memcpy(room + at + 24, &n, sizeof n);
    return room + at + 32;
}
static void *take_aligned(size_t n, size_t alignment)
{
    char *p = (char *)take(n + alignment);
    size_t off = (size_t)p % alignment;
    p += off ? alignment - off : 0;
    memcpy(p - 8, &n, sizeof n);
    return p;
}
extern "C" {
void *malloc(size_t n) { return take(n); }
void free(void *) {}
void *calloc(size_t n, size_t m) { return take(n * m); }
void *aligned_alloc(size_t a, size_t n) { return take_aligned(n, a); }
void *realloc(void *old, size_t n)
{
    void *p = take(n);
    size_t had = 0;
    if (old)
        memcpy(&had, (char *)old - 8, sizeof had);
    return memcpy(p, old ? old : p, had < n ? had : n);
}
}
static void *thrower(void *p)
{
    if (!p)
        throw std::bad_alloc();
    return p;
}
#if PLAIN
#define TAKE(n) malloc(n)
#define GIVE(p) free(p)
#else
#define TAKE(n) take(n)
#define GIVE(p) (void)(p)
#endif
void *operator new(size_t n) { return thrower(TAKE(n)); }
void *operator new(size_t n, const std::nothrow_t &) noexcept { return TAKE(n); }
void *operator new(size_t n, std::align_val_t a) { return take_aligned(n, (size_t)a); }
void *operator new[](size_t n, std::align_val_t a) { return operator new(n, a); }
void operator delete(void *p) noexcept { GIVE(p); }
void operator delete(void *p, size_t) noexcept { GIVE(p); }
void operator delete(void *p, const std::nothrow_t &) noexcept { GIVE(p); }
void operator delete(void *p, size_t, std::align_val_t) noexcept { GIVE(p); }
void operator delete(void *p, std::align_val_t) noexcept { GIVE(p); }
void operator delete[](void *p, std::align_val_t) noexcept { GIVE(p); }
void operator delete[](void *p, size_t, std::align_val_t) noexcept { GIVE(p); }
#if WHOLE
void *operator new[](size_t n) { return operator new(n); }
void operator delete[](void *p) noexcept { operator delete(p); }
void operator delete[](void *p, size_t) noexcept { operator delete(p); }
#endif
"""

THREADS = r"""
#include <cstdio>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>
static size_t work(int seed)
{
    std::map<int, std::string> table;
    std::vector<std::unique_ptr<int[]>> arrays;
    size_t sum = 0;
    for (int i = 0; i < 2000; i++) {
        table[(i * 7919 + seed) % 900] += std::string(i % 60, 'x');
        arrays.emplace_back(new int[i % 50 + 1]{i});
    }
    for (auto &[key, text] : table)
        sum += key + text.size();
    return sum;
}
int main()
{
    size_t sums[4];
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; i++)
        threads.emplace_back([&sums, i] { sums[i] = work(i); });
    for (auto &thread : threads)
        thread.join();
    printf("%zu\n", sums[0] + sums[1] + sums[2] + sums[3]);
}
"""

CPP = {"compiler": CXX, "language": "c++"}


class Allocators(ClientCase):
    def recorded_with(self, program, library, options=""):
        """The recording, and what the program wrote with and without us."""
        environment = self.environment(options)
        plain = {k: v for k, v in environment.items() if k != "LD_PRELOAD"}
        if library:
            plain["LD_PRELOAD"] = library
            environment["LD_PRELOAD"] += f":{library}"
        process = self.start(program, env=environment)
        said = process.communicate(timeout=LIMIT)[0]
        self.assertEqual(process.returncode, 0)
        without = subprocess.run([program], env=plain, stdout=subprocess.PIPE,
                                 stderr=subprocess.DEVNULL, text=True, check=True,
                                 timeout=LIMIT)
        self.assertEqual(said, without.stdout)
        self.program = program
        return self.recorded(process.pid)

    def operators(self, program, library=""):
        record = self.recorded_with(program, library)
        self.sound(record)
        made, freed = self.own(record)
        self.assertEqual([(e.size, e.how) for e in made],
                         [(1, 5), (1001, 5), (192, 4), (384, 5), (1002, 4)] + [(1003, 0)] * 3)
        self.assertEqual([e.how for e in freed], [4, 5, 4, 5, 4, 0, 0, 0])
        record = self.recorded_with(program, library, "sample=1,seed=5")
        self.sound(record)
        made, freed = self.own(record)
        self.assertEqual([e.size for e in made if e.size > 1], [1001, 192, 384, 1002] + [1003] * 3)
        self.assertEqual(len(made), len(freed))

    def test_operators_that_go_by_malloc_or_not(self):
        program = self.build("operators", OPERATORS, "-std=c++17", **CPP)
        for plain in (0, 1):
            for whole in (0, 1):
                with self.subTest(plain=plain, whole=whole):
                    library = self.build(f"libarray{plain}{whole}.so", ARRAY, "-std=c++17",
                                         "-shared", "-fPIC", f"-DPLAIN={plain}",
                                         f"-DWHOLE={whole}", **CPP)
                    self.operators(program, library)

    def known(self, name):
        """The path of an allocator that is installed; without one the test is skipped."""
        listed = subprocess.run([shutil.which("ldconfig") or "/sbin/ldconfig", "-p"],
                                stdout=subprocess.PIPE, text=True).stdout
        found = [m[1] for m in re.finditer(rf"{re.escape(name)} .*=> (\S+)", listed)]
        if not found:
            self.skipTest(f"{name} is not installed")
        return found[0]

    def real_allocator(self, name):
        library = self.known(name)
        source = OPERATORS
        if "mimalloc" in name:  # which aborts where others throw
            source = source.replace("operator new((size_t)-1 / 4)", "nullptr").replace(
                "caught == 3", "caught == 0")
        self.operators(self.build("preloaded", source, "-std=c++17", **CPP), library)
        linked = ("-std=c++17", "-Wl,--no-as-needed", library)
        self.operators(self.build("linked", source, *linked, **CPP))
        counts = []
        for program in (self.build("threads", THREADS, "-std=c++17", **CPP),
                        self.build("threads-linked", THREADS, *linked, **CPP)):
            record = self.recorded_with(program, "")
            self.sound(record)
            made, freed = self.own(record)
            counts.append((len(made), len(freed), sum(e.size for e in made)))
            self.assertEqual(len([e for e in made if e.how == 5]), 8000)
            self.assertEqual(len([e for e in record.events if e.kind == recording.LOSS]), 0)
        self.assertEqual(counts[0], counts[1])

    def test_jemalloc(self):
        self.real_allocator("libjemalloc.so.2")

    def test_tcmalloc(self):
        self.real_allocator("libtcmalloc_minimal.so.4")

    def test_mimalloc(self):
        self.real_allocator("libmimalloc.so.2")
