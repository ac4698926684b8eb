/* A function's instructions with what was allocated through each call, on code made by hand. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "analysis/code/annotate.h"
#include "symbols/instructions.h"
#include "test/unit/analysis_fixture.h"

#define START UINT64_C(0x401000)

static const uint8_t x64[] = {
    0x55,                         /* +0  push rbp */
    0xe8, 0x10, 0x00, 0x00, 0x00, /* +1  call */
    0x48, 0x89, 0xe5,             /* +6  mov rbp, rsp */
    0xff, 0xd0,                   /* +9  call rax */
    0x06,                         /* +11 no instruction */
    0xc3,                         /* +12 ret */
    0xe8, 0x00, 0x01, 0x00, 0x00, /* +13 call, which does not return */
};

static const uint8_t arm64[] = {
    0xfd, 0x7b, 0xbf, 0xa9, /* +0  stp x29, x30, [sp, #-16]! */
    0x02, 0x00, 0x00, 0x94, /* +4  bl */
    0xff, 0xff, 0xff, 0xff, /* +8  no instruction */
    0x00, 0x01, 0x3f, 0xd6, /* +12 blr x8 */
    0xc0, 0x03, 0x5f, 0xd6, /* +16 ret */
    0xfd, 0x7b,             /* +20 cut off */
};

struct world {
    struct fixture f;
    struct annotate_texts texts;
    struct sample_input samples;
    struct disassembler d;
    uint64_t next_block;
};

static int walk(void *ctx, uint64_t address, struct view code,
                int (*line)(void *to, uint64_t address, size_t size, const char *text, bool known,
                            struct err *e),
                void *to, struct err *e)
{
    return instructions_print(ctx, address, code, line, to, e);
}

static void world_init(struct world *w, enum instruction_set set)
{
    *w = (struct world){.next_block = 0x10000};
    fixture_init(&w->f);
    annotate_texts_init(&w->texts, &w->f.trace);
    w->d = (struct disassembler){instructions_new(set), walk, set == CODE_ARM64 ? 4 : 1};
    assert_non_null(w->d.ctx);
}

static void world_release(struct world *w)
{
    instructions_free(w->d.ctx);
    annotate_texts_release(&w->texts);
    sample_input_release(&w->samples);
    fixture_release(&w->f);
}

static void put_code(struct world *w, uint64_t address, const void *bytes, size_t n)
{
    const struct rec_symbol_code code = {address, {bytes, n}};
    assert_int_equal(annotate_texts_put(&w->texts, REC_SYMBOL_CODE, &code, 1, &w->f.e), 0);
}

static void put_source(struct world *w, const char *path, const char *text)
{
    const struct rec_source_file file = {view_of(path), view_of(text)};
    assert_int_equal(annotate_texts_put(&w->texts, REC_SOURCE_FILE, &file, 1, &w->f.e), 0);
}

static uint64_t id_of(uint64_t address)
{
    return address & (FRAME_ID_CUSTOM - 1);
}

/* What is at an address: functions from the innermost on, all at file:line of the first. */
static void put_frame(struct world *w, uint64_t address, const char *const *names, unsigned n,
                      const char *file, uint32_t line)
{
    struct rec_inline_frame in[4] = {{0}};
    for (unsigned i = 0; i < n; i++)
        in[i] = (struct rec_inline_frame){.function = fixture_text(&w->f, names[i]),
                                          .file = fixture_text(&w->f, file),
                                          .line = line};
    assert_int_equal(callstacks_resolve(&w->f.trace.callstacks, id_of(address),
                                        fixture_text(&w->f, "prog"), in, n, &w->f.e),
                     0);
}

static void put_name(struct world *w, uint64_t address, const char *name)
{
    put_frame(w, address, &name, 1, "a.c", 3);
}

/* The call stack of these addresses, innermost first; 0 ends them. */
static uint32_t intern(struct world *w, const uint64_t *addresses)
{
    uint64_t ids[8];
    uint32_t n = 0, stack;
    bool fresh;
    for (; addresses[n]; n++)
        ids[n] = id_of(addresses[n]);
    assert_int_equal(callstacks_intern(&w->f.trace.callstacks, ids, n, &stack, &fresh, &w->f.e), 0);
    return stack;
}

