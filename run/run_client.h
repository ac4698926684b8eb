#ifndef TIDEMARK_RUN_RUN_CLIENT_H
#define TIDEMARK_RUN_RUN_CLIENT_H

/*
 * The Tracy client of a program that `tidemark run` records. A child process is its server and
 * keeps the client's bytes in a journal (server/capture/journal.h). After the program's end the
 * journal is played into a trace, and the program's recording is added to it. Both use the time
 * stamp counter, so their clocks need no calibration.
 */

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "run/run_record.h"

struct run_client {
    pid_t pid;     /* of the server; 0: not started, or ended */
    uint16_t port; /* of the client; 0: none seen */
    char *journal; /* NULL: none */
    bool served;   /* the program knows that the client has a server, or gets none */
    bool connected;
};

/*
 * When the recording at `fd` reports that the program has a client: connects to it and notifies
 * the program, whose exit waits for that. Does not block.
 */
void run_client_look(struct run_client *c, int fd, const char *folder);

/* After the program's end: waits for the client's last bytes. */
void run_client_wait(struct run_client *c);

/*
 * Whether the client's clock is that of the recording at `fd`. 1 or 0; -1 with `e` when none of the
 * client's data can be read.
 */
int run_client_fits(const struct run_client *c, int fd, struct err *e);

/*
 * Makes a record of the client's trace and, unless `fd` is -1, of the whole recording there, whose
 * blocks get separate pools: "malloc" and those that the recording names. `spool`: as of
 * run_record_new. *version: the file version of the client's release. NULL with `e`.
 */
struct run_record *run_client_read(const struct run_client *c, int fd, const char *spool,
                                   uint32_t *version, struct err *e);

/* `keep`: do not remove the journal. */
void run_client_release(struct run_client *c, bool keep);

#endif
