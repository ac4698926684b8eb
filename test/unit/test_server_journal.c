/*
 * Journals cut, damaged and mixed up in every place: what is recovered is what stood before it, to
 * the record, and nothing else.
 */

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <lz4.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../fuzz/journal_records.h"
#include "base/buf.h"
#include "proc/process_memory.h"
#include "server/capture/recovery.h"

#define SEEDS "test/fuzz/seeds/fuzz_journal/"

#define PROTOCOL 74u
#define MEM_ALLOC 25u /* of protocol 74: u8, i64 time, u32 thread, u64 address, 48 bits of size */
#define FRAMES 40u
#define BLOCKS 3u /* allocations in each frame */
#define RECORDS 64u

/* A stream of small frames, and the journal that is made of it. */
struct fixture {
    char dir[64];
    char path[80];
    struct buf stream;
    size_t frame_end[FRAMES];
    struct {
        uint32_t segment;
        uint64_t end;  /* of the record, in its segment */
        size_t stream; /* bytes of the client until then */
    } records[RECORDS];
    size_t n;
};

static void must(int status, const struct err *e)
{
    if (status != 0)
        fail_msg("%s", e->text);
}

static void make_stream(struct fixture *f)
{
    uint64_t address = 0x1000;
    for (size_t i = 0; i < FRAMES; i++) {
        struct buf items = {0};
        for (size_t k = 0; k < BLOCKS; k++) {
            buf_u8(&items, MEM_ALLOC);
            buf_i64(&items, 10);
            buf_u32(&items, 7);
            buf_u64(&items, address += 64);
            buf_u32(&items, 48);
            buf_u16(&items, 0);
        }
        char packed[256];
        int n = LZ4_compress_default((const char *)items.data, packed, (int)items.len,
                                     (int)sizeof packed);
        assert_true(n > 0);
        buf_u32(&f->stream, (uint32_t)n);
        buf_put(&f->stream, packed, (size_t)n);
        f->frame_end[i] = f->stream.len;
        buf_release(&items);
    }
    assert_false(f->stream.failed);
}

static struct intake_start a_start(void)
{
    struct intake_start start = {.version = wire_version_find(PROTOCOL),
                                 .ask = QUERY_ASK_DEFAULT,
                                 .space = 100,
                                 .welcome = {.timer_mul = 1, .pid = 42, .epoch = 1}};
    snprintf(start.welcome.program_name, sizeof start.welcome.program_name, "journalled");
    return start;
}

static void note(struct fixture *f, const struct journal *j, uint64_t *closed, uint32_t *segment,
                 size_t stream)
{
    /* Where the writer is, told from outside: by the files. */
    for (uint32_t next = *segment + 1;; next++) {
        char path[128];
        struct stat st;
        snprintf(path, sizeof path, "%s/%08u", f->path, next);
        if (stat(path, &st) != 0)
            break;
        snprintf(path, sizeof path, "%s/%08u", f->path, *segment);
        assert_int_equal(stat(path, &st), 0);
        *closed += (uint64_t)st.st_size;
        *segment = next;
    }
    assert_true(f->n < RECORDS);
    f->records[f->n].segment = *segment;
    f->records[f->n].end = journal_bytes(j) - *closed;
    f->records[f->n++].stream = stream;
}

/* Pieces that have nothing to do with the frames, and queries between them. */
static void make_journal(struct fixture *f, uint64_t segment_bytes)
{
    const struct journal_options options = {.segment_bytes = segment_bytes};
    const struct intake_start start = a_start();
    uint8_t queries[2 * QUERY_PACKET_SIZE] = {0};
    struct err e = {0};
    uint64_t closed = 0;
    uint32_t segment = 1;
    struct journal *j = journal_create(f->path, &options, &e);
    must(j ? 0 : -1, &e);
    f->n = 0;
    must(journal_put_start(j, &start, &e), &e);
    note(f, j, &closed, &segment, 0);
    for (size_t at = 0, step = 1; at < f->stream.len; step = step * 7 % 211) {
        size_t n = f->stream.len - at < step ? f->stream.len - at : step;
        must(journal_append(j, JOURNAL_RECEIVED, f->stream.data + at, n, &e), &e);
        note(f, j, &closed, &segment, at += n);
        if (step % 3 == 0) {
            must(journal_append(j, JOURNAL_SENT, queries, sizeof queries, &e), &e);
            note(f, j, &closed, &segment, at);
        }
    }
    must(journal_tick(j, &e), &e);
    assert_true(journal_has_data(j));
    journal_close(j);
}

