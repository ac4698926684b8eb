#pragma once

#include "analysis/diff/diff.h"
#include "base/buf.h"

/*
 * Appends the change of the metric, the three rows that changed most, and the change of the highest
 * peak in a sentence, escaped as for a terminal; nothing without memory data.
 */
void diff_answer(struct buf *out, const struct diff *d);

/* "+1.50 MiB (+3.2 %)"; "=" if nothing changed. `size` is 2 * FORMAT_SIZE at least. */
const char *diff_change(char *out, size_t size, uint64_t base, uint64_t now, bool is_bytes);
