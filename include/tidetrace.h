#ifndef TIDETRACE_H
#define TIDETRACE_H

/*
 * libtidetrace: traces of the Tracy profiler (`.tracy` files of every version since 0.9.0) for
 * programs: what is in them, their memory events one by one, and the analyses of `tidemark`.
 *
 *     struct tidetrace *trace;
 *     struct tidetrace_error error;
 *     if (tidetrace_open("run.tracy", NULL, &trace, &error) != TIDETRACE_OK)
 *         errx(1, "%s", error.text);
 *     …
 *     tidetrace_close(trace);
 *
 * Functions return TIDETRACE_OK (0), or a negative code; then the error that they were given, which
 * may be NULL, has the code and a text that names the place and the cause. The library never
 * prints, never exits, and handles no signals. A damaged or hostile trace is an error like any
 * other.
 *
 * Threads. A trace, and all that came from it, may be used by one thread at a time; different
 * traces by different threads at the same time. There is no global state. tidetrace_diff uses two
 * traces.
 *
 * Texts (struct tidetrace_text) are bytes as the trace has them: usually UTF-8, any byte may occur,
 * and no NUL follows. They stay where they are until the trace is closed or, for rows of a result,
 * the result is freed. A text that is not known has size 0.
 *
 * Times are nanoseconds since the trace began. Sizes are bytes. Sums that would overflow stay at
 * the highest value.
 *
 * Extension. The ABI only grows within a major version (libtidetrace.so.1). Structs begin with
 * `struct_size`, which the caller sets to sizeof of the struct that it was compiled with; functions
 * that fill an array take the size of an element instead. The library never touches what lies
 * beyond, takes members that the caller does not know for 0, and refuses members that it does not
 * know itself unless they are 0. So zero-initialise all structs: 0 is the default of every option.
 */

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define TIDETRACE_API __attribute__((visibility("default")))
#else
#define TIDETRACE_API
#endif

/* The version of this header: functions and members were added since a lower minor version. */
#define TIDETRACE_MAJOR 1
#define TIDETRACE_MINOR 3

/* The version of the library in use, major * 1000 + minor. */
TIDETRACE_API uint32_t tidetrace_version(void);

/* The release that it came with, such as "0.1.0". */
TIDETRACE_API const char *tidetrace_release(void);

/* ---- errors and texts */

enum tidetrace_code {
    TIDETRACE_OK = 0,
    TIDETRACE_USAGE = -1,  /* an argument is wrong; also a pool, thread or zone that is not there */
    TIDETRACE_INPUT = -2,  /* the file cannot be read, or is no trace that makes sense */
    TIDETRACE_SYSTEM = -3, /* a temporary file cannot be written */
    TIDETRACE_MEMORY = -4  /* memory is short */
};

/* This struct never changes. */
struct tidetrace_error {
    int32_t code; /* TIDETRACE_OK unless a function failed */
    char text[512];
};

/* This struct never changes. */
struct tidetrace_text {
    const char *data; /* never NULL */
    size_t size;
};

/* ---- a trace */

struct tidetrace;

enum tidetrace_open_flags {
    /* Zones and frames, too: for tidetrace_allocation.zone, selections and rows by them. */
    TIDETRACE_OPEN_ZONES = 1,
    /* Plots and messages, too: for tidetrace_related. */
    TIDETRACE_OPEN_PLOTS = 2
};

struct tidetrace_open_options {
    size_t struct_size;
    uint32_t flags; /* enum tidetrace_open_flags */
    uint32_t reserved;
    uint64_t memory; /* of events, names and call stacks kept in memory, the rest is */
                     /* in temporary files; 0: 80 MiB of events, 64 MiB of the others; */
                     /* of plots and messages as much, but 16 MiB at most */
    const char *temporary_folder; /* NULL: $TMPDIR, else /var/tmp */
};

/*
 * Reads the trace at `path` as a whole. `options` may be NULL. What is beyond
 * options->memory goes to temporary files without a name. *trace is NULL after a failure.
 */
TIDETRACE_API int tidetrace_open(const char *path, const struct tidetrace_open_options *options,
                                 struct tidetrace **trace, struct tidetrace_error *error);

/* The same from an open file, which stays the caller's. `name` is what errors call it. */
TIDETRACE_API int tidetrace_open_fd(int fd, const char *name,
                                    const struct tidetrace_open_options *options,
                                    struct tidetrace **trace, struct tidetrace_error *error);

/* NULL is allowed. Results and iterators that are still there keep what they need of it. */
TIDETRACE_API void tidetrace_close(struct tidetrace *trace);

/* About how many bytes of memory the trace takes now. */
TIDETRACE_API uint64_t tidetrace_memory(const struct tidetrace *trace);

enum tidetrace_info_flags {
    TIDETRACE_COMPLETE = 1,  /* nothing is missing at the end, as far as the trace tells */
    TIDETRACE_ON_DEMAND = 2, /* the program was connected to while it ran */
    TIDETRACE_ZONES = 4,     /* opened with TIDETRACE_OPEN_ZONES */
    TIDETRACE_PLOTS = 8      /* opened with TIDETRACE_OPEN_PLOTS */
};

