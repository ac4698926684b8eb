/* Merging: the format's limits, which must be seen before anything is written, and numbers that two
 * inputs have in common. */

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <stdio.h>
#include <string.h>

#include "base/map.h"
#include "trace/merge/merge.h"
#include "trace_test.h"
#include "trace_whole.h"

#define MEMSCEN "fixtures/traces/v0.14.0/memscen.tracy"
#define ALLSCEN "fixtures/traces/v0.14.0/allscen_sys.tracy"

/* ---- a trace with further source locations, source files and section categories */

struct file {
    char path[64], text[8];
};

struct adding {
    struct record_sink next;
    uint64_t n;     /* locations to add */
    uint32_t line;  /* of the first */
    bool allocated; /* payloads instead of static ones */
    struct file files[3];
    size_t file_count;
    uint64_t sections; /* lists of one category */
};

static int put_files(struct adding *a, struct err *e)
{
    struct rec_count count = {a->file_count};
    int status = record_put(&a->next, REC_SOURCE_FILES, &count, 1, e);
    for (size_t i = 0; i < a->file_count && status == 0; i++) {
        struct rec_source_file r = {view_of(a->files[i].path), view_of(a->files[i].text)};
        status = record_put(&a->next, REC_SOURCE_FILE, &r, 1, e);
    }
    return status;
}

/* Empty lists, all of category 7. */
static int put_sections(struct adding *a, struct err *e)
{
    struct rec_count count = {a->sections};
    struct rec_section_list list = {.category = 7};
    int status = record_put(&a->next, REC_SECTION_LISTS, &count, 1, e);
    for (uint64_t i = 0; i < a->sections && status == 0; i++)
        status = record_put(&a->next, REC_SECTION_LIST, &list, 1, e);
    return status;
}

static int put_added(struct adding *a, enum record_type type, struct err *e)
{
    int status = 0;
    for (uint64_t i = 0; i < a->n && status == 0; i++) {
        struct rec_source_location r = {.pointer = 0x7000000000 + a->line + i,
                                        .line = a->line + (uint32_t)i};
        struct rec_id id = {r.pointer};
        const void *rec = type == REC_SOURCE_LOCATION_EXPAND ? (void *)&id : (void *)&r;
        status = record_put(&a->next, type, rec, 1, e);
    }
    return status;
}

static int add_put(void *ctx, enum record_type type, const void *recs, size_t n, struct err *e)
{
    struct adding *a = ctx;
    if (type == REC_SOURCE_FILES && a->file_count > 0)
        return put_files(a, e);
    if (type == REC_SECTION_LISTS && a->sections > 0)
        return put_sections(a, e);
    bool counts = type == REC_SOURCE_LOCATIONS || type == REC_SOURCE_LOCATION_EXPANDS;
    if (a->allocated ? type == REC_SOURCE_LOCATION_PAYLOADS : counts) {
        struct rec_count count = {((const struct rec_count *)recs)->n + a->n};
        /* What ends the list before comes first. */
        if (type == REC_SOURCE_LOCATION_EXPANDS && put_added(a, REC_SOURCE_LOCATION, e) != 0)
            return -1;
        return record_put(&a->next, type, &count, 1, e);
    }
    if (type == REC_SOURCE_LOCATION_PAYLOADS && put_added(a, REC_SOURCE_LOCATION_EXPAND, e) != 0)
        return -1;
    if (type == REC_ZONE_STATS && a->allocated && put_added(a, REC_SOURCE_LOCATION_PAYLOAD, e) != 0)
        return -1;
    return record_put(&a->next, type, recs, n, e);
}

static void make_input(const char *path, struct adding a, struct buf *out)
{
    struct buf inner = {0};
    struct err e = {0};
    struct trace_info info;
    struct trace_writer *w;
    const struct block_sink blocks = {.ctx = out, .put = put_block_to_buf};
    const struct record_sink sink = {&a, add_put};
    whole_fixture(path, &inner);
    assert_int_equal(trace_writer_open_inner(&w, NULL, blocks, &e), 0);
    a.next = trace_writer_sink(w);
    if (read_inner_into(inner.data, inner.len, 1 << 20, &sink, &info, &e) != 0 ||
        trace_writer_finish(w, NULL, &e) != 0)
        fail_msg("%s", e.text);
    trace_writer_free(w);
    buf_release(&inner);
}

/* ---- merging */

struct inputs {
    struct buf bufs[3];
    size_t n;
};

static int read_input(void *ctx, size_t input, unsigned pass, const struct record_sink *sink,
                      const bool *wanted, struct trace_info *info, struct err *e)
{
    const struct buf *b = &((const struct inputs *)ctx)->bufs[input];
    struct memory_source m = {b->data, b->len, 0, 4099};
    const struct trace_read_options options = {.wanted = wanted};
    (void)pass;
    return trace_read_inner((struct byte_source){&m, read_memory_source}, sink, &options, info, e);
}

