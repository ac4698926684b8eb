#ifndef TIDEMARK_RUN_RUN_CLIENT_H
#define TIDEMARK_RUN_RUN_CLIENT_H

/*
 * The Tracy client of a program that `tidemark run` records. A child process is its server and
 * keeps what it sends in a journal (server/capture/journal.h). When the program has ended the
 * journal is played into a trace, and the program's recording goes into the same trace, on the
 * client's clock: both count ticks of the time stamp counter, so no clock has to be compared with
 * another.
 */

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "run/run_record.h"

struct run_client {
    pid_t pid;     /* of the server; 0: none was started, or it ended */
    uint16_t port; /* of the client; 0: none was seen */
    char *journal; /* NULL: none */
    bool served;   /* the program knows that the client has a server, or gets none */
    bool connected;
};

/*
 * Once the recording at `fd` says that the program has a client: connects to it, and tells the
 * program, whose exit waits for that. Never waits.
 */
void run_client_look(struct run_client *c, int fd, const char *folder);

/* The program has ended: waits until the client's last bytes are there. */
void run_client_wait(struct run_client *c);

/*
 * Whether the client's clock counts what the recording at `fd` counts. 1 or 0; -1 with `e` when
 * nothing of the client can be read.
 */
int run_client_fits(const struct run_client *c, int fd, struct err *e);

/*
 * A record of the client's trace and, unless `fd` is -1, of the whole recording there, whose blocks
 * get pools of their own: "malloc" and those that the recording names. `spool`: as of
 * run_record_new. *version: the file version of the client's release. NULL with `e`.
 */
struct run_record *run_client_read(const struct run_client *c, int fd, const char *spool,
                                   uint32_t *version, struct err *e);

/* `keep`: the journal stays. */
void run_client_release(struct run_client *c, bool keep);

#endif
