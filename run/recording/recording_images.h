#ifndef TIDEMARK_RUN_RECORDING_RECORDING_IMAGES_H
#define TIDEMARK_RUN_RECORDING_RECORDING_IMAGES_H

/*
 * Which image of a process had an address, and where that image has its place in the trace.
 *
 * A trace knows a frame by its address alone. So an image keeps the place where it was mapped,
 * unless another one has that place already, because it was unloaded, or because it belongs to
 * another process whose recording went into the same trace: then its addresses are told apart by
 * bits 48 to 59. An image that is met again, at whatever address, has the place that it had.
 * These places are what the facts `module` say.
 */

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "base/map.h"
#include "base/vec.h"
#include "base/view.h"
#include "trace/store/store.h"

/* An executable part of an image, at its place in the trace. */
struct image_place {
    uint64_t start, end; /* with the tag in bits 48 to 59 */
    uint64_t identity;   /* hash of what is mapped: path, build id, offset, length */
};

/* One for a trace. */
struct image_places {
    struct trace *trace;
    VEC(struct image_place) list;
    uint64_t crowded;    /* places beyond the last tag */
    VEC(uint64_t) files; /* hashes of the files that were noted */
};

void image_places_init(struct image_places *p, struct trace *t);
void image_places_release(struct image_places *p);

/* An executable part of an image in a process, from the epoch of its loading on. */
struct process_image {
    uint64_t start, end;  /* as mapped */
    uint32_t number;      /* of the module */
    uint32_t from, until; /* epochs; until UINT32_MAX while it is there */
    uint64_t place;       /* of `start`, in the trace */
};

/* Which file an image without a build id was mapped from. */
struct image_file {
    uint64_t device, inode, size;
    uint64_t mtime; /* ns */
};

/* Notes it in the trace, once. */
int image_places_file(struct image_places *p, const struct image_file *file, struct view path,
                      struct err *e);

/* One for a process. */
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

/* A part was mapped from epoch `epoch` on. */
int process_images_load(struct process_images *p, uint32_t module, uint32_t epoch,
                        struct image_segment segment, struct view path, struct view build_id,
                        struct err *e);
/* The module is gone from epoch `epoch` on. */
void process_images_unload(struct process_images *p, uint32_t module, uint32_t epoch);

/*
 * The frame id of an address (48 bits) that was met in an epoch (16 bits above it). FRAME_CUT of
 * REC_PC_CUT.
 */
int process_images_frame(struct process_images *p, uint64_t pc, uint64_t *frame, struct err *e);

#endif
