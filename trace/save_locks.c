/* Locks. */

#include "trace/save_internal.h"

int save_locks(struct saver *s)
{
    return put_count(s, REC_LOCKS, 0);
}
