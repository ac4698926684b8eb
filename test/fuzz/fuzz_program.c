/*
 * Any bytes as the program that `tidemark run` is asked for: a script, whose interpreter is the
 * file itself or none at all, an ELF program, or neither. What is found has its text, scripts end,
 * and no descriptor stays open.
 */

#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "run/program.h"

#define OURS 200 /* where the file is open, so that seeds can name it */
#define PATH "/proc/self/fd/200"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check(bool ok)
{
    if (!ok)
        abort();
}

/* Which file the next thing opened gets: one more for each that was left open. */
static int next_descriptor(void)
{
    int fd = dup(STDERR_FILENO);
    check(fd >= 0 && close(fd) == 0);
    return fd;
}

static bool is_script(const uint8_t *data, size_t size)
{
    return size > 2 && memcmp(data, "#!", 2) == 0;
}

/* Other files of this machine are none of the target's business. */
static bool names_other_file(const uint8_t *data, size_t size)
{
    size_t at = 2;
    if (!is_script(data, size))
        return false;
    while (at < size && (data[at] == ' ' || data[at] == '\t'))
        at++;
    size_t left = size - at, len = strlen(PATH);
    if (left == 0 || strchr(" \t\n", data[at]))
        return false;
    return left <= len || memcmp(data + at, PATH, len) != 0 || !strchr(" \t\n", data[at + len]);
}

static void check_found(const struct program *p, const uint8_t *data, size_t size)
{
    struct buf text = {0};
    check(strcmp(p->path, PATH) == 0 && strcmp(p->image, PATH) == 0);
    check(memchr(p->allocator, 0, sizeof p->allocator) != NULL);
    check(!p->allocator[0] || p->obstacle == PROGRAM_ALLOCATOR ||
          p->obstacle == PROGRAM_SANITIZER || p->obstacle == PROGRAM_FINE);
    if (size < 52 || memcmp(data, "\177ELF", 4) != 0)
        check(p->obstacle == PROGRAM_UNKNOWN);
    program_explain(p, &text);
    check(!text.failed && (text.len > 0) == (p->obstacle != PROGRAM_FINE));
    buf_release(&text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct program p;
    struct err e = {0};
    if (names_other_file(data, size))
        return 0;
    int fd = memfd_create("program", MFD_CLOEXEC);
    check(fd >= 0 && write(fd, data, size) == (ssize_t)size);
    check(dup2(fd, OURS) == OURS);
    close(fd);
    int before = next_descriptor();
    check(program_find(&p, PATH, &e) == 0);
    check(next_descriptor() == before);
    check_found(&p, data, size);
    program_release(&p);
    close(OURS);
    return 0;
}
