/* What the decoder refuses, with which words; and what it must bear although it looks odd. */

#include "protocol_support.h"

#include <math.h>

#define BYTES(S) ((struct view){(S), sizeof(S) - 1})
#define NONE ((struct view){0})
#define STACK BYTES("\x10\0\0\0\0\0\0\0\x20\0\0\0\0\0\0\0")

static void expect_error(struct rig *r, struct buf *b, const char *cause)
{
    size_t before = r->log.chain.len;
    assert_int_equal(decoder_frame(r->decoder, b->data, b->len, &r->err), -1);
    assert_int_equal(r->err.code, ERR_INPUT);
    if (!strstr(r->err.text, cause))
        fail_msg("\"%s\" does not say \"%s\"", r->err.text, cause);
    assert_true(r->log.chain.len >= before);
    buf_clear(b);
}

/* Bytes as they stand, decoded by a fresh decoder. */
static void expect_error_bytes(uint32_t protocol, struct view bytes, const char *cause)
{
    struct rig r;
    struct buf b = {0};
    rig_init(&r, protocol, NULL);
    buf_put(&b, bytes.p, bytes.len);
    expect_error(&r, &b, cause);
    buf_release(&b);
    rig_release(&r);
}

/* One item with a tail (and texts ahead, '1' and '2'), decoded by a fresh decoder. */
static void expect_error_item(const char *ahead, const char *item, struct view tail,
                              const struct encoder_field *fields, const char *cause)
{
    struct rig r;
    struct buf b = {0};
    rig_init(&r, 82, NULL);
    for (; *ahead; ahead++)
        put_string(r.version, &b, *ahead == '2', view_of("x"));
    put_item(r.version, &b, item, tail, fields);
    expect_error(&r, &b, cause);
    buf_release(&b);
    rig_release(&r);
}
#define FIELDS(...)                                                                                \
    (struct encoder_field[])                                                                       \
    {                                                                                              \
        __VA_ARGS__,                                                                               \
        {                                                                                          \
            .name = NULL                                                                           \
        }                                                                                          \
    }

static void test_unknown_ids(void **state)
{
    (void)state;
    for (unsigned i = 0; i < wire_version_count; i++) {
        const struct wire_version *v = &wire_versions[i];
        char bytes[64] = {0}, cause[64];
        bytes[0] = (char)v->item_count;
        snprintf(cause, sizeof cause, "the protocol has items 0 to %u only", v->item_count - 1);
        expect_error_bytes(v->protocol, (struct view){bytes, sizeof bytes}, cause);
        bytes[0] = (char)0xff;
        expect_error_bytes(v->protocol, (struct view){bytes, sizeof bytes}, "item 255 (unknown)");
        static const char *const internal[] = {"ExternalNameMetadata", "SymbolCodeMetadata",
                                               "SourceCodeMetadata"};
        for (int k = 0; k < 3; k++) {
            bytes[0] = (char)wire_version_item(v, internal[k]);
            expect_error_bytes(v->protocol, (struct view){bytes, sizeof bytes}, "never send it");
            expect_error_bytes(v->protocol, (struct view){bytes, sizeof bytes}, internal[k]);
        }
    }
}

/* The words name protocol, frame, offset in the whole stream, item and cause. */
static void test_error_place(void **state)
{
    (void)state;
    struct rig r;
    struct buf b = {0};
    rig_init(&r, 82, NULL);
    PUT0(&r, &b, "KeepAlive");
    PUT0(&r, &b, "KeepAlive");
    rig_decode(&r, &b);
    PUT0(&r, &b, "KeepAlive");
    PUT0(&r, &b, "ZoneText");
    assert_int_equal(decoder_frame(r.decoder, b.data, b.len, &r.err), -1);
    assert_string_equal(r.err.text,
                        "protocol 82, frame 2, offset 3 of the decompressed stream, item "
                        "0 (ZoneText): no SingleStringData came before it");
    assert_int_equal(r.log.counts[EVENT_KEEP_ALIVE], 3); /* all before it was delivered */
    assert_int_equal(decoder_frame(r.decoder, b.data, 1, &r.err), -1);
    assert_non_null(strstr(r.err.text, "the stream broke in frame 2"));
    rig_release(&r);
    buf_release(&b);
    /* A number that was never released may have had other layouts; a released one had not. */
    expect_error_bytes(78, BYTES("\xff"), "another layout of this unreleased protocol number");
}

static void test_short_items(void **state)
{
    (void)state;
    expect_error_bytes(82, BYTES("\x23\x01\x02"), "27 bytes long, but its frame ends after 3");
    expect_error_bytes(82, BYTES("\x77\1\2\3\4\5\6\7\x08"), "the frame ends within its length");
    expect_error_bytes(82, BYTES("\x77\1\2\3\4\5\6\7\x08\x05"), "the frame ends within its length");
    expect_error_bytes(82, BYTES("\x77\1\2\3\4\5\6\7\x08\x05\0abcd"),
                       "5 bytes of data belong to it, but its frame ends after 4");
    expect_error_bytes(82, BYTES("\x72"), "the frame ends within its length");
    expect_error_bytes(82, BYTES("\x72\x02z"),
                       "2 bytes of data belong to it, but its frame ends after 1");
    expect_error_bytes(82, BYTES("\x70\xff\xffz"), "65791 bytes of data belong to it");
    /* 32-bit lengths do not wrap */
    expect_error_bytes(82, BYTES("\x7e\1\2\3\4\5\6\7\x08\xff\xff\xff\xffz"),
                       "4294967295 bytes of data belong to it, but its frame ends after 1");
}

