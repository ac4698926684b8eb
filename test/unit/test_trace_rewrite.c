/* The filters of trace/filter/rewrite.h other than ranges, on real traces, alone and together. */

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <sys/stat.h>

#include "trace_test.h"
#include "trace_whole.h"

#define MEMSCEN "fixtures/traces/v0.14.0/memscen.tracy"
#define ALLSCEN "fixtures/traces/v0.14.0/allscen_sys.tracy"

static void rewrite(const char *path, const struct rewrite_options *options, struct buf *inner,
                    struct whole *w, struct rewrite_outcome *outcome)
{
    struct err e = {0};
    struct buf out = {0};
    if (inner->len == 0)
        whole_fixture(path, inner);
    if (whole_rewrite(inner, options, &out, outcome, &e) != 0)
        fail_msg("%s: %s", path, e.text);
    whole_read(&out, w);
    buf_release(&out);
}

/* ---- pools */

struct pools_seen {
    size_t n, events;
    uint64_t total, keys[8], of[8];
};

static struct pools_seen see_pools(const struct whole *w)
{
    struct pools_seen seen = {.events = whole_count(w, REC_MEMORY_EVENT)};
    seen.n = whole_count(w, REC_POOL);
    const struct rec_pools *pools = WHOLE(pools, w, whole_find(w, REC_POOLS, 0));
    seen.total = pools->events;
    assert_int_equal(pools->n, seen.n);
    assert_true(seen.n <= 8);
    for (size_t i = 0; i < seen.n; i++) {
        seen.keys[i] = WHOLE(pool, w, whole_find(w, REC_POOL, i))->key;
        seen.of[i] = WHOLE(pool, w, whole_find(w, REC_POOL, i))->events;
    }
    return seen;
}

static struct pools_seen choose_pools(const char *names, bool drop)
{
    struct buf inner = {0};
    struct whole w = {0};
    const struct rewrite_options options = {.pools = {&names, names ? 1 : 0, drop}};
    rewrite(MEMSCEN, &options, &inner, &w, NULL);
    struct pools_seen seen = see_pools(&w);
    assert_int_equal(seen.total, seen.events);
    whole_release(&w);
    buf_release(&inner);
    return seen;
}

static uint64_t events_of(const struct pools_seen *seen, uint64_t key)
{
    for (size_t i = 0; i < seen->n; i++) {
        if (seen->keys[i] == key)
            return seen->of[i];
    }
    return UINT64_MAX;
}

static void test_pools(void **state)
{
    (void)state;
    char key[32];
    struct pools_seen all = choose_pools(NULL, false);
    assert_int_equal(all.n, 3);
    struct pools_seen one = choose_pools("default", false);
    assert_int_equal(one.n, 1);
    assert_int_equal(one.events, events_of(&all, 0));
    struct pools_seen rest = choose_pools("default", true);
    assert_int_equal(rest.n, 3); /* an empty default pool stands for the one that is gone */
    assert_int_equal(events_of(&rest, 0), 0);
    assert_int_equal(rest.events, all.events - one.events);
    struct pools_seen both = choose_pools("gpu.vram,arena", false);
    assert_int_equal(both.events, rest.events);
    /* By key, in a list with a name. */
    uint64_t other = all.keys[0] ? all.keys[0] : all.keys[1];
    snprintf(key, sizeof key, "0x%llx,default", (unsigned long long)other);
    struct pools_seen keyed = choose_pools(key, false);
    assert_int_equal(keyed.events, events_of(&all, 0) + events_of(&all, other));
    assert_int_equal(keyed.n, 2);
}

static void expect_pools_refused(const char *names, const char *text)
{
    struct buf inner = {0}, out = {0};
    struct err e = {0};
    const struct rewrite_options options = {.pools = {&names, 1, false}};
    whole_fixture(MEMSCEN, &inner);
    assert_int_equal(whole_rewrite(&inner, &options, &out, NULL, &e), -1);
    assert_int_equal(e.code, ERR_USAGE);
    assert_non_null(strstr(e.text, text));
    buf_release(&inner);
    buf_release(&out);
}

