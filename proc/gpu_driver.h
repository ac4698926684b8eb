#pragma once

/*
 * GPU memory as NVIDIA's driver counts it, for each process: its management library,
 * libnvidia-ml.so.1, is loaded at the first reading, in a child process. A call of the driver may
 * never return, and nothing can end a process within it: then the child is abandoned. No privilege
 * is needed. The library's functions are those of the NVML API Reference Guide; of
 * nvmlDeviceGetComputeRunningProcesses the second form, since the structure of the third one
 * differs between releases of driver 535, or else the first one.
 *
 * The driver may number processes as another PID namespace does, and a process cannot find out its
 * number in a namespace above its own. So the driver is only believed if every process that it
 * lists exists here.
 */

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "proc/process_memory.h"

/* Zero-initialise. */
struct gpu_driver {
    pid_t child;   /* 0: not started */
    int socket;    /* to the child */
    bool failed;   /* no child could be started, or it ended: nothing is known from then on */
    bool asked;    /* the child has yet to answer */
    int64_t pause; /* 0, or an answer was late: asks no more until then (CLOCK_MONOTONIC, ns) */
    char end[96];  /* how the child ended: part of what gpu_driver_read returns */
};

/*
 * Reads what the process uses on all GPUs, and what all processes use, of how much, on those where
 * it uses some; of a GPU that is divided into instances (MIG), on the instance.
 * With several GPUs, also what it uses on each of the first 8. Returns NULL, or
 * why that is not known, a phrase; then `out` has no value. The phrase is valid as long as `d` is.
 * Waits for at most a second, and not at all while an earlier reading has no answer.
 */
const char *gpu_driver_read(struct gpu_driver *d, pid_t pid, struct memory_reading *out);

/* Ends the child, and leaves it if the driver keeps it. */
void gpu_driver_close(struct gpu_driver *d);
