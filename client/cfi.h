#pragma once

/*
 * Finds the unwind rule of an address in .eh_frame, in the form that a walk by stack pointer and
 * frame pointer can use.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum cfi_kind {
    CFI_UNKNOWN = 0, /* not determined yet */
    CFI_END,         /* the outermost frame, or one that cannot be unwound */
    CFI_FROM_SP,     /* canonical frame address = stack pointer + cfa */
    CFI_FROM_BP,     /* frame pointer + cfa */
    CFI_AT_BP,       /* the word at frame pointer + cfa: functions that realign their stack */
    CFI_SIGNAL,      /* the kernel's frame of a signal handler */
    CFI_FRAME,       /* no unwind entry: assume a frame pointer chain */
};

#define CFI_KEPT 0            /* still in its register */
#define CFI_BP_LOST INT32_MIN /* unknown */

struct cfi_rule {
    enum cfi_kind kind;
    int32_t cfa;
    /*
     * The caller's frame pointer: offset, negative, from the CFA, or above. CFI_AT_BP: from the
     * word beyond that which the frame pointer leads to.
     */
    int32_t bp;
    int32_t ra; /* the return address: offset from the CFA, negative, or CFI_KEPT */
};

/* The numbers of an architecture's registers in unwind tables. */
struct cfi_registers {
    uint8_t bp, sp, ra;
};

extern const struct cfi_registers cfi_x86_64, cfi_aarch64;

/* A module's unwind table: all of it is within [low, high), which is readable. */
struct cfi_table {
    const uint8_t *header; /* .eh_frame_hdr */
    const uint8_t *low, *high;
};

/*
 * A frame record: the caller's frame pointer, and the return address beside it, which is where the
 * frame pointer leads. It begins a frame on x86-64, and is anywhere in it on AArch64.
 */
extern const struct cfi_rule cfi_frame;

/* The rule for an address; cfi_frame when the table has none for it. The table is not trusted. */
struct cfi_rule cfi_find(const struct cfi_table *table, const struct cfi_registers *registers,
                         uint64_t address);