static void test_empty_slots(void **state)
{
    (void)state;
    static const char *const takers[] = {
        "ZoneText",           "ZoneName",          "Message",          "MessageColor",
        "MessageAppInfo",     "LockName",          "SectionEnter",     "GpuContextName",
        "CallstackFrameSize", "SymbolInformation", "GpuAnnotationName"};
    for (size_t i = 0; i < sizeof takers / sizeof *takers; i++)
        expect_error_item("", takers[i], NONE, NULL, "no SingleStringData came before it");
    expect_error_item("", "CallstackSerial", NONE, NULL, "no CallstackPayload came before it");
    expect_error_item("", "Callstack", NONE, NULL, "no CallstackPayload came before it");
    expect_error_item("", "CallstackSample", NONE, NULL, "no CallstackPayload came before it");
    expect_error_item("", "MemAllocNamed", NONE, NULL, "no MemNamePayload came before it");
    expect_error_item("", "ZoneBeginAllocSrcLoc", NONE, NULL,
                      "no SourceLocationPayload came before it");
    expect_error_item("", "GpuZoneBeginAllocSrcLocSerial", NONE, NULL,
                      "no SourceLocationPayload came before it");
    expect_error_item("", "FrameImage", NONE, NULL, "no FrameImageData came before it");
    expect_error_item("", "CallstackFrame", NONE, NULL, "no CallstackFrameSize announced it");
    expect_error_item("", "SourceLocation", NONE, NULL, "it answers no query");
}

static void test_full_slots(void **state)
{
    (void)state;
    static const struct {
        const char *item, *cause;
        struct view tail;
    } fillers[] = {
        {"SingleStringData8", "the SingleStringData before it was not used", BYTES("x")},
        {"SecondStringData8", "the SecondStringData before it was not used", BYTES("x")},
        {"CallstackPayload", "the CallstackPayload before it was not used", BYTES("12345678")},
        {"CallstackAllocPayload", "the CallstackAllocPayload before it was not used", BYTES("\0")},
        {"SourceLocationPayload", "the SourceLocationPayload before it was not used",
         BYTES("12345678\0\0")},
        {"FrameImageData", "the FrameImageData before it was not used", BYTES("x")},
        {"MemNamePayload", "the MemNamePayload before it was not used", NONE},
    };
    for (size_t i = 0; i < sizeof fillers / sizeof *fillers; i++) {
        struct rig r;
        struct buf b = {0};
        rig_init(&r, 82, NULL);
        put_item(r.version, &b, fillers[i].item, fillers[i].tail, NULL);
        rig_decode(&r, &b);
        assert_true(decoder_in_group(r.decoder));
        put_item(r.version, &b, fillers[i].item, fillers[i].tail, NULL);
        expect_error(&r, &b, fillers[i].cause);
        buf_release(&b);
        rig_release(&r);
    }
}

static void test_payload_lengths(void **state)
{
    (void)state;
    expect_error_item("", "CallstackPayload", BYTES("1234567"), NULL,
                      "7 bytes are no whole number of 8-byte addresses");
    expect_error_item("", "SourceLocationPayload", BYTES("1234567"), NULL,
                      "7 bytes are too few for a source location");
    expect_error_item("", "SourceLocationPayload", BYTES("12345678"), NULL,
                      "end within the function name");
    expect_error_item("", "SourceLocationPayload", BYTES("12345678fn"), NULL,
                      "end within the function name");
    expect_error_item("", "SourceLocationPayload", BYTES("12345678fn\0fl"), NULL,
                      "end within the file name");
    expect_error_item("", "CallstackAllocPayload", NONE, NULL, "0 bytes are left after its 0");
    expect_error_item("", "CallstackAllocPayload", BYTES("\x41"), NULL,
                      "65 frames, but at most 64 are allowed");
    expect_error_item("", "CallstackAllocPayload", BYTES("\x01\0\0\0\0\x03\0fn"), NULL,
                      "end within frame 1 of 1");
    expect_error_item("", "CallstackAllocPayload", BYTES("\x01\0\0\0\0\x01\0f\x09\0fil"), NULL,
                      "end within frame 1 of 1");
    expect_error_item("", "CallstackAllocPayload", BYTES("\x01\0\0\0\0\x01\0f\x01\0gz"), NULL,
                      "1 bytes are left after its 1 frames");
}

static void test_values(void **state)
{
    (void)state;
    expect_error_item("", "LockAnnounce", NONE, FIELDS(ENC_INT("type", 2)), "lock type 2");
    expect_error_item("", "PlotConfig", NONE, FIELDS(ENC_INT("type", 4)), "plot format 4");
    expect_error_item("", "ParamSetup", NONE, FIELDS(ENC_INT("type", 3)), "parameter type 3");
    expect_error_item("", "GpuNewContext", NONE, FIELDS(ENC_REAL("period", 0)), "is no clock");
    expect_error_item("", "GpuNewContext", NONE, FIELDS(ENC_REAL("period", -1)), "is no clock");
    expect_error_item("", "GpuNewContext", NONE, FIELDS(ENC_REAL("period", (double)NAN)),
                      "is no clock");
    expect_error_item("", "GpuNewContext", NONE, FIELDS(ENC_REAL("period", (double)INFINITY)),
                      "is no clock");
}

