#include "server/capture/journal.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/file_io.h"
#include "base/monotonic.h"
#include "protocol/handshake.h"
#include "server/capture/checkpoint.h"
#include "server/capture/journal_folder.h"
#include "server/capture/journal_format.h"

#define SYNC_NS 100000000LL

#define LOCK_TRIES 100
#define LOCK_PAUSE_MS 5

/* Disk space is reserved ahead of writing: as much as the file has already, within these bounds. */
#define ROOM_LEAST ((uint64_t)256 << 10)
#define ROOM_MOST ((uint64_t)8 << 20)

/*
 * Bytes per write. The kernel allocates the pages of one write together. Up to this size it reuses
 * pages of removed files; larger ranges are often new to a virtual machine, whose host must then
 * fault in each page. That tripled the cost.
 */
#define WRITE_PIECE ((size_t)32 << 10)

_Static_assert(JOURNAL_HEADROOM == RECORD_HEADER, "a record's header goes before its bytes");

struct journal {
    char *path;
    struct journal_folder folder; /* locked during writing */
    int fd;                       /* the newest segment */
    struct journal_options options;
    struct segment_header segment;
    uint64_t at;      /* offset of the next record */
    uint64_t room;    /* disk blocks are reserved up to here; UINT64_MAX: reserving does not work */
    uint64_t closed;  /* bytes of earlier segments and of checkpoints */
    uint32_t first;   /* oldest existing segment */
    struct buf start; /* payload of the first record */
    uint64_t received; /* bytes received from the client */
    bool unsynced;
    long long synced;   /* monotonic ns */
    struct err failure; /* the error that ended writing */
};

/* ---- names */

/* The canonical path of the folder of a path, or NULL with errno. */
static char *folder_of(const char *path)
{
    const char *slash = strrchr(path, '/');
    size_t len = slash ? (size_t)(slash - path) : 0;
    char *folder = slash ? strndup(len ? path : "/", len ? len : 1) : strdup(".");
    char *real = folder ? realpath(folder, NULL) : NULL;
    free(folder);
    return real;
}

char *journal_name(const char *output, const char *dir, struct err *e)
{
    static const char suffix[] = ".journal";
    const char *slash = strrchr(output, '/');
    const char *name = slash ? slash + 1 : output;
    const size_t most = 255 - sizeof suffix - 16;
    struct buf out = {0};
    char *folder = folder_of(output);
    if (!folder) {
        if (errno == ENOMEM)
            err_no_memory(e, "the journal's name");
        else
            err_errno(e, ERR_OUTPUT, "the folder of %s", output);
        return NULL;
    }
    if (dir)
        buf_printf(&out, "%s/", dir);
    else
        buf_put(&out, output, (size_t)(name - output));
    bool cut = strlen(name) > most;
    buf_put(&out, name, cut ? most : strlen(name));
    XXH64_hash_t hash = XXH3_64bits(name, strlen(name));
    if (dir) /* outputs of the same name in several folders differ */
        hash = XXH3_64bits_withSeed(folder, strlen(folder), hash);
    if (dir || cut)
        buf_printf(&out, "-%08x", (unsigned)hash);
    buf_printf(&out, suffix);
    char *text = out.failed ? NULL : strdup(buf_str(&out));
    if (!text)
        err_no_memory(e, "the journal's name");
    buf_release(&out);
    free(folder);
    return text;
}

/* ---- segments */

static int failed(struct journal *j, struct err *e)
{
    err_errno(&j->failure, ERR_OUTPUT, "cannot write the journal %s", j->path);
    if (e)
        *e = j->failure;
    return -1;
}

static int sync_now(struct journal *j)
{
    j->synced = monotonic_ns();
    if (!j->options.sync || !j->unsynced)
        return 0;
    j->unsynced = false;
    return file_sync_data(j->fd);
}

/*
 * Reserves blocks ahead with fallocate: writing into other blocks takes 1.5 to 2 times as long. The
 * file size does not change. If the call is not available or fails, writing goes on without.
 */
static void make_room(struct journal *j, uint64_t end)
{
    if (end <= j->room)
        return;
    uint64_t more = end < ROOM_LEAST ? ROOM_LEAST : end > ROOM_MOST ? ROOM_MOST : end;
    if (fallocate(j->fd, FALLOC_FL_KEEP_SIZE, (off_t)j->at, (off_t)(end - j->at + more)) == 0)
        j->room = end + more;
    else
        j->room = UINT64_MAX;
}