struct tidetrace_info {
    size_t struct_size;
    uint32_t flags;                 /* enum tidetrace_info_flags */
    uint32_t file_version;          /* major << 16 | minor << 8 | patch */
    struct tidetrace_text version;  /* the same as text */
    struct tidetrace_text protocol; /* of the client, where the capture noted it: "82" */
    struct tidetrace_text program;
    struct tidetrace_text capture_name;
    struct tidetrace_text host;
    uint64_t pid;
    uint64_t captured_at; /* seconds since 1970 */
    int64_t duration;
    /* How many there are of: */
    uint64_t pools, allocations, callstacks, frames, threads;
    uint64_t zones, messages, plots, locks, samples, context_switches;
};

TIDETRACE_API int tidetrace_get_info(struct tidetrace *trace, struct tidetrace_info *info,
                                     struct tidetrace_error *error);

/* ---- pools, threads, call stacks, frames: numbered from 0, call stacks from 1 */

struct tidetrace_pool {
    size_t struct_size;
    struct tidetrace_text name; /* "default" for the unnamed one; pools may share a name */
    uint64_t key;               /* what the client knew it by */
    uint64_t allocations;
    uint64_t frees;
    uint64_t live_count, live_bytes; /* never freed */
    uint64_t total_bytes;            /* of all allocations */
    uint64_t low_address;            /* the first byte, and one past the last; 0 without any */
    uint64_t high_address;
};

TIDETRACE_API uint32_t tidetrace_pool_count(const struct tidetrace *trace);
TIDETRACE_API int tidetrace_get_pool(struct tidetrace *trace, uint32_t pool,
                                     struct tidetrace_pool *out, struct tidetrace_error *error);

struct tidetrace_thread {
    size_t struct_size;
    uint64_t id; /* of the operating system; fibers have made-up ones */
    struct tidetrace_text name;
    uint32_t is_fiber;
    uint32_t reserved;
};

TIDETRACE_API uint32_t tidetrace_thread_count(const struct tidetrace *trace);
TIDETRACE_API int tidetrace_get_thread(struct tidetrace *trace, uint32_t thread,
                                       struct tidetrace_thread *out, struct tidetrace_error *error);

enum tidetrace_frame_flags {
    TIDETRACE_FRAME_INLINE = 1, /* inlined into the function that follows */
    TIDETRACE_FRAME_NAMED = 2   /* `function` is one; else it may be a place such as "a.so+0x12" */
};

/* A function of a call stack. An address at which calls were inlined has several. */
struct tidetrace_frame {
    size_t struct_size; /* in arrays the size that the function was given */
    struct tidetrace_text function, file, image;
    uint64_t address; /* that the call returns to, 0 unknown */
    uint32_t line;    /* 0 unknown */
    uint32_t flags;   /* enum tidetrace_frame_flags */
    uint32_t number;  /* of the frame, for tidetrace_get_frame */
    uint32_t inlined; /* how manieth function of it, from 0: the innermost */
};

/* Call stacks have the numbers 1 to this one. */
TIDETRACE_API uint32_t tidetrace_callstack_count(const struct tidetrace *trace);

/*
 * The functions of a call stack, innermost first: the first `room` of them go to `frames`, *count
 * is how many there are. Call stack 0, "none", has none.
 */
TIDETRACE_API int tidetrace_get_callstack(struct tidetrace *trace, uint32_t callstack,
                                          struct tidetrace_frame *frames, size_t frame_size,
                                          size_t room, size_t *count,
                                          struct tidetrace_error *error);

/* All frames of all call stacks, each once. */
TIDETRACE_API uint32_t tidetrace_frame_count(const struct tidetrace *trace);

/* How many functions a frame has; at least one, 0 when there is no such frame. */
TIDETRACE_API uint32_t tidetrace_frame_depth(const struct tidetrace *trace, uint32_t frame);
TIDETRACE_API int tidetrace_get_frame(struct tidetrace *trace, uint32_t frame, uint32_t inlined,
                                      struct tidetrace_frame *out, struct tidetrace_error *error);

/* ---- which allocations */

enum tidetrace_select_flags {
    TIDETRACE_SELECT_RANGE = 1, /* begin, end */
    TIDETRACE_SELECT_AT = 2,    /* at */
    TIDETRACE_SELECT_SIZE = 4,  /* size_min, size_max */
    TIDETRACE_SELECT_FRAME = 8  /* frame */
};

/* All that is given must hold. */
struct tidetrace_selection {
    size_t struct_size;
    uint32_t flags; /* enum tidetrace_select_flags */
    uint32_t reserved;
    const char *pool;   /* NULL, or of the pools of this name */
    const char *thread; /* NULL, or allocated by the threads of this name or id */
    const char *match;  /* NULL, or a regular expression, as Perl has them, that a function, file or
                           image of */
                        /* the call stack matches */
    const char *zone;   /* NULL, or within a zone of this name on the same thread */
    int64_t begin, end; /* allocated from `begin` until before `end`; analyses do not see what */
                        /* happens from `end` on */
    int64_t at;         /* live at this time */
    uint64_t size_min, size_max; /* both included */
    uint64_t frame; /* within this frame of the base set, by the number that the profiler shows */
};

