#ifndef TIDEMARK_REPORT_WRITE_EMIT_H
#define TIDEMARK_REPORT_WRITE_EMIT_H

/*
 * Bytes on their way to a file, handed over in large pieces. What is put after an error is dropped;
 * the error is told by emit_flush. For report/ only.
 */

#include <stdint.h>
#include <stdio.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/view.h"

struct emit {
    FILE *out;
    struct buf buf;   /* what is not written yet */
    uint64_t written; /* bytes handed over */
    const char *what; /* for the text of errors: "a profile" */
};

#define EMIT_AT 65536u

/* Writes what is waiting, and that alone: `out` may hold it back still. */
int emit_flush(struct emit *w, struct err *e);

/* emit_flush once there is enough of it: to be called after every line or so. */
static inline int emit_check(struct emit *w, struct err *e)
{
    return w->buf.len < EMIT_AT ? 0 : emit_flush(w, e);
}

/* Writes everything, to the end. */
int emit_finish(struct emit *w, struct err *e);

void emit_release(struct emit *w);

static inline void emit_text(struct emit *w, const char *text)
{
    buf_puts(&w->buf, text);
}

void emit_number(struct emit *w, uint64_t n);
void emit_integer(struct emit *w, int64_t n);

/* "0x7f…" */
void emit_address(struct emit *w, uint64_t address);

/* A number that reads back as the same: at most 17 digits. It must be finite. */
void emit_real(struct emit *w, double x);

/* A JSON string in its quotes; bytes that are no UTF-8 become U+FFFD. */
void emit_json(struct emit *w, struct view text);

#endif
