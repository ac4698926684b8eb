/* The query scheduler: what is asked, when, in which order, and what is still missing. */

#include "protocol_support.h"

struct packet {
    uint8_t code;
    uint64_t ptr;
    uint32_t extra;
};

static struct query *make(uint32_t protocol, uint32_t space)
{
    struct query *q = query_new(&(struct query_config){
        .version = wire_version_find(protocol), .space = space, .ask = QUERY_ASK_DEFAULT});
    assert_non_null(q);
    return q;
}

static void ask(struct query *q, enum query_kind kind, uint64_t key)
{
    struct err e = {0};
    assert_int_equal(query_ask(q, kind, key, &e), 0);
}

/* Flushes through a buffer of `cap` bytes; returns the number of packets. */
static size_t flush(struct query *q, struct packet *out, size_t cap)
{
    static uint8_t bytes[QUERY_PACKET_SIZE * 9000];
    assert_true(cap <= sizeof bytes);
    size_t n = query_flush(q, bytes, cap);
    assert_true(n <= cap && n % QUERY_PACKET_SIZE == 0);
    n /= QUERY_PACKET_SIZE;
    for (size_t i = 0; i < n; i++) {
        const uint8_t *p = bytes + i * QUERY_PACKET_SIZE;
        out[i] = (struct packet){p[0], load_u64(p + 1), load_u32(p + 9)};
    }
    return n;
}

static struct query_stats stats(const struct query *q)
{
    struct query_stats s;
    query_stats(q, &s);
    return s;
}

static void test_space(void **state)
{
    (void)state;
    assert_int_equal(query_space_for(0), 1);
    assert_int_equal(query_space_for(12), 1);
    assert_int_equal(query_space_for(13 * 5), 1);
    assert_int_equal(query_space_for(13 * 6), 2);
    assert_int_equal(query_space_for(13 * 100 + 12), 96);
    assert_int_equal(query_space_for(13 * 8191), 8187);
    assert_int_equal(query_space_for(13 * 8192), 8188);
    assert_int_equal(query_space_for(SIZE_MAX), 8188);
}

/* The urgent ones first, each queue in the order of asking; each key once; 0 only for threads. */
static void test_order(void **state)
{
    (void)state;
    for (uint32_t protocol = 63; protocol <= 82; protocol += 19) {
        struct query *q = make(protocol, 100);
        struct packet p[16];
        ask(q, QUERY_CALLSTACK_FRAME, 1);
        ask(q, QUERY_EXTERNAL_NAME, 2);
        ask(q, QUERY_STRING, 3);
        ask(q, QUERY_SYMBOL, 4);
        ask(q, QUERY_SOURCE_LOCATION, 5);
        ask(q, QUERY_STRING, 3);
        ask(q, QUERY_STRING, 0);
        ask(q, QUERY_THREAD, 0);
        ask(q, QUERY_PLOT_NAME, 3);
        ask(q, QUERY_SYMBOL_CODE, 9); /* not wanted by default */
        bool old = protocol == 63;
        static const struct packet want_old[] = {{1, 3, 0}, {3, 5, 0},  {2, 0, 0}, {4, 3, 0},
                                                 {9, 1, 0}, {10, 2, 0}, {11, 4, 0}};
        static const struct packet want_new[] = {{8, 2, 0}, {1, 3, 0},  {3, 5, 0}, {2, 0, 0},
                                                 {4, 3, 0}, {10, 1, 0}, {11, 4, 0}};
        const struct packet *want = old ? want_old : want_new;
        assert_int_equal(stats(q).queued, 7);
        assert_int_equal(flush(q, p, sizeof p / sizeof *p * QUERY_PACKET_SIZE), 7);
        for (size_t i = 0; i < 7; i++) {
            assert_int_equal(p[i].code, want[i].code);
            assert_int_equal(p[i].ptr, want[i].ptr);
            assert_int_equal(p[i].extra, 0);
        }
        assert_int_equal(stats(q).queued, 0);
        assert_int_equal(stats(q).flight, 7);
        assert_int_equal(flush(q, p, 208), 0);
        query_free(q);
    }
}