static int setup(void **state)
{
    struct fixture *f = calloc(1, sizeof *f);
    assert_non_null(f);
    snprintf(f->dir, sizeof f->dir, "/tmp/tidemark-journal-XXXXXX");
    assert_non_null(mkdtemp(f->dir));
    snprintf(f->path, sizeof f->path, "%s/x.journal", f->dir);
    make_stream(f);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;
    struct err e = {0};
    struct journal_reader *r = journal_reader_open(f->path, &e);
    if (r)
        must(journal_reader_remove(r, &e), &e);
    (void)rmdir(f->path);
    assert_int_equal(rmdir(f->dir), 0);
    buf_release(&f->stream);
    free(f);
    return 0;
}

/* ---- what is expected */

/* Frames that are whole within the records that end before (segment, offset). */
static size_t frames_before(const struct fixture *f, uint32_t segment, uint64_t offset)
{
    size_t stream = 0, frames = 0;
    for (size_t i = 0; i < f->n; i++) {
        if (f->records[i].segment > segment ||
            (f->records[i].segment == segment && f->records[i].end > offset))
            break;
        stream = f->records[i].stream;
    }
    while (frames < FRAMES && f->frame_end[frames] <= stream)
        frames++;
    return frames;
}

/* Recovers and counts; checks that the store holds the blocks of the frames, no more and no less.
 */
static size_t recovered(struct journal_reader *r, struct recovery *out)
{
    struct trace t;
    struct err e = {0};
    const struct recovery_options options = {0};
    const struct trace_options store = {0};
    int any = recovery_look(r, out, &e);
    if (any <= 0)
        return 0;
    must(trace_init(&t, &store, &e), &e);
    must(recovery_run(r, &t, &options, out, &e), &e);
    assert_int_equal(t.memory.pools.at[0]->totals.live, out->frames * BLOCKS);
    assert_int_equal(out->end, SESSION_CUT_OFF);
    assert_true(trace_fact(&t, "incomplete", 0).len > 0);
    trace_release(&t);
    return out->frames;
}

static struct buf read_segment(const struct fixture *f, uint32_t number)
{
    char path[128];
    struct buf b = {0};
    snprintf(path, sizeof path, "%s/%08u", f->path, number);
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    for (int c; (c = fgetc(file)) != EOF;)
        buf_u8(&b, (uint8_t)c);
    fclose(file);
    return b;
}

static void write_segment(const struct fixture *f, uint32_t number, const uint8_t *p, size_t n)
{
    char path[128];
    snprintf(path, sizeof path, "%s/%08u", f->path, number);
    /* Not emptied first: file systems take that for a reason to sync. */
    int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, p, n), n);
    assert_int_equal(ftruncate(fd, (off_t)n), 0);
    assert_int_equal(close(fd), 0);
}

static size_t recover_folder(const struct fixture *f, struct recovery *out)
{
    struct err e = {0};
    struct journal_reader *r = journal_reader_open(f->path, &e);
    must(r ? 0 : -1, &e);
    size_t n = recovered(r, out);
    journal_reader_close(r);
    return n;
}

/* ---- tests */

static void test_whole(void **state)
{
    struct fixture *f = *state;
    struct recovery out;
    make_journal(f, 0);
    assert_int_equal(recover_folder(f, &out), FRAMES);
    assert_int_equal(out.received, f->stream.len);
    assert_int_equal(out.tail.lost, 0);
    assert_string_equal(out.welcome.program_name, "journalled");
    assert_int_equal(out.version->protocol, PROTOCOL);
    assert_true(out.sent > 0);
}

/* How what was saved ends, of a capture that goes on. */
static enum session_end end_of_saved(const struct fixture *f, bool *incomplete)
{
    struct trace t;
    struct recovery out;
    struct err e = {0};
    const struct recovery_options options = {.goes_on = true};
    struct journal_reader *r = journal_reader_peek(f->path, &e);
    must(r ? 0 : -1, &e);
    must(trace_init(&t, NULL, &e), &e);
    must(recovery_run(r, &t, &options, &out, &e), &e);
    *incomplete = trace_fact(&t, "incomplete", 0).len > 0;
    trace_release(&t);
    journal_reader_close(r);
    return out.end;
}

static void test_of_a_capture_that_goes_on(void **state)
{
    struct fixture *f = *state;
    bool incomplete;
    make_journal(f, 0);
    struct buf whole = read_segment(f, 1);
    assert_int_equal(end_of_saved(f, &incomplete), SESSION_GOES_ON);
    assert_false(incomplete);
    /* The last record is being written. */
    write_segment(f, 1, whole.data, whole.len - 1);
    assert_int_equal(end_of_saved(f, &incomplete), SESSION_GOES_ON);
    assert_false(incomplete);
    whole.data[f->records[f->n / 2].end - 1] ^= 1;
    write_segment(f, 1, whole.data, whole.len);
    assert_int_equal(end_of_saved(f, &incomplete), SESSION_CUT_OFF);
    assert_true(incomplete);
    buf_release(&whole);
}

