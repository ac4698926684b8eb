#ifndef TIDEMARK_ANALYSIS_FIGURES_SELECTION_H
#define TIDEMARK_ANALYSIS_FIGURES_SELECTION_H

/*
 * Which allocations a question is about, and the one stream that hands them to whoever answers it.
 * A selection is made once for a loaded trace; selection_sweep then replays what happened to the
 * selected blocks in order of time. Memory follows live blocks, call stacks and the zones of the
 * wanted name, not events.
 *
 * A range of time [begin, end) selects the blocks allocated in it, and what happened from `end` on
 * is not seen: a block freed later is live. The profiler's Memory tab limits its range so
 * (profiler/src/profiler/TracyView_Memory.cpp @ v0.14.0). `at` selects the blocks live at the end
 * of that nanosecond, and what happened later is not seen either.
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
    const char *pool; /* the pools of this name */
    bool all_pools;   /* without a name: also those that others contain, for lists, not for sums */
    const char *thread; /* allocated by the threads of this name or OS id */
    bool has_range;
    int64_t begin, end; /* ns */
    /* NULL, or the messages that the range lies between: to be looked up (message_range.h) before
     * the trace is loaded. */
    const char *from_message, *to_message;
    bool has_at;
    int64_t at; /* ns */
    bool has_size;
    uint64_t size_min, size_max; /* bytes, both included */
    const char *match;           /* as Perl has them; a function, file or image of the call stack */
    bool has_frame;
    uint64_t frame;   /* within this frame of the base set (trace_frame_number); the trace must */
                      /* have been loaded so */
    const char *zone; /* within a zone of this name on that thread; the same */
};

/*
 * Whether the pool with this key is one that the program's own Tracy client reported, in a trace in
 * which `tidemark run` recorded malloc as well: its blocks may lie in blocks of the pool "malloc",
 * so sums leave it out (run/run_client.h).
 */
bool selection_is_contained(const struct trace *t, uint64_t key);

/* True when anything but `pool` narrows the selection. */
bool selection_is_narrow(const struct selection_options *o);

/* Makes the end of what is seen of `at`: for questions about a time of their own until then. */
void selection_until(struct selection_options *o);

/* Appends it in words ("by thread main, of 64 B or more"), raw bytes; nothing when all is. */
void selection_describe(struct buf *out, const struct selection_options *o);

/* Pools by name: those of one name are one. */
struct selection_pool {
    struct view name;
    uint64_t key; /* of the first one */
    uint32_t number;
};

struct zone_span {
    int64_t begin, end; /* ns */
};

struct zone_spans {
    VEC(struct zone_span) list; /* in order, apart from each other */
};

struct thread_step;

struct selection {
    struct trace *trace;
    struct selection_options options;
    VEC(struct selection_pool) pools; /* "default" first, then by name */
    VEC(char *) texts;                /* names made up here */
    uint32_t *pool_of;                /* pool number → index in pools, UINT32_MAX: unwanted */
    int64_t only;                     /* the only wanted pool's number, else -1 */
    uint8_t *threads;                 /* thread number → wanted; NULL: all */
    uint8_t *callstacks;              /* call stack id → wanted; NULL: all */
    struct zone_spans *zones;         /* by thread number; NULL: no matter */
    size_t thread_count;
    int64_t begin, end; /* of allocation; steps from `end` on are not seen */
    bool has_at;
    bool is_narrow; /* more than pools is looked at */
};

/*
 * `s` need not be initialised. ERR_USAGE when no pool, thread, frame or zone is as wanted, or the
 * expression is none.
 */
int selection_init(struct selection *s, struct trace *t, const struct selection_options *o,
                   struct err *e);
void selection_release(struct selection *s);

/* What a block is judged by. `freed` is NEVER_FREED while live. */
struct selection_block {
    uint32_t pool; /* number in the trace */
    uint16_t thread;
    uint32_t callstack;
    uint64_t size;
    int64_t time, freed;
};

bool selection_wants(const struct selection *s, const struct selection_block *b);

/*
 * Whether something that happened at a moment on a thread, with a call stack (0 none), is selected:
 * by all but the pool and the size. `at` means: no later than that.
 */
bool selection_wants_moment(const struct selection *s, uint16_t thread, uint32_t callstack,
                            int64_t time);

/*
 * Whether allocations within a zone may be selected: it is on a wanted thread, some of it lies in
 * the wanted time, and with `zone` it begins within one of that name.
 */
bool selection_wants_zone(const struct selection *s, uint16_t thread, int64_t begin, int64_t end);

/*
 * Replays the history of the selected blocks. In each op `pool` is the index in s->pools, and frees
 * have `temporary` filled in: whether the thread that allocated the block freed it with no other
 * step of its own in the pool at a time between, selected or not.
 */
int selection_sweep(struct selection *s, const struct memory_observer *to, struct err *e);

/* When the history that is seen ends, ns. */
int64_t selection_end(const struct selection *s);

#endif
