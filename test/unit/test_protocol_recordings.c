/*
 * Recordings of real clients, one of each release: decoded to the last byte, totals as the program
 * itself counted them, every query that the official server asked asked here too, and the same
 * events however the bytes are cut.
 */

#include "protocol/ending.h"
#include "protocol_support.h"

#include <jansson.h>

static const char *const tags[] = {"v0.9.1", "v0.10", "v0.11.1", "v0.12.2", "v0.13.1", "v0.14.0"};
#define TAGS (sizeof tags / sizeof *tags)

static json_t *load_truth(const char *tag, const char *name)
{
    char path[256];
    json_error_t why;
    snprintf(path, sizeof path, "fixtures/wire/%s/%s.truth.json", tag, name);
    json_t *truth = json_load_file(path, 0, &why);
    if (!truth)
        fail_msg("%s: %s", path, why.text);
    return truth;
}

static uint64_t number(const json_t *object, const char *key)
{
    const json_t *v = json_object_get(object, key);
    if (!json_is_integer(v))
        fail_msg("the truth has no %s", key);
    return (uint64_t)json_integer_value(v);
}

/* Decodes a whole recording in pieces of `piece` bytes. */
static void decode(struct rig *r, const struct recording *rec, size_t piece)
{
    struct frame_reader *frames = frame_reader_new();
    assert_non_null(frames);
    rig_init(r, rec->protocol, &rec->welcome);
    if (rig_feed(r, frames, rec->bytes + rec->stream, rec->len - rec->stream, piece) < 0)
        fail_msg("%s", r->err.text);
    assert_int_equal(frame_reader_partial(frames), 0);
    assert_int_equal(frame_reader_stats(frames)->bytes_out, decoder_stats(r->decoder)->bytes);
    frame_reader_free(frames);
}

/* Nothing is left over: all queries answered, all texts taken, the client has said its farewell. */
static void check_end(struct rig *r)
{
    struct query_stats q;
    query_stats(r->query, &q);
    assert_true(decoder_terminated(r->decoder));
    assert_true(decoder_settled(r->decoder));
    assert_false(decoder_in_group(r->decoder));
    assert_false(decoder_crashed(r->decoder));
    assert_true(query_idle(r->query));
    for (int kind = 0; kind < QUERY_KIND_COUNT; kind++) {
        assert_int_equal(q.pending[kind], 0);
        /* We ask for exactly what the official server asked, but for texts of source files. */
        if (kind != QUERY_SOURCE_CODE)
            assert_int_equal(q.unasked[kind], 0);
    }
    assert_int_equal(decoder_stats(r->decoder)->odd_metadata, 0);
}

/* ---- totals */

struct pool_sum {
    uint64_t pool, allocs, frees, total_bytes;
};

struct sums {
    struct pool_sum pools[8];
    size_t n;
};

static struct pool_sum *sum_of(struct sums *s, uint64_t pool)
{
    for (size_t i = 0; i < s->n; i++)
        if (s->pools[i].pool == pool)
            return &s->pools[i];
    assert_true(s->n < 8);
    s->pools[s->n] = (struct pool_sum){.pool = pool};
    return &s->pools[s->n++];
}

/* Memory totals by pool and the text of each pool's name, from the printed events. */
static void add_up(struct rig *r, struct sums *s)
{
    const char *all = buf_str(&r->log.lines);
    for (const char *end; *all; all = end + 1) {
        char line[512];
        end = memchr(all, '\n', r->log.lines.len - (size_t)(all - (const char *)r->log.lines.data));
        assert_non_null(end);
        size_t n = (size_t)(end - all) < sizeof line ? (size_t)(end - all) : sizeof line - 1;
        memcpy(line, all, n);
        line[n] = 0;
        int kind = (int)strtol(line, NULL, 10);
        uint64_t pool, ptr, size;
        const char *at = strstr(line, " pool=");
        if (kind > EVENT_MEM_FREE || !at)
            continue;
        assert_int_equal(
            sscanf(at, " pool=%" SCNu64 " ptr=%" SCNu64 " size=%" SCNu64, &pool, &ptr, &size), 3);
        struct pool_sum *p = sum_of(s, pool);
        p->allocs += kind == EVENT_MEM_ALLOC;
        p->frees += kind == EVENT_MEM_FREE;
        p->total_bytes += size;
    }
}

