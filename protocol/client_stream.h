#ifndef TIDEMARK_PROTOCOL_CLIENT_STREAM_H
#define TIDEMARK_PROTOCOL_CLIENT_STREAM_H

/*
 * Canonical events as a client would send them: the way back from protocol/decoder.h, for the kinds
 * of events that a recording of the preload library has. Times go out as ticks of a nanosecond with
 * the welcome's init_begin at 0.
 *
 * What an official server takes for a fault and gives up at is left out: zones and frames that end
 * without a beginning, or a frame set of both kinds. Whether blocks are live the caller knows.
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

/* Before any event with that call stack: its addresses, innermost first. Said again it is ignored.
 */
int client_stream_callstack(struct client_stream *s, uint32_t id, const uint64_t *frames,
                            uint32_t n, struct err *e);

/*
 * Allocations, frees and discards, messages, application info, plots, frame marks and zones with
 * their locations. Answers to queries and all other kinds are passed over. Where the protocol has
 * no discards, the caller frees the blocks.
 */
int client_stream_event(struct client_stream *s, const struct event *ev, struct err *e);

bool client_stream_has_discard(const struct client_stream *s);

/* Ends zones that are open at that time (an official server waits for them), and says goodbye. */
int client_stream_end(struct client_stream *s, int64_t time, struct err *e);

/* What is not a whole frame yet becomes one. */
int client_stream_commit(struct client_stream *s, struct err *e);

/* Compressed frames, each of which stands alone; the caller takes them and buf_clear()s. */
struct buf *client_stream_output(struct client_stream *s);

#endif
