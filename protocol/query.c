#include "protocol/query.h"

#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/map.h"
#include "base/vec.h"

/* State bits of a key, in its kind's map; 0: unknown. */
enum key_state {
    KEY_SEEN = 1,  /* known, whether queried or not */
    KEY_ASKED = 2, /* queued here */
    KEY_SENT = 4,
    KEY_ANSWERED = 8,
    KEY_THREAD_NAMED = 16, /* external names: the first half of the answer has arrived */
    KEY_PATIENT = 32,      /* in the patient queue */
};

struct packet {
    enum query_kind kind;
    uint64_t key;
    uint32_t extra;
};

/*
 * While more packets than this are unanswered, no patient query is sent, so that urgent ones never
 * wait behind many that a client answers slowly.
 */
#define PATIENT_FLIGHT 256u

/* A FIFO queue: at[head … len). */
struct packets {
    VEC(struct packet) v;
    size_t head;
};

struct query {
    struct query_config config;
    struct map keys[QUERY_KIND_COUNT];
    struct packets urgent; /* the official server's priority queue */
    struct packets normal;
    struct packets patient;   /* sent when no other queries wait and few are in flight */
    struct packets locations; /* unanswered source locations in the order of the queries */
    struct query_stats stats;
    uint32_t flight[QUERY_KIND_COUNT]; /* sent and unanswered */
    uint32_t flight_total;
    uint32_t noops; /* of these: treated as answered because of a keyless "done" */
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
    if (!q)
        return NULL;
    q->config = *config;
    for (int kind = 0; kind < QUERY_KIND_COUNT; kind++)
        q->keys[kind].pageable = config->pageable;
    return q;
}

void query_free(struct query *q)
{
    if (!q)
        return;
    for (int kind = 0; kind < QUERY_KIND_COUNT; kind++)
        map_release(&q->keys[kind]);
    struct packets *queues[] = {&q->urgent, &q->normal, &q->patient, &q->locations};
    for (size_t i = 0; i < sizeof queues / sizeof *queues; i++)
        pageable_vec_release(q->config.pageable, &queues[i]->v);
    free(q);
}

