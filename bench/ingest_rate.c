/*
 * The cost of decoding a client's bytes into the store, without socket and journal: the lowest user
 * time of several rounds, each with a new store. Prints "ingest SECONDS EVENTS".
 *
 *     ingest RECORDING.c2s.bin PROTOCOL [ROUNDS]
 */

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "bench/bench_bytes.h"
#include "server/capture/intake.h"

#define PIECE ((size_t)512 << 10) /* as a session receives them */

static double user_seconds(void)
{
    struct rusage u;
    getrusage(RUSAGE_SELF, &u);
    return (double)u.ru_utime.tv_sec + (double)u.ru_utime.tv_usec * 1e-6;
}

static int take_all(struct intake *r, struct bytes in, struct err *e)
{
    int status = 0;
    while (in.len > 0 && status == 0) {
        const uint8_t *p = in.p;
        size_t n = in.len < PIECE ? in.len : PIECE;
        in.p += n;
        in.len -= n;
        while ((status = intake_take(r, &p, &n, e)) == 1) {
            uint8_t packets[QUERY_PACKET_SIZE * 64];
            while (query_flush(r->query, packets, sizeof packets) > 0)
                ;
        }
    }
    return status;
}

static uint64_t events_of(const struct trace *t)
{
    uint64_t n = 0;
    for (size_t i = 0; i < t->memory.pools.len; i++)
        n += t->memory.pools.at[i]->totals.allocations + t->memory.pools.at[i]->totals.frees;
    return n;
}

/* One round: seconds of user time, -1 after an error. */
static double measure(const struct intake_start *start, struct bytes in, uint64_t *events,
                      struct err *e)
{
    struct trace t;
    struct intake r = {0};
    double seconds = -1;
    if (trace_init(&t, NULL, e) != 0)
        return -1;
    if (intake_open(&r, &t, start, e) == 0) {
        double began = user_seconds();
        if (take_all(&r, in, e) == 0)
            seconds = user_seconds() - began;
    }
    *events = events_of(&t);
    intake_release(&r);
    trace_release(&t);
    return seconds;
}

int main(int argc, char **argv)
{
    struct err e = {0};
    unsigned long rounds = argc > 3 ? strtoul(argv[3], NULL, 10) : 5;
    struct intake_start start = {.ask = QUERY_ASK_DEFAULT, .space = QUERY_SPACE_MAX};
    if (argc < 3 || !(start.version = wire_version_find((uint32_t)strtoul(argv[2], NULL, 10)))) {
        fprintf(stderr, "usage: ingest RECORDING.c2s.bin PROTOCOL [ROUNDS]\n");
        return 2;
    }
    struct bytes in = read_whole(argv[1]);
    size_t head = 1 + wire_version_welcome_size(start.version);
    if (in.len < head ||
        welcome_parse(start.version, in.p + 1, head - 1, &start.welcome, &e) != 0 ||
        start.welcome.flags & WELCOME_ON_DEMAND) {
        fprintf(stderr, "%s: no recording of protocol %s\n", argv[1], argv[2]);
        return 3;
    }
    in.p += head;
    in.len -= head;
    double least = 1e9;
    uint64_t events = 0;
    while (rounds-- > 0) {
        double seconds = measure(&start, in, &events, &e);
        if (seconds < 0) {
            fprintf(stderr, "%s: %s\n", argv[1], e.text);
            return 3;
        }
        least = seconds < least ? seconds : least;
    }
    printf("ingest %.6f %llu\n", least, (unsigned long long)events);
    return 0;
}