/* ---- allocations one by one */

struct tidetrace_allocation {
    size_t struct_size; /* in arrays the size that the function was given */
    uint64_t address, size;
    int64_t time;
    int64_t free_time; /* -1: never */
    uint32_t pool;     /* numbers of pools, threads and call stacks; 0: no call stack */
    uint32_t callstack;
    uint32_t free_callstack;
    uint32_t thread;
    uint32_t free_thread;
    uint32_t reserved;
    struct tidetrace_text zone; /* the innermost zone of the thread then, where it is known: the */
                                /* trace was opened with zones, and time does not go back */
};

struct tidetrace_allocations;

/*
 * Begins to read the selected allocations (`selection` may be NULL: all), pool by pool, in each in
 * the order of the file, which is that of time.
 */
TIDETRACE_API int tidetrace_allocations_open(struct tidetrace *trace,
                                             const struct tidetrace_selection *selection,
                                             struct tidetrace_allocations **iterator,
                                             struct tidetrace_error *error);

/* The next ones, at most `room`; *count is 0 at the end. */
TIDETRACE_API int tidetrace_allocations_next(struct tidetrace_allocations *iterator,
                                             struct tidetrace_allocation *out,
                                             size_t allocation_size, size_t room, size_t *count,
                                             struct tidetrace_error *error);

TIDETRACE_API void tidetrace_allocations_close(struct tidetrace_allocations *iterator);

/* ---- analyses: each gives a result, which is a list of rows with a head */

struct tidetrace_result;

/* NULL is allowed. */
TIDETRACE_API void tidetrace_result_free(struct tidetrace_result *result);

/* How many rows it has. */
TIDETRACE_API uint64_t tidetrace_result_rows(const struct tidetrace_result *result);

/*
 * The result as JSON, in the form of `tidemark COMMAND --format json`, which the command's manual
 * page describes, with `count` rows from `first` on (UINT64_MAX: all that follow). The sites of a
 * report by something else are only in the whole: first 0, count UINT64_MAX. *json is text of *size
 * bytes and a NUL, to be given to tidetrace_free.
 */
TIDETRACE_API int tidetrace_result_json(struct tidetrace_result *result, uint64_t first,
                                        uint64_t count, char **json, size_t *size,
                                        struct tidetrace_error *error);

TIDETRACE_API void tidetrace_free(void *memory);

/* What belongs to a site, function, call stack, … This struct never changes. */
struct tidetrace_figures {
    uint64_t count, bytes;           /* allocations, and bytes of all of them */
    uint64_t live_count, live_bytes; /* not freed */
    uint64_t peak_bytes;             /* the highest use of its own */
    uint64_t at_peak_bytes;          /* its share when the pool stood highest */
    uint64_t temporary; /* freed by the very next memory event of the same thread in that pool */
};

/*
 * `tidemark info` as JSON: "tidemark.info/1", without file.stored_figure_bytes. The result has no
 * rows.
 */
TIDETRACE_API int tidetrace_overview(struct tidetrace *trace, struct tidetrace_result **result,
                                     struct tidetrace_error *error);

/* -- report: what allocated how much, "tidemark.report/1" */

enum tidetrace_by {
    TIDETRACE_BY_SITE = 0, /* the innermost function that is neither Tracy's nor an allocator */
    TIDETRACE_BY_FUNCTION = 1,
    TIDETRACE_BY_CALLSTACK = 2,
    TIDETRACE_BY_POOL = 3,
    TIDETRACE_BY_THREAD = 4,
    TIDETRACE_BY_ZONE = 5, /* needs TIDETRACE_OPEN_ZONES, and so does: */
    TIDETRACE_BY_FRAME = 6,
    TIDETRACE_BY_TYPE = 7 /* of what the blocks hold, where names of functions tell it */
};

enum tidetrace_sort {
    TIDETRACE_SORT_SIZE = 0,
    TIDETRACE_SORT_COUNT = 1,
    TIDETRACE_SORT_LIVE = 2,
    TIDETRACE_SORT_PEAK = 3,
    TIDETRACE_SORT_AT_PEAK = 4,
    TIDETRACE_SORT_TEMPORARY = 5,
    TIDETRACE_SORT_NAME = 6
};

struct tidetrace_report_options {
    size_t struct_size;
    const struct tidetrace_selection *selection; /* NULL: all allocations */
    uint32_t by;                                 /* enum tidetrace_by */
    uint32_t sort;                               /* enum tidetrace_sort */
    uint64_t min_bytes, min_count;               /* rows with less are left out */
    const char *const
        *skip; /* regular expressions: functions and files to pass over for the site */
    size_t skip_count;
};

TIDETRACE_API int tidetrace_report(struct tidetrace *trace,
                                   const struct tidetrace_report_options *options,
                                   struct tidetrace_result **result, struct tidetrace_error *error);