static void test_unknown_pools(void **state)
{
    (void)state;
    expect_pools_refused("default,nowhere", "no pool is named \"nowhere\"");
    expect_pools_refused("0x77", "no pool is named \"0x77\"");
    expect_pools_refused("gpu.vram,", "an empty name");
    expect_pools_refused("DEFAULT", "gpu.vram");
}

/* ---- symbols */

#define ANSWERED "answer() with a very long name that no trace has"

static int answer_all(void *ctx, struct symbolize *s, struct err *e)
{
    size_t *answers = ctx;
    for (size_t i = 0; i < symbolize_images(s); i++) {
        size_t n;
        symbolize_offsets(s, i, &n);
        for (size_t k = 0; k < n; k++, ++*answers) {
            struct view file = k % 2 ? view_of("there.c") : (struct view){NULL, 0};
            assert_int_equal(symbolize_answer(s, i, k, view_of(ANSWERED), file, 77, e), 0);
        }
    }
    return 0;
}

static const char *string_text(const struct whole *w, uint32_t sidx)
{
    size_t i = sidx ? whole_find(w, REC_STRING, sidx - 1) : SIZE_MAX;
    return i == SIZE_MAX ? "" : w->list.at[i].text;
}

static void test_reset(void **state)
{
    (void)state;
    struct buf inner = {0};
    struct whole before = {0}, after = {0};
    struct rewrite_outcome outcome = {0};
    const struct rewrite_options options = {.symbols = {.reset = true}};
    rewrite(MEMSCEN, &options, &inner, &after, &outcome);
    whole_read(&inner, &before);
    uint64_t frames = 0;
    for (size_t n = 0, i; (i = whole_find(&after, REC_CALLSTACK_FRAME, n)) != SIZE_MAX; n++) {
        const struct rec_callstack_frame *f = WHOLE(callstack_frame, &after, i);
        const struct rec_inline_frame *in = (const void *)after.list.at[i].text;
        size_t old = whole_find(&before, REC_CALLSTACK_FRAME, n);
        const struct rec_inline_frame *was = (const void *)before.list.at[old].text;
        for (unsigned k = 0; k < f->n; k++, frames++) {
            assert_string_equal(string_text(&after, in[k].function), "[unresolved]");
            assert_string_equal(string_text(&after, in[k].file), "[unknown]");
            assert_int_equal(in[k].line, 0);
            assert_int_equal(in[k].symbol, was[k].symbol);
        }
    }
    assert_true(frames > 20);
    assert_int_equal(outcome.frames, frames);
    assert_int_equal(whole_count(&after, REC_STRING), whole_count(&before, REC_STRING) + 2);
    whole_release(&before);
    whole_release(&after);
    buf_release(&inner);
}

static void test_resolve(void **state)
{
    (void)state;
    struct buf inner = {0};
    struct whole before = {0}, after = {0};
    size_t answers = 0, with_file = 0, named = 0;
    const struct rewrite_options options = {.symbols = {.reset = true, .resolve = true},
                                            .resolve = answer_all,
                                            .resolve_ctx = &answers};
    rewrite(MEMSCEN, &options, &inner, &after, NULL);
    whole_read(&inner, &before);
    for (size_t n = 0, i; (i = whole_find(&after, REC_CALLSTACK_FRAME, n)) != SIZE_MAX; n++) {
        const struct rec_callstack_frame *f = WHOLE(callstack_frame, &after, i);
        const struct rec_inline_frame *in = (const void *)after.list.at[i].text;
        for (unsigned k = 0; k < f->n; k++, named++) {
            assert_string_equal(string_text(&after, in[k].function), ANSWERED);
            bool here = strcmp(string_text(&after, in[k].file), "there.c") == 0;
            assert_int_equal(in[k].line, here ? 77 : 0);
            with_file += here;
        }
    }
    assert_true(answers > 10 && answers <= named);
    assert_true(with_file > 0 && with_file < named);
    /* Four new strings, whatever the number of answers, and with keys of their own. */
    assert_int_equal(whole_count(&after, REC_STRING), whole_count(&before, REC_STRING) + 4);
    size_t strings = whole_count(&after, REC_STRING), first = whole_find(&after, REC_STRING, 0);
    for (size_t i = 0; i < strings; i++) {
        for (size_t k = strings - 4; k < strings; k++)
            assert_true(i == k || WHOLE(string, &after, first + i)->key !=
                                      WHOLE(string, &after, first + k)->key);
    }
    whole_release(&before);
    whole_release(&after);
    buf_release(&inner);
}

