/* What is appended to a trace: whole or not there, and no matter for those who read the trace. */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "test/unit/trace_test.h"
#include "trace/file/appendix.h"

#define FIXTURE "fixtures/traces/v0.14.0/memscen.tracy"
#define PIECE 65512u

static int copy_of_fixture(struct buf *bytes)
{
    int from = open_fixture(FIXTURE);
    read_file(from, bytes);
    close(from);
    return memory_file(bytes->data, bytes->len);
}

static unsigned warnings_of(int fd, bool ahead)
{
    const struct record_sink sink = {NULL, put_nowhere};
    const struct trace_read_options options = {.ahead = ahead};
    struct trace_info info;
    struct err e = {0};
    assert_int_equal(lseek(fd, 0, SEEK_SET), 0);
    if (trace_read(fd, "x", &sink, &options, &info, &e) != 0)
        fail_msg("%s", e.text);
    return info.warning_count;
}

static void fill(struct buf *content, size_t len)
{
    for (size_t i = 0; i < len; i++)
        buf_u8(content, (uint8_t)(i * 7 + i / 251));
}

static void test_contents_of_all_lengths(void **state)
{
    (void)state;
    static const size_t lengths[] = {0, 1, 4000, PIECE - 1, PIECE, PIECE + 1, 131024, 300000};
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        struct buf trace = {0}, content = {0}, after = {0};
        struct appendix a;
        struct err e = {0};
        int fd = copy_of_fixture(&trace);
        fill(&content, lengths[i]);
        assert_int_equal(appendix_read(fd, &a, &e), 0);
        assert_int_equal(appendix_write(fd, buf_view(&content), &e), 0);
        assert_int_equal(appendix_read(fd, &a, &e), 1);
        assert_int_equal(a.trace_bytes, trace.len);
        assert_int_equal(a.len, lengths[i]);
        assert_true(a.len == 0 || memcmp(a.content, content.data, a.len) == 0);
        free(a.content);
        read_file(fd, &after);
        assert_memory_equal(after.data, trace.data, trace.len);
        assert_int_equal(warnings_of(fd, false), 0);
        assert_int_equal(warnings_of(fd, true), 0);
        close(fd);
        buf_release(&trace);
        buf_release(&content);
        buf_release(&after);
    }
}

/* To whoever walks the file it is blocks, none larger than official readers have room for. */
static void test_it_looks_like_blocks(void **state)
{
    (void)state;
    struct buf trace = {0}, content = {0}, after = {0};
    struct err e = {0};
    int fd = copy_of_fixture(&trace);
    fill(&content, 200000);
    assert_int_equal(appendix_write(fd, buf_view(&content), &e), 0);
    read_file(fd, &after);
    size_t at = 6, blocks = 0;
    for (; at < after.len; blocks++) {
        uint32_t size = load_u32(after.data + at);
        assert_in_range(size, 1, 65536);
        if (at >= trace.len) {
            assert_int_equal(load_u24(after.data + at + 4), (size - 3) << 3);
        }
        at += 4 + size;
    }
    assert_int_equal(at, after.len);
    assert_true(blocks > 5);
    close(fd);
    buf_release(&trace);
    buf_release(&content);
    buf_release(&after);
}

static int found_in(const uint8_t *bytes, size_t len)
{
    struct appendix a;
    struct err e = {0};
    int fd = memory_file(bytes, len);
    int found = appendix_read(fd, &a, &e);
    assert_int_equal(e.code, 0);
    free(a.content);
    close(fd);
    return found;
}

