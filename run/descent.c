#include "run/descent.h"

#include "run/process_stat.h"

/* A longer chain of parents is changing while it is read. */
#define GENERATIONS 1000

bool descends_from(pid_t pid, pid_t ancestor)
{
    for (unsigned i = 0; i < GENERATIONS && pid > 0; i++) {
        if (pid == ancestor)
            return true;
        struct process_stat s;
        pid = process_stat_read(pid, &s) ? s.parent : 0;
    }
    return false;
}
