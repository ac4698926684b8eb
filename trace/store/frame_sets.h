#pragma once

/*
 * Frame sets: named lists of frames. A frame of a continuous set lasts until the set's next frame;
 * frames of a discontinuous set begin and end. The base set has no name and always exists. Set
 * numbers never change. The file lists the base set first, then each set in the order in which
 * names became known; two sets with the same name become one. Source: server/TracyWorker.cpp
 * ProcessFrameMark* and HandleFrameName, server/TracyStringDiscovery.hpp @ v0.9.1 … v0.14.0.
 *
 * Times are nanoseconds on the part's clock.
 */

#include <stdbool.h>
#include <stdint.h>

#include "base/map.h"
#include "base/spool.h"
#include "base/vec.h"

#define FRAME_SET_BASE 0u
#define FRAME_NO_END (-1)

/* One per frame of every set, in order of arrival. */
struct frame_mark {
    int64_t start;
    int64_t end; /* FRAME_NO_END in continuous sets and until the frame ends */
    uint32_t set;
    uint32_t unused; /* 0 */
};

struct frame_set {
    uint64_t name; /* client pointer; 0: base set; from 2^63 up: vertical synchronisations */
    uint32_t into; /* the set with the same name that it is merged into, or its own number */
    bool continuous;
    bool listed; /* its position in the file is fixed */
    bool merged; /* other sets were merged into it, so its frames must be sorted */
    uint64_t count;
    uint64_t newest; /* 1 + index of its latest frame; 0: none */
    int64_t newest_start, newest_end;
};

struct frame_sets {
    struct column marks; /* struct frame_mark */
    VEC(struct frame_set) list;
    VEC(uint32_t) order; /* numbers of listed sets, in file order */
    struct map numbers;  /* client pointer of a name → set number */
    struct map told;     /* client pointer of a name → its text */
    struct map by_text;  /* text → number of the set that is listed under it */
    struct map vsync;    /* the system's display id → set number */
    bool no_base; /* set by an importer: the file lacks a base set, as there were no marks of it */
    uint64_t lone_ends; /* frame ends without a begin */
    uint64_t misfits;   /* frames begun or ended twice, or marks in a set of the other kind */
};

/* Creates the base set. The spool must outlive the sets. */
int frame_sets_init(struct frame_sets *f, struct spool *spool, struct err *e);
void frame_sets_release(struct frame_sets *f);

/* Adds a mark to a continuous set; `name` 0 is the base set. */
int frame_sets_mark(struct frame_sets *f, uint64_t name, int64_t time, struct err *e);

/* Adds a mark of a display, which is a separate continuous set. */
int frame_sets_vsync(struct frame_sets *f, uint64_t display, int64_t time, struct err *e);

int frame_sets_start(struct frame_sets *f, uint64_t name, int64_t time, struct err *e);

/* *known: there was a frame to end. */
int frame_sets_end(struct frame_sets *f, uint64_t name, int64_t time, bool *known, struct err *e);

/*
 * Sets the text of a name. `base_text` is the base set's name: a set of that name is merged into
 * it.
 */
int frame_sets_name(struct frame_sets *f, uint64_t name, uint32_t text, uint32_t base_text,
                    struct err *e);

/* Begins a new part: keeps sets, drops frames; open frames begin again at 0. */
int frame_sets_carry(struct frame_sets *f, struct err *e);

/* The set that holds a set's frames: the set itself, or the one it was merged into. */
static inline uint32_t frame_set_root(const struct frame_sets *f, uint32_t number)
{
    return f->list.at[number].into;
}
