/* Request, status, welcome, on-demand payload and announcements, both ways. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <math.h>
#include <string.h>

#include "base/bytes.h"
#include "protocol/handshake.h"

static void test_request(void **state)
{
    (void)state;
    uint8_t request[HANDSHAKE_REQUEST_SIZE];
    uint32_t protocol;
    struct err e = {0};
    handshake_request_encode(82, request);
    assert_memory_equal(request, "TracyPrf\x52\0\0\0", sizeof request);
    assert_int_equal(handshake_request_parse(request, &protocol, &e), 0);
    assert_int_equal(protocol, 82);
    request[7] = 'g';
    assert_int_equal(handshake_request_parse(request, &protocol, &e), -1);
    assert_int_equal(e.code, ERR_INPUT);
}

static void test_status(void **state)
{
    (void)state;
    for (unsigned byte = 0; byte < 256; byte++) {
        enum handshake_status status;
        struct err e = {0};
        int rc = handshake_status_parse((uint8_t)byte, &status, &e);
        assert_int_equal(rc, byte >= 1 && byte <= 3 ? 0 : -1);
        if (rc == 0)
            assert_int_equal(status, byte);
        else
            assert_non_null(strstr(e.text, "status byte"));
    }
}

static const struct welcome full = {
    .timer_mul = 0.25,
    .init_begin = -5,
    .init_end = 0x1122334455667788,
    .delay = 12,
    .resolution = 34,
    .epoch = 1700000000,
    .exec_time = 1600000000,
    .pid = 4242,
    .sampling_period = 100000,
    .flags = WELCOME_ON_DEMAND | WELCOME_COMBINE_SAMPLES | 0x80,
    .cpu_arch = ARCH_ARM64,
    .cpu_manufacturer = "GenuineIntel",
    .cpu_id = 0x906ea,
    .program_name = "program",
    .host_info = "OS: Linux\nRAM: 1 GB",
};

static void test_welcome(void **state)
{
    (void)state;
    for (unsigned i = 0; i < wire_version_count; i++) {
        const struct wire_version *v = &wire_versions[i];
        uint8_t bytes[WELCOME_SIZE_MAX + 1];
        struct welcome w, want = full;
        struct err e = {0};
        memset(bytes, 0xee, sizeof bytes);
        welcome_encode(v, &full, bytes);
        size_t n = wire_version_welcome_size(v);
        assert_int_equal(bytes[n], 0xee); /* not a byte more */
        assert_int_equal(bytes[n - 1], 0);
        if (!v->facts.welcome_delay)
            want.delay = 0;
        assert_int_equal(welcome_parse(v, bytes, n, &w, &e), 0);
        assert_int_equal(w.init_begin, want.init_begin);
        assert_memory_equal(&w, &want, sizeof w);
        assert_int_equal(welcome_parse(v, bytes, n - 1, &w, &e), -1);
        assert_int_equal(welcome_parse(v, bytes, n + 1, &w, &e), -1);
        assert_non_null(strstr(e.text, "welcome"));
        /* the layout of the fact sheet */
        size_t shift = v->protocol <= 74 ? 8 : 0;
        assert_int_equal(load_u64(bytes + 24 + shift), 34);
        assert_int_equal(bytes[64 + shift], full.flags);
        assert_memory_equal(bytes + 82 + shift, "program", 8);
        assert_memory_equal(bytes + 146 + shift, "OS: ", 4);
    }
}

/* Texts that fill their field have no NUL on the wire; they must have one here. */
static void test_welcome_full_texts(void **state)
{
    (void)state;
    const struct wire_version *v = wire_version_find(82);
    uint8_t bytes[WELCOME_SIZE_MAX];
    struct welcome w;
    struct err e = {0};
    memset(bytes, 'x', sizeof bytes);
    store_f64(bytes, 1);
    assert_int_equal(welcome_parse(v, bytes, wire_version_welcome_size(v), &w, &e), 0);
    assert_int_equal(strlen(w.cpu_manufacturer), 12);
    assert_int_equal(strlen(w.program_name), 64);
    assert_int_equal(strlen(w.host_info), 1024);
}

static void test_welcome_clock(void **state)
{
    (void)state;
    static const double bad[] = {0, -0.0, -1, (double)NAN, (double)INFINITY, -(double)INFINITY};
    const struct wire_version *v = wire_version_find(63);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        uint8_t bytes[WELCOME_SIZE_MAX];
        struct welcome w = full;
        struct err e = {0};
        w.timer_mul = bad[i];
        welcome_encode(v, &w, bytes);
        assert_int_equal(welcome_parse(v, bytes, wire_version_welcome_size(v), &w, &e), -1);
        assert_int_equal(e.code, ERR_INPUT);
        assert_non_null(strstr(e.text, "offset 0: timer factor"));
    }
    struct welcome w = {.timer_mul = 0.5, .init_begin = 100};
    assert_int_equal(welcome_time(&w, 100), 0);
    assert_int_equal(welcome_time(&w, 203), 51);
    assert_int_equal(welcome_time(&w, 97), -1);
    assert_int_equal(welcome_period(&w, 7), 3);
    w.timer_mul = 1e300;
    assert_int_equal(welcome_time(&w, 200), INT64_MAX);
    assert_int_equal(welcome_time(&w, 0), INT64_MIN);
    assert_int_equal(welcome_period(&w, UINT64_MAX), INT64_MAX);
}

