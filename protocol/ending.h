#pragma once

/*
 * Detects from a client's bytes, from the status byte on, whether the client announced its end. A
 * client that did waits for the server to disconnect; otherwise the connection broke.
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

/* Takes the next bytes, in pieces of any size. Undecodable bytes stop the detection. */
void ending_feed(struct ending *g, const uint8_t *bytes, size_t n);

/* True when the items so far include Terminate or the client's crash. */
bool ending_said(const struct ending *g);
