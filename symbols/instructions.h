#ifndef TIDEMARK_SYMBOLS_INSTRUCTIONS_H
#define TIDEMARK_SYMBOLS_INSTRUCTIONS_H

/*
 * Machine code to the addresses of its instructions, and of where its jumps and calls lead.
 */

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/view.h"

enum instruction_set { CODE_X86, CODE_X64, CODE_ARM32, CODE_ARM64 };

struct instructions; /* opaque */

/* Loads the disassembler, for a process that gives up the right to load code. It stays loaded. */
void instructions_load(void);

/* NULL when memory is short, the disassembler is not installed or does not know the processor. */
struct instructions *instructions_new(enum instruction_set set);
void instructions_free(struct instructions *in);

/*
 * Calls `found` with the address of each instruction of `code`, which lies at `address`, and of the
 * target of each jump and call that names one. Instructions that the disassembler does not know
 * count; their length follows from their encoding. Ends without an error at bytes that are no
 * instruction. -1 only when `found` says so.
 */
int instructions_walk(struct instructions *in, uint64_t address, struct view code,
                      int (*found)(void *ctx, uint64_t address, struct err *e), void *ctx,
                      struct err *e);

/*
 * Calls `line` with each instruction of `code` as text ("call 0x401000"), its address and its size
 * in bytes. Of an instruction that the disassembler does not know, or mistakes for another, the
 * text has the bytes (".byte 0x62,0xf2"; ".word 0x04e0e3e1" on ARM) and `known` is false. Ends as
 * instructions_walk does.
 */
int instructions_print(struct instructions *in, uint64_t address, struct view code,
                       int (*line)(void *ctx, uint64_t address, size_t size, const char *text,
                                   bool known, struct err *e),
                       void *ctx, struct err *e);

#endif
