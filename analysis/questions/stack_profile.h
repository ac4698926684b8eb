#pragma once

/*
 * The allocations of each call stack in the terms that profile formats share: samples of locations,
 * locations of lines of functions, mappings of code. Numbers instead of pointers; texts are
 * well-formed UTF-8, and equal texts have one number. Memory grows with distinct call stacks,
 * frames and names.
 *
 * The figures are the groups of a summary by call stack, so they are those of `report`.
 */

#include <stdbool.h>
#include <stdint.h>

#include "analysis/figures/summary.h"
#include "base/err.h"
#include "base/map.h"
#include "base/vec.h"
#include "base/view.h"
#include "trace/store/strings.h"

/* Texts are numbers for profile_text. */
struct profile_function {
    uint32_t name; /* never empty; without a name, the image and address */
    uint32_t file; /* 0: unknown */
};

struct profile_line {
    uint32_t function; /* index in functions */
    uint32_t line;     /* 0: unknown */
};

/* The code at one address: the functions inlined there, innermost first. */
struct profile_location {
    uint64_t address; /* 0: unknown */
    uint32_t mapping; /* index in mappings + 1; 0: unknown */
    uint32_t first;   /* index in lines */
    uint32_t n;       /* 0: no sample has it */
    bool named;       /* some function of it has a name */
    uint8_t client;   /* enum profile_client */
};

/* The part of a location that is the client which recorded the event. */
enum profile_client {
    CLIENT_NONE,
    CLIENT_INNER, /* its innermost functions, which are left out of the lines */
    CLIENT_WHOLE,
};

/*
 * A mapping of the process's code. Its bounds are those of the trace's module table. If that has
 * none, they are the pages of the image's known addresses, and the offset is 0.
 */
struct profile_mapping {
    uint64_t start, end, offset;
    uint32_t file, build_id; /* texts; 0: unknown */
    bool named, lines, inlines;
};

/* Locations after those of the trace's frames; they occur only as a sample's outermost one. */
enum profile_tail {
    TAIL_NO_CALLSTACK,
    TAIL_CUT, /* the parent of cut call stacks, if the trace has no frame for it */
    TAILS,
};

/* One call stack in one pool. */
struct profile_sample {
    uint32_t pool;      /* index in summary.pools */
    uint32_t callstack; /* 0: none */
    uint32_t tail;      /* index + 1 in locations of its outermost location; 0: that of its root */
    struct counter figures;
};

struct profile {
    const struct summary *summary;
    struct strings texts;
    VEC(struct profile_function) functions;
    VEC(struct profile_line) lines;
    VEC(struct profile_location) locations; /* one for each frame, then enum profile_tail */
    VEC(struct profile_mapping) mappings;   /* that of the program first, if known */
    VEC(struct profile_sample) samples;     /* in order of pool and call stack */
    struct map function_numbers;            /* name << 32 | file → index */
    struct map image_mappings;              /* image's string number → index in mappings */
    size_t modules;                         /* number of mappings from the module table */
    bool all_frames;
};

/*
 * `s` is a summary by call stack and must outlive the profile, which need not be initialised.
 * Without `all_frames`, the functions of Tracy's client at the inner end of call stacks are left
 * out if others remain.
 */
int profile_build(struct profile *p, const struct summary *s, bool all_frames, struct err *e);
void profile_release(struct profile *p);

static inline struct view profile_text(const struct profile *p, uint32_t number)
{
    return strings_get(&p->texts, number);
}

/* The locations of a sample, innermost first. */
struct profile_walk {
    const struct profile *profile;
    uint32_t node;
    uint32_t tail; /* of the sample; 0 after it was returned */
};

struct profile_walk profile_walk_start(const struct profile *p, const struct profile_sample *s);

/* The next index in `locations`; false at the end. */
bool profile_walk_next(struct profile_walk *w, uint32_t *location);

/* ---- measures */

enum profile_of { PROFILE_TOTAL, PROFILE_LIVE, PROFILE_PEAK, PROFILE_TEMPORARY, PROFILE_OF_COUNT };

/*
 * Bytes, or allocations: of all; of those live at the end; of those live at the pool's peak; of
 * temporary ones (accounting.h).
 */
uint64_t profile_value(const struct counter *c, enum profile_of of, bool bytes);
