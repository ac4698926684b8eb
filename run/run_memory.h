#pragma once

/*
 * Readings of the memory of recorded processes (proc/process_memory.h), as plots of their traces.
 */

#include <stdbool.h>
#include <stdint.h>

#include "proc/gpu_driver.h"
#include "proc/page_watch.h"
#include "proc/process_memory.h"
#include "run/collector.h"
#include "run/kernel_notes.h"
#include "run/run_record.h"

/* What is read of one process. */
struct run_memory {
    struct process_memory process;
    struct kernel_notes notes;
    uint32_t cgroups;        /* process.cgroups when the last one was noted */
    uint32_t named;          /* memory_plots_add */
    struct page_looks looks; /* see page_looks_keep */
    struct page_watch watch;
    const char
        *gpu_unknown; /* why the last reading of the GPU has no value; NULL: none was tried */
    bool gpu_known;   /* a reading had values */
};

/*
 * Reads the PSS of the process, or all else; of the GPU from `gpu`, unless that is NULL, if CUDA
 * memory of the process was recorded. *memory is made at first; the caller frees it. A process that
 * cannot be read has no plots.
 */
int run_memory_read(struct run_memory **memory, bool pss, struct gpu_driver *gpu,
                    const struct collected *of, struct run_record *to, struct err *e);
void run_memory_free(struct run_memory *m);

/* Looks at the pages of the process; *memory as above. ERR_INPUT: they cannot be read. */
int run_memory_look(struct run_memory **memory, enum look_reason reason, const struct collected *of,
                    struct err *e);

/* Moves the looks into the trace. Those from before its time 0 are dropped. */
int run_memory_finish(struct run_memory *m, struct run_record *to, struct err *e);

/*
 * Adds what kernel_notes.h kept beside a recording, which `to` has; none is no error. Adds and
 * prints what the OOM killer has killed since. ERR_INPUT: the notes are malformed.
 */
int run_memory_recover(const char *recording, struct run_record *to, struct err *e);

/* Copies these plots of `from` to `in`, and moves the looks; `time` converts their times. */
int run_memory_copy(struct trace *from, int64_t (*time)(const void *, int64_t), const void *ctx,
                    struct ingest *in, struct err *e);
