#ifndef TIDEMARK_SERVER_DAEMON_TOKEN_H
#define TIDEMARK_SERVER_DAEMON_TOKEN_H

/* The secret between a daemon and those who may ask it. */

#include "base/err.h"

/*
 * The value of --token: the token itself, or "@FILE" for the first line of a file, since all users
 * of a machine can see its command lines. The caller frees it. NULL with ERR_USAGE or ERR_MEMORY.
 */
char *token_parse(const char *value, struct err *e);

#endif
