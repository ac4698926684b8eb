/*
 * Speed of the structures of analysis/ alone, one line each. Usage: trees [LIVE [ALLOCATIONS]]:
 * live intervals, and allocations of a trace whose addresses are queried.
 */

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "analysis/questions/find.h"
#include "analysis/questions/interval_tree.h"

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

static void show(const char *name, double operations, double seconds, const char *wanted)
{
    printf("%-28s %7.2f million per second%s\n", name, operations / seconds / 1e6, wanted);
}

/* Blocks like a heap's: 16-byte aligned, in a range four times the live size. */
static struct interval random_block(uint64_t *seed, uint64_t places, uint64_t value)
{
    uint64_t r = next(seed);
    return interval_of_block(UINT64_C(0x7f0000000000) + r % places * 64, r >> 58, value);
}

struct interval_step {
    struct interval gone, fresh;
};

/*
 * Steps of a heap of n live blocks: one is freed, another allocated. Prepared in advance, not
 * timed.
 */
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
    show("interval tree, fill", (double)n, cpu_seconds() - start, "");
    struct interval_step *steps = ok ? make_steps(live, n, 2 * n, &seed) : NULL;
    start = cpu_seconds();
    for (size_t i = 0; steps && i < 2 * n; i++) {
        ok &= interval_tree_remove(&t, steps[i].gone.first, steps[i].gone.value);
        ok &= interval_tree_insert(&t, &steps[i].fresh);
    }
    show("interval tree, mixed", 4.0 * (double)n, cpu_seconds() - start, " (wanted: 5)");
    start = cpu_seconds();
    for (size_t i = 0; steps && i < 2 * n; i++)
        (void)interval_tree_overlap(&t, steps[i].gone.first, steps[i].gone.first, count_hit, &hits);
    show("interval tree, stab", 2.0 * (double)n, cpu_seconds() - start, " (wanted: 1)");
    interval_tree_release(&t);
    free(steps);
    free(live);
    return steps && ok && hits ? 0 : 1;
}

/* ---- addresses in a loaded trace */

static int fill_trace(struct trace *t, size_t n, uint64_t *seed, struct err *e)
{
    uint32_t pool;
    if (memory_pool(&t->memory, 0, &pool, e) != 0)
        return -1;
    for (size_t i = 0; i < n; i++) {
        struct interval block = random_block(seed, 4 * n, 0);
        struct rec_memory_event in = {.ptr = block.first,
                                      .size = block.last - block.first + 1,
                                      .time_alloc = (int64_t)i,
                                      .time_free = NEVER_FREED};
        if (memory_append(&t->memory, pool, &in, e) != 0)
            return -1;
    }
    t->facts.last_time = (int64_t)n;
    return 0;
}

#define QUESTIONS 1000

static int ask_addresses(struct selection *s, size_t n, uint64_t *seed, struct err *e)
{
    struct history h;
    uint64_t found = 0;
    double worst = 0;
    double start = cpu_seconds();
    if (history_build(&h, s, e) != 0)
        return -1;
    show("addresses, made ready", (double)n, cpu_seconds() - start, "");
    start = cpu_seconds();
    int status = 0;
    for (int i = 0; i < QUESTIONS && status == 0; i++) {
        struct find_result r;
        uint64_t at = random_block(seed, 4 * n, 0).first;
        double before = cpu_seconds();
        status = find_run(&r, &h, &(struct find_options){.low = at, .high = at}, e);
        double took = cpu_seconds() - before;
        worst = took > worst ? took : worst;
        if (status == 0) {
            found += r.total;
            find_release(&r);
        }
    }
    printf("%-28s %7.3f ms each with call stacks, %.3f ms the slowest (wanted: 50); %.1f bytes for "
           "each "
           "(wanted: 32)\n",
           "address found", (cpu_seconds() - start) / QUESTIONS * 1e3, worst * 1e3,
           (double)(sizeof(struct history_entry)) + 8 / 64.0 + 8 / 4096.0);
    history_release(&h);
    return status == 0 && found ? 0 : -1;
}

static int bench_addresses(size_t n)
{
    static const struct selection_options all = {0};
    struct err e = {0};
    struct trace t;
    struct selection s;
    uint64_t seed = 1442695040888963407u;
    if (trace_init(&t, NULL, &e) != 0)
        return 1;
    int status = fill_trace(&t, n, &seed, &e);
    if (status == 0)
        status = selection_init(&s, &t, &all, &e);
    if (status == 0) {
        status = ask_addresses(&s, n, &seed, &e);
        selection_release(&s);
    }
    trace_release(&t);
    if (status != 0)
        fprintf(stderr, "trees: %s\n", e.text);
    return status == 0 ? 0 : 1;
}

int main(int argc, char **argv)
{
    size_t live = argc > 1 ? strtoull(argv[1], NULL, 10) : 1000000;
    size_t allocations = argc > 2 ? strtoull(argv[2], NULL, 10) : 35000000;
    if (!live || !allocations)
        return 2;
    int status = bench_intervals(live);
    return status ? status : bench_addresses(allocations);
}
