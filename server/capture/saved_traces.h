#ifndef TIDEMARK_SERVER_CAPTURE_SAVED_TRACES_H
#define TIDEMARK_SERVER_CAPTURE_SAVED_TRACES_H

/*
 * The traces that one capture has saved: its only one, its parts, or what a flight recorder was
 * asked for. All are counted; of the newest it is known which they are.
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

/* False when it is listed already, which counts nothing, or memory is short. */
bool saved_traces_add(struct saved_traces *s, const char *path, uint64_t bytes);

/* NULL: none was saved, or memory was short. Valid until the next call of saved_traces_add. */
const struct saved_trace *saved_traces_newest(const struct saved_traces *s);

/*
 * Adds to an object, whose reference it takes over and gives back (NULL: memory is short): `parts`,
 * each with `trace` and `trace_bytes`, `parts_saved` and `parts_bytes`, which are of all.
 */
json_t *saved_traces_json(json_t *o, const struct saved_traces *s);

/* Which they are is not needed any more. */
void saved_traces_forget(struct saved_traces *s);

#endif
