#include "analysis/figures/answer_site.h"

#include "base/format.h"

#define NAME_MAX_BYTES 64u /* longer names lose their middle */

/* Appends text without its middle if it is long; no UTF-8 character is cut. */
static void put_short(struct buf *out, struct view text)
{
    size_t head = NAME_MAX_BYTES / 2;
    size_t tail = text.len - head;
    if (text.len <= NAME_MAX_BYTES) {
        buf_put(out, text.p, text.len);
        return;
    }
    while (((uint8_t)text.p[head] & 0xc0) == 0x80)
        head--;
    while (tail < text.len && ((uint8_t)text.p[tail] & 0xc0) == 0x80)
        tail++;
    buf_put(out, text.p, head);
    buf_puts(out, "…");
    buf_put(out, text.p + tail, text.len - tail);
}

void answer_put_site(struct buf *out, struct view name, const struct frame_view *f)
{
    struct buf text = {0};
    format_terminal(&text, name);
    put_short(out, buf_view(&text));
    buf_clear(&text);
    frame_source(&text, f);
    format_terminal(out, buf_view(&text));
    buf_end(&text, &out->failed);
}
