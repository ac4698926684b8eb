#include "trace/file/appendix.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include "base/bytes.h"
#include "base/cursor.h"
#include "base/file_io.h"

#define HEAD APPENDIX_HEAD
/*
 * The header of a raw block of N bytes (RFC 8878, 3.1.1.2) that is not the last one of its frame.
 */
#define RAW_BLOCK(N) ((N) << 3)
/* Pieces fit a block of 64 KiB, for which official readers have room (trace/file/container.h). */
#define PIECE 65512u
#define END_BYTES APPENDIX_END_PIECE
#define READ_BYTES ((size_t)256 << 10)

#define MAGIC "TidemarkAppendix"
#define MAGIC_BYTES (sizeof MAGIC - 1)

static uint64_t pieces_of(uint64_t len)
{
    return len / PIECE + (len % PIECE != 0);
}

static uint64_t size_for(uint64_t len)
{
    return len + pieces_of(len) * HEAD + APPENDIX_END;
}

static void put_head(uint8_t *to, uint32_t n)
{
    store_u32(to, n + 3);
    store_u24(to + 4, RAW_BLOCK(n));
}

static bool is_head(const uint8_t *from, uint32_t n)
{
    return load_u32(from) == n + 3 && load_u24(from + 4) == RAW_BLOCK(n);
}

bool appendix_piece(const uint8_t head[APPENDIX_HEAD], uint32_t *n)
{
    *n = load_u32(head) - 3;
    return *n > 0 && *n <= PIECE && is_head(head, *n);
}

bool appendix_goes_on(uint64_t len)
{
    return len % PIECE == 0;
}

/* Hashes the first `n` bytes. Returns -1 with errno on failure. */
static int hash_file(int fd, uint64_t n, uint64_t *hash)
{
    XXH3_state_t *state = XXH3_createState();
    uint8_t *bytes = malloc(READ_BYTES);
    int status = state && bytes ? 0 : -1;
    if (status != 0)
        errno = ENOMEM;
    else
        XXH3_64bits_reset(state);
    for (uint64_t at = 0; at < n && status == 0;) {
        size_t part = n - at < READ_BYTES ? (size_t)(n - at) : READ_BYTES;
        status = file_read(fd, bytes, part, at);
        if (status == 0)
            XXH3_64bits_update(state, bytes, part);
        at += part;
    }
    if (status == 0)
        *hash = XXH3_64bits_digest(state);
    free(bytes);
    XXH3_freeState(state);
    return status;
}

/* ---- writing */

static int write_pieces(int fd, const struct appendix_sums *end, const char *content)
{
    uint8_t *block = malloc(HEAD + PIECE);
    uint64_t at = end->trace_bytes;
    int status = block ? 0 : -1;
    if (!block)
        errno = ENOMEM;
    for (uint64_t done = 0; done < end->len && status == 0;) {
        uint32_t n = end->len - done < PIECE ? (uint32_t)(end->len - done) : PIECE;
        put_head(block, n);
        memcpy(block + HEAD, content + done, n);
        status = file_write(fd, block, HEAD + n, at);
        at += HEAD + n;
        done += n;
    }
    if (status == 0) {
        put_head(block, END_BYTES);
        memcpy(block + HEAD, MAGIC, MAGIC_BYTES);
        store_u64(block + HEAD + 16, end->trace_bytes);
        store_u64(block + HEAD + 24, end->len);
        store_u64(block + HEAD + 32, end->trace_hash);
        store_u64(block + HEAD + 40, end->hash);
        status = file_write(fd, block, APPENDIX_END, at);
    }
    free(block);
    return status;
}

int appendix_write(int fd, struct view content, struct err *e)
{
    struct stat st;
    struct appendix_sums end = {.len = content.len, .hash = XXH3_64bits(content.p, content.len)};
    if (fstat(fd, &st) != 0)
        return err_errno(e, ERR_OUTPUT, "cannot append to the trace");
    end.trace_bytes = (uint64_t)st.st_size;
    if (hash_file(fd, end.trace_bytes, &end.trace_hash) == 0 &&
        write_pieces(fd, &end, content.p) == 0)
        return 0;
    err_errno(e, ERR_OUTPUT, "cannot append to the trace");
    if (file_resize(fd, end.trace_bytes) != 0)
        return err_errno(e, ERR_OUTPUT, "cannot take back what was appended to the trace");
    return -1;
}