/* An allocation whose call stack returns to these addresses. */
static uint64_t allocate(struct world *w, uint64_t size, const uint64_t *addresses)
{
    uint32_t stack = intern(w, addresses);
    w->next_block += 0x10000;
    fixture_alloc(&w->f, 0, w->next_block, size, stack);
    return w->next_block;
}

#define ALLOCATE(w, size, ...) allocate(w, size, (const uint64_t[]){__VA_ARGS__, 0})

static void annotate(struct world *w, const char *wanted, struct annotation *a)
{
    const struct selection_options all = {0};
    struct annotate_functions found;
    struct selection s;
    assert_int_equal(annotate_find(&found, &w->texts, wanted, false, &w->f.e), 0);
    assert_int_equal(found.list.len, 1);
    assert_int_equal(selection_init(&s, &w->f.trace, &all, &w->f.e), 0);
    assert_int_equal(
        annotate_build(a, &w->texts, &w->samples, &found.list.at[0], &s, &w->d, &w->f.e), 0);
    selection_release(&s);
    annotate_functions_release(&found);
}

struct expected_line {
    uint64_t offset;
    uint32_t size;
    bool is_code;
    const char *text; /* the begin of it */
    struct annotate_figures figures;
};

static void assert_figures(struct annotate_figures a, struct annotate_figures b)
{
    assert_int_equal(a.count, b.count);
    assert_int_equal(a.bytes, b.bytes);
    assert_int_equal(a.live_count, b.live_count);
    assert_int_equal(a.live_bytes, b.live_bytes);
}

static void assert_lines(const struct annotation *a, const struct expected_line *want, size_t n)
{
    assert_int_equal(a->lines.len, n);
    for (size_t i = 0; i < n; i++) {
        const struct annotate_line *l = &a->lines.at[i];
        assert_int_equal(l->address, a->function.address + want[i].offset);
        assert_int_equal(l->size, want[i].size);
        assert_int_equal(l->is_code, want[i].is_code);
        assert_true(l->len >= strlen(want[i].text));
        assert_memory_equal(a->bytes.data + l->text, want[i].text, strlen(want[i].text));
        assert_figures(l->figures, want[i].figures);
        assert_int_equal(l->is_call, want[i].figures.count != 0);
    }
}

static void calls_of_x64(void **state)
{
    static const struct expected_line want[] = {
        {0, 1, true, "push rbp", {0}},
        {1, 5, true, "call 0x401016", {3, 111, 2, 110}},
        {6, 3, true, "mov rbp, rsp", {1, 5000, 1, 5000}},
        {9, 2, true, "call rax", {2, 1001, 1, 1000}},
        {11, 1, false, ".byte 0x06", {0}},
        {12, 1, true, "ret", {0}},
        {13, 5, true, "call 0x401112", {1, 7, 1, 7}},
    };
    struct world w;
    struct annotation a;
    (void)state;
    world_init(&w, CODE_X64);
    put_code(&w, START, x64, sizeof x64);
    put_code(&w, START + sizeof x64, x64, 1); /* the last call returns to what begins there */
    put_name(&w, START, "work(int)");
    put_name(&w, 0x500, "inner");
    ALLOCATE(&w, 10, START + 6, 0x900000);
    ALLOCATE(&w, 100, 0x500, START + 6, 0x900000);
    uint64_t freed = ALLOCATE(&w, 1, START + 6, START + 11, START + 6, START + 11, 0x900000);
    fixture_free(&w.f, 0, freed, 0);
    ALLOCATE(&w, 1000, START + 11);
    ALLOCATE(&w, 7, START + sizeof x64);
    ALLOCATE(&w, 5000, START + 8);        /* into the middle of an instruction */
    ALLOCATE(&w, 70000, START, 0x900000); /* of what lies in front */
    ALLOCATE(&w, 70000, START + 0x100, 0x900000);
    annotate(&w, "work", &a);
    assert_lines(&a, want, sizeof want / sizeof want[0]);
    assert_figures(a.through, (struct annotate_figures){6, 6118, 5, 6117});
    /* The one that `inner` made, which the function called, is not its own. */
    assert_figures(a.own, (struct annotate_figures){5, 6018, 4, 6017});
    assert_int_equal(a.shown, sizeof x64);
    annotation_release(&a);
    world_release(&w);
}

