#pragma once

/*
 * The page's tree of call stacks. Frames that look the same in the page, such as two calls of a
 * function from one line, or from a function without lines, are one frame, and call stacks of the
 * same frames are one call stack: nothing that the page shows is lost, and it is several times
 * smaller.
 */

#include <stdint.h>

#include "analysis/html/html_data.h"
#include "base/err.h"
#include "base/map.h"
#include "base/vec.h"
#include "base/view.h"

/* What a frame looks like: numbers of texts. No padding: compared as bytes. */
struct frame_look {
    uint64_t address; /* 0 if the function is known */
    uint32_t function, file, image, line, is_inline, spare;
};

/* Zero-initialise. */
struct page_tree {
    struct map texts;  /* hash of a text → its number */
    struct map frames; /* hash of a look → its number */
    struct map nodes;  /* parent and frame → node */
    struct map stacks; /* node and begin → stack */
    VEC(struct view) names;
    VEC(struct frame_look) looks; /* of d->frames */
};

void page_tree_release(struct page_tree *t);

/*
 * The first of equal texts; bytes that a new one takes in the page are added to d->text. -1 if
 * memory is short.
 */
int page_tree_text(struct page_tree *t, struct page_data *d, struct view *text, struct err *e);

/* Replaces the texts of a frame by the first of equal ones. */
int page_tree_texts(struct page_tree *t, struct page_data *d, struct frame_view *f, struct err *e);

/* Bytes that the texts of a frame would add to d->text. */
uint64_t page_tree_cost(const struct page_tree *t, const struct frame_view *f);

/* The number of a frame in d->frames, which is added if no other looks the same. */
int page_tree_frame(struct page_tree *t, struct page_data *d, struct frame_view f, uint32_t *number,
                    struct err *e);

/* *node becomes its child of that frame, which is added to d->nodes if there is none. */
int page_tree_child(struct page_tree *t, struct page_data *d, uint32_t frame, uint32_t *node,
                    struct err *e);

/* The number of a call stack in d->stacks, which is added if there is none like it. */
int page_tree_stack(struct page_tree *t, struct page_data *d, struct page_stack stack,
                    uint32_t *number, struct err *e);
