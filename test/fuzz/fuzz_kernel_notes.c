/*
 * Any bytes as the notes beside a recording: what is read is written and read again as the same.
 */

#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "run/kernel_notes.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A cgroup that is not there cannot be written again. */
static int write_again(void *ctx, struct kernel_note *note, struct err *e)
{
    struct process_memory of;
    if (note->kind == NOTE_READING)
        return kernel_notes_add_reading(ctx, &note->reading, e);
    if (note->kind == NOTE_LOOK)
        return kernel_notes_add_look(ctx, &note->look, e);
    return process_memory_from_note(&of, note->cgroup) ? kernel_notes_add_cgroup(ctx, &of, e) : 0;
}

/* Reads `from`; returns a file with its whole notes. */
static struct kernel_notes copy(int from, int *status)
{
    struct kernel_notes to = {.fd = memfd_create("notes", MFD_CLOEXEC)};
    struct err e = {0};
    *status = kernel_notes_read(from, write_again, &to, &e);
    if (to.fd < 0 || e.code == ERR_OUTPUT)
        abort();
    return to;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    int status;
    struct kernel_notes any = {.fd = memfd_create("notes", MFD_CLOEXEC)};
    if (any.fd < 0 || write(any.fd, data, size) != (ssize_t)size)
        abort();
    struct kernel_notes first = copy(any.fd, &status), second = copy(first.fd, &status);
    if (status != 0 || first.size != second.size)
        abort();
    char *one = malloc(first.size + 1), *two = malloc(first.size + 1);
    if (!one || !two || pread(first.fd, one, first.size, 0) != (ssize_t)first.size ||
        pread(second.fd, two, first.size, 0) != (ssize_t)first.size ||
        memcmp(one, two, first.size) != 0)
        abort();
    free(one);
    free(two);
    kernel_notes_close(&any);
    kernel_notes_close(&first);
    kernel_notes_close(&second);
    return 0;
}
