#pragma once

/*
 * The program's side of the symbol helper. The helper is a separate process that reads ELF and
 * DWARF files, without network access and without any file except those passed to it
 * (symbols/helper/sandbox.h). A file that crashes or hangs the helper costs the names of that
 * image; the next image gets a new process.
 */

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "symbols/helper/helper_answers.h"
#include "symbols/helper/launcher.h"
#include "symbols/place/helper_wire.h"
#include "symbols/place/place.h"

struct helper_options {
    double seconds;  /* time limit for one request about an image */
    uint64_t memory; /* limit of its address space in bytes; 0: none */
    /*
     * Serves a file request: returns a descriptor, which the helper module closes, or -1. The
     * request comes from a process that may be compromised.
     */
    int (*wish)(void *ctx, const struct file_wish *wish);
    void *ctx;
    bool linkage; /* answers include linkage names */
};

#define HELPER_SECONDS 120.0
#define HELPER_MEMORY ((uint64_t)32 << 30)
#define HELPER_FILE_BYTES ((uint64_t)4 << 30)

struct helper {
    struct launcher launcher;
    struct helper_options options;
    int socket;       /* -1: no process runs */
    int64_t ready_by; /* when a started process must be ready, monotonic ns; 0: it is */
    unsigned guards;  /* enum helper_guard */
    uint64_t started; /* number of processes started */
    bool from_cache;  /* of the open image */
    bool closing;     /* CLOSE was sent, CLOSED has not arrived */
    struct helper_message in;
    struct answers_in answers; /* reads `in` */
    struct buf out;
};

/* Starts the launcher; call it before creating threads. Options may change between images. */
int helper_init(struct helper *h, const struct helper_options *options, struct err *e);

/*
 * Starts the process now, so that it gets ready while the program continues. A failure is reported
 * when an image is opened.
 */
void helper_start_early(struct helper *h);

void helper_release(struct helper *h);

/*
 * Opens an image. Errors are ERR_MEMORY or ERR_CHECK. ERR_CHECK costs this image only: it was not
 * found, is no image, has another build id, or the helper ended. Texts of the facts are valid
 * until the next request.
 */
int helper_open_image(struct helper *h, const struct helper_open *open, struct image_facts *facts,
                      struct err *e);

/*
 * Closes the image, so that another one can be opened, and lets the helper fill the cache. Errors
 * are ignored. If the cache was complete, the call does not wait: the helper closes the image in
 * the background, and its answer is read before the next request.
 */
void helper_close_image(struct helper *h);

/* Called with the answer for each place, in order; its contents are valid only during the call. */
typedef int helper_put(void *ctx, size_t i, const struct place_answer *answer, struct err *e);
int helper_look_up(struct helper *h, const struct place *places, size_t n, helper_put *put,
                   void *ctx, struct err *e);

/*
 * Reads the machine code of the function around a place; *found is false if there is none. Valid
 * until the next request.
 */
int helper_read_code(struct helper *h, const struct place *place, struct place_code *code,
                     bool *found, struct err *e);

/* See symbolizer_infer. Uses at most the first HELPER_HINTS_MAX hints. */
int helper_infer_bias(struct helper *h, const struct helper_hint *hints, size_t n,
                      struct helper_bias *bias, struct err *e);
