/*
 * The streaming filters on hostile traces. The first bytes choose what is done: file version,
 * target version, letters to strip, which filters, the range; the rest is the inner stream behind
 * the version number. What the filters make of a trace that can be read must be readable too, and
 * written again it must stay the same.
 */

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/bytes.h"
#include "test/fuzz/pieces.h"
#include "trace/file/codec.h"
#include "trace/filter/rewrite.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* 0 version, 1 target, 2 letters, 3 the rest of them and filters, 4 pools, 5 – 8 range. */
#define CHOICE_BYTES 9u

enum {
    WITH_POOLS = 2,
    WITH_RANGE = 4,
    WITH_SYMBOLS = 8,
    WITH_RESET = 16,
    WITH_DICT = 32,
    WITH_RENAME = 64,
};

static int read_pass(void *ctx, unsigned pass, const struct record_sink *sink, const bool *wanted,
                     struct trace_info *info, struct err *e)
{
    const struct buf *in = ctx;
    struct pieces pieces = {in->data, in->len, 0};
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

static int name_frames(void *ctx, struct symbolize *s, struct err *e)
{
    (void)ctx;
    for (size_t i = 0; i < symbolize_images(s); i++) {
        size_t n;
        symbolize_offsets(s, i, &n);
        for (size_t k = 0; k < n; k += 2) {
            struct view file = k % 4 ? view_of("f.c") : (struct view){NULL, 0};
            if (symbolize_answer(s, i, k, symbolize_image(s, i), file, (uint32_t)k, e) != 0)
                return -1;
        }
    }
    return 0;
}

static int rename_frames(void *ctx, struct reframe *r, struct err *e)
{
    struct frame_book *b = reframe_book(r);
    struct rec_inline_frame in[UINT8_MAX];
    (void)ctx;
    for (size_t i = 0; i < b->callstacks->frames.len; i += 2) {
        size_t n = i % 7 == 0 ? UINT8_MAX : 1 + i % 3;
        uint32_t name = strings_intern(b->strings, view_of(i % 4 ? "f" : "g + 1"), e);
        if (!name)
            return -1;
        for (size_t k = 0; k < n; k++)
            in[k] = (struct rec_inline_frame){name, name, (uint32_t)k, frame_book_is_exact(b, i)};
        if (frame_book_wants(b, i, FRAME_BETTER, FRAME_DEBUG, n, true) &&
            frame_book_rename(b, i, i % 5 ? 0 : name, in, n, e) != 0)
            return -1;
    }
    for (size_t i = 0; i < reframe_symbol_count(r); i++)
        reframe_symbol(r, i)->changed = true;
    return reframe_set_fact(r, "renamed", e);
}

static int rewrite(const struct buf *in, const struct rewrite_options *options, struct buf *out,
                   struct err *e)
{
    struct trace_writer *w = NULL;
    struct rewrite_outcome outcome = {0};
    const struct rewrite_source source = {(void *)in, read_pass};
    struct block_sink blocks = {.ctx = out, .put = put_block};
    *e = (struct err){0};
    int status = trace_writer_open_inner(&w, NULL, blocks, e);
    if (status == 0)
        status = rewrite_trace(&source, options, w, &outcome, e);
    if (status == 0)
        status = trace_writer_finish(w, NULL, e);
    trace_writer_free(w);
    buf_release(&outcome.losses);
    return status;
}

static void choose(const uint8_t *data, char letters[10], struct rewrite_options *o)
{
    static const char known[] = "lmpMicsCS";
    static const char *const names[] = {"default", "0x1", "gpu.vram,default", "arena"};
    unsigned chosen = data[2] | (unsigned)(data[3] & 1) << 8;
    size_t n = 0;
    for (unsigned i = 0; i < 9; i++) {
        if (chosen >> i & 1)
            letters[n++] = known[i];
    }
    letters[n] = 0;
    *o = (struct rewrite_options){.strip = letters, .resolve = name_frames};
    if (data[3] & WITH_POOLS) {
        o->pools.names = &names[data[4] & 3];
        o->pools.n = 1;
        o->pools.drop = data[4] >> 2 & 1;
    }
    o->has_range = data[3] & WITH_RANGE;
    o->range.begin = (int64_t)load_u16(data + 5) << (data[4] >> 3 & 31);
    o->range.end = o->range.begin + 1 + ((int64_t)load_u16(data + 7) << (data[4] >> 3 & 31));
    o->symbols.resolve = data[3] & WITH_SYMBOLS;
    o->symbols.reset = data[3] & WITH_RESET;
    o->image_dict = data[3] & WITH_DICT;
    if (data[3] & WITH_RENAME)
        o->rename = rename_frames;
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
    char letters[10];
    const struct file_layout *all = file_layout_all(&n);
    const struct rewrite_options plain = {0};
    struct rewrite_options options;
    struct buf in = {0}, once = {0}, twice = {0}, cut = {0};
    struct err e = {0};
    uint8_t magic[INNER_MAGIC_SIZE];
    if (size < CHOICE_BYTES)
        return 0;
    choose(data, letters, &options);
    codec_write_magic(all[data[0] % n].version, magic);
    buf_put(&in, magic, sizeof magic);
    buf_put(&in, data + CHOICE_BYTES, size - CHOICE_BYTES);
    if (rewrite(&in, &options, &once, &e) == 0) {
        must(rewrite(&once, &plain, &twice, &e), &e);
        if (once.len != twice.len || memcmp(once.data, twice.data, once.len) != 0)
            abort();
        options.convert.target = &all[data[1] % n];
        /* Zones without a location may have nothing to become; all else must go. */
        if (rewrite(&in, &options, &cut, &e) == 0) {
            buf_clear(&twice);
            must(rewrite(&cut, &plain, &twice, &e), &e);
        }
    }
    buf_release(&in);
    buf_release(&once);
    buf_release(&twice);
    buf_release(&cut);
    return 0;
}
