/* Samples, and the code and source text that they lead to. */

#include "trace/save_internal.h"

int save_thread_samples(struct saver *s, uint16_t thread)
{
    (void)thread;
    if (put_count(s, REC_SWITCH_SAMPLES, 0) != 0)
        return -1;
    return put_count(s, REC_SAMPLES, 0);
}

int save_symbol_codes(struct saver *s)
{
    return put_count(s, REC_SYMBOL_CODES, 0);
}

int save_hw_samples(struct saver *s)
{
    return put_count(s, REC_HW_SAMPLES, 0);
}

int save_source_files(struct saver *s)
{
    return put_count(s, REC_SOURCE_FILES, 0);
}
