#include "cli/options.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zstd.h>

#include "base/format.h"

bool option_u64(const char *text, const char *option, uint64_t least, uint64_t most, uint64_t *out,
                struct err *e)
{
    char *end;
    errno = 0;
    unsigned long long n = strtoull(text, &end, 10);
    if (errno || end == text || *end || text[0] < '0' || text[0] > '9' || n < least || n > most) {
        err_set(e, ERR_USAGE, "%s takes a number from %llu to %llu, not '%s'", option,
                (unsigned long long)least, (unsigned long long)most, text);
        return false;
    }
    *out = n;
    return true;
}

bool option_seconds(const char *text, const char *option, double *out, struct err *e)
{
    char *end;
    errno = 0;
    double seconds = strtod(text, &end);
    if (errno || end == text || *end || !isfinite(seconds) || seconds < 0 || seconds > 1e9) {
        err_set(e, ERR_USAGE, "%s takes a number of seconds, not '%s'", option, text);
        return false;
    }
    *out = seconds;
    return true;
}

bool option_compression(const char *text, struct container_options *out, struct err *e)
{
    if (strcmp(text, "lz4") == 0) {
        out->method = METHOD_LZ4;
    } else if (strcmp(text, "lz4hc") == 0) {
        out->method = METHOD_LZ4_HC;
    } else if (strncmp(text, "zstd", 4) == 0 && (text[4] == 0 || text[4] == ':')) {
        char *end = NULL;
        long level = text[4] ? strtol(text + 5, &end, 10) : CONTAINER_LEVEL_OWN;
        if (text[4] &&
            (end == text + 5 || *end || level < ZSTD_minCLevel() || level > ZSTD_maxCLevel())) {
            err_set(e, ERR_USAGE, "zstd has levels up to %d, not '%s'", ZSTD_maxCLevel(), text);
            return false;
        }
        out->method = METHOD_ZSTD;
        out->level = (int)level;
    } else {
        err_set(e, ERR_USAGE, "compression is lz4, lz4hc, zstd or zstd:LEVEL, not '%s'", text);
        return false;
    }
    return true;
}

void print_error(const struct err *e)
{
    struct buf text = {0};
    format_terminal(&text, view_of(e->text));
    fprintf(stderr, "tidemark: %s\n", buf_str(&text));
    buf_release(&text);
}
