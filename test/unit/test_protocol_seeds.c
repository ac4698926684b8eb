/*
 * The fuzzers' seeds, which are pieces of the recordings. Checks that they are what the recordings
 * give; with TIDEMARK_WRITE_SEEDS=1 in the environment it writes them anew instead.
 */

#include "protocol_support.h"

#include <sys/stat.h>

#define ROOT "test/fuzz/seeds"
#define PIECE 5000 /* bytes of items at the beginning of a recording, and at its end */

static const char *const tags[] = {"v0.9.1", "v0.10", "v0.11.1", "v0.12.2", "v0.13.1", "v0.14.0"};

struct seeds {
    bool write;
    size_t total;
};

/* The frames of a seed hold these items; LZ4 may pack them otherwise tomorrow. */
static void check_frames(const uint8_t *packed, size_t n, const uint8_t *items, size_t len)
{
    struct frame_reader *r = frame_reader_new();
    struct wire_frame frame;
    struct err e = {0};
    size_t done = 0;
    while (frame_reader_feed(r, &packed, &n, &frame, &e) == 1) {
        assert_true(frame.len <= len - done);
        assert_memory_equal(frame.bytes, items + done, frame.len);
        done += frame.len;
    }
    assert_int_equal(done, len);
    assert_int_equal(frame_reader_partial(r), 0);
    frame_reader_free(r);
}

/* `items` is what frames hold, NULL for seeds that are compared byte by byte. */
static void seed(struct seeds *s, const char *target, const char *name, const struct buf *b,
                 const struct buf *items)
{
    char path[256];
    size_t n;
    assert_false(b->failed);
    snprintf(path, sizeof path, ROOT "/%s/%s", target, name);
    s->total += b->len;
    if (s->write) {
        char folder[256];
        snprintf(folder, sizeof folder, ROOT "/%s", target);
        mkdir(ROOT, 0777);
        mkdir(folder, 0777);
        FILE *f = fopen(path, "wb");
        assert_non_null(f);
        assert_int_equal(fwrite(b->data, 1, b->len, f), b->len);
        assert_int_equal(fclose(f), 0);
        return;
    }
    uint8_t *have = read_whole_file(path, &n);
    if (items) {
        check_frames(have + 1, n - 1, items->data + 1, items->len - 1);
    } else {
        assert_int_equal(n, b->len);
        assert_memory_equal(have, b->data, n);
    }
    free(have);
}

/* The decompressed items of a recording. */
static void decompress(const struct recording *rec, struct buf *items)
{
    struct frame_reader *r = frame_reader_new();
    struct wire_frame frame;
    const uint8_t *p = rec->bytes + rec->stream;
    size_t left = rec->len - rec->stream;
    while (frame_reader_feed(r, &p, &left, &frame, NULL) == 1)
        buf_put(items, frame.bytes, frame.len);
    frame_reader_free(r);
}

static size_t item_length(const struct wire_version *v, const uint8_t *p)
{
    const struct wire_item *it = &v->items[*p];
    size_t n = it->size + wire_tail_size((enum wire_tail)it->tail);
    switch (it->tail) {
    case WIRE_TAIL_8:
        return n + p[it->size];
    case WIRE_TAIL_16:
        return n + load_u16(p + it->size);
    case WIRE_TAIL_16_PLUS_256:
        return n + 256 + load_u16(p + it->size);
    case WIRE_TAIL_32:
        return n + load_u32(p + it->size);
    default:
        return n;
    }
}

/* Whole items of about PIECE bytes from the beginning, and from the end (mostly answers). */
static void add_piece(const struct wire_version *v, const struct buf *items, bool end,
                      struct buf *out)
{
    size_t at = 0, from = end ? items->len - PIECE : 0;
    while (at < from)
        at += item_length(v, items->data + at);
    size_t start = at;
    while (at < items->len && at - start < PIECE)
        at += item_length(v, items->data + at);
    buf_put(out, items->data + start, at - start);
}

static void recording_seeds(struct seeds *s, const char *tag, const char *recording)
{
    struct recording rec;
    struct buf items = {0};
    struct err e = {0};
    recording_load(&rec, tag, recording);
    const struct wire_version *v = wire_version_find(rec.protocol);
    decompress(&rec, &items);
    for (int end = 0; end < 2; end++) {
        struct buf b = {0};
        char name[64];
        snprintf(name, sizeof name, "%s-%s-%s", tag, recording, end ? "end" : "begin");
        buf_u8(&b, (uint8_t)(rec.protocol - PROTOCOL_MIN));
        add_piece(v, &items, end, &b);
        seed(s, "fuzz_items", name, &b, NULL);
        struct encoder *enc = encoder_new(v);
        struct buf packed = {0};
        for (size_t at = 1; at < b.len; at += item_length(v, b.data + at)) {
            assert_int_equal(encoder_append(enc, b.data + at, item_length(v, b.data + at), &e), 0);
            if (at % 3 == 0 && at > 3000)
                assert_int_equal(encoder_commit(enc, &e), 0);
        }
        assert_int_equal(encoder_commit(enc, &e), 0);
        buf_u8(&packed, 6);
        buf_put(&packed, encoder_output(enc)->data, encoder_output(enc)->len);
        seed(s, "fuzz_frames", name, &packed, &b);
        encoder_free(enc);
        buf_release(&packed);
        buf_release(&b);
    }
    struct buf welcome = {0};
    buf_u8(&welcome, (uint8_t)(rec.protocol - PROTOCOL_MIN));
    buf_put(&welcome, rec.bytes + 1, wire_version_welcome_size(v));
    char name[64];
    snprintf(name, sizeof name, "%s-%s", tag, recording);
    seed(s, "fuzz_handshake", name, &welcome, NULL);
    buf_release(&welcome);
    buf_release(&items);
    recording_release(&rec);
}

static void broadcast_seeds(struct seeds *s)
{
    for (uint32_t version = 0; version < 4; version++) {
        struct broadcast a = {.version = version, .port = 8086, .protocol = 82, .name = "program"};
        uint8_t bytes[BROADCAST_SIZE_MAX];
        struct buf b = {0};
        char name[32];
        buf_u8(&b, (uint8_t)wire_version_count);
        buf_put(&b, bytes, broadcast_encode(&a, bytes));
        snprintf(name, sizeof name, "broadcast-%u", version);
        seed(s, "fuzz_handshake", name, &b, NULL);
        buf_release(&b);
    }
}

static void test_seeds(void **state)
{
    (void)state;
    struct seeds s = {.write = getenv("TIDEMARK_WRITE_SEEDS") != NULL};
    for (size_t i = 0; i < sizeof tags / sizeof *tags; i++) {
        recording_seeds(&s, tags[i], "allscen");
        recording_seeds(&s, tags[i], "memscen");
    }
    broadcast_seeds(&s);
    assert_true(s.total < 300000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_seeds)};
    return cmocka_run_group_tests_name("protocol seeds", tests, NULL, NULL);
}
