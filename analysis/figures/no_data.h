#pragma once

/*
 * Why a trace has no allocations, and why allocations have no call stacks: what the trace proves,
 * and possible causes.
 */

#include <stdint.h>

#include "base/buf.h"
#include "trace/store/store.h"

/* Causes that no trace can prove, as bits. */
enum {
    NO_DATA_NO_HOOKS = 1 << 0,
    NO_DATA_NO_PRELOAD = 1 << 1,
    NO_DATA_NO_CHANNEL = 1 << 2,
    NO_DATA_LATE = 1 << 3,
    NO_DATA_THRESHOLD = 1 << 4,
    NO_DATA_STRIPPED = 1 << 5,
};
#define NO_DATA_CAUSES 6u

/* Appends what is proved; returns the possible causes. The trace has no allocation. */
unsigned no_data_explain(const struct trace *t, uint64_t unknown_frees, struct buf *out);

/* The text of cause 1 << i; i is below NO_DATA_CAUSES. */
const char *no_data_cause(unsigned i);

/* Appends "; possible causes: A; B" for the bits that are set, nothing for none. */
void no_data_put_causes(struct buf *out, unsigned causes);

/* Appends the settings that control whether allocations have call stacks and how deep these are. */
void no_data_put_stack_settings(struct buf *out, const struct trace *t);
