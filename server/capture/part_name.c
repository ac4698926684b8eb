#include "server/capture/part_name.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/file_io.h"

/* The output's suffix, such as ".tracy"; "" when its name has no dot. */
static const char *suffix_of(const char *output)
{
    const char *slash = strrchr(output, '/');
    const char *dot = strrchr(slash ? slash : output, '.');
    return dot ? dot : output + strlen(output);
}

char *name_with(const char *output, const char *word)
{
    size_t len = strlen(output) + strlen(word) + 2;
    const char *suffix = suffix_of(output);
    char *name = malloc(len);
    if (name)
        snprintf(name, len, "%.*s.%s%s", (int)(suffix - output), output, word, suffix);
    return name;
}

char *part_name(const char *output, unsigned n)
{
    char number[16];
    if (n == 1)
        return strdup(output);
    snprintf(number, sizeof number, "%u", n);
    return name_with(output, number);
}

bool part_name_is(const char *output, const char *path)
{
    const char *suffix = suffix_of(output);
    size_t stem = (size_t)(suffix - output);
    if (strncmp(output, path, stem) != 0)
        return false;
    path += stem;
    size_t digits = *path == '.' ? strspn(path + 1, "0123456789") : 0;
    return strcmp(path + (digits ? 1 + digits : 0), suffix) == 0;
}

char *part_name_unused(const char *folder, const char *name)
{
    struct buf output = {0};
    char *path = NULL;
    buf_printf(&output, "%s/%s", folder, name);
    for (unsigned n = 1; !output.failed && n < PART_NAMES_MAX; n++) {
        free(path);
        path = part_name(buf_str(&output), n);
        if (!path || !file_is_there(path))
            break;
    }
    buf_release(&output);
    return path;
}
