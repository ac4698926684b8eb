#ifndef TIDEMARK_ANALYSIS_CODE_SAMPLE_PROFILE_H
#define TIDEMARK_ANALYSIS_CODE_SAMPLE_PROFILE_H

/*
 * Call stack samples by thread and by function: the statistics of the profiler, which tells symbols
 * apart where this tells names apart. A function is known by its name and image; where the trace
 * has no name, by the text shown in its place.
 *
 * Samples that the client took at context switches are left out: they say where a thread waited. A
 * file lists them among the samples and by themselves; equal times tell which they are, and equal
 * call stacks where the client could not tell the time.
 *
 * Memory follows distinct pairs of thread and call stack, and one thread's context switch samples.
 *
 * Source: Worker::UpdateSampleStatistics and the job of EventType::Samples in
 * server/TracyWorker.cpp
 * @ v0.14.0.
 */

#include <stdint.h>

#include "analysis/figures/selection.h"
#include "analysis/names/frames.h"
#include "base/err.h"
#include "base/map.h"
#include "base/vec.h"
#include "trace/file/record.h"
#include "trace/store/store.h"

/* Samples of one thread with one call stack. */
struct sample_group {
    uint32_t thread; /* index in sample_input.threads */
    uint32_t callstack;
    uint64_t count;
};

struct sample_thread_row {
    uint64_t id; /* the OS's */
    struct view name;
    uint64_t samples;
};

/* Gathers the samples while a trace is loaded. Zero-initialise it, or set the range. */
struct sample_input {
    bool has_range;
    int64_t begin, end;    /* ns: samples in [begin, end) are counted */
    VEC(uint64_t) threads; /* OS ids, in the file's order */
    VEC(struct sample_group) groups;
    struct map numbers;      /* thread << 32 | call stack → index in groups */
    VEC(int64_t) switches;   /* times of the newest thread's context switch samples, ascending */
    size_t next_switch;      /* the first of them that is not before the newest sample */
    struct map timeless;     /* those whose time is 0, unknown: call stack → how many */
    uint64_t switch_samples; /* samples that were left out */
};

/* Marks the record types that sample_input_put wants. */
void sample_input_wanted(bool wanted[REC_TYPE_COUNT]);

/* A record_sink's function; `ctx` is the input. */
int sample_input_put(void *ctx, enum record_type type, const void *recs, size_t n, struct err *e);
void sample_input_release(struct sample_input *in);

/* Whether the selection's threads and call stacks let a group through. */
bool sample_group_is_selected(const struct sample_input *in, const struct sample_group *g,
                              const struct selection *s);

struct sample_function_row {
    struct frame_view frame;
    uint64_t self;  /* samples whose innermost function it is */
    uint64_t total; /* samples whose call stack it is in, each counted once */
    uint32_t last;  /* while counting: the group that was added to `total` last, from 1 */
};

struct sample_profile {
    VEC(struct sample_thread_row) threads;     /* that have samples; most samples first */
    VEC(struct sample_function_row) functions; /* highest `self` first, then `total` */
    uint64_t samples;
    uint64_t stackless;      /* those whose call stack is not in the trace */
    uint64_t switch_samples; /* at context switches in the range, not counted, of all threads */
};

/*
 * Counts what the selection's threads and call stacks let through. `p` need not be initialised; it
 * refers to the trace. Returns 0, or -1 with ERR_MEMORY; then nothing is to be released.
 */
int sample_profile_build(struct sample_profile *p, const struct sample_input *in,
                         const struct selection *s, struct err *e);
void sample_profile_release(struct sample_profile *p);

#endif
