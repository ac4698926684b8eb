#ifndef TIDEMARK_CLI_RUN_NAMES_H
#define TIDEMARK_CLI_RUN_NAMES_H

/* Answers to a server that asks what stands at addresses of a program that `tidemark run` records.
 */

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "cli/run_trace.h"
#include "protocol/encoder.h"
#include "trace/store.h"

/* Answers all of these questions about frames; one may be there several times. */
int run_names_frames(struct run_traces *r, struct trace *t, const uint64_t *addresses, size_t n,
                     struct encoder *replies, struct err *e);

/* The same of functions: where their code begins. */
int run_names_symbols(struct run_traces *r, struct trace *t, const uint64_t *addresses, size_t n,
                      struct encoder *replies, struct err *e);

#endif
