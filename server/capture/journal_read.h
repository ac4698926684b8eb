#ifndef TIDEMARK_SERVER_CAPTURE_JOURNAL_READ_H
#define TIDEMARK_SERVER_CAPTURE_JOURNAL_READ_H

/*
 * Reading a journal (server/capture/journal.h) up to the last record that is whole. Bytes of a
 * journal are not trusted: every length is bounded, every record checked before it is handed out.
 */

#include "server/capture/journal.h"

struct journal_reader; /* opaque */

struct journal_record {
    enum journal_type type;
    const uint8_t *bytes; /* valid until the next one is asked for */
    uint32_t len;
};

/* Where reading ended. */
struct journal_tail {
    uint64_t bytes; /* of all segments */
    uint64_t lost;  /* bytes behind the last whole record */
    /*
     * What is lost is more than a record that was being written: bytes were changed, or a segment
     * is missing.
     */
    bool damaged;
    char why[160]; /* where it was cut, and for what reason; "" when nothing is lost */
};

enum journal_state {
    JOURNAL_NONE,   /* there is none */
    JOURNAL_IN_USE, /* somebody writes it, or finishes it */
    JOURNAL_LEFT,   /* a capture did not end well */
    JOURNAL_DONE,   /* its trace was saved; only its removal did not end: at last it is empty */
    JOURNAL_OTHER,  /* something else: a symlink, a file, or a folder without a segment of ours */
};

struct journal_left {
    uint64_t id;    /* as of journal_id */
    uint64_t bytes; /* of all in it */
    bool settled;   /* not touched for some seconds: one that is being made is not locked yet */
};

/*
 * Whether what has that name in the folder open at `at` is a journal that nobody writes or
 * finishes. Waits for nothing. Where there are no locks nobody knows, and it is false.
 */
bool journal_is_left(int at, const char *name, struct journal_left *left);

/*
 * Tells a journal, by its folder's name without what is before that, from others and from itself
 * once something was made, removed or allowed in it. 0: there is nothing at `path`, which begins at
 * `at`.
 */
uint64_t journal_id(int at, const char *path);

/* What there is at `path`. -1 when it cannot be looked at. */
int journal_look(const char *path, enum journal_state *state, struct err *e);

/*
 * Opens the journal in the folder `path` and keeps others from it meanwhile. NULL with ERR_INPUT
 * when it is none, ERR_OUTPUT when it is in use.
 */
struct journal_reader *journal_reader_open(const char *path, struct err *e);

/* The same while this process, or the one that it was forked from, writes it: what is there now. */
struct journal_reader *journal_reader_peek(const char *path, struct err *e);

/* The same for one segment that is open at `fd`, which is taken over. */
struct journal_reader *journal_reader_segment(int fd, struct err *e);

void journal_reader_close(struct journal_reader *r);

/*
 * Whether it begins with a checkpoint, since what was before is gone; and that into an intake that
 * was just opened with the start that the first record says.
 */
bool journal_reader_has_checkpoint(const struct journal_reader *r);
int journal_reader_restore(const struct journal_reader *r, struct intake *to, struct err *e);

/* Back to the beginning. */
void journal_reader_rewind(struct journal_reader *r);

/* 1 with the next record, 0 behind the last whole one, -1 when it cannot be read. */
int journal_reader_next(struct journal_reader *r, struct journal_record *record, struct err *e);

/* Known once journal_reader_next has given 0. */
const struct journal_tail *journal_reader_tail(const struct journal_reader *r);

/* Bytes read so far, for a progress line. */
uint64_t journal_reader_at(const struct journal_reader *r);

/* How the connection began. -1 with ERR_INPUT when the record does not hold together. */
int journal_read_start(const struct journal_record *record, struct intake_start *start,
                       struct err *e);

/* How the session ended, with its cause. */
int journal_read_end(const struct journal_record *record, enum session_end *end, struct err *cause,
                     struct err *e);

/*
 * What the client sent, from the status byte on, as a recording that server/capture/replay.h can
 * play: a temporary file without a name, at its start. -1 with `e`; the reader is at its end then.
 */
int journal_read_recording(struct journal_reader *r, uint32_t *protocol, struct err *e);

/*
 * Removes the folder of a journal in which nothing is left; one that somebody else removed
 * meanwhile is no error. -1 with ERR_OUTPUT.
 */
int journal_remove_empty(const char *path, struct err *e);

/*
 * Removes segments and checkpoints of ours, then the folder, and closes the reader. -1 with
 * ERR_OUTPUT: also when something else is in the folder, which then stays.
 */
int journal_reader_remove(struct journal_reader *r, struct err *e);

#endif
