/* Plots. */

#include "trace/save_internal.h"

int save_plots(struct saver *s)
{
    return put_count(s, REC_PLOTS, 0);
}
