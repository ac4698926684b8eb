#ifndef TIDEMARK_REPORT_WRITE_JSON_VALUE_H
#define TIDEMARK_REPORT_WRITE_JSON_VALUE_H

/*
 * Values for JSON documents. All return a new reference, NULL when memory is short, which the
 * `_new` setters of jansson take over and pass on as an error.
 */

#include <stdint.h>

#include <jansson.h>

#include "analysis/names/frames.h"
#include "base/buf.h"
#include "base/view.h"

/* Text of a trace: bytes that are no UTF-8 become U+FFFD. */
json_t *json_text(struct view text);

/* null for empty text. */
json_t *json_text_or_null(struct view text);

/* A whole number; beyond 2^63 - 1, which jansson's integers end at, the nearest real. */
json_t *json_count(uint64_t n);

/* "0x7f…": addresses do not fit the numbers of every JSON reader. */
json_t *json_address(uint64_t address);

/* {"function", "file", "line", "image", "address", "inline"}, null where unknown. */
json_t *json_frame(const struct frame_view *f);

/* The frames of a call stack, innermost first; [] for none. */
json_t *json_callstack(const struct trace *t, uint32_t callstack);

/*
 * Adds a member, whose reference it takes over, and gives the object back: NULL, with the object
 * gone, when memory is short or was so before.
 */
json_t *json_with(json_t *object, const char *key, json_t *value);

/* Appends the document `value` and gives up the reference. False when memory is short. */
bool json_put(struct buf *out, json_t *value, size_t flags);

#endif
