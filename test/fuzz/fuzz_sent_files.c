/*
 * Any bytes as the file that says which traces of a folder were sent. Its lines that are keys are
 * known, nothing else is. What is added is known to the next process, too, whatever the file was,
 * and after it was written anew.
 */

#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/file_io.h"
#include "server/daemon/sent_files.h"

#define PURPOSE UINT64_C(0x1234)
#define NAME ".sent-0000000000001234"
#define DIGITS 16u

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static char folder[] = "/dev/shm/tidemark-fuzz-XXXXXX";

static void remove_folder(void)
{
    char path[128];
    snprintf(path, sizeof path, "%s/" NAME, folder);
    (void)unlink(path);
    (void)rmdir(folder);
}

static int open_folder(void)
{
    static int dir = -1;
    if (dir < 0) {
        if (!mkdtemp(folder) || (dir = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC)) < 0)
            abort();
        atexit(remove_folder);
    }
    return dir;
}

static void put_file(int dir, const uint8_t *data, size_t size)
{
    int fd = openat(dir, NAME, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0 || (size && file_write(fd, data, size, 0) != 0))
        abort();
    close(fd);
}

/* Whether `line`, of DIGITS bytes, is a key. */
static bool is_key(const uint8_t *line, uint64_t *key)
{
    char text[DIGITS + 1] = "", again[DIGITS + 1];
    memcpy(text, line, DIGITS);
    *key = strtoull(text, NULL, 16);
    snprintf(again, sizeof again, "%016" PRIx64, *key);
    return memcmp(again, line, DIGITS) == 0;
}

static void expect_lines(const struct sent_files *s, const uint8_t *data, size_t size)
{
    const uint8_t *end;
    uint64_t key, keys = 0;
    for (; size && (end = memchr(data, '\n', size));
         size -= (size_t)(end + 1 - data), data = end + 1) {
        if (end - data != DIGITS || !is_key(data, &key))
            continue;
        keys++;
        if (!map_find(&s->known, key))
            abort();
    }
    if (s->known.count > keys || (keys && !s->known.count))
        abort();
}

static struct stat file_number(unsigned n)
{
    return (struct stat){.st_ino = n + 1, .st_size = 1000 * n, .st_mtim = {.tv_sec = 77}};
}

static void expect(struct sent_files *s, unsigned from, unsigned to)
{
    for (unsigned i = from; i < to; i++) {
        struct stat file = file_number(i);
        if (!sent_files_have(s, &file))
            abort();
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    int dir = open_folder();
    unsigned added = size ? data[0] % 4u + 1 : 1;
    struct sent_files first = {0}, second = {0}, third = {0};
    put_file(dir, data, size);
    sent_files_open(&first, dir, PURPOSE);
    expect_lines(&first, data, size);
    for (unsigned i = 0; i < added; i++) {
        struct stat file = file_number(i);
        sent_files_add(&first, dir, &file, true);
    }
    sent_files_open(&second, dir, PURPOSE);
    if (second.known.count < first.known.count)
        abort();
    /* All but the last of them have gone from the folder. */
    sent_files_begin_look(&second);
    expect(&second, added - 1, added);
    sent_files_end_look(&second, dir);
    if (second.known.count != 1)
        abort();
    sent_files_open(&third, dir, PURPOSE);
    expect(&third, added - 1, added);
    if (third.lines != second.lines)
        abort();
    sent_files_release(&first);
    sent_files_release(&second);
    sent_files_release(&third);
    return 0;
}
