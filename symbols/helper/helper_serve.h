#pragma once

/* The helper's side of symbols/place/helper_wire.h: `tidemark symbolize --serve`. */

#include "base/err.h"
#include "symbols/symbolizer.h"

/*
 * The implementation of the requests. The program uses symbolizer_backend (symbols/symbolizer.h);
 * tests use others that crash or hang.
 */
struct helper_backend {
    int (*open)(struct symbolizer **out, const struct helper_open *open, symbolizer_wish *wish,
                void *ctx, struct err *e);
    void (*close)(struct symbolizer *s);
    void (*facts)(const struct symbolizer *s, struct image_facts *facts);
    int (*prepare)(struct symbolizer *s, const struct place *places, size_t n, struct err *e);
    void (*lookup)(struct symbolizer *s, const struct place *place, struct place_answer *answer);
    /*
     * Announces a place that will be looked up, in this order and at most HELPER_AHEAD places
     * later, so that its data can be prefetched. May be NULL.
     */
    void (*ahead)(struct symbolizer *s, const struct place *place);
    int (*infer)(struct symbolizer *s, const struct helper_hint *hints, size_t n,
                 struct helper_bias *bias, struct err *e);
    /* NULL: unsupported. False if no function is known there or its code is not in the file. */
    bool (*code)(struct symbolizer *s, const struct place *place, struct place_code *code);
    void (*keep)(struct symbolizer *s); /* before close: may fill a cache; or NULL */
};

extern const struct helper_backend symbolizer_backend;

/*
 * Gives up its rights, then answers on `socket` until the other end closes it. Returns 0, or -1
 * with the cause. Only for a separate, single-threaded process.
 */
int helper_serve(int socket, const struct helper_backend *backend, struct err *e);

/* As helper_serve, without giving up rights: for fuzzing. */
int helper_answer_all(int socket, const struct helper_backend *backend, struct err *e);
