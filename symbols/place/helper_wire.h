#ifndef TIDEMARK_SYMBOLS_PLACE_HELPER_WIRE_H
#define TIDEMARK_SYMBOLS_PLACE_HELPER_WIRE_H

/*
 * What the program and its symbol helper say to each other over a pair of stream sockets. Neither
 * end trusts the other: the helper reads hostile files and may be no longer ours, and a bug of ours
 * must not crash it.
 *
 *     u32 magic, u32 type, u32 length, body        little-endian; one file descriptor may go along
 *
 * The program opens an image, asks for places or for the bias, one message at a time, and gets one
 * answer to each. Before an answer the helper may wish for files any number of times; each wish is
 * answered by FILE, with a descriptor or without.
 *
 *     program                        helper
 *     LIMITS memory, file, cpu       READY    once, when it has given up its rights
 *     OPEN image, build id           OPENED facts
 *     LOOKUP places                  FRAMES answers, one for each place, in order; several messages
 *                                           if long
 *     CODE place                     BYTES the code of the function there
 *     INFER symbols at addresses     BIAS
 *     CLOSE                          CLOSED when the cache has what was read
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

/* What keeps the helper in, as far as this kernel has it. */
enum helper_guard {
    GUARD_SYSCALLS = 1, /* seccomp filter */
    GUARD_FILES = 2,    /* Landlock */
};

struct helper_message {
    uint32_t type;
    struct view body; /* in `bytes` */
    int fd;           /* that came along, the receiver's to close; -1: none */
    struct buf bytes;
};

/* Zero-initialised is not empty: fd. */
#define HELPER_MESSAGE_EMPTY ((struct helper_message){.fd = -1})
void helper_message_release(struct helper_message *m);

/* 0, or -1 with ERR_CHECK when the other end is gone. `fd` -1: none; it stays the caller's. */
int helper_send(int socket, enum helper_type type, const struct buf *body, int fd, struct err *e);

/* Why there is no message. */
enum helper_silence {
    HELPER_ENDED = 1, /* the other end is gone */
    HELPER_LATE,      /* time is up */
    HELPER_STRANGE,   /* what comes is no message */
};

/*
 * The next message into `m`, whose old contents go. `deadline` in monotonic ns, 0: none. Else
 * ERR_CHECK, and *why (may be NULL).
 */
int helper_receive(int socket, struct helper_message *m, int64_t deadline, enum helper_silence *why,
                   struct err *e);

/* ---- bodies, those of FRAMES in symbols/helper/helper_answers.h; a put sets out->failed when
 * memory is short, a get is -1 with ERR_CHECK */

/* How to look for an image and what belongs to it; see struct debug_search. */
struct helper_open {
    struct view path;
    struct build_id build_id; /* that it must have; len 0: any */
    uint8_t reader;           /* enum index_back_end */
    bool trust_paths;
    uint32_t threads;         /* that may work on an index; 0: as many as there are processors */
    struct view sysroot;      /* empty: none */
    const struct view *dirs;  /* debug directories; none: the usual one */
    size_t dir_count;         /* up to HELPER_RULES_MAX, here and below */
    const struct view *rules; /* substitutions in paths */
    size_t rule_count;
};

#define HELPER_RULES_MAX 64u

void helper_put_open(struct buf *out, const struct helper_open *open);
/* `dirs` and `rules` have room for HELPER_RULES_MAX. */
int helper_get_open(struct view body, struct helper_open *open, struct view *dirs,
                    struct view *rules, struct err *e);

/* `linkage`: linkage names are wanted, too. */
void helper_put_places(struct buf *out, const struct place *places, size_t n, bool linkage);
/* Up to HELPER_PLACES_MAX into `places`. */
int helper_get_places(struct view body, struct place *places, size_t *n, bool *linkage,
                      struct err *e);

/* A symbol that the program's frames name. */
struct helper_hint {
    uint64_t address; /* in the process */
    struct view name;
};
void helper_put_hints(struct buf *out, const struct helper_hint *hints, size_t n);
/* Up to HELPER_HINTS_MAX into `hints`. */
int helper_get_hints(struct view body, struct helper_hint *hints, size_t *n, struct err *e);

void helper_put_facts(struct buf *out, const struct image_facts *facts);
int helper_get_facts(struct view body, struct image_facts *facts, struct err *e);

struct helper_bias {
    bool found;
    uint64_t bias;
    uint32_t agree, hints; /* symbols that say so, of how many that have a name in the image */
};
void helper_put_bias(struct buf *out, const struct helper_bias *bias);
int helper_get_bias(struct view body, struct helper_bias *bias, struct err *e);

/* CODE: a place; BYTES: the function's code, if there is any. */
void helper_put_place(struct buf *out, const struct place *place);
int helper_get_place(struct view body, struct place *place, struct err *e);
/* `code` NULL: none. */
void helper_put_code(struct buf *out, const struct place_code *code);
/* *found: there is some, and it is as struct place_code says; texts are the body's. */
int helper_get_code(struct view body, struct place_code *code, bool *found, struct err *e);

void helper_put_wish(struct buf *out, const struct file_wish *wish);
int helper_get_wish(struct view body, struct file_wish *wish, struct err *e);

void helper_put_text(struct buf *out, struct view text);
int helper_get_text(struct cursor *c, struct view *text, struct err *e);

#endif
