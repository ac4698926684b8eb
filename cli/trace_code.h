#pragma once

/* The disassembler for the machine code in a trace. */

#include "analysis/code/disassembler.h"
#include "trace/store/store.h"

/*
 * False if the trace does not have the processor, or memory is short. Release it with
 * trace_code_release, which accepts an all-zero one.
 */
bool trace_code_disassembler(struct disassembler *d, const struct trace *t);
/* The same for an image's machine (EM_…), of 64 bits or not. */
bool image_code_disassembler(struct disassembler *d, uint16_t machine, bool is_64);
void trace_code_release(struct disassembler *d);
