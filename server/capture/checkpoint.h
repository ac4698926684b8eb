#ifndef TIDEMARK_SERVER_CAPTURE_CHECKPOINT_H
#define TIDEMARK_SERVER_CAPTURE_CHECKPOINT_H

/*
 * What a segment of a journal begins with, when those before it may go: all that decoding what
 * follows depends on, at the beginning of a part of the trace. A file beside the segment,
 * "00000007.state":
 *
 *     magic "TIDECKP1", u32 version, u32 number of the segment, u64 id of the journal,
 *     u64 bytes received before, u64 length of the state, u64 its check, u64 0,
 *     u64 check of the 56 bytes before; then the state (base/snapshot.h)
 *
 * While the state is written the header says that it has no bytes, which its check contradicts.
 * Checks are XXH3.
 */

#include "server/capture/intake.h"

#define CHECKPOINT_SUFFIX ".state"
#define CHECKPOINT_NAME 24u /* room for a checkpoint's name */

struct checkpoint {
    uint32_t segment;
    uint64_t journal; /* id */
    uint64_t before;  /* bytes received in earlier segments */
    uint64_t len;     /* of the state; known when it is written */
    uint64_t check;
};

void checkpoint_name(uint32_t segment, char out[CHECKPOINT_NAME]);

/*
 * Writes one into the folder `dir`: of an intake at the beginning of a part, between two frames.
 * `sync`: it is on the disk. *bytes: its size. -1 leaves nothing behind.
 */
int checkpoint_write(int dir, const struct checkpoint *c, struct intake *r, bool sync,
                     uint64_t *bytes, struct err *e);

/*
 * Opens the checkpoint of a segment and sees whether it is whole. Its descriptor, or -1 with
 * ERR_INPUT; with errno ENOENT when there is none.
 */
int checkpoint_open(int dir, uint32_t segment, struct checkpoint *out, struct err *e);

/* Into an intake that was just opened. After a failure it must only be released. */
int checkpoint_read(int fd, const struct checkpoint *c, struct intake *r, struct err *e);

#endif
