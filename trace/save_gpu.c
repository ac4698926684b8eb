/* GPU contexts with their zones and annotations. */

#include "trace/save_internal.h"

int save_gpu_zone_stats(struct saver *s)
{
    return put_count(s, REC_GPU_ZONE_STATS, 0);
}

int save_gpu(struct saver *s)
{
    struct rec_threads none = {0};
    return put(s, REC_GPU_CONTEXTS, &none);
}
