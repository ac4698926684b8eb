#ifndef TIDETRACE_H
#define TIDETRACE_H

/*
 * libtidetrace reads traces of the Tracy profiler (`.tracy` files of every version since 0.9.0). It
 * gives programs their contents, single memory events, and the analyses of `tidemark`.
 *
 *     struct tidetrace *trace;
 *     struct tidetrace_error error;
 *     if (tidetrace_open("run.tracy", NULL, &trace, &error) != TIDETRACE_OK)
 *         errx(1, "%s", error.text);
 *     …
 *     tidetrace_close(trace);
 *
 * Errors. Functions return TIDETRACE_OK (0) or a negative code. On failure, `error` (may be NULL)
 * receives the code and a text with location and cause. The library never prints, never exits, and
 * handles no signals. A damaged or hostile trace is an ordinary error.
 *
 * Threads. A trace and everything obtained from it may be used by one thread at a time. Different
 * threads may use different traces at the same time. There is no global state. tidetrace_diff uses
 * two traces.
 *
 * Texts (struct tidetrace_text) are the bytes of the trace: usually UTF-8, but any byte may occur,
 * and no NUL follows. They stay valid until the trace is closed or, for rows of a result, until the
 * result is freed. An unknown text has size 0.
 *
 * Times are nanoseconds since the start of the trace. Sizes are bytes. Sums that would overflow
 * stay at the highest value.
 *
 * Extension. The ABI only grows within a major version (libtidetrace.so.1). Structs begin with
 * `struct_size`, which the caller sets to the sizeof of its struct; functions that fill an array
 * take the size of an element instead. The library never accesses bytes beyond that size and treats
 * missing members as 0. It refuses members that it does not know unless they are 0. So
 * zero-initialise all structs: 0 is the default of every option.
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

/* The version of this header. A higher minor version adds functions and members. */
#define TIDETRACE_MAJOR 1
#define TIDETRACE_MINOR 4

/* The version of the library in use, major * 1000 + minor. */
TIDETRACE_API uint32_t tidetrace_version(void);

/* The Tidemark release of the library, such as "0.1.0". */
TIDETRACE_API const char *tidetrace_release(void);

/* ---- errors and texts */

enum tidetrace_code {
    TIDETRACE_OK = 0,
    TIDETRACE_USAGE = -1,  /* invalid argument, or no such pool, thread or zone */
    TIDETRACE_INPUT = -2,  /* the file cannot be read, or is no valid trace */
    TIDETRACE_SYSTEM = -3, /* a temporary file cannot be written */
    TIDETRACE_MEMORY = -4  /* memory is short */
};

/* The layout of this struct never changes. */
struct tidetrace_error {
    int32_t code; /* TIDETRACE_OK unless a function failed */
    char text[512];
};

/* The layout of this struct never changes. */
struct tidetrace_text {
    const char *data; /* never NULL */
    size_t size;
};

/* ---- a trace */

struct tidetrace;

enum tidetrace_open_flags {
    /*
     * Also load zones and frames: for tidetrace_allocation.zone, and for selections and rows by
     * them.
     */
    TIDETRACE_OPEN_ZONES = 1,
    /* Also load plots and messages: for tidetrace_related. */
    TIDETRACE_OPEN_PLOTS = 2
};

struct tidetrace_open_options {
    size_t struct_size;
    uint32_t flags; /* enum tidetrace_open_flags */
    uint32_t reserved;
    uint64_t memory; /* Memory limit for events, names and call stacks; the rest goes to temporary
                        files. 0: 80 MiB of events, 64 MiB of the others. The same limit applies to
                        plots and messages, but at most 16 MiB. Results take more: a process
                        with a limit (RLIMIT_DATA) gets TIDETRACE_MEMORY from them. */
    const char *temporary_folder; /* NULL: $TMPDIR, else /var/tmp */
};

/*
 * Reads the whole trace at `path`. `options` may be NULL. Data beyond options->memory goes to
 * unnamed temporary files. *trace is NULL after a failure.
 */
TIDETRACE_API int tidetrace_open(const char *path, const struct tidetrace_open_options *options,
                                 struct tidetrace **trace, struct tidetrace_error *error);

/* As tidetrace_open, from an open file, which stays the caller's. Errors call the file `name`. */
TIDETRACE_API int tidetrace_open_fd(int fd, const char *name,
                                    const struct tidetrace_open_options *options,
                                    struct tidetrace **trace, struct tidetrace_error *error);

/*
 * `trace` may be NULL. Results and iterators that still exist keep the parts of the trace that they
 * need.
 */
TIDETRACE_API void tidetrace_close(struct tidetrace *trace);

/* The approximate memory in use by the trace, in bytes. */
TIDETRACE_API uint64_t tidetrace_memory(const struct tidetrace *trace);

