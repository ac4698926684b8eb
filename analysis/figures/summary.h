#pragma once

/*
 * The memory summary of a trace, captured or loaded: figures per pool, per allocation site and per
 * group, memory faults, checks, a verdict and the peak's owners in a sentence each. Built in one
 * pass over the stored history; all results are valid as long as trace and summary.
 */

#include <stdbool.h>
#include <stdint.h>

#include "analysis/figures/accounting.h"
#include "analysis/figures/outliers.h"
#include "analysis/figures/selection.h"
#include "analysis/figures/zone_calls.h"
#include "analysis/names/frames.h"
#include "analysis/names/skiplist.h"
#include "analysis/names/types.h"
#include "analysis/names/wrapper_functions.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/vec.h"
#include "base/view.h"
#include "trace/file/file_version.h"
#include "trace/store/store.h"

enum grouping {
    GROUP_SITE,
    GROUP_FUNCTION,
    GROUP_CALLSTACK,
    GROUP_POOL,
    GROUP_THREAD,
    GROUP_ZONE,  /* the innermost one of the allocating thread; zones must have been loaded */
    GROUP_FRAME, /* of the base set; frames must have been loaded */
    GROUP_TYPE,  /* of the blocks, see types.h */
};

/* "site", "function", … False if `text` is no grouping. */
bool grouping_parse(const char *text, enum grouping *by);
const char *grouping_name(enum grouping by);

struct stored_figures;
struct stream_figures;

struct summary_options {
    enum grouping by; /* the key of `groups`; GROUP_SITE: `groups` is empty, see `sites` */
    const char *pool; /* only pools of this name; NULL: all */
    const struct selection_options *only; /* only these allocations, instead of `pool`; NULL: all */
    const struct skiplist *skip;          /* NULL: the built-in rules */
    bool stacks;                          /* fill in `stacks`, all call stacks of the rows */
    bool callers;                         /* fill in `callers` of rows by site and function */
    bool all_leaks;                       /* copied to the summary */
    /*
     * Figures counted while the trace was loaded, whose store need not have memory events; NULL: it
     * has them. With by_thread if rows are by thread. See summary_streams for the possible options.
     */
    struct stream_figures *stream;
    /*
     * Figures stored with the trace, whose store then has no memory events, instead of `stream`.
     * They must fit; see summary_is_stored for the possible options.
     */
    const struct stored_figures *stored;
    /* NULL, or receives the figures that can be stored of a summary by site of the whole trace. */
    struct stored_figures *store;
    bool *storable; /* beside it: whether `store` was filled and must be released */
};

/* Whether a summary can be built from figures that were stored with the trace. */
bool summary_is_stored(const struct summary_options *options);

/* Whether a summary can be built from figures that were counted while the trace was loaded. */
bool summary_streams(const struct summary_options *options);

/* One pool, or all pools of one name. */
struct summary_pool {
    struct view name;
    size_t first_key, key_count; /* its client pointers: a range of summary.pool_keys */
    struct pool_figures figures;
    uint64_t low_address, high_address; /* first byte, and one past the last */
    enum pool_sum sum;
    uint64_t permanent, permanent_bytes; /* of the live blocks: see permanent.h */
};

struct summary_row {
    uint32_t pool;           /* index in summary.pools */
    uint32_t key;            /* of the accounting: site number, call stack id, thread number */
    struct view name;        /* GROUP_POOL and later: the name of the row; else empty */
    struct frame_view frame; /* other groupings: the location; all empty without a call stack */
    bool no_callstack;       /* allocations without a call stack */
    uint8_t permanent;       /* GROUP_SITE: the kind of its blocks (permanent.h) */
    uint32_t callstack;      /* the one with most bytes; 0: none */
    size_t first_stack, stack_count;   /* a range of summary.stacks, most bytes first */
    size_t first_caller, caller_count; /* a range of summary.callers, most bytes first */
    /*
     * Of the blocks, if all of the row's call stacks agree; else empty. Rows that are not made of
     * call stacks (threads, zones, frames) have none.
     */
    struct view type;
    size_t first_type, type_count; /* a range of summary.row_types, most bytes first */
    struct counter figures;
    /* If summary.has_resident: see resident_stacks.h. Rows not made of call stacks have none. */
    uint64_t resident_bytes;
    uint32_t cost; /* GROUP_ZONE: index in summary.zone_costs + 1; 0: in no zone */
    /* GROUP_FRAME; see outliers.h; 0 for the time before the first frame */
    float count_score, bytes_score;
};

static inline bool summary_row_is_outlier(const struct summary_row *r)
{
    return outlier_is_one(r->count_score) || outlier_is_one(r->bytes_score);
}

