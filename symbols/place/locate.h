#pragma once

/*
 * Maps addresses of a trace to an image and a place in it. A trace has neither load addresses nor
 * build ids, so these sources are tried in order:
 *
 *     OFFSET     the client was built to resolve offline: the frame has image and offset
 *     MODULE     the module table that the capture read while the client ran
 *     BASE       --base IMAGE=ADDRESS
 *     FILE       --modules FILE
 *     INFERRED   the page-aligned difference between the symbol addresses in the image's frames
 *                and those of the same names in the image's symbol table
 *
 * This code opens no file: the caller looks up the image's symbols.
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

/* A frame as recorded in the trace. */
struct locate_frame {
    uint64_t address;  /* in the client's process, as recorded */
    uint64_t symbol;   /* symbol address, or offset in the image; 0: unknown */
    struct view image; /* path in the client's file system; empty: unknown */
    bool unresolved;   /* marked for later resolution */
    bool exact;        /* the address was executing; else it is a return address */
    bool listed;       /* a listed symbol, no frame: an offset where those of frames are */
    struct view name;  /* of a symbol at `start`, or empty */
    uint64_t start;
};

struct located {
    uint32_t image; /* index in locate.images, or LOCATE_NONE */
    uint8_t step;   /* enum locate_step */
    uint8_t kind;   /* enum place_kind */
    bool listed;
    uint64_t value; /* to look up: of a return address the byte before */
};

#define LOCATE_NONE UINT32_MAX

/* A symbol that frames of an image name, with its address in the client. */
struct locate_hint {
    uint64_t address;
    struct view name;
};

struct locate_image {
    struct view path;              /* NUL-terminated; owned by the caller or a module table */
    struct build_id build_id;      /* from the module tables; len 0: unknown */
    bool named_by_user;            /* by --base or --modules: may be opened without a build id */
    uint64_t frames[LOCATE_STEPS]; /* without listed symbols */
    VEC(struct locate_hint) hints; /* of images with frames that only INFERRED can place */
    struct map hint_addresses;
    bool has_bias; /* inferred */
    uint64_t bias;
};

/* An argument of --base. A path also covers frames of unknown image right above its image. */
struct locate_base {
    const char *image; /* path or base name */
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
    VEC(struct located) frames; /* in the order of the added frames */
    VEC(struct locate_image) images;
    VEC(uint64_t) pending; /* beside `frames`: addresses of frames that wait for a bias */
    struct map by_key;     /* hash of path and build id → index in images + 1 */
    uint32_t *by_image;    /* frame numbers grouped by image */
    size_t *firsts;        /* by image: its first index in by_image; one more for the end */
};

void locate_init(struct locate *l, const struct locate_options *options);
void locate_release(struct locate *l);

/*
 * Places all frames; their texts must stay valid. Kernel frames and frames at address 0 stay
 * unlocated.
 */
int locate_frames(struct locate *l, const struct locate_frame *frames, size_t n, struct err *e);

/* The numbers of an image's frames, in order. */
const uint32_t *locate_frames_of(const struct locate *l, size_t image, size_t *n);

/* Places the waiting frames of an image by an inferred bias. */
void locate_set_bias(struct locate *l, size_t image, uint64_t bias);

/* "offsets from the client", … for messages. */
const char *locate_step_text(enum locate_step step);

/* Parses "IMAGE=ADDRESS" (hexadecimal, with or without 0x); `room` receives the image's name. */
int locate_base_parse(const char *text, struct locate_base *out, char **room, struct err *e);