/* Releases the unused reserved blocks and closes the segment. */
static void end_segment(struct journal *j)
{
    if (j->room > j->at)
        (void)file_resize(j->fd, j->at);
    close(j->fd);
}

static int begin_segment(struct journal *j, uint32_t number)
{
    char name[SEGMENT_NAME];
    uint8_t header[SEGMENT_HEADER];
    struct segment_header segment = {.number = number, .id = j->segment.id, .before = j->received};
    segment_name(number, name);
    segment_header_encode(&segment, header);
    int fd = journal_file_make(j->folder.fd, name, header, sizeof header, j->options.sync);
    if (fd < 0)
        return -1;
    if (j->fd >= 0)
        end_segment(j);
    j->fd = fd;
    j->segment = segment;
    j->closed += j->at;
    j->at = SEGMENT_HEADER;
    j->room = 0;
    return 0;
}

/* ---- life */

static uint64_t new_id(void)
{
    uint64_t id;
    if (getrandom(&id, sizeof id, GRND_NONBLOCK) != (ssize_t)sizeof id)
        id = (uint64_t)monotonic_ns() << 20 ^ (uint64_t)getpid() ^ (uint64_t)time(NULL) << 40;
    return id;
}

/* A process that searches for leftover journals may hold the lock for a moment. */
static void lock_folder(struct journal *j)
{
    for (int tries = 0; tries < LOCK_TRIES; tries++) {
        if (flock(j->folder.fd, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK)
            return; /* not every file system has locks */
        (void)poll(NULL, 0, LOCK_PAUSE_MS);
    }
}

/*
 * Fails with ENOENT when a process that searches for leftovers removed the new, still empty folder.
 */
static int make_folder(struct journal *j)
{
    if (journal_folder_make(&j->folder, j->path) != 0)
        return -1;
    lock_folder(j);
    if (begin_segment(j, 1) == 0)
        return 0;
    int cause = errno;
    (void)journal_folder_remove(&j->folder);
    journal_folder_close(&j->folder);
    errno = cause;
    return -1;
}

static int open_folder(struct journal *j, struct err *e)
{
    for (int tries = 0; tries < LOCK_TRIES; tries++) {
        if (make_folder(j) == 0)
            return 0;
        if (errno != ENOENT)
            break;
    }
    if (errno == EEXIST)
        return err_set(e, ERR_OUTPUT,
                       "%s came to exist meanwhile: another capture writes to that output",
                       j->path);
    return err_errno(e, ERR_OUTPUT, "cannot make the journal %s", j->path);
}

struct journal *journal_create(const char *path, const struct journal_options *options,
                               struct err *e)
{
    struct journal *j = calloc(1, sizeof *j);
    if (j)
        *j = (struct journal){
            .path = strdup(path), .folder = JOURNAL_FOLDER_NONE, .fd = -1, .options = *options};
    if (!j || !j->path) {
        err_no_memory(e, "the journal");
        free(j);
        return NULL;
    }
    j->first = 1;
    if (j->options.segment_bytes == 0)
        j->options.segment_bytes = JOURNAL_SEGMENT_BYTES;
    j->segment.id = new_id();
    if (open_folder(j, e) == 0)
        return j;
    journal_close(j);
    return NULL;
}

void journal_close(struct journal *j)
{
    if (!j)
        return;
    if (j->fd >= 0) {
        (void)sync_now(j);
        end_segment(j);
    }
    journal_folder_close(&j->folder);
    buf_release(&j->start);
    free(j->path);
    free(j);
}

void journal_abandon(struct journal *j)
{
    close(j->fd);
    j->fd = -1;
    journal_folder_close(&j->folder);
}

void journal_remove(struct journal *j, const char *saved)
{
    char name[SEGMENT_NAME];
    /* If the process is killed during the removal, the rest is marked as saved. */
    if (saved)
        (void)journal_append(j, JOURNAL_SAVED, saved, strlen(saved), NULL);
    char state[CHECKPOINT_NAME];
    for (uint32_t i = j->first; i <= j->segment.number; i++) {
        checkpoint_name(i, state);
        (void)journal_file_remove(j->folder.fd, state);
    }
    for (uint32_t i = j->first; i <= j->segment.number; i++) {
        segment_name(i, name);
        (void)journal_file_remove(j->folder.fd, name);
    }
    (void)journal_folder_remove(&j->folder);
    journal_close(j);
}

bool journal_has_data(const struct journal *j)
{
    return j->received > 0;
}

uint64_t journal_received(const struct journal *j)
{
    return j->received;
}

uint64_t journal_bytes(const struct journal *j)
{
    return j->closed + j->at;
}

const char *journal_path(const struct journal *j)
{
    return j->path;
}

/* ---- records */

static void record_header_encode(const struct journal *j, uint32_t type, const void *bytes,
                                 uint32_t len, uint8_t out[RECORD_HEADER])
{
    store_u32(out, len);
    store_u32(out + 4, type);
    store_u64(out + 8, record_check(&j->segment, j->at, type, bytes, len));
}

/* Returns the bytes of the parts that were written; writing stops at the first failure. */
static size_t write_parts(struct journal *j, struct iovec *parts, int count)
{
    size_t done = 0;
    while (count > 0) {
        struct iovec piece = parts[0];
        if (count == 1 && piece.iov_len > WRITE_PIECE)
            piece.iov_len = WRITE_PIECE;
        ssize_t got = pwritev(j->fd, count == 1 ? &piece : parts, count, (off_t)(j->at + done));
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            break;
        done += (size_t)got;
        for (; count > 0 && (size_t)got >= parts->iov_len; parts++, count--)
            got -= (ssize_t)parts->iov_len;
        if (count > 0) {
            parts->iov_base = (uint8_t *)parts->iov_base + got;
            parts->iov_len -= (size_t)got;
        }
    }
    return done;
}

/* The disk is full: keeps the part of the client's bytes that fits; of other records nothing. */
static int end_short(struct journal *j, enum journal_type type, const void *bytes, size_t done,
                     struct err *e)
{
    uint8_t header[RECORD_HEADER];
    int cause = errno;
    if (type == JOURNAL_RECEIVED && done > RECORD_HEADER) {
        uint32_t len = (uint32_t)(done - RECORD_HEADER);
        record_header_encode(j, type, bytes, len, header);
        if (file_write(j->fd, header, sizeof header, j->at) == 0) {
            j->at += done;
            j->received += len;
        }
    }
    (void)file_resize(j->fd, j->at);
    errno = cause;
    return failed(j, e);
}

/* Whether a record of n bytes must go into a new segment. */
static bool is_segment_full(const struct journal *j, size_t n)
{
    return j->at > SEGMENT_HEADER && j->at + RECORD_HEADER + n > j->options.segment_bytes;
}

/* Appends a record. `header` is room for its header, directly before the bytes if `is_before`. */
static int append(struct journal *j, enum journal_type type, const void *bytes, size_t n,
                  uint8_t *header, bool is_before, struct err *e)
{
    if (j->failure.code) {
        if (e)
            *e = j->failure;
        return -1;
    }
    if (n > JOURNAL_RECORD_MAX)
        return err_set(e, ERR_OUTPUT, "a record of %zu bytes is too long for a journal", n);
    if (is_segment_full(j, n)) {
        if (sync_now(j) != 0 || begin_segment(j, j->segment.number + 1) != 0)
            return failed(j, e);
    }
    make_room(j, j->at + RECORD_HEADER + n);
    record_header_encode(j, type, bytes, (uint32_t)n, header);
    struct iovec parts[2] = {{.iov_base = header, .iov_len = RECORD_HEADER + (is_before ? n : 0)},
                             {.iov_base = (void *)bytes, .iov_len = n}};
    errno = ENOSPC; /* a write of 0 bytes means that */
    size_t done = write_parts(j, parts, is_before ? 1 : 2);
    if (done < RECORD_HEADER + n)
        return end_short(j, type, bytes, done, e);
    j->at += done;
    j->received += type == JOURNAL_RECEIVED ? n : 0;
    j->unsynced = true;
    return 0;
}

int journal_append(struct journal *j, enum journal_type type, const void *bytes, size_t n,
                   struct err *e)
{
    uint8_t header[RECORD_HEADER];
    return append(j, type, bytes, n, header, false, e);
}

int journal_append_received(struct journal *j, uint8_t *bytes, size_t n, struct err *e)
{
    return append(j, JOURNAL_RECEIVED, bytes, n, bytes - JOURNAL_HEADROOM, true, e);
}

size_t journal_piece(const struct journal *j, size_t block)
{
    uint64_t at = is_segment_full(j, 1) ? SEGMENT_HEADER : j->at;
    return block - (size_t)((at + RECORD_HEADER) & (block - 1));
}

int journal_cut(struct journal *j, struct intake *r, uint32_t *segment, struct err *e)
{
    uint64_t bytes = 0;
    char state[CHECKPOINT_NAME];
    const struct checkpoint c = {
        .segment = j->segment.number + 1, .journal = j->segment.id, .before = j->received};
    if (j->failure.code) {
        *e = j->failure;
        return -1;
    }
    if (checkpoint_write(j->folder.fd, &c, r, j->options.sync, &bytes, e) != 0)
        return -1;
    if (sync_now(j) != 0 || begin_segment(j, c.segment) != 0) {
        checkpoint_name(c.segment, state);
        (void)journal_file_remove(j->folder.fd, state);
        return failed(j, e);
    }
    j->closed += bytes;
    *segment = c.segment;
    return journal_append(j, JOURNAL_START, j->start.data, j->start.len, e);
}

void journal_forget(struct journal *j, uint32_t segment)
{
    char name[SEGMENT_NAME], state[CHECKPOINT_NAME];
    /*
     * Oldest first, so that a killed process leaves a journal that begins with a checkpoint or the
     * first segment.
     */
    for (; j->first < segment && j->first < j->segment.number; j->first++) {
        segment_name(j->first, name);
        checkpoint_name(j->first, state);
        j->closed -= (uint64_t)journal_file_remove(j->folder.fd, name);
        j->closed -= (uint64_t)journal_file_remove(j->folder.fd, state);
    }
}

int journal_tick(struct journal *j, struct err *e)
{
    if (j->failure.code) {
        if (e)
            *e = j->failure;
        return -1;
    }
    if (!j->options.sync || monotonic_ns() - j->synced < SYNC_NS)
        return 0;
    return sync_now(j) != 0 ? failed(j, e) : 0;
}

int journal_put_start(struct journal *j, const struct intake_start *start, struct err *e)
{
    uint8_t welcome[WELCOME_SIZE_MAX], on_demand[ON_DEMAND_SIZE];
    struct buf out = {0};
    welcome_encode(start->version, &start->welcome, welcome);
    on_demand_encode(&start->on_demand, on_demand);
    buf_u32(&out, start->version->protocol);
    buf_u32(&out, start->ask);
    buf_u32(&out, start->space);
    buf_u32(&out, (start->strict ? JOURNAL_STRICT : 0) |
                      (start->as_released ? JOURNAL_AS_RELEASED : 0) |
                      (start->figures ? JOURNAL_FIGURES : 0));
    buf_put(&out, on_demand, sizeof on_demand);
    buf_put(&out, welcome, wire_version_welcome_size(start->version));
    buf_release(&j->start);
    j->start = out;
    return out.failed ? err_no_memory(e, "the journal")
                      : journal_append(j, JOURNAL_START, out.data, out.len, e);
}

int journal_put_end(struct journal *j, enum session_end end, const struct err *cause, struct err *e)
{
    struct buf out = {0};
    buf_u32(&out, (uint32_t)end);
    buf_u32(&out, (uint32_t)cause->code);
    buf_puts(&out, cause->code ? cause->text : "");
    int status = out.failed ? err_no_memory(e, "the journal")
                            : journal_append(j, JOURNAL_END, out.data, out.len, e);
    buf_release(&out);
    return status;
}

int journal_put_part(struct journal *j, uint32_t number, const char *path, struct err *e)
{
    struct buf out = {0};
    buf_u32(&out, number);
    buf_puts(&out, path);
    int status = out.failed ? err_no_memory(e, "the journal")
                            : journal_append(j, JOURNAL_PART, out.data, out.len, e);
    buf_release(&out);
    return status;
}