/* Whether rows of such a grouping can have resident bytes. */
static inline bool grouping_has_resident(enum grouping by)
{
    return by != GROUP_THREAD && by != GROUP_ZONE && by != GROUP_FRAME;
}

/* The frames of a pool together, including those without an allocation. */
struct summary_frames {
    uint32_t pool;
    uint64_t frames; /* of the base set, that overlap the selected time */
    uint64_t empty;  /* of them: without an allocation */
    struct outlier_scale count, bytes;
    size_t first_outlier, outlier_count; /* a range of summary.outliers, highest score first */
};

/* The part of a row of one type, or without a type. */
struct summary_type {
    struct view name; /* empty: unknown */
    uint64_t count;   /* allocations */
    uint64_t bytes;   /* of all of them */
};

struct row_list {
    struct summary_row *at;
    size_t len;
    size_t cap;
    size_t filtered; /* rows that summary_select dropped as too small */
    size_t cut;      /* rows that it dropped because of its limit */
};

struct summary_stack {
    uint32_t callstack;
    struct counter figures;
};

#define SUMMARY_CALLERS 3u /* of a row, at most */

/* A function through which the site of a row was called: its nearest caller with a name. */
struct summary_caller {
    struct frame_view frame;
    uint64_t count; /* allocations of the row through it */
    uint64_t bytes;
};

#define SUMMARY_FAULT_SAMPLES (2 * FAULT_SAMPLES)

struct summary_fault_sample {
    int64_t time; /* ns */
    uint64_t ptr;
    uint64_t size;            /* FAULT_ALLOC_TWICE: of the new block */
    uint64_t thread;          /* OS id */
    uint32_t other_callstack; /* FAULT_ALLOC_TWICE: where the block already live came from */
};

/* Faults of one kind from one call stack. */
struct summary_fault {
    enum memory_fault_kind kind;
    struct view pool;
    uint64_t count; /* upper bound; `least` is the lower one: see faults.h */
    uint64_t least;
    uint32_t callstack;
    struct frame_view site; /* of that call stack (sites.h); all empty without one */
    unsigned sample_count;  /* the first and the last few, in order of time */
    struct summary_fault_sample samples[SUMMARY_FAULT_SAMPLES];
};

struct summary_check {
    const char *name; /* "memory-data", … */
    bool holds;
    const char *expression; /* its expression (budget.h); NULL: none */
    bool unmatched;         /* … which has a restriction that nothing matches */
    unsigned causes;        /* possible causes of the failure: bits of no_data.h */
    const char *remedy;     /* what a user can do about the failure; NULL: nothing known */
    char detail[768];
};

/* The depth of an allocation in a thread's start function. */
#define SUMMARY_SHALLOW 3u

/* How many allocations can be attributed. */
struct summary_coverage {
    uint64_t allocations;
    uint64_t with_callstack; /* of them */
    uint64_t shallow;        /* of these: with no more than SUMMARY_SHALLOW frames */
    uint64_t cut, cut_bytes; /* allocations whose call stack lacks callers (cut_stacks.h), … */
    bool cut_is_bound;       /* … at least */
    uint32_t cut_depth;      /* depth limit of those; 0: none is cut … */
    bool cut_deeper;         /* … some at a higher limit */
    uint64_t frames;         /* distinct frames of their call stacks, without markers */
    uint64_t named;          /* frames that have a function name */
};

struct summary {
    const struct trace *trace;
    struct pageable *pageable; /* the trace's, of the lists of rows and below; NULL: the heap */
    char file_version[FILE_VERSION_TEXT_SIZE]; /* "" for a capture that is not saved */
    enum grouping by;
    VEC(struct summary_pool) pools; /* those with events; "default" first, then by name */
    VEC(uint64_t) pool_keys;
    struct row_list sites;
    struct row_list groups;
    VEC(struct summary_stack) stacks;
    VEC(struct summary_caller) callers;
    VEC(struct summary_type) row_types;
    VEC(struct zone_cost) zone_costs;
    VEC(struct summary_frames) frames; /* GROUP_FRAME */
    VEC(struct summary_row) outliers;
    struct types types;
    uint64_t allocations, frees, live, live_bytes, total_bytes, permanent,
        permanent_bytes; /* of these pools, except those that sums leave out */
    struct summary_coverage coverage;
    VEC(struct summary_fault) faults; /* the selected noted ones */
    uint64_t faults_left_out;         /* kinds of faults beyond the limit of storage */
    uint64_t unknown_frees, null_frees, double_allocations; /* of all pools */
    uint64_t matched_frees;                                 /* of all pools */
    /*
     * A look at the pages of the process (resident_fact.h), and rows with resident bytes. Both are
     * unknown for a selection of anything but pools.
     */
    bool has_look, has_resident;
    uint64_t look_bytes;   /* resident bytes of the process */
    uint64_t look_lacking; /* those are without these: resident_lacking */
    bool all_leaks;        /* budgets count permanent blocks as leaked */
    bool empty;            /* the trace has no memory events at all, in any selection */
    bool partial;          /* most frees are of unknown blocks: size threshold or late start */
    bool complete;         /* the end is not missing, and it is the last part */
    bool continued;        /* the capture continues in another trace */
    uint64_t peak_bounds;  /* rows whose own peak is a lower bound (figures_only.h) */
    struct buf verdict;
    struct buf answer; /* the owners of the highest peak, see summary_answer.c; empty: no peak */
    unsigned
        causes; /* possible causes of missing memory data: bits of no_data.h, as in `verdict` */
    VEC(struct summary_check) checks;
    struct wrapper_functions wrappers; /* of the trace */
    VEC(char *) texts;                 /* generated names */
    struct selection selection;
};

