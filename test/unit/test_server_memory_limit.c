/* A bound on memory: what is beyond it goes to the spool, and is all there when it is read again.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <ftw.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "server/capture/memory_limit.h"

#define EVENTS ((uint64_t)1 << 20)

static void must(int status, const struct err *e)
{
    if (status != 0)
        fail_msg("%s", e->text);
}

static void fill(struct trace *t)
{
    struct err e = {0};
    uint32_t pool;
    must(memory_pool(&t->memory, 5, &pool, &e), &e);
    for (uint64_t i = 0; i < EVENTS; i++) {
        const struct rec_memory_event ev = {.ptr = i * 48,
                                            .size = i * 0x9e3779b97f4a7c15u >> 30,
                                            .time_alloc = (int64_t)i * 3,
                                            .time_free = -1,
                                            .callstack_alloc = (uint32_t)(i * 7919 % 5000)};
        must(memory_append(&t->memory, pool, &ev, &e), &e);
    }
}

static void check(struct trace *t)
{
    struct column_reader r;
    struct err e = {0};
    uint64_t i = 0;
    size_t n;
    column_reader_init(&r, &t->memory.pools.at[t->memory.pools.len - 1]->allocs);
    for (const struct memory_alloc *a; (a = column_reader_next(&r, &n, &e));) {
        for (size_t k = 0; k < n; k++, i++)
            assert_int_equal(a[k].ptr, i * 48);
    }
    assert_int_equal(e.code, ERR_NONE);
    assert_int_equal(i, EVENTS);
    column_reader_release(&r);
}

static void test_keeping(void **state)
{
    (void)state;
    struct trace t;
    struct err e = {0};
    struct memory_limit l = memory_limit_of((uint64_t)1 << 40, (size_t)256 << 20);
    const struct trace_options options = {.resident_budget = l.budget};
    assert_int_equal(l.budget, (size_t)256 << 20);
    must(trace_init(&t, &options, &e), &e);
    fill(&t);
    assert_int_equal(t.spool.end, 0); /* nothing is on disk yet */
    assert_int_equal(memory_limit_keep(&l, &t, 0, &e), 0);
    assert_int_equal(l.shrunken, 0);
    /* Something large is about to come: all goes that can, and that is not enough. */
    assert_int_equal(memory_limit_keep(&l, &t, (uint64_t)1 << 40, &e), 2);
    assert_int_equal(l.budget, MEMORY_BUDGET_LEAST);
    assert_true(t.spool.end > 0);
    assert_true(t.spool.raw.bytes + t.spool.packed.bytes <= MEMORY_BUDGET_LEAST);
    check(&t);
    fill(&t);
    assert_true(t.spool.raw.bytes + t.spool.packed.bytes <= MEMORY_BUDGET_LEAST);
    trace_release(&t);
}

static void test_no_more_than_needed(void **state)
{
    (void)state;
    struct trace t;
    struct err e = {0};
    const struct trace_options options = {.resident_budget = (size_t)256 << 20};
    must(trace_init(&t, &options, &e), &e);
    fill(&t);
    uint64_t used = memory_anonymous();
    assert_true(used > ((uint64_t)10 << 20));
    /* Just beyond three quarters of the bound. */
    struct memory_limit l = {.bytes = used * 4 / 3 - 4096, .budget = (size_t)256 << 20};
    assert_int_equal(memory_limit_keep(&l, &t, 0, &e), 0);
    assert_true(l.shrunken > 0);
    assert_true(l.budget >= MEMORY_BUDGET_LEAST);
    check(&t);
    trace_release(&t);
}

static void test_bounds(void **state)
{
    (void)state;
    struct trace t;
    struct err e = {0};
    struct memory_limit none = memory_limit_of(0, 1 << 20);
    must(trace_init(&t, NULL, &e), &e);
    assert_int_equal(memory_limit_keep(&none, &t, UINT64_MAX / 2, &e), 0);
    assert_int_equal(memory_limit_of((uint64_t)100 << 20, (size_t)80 << 20).budget,
                     (size_t)25 << 20);
    assert_int_equal(memory_limit_of(1, (size_t)80 << 20).budget, MEMORY_BUDGET_LEAST);
    assert_true(memory_physical() > ((uint64_t)1 << 20));
    trace_release(&t);
}

