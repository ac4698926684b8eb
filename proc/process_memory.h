#pragma once

/*
 * What the kernel counts of a process: resident pages, swap, page faults, use and limit of its
 * memory cgroup, and how long processes waited for memory. Nothing is guessed: what cannot be read
 * is absent. Sources: proc(5); Documentation/admin-guide/cgroup-v1/memory.rst,
 * admin-guide/cgroup-v2.rst and accounting/psi.rst of Linux.
 */

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/buf.h"
#include "base/view.h"
#include "proc/cgroup_memory.h"
#include "trace/store/kernel_plot.h"

struct memory_reading {
    int64_t time;   /* CLOCK_MONOTONIC, ns */
    uint32_t known; /* bit N: value[N] */
    double value[MEMORY_VALUES];
};

/* Files of a process that were opened while it might be inspected; -1: not opened. */
struct process_early {
    int maps, rollup, pagemap; /* rollup: smaps_rollup */
};

#define PROCESS_EARLY_NONE ((struct process_early){-1, -1, -1})

struct process_early process_early_open(pid_t pid);
void process_early_close(struct process_early *p);

struct process_memory {
    int folder; /* /proc/PID, which stays that of this process; -1: none */
    struct process_early early;
    char groups[4096];
    struct cgroup_memory cgroup; /* of `groups` */
    uint32_t cgroups;            /* those so far whose kills were read */
    int64_t time;                /* of the reading before; 0: none */
    uint32_t known;              /* bit N: before[N] */
    uint64_t before[MEMORY_VALUES];
};

#define PROCESS_MEMORY_NONE ((struct process_memory){.folder = -1, .early = PROCESS_EARLY_NONE})

/* The process must be there. False with errno: it cannot be read. Close it in any case. */
bool process_memory_open(struct process_memory *p, pid_t pid);
void process_memory_close(struct process_memory *p);

/* Everything but the PSS. Takes some 0.1 ms. */
void process_memory_read(struct process_memory *p, struct memory_reading *out);

/*
 * How many processes of its cgroup the OOM killer killed since the first reading; the process may
 * have ended. False: not known.
 */
bool process_memory_kills(const struct process_memory *p, uint64_t *kills);

/* The limit of its cgroup in bytes; 0: none, or not known. */
uint64_t process_memory_limit(const struct process_memory *p);

/*
 * A note, by which a later process finds what process_memory_kills counts: the text
 * "VERSION BOOT DEVICE INODE KILLS FOLDER", with the system's boot id, the folder's device and
 * inode, and the kills before the first reading. False: not known, or memory is short. A new note
 * is due whenever `cgroups` has changed.
 */
bool process_memory_note(const struct process_memory *p, struct buf *out);

/*
 * Prepares *p for process_memory_kills and process_memory_limit only; there is nothing to close.
 * False: the cgroup of the note is gone, or the note is malformed.
 */
bool process_memory_from_note(struct process_memory *p, struct view note);

/*
 * The PSS alone: the kernel visits every page of the process. Other users' processes need
 * CAP_SYS_PTRACE.
 */
void process_memory_pss(struct process_memory *p, struct memory_reading *out);