static void put_samples(struct world *w, enum record_type type, int64_t time, unsigned n,
                        const uint64_t *addresses)
{
    for (unsigned i = 0; i < n; i++) {
        const struct rec_sample s = {.time = time + i, .callstack = intern(w, addresses)};
        assert_int_equal(sample_input_put(&w->samples, type, &s, 1, &w->f.e), 0);
    }
}

static void samples_by_instruction(void **state)
{
    static const struct annotate_samples want[] = {{0}, {0, 7}, {3, 3}, {0, 4}, {0}, {0}, {0}};
    const struct rec_thread thread = {.id = 5};
    const struct rec_count count = {0};
    struct world w;
    struct annotation a;
    (void)state;
    world_init(&w, CODE_X64);
    put_code(&w, START, x64, sizeof x64);
    put_name(&w, START, "work(int)");
    assert_int_equal(sample_input_put(&w.samples, REC_THREAD, &thread, 1, &w.f.e), 0);
#define AT(...) (const uint64_t[]){__VA_ARGS__, 0}
    /* Waiting, which is not counted, at a time at which a sample lists it once more. */
    put_samples(&w, REC_SWITCH_SAMPLE, 100, 2, AT(START, 0x900000));
    assert_int_equal(sample_input_put(&w.samples, REC_SAMPLES, &count, 1, &w.f.e), 0);
    put_samples(&w, REC_SAMPLE, 1, 3, AT(START + 6, 0x900000));         /* where they were taken */
    put_samples(&w, REC_SAMPLE, 11, 2, AT(0x500, START + 6, 0x900000)); /* in what it calls */
    put_samples(&w, REC_SAMPLE, 21, 4, AT(0x500, START + 11, START + 6, 0x900000));
    put_samples(&w, REC_SAMPLE, 31, 1, AT(0x500, START + 6, START + 6, 0x900000)); /* recursion */
    put_samples(&w, REC_SAMPLE, 41, 9, AT(0x500, 0x900000));
    put_samples(&w, REC_SAMPLE, 100, 2, AT(START, 0x900000));
#undef AT
    annotate(&w, "work", &a);
    assert_int_equal(a.lines.len, sizeof want / sizeof want[0]);
    for (size_t i = 0; i < a.lines.len; i++) {
        assert_int_equal(a.lines.at[i].samples.self, want[i].self);
        assert_int_equal(a.lines.at[i].samples.total, want[i].total);
    }
    assert_int_equal(a.samples.self, 3);
    assert_int_equal(a.samples.total, 10);
    assert_int_equal(w.samples.switch_samples, 2);
    annotation_release(&a);
    world_release(&w);
}

static void calls_of_arm64(void **state)
{
    static const struct expected_line want[] = {
        {0, 4, true, "stp x29, x30", {0}},
        {4, 4, true, "bl #0x40100c", {1, 10, 1, 10}},
        {8, 4, false, ".word 0xffffffff", {0}},
        {12, 4, true, "blr x8", {2, 300, 2, 300}},
        {16, 4, true, "ret", {0}},
        {20, 1, false, ".byte 0xfd", {0}},
        {21, 1, false, ".byte 0x7b", {0}},
    };
    struct world w;
    struct annotation a;
    (void)state;
    world_init(&w, CODE_ARM64);
    put_code(&w, START, arm64, sizeof arm64);
    ALLOCATE(&w, 10, START + 8);
    ALLOCATE(&w, 100, START + 16, 0x900000);
    ALLOCATE(&w, 200, 0x900000, START + 16);
    annotate(&w, "0x401010", &a);
    assert_lines(&a, want, sizeof want / sizeof want[0]);
    assert_figures(a.through, (struct annotate_figures){3, 310, 3, 310});
    annotation_release(&a);
    world_release(&w);
}

