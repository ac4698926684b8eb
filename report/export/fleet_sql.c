#include "report/export/fleet_sql.h"

#include <string.h>

#include "report/export/tsv.h"

static const char *const types[] = {
    [CELL_INTEGER] = "Int64", [CELL_COUNT] = "UInt64", [CELL_ADDRESS] = "UInt64",
    [CELL_REAL] = "Float64",  [CELL_BOOL] = "UInt8",   [CELL_TEXT] = "String",
};

bool fleet_sql_is_name(const char *text)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789";
    return *text && (*text < '0' || *text > '9') && strspn(text, letters) == strlen(text);
}

void fleet_sql_definition(struct buf *out, const char *database, unsigned table)
{
    const struct table *t = fleet_table(table);
    buf_printf(out, "CREATE TABLE IF NOT EXISTS %s.%s\n(\n    day Date", database, t->name);
    for (unsigned i = 0; i < t->width; i++) {
        const struct table_column *c = &t->columns[i];
        buf_printf(out, c->nullable ? ",\n    %s Nullable(%s)" : ",\n    %s %s", c->name,
                   types[c->type]);
    }
    buf_puts(out, "\n)\nENGINE = ReplacingMergeTree()\nPARTITION BY toYYYYMM(day)\n"
                  "ORDER BY (trace, row)");
}

void fleet_sql_insert(struct buf *out, const char *database, unsigned table)
{
    const struct table *t = fleet_table(table);
    buf_printf(out, "INSERT INTO %s.%s (day", database, t->name);
    for (unsigned i = 0; i < t->width; i++)
        buf_printf(out, ", %s", t->columns[i].name);
    buf_puts(out, ") FORMAT TabSeparated");
}

void fleet_sql_row(struct buf *out, const char *day, unsigned table, const struct cell *cells,
                   struct buf *scratch)
{
    const struct table *t = fleet_table(table);
    struct emit w = {.buf = *out};
    emit_text(&w, day);
    for (unsigned i = 0; i < t->width; i++) {
        emit_text(&w, "\t");
        cell_put(&w, &cell_form_copy, t->columns[i].type, &cells[i], scratch);
    }
    emit_text(&w, "\n");
    *out = w.buf;
}
