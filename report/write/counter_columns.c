#include "report/write/counter_columns.h"

#include <inttypes.h>
#include <string.h>

#include "report/write/json_value.h"

#define COLUMN(MEMBER) #MEMBER, .offset = offsetof(struct counter, MEMBER)

const struct counter_column counter_columns[COUNTER_COLUMNS] = {
    {COLUMN(count), .title = "Count", .sort = -1},
    {COLUMN(bytes), .title = "Size", .is_bytes = true, .sort = -1},
    {COLUMN(live_count), .sort = -1},
    {COLUMN(live_bytes), .title = "Live", .is_bytes = true, .sort = -1},
    {COLUMN(peak_bytes), .title = "Peak", .is_bytes = true, .sort = SORT_PEAK},
    {COLUMN(at_peak_bytes), .title = "At peak", .is_bytes = true, .sort = SORT_AT_PEAK},
    {COLUMN(temporary), .title = "Temporary", .sort = SORT_TEMPORARY},
};

uint64_t counter_value(const struct counter_column *column, const struct counter *c)
{
    uint64_t n;
    memcpy(&n, (const char *)c + column->offset, sizeof n);
    return n;
}

json_t *counter_json(json_t *object, const struct counter *c)
{
    for (unsigned i = 0; i < COUNTER_COLUMNS; i++)
        object = json_with(object, counter_columns[i].key,
                           json_count(counter_value(&counter_columns[i], c)));
    return object;
}

void counter_csv_titles(struct buf *out)
{
    for (unsigned i = 0; i < COUNTER_COLUMNS; i++)
        buf_printf(out, ",%s", counter_columns[i].key);
}

void counter_csv(struct buf *out, const struct counter *c)
{
    for (unsigned i = 0; i < COUNTER_COLUMNS; i++)
        buf_printf(out, ",%" PRIu64, counter_value(&counter_columns[i], c));
}
