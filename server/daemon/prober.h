#ifndef TIDEMARK_SERVER_DAEMON_PROBER_H
#define TIDEMARK_SERVER_DAEMON_PROBER_H

/*
 * Looking for clients that nobody hears: named hosts are tried, port by port, again and again, in a
 * process of its own, since names of hosts can take long to find out. What takes a connection need
 * not be a client; who tries to capture it finds out.
 */

#include <netinet/in.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/err.h"
#include "base/file_limit.h"

#define SCAN_PORT_FIRST 8086u
#define SCAN_PORT_LAST 8105u
#define PROBES_MAX 4096u

/* A host and one of its ports. */
struct probe_target {
    const char *host;
    uint16_t port;
};

enum probe_asked {
    PROBE_FIND,  /* tell when it takes a connection */
    PROBE_NOT,   /* not to be tried now, as it is being captured */
    PROBE_WATCH, /* tell also when it refuses them: nobody listens there */
};

/* What takes connections, or does not any more. */
struct probe_found {
    uint32_t target; /* index */
    bool gone;       /* no address of the target takes one, and that is sure; `address` is empty */
    char address[INET6_ADDRSTRLEN];
};

struct prober {
    pid_t pid;               /* 0: does not run */
    int fd;                  /* readable when something was found; -1 */
    volatile uint8_t *asked; /* enum probe_asked by target, shared with the process */
    unsigned count;
};

#define PROBER_NONE ((struct prober){.fd = -1})

/*
 * Starts the process. The targets are its own from then on, and of descriptors it keeps none above
 * 2; `files` is what was raised for the caller alone. ERR_CONNECT.
 */
int prober_start(struct prober *p, const struct probe_target *targets, unsigned count,
                 const struct file_limit *files, struct err *e);

/* The next that was found. False when there is none now. *gone tells that the process has ended. */
bool prober_next(struct prober *p, struct probe_found *found, bool *gone);

/* Ends the process. A second time harmless. */
void prober_release(struct prober *p);

#endif
