#include "server/capture/checkpoint.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <xxhash.h>

#include "base/bytes.h"
#include "base/file_io.h"
#include "server/capture/journal_folder.h"
#include "server/capture/journal_format.h"

#define VERSION 2u
#define READ_SIZE ((size_t)256 << 10)

void checkpoint_name(uint32_t segment, char out[CHECKPOINT_NAME])
{
    snprintf(out, CHECKPOINT_NAME, "%08" PRIu32 CHECKPOINT_SUFFIX, segment);
}

static void header_encode(const struct checkpoint *c, uint8_t out[CHECKPOINT_HEADER])
{
    memset(out, 0, CHECKPOINT_HEADER);
    memcpy(out, checkpoint_magic, sizeof checkpoint_magic);
    store_u32(out + 8, VERSION);
    store_u32(out + 12, c->segment);
    store_u64(out + 16, c->journal);
    store_u64(out + 24, c->before);
    store_u64(out + 32, c->len);
    store_u64(out + 40, c->check);
    store_u64(out + 56, XXH3_64bits(out, 56));
}

/* ---- writing */

static int write_header(int fd, const struct checkpoint *c, struct err *e)
{
    uint8_t header[CHECKPOINT_HEADER];
    header_encode(c, header);
    if (file_write(fd, header, sizeof header, 0) != 0)
        return err_errno(e, ERR_OUTPUT, "cannot write a checkpoint");
    return 0;
}

static int write_state(int fd, struct checkpoint *c, struct intake *r, struct err *e)
{
    struct snapshot s;
    if (snapshot_write(&s, fd, CHECKPOINT_HEADER, e) != 0)
        return -1;
    intake_snapshot(&s, r);
    int status = snapshot_end(&s);
    c->len = s.at - CHECKPOINT_HEADER;
    c->check = s.check;
    snapshot_release(&s);
    return status;
}

int checkpoint_write(int dir, const struct checkpoint *c, struct intake *r, bool sync,
                     uint64_t *bytes, struct err *e)
{
    struct checkpoint whole = *c;
    uint8_t header[CHECKPOINT_HEADER];
    char name[CHECKPOINT_NAME];
    checkpoint_name(c->segment, name);
    header_encode(c, header);
    int fd = journal_file_make(dir, name, header, sizeof header, false);
    if (fd < 0)
        return err_errno(e, ERR_OUTPUT, "cannot make a checkpoint");
    int status = write_state(fd, &whole, r, e);
    if (status == 0)
        status = write_header(fd, &whole, e);
    if (status == 0 && sync && (file_sync_data(fd) != 0 || file_sync(dir) != 0))
        status = err_errno(e, ERR_OUTPUT, "cannot write a checkpoint");
    close(fd);
    *bytes = CHECKPOINT_HEADER + whole.len;
    if (status != 0)
        (void)unlinkat(dir, name, 0);
    return status;
}

/* ---- reading */

static int refuse(struct err *e, uint32_t segment, const char *why)
{
    return err_set(e, ERR_INPUT, "the checkpoint of segment %" PRIu32 ": %s", segment, why);
}

static int check_state(int fd, const struct checkpoint *c, struct err *e)
{
    XXH3_state_t *hash = XXH3_createState();
    uint8_t *part = malloc(READ_SIZE);
    int status =
        hash && part && XXH3_64bits_reset(hash) == XXH_OK ? 0 : err_no_memory(e, "a checkpoint");
    for (uint64_t at = 0; status == 0 && at < c->len;) {
        size_t want = c->len - at < READ_SIZE ? (size_t)(c->len - at) : READ_SIZE;
        ssize_t n = pread(fd, part, want, (off_t)(CHECKPOINT_HEADER + at));
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0) {
            status = refuse(e, c->segment, "it is not whole");
            break;
        }
        XXH3_64bits_update(hash, part, (size_t)n);
        at += (uint64_t)n;
    }
    if (status == 0 && XXH3_64bits_digest(hash) != c->check)
        status = refuse(e, c->segment, "it is damaged");
    XXH3_freeState(hash);
    free(part);
    return status;
}

static int read_header(int fd, uint32_t segment, struct checkpoint *out, struct err *e)
{
    uint8_t b[CHECKPOINT_HEADER];
    struct stat st;
    ssize_t n = pread(fd, b, sizeof b, 0);
    if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode) || n != (ssize_t)sizeof b ||
        !checkpoint_header_is_whole(b))
        return refuse(e, segment, "its header is damaged");
    if (load_u32(b + 8) != VERSION)
        return refuse(e, segment, "made by another version of tidemark");
    *out = (struct checkpoint){.segment = load_u32(b + 12),
                               .journal = load_u64(b + 16),
                               .before = load_u64(b + 24),
                               .len = load_u64(b + 32),
                               .check = load_u64(b + 40)};
    if (out->segment != segment || (uint64_t)st.st_size < CHECKPOINT_HEADER ||
        out->len != (uint64_t)st.st_size - CHECKPOINT_HEADER)
        return refuse(e, segment, "it is not whole");
    return 0;
}

int checkpoint_open(int dir, uint32_t segment, struct checkpoint *out, struct err *e)
{
    char name[CHECKPOINT_NAME];
    checkpoint_name(segment, name);
    int fd = openat(dir, name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    if (fd < 0) {
        int cause = errno;
        err_errno(e, ERR_INPUT, "the checkpoint of segment %" PRIu32, segment);
        errno = cause;
        return -1;
    }
    if (read_header(fd, segment, out, e) == 0 && check_state(fd, out, e) == 0)
        return fd;
    close(fd);
    errno = EINVAL;
    return -1;
}

int checkpoint_read(int fd, const struct checkpoint *c, struct intake *r, struct err *e)
{
    struct snapshot s;
    if (snapshot_read(&s, fd, CHECKPOINT_HEADER, c->len, e) != 0)
        return -1;
    intake_snapshot(&s, r);
    int status = snapshot_end(&s);
    snapshot_release(&s);
    return status;
}
