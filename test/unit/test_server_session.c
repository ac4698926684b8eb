/*
 * The loop of a session, under a replaced clock: how much it decodes between two
 * looks at clock, requests to stop and memory, and that it decodes all that it has received or says
 * so. The functions that it looks with are replaced here: -Wl,--wrap=monotonic_ns and so on, see
 * the Makefile.
 */

#include "intake_side.h"

#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "server/capture/memory_limit.h"
#include "server/capture/session.h"

/* Decompressed bytes between two looks: what is left of a step, and the frame that ends it. */
#define LOOK_MOST ((128u << 10) + FRAME_SIZE_MAX)
/* A turn ends by the clock; every frame has a look at it. */
#define TURN_NS 20000000

static struct {
    int64_t clock, step;     /* ns; added by every look at the clock */
    size_t memory_looks;     /* so far */
    size_t memory_beyond_at; /* from this look on memory is beyond its limit; 0: never */
    uint64_t received;       /* compressed bytes */
    uint64_t taken;          /* of these, decoded or the begin of a frame */
    uint64_t since_clock, since_memory, since_stop; /* decompressed bytes */
    uint64_t frames;
    /* the client's side */
    int peer;
    struct buf stream;
    size_t sent;
} world;

int64_t __wrap_monotonic_ns(void);
int __wrap_intake_take(struct intake *r, const uint8_t **bytes, size_t *len, struct err *e);
int __real_intake_take(struct intake *r, const uint8_t **bytes, size_t *len, struct err *e);
int __wrap_memory_limit_keep(struct memory_limit *l, struct trace *t, uint64_t ahead,
                             struct err *e);
bool __wrap_stop_asked(struct stop *s);
short __wrap_stop_wait(struct stop *s, int fd, short events, int timeout_ms);
ssize_t __wrap_recv(int fd, void *to, size_t n, int flags);
ssize_t __real_recv(int fd, void *to, size_t n, int flags);

int64_t __wrap_monotonic_ns(void)
{
    world.since_clock = 0;
    return world.clock += world.step;
}

int __wrap_memory_limit_keep(struct memory_limit *l, struct trace *t, uint64_t ahead, struct err *e)
{
    (void)l, (void)t, (void)ahead, (void)e;
    world.since_memory = 0;
    world.memory_looks++;
    return world.memory_beyond_at && world.memory_looks >= world.memory_beyond_at ? 2 : 0;
}

bool __wrap_stop_asked(struct stop *s)
{
    world.since_stop = 0;
    return s->count > 0;
}

/* Sends more of the stream and skips the wait. */
short __wrap_stop_wait(struct stop *s, int fd, short events, int timeout_ms)
{
    struct pollfd p = {.fd = fd, .events = events};
    uint8_t asked[4096];
    (void)s;
    while (recv(world.peer, asked, sizeof asked, MSG_DONTWAIT) > 0)
        ;
    ssize_t n = send(world.peer, world.stream.data + world.sent, world.stream.len - world.sent,
                     MSG_DONTWAIT | MSG_NOSIGNAL);
    world.sent += n > 0 ? (size_t)n : 0;
    /* The kernel may hold what was sent back for a moment, which the clock here does not show. */
    if (fd >= 0 && poll(&p, 1, world.sent > world.received ? 10000 : 0) > 0)
        return p.revents;
    world.clock += timeout_ms * INT64_C(1000000);
    return 0;
}

ssize_t __wrap_recv(int fd, void *to, size_t n, int flags)
{
    ssize_t got = __real_recv(fd, to, n, flags);
    if (fd != world.peer && got > 0)
        world.received += (uint64_t)got;
    return got;
}

int __wrap_intake_take(struct intake *r, const uint8_t **bytes, size_t *len, struct err *e)
{
    const struct frame_stats *now = frame_reader_stats(r->frames);
    const struct frame_stats before = *now;
    assert_int_equal(world.since_clock, 0);
    int status = __real_intake_take(r, bytes, len, e);
    uint64_t grown = now->bytes_out - before.bytes_out;
    world.frames += now->frames - before.frames;
    world.taken = now->bytes_in;
    world.since_clock += grown;
    world.since_memory += grown;
    world.since_stop += grown;
    assert_true(grown <= FRAME_SIZE_MAX);
    assert_true(world.since_memory <= LOOK_MOST);
    assert_true(world.since_stop <= (TURN_NS / (uint64_t)world.step + 1) * FRAME_SIZE_MAX);
    return status;
}

