#pragma once

/*
 * Values for JSON documents. All return a new reference, NULL if memory is short. The `_new`
 * setters of jansson take over the reference and turn NULL into an error.
 */

#include <stdint.h>

#include <jansson.h>

#include "analysis/names/frames.h"
#include "base/buf.h"
#include "base/view.h"

/* Text of a trace; invalid UTF-8 becomes U+FFFD. */
json_t *json_text(struct view text);

/* null for an empty text. */
json_t *json_text_or_null(struct view text);

/* A whole number; beyond 2^63 - 1, jansson's limit, the nearest real. */
json_t *json_count(uint64_t n);

/* "0x7f…", since not every JSON reader supports numbers this large. */
json_t *json_address(uint64_t address);

/*
 * Adds "function", "file", "line" and "image", null where unknown, and "name_from" if the trace
 * says where a name without a file is from.
 */
json_t *json_place(json_t *to, const struct frame_view *f);

/* The frames of a call stack, innermost first; [] for none. */
json_t *json_callstack(const struct trace *t, uint32_t callstack);

/*
 * Adds a member, takes over its reference, and returns the object. If memory is or was short, frees
 * the object and returns NULL.
 */
json_t *json_with(json_t *object, const char *key, json_t *value);

/* The same with an element of a list. */
json_t *json_add(json_t *list, json_t *value);

/* Appends the document `value` and drops the reference. False if memory is short. */
bool json_put(struct buf *out, json_t *value, size_t flags);