static void test_cut_at_every_byte(void **state)
{
    struct fixture *f = *state;
    make_journal(f, 0);
    struct buf whole = read_segment(f, 1);
    for (size_t cut = whole.len; cut-- > 0;) {
        struct recovery out;
        write_segment(f, 1, whole.data, cut);
        size_t frames = recover_folder(f, &out);
        assert_int_equal(frames, frames_before(f, 1, cut));
        assert_false(out.tail.damaged);
        assert_true(out.tail.lost <= cut);
    }
    /* What does not begin with a header of ours would not be removed. */
    write_segment(f, 1, whole.data, whole.len);
    buf_release(&whole);
}

static void test_every_byte_changed(void **state)
{
    struct fixture *f = *state;
    make_journal(f, 0);
    struct buf whole = read_segment(f, 1);
    for (size_t at = 0; at < whole.len; at++) {
        struct recovery out;
        uint8_t was = whole.data[at];
        whole.data[at] ^= (uint8_t)(1u << at % 8);
        write_segment(f, 1, whole.data, whole.len);
        size_t frames = recover_folder(f, &out);
        assert_int_equal(frames, at < 48 ? 0 : frames_before(f, 1, at));
        whole.data[at] = was;
    }
    buf_release(&whole);
}

/* A power failure may leave the length of a file and none of its last bytes. */
static void test_zeros_at_the_end(void **state)
{
    struct fixture *f = *state;
    struct recovery out;
    make_journal(f, 0);
    struct buf whole = read_segment(f, 1);
    size_t from = whole.len / 2;
    memset(whole.data + from, 0, whole.len - from);
    for (size_t i = 0; i < 100000; i++)
        buf_u8(&whole, 0);
    write_segment(f, 1, whole.data, whole.len);
    assert_int_equal(recover_folder(f, &out), frames_before(f, 1, from));
    assert_true(out.tail.lost > 100000);
    buf_release(&whole);
}

static void test_segments(void **state)
{
    struct fixture *f = *state;
    struct recovery out;
    make_journal(f, 1500);
    uint32_t last = f->records[f->n - 1].segment;
    assert_true(last > 2);
    assert_int_equal(recover_folder(f, &out), FRAMES);
    assert_int_equal(out.tail.lost, 0);
    for (uint32_t i = 1; i <= last; i++) {
        struct buf whole = read_segment(f, i);
        /* Its end is missing: only in the last one it may be. */
        write_segment(f, i, whole.data, whole.len - 1);
        assert_int_equal(recover_folder(f, &out), frames_before(f, i, whole.len - 1));
        assert_int_equal(out.tail.damaged, i != last);
        /* It is missing as a whole. */
        char path[128];
        snprintf(path, sizeof path, "%s/%08u", f->path, i);
        assert_int_equal(unlink(path), 0);
        assert_int_equal(recover_folder(f, &out), i == 1 ? 0 : frames_before(f, i, 0));
        assert_int_equal(out.tail.damaged, i != last);
        /* Another one stands in its place. */
        if (i > 1) {
            struct buf other = read_segment(f, 1);
            write_segment(f, i, other.data, other.len);
            assert_int_equal(recover_folder(f, &out), frames_before(f, i, 0));
            assert_true(out.tail.damaged);
            buf_release(&other);
        }
        write_segment(f, i, whole.data, whole.len);
        buf_release(&whole);
    }
    assert_int_equal(recover_folder(f, &out), FRAMES);
}

/* A record is of its place and its journal: pieces of others are not taken. */
static void test_records_elsewhere(void **state)
{
    struct fixture *f = *state;
    struct recovery out;
    make_journal(f, 0);
    struct buf whole = read_segment(f, 1);
    size_t a = f->records[2].end, b = f->records[3].end;
    buf_put(&whole, whole.data + a, b - a);
    write_segment(f, 1, whole.data, whole.len);
    assert_int_equal(recover_folder(f, &out), FRAMES);
    assert_int_equal(out.tail.lost, b - a);
    buf_release(&whole);
}

