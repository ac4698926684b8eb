/*
 * Every allocation of a run fails once, alone and with all that follow: from the bytes of a client
 * to a saved trace, from one part of it to the next, from a trace to its summary, and from one file
 * version to another. Each must end with an error that says that memory is short, or do without and
 * have it all; a sanitizer tells what is leaked or broken.
 *
 * The linker sends the allocations of our own code (not those inside libraries) through the
 * __wrap_ functions here: -Wl,--wrap=malloc and so on, see the Makefile.
 */

#include "protocol_support.h"
#include "trace_test.h"

#include "analysis/figures/summary.h"
#include "trace/filter/convert.h"
#include "trace/ingest/ingest.h"
#include "trace/load/load.h"
#include "trace/merge/merge.h"
#include "trace/save/save.h"

static struct {
    size_t calls, first, last; /* calls from `first` to `last` fail */
    size_t failed;
    bool spared; /* they do not count */
} allocations;

static bool fails(void)
{
    if (allocations.spared)
        return false;
    size_t n = ++allocations.calls;
    if (n < allocations.first || n > allocations.last)
        return false;
    allocations.failed++;
    return true;
}

void *__real_malloc(size_t n);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *p, size_t n);
void *__real_aligned_alloc(size_t alignment, size_t n);
char *__real_strdup(const char *text);

void *__wrap_malloc(size_t n);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *p, size_t n);
void *__wrap_aligned_alloc(size_t alignment, size_t n);
char *__wrap_strdup(const char *text);

void *__wrap_malloc(size_t n)
{
    return fails() ? NULL : __real_malloc(n);
}

void *__wrap_calloc(size_t count, size_t size)
{
    return fails() ? NULL : __real_calloc(count, size);
}

void *__wrap_realloc(void *p, size_t n)
{
    return fails() ? NULL : __real_realloc(p, n);
}

void *__wrap_aligned_alloc(size_t alignment, size_t n)
{
    return fails() ? NULL : __real_aligned_alloc(alignment, n);
}

char *__wrap_strdup(const char *text)
{
    return fails() ? NULL : __real_strdup(text);
}

/* ---- the jobs */

