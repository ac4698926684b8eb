#pragma once

/*
 * The client's facts about its machine and its end: CPUs and a crash. The file cannot hold
 * parameters (server/TracyWorker.cpp m_params @ v0.14.0), so they are dropped.
 */

#include <stdint.h>

#include "base/err.h"
#include "base/map.h"
#include "base/vec.h"
#include "trace/file/limits.h"

/* A logical CPU and its location. `die` is 0 if the client's protocol has none. */
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
    VEC(struct system_cpu) cpus; /* in order of arrival */
    struct map known;            /* set of CPUs */
    uint64_t overflow;           /* reports of CPUs beyond PROCESSORS_MAX */
    struct system_crash crash;   /* the latest report */
};

void system_release(struct system_facts *s);

/* Adds a CPU. The first report of a CPU counts: an on-demand client may repeat it. */
int system_add_cpu(struct system_facts *s, const struct system_cpu *cpu, struct err *e);
