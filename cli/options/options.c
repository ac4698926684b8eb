#include "cli/options/options.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zstd.h>

#include "base/format.h"
#include "server/capture/memory_limit.h"

/* Takes the second argument of an OPTION_PAIR, which getopt does not know. */
static bool take_second(const struct command_line *l, void *ctx, int argc, char **argv,
                        struct err *e)
{
    if (optind < argc)
        return l->take(ctx, OPTION_PAIR_SECOND, argv[optind++], e);
    err_set(e, ERR_USAGE, "'%.100s' is one of two arguments: which is the other?", optarg);
    return false;
}

static int parse(const struct command_line *l, void *ctx, int argc, char **argv, struct err *e)
{
    int option, help = l->help ? l->help : 'h';
    while ((option = getopt_long(argc, argv, l->letters, l->names, NULL)) != -1) {
        if (option == help) {
            fputs(l->usage, l->usage_to ? l->usage_to : stdout);
            return 0;
        }
        if (option == 'V') {
            printf("%s %s\n", l->version ? l->version : "tidemark", TIDEMARK_VERSION);
            return 0;
        }
        if (option == '?' || !l->take(ctx, option, optarg, e))
            return 1;
        if (option == OPTION_PAIR && !take_second(l, ctx, argc, argv, e))
            return 1;
    }
    return l->rest(ctx, argc - optind, argv + optind, e) ? -1 : 1;
}

int command_line_parse(const struct command_line *line, void *ctx, int argc, char **argv)
{
    struct err e = {0};
    int status = parse(line, ctx, argc, argv, &e);
    if (status <= 0)
        return status;
    int refused = line->refused ? line->refused : 2;
    if (e.code == ERR_MEMORY) { /* not an error of the command line */
        print_error(&e);
        return refused == 2 ? err_exit_status(&e) : refused;
    }
    if (e.text[0]) /* getopt_long prints its own errors */
        fprintf(stderr, "%s%s%s\n", line->nameless_errors ? "" : argv[0],
                line->nameless_errors ? "" : ": ", e.text);
    fputs(line->hint, line->hint_to ? line->hint_to : stderr);
    return refused;
}

bool option_one_trace(int n, char **arguments, const char **trace, struct err *e)
{
    if (n == 1)
        *trace = arguments[0];
    else if (n == 0)
        err_set(e, ERR_USAGE, "which trace?");
    else
        err_set(e, ERR_USAGE, "what is '%s' for?", arguments[1]);
    return n == 1;
}

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

/* A time that ends at `end`, in ns. False when it is invalid. */
static bool parse_time(const char *text, const char *end, int64_t *ns)
{
    static const struct {
        const char *name;
        double ns;
    } units[] = {{"ns", 1},  {"", 1},     {"us", 1e3},   {"\u00b5s", 1e3}, {"ms", 1e6},
                 {"s", 1e9}, {"m", 60e9}, {"min", 60e9}, {"h", 3600e9}};
    char *after;
    char copy[64];
    size_t len = (size_t)(end - text);
    if (len == 0 || len >= sizeof copy || text[0] < '0' || text[0] > '9')
        return false;
    memcpy(copy, text, len);
    copy[len] = 0;
    errno = 0;
    unsigned long long whole = strtoull(copy, &after, 10);
    if (*after == 0 && errno == 0 && whole <= INT64_MAX) {
        *ns = (int64_t)whole;
        return true;
    }
    if (strpbrk(copy, "xX"))
        return false;
    double value = strtod(copy, &after);
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++) {
        double product = value * units[i].ns;
        if (strcmp(after, units[i].name) == 0 && isfinite(product) && product < 9e18) {
            *ns = (int64_t)llround(product);
            return true;
        }
    }
    return false;
}

bool option_time(const char *text, const char *option, int64_t *out, struct err *e)
{
    bool negative = *text == '-';
    const char *digits = text + negative;
    if (!parse_time(digits, digits + strlen(digits), out)) {
        err_set(e, ERR_USAGE, "%s takes a time such as 1.5s, not '%s'", option, text);
        return false;
    }
    *out = negative ? -*out : *out;
    return true;
}

bool option_range(const char *text, const char *option, int64_t *begin, int64_t *end, struct err *e)
{
    const char *colon = strchr(text, ':');
    const char *last = text + strlen(text);
    *begin = INT64_MIN;
    *end = INT64_MAX;
    bool ok = colon && (colon == text || parse_time(text, colon, begin)) &&
              (colon + 1 == last || parse_time(colon + 1, last, end)) && *begin < *end;
    if (!ok)
        err_set(e, ERR_USAGE,
                "%s takes a range of time such as 1.5s:2m, the end later than the begin, not '%s'",
                option, text);
    return ok;
}

/* The minimum for a session to make progress. */
#define MEMORY_BOUND_LEAST ((uint64_t)96 << 20)

bool option_memory_bound(const char *text, uint64_t *bytes, struct err *e)
{
    uint64_t n;
    char digits[8];
    size_t len = strlen(text);
    if (len > 1 && len < sizeof digits && text[len - 1] == '%') {
        memcpy(digits, text, len - 1);
        digits[len - 1] = 0;
        if (!option_u64(digits, "--memory-limit", 1, 100, &n, e))
            return false;
        *bytes = memory_physical() / 100 * n;
    } else if (format_parse_bytes("--memory-limit", text, bytes, e) != 0) {
        return false;
    }
    if (*bytes < MEMORY_BOUND_LEAST)
        err_set(e, ERR_USAGE, "--memory-limit takes 96M at least, not '%s'", text);
    return *bytes >= MEMORY_BOUND_LEAST;
}