struct tidetrace_report_row {
    size_t struct_size;
    struct tidetrace_text pool;
    struct tidetrace_text name; /* what to call the row */
    struct tidetrace_text function, file, image;
    uint32_t line;
    uint32_t callstack; /* the one with most bytes, 0 none */
    struct tidetrace_figures figures;
    struct tidetrace_text type; /* of what the blocks hold, where it is known and only one */
};

TIDETRACE_API int tidetrace_report_row(struct tidetrace_result *result, uint64_t row,
                                       struct tidetrace_report_row *out,
                                       struct tidetrace_error *error);

struct tidetrace_totals {
    size_t struct_size;
    uint64_t allocations, frees, live_count, live_bytes, total_bytes;
    uint64_t with_callstack;       /* allocations that have one */
    uint64_t frames, named_frames; /* distinct frames of theirs, and how many have names */
    uint64_t unknown_frees, double_allocations; /* memory faults, of all pools */
    uint64_t rows_left_out;                     /* because of min_bytes and min_count */
    struct tidetrace_text verdict;              /* in one sentence */
};

/* Of all that was selected. */
TIDETRACE_API int tidetrace_report_totals(struct tidetrace_result *result,
                                          struct tidetrace_totals *out,
                                          struct tidetrace_error *error);

/* -- peaks: times at which use was higher than around them */

struct tidetrace_peak {
    size_t struct_size; /* in arrays the size that the function was given */
    int64_t time;
    uint64_t bytes;
    uint64_t rise; /* how far use falls on both sides before it gets as high again */
};

/*
 * The peaks of all selected pools together, the highest first: `room` of them go to `peaks`, *count
 * is how many there are. What was live at one is a report whose selection has its time as `at`.
 * `at` of the selection itself: those until then.
 */
TIDETRACE_API int tidetrace_peaks(struct tidetrace *trace,
                                  const struct tidetrace_selection *selection,
                                  struct tidetrace_peak *peaks, size_t peak_size, size_t room,
                                  size_t *count, struct tidetrace_error *error);

/* -- leaks: what is never freed, and whether it grows, "tidemark.leaks/1" */

struct tidetrace_leak_options {
    size_t struct_size;
    const struct tidetrace_selection *selection;
    const char *suppressions; /* NULL, or text in the format of LeakSanitizer's files */
    const char *const *skip;
    size_t skip_count;
};

TIDETRACE_API int tidetrace_leaks(struct tidetrace *trace,
                                  const struct tidetrace_leak_options *options,
                                  struct tidetrace_result **result, struct tidetrace_error *error);

enum tidetrace_leak_kind {
    TIDETRACE_LEAK_GROWING = 0,
    TIDETRACE_LEAK_HELD = 1,
    TIDETRACE_LEAK_AT_START = 2
};

/* How much evidence there is that what grows is a leak and no cache that fills. */
enum tidetrace_leak_confidence {
    TIDETRACE_LEAK_UNKNOWN = 0, /* not growing, or a library before 1.3 */
    TIDETRACE_LEAK_LOW = 1,
    TIDETRACE_LEAK_MEDIUM = 2,
    TIDETRACE_LEAK_HIGH = 3
};

struct tidetrace_leak_row {
    size_t struct_size;
    uint32_t kind; /* enum tidetrace_leak_kind */
    uint32_t callstack;
    struct tidetrace_text pool, function, file, image;
    uint32_t line;
    uint32_t spread;       /* in how many of 64 parts of the time one was allocated */
    uint64_t count, bytes; /* never freed */
    uint64_t allocations;  /* of the site in all */
    int64_t first, last;   /* when the oldest and the newest were allocated */
    double bytes_per_second;
    double p;            /* how likely such a rise is by chance */
    uint32_t confidence; /* enum tidetrace_leak_confidence; since 1.3 */
    uint32_t reserved;
};

TIDETRACE_API int tidetrace_leak_row(struct tidetrace_result *result, uint64_t row,
                                     struct tidetrace_leak_row *out, struct tidetrace_error *error);

/* -- what the following have in common */

struct tidetrace_site_options {
    size_t struct_size;
    const struct tidetrace_selection *selection; /* NULL: all allocations */
    const char *const
        *skip; /* regular expressions: functions and files to pass over for the site */
    size_t skip_count;
};

/* -- growth: which sites hold more at one time than at another, "tidemark.grown/1" */

struct tidetrace_growth_options {
    size_t struct_size;
    const struct tidetrace_selection *selection;
    int64_t from, to; /* what is held at the end of both nanoseconds is compared */
    const char *const *skip;
    size_t skip_count;
};

/* Rows are the sites that changed, most grown first. */
TIDETRACE_API int tidetrace_growth(struct tidetrace *trace,
                                   const struct tidetrace_growth_options *options,
                                   struct tidetrace_result **result, struct tidetrace_error *error);

