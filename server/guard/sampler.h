#ifndef TIDEMARK_SERVER_SAMPLER_H
#define TIDEMARK_SERVER_SAMPLER_H

/*
 * The one process of a daemon that keeps privileges: it looks into clients' processes for sessions,
 * which have none. It reads nothing that a client sends, only requests of a fixed size. A session
 * gets what is open: the table of mappings and the root of the process at the other end of a
 * connection that it holds, and executable files which that process has mapped.
 */

#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "symbols/place/process_root.h"

struct sampler {
    int fd; /* -1: there is none */
    pid_t pid;
};

#define SAMPLER_NONE ((struct sampler){.fd = -1})

/*
 * Forks it; it ends after the last session that is connected to it, also when this process is
 * killed. To be called before privileges are given up. `guard` restricts the new process further.
 * ERR_CONNECT.
 */
int sampler_start(struct sampler *s, void (*guard)(void), struct err *e);
void sampler_stop(struct sampler *s);

/* A connection for a new session, the caller's to close. -1: there is no sampler, or it ended. */
int sampler_connect(const struct sampler *s);

/* What belongs to the caller. */
struct sampled {
    pid_t pid;
    int maps; /* /proc/PID/maps */
    struct process_root root;
};

/*
 * In a session: the process at the other end of the TCP connection `socket`. -1: none is found, or
 * the sampler does not answer within 10 s.
 */
int sampler_find(int fd, int socket, struct sampled *found);

/* An executable mapping of the process that was found last: its file. -1: there is none. */
int sampler_open(int fd, uint64_t start, uint64_t end);

#endif
