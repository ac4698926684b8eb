/*
 * Frames named anew on their way through a filter, and what a new name is worth beside the old one.
 */

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <setjmp.h>
#include <cmocka.h>

#include "trace/store/frame_book.h"
#include "trace/store/frame_name.h"
#include "trace_test.h"
#include "trace_whole.h"

#define ALLSCEN "fixtures/traces/v0.14.0/allscen_sys.tracy"
#define MEMSCEN "fixtures/traces/v0.14.0/memscen.tracy"

/* ---- what a text says */

static void expect_name(const char *text, enum frame_name_kind kind, const char *name,
                        uint64_t offset)
{
    struct frame_name f = frame_name_parse(view_of(text), view_of("/lib/libfoo.so.1"));
    if (f.kind != kind)
        fail_msg("%s: %d", text, (int)f.kind);
    assert_true(view_equal(f.name, view_of(name)));
    assert_int_equal(f.offset, offset);
}

static void test_names(void **state)
{
    (void)state;
    static const char *const none[] = {"",
                                       "[unknown]",
                                       "[error]",
                                       "???",
                                       "??",
                                       "[unknown] + 140737352",
                                       "/lib/libfoo.so.1",
                                       "libfoo.so.1+0x1a2b",
                                       "libbar.so (base unknown)"};
    for (size_t i = 0; i < sizeof none / sizeof *none; i++)
        expect_name(none[i], FRAME_NAME_NONE, "", 0);
    expect_name("[unresolved]", FRAME_NAME_UNRESOLVED, "", 0);
    expect_name("[unresolved] 12", FRAME_NAME_UNRESOLVED, "", 0);
    expect_name("malloc + 12", FRAME_NAME_NEAR, "malloc", 12);
    expect_name("f(int) + 0", FRAME_NAME_NEAR, "f(int)", 0);
    expect_name("malloc", FRAME_NAME_FULL, "malloc", 0);
    expect_name("a + b", FRAME_NAME_FULL, "a + b", 0);
    expect_name("operator+ + ", FRAME_NAME_FULL, "operator+ + ", 0);
    expect_name("+0x12", FRAME_NAME_FULL, "+0x12", 0);
    expect_name("x+0x", FRAME_NAME_FULL, "x+0x", 0);
    expect_name(" (base unknown)", FRAME_NAME_FULL, " (base unknown)", 0);
    assert_true(view_equal(frame_image_name(view_of("/a/b")), view_of("b")));
    assert_true(view_equal(frame_image_name(view_of("b")), view_of("b")));
    assert_true(frame_file_is_unknown(view_of("[unknown]"), view_of("/x")));
    assert_true(frame_file_is_unknown(view_of("/x"), view_of("/x")));
    assert_false(frame_file_is_unknown(view_of("x.c"), view_of("/x")));
    assert_true(frame_file_is_unknown(view_of("[.dynsym]"), view_of("/x")));
    assert_int_equal(frame_file_origin(view_of("[.dynsym]")), NAME_FROM_DYNSYM);
    assert_int_equal(frame_file_origin(view_of("[neighbour]")), NAME_FROM_NEIGHBOUR);
    assert_int_equal(frame_file_origin(view_of(".dynsym")), NAME_FROM_ELSEWHERE);
    assert_int_equal(frame_file_origin(view_of("[.dynsym")), NAME_FROM_ELSEWHERE);
    assert_int_equal(frame_file_origin(view_of("[unknown]")), NAME_FROM_ELSEWHERE);
    assert_int_equal(frame_file_origin(view_of("[")), NAME_FROM_ELSEWHERE);
    assert_int_equal(frame_file_origin(view_of("")), NAME_FROM_ELSEWHERE);
}

/* ---- what is better */

struct book {
    struct callstacks callstacks;
    struct strings strings;
    struct frame_book book;
    struct err e;
};

static void book_open(struct book *b)
{
    *b = (struct book){0};
    assert_int_equal(callstacks_init(&b->callstacks, &b->e), 0);
    strings_init(&b->strings);
    b->book.callstacks = &b->callstacks;
    b->book.strings = &b->strings;
}

static void book_close(struct book *b)
{
    frame_book_release(&b->book);
    callstacks_release(&b->callstacks);
    strings_release(&b->strings);
}

static uint32_t text(struct book *b, const char *s)
{
    return strings_intern(&b->strings, view_of(s), &b->e);
}

/* Adds a frame of two functions, or one; gives its number. */
static uint32_t frame(struct book *b, uint64_t id, const char *inner, const char *outer,
                      const char *file)
{
    const struct rec_inline_frame in[] = {{text(b, inner), text(b, file), 3, 0},
                                          {text(b, outer ? outer : ""), text(b, file), 4, 0}};
    assert_int_equal(
        callstacks_resolve(&b->callstacks, id, text(b, "/bin/prog"), in, outer ? 2 : 1, &b->e), 0);
    return callstacks_frame(&b->callstacks, id);
}