static void test_images(void **state)
{
    (void)state;
    static const struct {
        unsigned w, h;
        const char *cause;
    } cases[] = {
        {0, 8, "has no whole 4 x 4 blocks"},
        {8, 0, "has no whole 4 x 4 blocks"},
        {6, 8, "has no whole 4 x 4 blocks"},
        {8, 7, "has no whole 4 x 4 blocks"},
        {8, 8, "takes 32 bytes, but 16 came"},
        {4, 4, "takes 8 bytes, but 16 came"},
        {65532, 65532, "takes 2147221512 bytes, but 16 came"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct rig r;
        struct buf b = {0};
        rig_init(&r, 82, NULL);
        put_item(r.version, &b, "FrameImageData", BYTES("0123456789abcdef"), NULL);
        PUT(&r, &b, "FrameImage", NONE, ENC_INT("w", cases[i].w), ENC_INT("h", cases[i].h));
        expect_error(&r, &b, cases[i].cause);
        buf_release(&b);
        rig_release(&r);
    }
}

/* ---- replies */

static void put_frame_size(struct rig *r, struct buf *b, uint64_t address, unsigned n)
{
    put_string(r->version, b, false, view_of("image"));
    PUT(r, b, "CallstackFrameSize", NONE, ENC_INT("ptr", address), ENC_INT("size", n));
}

static void put_frame(struct rig *r, struct buf *b, const char *function, const char *file,
                      uint64_t symbol)
{
    put_string(r->version, b, false, view_of(function));
    put_string(r->version, b, true, view_of(file));
    PUT(r, b, "CallstackFrame", NONE, ENC_INT("line", 3), ENC_INT("symAddr", symbol));
}

static void test_frame_replies(void **state)
{
    (void)state;
    struct rig r;
    struct buf b = {0};
    struct query_stats q;
    rig_init(&r, 82, NULL);
    put_frame_size(&r, &b, 0x10, 3);
    put_frame(&r, &b, "load", "/usr/include/c++/12/bits/atomic_base.h", 0x100);
    rig_decode(&r, &b); /* the rest comes in another frame */
    assert_true(decoder_in_group(r.decoder));
    put_frame(&r, &b, "mul", "/lib/gcc/include/avxintrin.h", 0x200);
    put_frame(&r, &b, "main", "main.c", 0x300);
    rig_decode(&r, &b);
    assert_string_equal(
        rig_line(&r),
        "61 cs=0 thread=0 t=0 address=16 skip=2 image=\"image\""
        " [line=3 symbol=256+0 function=\"load\" file=\"/usr/include/c++/12/bits/atomic_base.h\"]"
        " [line=3 symbol=512+0 function=\"mul\" file=\"/lib/gcc/include/avxintrin.h\"]"
        " [line=3 symbol=768+0 function=\"main\" file=\"main.c\"]");
    query_stats(r.query, &q); /* symbols of dropped frames are not asked */
    assert_int_equal(q.asked[QUERY_SYMBOL], 1);
    /* an address without any frame; the last one is never dropped */
    put_frame_size(&r, &b, 0x20, 0);
    rig_decode(&r, &b);
    assert_string_equal(rig_line(&r), "61 cs=0 thread=0 t=0 address=32 skip=0 image=\"image\"");
    put_frame_size(&r, &b, 0x30, 1);
    put_frame(&r, &b, "f", "/x/include/immintrin.h", 0x400);
    rig_decode(&r, &b);
    assert_non_null(strstr(rig_line(&r), "address=48 skip=0"));
    /* repeated: taken, counted, not delivered */
    uint64_t n = r.log.chain.len;
    put_frame_size(&r, &b, 0x30, 1);
    put_frame(&r, &b, "g", "other.c", 0x500);
    rig_decode(&r, &b);
    assert_int_equal(r.log.chain.len, n);
    assert_int_equal(decoder_stats(r.decoder)->repeated, 1);
    assert_int_equal(decoder_stats(r.decoder)->unasked, 3);
    /* an announcement before the one before it is complete */
    put_frame_size(&r, &b, 0x40, 2);
    put_frame(&r, &b, "g", "other.c", 0);
    put_frame_size(&r, &b, 0x50, 1);
    expect_error(&r, &b, "1 of 2 CallstackFrames of the one before it are missing");
    buf_release(&b);
    rig_release(&r);
    expect_error_item("", "CallstackFrame", NONE, NULL, "no CallstackFrameSize announced it");
}

static void test_skip_needs_whole_names(void **state)
{
    (void)state;
    static const struct {
        const char *file;
        bool skipped;
    } cases[] = {
        {"/usr/include/c++/12/atomic", true},
        {"/usr/include/c++/12/nonatomic", false},
        {"/include/arm_neon.h", true},
        {"/include/mmintrin.h", true},
        {"/include/xavxintrin.h", false},
        {"include/avxintrin.h", false},
        {"intrin.h", false},
        {"", false},
        {"/include/xtestintrin.h", true},
        {"/include/avx512vp2intersectvlintrin.h", true},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct rig r;
        struct buf b = {0};
        rig_init(&r, 63, NULL);
        put_frame_size(&r, &b, 0x10, 2);
        put_frame(&r, &b, "a", cases[i].file, 0);
        put_frame(&r, &b, "b", "b.c", 0);
        rig_decode(&r, &b);
        assert_non_null(strstr(rig_line(&r), cases[i].skipped ? "skip=1" : "skip=0"));
        buf_release(&b);
        rig_release(&r);
    }
}

/* Keyless locations: matched in the order in which zones, GPU zones and locks named them. */
static void test_source_location_order(void **state)
{
    (void)state;
    struct rig r;
    struct buf b = {0};
    rig_init(&r, 82, NULL);
    PUT(&r, &b, "ZoneBegin16", NONE, ENC_INT("srcloc", 100));
    PUT(&r, &b, "GpuZoneBeginSerial", NONE, ENC_INT("srcloc", 200));
    PUT(&r, &b, "ZoneBegin16", NONE, ENC_INT("srcloc", 100));
    PUT(&r, &b, "LockAnnounce", NONE, ENC_INT("lckloc", 300));
    PUT(&r, &b, "LockMark", NONE, ENC_INT("srcloc", 400));
    PUT(&r, &b, "GpuZoneBegin", NONE, ENC_INT("srcloc", 500));
    rig_decode(&r, &b);
    for (int i = 1; i <= 5; i++) {
        char want[64];
        PUT(&r, &b, "SourceLocation", NONE, ENC_INT("name", i * 1000));
        rig_decode(&r, &b);
        snprintf(want, sizeof want, " pointer=%d name=%d ", i * 100, i * 1000);
        assert_non_null(strstr(rig_line(&r), want));
    }
    PUT0(&r, &b, "SourceLocation");
    expect_error(&r, &b, "it answers no query");
    buf_release(&b);
    rig_release(&r);
}

static void test_unasked_and_repeated(void **state)
{
    (void)state;
    struct rig r;
    struct buf b = {0};
    rig_init(&r, 82, NULL);
    PUT(&r, &b, "StringData", view_of("first"), ENC_INT("ptr", 5));
    PUT(&r, &b, "StringData", view_of("second"), ENC_INT("ptr", 5));
    PUT0(&r, &b, "AckServerQueryNoop");
    PUT(&r, &b, "AckSourceCodeNotAvailable", NONE, ENC_INT("id", 9));
    rig_decode(&r, &b);
    assert_int_equal(r.log.counts[EVENT_STRING], 1);
    assert_int_equal(decoder_stats(r.decoder)->unasked, 3);
    assert_int_equal(decoder_stats(r.decoder)->repeated, 1);
    /* what was told already is not asked any more */
    PUT(&r, &b, "CrashReport", NONE, ENC_INT("text", 5));
    PUT(&r, &b, "CrashReport", NONE, ENC_INT("text", 6));
    rig_decode(&r, &b);
    struct query_stats q;
    query_stats(r.query, &q);
    assert_int_equal(q.asked[QUERY_STRING], 1);
    buf_release(&b);
    rig_release(&r);
}

/* ---- odd, but to be borne */

static void test_missing_stacks(void **state)
{
    (void)state;
    static const char *const items[] = {"ZoneBeginCallstack",    "MessageLiteralCallstack",
                                        "GpuZoneBeginCallstack", "GpuZoneBeginCallstackSerial",
                                        "MemAllocCallstack",     "MemFreeCallstack",
                                        "CrashReport",           "MemDiscardCallstack"};
    for (size_t i = 0; i < sizeof items / sizeof *items; i++) {
        struct rig r;
        struct buf b = {0};
        rig_init(&r, 74, NULL);
        PUT0(&r, &b, items[i]);
        rig_decode(&r, &b);
        assert_non_null(strstr(rig_line(&r), " cs=0 "));
        buf_release(&b);
        rig_release(&r);
    }
}

static void test_empty_stack_is_none(void **state)
{
    (void)state;
    struct rig r;
    struct buf b = {0};
    rig_init(&r, 82, NULL);
    PUT0(&r, &b, "CallstackPayload");
    PUT0(&r, &b, "CallstackSerial");
    PUT0(&r, &b, "MemAllocCallstack");
    PUT0(&r, &b, "CallstackPayload");
    PUT0(&r, &b, "CallstackSample16");
    put_item(r.version, &b, "CallstackAllocPayload", BYTES("\0"), NULL);
    PUT0(&r, &b, "CallstackAlloc");
    rig_decode(&r, &b);
    assert_int_equal(r.log.stacks.len, 0);
    assert_int_equal(r.log.counts[EVENT_MEM_ALLOC], 1);
    assert_int_equal(r.log.counts[EVENT_SAMPLE], 1);
    buf_release(&b);
    rig_release(&r);
}

/*
 * Clients of 72 to 79 send the stack of a discard and then the plain item: the official server
 * takes no stack for it, and here the stack does not stick to a later event either.
 */
static void test_discard_drops_stale_stack(void **state)
{
    (void)state;
    struct rig r;
    struct buf b = {0};
    rig_init(&r, 72, NULL);
    put_item(r.version, &b, "CallstackPayload", STACK, NULL);
    PUT0(&r, &b, "CallstackSerial");
    PUT(&r, &b, "MemDiscard", NONE, ENC_INT("name", 5), ENC_INT("time", 10));
    rig_decode(&r, &b);
    assert_non_null(strstr(rig_line(&r), " cs=0 thread=0 t=10 pool=5 "));
    assert_int_equal(decoder_stats(r.decoder)->stale_callstacks, 1);
    PUT(&r, &b, "MemAllocCallstack", NONE, ENC_INT("time", 10));
    rig_decode(&r, &b); /* the discard's time counts */
    assert_non_null(strstr(rig_line(&r), " cs=0 thread=0 t=20 "));
    buf_release(&b);
    rig_release(&r);
}

/* A stack that nobody takes gives way to the next one. */
static void test_stale_stacks(void **state)
{
    (void)state;
    struct rig r;
    struct buf b = {0};
    rig_init(&r, 82, NULL);
    for (int i = 0; i < 2; i++) {
        put_item(r.version, &b, "CallstackPayload", i ? BYTES("abcdefgh") : STACK, NULL);
        PUT0(&r, &b, "CallstackSerial");
        put_item(r.version, &b, "CallstackPayload", i ? BYTES("abcdefgh") : STACK, NULL);
        PUT0(&r, &b, "Callstack");
    }
    PUT0(&r, &b, "MemAllocCallstack");
    rig_decode(&r, &b);
    assert_non_null(strstr(rig_line(&r), " cs=2 "));
    PUT0(&r, &b, "ZoneBeginCallstack16");
    rig_decode(&r, &b);
    assert_non_null(strstr(rig_line(&r), " cs=2 "));
    assert_int_equal(decoder_stats(r.decoder)->stale_callstacks, 2);
    buf_release(&b);
    rig_release(&r);
}

/* A payload and its CallstackSerial mean the same side by side and in two frames. */
static void test_serial_stack_across_frames(void **state)
{
    (void)state;
    for (int split = 0; split < 2; split++) {
        struct rig r;
        struct buf b = {0};
        struct query_stats q;
        rig_init(&r, 82, NULL);
        put_item(r.version, &b, "CallstackPayload", BYTES("\x10\0\0\0\0\0\0\x80\x20\0\0\0\0\0\0\0"),
                 NULL);
        if (split)
            rig_decode(&r, &b);
        PUT0(&r, &b, "CallstackSerial");
        PUT0(&r, &b, "MemFreeCallstack");
        rig_decode(&r, &b);
        assert_non_null(strstr(rig_line(&r), " cs=1 "));
        assert_int_equal(r.log.stacks.at[0].n, 2);
        assert_int_equal(r.log.stacks.at[0].frames[0], 0x10); /* the top two bits go */
        assert_int_equal(r.log.stacks.at[0].frames[1], 0x20);
        query_stats(r.query, &q);
        assert_int_equal(q.asked[QUERY_CALLSTACK_FRAME], 2);
        assert_int_equal(decoder_stats(r.decoder)->kinds[WIRE_CALLSTACK_SERIAL], 1);
        assert_int_equal(decoder_stats(r.decoder)->items, 3);
        uint8_t packets[128]; /* and are asked as they came */
        size_t n = query_flush(r.query, packets, sizeof packets);
        bool kernel = false;
        for (size_t i = 0; i < n; i += QUERY_PACKET_SIZE)
            kernel |= packets[i] == 10 && load_u64(packets + i + 1) == 0x8000000000000010u;
        assert_true(kernel);
        buf_release(&b);
        rig_release(&r);
    }
}

/* Frames of scripts stand before the native ones and are never asked. */
static void test_script_frames(void **state)
{
    (void)state;
    struct rig r;
    struct buf b = {0};
    struct query_stats q;
    rig_init(&r, 76, NULL);
    put_item(r.version, &b, "CallstackPayload", STACK, NULL);
    put_item(r.version, &b, "CallstackAllocPayload",
             BYTES("\x02\x07\0\0\0\x02\0fn\x02\0fl\x08\0\0\0\x02\0gn\0\0"), NULL);
    PUT0(&r, &b, "CallstackAlloc");
    PUT0(&r, &b, "ZoneBeginCallstack");
    rig_decode(&r, &b);
    assert_int_equal(r.log.stacks.len, 1);
    assert_int_equal(r.log.stacks.at[0].n, 4);
    assert_true(r.log.stacks.at[0].frames[0] >> 62 == 1);
    assert_true(r.log.stacks.at[0].frames[1] >> 62 == 1);
    assert_int_equal(r.log.stacks.at[0].frames[2], 0x10);
    query_stats(r.query, &q);
    assert_int_equal(q.asked[QUERY_CALLSTACK_FRAME], 2);
    buf_release(&b);
    rig_release(&r);
}

static void test_odd_metadata(void **state)
{
    (void)state;
    struct rig r;
    struct buf b = {0};
    rig_init(&r, 77, NULL);
    put_string(r.version, &b, false, view_of("x"));
    PUT(&r, &b, "Message", NONE, ENC_INT("metadata", 0x60));
    put_string(r.version, &b, false, view_of("x"));
    PUT(&r, &b, "Message", NONE, ENC_INT("metadata", 0x12));
    rig_decode(&r, &b);
    assert_non_null(strstr(rig_line(&r), "source=0 severity=2"));
    assert_int_equal(decoder_stats(r.decoder)->odd_metadata, 2);
    buf_release(&b);
    rig_release(&r);
}

/* v0.14.0 replays SectionSetup without its text. */
static void test_section_without_text(void **state)
{
    (void)state;
    struct rig r;
    struct buf b = {0};
    rig_init(&r, 82, NULL);
    PUT(&r, &b, "SectionSetup", NONE, ENC_INT("category", 3));
    rig_decode(&r, &b);
    assert_non_null(strstr(rig_line(&r), "category=3 text=\"\""));
    buf_release(&b);
    rig_release(&r);
}

static void test_texts_of_any_bytes(void **state)
{
    (void)state;
    struct rig r;
    struct buf b = {0};
    rig_init(&r, 82, NULL);
    put_string(r.version, &b, false, BYTES("a\0b\xff"));
    PUT0(&r, &b, "ZoneText");
    rig_decode(&r, &b);
    const char want[] = "5 cs=0 thread=0 t=0 text=\"a\0b\xff\"";
    assert_int_equal(r.log.line.len, sizeof want - 1);
    assert_memory_equal(r.log.line.data, want, sizeof want - 1);
    /* lengths around the two forms */
    static char text[65791];
    memset(text, 'y', sizeof text);
    static const size_t lengths[] = {0, 1, 255, 256, 257, 65535, 65536, 65791};
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        put_string(r.version, &b, false, (struct view){text, lengths[i]});
        PUT0(&r, &b, "ZoneText");
        rig_decode(&r, &b);
        assert_int_equal(r.log.line.len, strlen("5 cs=0 thread=0 t=0 text=\"\"") + lengths[i]);
    }
    buf_release(&b);
    rig_release(&r);
}

