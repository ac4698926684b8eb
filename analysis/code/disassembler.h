#pragma once

/*
 * Turns machine code into text: `walk` calls `line` for each instruction in order, and ends without
 * an error at bytes that are no instruction. For an instruction that cannot be decoded, `text` has
 * the bytes and `known` is false. The processor is known to `ctx`: analysis/ has no disassembler;
 * the caller supplies one.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/view.h"

struct disassembler {
    void *ctx;
    int (*walk)(void *ctx, uint64_t address, struct view code,
                int (*line)(void *to, uint64_t address, size_t size, const char *text, bool known,
                            struct err *e),
                void *to, struct err *e);
    unsigned unit; /* bytes: instructions are at multiples of it */
};