static void assert_place(const struct annotation *a, size_t line, const char *function,
                         uint32_t number, const char *text)
{
    assert_int_not_equal(a->lines.at[line].place, ANNOTATE_NO_PLACE);
    const struct annotate_place *p = &a->places.at[a->lines.at[line].place];
    assert_true(view_equal(p->frame.function, view_of(function)));
    assert_int_equal(p->frame.line, number);
    assert_int_equal(p->has_text, text != NULL);
    if (text) {
        assert_int_equal(p->len, strlen(text));
        assert_memory_equal(a->bytes.data + p->text, text, p->len);
    }
}

static void source_lines(void **state)
{
    static const char *const inlined[] = {"helper", "work"}, *const plain[] = {"work"};
    struct world w;
    struct annotation a;
    (void)state;
    world_init(&w, CODE_X64);
    put_code(&w, START, x64, sizeof x64);
    put_source(&w, "", "no path\n");
    put_source(&w, "b.c", "wrong\nwrong\nwrong\n");
    put_source(&w, "a.c", "first\n\t second();  \r\n\nlast without an end");
    put_frame(&w, START, plain, 1, "a.c", 4);
    put_frame(&w, START + 1, inlined, 2, "a.c", 2);
    put_frame(&w, START + 6, plain, 1, "a.c", 3);
    put_frame(&w, START + 9, plain, 1, "a.c", 5);
    put_frame(&w, START + 12, plain, 1, "c.c", 1);
    put_frame(&w, START + 18, plain, 1, "a.c", 1);
    ALLOCATE(&w, 7, START + 18);
    annotate(&w, "0x401000", &a);
    assert_place(&a, 0, "work", 4, "last without an end");
    assert_place(&a, 1, "helper", 2, "second();");
    assert_place(&a, 2, "work", 3, "");
    assert_place(&a, 3, "work", 5, NULL); /* behind the end of the file */
    assert_int_equal(a.lines.at[4].place, ANNOTATE_NO_PLACE);
    assert_place(&a, 5, "work", 1, NULL);    /* a file that the trace does not hold */
    assert_place(&a, 6, "work", 1, "first"); /* known of where the call returns to alone */
    annotation_release(&a);
    world_release(&w);
}

/* ---- which function */

static size_t find(struct world *w, const char *wanted, bool regex, uint64_t first)
{
    struct annotate_functions f;
    w->f.e = (struct err){0};
    if (annotate_find(&f, &w->texts, wanted, regex, &w->f.e) != 0)
        return 0;
    assert_true(f.list.len > 0);
    assert_int_equal(f.list.at[0].address, first);
    size_t n = f.list.len;
    annotate_functions_release(&f);
    return n;
}

static void assert_none(struct world *w, const char *wanted, bool regex, enum err_code code,
                        const char *part)
{
    assert_int_equal(find(w, wanted, regex, 0), 0);
    assert_int_equal(w->f.e.code, code);
    assert_non_null(strstr(w->f.e.text, part));
}

static void functions_by_name(void **state)
{
    static const char *const inlined[] = {"tiny(int)", "load(int)"};
    struct world w;
    (void)state;
    world_init(&w, CODE_X64);
    put_name(&w, 0x7000, "absent()");
    assert_none(&w, "absent", false, ERR_CHECK, "TRACY_NO_CODE_TRANSFER");
    put_code(&w, START + 0x200, x64, sizeof x64);
    put_code(&w, START, x64, sizeof x64);
    put_code(&w, START + 0x100, x64, sizeof x64);
    put_code(&w, START + 0x300, x64, sizeof x64);
    put_name(&w, START, "load(int)");
    put_name(&w, START + 0x100, "load(char const*)");
    put_name(&w, START + 0x200, "std::unload()");
    put_frame(&w, START + 6, inlined, 2, "a.c", 1);
    assert_int_equal(find(&w, "load", false, START), 2); /* both overloads, not unload */
    assert_int_equal(find(&w, "load(int)", false, START), 1);
    assert_int_equal(find(&w, "std::unload", false, START + 0x200), 1);
    assert_int_equal(find(&w, "oad", false, START), 3);
    assert_int_equal(find(&w, "^load\\(", true, START), 2);
    assert_int_equal(find(&w, "unl.ad", true, START + 0x200), 1);
    assert_int_equal(find(&w, "0x401000", false, START), 1);
    assert_int_equal(find(&w, "0x401011", false, START), 1);
    assert_int_equal(find(&w, "0x401300", false, START + 0x300), 1);
    assert_none(&w, "0x401012", false, ERR_USAGE, "no function holds");
    assert_none(&w, "0x400fff", false, ERR_USAGE, "4 functions");
    assert_none(&w, "0x", false, ERR_USAGE, "is no address");
    assert_none(&w, "0x1ffffffffffffffff", false, ERR_USAGE, "is no address");
    assert_none(&w, "", false, ERR_USAGE, "empty");
    assert_none(&w, "nothing", false, ERR_USAGE, "no function is called");
    assert_none(&w, "noth.ng", true, ERR_USAGE, "no function's name matches");
    assert_none(&w, "(", true, ERR_USAGE, "no regular expression");
    assert_none(&w, "absent", false, ERR_CHECK, "no machine code of 'absent()'");
    assert_none(&w, "tiny", false, ERR_CHECK, "inlined, for example into 'load(int)'");
    world_release(&w);
}