static void check_pool_name(struct rig *r, uint64_t pool, const char *name)
{
    char wanted[128];
    snprintf(wanted, sizeof wanted, "%d cs=0 thread=0 t=0 key=%" PRIu64 " text=\"%s\"\n",
             (int)EVENT_STRING, pool, name);
    if (!strstr(buf_str(&r->log.lines), wanted))
        fail_msg("the name of pool %s never came", name);
}

static void test_memscen_totals(void **state)
{
    (void)state;
    for (size_t i = 0; i < TAGS; i++) {
        struct recording rec;
        struct rig r;
        struct sums sums = {0};
        recording_load(&rec, tags[i], "memscen");
        struct frame_reader *frames = frame_reader_new();
        rig_init(&r, rec.protocol, &rec.welcome);
        r.log.keep_lines = true;
        assert_int_equal(
            rig_feed(&r, frames, rec.bytes + rec.stream, rec.len - rec.stream, SIZE_MAX), 0);
        check_end(&r);
        json_t *truth = load_truth(tags[i], "memscen");
        assert_int_equal(r.log.counts[EVENT_MEM_ALLOC] + r.log.counts[EVENT_MEM_FREE],
                         number(truth, "memory_events"));
        assert_int_equal(r.log.counts[EVENT_ZONE_BEGIN], r.log.counts[EVENT_ZONE_END]);
        add_up(&r, &sums);
        json_t *pools = json_object_get(truth, "pools");
        assert_int_equal(sums.n, json_array_size(pools));
        for (size_t p = 0; p < sums.n; p++) {
            size_t found = 0;
            for (size_t k = 0; k < json_array_size(pools); k++) {
                const json_t *pool = json_array_get(pools, k);
                const char *name = json_string_value(json_object_get(pool, "name"));
                if (number(pool, "allocs") != sums.pools[p].allocs ||
                    number(pool, "frees") != sums.pools[p].frees ||
                    number(pool, "total_bytes") != sums.pools[p].total_bytes)
                    continue;
                found++;
                assert_int_equal(*name == 0, sums.pools[p].pool == 0);
                if (*name)
                    check_pool_name(&r, sums.pools[p].pool, name);
            }
            assert_int_equal(found, 1);
        }
        json_decref(truth);
        frame_reader_free(frames);
        rig_release(&r);
        recording_release(&rec);
    }
}

static void test_allscen_totals(void **state)
{
    (void)state;
    for (size_t i = 0; i < TAGS; i++) {
        struct recording rec;
        struct rig r;
        recording_load(&rec, tags[i], "allscen");
        decode(&r, &rec, SIZE_MAX);
        check_end(&r);
        json_t *truth = load_truth(tags[i], "allscen");
        const uint64_t *n = r.log.counts;
        assert_int_equal(n[EVENT_ZONE_BEGIN],
                         number(truth, "cpu_zones") + number(truth, "fiber_zones"));
        assert_int_equal(n[EVENT_ZONE_END], n[EVENT_ZONE_BEGIN]);
        assert_int_equal(n[EVENT_GPU_ZONE_BEGIN], number(truth, "gpu_zones"));
        assert_int_equal(n[EVENT_GPU_ZONE_END], number(truth, "gpu_zones"));
        assert_int_equal(n[EVENT_GPU_TIME], 2 * number(truth, "gpu_zones"));
        /* v0.14.0's library sends messages of its own */
        assert_true(n[EVENT_MESSAGE] >= number(truth, "messages") &&
                    n[EVENT_MESSAGE] <= number(truth, "messages") + 4);
        assert_int_equal(n[EVENT_PLOT], number(truth, "plot_points"));
        assert_int_equal(n[EVENT_FRAME_MARK],
                         number(truth, "frame_marks") + number(truth, "named_frame_marks"));
        assert_int_equal(n[EVENT_FRAME_START], number(truth, "discontinuous_frames"));
        assert_int_equal(n[EVENT_FRAME_END], number(truth, "discontinuous_frames"));
        assert_int_equal(n[EVENT_FRAME_IMAGE], number(truth, "frame_images_sent"));
        assert_int_equal(n[EVENT_MEM_ALLOC], number(truth, "allocs"));
        assert_int_equal(n[EVENT_MEM_FREE], number(truth, "frees"));
        assert_int_equal(n[EVENT_MEM_DISCARD], number(truth, "discards"));
        assert_int_equal(n[EVENT_LOCK_OBTAIN], number(truth, "lock_acquisitions"));
        assert_int_equal(n[EVENT_SECTION_ENTER], number(truth, "sections"));
        assert_int_equal(n[EVENT_SECTION_LEAVE], number(truth, "sections"));
        json_decref(truth);
        rig_release(&r);
        recording_release(&rec);
    }
}

