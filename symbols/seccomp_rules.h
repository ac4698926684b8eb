#pragma once

/*
 * Instructions of seccomp filters. RULES_ARCHITECTURE is defined if this processor's calls are
 * known; without it there are no filters.
 */

#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#if defined(__x86_64__)
#define RULES_ARCHITECTURE AUDIT_ARCH_X86_64
#elif defined(__aarch64__)
#define RULES_ARCHITECTURE AUDIT_ARCH_AARCH64
#endif

#define ARGUMENT(N) (offsetof(struct seccomp_data, args) + (N) * sizeof(uint64_t))
#define LOAD(AT) BPF_STMT(BPF_LD | BPF_W | BPF_ABS, (uint32_t)(AT))
#define DENY(ERROR) BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (ERROR))
#define ALLOW BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)
/* Jumps over `YES` or `NO` instructions. */
#define IF_EQUAL(VALUE, YES, NO) BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (uint32_t)(VALUE), (YES), (NO))
#define IF_SET(BITS, YES, NO) BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, (uint32_t)(BITS), (YES), (NO))
/* Skips the next `n` instructions unless the call is NR. */
#define UNLESS_CALL(NR, N) IF_EQUAL(NR, 0, N)

#define CLONE_FOR_THREAD 0x00010000u

/* The first instructions: ends processes of another architecture and loads the number of the call.
 */
#define RULES_BEGIN                                                                                \
    LOAD(offsetof(struct seccomp_data, arch)), IF_EQUAL(RULES_ARCHITECTURE, 1, 0),                 \
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),                                       \
        LOAD(offsetof(struct seccomp_data, nr))

/* Allows the call, mmap or mprotect, without PROT_EXEC only. */
#define RULES_NO_EXEC(NR)                                                                          \
    UNLESS_CALL(NR, 4), LOAD(ARGUMENT(2)), IF_SET(PROT_EXEC, 1, 0), ALLOW, DENY(EPERM)

/* Allows clone for threads only. */
#define RULES_THREADS_ONLY                                                                         \
    UNLESS_CALL(__NR_clone, 4), LOAD(ARGUMENT(0)), IF_SET(CLONE_FOR_THREAD, 0, 1), ALLOW,          \
        DENY(EPERM)

/* clone3 fails, so that libc uses clone, whose flags a filter can read. */
#define RULES_NO_CLONE3 UNLESS_CALL(435, 1), DENY(ENOSYS)