enum tidetrace_info_flags {
    TIDETRACE_COMPLETE = 1,  /* the end is not missing, as far as the trace shows */
    TIDETRACE_ON_DEMAND = 2, /* captured on demand, while the program ran */
    TIDETRACE_ZONES = 4,     /* opened with TIDETRACE_OPEN_ZONES */
    TIDETRACE_PLOTS = 8      /* opened with TIDETRACE_OPEN_PLOTS */
};

struct tidetrace_info {
    size_t struct_size;
    uint32_t flags;                 /* enum tidetrace_info_flags */
    uint32_t file_version;          /* major << 16 | minor << 8 | patch */
    struct tidetrace_text version;  /* file_version as text */
    struct tidetrace_text protocol; /* client protocol such as "82", if the capture recorded it */
    struct tidetrace_text program;
    struct tidetrace_text capture_name;
    struct tidetrace_text host;
    uint64_t pid;
    uint64_t captured_at; /* seconds since 1970 */
    int64_t duration;
    /* Numbers of: */
    uint64_t pools, allocations, callstacks, frames, threads;
    uint64_t zones, messages, plots, locks, samples, context_switches;
};

TIDETRACE_API int tidetrace_get_info(struct tidetrace *trace, struct tidetrace_info *info,
                                     struct tidetrace_error *error);

/* ---- pools, threads, call stacks, frames: numbered from 0, call stacks from 1 */

struct tidetrace_pool {
    size_t struct_size;
    struct tidetrace_text name; /* "default" for the unnamed pool; pools may share a name */
    uint64_t key;               /* the client's key of the pool */
    uint64_t allocations;
    uint64_t frees;
    uint64_t live_count, live_bytes; /* not freed */
    uint64_t total_bytes;            /* of all allocations */
    uint64_t low_address;            /* first byte, and one past the last; 0 if empty */
    uint64_t high_address;
};

TIDETRACE_API uint32_t tidetrace_pool_count(const struct tidetrace *trace);
TIDETRACE_API int tidetrace_get_pool(struct tidetrace *trace, uint32_t pool,
                                     struct tidetrace_pool *out, struct tidetrace_error *error);

struct tidetrace_thread {
    size_t struct_size;
    uint64_t id; /* of the operating system; fibers have synthetic ids */
    struct tidetrace_text name;
    uint32_t is_fiber;
    uint32_t reserved;
};

TIDETRACE_API uint32_t tidetrace_thread_count(const struct tidetrace *trace);
TIDETRACE_API int tidetrace_get_thread(struct tidetrace *trace, uint32_t thread,
                                       struct tidetrace_thread *out, struct tidetrace_error *error);

enum tidetrace_frame_flags {
    TIDETRACE_FRAME_INLINE = 1, /* inlined into the next function */
    TIDETRACE_FRAME_NAMED = 2   /* `function` is a name, not a location such as "a.so+0x12" */
};

/* A function of a call stack. An address with inlined calls has several. */
struct tidetrace_frame {
    size_t struct_size; /* in arrays, the element size passed to the function */
    struct tidetrace_text function, file, image;
    uint64_t address; /* return address of the call; 0: unknown */
    uint32_t line;    /* 0: unknown */
    uint32_t flags;   /* enum tidetrace_frame_flags */
    uint32_t number;  /* of the frame, for tidetrace_get_frame */
    uint32_t inlined; /* index of the function in the frame; 0: innermost */
};

/* Call stacks are numbered from 1 to this count. */
TIDETRACE_API uint32_t tidetrace_callstack_count(const struct tidetrace *trace);

/*
 * The functions of a call stack, innermost first. Writes the first `room` to `frames`; *count is
 * their total number. Call stack 0, "none", has no functions.
 */
TIDETRACE_API int tidetrace_get_callstack(struct tidetrace *trace, uint32_t callstack,
                                          struct tidetrace_frame *frames, size_t frame_size,
                                          size_t room, size_t *count,
                                          struct tidetrace_error *error);

/* The number of distinct frames of all call stacks. */
TIDETRACE_API uint32_t tidetrace_frame_count(const struct tidetrace *trace);

/* The number of functions of a frame, at least one; 0 if there is no such frame. */
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

/* All given conditions must hold. */
struct tidetrace_selection {
    size_t struct_size;
    uint32_t flags; /* enum tidetrace_select_flags */
    uint32_t reserved;
    const char *pool;   /* NULL, or pools of this name */
    const char *thread; /* NULL, or threads of this name or id, as allocators */
    const char *match;  /* NULL, or a Perl-compatible regular expression that must match a function,
                           file or image of the call stack */
    const char *zone;   /* NULL, or within a zone of this name on the same thread */
    int64_t begin, end; /* allocated in [begin, end); analyses ignore events from `end` on */
    int64_t at;         /* live at this time */
    uint64_t size_min, size_max; /* both inclusive */
    uint64_t frame; /* within this frame of the base set; numbered as in the profiler */
};

