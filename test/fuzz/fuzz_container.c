/*
 * Any bytes as a trace file: first only decompressed, then read as a trace. The containers' codecs
 * and the bounds of blocks are what is tried here; see fuzz_trace.c for what is inside.
 */

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "trace/file/container.h"
#include "trace/file/reader.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int put_nowhere(void *ctx, enum record_type type, const void *recs, size_t n, struct err *e)
{
    (void)ctx, (void)type, (void)recs, (void)n, (void)e;
    return 0;
}

/* The blocks, as long as they come. All but the last are whole. */
static void decompress(int fd)
{
    const struct container_limits limits = {.decoder_bytes = (uint64_t)64 << 20};
    struct container_reader *r;
    struct err e = {0};
    if (lseek(fd, 0, SEEK_SET) != 0 || container_reader_open(&r, fd, &limits, &e) != 0)
        return;
    struct byte_source source = container_reader_source(r);
    uint8_t *block = malloc(SOURCE_ROOM);
    ssize_t last = BLOCK_SIZE;
    for (ssize_t n; block && (n = source.read(source.ctx, block, SOURCE_ROOM, &e)) != 0; last = n) {
        if (n < 0)
            break;
        if (n > (ssize_t)BLOCK_SIZE || last != (ssize_t)BLOCK_SIZE)
            abort();
    }
    struct container_tail tail;
    const struct container_mark end = container_reader_mark(r);
    if (container_reader_tail(r, &end, &tail, &e) == 0 &&
        (tail.offset + tail.bytes != (uint64_t)lseek(fd, 0, SEEK_END) ||
         (tail.kind == TAIL_NONE) != (tail.bytes == 0)))
        abort();
    free(block);
    container_reader_free(r);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const struct record_sink nowhere = {NULL, put_nowhere};
    const struct trace_read_options options = {.limits = {.decoder_bytes = (uint64_t)64 << 20}};
    struct trace_info info;
    struct err e = {0};
    int fd = memfd_create("fuzz", MFD_CLOEXEC);
    if (fd < 0)
        return 0;
    if (write(fd, data, size) == (ssize_t)size) {
        decompress(fd);
        if (lseek(fd, 0, SEEK_SET) == 0)
            (void)trace_read(fd, "fuzz", &nowhere, &options, &info, &e);
    }
    close(fd);
    return 0;
}
