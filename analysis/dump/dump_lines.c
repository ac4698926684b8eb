#include "analysis/dump/dump_lines.h"

const char *dump_section_name(enum dump_section section)
{
    static const char *const names[DUMP_SECTION_COUNT] = {
#define SECTION(NAME, TEXT) [DUMP_##NAME] = (TEXT),
        DUMP_SECTIONS(SECTION)
#undef SECTION
    };
    return names[section];
}

void dump_begin(struct dump *d, enum dump_section section, uint32_t group, uint64_t a, uint64_t b)
{
    dump_end(d);
    d->is_open = true;
    d->key[0] = (uint8_t)section;
    store_u32(d->key + 1, __builtin_bswap32(group));
    store_u64(d->key + 5, __builtin_bswap64(a));
    store_u64(d->key + 13, __builtin_bswap64(b));
    buf_clear(&d->line);
    d->o->format->begin(&d->line, view_of(dump_section_name(section)));
}

void dump_no_room(struct dump *d)
{
    d->status = err_no_memory(d->e, "the dump");
}

int dump_end(struct dump *d)
{
    if (!d->is_open || d->status != 0)
        return d->status;
    d->is_open = false;
    d->waiting++;
    d->o->format->end(&d->line);
    if (d->line.failed || d->group.failed)
        dump_no_room(d);
    else
        d->status = line_sort_add(&d->sort, (struct view){(const char *)d->key, sizeof d->key},
                                  buf_view(&d->line), d->e);
    return d->status;
}