/* ---- allocations one by one */

struct tidetrace_allocation {
    size_t struct_size; /* in arrays, the element size passed to the function */
    uint64_t address, size;
    int64_t time;
    int64_t free_time; /* -1: not freed */
    uint32_t pool;     /* numbers of pools, threads and call stacks; 0: no call stack */
    uint32_t callstack;
    uint32_t free_callstack;
    uint32_t thread;
    uint32_t free_thread;
    uint32_t reserved;
    struct tidetrace_text zone; /* innermost zone of the thread at that time. Known if the trace was
                                   opened with zones and time is monotonic. */
};

struct tidetrace_allocations;

/*
 * Begins to read the selected allocations (`selection` may be NULL: all), pool by pool. Within a
 * pool they are in file order, which is time order.
 */
TIDETRACE_API int tidetrace_allocations_open(struct tidetrace *trace,
                                             const struct tidetrace_selection *selection,
                                             struct tidetrace_allocations **iterator,
                                             struct tidetrace_error *error);

/* Reads the next allocations, at most `room`; *count is 0 at the end. */
TIDETRACE_API int tidetrace_allocations_next(struct tidetrace_allocations *iterator,
                                             struct tidetrace_allocation *out,
                                             size_t allocation_size, size_t room, size_t *count,
                                             struct tidetrace_error *error);

TIDETRACE_API void tidetrace_allocations_close(struct tidetrace_allocations *iterator);

/* ---- analyses: each returns a result, a list of rows with a head */

struct tidetrace_result;

/* `result` may be NULL. */
TIDETRACE_API void tidetrace_result_free(struct tidetrace_result *result);

/* The number of rows. */
TIDETRACE_API uint64_t tidetrace_result_rows(const struct tidetrace_result *result);

/*
 * The result as JSON in the format of `tidemark COMMAND --format json` (see the command's manual
 * page), with `count` rows from `first` on (UINT64_MAX: all remaining). The sites of a report by
 * another key are only in the whole result: first 0, count UINT64_MAX. *json is a NUL-terminated
 * text of *size bytes; free it with tidetrace_free.
 */
TIDETRACE_API int tidetrace_result_json(struct tidetrace_result *result, uint64_t first,
                                        uint64_t count, char **json, size_t *size,
                                        struct tidetrace_error *error);

TIDETRACE_API void tidetrace_free(void *memory);

/* The totals of a site, function, call stack, … The layout of this struct never changes. */
struct tidetrace_figures {
    uint64_t count, bytes;           /* allocations and their bytes */
    uint64_t live_count, live_bytes; /* not freed */
    uint64_t peak_bytes;             /* its highest use */
    uint64_t at_peak_bytes;          /* its share at the pool's peak */
    uint64_t temporary; /* freed by the next memory event of the same thread in that pool */
};

/*
 * `tidemark info` as JSON: "tidemark.info/1", without file.stored_figure_bytes. The result has no
 * rows.
 */
TIDETRACE_API int tidetrace_overview(struct tidetrace *trace, struct tidetrace_result **result,
                                     struct tidetrace_error *error);

/* -- report: what allocated how much, "tidemark.report/1" */

enum tidetrace_by {
    TIDETRACE_BY_SITE = 0, /* the innermost function that is neither Tracy's nor an allocator's */
    TIDETRACE_BY_FUNCTION = 1,
    TIDETRACE_BY_CALLSTACK = 2,
    TIDETRACE_BY_POOL = 3,
    TIDETRACE_BY_THREAD = 4,
    TIDETRACE_BY_ZONE = 5, /* needs TIDETRACE_OPEN_ZONES, as does the next */
    TIDETRACE_BY_FRAME = 6,
    TIDETRACE_BY_TYPE = 7 /* of the blocks' contents, if function names show it */
};

enum tidetrace_sort {
    TIDETRACE_SORT_SIZE = 0,
    TIDETRACE_SORT_COUNT = 1,
    TIDETRACE_SORT_LIVE = 2,
    TIDETRACE_SORT_PEAK = 3,
    TIDETRACE_SORT_AT_PEAK = 4,
    TIDETRACE_SORT_TEMPORARY = 5,
    TIDETRACE_SORT_NAME = 6,
    TIDETRACE_SORT_RESIDENT = 7 /* since 1.4; if the trace has what each call stack had in memory */
};

