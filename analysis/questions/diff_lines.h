#ifndef TIDEMARK_ANALYSIS_QUESTIONS_DIFF_LINES_H
#define TIDEMARK_ANALYSIS_QUESTIONS_DIFF_LINES_H

/*
 * Which line of a function in one trace is which line of it in the other. For diff*.c only.
 *
 * Functions are the same by name, without what compilers add, and name of file. Their lines shift
 * with every edit, so they are aligned in order, as texts are: each pair scores by the lines' own
 * numbers, what they call, and how many blocks of which size were allocated through them and
 * whether all were freed; the pairs of the highest sum stand, and what is left over is new or gone.
 * In an image that both traces have with the same build id lines are the same by number only.
 * Without a name, an image takes the function's place, and the offset in it the line's.
 */

#include <stdbool.h>
#include <stdint.h>
#include <xxhash.h>

#include "analysis/figures/accounting.h"
#include "analysis/names/frames.h"
#include "base/buf.h"
#include "base/map.h"
#include "base/vec.h"

struct diff_line {
    uint64_t function; /* hash of its name and file */
    uint64_t position; /* line, or offset in the image; 0 unknown */
    int side;
    bool same_build; /* both traces have the image with this build id */
    bool named;
    uint64_t count, bytes; /* of allocations whose call stacks pass through; at least one */
    uint64_t live_count;   /* of them */
    uint64_t inner;        /* of what it calls: the lowest hash; UINT64_MAX: nothing */
    uint32_t number;       /* the same for lines that match */
};

struct diff_lines {
    const struct trace *trace[2];
    XXH64_hash_t seed;
    VEC(struct diff_line) list;
    struct map places[2];         /* frame << 32 | inlined function → index in list */
    struct map found;             /* hash of side, function and position → index in list */
    VEC(struct view) same_builds; /* names of images */
    struct buf content;
};

/* The traces must outlive it. It need not be initialised. */
int diff_lines_init(struct diff_lines *l, const struct trace *base, const struct trace *now,
                    struct err *e);
void diff_lines_release(struct diff_lines *l);

/* Takes what was allocated with a call stack of a side. */
int diff_lines_count(struct diff_lines *l, int side, uint32_t callstack, const struct counter *c,
                     struct err *e);

/* When all is counted: numbers the lines. */
int diff_lines_match(struct diff_lines *l, struct err *e);

/* The line of a function of a counted call stack (frame_describe). */
const struct diff_line *diff_lines_at(const struct diff_lines *l, int side, uint32_t frame,
                                      uint32_t inlined);

/*
 * The name of a function without what compilers and linkers add to it: ".constprop.0", ".isra.1",
 * ".part.2", ".cold", ".lto_priv.3", ".llvm.4", " [clone …]", Rust's "::h0123456789abcdef".
 */
struct view diff_plain_name(struct view name);

#endif