static void test_what_is_wanted(void **state)
{
    (void)state;
    struct book b;
    book_open(&b);
    uint32_t unknown = frame(&b, 1, "[unknown]", NULL, "[unknown]");
    uint32_t open = frame(&b, 2, "[unresolved]", NULL, "[unknown]");
    uint32_t near = frame(&b, 3, "malloc + 12", NULL, "[unknown]");
    uint32_t bare = frame(&b, 4, "f()", NULL, "[unknown]");
    uint32_t full = frame(&b, 5, "f()", NULL, "f.c");
    uint32_t two = frame(&b, 6, "g()", "f()", "f.c");
    uint32_t never = callstacks_frame(&b.callstacks, 7);
    static const struct {
        int better[3], unknown[3], all[3]; /* by what is known: place, symbol, debug (1 function) */
    } want[] = {
        {{1, 1, 1}, {1, 1, 1}, {1, 1, 1}}, /* unknown */
        {{1, 1, 1}, {1, 1, 1}, {1, 1, 1}}, /* open */
        {{0, 1, 1}, {0, 0, 0}, {0, 1, 1}}, /* near */
        {{0, 0, 1}, {0, 0, 0}, {0, 1, 1}}, /* bare */
        {{0, 0, 0}, {0, 0, 0}, {0, 1, 1}}, /* full */
        {{0, 0, 0}, {0, 0, 0}, {0, 1, 1}}, /* two */
        {{1, 1, 1}, {1, 1, 1}, {1, 1, 1}}, /* never */
    };
    const uint32_t frames[] = {unknown, open, near, bare, full, two, never};
    for (size_t i = 0; i < sizeof frames / sizeof *frames; i++) {
        for (int k = FRAME_PLACE; k <= FRAME_DEBUG; k++) {
            enum frame_knowledge known = (enum frame_knowledge)k;
            bool file = known == FRAME_DEBUG;
            if (frame_book_wants(&b.book, frames[i], FRAME_BETTER, known, 1, file) !=
                    want[i].better[k] ||
                frame_book_wants(&b.book, frames[i], FRAME_UNKNOWN, known, 1, file) !=
                    want[i].unknown[k] ||
                frame_book_wants(&b.book, frames[i], FRAME_ALL, known, 1, file) != want[i].all[k])
                fail_msg("frame %zu, knowledge %d", i, k);
        }
    }
    /* More functions than the client told, but only from debug information. */
    assert_true(frame_book_wants(&b.book, full, FRAME_BETTER, FRAME_DEBUG, 2, true));
    assert_false(frame_book_wants(&b.book, two, FRAME_BETTER, FRAME_DEBUG, 2, true));
    assert_true(frame_book_wants(&b.book, two, FRAME_BETTER, FRAME_DEBUG, 3, true));
    assert_false(frame_book_wants(&b.book, bare, FRAME_BETTER, FRAME_DEBUG, 1, false));
    assert_false(frame_book_is_named(&b.book, unknown));
    assert_false(frame_book_is_named(&b.book, never));
    assert_true(frame_book_is_named(&b.book, near));
    book_close(&b);
}

#define KERNEL_FRAME UINT64_C(0x3fffffff81000123) /* as a frame's id has 0xffffffff81000123 */

static void test_uses(void **state)
{
    (void)state;
    struct book b;
    book_open(&b);
    const uint64_t sample[] = {0x1000, 0x2000};
    const uint64_t system_call[] = {KERNEL_FRAME, KERNEL_FRAME + 1, 0x3000, 0x4000};
    const uint64_t call[] = {0x5000, 0x1000, 0x6000};
    const uint64_t again[] = {0x7000, 0x2000};
    assert_int_equal(frame_address(KERNEL_FRAME) >> 32, 0xffffffffu);
    assert_int_equal(frame_book_use(&b.book, again, 2, true, &b.e), 0);
    assert_int_equal(frame_book_use(&b.book, sample, 2, true, &b.e), 0);
    assert_int_equal(frame_book_use(&b.book, system_call, 4, true, &b.e), 0);
    assert_true(frame_book_is_exact(&b.book, callstacks_frame(&b.callstacks, 0x1000)));
    assert_int_equal(frame_book_use(&b.book, call, 3, false, &b.e), 0);
    /* A call returns there, too. */
    assert_false(frame_book_is_exact(&b.book, callstacks_frame(&b.callstacks, 0x1000)));
    assert_false(frame_book_is_exact(&b.book, callstacks_frame(&b.callstacks, 0x2000)));
    assert_true(frame_book_is_exact(&b.book, callstacks_frame(&b.callstacks, 0x3000)));
    assert_false(frame_book_is_exact(&b.book, callstacks_frame(&b.callstacks, 0x4000)));
    assert_false(frame_book_is_exact(&b.book, callstacks_frame(&b.callstacks, 0x5000)));
    assert_true(frame_book_is_exact(&b.book, callstacks_frame(&b.callstacks, 0x7000)));
    uint32_t instruction = callstacks_frame(&b.callstacks, 0x9999);
    assert_false(frame_book_is_exact(&b.book, instruction));
    assert_int_equal(frame_book_note_instructions(&b.book, &b.e), 0);
    assert_true(frame_book_is_exact(&b.book, instruction));
    assert_true(frame_book_is_exact(&b.book, callstacks_frame(&b.callstacks, 0x3000)));
    assert_false(frame_book_is_exact(&b.book, callstacks_frame(&b.callstacks, 0x4000)));
    assert_false(frame_book_is_exact(&b.book, callstacks_frame(&b.callstacks, 0x1000)));
    book_close(&b);
}

