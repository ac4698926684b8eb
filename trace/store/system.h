#ifndef TIDEMARK_TRACE_STORE_SYSTEM_H
#define TIDEMARK_TRACE_STORE_SYSTEM_H

/*
 * What the client says of its machine and of its end: the processors, and a crash. Parameters have
 * no place in the file (server/TracyWorker.cpp m_params @ v0.14.0), so they are not kept.
 */

#include <stdint.h>

#include "base/err.h"
#include "base/map.h"
#include "base/vec.h"
#include "trace/file/limits.h"

/* A logical processor and where it is. `die` is 0 where the client's protocol has none. */
struct system_cpu {
    uint32_t package, die, core, cpu;
};

struct system_crash {
    uint64_t thread; /* 0: no crash */
    int64_t time;    /* ns */
    uint64_t text;   /* client pointer */
    uint32_t callstack;
};

struct system_facts {
    VEC(struct system_cpu) cpus; /* in the order in which they came */
    struct map known;            /* cpu → nothing */
    uint64_t overflow;           /* news of processors beyond PROCESSORS_MAX */
    struct system_crash crash;   /* the latest report */
};

void system_release(struct system_facts *s);

/* The first news of a processor stands: an on-demand client may tell it twice. */
int system_add_cpu(struct system_facts *s, const struct system_cpu *cpu, struct err *e);

#endif
