#pragma once

/*
 * Detects instructions that Capstone 4 decodes as another instruction of the same length. Capstone
 * ignores prefixes that select an instruction it does not know: "incsspq rax" becomes "lfence",
 * "rdpid rax" becomes "rdseed eax".
 */

#include <stdbool.h>

#include "symbols/x86_encoding.h"

bool x86_is_misread(const struct x86_encoding *x);