static bool packets_push(struct query *q, struct packets *p, enum query_kind kind, uint64_t key,
                         uint32_t extra)
{
    if (p->head == p->v.len)
        p->head = p->v.len = 0;
    if (p->head > 1024 && p->head > p->v.len / 2) {
        memmove(p->v.at, p->v.at + p->head, (p->v.len - p->head) * sizeof *p->v.at);
        p->v.len -= p->head;
        p->head = 0;
    }
    return pageable_push(q->config.pageable, &p->v,
                         (struct packet){.kind = kind, .key = key, .extra = extra});
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

/* How many answers a query of this kind gets. */
static unsigned answers_to(enum query_kind kind)
{
    return kind == QUERY_EXTERNAL_NAME ? 2 : 1;
}

/* Counts a queued query. */
static void count_queued(struct query *q, enum query_kind kind)
{
    q->stats.asked[kind]++;
    q->stats.pending[kind] += answers_to(kind);
    q->stats.queued++;
}

/*
 * Promotes a patient query of a frame to the normal queue. The second of its two packets is skipped
 * later.
 */
static int hurry(struct query *q, enum query_kind kind, uint64_t key, uint64_t *state,
                 struct err *e)
{
    if (!(*state & KEY_PATIENT) || *state & (KEY_SENT | KEY_ANSWERED))
        return 0;
    *state &= ~(uint64_t)KEY_PATIENT;
    return packets_push(q, &q->normal, kind, key, 0)
               ? 0
               : err_no_memory(e, "the queries to the client");
}

static int ask(struct query *q, enum query_kind kind, uint64_t key, uint32_t extra, bool patient,
               struct err *e)
{
    if (key == 0 && kind != QUERY_THREAD) /* the client would dereference the null pointer */
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
        return patient ? 0 : hurry(q, kind, key, state, e);
    *state = KEY_SEEN;
    if (kind == QUERY_SOURCE_LOCATION && !packets_push(q, &q->locations, kind, key, 0))
        return err_no_memory(e, "the source locations asked of the client");
    if (!query_wants(q, kind))
        return 0;
    struct packets *queue = patient ? &q->patient : is_urgent(q, kind) ? &q->urgent : &q->normal;
    if (!packets_push(q, queue, kind, key, extra))
        return err_no_memory(e, "the queries to the client");
    *state |= patient ? KEY_ASKED | KEY_PATIENT : KEY_ASKED;
    count_queued(q, kind);
    return 0;
}

int query_ask(struct query *q, enum query_kind kind, uint64_t key, struct err *e)
{
    return ask(q, kind, key, 0, false, e);
}

int query_ask_patiently(struct query *q, enum query_kind kind, uint64_t key, struct err *e)
{
    return ask(q, kind, key, 0, true, e);
}

int query_ask_code(struct query *q, uint64_t symbol, uint32_t size, struct err *e)
{
    return ask(q, QUERY_SYMBOL_CODE, symbol, size, false, e);
}

bool query_wants(const struct query *q, enum query_kind kind)
{
    return q->config.ask >> kind & 1;
}

/*
 * Queues bytes for the client, terminated by a NUL: first their number, then 12 bytes per packet.
 */
static bool push_transfer(struct query *q, struct view text)
{
    if (!packets_push(q, &q->normal, QUERY_DATA_TRANSFER, text.len + 1, 0))
        return false;
    count_queued(q, QUERY_DATA_TRANSFER);
    for (size_t at = 0; at <= text.len; at += 12) {
        uint8_t part[12] = {0};
        size_t n = text.len - at < sizeof part ? text.len - at : sizeof part;
        if (n)
            memcpy(part, text.p + at, n);
        if (!packets_push(q, &q->normal, QUERY_DATA_TRANSFER_PART, load_u64(part),
                          load_u32(part + 8)))
            return false;
        count_queued(q, QUERY_DATA_TRANSFER_PART);
    }
    return true;
}

int query_ask_source(struct query *q, uint32_t id, struct view image, struct view file,
                     struct err *e)
{
    if (!query_wants(q, QUERY_SOURCE_CODE))
        return 0;
    if ((image.len && !push_transfer(q, image)) || !push_transfer(q, file))
        return err_no_memory(e, "the queries to the client");
    return query_ask(q, QUERY_SOURCE_CODE, id, e);
}

/* Query kinds that a client without call stacks answers with a keyless "done". */
static uint32_t noop_candidates(const struct query *q)
{
    return q->flight[QUERY_CALLSTACK_FRAME] + q->flight[QUERY_SYMBOL] + q->flight[QUERY_PARAMETER];
}

/* Counts a query in flight as answered. */
static void land(struct query *q, enum query_kind kind)
{
    if (q->flight[kind] == 0)
        return; /* already counted: keyless answers to another server's queries were taken for it */
    q->flight[kind]--;
    q->flight_total--;
}

/* Releases a query's unit of space, or its place in a queue. */
static void settle(struct query *q, enum query_kind kind, uint64_t state)
{
    if (!(state & KEY_ASKED))
        return;
    q->stats.pending[kind]--;
    if (!(state & KEY_SENT)) {
        q->stats.queued--;
        return;
    }
    land(q, kind);
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

/* Handles a keyless answer to a query kind with exactly one answer per query. */
static bool land_keyless(struct query *q, enum query_kind kind)
{
    if (q->flight[kind] == 0)
        return false;
    land(q, kind);
    q->stats.pending[kind] -= q->stats.pending[kind] != 0;
    return true;
}

bool query_answered_no_code(struct query *q)
{
    bool ours = land_keyless(q, QUERY_SYMBOL_CODE);
    q->stats.unasked_noops += !ours;
    return ours;
}

bool query_answered_noop(struct query *q)
{
    if (land_keyless(q, QUERY_DATA_TRANSFER) || land_keyless(q, QUERY_DATA_TRANSFER_PART))
        return true;
    if (q->noops >= noop_candidates(q)) {
        q->stats.unasked_noops++;
        return false;
    }
    q->noops++;
    return true;
}

static void encode(const struct wire_version *version, enum query_kind kind, uint64_t key,
                   uint32_t extra, uint8_t out[QUERY_PACKET_SIZE])
{
    out[0] = version->facts.query_code[kind];
    store_u64(out + 1, key);
    store_u32(out + 9, extra);
}

/* The state of a packet's key; NULL for the parts of a transfer. */
static uint64_t *packet_state(struct query *q, const struct packet *p)
{
    bool transfer = p->kind == QUERY_DATA_TRANSFER || p->kind == QUERY_DATA_TRANSFER_PART;
    return transfer ? NULL : map_find(&q->keys[p->kind], p->key);
}

/* Sends from one queue while query space and `out` allow; returns bytes written. */
static size_t flush_queue(struct query *q, struct packets *p, uint32_t space, uint8_t *out,
                          size_t cap)
{
    size_t n = 0;
    while (!packets_empty(p)) {
        struct packet packet = p->v.at[p->head];
        uint64_t *state = packet_state(q, &packet);
        /* A recording answered before the query was sent, or the other queue has sent it. */
        if (state && *state & (KEY_ANSWERED | KEY_SENT)) {
            p->head++;
            continue;
        }
        if (q->flight_total - q->noops >= space || cap - n < QUERY_PACKET_SIZE)
            break;
        encode(q->config.version, packet.kind, packet.key, packet.extra, out + n);
        n += QUERY_PACKET_SIZE;
        p->head++;
        if (state)
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
    uint32_t space = q->config.space;
    size_t n = flush_queue(q, &q->urgent, space, out, cap);
    n += flush_queue(q, &q->normal, space, out + n, cap - n);
    if (!packets_empty(&q->urgent) || !packets_empty(&q->normal))
        return n;
    return n + flush_queue(q, &q->patient, space < PATIENT_FLIGHT ? space : PATIENT_FLIGHT, out + n,
                           cap - n);
}

void query_forget_patient(struct query *q)
{
    struct packets *p = &q->patient;
    for (; !packets_empty(p); p->head++) {
        const struct packet *packet = &p->v.at[p->head];
        uint64_t *state = map_find(&q->keys[packet->kind], packet->key);
        if (!(*state & KEY_PATIENT) || *state & (KEY_ANSWERED | KEY_SENT))
            continue;
        *state = KEY_SEEN;
        q->stats.pending[packet->kind] -= answers_to(packet->kind);
        q->stats.asked[packet->kind]--;
        q->stats.queued--;
    }
}

void query_encode_terminate(const struct wire_version *version, uint8_t out[QUERY_PACKET_SIZE])
{
    encode(version, QUERY_TERMINATE, 0, 0, out);
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

/* ---- snapshots */

static void snapshot_packets(struct snapshot *s, struct query *q, struct packets *p)
{
    if (p->head) {
        memmove(p->v.at, p->v.at + p->head, (p->v.len - p->head) * sizeof *p->v.at);
        p->v.len -= p->head;
        p->head = 0;
    }
    SNAPSHOT_EACH(s, &p->v, i, UINT32_MAX)
    {
        struct packet *packet = &p->v.at[i];
        uint32_t kind = packet->kind;
        snapshot_u32(s, &kind);
        snapshot_u64(s, &packet->key);
        snapshot_u32(s, &packet->extra);
        snapshot_index(s, kind, QUERY_KIND_COUNT, "a question");
        if (s->failed)
            return;
        packet->kind = (enum query_kind)kind;
        bool transfer = kind == QUERY_DATA_TRANSFER || kind == QUERY_DATA_TRANSFER_PART;
        if (s->loading && !transfer && !packet_state(q, packet))
            snapshot_refuse(s, "a question");
    }
}

static void snapshot_stats(struct snapshot *s, struct query *q)
{
    for (int kind = 0; kind < QUERY_KIND_COUNT; kind++) {
        snapshot_u64(s, &q->stats.asked[kind]);
        snapshot_u64(s, &q->stats.pending[kind]);
        snapshot_u64(s, &q->stats.unasked[kind]);
        snapshot_u64(s, &q->stats.repeated[kind]);
        snapshot_u32(s, &q->flight[kind]);
    }
    snapshot_u64(s, &q->stats.over_limit);
    snapshot_u64(s, &q->stats.unasked_noops);
    snapshot_u64(s, &q->stats.sent);
    snapshot_u32(s, &q->stats.queued);
    snapshot_u32(s, &q->flight_total);
    snapshot_u32(s, &q->noops);
}

/* Rejects queue entries that have no state: readers of the queue look it up unchecked. */
static void check_keyed(struct snapshot *s, const struct packets *p, bool locations)
{
    for (size_t i = 0; s->loading && i < p->v.len; i++) {
        enum query_kind kind = p->v.at[i].kind;
        if (kind == QUERY_DATA_TRANSFER || kind == QUERY_DATA_TRANSFER_PART ||
            (locations && kind != QUERY_SOURCE_LOCATION))
            snapshot_refuse(s, "a question");
    }
}

void query_snapshot(struct snapshot *s, struct query *q)
{
    for (int kind = 0; kind < QUERY_KIND_COUNT; kind++)
        snapshot_map(s, &q->keys[kind], 0, 63, "the state of a question");
    snapshot_packets(s, q, &q->urgent);
    snapshot_packets(s, q, &q->normal);
    snapshot_packets(s, q, &q->patient);
    snapshot_packets(s, q, &q->locations);
    check_keyed(s, &q->patient, false);
    check_keyed(s, &q->locations, true);
    snapshot_stats(s, q);
}
