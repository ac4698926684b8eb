/* The dump of a trace: equal when only the order of its tables differs; its options and formats. */

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include <jansson.h>

#include "dump_test.h"

/* ---- shuffling */

/* A table of the file and where each of its entries goes. */
struct permutation {
    uint32_t *to;
    size_t n;
};

static struct permutation make_permutation(size_t n, size_t fixed, uint64_t *random)
{
    struct permutation p = {malloc((n + 1) * sizeof *p.to), n};
    assert_non_null(p.to);
    for (size_t i = 0; i < n; i++)
        p.to[i] = (uint32_t)i;
    for (size_t i = n; i > fixed + 1; i--) {
        size_t j = fixed + next_random(random) % (i - fixed);
        uint32_t other = p.to[i - 1];
        p.to[i - 1] = p.to[j];
        p.to[j] = other;
    }
    return p;
}

enum table {
    TABLE_STRINGS,
    TABLE_LOCAL_THREADS,
    TABLE_EXTERNAL_THREADS,
    TABLE_EXPANDS,
    TABLE_PAYLOADS,
    TABLE_EXTRAS,
    TABLE_CALLSTACKS,
    TABLE_IMAGES,
    TABLE_COUNT,
};

/* The type of a table's entries, and how many of its first entries have a meaning as such. */
static const struct {
    enum record_type type;
    size_t fixed;
} tables[TABLE_COUNT] = {
    {REC_STRING, 0},
    {REC_LOCAL_THREAD, 0},
    {REC_EXTERNAL_THREAD, 0},
    {REC_SOURCE_LOCATION_EXPAND, 1},
    {REC_SOURCE_LOCATION_PAYLOAD, 0},
    {REC_ZONE_EXTRA, 1},
    {REC_CALLSTACK, 0},
    {REC_FRAME_IMAGE, 0},
};

struct shuffle {
    struct permutation tables[TABLE_COUNT];
    uint64_t random;
};

static uint32_t moved(const struct permutation *p, uint64_t index)
{
    return index < p->n ? p->to[index] : (uint32_t)index;
}

/* An index from 1; 0 is none. */
static void move_from_1(const struct permutation *p, uint32_t *index)
{
    if (*index > 0)
        *index = 1 + moved(p, *index - 1);
}

static void move_string(const struct shuffle *s, uint32_t *sidx)
{
    move_from_1(&s->tables[TABLE_STRINGS], sidx);
}

static void move_stack(const struct shuffle *s, uint32_t *callstack)
{
    move_from_1(&s->tables[TABLE_CALLSTACKS], callstack);
}

static void move_ref(const struct shuffle *s, struct rec_string_ref *ref)
{
    if (ref->flags == STRING_REF_INDEX)
        ref->value = moved(&s->tables[TABLE_STRINGS], ref->value);
}

static void move_srcloc(const struct shuffle *s, int16_t *srcloc)
{
    if (*srcloc < 0)
        *srcloc = (int16_t)(-1 - (int)moved(&s->tables[TABLE_PAYLOADS], (uint64_t)(-1 - *srcloc)));
    else
        *srcloc = (int16_t)moved(&s->tables[TABLE_EXPANDS], (uint64_t)*srcloc);
}

static void move_thread(const struct shuffle *s, enum table table, uint16_t *thread)
{
    *thread = (uint16_t)moved(&s->tables[table], *thread);
}

static void move_location(const struct shuffle *s, struct rec_source_location *r)
{
    move_ref(s, &r->name);
    move_ref(s, &r->function);
    move_ref(s, &r->file);
}

/* What the first tables hold. */
static void move_names(const struct shuffle *s, enum record_type type, void *rec)
{
    switch (type) {
    case REC_CRASH:
        move_stack(s, &((struct rec_crash *)rec)->callstack);
        break;
    case REC_FRAME: {
        struct rec_frame *r = rec;
        if (r->image >= 0)
            r->image = (int32_t)moved(&s->tables[TABLE_IMAGES], (uint64_t)r->image);
        break;
    }
    case REC_SECTION:
        move_string(s, &((struct rec_section *)rec)->text);
        break;
    case REC_SECTION_CATEGORY:
        move_string(s, &((struct rec_section_category *)rec)->description);
        break;
    case REC_SOURCE_LOCATION:
    case REC_SOURCE_LOCATION_PAYLOAD:
        move_location(s, rec);
        break;
    case REC_LOCK:
        move_string(s, &((struct rec_lock *)rec)->custom_name);
        move_srcloc(s, &((struct rec_lock *)rec)->srcloc);
        break;
    case REC_LOCK_EVENT:
        move_srcloc(s, &((struct rec_lock_event *)rec)->srcloc);
        break;
    case REC_MESSAGE:
        move_ref(s, &((struct rec_message *)rec)->text);
        move_stack(s, &((struct rec_message *)rec)->callstack);
        break;
    case REC_ZONE_EXTRA: {
        struct rec_zone_extra *r = rec;
        move_stack(s, &r->callstack);
        move_string(s, &r->text);
        move_string(s, &r->name);
        break;
    }
    default:
        break;
    }
}

