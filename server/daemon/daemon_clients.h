#pragma once

/* Which clients the daemon captures: those that announce themselves and those it probes. */

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"

struct capture;
struct daemon;

/* Selects clients. Zero fields match all. */
struct client_filter {
    const char *name; /* substring of the program's name */
    uint16_t port;
    uint64_t pid;
    unsigned bits; /* prefix length in `address` */
    int family;    /* of `address`; 0: all addresses */
    uint8_t address[16];
    bool local;
};

/* Starts probing the targets. */
int daemon_look(struct daemon *d, struct err *e);

/*
 * Starts a capture of the client at a numeric address. NULL with `e` filled when the limit is
 * reached or the client is already being captured.
 */
struct capture *daemon_capture(struct daemon *d, const char *address, uint16_t port, struct err *e);

/* Receives announcements and the prober's results, and starts captures of wanted clients. */
void daemon_take_clients(struct daemon *d);

/* Sends the prober which targets to skip now and which to watch for closed ports. */
void daemon_mark_busy(struct daemon *d);
