#ifndef TIDEMARK_TEST_FUZZ_IMPORT_AND_SAVE_H
#define TIDEMARK_TEST_FUZZ_IMPORT_AND_SAVE_H

/* A file of another tool to a trace, which must be one that can be read. */

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "import/import.h"
#include "trace/file/reader.h"
#include "trace/file/writer.h"
#include "trace/save/save.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

typedef int import_function(struct import_source *s, struct ingest *in,
                            struct import_counts *counts, struct err *e);

struct import_pieces {
    const struct buf *from;
    size_t pos;
};

static int import_put_block(void *ctx, const uint8_t *block, size_t len, struct err *e)
{
    (void)e;
    buf_put(ctx, block, len);
    return 0;
}

static ssize_t import_read_piece(void *ctx, uint8_t *out, size_t room, struct err *e)
{
    struct import_pieces *p = ctx;
    (void)e;
    size_t n = p->from->len - p->pos < room ? p->from->len - p->pos : room;
    if (n > 0)
        memcpy(out, p->from->data + p->pos, n);
    p->pos += n;
    return (ssize_t)n;
}

static int import_put_nowhere(void *ctx, enum record_type type, const void *recs, size_t n,
                              struct err *e)
{
    (void)ctx, (void)type, (void)recs, (void)n, (void)e;
    return 0;
}

static inline void import_save_and_read(struct trace *t)
{
    struct buf bytes = {0};
    struct block_sink blocks = {.ctx = &bytes, .put = import_put_block};
    struct record_sink nowhere = {NULL, import_put_nowhere};
    struct import_pieces pieces = {&bytes, 0};
    struct byte_source source = {&pieces, import_read_piece};
    struct trace_writer *w = NULL;
    struct trace_info info;
    struct err e = {0};
    int status = trace_writer_open_inner(&w, NULL, blocks, &e);
    if (status == 0) {
        struct record_sink to_writer = trace_writer_sink(w);
        status = trace_save(t, &to_writer, &e);
    }
    if (status == 0)
        status = trace_writer_finish(w, NULL, &e);
    trace_writer_free(w);
    if (status == 0)
        status = trace_read_inner(source, &nowhere, NULL, &info, &e);
    if (status != 0 && e.code != ERR_MEMORY) {
        fprintf(stderr, "%s\n", e.text);
        abort();
    }
    buf_release(&bytes);
}

/* A file that is refused must say why. */
static inline void import_bytes(const uint8_t *data, size_t size, import_function *import)
{
    struct import_source s;
    struct trace t;
    struct ingest in;
    struct import_counts counts = {0};
    struct err e = {0};
    if (import_source_memory(&s, (struct view){(const char *)data, size}, &e) != 0 ||
        trace_init(&t, NULL, &e) != 0 || ingest_init(&in, &t, &e) != 0)
        abort();
    if (import(&s, &in, &counts, &e) == 0)
        import_save_and_read(&t);
    else if (e.code == ERR_NONE || !e.text[0])
        abort();
    ingest_release(&in);
    trace_release(&t);
    import_source_close(&s);
}

#endif