/* ---- streams */

/* Items that expand most (docs/expansion.md). `i` counts them. */
typedef void make_items(struct buf *b, uint64_t i);

static const struct wire_version *version;

#define ITEM(B, NAME, TAIL, ...)                                                                   \
    put_item(version, B, NAME, TAIL, (const struct encoder_field[]){__VA_ARGS__, {.name = NULL}})
#define NO_TAIL ((struct view){0})

/* Texts that differ, and compress well. */
static struct view text_of(uint64_t i, size_t len)
{
    static char text[65536];
    memset(text, 'x', sizeof text);
    snprintf(text, 16, "%012" PRIu64, i);
    text[12] = 'x';
    return (struct view){text, len};
}

static void frame_marks(struct buf *b, uint64_t i)
{
    (void)i;
    ITEM(b, "FrameMarkMsg", NO_TAIL, ENC_INT("time", 1));
}

static void strings(struct buf *b, uint64_t i)
{
    ITEM(b, "StringData", text_of(i, 65535), ENC_INT("ptr", i + 1));
}

static void short_strings(struct buf *b, uint64_t i)
{
    ITEM(b, "StringData", text_of(i, 12), ENC_INT("ptr", i + 1));
}

static void stack(struct buf *b, const uint64_t *frames, size_t n)
{
    ITEM(b, "CallstackPayload", ((struct view){(const char *)frames, n * sizeof *frames}),
         ENC_INT("ptr", 0));
    put_item(version, b, "CallstackSerial", NO_TAIL, NULL);
    ITEM(b, "MemAllocCallstack", NO_TAIL, ENC_INT("thread", 1), ENC_INT("ptr", 64));
}

static void deep_stacks(struct buf *b, uint64_t i)
{
    static uint64_t frames[8000];
    for (size_t k = 0; k < sizeof frames / sizeof frames[0]; k++)
        frames[k] = i;
    stack(b, frames, sizeof frames / sizeof frames[0]);
}

static void stacks(struct buf *b, uint64_t i)
{
    stack(b, (const uint64_t[]){i, 1}, 2);
}

static void open_zones(struct buf *b, uint64_t i)
{
    (void)i;
    ITEM(b, "ZoneBegin", NO_TAIL, ENC_INT("srcloc", 1));
}

static void threads(struct buf *b, uint64_t i)
{
    ITEM(b, "ThreadContext", NO_TAIL, ENC_INT("thread", i + 1));
    open_zones(b, i);
}

static void live_blocks(struct buf *b, uint64_t i)
{
    ITEM(b, "MemAlloc", NO_TAIL, ENC_INT("thread", 1), ENC_INT("ptr", i * 16));
}

static void pools(struct buf *b, uint64_t i)
{
    ITEM(b, "MemNamePayload", NO_TAIL, ENC_INT("name", i + 1));
    ITEM(b, "MemAllocNamed", NO_TAIL, ENC_INT("thread", 1), ENC_INT("ptr", 64));
}

static make_items *const hostiles[] = {frame_marks, strings, short_strings, deep_stacks, stacks,
                                       open_zones,  threads, live_blocks,   pools};

/* Frames that are as full as they can be, each `copies` times. */
static void make_stream(make_items *make, size_t frames, size_t copies)
{
    struct buf items = {0};
    for (uint64_t i = 0; frames > 0;) {
        size_t before = items.len;
        make(&items, i++);
        if (items.len <= FRAME_SIZE_MAX)
            continue;
        for (size_t k = 0; k < copies; k++)
            put_frame(&world.stream, items.data, before);
        memmove(items.data, items.data + before, items.len - before);
        items.len -= before;
        frames--;
    }
    buf_release(&items);
}

/* ---- a session */

