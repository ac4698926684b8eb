#ifndef TIDEMARK_CLIENT_CFI_H
#define TIDEMARK_CLIENT_CFI_H

/*
 * What .eh_frame says of one address, as far as a walk over stack pointer and frame pointer can use
 * it. x86-64 only: elsewhere every function is walked by its frame pointer.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum cfi_kind {
    CFI_UNKNOWN = 0, /* not found out yet */
    CFI_END,         /* the outermost frame, or one that cannot be walked */
    CFI_FROM_SP,     /* canonical frame address = stack pointer + cfa */
    CFI_FROM_BP,     /* frame pointer + cfa */
    CFI_AT_BP,       /* the word at frame pointer + cfa: functions that align their stack */
    CFI_SIGNAL,      /* the kernel's frame of a signal handler */
    CFI_FRAME,       /* no description: assume the frame pointer's chain */
};

#define CFI_BP_KEPT 0         /* the caller's frame pointer is still in its register */
#define CFI_BP_LOST INT32_MIN /* nobody knows it */

struct cfi_rule {
    enum cfi_kind kind;
    int32_t cfa;
    int32_t bp; /* where the caller's frame pointer lies: offset from the CFA, negative, or above */
};

/* A loaded module's unwind table: all within [low, high), which is readable. */
struct cfi_table {
    const uint8_t *header; /* .eh_frame_hdr */
    const uint8_t *low, *high;
};

/* The rule for an address; CFI_FRAME when the table has none for it. Trusts no byte of the table.
 */
struct cfi_rule cfi_find(const struct cfi_table *table, uint64_t address);

#endif
