#ifndef TIDEMARK_REPORT_EXPORT_STACK_FORMATS_H
#define TIDEMARK_REPORT_EXPORT_STACK_FORMATS_H

/*
 * What each call stack allocated, for the viewers of others. In all of them pools stay apart, for
 * bytes of a graphics card and of main memory have no sum.
 */

#include <stdio.h>

#include "analysis/questions/stack_profile.h"
#include "base/err.h"

struct stack_format_options {
    bool count;                    /* allocations instead of bytes */
    enum profile_of of;            /* folded: what is counted */
    bool wanted[PROFILE_OF_COUNT]; /* speedscope: a profile for each of these */
};

/*
 * Folded stacks, one line each in order of their text: functions from the outermost inwards with
 * ';' between, a space, the value. Control characters and bytes that are no UTF-8 become \xNN, a
 * ';' in a name ':'. When there are several pools, the first is the pool's name. Call stacks that
 * read the same are one line; those of value 0 are left out.
 */
int folded_write(const struct profile *p, const struct stack_format_options *o, FILE *out,
                 struct err *e);

/*
 * A profile for pprof, compressed with gzip: profile.proto of github.com/google/pprof. Samples have
 * all values: alloc_, inuse_, peak_ and temporary_ objects and space, and the label "pool".
 */
int pprof_write(const struct profile *p, FILE *out, struct err *e);

/* https://www.speedscope.app/file-format-schema.json: a profile for each pool and measure. */
int speedscope_write(const struct profile *p, const struct stack_format_options *o, FILE *out,
                     struct err *e);

#endif
