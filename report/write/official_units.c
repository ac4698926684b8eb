#include "report/write/official_units.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Removes trailing zeros of a fraction, and its point. */
static void trim(char *text)
{
    char *end = text + strlen(text);
    while (end > text && end[-1] == '0')
        end--;
    if (end > text && end[-1] == '.')
        end--;
    *end = 0;
}

const char *official_bytes(char out[FORMAT_SIZE], uint64_t bytes)
{
    static const char *const units[] = {"KB", "MB", "GB", "TB"};
    char number[FORMAT_SIZE / 2];
    double unit = 1024;
    size_t i = 0;
    if (bytes < 10000) {
        snprintf(out, FORMAT_SIZE, "%" PRIu64 " bytes", bytes);
        return out;
    }
    while (i < 3 && (double)bytes >= 10000 * unit) {
        unit *= 1024;
        i++;
    }
    snprintf(number, sizeof number, "%.2f", (double)bytes / unit);
    trim(number);
    snprintf(out, FORMAT_SIZE, "%s %s", number, units[i]);
    return out;
}

/* Formats thousandths of a unit with at most two decimals. */
static void put_thousandths(char out[FORMAT_SIZE], uint64_t n, const char *unit)
{
    char number[FORMAT_SIZE / 2];
    uint64_t whole = n / 1000, rest = n % 1000;
    if (rest >= 995)
        whole++;
    if (rest >= 995 || rest <= 5) {
        snprintf(out, FORMAT_SIZE, "%" PRIu64 " %s", whole, unit);
        return;
    }
    snprintf(number, sizeof number, "%" PRIu64 ".%02" PRIu64, whole, (rest + 5) / 10);
    trim(number);
    snprintf(out, FORMAT_SIZE, "%s %s", number, unit);
}

/* "2:05.1" for milliseconds below an hour. */
static void put_minutes(char out[FORMAT_SIZE], uint64_t ms)
{
    uint64_t seconds = ms / 1000 % 60, rest = ms % 1000;
    int n =
        snprintf(out, FORMAT_SIZE, "%" PRIu64 ":%02" PRIu64, ms / 60000, seconds + (rest >= 950));
    if (rest > 50 && rest < 950)
        snprintf(out + n, FORMAT_SIZE - (size_t)n, ".%" PRIu64, (rest + 50) / 100);
}

const char *official_time(char out[FORMAT_SIZE], int64_t ns)
{
    uint64_t n = ns < 0 ? 0 - (uint64_t)ns : (uint64_t)ns, seconds = n / 1000000000;
    char text[FORMAT_SIZE];
    if (n < 1000)
        snprintf(text, sizeof text, "%" PRIu64 " ns", n);
    else if (n < 1000000)
        put_thousandths(text, n, "\u03bcs");
    else if (n < 1000000000)
        put_thousandths(text, n / 1000, "ms");
    else if (seconds < 60)
        put_thousandths(text, n / 1000000, "s");
    else if (seconds < 3600)
        put_minutes(text, n / 1000000);
    else if (seconds < 86400)
        snprintf(text, sizeof text, "%" PRIu64 ":%02" PRIu64 ":%02" PRIu64, seconds / 3600,
                 seconds / 60 % 60, seconds % 60);
    else
        snprintf(text, sizeof text, "%" PRIu64 "d%02" PRIu64 ":%02" PRIu64 ":%02" PRIu64,
                 seconds / 86400, seconds / 3600 % 24, seconds / 60 % 60, seconds % 60);
    out[0] = '-';
    memcpy(out + (ns < 0), text, strlen(text) + 1); /* no text exceeds 24 bytes */
    return out;
}
