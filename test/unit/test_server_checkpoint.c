/*
 * Checkpoints: a trace that goes on from one is, to the byte, the trace that went on without, and
 * asks the same questions; whatever is wrong with a checkpoint is refused.
 */

#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "intake_side.h"

#include <fcntl.h>
#include <signal.h>

#include "server/capture/checkpoint.h"
#include "server/capture/recovery.h"
#include "trace/file/writer.h"
#include "trace/save/save.h"

#define SEED "test/fuzz/seeds/fuzz_checkpoint/everything"

static int put_block(void *ctx, const uint8_t *bytes, size_t n, struct err *e)
{
    (void)e;
    buf_put(ctx, bytes, n);
    return 0;
}

/* Ends it and gives the bytes of its trace. */
static struct buf finish(struct side *s)
{
    const struct err none = {0};
    struct err e = {0};
    struct buf out = {0};
    struct trace_writer *w;
    struct trace_write_stats stats;
    must(intake_finish(&s->r, SESSION_VANISHED, &none, &e), &e);
    must(trace_writer_open_inner(&w, NULL, (struct block_sink){.ctx = &out, .put = put_block}, &e),
         &e);
    struct record_sink sink = trace_writer_sink(w);
    must(trace_save(&s->trace, &sink, &e), &e);
    must(trace_writer_finish(w, &stats, &e), &e);
    trace_writer_free(w);
    return out;
}

