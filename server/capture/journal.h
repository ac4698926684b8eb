#ifndef TIDEMARK_SERVER_CAPTURE_JOURNAL_H
#define TIDEMARK_SERVER_CAPTURE_JOURNAL_H

/*
 * What a client sends, on disk as it arrives: so that a capture that is killed loses nothing. A
 * journal is a folder of segments, "00000001" and on, each at most JOURNAL_SEGMENT_BYTES long: a
 * header, then records. Received bytes are kept as they came, compressed, before anything looks at
 * them; queries stand where they were sent.
 *
 *     header  magic "TIDEJRN1", u32 version, u32 number, u64 id of the journal,
 *             u64 bytes received before, u64 0, u64 check of the 40 bytes before
 *     record  u32 length, u32 type, u64 check, the payload
 *
 * All little-endian. A record's check (XXH3) covers its payload, length, type, place and the
 * journal's id, so a torn or damaged end is cut exactly, and what a disk may bring up from before
 * is never taken for a record. A write is in the page cache when it returns: it survives the
 * process; with `sync` and at most a tenth of a second back also the loss of power.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "server/capture/intake.h"

#define JOURNAL_MAGIC "TIDEJRN1"
#define JOURNAL_MAGIC_SIZE 8u
#define JOURNAL_SEGMENT_BYTES ((uint64_t)64 << 20)
#define JOURNAL_RECORD_MAX ((uint32_t)1 << 20) /* bytes of a payload */
#define JOURNAL_HEADROOM 16u                   /* bytes before what journal_append_received takes */

enum journal_type {
    /* The connection: struct intake_start; the first record, again behind each checkpoint. */
    JOURNAL_START = 1,
    JOURNAL_RECEIVED, /* bytes of the client, cut anywhere */
    JOURNAL_SENT,     /* query packets */
    JOURNAL_FACT,     /* "tidemark.module=…": the client's images */
    JOURNAL_TURN,     /* u64 frames: behind so many the trace went on in a next part */
    JOURNAL_PART,     /* u32 number of a part that was saved, from 1; its path */
    JOURNAL_END,      /* u32 enum session_end, u32 enum err_code, text of the cause */
    JOURNAL_SAVED,    /* path of the trace: nothing is left to be done */
};

/* Flags of struct intake_start. */
#define JOURNAL_STRICT 1u
#define JOURNAL_AS_RELEASED 2u

/* ---- names */

/*
 * The journal's folder for an output: "OUT.journal", or "DIR/NAME-HASH.journal" with the hash of
 * OUT's folder when `dir` is given. Names that would be too long are cut, with a hash. The caller
 * frees it. NULL when memory is short, or OUT's folder is not there.
 */
char *journal_name(const char *output, const char *dir, struct err *e);

/* ---- writing */

struct journal; /* opaque */

struct journal_options {
    bool sync;              /* to the disk, ten times a second */
    uint64_t segment_bytes; /* 0: JOURNAL_SEGMENT_BYTES */
};

/*
 * A new journal in a folder that must not exist; its first segment is there, locked against being
 * recovered meanwhile. NULL with ERR_OUTPUT.
 */
struct journal *journal_create(const char *path, const struct journal_options *options,
                               struct err *e);

/* How the connection began: the first record. */
int journal_put_start(struct journal *j, const struct intake_start *start, struct err *e);

int journal_put_end(struct journal *j, enum session_end end, const struct err *cause,
                    struct err *e);

/*
 * One record of at most JOURNAL_RECORD_MAX bytes. When a disk is full as much of JOURNAL_RECEIVED
 * as fits is kept, and the journal takes no more: -1 then and ever after (ERR_OUTPUT).
 */

int journal_append(struct journal *j, enum journal_type type, const void *bytes, size_t n,
                   struct err *e);

/*
 * The same for JOURNAL_RECEIVED, from a buffer that has JOURNAL_HEADROOM bytes of room before
 * `bytes`: what stands there is lost. It is the cheapest when those begin on a page of memory and
 * there are as many bytes as journal_piece says.
 */
int journal_append_received(struct journal *j, uint8_t *bytes, size_t n, struct err *e);

/*
 * How many bytes to receive next, at most `block`, a power of two: with so many the record ends
 * where a block of the file does. Writing that begins within a page of the file, or of memory,
 * costs the kernel half as much again.
 */
size_t journal_piece(const struct journal *j, size_t block);

/* Says that a part of the trace is saved. */
int journal_put_part(struct journal *j, uint32_t number, const char *path, struct err *e);

/*
 * Begins a segment with a checkpoint: `r` is right behind intake_turn. -1 when that could not be
 * written: then the journal goes on without. *segment: its number.
 */
int journal_cut(struct journal *j, struct intake *r, uint32_t *segment, struct err *e);

/* Drops what is before a segment that begins with a checkpoint. */
void journal_forget(struct journal *j, uint32_t segment);

/* To be called now and then: writes through to the disk if that is wanted. -1 as journal_append. */
int journal_tick(struct journal *j, struct err *e);

/* Whether the client's bytes have begun to come. */
bool journal_has_data(const struct journal *j);
uint64_t journal_received(const struct journal *j); /* bytes of the client, forgotten ones too */

/* Bytes on disk, of all segments. */
uint64_t journal_bytes(const struct journal *j);

const char *journal_path(const struct journal *j);

/* The trace is safe at `saved` (NULL: there is nothing to keep): the journal goes. */
void journal_remove(struct journal *j, const char *saved);

/* In a forked child: lets go of the parent's journal, and of its lock. Nothing else may follow. */
void journal_abandon(struct journal *j);

/* Closes; what was not removed stays. */
void journal_close(struct journal *j);

#endif
