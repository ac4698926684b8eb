/*
 * Decompressed items of any protocol, from the decoder through the store to the file: what a
 * capture saves of them must be a trace that the reader takes. The first byte picks the protocol,
 * the bits of the second an on-demand client, parts, and a spool that holds little.
 */

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "protocol/decoder.h"
#include "trace/file/reader.h"
#include "trace/file/writer.h"
#include "trace/ingest/ingest.h"
#include "trace/save/save.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define ON_DEMAND 1u
#define PARTS 2u
#define SMALL_SPOOL 4u
#define UNKNOWN_FREES 8u

static void must(int status, const struct err *e)
{
    if (status == 0 || e->code == ERR_MEMORY)
        return;
    fprintf(stderr, "%s\n", e->text);
    abort();
}

static int put_block(void *ctx, const uint8_t *block, size_t len, struct err *e)
{
    (void)e;
    buf_put(ctx, block, len);
    return 0;
}

struct pieces {
    const struct buf *from;
    size_t pos;
};

static ssize_t read_piece(void *ctx, uint8_t *out, size_t room, struct err *e)
{
    struct pieces *p = ctx;
    (void)e;
    size_t n = p->from->len - p->pos;
    n = n < room ? n : room;
    if (n > 0)
        memcpy(out, p->from->data + p->pos, n);
    p->pos += n;
    return (ssize_t)n;
}

static int put_nowhere(void *ctx, enum record_type type, const void *recs, size_t n, struct err *e)
{
    (void)ctx;
    (void)type;
    (void)recs;
    (void)n;
    (void)e;
    return 0;
}

/* Saves the store and reads what was saved. */
static int save_and_read(void *ctx, struct err *e)
{
    struct ingest *in = ctx;
    struct buf bytes = {0};
    struct block_sink blocks = {.ctx = &bytes, .put = put_block};
    struct record_sink nowhere = {NULL, put_nowhere};
    struct pieces pieces = {&bytes, 0};
    struct byte_source source = {&pieces, read_piece};
    struct trace_writer *w = NULL;
    struct trace_info info;
    int status = ingest_finish(in, e);
    if (status == 0)
        status = trace_writer_open_inner(&w, NULL, blocks, e);
    if (status == 0) {
        struct record_sink to_writer = trace_writer_sink(w);
        status = trace_save(in->trace, &to_writer, e);
    }
    if (status == 0)
        status = trace_writer_finish(w, NULL, e);
    trace_writer_free(w);
    if (status == 0)
        status = trace_read_inner(source, &nowhere, NULL, &info, e);
    must(status, e);
    buf_release(&bytes);
    return status;
}

static void decode(struct ingest *in, const struct wire_version *v, const uint8_t *data,
                   size_t size)
{
    struct welcome w = {.timer_mul = 0.5, .init_begin = 1000, .cpu_arch = ARCH_X64};
    struct err e = {0};
    struct query *q =
        query_new(&(struct query_config){.version = v, .space = 100, .ask = QUERY_ASK_DEFAULT});
    struct decoder *d = decoder_new(
        &(struct decoder_config){.version = v, .welcome = &w, .query = q, .sink = in->sink});
    if (!q || !d)
        abort();
    if (decoder_frame(d, data, size, &e) != 0 && e.code != ERR_INPUT)
        must(-1, &e);
    decoder_free(d);
    query_free(q);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct trace t;
    struct ingest in;
    struct err e = {0};
    if (size < 2)
        return 0;
    const struct trace_options options = {.resident_budget = data[1] & SMALL_SPOOL ? 1 : 0};
    if (trace_init(&t, &options, &e) != 0 || ingest_init(&in, &t, &e) != 0)
        abort();
    t.facts.on_demand = data[1] & ON_DEMAND;
    in.unknown_frees_expected = data[1] & UNKNOWN_FREES;
    if (data[1] & PARTS) {
        in.time_limit = 100000;
        in.part_full = save_and_read;
        in.part_full_ctx = &in;
    }
    decode(&in, &wire_versions[*data % wire_version_count], data + 2, size - 2);
    save_and_read(&in, &e);
    ingest_release(&in);
    trace_release(&t);
    return 0;
}