/* ---- sections */

/* The layout of earlier releases. */
static bool find_unlisted(struct cursor *c, enum appendix_kind kind, struct view *bytes)
{
    uint64_t n = cursor_u64(c);
    const uint8_t *figures = n <= cursor_left(c) ? cursor_take(c, (size_t)n) : NULL;
    *bytes = kind == APPENDIX_FIGURES ? (struct view){(const char *)figures, (size_t)n}
                                      : (struct view){(const char *)c->pos, cursor_left(c)};
    return figures && (kind == APPENDIX_FIGURES || kind == APPENDIX_NAMES);
}

bool appendix_find(const struct appendix *a, enum appendix_kind kind, struct view *bytes)
{
    struct cursor c = cursor_over(a->content, a->len), old = c;
    if (cursor_u64(&c) != APPENDIX_SECTIONS)
        return find_unlisted(&old, kind, bytes);
    while (cursor_left(&c) >= APPENDIX_SECTION_HEAD) {
        uint32_t which = cursor_u32(&c), version = cursor_u32(&c);
        uint64_t n = cursor_u64(&c);
        if (n > cursor_left(&c))
            return false;
        *bytes = (struct view){(const char *)cursor_take(&c, (size_t)n), (size_t)n};
        if (which == kind && version == APPENDIX_VERSION)
            return true;
    }
    return false;
}

/* ---- reading */

bool appendix_sums(const uint8_t end[APPENDIX_END_PIECE], struct appendix_sums *sums)
{
    if (memcmp(end, MAGIC, MAGIC_BYTES) != 0)
        return false;
    sums->trace_bytes = load_u64(end + 16);
    sums->len = load_u64(end + 24);
    sums->trace_hash = load_u64(end + 32);
    sums->hash = load_u64(end + 40);
    return sums->len <= INT64_MAX / 2 && sums->trace_bytes <= INT64_MAX / 2;
}

/* Joins the pieces. Returns 1, 0 when the bytes are not pieces, or -1 with errno. */
static int read_pieces(int fd, const struct appendix_sums *end, uint8_t *content)
{
    uint64_t at = end->trace_bytes;
    for (uint64_t done = 0; done < end->len;) {
        uint32_t n = end->len - done < PIECE ? (uint32_t)(end->len - done) : PIECE;
        uint8_t head[HEAD];
        if (file_read(fd, head, HEAD, at) != 0 || file_read(fd, content + done, n, at + HEAD) != 0)
            return -1;
        if (!is_head(head, n))
            return 0;
        at += HEAD + n;
        done += n;
    }
    return XXH3_64bits(content, end->len) == end->hash;
}

/* Like appendix_read, but sets errno. */
static int read_appendix(int fd, struct appendix *a)
{
    struct stat st;
    struct appendix_sums end;
    uint8_t last[APPENDIX_END];
    uint64_t hash;
    if (fstat(fd, &st) != 0)
        return -1;
    if (!S_ISREG(st.st_mode) || st.st_size < (off_t)APPENDIX_END)
        return 0;
    if (file_read(fd, last, sizeof last, (uint64_t)st.st_size - sizeof last) != 0)
        return -1;
    if (!is_head(last, END_BYTES) || !appendix_sums(last + HEAD, &end) ||
        end.trace_bytes + size_for(end.len) != (uint64_t)st.st_size)
        return 0;
    a->content = malloc(end.len + 1);
    if (!a->content)
        return -1;
    a->len = end.len;
    a->trace_bytes = end.trace_bytes;
    a->file_bytes = (uint64_t)st.st_size;
    int found = read_pieces(fd, &end, a->content);
    if (found == 1 && hash_file(fd, end.trace_bytes, &hash) != 0)
        found = -1;
    return found == 1 ? hash == end.trace_hash : found;
}

int appendix_read(int fd, struct appendix *a, struct err *e)
{
    *a = (struct appendix){0};
    int found = read_appendix(fd, a);
    if (found == 1)
        return 1;
    if (found < 0)
        err_errno(e, ERR_INPUT, "cannot read what was appended to the trace");
    free(a->content);
    *a = (struct appendix){0};
    return found;
}
