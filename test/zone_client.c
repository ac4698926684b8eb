/*
 * A program with a Tracy client in it: its threads allocate blocks within zones of some
 * microseconds, and when they have ended the client sends the zones, a few of the blocks, a pool of
 * a device, a plot and a message. For tests of `tidemark run`, which records malloc beside it.
 *
 *     zone_client PROTOCOL COUNT [ticks|ns [FILE]]
 *
 * Two threads have COUNT zones each. Times are ticks of the processor's time stamp counter, or,
 * "ns", those of CLOCK_MONOTONIC_RAW, as of clients with a fallback timer. The client listens at
 * TRACY_PORT; without a server within SERVER_MS it lets the program end. With a FILE there is no
 * client, nor anything to trace, until that exists: as of one in a library that is loaded late.
 */

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "include/tidemark.h"
#include "protocol/answers.h"
#include "protocol/client_stream.h"
#include "protocol/handshake.h"
#include "protocol/query.h"

#define THREADS 2
#define SERVER_MS 3000
#define SIZE 10007
#define REPORTED 100 /* blocks of each thread that the client reports, too */
#define NAME_GPU 0x1000
#define NAME_PLOT 0x2000

struct zone {
    int64_t begin, alloc, free, end;
    uint64_t block;
};

struct worker {
    pthread_t thread;
    uint64_t tid;
    struct zone *zones;
};

static struct {
    const struct wire_version *version;
    struct client_stream *stream;
    struct encoder *replies;
    struct err e;
    bool ns;
    int socket;
    long count;
    struct welcome welcome;
    struct worker workers[THREADS];
} client;

void *planted(void);

static void die(const char *what)
{
    fprintf(stderr, "zone_client: %s %s\n", what, client.e.text);
    exit(1);
}

