#ifndef TIDEMARK_SYMBOLS_HELPER_HELPER_H
#define TIDEMARK_SYMBOLS_HELPER_HELPER_H

/*
 * The program's side of the symbol helper: a process of its own that reads ELF and DWARF files,
 * without network and without any file that it was not handed (symbols/helper/sandbox.h). A file
 * that crashes it or makes it hang costs the names of that image: the next one gets a new process.
 */

#include <stdbool.h>
#include <stdint.h>

#include "base/err.h"
#include "symbols/elf/build_id.h"
#include "symbols/helper/helper_answers.h"
#include "symbols/helper/launcher.h"
#include "symbols/place/helper_wire.h"
#include "symbols/place/place.h"

struct helper_options {
    double seconds;  /* that one question about an image may take */
    uint64_t memory; /* bytes of its address space; 0: no limit */
    /*
     * The file that the helper wishes for, a descriptor that the helper module closes, or -1. The
     * wish is that of a process which may be no longer ours.
     */
    int (*wish)(void *ctx, const struct file_wish *wish);
    void *ctx;
    bool linkage; /* answers have linkage names, too */
};

#define HELPER_SECONDS 120.0
#define HELPER_MEMORY ((uint64_t)32 << 30)
#define HELPER_FILE_BYTES ((uint64_t)4 << 30)

struct helper {
    struct launcher launcher;
    struct helper_options options;
    int socket;       /* -1: no process runs */
    int64_t ready_by; /* monotonic ns by which one that was started is to be ready; 0: it is */
    unsigned guards;  /* enum helper_guard */
    uint64_t started; /* processes, in all */
    bool from_cache;  /* what is known of the open image */
    bool closing;     /* the process was told to, and has not said that it is done */
    struct helper_message in;
    struct answers_in answers; /* of `in` */
    struct buf out;
};

/* Starts the launcher; call it before there are threads. Options may change between images. */
int helper_init(struct helper *h, const struct helper_options *options, struct err *e);

/*
 * Starts the process now, so that it gets ready while the program does something else. When it
 * cannot be started, that is told when an image is opened.
 */
void helper_start_early(struct helper *h);

void helper_release(struct helper *h);

/*
 * Opens an image. All errors but those of memory are ERR_CHECK and cost this image only: it is
 * nowhere, no ELF file, has another build id, or the helper ended. Texts of the facts are valid
 * until the next question.
 */
int helper_open_image(struct helper *h, const struct helper_open *open, struct image_facts *facts,
                      struct err *e);

/*
 * Ends with the image, after which another can be opened, and has the cache filled. What goes wrong
 * then is no loss: nothing is said. When the cache had all before, there is nothing to wait for:
 * then the process closes it while the program goes on, and is asked when it is needed again.
 */
void helper_close_image(struct helper *h);

/* Hands over the answer for each place, in order; what is in it is valid during the call. */
typedef int helper_put(void *ctx, size_t i, const struct place_answer *answer, struct err *e);
int helper_look_up(struct helper *h, const struct place *places, size_t n, helper_put *put,
                   void *ctx, struct err *e);

/*
 * The machine code of the function around a place; *found tells whether there is any. Valid until
 * the next question.
 */
int helper_read_code(struct helper *h, const struct place *place, struct place_code *code,
                     bool *found, struct err *e);

/* See symbolizer_infer; of more than HELPER_HINTS_MAX hints the first are taken. */
int helper_infer_bias(struct helper *h, const struct helper_hint *hints, size_t n,
                      struct helper_bias *bias, struct err *e);

#endif