static int folder(void)
{
    char name[] = "/tmp/checkpoint-test-XXXXXX";
    assert_non_null(mkdtemp(name));
    int dir = open(name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    assert_true(dir >= 0);
    /* Without a name it goes away with the descriptor, as do the files in it that are removed. */
    return dir;
}

static void folder_release(int dir)
{
    char link[64], path[256];
    snprintf(link, sizeof link, "/proc/self/fd/%d", dir);
    ssize_t n = readlink(link, path, sizeof path - 1);
    assert_true(n > 0);
    path[n] = 0;
    (void)unlinkat(dir, "00000007" CHECKPOINT_SUFFIX, 0);
    close(dir);
    assert_int_equal(rmdir(path), 0);
}

static const struct checkpoint seventh = {.segment = 7, .journal = 42, .before = 12345};

static void write_it(int dir, struct side *s)
{
    struct err e = {0};
    uint64_t bytes;
    struct stat st;
    (void)unlinkat(dir, "00000007" CHECKPOINT_SUFFIX, 0);
    must(checkpoint_write(dir, &seventh, &s->r, false, &bytes, &e), &e);
    assert_int_equal(fstatat(dir, "00000007" CHECKPOINT_SUFFIX, &st, 0), 0);
    assert_int_equal(bytes, st.st_size);
}

static void read_it(int dir, struct side *s)
{
    struct err e = {0};
    struct checkpoint c;
    int fd = checkpoint_open(dir, 7, &c, &e);
    must(fd >= 0 ? 0 : -1, &e);
    assert_int_equal(c.journal, 42);
    assert_int_equal(c.before, 12345);
    must(checkpoint_read(fd, &c, &s->r, &e), &e);
    close(fd);
}

/* A turn behind `at` bytes of the stream: what goes on from its checkpoint is the same. */
static bool check_at(const struct recording *rec, const struct buf *stream, int dir, size_t at)
{
    struct side one, other;
    struct err e = {0};
    side_open(&one, rec);
    feed(&one, stream->data, at);
    bool turned = intake_turn(&one.r, &e) == 1;
    if (turned) {
        write_it(dir, &one);
        side_open(&other, rec);
        read_it(dir, &other);
        one.asked.len = 0;
        feed(&one, stream->data + at, stream->len - at);
        feed(&other, stream->data + at, stream->len - at);
        assert_int_equal(intake_frames(&one.r), intake_frames(&other.r));
        assert_int_equal(intake_unanswered(&one.r), intake_unanswered(&other.r));
        assert_int_equal(one.asked.len, other.asked.len);
        assert_memory_equal(buf_str(&one.asked), buf_str(&other.asked), one.asked.len);
        struct buf a = finish(&one), b = finish(&other);
        assert_int_equal(a.len, b.len);
        assert_memory_equal(a.data, b.data, a.len);
        buf_release(&a);
        buf_release(&b);
        side_release(&other);
    }
    side_release(&one);
    return turned;
}

static void test_goes_on(void **state)
{
    (void)state;
    int dir = folder();
    size_t turned = 0;
    for (size_t i = 0; i < 2 * sizeof side_tags / sizeof side_tags[0]; i++) {
        struct recording rec;
        recording_load(&rec, side_tags[i / 2], i % 2 ? "allscen" : "memscen");
        struct buf stream = short_frames(&rec);
        size_t steps = i % 2 ? 29 : 5;
        for (size_t k = 1; k <= steps; k++)
            turned += check_at(&rec, &stream, dir, stream.len * k / (steps + 1) + k);
        buf_release(&stream);
        recording_release(&rec);
    }
    assert_true(turned > 150);
    folder_release(dir);
}

/* ---- what is refused */

/* The file of a client with everything in it. */
static struct buf a_file(struct recording *rec, int dir)
{
    struct side s;
    struct err e = {0};
    struct buf out = {0};
    recording_load(rec, "v0.14.0", "allscen");
    struct buf stream = short_frames(rec);
    side_open(&s, rec);
    s.r.ingest.compact_least = UINT32_MAX; /* the more there is in it */
    feed(&s, stream.data, stream.len / 2);
    buf_release(&stream);
    must(intake_turn(&s.r, &e) == 1 ? 0 : -1, &e);
    write_it(dir, &s);
    side_release(&s);
    int fd = openat(dir, "00000007" CHECKPOINT_SUFFIX, O_RDONLY | O_CLOEXEC);
    for (ssize_t n; (n = read(fd, buf_reserve(&out, 65536), 65536)) > 0;)
        out.len += (size_t)n;
    close(fd);
    assert_true(out.len > 1000);
    return out;
}

static void put_file(int dir, const uint8_t *bytes, size_t n)
{
    int fd =
        openat(dir, "00000007" CHECKPOINT_SUFFIX, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    assert_true(fd >= 0 && write(fd, bytes, n) == (ssize_t)n);
    close(fd);
}

static void refused(int dir, uint32_t segment)
{
    struct checkpoint c;
    struct err e = {0};
    assert_int_equal(checkpoint_open(dir, segment, &c, &e), -1);
    assert_int_equal(e.code, ERR_INPUT);
}

static void test_damaged(void **state)
{
    (void)state;
    int dir = folder();
    struct recording rec;
    struct checkpoint c;
    struct err e = {0};
    struct buf whole = a_file(&rec, dir);
    for (size_t i = 0; i < 400; i++) {
        size_t at = i < 64 ? i : i * 7919 % whole.len;
        whole.data[at] ^= 1;
        put_file(dir, whole.data, whole.len);
        refused(dir, 7);
        whole.data[at] ^= 1;
        put_file(dir, whole.data, at);
        refused(dir, 7);
    }
    put_file(dir, whole.data, whole.len);
    int fd = checkpoint_open(dir, 7, &c, &e);
    assert_true(fd >= 0);
    close(fd);
    refused(dir, 8);
    assert_int_equal(renameat(dir, "00000007.state", dir, "00000008.state"), 0);
    refused(dir, 8);
    assert_int_equal(unlinkat(dir, "00000008.state", 0), 0);
    buf_release(&whole);
    recording_release(&rec);
    folder_release(dir);
}

/* Plain bytes of the state that a file has. */
static struct buf plain_of(const struct buf *file, int fd)
{
    struct snapshot in;
    struct err e = {0};
    struct buf plain = {0};
    assert_true(write(fd, file->data, file->len) == (ssize_t)file->len);
    must(snapshot_read(&in, fd, 64, file->len - 64, &e), &e);
    for (uint8_t byte; snapshot_bytes(&in, &byte, 1), !in.failed;)
        buf_u8(&plain, byte);
    snapshot_release(&in);
    return plain;
}

/* Whether those plain bytes are taken; then they must be good for a trace. */
static bool taken(const struct recording *rec, const struct buf *plain, int fd)
{
    struct snapshot s;
    struct side side;
    struct err e = {0};
    must(snapshot_write(&s, fd, 0, &e), &e);
    snapshot_bytes(&s, plain->data, plain->len);
    must(snapshot_end(&s), &e);
    uint64_t len = s.at;
    snapshot_release(&s);
    side_open(&side, rec);
    must(snapshot_read(&s, fd, 0, len, &e), &e);
    intake_snapshot(&s, &side.r);
    bool good = snapshot_end(&s) == 0;
    snapshot_release(&s);
    if (good) {
        struct buf trace = finish(&side);
        buf_release(&trace);
    } else {
        assert_true(e.code == ERR_INPUT || e.code == ERR_MEMORY);
    }
    side_release(&side);
    return good;
}

/* Bytes of a state changed: it is refused, or it is another state that is good for a trace. */
static void test_hostile(void **state)
{
    (void)state;
    int dir = folder(), fd = memfd_create("plain", MFD_CLOEXEC);
    struct recording rec;
    struct buf file = a_file(&rec, dir), plain = plain_of(&file, fd);
    unsigned good = 0;
    const unsigned tries = 1500;
    assert_true(taken(&rec, &plain, fd));
    for (size_t i = 0; i < tries; i++) {
        size_t at = i * 104729 % plain.len;
        uint8_t was = plain.data[at];
        plain.data[at] = (uint8_t)(i % 3 == 0 ? 0xff : was + i);
        good += taken(&rec, &plain, fd);
        plain.data[at] = was;
    }
    assert_true(good > 0 && good < tries);
    for (size_t len = plain.len; plain.len > 0; plain.len -= plain.len > 997 ? 997 : plain.len)
        assert_true(plain.len == len || !taken(&rec, &plain, fd));
    close(fd);
    buf_release(&plain);
    buf_release(&file);
    recording_release(&rec);
    folder_release(dir);
}

/* A disk that is full leaves nothing of a checkpoint, at whatever byte. */
static void test_no_room(void **state)
{
    (void)state;
    int dir = folder();
    struct recording rec;
    struct side s;
    struct err e = {0};
    struct rlimit before;
    uint64_t bytes;
    recording_load(&rec, "v0.14.0", "allscen");
    side_open(&s, &rec);
    feed(&s, rec.bytes + rec.stream, rec.len - rec.stream);
    must(intake_turn(&s.r, &e) == 1 ? 0 : -1, &e);
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    for (rlim_t most = 0; most < 20000; most += most < 80 ? 16 : 1999) {
        struct rlimit less = {most, before.rlim_max};
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &less), 0);
        int status = checkpoint_write(dir, &seventh, &s.r, true, &bytes, &e);
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
        assert_int_equal(status, -1);
        assert_int_equal(e.code, ERR_OUTPUT);
        assert_int_equal(faccessat(dir, "00000007.state", F_OK, 0), -1);
        assert_int_equal(faccessat(dir, "next.state", F_OK, 0), -1);
    }
    write_it(dir, &s);
    side_release(&s);
    recording_release(&rec);
    folder_release(dir);
}

