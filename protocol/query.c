#include "protocol/query.h"

#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/map.h"
#include "base/vec.h"

/* What is known of a key; the value in its kind's map. 0 = nothing. */
enum key_state {
    KEY_SEEN = 1,  /* met, whether asked or not */
    KEY_ASKED = 2, /* queued by us */
    KEY_SENT = 4,
    KEY_ANSWERED = 8,
    KEY_THREAD_NAMED = 16, /* external names: the first half of the answer came */
};

struct packet {
    enum query_kind kind;
    uint64_t key;
};

/* First in, first out: at[head … len). */
struct packets {
    VEC(struct packet) v;
    size_t head;
};

struct query {
    struct query_config config;
    struct map keys[QUERY_KIND_COUNT];
    struct packets urgent; /* the official server's priority queue */
    struct packets normal;
    struct packets locations; /* source locations in the order of asking, all unanswered */
    struct query_stats stats;
    uint32_t flight[QUERY_KIND_COUNT]; /* sent and unanswered */
    uint32_t flight_total;
    uint32_t noops; /* of these: taken as answered because of a keyless "done" */
};

uint32_t query_space_for(size_t sndbuf)
{
    size_t packets = sndbuf / QUERY_PACKET_SIZE;
    if (packets > QUERY_SPACE_MAX + 4)
        packets = QUERY_SPACE_MAX + 4;
    return packets > 5 ? (uint32_t)packets - 4 : 1;
}

struct query *query_new(const struct query_config *config)
{
    struct query *q = calloc(1, sizeof *q);
    if (q)
        q->config = *config;
    return q;
}

void query_free(struct query *q)
{
    if (!q)
        return;
    for (int kind = 0; kind < QUERY_KIND_COUNT; kind++)
        map_release(&q->keys[kind]);
    vec_release(&q->urgent.v);
    vec_release(&q->normal.v);
    vec_release(&q->locations.v);
    free(q);
}

static bool packets_push(struct packets *p, enum query_kind kind, uint64_t key)
{
    if (p->head == p->v.len)
        p->head = p->v.len = 0;
    if (p->head > 1024 && p->head > p->v.len / 2) {
        memmove(p->v.at, p->v.at + p->head, (p->v.len - p->head) * sizeof *p->v.at);
        p->v.len -= p->head;
        p->head = 0;
    }
    return vec_push(&p->v, (struct packet){.kind = kind, .key = key});
}

static bool packets_empty(const struct packets *p)
{
    return p->head == p->v.len;
}

static bool is_urgent(const struct query *q, enum query_kind kind)
{
    switch (kind) {
    case QUERY_STRING:
    case QUERY_THREAD:
    case QUERY_SOURCE_LOCATION:
    case QUERY_PLOT_NAME:
    case QUERY_FRAME_NAME:
    case QUERY_PARAMETER:
    case QUERY_FIBER_NAME:
        return true;
    case QUERY_EXTERNAL_NAME:
        return q->config.version->facts.external_name_prio;
    default:
        return false;
    }
}

/* How many answers the protocol gives to one query of this kind. */
static unsigned answers_to(enum query_kind kind)
{
    return kind == QUERY_EXTERNAL_NAME ? 2 : 1;
}

int query_ask(struct query *q, enum query_kind kind, uint64_t key, struct err *e)
{
    if (key == 0 && kind != QUERY_THREAD) /* a client would follow the null pointer */
        return 0;
    struct map *keys = &q->keys[kind];
    if (keys->count >= QUERY_KEYS_MAX) {
        q->stats.over_limit += !map_find(keys, key);
        return 0;
    }
    bool fresh;
    uint64_t *state = map_add(keys, key, &fresh);
    if (!state)
        return err_no_memory(e, "the names asked of the client");
    if (!fresh)
        return 0;
    *state = KEY_SEEN;
    if (kind == QUERY_SOURCE_LOCATION && !packets_push(&q->locations, kind, key))
        return err_no_memory(e, "the source locations asked of the client");
    if (!(q->config.ask >> kind & 1))
        return 0;
    if (!packets_push(is_urgent(q, kind) ? &q->urgent : &q->normal, kind, key))
        return err_no_memory(e, "the queries to the client");
    *state |= KEY_ASKED;
    q->stats.asked[kind]++;
    q->stats.pending[kind] += answers_to(kind);
    q->stats.queued++;
    return 0;
}

/* Kinds that a client without call stacks answers with a keyless "done". */
static uint32_t noop_candidates(const struct query *q)
{
    return q->flight[QUERY_CALLSTACK_FRAME] + q->flight[QUERY_SYMBOL] + q->flight[QUERY_PARAMETER];
}

/* Gives back what a query took: its unit of space, or its place in a queue. */
static void settle(struct query *q, enum query_kind kind, uint64_t state)
{
    if (!(state & KEY_ASKED))
        return;
    q->stats.pending[kind]--;
    if (!(state & KEY_SENT)) {
        q->stats.queued--;
        return;
    }
    q->flight[kind]--;
    q->flight_total--;
    if (q->noops > noop_candidates(q))
        q->noops--;
}

enum query_answer query_answered(struct query *q, enum query_kind kind, uint64_t key)
{
    struct map *keys = &q->keys[kind];
    uint64_t *state = map_find(keys, key);
    if (!state && keys->count < QUERY_KEYS_MAX) {
        state = map_add(keys, key, NULL);
        if (!state)
            return ANSWER_NO_MEMORY;
    }
    if (!state || !(*state & (KEY_SEEN | KEY_ANSWERED))) {
        if (state)
            *state |= KEY_ANSWERED;
        q->stats.unasked[kind]++;
        return ANSWER_UNASKED;
    }
    if (*state & KEY_ANSWERED) {
        q->stats.repeated[kind]++;
        return ANSWER_REPEATED;
    }
    settle(q, kind, *state);
    *state |= KEY_ANSWERED;
    return ANSWER_EXPECTED;
}

