/*
 * The first byte picks a file version, the rest is the inner stream behind the version number. What
 * can be read is dumped, in both formats, with so little memory that the sort goes through files,
 * and again with plenty: the lines must be the same. Then as what another version has in common.
 */

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "analysis/dump/dump.h"
#include "base/buf.h"
#include "report/dump_format.h"
#include "test/fuzz/pieces.h"
#include "trace/file/codec.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static int read_inner(void *ctx, const struct record_sink *sink, const bool *wanted, struct err *e)
{
    const struct buf *in = ctx;
    struct pieces pieces = {in->data, in->len, 0};
    struct byte_source source = {&pieces, read_piece};
    const struct trace_read_options options = {.wanted = wanted};
    struct trace_info info;
    return trace_read_inner(source, sink, &options, &info, e);
}

/* Length and hash of the lines. */
struct outcome {
    uint64_t bytes, hash;
    int status;
};

static int add_up(void *ctx, const void *bytes, size_t n, struct err *e)
{
    struct outcome *o = ctx;
    const uint8_t *p = bytes;
    (void)e;
    for (size_t i = 0; i < n; i++)
        o->hash = (o->hash ^ p[i]) * 0x100000001b3u;
    o->bytes += n;
    return 0;
}

static struct outcome dump(struct buf *in, const struct dump_format *format,
                           const struct file_layout *common, size_t sort_bytes)
{
    struct outcome o = {0};
    struct err e = {0};
    struct dump_source source = {in, read_inner};
    struct dump_options options = {.limit = UINT64_MAX,
                                   .own = true,
                                   .common = common,
                                   .format = format,
                                   .sort_bytes = sort_bytes,
                                   .write = add_up,
                                   .write_ctx = &o};
    memset(options.sections, true, sizeof options.sections);
    o.status = dump_run(&source, &options, &e);
    return o;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    unsigned n;
    const struct file_layout *all = file_layout_all(&n);
    struct buf in = {0};
    uint8_t magic[INNER_MAGIC_SIZE];
    if (size < 1)
        return 0;
    codec_write_magic(all[data[0] % n].version, magic);
    buf_put(&in, magic, sizeof magic);
    buf_put(&in, data + 1, size - 1);
    struct outcome little = dump(&in, &dump_format_text, NULL, 2000);
    if (little.status == 0) {
        struct outcome plenty = dump(&in, &dump_format_text, NULL, 0);
        if (plenty.status == 0 && (plenty.bytes != little.bytes || plenty.hash != little.hash))
            abort();
    }
    dump(&in, &dump_format_jsonl, &all[data[0] / n % n], 0);
    buf_release(&in);
    return 0;
}
