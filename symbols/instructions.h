#pragma once

/*
 * Decodes machine code to the addresses of its instructions and the targets of its jumps and calls.
 */

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/view.h"

/* CODE_RISCV64 has compressed instructions, too, and needs Capstone 5. */
enum instruction_set { CODE_X86, CODE_X64, CODE_ARM32, CODE_ARM64, CODE_RISCV64 };

struct instructions; /* opaque */

/* Loads the disassembler before a process gives up the right to map code. It stays loaded. */
void instructions_load(void);

/*
 * NULL if memory is short, or if the disassembler is not installed or does not support the
 * processor.
 */
struct instructions *instructions_new(enum instruction_set set);
void instructions_free(struct instructions *in);

/*
 * Calls `found` with the address of each instruction of `code`, which is loaded at `address`, and
 * with the target of each jump and call that names one. Instructions that the disassembler does not
 * know are included; their length is derived from their encoding. Stops without an error at bytes
 * that are no instruction. Returns -1 only if `found` does.
 */
int instructions_walk(struct instructions *in, uint64_t address, struct view code,
                      int (*found)(void *ctx, uint64_t address, struct err *e), void *ctx,
                      struct err *e);

/*
 * Calls `line` with the text ("call 0x401000"), address and size in bytes of each instruction of
 * `code`. If the disassembler does not know an instruction or decodes it wrongly, the text holds
 * its bytes (".byte 0x62,0xf2"; ".word 0x04e0e3e1" on ARM) and `known` is false. Stops as
 * instructions_walk does.
 */
int instructions_print(struct instructions *in, uint64_t address, struct view code,
                       int (*line)(void *ctx, uint64_t address, size_t size, const char *text,
                                   bool known, struct err *e),
                       void *ctx, struct err *e);
