#pragma once

/*
 * Encodes and decodes the start of a connection: request, status, welcome, on-demand payload, and
 * the UDP announcement. Source: public/common/TracyProtocol.hpp @ v0.9.1 … v0.14.0;
 * server/TracyBroadcast.cpp.
 */

#include <stddef.h>
#include <stdint.h>

#include "base/err.h"
#include "protocol/wire_version.h"

/* ---- request and status */

#define HANDSHAKE_REQUEST_SIZE 12u /* "TracyPrf", u32 protocol */

/*
 * Encodes a server's first message. Send it with one write: the client drops a request that arrives
 * in pieces.
 */
void handshake_request_encode(uint32_t protocol, uint8_t out[HANDSHAKE_REQUEST_SIZE]);

/* The client's side: reads the protocol number of a request. -1 when the shibboleth is wrong. */
int handshake_request_parse(const uint8_t in[HANDSHAKE_REQUEST_SIZE], uint32_t *protocol,
                            struct err *e);

enum handshake_status {
    HANDSHAKE_WELCOME = 1,
    HANDSHAKE_MISMATCH = 2,      /* try another protocol number */
    HANDSHAKE_NOT_AVAILABLE = 3, /* already captured, or busy */
};

/* Reads the status byte. An unknown value is -1 with ERR_INPUT. */
int handshake_status_parse(uint8_t byte, enum handshake_status *status, struct err *e);

/* ---- welcome */

#define WELCOME_SIZE_MAX 1178u

enum welcome_flags {
    WELCOME_ON_DEMAND = 1,
    WELCOME_IGNORE_MEM_FAULTS = 2, /* before v0.13.1: the client is an Apple system */
    WELCOME_CODE_TRANSFER = 4,
    WELCOME_COMBINE_SAMPLES = 8,
    WELCOME_IDENTIFY_SAMPLES = 16,
};

enum welcome_arch { ARCH_UNKNOWN, ARCH_X86, ARCH_X64, ARCH_ARM32, ARCH_ARM64 };

/*
 * A line of host_info that marks a collector (`tidemark run --listen`) instead of a program built
 * with Tracy. The collector sends the program's module table itself.
 */
#define WELCOME_RECORDED "Recorded by: tidemark run\n"

struct welcome {
    double timer_mul;   /* nanoseconds per tick; finite and > 0 */
    int64_t init_begin; /* ticks; zero point of all event times */
    int64_t init_end;   /* ticks */
    uint64_t delay;     /* ticks; 0 if the protocol has none */
    uint64_t resolution;
    uint64_t epoch;     /* unix seconds at client start */
    uint64_t exec_time; /* mtime of the executable, unix seconds; 0: unknown */
    uint64_t pid;
    int64_t sampling_period; /* nanoseconds; 0: no sampling */
    uint8_t flags;           /* enum welcome_flags; unknown bits are kept */
    uint8_t cpu_arch;        /* enum welcome_arch; other values are kept */
    char cpu_manufacturer[13];
    uint32_t cpu_id;
    char program_name[65]; /* always terminated, unlike the client's field */
    char host_info[1025];
};

/*
 * Reads a welcome of exactly wire_version_welcome_size bytes. -1 with ERR_INPUT when the clock
 * factor is not a positive finite number or `len` differs.
 */
int welcome_parse(const struct wire_version *version, const uint8_t *bytes, size_t len,
                  struct welcome *w, struct err *e);

/* Writes wire_version_welcome_size bytes; truncates longer texts to their field. */
void welcome_encode(const struct wire_version *version, const struct welcome *w,
                    uint8_t out[WELCOME_SIZE_MAX]);

/* Converts an absolute tick value to nanoseconds since initBegin; saturates on overflow. */
int64_t welcome_time(const struct welcome *w, int64_t ticks);

/* Converts a tick count (resolution, delay) to nanoseconds; saturates. */
int64_t welcome_period(const struct welcome *w, uint64_t ticks);

/* ---- on-demand payload, after the welcome when WELCOME_ON_DEMAND is set */

#define ON_DEMAND_SIZE 16u

struct on_demand {
    uint64_t frames; /* base-set frames before the connection */
    int64_t time;    /* ticks at the connection */
};

void on_demand_parse(const uint8_t in[ON_DEMAND_SIZE], struct on_demand *o);
void on_demand_encode(const struct on_demand *o, uint8_t out[ON_DEMAND_SIZE]);

/* ---- UDP announcement */

#define BROADCAST_SIZE_MAX 84u
#define BROADCAST_PORT 8086u

struct broadcast {
    uint32_t version;    /* layout 0 … 3 */
    uint16_t port;       /* on which the client listens */
    uint32_t protocol;   /* any number: the client's protocol may be unsupported */
    uint64_t pid;        /* 0 before layout 3 */
    int32_t active_time; /* seconds since client start; -1: gone or busy */
    char name[65];
};

/* Reads one datagram. -1 with ERR_INPUT when it is not an announcement of a known layout. */
int broadcast_parse(const uint8_t *bytes, size_t len, struct broadcast *b, struct err *e);

/*
 * Writes a datagram in layout b->version, up to and including the name's NUL. Returns its length; 0
 * for an unknown layout.
 */
size_t broadcast_encode(const struct broadcast *b, uint8_t out[BROADCAST_SIZE_MAX]);
