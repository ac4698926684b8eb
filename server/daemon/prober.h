#pragma once

/*
 * Probes hosts whose clients' announcements do not reach us: it connects to their ports in turn, in
 * a separate process, since resolving host names can take long. An open port need not be a
 * client's; a capture finds that out.
 */

#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "base/process_limit.h"

#define SCAN_PORT_FIRST 8086u
#define SCAN_PORT_LAST 8105u
#define PROBES_MAX 4096u

/* A host and one of its ports. */
struct probe_target {
    const char *host;
    uint16_t port;
};

enum probe_asked {
    PROBE_FIND,  /* report when its port is open */
    PROBE_NOT,   /* skip: it is being captured */
    PROBE_WATCH, /* also report when its port is closed */
};

/* An open port, or one that has closed. */
struct probe_found {
    uint32_t target; /* index */
    bool gone;       /* all addresses of the target refuse connections; `address` is empty */
    char address[INET6_ADDRSTRLEN];
};

struct prober {
    pid_t pid;               /* 0: not running */
    int fd;                  /* readable when there is a result; -1: none */
    volatile uint8_t *asked; /* enum probe_asked by target, shared with the prober process */
    unsigned count;
};

#define PROBER_NONE ((struct prober){.fd = -1})

/*
 * Starts the process with a copy of the targets; it closes all descriptors above 2. `files` is the
 * limit that the caller raised for itself. ERR_CONNECT.
 */
int prober_start(struct prober *p, const struct probe_target *targets, unsigned count,
                 const struct file_limit *files, struct err *e);

/* Returns the next result. False when there is none now. *gone: the process has ended. */
bool prober_next(struct prober *p, struct probe_found *found, bool *gone);

/* Ends the process. A second call is harmless. */
void prober_release(struct prober *p);