struct tidetrace_growth_row {
    size_t struct_size;
    struct tidetrace_text pool, function, file, image;
    uint32_t line;
    uint32_t callstack; /* of the newest block that came between, 0 none */
    uint64_t count_before, bytes_before, count_after, bytes_after;
    uint64_t allocations, frees; /* between */
};

TIDETRACE_API int tidetrace_growth_row(struct tidetrace_result *result, uint64_t row,
                                       struct tidetrace_growth_row *out,
                                       struct tidetrace_error *error);

/* -- patterns: what sites do with their blocks that costs time or room, "tidemark.patterns/1" */

/* Rows are all sites, most bytes first. */
TIDETRACE_API int tidetrace_patterns(struct tidetrace *trace,
                                     const struct tidetrace_site_options *options,
                                     struct tidetrace_result **result,
                                     struct tidetrace_error *error);

enum tidetrace_pattern_flags {
    TIDETRACE_PATTERN_GROWS = 1,     /* by copying, and not by chance */
    TIDETRACE_PATTERN_NEVER_GREW = 2 /* large blocks of one size */
};

struct tidetrace_pattern_row {
    size_t struct_size;
    struct tidetrace_text pool, function, file, image;
    uint32_t line;
    uint32_t callstack; /* of its largest block */
    uint32_t flags;     /* enum tidetrace_pattern_flags */
    uint32_t reserved;
    uint64_t count, bytes, largest, live_bytes, peak_bytes;
    uint64_t only_size;                               /* 0: blocks differ in size */
    uint64_t chains, steps, copied_bytes, longest;    /* of growth by copying */
    uint64_t steps_down, given_back_bytes;            /* to smaller blocks */
    uint64_t temporary, temporary_bytes, longest_run; /* longest run of them on one thread */
    uint64_t glibc_bytes, glibc_peak_bytes;           /* what glibc's malloc would add */
};

TIDETRACE_API int tidetrace_pattern_row(struct tidetrace_result *result, uint64_t row,
                                        struct tidetrace_pattern_row *out,
                                        struct tidetrace_error *error);

/* -- histograms: sizes and lifetimes, "tidemark.histograms/1" */

/* Rows are those classes that have blocks. As JSON the result has no parts: it is always whole. */
TIDETRACE_API int tidetrace_histograms(struct tidetrace *trace,
                                       const struct tidetrace_selection *selection,
                                       struct tidetrace_result **result,
                                       struct tidetrace_error *error);

enum tidetrace_class_kind {
    TIDETRACE_CLASS_SIZE = 0,     /* bytes, in powers of two */
    TIDETRACE_CLASS_LIFETIME = 1, /* nanoseconds, in powers of ten */
    TIDETRACE_CLASS_LIVE = 2      /* never freed */
};

struct tidetrace_class_row {
    size_t struct_size;
    uint32_t kind; /* enum tidetrace_class_kind */
    uint32_t reserved;
    uint64_t from, to; /* from `from` until below `to`; UINT64_MAX: no end */
    uint64_t count, bytes;
    uint64_t live_count, live_bytes, temporary, glibc_bytes; /* of sizes only */
};

TIDETRACE_API int tidetrace_class_row(struct tidetrace_result *result, uint64_t row,
                                      struct tidetrace_class_row *out,
                                      struct tidetrace_error *error);

/* -- faults: frees of unknown blocks, addresses allocated twice, "tidemark.faults/1" */

/* Rows are kinds of faults by pool and call stack. */
TIDETRACE_API int tidetrace_faults(struct tidetrace *trace,
                                   const struct tidetrace_site_options *options,
                                   struct tidetrace_result **result, struct tidetrace_error *error);

enum tidetrace_fault_kind { TIDETRACE_FREE_OF_UNKNOWN = 0, TIDETRACE_ALLOCATED_TWICE = 1 };

enum tidetrace_fault_cause {
    TIDETRACE_FAULT_NEVER_SEEN = 0,    /* no block of the trace covered the address before */
    TIDETRACE_FAULT_FREED_BEFORE = 1,  /* a block began there and was freed */
    TIDETRACE_FAULT_INSIDE_LIVE = 2,   /* within a live block of the pool */
    TIDETRACE_FAULT_INSIDE_FREED = 3,  /* within a block that was freed before */
    TIDETRACE_FAULT_IN_OTHER_POOL = 4, /* the beginning of a live block of another pool */
    TIDETRACE_FAULT_HELD = 5           /* allocated twice: a live block was there */
};

struct tidetrace_fault_row {
    size_t struct_size;
    uint32_t kind; /* enum tidetrace_fault_kind */
    uint32_t callstack;
    struct tidetrace_text pool, function, file, image;
    uint32_t line;
    uint32_t from_history; /* found in the trace's events, not noted by a capture */
    uint64_t count;        /* how often, at most … */
    uint64_t count_least;  /* … and at least, with a selection */
    uint32_t cases;        /* how many of them tidetrace_fault_case tells: the first and the last */
    uint32_t reserved;
};

TIDETRACE_API int tidetrace_fault_row(struct tidetrace_result *result, uint64_t row,
                                      struct tidetrace_fault_row *out,
                                      struct tidetrace_error *error);

