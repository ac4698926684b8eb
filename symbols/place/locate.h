#ifndef TIDEMARK_SYMBOLS_PLACE_LOCATE_H
#define TIDEMARK_SYMBOLS_PLACE_LOCATE_H

/*
 * From an address of a trace to an image and a place in it. A trace has neither load addresses nor
 * build ids, so what there is is tried in this order:
 *
 *     OFFSET     the client was built to resolve offline: image and offset stand in the frame
 *     MODULE     the module table that the capture took while the client lived
 *     BASE       --base IMAGE=ADDRESS
 *     FILE       --modules FILE
 *     INFERRED   page-aligned difference between where frames of the image say that their symbols
 *                were, and where the image's symbol table has symbols of these names
 *
 * Nothing here opens a file: what an image's symbols are is asked by the caller.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/map.h"
#include "base/vec.h"
#include "base/view.h"
#include "symbols/elf/build_id.h"
#include "symbols/place/module_table.h"
#include "symbols/place/place.h"

enum locate_step {
    LOCATED_NOT,
    LOCATED_OFFSET,
    LOCATED_MODULE,
    LOCATED_BASE,
    LOCATED_FILE,
    LOCATED_INFERRED,
    LOCATE_STEPS,
};

/* A frame as the trace has it. */
struct locate_frame {
    uint64_t address;  /* in the client's process, as recorded */
    uint64_t symbol;   /* the frame's symbol address, or offset in the image; 0 unknown */
    struct view image; /* path in the client's file system; empty: unknown */
    bool unresolved;   /* marked as to be resolved later */
    bool exact;        /* the code at `address` was running; else a call returns there */
    bool listed;      /* no frame, but a symbol at `address`: an offset where those of frames are */
    struct view name; /* of a symbol that stood at `start`, or empty */
    uint64_t start;
};

struct located {
    uint32_t image; /* position in locate.images, or LOCATE_NONE */
    uint8_t step;   /* enum locate_step */
    uint8_t kind;   /* enum place_kind */
    bool listed;
    uint64_t value; /* to look up: for a return address that of the byte before */
};

#define LOCATE_NONE UINT32_MAX

/* A symbol that frames of an image name, at its address in the client. */
struct locate_hint {
    uint64_t address;
    struct view name;
};

struct locate_image {
    struct view path;              /* NUL-terminated; the caller's or a module table's */
    struct build_id build_id;      /* of the module tables; len 0: unknown */
    bool named_by_user;            /* by --base or --modules: may be opened without a build id */
    uint64_t frames[LOCATE_STEPS]; /* without listed ones */
    VEC(struct locate_hint) hints; /* of images with frames that no step but the last can place */
    struct map hint_addresses;
    bool has_bias; /* inferred */
    uint64_t bias;
};

/* --base */
struct locate_base {
    const char *image; /* path, or what is behind its last slash; a path also names the image of
                          frames right above whose image the client could not tell */
    uint64_t address;  /* where the image's first byte was mapped */
};

struct locate_options {
    const struct module_table *facts; /* of the trace, sorted; may be empty, not NULL */
    const struct module_table *file;  /* of --modules */
    const struct locate_base *bases;
    size_t base_count;
};

struct locate {
    struct locate_options options;
    VEC(struct located) frames; /* as the frames that were added */
    VEC(struct locate_image) images;
    VEC(uint64_t) pending; /* addresses of frames that wait for a bias; beside `frames` */
    struct map by_key;     /* hash of path and build id → position in images + 1 */
    uint32_t *by_image;    /* frames in the order of their images */
    size_t *firsts;        /* by image: where its frames begin there; one more for the end */
};

void locate_init(struct locate *l, const struct locate_options *options);
void locate_release(struct locate *l);

/*
 * Places all frames; texts must stay where they are. Frames of the kernel and those of address 0
 * are located nowhere.
 */
int locate_frames(struct locate *l, const struct locate_frame *frames, size_t n, struct err *e);

/* The numbers of the frames of an image, in order. */
const uint32_t *locate_frames_of(const struct locate *l, size_t image, size_t *n);

/* Places the frames of an image that wait for it by an inferred bias. */
void locate_set_bias(struct locate *l, size_t image, uint64_t bias);

/* "offsets from the client", … for messages. */
const char *locate_step_text(enum locate_step step);

/* Reads "IMAGE=ADDRESS" (hexadecimal, with or without 0x); `room` gets the image's name. */
int locate_base_parse(const char *text, struct locate_base *out, char **room, struct err *e);

#endif