/* ---- time */

static void test_references(void **state)
{
    (void)state;
    struct rig r;
    struct buf b = {0};
    rig_init(&r, 76, NULL);
    r.log.keep_lines = true;
    PUT(&r, &b, "MemAlloc", NONE, ENC_INT("time", 10));
    PUT(&r, &b, "ZoneBegin", NONE, ENC_INT("time", 100));
    PUT(&r, &b, "ThreadWakeup", NONE, ENC_INT("time", 1000));
    PUT(&r, &b, "GpuTime", NONE, ENC_INT("gpuTime", 7), ENC_INT("context", 1));
    PUT(&r, &b, "ThreadContext", NONE, ENC_INT("thread", 0)); /* the same, and yet a reset */
    PUT(&r, &b, "LockWait", NONE, ENC_INT("time", 5));
    PUT(&r, &b, "ZoneEnd", NONE, ENC_INT("time", 150));
    PUT(&r, &b, "ContextSwitch", NONE, ENC_INT("time", -1));
    PUT(&r, &b, "GpuTime", NONE, ENC_INT("gpuTime", 7), ENC_INT("context", 2));
    PUT(&r, &b, "GpuZoneBeginSerial", NONE, ENC_INT("cpuTime", 1));
    PUT(&r, &b, "GpuZoneBegin", NONE, ENC_INT("cpuTime", 1));
    PUT(&r, &b, "MemDiscard", NONE, ENC_INT("time", 4));
    rig_decode(&r, &b);
    static const char *const want[] = {" t=10 ", " t=100 ",  " t=1000 ", " gpu=7 ",
                                       " t=15 ", " t=150\n", " t=999 ",  " gpu=14 ",
                                       " t=16 ", " t=151 ",  " t=20 "};
    const char *at = buf_str(&r.log.lines);
    for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
        at = strstr(at, want[i]);
        if (!at)
            fail_msg("%s is missing or out of order in\n%s", want[i], buf_str(&r.log.lines));
    }
    buf_release(&b);
    rig_release(&r);
}