struct tidetrace_report_options {
    size_t struct_size;
    const struct tidetrace_selection *selection; /* NULL: all allocations */
    uint32_t by;                                 /* enum tidetrace_by */
    uint32_t sort;                               /* enum tidetrace_sort */
    uint64_t min_bytes, min_count;               /* smaller rows are left out */
    /* Regular expressions of functions and files that are never the site. */
    const char *const *skip;
    size_t skip_count;
    /* Of those that may be the site, whatever other rules say; since 1.4, in all requests. */
    const char *const *no_skip;
    size_t no_skip_count;
};

TIDETRACE_API int tidetrace_report(struct tidetrace *trace,
                                   const struct tidetrace_report_options *options,
                                   struct tidetrace_result **result, struct tidetrace_error *error);

struct tidetrace_report_row {
    size_t struct_size;
    struct tidetrace_text pool;
    struct tidetrace_text name; /* display name of the row */
    struct tidetrace_text function, file, image;
    uint32_t line;
    uint32_t callstack; /* the one with most bytes; 0: none */
    struct tidetrace_figures figures;
    struct tidetrace_text type; /* of the blocks' contents, if known and the same for all */
};

TIDETRACE_API int tidetrace_report_row(struct tidetrace_result *result, uint64_t row,
                                       struct tidetrace_report_row *out,
                                       struct tidetrace_error *error);

struct tidetrace_totals {
    size_t struct_size;
    uint64_t allocations, frees, live_count, live_bytes, total_bytes;
    uint64_t with_callstack; /* allocations with a call stack */
    /* Distinct frames in their call stacks, and how many have names. */
    uint64_t frames, named_frames;
    uint64_t unknown_frees, double_allocations; /* memory faults, of all pools */
    uint64_t rows_left_out;                     /* due to min_bytes and min_count */
    struct tidetrace_text verdict;              /* one sentence */
};

/* The totals of all selected allocations. */
TIDETRACE_API int tidetrace_report_totals(struct tidetrace_result *result,
                                          struct tidetrace_totals *out,
                                          struct tidetrace_error *error);

/* -- peaks: local maxima of use */

struct tidetrace_peak {
    size_t struct_size; /* in arrays, the element size passed to the function */
    int64_t time;
    uint64_t bytes;
    uint64_t rise; /* how far use falls on both sides before it is as high again */
};

/*
 * The peaks of the total use of all selected pools, highest first. Writes the first `room` to
 * `peaks`; *count is their total number. For what was live at a peak, request a report whose
 * selection has the peak's time as `at`. With `at` in this selection: the peaks up to that time.
 */
TIDETRACE_API int tidetrace_peaks(struct tidetrace *trace,
                                  const struct tidetrace_selection *selection,
                                  struct tidetrace_peak *peaks, size_t peak_size, size_t room,
                                  size_t *count, struct tidetrace_error *error);

/* -- leaks: allocations that are not freed, and whether they grow, "tidemark.leaks/1" */

struct tidetrace_leak_options {
    size_t struct_size;
    const struct tidetrace_selection *selection;
    const char *suppressions; /* NULL, or suppressions in LeakSanitizer's format */
    const char *const *skip;
    size_t skip_count;
    const char *const *no_skip;
    size_t no_skip_count;
};

TIDETRACE_API int tidetrace_leaks(struct tidetrace *trace,
                                  const struct tidetrace_leak_options *options,
                                  struct tidetrace_result **result, struct tidetrace_error *error);

enum tidetrace_leak_kind {
    TIDETRACE_LEAK_GROWING = 0,
    TIDETRACE_LEAK_HELD = 1,
    TIDETRACE_LEAK_AT_START = 2
};

/* The evidence that a growing site is a leak rather than a cache that fills. */
enum tidetrace_leak_confidence {
    TIDETRACE_LEAK_UNKNOWN = 0, /* not growing, or library older than 1.3 */
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
    uint32_t spread;       /* in how many of 64 equal time intervals such a block was allocated */
    uint64_t count, bytes; /* not freed */
    uint64_t allocations;  /* all allocations of the site */
    int64_t first, last;   /* when the oldest and newest of them were allocated */
    double bytes_per_second;
    double p;            /* probability of such a rise by chance */
    uint32_t confidence; /* enum tidetrace_leak_confidence; since 1.3 */
    uint32_t reserved;
};

TIDETRACE_API int tidetrace_leak_row(struct tidetrace_result *result, uint64_t row,
                                     struct tidetrace_leak_row *out, struct tidetrace_error *error);

/* -- resident: which bytes of live blocks were in memory, "tidemark.resident/1"; since 1.4 */

struct tidetrace_resident_options {
    size_t struct_size;
    const struct tidetrace_selection *selection;
    uint64_t look; /* which look at the pages, from 1; 0: that with most resident bytes */
    const char *const *skip;
    size_t skip_count;
    const char *const *no_skip;
    size_t no_skip_count;
};