/* Without a reset only frames that are unresolved get a name; here there are none. */
static void test_resolve_nothing(void **state)
{
    (void)state;
    struct buf inner = {0}, out = {0};
    struct err e = {0};
    size_t answers = 0;
    const struct rewrite_options options = {
        .symbols = {.resolve = true}, .resolve = answer_all, .resolve_ctx = &answers};
    whole_fixture(MEMSCEN, &inner);
    assert_int_equal(whole_rewrite(&inner, &options, &out, NULL, &e), 0);
    assert_int_equal(answers, 0);
    assert_bytes_equal(&out, &inner);
    buf_release(&inner);
    buf_release(&out);
}

/* ---- frame images and source files */

static void test_dictionary(void **state)
{
    (void)state;
    struct buf inner = {0};
    struct whole with = {0}, before = {0};
    struct rewrite_outcome outcome = {0};
    const struct rewrite_options options = {.image_dict = true};
    rewrite(ALLSCEN, &options, &inner, &with, &outcome);
    whole_read(&inner, &before);
    assert_true(outcome.dict_size > 256);
    const struct whole_record *dict = &with.list.at[whole_find(&with, REC_FRAME_IMAGE_DICT, 0)];
    assert_int_equal(dict->text_len, outcome.dict_size);
    assert_memory_equal(dict->text, "\x37\xA4\x30\xEC", 4); /* ZSTD_MAGIC_DICTIONARY */
    assert_int_equal(with.list.len, before.list.len);
    for (size_t n = 0, i; (i = whole_find(&with, REC_FRAME_IMAGE, n)) != SIZE_MAX; n++) {
        const struct whole_record *image = &before.list.at[whole_find(&before, REC_FRAME_IMAGE, n)];
        assert_int_equal(with.list.at[i].text_len, image->text_len);
        assert_memory_equal(with.list.at[i].text, image->text, image->text_len);
    }
    whole_release(&with);
    whole_release(&before);
    buf_release(&inner);
}

static void test_no_dictionary(void **state)
{
    (void)state;
    struct buf inner = {0};
    struct whole w = {0};
    struct rewrite_outcome outcome = {0};
    const struct rewrite_options options = {.image_dict = true, .strip = "i"};
    rewrite(ALLSCEN, &options, &inner, &w, &outcome);
    assert_int_equal(outcome.dict_size, 0);
    assert_int_equal(w.list.at[whole_find(&w, REC_FRAME_IMAGE_DICT, 0)].text_len, 0);
    whole_release(&w);
    buf_release(&inner);
}

/* A trace whose source location `from` lies in another file, built at another time. */
struct moved {
    struct record_sink next;
    const char *from, *to;
    uint64_t built;
};

static int move_put(void *ctx, enum record_type type, const void *recs, size_t n, struct err *e)
{
    const struct moved *m = ctx;
    struct rec_string string;
    struct rec_header header;
    if (type == REC_STRING) {
        string = *(const struct rec_string *)recs;
        if (view_equal(string.text, view_of(m->from)))
            string.text = view_of(m->to);
        recs = &string;
    }
    if (type == REC_HEADER) {
        header = *(const struct rec_header *)recs;
        header.executable_time = m->built;
        recs = &header;
    }
    return record_put(&m->next, type, recs, n, e);
}