/* References wrap, and what no clock can show saturates; neither is undefined. */
static void test_extreme_times(void **state)
{
    (void)state;
    static const struct {
        double mul;
        int64_t begin, delta;
        const char *want;
    } cases[] = {
        {1, 0, INT64_MAX, " t=9223372036854775807 "},
        {1e300, 0, 5, " t=9223372036854775807 "},
        {1e300, 0, -5, " t=-9223372036854775808 "},
        {1, INT64_MIN, INT64_MAX, " t=-1 "},
        {1, INT64_MAX, INT64_MIN, " t=1 "},
        {0.3, 10, 20, " t=3 "},
        {0.3, 20, 10, " t=-3 "}, /* towards zero */
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct welcome w = {.timer_mul = cases[i].mul, .init_begin = cases[i].begin};
        struct rig r;
        struct buf b = {0};
        rig_init(&r, 63, &w);
        PUT(&r, &b, "MemFree", NONE, ENC_INT("time", cases[i].delta));
        rig_decode(&r, &b);
        if (!strstr(rig_line(&r), cases[i].want))
            fail_msg("%s is not in %s", cases[i].want, rig_line(&r));
        PUT(&r, &b, "MemFree", NONE, ENC_INT("time", INT64_MAX));
        PUT(&r, &b, "MemFree", NONE, ENC_INT("time", INT64_MAX));
        rig_decode(&r, &b);
        buf_release(&b);
        rig_release(&r);
    }
}