static int merge(struct inputs *in, struct buf *out, struct err *e)
{
    const struct merge_input_options names[3] = {{.name = "a"}, {.name = "b"}, {.name = "c"}};
    const struct merge_options options = {
        .inputs = names, .n = in->n, .align_begin = true, .spill_records = 5};
    const struct merge_source source = {in, read_input};
    const struct block_sink blocks = {.ctx = out, .put = put_block_to_buf};
    struct merge_outcome outcome;
    struct trace_writer *w;
    assert_int_equal(trace_writer_open_inner(&w, NULL, blocks, e), 0);
    int status = merge_traces(&source, &options, w, &outcome, e);
    if (status == 0)
        status = trace_writer_finish(w, NULL, e);
    trace_writer_free(w);
    buf_release(&outcome.notes);
    buf_release(&outcome.losses);
    return status;
}

static void release(struct inputs *in)
{
    for (size_t i = 0; i < in->n; i++)
        buf_release(&in->bufs[i]);
}

/* ---- the tests */

static uint64_t count_in(const struct buf *trace, enum record_type type)
{
    struct whole w = {0};
    whole_read(trace, &w);
    size_t n = whole_count(&w, type);
    whole_release(&w);
    return n;
}

static void check_locations(bool allocated)
{
    enum record_type type = allocated ? REC_SOURCE_LOCATION_PAYLOAD : REC_SOURCE_LOCATION_EXPAND;
    struct inputs in = {.n = 2};
    struct buf out = {0};
    struct err e = {0};
    make_input(MEMSCEN, (struct adding){.n = 20000, .line = 1, .allocated = allocated},
               &in.bufs[0]);
    make_input(MEMSCEN, (struct adding){.n = 20000, .line = 1, .allocated = allocated},
               &in.bufs[1]);
    /* Equal ones are one. */
    assert_int_equal(merge(&in, &out, &e), 0);
    assert_int_equal(count_in(&out, type), count_in(&in.bufs[0], type));
    buf_release(&in.bufs[1]);
    buf_release(&out);
    make_input(MEMSCEN, (struct adding){.n = 20000, .line = 30000, .allocated = allocated},
               &in.bufs[1]);
    assert_int_equal(merge(&in, &out, &e), -1);
    assert_int_equal(e.code, ERR_INPUT);
    assert_non_null(strstr(e.text, "32766"));
    assert_int_equal(out.len, 0);
    release(&in);
    buf_release(&out);
}

static void static_locations_have_a_limit(void **state)
{
    (void)state;
    check_locations(false);
}

static void allocated_locations_have_a_limit(void **state)
{
    (void)state;
    check_locations(true);
}

/* Keys that must differ within a list do, though both inputs have the same. */
static void assert_keys_differ(const struct whole *w, enum record_type type)
{
    struct map seen = {0};
    for (size_t i = 0; i < w->list.len; i++) {
        bool fresh;
        uint64_t key;
        if (w->list.at[i].type != type)
            continue;
        if (type == REC_LOCK)
            key = WHOLE(lock, w, i)->id;
        else if (type == REC_CALLSTACK_FRAME)
            key = WHOLE(callstack_frame, w, i)->frame;
        else
            memcpy(&key, w->list.at[i].bytes, sizeof key); /* it comes first in all of these */
        assert_non_null(map_add(&seen, key, &fresh));
        assert_true(fresh);
    }
    assert_true(seen.count > 0);
    map_release(&seen);
}

static void numbers_in_common_are_told_apart(void **state)
{
    (void)state;
    static const enum record_type types[] = {REC_STRING,
                                             REC_STRING_POINTER,
                                             REC_THREAD_NAME,
                                             REC_LOCAL_THREAD,
                                             REC_SOURCE_LOCATION,
                                             REC_MESSAGE,
                                             REC_LOCK,
                                             REC_POOL,
                                             REC_THREAD,
                                             REC_FRAME_SET,
                                             REC_THREAD_MESSAGE,
                                             REC_CALLSTACK_FRAME,
                                             REC_SYMBOL,
                                             REC_CODE_SYMBOL,
                                             REC_CONTEXT_SWITCH_THREAD};
    struct inputs in = {.n = 3};
    struct buf out = {0};
    struct whole w = {0};
    struct err e = {0};
    for (size_t i = 0; i < in.n; i++)
        make_input(ALLSCEN, (struct adding){0}, &in.bufs[i]);
    if (merge(&in, &out, &e) != 0)
        fail_msg("%s", e.text);
    whole_read(&out, &w);
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        assert_keys_differ(&w, types[i]);
    assert_int_equal(whole_count(&w, REC_MEMORY_EVENT),
                     3 * count_in(&in.bufs[0], REC_MEMORY_EVENT));
    assert_int_equal(whole_count(&w, REC_CALLSTACK), 3 * count_in(&in.bufs[0], REC_CALLSTACK));
    assert_int_equal(whole_count(&w, REC_ZONE_EXTRA),
                     3 * (count_in(&in.bufs[0], REC_ZONE_EXTRA) - 1) + 1);
    whole_release(&w);
    release(&in);
    buf_release(&out);
}