static void test_ends(void **state)
{
    struct fixture *f = *state;
    const struct journal_options options = {0};
    const struct intake_start start = a_start();
    struct err e = {0}, cause = {.code = ERR_INPUT, .text = "nonsense"}, said;
    struct journal_record record;
    enum session_end end;
    enum journal_state found;
    struct journal *j = journal_create(f->path, &options, &e);
    must(j ? 0 : -1, &e);
    must(journal_look(f->path, &found, &e), &e);
    assert_int_equal(found, JOURNAL_IN_USE);
    assert_null(journal_reader_open(f->path, &e));
    assert_int_equal(e.code, ERR_OUTPUT);
    assert_null(journal_create(f->path, &options, &e));
    must(journal_put_start(j, &start, &e), &e);
    must(journal_put_end(j, SESSION_BROKEN, &cause, &e), &e);
    assert_false(journal_has_data(j));
    journal_close(j);
    must(journal_look(f->path, &found, &e), &e);
    assert_int_equal(found, JOURNAL_LEFT);
    struct journal_reader *r = journal_reader_open(f->path, &e);
    must(r ? 0 : -1, &e);
    assert_int_equal(journal_reader_next(r, &record, &e), 1);
    assert_int_equal(journal_read_end(&record, &end, &said, &e), -1);
    assert_int_equal(journal_reader_next(r, &record, &e), 1);
    must(journal_read_end(&record, &end, &said, &e), &e);
    assert_int_equal(end, SESSION_BROKEN);
    assert_string_equal(said.text, "nonsense");
    assert_int_equal(journal_reader_next(r, &record, &e), 0);
    journal_reader_close(r);
}

/* An empty folder can be what is left of one; a folder with no segment among its files is not. */
static void test_what_is_no_journal(void **state)
{
    struct fixture *f = *state;
    enum journal_state found;
    struct journal_left left;
    struct err e = {0};
    char other[128], path[160];
    snprintf(other, sizeof other, "%s/notes.journal", f->dir);
    snprintf(path, sizeof path, "%s/00000001", other);
    assert_int_equal(mkdir(other, 0700), 0);
    must(journal_look(other, &found, &e), &e);
    assert_int_equal(found, JOURNAL_DONE);
    assert_true(journal_is_left(AT_FDCWD, other, &left));
    assert_false(left.settled);
    assert_int_equal(left.id, journal_id(AT_FDCWD, other));
    usleep(50000); /* times of files are as fine as the kernel's ticks */
    assert_int_equal(mkdir(path, 0700), 0);
    assert_int_not_equal(left.id, journal_id(AT_FDCWD, other));
    must(journal_look(other, &found, &e), &e);
    assert_int_equal(found, JOURNAL_OTHER);
    assert_false(journal_is_left(AT_FDCWD, other, &left));
    assert_int_equal(rmdir(path), 0);
    assert_int_equal(rmdir(other), 0);
}

/* Killed while a saved trace's journal is removed: it is known to be of no use. */
static void test_removal_cut_off(void **state)
{
    struct fixture *f = *state;
    enum journal_state found;
    struct err e = {0};
    char path[160], other[128];
    make_journal(f, 600);
    uint32_t last = f->records[f->n - 1].segment;
    struct journal_options options = {0};
    struct journal *j;
    snprintf(other, sizeof other, "%s/y.journal", f->dir);
    j = journal_create(other, &options, &e);
    must(j ? 0 : -1, &e);
    must(journal_append(j, JOURNAL_SAVED, "y", 1, &e), &e);
    journal_close(j);
    must(journal_look(other, &found, &e), &e);
    assert_int_equal(found, JOURNAL_DONE);
    snprintf(path, sizeof path, "%s/00000001", other);
    assert_int_equal(unlink(path), 0);
    must(journal_look(other, &found, &e), &e);
    assert_int_equal(found, JOURNAL_DONE);
    assert_int_equal(rmdir(other), 0);
    must(journal_look(other, &found, &e), &e);
    assert_int_equal(found, JOURNAL_NONE);
    assert_int_equal(journal_id(AT_FDCWD, other), 0);
    for (uint32_t i = 1; i < last; i++) {
        must(journal_look(f->path, &found, &e), &e);
        assert_int_equal(found, JOURNAL_LEFT);
        snprintf(path, sizeof path, "%s/%08u", f->path, i);
        assert_int_equal(unlink(path), 0);
    }
}

/* Bytes of the client from a buffer with headroom, as a session has them. */
static int put_in_place(struct journal *j, const uint8_t *bytes, size_t n, struct err *e)
{
    uint8_t buffer[JOURNAL_HEADROOM + 4096];
    assert_in_range(n, 1, 4096);
    memcpy(buffer + JOURNAL_HEADROOM, bytes, n);
    int status = journal_append_received(j, buffer + JOURNAL_HEADROOM, n, e);
    assert_memory_equal(buffer + JOURNAL_HEADROOM, bytes, n);
    return status;
}