/* 32-bit clients leave rubbish in the upper two bytes of a size. */
static void test_size_mask(void **state)
{
    (void)state;
    for (uint8_t arch = ARCH_UNKNOWN; arch <= ARCH_ARM64; arch++) {
        struct welcome w = {.timer_mul = 1, .cpu_arch = arch};
        struct rig r;
        struct buf b = {0};
        rig_init(&r, 82, &w);
        PUT(&r, &b, "MemAlloc", NONE, ENC_INT("size", 0xabcd00001234));
        rig_decode(&r, &b);
        bool narrow = arch == ARCH_X86 || arch == ARCH_ARM32;
        assert_non_null(strstr(rig_line(&r), narrow ? " size=4660" : " size=188896956650036"));
        buf_release(&b);
        rig_release(&r);
    }
}

/* ---- threads, fibers, the end */

static void test_fibers(void **state)
{
    (void)state;
    struct rig r;
    struct buf b = {0};
    rig_init(&r, 76, NULL);
    PUT(&r, &b, "ThreadContext", NONE, ENC_INT("thread", 9));
    put_item(r.version, &b, "CallstackPayload", STACK, NULL);
    PUT0(&r, &b, "Callstack"); /* waits on the thread, not on the fiber */
    PUT(&r, &b, "FiberEnter", NONE, ENC_INT("thread", 9), ENC_INT("fiber", 500));
    rig_decode(&r, &b);
    PUT0(&r, &b, "ZoneBeginCallstack");
    rig_decode(&r, &b);
    assert_non_null(strstr(rig_line(&r), "cs=0 thread=4294967296 "));
    PUT(&r, &b, "MemAlloc", NONE, ENC_INT("thread", 9)); /* memory keeps its thread */
    rig_decode(&r, &b);
    assert_non_null(strstr(rig_line(&r), " thread=9 "));
    PUT(&r, &b, "FiberEnter", NONE, ENC_INT("thread", 9), ENC_INT("fiber", 600));
    rig_decode(&r, &b);
    assert_non_null(strstr(rig_line(&r), " thread=4294967297 "));
    PUT(&r, &b, "FiberLeave", NONE, ENC_INT("thread", 9));
    rig_decode(&r, &b);
    assert_non_null(strstr(rig_line(&r), "thread=4294967297 t=0 fiber=600 on=9"));
    PUT(&r, &b, "FiberLeave", NONE, ENC_INT("thread", 9)); /* one too many */
    rig_decode(&r, &b);
    assert_non_null(strstr(rig_line(&r), "thread=9 t=0 fiber=0 on=9"));
    PUT0(&r, &b, "ZoneBeginCallstack");
    rig_decode(&r, &b);
    assert_non_null(strstr(rig_line(&r), "cs=1 thread=9 "));
    PUT(&r, &b, "FiberEnter", NONE, ENC_INT("thread", 3), ENC_INT("fiber", 500));
    rig_decode(&r, &b);
    assert_non_null(strstr(rig_line(&r), " thread=4294967296 t=0 fiber=500 on=3"));
    struct query_stats q;
    query_stats(r.query, &q);
    assert_int_equal(q.asked[QUERY_FIBER_NAME], 2);
    assert_int_equal(q.asked[QUERY_THREAD], 2);
    buf_release(&b);
    rig_release(&r);
}

