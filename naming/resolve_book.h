#ifndef TIDEMARK_NAMING_RESOLVE_BOOK_H
#define TIDEMARK_NAMING_RESOLVE_BOOK_H

/*
 * Names for the frames of a trace: where each lies (symbols/place/locate.h), what stands there
 * (symbols/helper/helper.h), and whether that is better than what the client said
 * (trace/store/frame_book.h).
 *
 * A frame whose image is known never stays without a name: where nothing better is to be had it is
 * "libfoo.so+0x1234", or "libfoo.so (base unknown)".
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

/* How an image fared. */
struct resolve_image {
    struct buf path;
    struct build_id build_id;
    uint64_t frames, named_before, named, inlines; /* inlines: frames that got more functions */
    uint64_t by[3];                                /* frames named anew, by enum frame_knowledge */
    uint64_t steps[LOCATE_STEPS];
    bool opened;
    bool has_debug, separate, from_cache;
    struct buf debug_path; /* of a separate file; empty: it was fetched */
    struct buf looked;     /* without debug information: files that are not there */
    struct helper_bias bias;
    char problem[256]; /* why it was not opened or answered for; "" */
};

struct resolve_summary {
    uint64_t frames, named_before, named;
    uint64_t changed;                 /* frames that are called otherwise now */
    uint64_t kernel;                  /* frames of the kernel, without a name */
    uint64_t nowhere;                 /* frames of which not even the image is known */
    uint64_t symbols;                 /* of the trace's list, named anew */
    uint64_t bad_modules;             /* facts of the module table that cannot be read */
    unsigned guards;                  /* of the helper, enum helper_guard */
    VEC(struct resolve_image) images; /* most frames first */
};

void resolve_summary_release(struct resolve_summary *s);

/* `reframe` may be NULL: for the symbols of a trace's list. */
int resolve_book(struct resolver *r, struct frame_book *book, struct reframe *reframe,
                 enum frame_policy policy, struct resolve_summary *s, struct err *e);

/* In words, and as JSON. */
int resolve_summary_print(const struct resolve_summary *s, const char *trace, FILE *to,
                          struct err *e);
int resolve_summary_json(const struct resolve_summary *s, const char *trace, FILE *to,
                         struct err *e);

/* "412 of 430 frames named, …", for the fact `symbols`. */
void resolve_summary_fact(const struct resolve_summary *s, struct buf *out);

#endif
