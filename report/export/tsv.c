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

const struct cell_form cell_form_tsv = {.none = "\\N", .truth = {"0", "1"}, .quote = ""};
const struct cell_form cell_form_copy = {
    .none = "\\N", .truth = {"0", "1"}, .quote = "", .is_decimal = true};
const struct cell_form cell_form_json = {
    .none = "null", .truth = {"false", "true"}, .quote = "\"", .is_json = true};

static void put_address(struct emit *w, const struct cell_form *form, uint64_t address)
{
    if (form->is_decimal) {
        emit_number(w, address);
        return;
    }
    emit_text(w, form->quote);
    emit_address(w, address);
    emit_text(w, form->quote);
}

void cell_put(struct emit *w, const struct cell_form *form, enum cell_type type,
              const struct cell *c, struct buf *scratch)
{
    if (c->null) {
        emit_text(w, form->none);
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
        put_address(w, form, c->count);
        break;
    case CELL_REAL:
        emit_real(w, c->real);
        break;
    case CELL_BOOL:
        emit_text(w, form->truth[c->truth]);
        break;
    case CELL_TEXT:
        if (form->is_json)
            emit_json(w, c->text);
        else
            put_text(&w->buf, c->text, scratch);
        break;
    }
}