/* What servers after v0.14.0 do with the bytes of protocol 82, and that one did not. */
static void test_after_the_release(void **state)
{
    (void)state;
    for (int as_released = 0; as_released < 2; as_released++) {
        const char *thread = as_released ? " thread=9 " : " thread=4294967296 ";
        const char *color = as_released ? " color=1193046" : " color=5649426";
        struct rig r;
        struct buf b = {0};
        rig_init_as(&r, 82, NULL, as_released);
        PUT(&r, &b, "MemAlloc", NONE, ENC_INT("thread", 9));
        rig_decode(&r, &b);
        assert_non_null(strstr(rig_line(&r), " thread=9 "));
        PUT(&r, &b, "FiberEnter", NONE, ENC_INT("thread", 9), ENC_INT("fiber", 500));
        PUT(&r, &b, "MemAlloc", NONE, ENC_INT("thread", 9));
        rig_decode(&r, &b);
        assert_non_null(strstr(rig_line(&r), thread));
        PUT(&r, &b, "MemFree", NONE, ENC_INT("thread", 9));
        rig_decode(&r, &b);
        assert_non_null(strstr(rig_line(&r), thread));
        PUT(&r, &b, "MemFree", NONE, ENC_INT("thread", 8));
        rig_decode(&r, &b);
        assert_non_null(strstr(rig_line(&r), " thread=8 "));
        PUT(&r, &b, "FiberLeave", NONE, ENC_INT("thread", 9));
        PUT(&r, &b, "MemFree", NONE, ENC_INT("thread", 9));
        rig_decode(&r, &b);
        assert_non_null(strstr(rig_line(&r), " thread=9 "));
        PUT(&r, &b, "PlotConfig", NONE, ENC_INT("color", 0xff123456));
        rig_decode(&r, &b);
        assert_non_null(strstr(rig_line(&r), color));
        buf_release(&b);
        rig_release(&r);
    }
}

static void answer(struct rig *r, struct buf *b, const char *item, uint64_t key)
{
    PUT(r, b, item, view_of("n"), ENC_INT("ptr", key));
}

