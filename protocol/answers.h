#ifndef TIDEMARK_PROTOCOL_ANSWERS_H
#define TIDEMARK_PROTOCOL_ANSWERS_H

/*
 * What a client answers to a server's queries. A server waits for each answer before it ends, so
 * each query must get one, if only "nothing to tell".
 * Source: public/client/TracyProfiler.cpp Profiler::HandleServerQuery @ v0.9.1 … v0.14.0.
 */

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/view.h"
#include "protocol/encoder.h"
#include "protocol/wire_version.h"

/*
 * To QUERY_STRING, _THREAD, _PLOT_NAME, _FRAME_NAME and _FIBER_NAME; to QUERY_EXTERNAL_NAME, whose
 * text is the name of the thread and of its process. Long texts are cut.
 */
int answer_text(struct encoder *enc, enum query_kind kind, uint64_t key, struct view text,
                struct err *e);

/* One function at an address, of several when calls were inlined. */
struct answer_function {
    struct view name, file;
    uint32_t line;
    uint64_t symbol; /* address of its first byte; 0: unknown */
    uint32_t symbol_len;
};

/* To QUERY_CALLSTACK_FRAME: 1 to 255 functions, innermost first. */
int answer_frame(struct encoder *enc, uint64_t address, struct view image,
                 const struct answer_function *functions, size_t n, struct err *e);

/* To QUERY_SYMBOL. */
int answer_symbol(struct encoder *enc, uint64_t address, struct view file, uint32_t line,
                  struct err *e);

/* To QUERY_SYMBOL_CODE: the machine code of the function that begins there. */
int answer_code(struct encoder *enc, uint64_t address, struct view code, struct err *e);

/* To all others, which get what says that there is nothing; `key` is the query's. */
int answer_nothing(struct encoder *enc, enum query_kind kind, uint64_t key, struct err *e);

#endif
