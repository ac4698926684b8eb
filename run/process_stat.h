#pragma once

#include <stdbool.h>
#include <sys/types.h>

/* Fields of /proc/PID/stat. */
struct process_stat {
    char state; /* 'R': runs, 'T' and 't': stopped; see proc(5) */
    pid_t parent;
};

/* Parses the file's text. False: it is invalid. */
bool process_stat_parse(const char *text, struct process_stat *out);

/* False: the process does not exist, or cannot be read. */
bool process_stat_read(pid_t pid, struct process_stat *out);