/* ---- the limit of the control group, read below a root folder of our own */

#define MIB ((uint64_t)1 << 20)
#define MACHINE (1000 * MIB)

struct fake_file {
    const char *path; /* below the root */
    const char *text;
};

static void put_file(const char *root, const struct fake_file *file)
{
    char path[512];
    snprintf(path, sizeof path, "%s/%s", root, file->path);
    for (char *p = path + strlen(root) + 1; (p = strchr(p, '/')); *p++ = '/') {
        *p = 0;
        assert_true(mkdir(path, 0700) == 0 || errno == EEXIST);
    }
    FILE *f = fopen(path, "we");
    assert_non_null(f);
    fputs(file->text, f);
    assert_int_equal(fclose(f), 0);
}

static int drop_file(const char *path, const struct stat *facts, int kind, struct FTW *where)
{
    (void)facts;
    (void)kind;
    (void)where;
    return remove(path);
}

#define MOUNTS "proc/self/mountinfo"
#define MOUNT_V1 "35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
#define MOUNT_V2 "41 31 0:38 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n"

/*
 * The limit that a tree of these files sets; they end with a path of NULL. MOUNTS among them
 * replaces the usual mounts.
 */
static uint64_t limit_of(const struct fake_file *files)
{
    char root[] = "/tmp/tidemark-groups-XXXXXX";
    assert_non_null(mkdtemp(root));
    put_file(root, &(struct fake_file){MOUNTS, MOUNT_V1 MOUNT_V2});
    for (; files->path; files++)
        put_file(root, files);
    uint64_t limit = memory_within_group(root, MACHINE);
    assert_int_equal(nftw(root, drop_file, 8, FTW_DEPTH | FTW_PHYS), 0);
    return limit;
}

#define LIMIT_OF(...) limit_of((const struct fake_file[]){__VA_ARGS__, {NULL, NULL}})

#define OWN "proc/self/cgroup"
#define V1 "sys/fs/cgroup/memory"
#define V2 "sys/fs/cgroup"
#define MIB_100 "104857600\n"
#define MIB_200 "209715200\n"
#define MIB_300 "314572800\n"

static void test_groups_of_version_2(void **state)
{
    (void)state;
    /* the lowest of all levels, wherever it is */
    const char *const limits[][3] = {
        {MIB_100, MIB_200, MIB_300}, {MIB_300, MIB_100, MIB_200}, {MIB_300, MIB_200, MIB_100}};
    for (size_t i = 0; i < 3; i++)
        assert_int_equal(LIMIT_OF({OWN, "0::/a/b\n"}, {V2 "/memory.max", limits[i][0]},
                                  {V2 "/a/memory.max", limits[i][1]},
                                  {V2 "/a/b/memory.max", limits[i][2]}),
                         100 * MIB);
    assert_int_equal(LIMIT_OF({OWN, "0::/a/b\n"}, {V2 "/a/memory.max", MIB_200},
                              {V2 "/a/b/memory.max", "max\n"}),
                     200 * MIB);
    assert_int_equal(LIMIT_OF({OWN, "0::/a\n"}, {V2 "/a/memory.max", "max\n"}), MACHINE);
    /* in a container the path is that of the namespace, or one outside that is not visible */
    assert_int_equal(LIMIT_OF({OWN, "0::/\n"}, {V2 "/memory.max", MIB_100}), 100 * MIB);
    assert_int_equal(LIMIT_OF({OWN, "0::/outside/x\n"}, {V2 "/memory.max", MIB_100}), 100 * MIB);
    /* other groups do not count */
    assert_int_equal(
        LIMIT_OF({OWN, "0::/a\n"}, {V2 "/b/memory.max", MIB_100}, {V2 "/a/c/memory.max", MIB_100}),
        MACHINE);
    assert_int_equal(LIMIT_OF({OWN, "0::/a:b\n"}, {V2 "/a:b/memory.max", MIB_100}), 100 * MIB);
}

