#pragma once

/*
 * A client's bytes, written to disk as they arrive, so that a killed capture loses nothing. A
 * journal is a folder of segments, "00000001" and on, each at most JOURNAL_SEGMENT_BYTES long: a
 * header, then records. Received bytes are kept as received, compressed, before they are decoded;
 * sent queries are recorded at their position in the stream.
 *
 *     header  magic "TIDEJRN1", u32 version, u32 number, u64 id of the journal,
 *             u64 bytes received before, u64 0, u64 check of the 40 bytes before
 *     record  u32 length, u32 type, u64 check, the payload
 *
 * All little-endian. A record's check (XXH3) covers its payload, length, type, offset and the
 * journal's id. A torn or damaged end is therefore cut exactly, and stale disk blocks are never
 * taken for records. When a write returns, its bytes are in the page cache: they survive the
 * process. With `sync` they also survive a power failure, except those of the last tenth of a
 * second.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "server/capture/intake.h"

static const char journal_magic[8] = {'T', 'I', 'D', 'E', 'J', 'R', 'N', '1'};
#define JOURNAL_SEGMENT_BYTES ((uint64_t)64 << 20)
#define JOURNAL_RECORD_MAX ((uint32_t)1 << 20) /* bytes of a payload */
#define JOURNAL_HEADROOM 16u /* bytes reserved before the argument of journal_append_received */

enum journal_type {
    /* The connection: struct intake_start. The first record, repeated after each checkpoint. */
    JOURNAL_START = 1,
    JOURNAL_RECEIVED, /* bytes from the client, split anywhere */
    JOURNAL_SENT,     /* query packets */
    JOURNAL_FACT,     /* "tidemark.module=…": the client's images */
    JOURNAL_TURN,     /* u64 number of frames after which the next part began */
    JOURNAL_PART,     /* u32 number of a saved part, from 1; its path */
    JOURNAL_END,      /* u32 enum session_end, u32 enum err_code, text of the cause */
    JOURNAL_SAVED,    /* path of the trace: all work is done */
    JOURNAL_MEMORY,   /* a reading of the client's memory (client_memory.h) */
    JOURNAL_PAGES,    /* a piece of a look at its pages: u8 1 if it is the last one; bytes */
    JOURNAL_CGROUP,   /* its memory cgroup: process_memory_note */
};

/* Flags of struct intake_start. */
#define JOURNAL_STRICT 1u
#define JOURNAL_AS_RELEASED 2u
#define JOURNAL_FIGURES 4u

/* ---- names */

/*
 * The journal's folder for an output: "OUT.journal", or with `dir` "DIR/NAME-HASH.journal", with
 * the hash of OUT's folder. Names that would be too long are shortened to a hash. The caller frees
 * it. NULL when memory is short or OUT's folder does not exist.
 */
char *journal_name(const char *output, const char *dir, struct err *e);

/* ---- writing */

struct journal; /* opaque */

struct journal_options {
    bool sync;              /* flush to disk ten times a second */
    uint64_t segment_bytes; /* 0: JOURNAL_SEGMENT_BYTES */
};

/*
 * Makes a journal and its first segment in a folder that must not exist, and locks it against
 * recovery. NULL with ERR_OUTPUT.
 */
struct journal *journal_create(const char *path, const struct journal_options *options,
                               struct err *e);

/* Writes the first record: the parameters of the connection. */
int journal_put_start(struct journal *j, const struct intake_start *start, struct err *e);

int journal_put_end(struct journal *j, enum session_end end, const struct err *cause,
                    struct err *e);

/*
 * Appends a record of at most JOURNAL_RECORD_MAX bytes. When the disk is full, keeps as much of a
 * JOURNAL_RECEIVED record as fits and ends the journal: this and all later calls return -1
 * (ERR_OUTPUT).
 */

int journal_append(struct journal *j, enum journal_type type, const void *bytes, size_t n,
                   struct err *e);

/*
 * The same for JOURNAL_RECEIVED, from a buffer with JOURNAL_HEADROOM bytes before `bytes`, which
 * are overwritten. It is cheapest when `bytes` is page-aligned and `n` is what journal_piece
 * returns.
 */
int journal_append_received(struct journal *j, uint8_t *bytes, size_t n, struct err *e);

/*
 * The number of bytes to receive next, at most `block`, a power of two. It is chosen so that the
 * record ends at a block boundary of the file: unaligned writes take the kernel 1.5 times as long.
 */
size_t journal_piece(const struct journal *j, size_t block);

/* Records that a part of the trace was saved. */
int journal_put_part(struct journal *j, uint32_t number, const char *path, struct err *e);

/*
 * Begins a segment with a checkpoint of `r`, which must be right after intake_turn. -1 if the
 * checkpoint could not be written; the journal goes on without it. *segment: its number.
 */
int journal_cut(struct journal *j, struct intake *r, uint32_t *segment, struct err *e);

/* Removes the segments before one that begins with a checkpoint. */
void journal_forget(struct journal *j, uint32_t segment);

/* Call it regularly: flushes to disk if `sync` is set. -1 as journal_append. */
int journal_tick(struct journal *j, struct err *e);

/* Whether it holds bytes received from the client. */
bool journal_has_data(const struct journal *j);
uint64_t journal_received(const struct journal *j); /* received bytes, also of removed segments */

/* Bytes on disk, of all segments. */
uint64_t journal_bytes(const struct journal *j);

const char *journal_path(const struct journal *j);

/* Removes the journal: the trace was saved at `saved` (NULL: there was nothing to save). */
void journal_remove(struct journal *j, const char *saved);

/*
 * In a forked child: closes the parent's journal without releasing its lock. No other call may
 * follow.
 */
void journal_abandon(struct journal *j);

/* Closes the journal; its files stay. */
void journal_close(struct journal *j);
