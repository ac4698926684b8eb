#include "report/write/resident_json.h"

#include "report/write/json_value.h"

json_t *resident_json(const struct resident_shares *s)
{
    json_t *shares = json_object();
    for (size_t i = 0; i < RESIDENT_CLASSES; i++)
        shares =
            json_with(shares, resident_class_key((enum resident_class)i), json_count(s->bytes[i]));
    return json_pack("{s:I, s:s, s:o, s:o, s:o, s:o, s:o, s:b}", "time_ns", (json_int_t)s->time,
                     "reason", look_reason_name(s->reason), "bytes", json_count(resident_total(s)),
                     "shares", shares, "unsure_bytes", json_count(s->unsure), "swapped_bytes",
                     json_count(s->swapped), "rss_bytes", s->rss ? json_count(s->rss) : json_null(),
                     "reported_blocks", s->reported);
}
