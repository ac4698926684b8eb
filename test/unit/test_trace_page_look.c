/* Looks at pages: states, bytes, and lines of /proc/PID/maps as areas. */

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <fcntl.h>

#include <cmocka.h>

#include "proc/page_reader.h"
#include "trace/store/page_look.h"
#include "trace/store/resident_stacks.h"

#define PAGE UINT64_C(4096)

static struct page_look sample(void)
{
    struct page_look l = {
        .reason = LOOK_AT_EXIT, .begin = -5, .end = 70, .page = PAGE, .rss = 9, .huge = 8};
    const struct look_area areas[] = {
        {.start = PAGE,
         .end = 5 * PAGE,
         .kind = AREA_HEAP,
         .present = 1,
         .swapped = 1,
         .unsure = 1},
        {.start = 1024 * PAGE, .end = 2048 * PAGE, .kind = AREA_ANONYMOUS, .present = 512},
        {.start = UINT64_C(1) << 46, .end = UINT64_C(1) << 47, .kind = AREA_FILE, .unread = true}};
    for (size_t i = 0; i < 3; i++)
        assert_true(vec_push(&l.areas, areas[i]));
    assert_true(page_look_set(&l, PAGE, PAGE_PRESENT));
    assert_true(page_look_set(&l, 2 * PAGE, PAGE_SWAPPED));
    assert_true(page_look_set(&l, 3 * PAGE, PAGE_ABSENT));
    assert_true(page_look_set(&l, 4 * PAGE, PAGE_UNSURE));
    for (uint64_t i = 1024; i < 1536; i++)
        assert_true(page_look_set(&l, i * PAGE, PAGE_PRESENT));
    return l;
}

static void check_sample(const struct page_look *l)
{
    size_t hint = 0;
    static const enum page_state states[] = {PAGE_ABSENT, PAGE_PRESENT, PAGE_SWAPPED,
                                             PAGE_ABSENT, PAGE_UNSURE,  PAGE_ABSENT};
    for (uint64_t i = 0; i < 6; i++)
        assert_int_equal(page_look_at(l, i * PAGE + i, &hint), states[i]);
    assert_int_equal(page_look_at(l, 1023 * PAGE, &hint), PAGE_ABSENT);
    assert_int_equal(page_look_at(l, 1535 * PAGE, &hint), PAGE_PRESENT);
    assert_int_equal(page_look_at(l, 1536 * PAGE, &hint), PAGE_ABSENT);
    assert_int_equal(page_look_at(l, PAGE, &hint), PAGE_PRESENT);
    assert_int_equal(l->begin, -5);
    assert_int_equal(l->end, 70);
    assert_int_equal(l->huge, 8);
    assert_int_equal(l->areas.len, 3);
    assert_true(l->areas.at[2].unread);
    assert_int_equal(l->areas.at[1].present, 512);
    assert_int_equal(page_look_area(l, 5 * PAGE), 1);
    assert_int_equal(page_look_area(l, 5 * PAGE - 1), 0);
}

static void test_round_trip(void **state)
{
    (void)state;
    struct page_looks looks = {0}, back;
    struct buf bytes = {0};
    struct err e = {0};
    assert_true(vec_push(&looks.list, sample()));
    check_sample(&looks.list.at[0]);
    page_looks_encode(&looks, &bytes);
    assert_int_equal(page_looks_decode(&back, buf_view(&bytes), &e), 0);
    assert_int_equal(back.list.len, 1);
    check_sample(&back.list.at[0]);
    page_looks_release(&back);
    /* Every shorter text is refused, and so are further bytes. */
    for (size_t n = 0; n < bytes.len; n++) {
        struct view cut = {(const char *)bytes.data, n};
        assert_int_equal(page_looks_decode(&back, cut, &e), -1);
        assert_int_equal(e.code, ERR_INPUT);
    }
    buf_u8(&bytes, 0);
    assert_int_equal(page_looks_decode(&back, buf_view(&bytes), &e), -1);
    page_looks_release(&looks);
    buf_release(&bytes);
}

static void refuse(const char *bytes, size_t n, const char *why)
{
    struct page_looks l;
    struct err e = {0};
    assert_int_equal(page_looks_decode(&l, (struct view){bytes, n}, &e), -1);
    assert_non_null(strstr(e.text, why));
}

