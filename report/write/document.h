#pragma once

/*
 * A document written in pieces, so that memory does not grow with its length. Also writes JSON
 * members, and lists with one element per line.
 */

#include <stdbool.h>
#include <stdio.h>

#include "base/buf.h"
#include "base/err.h"
#include "report/write/json_value.h"
#include "report/write/terminal_form.h"

enum report_format { REPORT_TEXT, REPORT_JSON, REPORT_CSV, REPORT_MARKDOWN };

struct document {
    FILE *out;
    struct buf buf;            /* not written yet */
    bool failed;               /* memory was short */
    bool first;                /* the open list is empty */
    struct terminal_form form; /* of document_fit */
};

static inline struct document document_begin(FILE *out)
{
    return (struct document){.out = out};
}

/* The document is text for people: its form is that of the stream, and its lines are folded. */
static inline void document_fit(struct document *d)
{
    d->form = terminal_form_of(d->out);
}

/* Text: says that a table has more columns than the terminal has room for, if so. */
void left_out_text(struct document *d, unsigned columns);

/* Passes finished output, whole lines, to the stream if there is much of it. */
void document_flush(struct document *d);

/* Writes the rest. ERR_OUTPUT if the stream cannot be written. */
int document_end(struct document *d, struct err *e);

/* Writes `{"schema": "NAME"`; document_close ends it. */
void document_open(struct document *d, const char *schema);
void document_close(struct document *d);

/* document_open, and the member "trace". */
void document_begin_json(struct document *d, const char *schema, const struct trace *t);

/* Writes a member of the document. Takes over the reference; NULL means that memory was short. */
void document_member(struct document *d, const char *key, json_t *value);

/* Begins a list; document_element writes its elements. */
void document_list(struct document *d, const char *key);
void document_element(struct document *d, json_t *value);
void document_list_end(struct document *d);

/* The trace that a document describes: program, file version, duration. */
json_t *document_trace(const struct trace *t);

/* How many of `rows` rows to show; limit 0: all. */
static inline size_t rows_shown(size_t rows, uint64_t limit)
{
    return limit && limit < rows ? (size_t)limit : rows;
}