static void check_full_disk(struct fixture *f, bool in_place)
{
    const struct journal_options options = {0};
    const struct intake_start start = a_start();
    struct rlimit before, small;
    struct recovery out;
    struct err e = {0};
    struct journal *j = journal_create(f->path, &options, &e);
    must(j ? 0 : -1, &e);
    must(journal_put_start(j, &start, &e), &e);
    uint64_t begin = journal_bytes(j) + 16;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    void (*old)(int) = signal(SIGXFSZ, SIG_IGN);
    small = before;
    small.rlim_cur = begin + f->stream.len / 2;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    int status = in_place ? put_in_place(j, f->stream.data, f->stream.len, &e)
                          : journal_append(j, JOURNAL_RECEIVED, f->stream.data, f->stream.len, &e);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    signal(SIGXFSZ, old);
    assert_int_equal(status, -1);
    assert_int_equal(e.code, ERR_OUTPUT);
    /* And nothing any more, though there would be room again. */
    assert_int_equal(journal_append(j, JOURNAL_RECEIVED, "x", 1, &e), -1);
    assert_int_equal(journal_tick(j, &e), -1);
    assert_int_equal(journal_bytes(j), begin + f->stream.len / 2);
    journal_close(j);
    recover_folder(f, &out);
    assert_int_equal(out.received, f->stream.len / 2);
    assert_int_equal(out.tail.lost, 0);
    assert_true(out.frames >= FRAMES / 2 - 1);
}

/* As much of a client's bytes as fits is kept. */
static void test_full_disk(void **state)
{
    check_full_disk(*state, false);
}

static void test_full_disk_in_place(void **state)
{
    check_full_disk(*state, true);
}

/* Records as long as journal_piece says end where blocks of their segment do, and are whole. */
static void test_pieces(void **state)
{
    enum { BLOCK = 128, SEGMENT = 512 };
    struct fixture *f = *state;
    const struct journal_options options = {.segment_bytes = SEGMENT};
    const struct intake_start start = a_start();
    uint8_t queries[QUERY_PACKET_SIZE] = {0};
    struct recovery out;
    struct err e = {0};
    uint64_t closed = 0;
    uint32_t segment = 1;
    size_t full = 0;
    struct journal *j = journal_create(f->path, &options, &e);
    must(j ? 0 : -1, &e);
    must(journal_put_start(j, &start, &e), &e);
    for (size_t at = 0, n; at < f->stream.len; at += n) {
        size_t most = journal_piece(j, BLOCK), left = f->stream.len - at;
        assert_in_range(most, 1, BLOCK);
        n = left < most ? left : most;
        must(put_in_place(j, f->stream.data + at, n, &e), &e);
        note(f, j, &closed, &segment, at + n);
        bool is_first = f->n > 1 && f->records[f->n - 2].segment != segment;
        if (n == most)
            assert_int_equal(f->records[f->n - 1].end % BLOCK, 0);
        /* The first one of a segment is not cut short by what was before it. */
        if (is_first && n == most)
            full += most == BLOCK - 48 - JOURNAL_HEADROOM;
        if (f->n % 5 == 0)
            must(journal_append(j, JOURNAL_SENT, queries, sizeof queries, &e), &e);
    }
    assert_true(segment > 3 && full > 0);
    journal_close(j);
    recover_folder(f, &out);
    assert_int_equal(out.received, f->stream.len);
    assert_int_equal(out.frames, FRAMES);
    assert_int_equal(out.tail.lost, 0);
}

static uint64_t on_disk(const char *path, uint64_t *size)
{
    struct stat st;
    assert_int_equal(stat(path, &st), 0);
    *size = (uint64_t)st.st_size;
    return (uint64_t)st.st_blocks * 512;
}

/* Room on the disk is set aside ahead of what is written; what is not used does not stay. */
static void test_room_given_back(void **state)
{
    enum { PIECE = 1000, PIECES = 1200, SLACK = 64 << 10 };
    struct fixture *f = *state;
    const struct journal_options options = {.segment_bytes = 1 << 20};
    struct err e = {0};
    uint8_t piece[PIECE] = {1};
    uint64_t sizes[2], first, second;
    char paths[2][128];
    struct journal *j = journal_create(f->path, &options, &e);
    must(j ? 0 : -1, &e);
    for (int i = 0; i < PIECES; i++)
        must(journal_append(j, JOURNAL_RECEIVED, piece, sizeof piece, &e), &e);
    uint64_t bytes = journal_bytes(j);
    journal_close(j);
    for (int i = 0; i < 2; i++)
        snprintf(paths[i], sizeof paths[i], "%s/%08d", f->path, i + 1);
    first = on_disk(paths[0], &sizes[0]);
    second = on_disk(paths[1], &sizes[1]);
    assert_int_equal(sizes[0] + sizes[1], bytes);
    assert_true(sizes[0] <= 1 << 20 && sizes[1] > ((uint64_t)128 << 10));
    assert_in_range(first, 0, sizes[0] + SLACK);
    assert_in_range(second, 0, sizes[1] + SLACK);
}

