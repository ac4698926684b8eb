#pragma once

/*
 * Parses JSON text of any length with yajl, block by block. The parser's memory is its own ring,
 * since yajl does not check its allocations. Strings may hold any bytes. Text after the first value
 * is counted.
 */

#include <setjmp.h>
#include <yajl/yajl_parse.h>

#include "base/buf.h"
#include "base/err.h"
#include "import/source.h"

/* Precedes each allocation of the parser. */
struct parser_block {
    _Alignas(max_align_t) struct parser_block *next;
    struct parser_block *before;
};

struct json_stream {
    struct parser_block blocks; /* ring of the parser's allocations */
    yajl_handle parser;
    struct err *e;
    uint64_t fed;      /* bytes handed to the parser before this block */
    uint64_t mark;     /* the owner sets it to `fed` when a piece of text that it keeps begins */
    uint64_t trailing; /* bytes after the value, white space left out */
    struct buf rest;   /* bytes after the last whole token */
    jmp_buf no_memory;
    bool in_string; /* the scanned bytes end within a string, … */
    bool escaped;   /* … and after a backslash */
    char last;      /* last scanned byte other than white space */
};

/*
 * Called after the last byte: returns 1 if it ended the parsing itself (json_stream_parse), 0 if
 * the value must be complete, -1 on an error.
 */
typedef int json_stream_end(void *ctx, struct err *e);

/*
 * Reads the text to its end; `st` is zero-initialised and is released. The callbacks return 1 to go
 * on, 0 with st->e filled. ERR_INPUT with the offset when the text is no JSON, or when more than
 * 64 MiB follow the mark. `end` may be NULL.
 */
int json_stream_read(struct json_stream *st, struct import_source *s, const yajl_callbacks *calls,
                     void *ctx, json_stream_end *end, struct err *e);

/* Parses a text that is not in the source, and the end of the value. False if that fails. */
bool json_stream_parse(struct json_stream *st, const char *text);
