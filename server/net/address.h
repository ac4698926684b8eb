#pragma once

/* Parses and formats network addresses. */

#include <netdb.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

/* Room for any host with brackets and a port. */
#define ADDRESS_TEXT_SIZE (NI_MAXHOST + 10)

/*
 * Splits "127.0.0.1", "127.0.0.1:9000", "::1", "[::1]" or "[::1]:9000" into the host, without
 * brackets, and the port: *port points into `text`, NULL when there is none. -1 when a bracket is
 * not closed, something other than a port follows it, or the host is too long.
 */
int address_split(const char *text, char host[NI_MAXHOST], const char **port);

/*
 * Resolves `text`, a host that may be in brackets. The caller frees the list with freeaddrinfo.
 * Errors are "cannot resolve the address …" (ERR_CONNECT), or ERR_MEMORY.
 */
int address_resolve(const char *text, uint16_t port, int flags, struct addrinfo **list,
                    struct err *e);

/* Formats "localhost:8086" or "[::1]:8086"; the host may already have brackets. */
const char *address_text(char out[ADDRESS_TEXT_SIZE], const char *host, uint16_t port);