/* A connection over the loopback interface; returns the client's end. */
static int connect_pair(struct connection *c)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t len = sizeof at;
    int listener = socket(AF_INET, SOCK_STREAM, 0), client = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(bind(listener, (struct sockaddr *)&at, sizeof at), 0);
    assert_int_equal(listen(listener, 1), 0);
    assert_int_equal(getsockname(listener, (struct sockaddr *)&at, &len), 0);
    assert_int_equal(connect(client, (struct sockaddr *)&at, sizeof at), 0);
    *c = (struct connection){.fd = accept(listener, NULL, NULL), .version = version};
    c->welcome = (struct welcome){.timer_mul = 1, .program_name = "hostile"};
    assert_true(c->fd >= 0);
    close(listener);
    return client;
}

struct played {
    enum session_end end;
    bool lacks;
    bool incomplete; /* the trace says so */
};

static bool has_fact(struct trace *t, const char *fact)
{
    for (size_t i = 0; i < t->app_info.len; i++) {
        struct view text = strings_get(&t->strings, t->app_info.at[i]);
        if (text.len > strlen(fact) && memcmp(text.p, fact, strlen(fact)) == 0)
            return true;
    }
    return false;
}

/* Captures world.stream for `seconds` of the clock here, each look at which takes `step` ns. */
static struct played play(double seconds, int64_t step, size_t memory_beyond_at)
{
    struct memory_limit memory = {.bytes = UINT64_C(1) << 40};
    const struct session_limits limits = {.seconds = seconds, .memory = &memory};
    const struct session_options options = {0};
    struct connection c;
    struct trace t;
    struct stop stop = {.fd = -1};
    struct err e = {0};
    world.step = step;
    world.memory_beyond_at = memory_beyond_at;
    assert_int_equal(trace_init(&t, NULL, &e), 0);
    world.peer = connect_pair(&c);
    struct session *s = session_new(&c, &t, &options, &e);
    assert_non_null(s);
    const struct played p = {.end = session_run(s, &limits, &stop, &e),
                             .lacks = session_lacks(s),
                             .incomplete = has_fact(&t, "tidemark.incomplete=")};
    assert_int_equal(e.code, ERR_NONE);
    session_free(s);
    trace_release(&t);
    close(world.peer);
    buf_release(&world.stream);
    return p;
}

/* ---- tests */

#define LONG 300 /* seconds in which all is received */

static int setup(void **state)
{
    (void)state;
    memset(&world, 0, sizeof world);
    return 0;
}

static void test_looks_within_a_turn(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof hostiles / sizeof hostiles[0]; i++) {
        setup(NULL);
        make_stream(hostiles[i], 12, 1);
        struct played p = play(LONG, TURN_NS / 2, 0);
        assert_int_equal(p.end, SESSION_TIME_LIMIT);
        assert_int_equal(world.frames, 12);
        assert_false(p.lacks || p.incomplete);
    }
}

/* A stop leaves received bytes that need a moment; they are decoded. */
static void test_received_bytes_are_decoded(void **state)
{
    (void)state;
    make_stream(frame_marks, 1, 1000);
    struct played p = play(0.02, TURN_NS / 200, 0);
    assert_int_equal(p.end, SESSION_TIME_LIMIT);
    assert_in_range(world.frames, 1, 999);
    assert_int_equal(world.taken, world.received);
    assert_false(p.lacks || p.incomplete);
}

/* So slow that they are not. */
static void test_undecoded_bytes_are_told(void **state)
{
    (void)state;
    make_stream(frame_marks, 1, 1000);
    struct played p = play(0.5, TURN_NS * 3 / 4, 0);
    assert_int_equal(p.end, SESSION_TIME_LIMIT);
    assert_in_range(world.frames, 1, 999);
    assert_true(world.taken < world.received);
    assert_true(p.lacks && p.incomplete);
}

static void test_memory_ends_it_at_once(void **state)
{
    (void)state;
    make_stream(frame_marks, 1, 1000);
    struct played p = play(LONG, 100, 20);
    assert_int_equal(p.end, SESSION_MEMORY_LIMIT);
    assert_in_range(world.frames, 1, 30);
    assert_true(world.taken < world.received);
    assert_true(p.lacks && p.incomplete);
}

int main(void)
{
    version = wire_version_find(74);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_looks_within_a_turn),
        cmocka_unit_test_setup(test_received_bytes_are_decoded, setup),
        cmocka_unit_test_setup(test_undecoded_bytes_are_told, setup),
        cmocka_unit_test_setup(test_memory_ends_it_at_once, setup),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
