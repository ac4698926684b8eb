"""libtidemark.so with other allocators than the C library's: what a program allocates is in the
recording once, whichever of the allocator's functions call which."""

import subprocess

import recording
from test_client import CXX, OPERATORS, ClientCase
from tools import LIMIT, report, run, shared_library

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

# What only jemalloc has. Built as a plugin, all but main is work().
JEMALLOC = r"""
#include <stdio.h>
#include <stdlib.h>
void *mallocx(size_t, int), *rallocx(void *, size_t, int);
size_t xallocx(void *, size_t, size_t, int);
void dallocx(void *, int), sdallocx(void *, size_t, int);
int work(void)
{
    for (size_t i = 1; i <= 100; i++) {
        char *p = mallocx(i, i % 3 ? 0 : 8); /* 8: aligned to 256 */
        p = rallocx(p, 20 * i, 0);
        if (xallocx(p, (size_t)1 << 40, 0, 0) >= (size_t)1 << 40)
            return 1;
        if (xallocx(p, 20 * i, 0, 0) < 20 * i)
            return 2;
        if (i % 2)
            dallocx(p, 0);
        else
            sdallocx(p, 20 * i, 0);
    }
    char *p = malloc(77); /* blocks of either kind */
    dallocx(p, 0);
    free(mallocx(78, 0));
    p = mallocx(79, 0);
    return p == 0;
}
"""

# Of Debian 12; that of Debian 13 is 3.
MIMALLOC_LIBRARY = next((name for name in ("libmimalloc.so.2", "libmimalloc.so.3")
                         if shared_library(name)), "libmimalloc.so.2")
MIMALLOC = r"""
#include <stdlib.h>
#include <string.h>
void *mi_malloc(size_t), *mi_zalloc(size_t), *mi_calloc(size_t, size_t);
void *mi_realloc(void *, size_t), *mi_malloc_aligned(size_t, size_t), *mi_new(size_t);
void *mi_recalloc_aligned(void *, size_t, size_t, size_t), *mi_heap_new(void);
void *mi_heap_malloc(void *, size_t), *mi_heap_realloc(void *, void *, size_t);
char *mi_strdup(const char *);
int mi_posix_memalign(void **, size_t, size_t);
void mi_free(void *), mi_free_size(void *, size_t);
int main(int count, char **arguments)
{
    for (size_t i = 1; i <= 100; i++) {
        void *p = mi_realloc(mi_malloc(i), 20 * i);
        mi_free(mi_recalloc_aligned(p, 20, i, 64));
        mi_free_size(mi_zalloc(i), i);
        free(mi_calloc(3, 5));
        mi_free(mi_strdup("hello"));
        if (mi_posix_memalign(&p, 64, i))
            return 1;
        mi_free(p);
    }
    mi_free(mi_new(9));
    mi_free(mi_malloc_aligned(100, 64));
    void *heap = mi_heap_new();
    mi_free(mi_heap_realloc(heap, mi_heap_malloc(heap, 10), 1000));
    mi_free(0);
#ifdef DESTROYS
    void mi_heap_destroy(void *);
    mi_heap_destroy(heap);
#endif
    return mi_malloc(79) == 0;
}
"""

TCMALLOC = r"""
#include <stdlib.h>
void *tc_malloc(size_t), *tc_calloc(size_t, size_t), *tc_realloc(void *, size_t), *tc_new(size_t);
void tc_free(void *), tc_delete(void *);
int main(void)
{
    for (size_t i = 1; i <= 100; i++) {
        tc_free(tc_realloc(tc_malloc(i), 20 * i));
        free(tc_calloc(3, 5));
        tc_delete(tc_new(i));
    }
    if (tc_realloc(tc_malloc(5), 0))
        return 1;
    return tc_malloc(79) == 0;
}
"""

ASKS = r"""
#include <stdio.h>
#include <stdlib.h>
void *mallocx(size_t, int) __attribute__((weak));
void *mi_malloc(size_t) __attribute__((weak));
void *tc_malloc(size_t) __attribute__((weak));
int main(void)
{
    free(malloc(5));
    printf("%d %d %d\n", !!mallocx, !!mi_malloc, !!tc_malloc);
    return 0;
}
"""

OPENS = r"""
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
static void *kept;
int main(int count, char **arguments)
{
    for (int i = 0; i < 3; i++) {
        void *library = dlopen(arguments[1], RTLD_LAZY | (count > 2 ? RTLD_DEEPBIND : 0));
        if (!library)
            return puts(dlerror()), 3;
        int (*work)(void **) = (int (*)(void **))dlsym(library, "work");
        kept = malloc(500);
        if (work(&kept))
            return 4;
        free(kept);
        if (dlclose(library))
            return 5;
    }
    return 0;
}
"""