/* ---- the filter */

struct renaming {
    size_t every; /* frames that get a name: each so-manieth */
    size_t functions;
    size_t frames, renamed;
    const char *fact;
};

static int rename_frames(void *ctx, struct reframe *r, struct err *e)
{
    struct renaming *n = ctx;
    struct frame_book *b = reframe_book(r);
    n->frames = b->callstacks->frames.len;
    for (size_t i = 0; i < n->frames; i += n->every, n->renamed++) {
        struct rec_inline_frame in[UINT8_MAX];
        for (size_t k = 0; k < n->functions; k++)
            in[k] = (struct rec_inline_frame){strings_intern(b->strings, view_of("new name"), e),
                                              strings_intern(b->strings, view_of("new.c"), e),
                                              (uint32_t)k + 1, 0x77};
        assert_int_equal(frame_book_rename(b, i, 0, in, n->functions, e), 0);
    }
    return n->fact ? reframe_set_fact(r, n->fact, e) : 0;
}

static const char *string_text(const struct whole *w, uint32_t sidx)
{
    size_t i = sidx ? whole_find(w, REC_STRING, sidx - 1) : SIZE_MAX;
    return i == SIZE_MAX ? "" : w->list.at[i].text;
}

static size_t count_facts(const struct whole *w, const char *want)
{
    size_t found = 0;
    for (size_t n = 0, i; (i = whole_find(w, REC_APP_INFO, n)) != SIZE_MAX; n++) {
        const struct rec_string_ref *ref = WHOLE(string_ref, w, i);
        if (ref->flags == STRING_REF_INDEX)
            found += strcmp(string_text(w, (uint32_t)ref->value + 1), want) == 0;
    }
    return found;
}

static void rename_all(const struct buf *in, struct renaming *n, struct buf *out, struct whole *w)
{
    struct err e = {0};
    const struct rewrite_options options = {.rename = rename_frames, .rename_ctx = n};
    buf_clear(out);
    if (whole_rewrite(in, &options, out, NULL, &e) != 0)
        fail_msg("%s", e.text);
    whole_read(out, w);
}

/* Field by field: what is between them may differ. */
static void assert_same_inlines(const struct rec_inline_frame *a, const struct rec_inline_frame *b,
                                size_t n)
{
    for (size_t i = 0; i < n; i++) {
        assert_int_equal(a[i].function, b[i].function);
        assert_int_equal(a[i].file, b[i].file);
        assert_int_equal(a[i].line, b[i].line);
        assert_int_equal(a[i].symbol, b[i].symbol);
    }
}