/* ---- cuts */

static void check_same(const struct rig *a, const struct rig *b)
{
    assert_int_equal(a->log.chain.len, b->log.chain.len);
    assert_true(a->log.chain.len > 0);
    assert_int_equal(a->log.chain.at[a->log.chain.len - 1], b->log.chain.at[b->log.chain.len - 1]);
    assert_int_equal(a->log.stacks.len, b->log.stacks.len);
}

static void test_pieces(void **state)
{
    (void)state;
    for (size_t i = 0; i < 2 * TAGS; i++) {
        struct recording rec;
        struct rig whole, bytewise, odd;
        recording_load(&rec, tags[i / 2], i % 2 ? "allscen" : "memscen");
        decode(&whole, &rec, SIZE_MAX);
        decode(&bytewise, &rec, 1);
        decode(&odd, &rec, 4099);
        check_same(&whole, &bytewise);
        check_same(&whole, &odd);
        rig_release(&whole);
        rig_release(&bytewise);
        rig_release(&odd);
        recording_release(&rec);
    }
}

/* The events of a decoder that got `bytes` of a recording are the first ones of the whole. */
static void check_first(const struct recording *rec, const struct rig *whole,
                        const struct rig *part, size_t bytes)
{
    size_t n = part->log.chain.len;
    assert_false(decoder_terminated(part->decoder) && bytes < rec->len / 2);
    assert_true(n <= whole->log.chain.len);
    if (n > 0)
        assert_int_equal(part->log.chain.at[n - 1], whole->log.chain.at[n - 1]);
}

static void check_cut(const struct recording *rec, const struct rig *whole, size_t cut)
{
    struct rig part;
    struct frame_reader *frames = frame_reader_new();
    rig_init(&part, rec->protocol, &rec->welcome);
    assert_int_equal(rig_feed(&part, frames, rec->bytes + rec->stream, cut, SIZE_MAX), 0);
    check_first(rec, whole, &part, cut);
    frame_reader_free(frames);
    rig_release(&part);
}

/* Looks at a decoder on its way through a recording, at `cuts` places or more. */
static void check_on_the_way(const struct recording *rec, const struct rig *whole, size_t cuts,
                             uint32_t *seed)
{
    struct rig part;
    struct frame_reader *frames = frame_reader_new();
    size_t len = rec->len - rec->stream, done = 0;
    rig_init(&part, rec->protocol, &rec->welcome);
    while (done < len) {
        *seed = *seed * 1664525 + 1013904223;
        size_t piece = 1 + (*seed >> 4) % (len / cuts), left = len - done;
        piece = piece < left ? piece : left;
        const uint8_t *from = rec->bytes + rec->stream + done;
        assert_int_equal(rig_feed(&part, frames, from, piece, SIZE_MAX), 0);
        done += piece;
        check_first(rec, whole, &part, done);
    }
    assert_int_equal(part.log.chain.len, whole->log.chain.len);
    frame_reader_free(frames);
    rig_release(&part);
}

