/*
 * Speed of the structures of analysis/ alone, one line each: name, operations per second in
 * millions, bytes for each element. Usage: trees [ELEMENTS]
 */

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "analysis/interval_tree.h"

static uint64_t next(uint64_t *seed)
{
    *seed ^= *seed << 13;
    *seed ^= *seed >> 7;
    *seed ^= *seed << 17;
    return *seed;
}

static double cpu_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static bool count_hit(void *ctx, const struct interval *i)
{
    (void)i;
    ++*(uint64_t *)ctx;
    return true;
}

static void show(const char *name, double operations, double seconds)
{
    printf("%-28s %7.2f million per second\n", name, operations / seconds / 1e6);
}

/* Blocks like a heap's: 16-byte places in a range four times as large as what is live. */
static struct interval random_block(uint64_t *seed, uint64_t places, uint64_t value)
{
    uint64_t r = next(seed);
    return interval_of_block(UINT64_C(0x7f0000000000) + r % places * 64, r >> 58, value);
}

struct interval_step {
    struct interval gone, fresh;
};

/* What a heap of n live blocks does: one goes, another comes. Made beforehand, not timed. */
static struct interval_step *make_steps(struct interval *live, size_t n, size_t steps,
                                        uint64_t *seed)
{
    struct interval_step *s = malloc(steps * sizeof *s);
    for (size_t i = 0; s && i < steps; i++) {
        struct interval *slot = &live[next(seed) % n];
        s[i].gone = *slot;
        s[i].fresh = *slot = random_block(seed, 4 * n, n + i);
    }
    return s;
}

#define AHEAD 4 /* steps that are known beforehand, as in a file's blocks of events */

static int bench_intervals(size_t n)
{
    struct interval_tree t = {0};
    struct interval *live = malloc(n * sizeof *live);
    uint64_t seed = 88172645463325252u;
    uint64_t hits = 0;
    bool ok = live != NULL;
    for (size_t i = 0; ok && i < n; i++)
        live[i] = random_block(&seed, 4 * n, i);
    double start = cpu_seconds();
    for (size_t i = 0; ok && i < n; i++)
        ok = interval_tree_insert(&t, &live[i]);
    show("interval tree, fill", (double)n, cpu_seconds() - start);
    struct interval_step *steps = ok ? make_steps(live, n, 2 * n, &seed) : NULL;
    start = cpu_seconds();
    for (size_t i = 0; steps && i < 2 * n; i++) {
        if (i + AHEAD < 2 * n) {
            interval_tree_prefetch(&t, steps[i + AHEAD].gone.first);
            interval_tree_prefetch(&t, steps[i + AHEAD].fresh.first);
        }
        ok &= interval_tree_remove(&t, steps[i].gone.first, steps[i].gone.value);
        ok &= interval_tree_insert(&t, &steps[i].fresh);
    }
    show("interval tree, mixed", 4.0 * (double)n, cpu_seconds() - start);
    start = cpu_seconds();
    for (size_t i = 0; steps && i < 2 * n; i++)
        (void)interval_tree_stab(&t, steps[i].gone.first, count_hit, &hits);
    show("interval tree, stab", 2.0 * (double)n, cpu_seconds() - start);
    interval_tree_release(&t);
    free(steps);
    free(live);
    return steps && ok && hits ? 0 : 1;
}

int main(int argc, char **argv)
{
    size_t n = argc > 1 ? strtoull(argv[1], NULL, 10) : 1000000;
    return n ? bench_intervals(n) : 2;
}