static void test_on_demand(void **state)
{
    (void)state;
    uint8_t bytes[ON_DEMAND_SIZE];
    struct on_demand o;
    on_demand_encode(&(struct on_demand){.frames = 0x0102030405060708, .time = -9}, bytes);
    assert_int_equal(bytes[0], 8);
    on_demand_parse(bytes, &o);
    assert_int_equal(o.frames, 0x0102030405060708);
    assert_int_equal(o.time, -9);
}

static const struct broadcast announcement = {
    .port = 8087, .protocol = 76, .pid = 99, .active_time = -1, .name = "abc"};

static void test_broadcast_layouts(void **state)
{
    (void)state;
    static const size_t lengths[] = {16, 20, 16, 24};
    for (uint32_t version = 0; version < 4; version++) {
        struct broadcast b = announcement, got;
        uint8_t bytes[BROADCAST_SIZE_MAX];
        struct err e = {0};
        b.version = version;
        size_t n = broadcast_encode(&b, bytes);
        assert_int_equal(n, lengths[version]);
        assert_int_equal(broadcast_parse(bytes, n, &got, &e), 0);
        assert_int_equal(got.version, version);
        assert_int_equal(got.port, version == 0 ? 8086 : 8087);
        assert_int_equal(got.protocol, 76);
        assert_int_equal(got.pid, version == 3 ? 99 : 0);
        assert_int_equal(got.active_time, -1);
        assert_string_equal(got.name, "abc");
        /* every shorter one: an error, or a shorter name; without its NUL, too */
        for (size_t cut = 0; cut < n; cut++) {
            int rc = broadcast_parse(bytes, cut, &got, &e);
            assert_int_equal(rc, cut + 4 >= n ? 0 : -1);
            if (rc == 0)
                assert_int_equal(strlen(got.name), cut - (n - 4));
        }
    }
    assert_int_equal(broadcast_encode(&(struct broadcast){.version = 4}, (uint8_t[84]){0}), 0);
}

/* The datagram of a v0.14.0 client as it was seen on the wire. */
static void test_broadcast_real(void **state)
{
    (void)state;
    static const char bytes[] = "\x03\0\x96\x1f\x52\0\0\0\x39\x30\0\0\0\0\0\0\x06\0\0\0dev";
    struct broadcast b;
    struct err e = {0};
    assert_int_equal(broadcast_parse((const uint8_t *)bytes, sizeof bytes, &b, &e), 0);
    assert_int_equal(b.port, 8086);
    assert_int_equal(b.protocol, 82);
    assert_int_equal(b.pid, 12345);
    assert_int_equal(b.active_time, 6);
    assert_string_equal(b.name, "dev");
}

static void expect_bad_broadcast(uint32_t version, size_t len, size_t at, uint8_t value,
                                 const char *cause)
{
    struct broadcast b = announcement;
    uint8_t bytes[BROADCAST_SIZE_MAX + 4] = {0};
    struct err e = {0};
    b.version = version;
    size_t n = broadcast_encode(&b, bytes);
    bytes[at] = value;
    assert_int_equal(broadcast_parse(bytes, len ? len : n, &b, &e), -1);
    assert_int_equal(e.code, ERR_INPUT);
    if (!strstr(e.text, cause))
        fail_msg("\"%s\" does not say \"%s\"", e.text, cause);
}

static void test_bad_broadcasts(void **state)
{
    (void)state;
    expect_bad_broadcast(3, 85, 0, 3, "85 bytes where 20 to 84 belong");
    expect_bad_broadcast(3, 19, 0, 3, "19 bytes where 20 to 84 belong");
    expect_bad_broadcast(2, 77, 0, 2, "77 bytes where 12 to 76 belong");
    expect_bad_broadcast(1, 81, 0, 1, "81 bytes where 16 to 80 belong");
    expect_bad_broadcast(0, 77, 0, 0, "77 bytes where 12 to 76 belong");
    expect_bad_broadcast(3, 3, 0, 3, "3 bytes are too few");
    expect_bad_broadcast(3, 0, 0, 4, "unknown layout 4");
    expect_bad_broadcast(1, 0, 2, 1, "unknown layout 1"); /* upper half of the wide version */
    expect_bad_broadcast(1, 0, 10, 1, "port 73623 does not exist");
    struct broadcast b = announcement;
    uint8_t bytes[BROADCAST_SIZE_MAX];
    struct err e = {0};
    b.version = 3;
    b.port = 0;
    assert_int_equal(broadcast_parse(bytes, broadcast_encode(&b, bytes), &b, &e), -1);
    assert_non_null(strstr(e.text, "port 0 does not exist"));
    /* a name of 64 bytes without NUL */
    memset(bytes, 'n', sizeof bytes);
    store_u16(bytes, 3);
    assert_int_equal(broadcast_parse(bytes, 84, &b, &e), 0);
    assert_int_equal(strlen(b.name), 64);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_request),           cmocka_unit_test(test_status),
        cmocka_unit_test(test_welcome),           cmocka_unit_test(test_welcome_full_texts),
        cmocka_unit_test(test_welcome_clock),     cmocka_unit_test(test_on_demand),
        cmocka_unit_test(test_broadcast_layouts), cmocka_unit_test(test_broadcast_real),
        cmocka_unit_test(test_bad_broadcasts),
    };
    return cmocka_run_group_tests_name("protocol handshake", tests, NULL, NULL);
}