/* Rows are sites. TIDETRACE_INPUT: the trace has no look at the pages of its process. */
TIDETRACE_API int tidetrace_resident(struct tidetrace *trace,
                                     const struct tidetrace_resident_options *options,
                                     struct tidetrace_result **result,
                                     struct tidetrace_error *error);

struct tidetrace_resident_row {
    size_t struct_size;
    struct tidetrace_text pool, function, file, image;
    uint32_t line;
    uint32_t callstack;    /* of the largest block */
    uint64_t count, bytes; /* of live blocks */
    uint64_t resident, swapped, not_resident;
    uint64_t unsure;  /* of the zero page, or shared with a forked process */
    uint64_t outside; /* in no mapping that was read */
    uint64_t pinned;  /* free bytes of pages that these blocks keep in memory */
    uint64_t nested;  /* of the resident ones: also in a block of another pool, within these */
};

TIDETRACE_API int tidetrace_resident_row(struct tidetrace_result *result, uint64_t row,
                                         struct tidetrace_resident_row *out,
                                         struct tidetrace_error *error);

/* -- options shared by the following analyses */

struct tidetrace_site_options {
    size_t struct_size;
    const struct tidetrace_selection *selection; /* NULL: all allocations */
    /* Regular expressions of functions and files that are never the site. */
    const char *const *skip;
    size_t skip_count;
    const char *const *no_skip;
    size_t no_skip_count;
};

/* -- growth: which sites hold more at one time than at another, "tidemark.grown/1" */

struct tidetrace_growth_options {
    size_t struct_size;
    const struct tidetrace_selection *selection;
    int64_t from, to; /* the times to compare; events of that nanosecond are included */
    const char *const *skip;
    size_t skip_count;
    const char *const *no_skip;
    size_t no_skip_count;
};

/* Rows are the sites that changed, largest growth first. */
TIDETRACE_API int tidetrace_growth(struct tidetrace *trace,
                                   const struct tidetrace_growth_options *options,
                                   struct tidetrace_result **result, struct tidetrace_error *error);

struct tidetrace_growth_row {
    size_t struct_size;
    struct tidetrace_text pool, function, file, image;
    uint32_t line;
    uint32_t callstack; /* of the newest block allocated in between; 0: none */
    uint64_t count_before, bytes_before, count_after, bytes_after;
    uint64_t allocations, frees; /* in between */
};

TIDETRACE_API int tidetrace_growth_row(struct tidetrace_result *result, uint64_t row,
                                       struct tidetrace_growth_row *out,
                                       struct tidetrace_error *error);

/* -- patterns: allocation patterns of sites that cost time or memory, "tidemark.patterns/1" */

/* Rows are all sites, most bytes first. */
TIDETRACE_API int tidetrace_patterns(struct tidetrace *trace,
                                     const struct tidetrace_site_options *options,
                                     struct tidetrace_result **result,
                                     struct tidetrace_error *error);

enum tidetrace_pattern_flags {
    TIDETRACE_PATTERN_GROWS = 1,     /* by copying, beyond chance */
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
    uint64_t only_size;                            /* 0: block sizes differ */
    uint64_t chains, steps, copied_bytes, longest; /* growth by copying */
    uint64_t steps_down, given_back_bytes;         /* shrinking to smaller blocks */
    /* longest_run: of temporary blocks on one thread. */
    uint64_t temporary, temporary_bytes, longest_run;
    uint64_t glibc_bytes, glibc_peak_bytes; /* estimated overhead of glibc's malloc */
};

TIDETRACE_API int tidetrace_pattern_row(struct tidetrace_result *result, uint64_t row,
                                        struct tidetrace_pattern_row *out,
                                        struct tidetrace_error *error);

/* -- histograms: sizes and lifetimes, "tidemark.histograms/1" */

/* Rows are the non-empty classes. The JSON form is always whole, not split into pages. */
TIDETRACE_API int tidetrace_histograms(struct tidetrace *trace,
                                       const struct tidetrace_selection *selection,
                                       struct tidetrace_result **result,
                                       struct tidetrace_error *error);

enum tidetrace_class_kind {
    TIDETRACE_CLASS_SIZE = 0,     /* bytes, in powers of two */
    TIDETRACE_CLASS_LIFETIME = 1, /* nanoseconds, in powers of ten */
    TIDETRACE_CLASS_LIVE = 2      /* not freed */
};

struct tidetrace_class_row {
    size_t struct_size;
    uint32_t kind; /* enum tidetrace_class_kind */
    uint32_t reserved;
    uint64_t from, to; /* [from, to); UINT64_MAX: no end */
    uint64_t count, bytes;
    uint64_t live_count, live_bytes, temporary, glibc_bytes; /* for sizes only */
};

TIDETRACE_API int tidetrace_class_row(struct tidetrace_result *result, uint64_t row,
                                      struct tidetrace_class_row *out,
                                      struct tidetrace_error *error);

