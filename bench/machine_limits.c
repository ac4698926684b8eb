/*
 * The machine's limits on the same bytes: CPU time for one copy and one LZ4 decode of a recording,
 * and for decoding and encoding its trace's container. Prints one "name seconds bytes" line each.
 *
 *     limits RECORDING.c2s.bin TRACE.tracy SCRATCH
 */

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "bench/bench_bytes.h"
#include "protocol/handshake.h"
#include "protocol/wire_frame.h"
#include "trace/file/appendix.h"
#include "trace/file/container.h"

static double cpu_seconds(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void show(const char *name, double began, size_t bytes)
{
    printf("%s %.6f %zu\n", name, cpu_seconds() - began, bytes);
}

static void measure_copy(struct bytes in)
{
    uint8_t *to = malloc(in.len + 1);
    if (!to)
        exit(4);
    memset(to, 1, in.len); /* fault the pages in before timing */
    double began = cpu_seconds();
    memcpy(to, in.p, in.len);
    __asm__ volatile("" ::"r"(to) : "memory");
    show("copy", began, in.len);
    free(to);
}

static int measure_frames(struct bytes in, size_t skip, struct err *e)
{
    struct frame_reader *r = frame_reader_new();
    const uint8_t *p = in.p + skip;
    size_t left = in.len > skip ? in.len - skip : 0;
    struct wire_frame frame;
    int status = r ? 1 : -1;
    double began = cpu_seconds();
    while (status == 1)
        status = frame_reader_feed(r, &p, &left, &frame, e);
    if (status == 0)
        show("lz4-decode", began, frame_reader_stats(r)->bytes_out);
    frame_reader_free(r);
    return status;
}

/* The end of the trace's blocks: a summary may follow (trace/file/appendix.h). */
static int find_end(int in, uint64_t *end, struct err *e)
{
    struct appendix a;
    int found = appendix_read(in, &a, e);
    *end = found == 1 ? a.trace_bytes : UINT64_MAX;
    free(a.content);
    return found;
}

static int measure_container(const char *trace, const char *scratch, struct err *e)
{
    struct container_reader *r = NULL;
    struct container_writer *w = NULL;
    struct container_options options = container_options_default();
    uint8_t *block = malloc(SOURCE_ROOM);
    int in = open(trace, O_RDONLY | O_CLOEXEC);
    int out = open(scratch, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    double decoding = 0, encoding = 0;
    uint64_t end;
    size_t total = 0;
    int status = -1;
    if (!block || in < 0 || out < 0 || find_end(in, &end, e) < 0 ||
        container_reader_open(&r, in, NULL, e) != 0 ||
        container_writer_open(&w, out, &options, e) != 0)
        goto done;
    struct byte_source source = container_reader_source(r);
    struct block_sink sink = container_writer_sink(w);
    while (container_reader_mark(r).offset < end) {
        double a = cpu_seconds();
        ssize_t n = source.read(source.ctx, block, SOURCE_ROOM, e);
        double b = cpu_seconds();
        if (n < 0)
            goto done;
        if (n == 0)
            break;
        if (sink.put(sink.ctx, block, (size_t)n, e) != 0)
            goto done;
        decoding += b - a;
        encoding += cpu_seconds() - b;
        total += (size_t)n;
    }
    printf("container-decode %.6f %zu\ncontainer-encode %.6f %zu\n", decoding, total, encoding,
           total);
    status = 0;
done:
    container_reader_free(r);
    container_writer_free(w);
    free(block);
    if (in >= 0)
        close(in);
    if (out >= 0)
        close(out);
    unlink(scratch);
    return status;
}

int main(int argc, char **argv)
{
    struct err e = {0};
    if (argc != 4) {
        fprintf(stderr, "usage: limits RECORDING.c2s.bin TRACE.tracy SCRATCH\n");
        return 2;
    }
    struct bytes in = read_whole(argv[1]);
    /* The firehose writes protocol 82 by default: status byte, then a welcome. */
    size_t skip = 1 + wire_version_welcome_size(wire_version_find(PROTOCOL_MAX));
    measure_copy(in);
    if (measure_frames(in, skip, &e) != 0 || measure_container(argv[2], argv[3], &e) != 0) {
        fprintf(stderr, "limits: %s\n", e.text);
        return 3;
    }
    free(in.p);
    return 0;
}
