/* When machine code and source texts are asked for, and what their answers lead to. */

#include "protocol_support.h"

#define CODE_ASKS (QUERY_ASK_DEFAULT | 1u << QUERY_SYMBOL_CODE | 1u << QUERY_SOURCE_CODE)

struct code_rig {
    struct rig r;
    struct buf b;
    uint64_t read_at; /* of the last code that was read */
    size_t read_len;
};

/* Every second byte is an instruction. */
static int read_code(void *ctx, uint64_t address, struct view code, code_found_fn *found,
                     void *found_ctx, struct err *e)
{
    struct code_rig *c = ctx;
    c->read_at = address;
    c->read_len = code.len;
    for (size_t i = 0; i < code.len; i += 2)
        if (found(found_ctx, address + i, e) != 0)
            return -1;
    return 0;
}

static void setup(struct code_rig *c, uint32_t ask, uint64_t exec_time)
{
    *c = (struct code_rig){0};
    struct rig *r = &c->r;
    r->version = wire_version_find(82);
    r->welcome = (struct welcome){.timer_mul = 1, .cpu_arch = ARCH_X64, .exec_time = exec_time};
    r->query = query_new(
        &(struct query_config){.version = r->version, .space = QUERY_SPACE_MAX, .ask = ask});
    r->decoder = decoder_new(&(struct decoder_config){.version = r->version,
                                                      .welcome = &r->welcome,
                                                      .query = r->query,
                                                      .sink = {.ctx = &r->log,
                                                               .event = log_event,
                                                               .callstack = log_callstack,
                                                               .custom_frame = log_custom_frame},
                                                      .read_code = {c, read_code}});
    assert_non_null(r->decoder);
}

static void teardown(struct code_rig *c)
{
    rig_release(&c->r);
    buf_release(&c->b);
}

/* A frame's answer with one function per file of the list, innermost first. */
static void put_frame(struct code_rig *c, uint64_t address, const char *const *files, unsigned n,
                      uint64_t symbol, uint32_t size)
{
    struct rig *r = &c->r;
    put_string(r->version, &c->b, false, view_of("image"));
    PUT(r, &c->b, "CallstackFrameSize", (struct view){0}, ENC_INT("ptr", address),
        ENC_INT("size", n));
    for (unsigned i = 0; i < n; i++) {
        put_string(r->version, &c->b, false, view_of("function"));
        put_string(r->version, &c->b, true, view_of(files[i]));
        PUT(r, &c->b, "CallstackFrame", (struct view){0}, ENC_INT("line", 1),
            ENC_INT("symAddr", symbol), ENC_INT("symLen", size));
    }
    rig_decode(r, &c->b);
}

static void put_symbol(struct code_rig *c, uint64_t symbol, const char *file)
{
    put_string(c->r.version, &c->b, false, view_of(file));
    PUT(&c->r, &c->b, "SymbolInformation", (struct view){0}, ENC_INT("line", 2),
        ENC_INT("symAddr", symbol));
    rig_decode(&c->r, &c->b);
}

static uint64_t asked(struct code_rig *c, enum query_kind kind)
{
    struct query_stats s;
    query_stats(c->r.query, &s);
    return s.asked[kind];
}

static void code_of_a_symbol_and_its_lines(void **state)
{
    static const char *const file[] = {"a.c"};
    struct code_rig c;
    (void)state;
    setup(&c, CODE_ASKS, 0);
    put_frame(&c, 0x1004, file, 1, 0x1000, 8);
    assert_int_equal(asked(&c, QUERY_SYMBOL_CODE), 0); /* first the client tells of the symbol */
    put_symbol(&c, 0x1000, "a.c");
    assert_int_equal(asked(&c, QUERY_SYMBOL_CODE), 1);
    assert_int_equal(asked(&c, QUERY_CALLSTACK_FRAME), 0);
    PUT(&c.r, &c.b, "SymbolCode", ((struct view){"12345678", 8}), ENC_INT("ptr", 0x1000));
    rig_decode(&c.r, &c.b);
    assert_int_equal(c.read_at, 0x1000);
    assert_int_equal(c.read_len, 8);
    assert_int_equal(asked(&c, QUERY_CALLSTACK_FRAME), 3); /* that at 0x1004 is known */
    assert_int_equal(asked(&c, QUERY_SOURCE_CODE), 0);     /* the executable's age is unknown */
    teardown(&c);
}

