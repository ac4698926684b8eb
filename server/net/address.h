#ifndef TIDEMARK_SERVER_NET_ADDRESS_H
#define TIDEMARK_SERVER_NET_ADDRESS_H

/* Addresses as people write them, and as they are shown. */

#include <netdb.h>
#include <stddef.h>
#include <stdint.h>

#include "base/err.h"

/* Room for any host with brackets and a port. */
#define ADDRESS_TEXT_SIZE (NI_MAXHOST + 10)

/*
 * Splits "127.0.0.1", "127.0.0.1:9000", "::1", "[::1]" or "[::1]:9000" into the host, without
 * brackets, and the port: *port points into `text`, NULL when there is none. -1 when a bracket is
 * not closed, something else than a port follows it, or the host is longer than any can be.
 */
int address_split(const char *text, char host[NI_MAXHOST], const char **port);

/*
 * Looks up where `text`, a host that may stand in brackets, is. The list is freeaddrinfo's. Errors
 * say "cannot resolve the address …" (ERR_CONNECT), or ERR_MEMORY.
 */
int address_resolve(const char *text, uint16_t port, int flags, struct addrinfo **list,
                    struct err *e);

/* "localhost:8086", "[::1]:8086", also of a host that has its brackets already. */
const char *address_text(char out[ADDRESS_TEXT_SIZE], const char *host, uint16_t port);

#endif
