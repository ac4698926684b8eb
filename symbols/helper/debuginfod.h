#ifndef TIDEMARK_SYMBOLS_HELPER_DEBUGINFOD_H
#define TIDEMARK_SYMBOLS_HELPER_DEBUGINFOD_H

/*
 * Debug files from debuginfod servers. A process of its own, the fetcher, has the network and
 * parses nothing: it is asked for a build id over a socket and hands back the descriptor of the
 * file, as it lies in the usual cache of debuginfod. Whoever parses that file checks its build id.
 *
 * The variables of debuginfod's clients are honoured (debuginfod-client-config(7)): the cache path
 * and the rest; DEBUGINFOD_TIMEOUT, DEBUGINFOD_MAXTIME and DEBUGINFOD_MAXSIZE too, beside the
 * limits here, so that the lower one holds.
 */

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "symbols/elf/build_id.h"

struct debuginfod_options {
    const char *urls;     /* separated by spaces; NULL: those of $DEBUGINFOD_URLS */
    uint64_t size_limit;  /* bytes of one file, decompressed; 0: DEBUGINFOD_SIZE_DEFAULT */
    unsigned seconds;     /* for one file; 0: DEBUGINFOD_SECONDS_DEFAULT */
    unsigned all_seconds; /* for all files together; 0: DEBUGINFOD_ALL_SECONDS_DEFAULT */
};

#define DEBUGINFOD_SIZE_DEFAULT ((uint64_t)4 << 30)
#define DEBUGINFOD_SECONDS_DEFAULT 300u
#define DEBUGINFOD_ALL_SECONDS_DEFAULT 900u

/* Redirects that are followed for one file. */
#define DEBUGINFOD_REDIRECTS_MOST 5

/* Whether there is anybody to ask: URLs are given or $DEBUGINFOD_URLS is set to some. */
bool debuginfod_is_wanted(const struct debuginfod_options *o);

struct debuginfod {
    int socket; /* to ask over, by one process and thread at a time; closed by debuginfod_stop */
    pid_t pid;
};

/*
 * Starts the fetcher by fork: call it before any thread exists, and before a process that is not
 * meant to have the network lets go of it. ERR_CONNECT when it cannot be started.
 */
int debuginfod_start(struct debuginfod *d, const struct debuginfod_options *o, struct err *e);

/* Ends the fetcher, also in the middle of a file. */
void debuginfod_stop(struct debuginfod *d);

/* Bytes so far, and in all (0: not known yet). Not 0 gives the file up. */
typedef int debuginfod_progress(void *ctx, uint64_t done, uint64_t total);

/*
 * Asks the fetcher at the other end of `socket` for the debug file of a build id, or the executable
 * itself. *fd is a descriptor that the caller closes, or -1 when no server has the file. `progress`
 * may be NULL; it is called some times a second while a file is on its way. ERR_CONNECT, with the
 * cause, when no server could be reached, a limit was met, the file was given up, or the fetcher is
 * gone.
 */
int debuginfod_ask(int socket, const struct build_id *id, bool executable,
                   debuginfod_progress *progress, void *ctx, int *fd, struct err *e);

#endif