static void test_settled(void **state)
{
    (void)state;
    struct rig r;
    struct buf b = {0};
    rig_init(&r, 82, NULL);
    assert_true(decoder_settled(r.decoder));
    PUT(&r, &b, "ThreadContext", NONE, ENC_INT("thread", 9));
    put_item(r.version, &b, "SourceLocationPayload", BYTES("12345678\0\0"), NULL);
    PUT0(&r, &b, "ZoneBeginAllocSrcLoc");
    PUT(&r, &b, "MemAlloc", NONE, ENC_INT("thread", 9));
    PUT0(&r, &b, "Terminate");
    rig_decode(&r, &b);
    assert_true(decoder_terminated(r.decoder));
    assert_false(decoder_settled(r.decoder)); /* thread name, open zone */
    answer(&r, &b, "ThreadName", 9);
    rig_decode(&r, &b);
    assert_false(decoder_settled(r.decoder)); /* open zone */
    PUT0(&r, &b, "ZoneEnd16");
    rig_decode(&r, &b);
    assert_true(decoder_settled(r.decoder));
    PUT0(&r, &b, "ZoneEnd16"); /* one too many does not hide a later begin */
    put_item(r.version, &b, "SourceLocationPayload", BYTES("12345678\0\0"), NULL);
    PUT0(&r, &b, "ZoneBeginAllocSrcLoc");
    rig_decode(&r, &b);
    assert_false(decoder_settled(r.decoder));
    PUT0(&r, &b, "Crash"); /* lifts the condition on zones */
    rig_decode(&r, &b);
    assert_true(decoder_crashed(r.decoder));
    assert_true(decoder_settled(r.decoder));
    put_string(r.version, &b, false, view_of("x"));
    rig_decode(&r, &b);
    assert_false(decoder_settled(r.decoder)); /* a text waits */
    assert_true(decoder_in_group(r.decoder));
    buf_release(&b);
    rig_release(&r);
}

static void test_sink_refuses(void **state)
{
    (void)state;
    struct rig r;
    struct buf b = {0};
    rig_init(&r, 82, NULL);
    r.log.fail_after = 2;
    for (int i = 0; i < 3; i++)
        PUT0(&r, &b, "KeepAlive");
    assert_int_equal(decoder_frame(r.decoder, b.data, b.len, &r.err), -1);
    assert_int_equal(r.err.code, ERR_OUTPUT);
    assert_string_equal(r.err.text, "the sink is full");
    assert_int_equal(r.log.chain.len, 1);
    buf_release(&b);
    rig_release(&r);
}

/* What came before is not lost: at the end of a frame, of a run, and where as many wait as may. */
static void test_no_memory_for_a_stack(void **state)
{
    (void)state;
    for (unsigned n = 1; n <= 130; n++) {
        struct rig r;
        struct buf b = {0};
        rig_init(&r, 82, NULL);
        r.log.stacks_most = n / 2 + 1;
        for (uint64_t i = 0; i < n; i++) {
            const struct view stack = {(const char *)&i, sizeof i};
            put_item(r.version, &b, "CallstackPayload", stack, NULL);
            PUT0(&r, &b, "CallstackSerial");
            PUT0(&r, &b, "MemAllocCallstack");
        }
        if (n % 2)
            PUT0(&r, &b, "KeepAlive");
        const bool fits = n <= r.log.stacks_most;
        assert_int_equal(decoder_frame(r.decoder, b.data, b.len, &r.err), fits ? 0 : -1);
        assert_true(fits || strstr(r.err.text, "call stacks"));
        assert_true(r.log.counts[EVENT_MEM_ALLOC] >= r.log.stacks_most);
        assert_int_equal(r.log.counts[EVENT_MEM_ALLOC],
                         decoder_stats(r.decoder)->kinds[WIRE_MEM_ALLOC]);
        buf_release(&b);
        rig_release(&r);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_unknown_ids),
        cmocka_unit_test(test_error_place),
        cmocka_unit_test(test_short_items),
        cmocka_unit_test(test_empty_slots),
        cmocka_unit_test(test_full_slots),
        cmocka_unit_test(test_payload_lengths),
        cmocka_unit_test(test_values),
        cmocka_unit_test(test_images),
        cmocka_unit_test(test_frame_replies),
        cmocka_unit_test(test_skip_needs_whole_names),
        cmocka_unit_test(test_source_location_order),
        cmocka_unit_test(test_unasked_and_repeated),
        cmocka_unit_test(test_missing_stacks),
        cmocka_unit_test(test_empty_stack_is_none),
        cmocka_unit_test(test_discard_drops_stale_stack),
        cmocka_unit_test(test_stale_stacks),
        cmocka_unit_test(test_serial_stack_across_frames),
        cmocka_unit_test(test_script_frames),
        cmocka_unit_test(test_odd_metadata),
        cmocka_unit_test(test_section_without_text),
        cmocka_unit_test(test_texts_of_any_bytes),
        cmocka_unit_test(test_references),
        cmocka_unit_test(test_extreme_times),
        cmocka_unit_test(test_size_mask),
        cmocka_unit_test(test_fibers),
        cmocka_unit_test(test_after_the_release),
        cmocka_unit_test(test_settled),
        cmocka_unit_test(test_sink_refuses),
        cmocka_unit_test(test_no_memory_for_a_stack),
    };
    return cmocka_run_group_tests_name("protocol decoder", tests, NULL, NULL);
}
