/* What the kernel counts of a process: numbers in its texts, the cgroup's folder, readings. */

#include <fcntl.h>
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

#include <cmocka.h>

#include "proc/memory_plots.h"
#include "proc/memory_text.h"
#include "proc/process_memory.h"

#define MIB ((size_t)1 << 20)

static void test_numbers(void **state)
{
    (void)state;
    const char *status = "Name:\tRssAnon: 7\nVmSwap:\t       0 kB\nRssAnon:\t     108 kB\n";
    const char *pressure = "some avg10=0.00 avg60=0.10 total=5\nfull avg10=0.00 total=77\n";
    uint64_t n = 1;
    assert_true(memory_text_number(status, "RssAnon:", "", &n));
    assert_int_equal(n, 108);
    assert_true(memory_text_number(status, "VmSwap:", "", &n));
    assert_int_equal(n, 0);
    assert_false(memory_text_number(status, "RssFile:", "", &n));
    assert_false(memory_text_number(status, "Name:", "", &n));
    assert_true(memory_text_number(pressure, "full ", "total=", &n));
    assert_int_equal(n, 77);
    /* A key counts in its own line only. */
    assert_false(memory_text_number("some x\nfull total=3\n", "some ", "total=", &n));
    assert_false(memory_text_number("max\n", "", "", &n));
    assert_false(memory_text_number("", "", "", &n));
    assert_false(memory_text_number("18446744073709551616\n", "", "", &n));
    assert_true(memory_text_number("18446744073709551615\n", "", "", &n));
    assert_true(n == UINT64_MAX);
}

static void test_stat(void **state)
{
    (void)state;
    const char *stat = "7 () 1 2 (3 4) S 1 7 7 0 -1 4194560 139 0 12 0";
    uint64_t n = 1;
    assert_true(memory_text_stat(stat, 4, &n));
    assert_int_equal(n, 1);
    assert_true(memory_text_stat(stat, 10, &n));
    assert_int_equal(n, 139);
    assert_true(memory_text_stat(stat, 12, &n));
    assert_int_equal(n, 12);
    assert_false(memory_text_stat(stat, 14, &n));
    assert_false(memory_text_stat("7 (x", 10, &n));
    assert_false(memory_text_stat("", 10, &n));
}

static const char mounts_v1[] =
    "31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw,mode=755\n"
    "32 31 0:29 / /sys/fs/cgroup/cpu rw,relatime - cgroup cgroup rw,cpu\n"
    "35 31 0:32 / /sys/fs/cgroup/memory rw,relatime shared:9 - cgroup cgroup rw,memory\n"
    "41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw\n";

static void expect(const char *groups, const char *mounts, enum cgroup_version version,
                   const char *folder)
{
    static struct cgroup_memory found;
    cgroup_memory_find(groups, mounts, &found);
    assert_int_equal(found.version, version);
    if (version != CGROUP_NONE)
        assert_string_equal(found.folder, folder);
}

static void test_cgroups(void **state)
{
    (void)state;
    expect("9:name=systemd:/\n4:memory:/a/b\n0::/\n", mounts_v1, CGROUP_V1,
           "/sys/fs/cgroup/memory/a/b");
    expect("4:cpu,memory:/a\n", "1 1 0:1 / /m rw - cgroup cgroup rw,cpu,memory\n", CGROUP_V1,
           "/m/a");
    expect("0::/user.slice/x\n", "1 1 0:1 / /sys/fs/cgroup rw - cgroup2 none rw\n", CGROUP_V2,
           "/sys/fs/cgroup/user.slice/x");
    /* A container sees its own group alone. */
    expect("4:memory:/docker/1\n", "1 1 0:1 /docker/1 /m rw - cgroup cgroup rw,memory\n", CGROUP_V1,
           "/m");
    expect("4:memory:/docker/12\n", "1 1 0:1 /docker/1 /m rw - cgroup cgroup rw,memory\n",
           CGROUP_NONE, NULL);
    expect("0::/../x\n", "1 1 0:1 / /m rw - cgroup2 none rw\n", CGROUP_NONE, NULL);
    expect("0::/x\n", "1 1 0:1 / /with\\040blank rw - cgroup2 none rw\n", CGROUP_NONE, NULL);
    /* With version 1 mounted for memory, the counts of version 2 are not this process's. */
    expect("4:memory:/a\n0::/b\n", "1 1 0:1 / /m rw - cgroup2 none rw\n", CGROUP_NONE, NULL);
    expect("", "", CGROUP_NONE, NULL);
    expect("4:memory\n0:\n:\n", "1 1\n\n", CGROUP_NONE, NULL);
}

