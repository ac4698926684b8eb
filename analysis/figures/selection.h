#pragma once

/*
 * Selects the allocations that a question is about, and streams them to the code that answers it. A
 * selection is made once for a loaded trace; selection_sweep then replays the steps of the selected
 * blocks in order of time. Memory grows with live blocks, call stacks and the zones of the wanted
 * name, not with events.
 *
 * A range of time [begin, end) selects the blocks allocated in it; events from `end` on are
 * ignored: a block freed later is live. The profiler's Memory tab limits its range in the same way
 * (profiler/src/profiler/TracyView_Memory.cpp @ v0.14.0). `at` selects the blocks live at the end
 * of that nanosecond; later events are ignored, too.
 */

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/vec.h"
#include "base/view.h"
#include "trace/store/store.h"

/* Zero-initialise for everything. Texts must outlive the selection. */
struct selection_options {
    const char *pool;   /* pools of this name */
    bool all_pools;     /* without a name: also those that sums leave out, for lists */
    const char *thread; /* allocated by threads of this name or OS id */
    bool has_range;
    int64_t begin, end; /* ns */
    /*
     * NULL, or the messages that limit the range. message_range.h resolves them before the trace is
     * loaded.
     */
    const char *from_message, *to_message;
    bool has_at;
    int64_t at; /* ns */
    bool has_size;
    uint64_t size_min, size_max; /* bytes, both inclusive */
    const char *match; /* Perl-compatible, for a function, file or image of the call stack */
    bool has_frame;
    uint64_t frame;   /* within this frame of the base set (trace_frame_number), which must */
                      /* have been loaded */
    const char *zone; /* within a zone of this name on that thread; must have been loaded */
};

/*
 * Why sums leave a pool out: its bytes may be those of another pool.
 *
 * POOL_CONTAINED: the program's Tracy client reported it, in a trace in which `tidemark run` also
 * recorded malloc. Its blocks may be parts of blocks of the pool "malloc" (run/run_client.h).
 *
 * POOL_CONTAINER: it has ranges in which blocks of other pools lie, as reserved memory of a GPU;
 * the fact "containers" has its name, and another pool has blocks.
 */
enum pool_sum { POOL_COUNTS, POOL_CONTAINED, POOL_CONTAINER };

/* True if anything but `pool` restricts the selection. */
bool selection_is_narrow(const struct selection_options *o);

/* Makes `at` the end of the range: for questions with a separate time. */
void selection_until(struct selection_options *o);

/*
 * Appends the selection in words ("by thread main, of 64 B or more"), raw bytes; nothing if it has
 * everything.
 */
void selection_describe(struct buf *out, const struct selection_options *o);

/* Pools by name: those of one name are one. */
struct selection_pool {
    struct view name;
    uint64_t key; /* of the first one */
    uint32_t number;
    enum pool_sum sum;
};

struct zone_span {
    int64_t begin, end; /* ns */
};

struct zone_spans {
    VEC(struct zone_span) list; /* in order, disjoint */
};

struct thread_step;

struct selection {
    struct trace *trace;
    struct selection_options options;
    VEC(struct selection_pool) pools; /* "default" first, then by name */
    VEC(char *) texts;                /* generated names */
    uint32_t *pool_of;                /* pool number → index in pools; UINT32_MAX: not selected */
    int64_t only;                     /* the number of the only selected pool, else -1 */
    uint8_t *threads;                 /* thread number → selected; NULL: all */
    uint8_t *callstacks;              /* call stack id → selected; NULL: all */
    struct zone_spans *zones;         /* by thread number; NULL: no restriction */
    size_t thread_count;
    int64_t begin, end; /* of allocation; steps from `end` on are ignored */
    bool has_at;
    bool is_narrow; /* there are restrictions other than pools */
};

/*
 * `s` need not be initialised. ERR_USAGE if there is no such pool, thread, frame or zone, or the
 * expression is invalid.
 */
int selection_init(struct selection *s, struct trace *t, const struct selection_options *o,
                   struct err *e);
void selection_release(struct selection *s);

/* The properties of a block that decide. `freed` is NEVER_FREED while live. */
struct selection_block {
    uint32_t pool; /* number in the trace */
    uint16_t thread;
    uint32_t callstack;
    uint64_t size;
    int64_t time, freed;
};

bool selection_wants(const struct selection *s, const struct selection_block *b);

/*
 * Whether an event at a time on a thread, with a call stack (0: none), is selected, by everything
 * except the pool and the size. `at`: no later than that.
 */
bool selection_wants_moment(const struct selection *s, uint16_t thread, uint32_t callstack,
                            int64_t time);

/*
 * Whether allocations within a zone may be selected: it is on a selected thread, overlaps the
 * selected time, and with `zone` it begins within a zone of that name.
 */
bool selection_wants_zone(const struct selection *s, uint16_t thread, int64_t begin, int64_t end);

/*
 * Replays the history of the selected blocks. In each op, `pool` is the index in s->pools. Frees
 * have `temporary` set if the thread that allocated the block freed it with no other step in the
 * pool at a time between, selected or not.
 */
int selection_sweep(struct selection *s, const struct memory_observer *to, struct err *e);

/*
 * The same for several observers: one pass for any set of questions. If all of them may run beside
 * it, they do, in a second thread.
 */
int selection_sweep_all(struct selection *s, const struct memory_observer *to, size_t n,
                        struct err *e);

/* A question that is answered by the selected steps: its begin function makes this. */
struct selection_pass {
    struct memory_observer to;
    /* Completes the result if `passed`, else empties it. Releases to.ctx. */
    int (*end)(void *ctx, bool passed, struct err *e);
    /*
     * Instead of the steps, for a trace of figures only (figures_only.h) of which whole pools are
     * selected: takes what the figures have. NULL: the question needs steps.
     */
    int (*figures)(void *ctx, struct err *e);
};

#define SELECTION_PASSES 8u /* at most */

/*
 * Answers all questions in one sweep. `status` is that of the begin functions: if it is not 0, the
 * passes are only ended. On failure some results may be complete: release all of them.
 */
int selection_answer(struct selection *s, const struct selection_pass *passes, size_t n, int status,
                     struct err *e);

/*
 * Whether a trace of figures only may answer a question about the selection: its pools are whole,
 * and their figures are there. ERR_CHECK if not.
 */
int selection_figures(struct selection *s, struct err *e);

/* The end of the selected history, ns. */
int64_t selection_end(const struct selection *s);
