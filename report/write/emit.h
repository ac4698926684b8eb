#pragma once

/*
 * Buffered output to a file in large pieces. Bytes put after an error are dropped; emit_flush
 * reports the error. For report/ only.
 */

#include <stdint.h>
#include <stdio.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/view.h"

struct emit {
    FILE *out;
    struct buf buf;   /* not written yet */
    uint64_t written; /* bytes passed to `out` */
    const char *what; /* for error texts: "a profile" */
};

#define EMIT_AT 65536u

/* Writes the buffered bytes to `out`, which may still buffer them. */
int emit_flush(struct emit *w, struct err *e);

/* Calls emit_flush if the buffer is large. Call it after every line or so. */
static inline int emit_check(struct emit *w, struct err *e)
{
    return w->buf.len < EMIT_AT ? 0 : emit_flush(w, e);
}

/* Writes everything and flushes `out`. */
int emit_finish(struct emit *w, struct err *e);

void emit_release(struct emit *w);

/*
 * Writes a whole text and flushes `out`; releases the text. ERR_MEMORY if not `ok`: there was not
 * memory for it.
 */
int emit_all(struct buf *text, bool ok, FILE *out, const char *what, struct err *e);

static inline void emit_text(struct emit *w, const char *text)
{
    buf_puts(&w->buf, text);
}

void emit_number(struct emit *w, uint64_t n);
void emit_integer(struct emit *w, int64_t n);

/* "0x7f…" */
void emit_address(struct emit *w, uint64_t address);

/* Writes a finite number that reads back as the same: at most 17 digits. */
void emit_real(struct emit *w, double x);

/* Writes a quoted JSON string; invalid UTF-8 becomes U+FFFD. */
void emit_json(struct emit *w, struct view text);
