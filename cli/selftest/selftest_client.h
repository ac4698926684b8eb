#pragma once

/*
 * The client that `tidemark selftest` captures: it speaks any protocol number over the loopback,
 * and counts what it sends without the code under test.
 */

#include <stdint.h>

#include "base/err.h"
#include "protocol/client_stream.h"
#include "run/offer.h"

#define SELFTEST_POOLS 2u
#define SELFTEST_SITES 8u

struct selftest_pool {
    const char *name; /* as in reports */
    uint64_t allocations, frees, live_bytes, peak_bytes, total_bytes;
};

/* A function that allocates, always in the same pool. */
struct selftest_site {
    char function[40];
    unsigned line, pool;
    uint64_t allocations, bytes;
};

struct selftest_truth {
    uint64_t threads, zones, messages, plot_points, frame_marks;
    struct selftest_pool pools[SELFTEST_POOLS];
    struct selftest_site sites[SELFTEST_SITES];
};

struct selftest_client {
    struct selftest_truth truth;
    struct client_stream *stream;
    struct offer *offer;
};

/*
 * Listens at any free port without announcing itself, so that no daemon captures it. `spool` is a
 * folder for an unnamed file. ERR_USAGE when there is no such protocol, ERR_CONNECT when it cannot
 * listen.
 */
int selftest_client_open(struct selftest_client *c, uint32_t protocol, const char *spool,
                         struct err *e);
void selftest_client_release(struct selftest_client *c);

/* Waits up to `ms` for the server and serves it. */
int selftest_client_step(struct selftest_client *c, int ms, struct err *e);