static void test_names(void **state)
{
    struct fixture *f = *state;
    struct err e = {0};
    char longest[300], path[400];
    char *a = journal_name("x.tracy", NULL, &e), *b = journal_name("/x.tracy", NULL, &e);
    assert_string_equal(a, "x.tracy.journal");
    assert_string_equal(b, "/x.tracy.journal");
    free(a);
    free(b);
    /* Equal names in several folders share a spool folder. */
    snprintf(path, sizeof path, "%s/x.tracy", f->dir);
    a = journal_name(path, "/spool", &e);
    b = journal_name("/tmp/x.tracy", "/spool", &e);
    assert_int_equal(strncmp(a, "/spool/x.tracy-", 15), 0);
    assert_string_not_equal(a, b);
    free(a);
    free(b);
    memset(longest, 'y', sizeof longest);
    longest[255] = 0;
    snprintf(path, sizeof path, "%s/%s", f->dir, longest);
    a = journal_name(path, NULL, &e);
    path[strlen(path) - 1] = 'z';
    b = journal_name(path, NULL, &e);
    assert_true(strlen(a) <= strlen(f->dir) + 1 + 255);
    assert_string_not_equal(a, b);
    free(a);
    free(b);
    assert_null(journal_name("/no/such/folder/x", NULL, &e));
}

/* ---- readings of the client's memory, and the fuzzer's seeds */

static void seed_record(struct buf *out, enum journal_type type, const void *bytes, size_t n)
{
    assert_true(n < 65536);
    buf_u8(out, (uint8_t)type);
    buf_u16(out, (uint16_t)n);
    buf_put(out, bytes, n);
}

/* `n` bytes of a reading: a time, the values that are known, each a number of its own. */
static void seed_reading(struct buf *out, int64_t time, uint32_t known, size_t n)
{
    struct buf reading = {0};
    buf_i64(&reading, time);
    buf_u32(&reading, known);
    for (unsigned i = 0; i <= MEMORY_VALUES; i++)
        buf_f64(&reading, i + 1);
    seed_record(out, JOURNAL_MEMORY, reading.data, n);
    buf_release(&reading);
}

#define READING (12u + 8u * MEMORY_VALUES)
#define MEMORY_ALL ((1u << MEMORY_VALUES) - 1)

struct points {
    const struct trace *t;
    uint64_t first; /* of the first part */
};

static int count_points(void *ctx, const char *saved, struct err *e)
{
    struct points *p = ctx;
    (void)saved;
    (void)e;
    p->first = p->t->plots.points.len;
    return 0;
}

struct looks_of_part {
    const struct trace *t;
    size_t count;
    int64_t begin;
};

static int count_looks(void *ctx, const char *saved, struct err *e)
{
    struct looks_of_part *p = ctx;
    (void)saved;
    (void)e;
    p->count = p->t->looks.list.len;
    p->begin = p->count ? p->t->looks.list.at[0].begin : 0;
    return 0;
}

/* Records of a client whose first `half` bytes arrived. */
static void seed_begin(struct fixture *f, struct buf *records, size_t half)
{
    make_journal(f, 0);
    struct buf segment = read_segment(f, 1);
    buf_u8(records, JOURNAL_SEED_RECORDS);
    seed_record(records, JOURNAL_START, segment.data + SEGMENT_HEADER + RECORD_HEADER,
                load_u32(segment.data + SEGMENT_HEADER));
    seed_record(records, JOURNAL_RECEIVED, f->stream.data, half);
    buf_release(&segment);
}

/* Adds the bytes behind `half`, makes `t` of all records, and releases them. */
static void seed_play(struct fixture *f, struct buf *records, size_t half,
                      const struct recovery_options *options, struct trace *t)
{
    struct err e = {0};
    struct recovery out;
    seed_record(records, JOURNAL_RECEIVED, f->stream.data + half, f->stream.len - half);
    struct journal_reader *r =
        journal_reader_segment(open_segment(records->data, records->len), &e);
    must(r ? 0 : -1, &e);
    must(trace_init(t, NULL, &e), &e);
    must(recovery_run(r, t, options, &out, &e), &e);
    assert_int_equal(out.frames, FRAMES);
    journal_reader_close(r);
    buf_release(records);
}

