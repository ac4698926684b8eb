#include "report/html/html_json.h"

#include <inttypes.h>
#include <string.h>

#include "analysis/html/html_data.h"
#include "analysis/html/html_pack.h"
#include "analysis/names/function_name.h"
#include "base/format.h"
#include "report/html/html_template.h"

/* Whether the three bytes at `p` are U+2028 or U+2029, which end a line in JavaScript. */
static bool is_separator(const uint8_t *p, size_t left)
{
    return left >= 3 && p[0] == 0xe2 && p[1] == 0x80 && (p[2] == 0xa8 || p[2] == 0xa9);
}

/* Escapes well-formed text as a JSON string that is safe within an HTML element. */
static void escape(struct buf *out, const uint8_t *p, size_t n)
{
    buf_u8(out, '"');
    for (size_t i = 0; i < n; i++) {
        if (is_separator(p + i, n - i)) {
            buf_puts(out, p[i + 2] == 0xa8 ? "\\u2028" : "\\u2029");
            i += 2;
        } else if (p[i] < 0x20 || p[i] == 0x7f || p[i] == '<' || p[i] == '>' || p[i] == '&') {
            buf_printf(out, "\\u%04x", p[i]);
        } else {
            if (p[i] == '"' || p[i] == '\\')
                buf_u8(out, '\\');
            buf_u8(out, p[i]);
        }
    }
    buf_u8(out, '"');
}

void html_put_text(struct html_json *p, struct buf *out, struct view text)
{
    size_t n = text.len;
    if (n > PAGE_STRING_MAX) {
        n = PAGE_STRING_MAX;
        while (n && ((uint8_t)text.p[n] & 0xc0) == 0x80)
            n--;
    }
    buf_clear(&p->scratch);
    format_terminal(&p->scratch, (struct view){text.p, n});
    if (n < text.len)
        buf_printf(&p->scratch, "… (%zu bytes more)", text.len - n);
    escape(out, p->scratch.data, p->scratch.len);
    out->failed |= p->scratch.failed;
}

void html_put_member(struct html_json *p, const char *name, struct view text)
{
    buf_printf(&p->out, "\"%s\":", name);
    html_put_text(p, &p->out, text);
    buf_puts(&p->out, ",");
}

/* Closes a list whose items each end with a comma. */
void html_end_list(struct buf *out, const char *end)
{
    if (out->len && out->data[out->len - 1] == ',')
        out->len--;
    buf_puts(out, end);
}

/* Writes the lines of a text as a list. */
void html_put_lines(struct html_json *p, const char *name, struct view text)
{
    buf_printf(&p->out, "\"%s\":[", name);
    while (text.len) {
        const char *end = memchr(text.p, '\n', text.len);
        size_t n = end ? (size_t)(end - text.p) : text.len;
        if (n) {
            html_put_text(p, &p->out, (struct view){text.p, n});
            buf_puts(&p->out, ",");
        }
        text.p += n + (end != NULL);
        text.len -= n + (end != NULL);
    }
    html_end_list(&p->out, "],");
}

/* The number of a text in the page's list; 0 is the empty text. */
uint32_t html_string_number(struct html_json *p, struct view text)
{
    bool fresh;
    if (text.len == 0)
        return 0;
    /*
     * Names at the same address but of different length (one without its offset) are different
     * texts.
     */
    uint64_t key = (uint64_t)(uintptr_t)text.p ^ map_hash(text.len);
    uint64_t *number = map_add(&p->string_numbers, key, &fresh);
    if (!number) {
        p->out.failed = true;
        return 0;
    }
    if (fresh) {
        *number = ++p->string_count;
        buf_puts(&p->strings, ",");
        html_put_text(p, &p->strings, text);
    }
    return (uint32_t)*number;
}

/* The name for people, if it is another one. */
static void put_short_name(struct html_json *p, uint32_t number, struct view function)
{
    buf_clear(&p->scratch);
    function_name_short(&p->scratch, function);
    struct view name = buf_view(&p->scratch);
    if (view_equal(name, function))
        return;
    struct buf raw = p->scratch;
    p->scratch = (struct buf){0};
    buf_printf(&p->shorts, "%s\"%u\":", p->shorts.len ? "," : "", number);
    html_put_text(p, &p->shorts, name);
    buf_end(&raw, &p->shorts.failed);
}

/* [function, file, line, image, address, inline]; texts are numbers. */
void html_put_frame(struct html_json *p, const struct frame_view *f)
{
    uint32_t count = p->string_count, function = html_string_number(p, f->function);
    if (p->string_count != count)
        put_short_name(p, function, f->function);
    uint32_t file = html_string_number(p, f->file);
    uint32_t image = html_string_number(p, f->image);
    buf_printf(&p->out, "[%u,%u,%u,%u,\"%" PRIx64 "\",%d],", function, file, f->line, image,
               f->function.len ? 0 : f->address, f->is_inline);
}

int html_put_tables(struct html_json *p, const char *schema, struct err *e)
{
    buf_puts(&p->out, "\"strings\":[\"\"");
    buf_put(&p->out, p->strings.data, p->strings.len);
    buf_puts(&p->out, "],\"shortNames\":{");
    buf_put(&p->out, p->shorts.data, p->shorts.len);
    buf_puts(&p->out, "}}");
    struct buf raw = p->out;
    p->out = (struct buf){.failed = p->strings.failed || p->shorts.failed};
    buf_printf(&p->out, "{\"schema\":\"%s\",\"tables\":\"", schema);
    int status = pack_text(&raw, &p->out, e);
    buf_puts(&p->out, "\",");
    buf_release(&raw);
    return status;
}

int html_json_write(const struct html_json *p, FILE *out, size_t *written, struct err *e)
{
    const struct page_template *t = &page_template;
    *written = t->head_len + p->out.len + t->tail_len;
    if (fwrite(t->head, 1, t->head_len, out) != t->head_len ||
        fwrite(p->out.data, 1, p->out.len, out) != p->out.len ||
        fwrite(t->tail, 1, t->tail_len, out) != t->tail_len || fflush(out) != 0)
        return err_errno(e, ERR_OUTPUT, "cannot write the report");
    return 0;
}

void html_json_release(struct html_json *p)
{
    buf_release(&p->out);
    buf_release(&p->strings);
    buf_release(&p->shorts);
    buf_release(&p->scratch);
    map_release(&p->string_numbers);
}