static void move_events(const struct shuffle *s, enum record_type type, void *rec)
{
    switch (type) {
    case REC_ZONE_BEGIN: {
        struct rec_zone_begin *r = rec;
        move_srcloc(s, &r->srcloc);
        r->extra = moved(&s->tables[TABLE_EXTRAS], r->extra);
        break;
    }
    case REC_SWITCH_SAMPLE:
    case REC_SAMPLE:
        move_stack(s, &((struct rec_sample *)rec)->callstack);
        break;
    case REC_GPU_CONTEXT:
        move_string(s, &((struct rec_gpu_context *)rec)->name);
        break;
    case REC_GPU_NOTE_NAME:
        move_string(s, &((struct rec_gpu_note_name *)rec)->name);
        break;
    case REC_GPU_ZONE_BEGIN: {
        struct rec_gpu_zone_begin *r = rec;
        move_srcloc(s, &r->srcloc);
        move_stack(s, &r->callstack);
        move_thread(s, TABLE_LOCAL_THREADS, &r->thread);
        break;
    }
    case REC_MEMORY_EVENT: {
        struct rec_memory_event *r = rec;
        move_stack(s, &r->callstack_alloc);
        move_stack(s, &r->callstack_free);
        move_thread(s, TABLE_LOCAL_THREADS, &r->thread_alloc);
        move_thread(s, TABLE_LOCAL_THREADS, &r->thread_free);
        break;
    }
    case REC_CALLSTACK_FRAME: {
        struct rec_callstack_frame *r = rec;
        struct rec_inline_frame *inlines = (struct rec_inline_frame *)r->inlines;
        move_string(s, &r->image);
        for (unsigned i = 0; i < r->n; i++) {
            move_string(s, &inlines[i].function);
            move_string(s, &inlines[i].file);
        }
        break;
    }
    case REC_APP_INFO:
        move_ref(s, rec);
        break;
    case REC_CPU_SWITCH:
        move_thread(s, TABLE_EXTERNAL_THREADS, &((struct rec_cpu_switch *)rec)->thread);
        break;
    case REC_SYMBOL: {
        struct rec_symbol *r = rec;
        move_string(s, &r->name);
        move_string(s, &r->file);
        move_string(s, &r->image);
        move_string(s, &r->call_file);
        break;
    }
    default:
        break;
    }
}

/* Lists whose order says something. */
static bool has_meaning(enum record_type type)
{
    return type == REC_ZONE_BEGIN || type == REC_GPU_ZONE_BEGIN || type == REC_APP_INFO ||
           type == REC_CPU_SWITCH_LIST || type == REC_HW_SAMPLE_LIST;
}

static void reorder(uint32_t *list, const struct permutation *p)
{
    uint32_t *copy = malloc((p->n + 1) * sizeof *copy);
    assert_non_null(copy);
    memcpy(copy, list, p->n * sizeof *copy);
    for (size_t i = 0; i < p->n; i++)
        list[p->to[i]] = copy[i];
    free(copy);
}

/* Shuffles the lists below a node: a table as its permutation says, others in any order. */
static void shuffle_children(struct tree *t, struct tree_node *node, struct shuffle *s)
{
    for (size_t begin = 0, end; begin < node->children.len; begin = end) {
        enum record_type type = t->nodes.at[node->children.at[begin]].type;
        for (end = begin; end < node->children.len; end++) {
            if (t->nodes.at[node->children.at[end]].type != type)
                break;
        }
        uint32_t *list = node->children.at + begin;
        size_t table = 0;
        while (table < TABLE_COUNT && tables[table].type != type)
            table++;
        if (table < TABLE_COUNT) {
            reorder(list, &s->tables[table]);
            continue;
        }
        struct permutation p = make_permutation(end - begin, 0, &s->random);
        if (type == REC_LOCK_THREAD) {
            for (size_t i = 0; i < t->nodes.len; i++) {
                struct tree_node *events = &t->nodes.at[i];
                if (events->type != REC_LOCK_EVENTS || i != node->children.at[end])
                    continue;
                for (size_t k = 0; k < events->children.len; k++) {
                    struct rec_lock_event *r = NODE_REC(t, lock_event, events->children.at[k]);
                    r->thread = (uint8_t)moved(&p, r->thread);
                }
            }
        }
        if (!has_meaning(type) && node != &t->nodes.at[0])
            reorder(list, &p);
        free(p.to);
    }
}

