/*
 * Any text as what /proc/PID/stat says, and any name in one: it ends where the last ')' is,
 * whatever the process calls itself. What is found is what stands there.
 */

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "run/process_stat.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void any_text(const uint8_t *data, size_t size)
{
    struct process_stat s;
    char *text = strndup((const char *)data, size), said[64];
    if (!text)
        abort();
    if (process_stat_parse(text, &s)) {
        const char *end = strrchr(text, ')');
        const char *number = end + 4;
        number += strspn(number, "0");
        int n = snprintf(said, sizeof said, "%d", s.parent);
        if (s.parent < 0 || end[2] != s.state ||
            (s.parent > 0 && strncmp(number, said, (size_t)n) != 0))
            abort();
    }
    free(text);
}

static void any_name(const uint8_t *data, size_t size)
{
    struct process_stat s;
    char *name = strndup((const char *)data, size);
    size_t room = size + 64;
    char *text = malloc(room);
    int parent = size ? data[size - 1] * 8388608 / 2 : 1;
    if (!name || !text)
        abort();
    snprintf(text, room, "12345 (%s) T %d 1 1 0 -1 4194560 139 0", name, parent);
    if (!process_stat_parse(text, &s) || s.state != 'T' || s.parent != parent)
        abort();
    free(text);
    free(name);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    any_text(data, size);
    any_name(data, size);
    return 0;
}
