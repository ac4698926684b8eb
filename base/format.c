#include "base/format.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>

const char *format_count(char out[FORMAT_SIZE], uint64_t n)
{
    char digits[24];
    int len = snprintf(digits, sizeof digits, "%" PRIu64, n);
    size_t at = 0;
    for (int i = 0; i < len; i++) {
        if (i && (len - i) % 3 == 0)
            out[at++] = ',';
        out[at++] = digits[i];
    }
    out[at] = 0;
    return out;
}

const char *format_counted(char out[FORMAT_SIZE], uint64_t n, const char *noun)
{
    char digits[FORMAT_SIZE];
    size_t len = strlen(noun);
    const char *plural = len && noun[len - 1] == 's' ? "es" : "s";
    snprintf(out, FORMAT_SIZE, "%.26s %.18s%s", format_count(digits, n), noun,
             n == 1 ? "" : plural);
    return out;
}

const char *format_bytes(char out[FORMAT_SIZE], uint64_t bytes)
{
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
    unsigned unit = 0;
    double value = (double)bytes;
    /* 1023.95 would round to 1024: switch to the next unit before that. */
    while (unit < 6 && value >= (unit ? 999.5 : 1024.0)) {
        value /= 1024.0;
        unit++;
    }
    int decimals = unit == 0 ? 0 : value < 9.995 ? 2 : value < 99.95 ? 1 : 0;
    snprintf(out, FORMAT_SIZE, "%.*f %s", decimals, value, units[unit]);
    return out;
}

const char *format_bytes_exact(char out[FORMAT_SIZE], uint64_t bytes)
{
    char a[FORMAT_SIZE];
    char b[FORMAT_SIZE];
    if (bytes < 1024)
        snprintf(out, FORMAT_SIZE, "%" PRIu64 " byte%s", bytes, bytes == 1 ? "" : "s");
    else
        snprintf(out, FORMAT_SIZE, "%.14s (%.27s)", format_bytes(a, bytes), format_count(b, bytes));
    return out;
}

const char *format_duration(char out[FORMAT_SIZE], int64_t ns)
{
    const char *sign = ns < 0 ? "-" : "";
    uint64_t n = ns < 0 ? 0 - (uint64_t)ns : (uint64_t)ns;
    if (n < 1000)
        snprintf(out, FORMAT_SIZE, "%s%" PRIu64 " ns", sign, n);
    else if (n < 1000000)
        snprintf(out, FORMAT_SIZE, "%s%.2f us", sign, (double)n / 1e3);
    else if (n < 1000000000)
        snprintf(out, FORMAT_SIZE, "%s%.2f ms", sign, (double)n / 1e6);
    else if (n < UINT64_C(60000000000))
        snprintf(out, FORMAT_SIZE, "%s%.3f s", sign, (double)n / 1e9);
    else if (n < UINT64_C(3600000000000))
        snprintf(out, FORMAT_SIZE, "%s%" PRIu64 " min %02" PRIu64 ".%" PRIu64 " s", sign,
                 n / UINT64_C(60000000000), n / UINT64_C(1000000000) % 60,
                 n / UINT64_C(100000000) % 10);
    else
        snprintf(out, FORMAT_SIZE, "%s%" PRIu64 " h %02" PRIu64 " min", sign,
                 n / UINT64_C(3600000000000), n / UINT64_C(60000000000) % 60);
    return out;
}

const char *format_time_near(char out[FORMAT_SIZE], int64_t ns, uint64_t step)
{
    static const struct {
        double length; /* ns */
        const char *name;
        uint64_t last; /* of the last digit in format_duration */
        int decimals;
    } units[] = {{1e9, "s", 1000000, 3}, {1e6, "ms", 10000, 2}, {1e3, "us", 10, 2}};
    uint64_t n = ns < 0 ? 0 - (uint64_t)ns : (uint64_t)ns;
    size_t i = n >= 1000000000 ? 0 : n >= 1000000 ? 1 : 2;
    uint64_t last = units[i].last;
    int decimals = units[i].decimals;
    /* Minutes have tenths of a second. */
    if (n < 1000 || (last <= step && (n < UINT64_C(60000000000) || step >= 100000000)))
        return format_duration(out, ns);
    for (; last > step && last > 1; last /= 10)
        decimals++;
    snprintf(out, FORMAT_SIZE, "%.*f %s", decimals, (double)ns / units[i].length, units[i].name);
    return out;
}

const char *format_date(char out[FORMAT_SIZE], uint64_t unix_seconds)
{
    /* Supports years up to 9999. */
    time_t t = (time_t)unix_seconds;
    struct tm tm;
    if (unix_seconds == 0 || unix_seconds > UINT64_C(253402300799) || !gmtime_r(&t, &tm) ||
        strftime(out, FORMAT_SIZE, "%Y-%m-%dT%H:%M:%SZ", &tm) == 0)
        snprintf(out, FORMAT_SIZE, "unknown");
    return out;
}

const char *format_percent(char out[FORMAT_SIZE], uint64_t part, uint64_t whole)
{
    if (whole == 0) {
        snprintf(out, FORMAT_SIZE, "-");
        return out;
    }
    double p = 100.0 * (double)part / (double)whole;
    if (part < whole && p > 99.9)
        p = 99.9;
    if (part && p < 0.1)
        p = 0.1;
    snprintf(out, FORMAT_SIZE, "%.*f %%", part == whole || part == 0 ? 0 : 1, p);
    return out;
}

