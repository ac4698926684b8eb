#pragma once

/*
 * Gives up the rights that a computing process does not need. It keeps memory, threads, clocks and
 * the descriptors that it has or receives. Afterwards it can open no file, create no socket and
 * start no program, even if its code is compromised.
 *
 *     rlimits       memory, size of files, descriptors, processor time, no core dumps
 *     seccomp       an allow list of system calls; others fail with EPERM
 *     Landlock      no access to any file through an allowed system call
 *
 * A kernel that lacks seccomp or Landlock still applies the other one.
 */

#include <stdint.h>

struct sandbox_limits {
    uint64_t memory;      /* bytes of address space; 0: unchanged */
    uint64_t file;        /* bytes that may be written to one file */
    uint64_t cpu_seconds; /* 0: unchanged */
    unsigned files;       /* descriptors */
};

/*
 * Enters the sandbox for good. Call it before the process has other threads. Returns the enum
 * helper_guard bits (symbols/place/helper_wire.h) that this kernel supports.
 */
unsigned sandbox_enter(const struct sandbox_limits *limits);
