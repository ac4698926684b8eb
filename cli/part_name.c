#include "cli/part_name.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

char *name_with(const char *output, const char *word)
{
    size_t len = strlen(output) + strlen(word) + 2;
    const char *slash = strrchr(output, '/');
    const char *dot = strrchr(slash ? slash : output, '.');
    int stem = dot ? (int)(dot - output) : (int)strlen(output);
    char *name = malloc(len);
    if (name)
        snprintf(name, len, "%.*s.%s%s", stem, output, word, dot ? dot : "");
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