/* ---- in a journal */

#define CUTS 3u

/* A journal that is cut three times, with nothing forgotten. Gives frames up to the end. */
static uint64_t make_journal(const struct recording *rec, const struct buf *stream,
                             const char *path)
{
    const struct journal_options options = {0};
    struct side s;
    struct err e = {0};
    side_open(&s, rec);
    struct journal *j = journal_create(path, &options, &e);
    must(j ? 0 : -1, &e);
    must(journal_put_start(j, &s.r.start, &e), &e);
    for (size_t i = 0; i <= CUTS; i++) {
        size_t from = stream->len * i / (CUTS + 1), to = stream->len * (i + 1) / (CUTS + 1);
        uint32_t segment = 0;
        for (size_t n; from < to; from += n) {
            n = to - from < 5000 ? to - from : 5000;
            must(journal_append(j, JOURNAL_RECEIVED, stream->data + from, n, &e), &e);
            feed(&s, stream->data + from, n);
        }
        if (i < CUTS) {
            must(intake_turn(&s.r, &e) == 1 ? 0 : -1, &e);
            must(journal_cut(j, &s.r, &segment, &e), &e);
            assert_int_equal(segment, i + 2);
        }
    }
    uint64_t frames = intake_frames(&s.r);
    journal_close(j);
    side_release(&s);
    return frames;
}

static struct recovery recovered(const char *path, unsigned *part)
{
    const struct recovery_options options = {0};
    struct recovery out;
    struct trace t;
    struct err e = {0};
    struct journal_reader *r = journal_reader_open(path, &e);
    must(r ? 0 : -1, &e);
    assert_int_equal(recovery_look(r, &out, &e), 1);
    must(trace_init(&t, NULL, &e), &e);
    must(recovery_run(r, &t, &options, &out, &e), &e);
    struct view fact = trace_fact(&t, "part", 0);
    *part = fact.p ? (unsigned)strtoul(fact.p, NULL, 10) : 1;
    trace_release(&t);
    journal_reader_close(r);
    return out;
}

