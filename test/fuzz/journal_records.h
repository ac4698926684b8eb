#ifndef TIDEMARK_TEST_FUZZ_JOURNAL_RECORDS_H
#define TIDEMARK_TEST_FUZZ_JOURNAL_RECORDS_H

/*
 * Inputs of fuzz_journal: the first byte picks what the rest is. RAW: a segment as it is. Else
 * records, each u8 type, u16 length, payload, which get the headers and checks of a journal: behind
 * wrong checks nothing would be reached.
 */

#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cursor.h"
#include "server/capture/journal_format.h"

#define JOURNAL_SEED_RAW 0u
#define JOURNAL_SEED_RECORDS 1u
#define JOURNAL_SEED_ID 42u

static inline void put_records(struct buf *out, struct cursor in)
{
    const struct segment_header segment = {.number = 1, .id = JOURNAL_SEED_ID};
    uint8_t header[SEGMENT_HEADER];
    segment_header_encode(&segment, header);
    buf_put(out, header, sizeof header);
    while (cursor_left(&in) > 3) {
        uint32_t type = cursor_u8(&in), len = cursor_u16(&in);
        len = len < cursor_left(&in) ? len : (uint32_t)cursor_left(&in);
        const uint8_t *p = cursor_take(&in, len);
        buf_u32(out, len);
        buf_u32(out, type);
        buf_u64(out, record_check(&segment, out->len - 8, type, p, len));
        buf_put(out, p, len);
    }
}

/* A file in memory with the segment that an input stands for. */
static inline int open_segment(const uint8_t *data, size_t size)
{
    struct buf out = {0};
    int fd = memfd_create("journal", MFD_CLOEXEC);
    if (size > 0 && data[0] == JOURNAL_SEED_RAW)
        buf_put(&out, data + 1, size - 1);
    else if (size > 0)
        put_records(&out, cursor_over(data + 1, size - 1));
    if (fd < 0 || out.failed || write(fd, out.data, out.len) != (ssize_t)out.len)
        abort();
    buf_release(&out);
    return fd;
}

#endif
