#pragma once

/*
 * The packets between the fetcher and its client, one per message. Both are processes of the same
 * program. Part of debuginfod.h, for its two ends only.
 */

#include <stdbool.h>
#include <stdint.h>

#include "symbols/elf/build_id.h"
#include "symbols/helper/debuginfod.h"

enum fetch_kind { FETCH_DEBUGINFO, FETCH_EXECUTABLE, FETCH_GIVE_UP };

struct fetch_request {
    uint64_t number; /* of the request; answers repeat it */
    enum fetch_kind kind;
    struct build_id id;
};

enum fetch_answer_kind {
    FETCH_PROGRESS, /* more answers follow; the others are final */
    FETCH_FILE,     /* the packet carries a descriptor */
    FETCH_NONE,     /* no server has the file */
    FETCH_FAILED,
};

struct fetch_answer {
    uint64_t number;
    enum fetch_answer_kind kind;
    uint64_t done, total;
    char cause[512]; /* of FETCH_FAILED, NUL-terminated */
};

/* Sends an answer, with a descriptor unless `fd` is -1. False if the client is gone. */
bool fetch_answer_send(int socket, const struct fetch_answer *a, int fd, bool wait);

/*
 * Receives an answer; *fd is -1 or a descriptor that the caller closes. Returns 1, 0 if the other
 * end is closed, or -1 with errno.
 */
int fetch_answer_receive(int socket, struct fetch_answer *a, int *fd);

/* The fetcher's main loop: answers requests until the last client is gone. */
void fetcher_run(int socket, const struct debuginfod_options *o);