/* A reading is of the part in which it was read, and one of another layout is none. */
static void test_readings(void **state)
{
    struct fixture *f = *state;
    const size_t half = f->frame_end[FRAMES / 2 - 1];
    const uint8_t frames[8] = {FRAMES / 2};
    struct buf records = {0};
    seed_begin(f, &records, half);
    seed_reading(&records, 3000, MEMORY_ALL, READING);
    seed_record(&records, JOURNAL_TURN, frames, sizeof frames);
    seed_reading(&records, 4000, ~0u, READING);
    seed_reading(&records, 4000, 3, READING);
    seed_reading(&records, 4000, MEMORY_ALL, 12 + 3 * 8); /* of an earlier version */
    for (size_t n = 0; n <= READING + 8; n++) {
        if (n < 12 || n > READING || (n - 12) % 8)
            seed_reading(&records, 4000, MEMORY_ALL, n);
    }
    struct trace t;
    struct points points = {.t = &t};
    const struct recovery_options options = {.part = count_points, .part_ctx = &points};
    seed_play(f, &records, half, &options, &t);
    assert_int_equal(points.first, MEMORY_VALUES);
    assert_int_equal(t.plots.points.len, MEMORY_VALUES + 2 + 3);
    assert_int_equal(t.plots.order.len, MEMORY_VALUES);
    assert_true(t.plots.list.at[MEMORY_PSS].sum == MEMORY_PSS + 1);
    trace_release(&t);
}

/* A look of `chunks` chunks at a time of the client, in pieces; `whole`: the last one is there. */
static void seed_look(struct buf *out, int64_t begin, size_t chunks, bool whole)
{
    struct page_looks looks = {0};
    struct buf bytes = {0};
    const struct look_area area = {.start = 0, .end = chunks << 21, .kind = AREA_HEAP};
    assert_true(vec_push(&looks.list,
                         ((struct page_look){.reason = LOOK_AT_PEAK,
                                             .begin = begin,
                                             .end = begin > INT64_MAX - 10 ? begin : begin + 10,
                                             .page = 4096})));
    struct page_look *look = &looks.list.at[0];
    assert_true(vec_push(&look->areas, area));
    for (size_t i = 0; i < chunks; i++)
        assert_true(page_look_set(look, i << 21, PAGE_PRESENT));
    page_looks_encode(&looks, &bytes);
    const size_t piece = 1000;
    for (size_t at = 0; at < bytes.len; at += piece) {
        bool last = bytes.len - at <= piece;
        struct buf record = {0};
        buf_u8(&record, last);
        buf_put(&record, bytes.data + at, last ? bytes.len - at : piece);
        if (whole || !last)
            seed_record(out, JOURNAL_PAGES, record.data, record.len);
        buf_release(&record);
    }
    buf_release(&bytes);
    page_looks_release(&looks);
}

/* A look is of the part in which it was taken; what is malformed or before the part is none. */
static void test_looks(void **state)
{
    struct fixture *f = *state;
    const size_t half = f->frame_end[FRAMES / 2 - 1], chunks = 1000;
    const uint8_t frames[8] = {FRAMES / 2}, nothing[] = {1, 0xff};
    struct buf records = {0};
    seed_begin(f, &records, half);
    seed_look(&records, 1000, 3, true);
    seed_record(&records, JOURNAL_TURN, frames, sizeof frames);
    seed_record(&records, JOURNAL_PAGES, nothing, sizeof nothing);
    seed_record(&records, JOURNAL_PAGES, nothing, 0);
    seed_look(&records, -1000, 3, true);
    seed_look(&records, 1 << 30, 3, true);
    seed_look(&records, 1 << 29, chunks, true);
    seed_look(&records, 1 << 29, chunks, false);
    struct trace t;
    struct looks_of_part first = {.t = &t};
    const struct recovery_options options = {.part = count_looks, .part_ctx = &first};
    seed_play(f, &records, half, &options, &t);
    assert_int_equal(first.count, 1);
    assert_int_equal(first.begin, 1000);
    /* The newest of its reason, in more than one piece. */
    assert_int_equal(t.looks.list.len, 1);
    assert_int_equal(t.looks.list.at[0].chunks.len, chunks);
    assert_int_equal(t.looks.list.at[0].end - t.looks.list.at[0].begin, 10);
    assert_true(t.looks.list.at[0].begin < 1 << 29);
    trace_release(&t);
}

/* Nothing of a client but readings of its memory is worth a trace, too. */
static void test_readings_alone(void **state)
{
    const struct intake_start start = a_start();
    const struct journal_options options = {0};
    struct fixture *f = *state;
    struct recovery out;
    struct buf reading = {0};
    struct err e = {0};
    seed_reading(&reading, 1, 1, READING);
    struct journal *j = journal_create(f->path, &options, &e);
    must(j ? 0 : -1, &e);
    must(journal_put_start(j, &start, &e), &e);
    must(journal_append(j, JOURNAL_MEMORY, reading.data + 3, READING, &e), &e);
    journal_close(j);
    struct journal_reader *r = journal_reader_open(f->path, &e);
    must(r ? 0 : -1, &e);
    assert_int_equal(recovery_look(r, &out, &e), 1);
    journal_reader_close(r);
    buf_release(&reading);
}

static void write_file(const char *path, const struct buf *b)
{
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(b->data, 1, b->len, file), b->len);
    assert_int_equal(fclose(file), 0);
}

