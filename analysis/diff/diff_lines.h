#pragma once

/*
 * Matches the lines of a function in one trace with those in the other. For diff*.c only.
 *
 * Functions match by name, without compiler suffixes, and name of file. Their lines shift with
 * every edit, so they are aligned in order, like texts. Each pair is scored by line numbers,
 * callees, the number and sizes of blocks allocated through the lines, and whether all were freed.
 * The pairs with the highest sum match; the remaining lines are new or gone. In an image that both
 * traces have with the same build id, lines match by number only. Without names, the image replaces
 * the function, and the offset in it the line.
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
    uint64_t position; /* line, or offset in the image; 0: unknown */
    int side;
    bool same_build; /* both traces have the image with this build id */
    bool named;
    uint64_t count, bytes; /* of allocations with call stacks through it; at least one */
    uint64_t live_count;   /* of them */
    uint64_t inner;        /* of its callees: the lowest hash; UINT64_MAX: none */
    uint32_t number;       /* equal for matching lines */
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

/* The traces must outlive `l`, which need not be initialised. */
int diff_lines_init(struct diff_lines *l, const struct trace *base, const struct trace *now,
                    struct err *e);
void diff_lines_release(struct diff_lines *l);

/* Counts the allocations of a call stack of a side. */
int diff_lines_count(struct diff_lines *l, int side, uint32_t callstack, const struct counter *c,
                     struct err *e);

/* After counting: numbers the lines. */
int diff_lines_match(struct diff_lines *l, struct err *e);

/* The line of a function of a counted call stack (frame_describe). */
const struct diff_line *diff_lines_at(const struct diff_lines *l, int side, uint32_t frame,
                                      uint32_t inlined);

/*
 * The name of a function without suffixes of compilers and linkers: ".constprop.0", ".isra.1",
 * ".part.2", ".cold", ".lto_priv.3", ".llvm.4", " [clone …]", Rust's "::h0123456789abcdef".
 */
struct view diff_plain_name(struct view name);
