#include "symbols/addr2line_answer.h"

#include <stdlib.h>
#include <string.h>

/* The rest of a longer line is dropped. */
#define LINE_MAX_BYTES ((size_t)1 << 20)

void addr2line_answer_release(struct addr2line_answer *a)
{
    buf_release(&a->function);
    buf_release(&a->line);
}

/* "file:12", "file:12 (discriminator 3)", "file:?", "??:0", "??:?". */
static void split_place(struct view place, struct addr2line_entry *entry)
{
    const char *colon = memrchr(place.p, ':', place.len);
    if (!colon || view_equal(place, view_of("??:?")))
        return;
    entry->file = (struct view){place.p, (size_t)(colon - place.p)};
    uint64_t line = 0;
    for (const char *p = colon + 1; p < place.p + place.len && *p >= '0' && *p <= '9'; p++)
        line = line < UINT32_MAX ? line * 10 + (uint64_t)(*p - '0') : line;
    entry->line = line > UINT32_MAX ? 0 : (uint32_t)line;
}

static int take_line(struct addr2line_answer *a, struct view line, struct err *e)
{
    char *end;
    if (a->next == a->n)
        return 0;
    switch (a->expects) {
    case ANSWER_ADDRESS: {
        /* Skips extra lines that the tool prints for an address. */
        const char *text = buf_str(&a->line);
        if (line.len > 2 && text[0] == '0' && text[1] == 'x' &&
            strtoull(text, &end, 16) == a->addresses[a->next] && *end == 0)
            a->expects = ANSWER_FUNCTION;
        return 0;
    }
    case ANSWER_FUNCTION:
        buf_clear(&a->function);
        buf_put(&a->function, line.p, line.len);
        a->expects = ANSWER_PLACE;
        return 0;
    case ANSWER_PLACE:
        break;
    }
    struct addr2line_entry entry = {.i = a->first + a->next};
    struct view function = {(const char *)a->function.data, a->function.len};
    if (!view_equal(function, view_of("??")))
        entry.function = function;
    split_place(line, &entry);
    a->expects = ANSWER_ADDRESS;
    a->next++;
    return a->put(a->ctx, &entry, e);
}

int addr2line_answer_feed(struct addr2line_answer *a, const char *bytes, size_t n, struct err *e)
{
    for (size_t i = 0; i < n; i++) {
        if (bytes[i] != '\n') {
            if (a->line.len < LINE_MAX_BYTES)
                buf_u8(&a->line, (uint8_t)bytes[i]);
            continue;
        }
        const char *text = buf_str(&a->line);
        if (a->line.failed || a->function.failed)
            return err_no_memory(e, "an answer of addr2line");
        if (take_line(a, (struct view){text, a->line.len}, e) != 0)
            return -1;
        buf_clear(&a->line);
    }
    return 0;
}
