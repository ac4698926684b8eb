/*
 * Merging a hostile trace with a good one and with itself. The first bytes choose file version,
 * target version and offsets; the rest is the inner stream behind the version number. What comes
 * out of a merge must be readable and must stay the same when it is merged alone.
 */

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/bytes.h"
#include "test/fuzz/pieces.h"
#include "trace/file/codec.h"
#include "trace/merge/merge.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* 0 version, 1 target, 2 how and how often, 3 – 6 offset. */
#define CHOICE_BYTES 7u

enum { ALIGN_BEGIN = 1, TWICE = 2, WITH_OFFSET = 4, GOOD_FIRST = 8, SMALL_SPILL = 16 };

struct inputs {
    const struct buf *bufs[3];
};

static int read_input(void *ctx, size_t input, unsigned pass, const struct record_sink *sink,
                      const bool *wanted, struct trace_info *info, struct err *e)
{
    const struct inputs *in = ctx;
    struct pieces pieces = {in->bufs[input]->data, in->bufs[input]->len, 0};
    const struct trace_read_options options = {.wanted = wanted};
    (void)pass;
    return trace_read_inner((struct byte_source){&pieces, read_piece}, sink, &options, info, e);
}

static int put_block(void *ctx, const uint8_t *block, size_t len, struct err *e)
{
    (void)e;
    buf_put(ctx, block, len);
    return 0;
}

static int merge(const struct inputs *in, const struct merge_options *options, struct buf *out,
                 struct err *e)
{
    struct trace_writer *w = NULL;
    struct merge_outcome outcome = {0};
    const struct merge_source source = {(void *)in, read_input};
    const struct block_sink blocks = {.ctx = out, .put = put_block};
    *e = (struct err){0};
    int status = trace_writer_open_inner(&w, NULL, blocks, e);
    if (status == 0)
        status = merge_traces(&source, options, w, &outcome, e);
    if (status == 0)
        status = trace_writer_finish(w, NULL, e);
    trace_writer_free(w);
    buf_release(&outcome.notes);
    buf_release(&outcome.losses);
    return status;
}

static int drop(void *ctx, enum record_type type, const void *recs, size_t n, struct err *e)
{
    (void)ctx, (void)type, (void)recs, (void)n, (void)e;
    return 0;
}

/* What was merged must be a trace. */
static void must_read(const struct buf *trace)
{
    struct pieces pieces = {trace->data, trace->len, 0};
    const struct record_sink sink = {NULL, drop};
    struct trace_info info;
    struct err e = {0};
    if (trace_read_inner((struct byte_source){&pieces, read_piece}, &sink, NULL, &info, &e) == 0 ||
        e.code == ERR_MEMORY)
        return;
    fprintf(stderr, "%s\n", e.text);
    abort();
}

/* The smallest trace: what a list has when nothing is in it. */
static void put_good(struct buf *out)
{
    uint8_t magic[INNER_MAGIC_SIZE];
    codec_write_magic(FILE_VERSION_MAX, magic);
    buf_put(out, magic, sizeof magic);
    static const uint8_t zero[4096];
    /* Header up to its texts, three empty texts with times between, topology, crash. */
    buf_put(out, zero, 8 + 8 + 8 + 8 + 8 + 8 + 1 + 4 + 12 + 1 + 8 + 8 + 8 + 8 + 8 + 8 + 28);
    buf_put(out, zero, 8);      /* frame sets */
    buf_put(out, zero, 16);     /* sections */
    buf_put(out, zero, 8 * 4);  /* strings, pointers, thread names, external names */
    buf_put(out, zero, 8 * 2);  /* thread tables */
    buf_put(out, zero, 8 * 5);  /* source locations, statistics */
    buf_put(out, zero, 8 * 3);  /* locks, messages, zone extras */
    buf_put(out, zero, 24 * 2); /* threads, GPU contexts */
    buf_put(out, zero, 8 + 16); /* plots, pools */
    buf_put(out, zero, 8 * 3);  /* call stacks, their frames, application info */
    buf_put(out, zero, 4 + 8);  /* frame images */
    buf_put(out, zero, 8 + 8 + 256 * 8);
    buf_put(out, zero, 8 * 2 + 24 + 8 * 4); /* processes to source files */
}

static void merge_both(const uint8_t *data, const struct buf *bad, const struct buf *good)
{
    unsigned n;
    const struct file_layout *all = file_layout_all(&n);
    struct merge_input_options inputs[3] = {{.name = "a"}, {.name = "b"}, {.name = "c"}};
    struct merge_options options = {.inputs = inputs, .n = 2 + (data[2] & TWICE) / TWICE};
    struct inputs in = {{bad, good, bad}};
    struct buf once = {0}, again = {0};
    struct err e;
    if (data[2] & GOOD_FIRST) {
        in.bufs[0] = good;
        in.bufs[1] = bad;
    }
    options.align_begin = data[2] & ALIGN_BEGIN;
    options.target = &all[data[1] % n];
    options.spill_records = data[2] & SMALL_SPILL ? 3 : 0;
    inputs[1].has_offset = data[2] & WITH_OFFSET;
    inputs[1].offset = load_i32(data + 3) * (INT64_C(1) << (data[2] >> 5) * 4);
    if (merge(&in, &options, &once, &e) == 0) {
        must_read(&once);
        in.bufs[0] = &once;
        options.n = 1;
        inputs[0].has_offset = false;
        if (merge(&in, &options, &again, &e) == 0) {
            must_read(&again);
        } else if (e.code != ERR_MEMORY) {
            fprintf(stderr, "%s\n", e.text);
            abort();
        }
    }
    buf_release(&once);
    buf_release(&again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    unsigned n;
    const struct file_layout *all = file_layout_all(&n);
    struct buf bad = {0}, good = {0};
    uint8_t magic[INNER_MAGIC_SIZE];
    if (size < CHOICE_BYTES)
        return 0;
    codec_write_magic(all[data[0] % n].version, magic);
    buf_put(&bad, magic, sizeof magic);
    buf_put(&bad, data + CHOICE_BYTES, size - CHOICE_BYTES);
    put_good(&good);
    must_read(&good);
    merge_both(data, &bad, &good);
    buf_release(&bad);
    buf_release(&good);
    return 0;
}
