/*
 * Random whole traces through files of every version: what is written is read, a conversion loses
 * what it counts and nothing else, and the way back finds the rest unchanged.
 *
 * TIDEMARK_RANDOM_SEEDS=FIRST:N runs other seeds than the fixed ones.
 */

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include "dump_test.h"
#include "trace/filter/convert.h"

/* A trace as a file in memory. */
struct image {
    struct buf inner; /* uncompressed */
    int fd;
};

static void image_close(struct image *im)
{
    buf_release(&im->inner);
    close(im->fd);
}

static const struct container_options containers[] = {
    {.method = METHOD_LZ4, .streams = 1},
    {.method = METHOD_LZ4_HC, .streams = 3},
    {.method = METHOD_ZSTD, .level = 3, .streams = 4},
    {.method = METHOD_ZSTD, .level = CONTAINER_LEVEL_OWN, .streams = 1},
    {.method = METHOD_ZSTD, .level = 1, .streams = 1, .old_magic = true},
};

/* Something that puts a whole trace into a sink. */
typedef int emitter(void *ctx, const struct record_sink *sink, struct err *e);

/* Writes a file, compressed in one of several ways. */
static void write_image(struct image *im, const struct file_layout *layout, uint64_t seed,
                        emitter *emit, void *ctx)
{
    const size_t ways = sizeof containers / sizeof containers[0];
    struct trace_writer_options options = {
        .layout = layout, .container = containers[seed % ways], .threaded = seed / ways % 2};
    struct trace_writer *w;
    struct err e = {0};
    *im = (struct image){.fd = memfd_create("trace", MFD_CLOEXEC)};
    assert_true(im->fd >= 0);
    assert_int_equal(trace_writer_open(&w, im->fd, &options, &e), 0);
    struct record_sink sink = trace_writer_sink(w);
    int status = emit(ctx, &sink, &e);
    if (status == 0)
        status = trace_writer_finish(w, NULL, &e);
    trace_writer_free(w);
    if (status != 0)
        fail_msg("seed %llu: %s", (unsigned long long)seed, e.text);
    assert_int_equal(lseek(im->fd, 0, SEEK_SET), 0);
    if (unpack(im->fd, &im->inner, &e) != 0)
        fail_msg("seed %llu: %s", (unsigned long long)seed, e.text);
}

static int read_image(void *ctx, const struct record_sink *sink, const bool *wanted, struct err *e)
{
    const struct image *im = ctx;
    const struct trace_read_options options = {.wanted = wanted};
    struct trace_info info;
    if (lseek(im->fd, 0, SEEK_SET) != 0)
        return err_set(e, ERR_INPUT, "cannot rewind");
    return trace_read(im->fd, "a random trace", sink, &options, &info, e);
}

static int emit_tree(void *ctx, const struct record_sink *sink, struct err *e)
{
    return tree_emit(ctx, 0, sink, e);
}

struct conversion {
    struct image *from;
    const struct file_layout *target;
    uint64_t lost[CONVERT_LOSS_COUNT];
    uint64_t losses;
};

static int emit_converted(void *ctx, const struct record_sink *sink, struct err *e)
{
    struct conversion *v = ctx;
    const struct convert_options options = {.target = v->target, .spill_records = 8};
    struct convert *c;
    if (convert_open(&c, sink, &options, e) != 0)
        return -1;
    struct record_sink in = convert_sink(c);
    int status = read_image(v->from, &in, NULL, e);
    for (unsigned i = 0; i < CONVERT_LOSS_COUNT; i++)
        v->losses += v->lost[i] = convert_loss(c, i);
    convert_free(c);
    return status;
}

/* Returns how much got lost. */
static uint64_t convert_image(struct image *from, const struct file_layout *target, uint64_t seed,
                              struct image *to, struct conversion *v)
{
    *v = (struct conversion){.from = from, .target = target};
    write_image(to, NULL, seed, emit_converted, v);
    return v->losses;
}

static void dump_image(struct image *im, const struct file_layout *common, struct buf *out)
{
    struct dump_source source = {im, read_image};
    struct dump_options options = every_section();
    struct err e = {0};
    options.common = common;
    options.write_ctx = out;
    buf_clear(out);
    if (dump_run(&source, &options, &e) != 0)
        fail_msg("dump: %s", e.text);
    assert_true(out->len > 1000);
}

static void expect_same_dump(struct image *a, struct image *b, const struct file_layout *common,
                             const char *what)
{
    struct buf wanted = {0}, got = {0};
    dump_image(a, common, &wanted);
    dump_image(b, common, &got);
    assert_same(&wanted, &got, what);
    buf_release(&wanted);
    buf_release(&got);
}

