#ifndef TIDEMARK_REPORT_WRITE_DOCUMENT_H
#define TIDEMARK_REPORT_WRITE_DOCUMENT_H

/*
 * A document that is written piece by piece, so that memory does not follow its length; with what
 * JSON documents need: members and lists whose elements have lines of their own.
 */

#include <stdbool.h>
#include <stdio.h>

#include "base/buf.h"
#include "base/err.h"
#include "report/write/json_value.h"

struct document {
    FILE *out;
    struct buf buf; /* what is not written yet */
    bool failed;    /* memory was short */
    bool first;     /* nothing in this list yet */
};

static inline struct document document_begin(FILE *out)
{
    return (struct document){.out = out};
}

/* Hands what was made so far to the stream when it is long. */
void document_flush(struct document *d);

/* The rest. ERR_OUTPUT when the stream cannot be written. */
int document_end(struct document *d, struct err *e);

/* `{"schema": "NAME"`; ends with document_close. */
void document_open(struct document *d, const char *schema);
void document_close(struct document *d);

/* A member of the document. Takes over the reference, which may be NULL when memory was short. */
void document_member(struct document *d, const char *key, json_t *value);

/* A list, element by element. */
void document_list(struct document *d, const char *key);
void document_element(struct document *d, json_t *value);
void document_list_end(struct document *d);

/* The trace that a document is about: program, file version, duration. */
json_t *document_trace(const struct trace *t);

/* How many of so many rows a limit lets through; 0 is no limit. */
static inline size_t rows_shown(size_t rows, uint64_t limit)
{
    return limit && limit < rows ? (size_t)limit : rows;
}

#endif
