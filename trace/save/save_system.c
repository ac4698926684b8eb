/* The client's facts about its machine and about itself: topology, crash. */

#include "trace/save/save_internal.h"

#include <stdlib.h>
#include <string.h>

/* A CPU with its position in order of arrival. */
struct placed_cpu {
    struct system_cpu cpu;
    size_t place;
};

/* How far the locations of two CPUs agree: 3 the core, 2 the die, 1 the package, 0 not at all. */
static unsigned shared(const struct system_cpu *a, const struct system_cpu *b)
{
    if (a->package != b->package)
        return 0;
    if (a->die != b->die)
        return 1;
    return a->core != b->core ? 2 : 3;
}

static int compare_cpus(const void *a, const void *b)
{
    const struct placed_cpu *x = a;
    const struct placed_cpu *y = b;
    switch (shared(&x->cpu, &y->cpu)) {
    case 0:
        return x->cpu.package < y->cpu.package ? -1 : 1;
    case 1:
        return x->cpu.die < y->cpu.die ? -1 : 1;
    case 2:
        return x->cpu.core < y->cpu.core ? -1 : 1;
    default:
        return x->place < y->place ? -1 : x->place > y->place;
    }
}

/*
 * The number of nodes below the one at `depth` that cpus[i] begins: the distinct locations one
 * level deeper among the following CPUs that share its location down to `depth`.
 */
static uint64_t count_below(const struct placed_cpu *cpus, size_t n, size_t i, unsigned depth)
{
    uint64_t count = 1;
    for (size_t j = i + 1; j < n && shared(&cpus[i].cpu, &cpus[j].cpu) >= depth; j++)
        count += depth == 3 || shared(&cpus[j - 1].cpu, &cpus[j].cpu) <= depth;
    return count;
}

static int put_cpu(struct saver *s, const struct placed_cpu *cpus, size_t n, size_t i)
{
    const struct system_cpu *c = &cpus[i].cpu;
    static const enum record_type types[] = {REC_PACKAGE, REC_DIE, REC_CORE};
    const uint32_t ids[] = {c->package, c->die, c->core};
    for (unsigned depth = i ? shared(&cpus[i - 1].cpu, c) : 0; depth < 3; depth++) {
        struct rec_topology_node node = {ids[depth], count_below(cpus, n, i, depth + 1)};
        if (put(s, types[depth], &node) != 0)
            return -1;
    }
    struct rec_topology_node leaf = {.id = c->cpu};
    return put(s, REC_CPU, &leaf);
}

int save_topology(struct saver *s)
{
    const struct system_facts *f = &s->t->system;
    size_t n = f->cpus.len;
    uint64_t packages = n > 0;
    struct placed_cpu *cpus = malloc((n + 1) * sizeof *cpus);
    if (!cpus)
        return err_no_memory(s->e, "saving");
    for (size_t i = 0; i < n; i++)
        cpus[i] = (struct placed_cpu){f->cpus.at[i], i};
    qsort(cpus, n, sizeof *cpus, compare_cpus);
    for (size_t i = 1; i < n; i++)
        packages += shared(&cpus[i - 1].cpu, &cpus[i].cpu) == 0;
    int status = put_count(s, REC_PACKAGES, packages);
    for (size_t i = 0; i < n && status == 0; i++)
        status = put_cpu(s, cpus, n, i);
    free(cpus);
    return status;
}

int save_crash(struct saver *s)
{
    const struct system_crash *c = &s->t->system.crash;
    struct rec_crash r = {
        .thread = c->thread, .time = c->time, .message = c->text, .callstack = c->callstack};
    return put(s, REC_CRASH, &r);
}