/* Never more in flight than there is space, whatever comes back. */
static void test_space_is_kept(void **state)
{
    (void)state;
    struct query *q = make(82, 10);
    struct packet p[64];
    for (uint64_t key = 1; key <= 40; key++)
        ask(q, QUERY_STRING, key);
    assert_int_equal(flush(q, p, 13 * 4 + 12), 4); /* no room in the buffer for more */
    assert_int_equal(flush(q, p, 13 * 64), 6);
    assert_int_equal(p[0].ptr, 5);
    assert_int_equal(flush(q, p, 13 * 64), 0);
    assert_int_equal(query_answered(q, QUERY_STRING, 3), ANSWER_EXPECTED);
    assert_int_equal(query_answered(q, QUERY_STRING, 3), ANSWER_REPEATED);
    assert_int_equal(query_answered(q, QUERY_STRING, 777), ANSWER_UNASKED);
    for (int i = 0; i < 50; i++)
        assert_false(query_answered_noop(q)); /* nothing in flight is answered so */
    assert_int_equal(flush(q, p, 13 * 64), 1);
    assert_int_equal(p[0].ptr, 11);
    assert_int_equal(stats(q).flight, 10);
    for (uint64_t key = 1; key <= 40; key++)
        query_answered(q, QUERY_STRING, key);
    assert_int_equal(stats(q).flight, 0);
    assert_int_equal(stats(q).pending[QUERY_STRING], 0);
    assert_true(query_idle(q));
    assert_int_equal(flush(q, p, 13 * 64), 0); /* answered before they were sent */
    assert_int_equal(stats(q).sent, 11);
    assert_int_equal(stats(q).unasked[QUERY_STRING], 1);
    assert_int_equal(stats(q).unasked_noops, 50);
    query_free(q);
}

/* A "done" frees the space of a frame or symbol query, once; the late answer does not again. */
static void test_noops(void **state)
{
    (void)state;
    struct query *q = make(82, 2);
    struct packet p[8];
    ask(q, QUERY_CALLSTACK_FRAME, 1);
    ask(q, QUERY_SYMBOL, 2);
    ask(q, QUERY_CALLSTACK_FRAME, 3);
    ask(q, QUERY_CALLSTACK_FRAME, 4);
    assert_int_equal(flush(q, p, sizeof p), 2);
    assert_true(query_answered_noop(q));
    assert_int_equal(stats(q).flight, 1);
    assert_int_equal(flush(q, p, sizeof p), 1);
    assert_int_equal(query_answered(q, QUERY_CALLSTACK_FRAME, 1), ANSWER_EXPECTED);
    assert_int_equal(query_answered(q, QUERY_SYMBOL, 2), ANSWER_EXPECTED);
    assert_int_equal(query_answered(q, QUERY_CALLSTACK_FRAME, 3), ANSWER_EXPECTED);
    assert_int_equal(stats(q).flight, 0);
    assert_int_equal(flush(q, p, sizeof p), 1);
    assert_int_equal(stats(q).flight, 1);
    assert_false(query_idle(q)); /* nobody knows whom the "done" was for */
    query_free(q);
}

static void test_external_names(void **state)
{
    (void)state;
    struct query *q = make(82, 10);
    struct packet p[4];
    ask(q, QUERY_EXTERNAL_NAME, 7);
    assert_int_equal(stats(q).pending[QUERY_EXTERNAL_NAME], 2);
    assert_int_equal(flush(q, p, sizeof p), 1);
    assert_int_equal(query_answered_external_thread(q, 7), ANSWER_EXPECTED);
    assert_int_equal(stats(q).flight, 1);
    assert_int_equal(query_answered_external_thread(q, 7), ANSWER_REPEATED);
    assert_int_equal(stats(q).pending[QUERY_EXTERNAL_NAME], 1);
    assert_false(query_idle(q));
    assert_int_equal(query_answered(q, QUERY_EXTERNAL_NAME, 7), ANSWER_EXPECTED);
    assert_int_equal(stats(q).flight, 0);
    assert_true(query_idle(q));
    assert_int_equal(query_answered_external_thread(q, 8), ANSWER_UNASKED);
    assert_int_equal(query_answered(q, QUERY_EXTERNAL_NAME, 8), ANSWER_UNASKED);
    ask(q, QUERY_EXTERNAL_NAME, 8); /* known by now */
    assert_int_equal(flush(q, p, sizeof p), 0);
    assert_true(query_idle(q));
    query_free(q);
}

