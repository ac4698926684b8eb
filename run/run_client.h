#pragma once

/*
 * The Tracy client of a program that `tidemark run` records. A child process is its server and
 * keeps the client's bytes in a journal (server/capture/journal.h). run_join.h makes a trace of it.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"

struct run_client {
    pid_t pid;          /* of the server; 0: not started, or ended */
    uint16_t port;      /* of the client; 0: none seen */
    char *journal;      /* NULL: none */
    bool served;        /* the program knows that the client has a server, or gets none */
    bool connected;     /* the server has ended, and the journal has what the client sent */
    struct err failure; /* of the server, after its end; code 0: none */
    int errors;         /* a pipe from which that is read; 0: none */
    bool keep;          /* do not remove the journal */
    uint64_t size, quiet, stopping; /* of the journal; since when it has that, and when the server
                                       was asked to stop, in ns of CLOCK_MONOTONIC */
};

/*
 * When the recording at `fd` reports that the program has a client: connects to it and notifies
 * the program, whose exit waits for that. Does not block. `number` differs from those of other
 * programs with this `folder`.
 */
void run_client_look(struct run_client *c, int fd, const char *folder, size_t number);

/*
 * After the program's end: whether the server has the client's last bytes, or there is none. Call
 * it again until it does. Does not block.
 */
bool run_client_is_over(struct run_client *c);

/* The same, but waits. `stop`: the program goes on; the server leaves it. */
void run_client_wait(struct run_client *c, bool stop);

/* Whether the client has sent anything. */
bool run_client_has_journal(const struct run_client *c);

/* Kills the server, if there is one, and removes the journal unless it is to be kept. */
void run_client_release(struct run_client *c);