static void test_hostile(void **state)
{
    (void)state;
    refuse("\x7f", 1, "too many looks");
    refuse("\x01\x09\0\0\x0c\0\0\0\0", 9, "an invalid look");
    refuse("\x01\0\0\0\x40\0\0\0\0", 9, "an invalid look");
    refuse("\x01\0\0\0\x0c\0\0\x7f\0", 9, "more elements than bytes");
    refuse("\x01\0\0\0\x0c\0\0\x01\0\0\x02\0\x03\0\0", 15, "more pages than it has room for");
    refuse("\x01\0\0\0\x0c\0\0\x01\0\0\x02\x7e\0\0\0", 15, "an unknown kind");
    refuse("\x01\0\0\0\x0c\0\0\0\x02\x01\x01\0\x01", 13, "a chunk out of order");
    refuse("\x01\xff\xff\xff\xff\xff\xff\xff\xff\xff\x7f", 11, "more than 64 bits");
}

static void test_stacks(void **state)
{
    (void)state;
    struct resident_stacks r = {.known = true}, back;
    struct buf bytes = {0};
    struct err e = {0};
    const struct resident_stack one = {
        .pool = 3, .callstack = 7, .present = UINT64_MAX, .nested = 5};
    assert_true(vec_push(&r.list, one));
    assert_true(vec_push(&r.list, (struct resident_stack){.present = 1}));
    resident_stacks_encode(&r, &bytes);
    assert_int_equal(resident_stacks_decode(&back, buf_view(&bytes), &e), 0);
    assert_true(back.known);
    assert_int_equal(back.list.len, 2);
    assert_int_equal(back.list.at[0].callstack, 7);
    assert_true(back.list.at[0].present == UINT64_MAX && back.list.at[1].present == 1);
    assert_int_equal(back.list.at[0].nested, 5);
    resident_stacks_release(&back);
    bytes.len--;
    assert_int_equal(resident_stacks_decode(&back, buf_view(&bytes), &e), -1);
    assert_non_null(strstr(e.text, "offset 28"));
    resident_stacks_release(&r);
    buf_release(&bytes);
}

static void expect_area(const char *line, bool there, enum area_kind kind,
                        const struct look_area *before)
{
    struct look_area a;
    assert_int_equal(page_reader_area(view_of(line), before, &a), there);
    if (there)
        assert_int_equal(a.kind, kind);
}

static void test_areas(void **state)
{
    (void)state;
    const struct look_area image = {.start = 0x1000, .end = 0x2000, .kind = AREA_FILE};
    struct look_area zeroed = image;
    zeroed.zeroed = true;
    expect_area("2000-3000 rw-p 00000000 00:00 0 ", true, AREA_ANONYMOUS, NULL);
    expect_area("2000-3000 rw-p 00000000 00:00 0", true, AREA_FILE, &image);
    expect_area("3000-4000 rw-p 00000000 00:00 0 ", true, AREA_ANONYMOUS, &image);
    expect_area("2000-3000 rw-p 00000000 00:00 0 ", true, AREA_ANONYMOUS, &zeroed);
    expect_area("2000-3000 ---p 00000000 00:00 0 ", true, AREA_ANONYMOUS, &image);
    expect_area("2000-3000 rw-p 00000000 00:00 0    [heap]", true, AREA_HEAP, &image);
    expect_area("2000-3000 rw-p 00000000 00:00 0    [stack]", true, AREA_STACK, NULL);
    expect_area("2000-3000 r-xp 00000000 fe:01 77   /lib/a b.so", true, AREA_FILE, NULL);
    expect_area("2000-3000 rw-s 00000000 00:01 77   /dev/zero (deleted)", true, AREA_SHARED, NULL);
    expect_area("2000-3000 rw-s 00000000 fe:01 77   /x/7.0.recording", true, AREA_RECORDER, NULL);
    expect_area("2000-3000 r-xp 00000000 00:00 0    [vdso]", false, AREA_FILE, NULL);
    expect_area("0-8000000000 ---p 00000000 00:00 0 ", false, AREA_FILE, NULL);
    expect_area("3000-2000 rw-p 00000000 00:00 0 ", false, AREA_FILE, NULL);
    expect_area("2000-3000 rw-p", false, AREA_FILE, NULL);
    expect_area("", false, AREA_FILE, NULL);
}