static void write_seeds(struct fixture *f)
{
    struct buf raw = {0}, records = {0};
    (void)mkdir(SEEDS, 0777);
    make_journal(f, 0);
    struct buf segment = read_segment(f, 1);
    buf_u8(&raw, JOURNAL_SEED_RAW);
    buf_put(&raw, segment.data, segment.len);
    buf_u8(&records, JOURNAL_SEED_RECORDS);
    uint32_t start = load_u32(segment.data + SEGMENT_HEADER);
    uint8_t end[8] = {SESSION_STOPPED};
    seed_record(&records, JOURNAL_START, segment.data + SEGMENT_HEADER + RECORD_HEADER, start);
    seed_record(&records, JOURNAL_FACT, "tidemark.module=1000-2000 0 - /x", 32);
    seed_record(&records, JOURNAL_RECEIVED, f->stream.data, f->stream.len / 2);
    seed_record(&records, JOURNAL_SENT, segment.data, QUERY_PACKET_SIZE);
    seed_record(&records, JOURNAL_PART, "\1\0\0\0/x.tracy", 12);
    seed_record(&records, JOURNAL_RECEIVED, f->stream.data + f->stream.len / 2,
                f->stream.len - f->stream.len / 2);
    seed_look(&records, 1 << 30, 30, true);
    seed_reading(&records, INT64_MIN, ~0u, READING);
    seed_reading(&records, INT64_MAX, MEMORY_ALL, READING);
    seed_look(&records, INT64_MAX, 2, true);
    seed_record(&records, JOURNAL_END, end, sizeof end);
    write_file(SEEDS "segment", &raw);
    write_file(SEEDS "records", &records);
    buf_release(&raw);
    buf_release(&records);
    buf_release(&segment);
}

/* What is there must still be journals; TIDEMARK_WRITE_SEEDS=1 makes them anew. */
static void test_seeds(void **state)
{
    struct fixture *f = *state;
    if (getenv("TIDEMARK_WRITE_SEEDS"))
        write_seeds(f);
    for (int i = 0; i < 2; i++) {
        uint8_t bytes[16384];
        struct recovery out;
        struct err e = {0};
        FILE *file = fopen(i ? SEEDS "records" : SEEDS "segment", "rb");
        assert_non_null(file);
        size_t n = fread(bytes, 1, sizeof bytes, file);
        fclose(file);
        struct journal_reader *r = journal_reader_segment(open_segment(bytes, n), &e);
        must(r ? 0 : -1, &e);
        struct trace t;
        const struct recovery_options options = {0};
        const struct trace_options store = {0};
        assert_int_equal(recovery_look(r, &out, &e), 1);
        must(trace_init(&t, &store, &e), &e);
        must(recovery_run(r, &t, &options, &out, &e), &e);
        assert_int_equal(out.frames, FRAMES);
        assert_int_equal(out.end, i ? SESSION_STOPPED : SESSION_CUT_OFF);
        assert_int_equal(trace_fact(&t, "module", 0).len > 0, i);
        assert_int_equal(t.plots.points.len, i ? 15 : 0); /* of an earlier version */
        assert_int_equal(t.looks.list.len, i);            /* of the last part */
        trace_release(&t);
        journal_reader_close(r);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_whole, setup, teardown),
        cmocka_unit_test_setup_teardown(test_of_a_capture_that_goes_on, setup, teardown),
        cmocka_unit_test_setup_teardown(test_cut_at_every_byte, setup, teardown),
        cmocka_unit_test_setup_teardown(test_every_byte_changed, setup, teardown),
        cmocka_unit_test_setup_teardown(test_zeros_at_the_end, setup, teardown),
        cmocka_unit_test_setup_teardown(test_segments, setup, teardown),
        cmocka_unit_test_setup_teardown(test_records_elsewhere, setup, teardown),
        cmocka_unit_test_setup_teardown(test_ends, setup, teardown),
        cmocka_unit_test_setup_teardown(test_what_is_no_journal, setup, teardown),
        cmocka_unit_test_setup_teardown(test_removal_cut_off, setup, teardown),
        cmocka_unit_test_setup_teardown(test_full_disk, setup, teardown),
        cmocka_unit_test_setup_teardown(test_full_disk_in_place, setup, teardown),
        cmocka_unit_test_setup_teardown(test_pieces, setup, teardown),
        cmocka_unit_test_setup_teardown(test_room_given_back, setup, teardown),
        cmocka_unit_test_setup_teardown(test_names, setup, teardown),
        cmocka_unit_test_setup_teardown(test_readings, setup, teardown),
        cmocka_unit_test_setup_teardown(test_readings_alone, setup, teardown),
        cmocka_unit_test_setup_teardown(test_looks, setup, teardown),
        cmocka_unit_test_setup_teardown(test_seeds, setup, teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