struct tidetrace_fault_case {
    size_t struct_size;
    uint32_t cause;          /* enum tidetrace_fault_cause */
    uint32_t held_callstack; /* of an address allocated twice: who had it */
    int64_t time;
    uint64_t address;
    uint64_t size;      /* of the block allocated twice */
    uint64_t thread_id; /* of the operating system */
    /* The block that was there before, and the live one around the address, where there is one: */
    uint64_t previous_address, previous_size;
    int64_t previous_time, previous_free_time;
    uint32_t previous_callstack, previous_free_callstack;
    uint64_t around_address, around_size;
    int64_t around_time;
    uint32_t around_callstack;
    uint8_t has_previous, has_around;
    uint16_t reserved;
};

TIDETRACE_API int tidetrace_fault_case(struct tidetrace_result *result, uint64_t row,
                                       uint32_t number, struct tidetrace_fault_case *out,
                                       struct tidetrace_error *error);

/* -- related: which plots and messages moved with memory, "tidemark.related/1" */

struct tidetrace_related_options {
    size_t struct_size;
    const struct tidetrace_selection *selection; /* NULL: all allocations */
    int64_t window; /* how long after a message use may rise; 0: a two-hundredth of the time */
};

/*
 * Of a trace that was opened with TIDETRACE_OPEN_PLOTS. Rows are plots with each pool, then
 * messages with each pool, of both the surest first.
 */
TIDETRACE_API int tidetrace_related(struct tidetrace *trace,
                                    const struct tidetrace_related_options *options,
                                    struct tidetrace_result **result,
                                    struct tidetrace_error *error);

struct tidetrace_related_head {
    size_t struct_size;
    int64_t begin, end;       /* of the time that was looked at; the end is not part of it */
    int64_t window;           /* as it was used */
    uint64_t plots, messages; /* rows of each */
    uint32_t steps;           /* pieces of the time, for plots */
    uint32_t cells;           /* and for messages */
    double threshold;         /* below it p_adjusted is more than chance */
};

TIDETRACE_API int tidetrace_related_head(struct tidetrace_result *result,
                                         struct tidetrace_related_head *out,
                                         struct tidetrace_error *error);

enum tidetrace_related_kind { TIDETRACE_RELATED_PLOT = 0, TIDETRACE_RELATED_MESSAGE = 1 };

struct tidetrace_related_row {
    size_t struct_size;
    uint32_t kind;              /* enum tidetrace_related_kind */
    uint32_t related;           /* 1: it moved with memory, 0: it shows no relation */
    struct tidetrace_text name; /* of the plot; the message's text */
    struct tidetrace_text pool;
    uint64_t count;    /* points of the plot, or messages of this text, within the time */
    uint64_t used;     /* steps that were compared, or messages with a window of their own */
    double p;          /* how likely that is by chance; -1: the plot or the pool moved too seldom */
    double p_adjusted; /* the same, corrected for the number of rows of the kind */
    /* Of plots: */
    uint64_t moved;           /* steps in which it changed */
    double spearman, pearson; /* correlations, of plots with p >= 0 */
    /* Of messages: */
    uint64_t steep;          /* how many stand before one of the highest rises */
    double expected;         /* how many would by chance */
    double rise, usual_rise; /* mean of the bytes after one of them, and after any moment */
};

TIDETRACE_API int tidetrace_related_row(struct tidetrace_result *result, uint64_t row,
                                        struct tidetrace_related_row *out,
                                        struct tidetrace_error *error);

/* -- timeline: use over time, "tidemark.timeline/1" */

enum tidetrace_timeline_flags {
    TIDETRACE_TIMELINE_WINDOW = 1,  /* begin, end; else from 0 to the end */
    TIDETRACE_TIMELINE_TOGETHER = 2 /* all pools as one */
};

struct tidetrace_timeline_options {
    size_t struct_size;
    const struct tidetrace_selection *selection; /* without a range: that is the window */
    uint32_t flags;                              /* enum tidetrace_timeline_flags */
    uint32_t buckets;   /* at most, in each pool; 0: 200; up to 1,000,000 */
    int64_t begin, end; /* blocks that were allocated before count as in use */
};

/* Rows are buckets, pool by pool. As JSON the result has no parts: it is always whole. */
TIDETRACE_API int tidetrace_timeline(struct tidetrace *trace,
                                     const struct tidetrace_timeline_options *options,
                                     struct tidetrace_result **result,
                                     struct tidetrace_error *error);

struct tidetrace_bucket_row {
    size_t struct_size;
    struct tidetrace_text pool;
    int64_t begin, end;
    uint64_t low_bytes, high_bytes, last_bytes; /* in use: least, most, at its end */
    int64_t high_time;
    uint64_t high_live, last_live; /* blocks */
    uint64_t allocations, frees, allocated_bytes, freed_bytes;
};

TIDETRACE_API int tidetrace_bucket_row(struct tidetrace_result *result, uint64_t row,
                                       struct tidetrace_bucket_row *out,
                                       struct tidetrace_error *error);