/* "Rss: N kB" of the mapping in /proc/self/smaps that begins at this address, in bytes. */
static uint64_t size_in_smaps(uint64_t start, const char *what)
{
    char line[512], begins[32], key[32];
    uint64_t kib = 0;
    bool here = false, found = false;
    snprintf(begins, sizeof begins, "%08llx-", (unsigned long long)start);
    snprintf(key, sizeof key, "%s:", what);
    FILE *f = fopen("/proc/self/smaps", "re");
    assert_non_null(f);
    while (!found && fgets(line, sizeof line, f)) {
        if (strstr(line, "-p ") || strstr(line, "-s "))
            here = strncmp(line, begins, strlen(begins)) == 0;
        else if (here && strncmp(line, key, strlen(key)) == 0)
            found = sscanf(line + strlen(key), "%" SCNu64, &kib) == 1;
    }
    fclose(f);
    assert_true(found);
    return kib * 1024;
}

/* Of a process with known pages: touched, read only (the zero page), and never touched. */
static void test_reading(void **state)
{
    (void)state;
    char *all = mmap(NULL, 10 * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    char *block = all + PAGE;
    struct page_look l;
    struct err e = {0};
    size_t hint = 0;
    assert_true(all != MAP_FAILED);
    if (sysconf(_SC_PAGESIZE) != (long)PAGE)
        skip();
    assert_int_equal(mprotect(block, 8 * PAGE, PROT_READ | PROT_WRITE), 0);
    assert_int_equal(madvise(block, 8 * PAGE, MADV_NOHUGEPAGE), 0);
    block[PAGE] = 1;
    block[2 * PAGE] = ((volatile char *)block)[4 * PAGE];
    struct process_memory of;
    (void)process_memory_open(&of, getpid());
    if (page_look_read(&l, &of, &e) != 0)
        skip(); /* a kernel without pagemap */
    /* Some guests' kernels give a page that is read memory of its own, which smaps counts. */
    bool zero = size_in_smaps((uint64_t)(uintptr_t)block, "Rss") == 2 * PAGE;
    const enum page_state states[] = {
        PAGE_ABSENT, PAGE_PRESENT, PAGE_PRESENT, PAGE_ABSENT, zero ? PAGE_UNSURE : PAGE_PRESENT,
        PAGE_ABSENT, PAGE_ABSENT,  PAGE_ABSENT};
    for (uint64_t i = 0; i < 8; i++)
        assert_int_equal(page_look_at(&l, (uint64_t)(uintptr_t)block + i * PAGE, &hint), states[i]);
    assert_true(l.rss > 0 && l.end >= l.begin);
    page_look_release(&l);
    process_memory_close(&of);
    munmap(all, 10 * PAGE);
}

/*
 * What was given back is absent; what the kernel may take is resident until it does, as smaps says.
 * A mapping of its own, between two without access.
 */
static void test_given_back(void **state)
{
    (void)state;
    const int none = MAP_PRIVATE | MAP_ANONYMOUS;
    struct page_look l;
    struct err e = {0};
    size_t hint = 0;
    char *all = mmap(NULL, 34 * PAGE, PROT_NONE, none, -1, 0), *block = all + PAGE;
    assert_true(all != MAP_FAILED);
    if (sysconf(_SC_PAGESIZE) != (long)PAGE)
        skip();
    assert_int_equal(mprotect(block, 32 * PAGE, PROT_READ | PROT_WRITE), 0);
    assert_int_equal(madvise(block, 32 * PAGE, MADV_NOHUGEPAGE), 0);
    memset(block, 1, 16 * PAGE);
    assert_int_equal(madvise(block + 4 * PAGE, 4 * PAGE, MADV_DONTNEED), 0);
    if (madvise(block + 8 * PAGE, 4 * PAGE, MADV_FREE) != 0)
        skip(); /* a kernel before 4.5 */
    struct process_memory of;
    (void)process_memory_open(&of, getpid());
    uint64_t start = (uint64_t)(uintptr_t)block, pages[4] = {0}, rss = size_in_smaps(start, "Rss");
    if (page_look_read(&l, &of, &e) != 0)
        skip();
    for (uint64_t i = 0; i < 32; i++)
        pages[page_look_at(&l, start + i * PAGE, &hint)]++;
    for (uint64_t i = 4; i < 8; i++)
        assert_int_equal(page_look_at(&l, start + i * PAGE, &hint), PAGE_ABSENT);
    const struct look_area *a = &l.areas.at[page_look_area(&l, start)];
    assert_int_equal(a->start, start);
    assert_int_equal(a->end, start + 32 * PAGE);
    assert_int_equal(a->present, pages[PAGE_PRESENT]);
    assert_int_equal(a->swapped, pages[PAGE_SWAPPED]);
    if (size_in_smaps(start, "Rss") == rss) { /* the kernel took none meanwhile */
        assert_int_equal(a->present * PAGE, rss);
        assert_int_equal(a->swapped * PAGE, size_in_smaps(start, "Swap"));
    }
    /* The kernel may have taken the freed pages, and swapped the others, but it has not lost them.
     */
    assert_in_range(pages[PAGE_PRESENT] + pages[PAGE_SWAPPED], 8, 12);
    page_look_release(&l);
    process_memory_close(&of);
    munmap(all, 34 * PAGE);
}

static uint64_t huge_in_rollup(void)
{
    char line[256];
    unsigned long long kib = 0;
    FILE *f = fopen("/proc/self/smaps_rollup", "r");
    while (f && fgets(line, sizeof line, f))
        (void)sscanf(line, "AnonHugePages: %llu", &kib);
    if (f)
        fclose(f);
    return (uint64_t)kib * 1024;
}

/* Those of memory that is shared are not the process's own. */
static void test_huge_pages(void **state)
{
    (void)state;
    const size_t size = (size_t)8 << 20;
    struct page_look l;
    struct err e = {0};
    char *own = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    char *shared = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_true(own != MAP_FAILED && shared != MAP_FAILED);
    if (madvise(own, size, MADV_HUGEPAGE) != 0 || madvise(shared, size, MADV_HUGEPAGE) != 0)
        skip(); /* a kernel without them */
    memset(own, 1, size);
    memset(shared, 1, size);
    struct process_memory of;
    (void)process_memory_open(&of, getpid());
    uint64_t before = huge_in_rollup();
    if (before == 0 || page_look_read(&l, &of, &e) != 0)
        skip();
    if (huge_in_rollup() == before) /* the kernel made and split none meanwhile */
        assert_int_equal(l.huge, before);
    page_look_release(&l);
    process_memory_close(&of);
    munmap(own, size);
    munmap(shared, size);
}

/* A heap with memory mapped right below it, which is one mapping to the kernel; the one has a head.
 */
static void test_heap_in_a_mapping(void **state)
{
    (void)state;
    const uint64_t heap = LOOK_HEAP_BYTES, mib = (uint64_t)1 << 20;
    struct page_look l;
    struct err e = {0};
    char *all = mmap(NULL, 3 * heap, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(all != MAP_FAILED);
    uint64_t at = ((uint64_t)(uintptr_t)all / heap + 2) * heap; /* the second in it */
    char *head = all + (at - (uint64_t)(uintptr_t)all);
    assert_int_equal(mprotect(head - mib, 3 * mib, PROT_READ | PROT_WRITE), 0);
    (void)madvise(all, 3 * heap, MADV_NOHUGEPAGE); /* one page is touched */
    memcpy(head, (uint64_t[]){at + 32, 0, mib, 2 * mib}, 32);
    struct process_memory of;
    (void)process_memory_open(&of, getpid());
    int memory = openat(of.folder, "mem", O_RDONLY);
    if (memory < 0 || page_look_read(&l, &of, &e) != 0)
        skip();
    const struct look_area *a = &l.areas.at[page_look_area(&l, at)];
    assert_int_equal(a->kind, AREA_ARENA);
    assert_int_equal(a->start, at);
    assert_int_equal(a->end, at + 2 * mib);
    assert_int_equal(a->present, 1);
    const struct look_area *below = &l.areas.at[page_look_area(&l, at - 1)];
    assert_int_equal(below->kind, AREA_ANONYMOUS);
    assert_int_equal(below->start, at - mib);
    assert_int_equal(below->end, at);
    page_look_release(&l);
    close(memory);
    process_memory_close(&of);
    munmap(all, 3 * heap);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_round_trip),
                                       cmocka_unit_test(test_hostile),
                                       cmocka_unit_test(test_stacks),
                                       cmocka_unit_test(test_areas),
                                       cmocka_unit_test(test_reading),
                                       cmocka_unit_test(test_given_back),
                                       cmocka_unit_test(test_heap_in_a_mapping),
                                       cmocka_unit_test(test_huge_pages)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
