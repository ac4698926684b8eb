#include "import/heaptrack_lines.h"

#include <inttypes.h>

/* Template names can be very long, but not longer than this. */
#define LINE_MAX_BYTES ((size_t)16 << 20)

void heaptrack_lines_release(struct heaptrack_lines *l)
{
    buf_release(&l->joined);
}

static void begin_line(struct heaptrack_line *line, struct view text)
{
    if (text.len == 0)
        text.p = "";
    line->mode = text.len ? text.p[0] : '#';
    line->p = text.p + (text.len > 2 ? 2 : text.len);
    line->end = text.p + text.len;
}

int heaptrack_lines_next(struct heaptrack_lines *l, struct heaptrack_line *line, bool *whole,
                         struct err *e)
{
    buf_clear(&l->joined);
    l->count++;
    for (;;) {
        if (l->block.len == 0 && import_source_next(l->source, &l->block, e) != 0)
            return -1;
        const char *end = l->block.len ? memchr(l->block.p, '\n', l->block.len) : NULL;
        struct view piece = {l->block.p, end ? (size_t)(end - l->block.p) : l->block.len};
        bool at_end = l->block.len == 0;
        if (l->joined.len + piece.len > LINE_MAX_BYTES)
            return err_set(e, ERR_INPUT, "line %" PRIu64 " is longer than 16 MiB", l->count);
        l->block.p += piece.len + (end ? 1 : 0);
        l->block.len -= piece.len + (end ? 1 : 0);
        if (l->joined.len || !end) {
            buf_put(&l->joined, piece.p, piece.len);
            if (l->joined.failed)
                return err_no_memory(e, "a line");
            piece = (struct view){(const char *)l->joined.data, l->joined.len};
        }
        if (end || at_end) {
            *whole = end != NULL;
            begin_line(line, piece);
            return end || piece.len ? 1 : 0;
        }
    }
}

bool heaptrack_number(struct heaptrack_line *line, uint64_t *value)
{
    const char *p = line->p;
    uint64_t v = 0;
    for (; p < line->end && *p != ' '; p++) {
        unsigned digit = *p >= '0' && *p <= '9'   ? (unsigned)(*p - '0')
                         : *p >= 'a' && *p <= 'f' ? (unsigned)(*p - 'a' + 10)
                                                  : 16;
        if (digit == 16 || v >> 60)
            return false;
        v = v << 4 | digit;
    }
    if (p == line->p)
        return false;
    line->p = p < line->end ? p + 1 : p;
    *value = v;
    return true;
}

bool heaptrack_text(struct heaptrack_line *line, bool sized, struct view *text)
{
    uint64_t len;
    if (sized) {
        if (!heaptrack_number(line, &len) || len > (uint64_t)(line->end - line->p))
            return false;
    } else {
        const char *space = line->p < line->end ? memchr(line->p, ' ', line->end - line->p) : NULL;
        len = (uint64_t)((space ? space : line->end) - line->p);
        if (len == 0)
            return false;
    }
    *text = (struct view){line->p, len};
    line->p += len;
    if (line->p < line->end)
        line->p++;
    return true;
}