static double value(const struct memory_reading *r, enum memory_value which)
{
    assert_true(r->known & UINT32_C(1) << which);
    return r->value[which];
}

/* Touched pages count, and reserved ones do not. */
static void test_reading(void **state)
{
    (void)state;
    struct process_memory p;
    struct memory_reading before, after, pss;
    assert_true(process_memory_open(&p, getpid()));
    process_memory_read(&p, &before);
    char *block = mmap(NULL, 64 * MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(block != MAP_FAILED);
    memset(block, 1, 16 * MIB);
    process_memory_read(&p, &after);
    process_memory_pss(&p, &pss);
    double grown = value(&after, MEMORY_RSS_ANON) - value(&before, MEMORY_RSS_ANON);
    grown += value(&after, MEMORY_SWAP) - value(&before, MEMORY_SWAP);
    assert_true(grown >= 15.0 * MIB && grown <= 24.0 * MIB);
    assert_true(value(&after, MEMORY_RSS_FILE) > 0);
    assert_false(before.known & UINT32_C(1) << MEMORY_MINOR_FAULTS);
    assert_true(value(&after, MEMORY_MINOR_FAULTS) > 0);
    assert_false(after.known & UINT32_C(1) << MEMORY_PSS);
    if (access("/proc/self/smaps_rollup", R_OK) == 0)
        assert_true(value(&pss, MEMORY_PSS) > 0);
    munmap(block, 64 * MIB);
    process_memory_close(&p);
}

/* What is not there is absent. */
static void test_no_process(void **state)
{
    (void)state;
    struct process_memory p;
    struct memory_reading r;
    assert_false(process_memory_open(&p, 0x7fffffff));
    process_memory_read(&p, &r);
    assert_int_equal(r.known, 0);
    process_memory_pss(&p, &r);
    assert_int_equal(r.known, 0);
    process_memory_close(&p);
}

struct seen {
    unsigned names, configs, points;
    double last;
};

static int see(void *ctx, const struct event *ev, struct err *e)
{
    struct seen *s = ctx;
    (void)e;
    s->names += ev->kind == EVENT_PLOT_NAME;
    s->configs += ev->kind == EVENT_PLOT_CONFIG;
    if (ev->kind == EVENT_PLOT) {
        s->points++;
        s->last = ev->plot.value;
    }
    return 0;
}

/* A plot is named once, and unknown values have no points. */
static void test_plots(void **state)
{
    (void)state;
    struct seen seen = {0};
    const struct event_sink sink = {.ctx = &seen, .event = see};
    struct memory_reading r = {.known = UINT32_C(1) << MEMORY_SWAP};
    struct err e = {0};
    uint32_t named = 0;
    r.value[MEMORY_SWAP] = 4096;
    assert_int_equal(memory_plots_add(&r, 5, &named, &sink, &e), 0);
    assert_int_equal(memory_plots_add(&r, 6, &named, &sink, &e), 0);
    assert_int_equal(seen.names, 1);
    assert_int_equal(seen.configs, 1);
    assert_int_equal(seen.points, 2);
    assert_true(seen.last > 4095 && seen.last < 4097);
}

static void put_file(int folder, const char *name, const char *text)
{
    int fd = openat(folder, name, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
    close(fd);
}

/* The kernel moves a process that has ended to another cgroup, until its parent has waited. */
static void test_an_ended_process_stays_in_its_cgroup(void **state)
{
    (void)state;
    char path[] = "/tmp/test_proc_memory-XXXXXX";
    struct process_memory p;
    struct memory_reading r;
    assert_true(process_memory_open(&p, getpid()));
    close(p.folder);
    assert_non_null(mkdtemp(path));
    p.folder = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    put_file(p.folder, "status", "Name:\tx\nRssAnon:\t     108 kB\n");
    put_file(p.folder, "cgroup", "4:memory:/lived\n");
    process_memory_read(&p, &r);
    assert_true(r.known != 0);
    assert_string_equal(p.groups, "4:memory:/lived\n");
    p.known |= UINT32_C(1) << MEMORY_CGROUP_KILLS;
    put_file(p.folder, "status", "Name:\tx\nState:\tZ (zombie)\n");
    put_file(p.folder, "cgroup", "4:memory:/\n");
    process_memory_read(&p, &r);
    assert_true(r.known == 0);
    assert_string_equal(p.groups, "4:memory:/lived\n");
    assert_true(p.known & UINT32_C(1) << MEMORY_CGROUP_KILLS);
    unlinkat(p.folder, "status", 0);
    unlinkat(p.folder, "cgroup", 0);
    process_memory_close(&p);
    rmdir(path);
}

static bool kills_of(const char *note, uint64_t *kills)
{
    struct process_memory p;
    return process_memory_from_note(&p, view_of(note)) && process_memory_kills(&p, kills);
}

/* Of this process's own cgroup, with one part of the note changed. */
static void test_a_note_of_a_cgroup(void **state)
{
    (void)state;
    struct process_memory p;
    struct memory_reading r;
    struct buf note = {0}, changed = {0};
    char boot[64], folder[4096];
    unsigned long long device, inode, before;
    uint64_t kills = 1;
    int version;
    assert_true(process_memory_open(&p, getpid()));
    process_memory_read(&p, &r);
    process_memory_read(&p, &r);
    if (!(r.known & UINT32_C(1) << MEMORY_CGROUP_KILLS)) {
        process_memory_close(&p);
        skip();
    }
    assert_int_equal(p.cgroups, 1);
    p.before[MEMORY_CGROUP_KILLS] += 7; /* as if there had been more */
    assert_true(process_memory_note(&p, &note));
    process_memory_close(&p);
    assert_int_equal(sscanf(buf_str(&note), "%d %63s %llu %llu %llu %4095[^\n]", &version, boot,
                            &device, &inode, &before, folder),
                     6);
    const struct {
        const char *boot, *folder;
        unsigned long long device, inode, before;
        bool known;
    } cases[] = {
        {boot, folder, device, inode, before - 7, true},
        {boot, folder, device, inode, before, false},
        {boot, folder, device, inode + 1, 0, false},
        {boot, folder, device + 1, inode, 0, false},
        {"00000000-0000-0000-0000-000000000000", folder, device, inode, 0, false},
        {boot, "/proc", device, inode, 0, false},
        {boot, folder + 1, device, inode, 0, false},
        {boot, "", device, inode, 0, false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        buf_clear(&changed);
        buf_printf(&changed, "%d %s %llu %llu %llu %s", version, cases[i].boot, cases[i].device,
                   cases[i].inode, cases[i].before, cases[i].folder);
        assert_int_equal(kills_of(buf_str(&changed), &kills), cases[i].known);
        if (cases[i].known)
            assert_int_equal(kills, 0);
    }
    assert_false(kills_of("", &kills));
    assert_false(kills_of("1 ", &kills));
    buf_release(&note);
    buf_release(&changed);
}

/* A folder that is no cgroup's is not read: its files may block. */
static void test_a_note_of_another_folder(void **state)
{
    (void)state;
    char path[] = "/tmp/test_proc_memory-XXXXXX";
    struct process_memory p = PROCESS_MEMORY_NONE;
    struct buf note = {0};
    uint64_t kills;
    assert_non_null(mkdtemp(path));
    p.cgroup.version = CGROUP_V2;
    snprintf(p.cgroup.folder, sizeof p.cgroup.folder, "%s", path);
    assert_false(process_memory_note(&p, &note)); /* its kills were not read */
    p.known = UINT32_C(1) << MEMORY_CGROUP_KILLS;
    assert_true(process_memory_note(&p, &note));
    p.folder = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    put_file(p.folder, "memory.events", "oom_kill 3\n");
    assert_true(process_memory_kills(&p, &kills));
    assert_int_equal(kills, 3);
    assert_false(kills_of(buf_str(&note), &kills));
    unlinkat(p.folder, "memory.events", 0);
    process_memory_close(&p);
    rmdir(path);
    buf_release(&note);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_numbers),
        cmocka_unit_test(test_stat),
        cmocka_unit_test(test_cgroups),
        cmocka_unit_test(test_reading),
        cmocka_unit_test(test_no_process),
        cmocka_unit_test(test_plots),
        cmocka_unit_test(test_an_ended_process_stays_in_its_cgroup),
        cmocka_unit_test(test_a_note_of_a_cgroup),
        cmocka_unit_test(test_a_note_of_another_folder),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
