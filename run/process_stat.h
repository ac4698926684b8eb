#ifndef TIDEMARK_RUN_PROCESS_STAT_H
#define TIDEMARK_RUN_PROCESS_STAT_H

#include <stdbool.h>
#include <sys/types.h>

/* What /proc/PID/stat says. */
struct process_stat {
    char state; /* 'R' runs, 'T' and 't' are stopped: proc(5) */
    pid_t parent;
};

/* Of the file's text. False: it is none. */
bool process_stat_parse(const char *text, struct process_stat *out);

/* False: there is no such process, or it cannot be looked at. */
bool process_stat_read(pid_t pid, struct process_stat *out);

#endif
