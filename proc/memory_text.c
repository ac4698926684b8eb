#include "proc/memory_text.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

static bool number_at(const char *p, uint64_t *number)
{
    p += strspn(p, " \t");
    if (!isdigit((unsigned char)*p))
        return false;
    errno = 0;
    unsigned long long n = strtoull(p, NULL, 10);
    *number = n;
    return errno == 0;
}

bool memory_text_number(const char *text, const char *line, const char *key, uint64_t *number)
{
    size_t n = strlen(line);
    while (strncmp(text, line, n) != 0) {
        text = strchr(text, '\n');
        if (!text)
            return false;
        text++;
    }
    const char *end = strchr(text, '\n'), *at = strstr(text + n, key);
    return at && (!end || at <= end) && number_at(at + strlen(key), number);
}

bool memory_text_stat(const char *text, unsigned n, uint64_t *number)
{
    const char *p = strrchr(text, ')');
    for (unsigned field = 2; p && field < n; field++)
        p = strchr(p + 1, ' ');
    return p && *p == ' ' && number_at(p, number);
}