/* -- map: where live blocks lie, and how scattered they were, "tidemark.map/1" */

struct tidetrace_map_options {
    size_t struct_size;
    const struct tidetrace_selection *selection; /* `at`: the map of that time */
    uint32_t columns; /* cells in a line of the JSON, a power of two up to 1024; 0: no lines */
    uint32_t lines;   /* of each pool, at most; 0: 32 */
    uint32_t samples; /* times at which the pools are looked at; 0: 8; up to 100,000 */
    uint32_t reserved;
};

/* Rows are samples, pool by pool. As JSON the result has no parts: it is always whole. */
TIDETRACE_API int tidetrace_map(struct tidetrace *trace,
                                const struct tidetrace_map_options *options,
                                struct tidetrace_result **result, struct tidetrace_error *error);

struct tidetrace_map_row {
    size_t struct_size;
    struct tidetrace_text pool;
    int64_t time;
    uint64_t blocks, bytes;
    uint64_t covered_bytes;                         /* addresses in at least one block */
    uint64_t page_bytes;                            /* of the pages with such an address */
    uint64_t holes, hole_bytes, largest_hole_bytes; /* between blocks that share or adjoin a page */
    uint64_t low_address, high_address;             /* covered, both included; 0 without any */
};

TIDETRACE_API int tidetrace_map_row(struct tidetrace_result *result, uint64_t row,
                                    struct tidetrace_map_row *out, struct tidetrace_error *error);

/* -- tree: callers with all that they called, "tidemark.tree/1" */

enum tidetrace_tree_by {
    TIDETRACE_TREE_FUNCTION = 0,
    TIDETRACE_TREE_LINE = 1,
    TIDETRACE_TREE_FILE = 2,
    TIDETRACE_TREE_IMAGE = 3,
    TIDETRACE_TREE_MODULE = 4,
    TIDETRACE_TREE_THREAD = 5,
    TIDETRACE_TREE_TYPE = 6
};

enum tidetrace_metric {
    TIDETRACE_METRIC_BYTES = 0,
    TIDETRACE_METRIC_COUNT = 1,
    TIDETRACE_METRIC_LIVE_BYTES = 2,
    TIDETRACE_METRIC_LIVE_COUNT = 3,
    TIDETRACE_METRIC_AT_PEAK_BYTES = 4,
    TIDETRACE_METRIC_AT_PEAK_COUNT = 5,
    TIDETRACE_METRIC_TEMPORARY = 6
};
#define TIDETRACE_METRICS 7

enum tidetrace_tree_flags {
    TIDETRACE_TREE_BOTTOM_UP = 1,  /* from the functions that allocated to their callers */
    TIDETRACE_TREE_NO_INLINES = 2, /* a node for each frame */
    TIDETRACE_TREE_ALL_FRAMES = 4  /* with the allocator's functions and Tracy's */
};

struct tidetrace_tree_options {
    size_t struct_size;
    const struct tidetrace_selection *selection;
    uint32_t by;      /* enum tidetrace_tree_by */
    uint32_t metric;  /* enum tidetrace_metric: children stand in its order */
    uint32_t flags;   /* enum tidetrace_tree_flags */
    uint32_t depth;   /* levels to show, 0 all */
    double min_share; /* leave out nodes with less of the whole than this, 0 to 1 */
    const char *const *skip;
    size_t skip_count;
};

/* Rows are nodes, depth first; the root, which stands for all, is none of them. */
TIDETRACE_API int tidetrace_tree(struct tidetrace *trace,
                                 const struct tidetrace_tree_options *options,
                                 struct tidetrace_result **result, struct tidetrace_error *error);

struct tidetrace_tree_row {
    size_t struct_size;
    uint32_t id;     /* as in the JSON form; not the number of the row */
    uint32_t parent; /* its id, 0: the root */
    uint32_t depth;  /* from 1 */
    uint32_t line;
    struct tidetrace_text name; /* what to call the node */
    struct tidetrace_text function, file, image;
    uint64_t inclusive[TIDETRACE_METRICS]; /* by enum tidetrace_metric: with all that it called */
    uint64_t exclusive[TIDETRACE_METRICS]; /* itself */
};

TIDETRACE_API int tidetrace_tree_row(struct tidetrace_result *result, uint64_t row,
                                     struct tidetrace_tree_row *out, struct tidetrace_error *error);

/* -- find: who had an address, "tidemark.find/1" */

enum tidetrace_find_flags {
    TIDETRACE_FIND_TIME = 1 /* at `time`, and which one came before and after in each pool */
};

struct tidetrace_find_options {
    size_t struct_size;
    const struct tidetrace_selection *selection;
    uint64_t low, high; /* addresses, both included */
    int64_t time;
    uint64_t limit; /* only the newest so many, 0 all */
    uint32_t flags; /* enum tidetrace_find_flags */
    uint32_t reserved;
};

TIDETRACE_API int tidetrace_find(struct tidetrace *trace,
                                 const struct tidetrace_find_options *options,
                                 struct tidetrace_result **result, struct tidetrace_error *error);

