/*
 * The first byte picks a file version, the rest is the inner stream behind the version number. What
 * can be read is written and read again: both inner streams must be the same. Then it is converted
 * to another version, picked by the same byte, and that must be readable too.
 */

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "test/fuzz/pieces.h"
#include "trace/file/codec.h"
#include "trace/file/reader.h"
#include "trace/file/writer.h"
#include "trace/filter/convert.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int put_block(void *ctx, const uint8_t *block, size_t len, struct err *e)
{
    (void)e;
    buf_put(ctx, block, len);
    return 0;
}

/* Reads, converts (NULL: to the same version) and writes. */
static int rewrite(const struct buf *in, const struct file_layout *target, struct buf *out,
                   struct err *e)
{
    struct pieces pieces = {in->data, in->len, 0};
    struct byte_source source = {&pieces, read_piece};
    struct block_sink blocks = {.ctx = out, .put = put_block};
    struct trace_writer *w = NULL;
    struct convert *c = NULL;
    struct trace_info info;
    const struct convert_options options = {.target = target, .spill_records = 4096};
    int status = trace_writer_open_inner(&w, NULL, blocks, e);
    if (status == 0) {
        struct record_sink to_writer = trace_writer_sink(w);
        status = convert_open(&c, &to_writer, &options, e);
    }
    if (status == 0) {
        struct record_sink to_convert = convert_sink(c);
        status = trace_read_inner(source, &to_convert, NULL, &info, e);
    }
    if (status == 0)
        status = trace_writer_finish(w, NULL, e);
    convert_free(c);
    trace_writer_free(w);
    return status;
}

static void must(int status, const struct err *e)
{
    if (status == 0 || e->code == ERR_MEMORY)
        return;
    fprintf(stderr, "%s\n", e->text);
    abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    unsigned n;
    const struct file_layout *all = file_layout_all(&n);
    struct buf in = {0}, once = {0}, twice = {0}, converted = {0}, back = {0};
    struct err e = {0};
    uint8_t magic[INNER_MAGIC_SIZE];
    if (size < 1)
        return 0;
    codec_write_magic(all[data[0] % n].version, magic);
    buf_put(&in, magic, sizeof magic);
    buf_put(&in, data + 1, size - 1);
    if (rewrite(&in, NULL, &once, &e) == 0) {
        must(rewrite(&once, NULL, &twice, &e), &e);
        if (once.len != twice.len || memcmp(once.data, twice.data, once.len) != 0)
            abort();
        /* Zones without a location may have nothing to become; all else must go. */
        if (rewrite(&once, &all[data[0] / n % n], &converted, &e) == 0)
            must(rewrite(&converted, NULL, &back, &e), &e);
    }
    buf_release(&in);
    buf_release(&once);
    buf_release(&twice);
    buf_release(&converted);
    buf_release(&back);
    return 0;
}
