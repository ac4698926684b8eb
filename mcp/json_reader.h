#ifndef TIDEMARK_MCP_JSON_READER_H
#define TIDEMARK_MCP_JSON_READER_H

/*
 * JSON texts (RFC 8259) as jansson's values. jansson's own reader cannot be used where an
 * allocation that fails must be an error: it leaves out bytes of strings then, or crashes.
 */

#include <stdbool.h>

#include <jansson.h>

#include "base/view.h"

#define JSON_DEPTH_MAX 100u /* values within one another */

enum json_outcome {
    JSON_READ,
    JSON_BROKEN, /* it is no JSON, or has numbers beyond 64 bits, keys that come twice, … */
    JSON_NO_MEMORY,
};

/*
 * Reads a text that is one value. `nul_allowed`: strings may hold \u0000. *value is a new
 * reference, NULL unless JSON_READ is returned.
 */
enum json_outcome json_read(struct view text, bool nul_allowed, json_t **value);

#endif