enum tidetrace_found_when {
    TIDETRACE_FOUND = 0,        /* no time was asked for */
    TIDETRACE_FOUND_AT = 1,     /* live at the time */
    TIDETRACE_FOUND_BEFORE = 2, /* the newest that was freed by then, in its pool */
    TIDETRACE_FOUND_AFTER = 3   /* the oldest that was allocated later */
};

/* The block of a row, without its zone, and why it is listed: *when, an enum tidetrace_found_when.
 */
TIDETRACE_API int tidetrace_found_row(struct tidetrace_result *result, uint64_t row, uint32_t *when,
                                      struct tidetrace_allocation *out,
                                      struct tidetrace_error *error);

/* -- diff: what changed from one trace to another, "tidemark.diff/1" */

enum tidetrace_diff_metric {
    TIDETRACE_DIFF_BYTES = 0,
    TIDETRACE_DIFF_COUNT = 1,
    TIDETRACE_DIFF_LIVE = 2,
    TIDETRACE_DIFF_PEAK = 3
};

enum tidetrace_diff_kind {
    TIDETRACE_DIFF_NEW = 0,
    TIDETRACE_DIFF_GROWN = 1,
    TIDETRACE_DIFF_SHRUNK = 2,
    TIDETRACE_DIFF_GONE = 3
};

enum tidetrace_diff_by {
    TIDETRACE_DIFF_BY_SITE = 0,
    TIDETRACE_DIFF_BY_CALLSTACK = 1,
    TIDETRACE_DIFF_BY_TYPE = 2 /* of what the blocks hold */
};

struct tidetrace_diff_options {
    size_t struct_size;
    const struct tidetrace_selection *selection; /* of both */
    uint32_t by;                                 /* enum tidetrace_diff_by */
    uint32_t metric;                             /* enum tidetrace_diff_metric */
    const char *const *skip;
    size_t skip_count;
    const char *const *fail_if; /* expressions that should not be true: "peak>+5%", "leaked>0" */
    size_t fail_if_count;
};

/* Rows are what is not the same, by kind, the largest change first. */
TIDETRACE_API int tidetrace_diff(struct tidetrace *base, struct tidetrace *now,
                                 const struct tidetrace_diff_options *options,
                                 struct tidetrace_result **result, struct tidetrace_error *error);

struct tidetrace_diff_row {
    size_t struct_size;
    uint32_t kind; /* enum tidetrace_diff_kind */
    uint32_t line;
    struct tidetrace_text pool, function, file, image;
    uint32_t base_callstack, now_callstack; /* the one that changed most, 0: not in this trace */
    struct tidetrace_figures base, now;     /* all 0 where the row is not there */
    struct tidetrace_text type;             /* of what the blocks hold, that of most bytes */
    uint32_t other_types;                   /* how many others there are */
    uint32_t reserved;
};

TIDETRACE_API int tidetrace_diff_row(struct tidetrace_result *result, uint64_t row,
                                     struct tidetrace_diff_row *out, struct tidetrace_error *error);

/* The outcome of the expression number `check`: a struct tidetrace_check, see below. */
struct tidetrace_check;
TIDETRACE_API int tidetrace_diff_check(struct tidetrace_result *result, uint64_t check,
                                       struct tidetrace_check *out, struct tidetrace_error *error);

/* -- verify: is the data really there? "tidemark.verify/1" */

enum tidetrace_verify_flags {
    TIDETRACE_VERIFY_ALLOCATIONS = 1,      /* about so many: allocations, within */
    TIDETRACE_VERIFY_CALLSTACKS = 2,       /* callstacks_percent of them have one, at least one */
    TIDETRACE_VERIFY_SYMBOLS = 4,          /* symbols_percent of their frames have a name */
    TIDETRACE_VERIFY_SAMPLES = 8,          /* there are call stack samples */
    TIDETRACE_VERIFY_CONTEXT_SWITCHES = 16 /* there are context switches */
};

struct tidetrace_verify_options {
    size_t struct_size;
    uint32_t flags; /* enum tidetrace_verify_flags */
    uint32_t reserved;
    const char *pool; /* NULL, or look at this pool only */
    uint64_t allocations;
    double within; /* at least 1; 0 stands for 10 */
    double callstacks_percent, symbols_percent;
    const char *const *expect; /* expressions that must be true: "peak<512M" */
    size_t expect_count;
    const struct tidetrace_selection
        *selection; /* look at these only; `pool` goes before its own */
};

/* Rows are checks; the first is whether there are memory events at all. */
TIDETRACE_API int tidetrace_verify(struct tidetrace *trace,
                                   const struct tidetrace_verify_options *options,
                                   struct tidetrace_result **result, struct tidetrace_error *error);

struct tidetrace_check {
    size_t struct_size;
    uint32_t holds;
    uint32_t reserved;
    struct tidetrace_text name, detail;
};

TIDETRACE_API int tidetrace_check_row(struct tidetrace_result *result, uint64_t row,
                                      struct tidetrace_check *out, struct tidetrace_error *error);

#ifdef __cplusplus
}
#endif

#endif
