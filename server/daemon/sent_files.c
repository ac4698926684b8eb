#include "server/daemon/sent_files.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>

#include "base/buf.h"
#include "base/file_io.h"
#include "base/vec.h"

#define DIGITS 16u         /* hexadecimal digits of a key: a line of the file */
#define LINES_MAX 1000000u /* read from a file */
#define BYTES_MAX ((uint64_t)LINES_MAX * 32)
#define SPARE_LINES 64u    /* of removed files, before the file is rewritten */
#define KEPT ((uint64_t)1) /* flag: also in the file; the bits above are the scan's number */

void sent_files_release(struct sent_files *s)
{
    map_release(&s->known);
}

/* The device number is left out: it can change when the machine restarts. */
static uint64_t key_of(const struct stat *file)
{
    const uint64_t parts[] = {(uint64_t)file->st_ino, (uint64_t)file->st_size,
                              (uint64_t)file->st_mtim.tv_sec, (uint64_t)file->st_mtim.tv_nsec};
    return XXH3_64bits(parts, sizeof parts);
}

/* ---- the file */

static void put_line(struct buf *out, uint64_t key)
{
    buf_printf(out, "%016" PRIx64 "\n", key);
}

/* The value of a digit; DIGITS: not a digit. */
static unsigned digit(int c)
{
    return c >= '0' && c <= '9'   ? (unsigned)(c - '0')
           : c >= 'a' && c <= 'f' ? (unsigned)(c - 'a') + 10
                                  : DIGITS;
}

/* Skips lines that are not keys: they were truncated or are not the daemon's. */
static void read_lines(struct sent_files *s, FILE *f)
{
    uint64_t key = 0;
    unsigned digits = 0;
    bool strange = false;
    int c;
    s->cut = false;
    for (uint64_t n = 0; n < BYTES_MAX && s->lines < LINES_MAX && (c = getc(f)) != EOF; n++) {
        s->cut = c != '\n';
        if (s->cut) {
            strange |= digits == DIGITS || digit(c) == DIGITS;
            key = key << 4 | (digit(c) & 15);
            digits += digits < DIGITS;
            continue;
        }
        s->lines++;
        uint64_t *value = digits == DIGITS && !strange ? map_add(&s->known, key, NULL) : NULL;
        if (value)
            *value = KEPT;
        key = 0;
        digits = 0;
        strange = false;
    }
}

void sent_files_open(struct sent_files *s, int dir, uint64_t purpose)
{
    snprintf(s->name, sizeof s->name, ".sent-%016" PRIx64, purpose);
    int fd = openat(dir, s->name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    FILE *f = fd >= 0 ? fdopen(fd, "r") : NULL;
    if (!f && fd >= 0)
        close(fd);
    if (f) {
        read_lines(s, f);
        fclose(f);
    }
}

/*
 * If this fails, the next process repeats the work, which is harmless. A truncated line first gets
 * a line end, so that it does not spoil this one.
 */
static void append(struct sent_files *s, int dir, uint64_t key)
{
    struct buf line = {0};
    int fd = openat(dir, s->name,
                    O_WRONLY | O_APPEND | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0666);
    if (s->cut)
        buf_puts(&line, "\n");
    put_line(&line, key);
    ssize_t n = fd >= 0 && !line.failed ? write(fd, line.data, line.len) : 0;
    if (n > 0) {
        s->lines += 1 + s->cut;
        s->cut = n < (ssize_t)line.len;
    }
    if (fd >= 0)
        close(fd);
    buf_release(&line);
}

static void write_anew(struct sent_files *s, int dir)
{
    char fresh[SENT_NAME_SIZE + 8];
    struct buf text = {0};
    size_t iter = 0;
    uint64_t lines = 0;
    const struct map_slot *slot;
    while ((slot = map_next(&s->known, &iter))) {
        if (slot->value & KEPT)
            put_line(&text, slot->key), lines++;
    }
    snprintf(fresh, sizeof fresh, "%s.new", s->name);
    int fd = text.failed
                 ? -1
                 : openat(dir, fresh,
                          O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0666);
    bool whole = fd >= 0 && (text.len == 0 || file_write(fd, text.data, text.len, 0) == 0);
    if (fd >= 0)
        close(fd);
    if (whole && renameat(dir, fresh, dir, s->name) == 0) {
        s->lines = lines;
        s->cut = false;
    } else if (fd >= 0) {
        (void)unlinkat(dir, fresh, 0);
    }
    buf_release(&text);
}

/* ---- known files */

void sent_files_add(struct sent_files *s, int dir, const struct stat *file, bool keep)
{
    uint64_t key = key_of(file), *value = map_add(&s->known, key, NULL);
    bool kept = value && *value & KEPT;
    if (value)
        *value = s->look << 1 | (kept || keep ? KEPT : 0);
    if (keep && !kept && s->name[0])
        append(s, dir, key);
}

bool sent_files_have(struct sent_files *s, const struct stat *file)
{
    uint64_t *value = map_find(&s->known, key_of(file));
    if (value)
        *value = s->look << 1 | (*value & KEPT);
    return value != NULL;
}

void sent_files_begin_look(struct sent_files *s)
{
    s->look++;
}

void sent_files_end_look(struct sent_files *s, int dir)
{
    VEC(uint64_t) gone = {0};
    size_t iter = 0;
    uint64_t kept = 0;
    const struct map_slot *slot;
    while ((slot = map_next(&s->known, &iter))) {
        if (slot->value >> 1 != s->look)
            (void)vec_push(&gone, slot->key); /* else at a later scan */
        else
            kept += slot->value & KEPT;
    }
    for (size_t i = 0; i < gone.len; i++)
        map_remove(&s->known, gone.at[i]);
    vec_release(&gone);
    if (s->lines > 2 * kept + SPARE_LINES)
        write_anew(s, dir);
}