static int null_file(void)
{
    int fd = open("/dev/null", O_WRONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    return fd;
}

static int save(struct trace *t, uint64_t *bytes, struct err *e)
{
    struct trace_writer *w = NULL;
    struct trace_write_stats stats = {0};
    int fd = null_file();
    int status = trace_writer_open(&w, fd, NULL, e);
    if (status == 0) {
        struct record_sink sink = trace_writer_sink(w);
        status = trace_save(t, &sink, e);
    }
    if (status == 0)
        status = trace_writer_finish(w, &stats, e);
    *bytes = stats.inner_bytes;
    trace_writer_free(w);
    close(fd);
    return status;
}

struct capture {
    const struct recording *recording;
    const struct wire_version *version;
    struct trace t;
    struct ingest in;
    struct query *query;
    struct decoder *decoder;
    struct frame_reader *frames;
};

/* What of the recording comes between two places. */
static int feed_between(struct capture *c, size_t from, size_t to, struct err *e)
{
    const uint8_t *p = c->recording->bytes + from;
    size_t left = to - from;
    struct wire_frame frame;
    int got;
    while ((got = frame_reader_feed(c->frames, &p, &left, &frame, e)) == 1) {
        if (decoder_frame(c->decoder, frame.bytes, frame.len, e) != 0)
            return -1;
    }
    return got;
}

static int feed(struct capture *c, struct err *e)
{
    return feed_between(c, c->recording->stream, c->recording->len, e);
}

/* As a session does: what had come when memory ran out is saved, if there is memory for that. */
static int finish(struct capture *c, int status, uint64_t *bytes, struct err *e)
{
    struct err late = {0};
    bool saved = ingest_finish(&c->in, &late) == 0 && summary_write_facts(&c->t, &late) == 0 &&
                 save(&c->t, bytes, &late) == 0;
    if (!saved && status == 0)
        *e = late;
    return saved ? status : -1;
}

static int begin(struct capture *c, struct err *e)
{
    c->query = query_new(&(struct query_config){
        .version = c->version, .space = QUERY_SPACE_MAX, .ask = QUERY_ASK_DEFAULT});
    c->decoder = c->query ? decoder_new(&(struct decoder_config){.version = c->version,
                                                                 .welcome = &c->recording->welcome,
                                                                 .query = c->query,
                                                                 .sink = c->in.sink})
                          : NULL;
    c->frames = frame_reader_new();
    return c->decoder && c->frames ? 0 : err_no_memory(e, "the test");
}

static void release(struct capture *c)
{
    frame_reader_free(c->frames);
    decoder_free(c->decoder);
    query_free(c->query);
    ingest_release(&c->in);
    trace_release(&c->t);
}

static int capture_job(const void *what, uint64_t *bytes, struct err *e)
{
    struct capture c = {.recording = what};
    c.version = wire_version_find(c.recording->protocol);
    if (trace_init(&c.t, &(struct trace_options){.resident_budget = 1 << 20}, e) != 0)
        return -1;
    int status = ingest_init(&c.in, &c.t, e);
    if (status == 0) {
        status = begin(&c, e) == 0 ? feed(&c, e) : -1;
        status = finish(&c, status, bytes, e);
    }
    release(&c);
    return status;
}

static int part_full(void *ctx, struct err *e)
{
    (void)ctx;
    (void)e;
    return 0;
}

static void each_callstack(void *ctx, void (*visit)(void *visit_ctx, uint32_t *id), void *visit_ctx)
{
    decoder_each_callstack(ctx, visit, visit_ctx);
}

static void must(int status, const struct err *e)
{
    if (status != 0)
        fail_msg("%s", e->text);
}

static uint64_t events_of(const struct trace *t)
{
    uint64_t n = t->zones.count;
    for (size_t i = 0; i < t->memory.pools.len; i++)
        n += t->memory.pools.at[i]->totals.allocations + t->memory.pools.at[i]->totals.frees;
    return n;
}

static int turn(struct capture *c, struct err *e)
{
    const struct ingest_holder holder = {c->decoder, each_callstack};
    return ingest_begin_part(&c->in, e) == 0 ? ingest_compact(&c->in, &holder, e) : -1;
}

/*
 * Another part is begun in the middle of what comes, and only that lacks memory. A store that is
 * not torn then is as good as any; of a torn one nothing is asked but to be released.
 */
static int turn_job(const void *what, uint64_t *bytes, struct err *e)
{
    struct capture c = {.recording = what};
    const size_t from = c.recording->stream, to = c.recording->len;
    const size_t seam = from + (to - from) * 2 / 3;
    allocations.spared = true;
    c.version = wire_version_find(c.recording->protocol);
    must(trace_init(&c.t, &(struct trace_options){.resident_budget = 1 << 20}, e), e);
    must(ingest_init(&c.in, &c.t, e), e);
    must(begin(&c, e), e);
    c.in.part_full = part_full;
    c.in.compact_least = 0;
    must(feed_between(&c, from, seam, e), e);
    allocations.spared = false;
    int status = turn(&c, e);
    allocations.spared = true;
    assert_int_equal(c.in.torn, status != 0);
    if (status == 0) {
        must(feed_between(&c, seam, to, e), e);
        status = finish(&c, 0, bytes, e);
        *bytes = events_of(&c.t); /* the tables may be larger ones */
    }
    release(&c);
    allocations.spared = false;
    return status;
}

static int summary_job(const void *path, uint64_t *bytes, struct err *e)
{
    struct trace t;
    struct trace_counts counts;
    struct summary s;
    static const struct summary_options by_function = {.by = GROUP_FUNCTION, .stacks = true};
    if (trace_init(&t, NULL, e) != 0)
        return -1;
    int status = trace_load(&t, path, &counts, NULL, e);
    if (status == 0)
        status = summary_build(&s, &t, &by_function, e);
    if (status == 0) {
        *bytes = s.total_bytes;
        summary_release(&s);
    }
    trace_release(&t);
    return status;
}

struct conversion {
    const char *path;
    uint32_t version;
    enum container_method method;
};

static int convert_job(const void *what, uint64_t *bytes, struct err *e)
{
    const struct conversion *job = what;
    struct trace_writer_options to = trace_writer_options_default();
    struct convert_options options = {.target = file_layout_find(job->version),
                                      .spill_records = 64};
    struct trace_writer *w = NULL;
    struct convert *c = NULL;
    struct trace_info info;
    struct trace_write_stats stats = {0};
    int in = open_fixture(job->path), out = null_file();
    to.container.method = job->method;
    int status = trace_writer_open(&w, out, &to, e);
    if (status == 0) {
        struct record_sink sink = trace_writer_sink(w);
        status = convert_open(&c, &sink, &options, e);
    }
    if (status == 0) {
        struct record_sink sink = convert_sink(c);
        status = trace_read(in, job->path, &sink, NULL, &info, e);
    }
    if (status == 0)
        status = trace_writer_finish(w, &stats, e);
    *bytes = stats.inner_bytes;
    convert_free(c);
    trace_writer_free(w);
    close(in);
    close(out);
    return status;
}

/* The inputs of a merge. */
static int read_input(void *ctx, size_t input, unsigned pass, const struct record_sink *sink,
                      const bool *wanted, struct trace_info *info, struct err *e)
{
    const char *const *paths = ctx;
    const struct trace_read_options options = {.wanted = wanted};
    (void)pass;
    int fd = open_fixture(paths[input]);
    int status = trace_read(fd, paths[input], sink, &options, info, e);
    close(fd);
    return status;
}

static int merge_job(const void *what, uint64_t *bytes, struct err *e)
{
    const struct merge_input_options inputs[] = {{.name = "a"},
                                                 {.name = "b", .has_offset = true, .offset = 7}};
    const struct merge_options options = {.inputs = inputs, .n = 2, .spill_records = 16};
    const struct merge_source source = {(void *)what, read_input};
    struct merge_outcome outcome = {0};
    struct trace_write_stats stats = {0};
    struct trace_writer *w = NULL;
    int out = null_file();
    int status = trace_writer_open(&w, out, NULL, e);
    if (status == 0)
        status = merge_traces(&source, &options, w, &outcome, e);
    if (status == 0)
        status = trace_writer_finish(w, &stats, e);
    *bytes = stats.inner_bytes;
    trace_writer_free(w);
    buf_release(&outcome.notes);
    buf_release(&outcome.losses);
    close(out);
    return status;
}

/* ---- the sweep */

/* A job: 0 with what came out of it, as a number of bytes, or -1. */
typedef int job_fn(const void *what, uint64_t *bytes, struct err *e);

/* Returns the bytes; `want` is what they are when all goes well. */
static uint64_t run_once(job_fn *job, const void *what, size_t first, size_t last, uint64_t want)
{
    struct err e = {0};
    uint64_t bytes = 0;
    allocations.calls = allocations.failed = 0;
    allocations.first = first;
    allocations.last = last;
    int status = job(what, &bytes, &e);
    allocations.first = SIZE_MAX;
    if (status == 0 && allocations.failed && bytes != want)
        fail_msg("allocation %zu: something is missing, and nothing was said", first);
    if (status != 0 && (!allocations.failed || e.code != ERR_MEMORY || !strstr(e.text, "memory")))
        fail_msg("allocation %zu: code %d, '%s'", first, (int)e.code, e.text);
    return bytes;
}

static void sweep(job_fn *job, const void *what)
{
    uint64_t want = run_once(job, what, SIZE_MAX, SIZE_MAX, 0);
    size_t n = allocations.calls;
    assert_true(n > 10);
    assert_true(want > 0);
    for (size_t i = 1; i <= n; i++) {
        run_once(job, what, i, i, want);
        assert_int_equal(allocations.failed, 1);
        run_once(job, what, i, SIZE_MAX, want);
        assert_true(allocations.failed >= 1);
    }
}

static void sweep_recordings(job_fn *job)
{
    static const char *const tags[] = {"v0.9.1", "v0.14.0"};
    for (size_t i = 0; i < sizeof tags / sizeof *tags; i++) {
        struct recording r;
        recording_load(&r, tags[i], "allscen");
        sweep(job, &r);
        recording_release(&r);
    }
}

static void captures(void **state)
{
    (void)state;
    sweep_recordings(capture_job);
}

static void turns(void **state)
{
    (void)state;
    sweep_recordings(turn_job);
}

static void summaries(void **state)
{
    (void)state;
    sweep(summary_job, "fixtures/traces/v0.14.0/memscen_freeunknown.tracy");
}

static void conversions(void **state)
{
    (void)state;
    static const struct conversion jobs[] = {
        {"fixtures/traces/v0.14.0/allscen.tracy", FILE_VERSION(0, 9, 0), METHOD_LZ4},
        {"fixtures/traces/v0.9.1/allscen.tracy", FILE_VERSION(0, 14, 0), METHOD_ZSTD},
    };
    for (size_t i = 0; i < sizeof jobs / sizeof *jobs; i++)
        sweep(convert_job, &jobs[i]);
}

static void merges(void **state)
{
    (void)state;
    static const char *const paths[] = {"fixtures/traces/v0.14.0/memscen_freeunknown.tracy",
                                        "fixtures/traces/v0.11.1/memscen_freeunknown.tracy"};
    sweep(merge_job, paths);
}

int main(void)
{
    allocations.first = SIZE_MAX;
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(captures),    cmocka_unit_test(turns),  cmocka_unit_test(summaries),
        cmocka_unit_test(conversions), cmocka_unit_test(merges),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
