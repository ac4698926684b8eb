#pragma once

/* Plots of what the kernel counts of a process's memory: proc/ writes, analysis/ reads them. */

#include <stdint.h>

#define MEMORY_GPUS 8

enum memory_value {
    MEMORY_RSS_ANON, /* bytes */
    MEMORY_RSS_FILE,
    MEMORY_RSS_SHMEM,
    MEMORY_SWAP,
    MEMORY_PSS,          /* of process_memory_pss alone */
    MEMORY_MINOR_FAULTS, /* per second, since the reading before */
    MEMORY_MAJOR_FAULTS,
    MEMORY_CGROUP_USE, /* bytes */
    MEMORY_CGROUP_LIMIT,
    MEMORY_CGROUP_HITS,  /* times that the use hit the limit, since the first reading */
    MEMORY_CGROUP_KILLS, /* processes that the OOM killer killed, since the first reading */
    MEMORY_CGROUP_SOME,  /* percent of the time since the reading before: see psi.rst */
    MEMORY_CGROUP_FULL,
    MEMORY_SYSTEM_SOME,
    MEMORY_SYSTEM_FULL,
    MEMORY_GPU_PROCESS, /* bytes, of gpu_driver_read alone: of the process, on all GPUs */
    MEMORY_GPU_USED,    /* of all processes, on those where it uses some */
    MEMORY_GPU_SIZE,
    MEMORY_GPU_FIRST, /* of the process, on GPU 0 as the driver numbers them, if it has several */
    MEMORY_CGROUP_FILE = MEMORY_GPU_FIRST + MEMORY_GPUS, /* bytes of the use: pages of files */
    MEMORY_VALUES,
};

/* Made-up client pointers of the plots' names: no address of a process, and no key of run/. */
#define MEMORY_PLOT_KEY(value) ((UINT64_C(3) << 62) + (uint64_t)(value)*16)
