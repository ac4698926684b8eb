/*
 * Any text as one of the kernel: a number that is found stands there. Up to an empty line the text
 * is also /proc/PID/cgroup, and /proc/self/mountinfo after it. All of it is a note of a cgroup,
 * too.
 */

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "proc/cgroup_memory.h"
#include "proc/memory_text.h"
#include "proc/process_memory.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void numbers(const char *text)
{
    uint64_t n;
    if (memory_text_number(text, "RssAnon:", "", &n) && !strstr(text, "RssAnon:"))
        abort();
    if (memory_text_number(text, "some ", "total=", &n) && !strstr(text, "total="))
        abort();
    if (memory_text_stat(text, 12, &n) && !strchr(text, ')'))
        abort();
}

static void notes(const char *text)
{
    static struct process_memory p;
    if (process_memory_from_note(&p, view_of(text)) && p.cgroup.folder[0] != '/')
        abort();
}

static void folders(char *text)
{
    static struct cgroup_memory found;
    char *mounts = strstr(text, "\n\n");
    if (!mounts)
        return;
    mounts[1] = 0;
    cgroup_memory_find(text, mounts + 2, &found);
    if (found.version != CGROUP_NONE &&
        (strlen(found.folder) >= sizeof found.folder || strchr(found.folder, '\n')))
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = strndup((const char *)data, size);
    if (!text)
        abort();
    numbers(text);
    notes(text);
    folders(text);
    free(text);
    return 0;
}
