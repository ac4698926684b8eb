#pragma once

/*
 * Names the frames of a trace. symbols/place/locate.h finds each frame's place,
 * symbols/helper/helper.h looks it up, and trace/store/frame_book.h decides whether the result is
 * better than the client's name.
 *
 * A frame whose image is known always gets a name, at worst "libfoo.so+0x1234" or "libfoo.so (base
 * unknown)".
 */

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "base/buf.h"
#include "base/err.h"
#include "base/vec.h"
#include "naming/resolver.h"
#include "symbols/place/locate.h"
#include "trace/filter/reframe.h"
#include "trace/store/frame_book.h"

/* The result for one image. */
struct resolve_image {
    struct buf path;
    struct build_id build_id;
    uint64_t frames, named_before, named, inlines; /* inlines: frames that got more functions */
    uint64_t from[NAME_ORIGINS];                   /* frames */
    uint64_t steps[LOCATE_STEPS];
    bool opened;
    bool elsewhere; /* its frames are outside of the file's mappings, so it was not opened */
    bool has_debug, separate, from_cache;
    struct buf debug_path; /* of a separate file; empty: fetched */
    struct buf looked;     /* without debug information: missing files */
    struct helper_bias bias;
    char problem[256]; /* why it was not opened or answered for; "" */
};

struct resolve_summary {
    uint64_t frames, named_before, named;
    uint64_t changed;                 /* frames with a new name */
    uint64_t kernel;                  /* kernel frames without a name */
    uint64_t nowhere;                 /* frames whose image is unknown */
    uint64_t symbols;                 /* newly named symbols of the trace's list */
    uint64_t bad_modules;             /* unreadable facts of the module table */
    unsigned guards;                  /* of the helper, enum helper_guard */
    uint64_t unfetched;               /* files that no debuginfod server could be asked for */
    char why_unfetched[256];          /* the first of them */
    VEC(struct resolve_image) images; /* by number of frames, descending */
};

void resolve_summary_release(struct resolve_summary *s);

/* `reframe` may be NULL; it is needed to rename the symbols of a trace's list. */
int resolve_book(struct resolver *r, struct frame_book *book, struct reframe *reframe,
                 enum frame_policy policy, struct resolve_summary *s, struct err *e);

/* Print the summary as text and as JSON. */
int resolve_summary_print(const struct resolve_summary *s, const char *trace, FILE *to,
                          struct err *e);
int resolve_summary_json(const struct resolve_summary *s, const char *trace, FILE *to,
                         struct err *e);

/* "412 of 430 frames named, …", for the fact `symbols`. */
void resolve_summary_fact(const struct resolve_summary *s, struct buf *out);