/*
 * Decodes the character at the start of `text`. Returns its length in bytes, or 0 if it is not
 * well-formed UTF-8 (RFC 3629: no overlong forms, surrogates or values above 10FFFF).
 */
static size_t utf8_decode(struct view text, uint32_t *character)
{
    static const uint32_t lowest[] = {0, 0, 0x80, 0x800, 0x10000};
    const uint8_t *b = (const uint8_t *)text.p;
    if (b[0] < 0x80) {
        *character = b[0];
        return 1;
    }
    size_t n = b[0] >= 0xf0 ? 4 : b[0] >= 0xe0 ? 3 : 2;
    if (b[0] < 0xc2 || b[0] > 0xf4 || text.len < n)
        return 0;
    uint32_t c = b[0] & (0xffu >> (n + 1));
    for (size_t i = 1; i < n; i++) {
        if ((b[i] & 0xc0) != 0x80)
            return 0;
        c = c << 6 | (b[i] & 0x3f);
    }
    if (c < lowest[n] || c > 0x10ffff || (c >= 0xd800 && c <= 0xdfff))
        return 0;
    *character = c;
    return n;
}

/* Whether a character changes the display of its surroundings. */
static bool is_deceptive(uint32_t c)
{
    return c < 0x20 || (c >= 0x7f && c < 0xa0) || c == 0xad || c == 0x61c ||
           (c >= 0x200b && c <= 0x200f) || (c >= 0x2028 && c <= 0x202e) ||
           (c >= 0x2060 && c <= 0x206f) || c == 0xfeff || (c >= 0xfff9 && c <= 0xfffb) ||
           (c >= 0xe0000 && c <= 0xe007f);
}

void format_terminal(struct buf *out, struct view text)
{
    while (text.len) {
        uint32_t c;
        size_t n = utf8_decode(text, &c);
        if (n == 0 || c < 0x20 || c == 0x7f)
            buf_printf(out, "\\x%02x", (unsigned)(uint8_t)text.p[0]);
        else if (is_deceptive(c))
            buf_printf(out, "\\u{%" PRIx32 "}", c);
        else
            buf_put(out, text.p, n);
        n = n ? n : 1;
        text.p += n;
        text.len -= n;
    }
}

void format_utf8(struct buf *out, struct view text)
{
    while (text.len) {
        uint32_t c;
        size_t n = utf8_decode(text, &c);
        if (n)
            buf_put(out, text.p, n);
        else
            buf_puts(out, "\xef\xbf\xbd");
        n = n ? n : 1;
        text.p += n;
        text.len -= n;
    }
}

size_t format_width(struct view text)
{
    size_t width = 0;
    for (size_t i = 0; i < text.len; i++)
        width += ((uint8_t)text.p[i] & 0xc0) != 0x80;
    return width;
}

/* The power of 1024 of a unit; -1 for an unknown unit. */
static int unit_power(const char *unit)
{
    static const char letters[] = "KMGTPE";
    if (strcasecmp(unit, "") == 0 || strcasecmp(unit, "B") == 0)
        return 0;
    const char *at = strchr(letters, unit[0] & ~0x20);
    if (!at || (strcasecmp(unit + 1, "") != 0 && strcasecmp(unit + 1, "B") != 0 &&
                strcasecmp(unit + 1, "iB") != 0))
        return -1;
    return (int)(at - letters) + 1;
}

int format_parse_bytes(const char *what, const char *text, uint64_t *bytes, struct err *e)
{
    char *end = NULL;
    bool digit = text[0] >= '0' && text[0] <= '9';
    bool hex = digit && (text[1] == 'x' || text[1] == 'X');
    if (digit && !hex) {
        const char *unit = text + strspn(text, "0123456789.");
        int power = unit_power(unit + strspn(unit, " "));
        /* Parse whole numbers with all 64 bits, which a double cannot hold. */
        errno = 0;
        uint64_t whole = strtoull(text, &end, 10);
        if (power >= 0 && end == unit && errno == 0 && whole <= UINT64_MAX >> (10 * power)) {
            *bytes = whole << (10 * power);
            return 0;
        }
        double value = strtod(text, &end);
        if (power >= 0 && end == unit && *end != 0 && value * exp2(10 * power) < 0x1p64 &&
            memchr(text, '.', (size_t)(unit - text))) {
            *bytes = (uint64_t)(value * exp2(10 * power));
            return 0;
        }
    }
    return err_set(e, ERR_USAGE, "%s: '%s' is not a size (such as 4096, 64K, 1.5M or 2G)", what,
                   text);
}

int format_parse_count(const char *what, const char *text, uint64_t *n, struct err *e)
{
    uint64_t value = 0;
    const char *p = text;
    bool ok = *p >= '0' && *p <= '9';
    for (; ok && *p; p++) {
        if (*p == ',' && p[1] >= '0' && p[1] <= '9')
            continue;
        ok = *p >= '0' && *p <= '9' && !__builtin_mul_overflow(value, 10, &value) &&
             !__builtin_add_overflow(value, (uint64_t)(*p - '0'), &value);
    }
    if (!ok)
        return err_set(e, ERR_USAGE, "%s: '%s' is not a whole number", what, text);
    *n = value;
    return 0;
}