# Gives blocks to who loaded it and takes others; one is its constructor's.
DEEP = r"""
#include <stdlib.h>
static void *first;
__attribute__((constructor)) static void begin(void) { first = malloc(600); }
__attribute__((destructor)) static void end(void) { free(first); }
int work(void **block)
{
    for (int i = 1; i <= 100; i++)
        free(realloc(malloc(i), 2 * i));
    free(*block);
    *block = malloc(501);
    return 0;
}
"""

CPP = {"compiler": CXX, "language": "c++"}


# A C program that loads C++, and the C++: operators that the runtime jumps to, and calls.
LOADS = r"""
#include <dlfcn.h>
int main(int count, char **argv)
{
    void *library = dlopen(argv[1], RTLD_NOW);
    void (*go)(void) = 0;
    if (library)
        *(void **)&go = dlsym(library, "go");
    if (!go)
        return 1;
    go();
    return dlclose(library);
}
"""
LOADED = r"""
#include <new>
extern "C" void go()
{
    for (int i = 0; i < 10; i++) {
        char *volatile array = new (std::nothrow) char[7001];
        delete[] array;
        void *volatile one = operator new(7002);
        operator delete(one, 7002);
    }
}
"""
CALLS = "void go(void); void (*volatile called)(void) = go;"


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
        path = shared_library(name)
        if not path:
            self.skipTest(f"{name} is not installed")
        return path

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

    def calls(self, program, *arguments, allocator, made, freed):
        """What a program called itself: `made` allocations, each once, and `freed` frees."""
        process = self.start(program, *arguments)
        said, error = process.communicate(timeout=LIMIT)
        self.assertEqual((process.returncode, said, error), (0, "", ""))
        self.program = arguments[0] if arguments else program
        record = self.recorded(process.pid)
        self.sound(record)
        ours = self.own(record)
        self.assertEqual((len(ours[0]), len(ours[1])), (made, freed), allocator)
        return record, ours[0]

    def test_functions_of_jemalloc(self):
        library = self.known("libjemalloc.so.2")
        main = JEMALLOC + "int main(void) { return work(); }"
        for binding in ("lazy", "now"):
            with self.subTest(binding=binding):
                program = self.build(f"mallocx-{binding}", main, library, f"-Wl,-z,{binding}")
                record, made = self.calls(program, allocator=library, made=303, freed=402)
                # A block that cannot grow in its place stays as it is.
                self.assertEqual(record.replay()[2]["put back"], 100)
                self.assertEqual(record.unseen, "")
                self.assertEqual([e.size for e in made[:6]], [1, 20, 20, 2, 40, 40])
                self.assertEqual([e.size for e in made[-3:]], [77, 78, 79])

    def test_functions_of_jemalloc_that_a_plugin_calls(self):
        library = self.known("libjemalloc.so.2")
        plugin = self.build("plugin.so", JEMALLOC, library, "-shared", "-fPIC")
        program = self.build("opens", OPENS, library, "-Wl,--no-as-needed", library)
        self.calls(program, plugin, allocator=library, made=3 * 303, freed=3 * 402)

    def test_functions_of_mimalloc(self):
        library = self.known(MIMALLOC_LIBRARY)
        record, made = self.calls(self.build("mi", MIMALLOC, library), allocator=library,
                                  made=100 * 7 + 5, freed=100 * 7 + 4)
        self.assertEqual(record.unseen, "")
        self.assertEqual([e.size for e in made[:7]], [1, 20, 20, 1, 15, 6, 1])

    def test_functions_of_tcmalloc(self):
        library = self.known("libtcmalloc_minimal.so.4")
        self.calls(self.build("tc", TCMALLOC, library), allocator=library, made=402, freed=401)

    def test_functions_whose_names_begin_with_another_are_said(self):
        library = self.known("libtcmalloc_minimal.so.4")
        source = """
            #include <stddef.h>
            void *tc_new_aligned_nothrow(size_t, size_t, const void *);
            void *tc_new_aligned(size_t, size_t);
            int main(int argc, char **argv) {
                return argc > 9 && tc_new_aligned_nothrow(1, 2, argv) == tc_new_aligned(1, 2);
            }"""
        record, _ = self.calls(self.build("aligned", source, library), allocator=library, made=0,
                               freed=0)
        self.assertEqual(sorted(record.unseen.split(", ")),
                         ["tc_new_aligned", "tc_new_aligned_nothrow"])

    def test_functions_that_are_not_recorded_are_said(self):
        library = self.known(MIMALLOC_LIBRARY)
        program = self.build("destroys", MIMALLOC, library, "-DDESTROYS")
        record, _ = self.calls(program, allocator=library, made=705, freed=704)
        self.assertEqual(record.unseen, "mi_heap_destroy")
        trace = self.dir / "out.tracy"
        result = run("run", "-o", trace, "--no-symbols", "--", program)
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("not recorded are calls of mi_heap_destroy", result.stderr)
        self.assertIn("mi_heap_destroy", run("info", trace).stdout)

    def test_an_allocator_is_not_there_because_of_us(self):
        process = self.start(self.build("asks", ASKS))
        self.assertEqual(process.communicate(timeout=LIMIT)[0], "0 0 0\n")
        library = self.known("libjemalloc.so.2")
        process = self.start(self.build("asks-je", ASKS, "-Wl,--no-as-needed", library))
        self.assertEqual(process.communicate(timeout=LIMIT)[0], "1 0 0\n")

    def deep(self, plugin):
        program = self.build("opens", OPENS)
        process = self.start(program, plugin, "deep")
        said, error = process.communicate(timeout=LIMIT)
        self.assertEqual((process.returncode, said, error), (0, "", ""))
        self.program = plugin
        return self.recorded(process.pid)

    def test_libraries_that_are_bound_to_themselves(self):
        for binding in ("lazy", "now"):
            with self.subTest(binding=binding):
                record = self.deep(self.build(f"deep-{binding}.so", DEEP, "-shared", "-fPIC",
                                              f"-Wl,-z,{binding}"))
                made, freed = self.own(record)
                self.assertEqual((len(made), len(freed)), (603, 603))
                live, found, _ = record.replay()
                # The constructor ran before: that its block was freed is known, but no more.
                self.assertEqual(len(found), 3)
                self.assertEqual([e for e in live.values() if e.size in (500, 501)], [])
                self.assertEqual((record.deep_libraries, record.deep_unseen), (3, 0))
                trace = self.dir / f"{binding}.tracy"
                result = run("run", "-o", trace, "--no-symbols", "--report", "none", "--",
                             self.dir / "opens", self.program, "deep")
                self.assertEqual(result.returncode, 0, result.stderr)
                self.assertEqual(report(trace)["faults"], [])

    def test_libraries_that_are_bound_to_an_allocator_of_theirs(self):
        self.build("libarray.so", ARRAY, "-std=c++17", "-shared", "-fPIC", **CPP)
        plugin = self.build("deep.so", DEEP.replace("free(*block)", "")
                            .replace("*block = malloc(501)", ""), "-shared", "-fPIC",
                            f"-Wl,-rpath,{self.dir}", "-Wl,--no-as-needed",
                            str(self.dir / "libarray.so"))
        record = self.deep(plugin)
        self.sound(record)
        self.assertEqual(self.own(record), ([], []))
        self.assertEqual((record.deep_libraries, record.deep_unseen), (0, 3))

    def test_a_runtime_of_c_plus_plus_that_comes_with_a_plugin(self):
        """Opened itself, or a dependency of what is opened."""
        program = self.build("loads", LOADS)
        plugin = self.build("libplugin.so", LOADED, "-std=c++17", "-shared", "-fPIC", **CPP)
        caller = self.build("libcaller.so", CALLS, "-shared", "-fPIC", f"-Wl,-rpath,{self.dir}",
                            "-Wl,--no-as-needed", str(plugin))
        for library in (plugin, caller):
            trace = self.dir / "out.tracy"
            result = run("run", "-f", "-o", trace, "--no-symbols", "--report", "none", "--",
                         program, library)
            self.assertEqual(result.returncode, 0, result.stderr)
            events = [line for line in run("dump", trace).stdout.splitlines()
                      if "size=700" in line]
            self.assertEqual(len([e for e in events if "size=7001" in e]), 10)
            self.assertEqual(len([e for e in events if "size=7002" in e]), 10)
            data = report(trace)
            self.assertEqual(data["faults"], [])

    def test_jemalloc(self):
        self.real_allocator("libjemalloc.so.2")

    def test_tcmalloc(self):
        self.real_allocator("libtcmalloc_minimal.so.4")

    def test_mimalloc(self):
        self.real_allocator(MIMALLOC_LIBRARY)
