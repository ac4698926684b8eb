#ifndef TIDEMARK_SYMBOLS_X86_MISREAD_H
#define TIDEMARK_SYMBOLS_X86_MISREAD_H

/*
 * Instructions that Capstone 4 takes for others of the same length. It ignores a prefix that
 * selects an instruction that it does not know: "incsspq rax" becomes "lfence", "rdpid rax" becomes
 * "rdseed eax".
 */

#include <stdbool.h>

#include "symbols/x86_encoding.h"

bool x86_is_misread(const struct x86_encoding *x);

#endif
