#pragma once

/*
 * Decodes how an x86 instruction is encoded: prefixes, opcode map, opcode and ModRM. The length
 * follows from these without a list of instructions, so instructions newer than the disassembler
 * are measured, too. Sources: Intel's manual, volume 2, chapter 2; AMD's, volume 3, for XOP.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/view.h"

/* 0F, 0F 38 and 0F 3A are maps 1 to 3, with or without a VEX or EVEX prefix. */
#define X86_MAP_ONE_BYTE 0u
#define X86_MAP_0F 1u
#define X86_MAP_0F38 2u
#define X86_MAP_0F3A 3u

struct x86_encoding {
    uint8_t length; /* bytes, 1 to 15 */
    uint8_t map;
    uint8_t opcode;
    uint8_t modrm;  /* 0 if absent */
    uint8_t ll;     /* vector length of VEX and EVEX */
    bool is_vector; /* VEX, EVEX or XOP; the prefixes below are the ones it encodes */
    bool prefix_66, prefix_f2, prefix_f3;
    bool late_66; /* prefix 66 after F2 or F3 */
    bool w;       /* REX.W, or W of the vector prefix */
    bool rex;
};

/*
 * Reads the instruction at the start of `code`. `wide` selects 64-bit mode, else 32-bit mode. False
 * if its opcode is undefined or `code` ends within it.
 */
bool x86_encoding_read(struct x86_encoding *to, struct view code, bool wide);
