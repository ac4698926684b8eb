#pragma once

/*
 * The first content of a journal segment whose predecessors may be removed: all state that decoding
 * the rest depends on, at the beginning of a part of the trace. It is a file beside the segment,
 * "00000007.state":
 *
 *     magic "TIDECKP1", u32 version, u32 number of the segment, u64 id of the journal,
 *     u64 bytes received before, u64 length of the state, u64 its check, u64 0,
 *     u64 check of the 56 bytes before; then the state (base/snapshot.h)
 *
 * While the state is being written, the header's length is 0 and its check does not match. Checks
 * are XXH3.
 */

#include "server/capture/intake.h"

#define CHECKPOINT_SUFFIX ".state"
#define CHECKPOINT_NAME 24u /* room for a checkpoint's name */

struct checkpoint {
    uint32_t segment;
    uint64_t journal; /* the journal's id */
    uint64_t before;  /* bytes received in earlier segments */
    uint64_t len;     /* of the state; known after it is written */
    uint64_t check;
};

void checkpoint_name(uint32_t segment, char out[CHECKPOINT_NAME]);

/*
 * Writes a checkpoint of `r` into the folder `dir`. The intake must be at the beginning of a part,
 * between two frames. `sync`: returns when the file is on disk. *bytes: its size. On failure (-1)
 * no file remains.
 */
int checkpoint_write(int dir, const struct checkpoint *c, struct intake *r, bool sync,
                     uint64_t *bytes, struct err *e);

/*
 * Opens and verifies the checkpoint of a segment. Returns its descriptor, or -1 with ERR_INPUT;
 * errno is ENOENT when there is none.
 */
int checkpoint_open(int dir, uint32_t segment, struct checkpoint *out, struct err *e);

/*
 * Loads the state into an intake that was just opened. After a failure the intake must only be
 * released.
 */
int checkpoint_read(int fd, const struct checkpoint *c, struct intake *r, struct err *e);
