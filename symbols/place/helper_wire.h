#pragma once

/*
 * The protocol between the program and its symbol helper over a pair of stream sockets. Neither end
 * trusts the other: the helper reads hostile files and may be compromised, and its client must not
 * crash it by a bug.
 *
 *     u32 magic, u32 type, u32 length, body     little-endian; optionally with a file descriptor
 *
 * The program opens an image and asks for places or for the bias. It sends one message at a time
 * and gets one answer to each. Before an answer the helper may request any number of files (WISH).
 * The program answers each request with FILE, with or without a descriptor.
 *
 *     program                        helper
 *     LIMITS memory, file, cpu       READY    once, after it gave up its rights
 *     OPEN image, build id           OPENED facts
 *     LOOKUP places                  FRAMES answers, one for each place, in order; several messages
 *                                           if long
 *     CODE place                     BYTES the code of the function there
 *     INFER symbols at addresses     BIAS
 *     CLOSE                          CLOSED once the cache is written
 *     FILE                           WISH
 *                                    FAILED text, in place of an answer
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/cursor.h"
#include "base/err.h"
#include "base/view.h"
#include "symbols/elf/build_id.h"
#include "symbols/place/place.h"

#define HELPER_BODY_MAX ((uint32_t)16 << 20)
#define HELPER_TEXT_MAX ((uint32_t)65535)
#define HELPER_PLACES_MAX 65536u /* in one LOOKUP */
#define HELPER_HINTS_MAX 4096u

enum helper_type {
    HELPER_LIMITS = 1,
    HELPER_OPEN,
    HELPER_LOOKUP,
    HELPER_INFER,
    HELPER_FILE,
    HELPER_CLOSE,
    HELPER_CODE,
    HELPER_READY = 65,
    HELPER_OPENED,
    HELPER_FRAMES,
    HELPER_BIAS,
    HELPER_WISH,
    HELPER_FAILED,
    HELPER_CLOSED,
    HELPER_BYTES,
};

/* The sandbox mechanisms that this kernel supports. */
enum helper_guard {
    GUARD_SYSCALLS = 1, /* seccomp filter */
    GUARD_FILES = 2,    /* Landlock */
};

struct helper_message {
    uint32_t type;
    struct view body; /* part of `bytes` */
    int fd;           /* a received descriptor, which the receiver closes; -1: none */
    struct buf bytes;
};

/* Not all zero, because of fd. */
#define HELPER_MESSAGE_EMPTY ((struct helper_message){.fd = -1})
void helper_message_release(struct helper_message *m);

/*
 * Returns 0, or -1 with ERR_CHECK if the other end is closed. `fd` (-1: none) stays the caller's.
 */
int helper_send(int socket, enum helper_type type, const struct buf *body, int fd, struct err *e);

/* Why no message arrived. */
enum helper_silence {
    HELPER_ENDED = 1, /* the other end is gone */
    HELPER_LATE,      /* timeout */
    HELPER_STRANGE,   /* the data is not a valid message */
};

/*
 * Receives the next message into `m` and replaces its contents. `deadline` in monotonic ns, 0:
 * none. On failure sets ERR_CHECK and *why (may be NULL).
 */
int helper_receive(int socket, struct helper_message *m, int64_t deadline, enum helper_silence *why,
                   struct err *e);

/*
 * ---- bodies, except FRAMES (symbols/helper/helper_answers.h). A put sets out->failed if memory is
 * short; a get returns -1 with ERR_CHECK
 */

/* How to find an image and the files that belong to it; see struct debug_search. */
struct helper_open {
    struct view path;
    struct build_id build_id; /* required; len 0: any */
    bool trust_paths;
    uint32_t threads;         /* for building an index; 0: one per processor */
    struct view sysroot;      /* empty: none */
    const struct view *dirs;  /* debug directories; none: the default */
    size_t dir_count;         /* up to HELPER_RULES_MAX, like rule_count */
    const struct view *rules; /* substitutions in paths */
    size_t rule_count;
};

#define HELPER_RULES_MAX 64u

void helper_put_open(struct buf *out, const struct helper_open *open);
/* `dirs` and `rules` have room for HELPER_RULES_MAX. */
int helper_get_open(struct view body, struct helper_open *open, struct view *dirs,
                    struct view *rules, struct err *e);

/* `linkage`: answers include linkage names. */
void helper_put_places(struct buf *out, const struct place *places, size_t n, bool linkage);
/* Reads up to HELPER_PLACES_MAX into `places`. */
int helper_get_places(struct view body, struct place *places, size_t *n, bool *linkage,
                      struct err *e);

/* A symbol that the program's frames name. */
struct helper_hint {
    uint64_t address; /* in the process */
    struct view name;
};
void helper_put_hints(struct buf *out, const struct helper_hint *hints, size_t n);
/* Reads up to HELPER_HINTS_MAX into `hints`. */
int helper_get_hints(struct view body, struct helper_hint *hints, size_t *n, struct err *e);

void helper_put_facts(struct buf *out, const struct image_facts *facts);
int helper_get_facts(struct view body, struct image_facts *facts, struct err *e);

struct helper_bias {
    bool found;
    uint64_t bias;
    uint32_t agree, hints; /* supporting symbols, and symbols with a name in the image */
};
void helper_put_bias(struct buf *out, const struct helper_bias *bias);
int helper_get_bias(struct view body, struct helper_bias *bias, struct err *e);

/* CODE: a place; BYTES: the function's code, if found. */
void helper_put_place(struct buf *out, const struct place *place);
int helper_get_place(struct view body, struct place *place, struct err *e);
/* `code` NULL: none. */
void helper_put_code(struct buf *out, const struct place_code *code);
/* `found`: `code` is set; its texts are views of the body. */
int helper_get_code(struct view body, struct place_code *code, bool *found, struct err *e);

void helper_put_wish(struct buf *out, const struct file_wish *wish);
int helper_get_wish(struct view body, struct file_wish *wish, struct err *e);

void helper_put_text(struct buf *out, struct view text);
int helper_get_text(struct cursor *c, struct view *text, struct err *e);
