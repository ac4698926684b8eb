#ifndef TIDEMARK_RUN_RUN_NAMES_H
#define TIDEMARK_RUN_RUN_NAMES_H

/* Answers to a server that asks what stands at addresses of a program that `tidemark run` records.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "protocol/encoder.h"
#include "run/run_trace.h"
#include "trace/store/store.h"

/* Answers all of these questions about frames; one may be there several times. */
int run_names_frames(struct run_traces *r, struct trace *t, const uint64_t *addresses, size_t n,
                     struct encoder *replies, struct err *e);

/* The same of functions: where their code begins. */
int run_names_symbols(struct run_traces *r, struct trace *t, const uint64_t *addresses, size_t n,
                      struct encoder *replies, struct err *e);

/* Whether there is machine code to be had; what is said of frames then has sizes of functions. */
bool run_names_has_code(const struct run_traces *r);

/* Servers ask for no more of one function: it is to fit into a frame. */
#define RUN_NAMES_CODE_MAX ((size_t)128 << 10)

/* The same of the machine code of functions, by where they begin. */
int run_names_code(struct run_traces *r, struct trace *t, const uint64_t *addresses, size_t n,
                   struct encoder *replies, struct err *e);

#endif
