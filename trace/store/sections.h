#ifndef TIDEMARK_TRACE_STORE_SECTIONS_H
#define TIDEMARK_TRACE_STORE_SECTIONS_H

/*
 * Sections: named spans of time that belong to no thread, in categories. One may be left before the
 * news comes that it was entered, since the two events can be of different threads.
 * Source: server/TracyWorker.cpp ProcessSection* @ v0.14.0.
 */

#include <stdbool.h>
#include <stdint.h>

#include "base/map.h"
#include "base/spool.h"
#include "base/vec.h"

/* In the order in which they were entered. */
struct section {
    int64_t start;
    uint32_t text; /* string number */
    uint16_t category;
    uint16_t unused; /* 0 */
};

struct section_category {
    uint16_t category;
    uint32_t description; /* string number; 0 none */
    uint64_t count;
};

struct sections {
    struct column list;                    /* struct section */
    struct column ends;                    /* int64_t, beside the list; minus the id while open */
    VEC(struct section_category) category; /* in the order in which they came */
    struct map categories;                 /* category → place in `category` */
    struct map open;                       /* id → 1 + place in the list */
    struct map left;                       /* id of one that is not entered yet → time */
    uint64_t misfits;                      /* entered or left twice; the second time is not kept */
};

/* The spool must outlive the sections. */
void sections_init(struct sections *s, struct spool *spool);
void sections_release(struct sections *s);

int sections_enter(struct sections *s, uint32_t id, uint16_t category, uint32_t text, int64_t time,
                   struct err *e);
int sections_leave(struct sections *s, uint32_t id, int64_t time, struct err *e);

/* What a category is called; 0: it exists. The latest description stands. */
int sections_describe(struct sections *s, uint16_t category, uint32_t text, struct err *e);

/* Begins a new part: categories stay, sections go, open ones begin again at 0. */
int sections_carry(struct sections *s, struct err *e);

#endif