static void test_groups_of_version_1(void **state)
{
    (void)state;
    const char *const own = "5:cpu,cpuacct:/c\n4:memory:/a/b\n1:name=systemd:/s\n0::/s\n";
    assert_int_equal(LIMIT_OF({OWN, own}, {V1 "/memory.limit_in_bytes", "9223372036854771712\n"},
                              {V1 "/a/memory.limit_in_bytes", MIB_100},
                              {V1 "/a/b/memory.limit_in_bytes", MIB_200}),
                     100 * MIB);
    assert_int_equal(LIMIT_OF({OWN, own}, {V1 "/a/b/memory.limit_in_bytes", MIB_200}), 200 * MIB);
    assert_int_equal(LIMIT_OF({OWN, own}, {V1 "/c/memory.limit_in_bytes", MIB_100},
                              {V1 "/s/memory.limit_in_bytes", MIB_100}),
                     MACHINE);
    /* both versions at once: the one that has the memory controller */
    assert_int_equal(LIMIT_OF({OWN, own}, {V1 "/a/memory.limit_in_bytes", MIB_200},
                              {V2 "/s/memory.max", MIB_100}),
                     200 * MIB);
}

/* Several controllers in one hierarchy, which is mounted under any name. */
static void test_groups_of_controllers_together(void **state)
{
    (void)state;
    const char *const own = "5:cpu,cpuacct:/c\n4:cpuset,memory:/a/b\n0::/s\n";
    const char *const points[] = {"/sys/fs/cgroup/cpuset,memory", "/dev/memcg", "/cgroup"};
    for (size_t i = 0; i < sizeof points / sizeof points[0]; i++) {
        char mounts[256], file[256];
        snprintf(mounts, sizeof mounts,
                 "30 24 0:31 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n"
                 "35 31 0:32 / %s rw,relatime shared:9 - cgroup cgroup rw,cpuset,memory\n",
                 points[i]);
        snprintf(file, sizeof file, "%s/a/memory.limit_in_bytes", points[i] + 1);
        assert_int_equal(LIMIT_OF({OWN, own}, {MOUNTS, mounts}, {file, MIB_100}), 100 * MIB);
    }
    /* a controller's name within another is not it */
    assert_int_equal(
        LIMIT_OF({OWN, "4:memory2,cpu:/a\n"}, {V1 "/a/memory.limit_in_bytes", MIB_100}), MACHINE);
    /* a container sees its own group at the mount point, and no file above it counts */
    assert_int_equal(LIMIT_OF({OWN, "4:cpu,memory:/docker/1/x\n"},
                              {MOUNTS, "1 1 0:1 /docker/1 /m rw - cgroup cgroup rw,cpu,memory\n"},
                              {"m/x/memory.limit_in_bytes", MIB_300},
                              {"m/memory.limit_in_bytes", MIB_200},
                              {"memory.limit_in_bytes", MIB_100}),
                     200 * MIB);
}

static void test_groups_that_cannot_be_read(void **state)
{
    (void)state;
    const char *const bad[] = {"garbage\n", "", "\n", "99999999999999999999999999\n"};
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_int_equal(
            LIMIT_OF({OWN, "0::/a\n"}, {V2 "/memory.max", MIB_300}, {V2 "/a/memory.max", bad[i]}),
            300 * MIB);
    assert_int_equal(LIMIT_OF({V2 "/memory.max", MIB_100}), MACHINE); /* whose is not known */
    const char *const lines[] = {"", "0\n", "0:\n", "no colon\n", ":::\n", "memory:/a\n"};
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++)
        assert_int_equal(LIMIT_OF({OWN, lines[i]}, {V2 "/a/memory.max", MIB_100}), MACHINE);
    assert_int_equal(LIMIT_OF({OWN, "nonsense\n0::/a\n"}, {V2 "/a/memory.max", MIB_100}),
                     100 * MIB);
    assert_int_equal(memory_within_group("/there is no such folder", MACHINE), MACHINE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_keeping),
        cmocka_unit_test(test_no_more_than_needed),
        cmocka_unit_test(test_bounds),
        cmocka_unit_test(test_groups_of_version_2),
        cmocka_unit_test(test_groups_of_version_1),
        cmocka_unit_test(test_groups_of_controllers_together),
        cmocka_unit_test(test_groups_that_cannot_be_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
