#pragma once

/*
 * The scheduler's history: the runs of each thread, with the wakeup before and the reason for the
 * end, and the same by CPU. Also the names of threads of other processes, and the process of each
 * thread.
 *
 * The latest run of each thread and CPU is kept in memory, since later events complete it. Finished
 * runs go to one file-backed column for all threads and one for all CPUs, which the save splits by
 * sorting. Merging rules: server/TracyWorker.cpp ProcessContextSwitch, ProcessThreadWakeup,
 * ProcessFiberEnter, ProcessFiberLeave @ v0.14.0.
 */

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/map.h"
#include "base/spool.h"
#include "base/vec.h"
#include "trace/file/limits.h"

#define SCHED_CPUS 256u /* number of lists in every file */

/*
 * The most threads whose switches a part keeps, and the most external numbers of threads that CPUs
 * ran.
 */
#define SCHED_THREADS_MAX THREADS_MAX
/* Threads whose names and processes are kept, for all parts. */
#define SCHED_NAMES_MAX (1u << 20)

/* Reasons that no client sends: server/TracyEvent.hpp ContextSwitchData @ v0.14.0. */
#define SCHED_REASON_WAKEUP (-2) /* woken, not running yet */
#define SCHED_REASON_NONE (-1)
#define SCHED_REASON_FIBER 99

/* A run of a thread. Times in ns; end is -1 while it runs. */
struct sched_run {
    int64_t wakeup;
    int64_t start;
    int64_t end;
    uint16_t thread; /* of a fiber: local number of the thread that it runs on */
    uint8_t cpu;
    uint8_t wakeup_cpu;
    int8_t reason;
    int8_t state;
};

struct sched_thread {
    uint64_t id;    /* OS thread, or fiber from 2^32 up */
    uint64_t count; /* runs, `last` included */
    struct sched_run last;
    int64_t previous_wakeup; /* of the run before `last` */
    int64_t pending_wakeup;  /* arrived while it still ran; 0: none */
    int64_t running_time;    /* ns */
    uint32_t running_regions;
    uint32_t migrations;
    uint8_t previous_cpu;
    uint8_t pending_cpu;
    bool totalled; /* `last` is included in the three totals above */
};

/* A run on a CPU. */
struct sched_cpu {
    int64_t start, end;
    uint16_t thread; /* external number */
    uint64_t count;  /* runs, this one included */
};

/* Names of a thread of any process, as string numbers; 0: unknown. */
struct sched_name {
    uint64_t id;
    uint32_t program;
    uint32_t thread;
};

struct sched {
    VEC(struct sched_thread) threads;
    struct map thread_numbers; /* id → index in threads */
    struct column runs;        /* of all threads, without their latest */
    struct sched_cpu *cpus;    /* SCHED_CPUS of them; NULL until needed */
    struct column cpu_runs;
    VEC(uint64_t) externals; /* ids by external number; number 0 has id 0 */
    struct map external_numbers;
    VEC(struct sched_name) names; /* of every thread in a switch */
    struct map name_numbers;      /* id → index in names */
    struct map pids;              /* thread id → process id */
    struct map fibers;            /* thread id → id of the fiber on it; 0: none */
    uint32_t limit;    /* of threads and externals: SCHED_THREADS_MAX, or less in tests */
    uint32_t carried;  /* length of the longer of the two when the current part began */
    uint64_t overflow; /* dropped events of threads beyond the limits */
    uint64_t disorder; /* switches inconsistent with earlier ones: events were lost */
};

void sched_init(struct sched *s, struct spool *spool);
void sched_release(struct sched *s);

/*
 * Drops all runs and begins again at time 0, where running threads continue; the others lose their
 * entries. Names and process ids stay.
 */
void sched_carry(struct sched *s);

/*
 * Whether the number of threads is at `percent` of `limit`, and a tenth of `limit` was added since
 * the part began.
 */
bool sched_is_full_to(const struct sched *s, unsigned percent);

struct sched_switch {
    int64_t time;
    uint32_t old_thread, new_thread; /* 0: the idle task */
    uint8_t cpu;
    int8_t reason, state; /* why and how the old thread left */
};
int sched_switch(struct sched *s, const struct sched_switch *sw, struct err *e);

/*
 * A thread became ready to run. `on_cpu`: the client names the CPU; only then does a wakeup of a
 * running thread count for its next run.
 */
int sched_wakeup(struct sched *s, int64_t time, uint32_t thread, bool on_cpu, uint8_t cpu,
                 struct err *e);

/* A fiber starts to run on a thread whose local number is `number`; a fiber that ran there ends. */
int sched_fiber_enter(struct sched *s, int64_t time, uint64_t fiber, uint64_t thread,
                      uint16_t number, struct err *e);
/* Does nothing when no fiber runs on the thread. */
void sched_fiber_leave(struct sched *s, int64_t time, uint64_t thread);

/* The first answer counts. -1 only when memory is short. */
int sched_tid_to_pid(struct sched *s, uint64_t tid, uint64_t pid, struct err *e);

/* The names of a thread that a switch named, or NULL. */
struct sched_name *sched_name(struct sched *s, uint64_t id);

/*
 * Receives runs ordered by list number, then time. `list` counts up from 0; *run is valid during
 * the call.
 */
struct sched_lists {
    void *ctx;
    /* Once per list, also for empty ones. */
    int (*begin)(void *ctx, uint32_t list, uint64_t count, struct err *e);
    int (*run)(void *ctx, const struct sched_run *run, struct err *e);
};

/*
 * Walks the lists of the threads in `order` (indices in threads). `dir` for a temporary file, or
 * NULL.
 */
int sched_walk_threads(struct sched *s, const uint32_t *order, size_t n, const char *dir,
                       const struct sched_lists *to, struct err *e);

/* Walks the lists of all CPUs; only start, end and thread (external number) of a run are set. */
int sched_walk_cpus(struct sched *s, const char *dir, const struct sched_lists *to, struct err *e);

/* The number of runs of all CPUs. */
uint64_t sched_cpu_runs(const struct sched *s);
