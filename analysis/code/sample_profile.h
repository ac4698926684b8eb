#pragma once

/*
 * Call stack samples by thread and by function. These are the statistics of the profiler, but by
 * name instead of by symbol. A function is identified by its name and image; without a name, by the
 * text shown instead.
 *
 * Samples that the client took at context switches are left out: they show where a thread waited. A
 * file lists them both among the samples and separately. They are identified by equal times, or by
 * equal call stacks if the client did not know the time.
 *
 * Memory grows with distinct pairs of thread and call stack, and with one thread's context switch
 * samples.
 *
 * Source: Worker::UpdateSampleStatistics and the job of EventType::Samples in
 * server/TracyWorker.cpp @ v0.14.0.
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
    uint64_t id; /* of the operating system */
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
    size_t next_switch;      /* the first of them at or after the newest sample */
    struct map timeless;     /* those with time 0, unknown: call stack → count */
    uint64_t switch_samples; /* samples left out */
};

/* Marks the record types that sample_input_put needs. */
void sample_input_wanted(bool wanted[REC_TYPE_COUNT]);

/* A record_sink's function; `ctx` is the input. */
int sample_input_put(void *ctx, enum record_type type, const void *recs, size_t n, struct err *e);
void sample_input_release(struct sample_input *in);

/* Whether the selection's threads and call stacks include a group. */
bool sample_group_is_selected(const struct sample_input *in, const struct sample_group *g,
                              const struct selection *s);

struct sample_function_row {
    struct frame_view frame;
    uint64_t self;  /* samples with it as the innermost function */
    uint64_t total; /* samples with it in the call stack, each counted once */
    uint32_t last;  /* while counting: the last group added to `total`, from 1 */
};

struct sample_profile {
    VEC(struct sample_thread_row) threads;     /* threads with samples; most samples first */
    VEC(struct sample_function_row) functions; /* highest `self` first, then `total` */
    uint64_t samples;
    uint64_t stackless;      /* samples whose call stack is not in the trace */
    uint64_t switch_samples; /* at context switches in the range, of all threads; not counted */
};

/*
 * Counts the selected samples. `p` need not be initialised; it refers to the trace. Returns 0, or
 * -1 with ERR_MEMORY; then nothing is to be released.
 */
int sample_profile_build(struct sample_profile *p, const struct sample_input *in,
                         const struct selection *s, struct err *e);
void sample_profile_release(struct sample_profile *p);
