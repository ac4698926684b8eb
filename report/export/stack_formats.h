#pragma once

/*
 * Exports the allocations of each call stack to formats of other viewers. All of them keep pools
 * apart, because bytes of graphics memory and main memory have no meaningful sum.
 */

#include <stdio.h>

#include "analysis/questions/stack_profile.h"
#include "base/err.h"

struct stack_format_options {
    bool count;                    /* allocations instead of bytes */
    enum profile_of of;            /* folded: the counted value */
    bool wanted[PROFILE_OF_COUNT]; /* speedscope: which profiles to write */
};

/*
 * Folded stacks, one per line, sorted by text: functions from the outermost inwards separated by
 * ';', a space, the value. Control characters and invalid UTF-8 become \xNN, a ';' in a name
 * becomes ':'. With several pools, the pool's name comes first. Call stacks with equal text share a
 * line; those of value 0 are left out.
 */
int folded_write(const struct profile *p, const struct stack_format_options *o, FILE *out,
                 struct err *e);

/*
 * A gzip-compressed profile for pprof: profile.proto of github.com/google/pprof. Samples have all
 * values: alloc_, inuse_, peak_ and temporary_ objects and space, and the label "pool".
 */
int pprof_write(const struct profile *p, FILE *out, struct err *e);

/* https://www.speedscope.app/file-format-schema.json: a profile for each pool and measure. */
int speedscope_write(const struct profile *p, const struct stack_format_options *o, FILE *out,
                     struct err *e);