static void test_it_holds_for_these_bytes_only(void **state)
{
    (void)state;
    struct buf trace = {0}, content = {0}, after = {0};
    struct err e = {0};
    int fd = copy_of_fixture(&trace);
    fill(&content, 500);
    assert_int_equal(appendix_write(fd, buf_view(&content), &e), 0);
    read_file(fd, &after);
    close(fd);
    assert_int_equal(found_in(after.data, after.len), 1);
    for (size_t i = 0; i < after.len; i += i < trace.len - 20 ? 97 : 1) {
        uint8_t whole = after.data[i];
        after.data[i] = (uint8_t)(whole ^ 1u << i % 8);
        assert_int_equal(found_in(after.data, after.len), 0);
        after.data[i] = whole;
    }
    for (size_t cut = 1; cut <= after.len - trace.len + 5; cut++)
        assert_int_equal(found_in(after.data, after.len - cut), 0);
    assert_int_equal(found_in(after.data + 1, after.len - 1), 0);
    buf_u8(&after, 0);
    assert_int_equal(found_in(after.data, after.len), 0);
    buf_release(&trace);
    buf_release(&content);
    buf_release(&after);
}

/* An end that tells of sizes which are not in the file. */
static void test_lengths_that_lie(void **state)
{
    (void)state;
    static const uint64_t lies[] = {0,         1,         499, 501, UINT32_MAX, INT64_MAX / 2,
                                    INT64_MAX, UINT64_MAX};
    struct buf trace = {0}, content = {0}, after = {0};
    struct err e = {0};
    int fd = copy_of_fixture(&trace);
    fill(&content, 500);
    assert_int_equal(appendix_write(fd, buf_view(&content), &e), 0);
    read_file(fd, &after);
    close(fd);
    for (size_t field = 23; field <= 31; field += 8) {
        uint8_t *at = after.data + after.len - APPENDIX_END + field;
        uint64_t right = load_u64(at);
        for (size_t i = 0; i < sizeof lies / sizeof *lies; i++) {
            store_u64(at, lies[i]);
            assert_int_equal(found_in(after.data, after.len), 0);
        }
        store_u64(at, right);
    }
    assert_int_equal(found_in(after.data, after.len), 1);
    buf_release(&trace);
    buf_release(&content);
    buf_release(&after);
}

/* Other bytes behind a trace are told, also beside an appendix. */
static void test_other_bytes_are_told(void **state)
{
    (void)state;
    struct buf trace = {0}, content = {0};
    struct err e = {0};
    close(copy_of_fixture(&trace));
    buf_put(&trace, "\1\0\0\0?", 5);
    int fd = memory_file(trace.data, trace.len);
    fill(&content, 500);
    assert_int_equal(warnings_of(fd, false), 1);
    assert_int_equal(appendix_write(fd, buf_view(&content), &e), 0);
    assert_int_equal(warnings_of(fd, false), 1);
    assert_int_equal(warnings_of(fd, true), 1);
    close(fd);
    buf_release(&trace);
    buf_release(&content);
}

static void test_without_room_the_trace_stays(void **state)
{
    (void)state;
    struct buf trace = {0}, content = {0};
    struct rlimit before, least;
    struct stat st;
    struct err e = {0};
    char path[] = "/tmp/tidemark-appendix-XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    unlink(path);
    close(copy_of_fixture(&trace));
    assert_int_equal(write(fd, trace.data, trace.len), (ssize_t)trace.len);
    fill(&content, 300000);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    least = before;
    least.rlim_cur = trace.len + 100000;
    void (*was)(int) = signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &least), 0);
    int status = appendix_write(fd, buf_view(&content), &e);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    signal(SIGXFSZ, was);
    assert_int_equal(status, -1);
    assert_int_equal(e.code, ERR_OUTPUT);
    assert_int_equal(fstat(fd, &st), 0);
    assert_int_equal(st.st_size, (off_t)trace.len);
    close(fd);
    buf_release(&trace);
    buf_release(&content);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_contents_of_all_lengths),
        cmocka_unit_test(test_it_looks_like_blocks),
        cmocka_unit_test(test_it_holds_for_these_bytes_only),
        cmocka_unit_test(test_lengths_that_lie),
        cmocka_unit_test(test_other_bytes_are_told),
        cmocka_unit_test(test_without_room_the_trace_stays),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