/* A recording that ends early, at 2,000 random places, gives the events of its whole frames. */
static void test_truncated(void **state)
{
    (void)state;
    uint32_t seed = 3;
    for (size_t i = 0; i < 2 * TAGS; i++) {
        struct recording rec;
        struct rig whole;
        recording_load(&rec, tags[i / 2], i % 2 ? "allscen" : "memscen");
        decode(&whole, &rec, SIZE_MAX);
        check_on_the_way(&rec, &whole, 2000 / (2 * TAGS) + 1, &seed);
        for (size_t k = 0; k < 10; k++) {
            seed = seed * 1664525 + 1013904223;
            check_cut(&rec, &whole, (seed >> 4) % (rec.len - rec.stream));
        }
        rig_release(&whole);
        recording_release(&rec);
    }
}

/* With one bit changed the stream is an error or another stream: never a crash, and what came
 * before the change is the same. */
static void test_flipped_bits(void **state)
{
    (void)state;
    struct recording rec;
    struct rig whole;
    uint32_t seed = 5;
    recording_load(&rec, "v0.14.0", "allscen");
    decode(&whole, &rec, SIZE_MAX);
    for (int k = 0; k < 60; k++) {
        struct rig r;
        struct frame_reader *frames = frame_reader_new();
        seed = seed * 1664525 + 1013904223;
        size_t at = rec.stream + (seed >> 4) % (rec.len - rec.stream);
        size_t before = 0; /* frames that end before the change */
        struct wire_frame frame;
        const uint8_t *p = rec.bytes + rec.stream;
        size_t left = at - rec.stream;
        struct frame_reader *count = frame_reader_new();
        while (frame_reader_feed(count, &p, &left, &frame, NULL) == 1)
            before++;
        frame_reader_free(count);
        rec.bytes[at] ^= (uint8_t)(1u << (seed & 7));
        rig_init(&r, rec.protocol, &rec.welcome);
        int rc = rig_feed(&r, frames, rec.bytes + rec.stream, rec.len - rec.stream, SIZE_MAX);
        assert_true(rc == 0 || (r.err.code == ERR_INPUT && r.err.text[0]));
        assert_true(decoder_stats(r.decoder)->frames >= before);
        rec.bytes[at] ^= (uint8_t)(1u << (seed & 7));
        frame_reader_free(frames);
        rig_release(&r);
    }
    rig_release(&whole);
    recording_release(&rec);
}

/* Every client said that it ends, at some byte and not before, however its bytes are cut. */
static void test_ending(void **state)
{
    (void)state;
    for (size_t i = 0; i < TAGS; i++) {
        struct recording rec;
        recording_load(&rec, tags[i], "allscen");
        size_t said[3];
        for (size_t k = 0; k < 3; k++) {
            static const size_t pieces[] = {1, 997, 65536};
            struct ending *g = ending_new(wire_version_find(rec.protocol));
            assert_non_null(g);
            said[k] = 0;
            for (size_t at = 0; at < rec.len; at += pieces[k]) {
                size_t n = rec.len - at < pieces[k] ? rec.len - at : pieces[k];
                ending_feed(g, rec.bytes + at, n);
                if (said[k] == 0 && ending_said(g))
                    said[k] = at + n;
            }
            assert_true(said[k] > rec.len / 2);
            ending_free(g);
        }
        assert_true(said[1] - said[0] < 997);
        assert_true(said[2] - said[0] < 65536);
        /* What cannot be decoded says nothing. */
        struct ending *g = ending_new(wire_version_find(rec.protocol));
        ending_feed(g, rec.bytes + 1, rec.len - 1);
        assert_false(ending_said(g));
        ending_free(g);
        recording_release(&rec);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_memscen_totals), cmocka_unit_test(test_allscen_totals),
        cmocka_unit_test(test_pieces),         cmocka_unit_test(test_truncated),
        cmocka_unit_test(test_flipped_bits),   cmocka_unit_test(test_ending),
    };
    return cmocka_run_group_tests_name("protocol recordings", tests, NULL, NULL);
}
