#pragma once

/*
 * Call stack samples of all threads, including those at context switches, and hardware samples.
 * They arrive as the client's buffers are emptied, so not quite in order of time, and are stored in
 * file-backed columns in that order. samples_finish sorts call stack samples into the file's order
 * once, at the end; hardware samples are sorted while they are saved.
 *
 * Rules: server/TracyWorker.cpp ProcessCallstackSample, ProcessCallstackSampleInsertSample,
 * ProcessHwSample* @ v0.14.0.
 */

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/map.h"
#include "base/spool.h"
#include "base/vec.h"
#include "trace/store/callstacks.h"

/* The most addresses of hardware samples; samples of further ones are only counted. */
#define HW_ADDRESSES_MAX ((size_t)1 << 22)
#define HW_COUNTERS 6u

/* A call stack sample, in the file's order. */
struct sample {
    int64_t time; /* ns; 0: unknown */
    uint32_t callstack;
} __attribute__((packed));

/* The samples of a thread. */
struct sample_thread {
    int64_t last_time;
    uint64_t first; /* `first` and the next three are set by samples_finish: position in `sorted` */
    uint64_t samples;
    uint64_t switch_samples;
    uint64_t kernel;   /* samples whose innermost frame is in the kernel */
    int64_t held_time; /* the first half of a pair, see samples.combine; 0: none */
    uint32_t held_callstack;
};

struct hw_address {
    uint64_t ip;
    uint64_t counts[HW_COUNTERS];
};

struct samples {
    struct spool *spool;
    /*
     * The client sends each sample in two parts of equal time, kernel frames first, which must be
     * joined. Set from its welcome (Windows).
     */
    bool combine;
    VEC(struct sample_thread) threads; /* by local thread number */
    struct column arrived;             /* in stream order */
    /* After samples_finish: by thread number, each thread's switch samples, then its samples. */
    struct column sorted; /* struct sample */
    bool finished;
    bool disorder; /* some arrived out of order */
    VEC(struct hw_address) hw;
    struct map hw_numbers; /* ip → index in hw */
    struct column hw_times;
    uint64_t hw_overflow; /* dropped samples of addresses beyond HW_ADDRESSES_MAX */
};

void samples_init(struct samples *s, struct spool *spool);
void samples_release(struct samples *s);

/* Drops all samples, for a new part. */
void samples_clear(struct samples *s);

/*
 * Adds a sample. `thread` is a local number, `callstack` is not 0; `at_switch`: taken at a context
 * switch.
 */
int samples_add(struct samples *s, uint16_t thread, int64_t time, uint32_t callstack,
                bool at_switch, struct callstacks *stacks, struct err *e);

/* Adds a hardware sample. `counter` is below HW_COUNTERS, in the file's order. */
int samples_add_hw(struct samples *s, uint64_t ip, unsigned counter, int64_t time, struct err *e);

/*
 * Sorts the samples by thread and time. Two samples of a thread with one known time become one,
 * whose call stack joins both, that of the earlier arrival innermost. `dir` for a temporary file,
 * or NULL.
 */
int samples_finish(struct samples *s, struct callstacks *stacks, const char *dir, struct err *e);

/* The samples of a thread; all 0 when it has none, and before samples_finish. */
struct sample_thread samples_of(const struct samples *s, uint16_t thread);

/*
 * Receives all hardware samples: for each address in ascending order its counts, then its times,
 * counter after counter, each in order of time.
 */
struct hw_sink {
    void *ctx;
    int (*address)(void *ctx, const struct hw_address *hw, struct err *e);
    int (*list)(void *ctx, uint64_t count, struct err *e); /* before each counter's times */
    int (*time)(void *ctx, int64_t time, struct err *e);
};

int samples_walk_hw(struct samples *s, const char *dir, const struct hw_sink *to, struct err *e);
