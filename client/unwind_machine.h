#pragma once

/*
 * What a walk (unwind.c) must know of the processor: how a rule is packed into 32 bits, where the
 * kernel puts the registers that a signal interrupted, and how an address is read from a word.
 *
 * A packed rule begins with 3 bits of its kind and is not 0. In `packed_bp`, 0 is CFI_KEPT and
 * PACKED_BP_LOST CFI_BP_LOST; any other value means that the word is at packed_bp_at.
 *
 * MACHINE_RECORD_ANYWHERE: a frame record may be anywhere in its frame, so a frame found by it
 * says less than a table does: the caller's stack pointer is only known not to be below the
 * record's end.
 */

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <ucontext.h>

#include "client/cfi.h"
#include "client/state.h"

#define ADDRESS_MASK ((UINT64_C(1) << REC_ADDRESS_BITS) - 1)

#if defined(__x86_64__)

#define MACHINE_REGISTERS (&cfi_x86_64)
#define MACHINE_RECORD_ANYWHERE 0

/* From the stack pointer of the signal frame, after its return address. */
enum {
    CONTEXT_BP = offsetof(ucontext_t, uc_mcontext.gregs[REG_RBP]),
    CONTEXT_SP = offsetof(ucontext_t, uc_mcontext.gregs[REG_RSP]),
    CONTEXT_PC = offsetof(ucontext_t, uc_mcontext.gregs[REG_RIP]),
    CONTEXT_RA = CONTEXT_PC, /* there is none */
};

/* bits 3-20 cfa / 8 as a signed number, 21-31 bp / -8 */
#define PACKED_BP_LOST 0x7ffu

/* 0: it does not fit. */
static inline uint32_t rule_pack(const struct cfi_rule *rule)
{
    int32_t words = rule->cfa / 8;
    uint32_t bp = PACKED_BP_LOST;
    bool framed = rule->kind != CFI_END && rule->kind != CFI_SIGNAL;
    if (rule->cfa % 8 || words >= 1 << 17 || words < -(1 << 17) || (framed && rule->ra != -8))
        return 0;
    if (rule->bp == CFI_KEPT)
        bp = 0;
    else if (rule->bp != CFI_BP_LOST && rule->bp % 8 == 0 &&
             rule->bp > -8 * (int32_t)PACKED_BP_LOST)
        bp = (uint32_t)(rule->bp / -8);
    return (uint32_t)rule->kind | ((uint32_t)words & 0x3ffff) << 3 | bp << 21;
}

static inline uint64_t packed_cfa(uint32_t rule)
{
    return (uint64_t)(int64_t)(((int32_t)(rule << 11) >> 14) * 8);
}

/* Where the return address is. `base`: the register that the CFA is counted from. */
static inline uint64_t packed_ra_at(uint32_t rule, uint64_t base, uint64_t cfa)
{
    (void)rule, (void)base;
    return cfa - 8;
}

/* Whether it is still in its register. */
static inline bool packed_ra_kept(uint32_t rule)
{
    (void)rule;
    return false;
}

static inline uint32_t packed_bp(uint32_t rule)
{
    return rule >> 21;
}

static inline uint64_t packed_bp_at(uint32_t bp, uint64_t cfa, uint64_t ra_at)
{
    (void)ra_at;
    return cfa - 8 * (uint64_t)bp;
}

/* An address that a call has stored, without its signature. */
static inline uint64_t machine_address(uint64_t word)
{
    return word;
}

#else

#define MACHINE_REGISTERS (&cfi_aarch64)
#define MACHINE_RECORD_ANYWHERE 1

/* From the stack pointer of the signal frame, which begins with a siginfo_t. */
enum {
    CONTEXT = sizeof(siginfo_t),
    CONTEXT_BP = CONTEXT + offsetof(ucontext_t, uc_mcontext.regs[29]),
    CONTEXT_RA = CONTEXT + offsetof(ucontext_t, uc_mcontext.regs[30]),
    CONTEXT_SP = CONTEXT + offsetof(ucontext_t, uc_mcontext.sp),
    CONTEXT_PC = CONTEXT + offsetof(ucontext_t, uc_mcontext.pc),
};

/*
 * bits 3-18 cfa / 8, 19-23 bp, 24 what the place of the return address is counted from (1: the
 * base, 0: the CFA), 25-31 its distance in words
 *
 * Both words are at either end of a frame, which may be large, so the distance is that from the
 * nearer end. The caller's frame pointer is a few words below or above the return address. A leaf
 * function may store it alone: then the place is the frame pointer's.
 */
#define PACKED_BP_NEAR 15
#define PACKED_BP_ALONE 15u
#define PACKED_BP_LOST 16u
#define PACKED_RA_KEPT 0x7fu

static inline uint32_t packed_bp(uint32_t rule)
{
    return rule >> 19 & 31;
}

static inline uint32_t rule_pack(const struct cfi_rule *rule)
{
    uint32_t bp = rule->bp == CFI_KEPT ? 0 : PACKED_BP_LOST, from_base = 0;
    int32_t place = rule->ra, words = PACKED_RA_KEPT;
    if (rule->cfa < 0 || rule->cfa % 8 || rule->cfa / 8 >= 1 << 16)
        return 0;
    if (bp && rule->bp != CFI_BP_LOST && rule->ra == CFI_KEPT) {
        bp = PACKED_BP_ALONE;
        place = rule->bp;
    } else if (bp && rule->bp % 8 == 0 && rule->ra - rule->bp < 8 * PACKED_BP_NEAR &&
               rule->bp - rule->ra <= 8 * PACKED_BP_NEAR) {
        bp = (uint32_t)((rule->ra - rule->bp) / 8) & 31;
    }
    if (place != CFI_KEPT) {
        words = place / -8;
        if (words >= (int32_t)PACKED_RA_KEPT && rule->kind != CFI_AT_BP) {
            words = (rule->cfa + place) / 8;
            from_base = 1;
        }
        if (place % 8 || words < 0 || words >= (int32_t)PACKED_RA_KEPT)
            return 0;
    }
    return (uint32_t)rule->kind | (uint32_t)(rule->cfa / 8) << 3 | bp << 19 | from_base << 24 |
           (uint32_t)words << 25;
}

static inline uint64_t packed_cfa(uint32_t rule)
{
    return (uint64_t)(rule >> 3 & 0xffff) * 8;
}

static inline uint64_t packed_ra_at(uint32_t rule, uint64_t base, uint64_t cfa)
{
    uint64_t distance = (uint64_t)(rule >> 25) * 8;
    return rule >> 24 & 1 ? base + distance : cfa - distance;
}

static inline bool packed_ra_kept(uint32_t rule)
{
    return rule >> 25 == PACKED_RA_KEPT || packed_bp(rule) == PACKED_BP_ALONE;
}

static inline uint64_t packed_bp_at(uint32_t bp, uint64_t cfa, uint64_t ra_at)
{
    (void)cfa;
    if (bp == PACKED_BP_ALONE)
        return ra_at;
    return ra_at - 8 * (uint64_t)((int64_t)(bp ^ 16) - 16);
}

static inline uint64_t machine_address(uint64_t word)
{
    return word & state.address_mask;
}

#endif

/*
 * Finds what machine_address and machine_returns need. Call it before them.
 */
void unwind_machine_begin(void);

/*
 * Whether a function that returns to `pc`, which no table covers, is a signal handler. Looks at the
 * code only where that is known to be readable.
 */
bool unwind_machine_is_signal(struct thread *t, uint64_t pc);
