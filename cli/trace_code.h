#ifndef TIDEMARK_CLI_TRACE_CODE_H
#define TIDEMARK_CLI_TRACE_CODE_H

/* The disassembler for the machine code that a trace holds. */

#include "analysis/code/disassembler.h"
#include "trace/store/store.h"

/*
 * True when there is one: not when the trace does not say which processor it is of, or memory is
 * short. Ends with trace_code_release, which an all-zero one may be given to.
 */
bool trace_code_disassembler(struct disassembler *d, const struct trace *t);
/* The same for an image's machine (EM_…). */
bool image_code_disassembler(struct disassembler *d, uint16_t machine);
void trace_code_release(struct disassembler *d);

#endif