static void test_source_locations(void **state)
{
    (void)state;
    struct query *q = make(82, 10);
    struct packet p[8];
    uint64_t key;
    assert_false(query_take_source_location(q, &key));
    ask(q, QUERY_SOURCE_LOCATION, 30);
    ask(q, QUERY_SOURCE_LOCATION, 10);
    assert_int_equal(flush(q, p, sizeof p), 2);
    ask(q, QUERY_SOURCE_LOCATION, 30);
    ask(q, QUERY_SOURCE_LOCATION, 20);
    for (uint64_t want = 30; want; want = want == 30 ? 10 : want == 10 ? 20 : 0) {
        assert_true(query_take_source_location(q, &key));
        assert_int_equal(key, want);
    }
    assert_false(query_take_source_location(q, &key));
    assert_true(query_idle(q));
    assert_int_equal(flush(q, p, sizeof p), 0);
    query_free(q);
}

/* Not asking for locations must not disturb the matching of those in a recording. */
static void test_unwanted_kinds(void **state)
{
    (void)state;
    struct query *q =
        query_new(&(struct query_config){.version = wire_version_find(82), .space = 10, .ask = 0});
    struct packet p[4];
    uint64_t key;
    ask(q, QUERY_SOURCE_LOCATION, 30);
    ask(q, QUERY_STRING, 31);
    assert_int_equal(flush(q, p, sizeof p), 0);
    assert_true(query_idle(q));
    assert_true(query_take_source_location(q, &key));
    assert_int_equal(key, 30);
    assert_int_equal(query_answered(q, QUERY_STRING, 31), ANSWER_EXPECTED);
    assert_true(query_idle(q));
    query_free(q);
}

/* Frame names are asked, but the end does not wait for them. */
static void test_idle(void **state)
{
    (void)state;
    struct query *q = make(82, 10);
    struct packet p[4];
    ask(q, QUERY_FRAME_NAME, 1);
    assert_false(query_idle(q)); /* it waits to be sent */
    assert_int_equal(flush(q, p, sizeof p), 1);
    assert_true(query_idle(q));
    assert_int_equal(stats(q).pending[QUERY_FRAME_NAME], 1);
    ask(q, QUERY_PLOT_NAME, 1);
    assert_int_equal(flush(q, p, sizeof p), 1);
    assert_false(query_idle(q));
    query_free(q);
}

/* A long queue keeps its order while it is drained and filled in turn. */
static void test_long_queue(void **state)
{
    (void)state;
    struct query *q = make(82, 7);
    struct packet p[16];
    uint64_t asked = 0, sent = 0;
    for (int round = 0; round < 3000; round++) {
        for (int i = 0; i < 11; i++)
            ask(q, QUERY_CALLSTACK_FRAME, ++asked);
        size_t n = flush(q, p, sizeof p / sizeof *p * QUERY_PACKET_SIZE);
        for (size_t i = 0; i < n; i++) {
            assert_int_equal(p[i].ptr, ++sent);
            query_answered(q, QUERY_CALLSTACK_FRAME, p[i].ptr);
        }
    }
    assert_int_equal(stats(q).queued, asked - sent);
    assert_int_equal(stats(q).pending[QUERY_CALLSTACK_FRAME], asked - sent);
    query_free(q);
}

#define ASK_CODE (QUERY_ASK_DEFAULT | 1u << QUERY_SYMBOL_CODE | 1u << QUERY_SOURCE_CODE)

static struct query *make_asking_code(uint32_t space)
{
    struct query *q = query_new(
        &(struct query_config){.version = wire_version_find(82), .space = space, .ask = ASK_CODE});
    assert_non_null(q);
    return q;
}

