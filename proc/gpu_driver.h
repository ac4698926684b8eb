#pragma once

/*
 * GPU memory as NVIDIA's driver counts it, for each process: its management library,
 * libnvidia-ml.so.1, is loaded at the first reading. No privilege is needed. Its functions are
 * those of the NVML API Reference Guide; of nvmlDeviceGetComputeRunningProcesses the second form,
 * since the structure of the third one differs between releases of driver 535, or else the first
 * one.
 *
 * The driver may number processes as another PID namespace does. So it is only believed if every
 * process that it lists exists here.
 */

#include <stdint.h>
#include <sys/types.h>

#include "proc/process_memory.h"

struct gpu_bytes { /* nvmlMemory_t */
    unsigned long long total, free, used;
};

/* Zero-initialise. It stays loaded. */
struct gpu_driver {
    const char *failure; /* why there is none; NULL: not tried, or loaded */
    unsigned devices;    /* 0: not tried */
    int (*device)(unsigned index, void **device);
    int (*memory)(void *device, struct gpu_bytes *bytes);
    int (*processes)(void *device, unsigned *count, void *list);
    size_t stride; /* bytes of an element of this list */
};

/*
 * Reads what the process uses on all GPUs, and what all processes use, of how much, on those where
 * it uses some. Returns NULL, or why that is not known, a phrase; then `out` has no value.
 */
const char *gpu_driver_read(struct gpu_driver *d, pid_t pid, struct memory_reading *out);
