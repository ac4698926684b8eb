#include "server/capture/journal_read.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/cursor.h"
#include "base/tempfile.h"
#include "base/vec.h"
#include "protocol/handshake.h"
#include "server/capture/checkpoint.h"
#include "server/capture/journal_folder.h"
#include "server/capture/journal_format.h"

/* A folder must be unchanged for so long before it is recovered automatically. */
#define SETTLED_S 3

struct segment {
    uint32_t number;
    uint64_t size;
};

struct journal_reader {
    char *path; /* NULL: a single segment */
    struct journal_folder folder;
    VEC(struct segment) segments; /* sorted by number */
    size_t current;
    int fd; /* of the current segment; -1: not opened yet */
    struct segment_header header;
    uint64_t at;       /* offset in the current segment */
    uint64_t passed;   /* bytes of earlier segments */
    uint64_t received; /* bytes received from the client so far */
    bool ended;
    int state; /* the checkpoint at its beginning; -1: none */
    struct checkpoint checkpoint;
    struct err why; /* why an earlier checkpoint cannot be used */
    struct journal_tail tail;
    uint8_t *bytes; /* RECORD_HEADER + JOURNAL_RECORD_MAX */
};

/* ---- files */

/* Returns the bytes read, fewer at the end of the file; -1 with errno. */
static ssize_t read_at(int fd, void *bytes, size_t n, uint64_t at)
{
    uint8_t *p = bytes;
    size_t have = 0;
    while (have < n) {
        ssize_t got = pread(fd, p + have, n - have, (off_t)(at + have));
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return -1;
        if (got == 0)
            break;
        have += (size_t)got;
    }
    return (ssize_t)have;
}

static int cannot_read(const struct journal_reader *r, struct err *e)
{
    return err_errno(e, ERR_INPUT, "cannot read the journal%s%s", r->path ? " " : "",
                     r->path ? r->path : "");
}

/* The number in a segment's name; 0 for other files. */
static uint32_t segment_number(const char *name)
{
    if (strlen(name) != 8 || strspn(name, "0123456789") != 8)
        return 0;
    return (uint32_t)strtoul(name, NULL, 10);
}

static bool is_dots(const char *name)
{
    return strcmp(name, ".") == 0 || strcmp(name, "..") == 0;
}

static int by_number(const void *a, const void *b)
{
    const struct segment *x = a, *y = b;
    return x->number < y->number ? -1 : x->number > y->number;
}

/*
 * Opens the folder's entries from the first one on; the caller closes them. `fd` stays open. NULL
 * with errno.
 */
