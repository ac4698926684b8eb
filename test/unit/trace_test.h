#ifndef TIDEMARK_TEST_TRACE_TEST_H
#define TIDEMARK_TEST_TRACE_TEST_H

/* Shared by the tests of trace/: traces in memory, and the corpus. Include after cmocka.h. */

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/buf.h"
#include "trace/file/reader.h"
#include "trace/file/writer.h"

/* Real traces: name.tracy under fixtures/traces/RELEASE. */
#define TRACE_FIXTURE_FILES(FILE)                                                                  \
    FILE("allscen")                                                                                \
    FILE("allscen_sys")                                                                            \
    FILE("memscen") FILE("wire_allscen") FILE("wire_memscen")

#define IN_ALL_RELEASES(NAME)                                                                      \
    "fixtures/traces/v0.9.1/" NAME ".tracy", "fixtures/traces/v0.10/" NAME ".tracy",               \
        "fixtures/traces/v0.11.1/" NAME ".tracy", "fixtures/traces/v0.12.2/" NAME ".tracy",        \
        "fixtures/traces/v0.13.1/" NAME ".tracy", "fixtures/traces/v0.14.0/" NAME ".tracy",

static const char *const trace_fixtures[] = {
    TRACE_FIXTURE_FILES(IN_ALL_RELEASES) /* and a few more: */
    "fixtures/traces/v0.11.1/memscen_freeunknown.tracy",
    "fixtures/traces/v0.11.1/memscen_ondemand.tracy",
    "fixtures/traces/v0.14.0/memscen_freeunknown.tracy",
    "fixtures/traces/v0.14.0/memscen_ondemand.tracy",
    "fixtures/traces/v0.14.0/memscen_mt.tracy",
};

#define TRACE_FIXTURES (sizeof trace_fixtures / sizeof trace_fixtures[0])

static inline int open_fixture(const char *path)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        fail_msg("%s is missing", path);
    return fd;
}

/* A file in memory with these bytes, to be read from its start. */
static inline int memory_file(const void *bytes, size_t len)
{
    int fd = memfd_create("test", MFD_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, bytes, len), (ssize_t)len);
    assert_int_equal(lseek(fd, 0, SEEK_SET), 0);
    return fd;
}

static inline void read_file(int fd, struct buf *out)
{
    assert_int_equal(lseek(fd, 0, SEEK_SET), 0);
    for (;;) {
        uint8_t *p = buf_reserve(out, 65536);
        assert_non_null(p);
        ssize_t n = read(fd, p, 65536);
        assert_true(n >= 0);
        if (n == 0)
            return;
        out->len += (size_t)n;
    }
}

static inline int put_block_to_buf(void *ctx, const uint8_t *block, size_t len, struct err *e)
{
    (void)e;
    buf_put(ctx, block, len);
    return 0;
}

/* An inner stream in memory, handed out in pieces of `piece` bytes. */
struct memory_source {
    const uint8_t *bytes;
    size_t len;
    size_t pos;
    size_t piece;
};

static inline ssize_t read_memory_source(void *ctx, uint8_t *out, size_t room, struct err *e)
{
    struct memory_source *m = ctx;
    (void)e;
    size_t n = m->len - m->pos;
    n = n < m->piece ? n : m->piece;
    n = n < room ? n : room;
    if (n > 0)
        memcpy(out, m->bytes + m->pos, n);
    m->pos += n;
    return (ssize_t)n;
}

static inline int read_inner_into(const void *bytes, size_t len, size_t piece,
                                  const struct record_sink *sink, struct trace_info *info,
                                  struct err *e)
{
    struct memory_source m = {bytes, len, 0, piece};
    struct byte_source source = {&m, read_memory_source};
    return trace_read_inner(source, sink, NULL, info, e);
}

/* Decompresses a whole container. */
static inline int unpack(int fd, struct buf *out, struct err *e)
{
    struct container_reader *r;
    if (container_reader_open(&r, fd, NULL, e) != 0)
        return -1;
    struct byte_source source = container_reader_source(r);
    uint8_t *block = malloc(SOURCE_ROOM);
    assert_non_null(block);
    ssize_t n;
    while ((n = source.read(source.ctx, block, SOURCE_ROOM, e)) > 0)
        buf_put(out, block, (size_t)n);
    free(block);
    container_reader_free(r);
    return n == 0 ? 0 : -1;
}

static inline int put_nowhere(void *ctx, enum record_type type, const void *recs, size_t n,
                              struct err *e)
{
    (void)recs, (void)e;
    if (ctx)
        ((uint64_t *)ctx)[type] += n;
    return 0;
}

static inline void assert_bytes_equal(const struct buf *a, const struct buf *b)
{
    assert_int_equal(a->len, b->len);
    for (size_t i = 0; i < a->len; i++) {
        if (a->data[i] != b->data[i])
            fail_msg("first difference at byte %zu of %zu: %02x, not %02x", i, a->len, a->data[i],
                     b->data[i]);
    }
}

#endif
