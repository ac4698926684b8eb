#pragma once

/*
 * Encodes canonical events as a client would send them: the inverse of protocol/decoder.h, for the
 * kinds of events in a recording of the preload library. Times are sent as ticks of one nanosecond,
 * with the welcome's init_begin at 0.
 *
 * Events that an official server rejects as faults are left out: ends of zones and frames without a
 * beginning, and frame sets of both kinds. The caller checks whether blocks are live.
 */

#include <stdbool.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/err.h"
#include "protocol/event.h"
#include "protocol/wire_version.h"

struct client_stream; /* opaque */

/* NULL when memory is short. */
struct client_stream *client_stream_new(const struct wire_version *version);
void client_stream_free(struct client_stream *s);

/*
 * Defines a call stack before its first event: its addresses, innermost first. Repeated ids are
 * ignored.
 */
int client_stream_callstack(struct client_stream *s, uint32_t id, const uint64_t *frames,
                            uint32_t n, struct err *e);

/*
 * Writes allocations, frees, discards, messages, application info, plots and how they are drawn,
 * frame marks, and zones with their locations. Answers to queries and all other kinds are skipped.
 * If the protocol has no discards, the caller frees the blocks one by one.
 */
int client_stream_event(struct client_stream *s, const struct event *ev, struct err *e);

bool client_stream_has_discard(const struct client_stream *s);

/* Ends the zones open at `time`, since an official server waits for them, and writes Terminate. */
int client_stream_end(struct client_stream *s, int64_t time, struct err *e);

/* Completes the current frame. */
int client_stream_commit(struct client_stream *s, struct err *e);

/* Compressed frames that decode independently; the caller takes them and calls buf_clear(). */
struct buf *client_stream_output(struct client_stream *s);
