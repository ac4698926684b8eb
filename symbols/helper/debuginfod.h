#pragma once

/*
 * Fetches debug files from debuginfod servers. A separate process, the fetcher, has network access
 * and parses nothing. It receives a build id over a socket and returns a descriptor of the file,
 * which is in debuginfod's usual cache. The process that parses the file checks its build id.
 *
 * The fetcher honours the variables of debuginfod's clients (debuginfod-client-config(7)), such as
 * the cache path. Of DEBUGINFOD_TIMEOUT, DEBUGINFOD_MAXTIME, DEBUGINFOD_MAXSIZE and the limits
 * here, the lower one applies.
 */

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "symbols/elf/build_id.h"

struct debuginfod_options {
    const char *urls;     /* separated by spaces; NULL: $DEBUGINFOD_URLS */
    uint64_t size_limit;  /* bytes of one file, decompressed; 0: DEBUGINFOD_SIZE_DEFAULT */
    unsigned seconds;     /* for one file; 0: DEBUGINFOD_SECONDS_DEFAULT */
    unsigned all_seconds; /* for all files in total; 0: DEBUGINFOD_ALL_SECONDS_DEFAULT */
};

#define DEBUGINFOD_SIZE_DEFAULT ((uint64_t)4 << 30)
#define DEBUGINFOD_SECONDS_DEFAULT 300u
#define DEBUGINFOD_ALL_SECONDS_DEFAULT 900u

/* Redirects followed for one file. */
#define DEBUGINFOD_REDIRECTS_MOST 5

/* Whether a server is configured, by URLs in the options or in $DEBUGINFOD_URLS. */
bool debuginfod_is_wanted(const struct debuginfod_options *o);

struct debuginfod {
    int socket; /* for requests; one process and thread at a time; closed by debuginfod_stop */
    pid_t pid;
};

/*
 * Forks the fetcher. Call it before creating threads, and before a process gives up its network
 * access. Fails with ERR_CONNECT if the fetcher cannot be started.
 */
int debuginfod_start(struct debuginfod *d, const struct debuginfod_options *o, struct err *e);

/* Stops the fetcher, even during a download. */
void debuginfod_stop(struct debuginfod *d);

/* Bytes received, and total bytes (0: unknown). A result other than 0 cancels the download. */
typedef int debuginfod_progress(void *ctx, uint64_t done, uint64_t total);

/*
 * Requests the debug file of a build id, or the executable itself, from the fetcher at the other
 * end of `socket`. *fd is a descriptor that the caller closes, or -1 if no server has the file.
 * `progress` may be NULL; it is called several times a second during a download. Fails with
 * ERR_CONNECT and the cause if no server was reached, a limit was exceeded, the download was
 * cancelled, or the fetcher has exited.
 */
int debuginfod_ask(int socket, const struct build_id *id, bool executable,
                   debuginfod_progress *progress, void *ctx, int *fd, struct err *e);