static void test_rename(void **state)
{
    (void)state;
    struct buf inner = {0}, out = {0}, again = {0};
    struct whole before = {0}, after = {0}, last = {0};
    struct renaming n = {.every = 3, .functions = 4, .fact = "some"};
    whole_fixture(ALLSCEN, &inner);
    whole_read(&inner, &before);
    rename_all(&inner, &n, &out, &after);
    size_t new = 0, old = 0;
    for (size_t k = 0, i; (i = whole_find(&after, REC_CALLSTACK_FRAME, k)) != SIZE_MAX; k++) {
        const struct rec_callstack_frame *f = WHOLE(callstack_frame, &after, i);
        const struct rec_inline_frame *in = (const void *)after.list.at[i].text;
        size_t was = whole_find(&before, REC_CALLSTACK_FRAME, k);
        assert_int_equal(f->frame, WHOLE(callstack_frame, &before, was)->frame);
        if (strcmp(string_text(&after, in[0].function), "new name") == 0) {
            new ++;
            assert_int_equal(f->n, 4);
            assert_int_equal(in[3].line, 4);
            assert_string_equal(string_text(&after, in[3].file), "new.c");
        } else {
            old++;
            assert_int_equal(after.list.at[i].text_len, before.list.at[was].text_len);
            assert_same_inlines(in, (const void *)before.list.at[was].text, f->n);
        }
    }
    assert_true(new > 10 && old > new);
    assert_int_equal(whole_count(&after, REC_STRING), whole_count(&before, REC_STRING) + 3);
    assert_int_equal(count_facts(&after, "tidemark.symbols=some"), 1);
    assert_int_equal(after.list.len, before.list.len + 4);
    /* Another time the fact is replaced. */
    struct renaming second = {.every = SIZE_MAX / 2, .functions = 1, .fact = "other"};
    rename_all(&out, &second, &again, &last);
    assert_int_equal(count_facts(&last, "tidemark.symbols=some"), 0);
    assert_int_equal(count_facts(&last, "tidemark.symbols=other"), 1);
    assert_int_equal(whole_count(&last, REC_APP_INFO), whole_count(&after, REC_APP_INFO));
    whole_release(&before);
    whole_release(&after);
    whole_release(&last);
    buf_release(&inner);
    buf_release(&out);
    buf_release(&again);
}

/* Who changes nothing gets the very same stream. */
static int leave_alone(void *ctx, struct reframe *r, struct err *e)
{
    (void)ctx;
    (void)e;
    assert_true(reframe_book(r)->callstacks->frames.len > 0);
    return 0;
}

static void test_identity(void **state)
{
    (void)state;
    for (size_t i = 0; i < TRACE_FIXTURES; i++) {
        struct buf inner = {0}, plain = {0}, out = {0};
        struct err e = {0};
        const struct rewrite_options nothing = {0};
        const struct rewrite_options options = {.rename = leave_alone};
        whole_fixture(trace_fixtures[i], &inner);
        assert_int_equal(whole_rewrite(&inner, &nothing, &plain, NULL, &e), 0);
        assert_int_equal(whole_rewrite(&inner, &options, &out, NULL, &e), 0);
        assert_int_equal(plain.len, out.len);
        assert_memory_equal(plain.data, out.data, out.len);
        buf_release(&inner);
        buf_release(&plain);
        buf_release(&out);
    }
}

/* Functions beyond what a frame can hold are for the caller to leave out. */
static void test_most_functions(void **state)
{
    (void)state;
    struct buf inner = {0}, out = {0};
    struct whole after = {0};
    struct renaming n = {.every = 1, .functions = UINT8_MAX};
    whole_fixture(MEMSCEN, &inner);
    rename_all(&inner, &n, &out, &after);
    size_t i = whole_find(&after, REC_CALLSTACK_FRAME, 0);
    assert_int_equal(WHOLE(callstack_frame, &after, i)->n, UINT8_MAX);
    whole_release(&after);
    buf_release(&inner);
    buf_release(&out);
}

static int name_symbols(void *ctx, struct reframe *r, struct err *e)
{
    size_t *n = ctx;
    struct frame_book *b = reframe_book(r);
    *n = reframe_symbol_count(r);
    for (size_t i = 0; i < *n; i++) {
        struct reframe_symbol *s = reframe_symbol(r, i);
        s->name = strings_intern(b->strings, view_of("new symbol"), e);
        s->line = 12;
        s->changed = true;
    }
    return 0;
}

static void test_symbols(void **state)
{
    (void)state;
    struct buf inner = {0}, out = {0};
    struct whole after = {0};
    struct err e = {0};
    size_t asked = 0, renamed = 0;
    const struct rewrite_options options = {.rename = name_symbols, .rename_ctx = &asked};
    whole_fixture(ALLSCEN, &inner);
    assert_int_equal(whole_rewrite(&inner, &options, &out, NULL, &e), 0);
    whole_read(&out, &after);
    for (size_t n = 0, i; (i = whole_find(&after, REC_SYMBOL, n)) != SIZE_MAX; n++) {
        const struct rec_symbol *s = WHOLE(symbol, &after, i);
        if (strcmp(string_text(&after, s->name), "new symbol") != 0)
            continue;
        renamed++;
        assert_int_equal(s->line, 12);
        assert_int_equal(s->is_inline, 0);
    }
    assert_int_equal(renamed, asked);
    whole_release(&after);
    buf_release(&inner);
    buf_release(&out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_names),    cmocka_unit_test(test_what_is_wanted),
        cmocka_unit_test(test_uses),     cmocka_unit_test(test_rename),
        cmocka_unit_test(test_identity), cmocka_unit_test(test_most_functions),
        cmocka_unit_test(test_symbols),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
