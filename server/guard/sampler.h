#pragma once

/*
 * The one process of a daemon that uses privileges: it inspects clients' processes on behalf of
 * sessions, which have none. It reads no bytes from clients, only requests of a fixed size. A
 * session gets open files: the tables of mappings and pages, the sum of its pages, and the root of
 * the process at the other end of its connection, and executable files that this process has
 * mapped.
 */

#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "proc/process_memory.h"
#include "symbols/place/process_root.h"

struct sampler {
    int fd;    /* -1: none */
    pid_t pid; /* of its parent */
};

#define SAMPLER_NONE ((struct sampler){.fd = -1})

/*
 * Forks the process, which ends after the last session has disconnected, also when the caller is
 * killed. Call it before privileges are given up. `guard` restricts the new process further.
 * ERR_CONNECT.
 *
 * Its parent, a process that reads nothing, has the same privileges and starts it again when it was
 * killed, at most once in SAMPLER_PAUSE_S. Sessions of before have no sampler from then on.
 */
#define SAMPLER_PAUSE_S 1
int sampler_start(struct sampler *s, void (*guard)(void), struct err *e);
void sampler_stop(struct sampler *s);

enum sampler_state { SAMPLER_RUNS, SAMPLER_AGAIN, SAMPLER_GONE };

/*
 * Whether the sampler ended since the last call, with its wait status. SAMPLER_AGAIN: another one
 * begins. SAMPLER_GONE: its parent ended too, so there is no sampler any more.
 */
enum sampler_state sampler_look(struct sampler *s, int *status);

/*
 * Makes a connection for a new session, owned by the caller. -1: there is no sampler, or it has
 * ended.
 */
int sampler_connect(const struct sampler *s);

/* The caller owns the descriptors. */
struct sampled {
    pid_t pid;
    struct process_early early;
    struct process_root root;
};

/*
 * In a session: finds the process at the other end of the TCP connection `socket`, `likely` as in
 * socket_owner. -1: not found, or no answer within 10 s.
 */
int sampler_find(int fd, int socket, uint64_t likely, struct sampled *found);

/* Opens the file of an executable mapping of the process found last. -1: there is none. */
int sampler_open(int fd, uint64_t start, uint64_t end);
