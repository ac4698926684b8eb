#include "analysis/names/zone_names.h"

static struct view at_pointer(const struct trace *t, uint64_t pointer)
{
    return strings_get(&t->strings, pointer ? strings_at_pointer(&t->strings, pointer) : 0);
}

/*
 * Positive numbers are locations of the program's data, negative ones were sent with their zones; 0
 * is a placeholder.
 */
struct view zone_name(const struct trace *t, int16_t srcloc)
{
    if (srcloc < 0) {
        size_t at = (size_t)(-1 - (int)srcloc);
        if (at >= t->location_payloads.len)
            return (struct view){"", 0};
        const struct trace_location_payload *p = &t->location_payloads.at[at];
        return strings_get(&t->strings, p->name ? p->name : p->function);
    }
    if (srcloc == 0 || srcloc == LOCATION_NONE || (size_t)srcloc > t->locations.len)
        return (struct view){"", 0};
    const struct trace_location *l = &t->locations.at[srcloc - 1];
    struct view name = at_pointer(t, l->name);
    return name.len ? name : at_pointer(t, l->function);
}