static DIR *open_list(int fd)
{
    int copy = openat(fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *d = copy < 0 ? NULL : fdopendir(copy);
    if (!d && copy >= 0)
        close(copy);
    return d;
}

static int list_segments(struct journal_reader *r, struct err *e)
{
    DIR *d = open_list(r->folder.fd);
    if (!d)
        return cannot_read(r, e);
    int status = 0;
    for (const struct dirent *entry; status == 0 && (entry = readdir(d));) {
        struct stat st;
        uint32_t number = segment_number(entry->d_name);
        if (number == 0 || fstatat(r->folder.fd, entry->d_name, &st, AT_SYMLINK_NOFOLLOW) != 0 ||
            !S_ISREG(st.st_mode))
            continue;
        r->tail.bytes += (uint64_t)st.st_size;
        if (!vec_push(&r->segments, (struct segment){number, (uint64_t)st.st_size}))
            status = err_no_memory(e, "the journal");
    }
    closedir(d);
    if (r->segments.len > 1)
        qsort(r->segments.at, r->segments.len, sizeof r->segments.at[0], by_number);
    return status;
}

static struct journal_reader *reader_new(const char *path, struct err *e)
{
    struct journal_reader *r = calloc(1, sizeof *r);
    if (r)
        *r = (struct journal_reader){.folder = JOURNAL_FOLDER_NONE, .fd = -1, .state = -1};
    if (r) {
        r->path = path ? strdup(path) : NULL;
        r->bytes = malloc(RECORD_HEADER + JOURNAL_RECORD_MAX);
    }
    if (r && r->bytes && (r->path || !path))
        return r;
    err_no_memory(e, "the journal");
    journal_reader_close(r);
    return NULL;
}

static int open_folder(struct journal_reader *r, const char *path, struct err *e)
{
    return journal_folder_open(&r->folder, path) != 0 ? cannot_read(r, e) : 0;
}

/* Opens the folder and locks it. */
static int open_locked(struct journal_reader *r, const char *path, struct err *e)
{
    if (open_folder(r, path, e) != 0)
        return -1;
    int locked = -1;
    /* A child that saved a part for a killed capture may hold the lock for a moment longer. */
    for (int tries = 0; tries < 20 && locked != 0; tries++) {
        if (tries > 0)
            (void)poll(NULL, 0, 25);
        locked = flock(r->folder.fd, LOCK_EX | LOCK_NB);
        if (locked != 0 && errno != EWOULDBLOCK)
            break; /* not every file system has locks */
    }
    if (locked != 0 && errno == EWOULDBLOCK)
        return err_set(e, ERR_OUTPUT, "the journal %s is in use: a capture is writing it", path);
    return 0;
}

/*
 * Chooses the first segment, or the earliest one with a checkpoint; those before it were about to
 * be removed. If there is neither, reading fails later.
 */
static void choose_beginning(struct journal_reader *r)
{
    struct err e = {0};
    if (r->segments.len == 0 || r->segments.at[0].number == 1)
        return;
    for (size_t i = 0; i < r->segments.len; i++) {
        r->state = checkpoint_open(r->folder.fd, r->segments.at[i].number, &r->checkpoint, &e);
        if (r->state >= 0) {
            for (size_t k = 0; k < i; k++)
                r->tail.bytes -= r->segments.at[k].size;
            r->segments.len -= i;
            memmove(r->segments.at, r->segments.at + i, r->segments.len * sizeof r->segments.at[0]);
            r->received = r->checkpoint.before;
            return;
        }
        if (errno != ENOENT && !r->why.code)
            r->why = e;
    }
}

static struct journal_reader *reader_open(const char *path, bool locked, struct err *e)
{
    struct journal_reader *r = reader_new(path, e);
    if (!r)
        return NULL;
    int status = locked ? open_locked(r, path, e) : open_folder(r, path, e);
    if (status == 0)
        status = list_segments(r, e);
    if (status == 0 && r->segments.len == 0)
        status = err_set(e, ERR_INPUT, "%s is no journal: there are no segments in it", path);
    if (status == 0) {
        choose_beginning(r);
        return r;
    }
    journal_reader_close(r);
    return NULL;
}

struct journal_reader *journal_reader_open(const char *path, struct err *e)
{
    return reader_open(path, true, e);
}

struct journal_reader *journal_reader_peek(const char *path, struct err *e)
{
    return reader_open(path, false, e);
}

struct journal_reader *journal_reader_segment(int fd, struct err *e)
{
    struct journal_reader *r = reader_new(NULL, e);
    struct stat st;
    int status = r ? 0 : -1;
    if (status == 0 && fstat(fd, &st) != 0)
        status = err_errno(e, ERR_INPUT, "cannot read the journal");
    if (status == 0 && !vec_push(&r->segments, (struct segment){1, (uint64_t)st.st_size}))
        status = err_no_memory(e, "the journal");
    if (status != 0) {
        close(fd);
        journal_reader_close(r);
        return NULL;
    }
    r->fd = fd;
    r->tail.bytes = (uint64_t)st.st_size;
    return r;
}

void journal_reader_close(struct journal_reader *r)
{
    if (!r)
        return;
    if (r->fd >= 0)
        close(r->fd);
    journal_folder_close(&r->folder);
    if (r->state >= 0)
        close(r->state);
    vec_release(&r->segments);
    free(r->bytes);
    free(r->path);
    free(r);
}

void journal_reader_rewind(struct journal_reader *r)
{
    if (r->path && r->fd >= 0) {
        close(r->fd);
        r->fd = -1;
    }
    r->current = 0;
    r->at = r->passed = 0;
    r->received = r->checkpoint.before;
    r->ended = false;
    r->tail = (struct journal_tail){.bytes = r->tail.bytes};
}

bool journal_reader_has_checkpoint(const struct journal_reader *r)
{
    return r->state >= 0;
}

int journal_reader_restore(const struct journal_reader *r, struct intake *to, struct err *e)
{
    return checkpoint_read(r->state, &r->checkpoint, to, e);
}

/* Whether `name` is the name of a segment, or of a checkpoint. */
static bool has_name_of(const char *name, bool segment)
{
    static const char suffix[] = CHECKPOINT_SUFFIX;
    size_t len = strlen(name), end = sizeof suffix - 1;
    return segment ? segment_number(name) != 0 : len > end && strcmp(name + len - end, suffix) == 0;
}

/* Removes all valid segments, or all valid checkpoints. */
static int remove_files(const struct journal_reader *r, bool segments)
{
    DIR *d = open_list(r->folder.fd);
    if (!d)
        return -1;
    for (const struct dirent *entry; (entry = readdir(d));) {
        if (has_name_of(entry->d_name, segments))
            (void)journal_file_remove(r->folder.fd, entry->d_name);
    }
    closedir(d);
    return 0;
}

static int remove_folder(const struct journal_folder *f, const char *path, struct err *e)
{
    if (journal_folder_remove(f) == 0)
        return 0;
    if (errno == ENOTEMPTY || errno == EEXIST)
        return err_set(e, ERR_OUTPUT,
                       "cannot remove %s: there are files in it that are no journal's", path);
    return err_errno(e, ERR_OUTPUT, "cannot remove %s", path);
}

int journal_remove_empty(const char *path, struct err *e)
{
    struct journal_folder f;
    if (journal_folder_open(&f, path) != 0)
        return errno == ENOENT ? 0 : err_errno(e, ERR_OUTPUT, "cannot remove %s", path);
    int status = journal_folder_is_ours(f.fd) ? remove_folder(&f, path, e)
                                              : err_set(e, ERR_OUTPUT, "%s is no journal", path);
    journal_folder_close(&f);
    return status;
}

int journal_reader_remove(struct journal_reader *r, struct err *e)
{
    /* Checkpoints first: without segments they could not be identified. */
    int status = remove_files(r, false);
    if (status == 0)
        status = remove_files(r, true);
    if (status != 0)
        err_errno(e, ERR_OUTPUT, "cannot remove %s", r->path);
    else
        status = remove_folder(&r->folder, r->path, e);
    journal_reader_close(r);
    return status;
}

const struct journal_tail *journal_reader_tail(const struct journal_reader *r)
{
    return &r->tail;
}

uint64_t journal_reader_at(const struct journal_reader *r)
{
    return r->passed + r->at;
}

/* ---- records */

/* Ends reading at the current offset: the rest cannot be used. */
static int cut(struct journal_reader *r, bool damaged, const char *why)
{
    const struct segment *s = &r->segments.at[r->current];
    r->ended = true;
    r->tail.damaged = damaged || r->current + 1 < r->segments.len;
    r->tail.lost = r->tail.bytes - (r->passed + r->at);
    snprintf(r->tail.why, sizeof r->tail.why, "segment %" PRIu32 ", offset %" PRIu64 ": %.100s",
             s->number, r->at, why);
    return 0;
}

static int end_of(struct journal_reader *r)
{
    r->ended = true;
    if (r->why.code) {
        r->tail.damaged = true;
        snprintf(r->tail.why, sizeof r->tail.why, "%.150s", r->why.text);
    }
    return 0;
}

/* 1: the segment's header is valid and continues the one before; 0: reading ends here. */
static int check_header(struct journal_reader *r, const uint8_t bytes[SEGMENT_HEADER])
{
    struct segment_header h = {
        .number = load_u32(bytes + 12), .id = load_u64(bytes + 16), .before = load_u64(bytes + 24)};
    if (memcmp(bytes, journal_magic, sizeof journal_magic) != 0)
        return cut(r, true, "no journal begins here");
    if (!segment_header_is_whole(bytes))
        return cut(r, true, "the segment's header is damaged");
    if (load_u32(bytes + 8) != JOURNAL_VERSION)
        return cut(r, true, "made by another version of tidemark");
    if (r->path && h.number != r->segments.at[r->current].number)
        return cut(r, true, "the segment has another's name");
    if (r->current > 0 && (h.id != r->header.id || h.number != r->header.number + 1))
        return cut(r, true, "the segment does not follow the one before");
    if (h.before != r->received || (r->state >= 0 && h.id != r->checkpoint.journal))
        return cut(r, true, r->why.code ? r->why.text : "segments before it are missing");
    r->header = h;
    r->at = SEGMENT_HEADER;
    return 1;
}

static int begin_segment(struct journal_reader *r, struct err *e)
{
    char name[SEGMENT_NAME];
    uint8_t bytes[SEGMENT_HEADER];
    if (r->path) {
        if (r->fd >= 0)
            close(r->fd);
        segment_name(r->segments.at[r->current].number, name);
        r->fd = openat(r->folder.fd, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    }
    ssize_t n = r->fd < 0 ? -1 : read_at(r->fd, bytes, sizeof bytes, 0);
    if (n < 0)
        return cannot_read(r, e);
    if (n < (ssize_t)sizeof bytes) /* the writer was killed right after it made the file */
        return cut(r, false, "the segment's header is not whole");
    return check_header(r, bytes);
}

static bool only_zeros(struct journal_reader *r, uint64_t from, uint64_t to)
{
    while (from < to) {
        size_t n = to - from < JOURNAL_RECORD_MAX ? (size_t)(to - from) : JOURNAL_RECORD_MAX;
        ssize_t got = read_at(r->fd, r->bytes, n, from);
        if (got <= 0)
            return false;
        for (ssize_t i = 0; i < got; i++) {
            if (r->bytes[i])
                return false;
        }
        from += (uint64_t)got;
    }
    return true;
}

/*
 * 1 when a whole record of `len` bytes is at the current offset. An incomplete last record was
 * being written; after a power failure there may be zeros.
 */
static int take_record(struct journal_reader *r, struct journal_record *out, struct err *e)
{
    uint64_t left = r->segments.at[r->current].size - r->at;
    ssize_t n = read_at(r->fd, r->bytes, RECORD_HEADER, r->at);
    if (n < 0)
        return cannot_read(r, e);
    if (n < (ssize_t)RECORD_HEADER)
        return cut(r, false, "a record is not whole");
    uint32_t len = load_u32(r->bytes), type = load_u32(r->bytes + 4);
    if (len <= JOURNAL_RECORD_MAX && RECORD_HEADER + len > left)
        return cut(r, false, "a record is not whole");
    if (len <= JOURNAL_RECORD_MAX) {
        n = read_at(r->fd, r->bytes + RECORD_HEADER, len, r->at + RECORD_HEADER);
        if (n < 0)
            return cannot_read(r, e);
        if (n == (ssize_t)len &&
            load_u64(r->bytes + 8) ==
                record_check(&r->header, r->at, type, r->bytes + RECORD_HEADER, len)) {
            *out = (struct journal_record){
                .type = (enum journal_type)type, .bytes = r->bytes + RECORD_HEADER, .len = len};
            r->at += RECORD_HEADER + len;
            r->received += type == JOURNAL_RECEIVED ? len : 0;
            return 1;
        }
    }
    bool last = len <= JOURNAL_RECORD_MAX && RECORD_HEADER + len == left;
    bool torn = last || only_zeros(r, r->at, r->segments.at[r->current].size);
    return cut(r, !torn, "a record is damaged");
}

int journal_reader_next(struct journal_reader *r, struct journal_record *record, struct err *e)
{
    for (;;) {
        if (r->ended)
            return 0;
        if (r->at == 0) {
            int status = begin_segment(r, e);
            if (status != 1)
                return status;
        }
        const struct segment *s = &r->segments.at[r->current];
        if (r->at < s->size)
            return take_record(r, record, e);
        if (r->current + 1 == r->segments.len)
            return end_of(r);
        r->passed += s->size;
        r->current++;
        r->at = 0;
    }
}

int journal_read_start(const struct journal_record *record, struct intake_start *start,
                       struct err *e)
{
    struct cursor c = cursor_over(record->bytes, record->len);
    uint32_t protocol = cursor_u32(&c);
    *start = (struct intake_start){.version = wire_version_find(protocol)};
    start->ask = cursor_u32(&c);
    start->space = cursor_u32(&c);
    uint32_t flags = cursor_u32(&c);
    start->strict = flags & JOURNAL_STRICT;
    start->as_released = flags & JOURNAL_AS_RELEASED;
    start->figures = flags & JOURNAL_FIGURES;
    const uint8_t *on_demand = cursor_take(&c, ON_DEMAND_SIZE);
    if (record->type != JOURNAL_START || !on_demand)
        return err_set(e, ERR_INPUT, "the journal does not begin with a connection");
    if (!start->version)
        return err_set(e, ERR_INPUT,
                       "the journal is of a client of protocol %" PRIu32 ", which is not known",
                       protocol);
    on_demand_parse(on_demand, &start->on_demand);
    if (start->space == 0 || start->space > QUERY_SPACE_MAX)
        start->space = QUERY_SPACE_MAX;
    return welcome_parse(start->version, c.pos, cursor_left(&c), &start->welcome, e);
}

int journal_read_end(const struct journal_record *record, enum session_end *end, struct err *cause,
                     struct err *e)
{
    struct cursor c = cursor_over(record->bytes, record->len);
    const uint8_t *head = cursor_take(&c, 2 * sizeof(uint32_t));
    if (!head)
        return err_set(e, ERR_INPUT, "the journal's end record is too short");
    uint32_t number = load_u32(head), code = load_u32(head + sizeof(uint32_t));
    if (number >= SESSION_END_COUNT || code > ERR_MEMORY)
        return err_set(e, ERR_INPUT, "the journal's end record has an unknown code");
    size_t n = cursor_left(&c);
    n = n < sizeof cause->text ? n : sizeof cause->text - 1;
    *end = (enum session_end)number;
    *cause = (struct err){.code = (enum err_code)code};
    if (n)
        memcpy(cause->text, c.pos, n);
    return 0;
}

/* ---- as a recording */

static int put_beginning(int fd, const char *dir, const struct intake_start *start, uint64_t *at,
                         struct err *e)
{
    uint8_t bytes[1 + WELCOME_SIZE_MAX + ON_DEMAND_SIZE] = {HANDSHAKE_WELCOME};
    size_t n = 1 + wire_version_welcome_size(start->version);
    welcome_encode(start->version, &start->welcome, bytes + 1);
    if (start->welcome.flags & WELCOME_ON_DEMAND) {
        on_demand_encode(&start->on_demand, bytes + n);
        n += ON_DEMAND_SIZE;
    }
    *at = n;
    return tempfile_write(fd, dir, bytes, n, 0, e);
}

static int put_received(struct journal_reader *r, int fd, const char *dir, uint64_t at,
                        struct err *e)
{
    struct journal_record record;
    int status;
    while ((status = journal_reader_next(r, &record, e)) == 1) {
        if (record.type != JOURNAL_RECEIVED)
            continue;
        if (tempfile_write(fd, dir, record.bytes, record.len, at, e) != 0)
            return -1;
        at += record.len;
    }
    return status;
}

int journal_read_recording(struct journal_reader *r, uint32_t *protocol, struct err *e)
{
    const char *dir = tempfile_dir(NULL);
    struct journal_record record;
    struct intake_start start;
    uint64_t at;
    int status = journal_reader_next(r, &record, e);
    if (status == 0)
        return err_set(e, ERR_INPUT, "nothing is in the journal");
    if (r->state >= 0)
        return err_set(e, ERR_INPUT,
                       "the journal has not all that the client sent: what was before "
                       "its first checkpoint is gone");
    if (status < 0 || journal_read_start(&record, &start, e) != 0)
        return -1;
    int fd = tempfile_open(dir, e);
    if (fd < 0)
        return -1;
    *protocol = start.version->protocol;
    if (put_beginning(fd, dir, &start, &at, e) == 0 && put_received(r, fd, dir, at, e) == 0)
        return fd;
    close(fd);
    return -1;
}

/* ---- looking for leftovers */

/* Whether the last segment records that the trace was saved. */
static bool says_saved(struct journal_reader *r)
{
    struct journal_record record = {0};
    uint8_t bytes[SEGMENT_HEADER];
    bool saved = false;
    struct err ignored = {0};
    r->current = r->segments.len - 1;
    r->segments.at[0] = r->segments.at[r->current];
    r->segments.len = 1;
    r->current = 0;
    char name[SEGMENT_NAME];
    segment_name(r->segments.at[0].number, name);
    r->fd = openat(r->folder.fd, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (r->fd < 0 || read_at(r->fd, bytes, sizeof bytes, 0) != (ssize_t)sizeof bytes)
        return false;
    r->received = load_u64(bytes + 24);
    if (check_header(r, bytes) != 1)
        return false;
    while (journal_reader_next(r, &record, &ignored) == 1)
        saved = record.type == JOURNAL_SAVED;
    return saved;
}

/*
 * Whether the folder is a journal's: it holds a segment, or it is empty, which an interrupted
 * creation or removal leaves. *bytes: the size of all files.
 */
static bool is_journals(DIR *d, uint64_t *bytes)
{
    struct stat st;
    int fd = dirfd(d);
    bool segment = false, empty = true;
    *bytes = 0;
    for (const struct dirent *entry; (entry = readdir(d));) {
        if (is_dots(entry->d_name))
            continue;
        empty = false;
        if (fstatat(fd, entry->d_name, &st, AT_SYMLINK_NOFOLLOW) != 0 || !S_ISREG(st.st_mode))
            continue;
        *bytes += (uint64_t)st.st_size;
        segment = segment ||
                  (has_name_of(entry->d_name, true) && journal_file_is_ours(fd, entry->d_name));
    }
    return segment || (empty && journal_folder_is_ours(fd));
}

uint64_t journal_id(int at, const char *path)
{
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    struct stat st;
    if (fstatat(at, path, &st, AT_SYMLINK_NOFOLLOW) != 0)
        return 0;
    const uint64_t about[] = {(uint64_t)st.st_dev, (uint64_t)st.st_ino, (uint64_t)st.st_ctim.tv_sec,
                              (uint64_t)st.st_ctim.tv_nsec};
    uint64_t id = XXH3_64bits_withSeed(name, strlen(name), XXH3_64bits(about, sizeof about));
    return id ? id : 1;
}

bool journal_is_left(int at, const char *name, struct journal_left *left)
{
    struct stat st;
    time_t now = time(NULL);
    bool is_left = false;
    int fd = openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *d = fd < 0 ? NULL : fdopendir(fd);
    if (!d && fd >= 0)
        close(fd);
    if (!d)
        return false;
    if (fstat(fd, &st) == 0 && flock(fd, LOCK_EX | LOCK_NB) == 0) {
        (void)flock(fd, LOCK_UN);
        left->settled = st.st_mtime > now || now - st.st_mtime >= SETTLED_S;
        left->id = journal_id(at, name);
        is_left = left->id && is_journals(d, &left->bytes);
    }
    closedir(d);
    return is_left;
}

/* Determines the state of the folder that the reader has open. */
static int look_inside(struct journal_reader *r, enum journal_state *state, struct err *e)
{
    uint64_t bytes;
    DIR *d = open_list(r->folder.fd);
    bool is = d && is_journals(d, &bytes);
    *state = JOURNAL_OTHER;
    if (d)
        closedir(d);
    if (!is)
        return 0;
    if (list_segments(r, e) != 0)
        return -1;
    *state = r->segments.len == 0 || says_saved(r) ? JOURNAL_DONE : JOURNAL_LEFT;
    return 0;
}

int journal_look(const char *path, enum journal_state *state, struct err *e)
{
    struct stat st;
    *state = JOURNAL_NONE;
    if (lstat(path, &st) != 0)
        return errno == ENOENT || errno == ENOTDIR ? 0 : err_errno(e, ERR_INPUT, "%s", path);
    *state = JOURNAL_OTHER;
    if (!S_ISDIR(st.st_mode))
        return 0;
    struct journal_reader *r = reader_new(path, e);
    if (!r)
        return -1;
    int status = open_locked(r, path, e);
    if (status != 0 && e->code == ERR_OUTPUT) {
        *state = JOURNAL_IN_USE;
        *e = (struct err){0};
        status = 0;
    } else if (status == 0) {
        status = look_inside(r, state, e);
    }
    journal_reader_close(r);
    return status;
}
