#pragma once

/* The secret that authorizes requests to a daemon. */

#include "base/err.h"

/*
 * Parses the value of --token: the token itself, or "@FILE" for the first line of a file, since
 * command lines are visible to all users. The caller frees it. NULL with ERR_USAGE or ERR_MEMORY.
 */
char *token_parse(const char *value, struct err *e);
