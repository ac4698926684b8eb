#pragma once

/*
 * The container of a PDB file (multi-stream file): streams of bytes in blocks that may lie anywhere
 * in the file. Layout: LLVM's "The MSF File Format". The input is untrusted. A block belongs to at
 * most one stream in total size, so all streams together never exceed the file.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "base/view.h"

struct msf_file;

/* The bytes of a stream; `owned` if they had to be copied together. */
struct msf_stream {
    struct view bytes;
    bool owned;
};

/* Whether the bytes begin like a PDB file. */
bool msf_file_is(struct view bytes);

/* Opens the container; `bytes` must outlive it. Fails with ERR_INPUT if it is inconsistent. */
int msf_file_open(struct msf_file **out, struct view bytes, struct err *e);

/* `m` may be NULL. */
void msf_file_close(struct msf_file *m);

/* Bytes of a stream; 0 if there is no such stream. */
uint32_t msf_file_size(const struct msf_file *m, uint32_t stream);

/*
 * Reads a stream, which the caller releases; a missing one is empty. For any thread. Fails with
 * ERR_INPUT if a block lies outside of the file.
 */
int msf_file_read(const struct msf_file *m, uint32_t stream, struct msf_stream *out, struct err *e);
void msf_stream_release(struct msf_stream *s);
