/* What the client said of its machine and of itself: topology, crash. */

#include "trace/save_internal.h"

int save_topology(struct saver *s)
{
    return put_count(s, REC_PACKAGES, 0);
}

int save_crash(struct saver *s)
{
    struct rec_crash none = {0};
    return put(s, REC_CRASH, &none);
}
