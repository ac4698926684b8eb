#ifndef TIDEMARK_SYMBOLS_HELPER_DEBUGINFOD_MESSAGE_H
#define TIDEMARK_SYMBOLS_HELPER_DEBUGINFOD_MESSAGE_H

/*
 * What goes over the socket between the fetcher and the one who asks: one packet each, between
 * processes of one program. Part of debuginfod.h, for its two ends only.
 */

#include <stdbool.h>
#include <stdint.h>

#include "symbols/elf/build_id.h"
#include "symbols/helper/debuginfod.h"

enum fetch_kind { FETCH_DEBUGINFO, FETCH_EXECUTABLE, FETCH_GIVE_UP };

struct fetch_request {
    uint64_t number; /* of the request; its answers have it too */
    enum fetch_kind kind;
    struct build_id id;
};

enum fetch_answer_kind {
    FETCH_PROGRESS, /* more will come; the others are the last */
    FETCH_FILE,     /* the packet carries a descriptor */
    FETCH_NONE,     /* no server has it */
    FETCH_FAILED,
};

struct fetch_answer {
    uint64_t number;
    enum fetch_answer_kind kind;
    uint64_t done, total;
    char cause[256]; /* of FETCH_FAILED, with a NUL */
};

/* Sends an answer, with a descriptor unless `fd` is -1. False when nobody listens. */
bool fetch_answer_send(int socket, const struct fetch_answer *a, int fd, bool wait);

/*
 * Receives one; *fd is -1 or a descriptor that the caller closes. 1, or 0 when the other end is
 * gone, or -1 with errno.
 */
int fetch_answer_receive(int socket, struct fetch_answer *a, int *fd);

/* The fetcher itself: answers requests until nobody is left to ask. */
void fetcher_run(int socket, const struct debuginfod_options *o);

#endif
