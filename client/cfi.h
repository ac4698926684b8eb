#ifndef TIDEMARK_CLIENT_CFI_H
#define TIDEMARK_CLIENT_CFI_H

/*
 * Finds the unwind rule of an address in .eh_frame, in the form that a walk by stack pointer and
 * frame pointer can use. x86-64 only: elsewhere every function is unwound by its frame pointer.
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

#define CFI_BP_KEPT 0         /* the caller's frame pointer is still in its register */
#define CFI_BP_LOST INT32_MIN /* unknown */

struct cfi_rule {
    enum cfi_kind kind;
    int32_t cfa;
    int32_t bp; /* the caller's frame pointer: offset from the CFA, negative, or above */
};

/* A module's unwind table: all of it is within [low, high), which is readable. */
struct cfi_table {
    const uint8_t *header; /* .eh_frame_hdr */
    const uint8_t *low, *high;
};

/* The rule for an address; CFI_FRAME when the table has none for it. The table is not trusted. */
struct cfi_rule cfi_find(const struct cfi_table *table, uint64_t address);

#endif