/* A code query has the size; one that has no code is answered without a key. */
static void test_code(void **state)
{
    (void)state;
    struct query *q = make_asking_code(2);
    struct packet p[8];
    struct err e = {0};
    for (uint64_t symbol = 1; symbol <= 4; symbol++)
        assert_int_equal(query_ask_code(q, symbol, (uint32_t)symbol * 100, &e), 0);
    assert_false(query_answered_no_code(q)); /* none is on its way yet */
    assert_int_equal(flush(q, p, sizeof p), 2);
    assert_int_equal(p[1].code, 12);
    assert_int_equal(p[1].ptr, 2);
    assert_int_equal(p[1].extra, 200);
    assert_true(query_answered_no_code(q));
    assert_int_equal(flush(q, p, sizeof p), 1);
    assert_int_equal(query_answered(q, QUERY_SYMBOL_CODE, 2), ANSWER_EXPECTED);
    assert_int_equal(query_answered(q, QUERY_SYMBOL_CODE, 3), ANSWER_EXPECTED);
    assert_int_equal(flush(q, p, sizeof p), 1);
    assert_false(query_idle(q));
    assert_true(query_answered_no_code(q));
    assert_true(query_idle(q)); /* each had one answer, whichever it was */
    assert_false(query_answered_no_code(q));
    assert_int_equal(stats(q).unasked_noops, 2);
    query_free(q);
}

/* The names travel ahead, in order and NUL-terminated, each packet answered by a "done". */
static void test_sources(void **state)
{
    (void)state;
    struct query *q = make_asking_code(100);
    struct packet p[16];
    struct err e = {0};
    struct view file = view_of("/source/ab.c"); /* 12 bytes: the NUL takes a packet of its own */
    assert_int_equal(query_ask_source(q, 77, view_of("a.out"), file, &e), 0);
    assert_int_equal(flush(q, p, 208), 6);
    static const uint8_t codes[] = {14, 15, 14, 15, 15, 13};
    for (size_t i = 0; i < sizeof codes; i++)
        assert_int_equal(p[i].code, codes[i]);
    assert_int_equal(p[0].ptr, 6);
    assert_int_equal(p[2].ptr, 13);
    char text[24];
    for (size_t i = 0; i < 2; i++) {
        memcpy(text + 12 * i, &p[3 + i].ptr, 8);
        memcpy(text + 12 * i + 8, &p[3 + i].extra, 4);
    }
    assert_string_equal(text, "/source/ab.c");
    assert_int_equal(p[5].ptr, 77);
    ask(q, QUERY_CALLSTACK_FRAME, 5);
    assert_int_equal(flush(q, p, 208), 1);
    for (int i = 0; i < 5; i++)
        assert_true(query_answered_noop(q));
    assert_int_equal(stats(q).flight, 2);
    assert_int_equal(stats(q).pending[QUERY_DATA_TRANSFER_PART], 0);
    assert_int_equal(query_answered(q, QUERY_CALLSTACK_FRAME, 5), ANSWER_EXPECTED);
    assert_int_equal(query_answered(q, QUERY_SOURCE_CODE, 77), ANSWER_EXPECTED);
    assert_true(query_idle(q));
    query_free(q);
    q = make(82, 100); /* not wanted: nothing is sent */
    assert_int_equal(query_ask_source(q, 77, view_of(""), file, &e), 0);
    assert_int_equal(flush(q, p, 208), 0);
    query_free(q);
}

