#ifndef TIDEMARK_SYMBOLS_HELPER_SANDBOX_H
#define TIDEMARK_SYMBOLS_HELPER_SANDBOX_H

/*
 * Gives up what a process that only computes does not need: it can use the descriptors that it has
 * or is sent, memory, threads and clocks, and nothing else. No file can be opened, no socket made,
 * no program started, whatever the code does from then on.
 *
 *     rlimits       memory, size of files, descriptors, processor time, no core dumps
 *     seccomp       a list of system calls that work; others fail with EPERM
 *     Landlock      no file of any kind, for what a system call on the list might reach
 *
 * Kernels that have one of the last two not are still guarded by the other.
 */

#include <stdint.h>

struct sandbox_limits {
    uint64_t memory;      /* bytes of address space; 0: as it is */
    uint64_t file;        /* bytes that a file may be written to */
    uint64_t cpu_seconds; /* 0: as it is */
    unsigned files;       /* descriptors */
};

/*
 * Enters it for good; to be called before the process has other threads. Gives enum helper_guard
 * bits (symbols/place/helper_wire.h): what this kernel had.
 */
unsigned sandbox_enter(const struct sandbox_limits *limits);

#endif