static void no_code_of_odd_sizes_or_unwanted(void **state)
{
    static const char *const file[] = {"a.c"};
    struct code_rig c;
    (void)state;
    setup(&c, CODE_ASKS, 0);
    put_frame(&c, 0x1000, file, 1, 0x1000, 0);
    put_frame(&c, 0x2000, file, 1, 0x2000, (128u << 10) + 1);
    put_frame(&c, 0x3000, file, 1, 0x3000, 128u << 10);
    /* The frame that a symbol is first met in decides, though another tells of it otherwise. */
    put_frame(&c, 0x1004, file, 1, 0x1000, 16);
    put_frame(&c, 0x3004, file, 1, 0x3000, 0);
    for (uint64_t symbol = 0x1000; symbol <= 0x3000; symbol += 0x1000)
        put_symbol(&c, symbol, "a.c");
    assert_int_equal(asked(&c, QUERY_SYMBOL_CODE), 1);
    teardown(&c);
    setup(&c, QUERY_ASK_DEFAULT, 1);
    put_frame(&c, 0x3000, file, 1, 0x3000, 64);
    put_symbol(&c, 0x3000, "a.c");
    assert_int_equal(asked(&c, QUERY_SYMBOL_CODE), 0);
    assert_int_equal(asked(&c, QUERY_SOURCE_CODE), 0);
    teardown(&c);
}

/* The order in which the official server would ask; each name once as text, once by pointer. */
static void source_names_in_the_official_order(void **state)
{
    static const char *const two[] = {"in.h", "out.c"};
    static const char *const more[] = {"out.c", "new.c"};
    struct code_rig c;
    (void)state;
    setup(&c, CODE_ASKS, 1);
    struct rig *r = &c.r;
    put_frame(&c, 0x10, two, 2, 0, 0);
    put_frame(&c, 0x10, more, 2, 0, 0); /* told already */
    PUT(r, &c.b, "LockAnnounce", (struct view){0}, ENC_INT("id", 1), ENC_INT("lckloc", 500));
    PUT(r, &c.b, "SourceLocation", (struct view){0}, ENC_INT("function", 600),
        ENC_INT("file", 601));
    PUT(r, &c.b, "StringData", view_of("function"), ENC_INT("ptr", 600));
    PUT(r, &c.b, "StringData", view_of("out.c"), ENC_INT("ptr", 601));
    rig_decode(r, &c.b);
    put_frame(&c, 0x20, more, 2, 0, 0);
    put_symbol(&c, 0x99, "symbol.c");
    assert_string_equal(buf_str(&r->log.sources),
                        "0 in.h\n1 out.c\n2 out.c\n3 new.c\n4 symbol.c\n");
    assert_int_equal(asked(&c, QUERY_SOURCE_CODE), 4); /* we ask once for each text */
    teardown(&c);
}

/* A file whose text has come is not asked for again, whoever asked. */
static void received_sources_get_no_further_number(void **state)
{
    static const char *const file[] = {"a.c"};
    static const char *const other[] = {"b.c"};
    (void)state;
    for (int ours = 0; ours < 2; ours++) {
        struct code_rig c;
        setup(&c, CODE_ASKS, 1);
        struct rig *r = &c.r;
        put_frame(&c, 0x10, file, 1, 0, 0);
        PUT(r, &c.b, "LockAnnounce", (struct view){0}, ENC_INT("id", 1), ENC_INT("lckloc", 500));
        PUT(r, &c.b, "SourceLocation", (struct view){0}, ENC_INT("file", 601));
        PUT(r, &c.b, "SourceCode", view_of("int a;"), ENC_INT("ptr", ours ? EVENT_SOURCE_OURS : 0));
        PUT(r, &c.b, "StringData", view_of("a.c"), ENC_INT("ptr", 601));
        rig_decode(r, &c.b);
        put_frame(&c, 0x20, other, 1, 0, 0);
        assert_string_equal(buf_str(&r->log.sources), "0 a.c\n1 b.c\n");
        teardown(&c);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(code_of_a_symbol_and_its_lines),
        cmocka_unit_test(no_code_of_odd_sizes_or_unwanted),
        cmocka_unit_test(source_names_in_the_official_order),
        cmocka_unit_test(received_sources_get_no_further_number),
    };
    return cmocka_run_group_tests_name("code and source texts", tests, NULL, NULL);
}