/* Keys are what a writer chooses. */
static void rename_keys(struct tree *t)
{
    const uint64_t change = 0x5a5a5a5a12345678u;
    EACH_NODE(t, STRING, string, r->key ^= change);
    EACH_NODE(t, STRING_POINTER, pair, r->value ^= change);
    EACH_NODE(t, THREAD_NAME, pair, r->value ^= change);
    EACH_NODE(t, EXTERNAL_NAME, external_name, {
        r->program_key ^= change;
        r->thread_key ^= change;
    });
    EACH_NODE(t, MESSAGE, message, r->key ^= change);
    EACH_NODE(t, THREAD_MESSAGE, id, r->id ^= change);
}

static void shuffle_tree(struct tree *t, uint64_t seed)
{
    struct shuffle s = {.random = seed};
    for (unsigned i = 0; i < TABLE_COUNT; i++) {
        size_t n;
        free(tree_nodes(t, tables[i].type, &n));
        s.tables[i] = make_permutation(n, tables[i].fixed, &s.random);
    }
    for (size_t i = 1; i < t->nodes.len; i++) {
        move_names(&s, t->nodes.at[i].type, t->nodes.at[i].rec);
        move_events(&s, t->nodes.at[i].type, t->nodes.at[i].rec);
    }
    for (size_t i = 0; i < t->nodes.len; i++)
        shuffle_children(t, &t->nodes.at[i], &s);
    rename_keys(t);
    for (unsigned i = 0; i < TABLE_COUNT; i++)
        free(s.tables[i].to);
}

static void check_shuffles(struct tree *t, const char *what)
{
    struct buf before = {0}, after = {0};
    dump_tree(t, &before);
    for (uint64_t seed = 1; seed <= 3; seed++) {
        shuffle_tree(t, seed * 0x9e3779b97f4a7c15u);
        dump_tree(t, &after);
        assert_same(&before, &after, what);
    }
    buf_release(&before);
    buf_release(&after);
}

static void test_order_does_not_matter_in_real_traces(void **state)
{
    (void)state;
    for (size_t i = 0; i < TRACE_FIXTURES; i++) {
        if (!strstr(trace_fixtures[i], "/allscen"))
            continue;
        struct tree t = {0};
        read_fixture(&t, trace_fixtures[i]);
        check_shuffles(&t, trace_fixtures[i]);
        tree_release(&t);
    }
}

static void test_order_does_not_matter_in_made_up_traces(void **state)
{
    (void)state;
    unsigned n;
    const struct file_layout *all = file_layout_all(&n);
    for (unsigned i = 0; i < n; i++) {
        struct tree t = {0};
        char version[FILE_VERSION_TEXT_SIZE];
        make_sample(&t, &all[i], i + 1);
        check_shuffles(&t, file_version_text(all[i].version, version));
        tree_release(&t);
    }
}

/* ---- options */

static void test_limit_and_sections(void **state)
{
    (void)state;
    struct tree t = {0};
    struct buf all = {0}, some = {0}, expected = {0};
    read_fixture(&t, "fixtures/traces/v0.14.0/allscen_sys.tracy");
    dump_tree(&t, &all);
    for (unsigned i = 0; i < DUMP_SECTION_COUNT; i++) {
        struct dump_options o = every_section();
        memset(o.sections, false, sizeof o.sections);
        o.sections[i] = true;
        o.limit = 3;
        dump_with(&t, o, &some);
        /* The first three lines of that section among all. */
        size_t name = strlen(dump_section_name(i)), lines = 0;
        buf_clear(&expected);
        for (const char *p = buf_str(&all); *p && lines < 3; p = strchr(p, '\n') + 1) {
            if (strncmp(p, dump_section_name(i), name) == 0 && p[name] == ' ') {
                buf_put(&expected, p, (size_t)(strchr(p, '\n') - p) + 1);
                lines++;
            }
        }
        assert_same(&expected, &some, dump_section_name(i));
    }
    buf_release(&all);
    buf_release(&some);
    buf_release(&expected);
    tree_release(&t);
}

/* The same lines when next to nothing is sorted in memory. */
static void test_sorting_through_a_file(void **state)
{
    (void)state;
    struct tree t = {0};
    struct buf plenty = {0}, little = {0};
    read_fixture(&t, "fixtures/traces/v0.14.0/allscen_sys.tracy");
    struct dump_options o = every_section();
    dump_with(&t, o, &plenty);
    o.sort_bytes = 3000;
    dump_with(&t, o, &little);
    assert_same(&plenty, &little, "sorted through a file");
    buf_release(&plenty);
    buf_release(&little);
    tree_release(&t);
}

