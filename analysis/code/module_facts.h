#pragma once

/*
 * The module table that a capture stores in a trace: facts "tidemark.module=START-END OFFSET
 * BUILDID PATH" (docs/facts.md), one for each executable mapping.
 */

#include <stdint.h>

#include "base/err.h"
#include "base/view.h"
#include "trace/store/store.h"

struct module_fact {
    uint64_t start, end;  /* addresses; end is one past the last */
    uint64_t offset;      /* in the file */
    struct view build_id; /* hexadecimal; empty if unknown */
    struct view path;
};

/* Calls `put` for each module in the order of the facts; malformed ones are skipped. */
int module_facts_walk(const struct trace *t,
                      int (*put)(void *ctx, const struct module_fact *m, struct err *e), void *ctx,
                      struct err *e);
