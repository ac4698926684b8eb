#include "report/write/axis.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define INTERVALS 5u
#define SECOND UINT64_C(1000000000)
#define MINUTE (60 * SECOND)
#define HOUR (60 * MINUTE)

/* 1, 2, 5, 10, 20, … */
static uint64_t decimal_step(uint64_t least)
{
    uint64_t step = 1;
    for (unsigned i = 0; step < least && step <= UINT64_MAX / 10; i++)
        step = i % 3 == 1 ? step / 2 * 5 : step * 2;
    return step;
}

struct axis axis_of_values(enum axis_unit unit, uint64_t most)
{
    most = most < UINT64_C(1) << 62 ? most : UINT64_C(1) << 62;
    uint64_t least = most / INTERVALS + (most % INTERVALS != 0);
    uint64_t step = 1;
    if (unit == AXIS_COUNT)
        step = decimal_step(least);
    while (unit == AXIS_BYTES && step < least && step < UINT64_C(1) << 61)
        step *= 2;
    uint64_t intervals = most / step + (most % step != 0);
    intervals = intervals ? intervals : 1;
    return (struct axis){.unit = unit,
                         .step = step,
                         .marks = (unsigned)intervals + 1,
                         .end = (int64_t)(intervals * step)};
}

static uint64_t time_step(uint64_t least)
{
    static const uint64_t more[] = {MINUTE,      2 * MINUTE, 5 * MINUTE, 10 * MINUTE, 20 * MINUTE,
                                    30 * MINUTE, HOUR,       2 * HOUR,   3 * HOUR,    6 * HOUR,
                                    12 * HOUR,   24 * HOUR,  48 * HOUR,  120 * HOUR};
    if (least <= 50 * SECOND)
        return decimal_step(least);
    for (size_t i = 0; i < sizeof more / sizeof *more; i++) {
        if (more[i] >= least)
            return more[i];
    }
    return (least / (120 * HOUR) + 1) * 120 * HOUR;
}

struct axis axis_of_times(int64_t begin, int64_t end, unsigned marks)
{
    uint64_t length = end > begin ? (uint64_t)end - (uint64_t)begin : 1;
    uint64_t step = time_step(length / marks + 1);
    int64_t first = begin / (int64_t)step * (int64_t)step;
    first += first < begin ? (int64_t)step : 0;
    struct axis a = {.unit = AXIS_TIME, .first = first, .step = step, .end = end};
    uint64_t rest = first <= end ? (uint64_t)end - (uint64_t)first : 0;
    while (first <= end && a.marks <= marks && step * a.marks <= rest)
        a.marks++;
    return a;
}

int64_t axis_mark(const struct axis *a, unsigned i)
{
    return a->first + (int64_t)(a->step * i);
}

/* "1.50 GiB" → "1.5 GiB". */
static void cut_zeros(char *text)
{
    char *space = strchr(text, ' ');
    char *end = space;
    if (!space || !memchr(text, '.', (size_t)(space - text)))
        return;
    while (end[-1] == '0')
        end--;
    if (end[-1] == '.')
        end--;
    memmove(end, space, strlen(space) + 1);
}

static void time_label(char out[FORMAT_SIZE], const struct axis *a, int64_t time)
{
    static const struct {
        uint64_t length;
        const char *name;
    } units[] = {{HOUR, "h"}, {MINUTE, "min"}, {SECOND, "s"}, {1000000, "ms"}, {1000, "µs"}};
    size_t i = 0;
    /* Hours and minutes are not divided into tenths. */
    while (i < 5 && ((uint64_t)(a->end < 0 ? -a->end : a->end) < 2 * units[i].length ||
                     (i < 2 && a->step % units[i].length)))
        i++;
    uint64_t length = i < 5 ? units[i].length : 1;
    int decimals = 0;
    for (uint64_t part = length; part > a->step && decimals < 9; part /= 10)
        decimals++;
    snprintf(out, FORMAT_SIZE, "%.*f %s", decimals, (double)time / (double)length,
             i < 5 ? units[i].name : "ns");
}

const char *axis_label(char out[FORMAT_SIZE], const struct axis *a, unsigned i)
{
    int64_t at = axis_mark(a, i);
    if (a->unit == AXIS_BYTES) {
        format_bytes(out, (uint64_t)at);
        cut_zeros(out);
    } else if (a->unit == AXIS_COUNT) {
        format_count(out, (uint64_t)at);
    } else {
        time_label(out, a, at);
    }
    return out;
}
