#pragma once

/*
 * Sections: named spans of time, in categories, that belong to no thread. The leave of a section
 * may arrive before its enter, since the two events can come from different threads. Source:
 * server/TracyWorker.cpp ProcessSection* @ v0.14.0.
 */

#include <stdint.h>

#include "base/map.h"
#include "base/spool.h"
#include "base/vec.h"

/* In order of arrival of the enters. */
struct section {
    int64_t start;
    uint32_t text; /* string number */
    uint16_t category;
    uint16_t unused; /* 0 */
};

struct section_category {
    uint16_t category;
    uint32_t description; /* string number; 0: none */
    uint64_t count;
};

struct sections {
    struct column list; /* struct section */
    struct column ends; /* int64_t, parallel to the list; minus the id while open */
    VEC(struct section_category) category; /* in order of arrival */
    struct map categories;                 /* category → index in `category` */
    struct map open;                       /* id → 1 + index in the list */
    struct map left;                       /* id of a section without an enter yet → time */
    uint64_t misfits;                      /* repeated enters or leaves, which are dropped */
};

/* The spool must outlive the sections. */
void sections_init(struct sections *s, struct spool *spool);
void sections_release(struct sections *s);

int sections_enter(struct sections *s, uint32_t id, uint16_t category, uint32_t text, int64_t time,
                   struct err *e);
int sections_leave(struct sections *s, uint32_t id, int64_t time, struct err *e);

/* Sets the description of a category; 0 only creates it. The latest description counts. */
int sections_describe(struct sections *s, uint16_t category, uint32_t text, struct err *e);

/* Begins a new part: keeps categories, drops sections; open ones begin again at 0. */
int sections_carry(struct sections *s, struct err *e);
