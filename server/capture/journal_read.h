#pragma once

/*
 * Reads a journal (server/capture/journal.h) up to the last whole record. Its bytes are not
 * trusted: every length is bounded, and every record is checked before it is returned.
 */

#include "server/capture/journal.h"

struct journal_reader; /* opaque */

struct journal_record {
    enum journal_type type;
    const uint8_t *bytes; /* valid until the next call of journal_reader_next */
    uint32_t len;
};

/* Where and why reading ended. */
struct journal_tail {
    uint64_t bytes; /* of all segments */
    uint64_t lost;  /* bytes after the last whole record */
    /* More than an unfinished record is lost: bytes were changed, or a segment is missing. */
    bool damaged;
    char why[160]; /* segment, offset and reason; "" when nothing is lost */
};

enum journal_state {
    JOURNAL_NONE,   /* there is none */
    JOURNAL_IN_USE, /* another process writes or recovers it */
    JOURNAL_LEFT,   /* a capture was cut off */
    JOURNAL_DONE,   /* its trace was saved, but its removal was cut off; may be empty */
    JOURNAL_OTHER,  /* something else: a symlink, a file, or a folder without a valid segment */
};

struct journal_left {
    uint64_t id;    /* as of journal_id */
    uint64_t bytes; /* size of all files */
    bool settled;   /* unchanged for some seconds: a journal that is being made is not locked yet */
};

/*
 * Whether `name` in the folder open at `at` is a journal that no process writes or recovers. Does
 * not block. False on file systems without locks, where this cannot be known.
 */
bool journal_is_left(int at, const char *name, struct journal_left *left);

/*
 * Identifies the journal at `path`, relative to `at`. The id changes when files in its folder are
 * made or removed or its permissions change. 0: there is none.
 */
uint64_t journal_id(int at, const char *path);

/* Determines the state of the journal at `path`. -1 when it cannot be read. */
int journal_look(const char *path, enum journal_state *state, struct err *e);

/*
 * Opens and locks the journal in the folder `path`. NULL with ERR_INPUT when it is not a journal,
 * ERR_OUTPUT when it is in use.
 */
struct journal_reader *journal_reader_open(const char *path, struct err *e);

/* The same for a journal that this process or its parent is writing: reads its present content. */
struct journal_reader *journal_reader_peek(const char *path, struct err *e);

/* The same for one segment open at `fd`, which the reader takes over. */
struct journal_reader *journal_reader_segment(int fd, struct err *e);

void journal_reader_close(struct journal_reader *r);

/*
 * journal_reader_has_checkpoint: whether the journal begins with a checkpoint, because earlier
 * segments were removed. The next function loads it into an intake that was just opened with the
 * start in the first record.
 */
bool journal_reader_has_checkpoint(const struct journal_reader *r);
int journal_reader_restore(const struct journal_reader *r, struct intake *to, struct err *e);

/* Returns to the beginning. */
void journal_reader_rewind(struct journal_reader *r);

/* 1 with the next record, 0 after the last whole one, -1 on a read error. */
int journal_reader_next(struct journal_reader *r, struct journal_record *record, struct err *e);

/* Valid after journal_reader_next has returned 0. */
const struct journal_tail *journal_reader_tail(const struct journal_reader *r);

/* Bytes read so far, for a progress line. */
uint64_t journal_reader_at(const struct journal_reader *r);

/* Decodes the parameters of the connection. -1 with ERR_INPUT when the record is inconsistent. */
int journal_read_start(const struct journal_record *record, struct intake_start *start,
                       struct err *e);

/* Decodes how the session ended, and its cause. */
int journal_read_end(const struct journal_record *record, enum session_end *end, struct err *cause,
                     struct err *e);

/*
 * Returns the client's bytes, from the status byte on, as a recording for server/capture/replay.h:
 * an unnamed temporary file, at offset 0. -1 with `e`. The reader is at its end afterwards.
 */
int journal_read_recording(struct journal_reader *r, uint32_t *protocol, struct err *e);

/*
 * Removes the empty folder of a journal. It is no error if another process removed it meanwhile. -1
 * with ERR_OUTPUT.
 */
int journal_remove_empty(const char *path, struct err *e);

/*
 * Removes the valid segments and checkpoints, then the folder, and closes the reader. -1 with
 * ERR_OUTPUT, also if the folder holds other files; it then stays.
 */
int journal_reader_remove(struct journal_reader *r, struct err *e);