/* -- faults: frees of unknown blocks, addresses allocated twice, "tidemark.faults/1" */

/* Rows are fault kinds by pool and call stack. */
TIDETRACE_API int tidetrace_faults(struct tidetrace *trace,
                                   const struct tidetrace_site_options *options,
                                   struct tidetrace_result **result, struct tidetrace_error *error);

enum tidetrace_fault_kind { TIDETRACE_FREE_OF_UNKNOWN = 0, TIDETRACE_ALLOCATED_TWICE = 1 };

enum tidetrace_fault_cause {
    TIDETRACE_FAULT_NEVER_SEEN = 0,    /* no block of the trace covered the address before */
    TIDETRACE_FAULT_FREED_BEFORE = 1,  /* a block began there and was freed */
    TIDETRACE_FAULT_INSIDE_LIVE = 2,   /* within a live block of the pool */
    TIDETRACE_FAULT_INSIDE_FREED = 3,  /* within a block freed before */
    TIDETRACE_FAULT_IN_OTHER_POOL = 4, /* the start of a live block of another pool */
    TIDETRACE_FAULT_HELD = 5           /* allocated twice: a live block was there */
};

struct tidetrace_fault_row {
    size_t struct_size;
    uint32_t kind; /* enum tidetrace_fault_kind */
    uint32_t callstack;
    struct tidetrace_text pool, function, file, image;
    uint32_t line;
    uint32_t from_history; /* found in the trace's events, not recorded by a capture */
    uint64_t count;        /* upper bound of occurrences … */
    uint64_t count_least;  /* … and lower bound, with a selection */
    uint32_t cases;        /* number of cases for tidetrace_fault_case: the first and the last */
    uint32_t reserved;
};

TIDETRACE_API int tidetrace_fault_row(struct tidetrace_result *result, uint64_t row,
                                      struct tidetrace_fault_row *out,
                                      struct tidetrace_error *error);