struct trace_counts;
struct trace_info;

/*
 * Loads a trace for a summary with these options only. If it can be counted while the file is read,
 * options->stream becomes `f`, and the store has no events. In any case release `f`, after the last
 * summary. `t` was just initialised; `counts` and `info` as in trace/load/load.h.
 */
int summary_load(struct stream_figures *f, struct trace *t, const char *path,
                 struct summary_options *options, struct trace_counts *counts,
                 struct trace_info *info, struct err *e);

/* `s` need not be initialised. ERR_USAGE if there is no such pool; the text lists the names. */
int summary_build(struct summary *s, struct trace *t, const struct summary_options *options,
                  struct err *e);
/* Before the trace. */
void summary_release(struct summary *s);

/*
 * The display name of a row: function, thread or pool; "[no call stack]". Bytes of the trace:
 * escape them.
 */
void summary_row_name(struct buf *out, const struct summary_row *r);

/* For people: "function (file.cpp:12)", a long function shortened (function_name_short). */
void summary_row_place(struct buf *out, const struct summary_row *r);

/*
 * For people, the type of a row: that of most bytes, a long one shortened (type_name_short), and
 * the number of others, with unknown as one of them; nothing if all are unknown. Escape it, too.
 */
void summary_row_type(struct buf *out, const struct summary *s, const struct summary_row *r);

/* ---- choosing rows */

/* In the order of the words of --sort. */
enum sort_key {
    SORT_SIZE,
    SORT_COUNT,
    SORT_LIVE,
    SORT_PEAK,
    SORT_AT_PEAK,
    SORT_TEMPORARY,
    SORT_RESIDENT,
    SORT_NAME,
};

/*
 * Why the bytes that were resident are not known: of each row, or of the whole process. NULL: they
 * are known.
 */
const char *summary_lacks_resident(const struct summary *s, bool of_rows);

/* ERR_USAGE: the rows cannot be sorted by this key, since its figures are not known. */
int summary_check_sort(const struct summary *s, enum sort_key key, struct err *e);

const char *sort_key_name(enum sort_key key);

struct summary_selection {
    enum sort_key sort; /* highest first, then the size, then names in order */
    uint64_t min_size;  /* drop rows whose allocations add up to fewer bytes */
    uint64_t min_count; /* … or are fewer */
    uint64_t limit;     /* rows to keep; 0: all */
};

void summary_select(struct row_list *rows, const struct summary_selection *by);

/* `skip`, with which the summary was made, with the wrappers that it found. Valid with both. */
struct skiplist summary_skiplist(const struct summary *s, const struct skiplist *skip);

/* ---- facts that a capture stores in the trace */

/*
 * Adds figures counted during the capture that a saved trace does not have otherwise, as facts:
 *
 *     tidemark.unknown_frees=N       frees of blocks that were not live, also where expected
 *     tidemark.null_frees=N
 *     tidemark.double_allocations=N
 *     tidemark.fault=KIND|POOL KEY|COUNT|CALL STACK|SAMPLE;SAMPLE;…
 *     tidemark.faults_left_out=N     fault facts beyond SUMMARY_FAULT_FACTS_MAX
 *
 * KIND is free-of-unknown or allocated-twice, SAMPLE is TIME,THREAD ID,ADDRESS,SIZE,CALL STACK;
 * numbers are decimal, keys and addresses 0x…, call stacks positions in the file. Call it once
 * before saving.
 */
int summary_write_facts(struct trace *t, struct err *e);

#define SUMMARY_FAULT_FACTS_MAX 1000

/* The number of all faults: the upper bound, and the lower one in `least` unless that is NULL. */
uint64_t summary_count_faults(const struct summary *s, uint64_t *least);

/* "free-of-unknown" or "allocated-twice". */
const char *fault_kind_name(enum memory_fault_kind kind);