static void move_source(const char *to, uint64_t built, struct buf *out)
{
    struct buf inner = {0};
    struct trace_writer *w;
    struct trace_info info;
    struct err e = {0};
    struct block_sink blocks = {.ctx = out, .put = put_block_to_buf};
    whole_fixture(ALLSCEN, &inner);
    assert_int_equal(trace_writer_open_inner(&w, NULL, blocks, &e), 0);
    struct moved m = {trace_writer_sink(w), "/home/dev/scen/allscen.cpp", to, built};
    const struct record_sink sink = {&m, move_put};
    assert_int_equal(read_inner_into(inner.data, inner.len, SIZE_MAX, &sink, &info, &e), 0);
    assert_int_equal(trace_writer_finish(w, NULL, &e), 0);
    trace_writer_free(w);
    buf_release(&inner);
}

static void test_source_files(void **state)
{
    (void)state;
    static const char content[] = "int main(void)\n{\n}\n";
    char path[] = "/tmp/tidemark-source-XXXXXX";
    struct stat st;
    int fd = mkstemp(path);
    assert_true(fd >= 0 && write(fd, content, sizeof content - 1) > 0 && fstat(fd, &st) == 0);
    close(fd);
    for (unsigned newer = 0; newer < 2; newer++) {
        struct buf inner = {0};
        struct whole w = {0};
        struct rewrite_outcome outcome = {0};
        const struct rewrite_options options = {.cache_sources = true};
        /* A file as old as the program is, or older, is the one that it was built from. */
        move_source(path, (uint64_t)st.st_mtime + !newer, &inner);
        rewrite(ALLSCEN, &options, &inner, &w, &outcome);
        assert_int_equal(outcome.sources.files, !newer);
        assert_int_equal(whole_count(&w, REC_SOURCE_FILE), !newer);
        if (!newer) {
            size_t i = whole_find(&w, REC_SOURCE_FILE, 0);
            assert_int_equal(w.list.at[i].text_len, sizeof content - 1);
            assert_memory_equal(w.list.at[i].text, content, sizeof content - 1);
        }
        whole_release(&w);
        buf_release(&inner);
    }
    unlink(path);
}

/* A named pipe in its place neither counts nor keeps anybody waiting. */
static void test_source_that_is_a_pipe(void **state)
{
    (void)state;
    char path[64];
    struct buf inner = {0};
    struct whole w = {0};
    struct rewrite_outcome outcome = {0};
    const struct rewrite_options options = {.cache_sources = true};
    snprintf(path, sizeof path, "/tmp/tidemark-pipe-%d", (int)getpid());
    assert_int_equal(mkfifo(path, 0600), 0);
    move_source(path, UINT64_MAX, &inner);
    rewrite(ALLSCEN, &options, &inner, &w, &outcome);
    assert_int_equal(outcome.sources.files, 0);
    unlink(path);
    whole_release(&w);
    buf_release(&inner);
}

/* ---- all together */

static void test_together(void **state)
{
    (void)state;
    const char *names = "default";
    size_t answers = 0;
    const struct rewrite_options options = {
        .strip = "lp",
        .pools = {&names, 1, false},
        .has_range = true,
        .range = {40000000, 120000000, NULL},
        .symbols = {.reset = true, .resolve = true},
        .resolve = answer_all,
        .resolve_ctx = &answers,
        .cache_sources = true,
        .image_dict = true,
        .convert = {.target = file_layout_find(FILE_VERSION(0, 11, 1))},
    };
    assert_int_equal(rewrite_passes(&options), 4);
    for (size_t i = 0; i < TRACE_FIXTURES; i++) {
        struct buf inner = {0};
        struct whole w = {0};
        rewrite(trace_fixtures[i], &options, &inner, &w, NULL);
        assert_int_equal(whole_count(&w, REC_POOL), 1);
        assert_int_equal(whole_count(&w, REC_LOCK), 0);
        assert_int_equal(see_pools(&w).total, see_pools(&w).events);
        whole_release(&w);
        buf_release(&inner);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_pools),
        cmocka_unit_test(test_unknown_pools),
        cmocka_unit_test(test_reset),
        cmocka_unit_test(test_resolve),
        cmocka_unit_test(test_resolve_nothing),
        cmocka_unit_test(test_dictionary),
        cmocka_unit_test(test_no_dictionary),
        cmocka_unit_test(test_source_files),
        cmocka_unit_test(test_source_that_is_a_pipe),
        cmocka_unit_test(test_together),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
