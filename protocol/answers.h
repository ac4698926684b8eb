#pragma once

/*
 * Encodes a client's answers to a server's queries. A server waits for every answer before it ends,
 * so each query must get one, even if empty. Source: public/client/TracyProfiler.cpp
 * Profiler::HandleServerQuery @ v0.9.1 … v0.14.0.
 */

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/view.h"
#include "protocol/encoder.h"
#include "protocol/wire_version.h"

/*
 * Answers QUERY_STRING, _THREAD, _PLOT_NAME, _FRAME_NAME and _FIBER_NAME, and QUERY_EXTERNAL_NAME,
 * where the text serves as the thread's and the process's name. Long texts are truncated.
 */
int answer_text(struct encoder *enc, enum query_kind kind, uint64_t key, struct view text,
                struct err *e);

/* One function at an address. An address with inlined calls has several. */
struct answer_function {
    struct view name, file;
    uint32_t line;
    uint64_t symbol; /* address of the function's first byte; 0: unknown */
    uint32_t symbol_len;
};

/* Answers QUERY_CALLSTACK_FRAME with 1 to 255 functions, innermost first. */
int answer_frame(struct encoder *enc, uint64_t address, struct view image,
                 const struct answer_function *functions, size_t n, struct err *e);

/* Answers QUERY_SYMBOL. */
int answer_symbol(struct encoder *enc, uint64_t address, struct view file, uint32_t line,
                  struct err *e);

/* Answers QUERY_SYMBOL_CODE with the machine code of the function that begins at `address`. */
int answer_code(struct encoder *enc, uint64_t address, struct view code, struct err *e);

/* Answers any other query with an empty answer; `key` is the query's. */
int answer_nothing(struct encoder *enc, enum query_kind kind, uint64_t key, struct err *e);
