#include "report/export/tsv.h"

#include "base/format.h"

static void put_byte(struct buf *b, uint8_t c)
{
    static const char letters[] = "btnvfr"; /* of bytes 8 to 13 */
    if (c >= 8 && c <= 13)
        buf_put(b, (const char[]){'\\', letters[c - 8]}, 2);
    else if (c == '\\')
        buf_puts(b, "\\\\");
    else if (c < 0x20 || c == 0x7f)
        buf_printf(b, "\\x%02x", c);
    else
        buf_put(b, &c, 1);
}

static void put_text(struct buf *b, struct view text, struct buf *scratch)
{
    buf_clear(scratch);
    format_utf8(scratch, text);
    b->failed |= scratch->failed;
    for (size_t i = 0; i < scratch->len; i++) {
        const uint8_t *p = scratch->data + i;
        bool c1 = p[0] == 0xc2 && p[1] < 0xa0; /* also control characters, of two bytes */
        if (c1)
            buf_printf(b, "\\x%02x\\x%02x", p[0], p[1]);
        else
            put_byte(b, p[0]);
        i += c1;
    }
}

void tsv_cell(struct emit *w, enum cell_type type, const struct cell *c,
              enum tsv_addresses addresses, struct buf *scratch)
{
    if (c->null) {
        emit_text(w, "\\N");
        return;
    }
    switch (type) {
    case CELL_INTEGER:
        emit_integer(w, c->integer);
        break;
    case CELL_COUNT:
        emit_number(w, c->count);
        break;
    case CELL_ADDRESS:
        if (addresses == TSV_ADDRESSES_DECIMAL)
            emit_number(w, c->count);
        else
            emit_address(w, c->count);
        break;
    case CELL_REAL:
        emit_real(w, c->real);
        break;
    case CELL_BOOL:
        emit_text(w, c->truth ? "1" : "0");
        break;
    case CELL_TEXT:
        put_text(&w->buf, c->text, scratch);
        break;
    }
}
