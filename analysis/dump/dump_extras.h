#pragma once

/*
 * The zone extras of a trace, by number. There may be as many as zones, so most of them are in a
 * temporary file that is mapped when complete: only its pages in use take memory. For analysis/.
 */

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/vec.h"
#include "trace/file/record.h"

struct dump_extras {
    VEC(struct rec_zone_extra) recent; /* those not yet in the file */
    const char *dir;                   /* of the temporary file; NULL: the default */
    int fd;                            /* -1: there is no file */
    uint64_t written;                  /* extras in it */
    const struct rec_zone_extra *mapped;
};

void dump_extras_init(struct dump_extras *x, const char *dir);
void dump_extras_release(struct dump_extras *x);

int dump_extras_add(struct dump_extras *x, const struct rec_zone_extra *r, struct err *e);

/* Call after the last one. */
int dump_extras_finish(struct dump_extras *x, struct err *e);

/* NULL if there is none of that number. */
static inline const struct rec_zone_extra *dump_extras_get(const struct dump_extras *x,
                                                           uint64_t number)
{
    if (number < x->written)
        return &x->mapped[number];
    number -= x->written;
    return number < x->recent.len ? &x->recent.at[number] : NULL;
}