/* What has time waits for all else, comes sooner when it is wanted now, and can be forgotten. */
static void test_patience(void **state)
{
    (void)state;
    static struct packet p[2000];
    struct query *q = make(82, 5000);
    struct err e = {0};
    for (uint64_t key = 1; key <= 1000; key++)
        assert_int_equal(query_ask_patiently(q, QUERY_CALLSTACK_FRAME, key, &e), 0);
    ask(q, QUERY_CALLSTACK_FRAME, 900); /* now a call stack has it */
    ask(q, QUERY_CALLSTACK_FRAME, 900);
    ask(q, QUERY_STRING, 5);
    assert_int_equal(stats(q).queued, 1001);
    size_t n = flush(q, p, 26000);
    assert_true(n > 10 && n < 500); /* never many in flight */
    assert_int_equal(p[0].code, 1);
    assert_int_equal(p[1].ptr, 900);
    assert_int_equal(p[2].ptr, 1);
    assert_int_equal(query_answered(q, QUERY_CALLSTACK_FRAME, 1), ANSWER_EXPECTED);
    assert_int_equal(query_answered(q, QUERY_CALLSTACK_FRAME, 901), ANSWER_EXPECTED);
    ask(q, QUERY_SYMBOL, 3);
    assert_int_equal(flush(q, p, 26000), 1);
    query_forget_patient(q);
    assert_int_equal(stats(q).queued, 0);
    assert_int_equal(flush(q, p, 26000), 0);
    query_answered(q, QUERY_STRING, 5);
    query_answered(q, QUERY_SYMBOL, 3);
    for (uint64_t key = 1; key <= 1000; key++)
        query_answered(q, QUERY_CALLSTACK_FRAME, key);
    assert_int_equal(stats(q).flight, 0);
    assert_int_equal(stats(q).pending[QUERY_CALLSTACK_FRAME], 0);
    assert_true(query_idle(q));
    query_free(q);
}

/* A whole queue of them, as space comes back, is sent once each. */
static void test_patience_pays(void **state)
{
    (void)state;
    static struct packet p[2000];
    struct query *q = make(82, 5000);
    struct err e = {0};
    size_t sent = 0, n;
    for (uint64_t key = 1; key <= 3000; key++) {
        assert_int_equal(query_ask_patiently(q, QUERY_CALLSTACK_FRAME, key, &e), 0);
        if (key % 7 == 0)
            ask(q, QUERY_CALLSTACK_FRAME, key);
    }
    while ((n = flush(q, p, 26000)) > 0) {
        for (size_t i = 0; i < n; i++)
            assert_int_equal(query_answered(q, QUERY_CALLSTACK_FRAME, p[i].ptr), ANSWER_EXPECTED);
        sent += n;
    }
    assert_int_equal(sent, 3000);
    assert_true(query_idle(q));
    query_free(q);
}

static void test_packets(void **state)
{
    (void)state;
    uint8_t packet[QUERY_PACKET_SIZE];
    uint64_t ptr;
    uint32_t extra;
    enum query_kind kind;
    for (unsigned i = 0; i < wire_version_count; i++) {
        const struct wire_version *v = &wire_versions[i];
        memset(packet, 0xee, sizeof packet);
        query_encode_terminate(v, packet);
        for (size_t k = 0; k < sizeof packet; k++)
            assert_int_equal(packet[k], 0);
        for (int want = 0; want < QUERY_KIND_COUNT; want++) {
            packet[0] = v->facts.query_code[want];
            store_u64(packet + 1, 0x1122334455667788u);
            store_u32(packet + 9, 0x99aabbccu);
            assert_true(query_packet_parse(v, packet, &kind, &ptr, &extra));
            assert_int_equal(kind, want);
            assert_int_equal(ptr, 0x1122334455667788u);
            assert_int_equal(extra, 0x99aabbccu);
        }
        packet[0] = 16;
        assert_false(query_packet_parse(v, packet, &kind, &ptr, &extra));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_space),          cmocka_unit_test(test_order),
        cmocka_unit_test(test_space_is_kept),  cmocka_unit_test(test_noops),
        cmocka_unit_test(test_external_names), cmocka_unit_test(test_source_locations),
        cmocka_unit_test(test_unwanted_kinds), cmocka_unit_test(test_idle),
        cmocka_unit_test(test_long_queue),     cmocka_unit_test(test_packets),
        cmocka_unit_test(test_code),           cmocka_unit_test(test_sources),
        cmocka_unit_test(test_patience),       cmocka_unit_test(test_patience_pays),
    };
    return cmocka_run_group_tests_name("protocol queries", tests, NULL, NULL);
}
