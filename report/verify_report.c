#include "report/verify_report.h"

#include "analysis/figures/no_data.h"
#include "base/format.h"
#include "report/junit.h"
#include "report/write/emit.h"
#include "report/write/json_value.h"
#include "report/write/markdown_table.h"
#include "report/write/markup.h"

static struct view note_of(const struct verify_result *r)
{
    return (struct view){(const char *)r->note.data, r->note.len};
}

/* NULL if there are none; the member is then left out. */
static json_t *make_causes(unsigned causes)
{
    json_t *list = causes ? json_array() : NULL;
    for (unsigned i = 0; list && i < NO_DATA_CAUSES; i++) {
        if (causes & 1u << i && json_array_append_new(list, json_string(no_data_cause(i))) != 0) {
            json_decref(list);
            return NULL;
        }
    }
    return list;
}

static json_t *make_document(const struct verify_result *r)
{
    json_t *checks = json_array();
    for (size_t i = 0; checks && i < r->checks.len; i++) {
        const struct summary_check *c = &r->checks.at[i];
        json_t *v =
            json_pack("{s:s, s:b, s:o, s:o*}", "name", c->name, "holds", c->holds ? 1 : 0, "detail",
                      json_text(view_of(c->detail)), "possible_causes", make_causes(c->causes));
        checks = json_add(checks, v);
    }
    return json_pack("{s:s, s:b, s:o, s:o*}", "schema", "tidemark.verify/1", "holds",
                     r->holds ? 1 : 0, "checks", checks, "note",
                     r->note.len ? json_text(note_of(r)) : NULL);
}

static void put_note(struct buf *b, const char *before, const struct verify_result *r,
                     void (*put)(struct buf *out, struct view text))
{
    if (r->note.len == 0)
        return;
    buf_puts(b, before);
    put(b, note_of(r));
    buf_puts(b, "\n");
}

static void put_lines(struct buf *b, const struct verify_result *r)
{
    for (size_t i = 0; i < r->checks.len; i++) {
        const struct summary_check *c = &r->checks.at[i];
        buf_printf(b, "%s %s: ", c->holds ? "ok" : "FAILED", c->name);
        format_terminal(b, view_of(c->detail));
        buf_puts(b, "\n");
    }
    put_note(b, "note: ", r, format_terminal);
}

static void put_markdown(struct buf *b, const struct verify_result *r)
{
    buf_printf(b, MARKUP_MARKER "### Memory data: %s\n\n",
               r->holds ? "all checks hold" : "a check does not hold");
    for (size_t i = 0; i < r->checks.len; i++) {
        const struct summary_check *c = &r->checks.at[i];
        buf_printf(b, "- %s %s: ", markdown_sign(c), c->name);
        markup_code(b, view_of(c->detail));
        buf_puts(b, "\n");
    }
    put_note(b, "- note: ", r, markup_code);
}

int verify_write(const struct verify_result *r, enum verify_format format, FILE *out, struct err *e)
{
    struct buf b = {0};
    bool ok = true;
    if (format == VERIFY_JSON) {
        ok = json_put(&b, make_document(r), JSON_INDENT(1));
        buf_puts(&b, "\n");
    } else if (format == VERIFY_JUNIT) {
        junit_write(&b, "tidemark verify", r->checks.at, r->checks.len, false);
    } else if (format == VERIFY_MARKDOWN) {
        put_markdown(&b, r);
    } else {
        put_lines(&b, r);
    }
    return emit_all(&b, ok, out, "the checks", e);
}
