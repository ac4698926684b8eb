/* Context switches, processors, threads of other processes. */

#include "trace/save_internal.h"

#define CPUS 256u /* lists that the file always has */

int save_external_names(struct saver *s)
{
    return put_count(s, REC_EXTERNAL_NAMES, 0);
}

int save_external_threads(struct saver *s)
{
    return put_count(s, REC_EXTERNAL_THREADS, 0);
}

int save_context_switches(struct saver *s)
{
    if (put_count(s, REC_CONTEXT_SWITCH_THREADS, 0) != 0 ||
        put_count(s, REC_CPU_SWITCH_LISTS, 0) != 0)
        return -1;
    for (unsigned cpu = 0; cpu < CPUS; cpu++) {
        if (put_count(s, REC_CPU_SWITCH_LIST, 0) != 0)
            return -1;
    }
    if (put_count(s, REC_TID_TO_PIDS, 0) != 0)
        return -1;
    return put_count(s, REC_CPU_THREADS, 0);
}