/* Messages of all inputs, and every processor's switches, come in order of time. */
static void times_go_up(void **state)
{
    (void)state;
    struct inputs in = {.n = 2};
    struct buf out = {0};
    struct whole w = {0};
    struct err e = {0};
    int64_t message = INT64_MIN, on_cpu = INT64_MIN;
    make_input(ALLSCEN, (struct adding){0}, &in.bufs[0]);
    make_input("fixtures/traces/v0.10/allscen_sys.tracy", (struct adding){0}, &in.bufs[1]);
    if (merge(&in, &out, &e) != 0)
        fail_msg("%s", e.text);
    whole_read(&out, &w);
    for (size_t i = 0; i < w.list.len; i++) {
        if (w.list.at[i].type == REC_CPU_SWITCH_LIST)
            on_cpu = INT64_MIN;
        if (w.list.at[i].type == REC_MESSAGE) {
            assert_true(WHOLE(message, &w, i)->time >= message);
            message = WHOLE(message, &w, i)->time;
        } else if (w.list.at[i].type == REC_CPU_SWITCH) {
            assert_true(WHOLE(cpu_switch, &w, i)->start >= on_cpu);
            on_cpu = WHOLE(cpu_switch, &w, i)->start;
        }
    }
    assert_true(message > 0);
    whole_release(&w);
    release(&in);
    buf_release(&out);
}

/* ---- source files of equal path */

struct files {
    struct file at[8];
    size_t n;
};

static int put_file(void *ctx, enum record_type type, const void *recs, size_t n, struct err *e)
{
    struct files *f = ctx;
    const struct rec_source_file *r = recs;
    (void)n;
    (void)e;
    if (type != REC_SOURCE_FILE)
        return 0;
    assert_true(f->n < 8);
    struct file *to = &f->at[f->n++];
    snprintf(to->path, sizeof to->path, "%.*s", (int)r->path.len, r->path.p);
    snprintf(to->text, sizeof to->text, "%.*s", (int)r->bytes.len, r->bytes.p);
    return 0;
}

static struct files merge_files(const struct adding *inputs, size_t n)
{
    struct inputs in = {.n = n};
    struct buf out = {0};
    struct err e = {0};
    struct trace_info info;
    struct files files = {0};
    const struct record_sink sink = {&files, put_file};
    for (size_t i = 0; i < n; i++)
        make_input(MEMSCEN, inputs[i], &in.bufs[i]);
    if (merge(&in, &out, &e) != 0 || read_inner_into(out.data, out.len, 1 << 20, &sink, &info, &e))
        fail_msg("%s", e.text);
    release(&in);
    buf_release(&out);
    return files;
}

/* Another program's file of equal path gets another, which may be taken, too. */
static void files_of_one_path_are_told_apart(void **state)
{
    (void)state;
    struct adding inputs[3] = {{.files = {{"p", "1"}}, .file_count = 1},
                               {.files = {{"p", "2"}}, .file_count = 1},
                               {.files = {{"p", "1"}}, .file_count = 1}};
    struct files merged = merge_files(inputs, 3);
    assert_int_equal(merged.n, 2);
    assert_string_equal(merged.at[0].path, "p");
    assert_string_equal(merged.at[0].text, "1");
    assert_string_equal(merged.at[1].text, "2");
    assert_string_not_equal(merged.at[1].path, "p");
    inputs[1].file_count = 2;
    inputs[1].files[1] = merged.at[1]; /* it has that name already, with a third content */
    inputs[1].files[1].text[0] = '3';
    merged = merge_files(inputs, 3);
    assert_int_equal(merged.n, 3);
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(merged.at[i].text[0], '1' + (int)i);
        for (size_t k = 0; k < i; k++)
            assert_string_not_equal(merged.at[i].path, merged.at[k].path);
    }
}

/* So many lists of one category are no trace's, but they must not take more than their room. */
static void lists_of_one_category_stay_one(void **state)
{
    (void)state;
    enum { LISTS = 200000 };
    struct inputs in = {.n = 2};
    struct buf out = {0};
    struct whole w = {0};
    struct err e = {0};
    for (size_t i = 0; i < in.n; i++)
        make_input(MEMSCEN, (struct adding){.sections = LISTS}, &in.bufs[i]);
    if (merge(&in, &out, &e) != 0)
        fail_msg("%s", e.text);
    whole_read(&out, &w);
    size_t n = 0, first = 0;
    for (size_t i = 0; i < w.list.len; i++) {
        if (w.list.at[i].type != REC_SECTION_LIST)
            continue;
        uint16_t category = WHOLE(section_list, &w, i)->category;
        n++;
        first += category == 7;
        assert_true(category == 7 || category == 1);
    }
    assert_int_equal(n, 2 * LISTS);
    assert_int_equal(first, LISTS);
    whole_release(&w);
    release(&in);
    buf_release(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(static_locations_have_a_limit),
        cmocka_unit_test(allocated_locations_have_a_limit),
        cmocka_unit_test(numbers_in_common_are_told_apart),
        cmocka_unit_test(times_go_up),
        cmocka_unit_test(files_of_one_path_are_told_apart),
        cmocka_unit_test(lists_of_one_category_stay_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