/* Every line is an object whose first key is the section, and there are as many as in text. */
static void check_json_lines(struct tree *t)
{
    struct buf text = {0}, lines = {0};
    struct dump_options o = every_section();
    dump_with(t, o, &text);
    o.format = &dump_format_jsonl;
    dump_with(t, o, &lines);
    size_t n = 0, expected = 0;
    for (size_t i = 0; i < text.len; i++)
        expected += text.data[i] == '\n';
    for (const char *p = buf_str(&lines); *p; n++) {
        const char *end = strchr(p, '\n');
        json_error_t error;
        assert_non_null(end);
        assert_int_equal(strncmp(p, "{\"section\":\"", 12), 0);
        /* Numbers may be beyond jansson's integers. */
        json_t *v =
            json_loadb(p, (size_t)(end - p),
                       JSON_DECODE_INT_AS_REAL | JSON_ALLOW_NUL | JSON_REJECT_DUPLICATES, &error);
        if (!v)
            fail_msg("%s: %.*s", error.text, (int)(end - p), p);
        json_decref(v);
        p = end + 1;
    }
    assert_int_equal(n, expected);
    buf_release(&text);
    buf_release(&lines);
}

static void test_json_lines(void **state)
{
    (void)state;
    struct tree real = {0}, made_up = {0};
    read_fixture(&real, "fixtures/traces/v0.14.0/allscen_sys.tracy");
    make_sample(&made_up, file_layout_find(FILE_VERSION_MAX), 3);
    check_json_lines(&real);
    check_json_lines(&made_up);
    tree_release(&real);
    tree_release(&made_up);
}

/* ---- formats */

static void check_format(const struct dump_format *f, double real, struct view text,
                         const char *expected)
{
    struct buf out = {0};
    f->begin(&out, view_of("s"));
    f->number(&out, view_of("n"), UINT64_MAX);
    f->integer(&out, view_of("i"), INT64_MIN);
    f->address(&out, view_of("a"), 0);
    f->real(&out, view_of("r"), real);
    f->text(&out, view_of("t"), text);
    f->word(&out, view_of("w"), view_of("word"));
    f->list_begin(&out, view_of("l"));
    f->list_word(&out, view_of("a"), true);
    f->list_word(&out, view_of("b"), false);
    f->list_end(&out);
    f->end(&out);
    assert_string_equal(buf_str(&out), expected);
    buf_release(&out);
}

static void test_formats(void **state)
{
    (void)state;
    struct view nasty = {"\"\\\n\x1b\xff\xe2\x80\xae"
                         "\xc3\xa9\0",
                         11};
    uint64_t bits = 0x7ff8000000000001u;
    double nan;
    memcpy(&nan, &bits, sizeof nan);
    check_format(&dump_format_text, 0.1, nasty,
                 "s n=18446744073709551615 i=-9223372036854775808 a=0x0 r=0.10000000000000001 "
                 "t=\"\\\"\\\\\\x0a\\x1b\\xff\\u{202e}\xc3\xa9\\x00\" w=word l=a,b\n");
    check_format(&dump_format_text, nan, view_of(""),
                 "s n=18446744073709551615 i=-9223372036854775808 a=0x0 r=nan:0x7ff8000000000001 "
                 "t=\"\" w=word l=a,b\n");
    check_format(&dump_format_text, -0.0, view_of("x"),
                 "s n=18446744073709551615 i=-9223372036854775808 a=0x0 r=-0 t=\"x\" w=word "
                 "l=a,b\n");
    check_format(&dump_format_jsonl, 1e300, nasty,
                 "{\"section\":\"s\",\"n\":18446744073709551615,\"i\":-9223372036854775808,"
                 "\"a\":\"0x0\",\"r\":1.0000000000000001e+300,"
                 "\"t\":{\"bytes\":\"225c0a1bffe280aec3a900\"},\"w\":\"word\",\"l\":[\"a\",\"b\"]}"
                 "\n");
    check_format(&dump_format_jsonl, -3, (struct view){"\"\\\n\xc3\xa9\x7f", 6},
                 "{\"section\":\"s\",\"n\":18446744073709551615,\"i\":-9223372036854775808,"
                 "\"a\":\"0x0\",\"r\":-3,\"t\":\"\\\"\\\\\\u000a\xc3\xa9\\u007f\",\"w\":\"word\","
                 "\"l\":[\"a\",\"b\"]}\n");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_order_does_not_matter_in_real_traces),
        cmocka_unit_test(test_order_does_not_matter_in_made_up_traces),
        cmocka_unit_test(test_limit_and_sections),
        cmocka_unit_test(test_sorting_through_a_file),
        cmocka_unit_test(test_json_lines),
        cmocka_unit_test(test_formats),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