struct tidetrace_fault_case {
    size_t struct_size;
    uint32_t cause;          /* enum tidetrace_fault_cause */
    uint32_t held_callstack; /* of the block that held an address allocated twice */
    int64_t time;
    uint64_t address;
    uint64_t size;      /* of the block allocated twice */
    uint64_t thread_id; /* of the operating system */
    /* The block that was there before, and the live block around the address, if any: */
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

/* -- related: which plots and messages correlate with memory use, "tidemark.related/1" */

struct tidetrace_related_options {
    size_t struct_size;
    const struct tidetrace_selection *selection; /* NULL: all allocations */
    int64_t window; /* how long after a message a rise counts; 0: 1/200 of the time */
};

/*
 * The trace must be opened with TIDETRACE_OPEN_PLOTS. Rows are plots with each pool, then messages
 * with each pool; within each kind the most significant first.
 */
TIDETRACE_API int tidetrace_related(struct tidetrace *trace,
                                    const struct tidetrace_related_options *options,
                                    struct tidetrace_result **result,
                                    struct tidetrace_error *error);

struct tidetrace_related_head {
    size_t struct_size;
    int64_t begin, end;       /* the analysed time; end is exclusive */
    int64_t window;           /* as used */
    uint64_t plots, messages; /* rows of each */
    uint32_t steps;           /* time intervals, for plots */
    uint32_t cells;           /* time intervals, for messages */
    double threshold;         /* p_adjusted below it is significant */
};

TIDETRACE_API int tidetrace_related_head(struct tidetrace_result *result,
                                         struct tidetrace_related_head *out,
                                         struct tidetrace_error *error);

enum tidetrace_related_kind { TIDETRACE_RELATED_PLOT = 0, TIDETRACE_RELATED_MESSAGE = 1 };

struct tidetrace_related_row {
    size_t struct_size;
    uint32_t kind;              /* enum tidetrace_related_kind */
    uint32_t related;           /* 1: correlates with memory use, 0: no relation found */
    struct tidetrace_text name; /* of the plot, or the message's text */
    struct tidetrace_text pool;
    uint64_t count;    /* points of the plot, or messages of this text, in that time */
    uint64_t used;     /* steps compared, or messages outside the window of an earlier one */
    double p;          /* probability by chance; -1: the plot or the pool changed too rarely */
    double p_adjusted; /* p corrected for the number of rows of the kind */
    /* Of plots: */
    uint64_t moved;           /* steps in which the plot changed */
    double spearman, pearson; /* correlations, for plots with p >= 0 */
    /* Of messages: */
    uint64_t steep;          /* messages before one of the highest rises */
    double expected;         /* their expected number by chance */
    double rise, usual_rise; /* mean rise in bytes after such a message, and after any time */
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
    const struct tidetrace_selection *selection; /* must have no time range; use begin, end */
    uint32_t flags;                              /* enum tidetrace_timeline_flags */
    uint32_t buckets;                            /* limit per pool; 0: 200; up to 1,000,000 */
    int64_t begin, end;                          /* blocks allocated earlier count as in use */
};

/* Rows are buckets, pool by pool. The JSON form is always whole, not split into pages. */
TIDETRACE_API int tidetrace_timeline(struct tidetrace *trace,
                                     const struct tidetrace_timeline_options *options,
                                     struct tidetrace_result **result,
                                     struct tidetrace_error *error);

struct tidetrace_bucket_row {
    size_t struct_size;
    struct tidetrace_text pool;
    int64_t begin, end;
    uint64_t low_bytes, high_bytes, last_bytes; /* in use: minimum, maximum, at its end */
    int64_t high_time;
    uint64_t high_live, last_live; /* blocks */
    uint64_t allocations, frees, allocated_bytes, freed_bytes;
};

TIDETRACE_API int tidetrace_bucket_row(struct tidetrace_result *result, uint64_t row,
                                       struct tidetrace_bucket_row *out,
                                       struct tidetrace_error *error);

/* -- map: where live blocks are, and how fragmented memory was, "tidemark.map/1" */

struct tidetrace_map_options {
    size_t struct_size;
    const struct tidetrace_selection *selection; /* `at`: the map of that time */
    uint32_t columns; /* cells per line of the JSON, a power of two up to 1024; 0: no lines */
    uint32_t lines;   /* limit per pool; 0: 32 */
    uint32_t samples; /* number of sample times; 0: 8; up to 100,000 */
    uint32_t reserved;
};

/* Rows are samples, pool by pool. The JSON form is always whole, not split into pages. */
TIDETRACE_API int tidetrace_map(struct tidetrace *trace,
                                const struct tidetrace_map_options *options,
                                struct tidetrace_result **result, struct tidetrace_error *error);

struct tidetrace_map_row {
    size_t struct_size;
    struct tidetrace_text pool;
    int64_t time;
    uint64_t blocks, bytes;
    uint64_t covered_bytes; /* addresses in at least one block */
    uint64_t page_bytes;    /* of the pages with such an address */
    /* Holes: between blocks that share a page or are on adjacent pages. */
    uint64_t holes, hole_bytes, largest_hole_bytes;
    uint64_t low_address, high_address; /* covered, both inclusive; 0 if empty */
};

TIDETRACE_API int tidetrace_map_row(struct tidetrace_result *result, uint64_t row,
                                    struct tidetrace_map_row *out, struct tidetrace_error *error);

/* -- tree: the call tree with inclusive totals, "tidemark.tree/1" */

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
    TIDETRACE_METRIC_TEMPORARY = 6,
    TIDETRACE_METRIC_RESIDENT =
        7 /* since 1.4; only to sort by, and in JSON: see TIDETRACE_SORT_RESIDENT */
};
#define TIDETRACE_METRICS 7 /* that rows have */

enum tidetrace_tree_flags {
    TIDETRACE_TREE_BOTTOM_UP = 1,  /* from allocating functions to their callers */
    TIDETRACE_TREE_NO_INLINES = 2, /* one node per frame */
    TIDETRACE_TREE_ALL_FRAMES = 4  /* including functions of the allocator and of Tracy */
};

struct tidetrace_tree_options {
    size_t struct_size;
    const struct tidetrace_selection *selection;
    uint32_t by;      /* enum tidetrace_tree_by */
    uint32_t metric;  /* enum tidetrace_metric, by which children are sorted */
    uint32_t flags;   /* enum tidetrace_tree_flags */
    uint32_t depth;   /* levels to show; 0: all */
    double min_share; /* hide nodes below this share of the whole, 0 to 1 */
    const char *const *skip;
    size_t skip_count;
    const char *const *no_skip;
    size_t no_skip_count;
};

/* Rows are nodes, depth first; the root, which represents the whole, is not a row. */
TIDETRACE_API int tidetrace_tree(struct tidetrace *trace,
                                 const struct tidetrace_tree_options *options,
                                 struct tidetrace_result **result, struct tidetrace_error *error);

struct tidetrace_tree_row {
    size_t struct_size;
    uint32_t id;     /* as in the JSON form; not the row number */
    uint32_t parent; /* the parent's id; 0: the root */
    uint32_t depth;  /* from 1 */
    uint32_t line;
    struct tidetrace_text name; /* display name of the node */
    struct tidetrace_text function, file, image;
    uint64_t inclusive[TIDETRACE_METRICS]; /* by enum tidetrace_metric; including callees */
    uint64_t exclusive[TIDETRACE_METRICS]; /* excluding callees */
};