enum query_answer query_answered_external_thread(struct query *q, uint64_t key)
{
    struct map *keys = &q->keys[QUERY_EXTERNAL_NAME];
    uint64_t *state = map_find(keys, key);
    if (!state && keys->count < QUERY_KEYS_MAX) {
        state = map_add(keys, key, NULL);
        if (!state)
            return ANSWER_NO_MEMORY;
    }
    if (state && *state & KEY_THREAD_NAMED) {
        q->stats.repeated[QUERY_EXTERNAL_NAME]++;
        return ANSWER_REPEATED;
    }
    bool seen = state && *state & KEY_SEEN;
    if (state && *state & KEY_ASKED)
        q->stats.pending[QUERY_EXTERNAL_NAME]--;
    if (state)
        *state |= KEY_THREAD_NAMED;
    q->stats.unasked[QUERY_EXTERNAL_NAME] += !seen;
    return seen ? ANSWER_EXPECTED : ANSWER_UNASKED;
}

bool query_take_source_location(struct query *q, uint64_t *key)
{
    struct packets *p = &q->locations;
    if (packets_empty(p))
        return false;
    *key = p->v.at[p->head++].key;
    uint64_t *state = map_find(&q->keys[QUERY_SOURCE_LOCATION], *key);
    settle(q, QUERY_SOURCE_LOCATION, *state);
    *state |= KEY_ANSWERED;
    return true;
}

bool query_answered_noop(struct query *q)
{
    if (q->noops >= noop_candidates(q)) {
        q->stats.unasked_noops++;
        return false;
    }
    q->noops++;
    return true;
}

static void encode(const struct wire_version *version, enum query_kind kind, uint64_t key,
                   uint8_t out[QUERY_PACKET_SIZE])
{
    out[0] = version->facts.query_code[kind];
    store_u64(out + 1, key);
    store_u32(out + 9, 0);
}

/* Sends from one queue while there is space and room; returns bytes written. */
static size_t flush_queue(struct query *q, struct packets *p, uint8_t *out, size_t cap)
{
    size_t n = 0;
    while (!packets_empty(p)) {
        struct packet packet = p->v.at[p->head];
        uint64_t *state = map_find(&q->keys[packet.kind], packet.key);
        if (*state & KEY_ANSWERED) { /* a recording answered before we could ask */
            p->head++;
            continue;
        }
        if (q->flight_total - q->noops >= q->config.space || cap - n < QUERY_PACKET_SIZE)
            break;
        encode(q->config.version, packet.kind, packet.key, out + n);
        n += QUERY_PACKET_SIZE;
        p->head++;
        *state |= KEY_SENT;
        q->stats.queued--;
        q->stats.sent++;
        q->flight[packet.kind]++;
        q->flight_total++;
    }
    return n;
}

size_t query_flush(struct query *q, uint8_t *out, size_t cap)
{
    size_t n = flush_queue(q, &q->urgent, out, cap);
    return n + flush_queue(q, &q->normal, out + n, cap - n);
}

void query_encode_terminate(const struct wire_version *version, uint8_t out[QUERY_PACKET_SIZE])
{
    encode(version, QUERY_TERMINATE, 0, out);
}

bool query_packet_parse(const struct wire_version *version, const uint8_t in[QUERY_PACKET_SIZE],
                        enum query_kind *kind, uint64_t *ptr, uint32_t *extra)
{
    *ptr = load_u64(in + 1);
    *extra = load_u32(in + 9);
    for (int k = 0; k < QUERY_KIND_COUNT; k++) {
        if (version->facts.query_code[k] == in[0]) {
            *kind = (enum query_kind)k;
            return true;
        }
    }
    return false;
}

bool query_idle(const struct query *q)
{
    if (q->stats.queued)
        return false;
    for (int kind = 0; kind < QUERY_KIND_COUNT; kind++)
        if (kind != QUERY_FRAME_NAME && q->stats.pending[kind])
            return false;
    return true;
}

void query_stats(const struct query *q, struct query_stats *stats)
{
    *stats = q->stats;
    stats->flight = q->flight_total - q->noops;
}

const char *query_kind_name(enum query_kind kind)
{
    static const char *const names[QUERY_KIND_COUNT] = {
        [QUERY_TERMINATE] = "terminate",
        [QUERY_STRING] = "string",
        [QUERY_THREAD] = "thread name",
        [QUERY_SOURCE_LOCATION] = "source location",
        [QUERY_PLOT_NAME] = "plot name",
        [QUERY_FRAME_NAME] = "frame name",
        [QUERY_PARAMETER] = "parameter",
        [QUERY_FIBER_NAME] = "fiber name",
        [QUERY_EXTERNAL_NAME] = "external name",
        [QUERY_DISCONNECT] = "disconnect",
        [QUERY_CALLSTACK_FRAME] = "call stack frame",
        [QUERY_SYMBOL] = "symbol",
        [QUERY_SYMBOL_CODE] = "symbol code",
        [QUERY_SOURCE_CODE] = "source code",
        [QUERY_DATA_TRANSFER] = "data transfer",
        [QUERY_DATA_TRANSFER_PART] = "data transfer part",
    };
    return (unsigned)kind < QUERY_KIND_COUNT ? names[kind] : "?";
}
