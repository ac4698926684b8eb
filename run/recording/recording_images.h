#pragma once

/*
 * Finds the image of an address in a process, and the image's place in the trace.
 *
 * A trace identifies a frame by its address alone. An image keeps the range where it was mapped,
 * unless another image has that range already, because that was unloaded or belongs to another
 * process in the same trace: then bits 48 to 59 distinguish its addresses. An image that appears
 * again, at any address, keeps its place. The facts `module` list these places.
 */

#include <stdint.h>

#include "base/err.h"
#include "base/map.h"
#include "base/vec.h"
#include "base/view.h"
#include "trace/store/store.h"

/* An executable part of an image, at its place in the trace. */
struct image_place {
    uint64_t start, end; /* with the tag in bits 48 to 59 */
    uint64_t identity;   /* hash of the mapped path, build id, offset and length */
};

/* One per trace. */
struct image_places {
    struct trace *trace;
    VEC(struct image_place) list;
    uint64_t crowded;    /* parts that got no place since all tags were used */
    VEC(uint64_t) files; /* hashes of files that were noted */
};

void image_places_init(struct image_places *p, struct trace *t);
void image_places_release(struct image_places *p);

/* An executable part of an image in a process, from the epoch of its loading on. */
struct process_image {
    uint64_t start, end;  /* as mapped */
    uint32_t number;      /* of the module */
    uint32_t from, until; /* epochs; `until` is UINT32_MAX while it is mapped */
    uint64_t place;       /* of `start`, in the trace */
};

/* The file that an image without a build id was mapped from. */
struct image_file {
    uint64_t device, inode, size;
    uint64_t mtime; /* ns */
};

/* Adds the fact to the trace, once. */
int image_places_file(struct image_places *p, const struct image_file *file, struct view path,
                      struct err *e);

/* One per process. */
struct process_images {
    struct image_places *places;
    VEC(struct process_image) list;
    struct map frames; /* address and epoch → frame id */
};

void process_images_release(struct process_images *p);

struct image_segment {
    uint64_t start, end; /* as mapped */
    uint64_t offset;     /* in the file */
};

/* Adds a part that was mapped from epoch `epoch` on. */
int process_images_load(struct process_images *p, uint32_t module, uint32_t epoch,
                        struct image_segment segment, struct view path, struct view build_id,
                        struct err *e);
/* Removes the module from epoch `epoch` on. */
void process_images_unload(struct process_images *p, uint32_t module, uint32_t epoch);

/*
 * The frame id of an address (48 bits) seen in an epoch (the 16 bits above). FRAME_CUT for
 * REC_PC_CUT.
 */
int process_images_frame(struct process_images *p, uint64_t pc, uint64_t *frame, struct err *e);
