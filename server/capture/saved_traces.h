#pragma once

/*
 * The traces that one capture has saved: its only one, its parts, or those that a flight recorder
 * saved on request. All are counted; only the newest are listed.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <jansson.h>

#include "base/vec.h"

#define SAVED_TRACES_LISTED 200u

struct saved_trace {
    char *path;
    uint64_t bytes;
};

struct saved_traces {
    VEC(struct saved_trace) list; /* the newest SAVED_TRACES_LISTED, oldest first */
    unsigned count;
    uint64_t bytes;
};

/* False when it is already listed, and so not counted again, or when memory is short. */
bool saved_traces_add(struct saved_traces *s, const char *path, uint64_t bytes);

/* NULL: none was saved, or memory was short. Valid until the next call of saved_traces_add. */
const struct saved_trace *saved_traces_newest(const struct saved_traces *s);

/*
 * Adds to an object `parts`, each with `trace` and `trace_bytes`, and the totals `parts_saved` and
 * `parts_bytes`. Takes over the object's reference and returns it (NULL: memory is short).
 */
json_t *saved_traces_json(json_t *o, const struct saved_traces *s);

/* Frees the list; the totals stay. */
void saved_traces_forget(struct saved_traces *s);