/* ---- what no client would send */

static void end_of_the_address_space(void **state)
{
    static const uint8_t nops[64] = {[0 ... 63] = 0x90};
    struct world w;
    struct annotation a;
    (void)state;
    world_init(&w, CODE_X64);
    put_code(&w, UINT64_MAX - 7, nops, sizeof nops);
    put_code(&w, 0, nops, sizeof nops);
    ALLOCATE(&w, 10, UINT64_MAX - 3);
    ALLOCATE(&w, 100, UINT64_MAX);
    ALLOCATE(&w, 1000, 5);
    annotate(&w, "0xfffffffffffffffa", &a);
    assert_int_equal(a.function.size, 8);
    assert_int_equal(a.lines.len, 8);
    assert_figures(a.through, (struct annotate_figures){2, 110, 2, 110});
    assert_figures(a.lines.at[3].figures, (struct annotate_figures){1, 10, 1, 10});
    assert_figures(a.lines.at[6].figures, (struct annotate_figures){1, 100, 1, 100});
    annotation_release(&a);
    annotate(&w, "0x0", &a);
    assert_int_equal(a.lines.len, sizeof nops);
    assert_figures(a.through, (struct annotate_figures){1, 1000, 1, 1000});
    annotation_release(&a);
    world_release(&w);
}

static void wild_code(void **state)
{
    static uint8_t long_code[2 * ANNOTATE_CODE_MAX];
    struct world w;
    struct annotation a;
    (void)state;
    world_init(&w, CODE_X64);
    memset(long_code, 0x06, sizeof long_code); /* none is an instruction */
    put_code(&w, START, long_code, sizeof long_code);
    put_code(&w, START, x64, sizeof x64); /* the first one stands */
    put_code(&w, 0x100, x64, 0);
    put_code(&w, 0x200, x64, 3); /* cut within a call */
    ALLOCATE(&w, 10, START + ANNOTATE_CODE_MAX);
    ALLOCATE(&w, 100, START + ANNOTATE_CODE_MAX + 1);
    annotate(&w, "0x401000", &a);
    assert_int_equal(a.function.size, sizeof long_code);
    assert_int_equal(a.shown, ANNOTATE_CODE_MAX);
    assert_int_equal(a.lines.len, ANNOTATE_CODE_MAX);
    assert_figures(a.lines.at[a.lines.len - 1].figures, (struct annotate_figures){1, 10, 1, 10});
    assert_figures(a.through, (struct annotate_figures){2, 110, 2, 110});
    annotation_release(&a);
    annotate(&w, "0x100", &a);
    assert_int_equal(a.lines.len, 0);
    annotation_release(&a);
    annotate(&w, "0x200", &a);
    assert_int_equal(a.shown, 3);
    assert_true(a.lines.at[0].is_code && !a.lines.at[1].is_code);
    annotation_release(&a);
    world_release(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(calls_of_x64),      cmocka_unit_test(samples_by_instruction),
        cmocka_unit_test(calls_of_arm64),    cmocka_unit_test(source_lines),
        cmocka_unit_test(functions_by_name), cmocka_unit_test(end_of_the_address_space),
        cmocka_unit_test(wild_code),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
