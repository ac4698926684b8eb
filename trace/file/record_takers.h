#pragma once

/*
 * Sinks that take some types of records: a table with a function for each type. The types that a
 * reader must deliver follow from the table.
 *
 *     TAKE_EACH(take_thread, struct threads *t, thread, r)
 *     {
 *         return vec_push(&t->ids, r->id) ? 0 : err_no_memory(e, "threads");
 *     }
 *
 *     static const record_takers takers = {[REC_THREAD] = take_thread};
 */

#include <stdbool.h>

#include "trace/file/record.h"

/* Takes `n` records of its type, as struct record_sink does. */
typedef int record_taker(void *ctx, const void *recs, size_t n, struct err *e);
typedef record_taker *record_takers[REC_TYPE_COUNT];

/* NOLINTBEGIN(bugprone-macro-parentheses): declarations of parameters */

/*
 * Defines a taker. CTX declares its context, and its body sees one record as `R`. Stops at the
 * first record for which the body does not return 0.
 */
#define TAKE_EACH(NAME, CTX, STRUCT, R)                                                            \
    static int NAME##_one(CTX, const struct rec_##STRUCT *R, struct err *e);                       \
    static int NAME(void *ctx, const void *recs, size_t n, struct err *e)                          \
    {                                                                                              \
        const struct rec_##STRUCT *all = recs;                                                     \
        for (size_t i = 0; i < n; i++) {                                                           \
            if (NAME##_one(ctx, &all[i], e) != 0)                                                  \
                return -1;                                                                         \
        }                                                                                          \
        return 0;                                                                                  \
    }                                                                                              \
    static int NAME##_one(CTX __attribute__((unused)),                                             \
                          const struct rec_##STRUCT *R __attribute__((unused)),                    \
                          struct err *e __attribute__((unused)))

/* The same, but the body sees `n` records. */
#define TAKE_ALL(NAME, CTX, STRUCT, R)                                                             \
    static int NAME##_all(CTX, const struct rec_##STRUCT *R, size_t n, struct err *e);             \
    static int NAME(void *ctx, const void *recs, size_t n, struct err *e)                          \
    {                                                                                              \
        return NAME##_all(ctx, recs, n, e);                                                        \
    }                                                                                              \
    static int NAME##_all(CTX, const struct rec_##STRUCT *R, size_t n,                             \
                          struct err *e __attribute__((unused)))

/* NOLINTEND(bugprone-macro-parentheses) */

/* Records without a taker are ignored. */
static inline int records_take(const record_takers takers, void *ctx, enum record_type type,
                               const void *recs, size_t n, struct err *e)
{
    record_taker *take = takers[type];
    return take ? take(ctx, recs, n, e) : 0;
}

/* Sets the flags of the types that have a taker. */
static inline void records_wanted(const record_takers takers, bool wanted[REC_TYPE_COUNT])
{
    for (unsigned i = 0; i < REC_TYPE_COUNT; i++)
        wanted[i] |= takers[i] != NULL;
}
