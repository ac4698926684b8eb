#ifndef TIDEMARK_PROTOCOL_ENDING_H
#define TIDEMARK_PROTOCOL_ENDING_H

/*
 * Whether a client said that it ends: looked up in what it sent, from the status byte on. A client
 * that did waits for the server to let go; the connection of one that did not just broke off.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "protocol/wire_version.h"

struct ending; /* opaque */

/* NULL when memory is short. */
struct ending *ending_new(const struct wire_version *version);
void ending_free(struct ending *g);

/* Takes the next bytes, however they are cut. What cannot be decoded ends the looking. */
void ending_feed(struct ending *g, const uint8_t *bytes, size_t n);

/* True when one of the items so far was Terminate, or the client's crash. */
bool ending_said(const struct ending *g);

#endif