static void drop(const char *path, const char *name)
{
    char file[256];
    snprintf(file, sizeof file, "%s/%s", path, name);
    assert_int_equal(unlink(file), 0);
}

static void spoil(const char *path, const char *name)
{
    char file[256];
    uint8_t byte;
    snprintf(file, sizeof file, "%s/%s", path, name);
    int fd = open(file, O_RDWR | O_CLOEXEC);
    assert_true(fd >= 0 && pread(fd, &byte, 1, 100) == 1);
    byte ^= 1;
    assert_int_equal(pwrite(fd, &byte, 1, 100), 1);
    close(fd);
}

/* Where a journal begins: with its first segment, else with the earliest checkpoint of use. */
static void test_beginnings(void **state)
{
    (void)state;
    char path[] = "/tmp/checkpoint-test-XXXXXX";
    struct recording rec;
    struct recovery out;
    unsigned part;
    assert_non_null(mkdtemp(path));
    assert_int_equal(rmdir(path), 0);
    recording_load(&rec, "v0.14.0", "memscen");
    struct buf stream = short_frames(&rec);
    uint64_t frames = make_journal(&rec, &stream, path);
    out = recovered(path, &part);
    assert_true(!out.cut && part == 1 && out.frames == frames && out.received == stream.len);
    drop(path, "00000001"); /* as a removal that was cut off leaves it */
    out = recovered(path, &part);
    assert_true(out.cut && part == 2 && out.frames == frames && out.received == stream.len);
    assert_false(out.tail.damaged);
    spoil(path, "00000002.state");
    out = recovered(path, &part);
    assert_true(out.cut && part == 3 && out.frames == frames && out.tail.damaged);
    assert_non_null(strstr(out.tail.why, "checkpoint of segment 2"));
    drop(path, "00000002.state");
    drop(path, "00000002");
    drop(path, "00000003.state"); /* the segment alone is of no use */
    out = recovered(path, &part);
    assert_true(out.cut && part == 4 && out.frames == frames && !out.tail.damaged);
    drop(path, "00000004.state");
    struct err e = {0};
    struct journal_reader *r = journal_reader_open(path, &e);
    must(r ? 0 : -1, &e);
    assert_int_equal(recovery_look(r, &out, &e), -1);
    assert_int_equal(e.code, ERR_INPUT);
    must(journal_reader_remove(r, &e), &e);
    assert_int_equal(access(path, F_OK), -1);
    buf_release(&stream);
    recording_release(&rec);
}

/* ---- the fuzzer's seed */

static struct buf read_seed(void)
{
    struct buf b = {0};
    b.data = read_whole_file(SEED, &b.len);
    b.cap = b.len;
    return b;
}

/* A state with everything in it, of the client that fuzz_checkpoint has. */
static void write_seed(void)
{
    int dir = folder(), fd = memfd_create("plain", MFD_CLOEXEC);
    struct recording rec;
    struct buf file = a_file(&rec, dir), plain = plain_of(&file, fd);
    (void)mkdir("test/fuzz/seeds/fuzz_checkpoint", 0777);
    FILE *out = fopen(SEED, "wb");
    assert_non_null(out);
    assert_int_equal(fwrite(plain.data, 1, plain.len, out), plain.len);
    assert_int_equal(fclose(out), 0);
    close(fd);
    buf_release(&plain);
    buf_release(&file);
    recording_release(&rec);
    folder_release(dir);
}

/* It must still be taken; TIDEMARK_WRITE_SEEDS=1 makes it anew. */
static void test_seed(void **state)
{
    (void)state;
    if (getenv("TIDEMARK_WRITE_SEEDS"))
        write_seed();
    struct recording rec;
    recording_load(&rec, "v0.14.0", "allscen");
    struct buf seed = read_seed();
    int fd = memfd_create("plain", MFD_CLOEXEC);
    assert_true(taken(&rec, &seed, fd));
    close(fd);
    buf_release(&seed);
    recording_release(&rec);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_goes_on),    cmocka_unit_test(test_damaged),
        cmocka_unit_test(test_hostile),    cmocka_unit_test(test_no_room),
        cmocka_unit_test(test_beginnings), cmocka_unit_test(test_seed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