/*
 * Converts and converts back. `plain` traces have only what every version knows, so nothing of them
 * is lost on the way up. Two lists are sorted in newer files only; made-up traces have them in
 * order, so the bytes of a way there and back are equal.
 */
static void there_and_back(struct image *from, const struct file_layout *source,
                           const struct file_layout *target, uint64_t seed, bool plain)
{
    struct image there, back, again;
    struct conversion v;
    char what[64], a[FILE_VERSION_TEXT_SIZE], b[FILE_VERSION_TEXT_SIZE];
    snprintf(what, sizeof what, "seed %llu, %s as %s", (unsigned long long)seed,
             file_version_text(source->version, a), file_version_text(target->version, b));
    uint64_t lost = convert_image(from, target, seed, &there, &v);
    uint64_t back_loses = convert_image(&there, source, seed + 1, &back, &v);
    if (plain && source->version <= target->version && lost != 0)
        fail_msg("%s: %llu lost", what, (unsigned long long)lost);
    if (lost == 0 && back_loses == 0)
        assert_bytes_equal(&back.inner, &from->inner);
    expect_same_dump(from, &there, target, what);
    expect_same_dump(&there, &back, source, what);
    if (back_loses == 0) {
        expect_same_dump(from, &back, target, what);
        convert_image(&back, target, seed + 2, &again, &v);
        assert_bytes_equal(&again.inner, &there.inner);
        image_close(&again);
    }
    if (lost == 0 && back_loses == 0)
        expect_same_dump(from, &back, NULL, what);
    image_close(&there);
    image_close(&back);
}

/* Fields that versions do not have in common get the value that all of them know. */
static void known_to_all(struct tree *t)
{
    EACH_NODE(t, HEADER, header, r->delay = 0);
    EACH_NODE(t, GPU_CONTEXT, gpu_context, r->type %= 6);
    EACH_NODE(t, PLOT, plot, {
        r->type = 0;
        r->format %= 3;
    });
}

/* The records of a tree as an uncompressed stream. */
static void tree_bytes(const struct tree *t, const struct file_layout *layout, struct buf *out)
{
    struct trace_writer *w;
    struct err e = {0};
    const struct block_sink blocks = {.ctx = out, .put = put_block_to_buf};
    assert_int_equal(trace_writer_open_inner(&w, layout, blocks, &e), 0);
    struct record_sink sink = trace_writer_sink(w);
    assert_int_equal(tree_emit(t, 0, &sink, &e), 0);
    assert_int_equal(trace_writer_finish(w, NULL, &e), 0);
    trace_writer_free(w);
}

/* A made-up trace, which is read from its file as it was written. */
static void random_trace(const struct file_layout *layout, uint64_t seed, bool plain,
                         struct image *im)
{
    struct tree t = {0}, read = {0};
    struct buf bytes = {0};
    struct err e = {0};
    struct record_sink sink = tree_sink(&read);
    make_sample(&t, layout, seed);
    if (plain)
        known_to_all(&t);
    write_image(im, layout, seed, emit_tree, &t);
    if (read_image(im, &sink, NULL, &e) != 0)
        fail_msg("seed %llu: %s", (unsigned long long)seed, e.text);
    assert_int_equal(read.nodes.len, t.nodes.len);
    tree_bytes(&read, layout, &bytes);
    assert_bytes_equal(&bytes, &im->inner);
    buf_release(&bytes);
    tree_release(&t);
    tree_release(&read);
}

/* ---- seeds */

static void one_seed(uint64_t seed)
{
    unsigned n;
    const struct file_layout *all = file_layout_all(&n);
    const struct file_layout *newest = &all[n - 1], *some = &all[seed % n];
    struct image im;
    random_trace(newest, seed, seed % 2 == 0, &im);
    for (unsigned i = 0; i < n; i++)
        there_and_back(&im, newest, &all[i], seed, seed % 2 == 0);
    image_close(&im);
    random_trace(some, seed, seed % 4 < 2, &im);
    there_and_back(&im, some, &all[(seed / n) % n], seed, seed % 4 < 2);
    there_and_back(&im, some, newest, seed, seed % 4 < 2);
    image_close(&im);
}

static void test_seeds(void **state)
{
    (void)state;
    unsigned long long first = 1, count = 12;
    const char *text = getenv("TIDEMARK_RANDOM_SEEDS");
    if (text && sscanf(text, "%llu:%llu", &first, &count) != 2)
        fail_msg("TIDEMARK_RANDOM_SEEDS is not FIRST:N");
    for (unsigned long long i = 0; i < count; i++)
        one_seed(first + i);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_seeds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
