#pragma once

/* Answers servers' queries about addresses in a program that `tidemark run` records. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "protocol/encoder.h"
#include "run/run_trace.h"
#include "trace/store/store.h"

/*
 * The address under which servers know a frame, outside of any program: frames that a
 * recording describes have no address, and ids are beyond the protocol's addresses.
 */
uint64_t run_names_address(uint64_t frame);

/* Answers queries about frames; addresses may repeat. */
int run_names_frames(struct run_traces *r, struct trace *t, const uint64_t *addresses, size_t n,
                     struct encoder *replies, struct err *e);

/* The same for functions, by their start addresses. */
int run_names_symbols(struct run_traces *r, struct trace *t, const uint64_t *addresses, size_t n,
                      struct encoder *replies, struct err *e);

/* Whether machine code is available; answers about frames then have the sizes of functions. */
bool run_names_has_code(const struct run_traces *r);

/* Servers query no larger function: the answer has to fit into a frame. */
#define RUN_NAMES_CODE_MAX ((size_t)128 << 10)

/* The same for the machine code of functions, by start address. */
int run_names_code(struct run_traces *r, struct trace *t, const uint64_t *addresses, size_t n,
                   struct encoder *replies, struct err *e);