static int64_t ns_of(clockid_t id)
{
    struct timespec t;
    clock_gettime(id, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static int64_t ticks(void)
{
#if defined __x86_64__
    if (!client.ns)
        return (int64_t)__builtin_ia32_rdtsc();
#endif
    return ns_of(CLOCK_MONOTONIC_RAW);
}

static void spin(int64_t ns)
{
    for (int64_t until = ns_of(CLOCK_MONOTONIC) + ns; ns_of(CLOCK_MONOTONIC) < until;)
        continue;
}

/* ---- what is traced */

__attribute__((noinline)) void *planted(void)
{
    char *block = malloc(SIZE);
    memset(block, 1, SIZE);
    return block;
}

static void *work(void *arg)
{
    struct worker *w = arg;
    w->tid = (uint64_t)syscall(SYS_gettid);
    for (long i = 0; i < client.count; i++) {
        struct zone *z = &w->zones[i];
        z->begin = ticks();
        spin(1000);
        void *block = planted();
        z->block = (uint64_t)(uintptr_t)block;
        z->alloc = ticks();
        spin(1000);
        z->free = ticks();
        free(block);
        spin(1000);
        z->end = ticks();
    }
    return NULL;
}

/* ---- what is sent */

static void put(const struct event *ev)
{
    if (client_stream_event(client.stream, ev, &client.e) != 0)
        die("an event");
}

static void put_zone(const struct worker *w, const struct zone *z, bool reported)
{
    const struct event_location at = {.name = view_of("plant"),
                                      .function = view_of("work"),
                                      .file = view_of("zone_client.c"),
                                      .line = 100};
    struct event begin = {.kind = EVENT_ZONE_BEGIN, .thread = w->tid, .time = z->begin};
    struct event end = {.kind = EVENT_ZONE_END, .thread = w->tid, .time = z->end};
    struct event alloc = {.kind = EVENT_MEM_ALLOC, .thread = w->tid, .time = z->alloc};
    begin.zone.payload = &at;
    alloc.mem.ptr = z->block;
    alloc.mem.size = SIZE;
    struct event freed = alloc;
    freed.kind = EVENT_MEM_FREE;
    freed.time = z->free;
    put(&begin);
    if (reported) {
        put(&alloc);
        put(&freed);
    }
    put(&end);
}

static void put_others(uint64_t tid)
{
    struct event gpu = {.kind = EVENT_MEM_ALLOC, .thread = tid, .time = ticks()};
    struct event plot = {.kind = EVENT_PLOT, .thread = tid, .time = ticks()};
    struct event message = {.kind = EVENT_MESSAGE, .thread = tid, .time = ticks()};
    gpu.mem.pool = NAME_GPU;
    gpu.mem.ptr = 0x7000;
    gpu.mem.size = 4096;
    plot.plot.name = NAME_PLOT;
    plot.plot.value = 3;
    message.message.text = view_of("planted all");
    message.message.color = 0xFFFFFF;
    message.message.severity = 2;
    put(&gpu);
    put(&plot);
    put(&message);
}

static void send_bytes(struct buf *out)
{
    for (size_t done = 0; done < out->len;) {
        ssize_t n = send(client.socket, out->data + done, out->len - done, MSG_NOSIGNAL);
        if (n <= 0)
            exit(0);
        done += (size_t)n;
    }
    buf_clear(out);
}

static void send_all(void)
{
    for (size_t t = 0; t < THREADS; t++) {
        for (long i = 0; i < client.count; i++)
            put_zone(&client.workers[t], &client.workers[t].zones[i], i < REPORTED && t == 0);
    }
    put_others(client.workers[0].tid);
    if (client_stream_end(client.stream, ticks(), &client.e) != 0)
        die("the end");
    send_bytes(client_stream_output(client.stream));
}

/* ---- the connection */

static bool answer(const uint8_t packet[QUERY_PACKET_SIZE])
{
    enum query_kind kind;
    uint64_t key;
    uint32_t extra;
    if (!query_packet_parse(client.version, packet, &kind, &key, &extra) || kind == QUERY_TERMINATE)
        return false;
    const char *text = kind == QUERY_THREAD ? "worker" : key == NAME_GPU ? "GPU pool" : "level";
    bool named = kind == QUERY_THREAD || kind == QUERY_STRING || kind == QUERY_PLOT_NAME;
    if ((named ? answer_text(client.replies, kind, key, view_of(text), &client.e)
               : answer_nothing(client.replies, kind, key, &client.e)) != 0 ||
        encoder_commit(client.replies, &client.e) != 0)
        die("an answer");
    send_bytes(encoder_output(client.replies));
    return true;
}

static void answer_all(void)
{
    uint8_t packet[QUERY_PACKET_SIZE];
    while (recv(client.socket, packet, sizeof packet, MSG_WAITALL) == (ssize_t)sizeof packet) {
        if (!answer(packet))
            return;
    }
}

static bool shake_hands(void)
{
    uint8_t request[HANDSHAKE_REQUEST_SIZE], out[1 + WELCOME_SIZE_MAX] = {HANDSHAKE_WELCOME};
    uint32_t protocol;
    if (recv(client.socket, request, sizeof request, MSG_WAITALL) != (ssize_t)sizeof request ||
        handshake_request_parse(request, &protocol, &client.e) != 0)
        return false;
    if (protocol != client.version->protocol) {
        out[0] = HANDSHAKE_MISMATCH;
        (void)send(client.socket, out, 1, MSG_NOSIGNAL);
        return false;
    }
    welcome_encode(client.version, &client.welcome, out + 1);
    size_t n = 1 + wire_version_welcome_size(client.version);
    return send(client.socket, out, n, MSG_NOSIGNAL) == (ssize_t)n;
}

static void *serve(void *unused)
{
    const char *port = getenv("TRACY_PORT");
    struct sockaddr_in6 at = {.sin6_family = AF_INET6};
    int on = 1, s = socket(AF_INET6, SOCK_STREAM, 0);
    (void)unused;
    (void)prctl(PR_SET_NAME, "Tracy Profiler");
    at.sin6_port = htons((uint16_t)strtoul(port ? port : "8086", NULL, 10));
    (void)setsockopt(s, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (bind(s, (struct sockaddr *)&at, sizeof at) != 0 || listen(s, 4) != 0)
        die("cannot listen");
    struct pollfd wait = {.fd = s, .events = POLLIN};
    bool met = false;
    while (!met && poll(&wait, 1, SERVER_MS) > 0) {
        client.socket = accept(s, NULL, NULL);
        met = client.socket >= 0 && shake_hands();
        if (!met)
            close(client.socket);
    }
    for (size_t t = 0; t < THREADS; t++)
        pthread_join(client.workers[t].thread, NULL);
    if (met) {
        send_all();
        answer_all();
    }
    return NULL;
}

static double measure(void)
{
    int64_t from = ticks(), ns = ns_of(CLOCK_MONOTONIC);
    spin(20000000);
    return (double)(ns_of(CLOCK_MONOTONIC) - ns) / (double)(ticks() - from);
}

int main(int argc, char **argv)
{
    pthread_t server;
    if (argc < 3)
        die("PROTOCOL COUNT [ticks|ns]");
    while (argc > 4 && access(argv[4], F_OK) != 0)
        usleep(10000);
    client.version = wire_version_find((uint32_t)strtoul(argv[1], NULL, 10));
    client.count = strtol(argv[2], NULL, 10);
    client.ns = argc > 3 && strcmp(argv[3], "ns") == 0;
    client.stream = client_stream_new(client.version);
    client.replies = encoder_new(client.version);
    if (!client.stream || !client.replies)
        die("no memory");
    encoder_set_independent(client.replies);
    client.welcome = (struct welcome){.timer_mul = client.ns ? 1 : measure(),
                                      .init_begin = ticks(),
                                      .init_end = ticks(),
                                      .resolution = 1,
                                      .epoch = 1700000000,
                                      .pid = (uint64_t)getpid(),
                                      .cpu_arch = ARCH_X64,
                                      .program_name = "zone_client"};
    tidemark_message("beside the client", 0);
    for (size_t t = 0; t < THREADS; t++) {
        struct worker *w = &client.workers[t];
        w->zones = calloc((size_t)client.count, sizeof *w->zones);
        if (!w->zones || pthread_create(&w->thread, NULL, work, w) != 0)
            die("no thread");
    }
    if (pthread_create(&server, NULL, serve, NULL) != 0)
        die("no thread");
    pthread_join(server, NULL);
    for (size_t t = 0; t < THREADS; t++)
        free(client.workers[t].zones);
    client_stream_free(client.stream);
    encoder_free(client.replies);
    printf("%ld zones\n", THREADS * client.count);
    return 0;
}