TIDETRACE_API int tidetrace_tree_row(struct tidetrace_result *result, uint64_t row,
                                     struct tidetrace_tree_row *out, struct tidetrace_error *error);

/* -- find: allocations at an address, "tidemark.find/1" */

enum tidetrace_find_flags {
    TIDETRACE_FIND_TIME = 1 /* at `time`, and the blocks before and after it in each pool */
};

struct tidetrace_find_options {
    size_t struct_size;
    const struct tidetrace_selection *selection;
    uint64_t low, high; /* addresses, both inclusive */
    int64_t time;
    uint64_t limit; /* only the newest ones; 0: all */
    uint32_t flags; /* enum tidetrace_find_flags */
    uint32_t reserved;
};

TIDETRACE_API int tidetrace_find(struct tidetrace *trace,
                                 const struct tidetrace_find_options *options,
                                 struct tidetrace_result **result, struct tidetrace_error *error);

enum tidetrace_found_when {
    TIDETRACE_FOUND = 0,        /* no time was given */
    TIDETRACE_FOUND_AT = 1,     /* live at the time */
    TIDETRACE_FOUND_BEFORE = 2, /* the newest one freed by then, in its pool */
    TIDETRACE_FOUND_AFTER = 3   /* the oldest one allocated later */
};

/* The block of a row, without its zone. *when (enum tidetrace_found_when) is why it is listed. */
TIDETRACE_API int tidetrace_found_row(struct tidetrace_result *result, uint64_t row, uint32_t *when,
                                      struct tidetrace_allocation *out,
                                      struct tidetrace_error *error);

/* -- diff: changes between two traces, "tidemark.diff/1" */

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
    TIDETRACE_DIFF_BY_TYPE = 2 /* of the blocks' contents */
};

struct tidetrace_diff_options {
    size_t struct_size;
    const struct tidetrace_selection *selection; /* applied to both */
    uint32_t by;                                 /* enum tidetrace_diff_by */
    uint32_t metric;                             /* enum tidetrace_diff_metric */
    const char *const *skip;
    size_t skip_count;
    const char *const *fail_if; /* expressions that must not hold: "peak>+5%", "leaked>0" */
    size_t fail_if_count;
    const char *const *no_skip;
    size_t no_skip_count;
};

/* Rows are the differences, by kind, largest change first. */
TIDETRACE_API int tidetrace_diff(struct tidetrace *base, struct tidetrace *now,
                                 const struct tidetrace_diff_options *options,
                                 struct tidetrace_result **result, struct tidetrace_error *error);

struct tidetrace_diff_row {
    size_t struct_size;
    uint32_t kind; /* enum tidetrace_diff_kind */
    uint32_t line;
    struct tidetrace_text pool, function, file, image;
    uint32_t base_callstack, now_callstack; /* the one that changed most; 0: none in this trace */
    struct tidetrace_figures base, now;     /* all 0 if the row is missing in that trace */
    struct tidetrace_text type;             /* of the blocks' contents; the one with most bytes */
    uint32_t other_types;                   /* number of further types */
    uint32_t reserved;
};

TIDETRACE_API int tidetrace_diff_row(struct tidetrace_result *result, uint64_t row,
                                     struct tidetrace_diff_row *out, struct tidetrace_error *error);

/* The outcome of the expression with number `check`. struct tidetrace_check is below. */
struct tidetrace_check;
TIDETRACE_API int tidetrace_diff_check(struct tidetrace_result *result, uint64_t check,
                                       struct tidetrace_check *out, struct tidetrace_error *error);

/* -- verify: does the trace contain the expected data? "tidemark.verify/1" */

enum tidetrace_verify_flags {
    TIDETRACE_VERIFY_ALLOCATIONS = 1, /* about this many: allocations, within */
    /* At least one allocation, callstacks_percent of them with a call stack. */
    TIDETRACE_VERIFY_CALLSTACKS = 2,
    TIDETRACE_VERIFY_SYMBOLS = 4,          /* symbols_percent of their frames have a name */
    TIDETRACE_VERIFY_SAMPLES = 8,          /* there are call stack samples */
    TIDETRACE_VERIFY_CONTEXT_SWITCHES = 16 /* there are context switches */
};

struct tidetrace_verify_options {
    size_t struct_size;
    uint32_t flags; /* enum tidetrace_verify_flags */
    uint32_t reserved;
    const char *pool; /* NULL, or check only this pool */
    uint64_t allocations;
    double within; /* at least 1; 0 means 10 */
    double callstacks_percent, symbols_percent;
    const char *const *expect; /* expressions that must hold: "peak<512M" */
    size_t expect_count;
    const struct tidetrace_selection *selection; /* only these; `pool` overrides its pool */
};

/* Rows are checks. The first one checks that there are memory events at all. */
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
